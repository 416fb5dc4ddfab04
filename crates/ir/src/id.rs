//! How things are named. Every name is made from the objects it stands for and from nothing else, so that an
//! unrelated object can never change it.

use std::{cmp::Ordering, fmt, sync::Arc};

use crate::key::Key;

/// A port number; zero never occurs past validation.
pub type Port = u16;

/// Namespace and name of an object whose kind the context tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NsName {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl NsName {
    /// Namespace and name as one key.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// By namespace, then by name. The objects of a namespace mostly have one text of its name.
impl Ord for NsName {
    fn cmp(&self, other: &Self) -> Ordering {
        by_text(&self.namespace, &other.namespace).then_with(|| by_text(&self.name, &other.name))
    }
}

/// Compares texts. Two that are equal are often one.
pub(crate) fn by_text(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

impl PartialOrd for NsName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for NsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Hands the kinds of routes to a macro. Types and variants of a kind are called alike everywhere.
#[macro_export]
macro_rules! route_kinds {
    ($then:ident) => {
        $then! { HttpRoute GrpcRoute TlsRoute TcpRoute UdpRoute }
    };
}

/// Declares the kinds of routes.
macro_rules! declare {
    ($($kind:ident)+) => {
        /// A kind of routes of Gateway API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RouteKind {
            $(
                #[doc = stringify!($kind)]
                $kind,
            )+
        }

        impl RouteKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),+];
        }
    };
}

route_kinds!(declare);

/// What is known of a kind of routes.
struct Traits {
    name: &'static str,
    lower_case: &'static str,
    prefix: &'static str,
    protocols: &'static [&'static str],
    delegates: bool,
    broken: u16,
    is_stream: bool,
}

/// What those kinds have in common that look into nothing.
const STREAM: Traits =
    Traits { name: "", lower_case: "", prefix: "", protocols: &[], delegates: false, broken: 503, is_stream: true };

impl RouteKind {
    const fn traits(self) -> &'static Traits {
        match self {
            Self::HttpRoute => &Traits {
                name: "HTTPRoute",
                lower_case: "httproute",
                prefix: "",
                protocols: &["HTTP", "HTTPS"],
                delegates: true,
                broken: 500,
                is_stream: false,
            },
            Self::GrpcRoute => &Traits {
                name: "GRPCRoute",
                lower_case: "grpcroute",
                prefix: "GRPCRoute/",
                protocols: &["HTTP", "HTTPS"],
                delegates: false,
                broken: 503,
                is_stream: false,
            },
            Self::TlsRoute => {
                &Traits { name: "TLSRoute", lower_case: "tlsroute", prefix: "TLSRoute/", protocols: &["TLS"], ..STREAM }
            }
            Self::TcpRoute => {
                &Traits { name: "TCPRoute", lower_case: "tcproute", prefix: "TCPRoute/", protocols: &["TCP"], ..STREAM }
            }
            Self::UdpRoute => {
                &Traits { name: "UDPRoute", lower_case: "udproute", prefix: "UDPRoute/", protocols: &["UDP"], ..STREAM }
            }
        }
    }

    /// The kind as Gateway API writes it.
    pub const fn name(self) -> &'static str {
        self.traits().name
    }

    /// The kind that a reference means; none for an object that is no route.
    pub fn named(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| group == GATEWAY_API && kind == known.name())
    }

    /// What its name is in names of clusters.
    pub const fn lower_case(self) -> &'static str {
        self.traits().lower_case
    }

    /// What stands before the names of its routes in paths ([`RouteId::path`]): nothing for an HTTPRoute. For any other it
    /// is the kind and a slash, which cannot be taken for a namespace, since that has no upper case.
    pub(crate) const fn prefix(self) -> &'static str {
        self.traits().prefix
    }

    /// The kinds that listeners of a protocol support, as Gateway API writes it.
    pub fn of_protocol(protocol: &str) -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(move |kind| kind.traits().protocols.contains(&protocol))
    }

    /// Whether routes of this kind delegate to each other.
    pub const fn delegates(self) -> bool {
        self.traits().delegates
    }

    /// Whether its routes are of connections or datagrams as a whole, into which nobody looks, and not of requests.
    pub const fn is_stream(self) -> bool {
        self.traits().is_stream
    }

    /// The HTTP status with which what is broken answers in its routes: Gateway API asks for 500 in HTTP, and for the status
    /// UNAVAILABLE in gRPC, which Envoy makes of 503 where it answers a gRPC request.
    pub const fn broken_status(self) -> u16 {
        self.traits().broken
    }
}

impl fmt::Display for RouteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A route: two of different kinds may have one name. Sorted by name, so that the routes of a namespace stand together,
/// then by kind.
pub type RouteId = Key<RouteName>;

/// What names a route.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteName {
    /// Namespace and name.
    pub name: NsName,
    /// The kind.
    pub kind: RouteKind,
    /// The root in whose edition it stands; none for the route as it is now. Nothing that others see tells the two apart.
    pub edition: Option<Edition>,
}

/// That of which a version is kept, an edition: all that belongs to this root, as it was.
pub type Edition = Arc<RootId>;

/// The object to which all belongs that is kept together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RootId {
    /// An HTTPRoute: its tree of routes, with the policies on them.
    Route(NsName),
    /// A Gateway: the policies on it and on its listeners.
    Gateway(NsName),
}

impl RootId {
    /// Its kind, as Gateway API writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Route(_) => RouteKind::HttpRoute.name(),
            Self::Gateway(_) => "Gateway",
        }
    }

    /// Its namespace and name.
    pub fn name(&self) -> &NsName {
        match self {
            Self::Route(name) | Self::Gateway(name) => name,
        }
    }

    /// Its namespace.
    pub fn namespace(&self) -> &Arc<str> {
        &self.name().namespace
    }

    /// The root of a tree of routes, as it is now.
    pub fn route(&self) -> Option<RouteId> {
        match self {
            Self::Route(name) => Some(RouteId::new(RouteKind::HttpRoute, name.clone())),
            Self::Gateway(_) => None,
        }
    }
}

/// `HTTPRoute apps/shop`.
impl fmt::Display for RootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

impl RouteId {
    /// A route of a kind.
    pub fn new(kind: RouteKind, name: NsName) -> Self {
        Self::hashed(RouteName { name, kind, edition: None })
    }

    /// The same route as it is in an edition; none for the route as it is now.
    #[must_use]
    pub fn of_edition(&self, edition: Option<&Edition>) -> Self {
        if self.edition.as_ref() == edition {
            return self.clone();
        }
        Self::hashed(RouteName { edition: edition.cloned(), ..RouteName::clone(self) })
    }

    /// The route as it is now.
    #[must_use]
    pub fn live(&self) -> Self {
        self.of_edition(None)
    }

    /// The same as the root of a tree.
    pub fn root(&self) -> RootId {
        RootId::Route(self.name.clone())
    }

    /// This root in its own edition.
    #[must_use]
    pub fn committed(&self) -> Self {
        Self::hashed(RouteName { edition: Some(Arc::new(self.root())), ..RouteName::clone(self) })
    }

    /// An HTTPRoute.
    pub fn http(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self::new(RouteKind::HttpRoute, NsName::new(namespace, name))
    }

    /// The namespace.
    pub fn namespace(&self) -> &Arc<str> {
        &self.name.namespace
    }

    /// The shortest text that no other route has: `apps/shop`, with the kind before it if that is not HTTPRoute.
    pub fn path(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| write!(f, "{}{}", self.kind.prefix(), self.name))
    }

    /// What is before every route of a namespace, and after those of namespaces before it.
    pub fn first_of(namespace: Arc<str>) -> Self {
        Self::new(RouteKind::ALL[0], NsName::new(namespace, ""))
    }
}

impl fmt::Debug for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, edition } = self;
        f.debug_struct("RouteId").field("name", name).field("kind", kind).field("edition", edition).finish()
    }
}

/// `HTTPRoute apps/shop`.
impl fmt::Display for RouteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The API group of Gateway API.
pub const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// An object that routes name as their parent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ParentId {
    /// A Gateway.
    Gateway(NsName),
    /// A ListenerSet.
    ListenerSet(NsName),
}

impl ParentId {
    /// Its kind, as Gateway API writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Gateway(_) => "Gateway",
            Self::ListenerSet(_) => "ListenerSet",
        }
    }

    /// Its namespace and name.
    pub fn name(&self) -> &NsName {
        match self {
            Self::Gateway(name) | Self::ListenerSet(name) => name,
        }
    }
}

/// `Gateway infra/edge`.
impl fmt::Display for ParentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.name())
    }
}

/// The name of a listener among all that the proxies of a Gateway serve: a ListenerSet may have one of the same name as
/// the Gateway. The Gateway's own are sorted first.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerName {
    /// The ListenerSet that has it; none for one of the Gateway's own.
    pub set: Option<Arc<NsName>>,
    /// Its section name.
    pub section: Arc<str>,
}

impl ListenerName {
    /// Of one of the Gateway's own listeners.
    pub fn of_gateway(section: Arc<str>) -> Self {
        Self { set: None, section }
    }
}

/// `SECTION`, or `NS/SET/SECTION` for a listener of a ListenerSet.
impl fmt::Display for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.set {
            None => f.write_str(&self.section),
            Some(set) => write!(f, "{set}/{}", self.section),
        }
    }
}

/// One listener, of a Gateway or of a ListenerSet.
pub type ListenerId = Key<ServedListener>;

/// What names a listener.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServedListener {
    /// The Gateway whose proxies serve it.
    pub gateway: NsName,
    /// Its name there.
    pub name: ListenerName,
}

impl ListenerId {
    /// The listener of a name among those of a Gateway.
    pub fn new(gateway: NsName, name: ListenerName) -> Self {
        Self::hashed(ServedListener { gateway, name })
    }

    /// One of a Gateway's own listeners.
    pub fn of_gateway(gateway: NsName, section: Arc<str>) -> Self {
        Self::new(gateway, ListenerName::of_gateway(section))
    }

    /// The object that it is written in, which routes name.
    pub fn parent(&self) -> ParentId {
        match &self.name.set {
            None => ParentId::Gateway(self.gateway.clone()),
            Some(set) => ParentId::ListenerSet(NsName::clone(set)),
        }
    }

    /// The namespace of that object.
    pub fn namespace(&self) -> &Arc<str> {
        self.name.set.as_ref().map_or(&self.gateway.namespace, |set| &set.namespace)
    }
}

impl fmt::Debug for ServedListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerId").field("gateway", &self.gateway).field("name", &self.name).finish()
    }
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.gateway, self.name)
    }
}

/// One Envoy route configuration: all HTTP listeners of a port share one, every HTTPS listener has its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteConfigId {
    /// The Gateway it belongs to.
    pub gateway: NsName,
    /// The Gateway's port, which is not always the port that Envoy binds.
    pub port: Port,
    /// The HTTPS listener whose filter chain reads it; none on a plain HTTP port.
    pub listener: Option<ListenerName>,
}

impl RouteConfigId {
    /// The listener that has it for itself, if one has.
    pub fn listener_id(&self) -> Option<ListenerId> {
        let name = self.listener.clone()?;
        Some(ListenerId::new(self.gateway.clone(), name))
    }

    /// The name of the Envoy resource: `http/80` or `https/443/LISTENER` ([`ListenerName`]).
    pub fn resource_name(&self) -> String {
        match &self.listener {
            None => format!("http/{}", self.port),
            Some(listener) => format!("https/{}/{listener}", self.port),
        }
    }

    /// The same where clients are let in by a certificate alone: `https/443/LISTENER/verified`. Connections from before that was
    /// demanded do not read it.
    pub fn verified_name(&self) -> String {
        format!("{}/verified", self.resource_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_meant_by_group_and_kind() {
        assert_eq!(RouteKind::named(GATEWAY_API, "HTTPRoute"), Some(RouteKind::HttpRoute));
        for (group, kind) in [("", "HTTPRoute"), (GATEWAY_API, "Gateway"), (GATEWAY_API, "httproute"), ("", "Service")]
        {
            assert_eq!(RouteKind::named(group, kind), None, "{group} {kind}");
        }
        for kind in RouteKind::ALL {
            assert_eq!(RouteKind::named(GATEWAY_API, kind.name()), Some(*kind));
            assert_eq!(kind.lower_case(), kind.name().to_ascii_lowercase());
        }
    }

    #[test]
    fn the_routes_of_a_namespace_stand_together_whatever_their_kinds() {
        let apps = RouteId::first_of("apps".into());
        assert!(RouteId::http("app", "z") < apps && apps < RouteId::http("apps", "a"));
        assert!(RouteId::http("apps", "z") < RouteId::first_of("apps-2".into()));
    }

    #[test]
    fn an_http_route_is_written_with_its_kind_or_as_a_path_without() {
        let shop = RouteId::http("apps", "shop");
        assert_eq!([shop.to_string(), shop.path().to_string()], ["HTTPRoute apps/shop", "apps/shop"]);
    }

    #[test]
    fn a_route_of_another_kind_has_its_kind_in_its_path_too() {
        let shop = RouteId::new(RouteKind::GrpcRoute, NsName::new("apps", "shop"));
        assert_eq!([shop.to_string(), shop.path().to_string()], ["GRPCRoute apps/shop", "GRPCRoute/apps/shop"]);
        assert_ne!(shop, RouteId::http("apps", "shop"));
    }

    #[test]
    fn a_gateway_and_a_listener_set_of_one_name_are_two_parents() {
        let edge = NsName::new("infra", "edge");
        let own = ListenerId::of_gateway(edge.clone(), "web".into());
        let set = ListenerName { set: Some(Arc::new(edge.clone())), section: "web".into() };
        let of_set = ListenerId::new(edge.clone(), set);
        assert_ne!(own, of_set);
        assert!(own < of_set, "the Gateway's own come first");
        assert_eq!(own.parent(), ParentId::Gateway(edge.clone()));
        assert_eq!(of_set.parent(), ParentId::ListenerSet(edge));
        assert_eq!(
            [own.parent().to_string(), of_set.parent().to_string()],
            ["Gateway infra/edge", "ListenerSet infra/edge"]
        );
        let config = |listener: &ListenerId| {
            let listener = Some(listener.name.clone());
            RouteConfigId { gateway: of_set.gateway.clone(), port: 443, listener }
        };
        let [own, of_set] = [config(&own), config(&of_set)];
        let names = [own.resource_name(), of_set.resource_name(), own.verified_name(), of_set.verified_name()];
        assert_eq!(
            names,
            [
                "https/443/web",
                "https/443/infra/edge/web",
                "https/443/web/verified",
                "https/443/infra/edge/web/verified"
            ]
        );
    }

    #[test]
    fn a_listener_of_a_set_is_in_the_namespace_of_its_set() {
        let set = Some(Arc::new(NsName::new("team", "set")));
        let name = ListenerName { set, section: "web".into() };
        let listener = ListenerId::new(NsName::new("infra", "edge"), name);
        assert_eq!(&**listener.namespace(), "team");
        assert_eq!(listener.to_string(), "infra/edge/team/set/web");
    }
}
