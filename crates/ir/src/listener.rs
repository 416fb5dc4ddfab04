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

impl Listener {
    /// The same with no more than `now` has too: chains that are others there are gone. Connections for them are closed where
    /// another chain would take them, if `now` still has somebody for them. None where no chain is left.
    #[must_use]
    pub fn limited(&self, now: &Self) -> Option<Self> {
        let (chains, lost): (Vec<_>, Vec<_>) =
            self.chains.iter().cloned().partition(|chain| now.chains.contains(chain));
        if chains.is_empty() {
            return None;
        }
        let over_tls = || chains.iter().filter(|chain| chain.tls.is_some());
        let is_claimed = |hostname: &&Hostname| now.chains.iter().any(|chain| chain.hostname == **hostname);
        let lost = lost.iter().filter(|chain| chain.tls.is_some()).map(|chain| &chain.hostname).filter(is_claimed);
        let would_be_taken = |hostname: &&Hostname| {
            over_tls().any(|chain| chain.hostname.covers(hostname))
                && over_tls().all(|chain| chain.hostname != **hostname)
        };
        let mut closed: Vec<_> = now.closed.iter().chain(lost).filter(would_be_taken).cloned().collect();
        closed.sort_unstable();
        closed.dedup();
        Some(Self { chains, closed, ..self.clone() })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hostname(text: &str) -> Hostname {
        Hostname::parse(text)
    }

    fn listener(chains: &[(&str, &str)], closed: &[&str]) -> Listener {
        let chain = |(name, secret): &(&str, &str)| FilterChain {
            route_config: Arc::from(*name),
            hostname: hostname(name),
            tls: Some(TlsTermination { secrets: vec![Arc::from(*secret)] }),
        };
        Listener {
            gateway: NsName::new("infra", "edge"),
            name: "listener/443".into(),
            addresses: vec!["0.0.0.0".into()],
            bind_port: 443,
            pseudonym: "edge".into(),
            chains: chains.iter().map(chain).collect(),
            closed: closed.iter().map(|name| hostname(name)).collect(),
            config: ListenerConfig::default(),
        }
    }

    #[test]
    fn what_is_gone_goes_and_what_is_new_or_other_does_not_come() {
        let before = listener(&[("*.example.com", "a"), ("a.example.com", "a"), ("b.example.com", "b")], &[]);
        let limited = |chains, closed| before.limited(&listener(chains, closed));
        let all = &[("*.example.com", "a"), ("a.example.com", "a"), ("b.example.com", "b"), ("c.example.com", "c")];
        assert_eq!(limited(all, &[]), Some(before.clone()));
        // Its listener is gone, so that the broader one serves its hostname.
        let without = listener(&[("*.example.com", "a"), ("b.example.com", "b")], &[]);
        assert_eq!(limited(&[("*.example.com", "a"), ("b.example.com", "b")], &[]), Some(without));
        // Another certificate waits, and the one before is not given out any more.
        let closed = listener(&[("*.example.com", "a"), ("b.example.com", "b")], &["a.example.com"]);
        assert_eq!(
            limited(&[("*.example.com", "a"), ("a.example.com", "z"), ("b.example.com", "b")], &[]),
            Some(closed.clone())
        );
        assert_eq!(limited(&[("*.example.com", "a"), ("b.example.com", "b")], &["a.example.com"]), Some(closed));
        assert_eq!(limited(&[("*.example.com", "z")], &[]), None);
    }
}
