//! Records as people see them.

use std::fmt;

use jiff::Timestamp;
use records::{Entry, Quarantine, RecordKind, Verdict, Verdicts, quarantine, quarantine::RELEASE, verdicts};
use serde::{Serialize, de::DeserializeOwned};

/// A record of which there is one.
pub(super) trait Record: Default + Serialize + DeserializeOwned {
    /// The kind.
    const KIND: RecordKind;
    /// The name.
    const NAME: &'static str;
    /// What all of it is.
    const WHAT: &'static str;
    /// What an entry does: a verb.
    const DOES: &'static str;
    /// What is said where there is no entry.
    const NOTHING: &'static str;

    /// An entry.
    type Listed: Listed;

    /// All entries.
    fn listed(&self) -> Vec<Self::Listed>;

    /// Takes out one. Whether it was there.
    fn forget(&mut self, id: &str) -> bool;
}

/// An entry, without what its object says, which may be secret.
pub(super) trait Listed: fmt::Debug + Serialize {
    /// By which people name it.
    fn id(&self) -> &str;

    /// What it is about.
    fn object(&self) -> &str;

    /// Since when, and what is to be known of it at a glance.
    fn state(&self) -> String;

    /// All of it, a line each.
    fn lines(&self) -> Vec<(&'static str, String)>;
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// An object that is set aside.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Aside {
    id: String,
    object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    state: String,
    since: String,
    versions: u32,
    release: String,
    fault: String,
    in_its_place: &'static str,
}

impl From<&Entry> for Aside {
    fn from(entry: &Entry) -> Self {
        let now = Timestamp::now();
        let state = match entry.until.filter(|_| entry.is_waiting(now)) {
            _ if entry.release != RELEASE => "of another release".to_owned(),
            _ if entry.over => "over".to_owned(),
            Some(until) => format!("set aside, and nothing else of it is tried before {}", seconds(until)),
            None => "set aside".to_owned(),
        };
        Self {
            id: entry.id(),
            object: entry.to_string(),
            uid: entry.uid.clone(),
            state,
            since: seconds(entry.since),
            versions: entry.versions,
            release: entry.release.clone(),
            fault: entry.fault.clone(),
            in_its_place: if entry.kept.is_some() {
                "its last version"
            } else {
                "nothing, or of a policy its targets, closed"
            },
        }
    }
}

impl Listed for Aside {
    fn id(&self) -> &str {
        &self.id
    }

    fn object(&self) -> &str {
        &self.object
    }

    fn state(&self) -> String {
        format!("{}  {}", self.since, self.state)
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let Self { id, object, uid, state, since, versions, release, fault, in_its_place } = self;
        let text = str::to_owned;
        vec![
            ("id", text(id)),
            ("object", text(object)),
            ("uid", text(uid)),
            ("state", text(state)),
            ("since", text(since)),
            ("versions", versions.to_string()),
            ("release", text(release)),
            ("fault", text(fault)),
            ("in its place", text(in_its_place)),
        ]
    }
}

impl Record for Quarantine {
    const KIND: RecordKind = RecordKind::Quarantine;
    const NAME: &'static str = quarantine::NAME;
    const WHAT: &'static str = "what is set aside";
    const DOES: &'static str = "sets aside";
    const NOTHING: &'static str = "nothing is set aside";

    type Listed = Aside;

    fn listed(&self) -> Vec<Aside> {
        self.entries.iter().map(Aside::from).collect()
    }

    fn forget(&mut self, id: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.id() != id);
        self.entries.len() != before
    }
}

/// What proxies refused.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Refused {
    id: String,
    object: String,
    part: String,
    gateway: String,
    version: String,
    how: String,
    words: String,
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    unused_since: Option<String>,
}

impl Refused {
    fn of(hash: &str, verdict: &Verdict) -> Self {
        Self {
            id: verdicts::id(hash).to_owned(),
            object: verdict.to_string(),
            part: verdict.part.clone(),
            gateway: verdict.gateway.clone(),
            version: verdict.version.clone(),
            how: verdict.how.clone(),
            words: verdict.words.clone(),
            since: seconds(verdict.since),
            unused_since: verdict.unused_since.map(seconds),
        }
    }
}

impl Listed for Refused {
    fn id(&self) -> &str {
        &self.id
    }

    fn object(&self) -> &str {
        &self.object
    }

    fn state(&self) -> String {
        let Self { since, words, unused_since, .. } = self;
        let unused = if unused_since.is_some() { "unused: " } else { "" };
        format!("{since}  {unused}{words}")
    }

    fn lines(&self) -> Vec<(&'static str, String)> {
        let Self { id, object, part, gateway, version, how, words, since, unused_since } = self;
        let text = str::to_owned;
        vec![
            ("id", text(id)),
            ("object", text(object)),
            ("part", text(part)),
            ("gateway", text(gateway)),
            ("version", text(version)),
            ("how", text(how)),
            ("words", text(words)),
            ("since", text(since)),
            ("unused since", unused_since.clone().unwrap_or_default()),
        ]
    }
}

impl Record for Verdicts {
    const KIND: RecordKind = RecordKind::Verdicts;
    const NAME: &'static str = verdicts::NAME;
    const WHAT: &'static str = "what proxies refused";
    const DOES: &'static str = "is about";
    const NOTHING: &'static str = "no proxy refused anything";

    type Listed = Refused;

    fn listed(&self) -> Vec<Refused> {
        self.entries.iter().map(|(hash, verdict)| Refused::of(hash, verdict)).collect()
    }

    fn forget(&mut self, id: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|hash, _| verdicts::id(hash) != id);
        self.entries.len() != before
    }
}
