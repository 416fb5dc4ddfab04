//! What the expressions of a rule cost a request.

use std::time::Duration;

use ir::{
    Problem, Settings, Severity,
    filter::PathModifier,
    matching::{Condition, Match, Path, ValueMatch},
};

use crate::{
    route::rule::Does,
    validate::{
        cors::{self, Origin},
        regex::time,
    },
};

/// No estimate is longer, in nanoseconds, so that sums of them never overflow.
pub(super) const LONGEST: u64 = 1 << 40;

/// What the expressions of a match cost a request that meets them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// What the path of a request begins with that meets them; empty for all.
    pub(crate) prefix: Box<str>,
    /// At most, in nanoseconds.
    pub(crate) nanos: u64,
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
    /// By which every expression costs too much, and none is looked at.
    pub(crate) const NOTHING: Self = Self { longest: 0, nanos: 0 };

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

/// Adds up what the expressions of a rule's matches cost. Once that is too much for any share the rest is not looked at.
pub(crate) struct Meter {
    limits: Limits,
    spent: u64,
}

impl Meter {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, spent: 0 }
    }

    /// What holding a request against all expressions of a match costs; none where it has none.
    pub(crate) fn matching(&mut self, written: &Match) -> Option<u64> {
        let path = match &written.path {
            Path::Regex(pattern) => Some(pattern),
            Path::Exact(_) | Path::Prefix(_) => None,
        };
        let conditions = written.headers.iter().chain(&written.queries);
        let values = conditions.filter_map(|Condition { value, .. }| match value {
            ValueMatch::Regex(pattern) => Some(pattern),
            ValueMatch::Exact(_) => None,
        });
        let mut nanos = None;
        for pattern in path.into_iter().chain(values) {
            let cost = if self.spent >= 8 * self.limits.nanos {
                LONGEST
            } else {
                time::matching(pattern, self.limits.longest).min(LONGEST)
            };
            self.spent = self.spent.saturating_add(cost);
            nanos = Some(LONGEST.min(cost + nanos.unwrap_or(0)));
        }
        nanos
    }
}

/// Refuses a rule whose own expressions, which only its requests meet, cost too much.
pub(crate) fn affordable(does: &Does, limits: Limits, field: &str) -> Result<(), Problem> {
    let filters = &does.filters.filters;
    let rewriting = match &filters.rewrite.path {
        Some(PathModifier::Regex { pattern, .. }) => time::replacing(pattern, limits.longest),
        _ => 0,
    };
    let refuse =
        |field: String, message: String| Err(Problem::new(Severity::Replaced, "UnsupportedValue", field, message));
    if rewriting > limits.of_rule() {
        let message = format!(
            "replacing what the expression of its urlRewrite matches could take {}; begin it with ^, and bound its \
             repetitions",
            more_than(limits.of_rule())
        );
        return refuse(field.into(), message);
    }
    let origins = filters.cors.iter().flat_map(|cors| &cors.allow_origins);
    let patterns = origins.filter_map(|origin| match cors::origin(origin) {
        Ok(Origin::Pattern(pattern)) => Some(pattern),
        _ => None,
    });
    let judging = patterns.map(|pattern| time::matching(pattern.as_str(), limits.longest).min(LONGEST)).sum::<u64>();
    if judging.saturating_add(rewriting) > limits.of_rule() {
        let message = format!(
            "the origins with wildcards could take {} together; name fewer of them",
            more_than(limits.of_rule())
        );
        return refuse(format!("{field}.filters"), message);
    }
    Ok(())
}

fn more_than(nanos: u64) -> String {
    format!("more than {:?} of a request's time", Duration::from_nanos(nanos))
}
