//! The answer to requests that came over the connection of another listener (RFC 9110 section 15.5.20).

use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteMatch, VirtualHost, route::Action, route_match::PathSpecifier,
};

use crate::{
    bytes::{self, Alike, Host},
    resource::Encoded,
};

/// A virtual host that answers 421 for `domains`, so that the client opens a connection of its own for them, in a route
/// configuration that says `alike` for its rows.
pub fn virtual_host(domains: Vec<String>, alike: &Alike) -> Host {
    let route = Route {
        name: NAME.into(),
        r#match: Some(RouteMatch { path_specifier: Some(PathSpecifier::Prefix("/".into())), ..RouteMatch::default() }),
        action: Some(Action::DirectResponse(DirectResponseAction { status: 421, ..DirectResponseAction::default() })),
        ..Route::default()
    };
    let host = VirtualHost { name: NAME.into(), domains, routes: vec![route], ..VirtualHost::default() };
    Host::new(&host, alike)
}

/// A route configuration of this name for connections that are not to be used any more. It answers 421 whatever is asked for.
pub fn route_configuration(name: &str) -> Encoded {
    let host = virtual_host(vec!["*".into()], &Alike::default());
    let all = bytes::route_configuration(name, &[], [bytes::hosts(std::iter::once(&host))], &[*host.hash()]);
    Encoded { ends: true, ..all }
}

/// Of the virtual host and of its route.
const NAME: &str = "misdirected";
