//! Rules of the policies and of DirectResponse.

use schemars::SchemaGenerator;

use super::{Broken, reference::service_port};
use crate::{
    Violation,
    delegation_policy::{AllowedChildren, DelegationPolicySpec},
    direct_response::DirectResponseSpec,
    group::GROUP,
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector},
    rewrite_policy::RewritePolicySpec,
    schema::{Own, Schema, Spec, openapi::policy as table},
    traffic_policy::TrafficPolicySpec,
};

/// A rule that a CRD of our own writes in CEL.
#[derive(Debug)]
pub(crate) struct Cel {
    /// The field whose value is `self`, such as `spec.list[].field`.
    pub(crate) path: &'static str,
    /// The expression.
    pub(crate) rule: &'static str,
    /// What must hold.
    pub(crate) message: &'static str,
}

const NAMESPACES: Cel = Cel {
    path: "spec.allowedChildren.namespaces",
    rule: "has(self.names) != has(self.selector)",
    message: "must have either names or selector",
};
const KIND_OF_GROUP: Cel = Cel {
    path: "spec.allowedChildren.backends[]",
    rule: "!has(self.group) || has(self.kind)",
    message: "must set kind beside group",
};
const ANY_CRITERION: Cel = Cel {
    path: "spec.allowedChildren.backends[]",
    rule: "has(self.group) || has(self.kind) || has(self.namespace) || has(self.name)",
    message: "must set kind, namespace or name",
};
const SERVICE_PORT: Cel = Cel {
    path: "spec.defaultBackendRefs[]",
    rule: "self.group != '' || self.kind != 'Service' || has(self.port)",
    message: "must set port for a Service",
};
const HTTP_ROUTE_REFS: Cel = Cel {
    path: "spec.targetRefs",
    rule: "self.all(target, target.group == 'gateway.networking.k8s.io' && target.kind == 'HTTPRoute')",
    message: "must be HTTPRoute of group gateway.networking.k8s.io",
};
const HTTP_ROUTE_SELECTORS: Cel = Cel { path: "spec.targetSelectors", ..HTTP_ROUTE_REFS };

/// Whether a policy may apply to a group and kind.
type Allows = fn(group: &str, kind: &str) -> bool;

impl Spec for TrafficPolicySpec {
    const SCHEMA: Schema = Schema::of(&table::TRAFFIC_POLICY_SPEC);

    fn check(&self, broken: &mut Broken) {
        let known: Allows =
            |_, kind| matches!(kind, "Gateway" | "HTTPRoute" | "GRPCRoute") || kind.ends_with("ListenerSet");
        let message = "must be Gateway, HTTPRoute, GRPCRoute or ListenerSet";
        targets(&self.target_refs, &self.target_selectors, known, message, broken);
        if self.fields.get("urlRewrite").is_some_and(|rewrite| rewrite.get("pathRegex").is_none()) {
            broken.add_without_value("spec.urlRewrite.pathRegex", "is missing: set it, or remove urlRewrite");
        }
        let set = |field: &str| self.fields.contains_key(field);
        let http: Allows = |_, kind| kind == "HTTPRoute";
        let routes: Allows = |_, kind| matches!(kind, "HTTPRoute" | "GRPCRoute");
        let fields = [
            ("autoHostRewrite", set("autoHostRewrite"), http, "HTTPRoute"),
            ("urlRewrite", set("urlRewrite"), http, "HTTPRoute"),
            ("tracing", set("tracing"), routes, "HTTPRoute and GRPCRoute"),
            ("statPrefix", set("statPrefix"), routes, "HTTPRoute and GRPCRoute"),
        ];
        for (field, set, allows, kinds) in fields {
            let refs = self.target_refs.iter().map(|target| &target.kind);
            let mut all = refs.chain(self.target_selectors.iter().map(|target| &target.kind));
            if set && let Some(kind) = all.find(|kind| !allows("", kind)) {
                let message = format!("must not be set in a policy that applies to {kind}, only to {kinds}");
                broken.add_without_value(format!("spec.{field}"), message);
            }
        }
    }

    fn invalid(&self) -> &[Violation] {
        &self.invalid
    }

    fn keeps(&self, path: &str) -> bool {
        let field = path.strip_prefix("spec.").and_then(|path| path.split(['.', '[']).next());
        field.is_some_and(|field| self.fields.contains_key(field))
    }
}

impl Spec for DirectResponseSpec {
    const SCHEMA: Schema = Schema::of(&table::DIRECT_RESPONSE_SPEC);

    fn check(&self, broken: &mut Broken) {
        if self.body.is_some() && self.body_format.is_some() {
            broken.add_without_value("spec.bodyFormat", "must not stand beside body: remove one of both");
        }
        if let Some(format) = &self.body_format
            && format.json.is_some() == format.text.is_some()
        {
            broken.add_without_value("spec.bodyFormat", "must have either text or json");
        }
    }
}

impl Spec for RewritePolicySpec {
    const SCHEMA: Schema = Schema::of(&table::REWRITE_POLICY_SPEC).own(Own {
        about: "Says by what the routing prefix of a request is replaced before the request goes to a backend.",
        describe: SchemaGenerator::into_root_schema_for::<Self>,
        rules: &[HTTP_ROUTE_REFS, HTTP_ROUTE_SELECTORS],
    });

    fn check(&self, broken: &mut Broken) {
        targets(&self.target_refs, &self.target_selectors, HTTP_ROUTE, HTTP_ROUTE_REFS.message, broken);
    }

    fn invalid(&self) -> &[Violation] {
        &self.invalid
    }
}

impl Spec for DelegationPolicySpec {
    const SCHEMA: Schema = Schema::of(&table::DELEGATION_POLICY_SPEC).own(Own {
        about: "Says how an HTTPRoute delegates to others, and what those may do.",
        describe: SchemaGenerator::into_root_schema_for::<Self>,
        rules: &[HTTP_ROUTE_REFS, NAMESPACES, KIND_OF_GROUP, ANY_CRITERION, SERVICE_PORT],
    });

    fn check(&self, broken: &mut Broken) {
        targets(&self.target_refs, &[], HTTP_ROUTE, HTTP_ROUTE_REFS.message, broken);
        if let Some(allowed) = &self.allowed_children {
            allowed_children(allowed, broken);
        }
        for (index, backend) in self.default_backend_refs.iter().enumerate() {
            service_port(&backend.backend_ref, &format!("spec.defaultBackendRefs[{index}]"), broken);
        }
    }

    fn invalid(&self) -> &[Violation] {
        &self.invalid
    }
}

fn allowed_children(allowed: &AllowedChildren, broken: &mut Broken) {
    if let Some(namespaces) = &allowed.namespaces
        && namespaces.names.is_some() == namespaces.selector.is_some()
    {
        broken.add_without_value(NAMESPACES.path, NAMESPACES.message);
    }
    for (index, backend) in allowed.backends.iter().flatten().enumerate() {
        let path = format!("spec.allowedChildren.backends[{index}]");
        if backend.group.is_some() && backend.kind.is_none() {
            broken.add_without_value(path, KIND_OF_GROUP.message);
        } else if backend.kind.is_none() && backend.namespace.is_none() && backend.name.is_none() {
            broken.add_without_value(path, ANY_CRITERION.message);
        }
    }
}

const HTTP_ROUTE: Allows = |group, kind| group == GROUP && kind == "HTTPRoute";

fn targets(
    refs: &[LocalPolicyTargetReference],
    selectors: &[LocalPolicyTargetSelector],
    allows: Allows,
    message: &str,
    broken: &mut Broken,
) {
    let refs = refs.iter().map(|target| (&target.group, &target.kind)).enumerate();
    let selectors = selectors.iter().map(|target| (&target.group, &target.kind)).enumerate();
    let all = refs.map(|one| ("targetRefs", one)).chain(selectors.map(|one| ("targetSelectors", one)));
    for (list, (index, (group, kind))) in all {
        if !allows(group, kind) {
            broken.add(format!("spec.{list}[{index}].kind"), format_args!("{kind} of group {group}"), message);
        }
    }
}
