//! What single things take of a proxy's memory, in bytes.
//!
//! Measured with Envoy 1.40 (`docs/settings.md` has the figures). What stands in a route configuration counts three times
//! what it has allocated: while a new one takes the place of an old one both are there, and a process grows further than
//! what it has allocated. What clusters and endpoints have allocated counts twice: those of other names stand beside the old
//! ones until no route uses these.

use envoy::bytes::{Row, readable};
use ir::{
    filter::PathModifier,
    matching::{PathMatch, RequestMatch, ValueMatch},
    rule::{Rule, Slot},
};
use units::extension::{Provider, TokenCounts};
use validate::{cors, regex};

use crate::budget::cost::Taken;

/// A virtual host without routes.
pub(crate) const HOST: u64 = 4_000;

/// A virtual host that answers 500 to everything.
pub(crate) const CLOSED_HOST: u64 = 9_000;

/// A filter chain of a hostname of TLSRoutes, or a listener's alone, while a new one takes the place of an old one.
pub(crate) const CHAIN: u64 = 40_000;

/// A listener of HTTPS on a port that is there: its filter chain with all HTTP filters, and its route configuration, while new ones take
/// the place of old ones. With two workers 247 kB were seen for one of each.
pub(crate) const HTTPS_LISTENER: u64 = 500_000;

/// A cluster without endpoints.
const CLUSTER: u64 = 130_000;

/// An endpoint of a cluster.
const ENDPOINT: u64 = 3_500;

/// A route; a byte of its message; a message, text or list in that.
const ROUTE: u64 = 4_500;
const BYTE: u64 = 8;
const PART: u64 = 330;

/// An expression, and an instruction of it.
const EXPRESSION: u64 = 4_500;
const INSTRUCTION: u64 = 120;

/// A name for the statistics of a route: twice what counters and a histogram take with two workers, once there are requests.
const STAT_PREFIX: u64 = 16_000;

/// A provider of tokens, a key of one, and a claim that becomes a header: three times what they have allocated.
const TOKENS: u64 = 10_000;
const KEY: u64 = 7_500;
const CLAIM: u64 = 2_200;

/// The most that is counted for one thing, so that sums cannot overflow.
pub(crate) const MOST: u64 = 1 << 40;

/// An Envoy route with these slots, its expressions left out.
pub(crate) fn route(row: &Row, slots: &[Slot]) -> u64 {
    ROUTE + BYTE * row.bytes.len() as u64 + PART * readable::parts_of_route(&row.bytes, slots)
}

/// Slots of a virtual host.
pub(crate) fn slots(slots: &[Slot]) -> u64 {
    let messages = slots.iter().map(|slot| BYTE * slot.config.len() as u64 + PART * (1 + slot.parts));
    messages.sum::<u64>() + of_slots(slots)
}

/// The expressions of slots.
fn of_slots(slots: &[Slot]) -> u64 {
    slots.iter().flat_map(|slot| slot.patterns.iter()).map(|pattern| expression(pattern)).sum()
}

/// What each Envoy route of a rule has besides its message: expressions, without what is built while requests meet them, and
/// statistics.
pub(crate) fn of_rule(rule: &Rule) -> u64 {
    let rewrite = match &rule.filters.rewrite.path {
        Some(PathModifier::Regex { pattern, .. }) => expression(pattern),
        _ => 0,
    };
    let origins = rule.filters.cors.iter().flat_map(|cors| &cors.allow_origins);
    let origins = origins.map(|origin| match cors::origin(origin) {
        Ok(cors::Origin::Pattern(pattern)) => expression(pattern.as_str()),
        _ => 0,
    });
    let statistics = if rule.by_policy.stat_prefix.is_some() { STAT_PREFIX } else { 0 };
    rewrite + origins.sum::<u64>() + of_slots(&rule.slots) + statistics
}

/// The expressions of a match; `taken` tells what is built while requests meet them.
pub(crate) fn of_match(request: &RequestMatch, taken: Option<Taken>) -> u64 {
    let Some(taken) = taken else { return 0 };
    let path = match &request.path {
        PathMatch::Regex(pattern) => expression(pattern),
        _ => 0,
    };
    let conditions = request.headers.iter().chain(&request.queries).map(|condition| match &condition.value {
        ValueMatch::Regex(pattern) => expression(pattern),
        ValueMatch::Exact(_) => 0,
    });
    path + conditions.sum::<u64>() + taken.memory
}

fn expression(pattern: &str) -> u64 {
    EXPRESSION + INSTRUCTION * regex::program_size(pattern).unwrap_or_default()
}

/// A cluster with so many endpoints.
pub(crate) fn cluster(endpoints: u64) -> u64 {
    CLUSTER.saturating_add(endpoints.saturating_mul(ENDPOINT)).min(MOST)
}

/// Those whose tokens are taken by the word of one extension.
pub(crate) fn tokens(provider: &Provider) -> u64 {
    let TokenCounts { providers, keys, claims, bytes } = provider.token_counts();
    let each = [(TOKENS, providers), (KEY, keys), (CLAIM, claims), (3, bytes)];
    each.into_iter().map(|(weight, count)| weight * count as u64).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ir::rule::{StatPart, StatPrefix};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_policies_have_a_route_keep_counts() {
        let plain = Rule::direct_response(500, "");
        assert_eq!(of_rule(&plain), 0);
        let mut counted = plain.clone();
        counted.by_policy.stat_prefix = Some(StatPrefix(Arc::new([StatPart::RouteName])));
        assert!(of_rule(&counted) > ROUTE);
        let pattern = Slot {
            name: "csrf",
            config: Arc::default(),
            parts: 0,
            patterns: Arc::new(["[a-z]{1,50}".into()]),
            entry: None,
            asks: Arc::default(),
        };
        let checked = Rule { slots: vec![pattern.clone()], ..plain };
        assert!(of_rule(&checked) > EXPRESSION);
        assert!(slots(&[pattern]) > of_rule(&checked));
    }

    /// What a policy says in slots counts with three times what Envoy has allocated for it.
    fn counts(spec: serde_json::Value, allocated: u64) {
        counts_with(&units::Everywhere::default(), spec, allocated);
    }

    /// The same of one that reads this Secret.
    fn counts_with(secret: &units::Everywhere, spec: serde_json::Value, allocated: u64) {
        let spec: api::traffic_policy::TrafficPolicySpec = serde_json::from_value(spec).expect("a spec");
        let others = units::Others { secrets: secret, extensions: &units::Everybody };
        let said = units::read(&spec, &others).expect("a policy").remove(0).unit.expect("a unit");
        let counted = slots(said.slots());
        assert!((3 * allocated..12 * allocated).contains(&counted), "{counted} for {allocated}");
    }

    #[test]
    fn guards_count_with_what_envoy_was_measured_to_take() {
        let range = |index: usize| format!("10.{}.{}.0/24", index / 256, index % 256);
        let rule = |name: String, cidrs: Vec<String>| json!({"name": name, "cidrs": cidrs, "action": "deny"});
        let acl = |rules: Vec<serde_json::Value>| json!({"acl": {"defaultAction": "allow", "rules": rules, "denyResponse": {"blockedByHeaderName": "x-blocked-by"}}});
        counts(acl(vec![rule("a".into(), vec![range(0)])]), 6_900);
        counts(acl(vec![rule("a".into(), (0..1_000).map(range).collect())]), 285_000);
        counts(acl((0..100).map(|index| rule(format!("n{index}"), vec![range(index)])).collect()), 533_000);
        let expression = |count: usize| {
            let parts: Vec<_> = (0..count).map(|index| format!("request.path == '/{index}'")).collect();
            json!({"rbac": {"policy": {"matchExpressions": [parts.join(" || ")]}}})
        };
        counts(expression(1), 4_700);
        counts(expression(100), 156_000);
    }

    #[test]
    fn keys_of_tokens_count_with_what_envoy_was_measured_to_take() {
        let key = |at: usize| json!({"kty": "RSA", "e": "AQAB", "n": "_".repeat(341) + "w", "kid": format!("k{at}"), "alg": "RS256"});
        let counts = |keys: usize, claims: usize, allocated: u64| {
            let keys: Vec<_> = (0..keys).map(key).collect();
            let claims: Vec<_> =
                (0..claims).map(|at| json!({"name": "role", "header": format!("x-own-{at}")})).collect();
            let local = json!({"inline": json!({"keys": keys}).to_string()});
            let spec =
                json!({"jwt": {"providers": [{"name": "p", "jwks": {"local": local}, "claimsToHeaders": claims}]}});
            let spec = serde_json::from_value(spec).expect("a spec");
            let extension = units::Extension::read(&ir::NsName::new("n", "e"), &spec, &mut units::Everybody);
            let counted = tokens(&extension.expect("it is served").provider);
            assert!((3 * allocated..12 * allocated).contains(&counted), "{counted} for {allocated}");
        };
        counts(1, 0, 5_300);
        counts(10, 0, 25_700);
        counts(100, 0, 235_000);
        counts(1, 32, 22_900);
    }

    #[test]
    fn logins_count_with_what_envoy_was_measured_to_take() {
        counts(json!({"oauth2": {"extensionRef": {"name": "login"}}}), 5_800);
    }

    #[test]
    fn templates_count_with_what_envoy_was_measured_to_take() {
        let set = |name: &str, value: &str| json!({"name": name, "value": value});
        let changes = |all: Vec<_>| json!({"transformation": {"request": {"set": all}}});
        counts(changes(vec![set("x-out", "{{ header('x-in') }}")]), 1_950);
        counts(changes((0..16).map(|index| set(&format!("x-out{index}"), "{{ header('x-in') }}")).collect()), 10_600);
        counts(changes(vec![set("x", &"{{ header('abc') }}".repeat(500))]), 103_000);
    }

    #[test]
    fn credentials_count_with_what_envoy_was_measured_to_take() {
        let keys =
            (0..10_000).map(|at| (format!("client-{at}"), json!(format!("key-{at:05}-0123456789-0123456789-0"))));
        let keys = keys.collect::<serde_json::Map<_, _>>();
        let secret = json!({"metadata": {"name": "keys", "namespace": "n"}, "stringData": keys});
        let secret: api::core::Secret = serde_json::from_value(secret).expect("a Secret");
        let secret = units::Everywhere(Arc::new(secret));
        counts_with(&secret, json!({"apiKeyAuth": {"secretRef": {"name": "keys"}}}), 1_900_000);
    }
}
