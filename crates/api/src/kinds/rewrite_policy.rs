//! RewritePolicy.

use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Violation,
    meta::CustomResource,
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector, Targets},
    schema::{
        Own, Schema, Spec,
        openapi::{
            Node,
            policy::{TARGET_REFS, TARGET_SELECTOR},
            values::{list, optional, required, text},
        },
        rules::{
            Broken,
            policy::{HTTP_ROUTE, HTTP_ROUTE_REFS, HTTP_ROUTE_SELECTORS, targets},
        },
    },
};

/// Says by what the routing prefix of a request is replaced before the request goes to a backend.
///
/// Attached by its own targets or by an `extensionRef` of a route, so one without targets is a valid one.
pub type RewritePolicy = CustomResource<RewritePolicySpec>;

/// What is replaced, and for which routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RewritePolicySpec {
    /// The HTTPRoutes that the policy applies to, or rules of them. A policy may also be named by an extensionRef
    /// filter of a rule, and then needs no target.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<LocalPolicyTargetReference>,
    /// The HTTPRoutes that the policy applies to, by their labels.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_selectors: Vec<LocalPolicyTargetSelector>,
    /// By what routing prefixes are replaced. The entry whose prefix is the routing prefix of a request counts, else
    /// the entry without a prefix; without either nothing is rewritten. At least one entry must be there, no prefix
    /// twice and at most one entry without a prefix, or every route that the policy applies to is replaced by an error
    /// response.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replace_prefix: Vec<ReplacePrefix>,
    /// Why the rest could not be read, if so: then only the targets are there, for the policy to be refused on them.
    #[serde(skip)]
    pub invalid: Box<[Violation]>,
}

/// By what one routing prefix is replaced.
///
/// What the schema lets through is kept as it was written, so that whoever reads it can tell what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplacePrefix {
    /// The routing prefix that is replaced: the whole of it as the chain of parents renders it, such as /v1/orders
    /// where a parent matches /v1 and hands down to a child that matches /orders. A slash at its end does not count.
    /// Any routing prefix if not set; must not be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Box<str>>,
    /// What takes its place; must begin with a slash. The rest of the path follows after exactly one slash, and the
    /// query string is kept.
    pub replacement: Box<str>,
}

impl Spec for RewritePolicySpec {
    const SCHEMA: Schema = Schema::of(&SPEC).own(Own {
        about: "Says by what the routing prefix of a request is replaced before the request goes to a backend.",
        describe: SchemaGenerator::into_root_schema_for::<Self>,
        rules: &[HTTP_ROUTE_REFS, HTTP_ROUTE_SELECTORS],
    });

    fn check(&self, broken: &mut Broken) {
        targets(&self.target_refs, &self.target_selectors, HTTP_ROUTE, HTTP_ROUTE_REFS.message, broken);
    }

    fn targets_only(spec: &Value, invalid: Violation) -> Option<Self> {
        let Targets { refs, selectors } = Targets::readable(spec);
        Some(Self { target_refs: refs, target_selectors: selectors, invalid: [invalid].into(), ..Self::default() })
    }

    fn invalid(&self) -> &[Violation] {
        &self.invalid
    }
}

/// What is wrong with an entry is told by the policy's status, where the routes that it concerns are told too.
static SPEC: Node = Node::Object(&[
    optional("targetRefs", &TARGET_REFS),
    optional("targetSelectors", &FEW_TARGET_SELECTORS),
    optional("replacePrefix", &REPLACE_PREFIX),
]);
static FEW_TARGET_SELECTORS: Node = list(0, 16, &TARGET_SELECTOR);
static REPLACE_PREFIX: Node = list(0, 256, &REPLACE_PREFIX_ENTRY);
static REPLACE_PREFIX_ENTRY: Node = Node::Object(&[optional("prefix", &PATH), required("replacement", &PATH)]);
static PATH: Node = text(0, 1024);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{DecodeError, Decoded, Object, decode, violations};

    fn decoded(spec: &Value) -> Result<Decoded, DecodeError> {
        decode(json!({
            "apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "RewritePolicy",
            "metadata": { "name": "p" }, "spec": spec,
        }))
    }

    #[test]
    fn what_only_a_status_can_refuse_is_kept_as_written() {
        let entries = json!([
            { "replacement": "" },
            { "replacement": "relative" },
            { "prefix": "", "replacement": "/a" },
            { "prefix": "/a/", "replacement": "/a" },
        ]);
        for entries in [entries, json!([])] {
            let Decoded { object, unknown_fields } = decoded(&json!({ "replacePrefix": entries })).expect("a policy");
            assert_eq!(unknown_fields, [""; 0]);
            assert_eq!(violations(&object), []);
            let Object::RewritePolicy(policy) = object else { panic!("another kind") };
            assert_eq!(serde_json::to_value(&policy.spec.replace_prefix).expect("encodes"), entries);
        }
    }

    #[test]
    fn an_entry_without_a_replacement_does_not_decode() {
        let error = decoded(&json!({ "replacePrefix": [{ "prefix": "/a" }] })).expect_err("refused").to_string();
        assert_eq!(error, "RewritePolicy default/p: spec.replacePrefix[0].replacement is missing");
    }

    #[test]
    fn a_field_that_nobody_knows_is_reported() {
        let spec = json!({ "replacePrefix": [{ "prefx": "/a", "replacement": "/b" }], "pathRegex": {} });
        let unknown = decoded(&spec).expect("a policy").unknown_fields;
        assert_eq!(unknown, ["spec.pathRegex", "spec.replacePrefix[0].prefx"]);
    }
}
