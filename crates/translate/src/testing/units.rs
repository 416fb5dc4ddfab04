//! Units of TrafficPolicies of worlds, with values that Envoy takes and now and then one that it does not.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::values;

/// A spec with some of them.
pub(super) fn units() -> BoxedStrategy<Value> {
    let all = [timeouts(), retry(), buffer(), fault_injection(), csrf(), stat_prefix()];
    all.map(|unit| option::weighted(0.3, unit)).to_vec().prop_map(|units| merged(units.into_iter().flatten())).boxed()
}

/// What all of them say. Groups of units are joined.
fn merged(units: impl IntoIterator<Item = Value>) -> Value {
    let mut spec = json!({});
    for (field, value) in units.into_iter().flat_map(|unit| unit.as_object().cloned().into_iter().flatten()) {
        match (spec[&field].as_object_mut(), value) {
            (Some(group), Value::Object(more)) => group.extend(more),
            (_, value) => spec[&field] = value,
        }
    }
    spec
}

/// A value that a unit takes, and now and then one that it does not.
fn mostly(sound: &'static [&'static str], broken: &'static str) -> BoxedStrategy<Value> {
    prop_oneof![16 => select(sound), 1 => Just(broken)].prop_map(|text| json!(text)).boxed()
}

/// The same of numbers.
fn mostly_number(sound: &'static [i64], broken: i64) -> BoxedStrategy<Value> {
    prop_oneof![16 => select(sound), 1 => Just(broken)].prop_map(|number| json!(number)).boxed()
}

fn duration() -> BoxedStrategy<Option<Value>> {
    option::of(mostly(&["0s", "1ms", "250ms", "1h30m", "99999h"], "soon")).boxed()
}

fn percent() -> BoxedStrategy<Option<Value>> {
    option::of(mostly_number(&[0, 1, 50, 100], 101)).boxed()
}

fn disable(field: &'static str) -> BoxedStrategy<Value> {
    Just(json!({field: {"disable": {}}})).boxed()
}

fn timeouts() -> BoxedStrategy<Value> {
    (duration(), duration())
        .prop_map(|(request, idle)| json!({"timeouts": {"request": request, "streamIdle": idle}}))
        .boxed()
}

fn retry() -> BoxedStrategy<Value> {
    let codes = option::of(vec(values::number_of(&[400, 503, 599]), 1..3));
    let on = option::of(vec(mostly(&["5xx", "reset", "unavailable"], "sometimes"), 1..3));
    (on, codes, option::of(0..4_u8), duration(), duration())
        .prop_map(|(on, codes, attempts, each, wait)| {
            json!({"retry": {
                "retryOn": on, "statusCodes": codes, "attempts": attempts, "perTryTimeout": each,
                "backoffBaseInterval": wait,
            }})
        })
        .boxed()
}

fn buffer() -> BoxedStrategy<Value> {
    let size = mostly(&["1", "1.5Ki", "16Mi", "16777216"], "4Gi");
    prop_oneof![3 => size.prop_map(|size| json!({"buffer": {"maxRequestSize": size}})), 1 => disable("buffer")].boxed()
}

fn fault_injection() -> BoxedStrategy<Value> {
    let delay = (mostly(&["1ms", "1h", "250ms"], "0s"), percent())
        .prop_map(|(delay, share)| json!({"fixedDelay": delay, "percentage": share}));
    let status = prop_oneof![
        2 => mostly_number(&[200, 503, 599], 600).prop_map(|status| ("httpStatus", status)),
        1 => mostly_number(&[0, 14, 16], 17).prop_map(|status| ("grpcStatus", status)),
    ];
    let abort = (status, percent()).prop_map(|((kind, status), share)| json!({kind: status, "percentage": share}));
    let rate = (mostly_number(&[1, 1_000, 1 << 31], 0), percent())
        .prop_map(|(rate, share)| json!({"kbitsPerSecond": rate, "percentage": share}));
    let most = option::of(mostly_number(&[0, 1, 4_294_967_295], -1));
    let faults = (option::of(delay), option::of(abort), rate, most).prop_map(|(delay, abort, rate, most)| {
        json!({"faultInjection": {"delay": delay, "abort": abort, "responseRateLimit": rate, "maxActiveFaults": most}})
    });
    prop_oneof![4 => faults, 1 => disable("faultInjection")].boxed()
}

fn csrf() -> BoxedStrategy<Value> {
    let text =
        prop_oneof![3 => select(&["a.example", "*", "a:80"][..]).prop_map(str::to_owned), 1 => values::hostile()];
    let literal = (select(&["exact", "prefix", "suffix", "contains"][..]), text, option::of(proptest::bool::ANY))
        .prop_map(|(kind, text, case)| json!({kind: text, "ignoreCase": case}));
    let expression = values::regex().prop_map(|regex| json!({"safeRegex": regex}));
    let origins = option::of(vec(prop_oneof![4 => literal, 1 => expression], 0..3));
    let share = prop_oneof![
        2 => percent().prop_map(|share| ("percentageEnabled", share)),
        1 => percent().prop_map(|share| ("percentageShadowed", share)),
    ];
    (share, origins)
        .prop_map(|((kind, share), origins)| json!({"csrf": {kind: share, "additionalOrigins": origins}}))
        .boxed()
}

fn stat_prefix() -> BoxedStrategy<Value> {
    let sound = &["a", "a..b", ".", "%-_", "{{rule_name}}", "{{ route_namespace }}.{{route_name}}.{{rule_name}}"];
    mostly(sound, "a b").prop_map(|prefix| json!({"statPrefix": prefix})).boxed()
}
