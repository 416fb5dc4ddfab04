//! What is sent to proxies, in a bootstrap by which Envoy judges it and serves nothing (`envoy --mode validate`).
//!
//! A proxy that serves can be asked about rows too, by a route configuration in which no request meets them ([`trial`]).
//!
//! Each [`Fragment`] is judged by itself, wherever it stands among others. So they are put where none can disturb another: rows
//! in one virtual host, each listener at no port, virtual hosts with one domain in route configurations of their own.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use envoy_types::pb::{
    envoy::{
        config::{
            bootstrap::v3::bootstrap::DynamicResources,
            cluster::v3::{
                Cluster,
                cluster::{ClusterDiscoveryType, DiscoveryType},
            },
            core::v3::{Address, TypedExtensionConfig, address::Address as At, socket_address::PortSpecifier},
            listener::v3::{Filter, FilterChain, Listener, filter},
            route::v3::{
                DirectResponseAction, Route, RouteConfiguration, RouteMatch, VirtualHost, route::Action,
                route_match::PathSpecifier,
            },
        },
        extensions::filters::{
            http::router::v3::Router,
            network::http_connection_manager::v3::{HttpConnectionManager, HttpFilter, http_filter},
        },
    },
    google::protobuf::Any,
};
use ir::{NsName, settings::Edge};
use prost::{Message, Name};

use crate::{
    boolean,
    bootstrap::{AdminAddress, XdsAddress, bootstrap, bootstrap_json},
    bytes::{Fields, Hash, alike::fields, any, tag, version},
    extension, listener, socket_address,
};

/// What a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `envoy.config.route.v3.Route`
    Row,
    /// `envoy.config.route.v3.VirtualHost` without its routes.
    Host,
    /// `envoy.config.route.v3.RouteConfiguration` without its virtual hosts.
    RouteConfiguration,
    /// `envoy.config.cluster.v3.Cluster`
    Cluster,
    /// `envoy.config.listener.v3.Listener`
    Listener,
    /// `envoy.config.core.v3.TypedExtensionConfig`
    Extension,
}

impl Kind {
    /// The full name of the protobuf message.
    pub fn message_name(self) -> &'static str {
        match self {
            Self::Row => "envoy.config.route.v3.Route",
            Self::Host => "envoy.config.route.v3.VirtualHost",
            Self::RouteConfiguration => "envoy.config.route.v3.RouteConfiguration",
            Self::Cluster => "envoy.config.cluster.v3.Cluster",
            Self::Listener => "envoy.config.listener.v3.Listener",
            Self::Extension => "envoy.config.core.v3.TypedExtensionConfig",
        }
    }
}

/// A part of what is sent, as it is sent.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// What it is.
    pub kind: Kind,
    /// The encoded message.
    pub bytes: Bytes,
    /// Its content hash.
    pub hash: Hash,
    /// The names of clusters whose absence Envoy would hold against it. What they are makes no difference.
    pub asks: Arc<[Arc<str>]>,
}

impl Fragment {
    /// One that asks for no cluster, with a hash over its bytes.
    pub fn new(kind: Kind, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { kind, hash: version([&*bytes]), bytes, asks: Arc::default() }
    }
}

/// What fragments are put into: the runtime and the limits of proxies, and the HTTP filters of all their listeners.
#[derive(Clone, Debug)]
pub struct Wrapper {
    bootstrap: Vec<u8>,
    /// The connection manager of rows, without routes.
    chain: Vec<u8>,
    /// One that has no filter but the last.
    plain: Vec<u8>,
    hash: Hash,
}

/// Numbers of the fields that are appended by hand.
mod field {
    pub(super) const BOOTSTRAP_STATIC_RESOURCES: u32 = 2;
    pub(super) const STATIC_RESOURCES_LISTENERS: u32 = 1;
    pub(super) const STATIC_RESOURCES_CLUSTERS: u32 = 2;
    pub(super) const CLUSTER_NAME: u32 = 1;
    pub(super) const MANAGER_ROUTE_CONFIG: u32 = 4;
    pub(super) const ROUTE_CONFIGURATION_VALIDATE_CLUSTERS: u32 = 7;
}

impl Wrapper {
    /// For proxies with these limits.
    pub fn new(edge: &Edge) -> Self {
        // Nobody is there, and nobody is asked.
        let (xds, admin) = (XdsAddress::Unix("/nowhere".into()), AdminAddress::Unix("/nowhere".into()));
        let mut message = bootstrap(&NsName::new("judge", "judge"), "judge", &xds, &admin, edge);
        message.admin = None;
        let ads_config = message.dynamic_resources.take().and_then(|resources| resources.ads_config);
        message.dynamic_resources = Some(DynamicResources { ads_config, ..DynamicResources::default() });
        let chain = listener::judged(edge);
        let plain = HttpConnectionManager {
            stat_prefix: "judged".into(),
            http_filters: vec![http_filter(extension::ROUTER, any(&Router::default()))],
            ..HttpConnectionManager::default()
        };
        // Its maps have no order as bytes, and have one as JSON.
        let json = bootstrap_json(&message).map(|json| json.to_string()).unwrap_or_default();
        let (chain, plain) = (chain.encode_to_vec(), plain.encode_to_vec());
        Self { hash: version([json.as_bytes(), &[0], &*chain]), bootstrap: message.encode_to_vec(), chain, plain }
    }

    /// Changes with everything but fragments that an Envoy is shown.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The encoded bootstrap with these fragments; without any, what Envoy has to take of it in any case.
    pub fn bootstrap(&self, fragments: &[&Fragment]) -> Vec<u8> {
        let of = |kind| fragments.iter().filter(move |fragment| fragment.kind == kind).map(|fragment| &*fragment.bytes);
        let mut resources = Fields::default();
        let rows =
            of(Kind::Row).fold(Fields::of(&host("rows", "*")), |host, row| host.message(tag::VIRTUAL_HOST_ROUTES, row));
        let rows = with_hosts(
            &RouteConfiguration { name: "rows".into(), ..RouteConfiguration::default() }.encode_to_vec(),
            [&*rows.into_bytes()],
        );
        let mut numbers = 0_usize..;
        let mut add = |resources: Fields, listener: Listener| {
            let name = format!("{}/{}", listener.name, numbers.next().unwrap_or_default());
            resources
                .message(field::STATIC_RESOURCES_LISTENERS, &nowhere(Listener { name, ..listener }).encode_to_vec())
        };
        resources = add(resources, served(&self.chain, &rows));
        for head in of(Kind::RouteConfiguration) {
            resources = add(resources, served(&self.plain, &with_hosts(head, [])));
        }
        for hosts in apart(of(Kind::Host)) {
            resources = add(resources, served(&self.plain, &with_hosts(&[], hosts)));
        }
        for extension in of(Kind::Extension) {
            resources = add(resources, extended(extension));
        }
        for bytes in of(Kind::Listener) {
            // What cannot be read is put there as it is, and refused.
            match Listener::decode(bytes) {
                Ok(listener) => resources = add(resources, listener),
                Err(_) => resources = resources.message(field::STATIC_RESOURCES_LISTENERS, bytes),
            }
        }
        let mut names = HashSet::new();
        for (bytes, number) in of(Kind::Cluster).zip(0_u64..) {
            let name = Cluster::decode(bytes).map(|cluster| cluster.name).unwrap_or_default();
            // Of two with one name the last word counts: the last of the fields.
            let own = if names.contains(&name) { format!("{name}/{number}") } else { String::new() };
            let renamed = Fields::default().message(field::CLUSTER_NAME, own.as_bytes()).into_bytes();
            let bytes = [bytes, if own.is_empty() { &[] } else { &*renamed }].concat();
            resources = resources.message(field::STATIC_RESOURCES_CLUSTERS, &bytes);
            names.insert(if own.is_empty() { name } else { own });
        }
        for name in fragments.iter().flat_map(|fragment| fragment.asks.iter()) {
            if names.insert(name.to_string()) {
                resources = resources.message(field::STATIC_RESOURCES_CLUSTERS, &stub(name).encode_to_vec());
            }
        }
        let resources = Fields::default().message(field::BOOTSTRAP_STATIC_RESOURCES, &resources.into_bytes());
        // Both have static resources, of which Envoy takes what both say.
        [&*self.bootstrap, &*resources.into_bytes()].concat()
    }
}

/// A route configuration without its virtual hosts, and each of these without its routes.
pub fn heads(config: &[u8]) -> (Fragment, Vec<Fragment>) {
    let (head, hosts) = without(config, tag::ROUTE_CONFIGURATION_VIRTUAL_HOSTS);
    let hosts = hosts.into_iter().map(|host| Fragment::new(Kind::Host, without(host, tag::VIRTUAL_HOST_ROUTES).0));
    (Fragment::new(Kind::RouteConfiguration, head), hosts.collect())
}

/// The content hashes of the routes of a route configuration.
pub fn row_hashes(config: &[u8]) -> HashSet<Hash> {
    let (_, hosts) = without(config, tag::ROUTE_CONFIGURATION_VIRTUAL_HOSTS);
    let rows = hosts.into_iter().flat_map(|host| without(host, tag::VIRTUAL_HOST_ROUTES).1);
    rows.map(|row| version([row])).collect()
}

/// A route configuration of this name that a proxy takes only if it takes these rows, and its version. To requests it is what
/// `before` is, which shares its pieces with it, or one without routes: the rows stand in a virtual host of their own, behind a
/// route that takes all that ever comes there. Nothing can: no request has a host with a blank in it, and no Gateway a hostname.
pub fn trial(name: &str, before: Option<(Hash, &[Bytes])>, rows: &[&Fragment]) -> (Hash, Arc<[Bytes]>) {
    let everything = RouteMatch { path_specifier: Some(PathSpecifier::Prefix(String::new())), ..RouteMatch::default() };
    let nothing = DirectResponseAction { status: 404, ..DirectResponseAction::default() };
    let first = Route {
        name: "trial".into(),
        r#match: Some(everything),
        action: Some(Action::DirectResponse(nothing)),
        ..Route::default()
    };
    let host = VirtualHost { routes: vec![first], ..host("on trial", "on trial") };
    let host = rows.iter().fold(Fields::of(&host), |host, row| host.message(tag::VIRTUAL_HOST_ROUTES, &row.bytes));
    let host = Fields::default().message(tag::ROUTE_CONFIGURATION_VIRTUAL_HOSTS, &host.into_bytes()).into_bytes();
    let named = || RouteConfiguration { name: name.into(), ..RouteConfiguration::default() }.encode_to_vec();
    let (of_before, pieces) = before.map_or_else(
        || (version([name.as_bytes()]), vec![named().into()]),
        |(version, pieces)| (version, pieces.to_vec()),
    );
    let hash = version([&of_before, &version([&*host])].map(|hash| &hash[..]));
    (hash, pieces.into_iter().chain([host.into()]).collect())
}

/// A message without the field `tag`, and what stands in that.
fn without(message: &[u8], tag: u32) -> (Vec<u8>, Vec<&[u8]>) {
    let (mut head, mut taken) = (Vec::new(), Vec::new());
    for (number, content, whole) in fields(message) {
        match content.filter(|_| number == u64::from(tag)) {
            Some(content) => taken.push(content),
            None => head.extend_from_slice(whole),
        }
    }
    (head, taken)
}

/// A route configuration with these virtual hosts. Whether its clusters are there does not matter, as over RDS.
fn with_hosts<'a>(head: &[u8], hosts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let validate_clusters = boolean(false).encode_to_vec();
    let checks = Fields::default().message(field::ROUTE_CONFIGURATION_VALIDATE_CLUSTERS, &validate_clusters);
    let hosts =
        hosts.into_iter().fold(checks, |config, host| config.message(tag::ROUTE_CONFIGURATION_VIRTUAL_HOSTS, host));
    [head, &*hosts.into_bytes()].concat()
}

/// Virtual hosts in groups in which no two have a domain in common.
fn apart<'a>(hosts: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<&'a [u8]>> {
    let mut groups: Vec<Vec<&[u8]>> = Vec::new();
    let mut taken: HashMap<String, usize> = HashMap::new();
    for host in hosts {
        let domains = VirtualHost::decode(host).map(|host| host.domains).unwrap_or_default();
        let group = domains.iter().filter_map(|domain| taken.get(domain)).max().copied().unwrap_or_default();
        for domain in domains {
            taken.insert(domain, group + 1);
        }
        match groups.get_mut(group) {
            Some(group) => group.push(host),
            None => groups.push(vec![host]),
        }
    }
    groups
}

fn host(name: &str, domain: &str) -> VirtualHost {
    VirtualHost { name: name.into(), domains: vec![domain.into()], ..VirtualHost::default() }
}

/// A listener whose connection manager has these routes.
fn served(manager: &[u8], routes: &[u8]) -> Listener {
    let manager = Fields::default()
        .message(field::MANAGER_ROUTE_CONFIG, routes)
        .into_bytes()
        .into_iter()
        .chain(manager.iter().copied());
    with_manager(Any { type_url: HttpConnectionManager::type_url(), value: manager.collect() })
}

/// A listener that has a filter of this extension.
fn extended(extension: &[u8]) -> Listener {
    let TypedExtensionConfig { name, typed_config } = TypedExtensionConfig::decode(extension).unwrap_or_default();
    let filter = HttpFilter {
        name,
        config_type: typed_config.map(http_filter::ConfigType::TypedConfig),
        ..HttpFilter::default()
    };
    let manager = HttpConnectionManager {
        stat_prefix: "judged".into(),
        http_filters: vec![filter, http_filter(extension::ROUTER, any(&Router::default()))],
        ..HttpConnectionManager::default()
    };
    let manager = any(&manager);
    with_manager(Any {
        value: [manager.value, Fields::default().message(field::MANAGER_ROUTE_CONFIG, &[]).into_bytes()].concat(),
        ..manager
    })
}

fn with_manager(manager: Any) -> Listener {
    let filter = Filter {
        name: extension::HTTP_CONNECTION_MANAGER.into(),
        config_type: Some(filter::ConfigType::TypedConfig(manager)),
    };
    Listener {
        name: "judged".into(),
        address: Some(socket_address("127.0.0.1", 0)),
        filter_chains: vec![FilterChain { filters: vec![filter], ..FilterChain::default() }],
        ..Listener::default()
    }
}

/// The listener at any port, so that several may have one address.
fn nowhere(mut listener: Listener) -> Listener {
    let additional = listener.additional_addresses.iter_mut().filter_map(|additional| additional.address.as_mut());
    for address in listener.address.iter_mut().chain(additional) {
        if let Address { address: Some(At::SocketAddress(socket)) } = address {
            socket.port_specifier = Some(PortSpecifier::PortValue(0));
        }
    }
    listener
}

/// A cluster that is there.
fn stub(name: &str) -> Cluster {
    Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Static as i32)),
        ..Cluster::default()
    }
}

fn http_filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.into(),
        config_type: Some(http_filter::ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Fragment {
        Fragment::new(Kind::Row, Route { name: name.into(), ..Route::default() }.encode_to_vec())
    }

    #[test]
    fn a_trial_is_what_was_before_with_rows_that_no_request_meets() {
        let own = VirtualHost { routes: vec![Route::default()], ..host("own", "*") };
        let before = RouteConfiguration { name: "c".into(), virtual_hosts: vec![own], ..RouteConfiguration::default() };
        let bytes = Bytes::from(before.encode_to_vec());
        let (first, second) = (row("first"), row("second"));
        let of = |before: bool, rows: &[&Fragment]| {
            let pieces = std::slice::from_ref(&bytes);
            trial("c", before.then_some((version([&*bytes]), pieces)), rows)
        };
        let (hash, pieces) = of(true, &[&first, &second]);
        assert_eq!(pieces[0].as_ptr(), bytes.as_ptr(), "it is not copied");
        let mut tried = RouteConfiguration::decode(&*pieces.concat()).expect("a route configuration");
        let host = tried.virtual_hosts.pop().expect("a virtual host");
        assert_eq!(tried, before);
        let names: Vec<_> = host.routes.iter().map(|route| route.name.as_str()).collect();
        assert_eq!(names, ["trial", "first", "second"]);
        let matching = host.routes[0].r#match.as_ref().and_then(|matching| matching.path_specifier.clone());
        assert_eq!(matching, Some(PathSpecifier::Prefix(String::new())), "the first takes all");
        assert!(host.domains.iter().all(|domain| domain.contains(' ')), "{:?}", host.domains);

        let alone = RouteConfiguration::decode(&*of(false, &[&first]).1.concat()).expect("a route configuration");
        assert_eq!((alone.name.as_str(), alone.virtual_hosts.len()), ("c", 1));
        let versions = [hash, of(true, &[&first]).0, of(true, &[]).0, of(false, &[&first]).0, of(false, &[]).0];
        assert_eq!(versions.iter().collect::<HashSet<_>>().len(), versions.len());
    }
}
