//! What a rule does to a request and its response, apart from where it sends it.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use crate::id::Port;

/// Changes to headers, if there are any: most rules have none, and there are many rules.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct HeaderModifier(Option<Box<HeaderChanges>>);

/// Changes to headers (Gateway API `HTTPHeaderFilter`). Names are lower case and occur once a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeaderChanges {
    /// Replaced, or added where absent.
    pub set: Vec<(Arc<str>, Arc<str>)>,
    /// Added beside what is there.
    pub add: Vec<(Arc<str>, Arc<str>)>,
    /// Removed.
    pub remove: Vec<Arc<str>>,
}

impl From<HeaderChanges> for HeaderModifier {
    fn from(changes: HeaderChanges) -> Self {
        Self((changes != NOTHING).then(|| Box::new(changes)))
    }
}

static NOTHING: HeaderChanges = HeaderChanges { set: Vec::new(), add: Vec::new(), remove: Vec::new() };

impl Deref for HeaderModifier {
    type Target = HeaderChanges;

    fn deref(&self) -> &HeaderChanges {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl fmt::Debug for HeaderModifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl HeaderModifier {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// These changes, then those of `second`, as one set of changes. Envoy removes before it adds, so what is removed in
    /// the end is not added at all.
    #[must_use]
    pub fn then(&self, second: &Self) -> Self {
        let named = |name: &str| {
            let changed = second.set.iter().any(|(set, _)| **set == *name);
            changed || second.remove.iter().any(|removed| **removed == *name)
        };
        let kept = |headers: &[(Arc<str>, Arc<str>)]| -> Vec<_> {
            headers.iter().filter(|(name, _)| !named(name)).cloned().collect()
        };
        let (mut set, mut add) = (kept(&self.set), kept(&self.add));
        let mut remove = self.remove.clone();
        set.extend_from_slice(&second.set);
        add.extend_from_slice(&second.add);
        remove.extend(second.remove.iter().filter(|name| !self.remove.contains(name)).cloned());
        HeaderChanges { set, add, remove }.into()
    }
}

/// A new path (Gateway API `HTTPPathModifier`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathModifier {
    /// The whole path; the query string is kept.
    Full(Arc<str>),
    /// In place of the matched prefix. The formula: strip a trailing `/` from prefix and replacement; the result is the
    /// replacement and the rest of the path, or `/` if that is empty.
    Prefix(Arc<str>),
    /// The same, by which prefix it is: see [`PrefixReplacement::choose`].
    Prefixes(Arc<[PrefixReplacement]>),
    /// In place of what an expression finds in the path.
    Regex {
        /// RE2.
        pattern: Arc<str>,
        /// `\1` stands for the first group, `\\` for a backslash.
        substitution: Arc<str>,
    },
}

/// What takes the place of one prefix, or of any.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PrefixReplacement {
    /// The prefix without a slash at its end, so that the root is empty; none means any.
    pub prefix: Option<Arc<str>>,
    /// As in [`PathModifier::Prefix`].
    pub replacement: Arc<str>,
}

impl PrefixReplacement {
    /// The place of the entry that counts for a prefix, which has no slash at its end: the one that names it, else the one
    /// that names none.
    pub fn choose(entries: &[Self], prefix: &str) -> Option<usize> {
        let named = |entry: &Self| entry.prefix.as_deref() == Some(prefix);
        entries.iter().position(named).or_else(|| entries.iter().position(|entry| entry.prefix.is_none()))
    }
}

/// A rewrite of host and path (Gateway API `HTTPURLRewriteFilter`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rewrite {
    /// The new host.
    pub hostname: Option<Arc<str>>,
    /// The new path.
    pub path: Option<PathModifier>,
}

/// `http` or `https`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// As written in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port that a URL of this scheme leaves out.
    pub fn well_known_port(self) -> Port {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A redirect (Gateway API `HTTPRequestRedirectFilter`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Redirect {
    /// The scheme, if it changes.
    pub scheme: Option<Scheme>,
    /// The host, if it changes.
    pub hostname: Option<Arc<str>>,
    /// The port, if it is given.
    pub port: Option<Port>,
    /// The path, if it changes.
    pub path: Option<PathModifier>,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A copy of requests sent to a backend whose answer is ignored (Gateway API `HTTPRequestMirrorFilter`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mirror {
    /// The cluster that gets the copy.
    pub cluster: Arc<str>,
    /// The share that is copied, as numerator and denominator (never zero); none means all.
    pub fraction: Option<(u32, u32)>,
}

/// Cross-origin resource sharing (Gateway API `HTTPCORSFilter`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cors {
    /// `*`, or `scheme://host[:port]`, the host possibly with a leading wildcard label.
    pub allow_origins: Vec<Arc<str>>,
    /// Methods; `*` alone means all.
    pub allow_methods: Vec<Arc<str>>,
    /// Request headers; `*` alone means all.
    pub allow_headers: Vec<Arc<str>>,
    /// Response headers that scripts may read.
    pub expose_headers: Vec<Arc<str>>,
    /// Whether credentials may be sent.
    pub allow_credentials: bool,
    /// How long a browser may remember the answer.
    pub max_age: Option<Duration>,
}

/// The filters of a rule that change what passes through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filters {
    /// On the way in.
    pub request_headers: HeaderModifier,
    /// On the way out.
    pub response_headers: HeaderModifier,
    /// Host and path.
    pub rewrite: Rewrite,
    /// Copies.
    pub mirrors: Vec<Mirror>,
    /// Cross-origin rules.
    pub cors: Option<Cors>,
}
