//! The answer for hostnames of listeners that are not served.

use envoy_types::pb::envoy::config::route::v3::VirtualHost;

use crate::bytes::{Alike, Host};

/// A virtual host without routes, so that Envoy answers 404, for all `domains` of a route configuration that are to go to no broader
/// one, where that says `alike` for its rows. One for each would take as much memory as if it were served.
pub fn virtual_host(domains: Vec<String>, alike: &Alike) -> Host {
    // By its name it is no hostname's own.
    Host::new(&VirtualHost { name: "unserved/*".into(), domains, ..VirtualHost::default() }, alike)
}
