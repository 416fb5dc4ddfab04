//! Routes, level by level: roots, their children, and so on; what is written at one level aims at what stands above.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{BACKENDS, Draw, Kind, NAMESPACES};
use crate::oracle::pattern::Pattern;

const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// How many levels there are below the roots.
const DEPTH: usize = 4;

/// A route that is not complete yet.
struct Draft {
    namespace: &'static str,
    name: String,
    level: usize,
    manifest: Value,
}

/// Where a rule delegates, for those below to aim at.
#[derive(Clone)]
struct Above {
    /// The path with those of all ancestors.
    path: String,
    /// The match, but for its path.
    conditions: Value,
}

struct Routes<'a> {
    draw: &'a mut Draw,
    kind: Kind,
    /// Whether some parents sort by weight. The place of a prefix that ends with a slash is not settled there.
    by_weight: bool,
    drafts: Vec<Draft>,
    used: usize,
    /// Some paths that are written, whoever serves them.
    paths: BTreeSet<String>,
}

/// Routes and policies, and some paths that they write.
pub(super) fn routes(draw: &mut Draw, kind: Kind) -> (Vec<Value>, BTreeSet<String>) {
    let by_weight = kind != Kind::Plain && draw.percent(35);
    let mut routes = Routes { draw, kind, by_weight, drafts: Vec::new(), used: 0, paths: BTreeSet::new() };
    let mut above = Vec::new();
    for level in 0..=if kind == Kind::Plain { 0 } else { DEPTH } {
        let count = match (kind, level) {
            (Kind::Plain, _) => 1 + routes.draw.below(6),
            (_, 0) => 1 + routes.draw.below(3),
            (_, 1..4) => 1 + routes.draw.below(4),
            (_, _) => 1 + routes.draw.below(2),
        };
        let mut here = Vec::new();
        for _ in 0..count {
            routes.add(level, &above, &mut here);
        }
        above = here;
    }
    routes.refer();
    let policies = routes.policies();
    let manifests = routes.drafts.into_iter().map(|draft| draft.manifest).chain(policies).collect();
    (manifests, routes.paths)
}

impl Routes<'_> {
    fn add(&mut self, level: usize, above: &[Above], here: &mut Vec<Above>) {
        let number = self.drafts.len();
        let spread = self.draw.percent(20);
        let namespace = if spread { self.draw.of(&NAMESPACES) } else { NAMESPACES[level.min(3)] };
        let inherits = level > 0 && self.draw.percent(30);
        let mut annotations = json!({});
        if inherits {
            annotations["delegation.kgateway.dev/inherit-parent-matcher"] = json!(self.draw.of(&["true", "Yes"]));
        }
        if self.draw.percent(35) {
            let weights = ["1", "2", "-1", "100", "heavy", "2147483648"];
            annotations["kgateway.dev/route-weight"] = json!(self.draw.of(&weights));
        }
        let mut labels = json!({});
        if self.draw.percent(60) {
            labels["delegation.kgateway.dev/label"] = json!(self.draw.of(&["v0", "v1"]));
        }
        let created = format!("2026-01-0{}T00:00:00Z", 1 + self.draw.below(3));
        let rules: Vec<Value> =
            (0..=self.draw.below(3)).map(|_| self.rule(level, inherits, namespace, above, here)).collect();
        let mut spec = json!({"rules": rules});
        if level == 0 {
            spec["parentRefs"] = self.gateways();
            spec["hostnames"] = self.hostnames();
        } else if self.draw.percent(4) {
            spec["hostnames"] = json!(["a.example.com"]);
        }
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {
                "name": format!("r{number}"), "namespace": namespace, "creationTimestamp": created,
                "annotations": annotations, "labels": labels,
            },
            "spec": spec,
        });
        self.drafts.push(Draft { namespace, name: format!("r{number}"), level, manifest });
    }

    fn gateways(&mut self) -> Value {
        let mut parents = Vec::new();
        for _ in 0..=usize::from(self.draw.percent(30)) {
            let mut parent = json!({"name": self.draw.of(&["g0", "g0", "g0", "g1"]), "namespace": "infra"});
            if self.draw.percent(10) {
                parent["sectionName"] = json!(self.draw.of(&["l0-80", "l1-80", "l2-80", "l0-81"]));
            }
            if self.draw.percent(10) {
                parent["port"] = json!(self.draw.of(&[80, 81]));
            }
            if parents.iter().all(|other| !is_same(other, &parent)) {
                parents.push(parent);
            }
        }
        json!(parents)
    }

    fn hostnames(&mut self) -> Value {
        let all = ["a.example.com", "b.example.com", "*.example.com", "*.com", "*.b.example.com", "example.org"];
        let none = if self.kind == Kind::Plain { 65 } else { 85 };
        let percent = if self.draw.percent(none) { 0 } else { 35 };
        json!(all.into_iter().filter(|_| self.draw.percent(percent)).collect::<Vec<_>>())
    }

    fn rule(&mut self, level: usize, inherits: bool, namespace: &str, above: &[Above], here: &mut Vec<Above>) -> Value {
        let likely = if level == 0 { 80 } else { 60 };
        let delegates = self.kind != Kind::Plain && level < DEPTH && self.draw.percent(likely);
        let one_match = delegates && self.by_weight;
        let mut matches = Vec::new();
        for _ in 0..=usize::from(!one_match && self.draw.percent(25)) {
            matches.push(self.matching(level, inherits, delegates, above, here));
        }
        let mut rule = json!({"matches": matches});
        if delegates {
            rule["delegates"] = json!(true);
        } else {
            self.act(&mut rule, namespace);
        }
        rule
    }

    /// What a rule does that has no children.
    fn act(&mut self, rule: &mut Value, namespace: &str) {
        let mut backend = self.backend();
        match self.draw.below(20) {
            19 => backend["name"] = json!("nobody"),
            18 => backend["namespace"] = json!(if namespace == "infra" { "team-a" } else { "infra" }),
            17 => {
                let redirect = json!({"hostname": "moved.test", "statusCode": 302});
                rule["filters"] = json!([{"type": "RequestRedirect", "requestRedirect": redirect}]);
                return;
            }
            _ => {}
        }
        rule["backendRefs"] = json!([backend]);
    }

    fn backend(&mut self) -> Value {
        self.used += 1;
        json!({"name": format!("b{}", self.used % BACKENDS), "port": 8080})
    }

    fn matching(
        &mut self,
        level: usize,
        inherits: bool,
        delegates: bool,
        above: &[Above],
        here: &mut Vec<Above>,
    ) -> Value {
        let over = if above.is_empty() { None } else { Some(self.draw.of(above)) };
        let start = match &over {
            Some(over) => over.path.clone(),
            None => self.draw.of(&["", "/a", "/a", "/b", "/a/x", "/ab"]).to_owned(),
        };
        // Half a segment more lies outside.
        let more = self.draw.of(&["/x", "/y", "/x", "/y", "/x/y", "", "", "x"]);
        let more = if start.is_empty() && more == "x" { "/x" } else { more };
        let path = format!("{start}{more}");
        let written = match (inherits, more) {
            (true, "x") => "/x".to_owned(),
            (true, more) => more.to_owned(),
            (false, _) => path.clone(),
        };
        let mut matching = match &over {
            Some(over) if !inherits && self.draw.percent(85) => over.conditions.clone(),
            _ => json!({}),
        };
        self.conditions(&mut matching, level);
        let conditions = matching.clone();
        let regex = self.draw.percent(if delegates { 5 } else { 20 });
        let exact = !regex && self.draw.percent(if delegates { 4 } else { 25 });
        let kind = if regex {
            "RegularExpression"
        } else if exact {
            "Exact"
        } else {
            "PathPrefix"
        };
        let value = match kind {
            "RegularExpression" => self.regex(&written),
            _ if written.is_empty() => "/".to_owned(),
            "PathPrefix" if !self.by_weight && self.draw.percent(12) => format!("{written}/"),
            _ => written,
        };
        if delegates {
            here.push(Above { path, conditions });
        }
        if let Ok(pattern) = Pattern::parse(&value).map(|pattern| pattern.examples()) {
            self.paths.extend(pattern);
        }
        if value != "/" || self.draw.percent(50) {
            matching["path"] = json!({"type": kind, "value": value});
        }
        matching
    }

    /// An expression of which it is plain whether it leads out of `path`.
    fn regex(&mut self, path: &str) -> String {
        let ends = ["/[0-9]+", "/(x|y)", "(/.*)?", ".*", "(/x)?", "/x|/admin", "/(?:x/)?y"];
        // Without a path before it each still begins with a slash.
        let ends = if path.is_empty() { &ends[..2] } else { &ends[..] };
        format!("{path}{}", self.draw.of(ends))
    }

    /// Adds to a match what it asks for beside the path.
    fn conditions(&mut self, matching: &mut Value, level: usize) {
        let likely = if level == 0 { 10 } else { 8 };
        if self.draw.percent(likely) && matching["method"].is_null() {
            matching["method"] = json!(self.draw.of(&["GET", "GET", "POST"]));
        }
        let mut add = |list: &str, percent: usize, choices: &[Value]| {
            if self.draw.percent(percent) {
                let condition = self.draw.of(choices);
                match matching[list].as_array_mut() {
                    Some(known) if known.iter().any(|other| same_name(other, &condition)) => {}
                    Some(known) => known.push(condition),
                    None => matching[list] = json!([condition]),
                }
            }
        };
        let header = |name: &str, kind: &str, value: &str| json!({"name": name, "type": kind, "value": value});
        let headers =
            [header("x-h", "Exact", "1"), header("X-H", "Exact", "1"), header("x-i", "RegularExpression", "v[0-9]")];
        add("headers", likely, &headers);
        add("headers", likely / 2, &headers);
        add("queryParams", likely, &[header("q", "Exact", "1"), header("q", "RegularExpression", "[0-9]")]);
        for list in ["method", "headers", "queryParams"] {
            if matching[list].is_null() {
                matching.as_object_mut().map(|fields| fields.remove(list));
            }
        }
    }

    /// Replaces what marks a delegating rule by references, now that all routes are known, and lets children name
    /// parents.
    fn refer(&mut self) {
        let known: Vec<(usize, &'static str, String)> =
            self.drafts.iter().map(|draft| (draft.level, draft.namespace, draft.name.clone())).collect();
        let mut named: Vec<Value> = Vec::new();
        for index in 0..self.drafts.len() {
            let (level, namespace, name) = known[index].clone();
            let rules = self.drafts[index].manifest["spec"]["rules"].as_array().cloned().unwrap_or_default();
            for (number, mut rule) in rules.into_iter().enumerate() {
                let Some(true) = rule["delegates"].as_bool() else { continue };
                named.push(json!({
                    "group": GATEWAY_API, "kind": "HTTPRoute", "namespace": namespace, "name": name,
                    "sectionName": rule["name"],
                }));
                rule.as_object_mut().map(|fields| fields.remove("delegates"));
                let mut references = Vec::new();
                for _ in 0..=usize::from(self.draw.percent(35)) {
                    references.push(self.reference(level, namespace, &known));
                }
                if self.draw.percent(3) {
                    references.push(self.backend());
                }
                rule["backendRefs"] = json!(references);
                self.drafts[index].manifest["spec"]["rules"][number] = rule;
            }
        }
        for draft in &mut self.drafts {
            if draft.level > 0 && !named.is_empty() && self.draw.percent(15) {
                let mut parents: Vec<Value> = Vec::new();
                for _ in 0..=self.draw.below(2) {
                    let mut parent = self.draw.of(&named);
                    if !self.draw.percent(30) {
                        parent.as_object_mut().map(|fields| fields.remove("sectionName"));
                    }
                    if parents.iter().all(|other| !is_same(other, &parent)) {
                        parents.push(parent);
                    }
                }
                // A child may be a root as well.
                if self.draw.percent(10) {
                    parents.push(json!({"name": "g0", "namespace": "infra"}));
                }
                draft.manifest["spec"]["parentRefs"] = json!(parents);
            }
        }
    }

    /// A reference to children, mostly on the next level.
    fn reference(&mut self, level: usize, namespace: &str, known: &[(usize, &'static str, String)]) -> Value {
        let missing = (level + 1, "team-a", "nobody".to_owned());
        let next: Vec<_> = known.iter().filter(|(other, ..)| *other == level + 1).cloned().collect();
        let (_, target, name) = match self.draw.below(100) {
            97.. => missing,
            92..97 => self.draw.of(known),
            _ if next.is_empty() => missing,
            _ => self.draw.of(&next),
        };
        let how = self.draw.below(100);
        if how >= 80 {
            let place = if self.draw.percent(30) { "all" } else { target };
            let label = self.draw.of(&["v0", "v1"]);
            return json!({"group": "delegation.kgateway.dev", "kind": "label", "name": label, "namespace": place});
        }
        let name = if how >= 60 { "*".to_owned() } else { name };
        let mut reference = json!({"group": GATEWAY_API, "kind": "HTTPRoute", "name": name, "namespace": target});
        if target == namespace {
            reference.as_object_mut().map(|fields| fields.remove("namespace"));
        }
        reference
    }

    fn policies(&mut self) -> Vec<Value> {
        if !self.by_weight {
            return Vec::new();
        }
        let mut policies = Vec::new();
        for draft in &self.drafts {
            if self.draw.percent(60) {
                let order = if self.draw.percent(80) { "TableWeight" } else { "RouteSpecificity" };
                policies.push(json!({
                    "apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "DelegationPolicy",
                    "metadata": {"name": draft.name, "namespace": draft.namespace},
                    "spec": {
                        "targetRefs": [{"group": GATEWAY_API, "kind": "HTTPRoute", "name": draft.name}],
                        "sortMethod": order,
                    },
                }));
            }
        }
        policies
    }
}

/// Whether two references mean one parent; these would have to be told apart, which is not the matter here.
fn is_same(one: &Value, other: &Value) -> bool {
    one["name"] == other["name"] && one["namespace"] == other["namespace"]
}

fn same_name(one: &Value, other: &Value) -> bool {
    let name = |condition: &Value| condition["name"].as_str().map(str::to_lowercase);
    name(one) == name(other)
}
