//! Rules across fields of a TrafficPolicy.

use crate::{
    schema::rules::{
        Broken,
        policy::{Allows, targets},
    },
    traffic_policy::TrafficPolicySpec,
};

pub(super) fn check(spec: &TrafficPolicySpec, broken: &mut Broken) {
    let known: Allows =
        |_, kind| matches!(kind, "Gateway" | "HTTPRoute" | "GRPCRoute") || kind.ends_with("ListenerSet");
    let message = "must be Gateway, HTTPRoute, GRPCRoute or ListenerSet";
    targets(&spec.target_refs, &spec.target_selectors, known, message, broken);
    if spec.fields.get("urlRewrite").is_some_and(|rewrite| rewrite.get("pathRegex").is_none()) {
        broken.add_without_value("spec.urlRewrite.pathRegex", "is missing: set it, or remove urlRewrite");
    }
    let set = |field: &str| spec.fields.contains(field);
    let http: Allows = |_, kind| kind == "HTTPRoute";
    let routes: Allows = |_, kind| matches!(kind, "HTTPRoute" | "GRPCRoute");
    let fields = [
        ("autoHostRewrite", set("autoHostRewrite"), http, "HTTPRoute"),
        ("urlRewrite", set("urlRewrite"), http, "HTTPRoute"),
        ("tracing", set("tracing"), routes, "HTTPRoute and GRPCRoute"),
        ("statPrefix", set("statPrefix"), routes, "HTTPRoute and GRPCRoute"),
    ];
    for (field, set, allows, kinds) in fields {
        let refs = spec.target_refs.iter().map(|target| &target.kind);
        let mut all = refs.chain(spec.target_selectors.iter().map(|target| &target.kind));
        if set && let Some(kind) = all.find(|kind| !allows("", kind)) {
            let message = format!("must not be set in a policy that applies to {kind}, only to {kinds}");
            broken.add_without_value(format!("spec.{field}"), message);
        }
    }
}
