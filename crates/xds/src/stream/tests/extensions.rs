//! Configurations of extensions: routes refer to entries of them.

use envoy_types::pb::envoy::{
    config::core::v3::TypedExtensionConfig,
    extensions::filters::http::jwt_authn::v3::{JwtAuthentication, JwtProvider},
};
use envoy_types::pb::google::protobuf::Any;
use prost::Name;

use super::*;

/// The configuration `name` with these entries, keys and values.
pub(super) fn encode(name: &str, entries: impl Iterator<Item = (String, String)>) -> Bytes {
    // Each entry by itself: a map has no order.
    let value = entries.flat_map(|(key, issuer)| {
        let providers = [(key, JwtProvider { issuer, ..JwtProvider::default() })].into();
        JwtAuthentication { providers, ..JwtAuthentication::default() }.encode_to_vec()
    });
    let config = TypedExtensionConfig {
        name: name.into(),
        typed_config: Some(Any { type_url: JwtAuthentication::type_url(), value: value.collect() }),
    };
    config.encode_to_vec().into()
}

/// Its name, and the values of its entries, by key.
pub(super) fn decode(body: &[u8]) -> (String, BTreeMap<String, String>) {
    let config = TypedExtensionConfig::decode(body).unwrap();
    let message = JwtAuthentication::decode(&*config.typed_config.unwrap().value).unwrap();
    let values = message.providers.into_iter().map(|(key, provider)| (key, provider.issuer)).collect();
    (config.name, values)
}

/// The configuration `name` with an entry for each letter; a capital letter is another one with the key of the small one.
pub(super) fn resource(name: &str, letters: &str) -> Resource {
    let body = encode(name, letters.chars().map(|letter| (letter.to_ascii_lowercase().into(), letter.into())));
    let mut version = [0; 16];
    version.iter_mut().zip(letters.bytes()).for_each(|(byte, letter)| *byte = letter);
    Resource::new(ResourceType::ExtensionConfig, name, version, body)
}

/// `name@letters`, sorted.
pub(super) fn read(body: &[u8]) -> String {
    let (name, entries) = decode(body);
    format!("{name}@{}", entries.into_values().collect::<String>())
}

/// Both variants, up to date, with a configuration and a route.
fn both_settled(letters: &str) -> [Script; 2] {
    [Protocol::Delta, Protocol::Sotw].map(|protocol| {
        let mut script = Script::new(protocol, &format!("LDS l@1; RDS r@1; ECDS x@{letters}"));
        let plus = if protocol == Protocol::Delta { "+" } else { "" };
        for request in ["CDS", "LDS", &format!("ECDS {plus}x"), &format!("RDS {plus}r")] {
            script.ask(request);
        }
        script.settle();
        script
    })
}

#[test]
fn a_new_client_gets_them_with_its_listeners() {
    for protocol in [Protocol::Delta, Protocol::Sotw] {
        let mut client = Script::new(protocol, "CDS a@1; LDS l@1; RDS r@1; ECDS x@ y@a");
        client.ask("CDS");
        client.accepts("CDS a@1");
        client.ask("LDS");
        client.accepts("LDS l@1");
        client.ask(if protocol == Protocol::Delta { "ECDS +x +y" } else { "ECDS x y" });
        client.ask(if protocol == Protocol::Delta { "RDS +r" } else { "RDS r" });
        client.is_sent(&["ECDS x@ y@a", "RDS r@1"]);
        assert_eq!(client.learned(), []);
    }
}

#[test]
fn a_route_moves_after_what_it_refers_to_was_acknowledged_and_the_old_entry_goes_last() {
    for mut client in both_settled("ab") {
        client.shall_have("LDS l@1; RDS r@2; ECDS x@bc");
        client.accepts("ECDS x@abc");
        client.accepts("RDS r@2");
        client.accepts("ECDS x@bc");
        client.is_sent(&[]);
        assert_eq!(client.learned(), []);
    }
}

#[test]
fn clusters_that_they_name_come_before_them() {
    for mut client in both_settled("a") {
        client.shall_have("CDS c@1; LDS l@1; RDS r@2; ECDS x@ab");
        client.is_sent(&["CDS c@1"]);
        client.ack("CDS");
        client.accepts("ECDS x@ab");
        client.accepts("RDS r@2");
        client.is_sent(&[]);
    }
}

#[test]
fn an_entry_that_goes_costs_one_update_behind_the_routes() {
    for mut client in both_settled("ab") {
        client.shall_have("LDS l@1; RDS r@2; ECDS x@a");
        client.accepts("RDS r@2");
        client.accepts("ECDS x@a");
        client.is_sent(&[]);
    }
}

/// The configuration `name` where nothing refers to it: of another type.
fn nothing(name: &str) -> Resource {
    let typed_config = Some(Any { type_url: "type.googleapis.com/nothing".into(), value: Vec::new() });
    let config = TypedExtensionConfig { name: name.into(), typed_config };
    Resource::new(ResourceType::ExtensionConfig, name, [0; 16], config.encode_to_vec().into())
}

#[test]
fn what_refuses_everything_comes_behind_the_routes_of_before_and_goes_before_those_to_come() {
    for mut client in both_settled("ab") {
        client.stream.on_snapshot(snapshot("LDS l@1; RDS r@2").with(nothing("x")));
        client.accepts("RDS r@2");
        client.accepts("ECDS x@");
        client.shall_have("LDS l@1; RDS r@3; ECDS x@c");
        client.accepts("ECDS x@c");
        client.accepts("RDS r@3");
        client.is_sent(&[]);
    }
}

#[test]
fn an_entry_that_changes_is_the_new_one_at_once() {
    for mut client in both_settled("ab") {
        client.shall_have("LDS l@1; RDS r@1; ECDS x@Ab");
        client.accepts("ECDS x@Ab");
        client.is_sent(&[]);
    }
}

#[test]
fn routes_do_not_wait_for_one_that_was_rejected_and_wait_no_longer_than_the_bound() {
    for mut client in both_settled("a") {
        client.shall_have("LDS l@1; RDS r@2; ECDS x@b");
        client.is_sent(&["ECDS x@ab"]);
        client.nack("ECDS");
        client.accepts("RDS r@2");
        let nacked = client.learned();
        assert!(matches!(&nacked[..], [Observation::Nacked(ResourceType::ExtensionConfig, ..)]), "{nacked:?}");
        // Without what the new routes do not need it may be accepted.
        client.accepts("ECDS x@b");
        assert_eq!(client.learned(), [Observation::Recovered(ResourceType::ExtensionConfig, vec!["x".into()])]);
        client.shall_have("LDS l@1; RDS r@3; ECDS x@bc");
        client.is_sent(&["ECDS x@bc"]);
        assert_eq!(client.stream.deadline(), Some(client.now + GATE));
        client.wait(GATE);
        client.is_sent(&["RDS r@3"]);
        assert_eq!(client.learned(), [Observation::GateExpired(Gate::Extend)]);
    }
}

#[test]
fn a_route_configuration_that_drains_keeps_its_entries_until_nobody_subscribes_to_it() {
    for mut client in both_settled("ab") {
        let is_delta = client.protocol == Protocol::Delta;
        client.shall_have("LDS l@2; RDS q@1; ECDS x@b");
        client.accepts("LDS l@2");
        // Its listener drains.
        client.ask(if is_delta { "RDS +q" } else { "RDS r q" });
        client.accepts("RDS q@1");
        client.is_sent(&[]);
        // Nor does it lose them to the next changes.
        client.shall_have("LDS l@2; RDS q@2; ECDS x@bc");
        client.accepts("ECDS x@abc");
        client.accepts("RDS q@2");
        client.shall_have("LDS l@2; RDS q@3; ECDS x@b");
        client.accepts("RDS q@3");
        client.accepts("ECDS x@ab");
        client.ask(if is_delta { "RDS -r" } else { "RDS q" });
        client.accepts("ECDS x@b");
        client.is_sent(&[]);
        assert_eq!(client.learned(), []);
    }
}

#[test]
fn the_last_listener_drains_with_its_entries() {
    for mut client in both_settled("a") {
        let is_delta = client.protocol == Protocol::Delta;
        client.shall_have("");
        client.accepts(if is_delta { "LDS -l" } else { "LDS" });
        client.is_sent(&[]);
        client.ask(if is_delta { "RDS -r" } else { "RDS" });
        client.is_sent(if is_delta { &["ECDS -x"] } else { &[] });
    }
}

#[test]
fn routes_that_were_rejected_leave_those_of_before_their_entries() {
    for mut client in both_settled("a") {
        client.shall_have("LDS l@1; RDS r@2; ECDS x@b");
        client.accepts("ECDS x@ab");
        client.is_sent(&["RDS r@2"]);
        client.nack("RDS");
        client.is_sent(&[]);
        client.shall_have("LDS l@1; RDS r@3; ECDS x@b");
        client.accepts("RDS r@3");
        client.accepts("ECDS x@b");
        client.is_sent(&[]);
    }
}

#[test]
fn a_client_that_asks_for_none_waits_for_none() {
    let mut client = settled(Protocol::Delta, "CDS a@1; EDS a@1; LDS l@1; RDS r@1; ECDS x@a", "+a", "+r");
    client.shall_have("CDS a@1; EDS a@1; LDS l@1; RDS r@2; ECDS x@b");
    client.accepts("RDS r@2");
    client.is_sent(&[]);
}

#[test]
fn a_client_that_returns_is_sent_what_it_lacks_alone() {
    let mut client = Script::new(Protocol::Delta, "LDS l@1; RDS r@1; ECDS x@a y@b");
    client.ask("CDS");
    client.is_sent(&["CDS"]);
    client.ack("CDS");
    client.ask("LDS l=1");
    let has = crate::resource::Version::from([b'a', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).to_string();
    let request = DeltaRequest {
        type_url: ResourceType::ExtensionConfig.type_url().into(),
        subscribe: vec!["x".into(), "y".into()],
        initial_versions: vec![("x".into(), has)],
        ..DeltaRequest::default()
    };
    client.stream.on_delta(request).unwrap();
    client.is_sent(&["ECDS y@b"]);
}

#[test]
fn what_cannot_be_read_is_replaced_as_it_is() {
    let broken =
        |version| Resource::new(ResourceType::ExtensionConfig, "x", [version; 16], Bytes::from_static(b"\xff\xff\xff"));
    let snapshot = |version| Snapshot::new().with(broken(version));
    let of = |version| snapshot(version).of(ResourceType::ExtensionConfig).clone();
    assert_eq!(union::of_all(&of(1), of(2)), of(2));
    let whole = Snapshot::new().with(resource("x", "ab")).of(ResourceType::ExtensionConfig).clone();
    assert_eq!(union::of_all(&of(1), whole.clone()), whole);
    assert_eq!(union::of_all(&whole, of(2)), of(2));
}
