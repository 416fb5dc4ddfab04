use envoy_types::pb::{
    envoy::config::{
        cluster::v3::Cluster,
        core::v3::{HeaderValue, HeaderValueOption, TransportSocket, transport_socket::ConfigType},
        route::v3::{
            Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route, route_action::ClusterSpecifier,
            route_match::PathSpecifier,
        },
    },
    google::protobuf::{Any, Duration},
};
use prost::{Message, Name};

use super::violations;

fn broken<M: Message + Name>(message: &M) -> Vec<String> {
    let violations = violations(&M::full_name(), &message.encode_to_vec()).expect("readable");
    violations.into_iter().map(|violation| format!("{}: {}", violation.path, violation.rule)).collect()
}

fn with_route(route: Route) -> RouteConfiguration {
    let host =
        VirtualHost { name: "a".into(), domains: vec!["*".into()], routes: vec![route], ..VirtualHost::default() };
    RouteConfiguration { virtual_hosts: vec![host], ..RouteConfiguration::default() }
}

fn good_route() -> Route {
    let path = Some(PathSpecifier::PathSeparatedPrefix("/a".into()));
    let cluster_specifier = Some(ClusterSpecifier::Cluster("c".into()));
    Route {
        r#match: Some(RouteMatch { path_specifier: path, ..RouteMatch::default() }),
        action: Some(route::Action::Route(RouteAction { cluster_specifier, ..RouteAction::default() })),
        ..Route::default()
    }
}

#[test]
fn a_message_that_keeps_all_rules_has_no_violation() {
    assert_eq!(broken(&with_route(good_route())), Vec::<String>::new());
}

#[test]
fn each_kind_of_rule_is_checked_at_every_depth() {
    let cases: [(Route, &str); 5] = [
        (Route { r#match: None, ..good_route() }, "match: required"),
        (Route { action: None, ..good_route() }, "action: required"),
        (Route { r#match: Some(RouteMatch::default()), ..good_route() }, "match.path_specifier: required"),
        (
            Route {
                r#match: Some(RouteMatch {
                    path_specifier: Some(PathSpecifier::PathSeparatedPrefix("/a/".into())),
                    ..RouteMatch::default()
                }),
                ..good_route()
            },
            "match.path_separated_prefix: pattern",
        ),
        (
            Route {
                request_headers_to_add: vec![HeaderValueOption {
                    header: Some(HeaderValue { key: String::new(), value: "a\nb".into(), ..HeaderValue::default() }),
                    ..HeaderValueOption::default()
                }],
                ..good_route()
            },
            "request_headers_to_add.0.header.key: min_len",
        ),
    ];
    for (route, expected) in cases {
        let broken = broken(&with_route(route));
        let expected = format!("virtual_hosts.0.routes.0.{expected}");
        assert!(broken.iter().any(|violation| violation.starts_with(&expected)), "{expected} in {broken:?}");
    }
}

#[test]
fn counts_durations_and_enums_have_rules() {
    let host = VirtualHost { name: "a".into(), require_tls: 9, ..VirtualHost::default() };
    let routes = RouteConfiguration { virtual_hosts: vec![host], ..RouteConfiguration::default() };
    let found = broken(&routes);
    assert!(found.iter().any(|violation| violation.starts_with("virtual_hosts.0.domains: min_items")), "{found:?}");
    assert!(
        found.iter().any(|violation| violation.starts_with("virtual_hosts.0.require_tls: defined_only")),
        "{found:?}"
    );
    let cluster = Cluster { connect_timeout: Some(Duration::default()), ..Cluster::default() };
    let found = broken(&cluster);
    assert!(found.iter().any(|violation| violation.starts_with("connect_timeout: gt")), "{found:?}");
    assert!(found.iter().any(|violation| violation.starts_with("name: min_len")), "{found:?}");
}

#[test]
fn what_an_any_holds_is_checked_and_must_be_known() {
    let socket = |config: Any| Cluster {
        name: "c".into(),
        transport_socket: Some(TransportSocket {
            name: "tls".into(),
            config_type: Some(ConfigType::TypedConfig(config)),
        }),
        ..Cluster::default()
    };
    let unknown = socket(Any { type_url: "type.googleapis.com/envoy.Unknown".into(), value: vec![] });
    assert_eq!(broken(&unknown), ["transport_socket.typed_config: no descriptor of message envoy.Unknown"]);
    let inner = Cluster::default();
    let nested = socket(Any { type_url: Cluster::type_url(), value: inner.encode_to_vec() });
    assert_eq!(broken(&nested), ["transport_socket.typed_config.[envoy.config.cluster.v3.Cluster].name: min_len 1"]);
}
