//! Objects of every kind that is read, and how they are named.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::{
    DecodeError, DelegationPolicy, DirectResponse, Gateway, GatewayClass, GatewayParameters, HttpRoute, ReferenceGrant,
    RewritePolicy, TrafficPolicy,
    core::{ConfigMap, Deployment, EndpointSlice, Namespace, Secret, Service},
    decode,
    group::{GROUP, KGATEWAY_GROUP, PORTCULLIS_GROUP},
    meta::ObjectMeta,
};

macro_rules! kinds {
    ($($variant:ident: $kind:literal, $plural:literal, $group:expr, [$($version:literal),+], $namespaced:literal;)+) => {
        /// A kind of object that is read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(
                #[doc = concat!($kind, ".")]
                $variant,
            )+
        }

        impl Kind {
            /// Every kind, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The kind as manifests write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $kind,)+ }
            }

            /// The API group; empty for the core group.
            pub const fn group(self) -> &'static str {
                match self { $(Self::$variant => $group,)+ }
            }

            /// The versions that are understood, the preferred one first. All have the same schema.
            pub const fn versions(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($version),+],)+ }
            }

            /// The name of the resource in URLs.
            pub const fn plural(self) -> &'static str {
                match self { $(Self::$variant => $plural,)+ }
            }

            /// Whether objects of the kind live in namespaces.
            pub const fn namespaced(self) -> bool {
                match self { $(Self::$variant => $namespaced,)+ }
            }
        }

        /// An object of a kind that is read.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "objects are moved a few times and then live behind one Arc")]
        pub enum Object {
            $(
                #[doc = concat!("A ", $kind, ".")]
                $variant($variant),
            )+
        }

        impl Object {
            /// The kind.
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind::$variant,)+ }
            }

            /// Decodes a manifest of this kind.
            pub(crate) fn of_value(id: ObjectId, manifest: &Value) -> Result<Self, DecodeError> {
                match id.kind { $(Kind::$variant => decode::typed::<$variant>(id, manifest),)+ }
            }

            /// Decodes JSON text of this kind, if nothing is wrong with it.
            pub(crate) fn of_text(kind: Kind, text: &str) -> Option<Self> {
                match kind { $(Kind::$variant => serde_json::from_str::<$variant>(text).ok().map(Into::into),)+ }
            }
        }

        $(
            impl From<$variant> for Object {
                fn from(object: $variant) -> Self {
                    Self::$variant(object)
                }
            }
        )+
    };
}

kinds! {
    GatewayClass: "GatewayClass", "gatewayclasses", GROUP, ["v1", "v1beta1"], false;
    Gateway: "Gateway", "gateways", GROUP, ["v1", "v1beta1"], true;
    HttpRoute: "HTTPRoute", "httproutes", GROUP, ["v1", "v1beta1"], true;
    ReferenceGrant: "ReferenceGrant", "referencegrants", GROUP, ["v1", "v1beta1"], true;
    TrafficPolicy: "TrafficPolicy", "trafficpolicies", KGATEWAY_GROUP, ["v1alpha1"], true;
    DirectResponse: "DirectResponse", "directresponses", KGATEWAY_GROUP, ["v1alpha1"], true;
    RewritePolicy: "RewritePolicy", "rewritepolicies", PORTCULLIS_GROUP, ["v1alpha1"], true;
    DelegationPolicy: "DelegationPolicy", "delegationpolicies", PORTCULLIS_GROUP, ["v1alpha1"], true;
    GatewayParameters: "GatewayParameters", "gatewayparameters", KGATEWAY_GROUP, ["v1alpha1"], true;
    Service: "Service", "services", "", ["v1"], true;
    EndpointSlice: "EndpointSlice", "endpointslices", "discovery.k8s.io", ["v1"], true;
    Secret: "Secret", "secrets", "", ["v1"], true;
    ConfigMap: "ConfigMap", "configmaps", "", ["v1"], true;
    Deployment: "Deployment", "deployments", "apps", ["v1"], true;
    Namespace: "Namespace", "namespaces", "", ["v1"], false;
}

impl Kind {
    /// The kind of this group and name, whatever the version.
    pub fn find(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.as_str() == kind && known.group() == group)
    }

    /// Whether the kind is one of Kubernetes itself, so that it is served without a CRD.
    pub fn is_built_in(self) -> bool {
        matches!(self.group(), "" | "apps" | "discovery.k8s.io")
    }

    /// Whether it is this controller that says in the status of such an object what became of it.
    pub fn has_status_of_ours(self) -> bool {
        match self {
            Self::GatewayClass
            | Self::Gateway
            | Self::HttpRoute
            | Self::TrafficPolicy
            | Self::RewritePolicy
            | Self::DelegationPolicy => true,
            Self::ReferenceGrant
            | Self::DirectResponse
            | Self::GatewayParameters
            | Self::Service
            | Self::EndpointSlice
            | Self::Secret
            | Self::ConfigMap
            | Self::Deployment
            | Self::Namespace => false,
        }
    }

    /// The `apiVersion` of the preferred version.
    pub fn api_version(self) -> String {
        let version = self.versions()[0];
        match self.group() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names an object; prints as `HTTPRoute namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// Kind.
    pub kind: Kind,
    /// Namespace; empty for an object of the cluster.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectId {
    /// Kind, namespace and name as one key.
    pub fn new(kind: Kind, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

impl Object {
    /// What the object is called.
    pub fn id(&self) -> ObjectId {
        let (namespace, name) = match self {
            Self::GatewayClass(GatewayClass { metadata, .. })
            | Self::Gateway(Gateway { metadata, .. })
            | Self::HttpRoute(HttpRoute { metadata, .. })
            | Self::ReferenceGrant(ReferenceGrant { metadata, .. })
            | Self::TrafficPolicy(TrafficPolicy { metadata, .. })
            | Self::DirectResponse(DirectResponse { metadata, .. })
            | Self::RewritePolicy(RewritePolicy { metadata, .. })
            | Self::DelegationPolicy(DelegationPolicy { metadata, .. })
            | Self::GatewayParameters(GatewayParameters { metadata, .. }) => (&metadata.namespace, &metadata.name),
            Self::Service(Service { namespace, name, .. })
            | Self::EndpointSlice(EndpointSlice { namespace, name, .. })
            | Self::Secret(Secret { namespace, name, .. })
            | Self::ConfigMap(ConfigMap { namespace, name, .. })
            | Self::Deployment(Deployment { namespace, name, .. }) => (namespace, name),
            Self::Namespace(Namespace { name, .. }) => return ObjectId::new(Kind::Namespace, "", Arc::clone(name)),
        };
        ObjectId::new(self.kind(), Arc::clone(namespace), Arc::clone(name))
    }

    /// The metadata of an object of Gateway API, or of a policy; slim models keep none.
    pub fn metadata(&self) -> Option<&ObjectMeta> {
        match self {
            Self::GatewayClass(GatewayClass { metadata, .. })
            | Self::Gateway(Gateway { metadata, .. })
            | Self::HttpRoute(HttpRoute { metadata, .. })
            | Self::ReferenceGrant(ReferenceGrant { metadata, .. })
            | Self::TrafficPolicy(TrafficPolicy { metadata, .. })
            | Self::DirectResponse(DirectResponse { metadata, .. })
            | Self::RewritePolicy(RewritePolicy { metadata, .. })
            | Self::DelegationPolicy(DelegationPolicy { metadata, .. })
            | Self::GatewayParameters(GatewayParameters { metadata, .. }) => Some(metadata),
            _ => None,
        }
    }

    /// The same, to be filled in where no API server did.
    pub fn metadata_mut(&mut self) -> Option<&mut ObjectMeta> {
        match self {
            Self::GatewayClass(GatewayClass { metadata, .. })
            | Self::Gateway(Gateway { metadata, .. })
            | Self::HttpRoute(HttpRoute { metadata, .. })
            | Self::ReferenceGrant(ReferenceGrant { metadata, .. })
            | Self::TrafficPolicy(TrafficPolicy { metadata, .. })
            | Self::DirectResponse(DirectResponse { metadata, .. })
            | Self::RewritePolicy(RewritePolicy { metadata, .. })
            | Self::DelegationPolicy(DelegationPolicy { metadata, .. })
            | Self::GatewayParameters(GatewayParameters { metadata, .. }) => Some(metadata),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_group_and_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::find(kind.group(), kind.as_str()), Some(*kind));
        }
        assert_eq!(Kind::find("", "Gateway"), None);
        assert_eq!(Kind::find(GROUP, "gateway"), None);
    }

    #[test]
    fn the_preferred_version_is_written() {
        assert_eq!(Kind::HttpRoute.api_version(), "gateway.networking.k8s.io/v1");
        assert_eq!(Kind::Secret.api_version(), "v1");
        assert_eq!(Kind::EndpointSlice.api_version(), "discovery.k8s.io/v1");
    }

    #[test]
    fn an_id_prints_the_namespace_only_where_there_is_one() {
        assert_eq!(ObjectId::new(Kind::HttpRoute, "ns", "name").to_string(), "HTTPRoute ns/name");
        assert_eq!(ObjectId::new(Kind::GatewayClass, "", "name").to_string(), "GatewayClass name");
    }

    #[test]
    fn ids_sort_by_kind_then_namespace_then_name() {
        let ids = [
            ObjectId::new(Kind::Gateway, "b", "b"),
            ObjectId::new(Kind::HttpRoute, "a", "b"),
            ObjectId::new(Kind::HttpRoute, "b", "a"),
        ];
        assert!(ids.is_sorted());
    }
}
