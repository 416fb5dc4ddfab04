//! What is replaced by a direct response: counted, and logged once a transition.

use std::collections::BTreeMap;

use ir::{NsName, Reason};
use translate::{ReplacedRule, ReplacedScope, Replacement};

use super::MAX_LOGGED;
use crate::metrics::{Metrics, ReplacementLabels};

/// What is replaced at the moment, and why.
#[derive(Debug, Default)]
pub(super) struct Replacements {
    rules: BTreeMap<ReplacedRule, Reason>,
    scopes: BTreeMap<ReplacedScope, Reason>,
}

impl Replacements {
    /// Takes note of rules that are replaced, are so for another reason, or are no longer.
    pub(super) fn note(&mut self, changes: Vec<(ReplacedRule, Option<Replacement>)>, metrics: &Metrics) {
        let one_by_one = changes.len() <= MAX_LOGGED;
        if !one_by_one {
            tracing::warn!(count = changes.len(), "rules were replaced, or are no longer: see `portcullis check`");
        }
        for (at, now) in changes {
            let ReplacedRule { gateway, route: chain, rule } = &at;
            let route = chain.route().path();
            let is_stream = chain.route().kind.is_stream();
            count(&mut self.rules, &at, now.as_ref(), gateway, if is_stream { "stream" } else { "route" }, metrics);
            match now {
                Some(Replacement { reason, error }) if one_by_one && is_stream => {
                    tracing::warn!(%gateway, %route, reason = reason.as_str(), %error, "the connections of a route are closed");
                }
                None if one_by_one && is_stream => {
                    tracing::info!(%gateway, %route, "the connections of a route are no longer closed");
                }
                Some(Replacement { reason, error }) if one_by_one => {
                    // A rule is replaced for all of its matches.
                    tracing::warn!(%gateway, %route, %chain, rule, r#match = "*", reason = reason.as_str(), %error, "a rule was replaced");
                }
                None if one_by_one => {
                    tracing::info!(%gateway, %route, %chain, rule, "a rule is no longer replaced");
                }
                _ => {}
            }
        }
    }

    /// The same of virtual hosts and route configurations as a whole.
    pub(super) fn note_wide(&mut self, changes: Vec<(ReplacedScope, Option<Replacement>)>, metrics: &Metrics) {
        let one_by_one = changes.len() <= MAX_LOGGED;
        for (at, now) in changes {
            let ReplacedScope { config, host } = &at;
            let gateway = &config.gateway;
            let scope = if host.is_some() { "virtual_host" } else { "route_configuration" };
            count(&mut self.scopes, &at, now.as_ref(), gateway, scope, metrics);
            let config = config.resource_name();
            let host = host.as_ref().map_or_else(|| "*".into(), |(hostname, _)| hostname.domain());
            match now {
                Some(Replacement { reason, error }) if one_by_one => {
                    tracing::warn!(%gateway, config, host, reason = reason.as_str(), %error, "everything of a {scope} was replaced");
                }
                None if one_by_one => tracing::info!(%gateway, config, host, "a {scope} is no longer replaced"),
                _ => {}
            }
        }
    }
}

fn count<K: Ord + Clone>(
    known: &mut BTreeMap<K, Reason>,
    at: &K,
    now: Option<&Replacement>,
    gateway: &NsName,
    scope: &'static str,
    metrics: &Metrics,
) {
    let labels = |reason: Reason| ReplacementLabels {
        gateway_namespace: gateway.namespace.to_string(),
        gateway: gateway.name.to_string(),
        scope,
        reason: reason.as_str(),
    };
    let before = match now {
        Some(now) => known.insert(at.clone(), now.reason),
        None => known.remove(at),
    };
    if let Some(reason) = before {
        metrics.active_replacements.get_or_create(&labels(reason)).dec();
    }
    if let Some(&Replacement { reason, .. }) = now {
        metrics.active_replacements.get_or_create(&labels(reason)).inc();
        if before.is_none() {
            metrics.replacements.get_or_create(&labels(reason)).inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use ir::{Chain, Hostname, RouteConfigId};

    use super::*;
    use crate::metrics::render;

    fn changes(rule: u32, reason: Option<Reason>) -> Vec<(ReplacedRule, Option<Replacement>)> {
        let at = ReplacedRule {
            gateway: NsName::new("infra", "edge"),
            route: Chain::root(ir::RouteId::http("apps", "r")),
            rule,
        };
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
        for (rule, reason) in [
            (0, Some(Reason::Invalid)),
            (1, Some(Reason::Invalid)),
            (0, Some(Reason::UnsupportedValue)),
            (1, None),
            (1, Some(Reason::Invalid)),
            (1, None),
        ] {
            replacements.note(changes(rule, reason), &metrics);
        }
        assert_eq!(
            shown(&metrics),
            [
                r#"portcullis_active_replacements{reason="Invalid"} 0"#,
                r#"portcullis_active_replacements{reason="UnsupportedValue"} 1"#,
                r#"portcullis_invalid_route_replacements_total{reason="Invalid"} 3"#,
            ]
        );
    }

    #[test]
    fn what_is_wider_than_a_route_is_counted_under_its_own_scope() {
        let (mut replacements, metrics) = (Replacements::default(), Metrics::default());
        let config = RouteConfigId { gateway: NsName::new("infra", "edge"), port: 80, listener: None };
        let now = || Some(Replacement { reason: Reason::Invalid, error: "why".into() });
        let host = Some((Hostname::Any, ir::ListenerName::of_gateway("web".into())));
        replacements.note_wide(vec![(ReplacedScope { config: config.clone(), host }, now())], &metrics);
        replacements.note_wide(vec![(ReplacedScope { config: config.clone(), host: None }, now())], &metrics);
        replacements.note_wide(vec![(ReplacedScope { config, host: None }, None)], &metrics);
        let shown = shown(&metrics).join("\n");
        for line in [
            r#"portcullis_active_replacements{gateway_namespace="infra",gateway="edge",scope="virtual_host",reason="Invalid"} 1"#,
            r#"portcullis_active_replacements{gateway_namespace="infra",gateway="edge",scope="route_configuration",reason="Invalid"} 0"#,
        ] {
            assert!(shown.contains(line), "{line} in\n{shown}");
        }
    }
}
