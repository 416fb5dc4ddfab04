//! Why one match goes before another, for people.

use std::{cmp::Ordering, fmt};

use super::{Age, At, PathKind, Precedence, Specificity, Step};
use crate::chain::Chain;

/// The first thing in which a match that goes before another differs from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TieBreak {
    /// Its root names a more specific hostname.
    Hostname,
    /// What takes gRPC alone goes before what takes any request.
    Grpc,
    /// It asks for a longer service of gRPC.
    GrpcService,
    /// It asks for a longer method of gRPC.
    GrpcMethod,
    /// Exact paths go before regular expressions, and these before prefixes.
    PathKind,
    /// Its path is longer.
    PathLength,
    /// It asks for a method.
    Method,
    /// It asks for more headers.
    Headers,
    /// It asks for more query parameters.
    Queries,
    /// The other is the bare path that a prefix with a slash at its end means too, and gives way to a written one.
    Written,
    /// Its root route is older.
    RootAge,
    /// Its root route is as old, and its name comes first.
    RootName,
    /// Its place is that of a match of a rule whose children are sorted by themselves.
    Place,
    /// The other stands in for references that are missing, behind what children serve.
    StandIn,
    /// Its route has the greater weight.
    Weight,
    /// Its route is named first by the parent.
    Position,
    /// Its route is older.
    Age,
    /// Its route is as old, and its name comes first.
    Name,
    /// Its rule comes first in the route.
    Rule,
    /// Its match comes first in the rule.
    Match,
    /// The matches of its parents ask for more.
    Within,
    /// The way to it from the root comes first.
    Way,
}

impl fmt::Display for TieBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hostname => "the hostname of its root route is more specific",
            Self::Grpc => "a GRPCRoute goes before an HTTPRoute",
            Self::GrpcService => "its service has more characters",
            Self::GrpcMethod => "its method has more characters",
            Self::PathKind => "Exact goes before RegularExpression, and that before PathPrefix",
            Self::PathLength => "its path is longer",
            Self::Method => "it asks for a method",
            Self::Headers => "it asks for more headers",
            Self::Queries => "it asks for more query parameters",
            Self::Written => "its path is written without a slash at its end, and the other's with one",
            Self::RootAge => "all else being equal, its root route is older",
            Self::RootName => "all else being equal, the name of its root route comes first",
            Self::Place => "the match of the parent that it stands below goes first",
            Self::StandIn => "the other only answers for references that are missing",
            Self::Weight => "all else being equal, its route has the greater route-weight",
            Self::Position => "its route is named first by the parent",
            Self::Age => "all else being equal, its route is older",
            Self::Name => "all else being equal, the name of its route comes first",
            Self::Rule => "all else being equal, its rule comes first in the route",
            Self::Match => "all else being equal, its match comes first in the rule",
            Self::Within => "all else being equal, the matches of the parents on its way ask for more",
            Self::Way => "all else being equal, its way from the root comes first",
        })
    }
}

impl Precedence {
    /// The way from the root to the route that the match is of.
    pub fn via(&self) -> &Chain {
        &self.via
    }

    /// In what this goes before `other`; none if it does not.
    pub fn tie_break(&self, other: &Self) -> Option<TieBreak> {
        if self >= other {
            return None;
        }
        if self.host != other.host {
            return Some(TieBreak::Hostname);
        }
        let by_specificity = specificity(self.specificity.as_ref(), other.specificity.as_ref());
        let by_root = || age(&self.root, &other.root, TieBreak::RootAge, TieBreak::RootName);
        let by_steps = || {
            let mut pairs = self.steps.iter().zip(other.steps.iter());
            let by_step = pairs.find_map(|(own, other)| step(own, other));
            by_step.or(matches!(other.steps.get(self.steps.len()), Some(Step::Left(_))).then_some(TieBreak::StandIn))
        };
        Some(by_specificity.or_else(by_root).or_else(by_steps).unwrap_or(TieBreak::Way))
    }
}

fn specificity(own: Option<&Specificity>, other: Option<&Specificity>) -> Option<TieBreak> {
    let (Some(own), Some(other)) = (own, other) else { return (own != other).then_some(TieBreak::Place) };
    let (is_grpc, is_other) = (own.kind == PathKind::Grpc, other.kind == PathKind::Grpc);
    if own.kind != other.kind {
        Some(if is_grpc || is_other { TieBreak::Grpc } else { TieBreak::PathKind })
    } else if own.path_length != other.path_length {
        Some(if is_grpc { TieBreak::GrpcService } else { TieBreak::PathLength })
    } else if own.method != other.method {
        Some(if is_grpc { TieBreak::GrpcMethod } else { TieBreak::Method })
    } else if own.headers != other.headers {
        Some(TieBreak::Headers)
    } else if own.queries != other.queries {
        Some(TieBreak::Queries)
    } else {
        (own.implied != other.implied).then_some(TieBreak::Written)
    }
}

fn age(own: &Age, other: &Age, by_age: TieBreak, by_name: TieBreak) -> Option<TieBreak> {
    match own.created.cmp(&other.created) {
        Ordering::Equal => (own.name != other.name).then_some(by_name),
        _ => Some(by_age),
    }
}

fn step(own: &Step, other: &Step) -> Option<TieBreak> {
    match (own, other) {
        (Step::At(own), Step::At(other)) | (Step::Left(own), Step::Left(other)) => at(own, other),
        (Step::Last, Step::Last) => None,
        _ => Some(TieBreak::StandIn),
    }
}

fn at(own: &At, other: &At) -> Option<TieBreak> {
    let by_specificity = specificity(own.specificity.as_ref(), other.specificity.as_ref());
    let first = |differs: bool, tie_break| differs.then_some(tie_break);
    by_specificity
        .or(first(own.gives_way != other.gives_way, TieBreak::StandIn))
        .or(first(own.weight != other.weight, TieBreak::Weight))
        .or(first(own.position != other.position, TieBreak::Position))
        .or(age(&own.age, &other.age, TieBreak::Age, TieBreak::Name))
        .or(first(own.rule != other.rule, TieBreak::Rule))
        .or(first(own.matching != other.matching, TieBreak::Match))
        .or(first(own.within != other.within, TieBreak::Within))
}
