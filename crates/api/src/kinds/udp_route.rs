//! UDPRoute.

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
            values::{DEFAULT_SCOPE, optional, required},
        },
        rules::Broken,
    },
    shared::{GatewayDefaultScope, ParentReference},
    stream_route::{self, StreamRouteRule},
};

/// Routes UDP datagrams to backends.
pub type UdpRoute = CustomResource<UdpRouteSpec>;

/// What the owner of a UDPRoute wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UdpRouteSpec {
    /// What the route wants to be attached to.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub parent_refs: Vec<ParentReference>,
    /// Whether it also attaches to default Gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_default_gateways: Option<GatewayDefaultScope>,
    /// The rule.
    #[serde(deserialize_with = "exact", skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<StreamRouteRule>,
}

impl Spec for UdpRouteSpec {
    const SCHEMA: Schema = Schema::of(&SPEC);
    const HONOURED: Honoured = Honoured { read: stream_route::READ, refused: stream_route::REFUSED };

    fn check(&self, broken: &mut Broken) {
        stream_route::check(&self.parent_refs, &self.rules, broken);
    }

    fn refused(&self) -> Vec<RefusedField> {
        self.refused_fields()
    }
}

static SPEC: Node = Node::Object(&[
    optional("parentRefs", &PARENT_REFS),
    optional("useDefaultGateways", &DEFAULT_SCOPE),
    required("rules", &stream_route::RULES),
]);

impl UdpRouteSpec {
    /// What it asks for and does not get.
    pub fn refused_fields(&self) -> Vec<RefusedField> {
        stream_route::refused(self.use_default_gateways.as_ref())
    }
}
