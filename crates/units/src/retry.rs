//! `retry`: whether requests are tried again.

use std::{sync::Arc, time::Duration};

use api::traffic_policy::TrafficPolicySpec;
use envoy_types::pb::envoy::config::route::v3::{Route, route::Action};
use ir::{route::Handling, rule};
use serde::Deserialize;
use validate::{Invalid, number};

use super::{Deep, Refused, Unit, spec, timeouts::Timeouts};

/// Whether requests are tried again. What is empty or none is not said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Envoy's conditions.
    conditions: Vec<Arc<str>>,
    /// The statuses; sorted, once each.
    codes: Vec<u16>,
    attempts: u32,
    backoff: Duration,
    /// How long one try may take.
    per_try: Option<Duration>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    #[serde(default)]
    retry_on: Vec<String>,
    attempts: Option<i64>,
    per_try_timeout: Option<String>,
    #[serde(default)]
    status_codes: Vec<i64>,
    backoff_base_interval: Option<String>,
}

/// The conditions of Envoy that the CRD allows.
const CONDITIONS: [&str; 15] = [
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "envoy-ratelimited",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];

/// As the CRD completes it, so that it counts as said.
const DEFAULT_ATTEMPTS: i64 = 1;
/// The same.
const DEFAULT_BACKOFF: Duration = Duration::from_millis(25);

impl Unit for Retry {
    const FIELD: &'static str = "retry";
    const HOLDS_FOR_ANSWERS: bool = false;
    const DEEP: Deep = Deep::Leaves;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"retryOn": ["5xx"], "attempts": 2}"#,
        other: r#"{"statusCodes": [503], "attempts": 3, "perTryTimeout": "1s"}"#,
        merged: Some((
            r#"{"retryOn": ["5xx"], "statusCodes": [503], "attempts": 2, "perTryTimeout": "1s"}"#,
            r#"{"retryOn": ["5xx"], "statusCodes": [503], "attempts": 3, "perTryTimeout": "1s"}"#,
        )),
        off: None,
        refused: Some(r#"{"attempts": 2}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let says_when = written.retry_on.iter().any(|condition| condition != rule::Retry::BY_STATUS);
        if !says_when && written.status_codes.is_empty() {
            return Err(Refused::new("", "it says nothing of when to try again; set retryOn or statusCodes"));
        }
        let mut conditions: Vec<Arc<str>> = Vec::with_capacity(written.retry_on.len() + 1);
        for (index, condition) in written.retry_on.iter().enumerate() {
            if !CONDITIONS.contains(&&**condition) {
                let remedy = format!("use one of {}", CONDITIONS.join(", "));
                let invalid = Invalid::new(condition, "it is no condition for a retry", remedy);
                return Err(Refused::at(format_args!("retryOn[{index}]"))(invalid));
            }
            conditions.push(condition.as_str().into());
        }
        let mut codes = Vec::with_capacity(written.status_codes.len());
        for (index, code) in written.status_codes.iter().enumerate() {
            let code = number::retry_status(*code).map_err(Refused::at(format_args!("statusCodes[{index}]")))?;
            codes.extend(u16::try_from(code));
        }
        codes.sort_unstable();
        codes.dedup();
        let attempts = written.attempts.unwrap_or(DEFAULT_ATTEMPTS);
        let attempts = u32::try_from(attempts).map_err(|_| {
            let invalid = Invalid::new(&attempts.to_string(), "it is not a number of retries", "use 0 or more");
            Refused::at("attempts")(invalid)
        })?;
        let per_try = spec::positive(written.per_try_timeout.as_deref(), "perTryTimeout")?;
        let backoff = spec::positive(written.backoff_base_interval.as_deref(), "backoffBaseInterval")?;
        let backoff = backoff.unwrap_or(DEFAULT_BACKOFF);
        Ok(Self { conditions, codes, attempts, backoff, per_try })
    }

    fn beside(&self, policy: &TrafficPolicySpec) -> Result<(), Refused> {
        let Some(per_try) = self.per_try else { return Ok(()) };
        let timeouts = policy.fields.get(Timeouts::FIELD);
        let request = timeouts.as_ref().and_then(|timeouts| timeouts.get("request")?.as_str());
        let request = request.and_then(|request| validate::duration::parse(request).ok());
        if request.is_none_or(|request| request.is_zero() || per_try < request) {
            return Ok(());
        }
        let message = "one try may not take as long as the whole request; shorten it, or lengthen timeouts.request";
        Err(Refused::new("perTryTimeout", message))
    }

    fn over(&self, other: &Self) -> Option<Self> {
        Some(Self {
            conditions: spec::said_list(&self.conditions, &other.conditions),
            codes: spec::said_list(&self.codes, &other.codes),
            attempts: self.attempts,
            backoff: self.backoff,
            per_try: self.per_try.or(other.per_try),
        })
    }

    /// A rule's own `retry` wins as a whole.
    fn apply(&self, rule: &mut Handling) -> bool {
        if rule.fields.retry.is_some() {
            return false;
        }
        let by_status = (!self.codes.is_empty()).then(|| rule::Retry::BY_STATUS.into());
        let mut conditions: Vec<Arc<str>> = self.conditions.iter().cloned().chain(by_status).collect();
        conditions.sort_unstable();
        conditions.dedup();
        let (codes, attempts, backoff) = (self.codes.clone(), Some(self.attempts), Some(self.backoff));
        rule.fields.retry = Some(Box::new(rule::Retry { conditions, codes, attempts, backoff }));
        if self.per_try.is_some() {
            let timeouts = rule.fields.timeouts.get_or_insert_default();
            timeouts.backend_request = timeouts.backend_request.or(self.per_try);
        }
        true
    }

    fn explain(route: &Route) -> Option<String> {
        let Some(Action::Route(action)) = &route.action else { return None };
        let policy = action.retry_policy.as_ref().filter(|policy| !policy.retry_on.is_empty())?;
        let attempts = policy.num_retries.map_or(1, |retries| retries.value);
        let codes: Vec<_> = policy.retriable_status_codes.iter().map(ToString::to_string).collect();
        let conditions = policy.retry_on.split(',').filter(|condition| *condition != rule::Retry::BY_STATUS);
        let conditions: Vec<_> = conditions.collect();
        let mut when = Vec::new();
        if conditions == rule::Retry::CONNECTION {
            when.push("when a connection fails".to_owned());
        } else if !conditions.is_empty() {
            when.push(format!("when {}", conditions.join(", ")));
        }
        if !codes.is_empty() {
            when.push(format!("on {}", codes.join(", ")));
        }
        Some(format!("at most {attempts} more, {}", when.join(" and ")))
    }
}
