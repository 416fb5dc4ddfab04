//! Rules that a direct response stands in place of: counted, and logged once a transition.

use std::collections::BTreeMap;

use translate::{ReplacedRule, Replacement};

use super::LOGGED_AT_MOST;
use crate::metrics::{Metrics, ReplacementLabels};

/// What is replaced at the moment, and why.
#[derive(Debug, Default)]
pub(super) struct Replacements(BTreeMap<ReplacedRule, &'static str>);

impl Replacements {
    /// Takes note of what was replaced, is so for another reason, or is well again.
    pub(super) fn note(&mut self, changes: Vec<(ReplacedRule, Option<Replacement>)>, metrics: &Metrics) {
        let one_by_one = changes.len() <= LOGGED_AT_MOST;
        if !one_by_one {
            tracing::warn!(count = changes.len(), "rules were replaced or are well again: see `portcullis check`");
        }
        for (at, now) in changes {
            let ReplacedRule { gateway, route: chain, rule } = &at;
            let route = chain.route();
            let labels = |reason: &str| ReplacementLabels {
                gateway_namespace: gateway.namespace.to_string(),
                gateway: gateway.name.to_string(),
                scope: "route",
                reason: reason.to_owned(),
            };
            let before = match &now {
                Some(now) => self.0.insert(at.clone(), now.reason),
                None => self.0.remove(&at),
            };
            if let Some(reason) = before {
                metrics.active_replacements.get_or_create(&labels(reason)).dec();
            }
            match now {
                Some(Replacement { reason, error }) => {
                    metrics.active_replacements.get_or_create(&labels(reason)).inc();
                    if before.is_none() {
                        metrics.replacements.get_or_create(&labels(reason)).inc();
                    }
                    if one_by_one {
                        // A rule is replaced for all of its matches.
                        tracing::warn!(%gateway, %route, %chain, rule, r#match = "*", reason, %error, "a rule was replaced");
                    }
                }
                None if one_by_one => {
                    tracing::info!(%gateway, %route, %chain, rule, "a rule is no longer replaced");
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ir::{Chain, NsName};

    use super::*;
    use crate::metrics::render;

    fn changes(rule: u32, reason: Option<&'static str>) -> Vec<(ReplacedRule, Option<Replacement>)> {
        let at =
            ReplacedRule { gateway: NsName::new("infra", "edge"), route: Chain::root(NsName::new("apps", "r")), rule };
        vec![(at, reason.map(|reason| Replacement { reason, error: "why".into() }))]
    }

    fn shown(metrics: &Metrics) -> Vec<String> {
        let text = render(&metrics.registry());
        let mut lines: Vec<_> =
            text.lines().filter(|line| line.contains("replacements") && !line.starts_with('#')).collect();
        lines.sort_unstable();
        lines
            .into_iter()
            .map(|line| line.replace("gateway_namespace=\"infra\",gateway=\"edge\",scope=\"route\",", ""))
            .collect()
    }

    #[test]
    fn what_is_replaced_is_a_gauge_and_how_often_that_happened_a_counter() {
        let (mut replacements, metrics) = (Replacements::default(), Metrics::default());
        for (rule, reason) in [(0, Some("A")), (1, Some("A")), (0, Some("B")), (1, None), (1, Some("A")), (1, None)] {
            replacements.note(changes(rule, reason), &metrics);
        }
        assert_eq!(
            shown(&metrics),
            [
                r#"portcullis_active_replacements{reason="A"} 0"#,
                r#"portcullis_active_replacements{reason="B"} 1"#,
                r#"portcullis_invalid_route_replacements_total{reason="A"} 3"#,
            ]
        );
    }
}
