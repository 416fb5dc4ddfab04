//! Slim models of core kinds: what translation reads, nothing more.
//!
//! A cluster has many more Services, EndpointSlices and Secrets than Gateways, and their API objects are several times
//! the size of what is read from them. So these types are made while decoding, and they cannot be encoded again.
//!
//! A part that cannot be used (an address that is none, a port out of bounds, a value that is not base64) is left out
//! and noted in `invalid`, so that one bad endpoint does not take its neighbours along.

/// Says what a slim model in a namespace has in common with other objects; `invalid` where a part may be left out.
macro_rules! slim {
    ($model:ident $(, $invalid:ident)?) => {
        impl crate::resource::Resource for $model {
            fn name(&self) -> (Arc<str>, Arc<str>) {
                (Arc::clone(&self.namespace), Arc::clone(&self.name))
            }

            $(fn invalid(&self) -> &[crate::Violation] {
                &self.$invalid
            })?
        }
    };
}

mod config_map;
mod deployment;
mod endpoint_slice;
mod namespace;
mod secret;
mod service;

use std::sync::Arc;

use serde::Deserialize;

pub use config_map::ConfigMap;
pub use deployment::Deployment;
pub use endpoint_slice::{AddressType, Endpoint, EndpointPort, EndpointSlice};
pub use namespace::Namespace;
pub use secret::{Secret, SecretData};
pub use service::{GATEWAY_NAME, Service, ServicePort, ServiceType, TargetPort};

open_enum! {
    /// Transport protocol of a port.
    pub enum Protocol {
        /// TCP.
        Tcp = "TCP",
        /// UDP.
        Udp = "UDP",
        /// SCTP.
        Sctp = "SCTP",
    }
    default Tcp;
}

/// The part of the metadata that every slim model keeps.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Name {
    name: Arc<str>,
    namespace: Arc<str>,
}

/// A port number from a manifest; none, with a violation, if it is out of bounds.
fn port(number: i64, path: impl FnOnce() -> String, invalid: &mut Vec<crate::Violation>) -> Option<u16> {
    let port = u16::try_from(number).ok().filter(|port| *port != 0);
    if port.is_none() {
        invalid.push(crate::Violation::new(path(), number, "must be a port number from 1 to 65535"));
    }
    port
}
