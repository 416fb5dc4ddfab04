//! Envoy listeners and their filter chains.

use std::sync::Arc;

use crate::{
    downstream::ListenerConfig,
    hostname::Hostname,
    id::{NsName, Port},
};

/// One Envoy listener: a port of a Gateway. It says nothing of routes, so that a route never drains it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Listener {
    /// Whose it is.
    pub gateway: NsName,
    /// `listener/PORT`, with the Gateway's port.
    pub name: Arc<str>,
    /// The addresses to bind; the first is the main one, the others are additional.
    pub addresses: Vec<Arc<str>>,
    /// The port that Envoy binds.
    pub bind_port: Port,
    /// As what its Gateway notes in a request that it came through (RFC 8586, `cdn-id`): a token, on all of its ports the
    /// same and no other Gateway's.
    pub pseudonym: Arc<str>,
    /// Sorted by name; at least one.
    pub chains: Vec<FilterChain>,
    /// Server names (SNI) whose connections are closed at once, each once and none of them a chain's: they belong to
    /// listeners that are not served, and no broader chain may take them.
    pub closed: Vec<Hostname>,
    /// What policies say of it.
    pub config: ListenerConfig,
}

/// What a connection is handled by. More protocols get more variants of [`FilterChain::tls`] and of what follows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilterChain {
    /// The name of the route configuration, which is also the chain's name.
    pub route_config: Arc<str>,
    /// Server names (SNI) it is chosen by; [`Hostname::Any`] takes what no other chain takes.
    pub hostname: Hostname,
    /// TLS terminated here; none for plain HTTP.
    pub tls: Option<TlsTermination>,
}

/// TLS that ends at the listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsTermination {
    /// Names of SDS secrets, at least one, at most one RSA and one of each ECDSA curve serve the same name well.
    pub secrets: Vec<Arc<str>>,
}

/// A certificate with its key, as SDS carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsSecret {
    /// `secret/NS/NAME`.
    pub name: Arc<str>,
    /// PEM, the leaf first.
    pub chain: Arc<[u8]>,
    /// PEM.
    pub key: Arc<[u8]>,
}

impl TlsSecret {
    /// The name of the SDS resource of a Secret.
    pub fn resource_name(secret: &NsName) -> String {
        format!("secret/{secret}")
    }
}

impl std::fmt::Debug for TlsSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsSecret").field("name", &self.name).finish_non_exhaustive()
    }
}
