use serde_json::Value;

use super::{Answer, Oracle, Outcome, Settings, Step};
use crate::client::Request;
use crate::manifests;

mod examples;
mod journeys;
mod order;
mod outcomes;
mod plain;
mod policies;
mod worlds;

/// A Gateway for all, and a Service `NAMESPACE/svc` in each namespace.
const BASE: &str = "
kind: Gateway
metadata: {name: example-gateway, namespace: infra}
spec: {listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}
---
kind: Service
metadata: {name: svc, namespace: infra}
---
kind: Service
metadata: {name: svc, namespace: a}
---
kind: Service
metadata: {name: svc, namespace: b}
---
";

/// A world: the base and these manifests, in which each route stands on a line as [`route`] reads it.
struct Scene(Oracle);

impl Scene {
    fn new(manifests: &str) -> Self {
        Self::with(manifests, &Settings::default())
    }

    fn with(manifests: &str, settings: &Settings) -> Self {
        let documents = manifests::parse(&format!("{BASE}{manifests}")).expect("valid YAML");
        let documents: Vec<Value> = documents.into_iter().map(complete).collect();
        Self(Oracle::read(&documents, settings).expect("a world that the oracle knows"))
    }

    fn ask(&self, request: &Request) -> Outcome {
        self.0.ask("infra/example-gateway", 80, request)
    }

    /// `NAMESPACE/NAME RULE.MATCH` of a GET, and `: STATUS` where no backend answers.
    fn get(&self, path: &str) -> String {
        self.told(&Request::get("example.com", path))
    }

    fn told(&self, request: &Request) -> String {
        let outcome = self.ask(request);
        let Some(Step { route, rule, matching }) = outcome.route_identity() else { return "nothing".to_owned() };
        match outcome.answer() {
            Answer::Backends { .. } => format!("{route} {rule}.{matching}"),
            Answer::Redirect => format!("{route} {rule}.{matching}: redirect"),
            Answer::DirectResponse(status) => format!("{route} {rule}.{matching}: {status}"),
        }
    }

    /// Asks for each path on the left and expects what stands on the right.
    #[track_caller]
    fn expect(&self, rows: &[(&str, &str)]) {
        for (path, expected) in rows {
            assert_eq!(self.get(path), *expected, "{path}\n{}", self.0.describe());
        }
    }
}

/// Completes what a scene abbreviates: `{route: infra/r, …}` is a route whose fields `labels`, `annotations` and
/// `created` belong to the metadata and whose others are its spec, where `to: NAMESPACE/NAME` in a rule is a reference to
/// a child, `labelled: NAMESPACE/VALUE` one by label, `path: /a` a match by prefix, and a rule without either has a
/// backend. A parent `under: infra/r` is a route, and a route with neither `under` nor `parentRefs` that is called `root…`
/// is attached to the Gateway.
fn complete(mut short: Value) -> Value {
    let Some(name) = short["route"].as_str().map(ToOwned::to_owned) else { return short };
    let (namespace, name) = name.split_once('/').expect("NAMESPACE/NAME");
    let mut metadata = serde_json::json!({"namespace": namespace, "name": name});
    for (field, written) in [("labels", "labels"), ("annotations", "annotations"), ("created", "creationTimestamp")] {
        metadata[written] = short[field].take();
    }
    let split = |text: &str| {
        let (namespace, name) = text.split_once('/').expect("NAMESPACE/NAME");
        (namespace.to_owned(), name.to_owned())
    };
    if let Some((namespace, name)) = short["under"].as_str().map(split) {
        let parent = serde_json::json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute"});
        short["parentRefs"] = serde_json::json!([parent]);
        short["parentRefs"][0]["namespace"] = namespace.into();
        short["parentRefs"][0]["name"] = name.into();
    } else if name.starts_with("root") && short["parentRefs"].is_null() {
        short["parentRefs"] = serde_json::json!([{"name": "example-gateway", "namespace": "infra"}]);
    }
    for rule in short["rules"].as_array_mut().into_iter().flatten() {
        if let Some(path) = rule["path"].as_str() {
            rule["matches"] = serde_json::json!([{"path": {"type": "PathPrefix", "value": path}}]);
        }
        let reference = |(namespace, name): (String, String), group: &str, kind: &str| serde_json::json!({"group": group, "kind": kind, "namespace": namespace, "name": name});
        let mut references = Vec::new();
        for to in rule["to"].as_array().cloned().unwrap_or_else(|| vec![rule["to"].clone()]) {
            references.extend(to.as_str().map(|to| reference(split(to), "gateway.networking.k8s.io", "HTTPRoute")));
        }
        if let Some(labelled) = rule["labelled"].as_str() {
            references.push(reference(split(labelled), "delegation.kgateway.dev", "label"));
        }
        if references.is_empty() && rule["backendRefs"].is_null() {
            references.push(serde_json::json!({"name": "svc", "port": 8080}));
        }
        if rule["backendRefs"].is_null() {
            rule["backendRefs"] = references.into();
        }
    }
    serde_json::json!({"kind": "HTTPRoute", "metadata": metadata, "spec": short})
}
