//! TLSRoute.

use std::{net::IpAddr, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    compact::exact,
    honoured::{Honoured, RefusedField},
    meta::CustomResource,
    schema::{
        Schema, Spec,
        openapi::{
            Node,
            route::PARENT_REFS,
            values::{DEFAULT_SCOPE, HOSTNAME, list, optional, required},
        },
        rules::Broken,
    },
    shared::{GatewayDefaultScope, ParentReference},
    stream_route::{self, StreamRouteRule},
};

/// Routes TLS connections to backends, by the name that the client asks for.
pub type TlsRoute = CustomResource<TlsRouteSpec>;

/// What the owner of a TLSRoute wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsRouteSpec {
    /// What the route wants to be attached to.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub parent_refs: Vec<ParentReference>,
    /// Whether it also attaches to default Gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_default_gateways: Option<GatewayDefaultScope>,
    /// The names that clients ask for, at least one.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<Arc<str>>,
    /// The rule.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<StreamRouteRule>,
}

impl Spec for TlsRouteSpec {
    const SCHEMA: Schema = Schema::of(&SPEC);
    const HONOURED: Honoured = Honoured { read: READ, refused: stream_route::REFUSED };

    fn check(&self, broken: &mut Broken) {
        for (index, hostname) in self.hostnames.iter().enumerate() {
            if hostname.parse::<IpAddr>().is_ok() {
                broken.add(
                    format!("spec.hostnames[{index}]"),
                    hostname,
                    "must be a name: clients send no address as one",
                );
            }
        }
        stream_route::check(&self.parent_refs, &self.rules, broken);
    }

    fn refused(&self) -> Vec<RefusedField> {
        self.refused_fields()
    }
}

static SPEC: Node = Node::Object(&[
    optional("parentRefs", &PARENT_REFS),
    optional("useDefaultGateways", &DEFAULT_SCOPE),
    required("hostnames", &HOSTNAMES),
    required("rules", &stream_route::RULES),
]);
static HOSTNAMES: Node = list(1, 1024, &HOSTNAME);

/// What translation reads.
const READ: &[&str] = &[
    "spec.hostnames",
    "spec.parentRefs[].group",
    "spec.parentRefs[].kind",
    "spec.parentRefs[].name",
    "spec.parentRefs[].namespace",
    "spec.parentRefs[].port",
    "spec.parentRefs[].sectionName",
    "spec.rules[].backendRefs[].group",
    "spec.rules[].backendRefs[].kind",
    "spec.rules[].backendRefs[].name",
    "spec.rules[].backendRefs[].namespace",
    "spec.rules[].backendRefs[].port",
    "spec.rules[].backendRefs[].weight",
    "spec.rules[].name",
];

impl TlsRouteSpec {
    /// What it asks for and does not get.
    pub fn refused_fields(&self) -> Vec<RefusedField> {
        stream_route::refused(self.use_default_gateways.as_ref())
    }
}
