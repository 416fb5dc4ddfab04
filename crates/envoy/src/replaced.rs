//! The answer to everything where more than a route is broken (EP-11937).

use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteMatch, VirtualHost, route::Action, route_match::PathSpecifier,
};

use crate::bytes::{Alike, Host};

/// A virtual host that answers 500 to all that is asked of `domain`, whose name it has, in a route configuration that says
/// `alike` for its rows.
pub fn virtual_host(domain: &str, alike: &Alike) -> Host {
    let route = Route {
        name: "replaced".into(),
        r#match: Some(RouteMatch { path_specifier: Some(PathSpecifier::Prefix("/".into())), ..RouteMatch::default() }),
        action: Some(Action::DirectResponse(DirectResponseAction { status: 500, ..DirectResponseAction::default() })),
        ..Route::default()
    };
    let host = VirtualHost {
        name: domain.into(),
        domains: vec![domain.into()],
        routes: vec![route],
        ..VirtualHost::default()
    };
    Host::new(&host, alike)
}
