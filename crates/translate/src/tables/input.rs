//! What enters: the objects as they arrived, and what the world outside reports.

use std::sync::Arc;

use api::{Kind, Object, ObjectId};
use engine::{Builder, Engine, Input};
use ir::{NsName, Port, Settings};

/// Declares tables that are written from outside.
macro_rules! inputs {
    ($($(#[doc = $doc:literal])+ $table:ident: $key:ty => $value:ty;)+) => {$(
        tables! {
            $(#[doc = $doc])+
            $table: $key => $value;
        }

        impl Input for $table {}
    )+};
}

inputs! {
    /// The one row of settings.
    Config: () => Settings;
    /// The one row that says how proxies are run; absent where others run them.
    DeployConfig: () => super::proxies::Deploying;
    /// Why proxies of a Gateway do not have what they shall, by what they say of themselves.
    Nacks: NsName => String;
    /// Why what runs a Gateway's proxies is not as it should be.
    Unapplied: NsName => String;
    /// Why a port of this host cannot be bound.
    UnusablePorts: Port => String;
}

/// A table of the objects of a kind.
pub(crate) trait ObjectTable: Input<Key: ObjectKey> {
    /// The kind.
    const KIND: Kind;

    /// The object of a row.
    fn id(key: &Self::Key) -> Option<ObjectId> {
        Some(key.clone().id(Self::KIND))
    }
}

/// What tells an object from others in a table.
pub(crate) trait ObjectKey: Sized {
    /// The key of an object.
    fn of(id: &ObjectId) -> Self;

    /// The object, of this kind unless the key says another.
    fn id(self, kind: Kind) -> ObjectId;
}

impl ObjectKey for NsName {
    fn of(id: &ObjectId) -> Self {
        Self::new(id.namespace.clone(), id.name.clone())
    }

    fn id(self, kind: Kind) -> ObjectId {
        ObjectId::new(kind, self.namespace, self.name)
    }
}

/// Of an object of the cluster.
impl ObjectKey for Arc<str> {
    fn of(id: &ObjectId) -> Self {
        id.name.clone()
    }

    fn id(self, kind: Kind) -> ObjectId {
        ObjectId::new(kind, "", self)
    }
}

/// In a table of several kinds.
impl ObjectKey for ObjectId {
    fn of(id: &ObjectId) -> Self {
        id.clone()
    }

    fn id(self, _: Kind) -> ObjectId {
        self
    }
}

/// Declares the tables of objects. Of a kind without one nothing is read.
macro_rules! objects {
    ($($(#[doc = $doc:literal])+ $table:ident: $key:ty => $kind:ident($value:ty);)+) => {
        inputs! {$(
            $(#[doc = $doc])+
            $table: $key => $value;
        )+}

        $(
            impl ObjectTable for $table {
                const KIND: Kind = Kind::$kind;
            }
        )+

        /// Registers them.
        pub(crate) fn register(builder: Builder) -> Builder {
            builder$(.input::<$table>())+
        }

        /// Takes note of what an object is now; none once it is gone.
        pub(crate) fn set(engine: &mut Engine, id: &ObjectId, object: Option<Object>) {
            match (id.kind, object) {
                $(
                    (_, Some(Object::$kind(object))) => {
                        engine.set::<$table>(ObjectKey::of(id), Some(object));
                    }
                    (Kind::$kind, None) => {
                        engine.set::<$table>(ObjectKey::of(id), None);
                    }
                )+
                _ => {}
            }
        }
    };
}

objects! {
    /// GatewayClasses by name.
    Classes: Arc<str> => GatewayClass(api::GatewayClass);
    /// Gateways.
    Gateways: NsName => Gateway(api::Gateway);
    /// HTTPRoutes.
    Routes: NsName => HttpRoute(api::HttpRoute);
    /// ReferenceGrants.
    Grants: NsName => ReferenceGrant(api::ReferenceGrant);
    /// TrafficPolicies.
    TrafficPolicies: NsName => TrafficPolicy(api::TrafficPolicy);
    /// DirectResponses.
    DirectResponses: NsName => DirectResponse(api::DirectResponse);
    /// RewritePolicies.
    RewritePolicies: NsName => RewritePolicy(api::RewritePolicy);
    /// DelegationPolicies.
    DelegationPolicies: NsName => DelegationPolicy(api::DelegationPolicy);
    /// GatewayParameters.
    Parameters: NsName => GatewayParameters(api::GatewayParameters);
    /// Services.
    Services: NsName => Service(api::core::Service);
    /// EndpointSlices.
    Slices: NsName => EndpointSlice(api::core::EndpointSlice);
    /// Secrets to which others refer, with the keys that [`api::references`] names.
    Secrets: NsName => Secret(api::core::Secret);
    /// Deployments.
    Deployments: NsName => Deployment(api::core::Deployment);
    /// Namespaces by name.
    Namespaces: Arc<str> => Namespace(api::core::Namespace);
}
