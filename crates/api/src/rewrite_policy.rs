//! RewritePolicy.

use serde::{Deserialize, Serialize};

use crate::{
    meta::ObjectMeta,
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector},
};

/// Says by what the routing prefix of a request is replaced before the request goes to a backend.
///
/// Attached by its own targets or by an `extensionRef` of a route, so one without targets is a valid one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RewritePolicy {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What the owner wants.
    pub spec: RewritePolicySpec,
}

/// What the owner of the policy wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
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
}

/// By what one routing prefix is replaced.
///
/// What the schema lets through is kept as it was written, so that whoever reads it can tell what is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
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
