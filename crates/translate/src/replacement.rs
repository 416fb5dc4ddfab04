//! What stands in place of what is broken, for those who count it.

use engine::{Derived, Emitter};

use crate::{
    resolve::ResolvedRule,
    tables::replacement::{Replaced, ReplacedRule, Replacement},
};

impl Derived for Replaced {
    fn compute(scope: &Emitter<'_>, key: &ReplacedRule) -> Option<Replacement> {
        let rule = scope.get::<ResolvedRule>(&(key.route.clone(), key.rule))?;
        let problem = rule.findings.as_ref()?.replaced.as_ref()?;
        Some(Replacement { reason: problem.reason, error: problem.to_string().into() })
    }
}
