//! What becomes of two values of each unit that are merged deeply, by the samples that each unit has.

use super::*;

/// What a policy says that has this value in a field.
fn spec_of(field: &str, json: &str) -> Value {
    let value: Value = serde_json::from_str(json).unwrap_or_else(|error| panic!("{field}: {json}: {error}"));
    field.rsplit('.').fold(value, |value, part| json!({part: value}))
}

fn sample(field: &str, json: &str) -> AnyUnit {
    let units = units(spec_of(field, json));
    let [unit] = &units[..] else { panic!("{field}: {units:?}") };
    unit.clone()
}

#[test]
fn each_unit_is_merged_as_its_rule_says_and_the_preferred_one_wins() {
    for ((field, deep), samples) in AnyUnit::FIELDS.iter().zip(AnyUnit::DEEP).zip(AnyUnit::SAMPLES) {
        let (one, other) = (sample(field, samples.one), sample(field, samples.other));
        assert_ne!(one, other, "{field}");
        assert_eq!(samples.merged.is_some(), *deep != Deep::Whole, "{field}");
        let merged = |of: fn((&'static str, &'static str)) -> &'static str| {
            samples.merged.map(|merged| sample(field, of(merged)))
        };
        assert_eq!(one.over(&other), merged(|merged| merged.0), "{field}");
        assert_eq!(other.over(&one), merged(|merged| merged.1), "{field}");
        assert!(one.over(&one).is_none_or(|same| *deep == Deep::Operations || same == one), "{field}");
    }
}

#[test]
fn each_slot_tells_how_many_parts_it_has() {
    for (field, samples) in AnyUnit::FIELDS.iter().zip(AnyUnit::SAMPLES) {
        for json in [Some(samples.one), Some(samples.other), samples.off].into_iter().flatten() {
            let unit = sample(field, json);
            for slot in unit.slots().into_iter().chain(unit.wide_slots("n/p")) {
                assert_eq!(slot.parts, envoy::bytes::readable::parts(&slot.config), "{field}: {}", slot.name);
            }
        }
    }
}

#[test]
fn what_switches_off_is_never_merged() {
    for (field, samples) in AnyUnit::FIELDS.iter().zip(AnyUnit::SAMPLES) {
        let (one, other) = (sample(field, samples.one), sample(field, samples.other));
        assert!(!one.disables() && !other.disables(), "{field}");
        let Some(off) = samples.off else { continue };
        let off = sample(field, off);
        assert!(off.disables(), "{field}");
        assert_eq!((off.over(&one), one.over(&off), off.over(&off)), (None, None, None), "{field}");
    }
}

#[test]
fn the_refused_sample_of_each_unit_is_refused_in_its_field() {
    for (field, samples) in AnyUnit::FIELDS.iter().zip(AnyUnit::SAMPLES) {
        let Some(sample) = samples.refused else { continue };
        let (at, _) = refused(spec_of(field, sample));
        assert!(at.starts_with(&format!("spec.{field}")), "{field}: {at}");
    }
}

#[test]
fn units_of_two_kinds_are_never_merged() {
    let of = |index: usize| sample(AnyUnit::FIELDS[index], AnyUnit::SAMPLES[index].one);
    for index in 1..AnyUnit::FIELDS.len() {
        assert_eq!(of(index - 1).over(&of(index)), None);
    }
}

#[test]
fn the_preferred_ones_changes_of_headers_come_last() {
    let changes = |request: Value| json!({"headerModifiers": {"request": request}});
    let set = changes(json!({"set": [{"name": "a", "value": "set"}], "add": [{"name": "b", "value": "1"}]}));
    let remove = changes(json!({"remove": ["a"], "add": [{"name": "b", "value": "2"}]}));
    let words = |preferred: &Value, other: &Value| {
        let merged = units(preferred.clone())[0].over(&units(other.clone())[0]).expect("merged");
        let mut rule = Handling::default();
        SharedUnit::from(merged).apply(&mut rule);
        let slots = rule.slots.iter().map(|Slot { name, config, .. }| {
            ((*name).to_owned(), envoy_types::pb::google::protobuf::Any::decode(&**config).expect("a message"))
        });
        explain(&Route { typed_per_filter_config: slots.collect(), ..Route::default() })[0].1.clone()
    };
    assert_eq!(words(&set, &remove), "request: add b: 2, remove a, add b: 1, set a: set");
    assert_eq!(words(&remove, &set), "request: add b: 1, set a: set, add b: 2, remove a");
}

#[test]
fn what_a_crd_completes_counts_as_said_in_files_too() {
    for (field, written, other, merged) in [
        (
            "retry",
            r#"{"retryOn": ["5xx"]}"#,
            r#"{"statusCodes": [503], "attempts": 3, "backoffBaseInterval": "1s"}"#,
            r#"{"retryOn": ["5xx"], "statusCodes": [503], "attempts": 1, "backoffBaseInterval": "25ms"}"#,
        ),
        (
            "cors",
            r#"{"allowOrigins": ["https://a.example"]}"#,
            r#"{"allowMethods": ["PUT"], "maxAge": 7}"#,
            r#"{"allowOrigins": ["https://a.example"], "allowMethods": ["PUT"], "maxAge": 5}"#,
        ),
    ] {
        assert_eq!(sample(field, written).over(&sample(field, other)), Some(sample(field, merged)), "{field}");
    }
}

#[test]
fn origins_alone_are_checked_by_the_share_of_another_level() {
    let [origins, share] = [json!({"additionalOrigins": [{"exact": "a"}]}), json!({"percentageEnabled": 5})]
        .map(|csrf| json!({"csrf": csrf}));
    let (origins, share) = (units(origins)[0].clone(), units(share)[0].clone());
    assert!(origins.disables(), "by itself it checks nothing");
    for merged in [origins.over(&share), share.over(&origins)] {
        assert!(!merged.expect("merged").disables());
    }
}

#[test]
fn ranges_are_merged_unless_what_there_is_but_once_contradicts() {
    let acl = |spec: Value| units(json!({"acl": spec}))[0].clone();
    let deny = |more: Value| {
        let mut spec = json!({"defaultAction": "deny", "rules": [{"cidrs": ["10.0.0.0/8"], "action": "allow"}]});
        spec["denyResponse"] = more;
        acl(spec)
    };
    let allow = acl(json!({"defaultAction": "allow", "rules": [{"cidrs": ["10.0.0.0/8"], "action": "deny"}]}));
    let plain = deny(Value::Null);
    assert_eq!((plain.over(&allow), allow.over(&plain)), (None, None));
    let (missing, gone) = (deny(json!({"statusCode": 404})), deny(json!({"statusCode": 410})));
    assert_eq!((missing.over(&gone), plain.over(&gone)), (None, Some(gone)));
    let (a, b) = (deny(json!({"blockedByHeaderName": "a"})), deny(json!({"blockedByHeaderName": "b"})));
    assert_eq!((a.over(&b), a.over(&missing).is_some()), (None, true));
    let header = |value: &str| deny(json!({"headers": [{"name": "x", "value": value}]}));
    assert_eq!(header("a").over(&header("b")), Some(header("a")));
}

/// An `acl` that takes what it does not name.
fn acl(action: &str, ranges: impl IntoIterator<Item = String>) -> AnyUnit {
    let cidrs: Vec<_> = ranges.into_iter().collect();
    units(json!({"acl": {"defaultAction": "allow", "rules": [{"cidrs": cidrs, "action": action}]}})).remove(0)
}

#[test]
fn of_what_the_preferred_acl_denies_the_other_lets_no_part_through() {
    let denied = acl("deny", ["1.2.3.0/24".to_owned()]);
    let holes = acl("allow", ["1.2.3.0/25".to_owned(), "1.2.3.128/25".to_owned()]);
    assert_eq!(denied.over(&holes).expect("merged").slots(), denied.slots());
    assert_ne!(holes.over(&denied).expect("merged").slots(), denied.slots());
}

#[test]
fn acls_that_have_too_many_ranges_together_cannot_be_served() {
    let ranges = |from: u32, count: u32| (from..from + count).map(|n| format!("10.{}.{}.0/24", n / 256, n % 256));
    let both =
        |count: u32| acl("deny", ranges(0, 600)).over(&acl("deny", ranges(600, count))).expect("merged").excess();
    assert_eq!(both(424), None);
    let problem = both(425).expect("too many").to_string();
    assert!(problem.contains("1025 ranges come together here, and 1024 are the most"), "{problem}");
}

#[test]
fn attributes_that_come_together_are_bounded_as_those_of_one_policy_are() {
    let many = |letter: char, count: usize, bytes: usize| {
        let attribute = |index| json!({"name": format!("{letter}{index}"), "literal": {"value": "v".repeat(bytes)}});
        let attributes: Vec<_> = (0..count).map(attribute).collect();
        units(json!({"tracing": {"attributes": attributes}})).remove(0)
    };
    let both = |one: AnyUnit, other: &AnyUnit| one.over(other).expect("they are merged").excess();
    assert_eq!(both(many('a', 8, 100), &many('b', 8, 100)), None);
    for (problem, words) in [
        (both(many('a', 9, 100), &many('b', 8, 100)), "17 entries, and 16 are the most"),
        (both(many('a', 8, 300), &many('b', 8, 300)), "have 4832 bytes, and 4096 are the most"),
    ] {
        let problem = problem.expect("too much").to_string();
        assert!(problem.contains(words), "{problem}");
    }
}
