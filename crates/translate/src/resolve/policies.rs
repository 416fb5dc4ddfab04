//! What the policies of a rule do to it.

use std::sync::Arc;

use api::{Kind, ObjectId};
use engine::Scope;
use ir::{
    Chain, Problem, Severity,
    filter::{PathModifier, PrefixReplacement},
    matching::Path,
    route::Handling,
    rule::Rule,
    settings::Replacement,
};

use super::{ANYWHERE, EnvoyRoute, Findings, Unwritten};
use crate::{
    budget::cost::Meter,
    delegation::{Rendered, describe},
    policy::rule::{Effective, Level, above},
    tables::policy::Winner,
};

/// The policies of a rule and what became of each. As a part of a resolved rule it has no more to say of its breaking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    /// Those that apply, and whether they say anything.
    pub(crate) all: Vec<(ObjectId, bool)>,
    /// The one that holds.
    pub(crate) in_force: Option<ObjectId>,
    /// What holds in place of each other.
    pub(crate) winner: Option<Winner>,
    /// The entries of the policy in force that are used, sorted.
    pub(crate) entries: Vec<u32>,
    /// Whether there are matches that the policy in force cannot hold for.
    pub(crate) prefixless: bool,
    /// Why the rule is replaced.
    pub(super) broken: Option<Problem>,
    path: Option<PathModifier>,
}

impl Policies {
    /// Those of a rule where it stands; none of its filters counts where it does nothing of what it says.
    pub(super) fn of(
        scope: &Scope<'_>,
        chain: &Chain,
        name: Option<&Arc<str>>,
        handling: Option<&Handling>,
        field: &str,
    ) -> Self {
        let extensions = handling.map_or(&[][..], |handling| &handling.extensions);
        let level = Level::of(scope, chain.route(), name, extensions);
        let Effective { broken, says, policies } =
            level.below(above(scope, chain).as_deref(), &chain.route().namespace, field);
        let (in_force, path) = says.map(|says| (says.policy, says.path)).unzip();
        Self { all: policies, in_force, path, broken, ..Self::default() }
    }

    /// Has a rule that sends its requests somewhere change their paths. Matches for which that cannot be are taken away and
    /// given back.
    pub(super) fn apply(
        &mut self,
        handling: &mut Handling,
        matches: &mut Vec<Rendered>,
        field: &str,
    ) -> Result<Vec<(Rendered, Problem)>, Problem> {
        let (in_force, path) = (self.in_force.take(), self.path.take());
        let (Some(policy), Some(path), false) = (in_force, path, handling.answers()) else { return Ok(Vec::new()) };
        let rewrite = handling.fields.rewrite.get_or_insert_default();
        if rewrite.path.is_some() {
            self.winner = Some(Winner::Filter);
            return Ok(Vec::new());
        }
        self.winner = Some(Winner::Policy(policy.clone()));
        self.in_force = Some(policy.clone());
        let mut aside = Vec::new();
        if let PathModifier::Prefixes(entries) = &path {
            let (prefixes, others): (Vec<_>, Vec<_>) = std::mem::take(matches)
                .into_iter()
                .partition(|rendered| matches!(rendered.written.path, Path::Prefix(_)));
            *matches = prefixes;
            self.prefixless = !others.is_empty();
            aside.extend(others.into_iter().map(|rendered| {
                let message = format!(
                    "{policy} replaces prefixes, and {} is none; make it PathPrefix, or have the policy target other rules",
                    describe(&rendered.written)
                );
                let field = format!("{field}.matches[{}]", rendered.index);
                let problem = Problem::new(Severity::Replaced, "MustHavePrefix", field, message);
                (rendered, problem)
            }));
            if matches.is_empty()
                && let Some((_, problem)) = aside.first()
            {
                let problem = problem.clone();
                *matches = aside.into_iter().map(|(rendered, _)| rendered).collect();
                return Err(problem);
            }
            self.entries = matches.iter().filter_map(|rendered| entry(entries, &rendered.written.path)).collect();
            self.entries.sort_unstable();
            self.entries.dedup();
        }
        rewrite.path = Some(path);
        Ok(aside)
    }

    /// What is kept of it; most rules have no policies.
    pub(super) fn found(mut self) -> Option<Box<Self>> {
        if self.winner.is_none() {
            // Broken, or with nothing to hold for.
            self.in_force = None;
        }
        (self.broken, self.path) = (None, None);
        (!self.all.is_empty()).then(|| Box::new(self))
    }

    /// Those in whose place another holds.
    pub(crate) fn overridden(&self) -> impl Iterator<Item = (&ObjectId, &Winner)> {
        let says = self.all.iter().filter(|(_, says)| *says).map(|(policy, _)| policy);
        let others = says.filter(|policy| self.in_force.as_ref() != Some(policy));
        others.zip(std::iter::repeat(self.winner.as_ref())).filter_map(|(policy, winner)| Some((policy, winner?)))
    }

    /// The RewritePolicy in force.
    pub(crate) fn rewrite(&self) -> Option<&ObjectId> {
        self.in_force.as_ref().filter(|policy| policy.kind == Kind::RewritePolicy)
    }
}

fn entry(entries: &[PrefixReplacement], path: &Path) -> Option<u32> {
    let Path::Prefix(prefix) = path else { return None };
    PrefixReplacement::choose(entries, prefix.trim_end_matches('/')).and_then(|entry| u32::try_from(entry).ok())
}

/// What stands in place of matches that a policy cannot hold for, each with why.
pub(super) fn aside(
    matches: Vec<(Rendered, Problem)>,
    unwritten: &Unwritten,
    meter: &mut Meter<'_, '_>,
    replacement: &Replacement,
    findings: &mut Findings,
) -> Vec<EnvoyRoute> {
    let (matches, problems): (Vec<_>, Vec<_>) = matches.into_iter().unzip();
    if matches.is_empty() || unwritten.matches.is_empty() {
        return Vec::new();
    }
    if !replacement.enabled {
        let dropped = |problem| Problem { severity: Severity::Refused, ..problem };
        findings.dropped.extend(problems.into_iter().map(dropped));
        return Vec::new();
    }
    findings.closed.extend(problems);
    let rule = Rule::direct_response(replacement.status, replacement.body.clone());
    Unwritten { matches, rule, states: 0, ..unwritten.clone() }
        .priced(meter)
        .write(ANYWHERE, &mut findings.closed)
        .into_vec()
}
