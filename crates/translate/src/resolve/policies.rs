//! What the policies of a rule do to it.

use std::{borrow::Cow, sync::Arc};

use api::{Kind, ObjectId};
use ir::{
    Problem, Reason, Severity,
    delegation::PlacedMatch,
    filter::{PathModifier, PrefixReplacement},
    matching::Path,
    route::Handling,
    settings::Replacement,
};
use units::AnyUnit;

use super::{ANYWHERE, EnvoyRoute, Findings, Unwritten, unwritten::replacing};
use crate::{
    budget::cost::Meter,
    delegation::describe,
    policy::{
        level::Kept,
        rule::{Effective, GivenWay},
    },
    tables::policy::{Lost, Override, Standing, UnitOutcome, Why, Winner},
};

/// The policies of a rule and what became of what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    /// Those that apply, but for those of where the rule is served.
    pub(crate) all: Arc<[ObjectId]>,
    /// What became of each unit that any of them has. Nothing where the rule does nothing of what it says.
    pub(crate) units: Vec<UnitOutcome>,
    /// The fields that it has in slots, whatever a Gateway prefers.
    pub(crate) slots: Arc<[&'static str]>,
    /// Whether a unit that is broken closes the rule, or demands that hold at some listeners alone do.
    pub(crate) is_closed: bool,
    /// Whether each listener is to be asked, since policies there have requests authenticated at some and not at others.
    pub(crate) asks_listeners: bool,
    /// The entries of the RewritePolicy in force that are used, sorted.
    pub(crate) entries: Vec<u32>,
    /// Whether there are matches that the RewritePolicy in force cannot hold for.
    pub(crate) prefixless: bool,
}

impl Policies {
    /// Has a rule do what its policies say. Matches for which that cannot be are taken away and given back.
    pub(super) fn apply(
        &mut self,
        effective: &Effective,
        handling: &mut Cow<'_, Handling>,
        matches: &mut Vec<PlacedMatch>,
        field: &str,
    ) -> Result<Vec<(PlacedMatch, Problem)>, Problem> {
        self.slots = effective.slots.clone();
        let mut replaced = None;
        let is_heard = |unit: &AnyUnit| unit.holds_for_answers() || !handling.answers();
        let units = effective.units.iter().filter_map(|merged| Some((&merged.outcome, merged.unit.as_ref().ok()?)));
        let units: Vec<_> = units.filter(|(_, unit)| is_heard(unit)).collect();
        let kept: Vec<_> = effective.kept.iter().filter(|kept| is_heard(&kept.unit)).collect();
        let is_own = !handling.answers() && handling.fields.cors.is_some();
        for (outcome, unit) in units {
            if unit.apply(handling.to_mut()) {
                self.units.push(outcome.clone());
                if let AnyUnit::UrlRewrite(rewrite) = &**unit
                    && let PathModifier::Prefixes(entries) = &rewrite.path
                    && let Some(policy) = outcome.policies().next()
                {
                    replaced = Some((policy, entries));
                }
                continue;
            }
            // What a RewritePolicy says was applied before.
            let before = self.units.iter().find(|before| before.field == unit.field());
            let winners = before.map_or_else(|| [Winner::Rule(unit.field())].into(), |before| before.winners.clone());
            let to = winners.first().map(|winner| {
                let why = matches!(winner, Winner::Policy(_)).then_some(Why::Kind);
                Arc::new(Override { by: winner.clone(), why })
            });
            let overridden: Box<[_]> =
                outcome.all().map(|policy| Lost { policy: policy.clone(), to: to.clone() }).collect();
            self.units.push(UnitOutcome::new(unit.field(), winners, overridden, outcome.words.clone()));
        }
        // Policies of where it is served say it too, and no row of a rule knows them.
        let cors = "cors";
        if is_own && !self.units.iter().any(|unit| unit.field == cors) {
            self.units.push(UnitOutcome::new(cors, [Winner::Rule(cors)], [], []));
        }
        self.units.extend(kept.into_iter().map(|Kept { policy, unit, keeper }| {
            let to = Override { by: Winner::Keeper(keeper.clone()), why: None };
            let winner = to.by.clone();
            UnitOutcome::new(unit.field(), [winner], [Lost { policy: policy.clone(), to: Some(Arc::new(to)) }], [])
        }));
        let given_way = effective.given_way.iter();
        self.units.extend(given_way.map(|GivenWay { field, policies, words }| {
            let overridden: Box<[_]> =
                policies.iter().map(|policy| Lost { policy: policy.clone(), to: None }).collect();
            UnitOutcome::new(field, [], overridden, words.clone())
        }));
        // Last, since it may end in a fault, and all that applies is told what becomes of it.
        replaced
            .map_or_else(|| Ok(Vec::new()), |(policy, entries)| self.replace_prefixes(policy, entries, matches, field))
    }

    /// Has a rule answer by itself, since a unit holds that is broken. What else its policies say is not done.
    pub(super) fn close(&mut self, effective: &Effective) {
        let broken = effective.units.iter().filter(|merged| merged.unit.is_err());
        (self.slots, self.is_closed) = (effective.slots.clone(), true);
        self.units = broken.map(|merged| merged.outcome.clone()).collect();
    }

    /// Has the rule ask each listener whether requests are authenticated there. Where nobody does it is closed.
    pub(super) fn ask_listeners(&mut self) {
        (self.is_closed, self.asks_listeners) = (true, true);
    }

    /// Has nothing of them count, since the rule answers by itself for what is wrong with it, but for what it does so for.
    pub(super) fn replaced(&mut self) {
        let prefixless = self.prefixless;
        let is_rewrite =
            |winner: &Winner| matches!(winner, Winner::Policy(policy) if policy.kind == Kind::RewritePolicy);
        let has_cause = |unit: &UnitOutcome| prefixless && unit.winners.iter().any(is_rewrite);
        if !self.is_closed {
            self.units.retain(has_cause);
        }
    }

    /// Notes which entries are used, and gives back the matches that have no prefix.
    fn replace_prefixes(
        &mut self,
        policy: &ObjectId,
        entries: &[PrefixReplacement],
        matches: &mut Vec<PlacedMatch>,
        field: &str,
    ) -> Result<Vec<(PlacedMatch, Problem)>, Problem> {
        let (prefixes, others): (Vec<_>, Vec<_>) =
            std::mem::take(matches).into_iter().partition(|placed| matches!(placed.written.path, Path::Prefix(_)));
        *matches = prefixes;
        self.prefixless = !others.is_empty();
        let told = others.into_iter().map(|placed| {
            let message = format!(
                "{policy} replaces prefixes, and {} is none; make it PathPrefix, or have the policy target other rules",
                describe(&placed.written)
            );
            let field = format!("{field}.matches[{}]", placed.index);
            (placed, Problem::new(Severity::Replaced, Reason::MustHavePrefix, field, message))
        });
        let excluded: Vec<_> = told.collect();
        if matches.is_empty()
            && let Some((_, problem)) = excluded.first()
        {
            let problem = problem.clone();
            *matches = excluded.into_iter().map(|(placed, _)| placed).collect();
            return Err(problem);
        }
        self.entries = matches.iter().filter_map(|placed| entry(entries, &placed.written.path)).collect();
        self.entries.sort_unstable();
        self.entries.dedup();
        Ok(excluded)
    }

    /// What is kept of it; most rules have no policies.
    pub(super) fn found(mut self, effective: Effective) -> Option<Box<Self>> {
        let all = effective.policies;
        self.units.shrink_to_fit();
        (!(all.is_empty() && self.units.is_empty()) || self.asks_listeners).then(|| Box::new(Self { all, ..self }))
    }

    /// Those of which something holds.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = &ObjectId> {
        self.units.iter().flat_map(UnitOutcome::policies)
    }

    /// What became of units, once where that is the same for several in a row.
    fn verdicts(&self) -> impl Iterator<Item = &UnitOutcome> {
        let alike = self.units.chunk_by(|one, next| Arc::ptr_eq(&one.verdict, &next.verdict));
        alike.filter_map(|alike| alike.first())
    }

    /// How those stand here that apply. What a Gateway or a listener says is no part of it.
    pub(crate) fn standings(&self) -> impl Iterator<Item = (&ObjectId, Option<Standing>)> {
        let place = |policy: &ObjectId| self.all.iter().position(|known| known == policy);
        let (mut hold, mut lose) = (vec![false; self.all.len()], vec![false; self.all.len()]);
        for unit in self.verdicts() {
            unit.policies().filter_map(place).for_each(|at| hold[at] = true);
            unit.overridden.iter().filter_map(|lost| place(&lost.policy)).for_each(|at| lose[at] = true);
        }
        let holding = hold.iter().filter(|holds| **holds).count();
        let standing = move |(holds, loses)| Standing::among(holds, holding > usize::from(holds), loses);
        self.all.iter().zip(hold.into_iter().zip(lose).map(standing))
    }

    /// The RewritePolicy in force.
    pub(crate) fn rewrite(&self) -> Option<&ObjectId> {
        self.in_force().find(|policy| policy.kind == Kind::RewritePolicy)
    }
}

fn entry(entries: &[PrefixReplacement], path: &Path) -> Option<u32> {
    let Path::Prefix(prefix) = path else { return None };
    PrefixReplacement::choose(entries, prefix.trim_end_matches('/')).and_then(|entry| u32::try_from(entry).ok())
}

/// What stands in place of matches that a policy cannot hold for, each with why.
pub(super) fn excluded(
    matches: Vec<(PlacedMatch, Problem)>,
    unwritten: &Unwritten,
    meter: &mut Meter<'_, '_>,
    replacement: &Replacement,
    findings: &mut Findings,
) -> Vec<EnvoyRoute> {
    if matches.is_empty() || unwritten.matches.is_empty() {
        return Vec::new();
    }
    if !replacement.enabled {
        let dropped = |(_, problem)| Problem { severity: Severity::Refused, ..problem };
        findings.dropped.extend(matches.into_iter().map(dropped));
        return Vec::new();
    }
    let told = |(placed, problem): (PlacedMatch, Problem)| {
        let index = placed.index;
        (placed, (index, problem))
    };
    let (matches, problems): (Vec<_>, Vec<_>) = matches.into_iter().map(told).unzip();
    findings.closed.extend(problems);
    let rule = replacing(unwritten.chain.route().kind, replacement);
    Unwritten { matches, rule, states: 0, ..unwritten.clone() }
        .priced(meter)
        .write(ANYWHERE, &mut findings.closed)
        .into_vec()
}
