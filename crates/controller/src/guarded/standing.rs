//! What stands in the place of an object that is set aside.

use std::fmt;

use api::{Kind, Object, Violation, meta::StringMap};
use records::quarantine::kept_manifest;

/// What stands in the place of an object.
#[derive(Debug)]
pub(super) enum Standing {
    /// Its last version.
    Kept(Object),
    /// A policy that has no more than its targets, which are closed.
    Targets(Object),
    /// Nothing.
    Nothing,
}

impl Standing {
    /// In the place of `object`, with the version that was in force before, if it may stay so.
    pub(super) fn of(object: &Object, kept: Option<Object>) -> Self {
        let why = || Violation::without_value("spec", "is set aside, since this release of Portcullis fails on it");
        // What cannot be recorded would be another one in another process.
        let is_it = |kept: &Object| {
            kept.metadata().map(|of| &of.uid) == object.metadata().map(|of| &of.uid) && kept_manifest(kept).is_some()
        };
        if let Some(mut kept) = kept.filter(|kept| !kept.kind().is_built_in() && is_it(kept)) {
            if let (Some(kept), Some(metadata)) = (kept.metadata_mut(), object.metadata()) {
                kept.creation_timestamp = metadata.creation_timestamp;
            }
            return Self::Kept(kept);
        }
        let Some(mut targets) = object.targets_only(why()) else { return Self::Nothing };
        if let Some(metadata) = targets.metadata_mut() {
            metadata.annotations = StringMap::default();
            metadata.labels = StringMap::default();
        }
        Self::Targets(targets)
    }

    /// Whether this can stand in the place of an object of this kind: without its class everything of it would be somebody
    /// else's.
    pub(super) fn is_possible(&self, kind: Kind) -> bool {
        kind != Kind::GatewayClass || !matches!(self, Self::Nothing)
    }

    /// The older version.
    pub(super) fn kept(&self) -> Option<&Object> {
        if let Self::Kept(object) = self { Some(object) } else { None }
    }

    /// What is in force.
    pub(super) fn object(&self) -> Option<Object> {
        match self {
            Self::Kept(object) | Self::Targets(object) => Some(object.clone()),
            Self::Nothing => None,
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kept(_) => "its last version stays in force",
            Self::Targets(_) => "what it targets is closed",
            Self::Nothing => "it counts as not there",
        })
    }
}
