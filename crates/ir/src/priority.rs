//! Whose policies win, where objects above each other have some.

/// How what an object says is merged with what is said below it: the annotation `kgateway.dev/inherited-policy-priority`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority {
    /// Whether a field of a policy that both sides have is merged deeply, in place of one side having it as a whole.
    pub deep: bool,
    /// Whether what the object says wins over what is said below it.
    pub prefers_parent: bool,
}

impl Priority {
    const ALL: [(&str, Self); 4] = [
        ("ShallowMergePreferChild", Self { deep: false, prefers_parent: false }),
        ("ShallowMergePreferParent", Self { deep: false, prefers_parent: true }),
        ("DeepMergePreferChild", Self { deep: true, prefers_parent: false }),
        ("DeepMergePreferParent", Self { deep: true, prefers_parent: true }),
    ];

    /// The value of the annotation that means this.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, priority)| *priority == self).map_or("", |(name, _)| name)
    }

    /// What a value of the annotation means; none if nothing.
    pub fn named(value: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == value).map(|(_, priority)| *priority)
    }
}
