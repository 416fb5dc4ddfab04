use api::Kind;
use proptest::{collection::vec, prelude::*};
use serde_json::json;
use units::{Everybody, Everywhere, Others};

use super::*;

/// What a policy says of some of three fields, each of which may be broken.
fn units(fields: u8, broken: u8) -> Vec<units::ParsedUnit> {
    let said = [
        ("buffer", json!({"maxRequestSize": 1}), json!({})),
        ("csrf", json!({"percentageEnabled": 100}), json!({"percentageEnabled": 101})),
        ("timeouts", json!({"request": "1s"}), json!({"request": "never"})),
    ];
    let set = said.into_iter().zip(0..).filter(|(_, at)| fields >> at & 1 == 1);
    let spec = set.map(|((field, sound, wrong), at)| (field, if broken >> at & 1 == 1 { wrong } else { sound }));
    let spec = spec.map(|(field, value)| (field.to_owned(), value)).collect::<serde_json::Map<_, _>>();
    let spec = serde_json::from_value(spec.into()).expect("a spec");
    let others = Others { secrets: &Everywhere::default(), extensions: &Everybody };
    units::read(&spec, &others).expect("units")
}

/// A level with some of few policies, so that one often stands at several levels.
fn level() -> impl Strategy<Value = Level> {
    vec((0..6_u8, 0..8_u8, 0..8_u8), 0..3).prop_map(|policies| {
        let policies = policies.into_iter().map(|(at, fields, broken)| {
            let kind = if at == 0 { Kind::RewritePolicy } else { Kind::TrafficPolicy };
            (ObjectId::new(kind, "apps", format!("p{at}")), units(fields, broken))
        });
        Level::saying(ObjectId::new(Kind::HttpRoute, "apps", "route"), policies)
    })
}

proptest! {
    #[test]
    fn what_holds_over_plain_levels_is_what_merging_all_of_them_comes_to(own in level(), above in vec(level(), 0..4)) {
        if own.says_each_once() && are_plain(above.iter()) {
            let handed_down: Vec<_> = all_merged((1..).zip(&above)).collect();
            let levels = std::iter::once(&own).chain(&above).enumerate();
            let merged: Vec<_> = merge_each(levels, keys(std::iter::once(&own)).into_iter()).collect();
            prop_assert_eq!(over_all(&own, &handed_down), merged);
        }
    }
}
