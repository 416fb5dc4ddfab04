//! What a proxy refused, and what came of looking who is to blame.

use std::time::{Duration, Instant};

use envoy::judged::{Fragment, Kind};
use ir::NsName;
use jiff::Timestamp;
use judge::Refusal;
use records::verdicts;
use translate::inspect::Sent;
use xds::{EnvoyVersion, Resource, ResourceType, Version};

use crate::strict::words;

/// A route configuration, or clusters that came together, which a proxy refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) gateway: NsName,
    pub(super) kind: ResourceType,
    pub(super) names: Vec<(String, Version)>,
    /// The route configuration with which the proxy goes on.
    pub(super) before: Option<Resource>,
    pub(super) envoy: Option<EnvoyVersion>,
    pub(super) since: Instant,
}

impl Refused {
    /// The route configuration; none of clusters.
    pub(super) fn routes(&self) -> Option<(&str, Version)> {
        let named = self.names.first().filter(|_| self.kind == ResourceType::RouteConfiguration);
        named.map(|(name, version)| (&**name, *version))
    }
}

/// Who is to blame for what a proxy refused.
#[derive(Debug)]
pub struct Isolated {
    pub(super) refused: Refused,
    pub(super) outcome: Outcome,
    /// With the content hash of each, in hexadecimal digits.
    pub(super) found: Vec<(String, records::Verdict)>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Found,
    /// Each part is taken by itself.
    Innocent,
    /// Others of its version take what the proxy refuses.
    Contradicted,
    /// Something newer came.
    Overtaken,
    Unfinished,
    /// Nobody can be asked, or too much waits for it.
    Unjudged,
    /// The proxy is of another version, or does not say which.
    OtherVersion,
    /// There is no room for some.
    Full,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Innocent => "innocent",
            Self::Contradicted => "contradicted",
            Self::Overtaken => "overtaken",
            Self::Unfinished => "unfinished",
            Self::Unjudged => "unjudged",
            Self::OtherVersion => "other_version",
            Self::Full => "full",
        }
    }

    /// Whether the same comes of it another time.
    pub(super) fn is_final(self) -> bool {
        matches!(self, Self::Found | Self::Innocent | Self::Contradicted | Self::Full)
    }
}

impl Isolated {
    /// One of which nothing was found.
    pub(super) fn new(refused: Refused, outcome: Outcome) -> Self {
        Self { refused, outcome, found: Vec::new() }
    }

    /// Takes out what was found.
    pub(in super::super) fn take_found(&mut self) -> Vec<(String, records::Verdict)> {
        std::mem::take(&mut self.found)
    }

    /// Some of it found no room.
    pub(in super::super) fn set_full(&mut self) {
        self.outcome = Outcome::Full;
    }

    /// As metrics call what came of it, and how long that took.
    pub(in super::super) fn outcome(&self) -> (&'static str, Duration) {
        let Refused { gateway, kind, names, since, .. } = &self.refused;
        let (outcome, name) = (self.outcome.as_str(), names.first().map_or("", |(name, _)| name));
        tracing::info!(%gateway, %kind, name, count = names.len(), outcome, "it was looked who is to blame for what a proxy refused");
        (outcome, since.elapsed())
    }
}

/// The content hash of a part, as it is recorded.
pub(super) fn hash(fragment: &Fragment) -> String {
    format!("{:032x}", u128::from_be_bytes(fragment.hash))
}

/// What is recorded of a part that is to blame.
pub(super) fn recorded(refused: &Refused, sent: &Sent, refusal: &Refusal, how: &str) -> (String, records::Verdict) {
    let verdict = records::Verdict {
        part: if sent.fragment.kind == Kind::Cluster { verdicts::CLUSTER } else { verdicts::ROUTE }.to_owned(),
        kind: sent.object.kind.to_string(),
        namespace: sent.object.namespace.to_string(),
        name: sent.object.name.to_string(),
        gateway: refused.gateway.to_string(),
        version: refusal.build.number().to_owned(),
        how: how.to_owned(),
        words: words(sent, refusal),
        since: Timestamp::now(),
        unused_since: None,
    };
    (hash(&sent.fragment), verdict)
}
