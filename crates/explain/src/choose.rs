//! Which route of a virtual host takes a request. Needs no tables: it reads the routes that Envoy has.

use envoy::bytes::Row;
use ir::{
    Hostname,
    matching::{Precedence, TieBreak},
};
use translate::inspect::EnvoyRoutes;

use crate::{
    explanation::{Considered, Explanation, Leaf, Outcome},
    matching::{Mismatch, Sent},
    served_route::ServedRoute,
    words::match_in_words,
};

/// How many routes are named of those that were tried before, and of those that would have matched too.
const NAMED: usize = 20;

/// A route of the virtual host.
pub(crate) struct Candidate {
    hostname: Hostname,
    pub(crate) place: Precedence,
    pub(crate) route: ServedRoute,
    mismatches: Vec<Mismatch>,
}

impl Candidate {
    fn read(hostname: &Hostname, place: &Precedence, row: &Row, sent: &Sent<'_>) -> Option<Self> {
        let route = ServedRoute::read(place.origin()?, row)?;
        let mismatches = sent.mismatches(route.message.r#match.as_ref()?);
        Some(Self { hostname: hostname.clone(), place: place.clone(), route, mismatches })
    }

    pub(crate) fn leaf(&self) -> Leaf {
        let route = self.place.via().route();
        Leaf {
            kind: route.kind,
            namespace: route.namespace().to_string(),
            name: route.name.name.to_string(),
            rule: self.route.origin.rule,
            matching: self.route.origin.matching,
            written: self.route.message.r#match.as_ref().map(match_in_words).unwrap_or_default(),
            envoy_route: self.route.message.name.clone(),
        }
    }

    fn missed(&self) -> Considered {
        let why: Vec<_> = self.mismatches.iter().map(Mismatch::in_words).collect();
        Considered { leaf: self.leaf(), why: why.join(", ") }
    }

    /// Whether it is another Envoy route of the same match.
    fn is_same(&self, other: &Self) -> bool {
        let of = |candidate: &Self| (candidate.route.origin.rule, candidate.route.origin.matching);
        self.place.via() == other.place.via() && of(self) == of(other)
    }

    /// Whether it has a part in what is told: that it needs a port is a matter between routes of one match.
    fn counts(&self) -> bool {
        !self.mismatches.contains(&Mismatch::HostPort)
    }
}

/// The route that takes a request, or what comes of one that none takes.
pub(crate) fn choose(
    routes: &[(Hostname, EnvoyRoutes)],
    sent: &Sent<'_>,
    explanation: &mut Explanation,
) -> Result<Candidate, Outcome> {
    let mut candidates = Vec::new();
    for (hostname, routes) in routes {
        candidates.extend(routes.iter().filter_map(|(place, row)| Candidate::read(hostname, place, row, sent)));
    }
    explanation.tried.routes = candidates.len();
    let Some(place) = candidates.iter().position(|candidate| candidate.mismatches.is_empty()) else {
        explanation.tried.before = candidates.len();
        explanation.tried.missed = nearest(candidates, sent);
        let why = if explanation.tried.routes == 0 { "the virtual host has no routes" } else { "no route matches" };
        return Err(Outcome::NotFound { why: why.into() });
    };
    let winner = &candidates[place];
    let before = candidates[..place]
        .iter()
        .filter(|other| other.counts() && !other.mismatches.contains(&Mismatch::Path) && !other.is_same(winner));
    let behind = candidates[place + 1..].iter().filter(|other| other.mismatches.is_empty() && !other.is_same(winner));
    explanation.tried.before = place;
    explanation.tried.missed = before.take(NAMED).map(Candidate::missed).collect();
    explanation.tried.behind =
        behind.take(NAMED).map(|other| Considered { leaf: other.leaf(), why: behind_why(winner, other) }).collect();
    Ok(candidates.swap_remove(place))
}

fn behind_why(winner: &Candidate, other: &Candidate) -> String {
    if winner.hostname != other.hostname {
        let (own, broader) = (&winner.hostname, &other.hostname);
        return format!("the one taken goes first: {own} is more specific than {broader}");
    }
    let tie_break = winner.place.tie_break(&other.place).unwrap_or(TieBreak::Way);
    format!("the one taken goes first: {tie_break}")
}

/// Those that come nearest: the path matches, or begins as theirs.
fn nearest(candidates: Vec<Candidate>, sent: &Sent<'_>) -> Vec<Considered> {
    let mut near: Vec<_> = candidates.into_iter().filter(Candidate::counts).collect();
    let distance = |candidate: &Candidate| {
        let off_path = candidate.mismatches.contains(&Mismatch::Path);
        let path = candidate.leaf().written;
        let path = path.split_once('/').map(|(_, path)| path.split(", ").next().unwrap_or(path).to_owned());
        let common = path.map_or(0, |path| {
            let own = sent.path.trim_start_matches('/');
            own.split('/').zip(path.split('/')).take_while(|(a, b)| a == b).count()
        });
        (off_path, usize::MAX - common, candidate.mismatches.len())
    };
    near.sort_by_cached_key(distance);
    near.truncate(5);
    near.iter().map(Candidate::missed).collect()
}
