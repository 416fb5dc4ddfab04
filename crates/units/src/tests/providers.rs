//! What units make of providers.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use envoy_types::pb::envoy::extensions::filters::http::filter_chain::v3::FilterChainConfigPerRoute;
use serde_json::{Value, json};

use super::*;

/// The slots of a unit that are on, each with the name of the filter in it.
fn places(unit: &AnyUnit) -> Vec<(&'static str, String)> {
    let wrapped = unit.slots().into_iter().filter_map(|slot| {
        let chain = spec::decoded::<FilterChainConfigPerRoute>(&slot)?.filter_chain?;
        Some((slot.name, chain.filters.first()?.name.clone()))
    });
    wrapped.collect()
}

fn one(spec: Value) -> AnyUnit {
    units(spec).remove(0)
}

fn judged_by(name: &str) -> AnyUnit {
    one(json!({"extAuth": {"extensionRef": {"name": name}}}))
}

#[test]
fn judges_of_two_levels_stand_in_the_order_of_their_names() {
    let both = judged_by("judge2").over(&judged_by("judge")).expect("both judge");
    let places = places(&both);
    assert_eq!(places, [("extAuth.0", "extAuth.0.ask".to_owned()), ("extAuth.1", "extAuth.1.ask".to_owned())]);
    assert!(both.authenticates() && both.excess().is_none());
}

#[test]
fn more_judges_than_there_are_places_are_no_unit() {
    let names = ["judge", "judge2", "judge3", "judge4"];
    let four = names.into_iter().map(judged_by).reduce(|all, one| all.over(&one).expect("all judge")).expect("four");
    assert!(four.excess().is_none());
    let five = four.over(&judged_by("judge5")).expect("all judge");
    let problem = five.excess().expect("too many");
    assert_eq!(
        (&*problem.field, &*problem.message),
        ("spec.extAuth", "5 providers come together here, and 4 are the most; leave some out",)
    );
}

#[test]
fn what_a_judge_is_told_of_a_route_stands_under_the_name_of_the_filter_in_its_wrapper() {
    let unit = one(json!({"extAuth": {"extensionRef": {"name": "judge"}, "contextExtensions": {"a": "1", "b": "2"}}}));
    let told = |slots: Vec<Slot>| slots.iter().map(|slot| slot.name).collect::<Vec<_>>();
    assert!(told(unit.slots()).contains(&"extAuth.0.ask"));
    let wide = told(unit.wide_slots("infra/policy"));
    assert!(wide.contains(&"extAuth.wide.0") && wide.contains(&"extAuth.wide.0.ask"), "{wide:?}");
    assert!(envoy::slots::is_merged("extAuth.wide.0.ask") && !envoy::slots::is_merged("extAuth.wide.0"));
    let again = one(json!({"extAuth": {"extensionRef": {"name": "judge"}, "contextExtensions": {"b": "2", "a": "1"}}}));
    assert_eq!(unit.slots(), again.slots(), "the same bytes, whatever the order");
}

#[test]
fn a_processor_stands_where_its_stage_says_and_one_more_there_is_no_unit() {
    let processed_by = |name: &str| one(json!({"extProc": {"extensionRef": {"name": name}}}));
    assert_eq!(places(&processed_by("processor")), [("extProc.rbac.0", "extProc.ask".to_owned())]);
    assert_eq!(places(&processed_by("first")), [("extProc.fault", "extProc.ask".to_owned())]);
    let both = processed_by("processor").over(&processed_by("first")).expect("both process");
    assert_eq!((places(&both).len(), both.excess()), (2, None));
    let two = processed_by("processor").over(&processed_by("processor2")).expect("both process");
    let places: Vec<_> = places(&two).into_iter().map(|(place, _)| place).collect();
    assert_eq!(places, ["extProc.rbac.0", "extProc.rbac.1"]);
}

#[test]
fn who_is_named_must_be_of_the_kind_that_is_needed() {
    for (field, spec) in [
        ("spec.extAuth.extensionRef", json!({"extAuth": {"extensionRef": {"name": "counter"}}})),
        ("spec.extProc.extensionRef", json!({"extProc": {"extensionRef": {"name": "judge"}}})),
        (
            "spec.rateLimit.global.extensionRef",
            json!({"rateLimit": {"global":
                {"extensionRef": {"name": "judge"}, "descriptors": [{"entries": [{"type": "Path"}]}]}}}),
        ),
        ("spec.extAuth.extensionRef", json!({"extAuth": {"extensionRef": {"name": "nobody"}}})),
    ] {
        assert_eq!(refused(spec).0, field);
    }
}

#[test]
fn an_extension_that_envoy_would_refuse_or_that_is_unsafe_is_refused() {
    let service = json!({"backendRef": {"name": "s", "port": 80}});
    let with = |more: Value| {
        let mut all = json!({"grpcService": service});
        all.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        all
    };
    let over_http = |more: Value| {
        let mut http = service.clone();
        http.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        json!({"extAuth": {"httpService": http}})
    };
    let cases = [
        (json!({"extAuth": with(json!({"statusOnError": 418}))}), "spec.extAuth.statusOnError"),
        (json!({"extAuth": with(json!({"statusOnError": 100}))}), "spec.extAuth.statusOnError"),
        (json!({"extAuth": with(json!({"statPrefix": "a b"}))}), "spec.extAuth.statPrefix"),
        (json!({"extAuth": with(json!({"headersToForward": [":path"]}))}), "spec.extAuth.headersToForward[0]"),
        (over_http(json!({"pathPrefix": "judge"})), "spec.extAuth.httpService.pathPrefix"),
        (
            over_http(json!({"authorizationRequest": {"headersToAdd": {"a": "%ENVIRONMENT(HOME)%"}}})),
            "spec.extAuth.httpService.authorizationRequest.headersToAdd[a]",
        ),
        (
            over_http(json!({"authorizationRequest": {"headersToAdd": {"a": "100%"}}})),
            "spec.extAuth.httpService.authorizationRequest.headersToAdd[a]",
        ),
        (
            over_http(json!({"authorizationResponse": {"headersToBackend": ["Content-Length"]}})),
            "spec.extAuth.httpService.authorizationResponse.headersToBackend[0]",
        ),
        (over_http(json!({"requestTimeout": "1h"})), "spec.extAuth.httpService.requestTimeout"),
        (over_http(json!({"retry": {"attempts": 1000}})), "spec.extAuth.httpService.retry.attempts"),
        (json!({"extProc": with(json!({"requestAttributes": ["1 +"]}))}), "spec.extProc.requestAttributes[0]"),
        (
            json!({"extProc": with(json!({"processingMode": {"responseBodyMode": "FULL_DUPLEX_STREAMED"}}))}),
            "spec.extProc.processingMode",
        ),
        (
            json!({"extProc": with(json!({"filterStage": {"stage": "Route", "predicate": "After"}}))}),
            "spec.extProc.filterStage",
        ),
        (json!({"rateLimit": with(json!({"domain": ""}))}), "spec.rateLimit.domain"),
        (json!({"jwt": {}}), "spec.jwt"),
    ];
    for (spec, field) in cases {
        let written = serde_json::from_value(spec.clone()).expect("a spec");
        let id = ir::NsName::new("n", "e");
        let refused = Extension::read(&id, &written, &mut Everybody).expect_err("it is refused");
        assert_eq!(refused.field, field, "{spec}: {}", refused.message);
    }
}

#[test]
fn a_provider_that_has_the_route_chosen_anew_is_refused() {
    let service = json!({"backendRef": {"name": "s", "port": 80}});
    for (spec, field) in [
        (json!({"extAuth": {"grpcService": service, "clearRouteCache": true}}), "spec.extAuth.clearRouteCache"),
        (json!({"extProc": {"grpcService": service, "routeCacheAction": "Clear"}}), "spec.extProc.routeCacheAction"),
    ] {
        let written = serde_json::from_value(spec).expect("a spec");
        let refused = Extension::read(&ir::NsName::new("n", "e"), &written, &mut Everybody).expect_err("it is refused");
        assert_eq!(refused.field, field);
    }
}
