//! `timeouts`: how long requests may take.

use std::time::Duration;

use envoy_types::pb::{
    envoy::config::route::v3::{Route, route::Action},
    google::protobuf::Duration as ProtoDuration,
};
use ir::{route::Handling, rule};
use serde::Deserialize;

use super::{Deep, Refused, Unit, spec};

/// How long requests may take. None leaves it to others; zero switches it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For the request as a whole, retries included.
    pub request: Option<Duration>,
    /// For silence on a stream.
    pub stream_idle: Option<Duration>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    request: Option<String>,
    stream_idle: Option<String>,
}

impl Unit for Timeouts {
    const FIELD: &'static str = "timeouts";
    const HOLDS_FOR_ANSWERS: bool = false;
    const DEEP: Deep = Deep::Leaves;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"request": "1s"}"#,
        other: r#"{"request": "2s", "streamIdle": "3s"}"#,
        merged: Some((r#"{"request": "1s", "streamIdle": "3s"}"#, r#"{"request": "2s", "streamIdle": "3s"}"#)),
        off: None,
        refused: Some(r#"{"request": "soon"}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        if written.request.is_none() && written.stream_idle.is_none() {
            return Err(Refused::new("", "it says nothing; set request or streamIdle, or remove it"));
        }
        Ok(Self {
            request: spec::optional(written.request.as_deref(), "request")?,
            stream_idle: spec::optional(written.stream_idle.as_deref(), "streamIdle")?,
        })
    }

    fn over(&self, other: &Self) -> Option<Self> {
        Some(Self { request: self.request.or(other.request), stream_idle: self.stream_idle.or(other.stream_idle) })
    }

    /// A rule's own timeouts win over those that they name too.
    fn apply(&self, rule: &mut Handling) -> bool {
        let own = rule.fields.timeouts.get_or_insert_default();
        let holds = own.request.is_none() && self.request.is_some() || self.stream_idle.is_some();
        own.request = own.request.or(self.request);
        own.stream_idle = own.stream_idle.or(self.stream_idle);
        holds
    }

    fn explain(route: &Route) -> Option<String> {
        let Some(Action::Route(action)) = &route.action else { return None };
        let set = |timeout: Option<&ProtoDuration>| timeout.map(spec::duration).filter(|timeout| !timeout.is_zero());
        let request = set(action.timeout.as_ref());
        let one_try = set(action.retry_policy.as_ref().and_then(|policy| policy.per_try_timeout.as_ref()));
        // What only leaves the others time is nobody's word.
        let idle = set(action.idle_timeout.as_ref());
        let idle = idle.filter(|idle| {
            Some(*idle) != (rule::Timeouts { request, backend_request: one_try, stream_idle: None }).silence()
        });
        let parts = [("request", request), ("backendRequest", one_try), ("streamIdle", idle)];
        let parts: Vec<_> =
            parts.into_iter().filter_map(|(what, timeout)| Some(format!("{what} {:?}", timeout?))).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}
