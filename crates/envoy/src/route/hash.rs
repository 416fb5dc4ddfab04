//! What of a request is hashed, where a backend is chosen by it.

use envoy_types::pb::envoy::config::route::v3::route_action::{
    HashPolicy as EnvoyHashPolicy,
    hash_policy::{ConnectionProperties, Cookie, CookieAttribute, Header, PolicySpecifier},
};
use ir::upstream::{HashPolicy, Hashed};

use crate::duration;

pub(super) fn policy(HashPolicy { of, terminal }: &HashPolicy) -> EnvoyHashPolicy {
    let specifier = match of {
        Hashed::Header(name) => PolicySpecifier::Header(Header { header_name: name.to_string(), ..Header::default() }),
        Hashed::Cookie { name, ttl, path, attributes } => {
            let attribute =
                |(name, value): &(&str, &str)| CookieAttribute { name: (*name).into(), value: (*value).into() };
            PolicySpecifier::Cookie(Cookie {
                name: name.to_string(),
                ttl: ttl.map(duration),
                path: path.to_string(),
                attributes: attributes.iter().map(attribute).collect(),
            })
        }
        Hashed::SourceIp => PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true }),
    };
    EnvoyHashPolicy { terminal: *terminal, policy_specifier: Some(specifier) }
}
