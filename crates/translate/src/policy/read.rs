//! Reading policies. What a policy asks for and cannot have is a fault of all of it: nothing is served as if it had not
//! asked.

use api::{policy::LocalPolicyTargetReference, rewrite_policy::RewritePolicySpec};
use ir::{
    Problem, Reason, Severity,
    filter::{PathModifier, PrefixReplacement},
};
use units::UrlRewrite;

use crate::target::target_kind;

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
