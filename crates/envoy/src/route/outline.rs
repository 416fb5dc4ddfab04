//! What of an encoded route tells whether another one may stand for it meanwhile.

use envoy_types::pb::envoy::config::route::v3::Route;
use prost::Message;

use crate::bytes::{Hash, Row, version};

/// What of an encoded route another one is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// What it matches, which tells which route of a rule it is: places in lists move.
    pub matching: Hash,
    /// What it says in slots that keep requests out ([`crate::slots::is_guard`]).
    pub guards: Hash,
}

/// The outline of a route; none for what is no route.
pub fn outline(row: &Row) -> Option<Outline> {
    let Route { r#match, typed_per_filter_config, .. } = Route::decode(&*row.bytes).ok()?;
    let mut guards: Vec<_> = typed_per_filter_config.iter().filter(|(name, _)| crate::slots::is_guard(name)).collect();
    guards.sort_unstable_by_key(|(name, _)| *name);
    let guards: Vec<_> = guards
        .into_iter()
        .flat_map(|(name, said)| [version([name.as_bytes()]), version([&*said.encode_to_vec()])])
        .collect();
    Some(Outline {
        matching: version([&*r#match?.encode_to_vec()]),
        guards: version(guards.iter().map(|hash| &hash[..])),
    })
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::{
        envoy::config::route::v3::{RouteMatch, route_match::PathSpecifier},
        google::protobuf::Any,
    };

    use super::*;

    fn row(name: &str, path: &str, slots: &[(&str, u8)]) -> Row {
        let any = |said: u8| Any { type_url: "type.googleapis.com/t".into(), value: vec![said] };
        let path_specifier = Some(PathSpecifier::Prefix(path.into()));
        let route = Route {
            name: name.into(),
            r#match: Some(RouteMatch { path_specifier, ..RouteMatch::default() }),
            action: Some(super::super::direct_response(200, "")),
            typed_per_filter_config: slots.iter().map(|(name, said)| ((*name).to_owned(), any(*said))).collect(),
            ..Route::default()
        };
        Row::new(route.encode_to_vec()).expect("a row")
    }

    #[test]
    fn an_outline_is_of_the_match_and_of_what_keeps_requests_out_alone() {
        let of = |name, path, slots| outline(&row(name, path, slots)).expect("a route");
        let first = of("apps/r/0/0", "/a", &[("jwtAuth", 1), ("extAuth.0", 2), ("headerModifiers", 3)]);
        assert_eq!(of("apps/r/1/0", "/a", &[("extAuth.0", 2), ("jwtAuth", 1), ("buffer", 9)]), first);
        assert_ne!(of("apps/r/0/0", "/b", &[]).matching, first.matching);
        for slots in [&[("jwtAuth", 1)][..], &[("jwtAuth", 2), ("extAuth.0", 2)], &[("jwtAuth", 1), ("extAuth.1", 2)]] {
            let other = of("apps/r/0/0", "/a", slots);
            assert!(other.matching == first.matching && other.guards != first.guards, "{slots:?}");
        }
    }
}
