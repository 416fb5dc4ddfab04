//! Hostnames of listeners and routes (Gateway API `Hostname`): exact, wildcard, or any.

use std::{
    cmp::{Ordering, Reverse},
    fmt,
    sync::Arc,
};

/// What a virtual host answers to. Ordered from the most specific to the least: an exact name, then wildcards with the
/// longest suffix first, then [`Hostname::Any`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hostname {
    /// One name, such as `api.example.com`; lower case.
    Exact(Arc<str>),
    /// Every name with at least one label before this suffix; `*.example.com` is kept as `example.com`.
    Wildcard(Arc<str>),
    /// Every name.
    Any,
}

impl Hostname {
    /// Reads a hostname as Gateway API writes it; empty and `*` mean any. The text must have been validated.
    pub fn parse(text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        match text.strip_prefix("*.") {
            Some(suffix) => Self::Wildcard(suffix.into()),
            None if text.is_empty() || text == "*" => Self::Any,
            None => Self::Exact(text.into()),
        }
    }

    /// Whether every name that `other` matches is matched by this one too.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (_, Self::Any) | (Self::Exact(_), Self::Wildcard(_)) => false,
            (Self::Exact(a), Self::Exact(b)) => a == b,
            (Self::Wildcard(suffix), Self::Exact(name)) => is_below(name, suffix),
            (Self::Wildcard(suffix), Self::Wildcard(inner)) => suffix == inner || is_below(inner, suffix),
        }
    }

    /// The names that both match, if any (Gateway API, `HTTPRouteSpec.hostnames`).
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        if self.covers(other) {
            Some(other.clone())
        } else if other.covers(self) {
            Some(self.clone())
        } else {
            None
        }
    }

    /// This hostname and every one that covers it, the most specific first, ending with [`Hostname::Any`].
    pub fn covering(&self) -> impl Iterator<Item = Self> + '_ {
        let parents = match self {
            Self::Exact(name) | Self::Wildcard(name) => Some(name),
            Self::Any => None,
        };
        let suffixes = parents.into_iter().flat_map(|name| name.match_indices('.').map(|(dot, _)| &name[dot + 1..]));
        let any = (*self != Self::Any).then_some(Self::Any);
        std::iter::once(self.clone()).chain(suffixes.map(|suffix| Self::Wildcard(suffix.into()))).chain(any)
    }

    /// Where a route that names this hostname stands among the routes of one host.
    pub fn precedence(&self) -> HostPrecedence {
        HostPrecedence(Reverse(match self {
            Self::Exact(_) => u16::MAX,
            Self::Wildcard(suffix) => u16::try_from(suffix.len() + 1).unwrap_or(u16::MAX - 1),
            Self::Any => 0,
        }))
    }

    /// Envoy's virtual host domain, which is also how Gateway API writes it; `*` for any.
    pub fn domain(&self) -> String {
        match self {
            Self::Exact(name) => name.to_string(),
            Self::Wildcard(suffix) => format!("*.{suffix}"),
            Self::Any => "*".into(),
        }
    }
}

/// How much of a host's name the hostname of a route tells: the smallest is tried first.
///
/// Gateway API, `HTTPRouteSpec.hostnames`: the route with the most characters in a matching hostname without a wildcard,
/// then in a matching hostname.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPrecedence(Reverse<u16>);

fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|head| head.len() > 1 && head.ends_with('.'))
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.domain())
    }
}

impl Ord for Hostname {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |hostname: &Self| match hostname {
            Self::Exact(_) => 0,
            Self::Wildcard(_) => 1,
            Self::Any => 2,
        };
        rank(self).cmp(&rank(other)).then_with(|| match (self, other) {
            (Self::Exact(a), Self::Exact(b)) | (Self::Wildcard(a), Self::Wildcard(b)) => {
                b.len().cmp(&a.len()).then_with(|| a.cmp(b))
            }
            _ => Ordering::Equal,
        })
    }
}

impl PartialOrd for Hostname {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::Hostname;

    fn intersect(a: &str, b: &str) -> Option<String> {
        let (a, b) = (Hostname::parse(a), Hostname::parse(b));
        assert_eq!(a.intersection(&b), b.intersection(&a), "intersection does not depend on the order");
        a.intersection(&b).map(|hostname| hostname.domain())
    }

    #[test]
    fn the_more_specific_hostname_is_the_intersection() {
        assert_eq!(intersect("*.example.com", "api.example.com").as_deref(), Some("api.example.com"));
        assert_eq!(intersect("*.example.com", "*.api.example.com").as_deref(), Some("*.api.example.com"));
        assert_eq!(intersect("*", "*.example.com").as_deref(), Some("*.example.com"));
        assert_eq!(intersect("a.example.com", "a.example.com").as_deref(), Some("a.example.com"));
    }

    #[test]
    fn hostnames_without_a_name_in_common_do_not_intersect() {
        for (a, b) in [("*.example.com", "example.com"), ("*.example.com", "xexample.com"), ("a.com", "b.com")] {
            assert_eq!(intersect(a, b), None, "{a} and {b}");
        }
    }

    #[test]
    fn a_name_is_covered_by_its_wildcards_from_the_longest_suffix_on() {
        let chain: Vec<_> = Hostname::parse("a.b.com").covering().map(|hostname| hostname.domain()).collect();
        assert_eq!(chain, ["a.b.com", "*.b.com", "*.com", "*"]);
        let chain: Vec<_> = Hostname::parse("*.b.com").covering().map(|hostname| hostname.domain()).collect();
        assert_eq!(chain, ["*.b.com", "*.com", "*"]);
        assert_eq!(Hostname::Any.covering().count(), 1);
    }

    #[test]
    fn the_most_specific_hostname_sorts_first() {
        let mut hosts: Vec<_> = ["*", "*.com", "*.b.com", "b.com", "a.b.com"].map(Hostname::parse).into();
        hosts.sort();
        let sorted: Vec<_> = hosts.iter().map(Hostname::domain).collect();
        assert_eq!(sorted, ["a.b.com", "b.com", "*.b.com", "*.com", "*"]);
        let covering: Vec<_> = Hostname::parse("a.b.com").covering().map(|hostname| hostname.precedence()).collect();
        assert!(covering.is_sorted_by(|a, b| a < b), "{covering:?}");
    }
}
