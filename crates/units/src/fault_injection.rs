//! `faultInjection`: requests are delayed or answered with a fault, to see what becomes of their clients.

use std::time::Duration;

use envoy::slots;
use envoy_types::pb::{
    envoy::{
        config::route::v3::Route,
        extensions::filters::{
            common::fault::v3::{
                FaultDelay, FaultRateLimit, fault_delay::FaultDelaySecifier, fault_rate_limit,
                fault_rate_limit::LimitType,
            },
            http::fault::v3::{FaultAbort, HttpFault, fault_abort::ErrorType},
        },
        r#type::v3::FractionalPercent,
    },
    google::protobuf::UInt32Value,
};
use ir::rule::Slot;
use serde::Deserialize;
use serde_json::{Map, Value};
use validate::{Invalid, duration, number};

use super::{Deep, Refused, Unit, spec};

/// The longest delay, as the CRD has it.
const LONGEST_DELAY: Duration = Duration::from_hours(1);

/// The greatest rate, in KiB a second. Envoy counts bytes in 64 bits.
const GREATEST_RATE: u64 = 1 << 31;

/// Which requests are delayed or answered with a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultInjection {
    /// None switches it off.
    slot: Option<Slot>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    delay: Option<Delay>,
    abort: Option<Abort>,
    response_rate_limit: Option<RateLimit>,
    max_active_faults: Option<i64>,
    disable: Option<Map<String, Value>>,
}

/// Requests wait.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delay {
    fixed_delay: String,
    percentage: Option<i64>,
}

/// Requests are answered with a status.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Abort {
    http_status: Option<i64>,
    grpc_status: Option<i64>,
    percentage: Option<i64>,
}

/// Responses come slowly.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RateLimit {
    kbits_per_second: i64,
    percentage: Option<i64>,
}

impl Unit for FaultInjection {
    const FIELD: &'static str = "faultInjection";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::FAULT];
    const DEEP: Deep = Deep::Leaves;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"abort": {"httpStatus": 501}}"#,
        other: r#"{"abort": {"httpStatus": 502}, "delay": {"fixedDelay": "1s"}}"#,
        merged: Some((
            r#"{"abort": {"httpStatus": 501}, "delay": {"fixedDelay": "1s"}}"#,
            r#"{"abort": {"httpStatus": 502}, "delay": {"fixedDelay": "1s"}}"#,
        )),
        off: Some(r#"{"disable": {}}"#),
        refused: Some(r#"{"abort": {}}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let Spec { delay, abort, response_rate_limit, max_active_faults, disable } = written;
        if disable.is_some() {
            return Ok(Self { slot: None });
        }
        if delay.is_none() && abort.is_none() && response_rate_limit.is_none() {
            return Err(Refused::new("", "it says nothing; set delay, abort, responseRateLimit or disable"));
        }
        let most = max_active_faults.map(|most| {
            u32::try_from(most).map_err(|_| {
                let invalid = Invalid::new(&most.to_string(), "it is not a number of requests", "use 0 or more");
                Refused::at("maxActiveFaults")(invalid)
            })
        });
        let message = HttpFault {
            delay: delay.map(|delay| delay.read()).transpose()?,
            abort: abort.map(|abort| abort.read()).transpose()?,
            response_rate_limit: response_rate_limit.map(|limit| limit.read()).transpose()?,
            max_active_faults: most.transpose()?.map(|value| UInt32Value { value }),
            // Or clients would make statistics with names of their own, without bound.
            disable_downstream_cluster_stats: true,
            ..HttpFault::default()
        };
        Ok(Self { slot: Some(slots::slot(slots::FAULT, &message)) })
    }

    fn slots(&self) -> Vec<Slot> {
        self.slot.clone().into_iter().collect()
    }

    /// Each of the faults is one field.
    fn over(&self, other: &Self) -> Option<Self> {
        let said = |unit: &Self| spec::decoded::<HttpFault>(unit.slot.as_ref()?);
        let (own, other) = (said(self)?, said(other)?);
        let message = HttpFault {
            delay: own.delay.or(other.delay),
            abort: own.abort.or(other.abort),
            response_rate_limit: own.response_rate_limit.or(other.response_rate_limit),
            max_active_faults: own.max_active_faults.or(other.max_active_faults),
            ..own
        };
        Some(Self { slot: Some(slots::slot(slots::FAULT, &message)) })
    }

    fn explain(route: &Route) -> Option<String> {
        spec::said(route, slots::FAULT).map(|fault| words(&fault))
    }
}

impl Delay {
    fn read(&self) -> Result<FaultDelay, Refused> {
        let text = &*self.fixed_delay;
        let delay = duration::positive(text).map_err(Refused::at("delay.fixedDelay"))?;
        if delay > LONGEST_DELAY {
            let invalid = Invalid::new(text, "a request may not wait that long", "use at most 1h");
            return Err(Refused::at("delay.fixedDelay")(invalid));
        }
        Ok(FaultDelay {
            percentage: Some(share(self.percentage, "delay.percentage")?),
            fault_delay_secifier: Some(FaultDelaySecifier::FixedDelay(spec::proto_duration(delay))),
        })
    }
}

impl Abort {
    fn read(&self) -> Result<FaultAbort, Refused> {
        let status = match (self.http_status, self.grpc_status) {
            (Some(status), None) => {
                ErrorType::HttpStatus(number::response_status(status).map_err(Refused::at("abort.httpStatus"))?)
            }
            (None, Some(status)) => {
                let known = u32::try_from(status).ok().filter(|status| *status <= 16);
                ErrorType::GrpcStatus(known.ok_or_else(|| {
                    let invalid = Invalid::new(&status.to_string(), "it is no status of gRPC", "use 0 to 16");
                    Refused::at("abort.grpcStatus")(invalid)
                })?)
            }
            _ => return Err(Refused::new("abort", "it must have either httpStatus or grpcStatus")),
        };
        Ok(FaultAbort {
            percentage: Some(share(self.percentage, "abort.percentage")?),
            error_type: Some(status),
            ..FaultAbort::default()
        })
    }
}

impl RateLimit {
    /// Envoy calls its unit kbit and takes it for KiB.
    fn read(&self) -> Result<FaultRateLimit, Refused> {
        let rate = u64::try_from(self.kbits_per_second).ok().filter(|rate| (1..=GREATEST_RATE).contains(rate));
        let limit_kbps = rate.ok_or_else(|| {
            let why = "it is no rate that responses can be held to";
            let invalid = Invalid::new(&self.kbits_per_second.to_string(), why, "use 1 to 2147483648");
            Refused::at("responseRateLimit.kbitsPerSecond")(invalid)
        })?;
        Ok(FaultRateLimit {
            percentage: Some(share(self.percentage, "responseRateLimit.percentage")?),
            limit_type: Some(LimitType::FixedLimit(fault_rate_limit::FixedLimit { limit_kbps })),
        })
    }
}

/// The share of requests; all of them unless said.
fn share(percentage: Option<i64>, field: &str) -> Result<FractionalPercent, Refused> {
    Ok(spec::fraction(spec::percent(percentage, field)?.unwrap_or(100)))
}

fn words(fault: &HttpFault) -> String {
    let share = |share: Option<&FractionalPercent>| format!("{}%", share.map_or(0, |share| share.numerator));
    let mut parts = Vec::new();
    if let Some(FaultDelay { percentage, fault_delay_secifier: Some(FaultDelaySecifier::FixedDelay(delay)) }) =
        &fault.delay
    {
        parts.push(format!("{} wait {:?}", share(percentage.as_ref()), spec::duration(delay)));
    }
    if let Some(FaultAbort { percentage, error_type, .. }) = &fault.abort {
        let status = match error_type {
            Some(ErrorType::HttpStatus(status)) => format!("{status}"),
            Some(ErrorType::GrpcStatus(status)) => format!("gRPC status {status}"),
            _ => "a fault".into(),
        };
        parts.push(format!("{} are answered {status}", share(percentage.as_ref())));
    }
    if let Some(FaultRateLimit { percentage, limit_type: Some(LimitType::FixedLimit(limit)) }) =
        &fault.response_rate_limit
    {
        parts.push(format!("{} of responses come at {} KiB/s", share(percentage.as_ref()), limit.limit_kbps));
    }
    if let Some(most) = &fault.max_active_faults {
        parts.push(format!("while fewer than {} faults are active at the listener", most.value));
    }
    parts.join(", ")
}
