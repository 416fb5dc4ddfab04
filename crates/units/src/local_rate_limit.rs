//! `rateLimit.local`: each proxy counts requests by itself, and refuses those that are too many.

use std::time::Duration;

use api::traffic_policy::TrafficPolicySpec;
use envoy::slots;
use envoy_types::pb::{
    envoy::{
        config::{core::v3::RuntimeFractionalPercent, route::v3::Route},
        extensions::filters::http::local_ratelimit::v3::LocalRateLimit as EnvoyLimit,
        r#type::v3::TokenBucket as EnvoyBucket,
    },
    google::protobuf::UInt32Value,
};
use ir::rule::Slot;
use serde::Deserialize;
use validate::{Invalid, duration};

use super::{Refused, Unit, spec};

/// What Envoy takes at least.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// How many requests are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalRateLimit {
    /// None switches it off.
    slot: Option<Slot>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    token_bucket: Option<TokenBucket>,
    percent_enabled: Option<i64>,
    percent_enforced: Option<i64>,
}

/// How many requests are taken in a time.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TokenBucket {
    max_tokens: i64,
    tokens_per_fill: Option<i64>,
    fill_interval: String,
}

impl Unit for LocalRateLimit {
    const FIELD: &'static str = "rateLimit.local";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::LOCAL_RATE_LIMIT];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"tokenBucket": {"maxTokens": 1, "fillInterval": "1s"}}"#,
        other: r#"{"tokenBucket": {"maxTokens": 2, "fillInterval": "1s"}, "percentEnabled": 50}"#,
        merged: None,
        off: Some("{}"),
        refused: Some(r#"{"percentEnabled": 50}"#),
    };
    type Spec = Spec;

    fn read(written: Spec, _: &TrafficPolicySpec) -> Result<Self, Refused> {
        let Spec { token_bucket, percent_enabled, percent_enforced } = written;
        let Some(bucket) = token_bucket else {
            if percent_enabled.is_none() && percent_enforced.is_none() {
                return Ok(Self { slot: None });
            }
            let message = "missing; set it, or leave the percentages out too to have no limit";
            return Err(Refused::new("tokenBucket", message));
        };
        let share = |percent, field| {
            let percent = spec::percent(percent, field)?.unwrap_or(100);
            Ok(RuntimeFractionalPercent {
                default_value: Some(spec::fraction(percent)),
                ..RuntimeFractionalPercent::default()
            })
        };
        let message = EnvoyLimit {
            stat_prefix: "local".into(),
            token_bucket: Some(bucket.read()?),
            filter_enabled: Some(share(percent_enabled, "percentEnabled")?),
            filter_enforced: Some(share(percent_enforced, "percentEnforced")?),
            ..EnvoyLimit::default()
        };
        Ok(Self { slot: Some(slots::slot(slots::LOCAL_RATE_LIMIT, &message)) })
    }

    fn slots(&self) -> Vec<Slot> {
        self.slot.clone().into_iter().collect()
    }

    fn explain(route: &Route) -> Option<String> {
        let limit = spec::said::<EnvoyLimit>(route, slots::LOCAL_RATE_LIMIT)?;
        let EnvoyBucket { max_tokens, tokens_per_fill, fill_interval } = limit.token_bucket?;
        let share = |share: Option<RuntimeFractionalPercent>| {
            share.and_then(|share| share.default_value).map_or(0, |share| share.numerator)
        };
        let (enabled, enforced) = (share(limit.filter_enabled), share(limit.filter_enforced));
        let held = if (enabled, enforced) == (100, 100) {
            String::new()
        } else {
            format!(", {enabled}% are counted, of these {enforced}% held to it")
        };
        let (fill, interval) = (tokens_per_fill.map_or(1, |fill| fill.value), spec::duration(&fill_interval?));
        Some(format!("{max_tokens} requests at once, {fill} more each {interval:?}, in each proxy{held}"))
    }
}

impl TokenBucket {
    fn read(&self) -> Result<EnvoyBucket, Refused> {
        let tokens = |number: i64, field: &str| {
            u32::try_from(number).ok().filter(|tokens| *tokens > 0).ok_or_else(|| {
                let invalid = Invalid::new(&number.to_string(), "it is no number of requests", "use 1 or more");
                Refused::at(&format!("tokenBucket.{field}"))(invalid)
            })
        };
        let interval = duration::parse(&self.fill_interval).map_err(Refused::at("tokenBucket.fillInterval"))?;
        if interval < LEAST_INTERVAL {
            let why = "Envoy fills a bucket no more often than each 50ms";
            let invalid = Invalid::new(&self.fill_interval, why, "use 50ms or more, with more tokens");
            return Err(Refused::at("tokenBucket.fillInterval")(invalid));
        }
        Ok(EnvoyBucket {
            max_tokens: tokens(self.max_tokens, "maxTokens")?,
            tokens_per_fill: Some(UInt32Value { value: tokens(self.tokens_per_fill.unwrap_or(1), "tokensPerFill")? }),
            fill_interval: Some(spec::proto_duration(interval)),
        })
    }
}
