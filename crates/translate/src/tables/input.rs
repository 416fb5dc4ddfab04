//! Input tables: objects as they arrived, settings, and reports from outside.

use std::{collections::BTreeMap, sync::Arc};

use api::{Kind, Object, ObjectId};
use engine::{Builder, Engine, Input, Origins};
use ir::{Edition, NsName, Port, RootId, RouteId, RouteKind, Settings, backend::Transport};

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

/// Declares the tables of all that is no object.
macro_rules! others {
    ($($(#[doc = $doc:literal])+ $table:ident: $key:ty => $value:ty;)+) => {
        inputs! {$(
            $(#[doc = $doc])+
            $table: $key => $value;
        )+}

        fn register_others(builder: Builder) -> Builder {
            builder$(.input::<$table>())+
        }

        /// Writes all that is no object as it is in `before`.
        pub(crate) fn copy_others(engine: &mut Engine, before: &Engine) {
            $(copy::<$table>(engine, before);)+
        }
    };
}

/// Writes a table as it is in `before`.
pub(crate) fn copy<T: Input>(engine: &mut Engine, before: &Engine) {
    for (key, value) in before.rows::<T>() {
        engine.share::<T>(key, Some(value));
    }
}

others! {
    /// The one row of settings.
    Config: () => Settings;
    /// The one row that says how proxies are run; absent where others run them.
    DeployConfig: () => super::proxies::Deploying;
    /// What keys of logins are made from; absent until it is known, and where nothing is served.
    LoginSeed: () => super::login::Seed;
    /// Why proxies of a Gateway lack a part of the configuration, in their words.
    Nacks: NsName => String;
    /// Why the objects that run a Gateway's proxies cannot be applied.
    Unapplied: NsName => String;
    /// The ports of ListenerSets that a Gateway's Service goes without, and why.
    UnservedPorts: NsName => BTreeMap<(Port, Transport), Arc<str>>;
    /// Why a port of this host cannot be bound.
    UnusablePorts: (Port, Transport) => String;
    /// The Envoy routes of a route that an Envoy refuses.
    RefusedRows: RouteId => super::replacement::RefusedRows;
    /// The Envoy routes of a route that proxies refused, by what is recorded.
    RefusedByProxies: RouteId => super::replacement::RefusedRows;
    /// The clusters that proxies refused, by what is recorded: of a Service, a Backend or a route; those of a Gateway's places of
    /// streams stand with that.
    RefusedClusters: ObjectId => super::replacement::RefusedRows;
    /// Whether what is sent is what was cleared. Absent where Envoy is not asked before.
    Strict: () => ();
    /// Parts as an Envoy has taken them.
    ClearedPart: super::strict::PartId => super::strict::Part;
    /// Parts that an Envoy refuses.
    RefusedPart: super::strict::PartId => super::strict::RefusedPartWords;
    /// What is said in slots for a Gateway, and for a listener of it, as an Envoy has taken it.
    ClearedWide: super::policy::Target => Box<[ir::rule::Slot]>;
    /// Listeners as an Envoy has taken them.
    ClearedListener: (NsName, Port) => ir::listener::Listener;
    /// Listeners that are not sent, since an Envoy refuses them or said nothing in time.
    RefusedListener: (NsName, Port) => super::strict::Words;
    /// Routes that wait for Envoy's word for longer than it takes to notice.
    Waiting: RouteId => super::strict::Words;
    /// Why no Envoy can be asked; absent while one can.
    JudgeUnavailable: () => super::strict::Words;
    /// Which versions the proxies of a Gateway have that is not the one of the Envoy that judges.
    VersionsNotJudged: NsName => super::strict::Words;
    /// Gateways and listeners of which an Envoy refuses what policies say there in slots.
    RefusedWide: super::policy::Target => super::strict::Words;
    /// Roots that shall be kept as they are, and of which Envoy has not taken all.
    CandidateWords: RootId => super::strict::CandidateWord;
    /// How many entries a status has that other controllers wrote.
    ForeignAncestors: ObjectId => usize;
    /// Kinds that nobody can write, since their CRD is not there.
    AbsentKinds: Kind => ();
    /// What the owners of roots are told of how their trees are kept, and of the objects of these trees that change meanwhile.
    FrozenTold: ObjectId => super::edition::FreezeTold;
    /// Roots of which an edition is kept.
    Editions: RootId => super::edition::objects::Edition;
    /// Routes as they are in editions.
    EditionRoutes: RouteId => AnyRoute;
    /// All else that editions have: policies, and answers that rules give by themselves.
    EditionObjects: (Edition, ObjectId) => Shared;
}

inputs! {
    /// Routes of all kinds.
    Routes: RouteId => AnyRoute;
}

/// The roots of the editions that a row which panicked has read.
pub(crate) fn editions_among(engine: &Engine, origins: &Origins) -> Vec<RootId> {
    let routes = engine.among::<EditionRoutes>(origins).into_iter().filter_map(|route| route.edition.clone());
    let others = engine.among::<EditionObjects>(origins).into_iter().map(|(edition, _)| edition);
    let mut roots: Vec<_> = routes.chain(others).map(|root| RootId::clone(&root)).collect();
    roots.sort();
    roots.dedup();
    roots
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

/// A key that names an object.
pub(crate) trait ObjectKey: Sized {
    /// The key of an object; none for one of a kind that the key cannot name.
    fn of(id: &ObjectId) -> Option<Self>;

    /// The object. It is of this kind, unless the key names another.
    fn id(self, kind: Kind) -> ObjectId;
}

impl ObjectKey for NsName {
    fn of(id: &ObjectId) -> Option<Self> {
        Some(Self::new(id.namespace.clone(), id.name.clone()))
    }

    fn id(self, kind: Kind) -> ObjectId {
        ObjectId::new(kind, self.namespace, self.name)
    }
}

/// For objects of the cluster.
impl ObjectKey for Arc<str> {
    fn of(id: &ObjectId) -> Option<Self> {
        Some(id.name.clone())
    }

    fn id(self, kind: Kind) -> ObjectId {
        ObjectId::new(kind, "", self)
    }
}

/// For tables of several kinds.
impl ObjectKey for ObjectId {
    fn of(id: &ObjectId) -> Option<Self> {
        Some(id.clone())
    }

    fn id(self, _: Kind) -> ObjectId {
        self
    }
}

/// Declares the routes of all kinds.
macro_rules! routes {
    ($($kind:ident)+) => {
        /// A route of any kind, as it is written.
        #[allow(clippy::enum_variant_names, reason = "kinds are called alike everywhere")]
        #[derive(Clone, Debug, PartialEq, Hash)]
        pub(crate) enum AnyRoute {
            $($kind(api::$kind),)+
        }

        impl AnyRoute {
            pub(crate) fn of(object: Object) -> Option<Self> {
                match object {
                    $(Object::$kind(route) => Some(Self::$kind(route)),)+
                    _ => None,
                }
            }

            pub(crate) fn object(self) -> Object {
                match self {
                    $(Self::$kind(route) => Object::$kind(route),)+
                }
            }
        }

        /// The kind of routes that objects of a kind are, if they are any.
        pub(crate) fn route_kind(kind: Kind) -> Option<RouteKind> {
            match kind {
                $(Kind::$kind => Some(RouteKind::$kind),)+
                _ => None,
            }
        }

        /// The kind of the objects that routes of a kind are.
        pub(crate) fn object_kind(kind: RouteKind) -> Kind {
            match kind {
                $(RouteKind::$kind => Kind::$kind,)+
            }
        }
    };
}

ir::route_kinds!(routes);

/// The object that a route is.
pub fn object_id(route: &RouteId) -> ObjectId {
    ObjectId::new(object_kind(route.kind), route.namespace().clone(), route.name.name.clone())
}

/// The object that a root is.
pub fn root_object(root: &RootId) -> ObjectId {
    root.clone().id(Kind::HttpRoute)
}

/// The root that an object is; none for one of a kind that has no roots.
pub fn root_of(object: &ObjectId) -> Option<RootId> {
    RootId::of(object)
}

impl ObjectKey for RootId {
    fn of(id: &ObjectId) -> Option<Self> {
        let name = NsName::new(id.namespace.clone(), id.name.clone());
        match id.kind {
            Kind::HttpRoute => Some(Self::Route(name)),
            Kind::Gateway => Some(Self::Gateway(name)),
            _ => None,
        }
    }

    fn id(self, _: Kind) -> ObjectId {
        match self {
            Self::Route(name) => name.id(Kind::HttpRoute),
            Self::Gateway(name) => name.id(Kind::Gateway),
        }
    }
}

impl ObjectKey for RouteId {
    fn of(id: &ObjectId) -> Option<Self> {
        Some(Self::new(route_kind(id.kind)?, NsName::new(id.namespace.clone(), id.name.clone())))
    }

    fn id(self, _: Kind) -> ObjectId {
        object_id(&self)
    }
}

fn write<T: ObjectTable>(engine: &mut Engine, id: &ObjectId, object: Option<T::Value>) {
    if let Some(key) = T::Key::of(id) {
        engine.set::<T>(key, object);
    }
}

/// Declares the tables of objects other than routes. Objects of a kind without a table are ignored.
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

        /// Registers all tables.
        pub(crate) fn register(builder: Builder) -> Builder {
            register_others(builder).input::<Routes>()$(.input::<$table>())+
        }

        /// An object as the tables have it. Clones share it.
        #[derive(Clone, Debug, PartialEq, Hash)]
        pub struct Shared(pub(crate) Kept);

        #[derive(Clone, Debug, PartialEq, Hash)]
        pub(crate) enum Kept {
            Route(Arc<AnyRoute>),
            $($kind(Arc<$value>),)+
        }

        impl Shared {
            /// An object, to be shared; none of a kind without a table.
            pub(crate) fn new(object: Object) -> Option<Self> {
                Some(Self(match object {
                    $(Object::$kind(object) => Kept::$kind(Arc::new(object)),)+
                    object => Kept::Route(Arc::new(AnyRoute::of(object)?)),
                }))
            }

            /// The object, copied.
            pub fn object(&self) -> Object {
                match &self.0 {
                    Kept::Route(route) => AnyRoute::clone(route).object(),
                    $(Kept::$kind(object) => Object::$kind(<$value>::clone(object)),)+
                }
            }
        }

        /// An object as it is.
        pub(crate) fn get(engine: &Engine, id: &ObjectId) -> Option<Shared> {
            if let Some(route) = RouteId::of(id) {
                return engine.get::<Routes>(&route).map(|route| Shared(Kept::Route(route)));
            }
            match id.kind {
                $(Kind::$kind => engine.get::<$table>(&ObjectKey::of(id)?).map(|object| Shared(Kept::$kind(object))),)+
                _ => None,
            }
        }

        /// All objects as they are, by kind and name.
        pub(crate) fn all(engine: &Engine) -> Vec<Shared> {
            let routes = engine.rows::<Routes>().into_iter().map(|(_, route)| Shared(Kept::Route(route)));
            routes$(.chain(engine.rows::<$table>().into_iter().map(|(_, object)| Shared(Kept::$kind(object)))))+.collect()
        }

        /// The objects that a row which panicked has read.
        pub(crate) fn among(engine: &Engine, origins: &Origins) -> Vec<ObjectId> {
            let routes = engine.among::<Routes>(origins).into_iter().map(|route| object_id(&route));
            routes$(.chain(engine.among::<$table>(origins).into_iter().filter_map(|key| $table::id(&key))))+.collect()
        }

        /// Writes an object into the table of its kind; none removes it.
        pub(crate) fn set(engine: &mut Engine, id: &ObjectId, object: Option<Object>) {
            if let Some(route) = RouteId::of(id) {
                engine.set::<Routes>(route, object.and_then(AnyRoute::of));
                return;
            }
            match (id.kind, object) {
                $(
                    (_, Some(Object::$kind(object))) => write::<$table>(engine, id, Some(object)),
                    (Kind::$kind, None) => write::<$table>(engine, id, None),
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
    /// ListenerSets.
    ListenerSets: NsName => ListenerSet(api::ListenerSet);
    /// ReferenceGrants.
    Grants: NsName => ReferenceGrant(api::ReferenceGrant);
    /// BackendTLSPolicies.
    BackendTlsPolicies: NsName => BackendTlsPolicy(api::BackendTlsPolicy);
    /// TrafficPolicies.
    TrafficPolicies: NsName => TrafficPolicy(api::TrafficPolicy);
    /// DirectResponses.
    DirectResponses: NsName => DirectResponse(api::DirectResponse);
    /// Backends.
    Backends: NsName => Backend(api::Backend);
    /// BackendConfigPolicies.
    BackendConfigPolicies: NsName => BackendConfigPolicy(api::BackendConfigPolicy);
    /// ListenerPolicies.
    ListenerPolicies: NsName => ListenerPolicy(api::ListenerPolicy);
    /// RewritePolicies.
    RewritePolicies: NsName => RewritePolicy(api::RewritePolicy);
    /// DelegationPolicies.
    DelegationPolicies: NsName => DelegationPolicy(api::DelegationPolicy);
    /// GatewayExtensions.
    Extensions: NsName => GatewayExtension(api::GatewayExtension);
    /// GatewayParameters.
    Parameters: NsName => GatewayParameters(api::GatewayParameters);
    /// Services.
    Services: NsName => Service(api::core::Service);
    /// EndpointSlices.
    Slices: NsName => EndpointSlice(api::core::EndpointSlice);
    /// Secrets to which others refer, with the keys that [`api::references`] names.
    Secrets: NsName => Secret(api::core::Secret);
    /// ConfigMaps to which others refer, likewise.
    ConfigMaps: NsName => ConfigMap(api::core::ConfigMap);
    /// Deployments.
    Deployments: NsName => Deployment(api::core::Deployment);
    /// Namespaces by name.
    Namespaces: Arc<str> => Namespace(api::core::Namespace);
}
