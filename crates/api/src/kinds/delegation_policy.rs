//! DelegationPolicy.

mod rules;
mod schema;

use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Violation,
    meta::{CustomResource, LabelSelector},
    policy::{LocalPolicyTargetReference, Targets},
    schema::{Own, Schema, Spec, rules::Broken},
    shared::BackendRef,
};

/// Says how an HTTPRoute delegates to others, and what those may do.
pub type DelegationPolicy = CustomResource<DelegationPolicySpec>;

/// What is said about the delegation of the targets.
///
/// A policy that is refused never means unrestricted delegation: the rules that it targets answer with an error until
/// it is corrected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DelegationPolicySpec {
    /// The HTTPRoutes of the policy's namespace that it applies to; with sectionName the one rule of that name. Of two
    /// policies with the same target the older one counts.
    pub target_refs: Vec<LocalPolicyTargetReference>,
    /// How the routes of direct children are ordered: `RouteSpecificity`, by the precedence of Gateway API, or
    /// `TableWeight`, by the weights that the children carry in the annotation kgateway.dev/route-weight.
    /// `RouteSpecificity` if not set. Not inherited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort_method: Option<SortMethod>,
    /// What children may do, and theirs in turn; everything if not set. Children can narrow it further, not widen it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_children: Option<AllowedChildren>,
    /// Backends for rules of the targets and of all routes below them that name no backend and do not answer by
    /// themselves. A reference that does not resolve is no such case. A backend in another namespace than the policy's
    /// needs a ReferenceGrant. Inherited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub default_backend_refs: Vec<BackendRef>,
    /// Whether every route below the targets needs a policy that authenticates its requests. A route without one is
    /// replaced by an error response. Inherited, and no child can take it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_auth: bool,
    /// What happens to the tree when something in it is broken: `RouteReplacement` replaces the broken routes by an
    /// error response, `FreezeConfig` keeps the last version of the whole tree in which nothing was broken.
    /// `RouteReplacement` if not set. Only on a route that no other delegates to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_mode: Option<FailureMode>,
    /// Why the rest could not be read, if so: then only the targets are there, for the policy to be refused on them.
    #[serde(skip)]
    pub invalid: Box<[Violation]>,
}

open_enum! {
    /// How the routes of children are ordered.
    pub enum SortMethod {
        /// By the precedence of Gateway API, whoever owns a route.
        RouteSpecificity = "RouteSpecificity",
        /// By the weight of the child that owns a route.
        TableWeight = "TableWeight",
    }
}

open_enum! {
    /// What happens to a tree when something in it is broken.
    pub enum FailureMode {
        /// What is broken is replaced where it stands.
        RouteReplacement = "RouteReplacement",
        /// The whole tree stays as it last was without a fault.
        FreezeConfig = "FreezeConfig",
    }
}

/// What children may do.
///
/// An empty list is not the same as none, and allows nothing. The schema refuses it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedChildren {
    /// In which namespaces they may be, by either names or selector; in any if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<AllowedNamespaces>,
    /// To which backends they may send requests: each backend must fit one of the entries. To any if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<AllowedBackend>>,
    /// Whether they may set `disable` on a policy that they inherit; true if not set.
    pub allow_disabling_inherited_policies: bool,
}

impl Default for AllowedChildren {
    fn default() -> Self {
        Self { namespaces: None, backends: None, allow_disabling_inherited_policies: true }
    }
}

/// Namespaces, by name or by label: exactly one of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedNamespaces {
    /// Their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<Arc<str>>>,
    /// Their labels; an empty selector selects every namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// Backends that fit every field that is set, of which at least one must be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedBackend {
    /// The API group of the kind; the core group if not set. Only together with the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<str>>,
    /// The kind, such as Service; any if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Arc<str>>,
    /// The namespace in which the backend is; any if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// A regular expression (RE2) that must match the whole name; any name if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
}

impl Spec for DelegationPolicySpec {
    const SCHEMA: Schema = Schema::of(&schema::SPEC).own(Own {
        about: "Says how an HTTPRoute delegates to others, and what those may do.",
        describe: SchemaGenerator::into_root_schema_for::<Self>,
        rules: rules::RULES,
    });

    fn check(&self, broken: &mut Broken) {
        rules::check(self, broken);
    }

    fn targets_only(spec: &Value, invalid: Violation) -> Option<Self> {
        let Targets { refs, .. } = Targets::readable(spec);
        Some(Self { target_refs: refs, invalid: [invalid].into(), ..Self::default() })
    }

    fn invalid(&self) -> &[Violation] {
        &self.invalid
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Object, decode, violations};

    fn object(spec: &Value) -> Object {
        let manifest = json!({
            "apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "DelegationPolicy",
            "metadata": { "name": "p" }, "spec": spec,
        });
        let decoded = decode(manifest).expect("a DelegationPolicy");
        assert_eq!(decoded.unknown_fields, [""; 0]);
        decoded.object
    }

    fn spec(spec: &Value) -> DelegationPolicySpec {
        let Object::DelegationPolicy(policy) = object(spec) else { panic!("another kind") };
        policy.spec
    }

    fn broken(spec: &Value) -> Vec<String> {
        violations(&object(spec)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_field_is_kept_as_written() {
        let written = json!({
            "targetRefs": [
                { "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r", "sectionName": "s" },
            ],
            "sortMethod": "TableWeight",
            "allowedChildren": {
                "namespaces": { "selector": { "matchLabels": { "team": "a" } } },
                "backends": [{ "group": "g", "kind": "K", "namespace": "n", "name": "a.*" }],
                "allowDisablingInheritedPolicies": false,
            },
            "defaultBackendRefs": [
                { "group": "", "kind": "Service", "name": "s", "namespace": "n", "port": 80, "weight": 2 },
            ],
            "requireAuth": true,
            "failureMode": "FreezeConfig",
        });
        assert_eq!(broken(&written), [""; 0]);
        assert_eq!(serde_json::to_value(spec(&written)).expect("encodes"), written);
    }

    #[test]
    fn what_is_not_set_allows_everything_and_asks_for_nothing() {
        let nothing = spec(&json!({ "targetRefs": [] }));
        assert_eq!(nothing, DelegationPolicySpec::default());
        assert!(nothing.allowed_children.is_none() && !nothing.require_auth);
        let children = spec(&json!({ "allowedChildren": {} })).allowed_children.expect("children");
        assert_eq!(children, AllowedChildren::default());
        assert!(children.allow_disabling_inherited_policies);
    }

    #[test]
    fn an_empty_list_is_told_from_none() {
        let empty = json!({ "allowedChildren": { "namespaces": { "names": [] }, "backends": [] } });
        let children = spec(&empty).allowed_children.expect("children");
        assert_eq!(children.backends, Some(Vec::new()));
        assert_eq!(children.namespaces.expect("namespaces").names, Some(Vec::new()));
        let paths = broken(&empty).concat();
        assert!(paths.contains("spec.allowedChildren.namespaces.names is \"0 items\""), "{paths}");
        assert!(paths.contains("spec.allowedChildren.backends is \"0 items\""), "{paths}");
    }

    #[test]
    fn a_backend_by_default_is_a_service_with_one_share() {
        let [backend] = &spec(&json!({ "defaultBackendRefs": [{ "name": "s", "port": 80 }] })).default_backend_refs[..]
        else {
            panic!("one backend");
        };
        assert_eq!((&*backend.backend_ref.kind, &*backend.backend_ref.group, backend.weight), ("Service", "", 1));
        assert_eq!(backend.backend_ref.namespace, None);
    }

    #[test]
    fn a_word_that_nobody_knows_is_kept_and_refused_where_a_server_would() {
        let unknown = json!({
            "targetRefs": [{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "r" }],
            "sortMethod": "Alphabetical", "failureMode": "Panic",
        });
        let decoded = spec(&unknown);
        assert_eq!(decoded.sort_method, Some(SortMethod::Unknown("Alphabetical".into())));
        assert_eq!(decoded.failure_mode, Some(FailureMode::Unknown("Panic".into())));
        assert_eq!(
            broken(&unknown),
            [
                "spec.sortMethod is \"Alphabetical\": must be one of RouteSpecificity, TableWeight",
                "spec.failureMode is \"Panic\": must be one of RouteReplacement, FreezeConfig",
            ]
        );
    }

    #[test]
    fn a_policy_needs_a_target() {
        assert_eq!(broken(&json!({})), ["spec.targetRefs is \"0 items\": 1 to 16 items must be given"]);
    }
}
