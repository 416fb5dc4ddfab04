//! What a BackendConfigPolicy says: each field by itself, into what becomes of a cluster. [`secured`]: a BackendTLSPolicy.

mod balance;
pub(crate) mod connection;
mod health;
pub mod secured;
mod tls;

use std::sync::Arc;

use api::{backend_config_policy::BackendConfigPolicySpec, core::Secret};
use ir::backend::Protocol;
use ir::{
    Problem, Reason, Severity,
    upstream::{Balance, ClusterConfig, HealthCheckBy, LoadBalancer, TlsTrust},
};
use serde_json::Value;

use super::{Refused, spec};

/// What a policy says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamSaid {
    /// All that is sound.
    pub config: ClusterConfig,
    /// The fields that are set, sound or not.
    pub fields: Vec<&'static str>,
    /// Why fields cannot be served.
    pub faults: Vec<(&'static str, Problem)>,
    /// What is served, though its author should look at it.
    pub warnings: Vec<Problem>,
}

/// Finds a Secret of the policy's namespace, or says why there is none.
pub type FindSecret<'a> = &'a dyn Fn(&Arc<str>) -> Result<Arc<Secret>, String>;

/// What a field adds.
type Read = fn(&Value, FindSecret<'_>, &mut ClusterConfig, &mut Vec<Refused>) -> Result<(), Refused>;

/// The fields, and how each is read.
const FIELDS: [(&str, Read); 13] = [
    ("circuitBreakers", |value, _, config, _| {
        config.breakers = Some(health::breakers(&spec::decode(value)?)?);
        Ok(())
    }),
    ("commonHttpProtocolOptions", |value, _, config, _| {
        config.http = Some(connection::http(&spec::decode(value)?)?);
        Ok(())
    }),
    ("connectTimeout", |value, _, config, _| {
        config.connect_timeout = spec::positive(Some(&text(value)?), "")?;
        Ok(())
    }),
    ("dns", |value, _, config, _| {
        config.dns = Some(connection::dns(&spec::decode(value)?)?);
        Ok(())
    }),
    ("healthCheck", |value, _, config, _| {
        config.health_check = Some(health::check(&spec::decode(value)?)?);
        Ok(())
    }),
    ("http1ProtocolOptions", |value, _, config, _| {
        config.http1 = Some(connection::http1(&spec::decode(value)?));
        Ok(())
    }),
    ("http2ProtocolOptions", |value, _, config, _| {
        config.http2 = Some(connection::http2(&spec::decode(value)?)?);
        Ok(())
    }),
    ("loadBalancer", |value, _, config, warnings| {
        config.balance = Some(balance::read(spec::decode(value)?, warnings)?);
        Ok(())
    }),
    ("outlierDetection", |value, _, config, _| {
        config.outliers = Some(health::outliers(&spec::decode(value)?)?);
        Ok(())
    }),
    ("perConnectionBufferLimitBytes", |value, _, config, _| {
        let bytes = value.as_i64().ok_or_else(|| Refused::new("", "must be a whole number; correct or remove it"))?;
        config.buffer_bytes = Some(connection::bounded_bytes(bytes, 1, "")?);
        Ok(())
    }),
    ("tcpKeepalive", |value, _, config, _| {
        config.keepalive = Some(connection::keepalive(&spec::decode(value)?)?);
        Ok(())
    }),
    ("tls", |value, secrets, config, warnings| {
        config.tls = Some(tls::read(spec::decode(value)?, secrets, warnings)?);
        Ok(())
    }),
    ("upstreamProxyProtocol", |value, _, config, _| {
        config.proxy_protocol = Some(connection::proxy_protocol(&spec::decode(value)?)?);
        Ok(())
    }),
];

fn text(value: &Value) -> Result<String, Refused> {
    value.as_str().map(Into::into).ok_or_else(|| Refused::new("", "must be a text; correct or remove it"))
}

/// The field of a policy in which a problem stands, of those that are read one by one.
pub fn field_at(path: &str) -> Option<&'static str> {
    let first = path.strip_prefix("spec.")?.split(['.', '[']).next()?;
    FIELDS.iter().map(|(field, _)| *field).find(|field| *field == first)
}

/// Reads a policy.
///
/// # Errors
/// If it says something that nobody reads, so that nobody knows what it wants.
pub fn read(written: &BackendConfigPolicySpec, secrets: FindSecret<'_>) -> Result<UpstreamSaid, Problem> {
    // What is null is not set.
    let set: Vec<_> = written.fields.iter().filter(|(_, value)| !value.is_null()).collect();
    if let Some((unknown, _)) = set.iter().find(|(name, _)| FIELDS.iter().all(|(field, _)| field != name)) {
        let message = "it is not supported, so nothing is served as if it were not there; remove it";
        return Err(Problem::new(Severity::Refused, Reason::UnsupportedValue, format!("spec.{unknown}"), message));
    }
    let mut said = UpstreamSaid::default();
    for (field, read) in FIELDS {
        let Some((_, value)) = set.iter().find(|(name, _)| **name == *field) else { continue };
        said.fields.push(field);
        let mut warnings = Vec::new();
        match read(value, secrets, &mut said.config, &mut warnings) {
            Ok(()) => said
                .warnings
                .extend(warnings.into_iter().map(|it| it.problem(Severity::Warning, Reason::UnsupportedValue, field))),
            Err(refused) => said.faults.push((field, refused.problem(Severity::Refused, Reason::Invalid, field))),
        }
    }
    Ok(said)
}

/// Adds what a weaker policy says of fields that are not set.
pub fn or(own: ClusterConfig, weaker: &ClusterConfig) -> ClusterConfig {
    let weaker = weaker.clone();
    ClusterConfig {
        connect_timeout: own.connect_timeout.or(weaker.connect_timeout),
        buffer_bytes: own.buffer_bytes.or(weaker.buffer_bytes),
        keepalive: own.keepalive.or(weaker.keepalive),
        http: own.http.or(weaker.http),
        http1: own.http1.or(weaker.http1),
        http2: own.http2.or(weaker.http2),
        balance: own.balance.or(weaker.balance),
        health_check: own.health_check.or(weaker.health_check),
        outliers: own.outliers.or(weaker.outliers),
        breakers: own.breakers.or(weaker.breakers),
        tls: own.tls.or(weaker.tls),
        proxy_protocol: own.proxy_protocol.or(weaker.proxy_protocol),
        dns: own.dns.or(weaker.dns),
    }
}

/// What is known of a backend where what is said of it is judged.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// What is spoken there.
    pub protocol: Protocol,
    /// Whether proxies look for its hosts by their names.
    pub by_name: bool,
    /// Whether these may have local addresses.
    pub may_be_local: bool,
    /// Whether proxies have authorities of their system.
    pub has_trust_store: bool,
}

/// What is said, as it holds for a backend.
///
/// # Errors
/// If it cannot hold there: the field, and why.
pub fn fit(mut config: ClusterConfig, to: Destination) -> Result<ClusterConfig, Problem> {
    let refuse =
        |field: &str, message: &str| Problem::new(Severity::Refused, Reason::Invalid, format!("spec.{field}"), message);
    let speaks_http2 = to.protocol == Protocol::H2c;
    if let Some(check) = &config.health_check {
        if matches!(check.by, HealthCheckBy::Grpc { .. }) && !speaks_http2 {
            let message = "it needs a backend that speaks HTTP/2; set appProtocol to kubernetes.io/h2c, or ask by http";
            return Err(refuse("healthCheck.grpc", message));
        }
        if to.by_name && !to.may_be_local {
            let message = "a name could lead such questions to what is local to a proxy, past what keeps requests from there; \
                           name addresses, remove it, or ask whoever runs the controller for the setting backend.allowLocal";
            return Err(refuse("healthCheck", message));
        }
    }
    // What proxies are told of has no hostname that they could tell it by.
    if let Some(LoadBalancer { by: Balance::RingHash { hash, .. } | Balance::Maglev { hash }, .. }) =
        &mut config.balance
    {
        hash.by_hostname &= to.by_name;
    }
    if speaks_http2 {
        config.http1 = None;
    } else {
        config.http2 = None;
    }
    if !to.has_trust_store && config.tls.as_ref().is_some_and(|tls| tls.trust == TlsTrust::System) {
        let message = "proxies have no certificates of authorities of their own here; name some in secretRef, or ask whoever runs \
                       the controller for the setting backend.systemTrustStore";
        return Err(refuse("tls.wellKnownCACertificates", message));
    }
    if let Some(tls) = &mut config.tls
        && tls.sni.is_none()
        && tls.names.is_empty()
        && tls.trust != TlsTrust::Anybody
    {
        tls.by_endpoint = to.by_name;
        if !to.by_name && tls.trust == TlsTrust::System {
            let message = "anybody has a certificate of one of these authorities, and nothing says whose to expect; \
                           name it in sni or verifySubjectAltNames";
            return Err(refuse("tls.wellKnownCACertificates", message));
        }
    }
    Ok(config)
}

/// A policy that says something of each group of fields; for tests.
#[cfg(any(test, feature = "testing"))]
pub fn samples() -> Value {
    serde_json::json!({
        "connectTimeout": "3s", "perConnectionBufferLimitBytes": 65_536,
        "tcpKeepalive": {"keepAliveProbes": 3, "keepAliveTime": "30s", "keepAliveInterval": "5s"},
        "commonHttpProtocolOptions": {
            "idleTimeout": "10s", "maxHeadersCount": 50, "maxStreamDuration": "1h", "maxRequestsPerConnection": 1000},
        "http1ProtocolOptions": {"enableTrailers": true, "preserveHttp1HeaderCase": true,
            "overrideStreamErrorOnInvalidHttpMessage": true},
        "loadBalancer": {"healthyPanicThreshold": 20, "updateMergeWindow": "1s", "closeConnectionsOnHostSetChange": true,
            "ringHash": {"minimumRingSize": 16, "maximumRingSize": 1024, "useHostnameForHashing": true, "hashPolicies": [
                {"header": {"name": "X-User"}, "terminal": true}, {"sourceIP": {}},
                {"cookie": {"name": "c", "ttl": "1h", "path": "/", "httpOnly": true, "secure": true, "sameSite": "Lax"}}]}},
        "healthCheck": {"timeout": "1s", "interval": "5s", "unhealthyThreshold": 2, "healthyThreshold": 1,
            "http": {"path": "/healthz", "host": "a.example", "method": "HEAD"}},
        "outlierDetection": {"consecutive5xx": 3, "interval": "1s", "baseEjectionTime": "5s", "maxEjectionPercent": 50,
            "enforcingConsecutive5xx": 100, "splitExternalLocalOriginErrors": true, "consecutiveLocalOriginFailure": 2,
            "enforcingConsecutiveLocalOriginFailure": 100},
        "circuitBreakers": {"maxConnections": 1, "maxPendingRequests": 2, "maxRequests": 3, "maxRetries": 0,
            "trackRemaining": true},
        "tls": {"wellKnownCACertificates": "System", "sni": "a.example", "alpnProtocols": ["http/1.1"],
            "parameters": {"minVersion": "1.2", "maxVersion": "1.3", "cipherSuites": ["ECDHE-RSA-AES128-GCM-SHA256"],
                "ecdhCurves": ["X25519", "P-256"], "signatureAlgorithms": ["rsa_pss_rsae_sha256"]}},
        "upstreamProxyProtocol": {"version": "V2"},
        "dns": {"refreshRate": "30s", "jitter": "1s", "respectTTL": false},
    })
}

#[cfg(test)]
mod tests;
