//! What stands behind a place of streams.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use engine::Scope;
use ir::{
    backend::{Assignment, Destination, Endpoint, Locality, PLAIN, Transport},
    stream::PlaceId,
};

use crate::tables::stream::{Dialed, Shares, StreamRule, Winner};

/// Where no share goes: a connection fails at once, and a datagram is dropped.
const NOWHERE: Endpoint = Endpoint { address: IpAddr::V4(Ipv4Addr::BROADCAST), port: 1, ready: true, is_host: false };

/// The endpoints of a place. The share of what cannot be used, or has no endpoint, goes nowhere, so that others keep theirs; where
/// there is nothing else, there are no endpoints at all, and connections are closed once they are made. What has no weight stays
/// with the sessions of datagrams that it has.
pub(super) fn assignment(
    place: &PlaceId,
    shares: &Shares,
    endpoints_of: impl Fn(&Destination) -> Vec<Endpoint>,
) -> Assignment {
    let mut localities: Vec<Locality> = Vec::new();
    let mut rejected = shares.rejected;
    for (to, weight, way) in &shares.backends {
        if *weight == 0 && place.transport() == Transport::Tcp {
            continue;
        }
        let mut endpoints = endpoints_of(to);
        // Of an address that stands in two localities Envoy takes the first.
        let mut same = None;
        endpoints.retain(|endpoint| {
            let known = localities.iter().position(|locality| {
                locality.endpoints.iter().any(|other| (other.address, other.port) == (endpoint.address, endpoint.port))
            });
            same = same.or(known);
            known.is_none()
        });
        match same.map(|known| &mut localities[known]).filter(|known| endpoints.is_empty() && known.way == *way) {
            Some(known) => known.weight = Some(known.weight.unwrap_or_default().saturating_add(*weight)),
            None if endpoints.is_empty() => rejected = rejected.saturating_add(*weight),
            None => localities.push(Locality {
                zone: "".into(),
                sub_zone: to.cluster_name().into(),
                weight: Some(*weight),
                way: way.clone(),
                endpoints,
            }),
        }
    }
    let takes_any = localities.iter().any(|locality| locality.weight > Some(0));
    if takes_any && rejected > 0 || !takes_any && !localities.is_empty() {
        localities.push(Locality {
            zone: "".into(),
            sub_zone: "nowhere".into(),
            weight: Some(rejected.max(1)),
            way: if place.transport() == Transport::Tcp { PLAIN.into() } else { "".into() },
            endpoints: vec![NOWHERE],
        });
    }
    Assignment { cluster: place.name().into(), localities }
}

/// The backends of a place that are connected to as policies say, one for each way, sorted by that.
pub(crate) fn ways(scope: &Scope<'_>, place: &PlaceId) -> Vec<Arc<Dialed>> {
    if place.transport() == Transport::Udp || place.is_passed_through() {
        return Vec::new();
    }
    let rule = scope.get::<Winner>(place).and_then(|route| scope.get::<StreamRule>(&route));
    let name = |to: &Arc<Dialed>| to.way.as_ref().map(|way| way.name.clone());
    let ways: BTreeMap<_, _> =
        rule.iter().flat_map(|rule| rule.reached()).filter_map(|to| Some((name(to)?, to.clone()))).collect();
    ways.into_values().collect()
}

/// How many endpoints a place has at most.
pub(super) fn most_endpoints(scope: &Scope<'_>, place: &PlaceId, of: impl Fn(&Destination) -> u64) -> u64 {
    let rule = scope.get::<Winner>(place).and_then(|route| scope.get::<StreamRule>(&route));
    let to = rule.iter().flat_map(|rule| rule.shares.iter()).filter_map(|share| share.plain.as_ref());
    to.map(of).fold(1, u64::saturating_add)
}
