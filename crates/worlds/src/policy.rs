//! Policies and answers of worlds, about half of them with something that Envoy refuses.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::{
    units::units,
    values::{self, GATEWAYS},
};

/// A policy on a route, a Gateway, a listener or nothing; its name comes later.
pub(super) fn policy() -> BoxedStrategy<Value> {
    prop_oneof![4 => of_routes(), 1 => of_gateways()].boxed()
}

/// A policy on a Gateway, a ListenerSet or one of their listeners, now and then with a field that routes alone can have.
fn of_gateways() -> BoxedStrategy<Value> {
    let wide = units().prop_map(|mut spec| {
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|field, _| !["autoHostRewrite", "cors", "statPrefix", "tracing"].contains(&&**field));
        }
        spec
    });
    let gateway = select(&GATEWAYS[..]).prop_map(|gateway| target("Gateway", gateway));
    let set = (0..3_u8).prop_map(|number| target("ListenerSet", &format!("z{number}")));
    (prop_oneof![12 => wide, 1 => units()], prop_oneof![3 => gateway, 1 => set], option::of(0..4_u8))
        .prop_map(|(mut spec, mut target, listener)| {
            if let Some(listener) = listener {
                target["sectionName"] = json!(format!("l{listener}"));
            }
            spec["targetRefs"] = json!([target]);
            let version = "gateway.kgateway.dev/v1alpha1";
            json!({"apiVersion": version, "kind": "TrafficPolicy", "metadata": {"namespace": "infra"}, "spec": spec})
        })
        .boxed()
}

fn of_routes() -> BoxedStrategy<Value> {
    let substitution = prop_oneof![
        2 => values::new_path(),
        2 => select(&["/\\1", "\\0/x", "/\\9", "/\\\\", "\\2\\1", "/%REQ(x)%"][..]).prop_map(str::to_owned),
        1 => values::hostile(),
    ];
    let pattern = prop_oneof![
        1 => values::regex(),
        2 => select(&["^", "^/(.*)$", "(a)|(b)", "/+"][..]).prop_map(str::to_owned),
    ];
    let regex = (pattern, substitution).prop_map(|(pattern, substitution)| {
        json!({"urlRewrite": {"pathRegex": {"pattern": pattern, "substitution": substitution}}})
    });
    let traffic = prop_oneof![18 => regex, 18 => units(), 1 => Just(json!({"jwtAuth": {}})), 1 => Just(json!({}))];
    let entry = (option::of(values::path()), values::new_path())
        .prop_map(|(prefix, replacement)| json!({"prefix": prefix, "replacement": replacement}));
    let rewrite = vec(entry, 1..3).prop_map(|entries| json!({"replacePrefix": entries}));
    let kinds = prop_oneof![
        traffic.prop_map(|spec| ("TrafficPolicy", "gateway.kgateway.dev", spec)),
        rewrite.prop_map(|spec| ("RewritePolicy", "gateway.portcullis.dev", spec)),
    ];
    let targets = prop_oneof![
        6 => (0..6_u8).prop_map(|route| json!([target("HTTPRoute", &format!("r{route}"))])),
        2 => (0..3_u8).prop_map(|route| json!([target("GRPCRoute", &format!("r{route}"))])),
        12 => Just(json!([])),
    ];
    (select(&values::NAMESPACES[..]), kinds, targets)
        .prop_map(|(namespace, (kind, group, mut spec), targets)| {
            spec["targetRefs"] = targets;
            let version = format!("{group}/v1alpha1");
            json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace}, "spec": spec})
        })
        .boxed()
}

fn target(kind: &str, name: &str) -> Value {
    json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": name})
}

/// An answer; its name comes later.
pub(super) fn answer() -> BoxedStrategy<Value> {
    let text = || {
        prop_oneof![
            2 => values::hostile(),
            1 => select(&["100%%", "%PROTOCOL%", "%REQ(:path)%", "%REQ(a b)%", "%X%", "%START_TIME(%s)%", "%", "%%%"][..])
                .prop_map(str::to_owned),
            1 => Just("a".repeat(4_096)),
        ]
    };
    let json = (text(), text()).prop_map(|(a, b)| json!({"json": {"a": [a, null, 1.5], b.as_str(): {"c": b}}}));
    let formats =
        (prop_oneof![text().prop_map(|text| json!({"text": text})), json], option::of(values::header_value()));
    let formats = formats.prop_map(|(mut format, kind)| {
        format["contentType"] = json!(kind);
        json!({"bodyFormat": format})
    });
    let bodies = prop_oneof![text().prop_map(|body| json!({"body": body})), formats];
    (values::number_of(&[200, 204, 304, 503, 599]), bodies)
        .prop_map(|(status, mut spec)| {
            spec["status"] = json!(status);
            json!({
                "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "DirectResponse",
                "metadata": {"namespace": "apps"}, "spec": spec,
            })
        })
        .boxed()
}

/// A filter that names one of them.
pub(super) fn extension() -> BoxedStrategy<Value> {
    let kinds = [
        ("gateway.kgateway.dev", "TrafficPolicy", 'p'),
        ("gateway.portcullis.dev", "RewritePolicy", 'p'),
        ("gateway.kgateway.dev", "DirectResponse", 'd'),
    ];
    (select(kinds.to_vec()), 0..3_u8)
        .prop_map(|((group, kind, prefix), number)| {
            let reference = json!({"group": group, "kind": kind, "name": format!("{prefix}{number}")});
            json!({"type": "ExtensionRef", "extensionRef": reference})
        })
        .boxed()
}
