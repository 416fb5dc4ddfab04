//! What the expressions of a rule cost a request.

use std::{sync::Arc, time::Duration};

use engine::{Lookup, Scope};
use ir::{
    Problem, Reason, Settings, Severity,
    filter::PathModifier,
    matching::{Condition, Match, Path, ValueMatch},
    route::{Fields, Handling},
};
use validate::{
    cors::{self, Origin},
    regex::time::{self, Estimate},
};

use crate::tables::input::Config;

/// No estimate is longer, in nanoseconds, so that sums of them never overflow.
pub(super) const LONGEST: u64 = 1 << 40;

/// What the expressions of a match cost a request that meets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// What the path of a request begins with that meets them; empty for all.
    pub(crate) prefix: Arc<str>,
    /// At most, in nanoseconds.
    pub(crate) nanos: u64,
}

/// What expressions take at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Of the time of a request, in nanoseconds.
    pub(crate) nanos: u64,
    /// Of a proxy's memory, for what it builds while requests meet them, in bytes.
    pub(crate) memory: u64,
}

impl Taken {
    /// Where nobody knows.
    const TOO_MUCH: Self = Self { nanos: LONGEST, memory: 2 * time::MEMORY };

    fn and(self, other: Self) -> Self {
        let nanos = LONGEST.min(self.nanos.saturating_add(other.nanos));
        Self { nanos, memory: self.memory.saturating_add(other.memory) }
    }
}

impl From<Estimate> for Taken {
    fn from(Estimate { nanos, memory, .. }: Estimate) -> Self {
        Self { nanos: nanos.min(LONGEST), memory }
    }
}

/// What expressions may cost, and are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Longest path or header, in bytes.
    pub(crate) longest: u64,
    /// For one request, in nanoseconds.
    pub(crate) nanos: u64,
}

impl Limits {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            longest: u64::from(settings.edge.max_request_headers_kib) * 1024,
            nanos: u64::try_from(settings.regex.max_time.as_nanos()).unwrap_or(u64::MAX).min(LONGEST),
        }
    }

    /// What the rule that takes a request may cost it.
    fn of_rule(self) -> u64 {
        self.nanos / 5
    }

    /// What holding a request against all routes may cost.
    pub(super) fn of_matching(self) -> u64 {
        self.nanos - self.of_rule()
    }
}

/// Instructions that are looked at to find out what the expressions of a rule cost, at most: some milliseconds of the
/// thread on which all translation runs. Ordinary expressions take a hundred to three thousand each.
const MAX_STEPS: u64 = 500_000;

tables! {
    /// What it takes to hold a text of up to so many bytes against all of an expression. It depends on nothing else, so it
    /// is found out once, however many rules have the expression, and wherever they are served.
    MatchingTime: (Arc<str>, u64) => Estimate;
    /// What it takes to replace all that an expression matches in a text of up to so many bytes.
    ReplacingTime: (Arc<str>, u64) => Estimate;
}

impl Lookup for MatchingTime {
    fn compute(_: &Scope<'_>, (pattern, longest): &(Arc<str>, u64)) -> Option<Estimate> {
        Some(time::matching(pattern, *longest))
    }
}

impl Lookup for ReplacingTime {
    fn compute(_: &Scope<'_>, (pattern, longest): &(Arc<str>, u64)) -> Option<Estimate> {
        Some(time::replacing(pattern, *longest))
    }
}

/// Adds up what the expressions of a rule cost. Once that is too much for any share, or takes too long to find out, the rest
/// is not looked at, and costs too much.
pub(crate) struct Meter<'s, 'a> {
    scope: &'s Scope<'a>,
    limits: Limits,
    /// By what is held against matches, in nanoseconds.
    spent: u64,
    /// What was looked at.
    steps: u64,
    /// Whether something is not looked at for want of steps.
    gave_up: bool,
}

impl<'s, 'a> Meter<'s, 'a> {
    pub(crate) fn new(scope: &'s Scope<'a>, limits: Limits) -> Self {
        Self { scope, limits, spent: 0, steps: 0, gave_up: false }
    }

    /// What holding a request against all expressions of a match takes; none where it has none.
    pub(crate) fn matching(&mut self, written: &Match) -> Option<Taken> {
        let mut all: Option<Taken> = None;
        for pattern in patterns(written) {
            let is_spent = self.spent >= self.limits.nanos.saturating_mul(8);
            let taken = if is_spent { Taken::TOO_MUCH } else { self.one(pattern) };
            self.spent = self.spent.saturating_add(taken.nanos);
            all = Some(all.map_or(taken, |all| all.and(taken)));
        }
        all
    }

    fn one(&mut self, pattern: &Arc<str>) -> Taken {
        if self.steps >= MAX_STEPS {
            self.gave_up = true;
            return Taken::TOO_MUCH;
        }
        let estimate = self.scope.get::<MatchingTime>(&(pattern.clone(), self.limits.longest));
        estimate.map_or(Taken::TOO_MUCH, |estimate| {
            self.steps += estimate.steps;
            Taken::from(*estimate)
        })
    }

    /// What is to be said of a rule some of whose expressions were not looked at; `field` is the rule's.
    pub(crate) fn gave_up(&self, field: &str) -> Option<Problem> {
        let message = "its regular expressions are too many, or too complex, to find out what they cost a request; make \
                       several rules of it, or simplify them";
        self.gave_up
            .then(|| Problem::new(Severity::Refused, Reason::UnsupportedValue, format!("{field}.matches"), message))
    }
}

/// Of a match with expressions, that they cost too much; none where it has none.
pub(crate) fn unpriced(written: &Match) -> Option<Taken> {
    patterns(written).next().map(|_| Taken::TOO_MUCH)
}

/// The expressions of a match.
fn patterns(written: &Match) -> impl Iterator<Item = &Arc<str>> {
    let path = match &written.path {
        Path::Regex(pattern) => Some(pattern),
        Path::Exact(_) | Path::Prefix(_) => None,
    };
    let conditions = written.headers.iter().chain(&written.queries);
    let values = conditions.filter_map(|Condition { value, .. }| match value {
        ValueMatch::Regex(pattern) => Some(pattern),
        ValueMatch::Exact(_) => None,
    });
    path.into_iter().chain(values)
}

/// Refuses an expression for the paths of requests that costs too much; `field` is its own.
pub(crate) fn replaceable(scope: &Scope<'_>, pattern: &Arc<str>, field: &str) -> Result<(), Problem> {
    let Some(limits) = scope.get::<Config>(&()).map(|config| Limits::of(&config)) else { return Ok(()) };
    if replacing(scope, pattern, limits).nanos <= limits.of_rule() {
        return Ok(());
    }
    let message = format!(
        "replacing what it matches could take {}; begin it with ^, and bound its repetitions",
        more_than(limits.of_rule())
    );
    Err(Problem::new(Severity::Refused, Reason::Invalid, field, message))
}

/// Refuses expressions of a policy that cost too much together where a request meets them; `field` is theirs.
pub(crate) fn matchable(scope: &Scope<'_>, patterns: &[Arc<str>], field: &str) -> Result<(), Problem> {
    let Some(limits) = scope.get::<Config>(&()).map(|config| Limits::of(&config)) else { return Ok(()) };
    let mut meter = Meter::new(scope, limits);
    let nanos = patterns.iter().fold(0_u64, |nanos, pattern| nanos.saturating_add(meter.one(pattern).nanos));
    if nanos <= limits.of_rule() {
        return Ok(());
    }
    let message = format!("its expressions could take {} together; simplify them", more_than(limits.of_rule()));
    Err(Problem::new(Severity::Refused, Reason::Invalid, field, message))
}

fn replacing(scope: &Scope<'_>, pattern: &Arc<str>, limits: Limits) -> Taken {
    let estimate = scope.get::<ReplacingTime>(&(pattern.clone(), limits.longest));
    estimate.map_or(Taken::TOO_MUCH, |estimate| Taken::from(*estimate))
}

/// What a rule's own expressions take, which only its requests meet. Refuses those that cost too much together.
pub(crate) fn affordable(handling: &Handling, meter: &mut Meter<'_, '_>, field: &str) -> Result<Taken, Problem> {
    let nothing = Taken { nanos: 0, memory: 0 };
    let Fields { rewrite, cors, .. } = &handling.fields;
    let rewriting = match rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref()) {
        Some(PathModifier::Regex { pattern, .. }) => replacing(meter.scope, pattern, meter.limits),
        _ => nothing,
    };
    let origins = cors.iter().flat_map(|cors| &cors.allow_origins);
    let patterns = origins.filter_map(|origin| match cors::origin(origin) {
        Ok(Origin::Pattern(pattern)) => Some(pattern.into_string().into()),
        _ => None,
    });
    let of_slots = handling.slots.iter().flat_map(|slot| slot.patterns.iter().cloned());
    let taken = patterns.chain(of_slots).fold(rewriting, |taken, pattern| taken.and(meter.one(&pattern)));
    let most = meter.limits.of_rule();
    if taken.nanos > most {
        let message = format!(
            "its origins with wildcards or expressions could take {} together; name fewer of them, or simplify them",
            more_than(most)
        );
        let at = if cors.is_some() { format!("{field}.filters") } else { field.to_owned() };
        return Err(Problem::new(Severity::Replaced, Reason::UnsupportedValue, at, message));
    }
    Ok(taken)
}

fn more_than(nanos: u64) -> String {
    format!("more than {:?} of a request's time", Duration::from_nanos(nanos))
}
