//! Which endpoints of a Service get requests.

use std::{collections::BTreeMap, sync::Arc};

use engine::{Lookup, Scope};
use envoy::resource::Encoded;
use ir::{
    Port,
    backend::{Assignment, Destination, Endpoint, Locality},
};

use super::{endpoints_of, hosts::BackendHosts, place};
use crate::tables::{
    backend::{AssignmentBytes, ClusterId, shares_of},
    stream::PlaceShares,
};

impl Lookup for AssignmentBytes {
    fn compute(scope: &Scope<'_>, key: &ClusterId) -> Option<Encoded> {
        let localities = match key {
            ClusterId::To(to)
            | ClusterId::Http2(to)
            | ClusterId::Own(to)
            | ClusterId::Grpc(to)
            | ClusterId::Told(to) => localities_of(scope, to)?,
            ClusterId::Rule(chain, rule, to) => {
                let cluster = shares_of(scope, (chain, *rule, to));
                let shares = cluster.shares.iter();
                shares
                    .map(|(to, weight)| Locality {
                        zone: "".into(),
                        sub_zone: to.cluster_name().into(),
                        weight: Some(*weight),
                        way: "".into(),
                        endpoints: localities_of(scope, to).into_iter().flatten().flat_map(|at| at.endpoints).collect(),
                    })
                    .collect()
            }
            ClusterId::Place(at) => {
                let shares = scope.get::<PlaceShares>(at).unwrap_or_default();
                let endpoints =
                    |to: &_| localities_of(scope, to).into_iter().flatten().flat_map(|at| at.endpoints).collect();
                return Some(envoy::cluster::endpoints(&place::assignment(at, &shares, endpoints)));
            }
        };
        Some(envoy::cluster::endpoints(&Assignment { cluster: key.name().into(), localities }))
    }

    /// Nobody gets requests: an address that is no longer this backend's may be another's by now.
    fn poisoned(_: &Scope<'_>, key: &ClusterId, _: &engine::Fault) -> Option<Encoded> {
        Some(envoy::cluster::endpoints(&Assignment { cluster: key.name().into(), localities: Vec::new() }))
    }
}

/// The endpoints of a backend; none of one whose hosts proxies look for themselves.
fn localities_of(scope: &Scope<'_>, to: &Destination) -> Option<Vec<Locality>> {
    match to {
        Destination::Service(port) | Destination::Secured(port) => Some(by_zone(&endpoints_of(scope, port))),
        Destination::Backend(name) | Destination::SecuredBackend(name) => {
            let hosts = scope.get::<BackendHosts>(name)?;
            let hosts = hosts.as_ref().as_ref().ok()?;
            (!hosts.has_names()).then(|| hosts.endpoints())
        }
    }
}

/// Endpoints that are ready, by zone. One that ends yet still serves keeps what it has; where none is ready, those
/// take new requests too, as kube-proxy does. Without either, one that is neither ready nor serving gets nothing.
fn by_zone(slices: &[(Port, Arc<api::core::EndpointSlice>)]) -> Vec<Locality> {
    let usable = slices.iter().flat_map(|(port, slice)| {
        slice.endpoints.iter().filter(|endpoint| endpoint.ready || (endpoint.serving && endpoint.terminating)).flat_map(
            move |endpoint| {
                endpoint.addresses.iter().map(move |address| {
                    (
                        endpoint.zone.as_deref().unwrap_or_default(),
                        Endpoint { address: *address, port: *port, ready: endpoint.ready, is_host: false },
                    )
                })
            },
        )
    });
    let mut zones: BTreeMap<&str, BTreeMap<_, bool>> = BTreeMap::new();
    let mut any_ready = false;
    for (zone, endpoint) in usable {
        any_ready |= endpoint.ready;
        let ready = zones.entry(zone).or_default().entry((endpoint.address, endpoint.port)).or_default();
        *ready |= endpoint.ready;
    }
    zones
        .into_iter()
        .map(|(zone, endpoints)| Locality {
            zone: zone.into(),
            sub_zone: "".into(),
            weight: None,
            way: "".into(),
            endpoints: endpoints
                .into_iter()
                .map(|((address, port), ready)| Endpoint { address, port, ready: ready || !any_ready, is_host: false })
                .collect(),
        })
        .collect()
}
