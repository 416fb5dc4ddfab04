//! `envoy.config.core.v3.TypedExtensionConfig`: what filters of the chain say that comes apart from their listeners, one of
//! each name for each Gateway.
//!
//! Routes refer to entries of these by name. All that is repeated in a message has a key and begins with it, so that the
//! ADS server can have a proxy keep what the routes of before refer to (`xds`, where an update's order is). Of one key it keeps
//! the new entry, so what lets in others has another key. Of two types of one name it keeps the one that says more.

pub mod programs;

use std::{fmt, sync::Arc, time::Duration};

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{RuntimeFractionalPercent, TypedExtensionConfig},
            route::v3::{
                RateLimit,
                rate_limit::{
                    Action,
                    action::{ActionSpecifier, MetaData, meta_data::Source},
                },
            },
        },
        extensions::{
            common::ratelimit::v3::{LocalRateLimitDescriptor, rate_limit_descriptor::Entry},
            filters::http::{
                jwt_authn::v3::{JwtAuthentication, JwtProvider, JwtRequirement},
                local_ratelimit::v3::LocalRateLimit,
                set_metadata::v3::Metadata,
            },
            rate_limit_descriptors::expr::v3::{Descriptor, descriptor::ExprSpecifier},
        },
        r#type::{
            metadata::v3::{
                MetadataKey,
                metadata_key::{PathSegment, path_segment::Segment},
            },
            v3::{FractionalPercent, TokenBucket},
        },
    },
    google::{
        api::expr::v1alpha1::{
            Expr,
            expr::{ExprKind, Ident, Select},
        },
        protobuf::{Any, Struct, Value, value::Kind},
    },
};
use ir::{
    NsName,
    rule::{ExtensionEntry, LocalRate},
};
use prost::{Message, Name};

use crate::{bytes::any, duration, resource::Encoded, slots, uint32};

/// The names: those of the slots.
pub const NAMES: [&str; 8] = [
    slots::API_KEY_AUTH_HIDE,
    slots::OAUTH2_JWT,
    slots::EXT_AUTH_BODY,
    slots::JWT_AUTH,
    slots::JWT_AUTH_HIDE,
    slots::LOCAL_RATE_LIMIT,
    slots::BUFFER_BODY,
    slots::TRANSFORMATION_LUA,
];

/// The resource that holds an entry; none of secrets, which are resources of their own.
pub fn holder(entry: &ExtensionEntry) -> Option<&'static str> {
    match entry {
        ExtensionEntry::LocalRate(_) => Some(slots::LOCAL_RATE_LIMIT),
        ExtensionEntry::Tokens(_) => Some(slots::JWT_AUTH),
        ExtensionEntry::LoginTokens(_) => Some(slots::OAUTH2_JWT),
        ExtensionEntry::Program(name) => Some(name),
        ExtensionEntry::Login(_) => None,
    }
}

/// Whether what the resource `name` says depends on entries.
pub fn has_entries(name: &str) -> bool {
    name != slots::TRANSFORMATION_LUA
}

/// A resource with these entries, which are sorted, each once. `judges` tells what is known of those whose tokens are taken;
/// none of one that says nothing which could be sent: what refers to that is refused. `body_bytes` is the most of a body that
/// templates read or replace.
pub fn extension<'a>(
    name: &str,
    entries: impl IntoIterator<Item = &'a ExtensionEntry>,
    judges: impl Fn(&NsName) -> Option<TokenJudges>,
    body_bytes: u32,
) -> Encoded {
    let mut entries = entries.into_iter();
    let config = match name {
        slots::LOCAL_RATE_LIMIT => {
            let rates = entries.filter_map(|entry| match entry {
                ExtensionEntry::LocalRate(rate) => Some(rate),
                _ => None,
            });
            any(&local_limits(rates))
        }
        // Those who judge tokens. Without a requirement all that is asked for is refused.
        slots::JWT_AUTH | slots::OAUTH2_JWT => {
            let all = entries.filter_map(|entry| match entry {
                ExtensionEntry::Tokens(id) | ExtensionEntry::LoginTokens(id) => judges(id),
                _ => None,
            });
            Any { type_url: JwtAuthentication::type_url(), value: tokens(all) }
        }
        _ => programs::filter(name, entries.next().is_some(), body_bytes),
    };
    named(name, config)
}

/// Whose tokens are taken, by the word of one GatewayExtension: a part of an encoded `JwtAuthentication`.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenJudges {
    /// By which routes require it.
    name: Arc<str>,
    /// Those who make tokens, with their keys.
    providers: Arc<[u8]>,
    /// Which of them a request must satisfy.
    requirement: Arc<[u8]>,
}

impl TokenJudges {
    /// These providers by their names, none of which others have, sorted; and what routes that say `name` require of them.
    ///
    /// Entry by entry: a map would have no order.
    pub fn new(name: String, providers: Vec<(String, JwtProvider)>, requirement: JwtRequirement) -> Self {
        let providers = providers.into_iter().flat_map(|(name, provider)| {
            JwtAuthentication { providers: [(name, provider)].into(), ..JwtAuthentication::default() }.encode_to_vec()
        });
        let requirement_map = [(name.clone(), requirement)].into();
        let requirement = JwtAuthentication { requirement_map, ..JwtAuthentication::default() }.encode_to_vec();
        Self { name: name.into(), providers: providers.collect(), requirement: requirement.into() }
    }

    /// The name by which routes require it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        self.providers.len() + self.requirement.len()
    }
}

impl fmt::Debug for TokenJudges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

fn tokens(all: impl Iterator<Item = TokenJudges>) -> Vec<u8> {
    let all: Vec<_> = all.collect();
    let providers = all.iter().map(|judges| &*judges.providers);
    let requirements = all.iter().map(|judges| &*judges.requirement);
    providers.chain(requirements).collect::<Vec<_>>().concat()
}

fn named(name: &str, config: Any) -> Encoded {
    Encoded::new(TypedExtensionConfig { name: name.into(), typed_config: Some(config) }.encode_to_vec())
}

/// Where a row says its rate, for the filter that counts.
const RATE: &str = "portcullis.rate";
/// Where a wider scope says by which policy.
const SUPPLIER: &str = "portcullis.rate.policy";
/// A rate that each row counts for itself.
const OWN: &str = "own";
/// A rate that all rows below a scope count together.
const SHARED: &str = "shared";
/// How many buckets a proxy has at most, of all rates together: at 2 KB each, 400 MB.
const MOST_BUCKETS: usize = 200_000;
/// How many of these each rate has at least for its rows, and as many for scopes, however many rates there are.
const LEAST_BUCKETS: usize = 1_000;
/// How long what nobody knows waits for its next request.
const NEVER: Duration = Duration::from_hours(365 * 24);

/// What a row says of its rate.
pub fn own_rate(rate: &LocalRate) -> Vec<Metadata> {
    vec![said(RATE, OWN, rate.to_string())]
}

/// What a scope says of the rate that all rows have together which say nothing of it. `supplier` is the policy's name: what
/// two policies say in one place is counted apart.
pub fn shared_rate(rate: &LocalRate, supplier: &str) -> Vec<Metadata> {
    vec![said(RATE, SHARED, rate.to_string()), said(SUPPLIER, SHARED, supplier.into())]
}

/// The rate that a row or a scope says.
pub fn said_rate(metadata: &[Metadata]) -> Option<&str> {
    let rate = metadata.iter().find(|metadata| metadata.metadata_namespace == RATE)?;
    match rate.value.as_ref()?.fields.values().next()?.kind.as_ref()? {
        Kind::StringValue(rate) => Some(rate),
        _ => None,
    }
}

fn said(namespace: &str, key: &str, text: String) -> Metadata {
    let value = Value { kind: Some(Kind::StringValue(text)) };
    // Alone: a map of more would have no order.
    let value = Some(Struct { fields: [(key.to_owned(), value)].into() });
    Metadata { metadata_namespace: namespace.into(), value, ..Metadata::default() }
}

/// Buckets that survive changes of routes, which rebuild what stands in routes. A rate is an entry, and a bucket is made for
/// whoever first asks for it: for a row its names, so that a new row with a rate that is known changes nothing here. A
/// change of this message fills all buckets, and nothing can prevent that.
///
/// What asks for a rate that is not here is refused, since the bucket for it has no token, not even at first. It comes
/// before the routes, so that does not happen.
fn local_limits<'a>(rates: impl Iterator<Item = &'a LocalRate>) -> LocalRateLimit {
    let always = || RuntimeFractionalPercent {
        default_value: Some(FractionalPercent { numerator: 100, ..FractionalPercent::default() }),
        ..RuntimeFractionalPercent::default()
    };
    let nothing = LocalRate { most: 0, more: 1, interval: NEVER };
    let descriptors = rates.flat_map(|rate| {
        [
            descriptor(rate, OWN, ["chain", "host", "route"].as_slice()),
            descriptor(rate, SHARED, ["policy", "chain"].as_slice()),
        ]
    });
    let descriptors: Vec<_> = descriptors.collect();
    let own = vec![
        metadata(OWN, RATE, OWN),
        computed("chain", "xds", "filter_chain_name"),
        computed("host", "xds", "virtual_host_name"),
        computed("route", "xds", "route_name"),
    ];
    let shared = vec![
        metadata(SHARED, RATE, SHARED),
        metadata("policy", SUPPLIER, SHARED),
        computed("chain", "xds", "filter_chain_name"),
    ];
    LocalRateLimit {
        stat_prefix: "local".into(),
        token_bucket: Some(bucket(&nothing)),
        filter_enabled: Some(always()),
        filter_enforced: Some(always()),
        max_dynamic_descriptors: Some(uint32(most_buckets(descriptors.len()))),
        descriptors,
        rate_limits: [own, shared].map(|actions| RateLimit { actions, ..RateLimit::default() }).into(),
        always_consume_default_token_bucket: Some(crate::boolean(false)),
        ..LocalRateLimit::default()
    }
}

/// How many buckets each descriptor has, where there are so many; of one that has more, the bucket that was used longest ago
/// goes. There are as many as rows that have the rate, so only those of rows that are gone should.
fn most_buckets(descriptors: usize) -> u32 {
    let each = (MOST_BUCKETS / descriptors.max(2)).max(LEAST_BUCKETS);
    u32::try_from(each).unwrap_or(u32::MAX)
}

/// A bucket as Envoy has it.
pub fn bucket(rate: &LocalRate) -> TokenBucket {
    TokenBucket {
        max_tokens: rate.most,
        tokens_per_fill: Some(uint32(rate.more)),
        fill_interval: Some(duration(rate.interval)),
    }
}

/// Buckets of a rate: one for all that is found together under `keys`.
fn descriptor(rate: &LocalRate, key: &str, keys: &[&str]) -> LocalRateLimitDescriptor {
    let entry = |key: &str, value| Entry { key: key.into(), value };
    let each = keys.iter().map(|key| entry(key, String::new()));
    LocalRateLimitDescriptor {
        entries: std::iter::once(entry(key, rate.to_string())).chain(each).collect(),
        token_bucket: Some(bucket(rate)),
        ..LocalRateLimitDescriptor::default()
    }
}

/// What is found in metadata of a request, under `name`; without it nothing is counted.
fn metadata(name: &str, namespace: &str, key: &str) -> Action {
    let segment = PathSegment { segment: Some(Segment::Key(key.into())) };
    Action {
        action_specifier: Some(ActionSpecifier::Metadata(MetaData {
            descriptor_key: name.into(),
            metadata_key: Some(MetadataKey { key: namespace.into(), path: vec![segment] }),
            source: Source::Dynamic as i32,
            ..MetaData::default()
        })),
    }
}

/// An attribute of `root`, such as `route_name` of `xds`, under `name`.
pub fn computed(name: &str, root: &str, attribute: &str) -> Action {
    let root = Expr { expr_kind: Some(ExprKind::IdentExpr(Ident { name: root.into() })), ..Expr::default() };
    let select = Select { operand: Some(Box::new(root)), field: attribute.into(), ..Select::default() };
    let expression = Expr { expr_kind: Some(ExprKind::SelectExpr(Box::new(select))), ..Expr::default() };
    let descriptor = Descriptor {
        descriptor_key: name.into(),
        expr_specifier: Some(ExprSpecifier::Parsed(expression)),
        ..Descriptor::default()
    };
    let extension = TypedExtensionConfig { name: name.into(), typed_config: Some(any(&descriptor)) };
    Action { action_specifier: Some(ActionSpecifier::Extension(extension)) }
}

#[cfg(test)]
mod tests;
