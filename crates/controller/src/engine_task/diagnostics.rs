//! What is wrong with objects: logged once a transition, and counted.

mod conditions;
mod faults;
mod invalid_policies;
mod problems;
mod replacements;

use std::{collections::BTreeSet, mem::take};

use api::ObjectId;
use translate::{Changes, Translator};

use crate::{files::FileProblem, metrics::Metrics};
use conditions::Conditions;
use invalid_policies::InvalidPolicies;
use problems::Problems;
use replacements::Replacements;

/// Where more of one kind changed in a batch, they are not logged one by one.
const MAX_LOGGED: usize = 100;

/// What is wrong at the moment.
pub(super) struct Diagnostics {
    replacements: Replacements,
    invalid_policies: InvalidPolicies,
    conditions: Conditions,
    problems: Problems,
    metrics: Metrics,
}

impl Diagnostics {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            replacements: Replacements::default(),
            invalid_policies: InvalidPolicies::default(),
            conditions: Conditions::default(),
            problems: Problems::default(),
            metrics,
        }
    }

    /// Takes what is wrong, or no longer, out of the changes of a settling.
    pub(super) fn take(&mut self, changes: &mut Changes, translator: &Translator) {
        let metrics = &self.metrics;
        metrics.rows.inc_by(changes.computed as u64);
        faults::note(&changes.faults, metrics);
        metrics.poisoned_rows.set(i64::try_from(translator.faults()).unwrap_or(i64::MAX));
        self.problems.note(changes.statuses.iter().chain(&changes.problems), translator);
        self.replacements.note(take(&mut changes.replacements), metrics);
        self.replacements.note_wide(take(&mut changes.wide_replacements), metrics);
        self.invalid_policies.note(take(&mut changes.invalid_policies), metrics);
    }

    /// Counts what is wrong with files, in place of what was.
    pub(super) fn count_file_problems(&mut self, problems: &[FileProblem]) {
        self.problems.note_files(problems);
    }

    /// Logs the faults in conditions, of objects whose statuses changed.
    pub(super) fn log_conditions(&mut self, statuses: BTreeSet<ObjectId>, translator: &Translator) {
        self.conditions.note(statuses, translator);
    }

    /// Shows how much is wrong, with so many objects that cannot be decoded.
    pub(super) fn show(&self, undecodable: usize, translator: &Translator) {
        let unasked = translator.published_unasked();
        self.metrics.published_unasked.set(i64::try_from(unasked).unwrap_or(i64::MAX));
        self.problems.show(undecodable, &self.metrics);
    }
}
