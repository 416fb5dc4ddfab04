//! `csrf`: requests that change something must come from pages of their own host.

use std::sync::Arc;

use envoy::slots;
use envoy_types::pb::envoy::{
    config::{core::v3::RuntimeFractionalPercent, route::v3::Route},
    extensions::filters::http::csrf::v3::CsrfPolicy,
    r#type::matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern},
};
use ir::rule::Slot;
use serde::Deserialize;
use validate::{Invalid, regex};

use super::{Deep, Gateways, Refused, Unit, spec};

/// As the CRD has it.
const MOST_ORIGINS: usize = 16;

/// From where requests that change something may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csrf {
    slot: Slot,
    /// Whether it says for how many requests.
    says_share: bool,
    /// Whether it checks any.
    checks: bool,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    percentage_enabled: Option<i64>,
    percentage_shadowed: Option<i64>,
    #[serde(default)]
    additional_origins: Vec<Origin>,
}

/// Which hosts, with their ports, are meant.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Origin {
    exact: Option<String>,
    prefix: Option<String>,
    suffix: Option<String>,
    contains: Option<String>,
    safe_regex: Option<String>,
    #[serde(default)]
    ignore_case: bool,
}

impl Unit for Csrf {
    const FIELD: &'static str = "csrf";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::CSRF];
    const DEEP: Deep = Deep::Leaves;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"percentageEnabled": 10}"#,
        other: r#"{"percentageShadowed": 20, "additionalOrigins": [{"exact": "a"}]}"#,
        merged: Some((
            r#"{"percentageEnabled": 10, "additionalOrigins": [{"exact": "a"}]}"#,
            r#"{"percentageShadowed": 20, "additionalOrigins": [{"exact": "a"}]}"#,
        )),
        off: Some(r#"{"percentageEnabled": 0}"#),
        refused: Some(r#"{"additionalOrigins": [{"exact": ""}]}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let Spec { percentage_enabled, percentage_shadowed, additional_origins } = written;
        if percentage_enabled.is_some() && percentage_shadowed.is_some() {
            return Err(Refused::new("", "it must not have both percentageEnabled and percentageShadowed"));
        }
        let enabled = spec::percent(percentage_enabled, "percentageEnabled")?;
        let shadowed = spec::percent(percentage_shadowed, "percentageShadowed")?;
        spec::at_most(&additional_origins, "additionalOrigins", MOST_ORIGINS)?;
        let mut origins = Vec::with_capacity(additional_origins.len());
        let mut patterns: Vec<Arc<str>> = Vec::new();
        for (index, origin) in additional_origins.iter().enumerate() {
            let origin = origin.read(&format!("additionalOrigins[{index}]"))?;
            if let Some(MatchPattern::SafeRegex(matcher)) = &origin.match_pattern {
                patterns.push(matcher.regex.as_str().into());
            }
            origins.push(origin);
        }
        let share = |percent| RuntimeFractionalPercent {
            default_value: Some(spec::fraction(percent)),
            ..RuntimeFractionalPercent::default()
        };
        let message = CsrfPolicy {
            filter_enabled: Some(share(enabled.unwrap_or(0))),
            shadow_enabled: shadowed.map(share),
            additional_origins: origins,
        };
        Ok(Self {
            slot: Slot { patterns: patterns.into(), ..slots::slot(slots::CSRF, &message) },
            says_share: enabled.or(shadowed).is_some(),
            checks: enabled.max(shadowed) > Some(0),
        })
    }

    fn slots(&self) -> Vec<Slot> {
        self.checks.then(|| self.slot.clone()).into_iter().collect()
    }

    /// Both percentages are one field. One that says neither switches nothing off here.
    fn over(&self, other: &Self) -> Option<Self> {
        if self.says_share && !self.checks || other.says_share && !other.checks {
            return None;
        }
        let said = |unit: &Self| spec::decoded::<CsrfPolicy>(&unit.slot);
        let (own, others) = (said(self)?, said(other)?);
        let says_origins = !own.additional_origins.is_empty();
        let patterns = if says_origins { &self.slot.patterns } else { &other.slot.patterns };
        let (shares, by) = if self.says_share { (&own, self) } else { (&others, other) };
        let message = CsrfPolicy {
            filter_enabled: shares.filter_enabled.clone(),
            shadow_enabled: shares.shadow_enabled.clone(),
            additional_origins: if says_origins { own.additional_origins } else { others.additional_origins },
        };
        let slot = Slot { patterns: patterns.clone(), ..slots::slot(slots::CSRF, &message) };
        Some(Self { slot, says_share: by.says_share, checks: by.checks })
    }

    fn warning(&self, _: &dyn Gateways) -> Option<Refused> {
        let message =
            "no request is checked, since neither percentageEnabled nor percentageShadowed is above 0; set one";
        (!self.checks).then(|| Refused::new("", message))
    }

    fn explain(route: &Route) -> Option<String> {
        spec::said(route, slots::CSRF).map(|policy| words(&policy))
    }
}

impl Origin {
    fn read(&self, field: &str) -> Result<StringMatcher, Refused> {
        let all = [
            ("exact", &self.exact),
            ("prefix", &self.prefix),
            ("suffix", &self.suffix),
            ("contains", &self.contains),
            ("safeRegex", &self.safe_regex),
        ];
        let mut set = all.into_iter().filter_map(|(kind, value)| Some((kind, value.as_deref()?)));
        let (Some((kind, value)), None) = (set.next(), set.next()) else {
            return Err(Refused::new(field, "it must have one of exact, prefix, suffix, contains and safeRegex"));
        };
        let at = format!("{field}.{kind}");
        if value.is_empty() {
            let invalid = Invalid::new(value, "it is empty", "write a host, with its port if it has one");
            return Err(Refused::at(&at)(invalid));
        }
        let text = value.to_owned();
        let pattern = match kind {
            "exact" => MatchPattern::Exact(text),
            "prefix" => MatchPattern::Prefix(text),
            "suffix" => MatchPattern::Suffix(text),
            "contains" => MatchPattern::Contains(text),
            _ if self.ignore_case => {
                let message = "it does nothing for safeRegex; begin the expression with (?i) instead";
                return Err(Refused::new(&format!("{field}.ignoreCase"), message));
            }
            _ => {
                let regex = regex::check(value).map_err(Refused::at(&at))?.into_string();
                MatchPattern::SafeRegex(RegexMatcher { regex, ..RegexMatcher::default() })
            }
        };
        Ok(StringMatcher { match_pattern: Some(pattern), ignore_case: self.ignore_case })
    }
}

fn words(policy: &CsrfPolicy) -> String {
    let share = |share: &Option<RuntimeFractionalPercent>| {
        share.as_ref().and_then(|share| share.default_value).map_or(0, |share| share.numerator)
    };
    let (enabled, shadowed) = (share(&policy.filter_enabled), share(&policy.shadow_enabled));
    let checked =
        if enabled > 0 { format!("{enabled}% are held to it") } else { format!("{shadowed}% are counted only") };
    let origin = |origin: &StringMatcher| match &origin.match_pattern {
        Some(MatchPattern::Exact(text)) => text.clone(),
        Some(MatchPattern::Prefix(text)) => format!("{text}..."),
        Some(MatchPattern::Suffix(text)) => format!("...{text}"),
        Some(MatchPattern::Contains(text)) => format!("...{text}..."),
        Some(MatchPattern::SafeRegex(matcher)) => matcher.regex.clone(),
        _ => String::new(),
    };
    let others: Vec<_> = policy.additional_origins.iter().map(origin).collect();
    let others = if others.is_empty() { String::new() } else { format!(" or {}", others.join(", ")) };
    format!("requests that change something come from pages of their own host{others}; {checked}")
}
