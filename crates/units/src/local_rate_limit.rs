//! `rateLimit.local`: each proxy counts requests by itself, and refuses those that are too many.

use std::time::Duration;

use envoy::{bytes::any, extensions, slots};
use envoy_types::pb::envoy::{
    config::{
        core::v3::{RuntimeFractionalPercent, TypedExtensionConfig},
        route::v3::Route,
    },
    extensions::filters::http::{
        filter_chain::v3::{FilterChain, FilterChainConfigPerRoute},
        local_ratelimit::v3::LocalRateLimit as EnvoyLimit,
        set_metadata::v3::{Config as SetMetadata, Metadata},
    },
    r#type::v3::TokenBucket as EnvoyBucket,
};
use ir::rule::{ExtensionEntry, LocalRate, Slot};
use prost::Message;
use serde::Deserialize;
use validate::{Invalid, duration};

use super::{Refused, Unit, spec};

/// What Envoy takes at least.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// How many requests are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalRateLimit {
    /// As many as come.
    Off,
    /// The bucket outlives changes of routes: it is in the configuration that comes apart from them.
    Rate(LocalRate),
    /// A share of the requests is counted, or refused. Such a limit stands in the routes, and with each change of these its
    /// bucket is full again: of one that comes apart Envoy knows one share for all. Its slot is another than that of rates:
    /// a rate that is nearer only switches its own on, and Envoy would take the wider configuration with it.
    Share(Slot),
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
    const SLOTS: &'static [&'static str] = &[slots::LOCAL_RATE, slots::LOCAL_RATE_LIMIT, slots::LOCAL_RATE_SHARE];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"tokenBucket": {"maxTokens": 1, "fillInterval": "1s"}}"#,
        other: r#"{"tokenBucket": {"maxTokens": 2, "fillInterval": "1s"}, "percentEnabled": 50}"#,
        merged: None,
        off: Some("{}"),
        refused: Some(r#"{"percentEnabled": 50}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let Spec { token_bucket, percent_enabled, percent_enforced } = written;
        let Some(bucket) = token_bucket else {
            if percent_enabled.is_none() && percent_enforced.is_none() {
                return Ok(Self::Off);
            }
            let message = "missing; set it, or leave the percentages out too to have no limit";
            return Err(Refused::new("tokenBucket", message));
        };
        let rate = bucket.read()?;
        let share = |percent, field| Ok(spec::percent(percent, field)?.unwrap_or(100));
        let enabled = share(percent_enabled, "percentEnabled")?;
        let enforced = share(percent_enforced, "percentEnforced")?;
        if (enabled, enforced) == (100, 100) {
            return Ok(Self::Rate(rate));
        }
        let share = |percent| RuntimeFractionalPercent {
            default_value: Some(spec::fraction(percent)),
            ..RuntimeFractionalPercent::default()
        };
        let message = EnvoyLimit {
            stat_prefix: "local".into(),
            token_bucket: Some(extensions::bucket(&rate)),
            filter_enabled: Some(share(enabled)),
            filter_enforced: Some(share(enforced)),
            ..EnvoyLimit::default()
        };
        Ok(Self::Share(slots::slot(slots::LOCAL_RATE_SHARE, &message)))
    }

    fn slots(&self) -> Vec<Slot> {
        self.written(extensions::own_rate)
    }

    fn wide_slots(&self, supplier: &str) -> Vec<Slot> {
        super::complete::<Self>(self.written(|rate| extensions::shared_rate(rate, supplier)))
    }

    fn explain(route: &Route) -> Option<String> {
        if let Some(metadata) = spec::said(route, slots::LOCAL_RATE).and_then(metadata) {
            return extensions::said_rate(&metadata).map(|rate| format!("{}, in each proxy", words(rate)));
        }
        let limit = spec::said::<EnvoyLimit>(route, slots::LOCAL_RATE_SHARE)?;
        let EnvoyBucket { max_tokens, tokens_per_fill, fill_interval } = limit.token_bucket?;
        let share = |share: Option<RuntimeFractionalPercent>| {
            share.and_then(|share| share.default_value).map_or(0, |share| share.numerator)
        };
        let (enabled, enforced) = (share(limit.filter_enabled), share(limit.filter_enforced));
        let (more, interval) = (tokens_per_fill.map_or(1, |fill| fill.value), spec::duration(&fill_interval?));
        let rate = words(&LocalRate { most: max_tokens, more, interval }.to_string());
        Some(format!("{rate}, in each proxy, {enabled}% are counted, of these {enforced}% held to it"))
    }
}

impl LocalRateLimit {
    /// What it says in slots; `said` is what says its rate.
    fn written(&self, said: impl FnOnce(&LocalRate) -> Vec<Metadata>) -> Vec<Slot> {
        match self {
            Self::Off => Vec::new(),
            Self::Share(slot) => vec![slot.clone()],
            Self::Rate(rate) => {
                let filter = SetMetadata { metadata: said(rate), ..SetMetadata::default() };
                let inner = TypedExtensionConfig { name: slots::LOCAL_RATE.into(), typed_config: Some(any(&filter)) };
                let chain = FilterChainConfigPerRoute { filter_chain: Some(FilterChain { filters: vec![inner] }) };
                let entry = Some(ExtensionEntry::LocalRate(*rate).into());
                vec![Slot { entry, ..slots::slot(slots::LOCAL_RATE, &chain) }, slots::on(slots::LOCAL_RATE_LIMIT)]
            }
        }
    }
}

/// What a route says of its rate.
fn metadata(slot: FilterChainConfigPerRoute) -> Option<Vec<Metadata>> {
    let chain = slot.filter_chain?;
    let filter = chain.filters.first()?.typed_config.as_ref()?;
    Some(SetMetadata::decode(&*filter.value).ok()?.metadata)
}

/// The name of a rate, in words.
fn words(rate: &str) -> String {
    let parts = rate.split_once('+').and_then(|(most, rest)| Some((most, rest.split_once('/')?)));
    parts.map_or_else(
        || rate.to_owned(),
        |(most, (more, interval))| format!("{most} requests at once, {more} more each {interval}"),
    )
}

impl TokenBucket {
    fn read(&self) -> Result<LocalRate, Refused> {
        let tokens = |number: i64, field: &str| {
            u32::try_from(number).ok().filter(|tokens| *tokens > 0).ok_or_else(|| {
                let invalid = Invalid::new(&number.to_string(), "it is no number of requests", "use 1 or more");
                Refused::at(format_args!("tokenBucket.{field}"))(invalid)
            })
        };
        let interval = duration::parse(&self.fill_interval).map_err(Refused::at("tokenBucket.fillInterval"))?;
        if interval < LEAST_INTERVAL {
            let why = "Envoy fills a bucket no more often than each 50ms";
            let invalid = Invalid::new(&self.fill_interval, why, "use 50ms or more, with more tokens");
            return Err(Refused::at("tokenBucket.fillInterval")(invalid));
        }
        Ok(LocalRate {
            most: tokens(self.max_tokens, "maxTokens")?,
            more: tokens(self.tokens_per_fill.unwrap_or(1), "tokensPerFill")?,
            interval,
        })
    }
}
