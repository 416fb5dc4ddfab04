//! `TrafficPolicies` for the objects of a world, on all levels, in all modes.
//!
//! A world has a few units that many policies say, so that they meet.

use serde_json::{Value, json};

use super::{Draw, NAMESPACES};
use crate::oracle::policy::{FUTURE, refused};

const UNITS: [&str; 18] = [
    "acl",
    "apiKeyAuth",
    "basicAuth",
    "buffer",
    "compression.responseCompression",
    "cors",
    "csrf",
    "faultInjection",
    "headerModifiers",
    "internalRedirect",
    "rateLimit.local",
    "rbac",
    "retry",
    "timeouts",
    "transformation",
    // Of routes alone.
    "statPrefix",
    "tracing",
    "urlRewrite",
];

/// A timeout for which only what asks for a delay is late, however busy the machine is.
const SHORT: &str = "1500ms";

const OF_ROUTES: [&str; 3] = ["statPrefix", "tracing", "urlRewrite"];

const MODES: [&str; 5] = [
    "ShallowMergePreferChild",
    "ShallowMergePreferParent",
    "DeepMergePreferChild",
    "DeepMergePreferParent",
    "DeepMerge",
];

/// Where a policy stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Gateway,
    Listener,
    /// On rules, some of which may delegate.
    Rules,
    /// On one that does not.
    Leaf,
}

struct Policies<'a> {
    draw: &'a mut Draw,
    /// What policies of this world say.
    units: Vec<&'static str>,
    made: Vec<Value>,
    /// How many texts were made, so that each is another.
    texts: usize,
}

/// Adds names of rules, annotations, policies and Secrets to the Gateways and routes of a world, and tells which units
/// they say.
pub(super) fn add(draw: &mut Draw, manifests: &mut Vec<Value>) -> Vec<&'static str> {
    let count = 3 + draw.below(5);
    let mut units: Vec<_> = (0..count).map(|_| draw.of(&UNITS)).collect();
    // Of these a client sees something only by what it asks of the backend too.
    for (unit, percent) in [("compression.responseCompression", 40), ("timeouts", 30)] {
        units.extend(draw.percent(percent).then_some(unit));
    }
    if draw.percent(40) {
        // What is changed of a request stays with it.
        units.extend(["internalRedirect", draw.of(&["headerModifiers", "transformation", "apiKeyAuth"])]);
    }
    let mut policies = Policies { draw, units: units.clone(), made: Vec::new(), texts: 0 };
    for manifest in manifests.iter_mut() {
        match manifest["kind"].as_str() {
            Some("Gateway") => policies.of_gateway(manifest),
            Some("HTTPRoute") => policies.of_route(manifest),
            _ => {}
        }
    }
    let made = policies.made;
    manifests.extend(made);
    for namespace in NAMESPACES {
        for (name, client, key) in [("keys0", "one", "key-one"), ("keys1", "two", "key-two")] {
            manifests.push(json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
                "stringData": {client: key},
            }));
        }
    }
    units
}

impl Policies<'_> {
    fn of_gateway(&mut self, gateway: &mut Value) {
        self.annotate(gateway, 60);
        let name = gateway["metadata"]["name"].clone();
        let target = json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name});
        if self.draw.percent(50) {
            self.policy("infra", &target, Place::Gateway);
        }
        let listeners = gateway["spec"]["listeners"].as_array().cloned().unwrap_or_default();
        for listener in listeners.iter().filter(|listener| listener["hostname"] != super::SENTINEL) {
            if self.draw.percent(35) {
                let mut target = target.clone();
                target["sectionName"] = listener["name"].clone();
                self.policy("infra", &target, Place::Listener);
            }
        }
    }

    fn of_route(&mut self, route: &mut Value) {
        self.annotate(route, 65);
        let metadata = route["metadata"].clone();
        let namespace = metadata["namespace"].as_str().unwrap_or_default().to_owned();
        let target =
            json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": metadata["name"].clone()});
        for percent in [55, 20] {
            if self.draw.percent(percent) {
                self.policy(&namespace, &target, Place::Rules);
            }
        }
        for (index, rule) in route["spec"]["rules"].as_array_mut().into_iter().flatten().enumerate() {
            let delegates =
                rule["backendRefs"].as_array().is_some_and(|all| all.iter().any(|to| to.get("group").is_some()));
            let place = if delegates { Place::Rules } else { Place::Leaf };
            if self.draw.percent(50) {
                rule["name"] = json!(format!("n{index}"));
                let mut target = target.clone();
                target["sectionName"] = rule["name"].clone();
                if self.draw.percent(60) {
                    self.policy(&namespace, &target, place);
                }
            }
            if self.draw.percent(15) {
                let name = if place == Place::Leaf && self.draw.percent(6) {
                    json!("nobody")
                } else {
                    self.extension(&namespace, place)
                };
                let named = json!({"group": "gateway.kgateway.dev", "kind": "TrafficPolicy", "name": name});
                let filters = rule["filters"].as_array().cloned().unwrap_or_default();
                let filter = json!({"type": "ExtensionRef", "extensionRef": named});
                rule["filters"] = filters.into_iter().chain([filter]).collect();
            }
        }
    }

    fn annotate(&mut self, object: &mut Value, percent: usize) {
        if self.draw.percent(percent) {
            object["metadata"]["annotations"]["kgateway.dev/inherited-policy-priority"] = json!(self.draw.of(&MODES));
        }
    }

    /// A policy without a target, and its name.
    fn extension(&mut self, namespace: &str, place: Place) -> Value {
        self.policy(namespace, &Value::Null, place);
        self.made.last().expect("a policy")["metadata"]["name"].clone()
    }

    /// A policy. Some of its values are refused.
    fn policy(&mut self, namespace: &str, target: &Value, place: Place) {
        // Whole Gateways do not close, or nothing would be left to ask.
        let broken = match place {
            Place::Gateway => 0,
            Place::Listener => 2,
            Place::Rules | Place::Leaf => 5,
        };
        let is_wide = matches!(place, Place::Gateway | Place::Listener);
        let mut spec = json!({});
        for unit in self.units.clone() {
            if is_wide && OF_ROUTES.contains(&unit) || !self.draw.percent(55) {
                continue;
            }
            let refused = refused();
            let broken = refused.iter().find(|(of, _)| *of == unit).filter(|_| self.draw.percent(broken));
            let value = broken.map_or_else(|| self.value(unit), |(_, value)| value.clone());
            match unit.split_once('.') {
                Some((group, field)) => spec[group][field] = value,
                None => spec[unit] = value,
            }
        }
        if !target.is_null() {
            // Some select their routes, and what has the same label.
            if target["kind"] == "HTTPRoute" && self.draw.percent(12) {
                let label = self.draw.of(&["v0", "v1"]);
                let mut selector = target.clone();
                selector.as_object_mut().map(|fields| fields.remove("name"));
                selector["matchLabels"] = json!({"delegation.kgateway.dev/label": label});
                spec["targetSelectors"] = json!([selector]);
            } else {
                spec["targetRefs"] = json!([target]);
            }
        }
        // It closes each rule that it stands on, with all below.
        if place == Place::Leaf && spec.get("targetSelectors").is_none() && self.draw.percent(2) {
            spec[FUTURE] = json!({});
        }
        let mut metadata = json!({"name": format!("p{}", self.made.len()), "namespace": namespace});
        metadata["creationTimestamp"] = json!(format!("2026-01-0{}T00:00:00Z", 1 + self.draw.below(3)));
        if self.draw.percent(25) {
            metadata["annotations"] = json!({"kgateway.dev/policy-weight": self.draw.of(&["1", "5", "-3", "x"])});
        }
        self.made.push(json!({
            "apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "TrafficPolicy", "metadata": metadata, "spec": spec,
        }));
    }

    fn value(&mut self, unit: &str) -> Value {
        let has_off = ["apiKeyAuth", "basicAuth", "buffer", "cors", "faultInjection", "tracing"].contains(&unit);
        if (has_off || unit.starts_with("compression")) && self.draw.percent(25) {
            return json!({"disable": {}});
        }
        let draw = &mut *self.draw;
        match unit {
            "acl" => acl(draw),
            "apiKeyAuth" => {
                let mut auth = json!({"secretRef": {"name": draw.of(&["keys0", "keys0", "keys1"])}});
                if draw.percent(60) {
                    auth["clientIdHeader"] = json!("x-client");
                }
                if draw.percent(50) {
                    auth["forwardCredential"] = json!(draw.percent(70));
                }
                auth
            }
            "basicAuth" => {
                let (alice, bob) = ("alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "bob:{SHA}0JQeaNqPOBUf+Gph/Fn3xc+fyqI=");
                json!({"users": draw.of(&[vec![alice], vec![alice, bob], vec![bob]])})
            }
            "buffer" => json!({"maxRequestSize": draw.of(&[8, 64])}),
            "cors" => some(
                draw,
                &[
                    ("allowOrigins", json!([["https://a.example"], ["https://a.example", "https://b.example"]])),
                    ("allowCredentials", json!([true, false])),
                    ("exposeHeaders", json!([["x-a"], ["x-b"]])),
                    ("maxAge", json!([7, 9])),
                ],
            ),
            "csrf" => {
                let shares = [("percentageEnabled", json!(100)), ("percentageShadowed", json!(100))];
                let mut csrf = match draw.below(8) {
                    0 => json!({"percentageEnabled": 0}),
                    1 => json!({}),
                    other => {
                        let (name, share) = &shares[usize::from(other == 2)];
                        json!({*name: share})
                    }
                };
                if csrf == json!({}) || draw.percent(40) {
                    csrf["additionalOrigins"] = json!([{"exact": draw.of(&["a.example", "b.example"])}]);
                }
                csrf
            }
            "faultInjection" => some(
                draw,
                &[
                    ("abort", json!([{"httpStatus": 521}, {"httpStatus": 522, "percentage": 0}])),
                    ("delay", json!([{"fixedDelay": "1ms"}])),
                ],
            ),
            "headerModifiers" | "transformation" => self.changes(),
            "internalRedirect" => internal_redirect(draw),
            "rateLimit.local" => match draw.below(3) {
                0 => json!({}),
                other => {
                    let most = if other == 1 { 1 } else { 1000 };
                    json!({"tokenBucket": {"maxTokens": most, "fillInterval": "1h"}})
                }
            },
            "rbac" => {
                let who = draw.of(&["alice", "bob"]);
                let mut expressions = vec![format!("request.headers['x-user'] == '{who}'")];
                if draw.percent(60) {
                    expressions.push("request.method == 'GET'".to_owned());
                }
                let action = draw.of(&["Allow", "Allow", "Deny"]);
                // Who denies has no GET left to ask otherwise.
                expressions.truncate(if action == "Deny" { 1 } else { 2 });
                json!({"policy": {"matchExpressions": expressions}, "action": action})
            }
            "retry" => {
                let mut retry =
                    some(draw, &[("retryOn", json!([["5xx"], ["reset"]])), ("statusCodes", json!([[503], [418]]))]);
                if draw.percent(50) {
                    retry["attempts"] = json!(draw.of(&[0, 2, 3]));
                }
                if draw.percent(40) {
                    retry["backoffBaseInterval"] = json!("1ms");
                }
                retry
            }
            "statPrefix" => self.text().into(),
            "timeouts" => {
                some(draw, &[("request", json!([SHORT, SHORT, "31s"])), ("streamIdle", json!([SHORT, "41s", "42s"]))])
            }
            "tracing" => {
                let attribute = |name: &str, value: &str| json!({"name": name, "literal": {"value": value}});
                let attributes = json!([[attribute("a", "1")], [attribute("a", "2"), attribute("b", "2")]]);
                some(draw, &[("attributes", attributes), ("clientSampling", json!([3, 4]))])
            }
            "urlRewrite" => {
                let start = format!("/{}/", self.text());
                json!({"pathRegex": {"pattern": "^/", "substitution": start}})
            }
            _ => compression(draw),
        }
    }

    fn text(&mut self) -> String {
        self.texts += 1;
        format!("t{}", self.texts)
    }

    fn changes(&mut self) -> Value {
        let mut changes = json!({});
        for direction in ["request", "response"] {
            if direction == "response" && changes != json!({}) && self.draw.percent(50) {
                continue;
            }
            for what in ["set", "add"] {
                if self.draw.percent(50) {
                    let header = json!({"name": self.draw.of(&["x-a", "x-b"]), "value": self.text()});
                    changes[direction][what] = json!([header]);
                }
            }
            if changes[direction].is_null() || self.draw.percent(20) {
                changes[direction]["remove"] = json!([self.draw.of(&["x-a", "x-b"])]);
            }
        }
        changes
    }
}

/// Some of these fields, one at least, each with one of its values.
fn some(draw: &mut Draw, fields: &[(&str, Value)]) -> Value {
    let sure = draw.below(fields.len());
    let mut value = json!({});
    for (index, (field, choices)) in fields.iter().enumerate() {
        if index == sure || draw.percent(50) {
            value[*field] = draw.of(choices.as_array().expect("choices"));
        }
    }
    value
}

fn acl(draw: &mut Draw) -> Value {
    let ranges = ["127.0.0.1", "127.0.0.1/32", "127.0.0.0/24", "127.0.0.0/8", "10.0.0.0/8", "0.0.0.0/0"];
    let mut rules = Vec::new();
    for _ in 0..draw.below(4) {
        let mut rule = json!({"cidrs": [draw.of(&ranges)], "action": draw.of(&["allow", "allow", "deny"])});
        if draw.percent(70) {
            rule["name"] = json!(draw.of(&["one", "two"]));
        }
        rules.push(rule);
    }
    let mut acl = json!({"defaultAction": draw.of(&["allow", "allow", "allow", "deny"]), "rules": rules});
    if draw.percent(40) {
        let fields = [("statusCode", json!([404, 451])), ("blockedByHeaderName", json!(["x-by", "x-blocked"]))];
        acl["denyResponse"] = some(draw, &fields);
    }
    acl
}

fn compression(draw: &mut Draw) -> Value {
    let libraries: [&[&str]; 5] = [&["Gzip"], &["Brotli"], &["Brotli", "Gzip"], &["Gzip", "Brotli"], &["Zstd", "Gzip"]];
    if draw.percent(15) { json!({}) } else { json!({"libraries": draw.of(&libraries)}) }
}

fn internal_redirect(draw: &mut Draw) -> Value {
    let fields = [
        ("redirectResponseCodes", json!([[302, 307], [302, 303, 307], [307, 308], [301, 302, 303]])),
        ("maxRedirects", json!([1, 2, 2, 3, 3])),
        ("responseHeadersToCopy", json!([["x-a"], ["x-b"]])),
    ];
    some(draw, &fields)
}
