//! What routes say in annotations, and in a label that is read like one.

use api::meta::ObjectMeta;
use ir::{
    Problem, Reason, Severity,
    delegation::Priority,
    route::{Annotations, REQUIRE_AUTH},
};

const INHERIT_MATCHER: &str = "delegation.kgateway.dev/inherit-parent-matcher";
const WEIGHT: &str = "kgateway.dev/route-weight";
/// Whose policies win, a parent's or its children's.
pub(crate) const PRIORITY: &str = "kgateway.dev/inherited-policy-priority";

/// What they say; a value of an annotation that means nothing counts as none.
pub(crate) fn read(metadata: &ObjectMeta) -> Annotations {
    let value = |name| metadata.annotations.get(name).map(AsRef::as_ref);
    Annotations {
        inherits_matcher: value(INHERIT_MATCHER).and_then(yes_or_no).unwrap_or_default(),
        weight: value(WEIGHT).and_then(|weight| weight.trim().parse().ok()).unwrap_or_default(),
        priority: value(PRIORITY).and_then(Priority::named).unwrap_or_default(),
        // Whoever wrote what means nothing wanted something.
        requires_auth: metadata.labels.get(REQUIRE_AUTH).is_some_and(|value| yes_or_no(value).unwrap_or(true)),
    }
}

fn yes_or_no(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "enabled" => Some(true),
        "false" | "no" | "disabled" | "" => Some(false),
        _ => None,
    }
}

/// What is told of a priority that means nothing.
pub(crate) const PRIORITY_REMEDY: &str = "it counts as ShallowMergePreferChild; use that, ShallowMergePreferParent, \
                                          DeepMergePreferChild or DeepMergePreferParent";

/// Whether the priority of an object means something, if it has one.
pub(crate) fn priority_is_sound(metadata: &ObjectMeta) -> bool {
    metadata.annotations.get(PRIORITY).is_none_or(|value| Priority::named(value).is_some())
}

/// The annotations whose value means nothing, and the label.
pub(super) fn problems(metadata: &ObjectMeta) -> Vec<Problem> {
    let is_weight = |value: &str| value.trim().parse::<i32>().is_ok();
    let annotations = [INHERIT_MATCHER, WEIGHT, PRIORITY].into_iter().filter_map(|name| {
        let value = metadata.annotations.get(name)?;
        let (sound, remedy) = match name {
            INHERIT_MATCHER => (yes_or_no(value).is_some(), "it counts as false; use true or false"),
            WEIGHT => (is_weight(value), "it counts as 0; use a whole number of 32 bits"),
            _ => (priority_is_sound(metadata), PRIORITY_REMEDY),
        };
        (!sound).then(|| meaningless(Severity::Ignored, "annotations", name, value, remedy))
    });
    let label = metadata.labels.get(REQUIRE_AUTH).filter(|value| yes_or_no(value).is_none());
    let remedy = "it counts as true; use true or false";
    let label = label.map(|value| meaningless(Severity::Warning, "labels", REQUIRE_AUTH, value, remedy));
    annotations.chain(label).collect()
}

fn meaningless(severity: Severity, of: &str, name: &str, value: &str, remedy: &str) -> Problem {
    let message = format!("{value:?} means nothing here: {remedy}");
    Problem::new(severity, Reason::UnsupportedValue, format!("metadata.{of}[{name}]"), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(name: &str, value: &str) -> ObjectMeta {
        ObjectMeta { annotations: [(name, value)].into(), ..ObjectMeta::default() }
    }

    #[test]
    fn a_value_that_means_nothing_is_told_and_counts_as_none() {
        for (name, sound, nonsense) in [
            (INHERIT_MATCHER, ["true", "YES", "Enabled", "false"], ["1", "on", "tru"]),
            (WEIGHT, ["5", "-5", "2147483647", "-2147483648"], ["2147483648", "5.0", "high"]),
            (
                PRIORITY,
                [
                    "ShallowMergePreferChild",
                    "ShallowMergePreferParent",
                    "DeepMergePreferChild",
                    "DeepMergePreferParent",
                ],
                ["PreferParent", "shallowMergePreferParent", ""],
            ),
        ] {
            for value in sound {
                assert_eq!(problems(&metadata(name, value)), [], "{name} {value}");
            }
            for value in nonsense {
                let metadata = metadata(name, value);
                assert_eq!(problems(&metadata).len(), 1, "{name} {value}");
                assert_eq!(read(&metadata), Annotations::default(), "{name} {value}");
            }
        }
        for (value, demands, told) in
            [("true", true, 0), ("True", true, 0), ("false", false, 0), ("", false, 0), ("ture", true, 1)]
        {
            let labels = [(REQUIRE_AUTH, value)].into();
            let metadata = ObjectMeta { labels, ..ObjectMeta::default() };
            assert_eq!((read(&metadata).requires_auth, problems(&metadata).len()), (demands, told), "{value}");
        }
        assert!(read(&metadata(INHERIT_MATCHER, "YES")).inherits_matcher);
        assert_eq!(read(&metadata(WEIGHT, "-5")).weight, -5);
        for name in
            ["ShallowMergePreferChild", "ShallowMergePreferParent", "DeepMergePreferChild", "DeepMergePreferParent"]
        {
            assert_eq!(read(&metadata(PRIORITY, name)).priority.as_str(), name);
        }
    }
}
