use envoy_types::pb::{
    envoy::config::route::v3::{DirectResponseAction, Route, RouteConfiguration, VirtualHost, route::Action},
    google::protobuf::{Any, Struct},
};
use ir::rule::Slot;
use prost::Message;

use crate::{alike, slots};

use super::{Alike, Encoded, Fields, Hash, Host, Row, any, json_structure, route_configuration, tag, version};

fn rows(count: usize) -> Vec<Row> {
    (0..count)
        .map(|index| {
            let route = Route { name: format!("route {index} {}", "x".repeat(index % 300)), ..Route::default() };
            Row::new(route.encode_to_vec()).expect("readable")
        })
        .collect()
}

/// Routes as they are.
fn routes<'a>(rows: impl Iterator<Item = &'a Row>) -> bytes::Bytes {
    super::routes(rows, &Alike::default())
}

/// A virtual host of one piece.
fn virtual_host<'a>(name: &str, domains: &[String], rows: impl Iterator<Item = &'a Row> + Clone) -> Host {
    let hashes: Vec<Hash> = rows.clone().map(|row| row.hash).collect();
    super::virtual_host(name, domains, &[], &Alike::default(), [(routes(rows), &hashes[..])])
}

fn plain_host(name: &str, domains: &[String], rows: &[Row]) -> VirtualHost {
    VirtualHost {
        name: name.into(),
        domains: domains.to_vec(),
        routes: rows.iter().map(|row| Route::decode(&*row.bytes).expect("a route")).collect(),
        ..VirtualHost::default()
    }
}

#[test]
fn a_composed_virtual_host_equals_the_plain_one() {
    let domains = ["*.example.com".to_owned(), "example.com".to_owned()];
    for count in [0, 1, 2, 1000] {
        let rows = rows(count);
        let composed = virtual_host("host", &domains, rows.iter());
        let plain = plain_host("host", &domains, &rows);
        assert_eq!(VirtualHost::decode(composed.to_bytes()).expect("a virtual host"), plain);
        assert_eq!(composed.to_bytes(), plain.encode_to_vec(), "{count} routes");
    }
}

#[test]
fn a_composed_route_configuration_equals_the_plain_one() {
    let hosts: Vec<_> = (0..50)
        .map(|index| virtual_host(&format!("host {index}"), &[format!("{index}.com")], rows(index).iter()))
        .collect();
    let hashes: Vec<_> = hosts.iter().map(|host| *host.hash()).collect();
    let composed =
        |size| route_configuration("http/80", &[], hosts.chunks(size).map(|some| super::hosts(some.iter())), &hashes);
    let plain = RouteConfiguration {
        name: "http/80".into(),
        virtual_hosts: hosts.iter().map(|host| VirtualHost::decode(host.to_bytes()).expect("a virtual host")).collect(),
        ignore_port_in_host_matching: true,
        ..RouteConfiguration::default()
    };
    for size in [1, 7, 50] {
        let Encoded { body, version, .. } = composed(size);
        assert_eq!(RouteConfiguration::decode(body.to_bytes()).expect("a route configuration"), plain);
        assert_eq!(body.len(), body.to_bytes().len());
        assert_eq!(version, composed(50).version, "how virtual hosts are split changes nothing");
    }
}

#[test]
fn slots_stand_on_virtual_hosts_and_route_configurations_and_turn_their_versions() {
    let slot = slots::off(slots::BUFFER);
    let on = [slot.clone()];
    let config = Any::decode(&*slot.config).expect("a message");
    let host = |slots: &[Slot]| super::virtual_host("host", &["a.com".to_owned()], slots, &Alike::default(), []);
    let plain = VirtualHost::decode(host(&on).to_bytes()).expect("a virtual host");
    assert_eq!(plain.typed_per_filter_config.get(slots::BUFFER), Some(&config));
    assert_ne!(host(&on), host(&[]));
    let whole = |slots: &[Slot]| route_configuration("http/80", slots, [], &[]);
    let plain = RouteConfiguration::decode(whole(&on).body.to_bytes()).expect("a route configuration");
    assert_eq!(plain.typed_per_filter_config.get(slots::BUFFER), Some(&config));
    assert_ne!(whole(&on).version, whole(&[]).version);
}

#[test]
fn a_route_has_as_many_parts_whether_those_of_its_slots_are_known_or_not() {
    let said = Any { type_url: "a type".into(), value: b"\x0a\x03abc".into() };
    let slots = [slots::slot(slots::EXT_AUTH[0], &said), slots::off(slots::BUFFER), slots::on(slots::CSRF)];
    let route = Route { name: "apps/shop/0/0".into(), ..Route::default() };
    let entries = slots.iter().map(|slot| (slot.name, &*slot.config));
    let route = Fields::of(&route).map(tag::ROUTE_TYPED_PER_FILTER_CONFIG, entries).into_bytes();
    for known in 0..=slots.len() {
        assert_eq!(super::readable::parts_of_route(&route, &slots[..known]), super::readable::parts(&route));
    }
}

#[test]
fn what_rows_say_alike_turns_the_version_of_a_virtual_host_though_its_rows_say_the_same() {
    let row = |who: &str| {
        let slot = slots::slot(slots::EXT_AUTH[0], &Any { type_url: who.into(), ..Any::default() });
        let slots = [(slot.name, slot.config)];
        Row::new(Fields::of(&Route::default()).map(tag::ROUTE_TYPED_PER_FILTER_CONFIG, slots).into_bytes())
    };
    let rows = ["ours", "theirs"].map(|who| row(who).expect("readable"));
    let [ours, theirs] = [&rows[0], &rows[1]].map(|row| alike::once(alike::said(row)));
    let hashes = [rows[0].hash, rows[1].hash];
    let host = |alike: &Alike| {
        super::virtual_host(
            "host",
            &["a.com".to_owned()],
            &[],
            alike,
            [(super::routes(rows.iter(), alike), &hashes[..])],
        )
    };
    let plain = VirtualHost::decode(host(&ours).to_bytes()).expect("a virtual host");
    let off = Any::decode(&*slots::off(slots::EXT_AUTH[0]).config).expect("a message");
    assert_eq!(plain.typed_per_filter_config.get(slots::EXT_AUTH[0]), Some(&off));
    assert_ne!(host(&ours), host(&theirs));
    assert_ne!(host(&ours).to_bytes(), host(&theirs).to_bytes());
    assert_ne!(host(&ours), host(&Alike::default()));
}

#[test]
fn large_parts_of_a_route_configuration_are_not_copied() {
    let large = routes(rows(200).iter());
    let domains = ["a.com".to_owned()];
    let host = super::virtual_host("host", &domains, &[], &Alike::default(), [(large.clone(), &[Hash::default()][..])]);
    let body = route_configuration("http/80", &[], [super::hosts(std::iter::once(&host))], &[*host.hash()]).body;
    assert!(body.pieces().iter().any(|piece| piece.as_ptr() == large.as_ptr()));
    assert_eq!(body.pieces().iter().filter(|piece| piece.len() < 4096).count(), 1, "what is small is joined");
}

#[test]
fn how_routes_are_split_into_pieces_changes_nothing() {
    let domains = ["a.com".to_owned()];
    let rows = rows(100);
    let whole = virtual_host("host", &domains, rows.iter());
    for size in [1, 7, 64, 99] {
        let pieces: Vec<_> = rows
            .chunks(size)
            .map(|rows| (routes(rows.iter()), rows.iter().map(|row| row.hash).collect::<Vec<Hash>>()))
            .collect();
        let split = super::virtual_host(
            "host",
            &domains,
            &[],
            &Alike::default(),
            pieces.iter().map(|(piece, hashes)| (piece.clone(), &hashes[..])),
        );
        assert_eq!(split.hash(), whole.hash());
        assert_eq!(split.to_bytes(), whole.to_bytes());
    }
}

#[test]
fn a_version_changes_with_every_part_and_with_nothing_else() {
    let domains = ["a.com".to_owned()];
    let rows = rows(3);
    let first = virtual_host("host", &domains, rows.iter());
    assert_eq!(virtual_host("host", &domains, rows.clone().iter()), first);
    let others = [
        virtual_host("hosts", &domains, rows.iter()),
        virtual_host("host", &["b.com".to_owned()], rows.iter()),
        virtual_host("host", &domains, rows[..2].iter()),
        virtual_host("host", &domains, rows.iter().rev()),
        virtual_host("host", &domains, rows.iter().chain(&rows[..1])),
    ];
    for other in others {
        assert_ne!(other.hash(), first.hash());
    }
}

#[test]
fn a_version_is_the_same_in_every_build() {
    // BLAKE3 of the empty text and of "abc", cut to 128 bits.
    assert_eq!(u128::from_be_bytes(version([])), 0xaf13_49b9_f5f9_a1a6_a040_4dea_36dc_c949);
    assert_eq!(u128::from_be_bytes(version([&b"ab"[..], b"c"])), 0x6437_b3ac_3846_5133_ffb6_3b75_273a_8db5);
}

#[test]
fn maps_are_written_in_the_order_of_their_keys() {
    let keys = ["alpha", "bravo", "charlie", "delta", "echo"];
    let first = Fields::default().map(1, keys.map(|key| (key, key))).into_bytes();
    for rotation in 0..keys.len() {
        let mut keys = keys;
        keys.rotate_left(rotation);
        assert_eq!(Fields::default().map(1, keys.map(|key| (key, key))).into_bytes(), first);
    }
    let positions: Vec<_> = keys.iter().map(|key| position(&first, key.as_bytes())).collect();
    assert!(positions.is_sorted(), "{positions:?}");
}

fn position(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).expect("it is there")
}

#[test]
fn fields_that_are_appended_join_the_ones_that_were_encoded() {
    let head = Route { name: "r".into(), ..Route::default() };
    let config = any(&RouteConfiguration { name: "inner".into(), ..RouteConfiguration::default() });
    let action = DirectResponseAction { status: 404, ..DirectResponseAction::default() };
    let built = Fields::of(&head)
        .message(tag::ROUTE_DIRECT_RESPONSE, &action.encode_to_vec())
        .map(tag::ROUTE_TYPED_PER_FILTER_CONFIG, [("f", config.encode_to_vec()), ("e", Any::default().encode_to_vec())])
        .into_bytes();
    let plain = Route {
        action: Some(Action::DirectResponse(action)),
        typed_per_filter_config: [("f".to_owned(), config), ("e".to_owned(), Any::default())].into(),
        ..head
    };
    assert_eq!(Route::decode(&*built).expect("a route"), plain);
}

#[test]
fn json_is_what_a_plainly_built_struct_is() {
    let json = serde_json::json!({"b": null, "a": [1, true, "x", {"z": 1.5, "y": {}}, []], "c": {"d": "e"}});
    let structure = Struct::decode(&*json_structure(&json)).expect("a struct");
    let text = format!("{:?}", structure.fields["a"]);
    for part in ["NumberValue(1.0)", "BoolValue(true)", "StringValue(\"x\")", "NumberValue(1.5)", "ListValue"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(format!("{:?}", structure.fields["b"]), "Value { kind: Some(NullValue(NullValue)) }");
    assert_eq!(structure.fields.len(), 3);
}
