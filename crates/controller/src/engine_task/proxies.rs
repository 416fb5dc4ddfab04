//! What proxies report: logged, counted, and remembered for the statuses of their Gateways.

mod log;
mod rejections;

use std::time::Instant;

use ir::NsName;
use xds::{Answer, Event};

use crate::metrics::{GatewayLabel, Metrics, OutcomeLabel, ReasonLabel, RefusalLabels};
use log::ProxyLog;
use rejections::Rejections;

/// So many names of a response are logged; it may have thousands.
const LOGGED_NAMES: usize = 10;

/// The proxies of all Gateways.
pub(super) struct Proxies {
    log: ProxyLog,
    rejections: Rejections,
    metrics: Metrics,
}

impl Proxies {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self { log: ProxyLog::default(), rejections: Rejections::default(), metrics }
    }

    /// Takes in an event. Returns the Gateway whose report it changes, with the report; none where all is accepted.
    pub(super) fn take(&mut self, event: &Event) -> Option<(NsName, Option<String>)> {
        self.count(event);
        self.log(event);
        self.rejections.take(event)
    }

    fn count(&self, event: &Event) {
        let metrics = &self.metrics;
        match event {
            Event::Connected { .. } => _ = metrics.streams.inc(),
            Event::Disconnected { .. } => _ = metrics.streams.dec(),
            Event::Nacked { gateway, kind, .. } => {
                let labels = RefusalLabels { gateway: gateway.clone(), r#type: kind.to_string() };
                metrics.nacks.get_or_create(&labels).inc();
            }
            Event::Tried { answer, .. } => {
                let outcome = match answer {
                    Answer::Taken => "taken",
                    Answer::Rejected(_) => "refused",
                    Answer::Ended => "ended",
                };
                metrics.nack_trials.get_or_create(&OutcomeLabel::of(outcome)).inc();
            }
            Event::Outdated { gateway, .. } => {
                metrics.outdated_streams.get_or_create(&GatewayLabel::of(gateway.clone())).inc();
            }
            Event::Refused { reason, count } => {
                metrics.refused_streams.get_or_create(&ReasonLabel::of(reason.as_str())).inc_by(*count);
            }
            Event::UnknownName { gateway, count, .. } => {
                metrics.unknown_names.get_or_create(&GatewayLabel::of(gateway.clone())).inc_by(*count);
            }
            Event::GateExpired { .. } => _ = metrics.gates_expired.inc(),
            _ => {}
        }
    }

    fn log(&mut self, event: &Event) {
        let now = Instant::now();
        let mut logs = |gateway: &str| self.log.admits(gateway, now);
        let first = |names: &[String]| names[..names.len().min(LOGGED_NAMES)].to_vec();
        match event {
            Event::Connected { gateway, node_id, stream, .. } if logs(gateway) => {
                tracing::info!(%gateway, %node_id, stream, "an Envoy is connected");
            }
            Event::Disconnected { gateway, stream } if logs(gateway) => {
                tracing::info!(%gateway, stream, "an Envoy is gone");
            }
            Event::Nacked { gateway, kind, names, message, .. } if logs(gateway) => {
                let (count, names) = (names.len(), first(names));
                tracing::warn!(%gateway, %kind, count, ?names, %message, "an Envoy refused an update");
            }
            Event::Recovered { gateway, kind, names, .. } if logs(gateway) => {
                let (count, names) = (names.len(), first(names));
                tracing::info!(%gateway, %kind, count, ?names, "what an Envoy had refused is in order");
            }
            Event::Outdated { gateway, version, least, .. } if logs(gateway) => {
                tracing::warn!(%gateway, %version, %least, "an Envoy is too old, and is sent no listeners and no routes");
            }
            Event::UnknownName { gateway, kind, name, count, .. } if logs(gateway) => {
                tracing::info!(%gateway, %kind, name, count, "an Envoy asks for what is not there");
            }
            Event::GateExpired { gateway, gate, .. } if logs(gateway) => {
                tracing::warn!(%gateway, ?gate, "an Envoy did not acknowledge in time, so it was not waited for");
            }
            _ => {}
        }
    }
}
