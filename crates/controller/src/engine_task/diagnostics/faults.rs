//! Rows that panic, which are errors of this program: counted, and logged once a transition.

use translate::Turned;

use super::MAX_LOGGED;
use crate::metrics::Metrics;

/// Takes note of rows that panicked, or do so no longer.
pub(super) fn note(turned: &[Turned], metrics: &Metrics) {
    for Turned { row, fault } in turned.iter().take(MAX_LOGGED) {
        match fault {
            Some(fault) => {
                let (place, message) = (fault.place(), fault.message());
                tracing::error!(
                    row,
                    place,
                    message,
                    "a row panicked at {place}: what it stands for is closed; please report it"
                );
            }
            None => tracing::info!(row, "a row that panicked is sound again, or gone"),
        }
    }
    if turned.len() > MAX_LOGGED {
        tracing::error!(count = turned.len() - MAX_LOGGED, "more rows panicked, or are sound again: see /debug/engine");
    }
    let panicked = turned.iter().filter(|turned| turned.fault.is_some()).count();
    metrics.internal_faults.inc_by(panicked as u64);
}

#[cfg(test)]
mod tests {
    use ir::{RouteId, Settings};
    use translate::Translator;

    use super::*;

    #[test]
    fn a_panic_is_counted_once_a_transition() {
        let (mut translator, metrics) = (Translator::new(Settings::default()), Metrics::default());
        translator.apply(translate::Change::Put(
            api::decode(serde_json::json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"namespace": "apps", "name": "r"}, "spec": {"parentRefs": [{"name": "edge"}]},
            }))
            .expect("a route")
            .object,
        ));
        let key = format!("{:?}", RouteId::http("apps", "r"));
        for (fails, faults, now) in [(true, 1, 1), (true, 1, 1), (false, 1, 0), (true, 2, 1)] {
            if fails {
                translator.fail_at("RouteStatus", &key);
            } else {
                translator.fail_no_more("RouteStatus", &key);
            }
            note(&translator.settle().faults, &metrics);
            assert_eq!((metrics.internal_faults.get(), translator.faults()), (faults, now));
        }
    }
}
