//! Reading policies. What a policy asks for and cannot have is a fault of all of it: nothing is served as if it had not
//! asked.

use std::cmp::Reverse;

use api::{meta::ObjectMeta, policy::LocalPolicyTargetReference, rewrite_policy::RewritePolicySpec};
use ir::{
    Problem, Reason, Severity,
    filter::{PathModifier, PrefixReplacement},
};
use units::UrlRewrite;

use super::target_kind;

/// The annotation with a policy's weight among those of one target.
const WEIGHT: &str = "kgateway.dev/policy-weight";

/// The greater first; what is no weight counts as none.
pub(super) fn weight(metadata: &ObjectMeta) -> Reverse<i32> {
    Reverse(written_weight(metadata).and_then(|weight| weight.trim().parse().ok()).unwrap_or_default())
}

fn written_weight(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.get(WEIGHT).map(AsRef::as_ref)
}

/// A weight that is none.
pub(crate) fn weight_problem(metadata: &ObjectMeta) -> Option<Problem> {
    let written = written_weight(metadata).filter(|written| written.trim().parse::<i32>().is_err())?;
    let message = format!("{written:?} means nothing here: it counts as 0; use a whole number of 32 bits");
    Some(Problem::new(Severity::Ignored, Reason::UnsupportedValue, format!("metadata.annotations[{WEIGHT}]"), message))
}

fn refused(reason: Reason, field: impl Into<String>, message: impl Into<String>) -> Problem {
    Problem::new(Severity::Refused, reason, field, message)
}

/// What a RewritePolicy says.
pub(super) fn rewrite(spec: &RewritePolicySpec) -> Result<UrlRewrite, Problem> {
    let is_route = |target: &&LocalPolicyTargetReference| {
        target_kind(api::Kind::RewritePolicy, &target.group, &target.kind).is_some()
    };
    if spec.target_refs.iter().any(|target| !is_route(&target))
        || spec
            .target_selectors
            .iter()
            .any(|target| target_kind(api::Kind::RewritePolicy, &target.group, &target.kind).is_none())
    {
        return Err(refused(
            Reason::Invalid,
            "spec.targetRefs",
            "only HTTPRoutes can be targets; correct group and kind",
        ));
    }
    let invalid = |field: String, message: String| refused(Reason::InvalidReplacement, field, message);
    if spec.replace_prefix.is_empty() {
        let message = "it has no entry; name a replacement, or remove the policy";
        return Err(invalid("spec.replacePrefix".into(), message.into()));
    }
    let mut entries: Vec<PrefixReplacement> = Vec::with_capacity(spec.replace_prefix.len());
    for (index, entry) in spec.replace_prefix.iter().enumerate() {
        let field = format!("spec.replacePrefix[{index}]");
        let replacement = &*entry.replacement;
        validate::path::rewrite(replacement)
            .map_err(|refused| invalid(format!("{field}.replacement"), refused.to_string()))?;
        let prefix = entry.prefix.as_deref();
        if prefix == Some("") {
            return Err(invalid(
                format!("{field}.prefix"),
                "it is empty; name a prefix, or leave it out for all".into(),
            ));
        }
        // Compared as it is matched: a slash at the end does not count.
        let prefix = prefix.map(|prefix| prefix.trim_end_matches('/').into());
        if let Some(first) = entries.iter().position(|known| known.prefix == prefix) {
            return Err(match prefix {
                Some(_) => {
                    let message = format!("it repeats spec.replacePrefix[{first}].prefix; remove one of the entries");
                    refused(Reason::DuplicateReplacement, format!("{field}.prefix"), message)
                }
                None => {
                    let message =
                        format!("like spec.replacePrefix[{first}] it names no prefix; name one, or remove an entry");
                    refused(Reason::AmbiguousReplacement, field, message)
                }
            });
        }
        entries.push(PrefixReplacement { prefix, replacement: replacement.into() });
    }
    Ok(UrlRewrite { path: PathModifier::Prefixes(entries.into()) })
}
