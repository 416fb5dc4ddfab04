//! Clusters that proxies refused, by what is recorded: by whom they are listed, and why one is left out.

use std::sync::Arc;

use api::{Kind, ObjectId};
use engine::Scope;
use envoy::resource::Encoded;
use ir::NsName;

use crate::{
    tables::{
        backend::ClusterId,
        input::{ObjectKey, RefusedClusters, object_id},
    },
    target::backend_object,
};

/// With which object those are listed of an object that they are made from, which proxies of a Gateway refused. Which route serves
/// a place of streams may change, and its cluster does not: those stand with the Gateway.
pub fn refused_clusters_of(object: &ObjectId, gateway: &NsName) -> ObjectId {
    match object.kind {
        Kind::Service | Kind::Backend | Kind::HttpRoute | Kind::GrpcRoute => object.clone(),
        _ => gateway.clone().id(Kind::Gateway),
    }
}

/// With which object a cluster is listed.
fn holder(cluster: &ClusterId) -> ObjectId {
    match (cluster.to(), cluster) {
        (_, ClusterId::Place(place)) => place.listener.gateway.clone().id(Kind::Gateway),
        (_, ClusterId::Rule(chain, ..)) => object_id(chain.route()),
        (Some(to), _) => backend_object(&to),
        (None, other) => NsName::new("", other.name()).id(Kind::Backend),
    }
}

/// Why proxies do not take a cluster, if one refused it as `encoded` gives it, which is asked for where any of its object was.
pub(crate) fn by_proxies(
    scope: &Scope<'_>,
    cluster: &ClusterId,
    encoded: impl FnOnce() -> Option<Encoded>,
) -> Option<Arc<str>> {
    let refused = scope.get::<RefusedClusters>(&holder(cluster))?;
    refused.words(&encoded()?.version).cloned()
}
