//! What policies say, read and put into rules.

use std::time::Duration;

use ir::{
    route::{Fields, Handling},
    rule,
};
use prost::Message;
use serde_json::{Value, json};

use super::*;

fn policy(spec: Value) -> TrafficPolicySpec {
    serde_json::from_value(spec).expect("a spec")
}

fn units(spec: Value) -> Vec<AnyUnit> {
    read(&policy(spec)).expect("units that are served")
}

/// Where a policy is refused, and why.
fn refused(spec: Value) -> (String, String) {
    let Problem { field, message, .. } = read(&policy(spec)).expect_err("refused");
    (field, message)
}

fn applied(spec: Value, fields: Fields) -> (Handling, Vec<bool>) {
    let mut rule = Handling { fields, ..Handling::default() };
    let holds = units(spec).iter().map(|unit| unit.apply(&mut rule)).collect();
    (rule, holds)
}

#[test]
fn units_come_in_the_order_of_the_list_whatever_the_order_of_the_fields() {
    let spec = json!({
        "urlRewrite": {"pathRegex": {"pattern": "a", "substitution": "b"}},
        "buffer": {"maxRequestSize": "1Ki"},
        "retry": {"retryOn": ["5xx"]},
        "timeouts": {"request": "1s"},
    });
    let fields: Vec<_> = units(spec).iter().map(AnyUnit::field).collect();
    assert_eq!(fields, AnyUnit::FIELDS);
}

#[test]
fn a_field_that_is_not_served_refuses_the_policy_and_names_all_of_them() {
    let (field, message) = refused(json!({"transformation": {}, "acl": {}, "timeouts": {}, "cors": {}}));
    assert_eq!(field, "spec.acl");
    assert!(message.starts_with("field acl is not supported, nor is cors, nor is transformation"), "{message}");
}

#[test]
fn what_is_wrong_is_told_with_its_field() {
    for (spec, field, words) in [
        (json!({"timeouts": {"request": "1 s"}}), "spec.timeouts.request", "500ms"),
        (json!({"timeouts": {"streamIdle": 5}}), "spec.timeouts.streamIdle", "must be a string"),
        (json!({"timeouts": "5s"}), "spec.timeouts", "must be a mapping"),
        (json!({"timeouts": {}}), "spec.timeouts", "set request or streamIdle"),
        (json!({"retry": {"retryOn": ["retriable-status-codes"]}}), "spec.retry", "statusCodes"),
        (json!({"timeouts": {"idle": "5s"}}), "spec.timeouts.idle", "not known"),
        (json!({"retry": {}}), "spec.retry", "retryOn or statusCodes"),
        (json!({"retry": {"retryOn": ["5xx", "sometimes"]}}), "spec.retry.retryOn[1]", "sometimes"),
        (json!({"retry": {"statusCodes": [399]}}), "spec.retry.statusCodes[0]", "399"),
        (json!({"retry": {"retryOn": ["5xx"], "attempts": -1}}), "spec.retry.attempts", "0 or more"),
        (json!({"retry": {"retryOn": ["5xx"], "perTryTimeout": "0s"}}), "spec.retry.perTryTimeout", "zero"),
        (
            json!({"retry": {"retryOn": ["5xx"], "perTryTimeout": "2s"}, "timeouts": {"request": "2s"}}),
            "spec.retry.perTryTimeout",
            "timeouts.request",
        ),
        (json!({"buffer": {}}), "spec.buffer", "either"),
        (json!({"buffer": {"maxRequestSize": 1, "disable": {}}}), "spec.buffer", "either"),
        (json!({"buffer": {"maxRequestSize": 0}}), "spec.buffer.maxRequestSize", "at most 16Mi"),
        (json!({"buffer": {"maxRequestSize": "16.1Mi"}}), "spec.buffer.maxRequestSize", "at most 16Mi"),
        (json!({"buffer": {"maxRequestSize": "big"}}), "spec.buffer.maxRequestSize", "10Mi"),
        (json!({"urlRewrite": {}}), "spec.urlRewrite.pathRegex", "missing"),
        (
            json!({"urlRewrite": {"pathRegex": {"pattern": "(", "substitution": ""}}}),
            "spec.urlRewrite.pathRegex.pattern",
            "(",
        ),
    ] {
        let (at, message) = refused(spec.clone());
        assert_eq!(at, field, "{spec}");
        assert!(message.contains(words), "{spec}: {message}");
    }
}

#[test]
fn a_rules_own_timeouts_win_over_those_that_they_name() {
    let second = Some(Duration::from_secs(1));
    let own = rule::Timeouts { request: second, ..rule::Timeouts::default() };
    let fields = || Fields { timeouts: Some(own), ..Fields::default() };
    let (rule, holds) = applied(json!({"timeouts": {"request": "9s", "streamIdle": "3s"}}), fields());
    let idle = Some(Duration::from_secs(3));
    assert_eq!(rule.fields.timeouts, Some(rule::Timeouts { stream_idle: idle, ..own }));
    assert_eq!(holds, [true]);
    assert_eq!(applied(json!({"timeouts": {"request": "9s"}}), fields()).1, [false]);
}

#[test]
fn a_rules_own_retry_wins_as_a_whole() {
    let spec = json!({"retry": {"retryOn": ["reset", "5xx"], "statusCodes": [503, 502, 503], "perTryTimeout": "1s"}});
    let (rule, holds) = applied(spec.clone(), Fields::default());
    let retry = rule.fields.retry.expect("a retry");
    assert_eq!(retry.conditions.join(","), "5xx,reset,retriable-status-codes");
    assert_eq!((&*retry.codes, retry.attempts), (&[502, 503][..], Some(1)));
    assert_eq!(retry.backoff, Some(Duration::from_millis(25)));
    assert_eq!(rule.fields.timeouts.and_then(|timeouts| timeouts.backend_request), Some(Duration::from_secs(1)));
    assert_eq!(holds, [true]);
    let own = rule::Retry { conditions: Vec::new(), codes: Vec::new(), attempts: None, backoff: None };
    let (rule, holds) = applied(spec, Fields { retry: Some(own.clone()), ..Fields::default() });
    assert_eq!((rule.fields.retry, rule.fields.timeouts), (Some(own), None));
    assert_eq!(holds, [false]);
}

#[test]
fn a_size_is_said_in_its_slot_which_is_switched_off_where_the_unit_is() {
    for (spec, words, disables) in [
        (json!({"buffer": {"maxRequestSize": "10Ki"}}), "requests of at most 10240 bytes, read whole", false),
        (json!({"buffer": {"disable": {}}}), "off", true),
    ] {
        let (rule, holds) = applied(spec.clone(), Fields::default());
        assert_eq!(holds, [true]);
        let unit = &units(spec)[0];
        assert_eq!((unit.slots(), unit.disables()), (rule.slots.clone(), disables));
        assert_eq!(rule.slots.iter().map(|slot| slot.name).collect::<Vec<_>>(), ["buffer"]);
        let slots = rule.slots.iter().map(|Slot { name, config }| {
            ((*name).to_owned(), envoy_types::pb::google::protobuf::Any::decode(&**config).expect("a message"))
        });
        let route = Route { typed_per_filter_config: slots.collect(), ..Route::default() };
        assert_eq!(explain(&route), [("buffer", words.to_owned())]);
    }
}

#[test]
fn a_field_is_refused_at_targets_for_which_its_crd_does_not_allow_it() {
    let rewrite = json!({"urlRewrite": {"pathRegex": {"pattern": "a", "substitution": "b"}}});
    let on = |mut spec: Value, list: &str, kind: &str| {
        let target = json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": "x", "matchLabels": {}});
        spec[list] = json!([target]);
        spec
    };
    for list in ["targetRefs", "targetSelectors"] {
        let (field, message) = refused(on(rewrite.clone(), list, "Gateway"));
        assert_eq!(field, "spec.urlRewrite");
        assert!(
            message.starts_with("it can be set for HTTPRoutes only, and the policy targets a Gateway"),
            "{message}"
        );
        assert_eq!(units(on(rewrite.clone(), list, "HTTPRoute")).len(), 1);
        assert_eq!(units(on(json!({"timeouts": {"request": "1s"}}), list, "Gateway")).len(), 1);
    }
}
