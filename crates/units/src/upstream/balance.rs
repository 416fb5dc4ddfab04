//! How requests are spread over endpoints.

use ir::upstream::{Balance, HashPolicy, Hashed, Hashing, LoadBalancer, SlowStart};
use serde::Deserialize;
use serde_json::Value;

use super::connection::number;
use crate::{Refused, spec};

/// The largest ring, which each proxy builds anew whenever endpoints change: 16 bytes a place.
const MOST_RING: u64 = 65_536;

/// As the CRD has it.
const MOST_HASH_POLICIES: usize = 16;

/// How many endpoints are drawn at most.
const MOST_CHOICES: i64 = 1_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Spec {
    close_connections_on_host_set_change: Option<bool>,
    healthy_panic_threshold: Option<i64>,
    least_request: Option<LeastRequestSpec>,
    locality_type: Option<String>,
    maglev: Option<HashSpec>,
    random: Option<Empty>,
    ring_hash: Option<RingSpec>,
    round_robin: Option<RoundRobinSpec>,
    update_merge_window: Option<String>,
    zone_aware: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LeastRequestSpec {
    choice_count: Option<i64>,
    slow_start: Option<SlowSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RoundRobinSpec {
    slow_start: Option<SlowSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SlowSpec {
    aggression: Option<String>,
    min_weight_percent: Option<i64>,
    window: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HashSpec {
    #[serde(default)]
    hash_policies: Vec<HashPolicySpec>,
    #[serde(default)]
    use_hostname_for_hashing: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RingSpec {
    #[serde(default)]
    hash_policies: Vec<HashPolicySpec>,
    #[serde(default)]
    use_hostname_for_hashing: bool,
    minimum_ring_size: Option<u64>,
    maximum_ring_size: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HashPolicySpec {
    header: Option<HeaderSpec>,
    cookie: Option<CookieSpec>,
    #[serde(rename = "sourceIP")]
    source_ip: Option<Empty>,
    #[serde(default)]
    terminal: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct HeaderSpec {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CookieSpec {
    name: String,
    ttl: Option<String>,
    path: Option<String>,
    #[serde(default)]
    http_only: bool,
    #[serde(default)]
    secure: bool,
    same_site: Option<String>,
}

pub(super) fn read(written: Spec, warnings: &mut Vec<Refused>) -> Result<LoadBalancer, Refused> {
    if written.zone_aware.is_some() {
        let message = "it is not served: a proxy does not know the zone that it is in; remove it";
        return Err(Refused::new("zoneAware", message));
    }
    if written.locality_type.is_some() {
        return Err(Refused::new("localityType", "it is not served: no zone has a weight here; remove it"));
    }
    let forms = [
        written.least_request.is_some(),
        written.round_robin.is_some(),
        written.ring_hash.is_some(),
        written.maglev.is_some(),
        written.random.is_some(),
    ];
    if forms.iter().filter(|set| **set).count() != 1 {
        let message = "exactly one of leastRequest, roundRobin, ringHash, maglev and random must be set; name one";
        return Err(Refused::new("", message));
    }
    let by = if let Some(least) = written.least_request {
        Balance::LeastRequest {
            choices: number(least.choice_count.unwrap_or(2), 2, MOST_CHOICES, "leastRequest.choiceCount")?,
            slow_start: least.slow_start.map(|slow| slow_start(&slow, "leastRequest")).transpose()?,
        }
    } else if let Some(round) = written.round_robin {
        Balance::RoundRobin { slow_start: round.slow_start.map(|slow| slow_start(&slow, "roundRobin")).transpose()? }
    } else if let Some(ring) = written.ring_hash {
        let size = |size: Option<u64>, field: &str| match size {
            Some(size) if !(1..=MOST_RING).contains(&size) => {
                let message = format!("{size} is out of range; use a size from 1 to {MOST_RING}");
                Err(Refused::new(&format!("ringHash.{field}"), message))
            }
            size => Ok(size),
        };
        let least = size(ring.minimum_ring_size, "minimumRingSize")?;
        let most = size(ring.maximum_ring_size, "maximumRingSize")?.unwrap_or(MOST_RING);
        // What Envoy takes for the least unless it is said.
        if least.unwrap_or(1024) > most {
            let message = "it is smaller than minimumRingSize, which is 1024 unless said; correct either";
            return Err(Refused::new("ringHash.maximumRingSize", message));
        }
        let hash = hashing(&ring.hash_policies, ring.use_hostname_for_hashing, "ringHash", warnings)?;
        Balance::RingHash { least, most, hash }
    } else if let Some(maglev) = written.maglev {
        Balance::Maglev { hash: hashing(&maglev.hash_policies, maglev.use_hostname_for_hashing, "maglev", warnings)? }
    } else {
        Balance::Random
    };
    Ok(LoadBalancer {
        by,
        panic_threshold: spec::percent(written.healthy_panic_threshold, "healthyPanicThreshold")?,
        update_merge_window: spec::optional(written.update_merge_window.as_deref(), "updateMergeWindow")?,
        close_on_change: written.close_connections_on_host_set_change.unwrap_or_default(),
    })
}

fn slow_start(written: &SlowSpec, of: &str) -> Result<SlowStart, Refused> {
    let at = |field: &str| format!("{of}.slowStart.{field}");
    let aggression = |text: &String| {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        let refuse =
            || Refused::new(&at("aggression"), format!("{text:?} is no number above zero; write one such as 1.5"));
        number.map(f64::to_bits).ok_or_else(refuse)
    };
    Ok(SlowStart {
        window: spec::optional(written.window.as_deref(), &at("window"))?,
        aggression: written.aggression.as_ref().map(aggression).transpose()?,
        least_percent: spec::percent(written.min_weight_percent, &at("minWeightPercent"))?,
    })
}

fn hashing(
    written: &[HashPolicySpec],
    by_hostname: bool,
    of: &str,
    warnings: &mut Vec<Refused>,
) -> Result<Hashing, Refused> {
    if written.is_empty() {
        let message = "without hashPolicies nothing of a request is hashed, so each goes anywhere; name some";
        warnings.push(Refused::new(of, message));
    }
    if written.len() > MOST_HASH_POLICIES {
        let message = format!("{} are too many; {MOST_HASH_POLICIES} at most", written.len());
        return Err(Refused::new(&format!("{of}.hashPolicies"), message));
    }
    let policies =
        written.iter().enumerate().map(|(index, policy)| hash_policy(policy, &format!("{of}.hashPolicies[{index}]")));
    Ok(Hashing { of: policies.collect::<Result<_, _>>()?, by_hostname })
}

fn hash_policy(written: &HashPolicySpec, at: &str) -> Result<HashPolicy, Refused> {
    let of = match (&written.header, &written.cookie, &written.source_ip) {
        (Some(HeaderSpec { name }), None, None) => {
            let field = format!("{at}.header.name");
            Hashed::Header(validate::header::match_name(name).map_err(Refused::at(&field))?.into())
        }
        (None, Some(cookie), None) => {
            let field = |name: &str| format!("{at}.cookie.{name}");
            validate::name::cookie(&cookie.name).map_err(Refused::at(&field("name")))?;
            let path = cookie.path.as_deref().unwrap_or_default();
            if !path.is_empty() {
                validate::path::prefix(path).map_err(Refused::at(&field("path")))?;
            }
            let same_site = match cookie.same_site.as_deref() {
                None => None,
                Some("Strict") => Some("Strict"),
                Some("Lax") => Some("Lax"),
                Some("None") => Some("None"),
                Some(other) => {
                    return Err(Refused::new(
                        &field("sameSite"),
                        format!("{other:?} means nothing; use Strict, Lax or None"),
                    ));
                }
            };
            let attributes = [
                cookie.http_only.then_some(("HttpOnly", "")),
                cookie.secure.then_some(("Secure", "")),
                same_site.map(|value| ("SameSite", value)),
            ];
            Hashed::Cookie {
                name: cookie.name.as_str().into(),
                ttl: spec::optional(cookie.ttl.as_deref(), &field("ttl"))?,
                path: path.into(),
                attributes: attributes.into_iter().flatten().collect(),
            }
        }
        (None, None, Some(Empty {})) => Hashed::SourceIp,
        _ => return Err(Refused::new(at, "exactly one of header, cookie and sourceIP must be set; name one")),
    };
    Ok(HashPolicy { of, terminal: written.terminal })
}
