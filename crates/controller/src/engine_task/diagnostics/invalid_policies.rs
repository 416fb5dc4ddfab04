//! Policies that are not valid: counted and logged once a transition.

use std::collections::BTreeMap;

use api::ObjectId;
use ir::Reason;
use translate::InvalidPolicy;

use super::MAX_LOGGED;
use crate::metrics::{Metrics, PolicyLabels};

/// What is not valid at the moment, and why.
#[derive(Debug, Default)]
pub(super) struct InvalidPolicies(BTreeMap<ObjectId, Reason>);

impl InvalidPolicies {
    /// Takes note of what is not valid any more, or for another reason, or is valid again, or gone. A policy that is valid
    /// has no series, so that their number is bounded by what is wrong.
    pub(super) fn note(&mut self, changes: Vec<(ObjectId, Option<InvalidPolicy>)>, metrics: &Metrics) {
        let one_by_one = changes.len() <= MAX_LOGGED;
        if !one_by_one {
            tracing::warn!(count = changes.len(), "policies turned invalid or valid: see `portcullis check`");
        }
        for (policy, now) in changes {
            let before = match &now {
                Some(now) => self.0.insert(policy.clone(), now.reason),
                None => self.0.remove(&policy),
            };
            let reason = now.as_ref().map(|now| now.reason);
            if before == reason {
                continue;
            }
            if let Some(before) = before {
                metrics.policy_failures.remove(&PolicyLabels::of(&policy, before));
            }
            match now {
                Some(InvalidPolicy { reason, error }) => {
                    metrics.policy_failures.get_or_create(&PolicyLabels::of(&policy, reason)).inc();
                    if one_by_one {
                        tracing::warn!(%policy, reason = reason.as_str(), %error, "a policy is not valid");
                    }
                }
                None if one_by_one => tracing::info!(%policy, "a policy is valid again, or gone"),
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use api::Kind;

    use super::*;
    use crate::metrics::render;

    fn changes(reason: Option<Reason>) -> Vec<(ObjectId, Option<InvalidPolicy>)> {
        let policy = ObjectId::new(Kind::TrafficPolicy, "apps", "p");
        vec![(policy, reason.map(|reason| InvalidPolicy { reason, error: "why".into() }))]
    }

    fn shown(metrics: &Metrics) -> Vec<String> {
        let text = render(&metrics.registry());
        text.lines().filter(|line| line.starts_with("portcullis_policy")).map(str::to_owned).collect()
    }

    #[test]
    fn a_policy_that_turns_invalid_counts_once_and_its_series_goes_when_it_heals_or_goes() {
        let (mut policies, metrics) = (InvalidPolicies::default(), Metrics::default());
        let line = |reason: &str| {
            let labels = r#"policy_kind="TrafficPolicy",namespace="apps",policy="p""#;
            format!("portcullis_policy_validation_failures_total{{{labels},reason=\"{reason}\"}} 1")
        };
        policies.note(changes(Some(Reason::Invalid)), &metrics);
        assert_eq!(shown(&metrics), [line("Invalid")]);
        // Another message is no other failure.
        policies.note(changes(Some(Reason::Invalid)), &metrics);
        assert_eq!(shown(&metrics), [line("Invalid")]);
        policies.note(changes(Some(Reason::MustHavePrefix)), &metrics);
        assert_eq!(shown(&metrics), [line("MustHavePrefix")]);
        policies.note(changes(None), &metrics);
        assert_eq!(shown(&metrics), [""; 0]);
        policies.note(changes(Some(Reason::Invalid)), &metrics);
        assert_eq!(shown(&metrics), [line("Invalid")]);
    }
}
