//! Requests that came over the connection of another listener. They are told to open one of their own (RFC 9110 section 15.5.20;
//! Gateway API `Listener.hostname`).

use engine::{Lookup, Scope};
use envoy::bytes::{Alike, Host};
use ir::{Hostname, NsName, Port, RouteConfigId};

use crate::tables::listener::{ListenerRow, MOST_LISTED, PortListeners, TlsHosts, TlsHostsBelow};

impl Lookup for TlsHosts {
    fn compute(scope: &Scope<'_>, port: &(NsName, Port)) -> Option<Vec<Hostname>> {
        let listeners = scope.group::<PortListeners>(port);
        if listeners.len() > MOST_LISTED {
            return None;
        }
        let over_tls = listeners.iter().filter(|(_, at)| at.over_tls());
        let mut hostnames: Vec<_> = over_tls.map(|((hostname, _), _)| hostname.clone()).collect();
        // Listeners that are not served may share a hostname.
        hostnames.dedup();
        Some(hostnames)
    }
}

/// The virtual host for the hosts of other listeners.
pub(super) fn host(scope: &Scope<'_>, id: &RouteConfigId, alike: &Alike) -> Option<Host> {
    let own = &scope.get::<ListenerRow>(&id.listener_id()?)?.model.hostname;
    let domains = match scope.get::<TlsHosts>(&(id.gateway.clone(), id.port)) {
        Some(all) => all.iter().filter(|hostname| *hostname != own).map(Hostname::domain).collect(),
        None => besides(scope, id, own),
    };
    (!domains.is_empty()).then(|| envoy::misdirected::virtual_host(domains, alike))
}

/// All hosts but those of a listener: the narrower ones of others, and what its own hostname does not cover.
fn besides(scope: &Scope<'_>, id: &RouteConfigId, own: &Hostname) -> Vec<String> {
    let below = scope.group::<TlsHostsBelow>(&(id.gateway.clone(), id.port, own.clone()));
    let mut domains: Vec<_> = below.iter().map(|((hostname, _), ())| hostname.domain()).collect();
    domains.dedup();
    domains.extend((*own != Hostname::Any).then(|| Hostname::Any.domain()));
    domains
}
