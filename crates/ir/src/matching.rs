//! What a rule matches, and which of two matches goes first.

use std::{
    cmp::{Ordering, Reverse},
    sync::Arc,
};

use crate::{
    chain::Chain,
    hostname::HostPrecedence,
    id::{NsName, by_text},
};

mod origin;
mod tie_break;

pub use origin::{Origin, Part};
pub use tie_break::TieBreak;

/// A path as a rule asks for it (Gateway API `HTTPPathMatch`). All begin with `/`, but for expressions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// The path, character by character.
    Exact(Arc<str>),
    /// The path itself and all below it, segment by segment. A `/` at its end makes no difference but for precedence.
    Prefix(Arc<str>),
    /// An RE2 pattern that the whole path matches.
    Regex(Arc<str>),
}

/// One match of a rule, as it is written or joined with those of its ancestors: all of it must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// The path.
    pub path: Path,
    /// The method, if it matters.
    pub method: Option<Arc<str>>,
    /// Conditions on headers; a name occurs once.
    pub headers: Vec<Condition>,
    /// Conditions on query parameters; a name occurs once.
    pub queries: Vec<Condition>,
    /// What it says of gRPC, if only gRPC is meant.
    pub grpc: Option<Grpc>,
}

/// How much a match asks for of a service and a method of gRPC, which are the two segments of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Grpc {
    /// The characters of the service, or of its pattern; none for any service.
    pub service: u16,
    /// The same of the method.
    pub method: u16,
}

/// What the `content-type` of every gRPC request begins with.
pub const GRPC_CONTENT: &str = "application/grpc";

impl Match {
    /// The Envoy matches that this takes, in order.
    pub fn requests(&self) -> impl Iterator<Item = RequestMatch> {
        let paths = match &self.path {
            Path::Exact(path) => vec![(PathMatch::Exact(path.clone()), false)],
            // No gRPC request has a path of one segment.
            Path::Prefix(prefix) if self.grpc.is_some() => vec![(PathMatch::Prefix(prefix.clone()), false)],
            Path::Prefix(prefix) => RequestMatch::prefix_paths(prefix),
            Path::Regex(pattern) => vec![(PathMatch::Regex(pattern.clone()), false)],
        };
        paths.into_iter().map(|(path, implied)| RequestMatch {
            path,
            method: self.method.clone(),
            headers: self.headers.clone(),
            queries: self.queries.clone(),
            grpc: self.grpc,
            implied,
            host_with_port: false,
        })
    }
}

/// How Envoy compares a path. A prefix never matches half a segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathMatch {
    /// The path, character by character.
    Exact(Arc<str>),
    /// The path itself and all below it; begins with `/`, does not end with it, so it is never the root.
    Segments(Arc<str>),
    /// Everything that begins with this text, which ends with `/`.
    Prefix(Arc<str>),
    /// An RE2 pattern that the whole path matches.
    Regex(Arc<str>),
}

/// How a header's or query parameter's value is compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ValueMatch {
    /// Equal.
    Exact(Arc<str>),
    /// An RE2 pattern that the whole value matches.
    Regex(Arc<str>),
}

/// A condition on a header or on a query parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition {
    /// Header names are lower case; query parameter names are as written.
    pub name: Arc<str>,
    /// What its value must be.
    pub value: ValueMatch,
}

/// One match as Envoy can express it: all of it must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestMatch {
    /// The path.
    pub path: PathMatch,
    /// The method, if it matters.
    pub method: Option<Arc<str>>,
    /// Conditions on headers; a name occurs once.
    pub headers: Vec<Condition>,
    /// Conditions on query parameters; a name occurs once.
    pub queries: Vec<Condition>,
    /// What it says of gRPC, if only gRPC is meant.
    pub grpc: Option<Grpc>,
    /// True for the `/foo` that a written prefix `/foo/` also means: it gives way to a written `/foo`.
    pub implied: bool,
    /// Whether only requests are meant whose host names a port.
    pub host_with_port: bool,
}

impl RequestMatch {
    /// The Envoy matches that a path prefix means. `/foo/` means `/foo` and all below it (Gateway API), which takes
    /// two: the text with its slash, and the bare path, which gives way to a written one.
    pub fn prefix_paths(prefix: &str) -> Vec<(PathMatch, bool)> {
        let bare = prefix.trim_end_matches('/');
        if bare.is_empty() {
            vec![(PathMatch::Prefix("/".into()), false)]
        } else if bare.len() == prefix.len() {
            vec![(PathMatch::Segments(prefix.into()), false)]
        } else {
            vec![(PathMatch::Prefix(format!("{bare}/").into()), false), (PathMatch::Exact(bare.into()), true)]
        }
    }

    /// The prefix that `ReplacePrefixMatch` replaces, without a trailing slash (empty for the root); none where the
    /// match is not a prefix.
    pub fn replaceable_prefix(&self) -> Option<&str> {
        match &self.path {
            PathMatch::Segments(path) => Some(path),
            PathMatch::Prefix(path) => Some(path.trim_end_matches('/')),
            PathMatch::Exact(path) if self.implied => Some(path),
            PathMatch::Exact(_) | PathMatch::Regex(_) => None,
        }
    }
}

/// How much a match asks for: the smallest is tried first.
///
/// Gateway API, `HTTPRouteRule.matches`: exact paths before prefixes (regular expressions stand between them), longer
/// ones first, then a method, then more headers, then more query parameters. `GRPCRouteRule.matches`: longer services first,
/// then longer methods, then more headers; whether they are patterns does not count. What takes gRPC alone goes before what
/// takes any request, so that both kinds of routes can share a hostname.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Specificity {
    kind: PathKind,
    /// Of the path, or of a service of gRPC.
    path_length: Reverse<u32>,
    /// Of a method of gRPC; else whether a method is asked for, as a number.
    method: Reverse<u16>,
    headers: Reverse<u16>,
    queries: Reverse<u16>,
    implied: bool,
}

/// Where a match stands among all matches of a virtual host: the smallest is tried first.
///
/// Gateway API, `HTTPRouteSpec.hostnames` and `HTTPRouteRule.matches`: that of the route with the more specific hostname,
/// then the more specific one, then the older root route, then its name. What is left is decided within the tree of that
/// root, step by step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Precedence {
    host: HostPrecedence,
    specificity: Option<Specificity>,
    root: Age,
    steps: Arc<[Step]>,
    via: Chain,
    part: u32,
}

/// A place among the matches of a tree of routes. There is one step for the tree as a whole, and one more for each
/// route on the way that sorts its children by weight, since these stand together in its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// At the place of a match.
    At(At),
    /// Behind all that stand at this place.
    Last,
    /// Behind all that stand at this place, and not at its own, which is this.
    Left(At),
}

/// The place of a match among those it is compared with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct At {
    /// How much it asks for; none where that does not count.
    pub specificity: Option<Specificity>,
    /// Whether it gives way to all that ask for as much.
    pub gives_way: bool,
    /// Its route's weight, the greater first.
    pub weight: Reverse<i32>,
    /// Where its route is named; zero where that does not count.
    pub position: u32,
    /// Its route.
    pub age: Age,
    /// Its rule's place in the route.
    pub rule: u32,
    /// Its place in the rule.
    pub matching: u32,
    /// The matches that it stands below: of several ways to one match the narrower holds.
    pub within: Within,
}

/// How much the matches ask for that one stands below, the nearest first. The nearest that asks for more goes first, and then the
/// longer way: all of a way lies below its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Within(pub Arc<[Specificity]>);

impl PartialOrd for Within {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Within {
    fn cmp(&self, other: &Self) -> Ordering {
        let differs = self.0.iter().zip(&*other.0).map(|(own, other)| own.cmp(other)).find(|order| order.is_ne());
        differs.unwrap_or_else(|| other.0.len().cmp(&self.0.len()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum PathKind {
    Grpc,
    Exact,
    Regex,
    Prefix,
}

/// What decides between two objects that are otherwise equal: the older one, then the one that is first in the alphabet
/// when both are written as `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Age {
    /// When the object was created, in seconds since 1970.
    pub created: i64,
    /// The object.
    pub name: NsName,
}

impl Ord for Age {
    fn cmp(&self, other: &Self) -> Ordering {
        fn written(name: &NsName) -> impl Iterator<Item = u8> + '_ {
            name.namespace.bytes().chain([b'/']).chain(name.name.bytes())
        }
        self.created.cmp(&other.created).then_with(|| {
            if self.name.namespace == other.name.namespace {
                by_text(&self.name.name, &other.name.name)
            } else {
                // Not the order of namespaces: a hyphen comes before the slash. One text for two names is not a name.
                written(&self.name).cmp(written(&other.name)).then_with(|| self.name.cmp(&other.name))
            }
        })
    }
}

impl PartialOrd for Age {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Match {
    /// How much the first of its [`requests`](Self::requests) asks for, without making that.
    pub fn specificity(&self) -> Specificity {
        let (kind, length) = match (self.grpc, &self.path) {
            (Some(grpc), _) => (PathKind::Grpc, grpc.service.into()),
            (None, Path::Exact(path)) => (PathKind::Exact, path.len()),
            // Slashes at its end count as one.
            (None, Path::Prefix(path)) => {
                (PathKind::Prefix, path.len().min(path.trim_end_matches('/').len() + 1).max(1))
            }
            (None, Path::Regex(_)) => (PathKind::Regex, 0),
        };
        let method = self.grpc.map_or(self.method.is_some().into(), |grpc| grpc.method);
        Specificity::of(kind, length, method, [&self.headers, &self.queries])
    }
}

impl RequestMatch {
    /// How much it asks for.
    pub fn specificity(&self) -> Specificity {
        let (kind, length) = match (self.grpc, &self.path) {
            (Some(grpc), _) => (PathKind::Grpc, grpc.service.into()),
            (None, PathMatch::Exact(path)) if self.implied => (PathKind::Prefix, path.len()),
            (None, PathMatch::Exact(path)) => (PathKind::Exact, path.len()),
            (None, PathMatch::Regex(_)) => (PathKind::Regex, 0),
            (None, PathMatch::Segments(path) | PathMatch::Prefix(path)) => (PathKind::Prefix, path.len()),
        };
        let method = self.grpc.map_or(self.method.is_some().into(), |grpc| grpc.method);
        let all = Specificity::of(kind, length, method, [&self.headers, &self.queries]);
        Specificity { implied: self.implied, ..all }
    }
}

impl Specificity {
    /// Of what is written, with headers and queries.
    fn of(kind: PathKind, length: usize, method: u16, conditions: [&[Condition]; 2]) -> Self {
        let [headers, queries] =
            conditions.map(|conditions| Reverse(u16::try_from(conditions.len()).unwrap_or(u16::MAX)));
        let path_length = Reverse(u32::try_from(length).unwrap_or(u32::MAX));
        Self { kind, path_length, method: Reverse(method), headers, queries, implied: false }
    }
}

impl Precedence {
    /// The place of a match at `steps`, served for a hostname of its root that stands at `host`. `via` tells apart what
    /// reaches one place in several ways, `part` the Envoy routes of one match.
    pub fn new(host: HostPrecedence, root: Age, steps: Arc<[Step]>, via: Chain, part: u32) -> Self {
        let specificity = match steps.first() {
            Some(Step::At(at)) => at.specificity,
            _ => None,
        };
        Self { host, specificity, root, steps, via, part }
    }
}

#[cfg(test)]
mod tests {
    use std::{cmp::Reverse, sync::Arc};

    use super::{Age, Condition, Grpc, Match, NsName, Path, PathKind, Specificity, ValueMatch, Within};

    #[test]
    fn a_match_asks_for_as_much_as_the_first_of_its_requests() {
        let texts = ["", "/", "//", "/a", "/a/", "/a//", "/a/b/"];
        let paths = texts
            .map(Arc::<str>::from)
            .into_iter()
            .flat_map(|text| [Path::Exact(text.clone()), Path::Prefix(text.clone()), Path::Regex(text)]);
        let condition = Condition { name: "a".into(), value: ValueMatch::Exact("b".into()) };
        for path in paths {
            let plain = Match { path, method: None, headers: Vec::new(), queries: Vec::new(), grpc: None };
            let matches = [
                plain.clone(),
                Match { method: Some("GET".into()), ..plain.clone() },
                Match { headers: vec![condition.clone()], ..plain.clone() },
                Match { queries: vec![condition.clone(); 2], ..plain.clone() },
                Match { grpc: Some(Grpc { service: 3, method: 2 }), ..plain },
            ];
            for written in matches {
                let first = written.requests().next().map(|request| request.specificity());
                assert_eq!(Some(written.specificity()), first, "{written:?}");
            }
        }
    }

    #[test]
    fn of_two_ways_the_one_whose_nearest_match_asks_for_more_goes_first_and_then_the_longer() {
        let prefix = |length| Specificity {
            kind: PathKind::Prefix,
            path_length: Reverse(length),
            method: Reverse(0),
            headers: Reverse(0),
            queries: Reverse(0),
            implied: false,
        };
        let within = |lengths: &[u32]| Within(lengths.iter().map(|length| prefix(*length)).collect());
        let ways = [[6, 2].as_slice(), &[6, 1], &[6], &[2, 2, 1], &[2, 2], &[2, 1], &[1], &[]].map(within);
        assert!(ways.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn of_two_equal_objects_the_older_goes_first_and_then_the_name_as_it_is_written() {
        let age = |created, namespace: &str, name: &str| Age { created, name: NsName::new(namespace, name) };
        let sorted =
            [age(0, "z", "z"), age(1, "team", "z"), age(1, "team-a", "b"), age(1, "team-a", "c"), age(1, "zoo", "a")];
        let expected = [&sorted[0], &sorted[2], &sorted[3], &sorted[1], &sorted[4]];
        let mut ages: Vec<_> = sorted.iter().collect();
        ages.sort();
        assert_eq!(ages, expected, "team-a/b comes before team/z");
    }
}
