//! Filter chains, encoded once each: a listener is composed from their bytes. What is long in them is the same in all chains of
//! a listener, which share it.

use std::{sync::Arc, time::Duration};

use ::bytes::Bytes;
use envoy_types::pb::envoy::{
    config::{
        core::v3::{CidrRange, TransportSocket, transport_socket},
        listener::v3::{FilterChain as EnvoyFilterChain, FilterChainMatch},
    },
    extensions::{
        filters::network::{
            http_connection_manager::v3::{HttpConnectionManager, Rds, http_connection_manager::RouteSpecifier},
            tcp_proxy::v3::{TcpProxy, tcp_proxy::ClusterSpecifier},
        },
        transport_sockets::tls::v3::{
            CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, TlsParameters,
            common_tls_context::ValidationContextType, downstream_tls_context::SessionTicketKeysType,
            tls_parameters::TlsProtocol,
        },
    },
};
use ir::{
    Hostname, NsName,
    downstream::ListenerConfig,
    listener::{FilterChain, LeadsTo, TlsTermination},
    settings::Edge,
};
use prost::{Message, Name};

use super::{clients, manager, stream};
use crate::{
    ads,
    body::Body,
    boolean,
    bytes::{self, Fields, Hash, Unreadable, any, readable, tag, version},
    duration, extension,
};

/// What the chains of a listener have in common, encoded once. Two are equal if what they say is.
#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    /// The connection manager, but for its name and where its routes are.
    manager: Rest,
    /// The same where clients are asked for certificates that nobody judges.
    unjudging: Rest,
    /// What connections to a cluster are handled by, but for its name and the cluster.
    proxy: Rest,
    handshake_timeout: Option<Duration>,
    /// From where connections may come.
    sources: Vec<CidrRange>,
    /// How many connections a chain has at a time.
    most_connections: u32,
}

/// Fields that stand behind those of a message of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rest {
    bytes: Bytes,
    hash: Hash,
}

impl Rest {
    fn of(message: &impl Message) -> Self {
        let bytes = Bytes::from(Fields::of(message).into_bytes());
        Self { hash: version([&*bytes]), bytes }
    }
}

/// A filter chain as it stands in a listener. Two are equal if their hashes are.
#[derive(Clone, Debug)]
pub struct Chain {
    pieces: Arc<[Bytes]>,
    len: usize,
    hash: Hash,
}

impl Chain {
    /// Its content hash.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }
}

impl PartialEq for Chain {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for Chain {}

impl Common {
    /// What policies have all chains of a listener of a Gateway say.
    pub fn new(gateway: &NsName, said: &ListenerConfig, edge: &Edge) -> Self {
        let pseudonym = manager::pseudonym(gateway);
        let manager = |asks_unjudged| Rest::of(&manager::manager(gateway, &pseudonym, &said.http, asks_unjudged, edge));
        Self {
            manager: manager(false),
            unjudging: manager(true),
            proxy: Rest::of(&stream::tcp_proxy(edge)),
            handshake_timeout: said.handshake_timeout,
            sources: clients::sources(said, edge),
            most_connections: edge.max_listener_connections,
        }
    }

    /// Why Envoy could not read a listener with such chains, if so.
    pub fn readable(&self) -> Result<(), Unreadable> {
        let mut all = [&self.manager, &self.unjudging, &self.proxy].into_iter();
        all.try_for_each(|rest| readable::filter(&rest.bytes))
    }

    /// One of the chains.
    pub fn chain(&self, chain: &FilterChain) -> Chain {
        let name = chain.name.to_string();
        let (filter, type_url, own, rest) = match chain.leads_to {
            LeadsTo::RouteConfiguration => {
                let rds = Rds { config_source: Some(ads()), route_config_name: name.clone() };
                let own = HttpConnectionManager {
                    stat_prefix: name.clone(),
                    route_specifier: Some(RouteSpecifier::Rds(rds)),
                    ..HttpConnectionManager::default()
                };
                let type_url = HttpConnectionManager::type_url();
                let asks_unjudged = chain.tls.as_ref().is_some_and(|tls| tls.asks_unjudged);
                let rest = if asks_unjudged { &self.unjudging } else { &self.manager };
                (extension::HTTP_CONNECTION_MANAGER, type_url, own.encode_to_vec(), rest)
            }
            LeadsTo::Cluster => {
                let own = TcpProxy {
                    stat_prefix: name.clone(),
                    cluster_specifier: Some(ClusterSpecifier::Cluster(name.clone())),
                    ..TcpProxy::default()
                };
                (extension::TCP_PROXY, TcpProxy::type_url(), own.encode_to_vec(), &self.proxy)
            }
        };
        let chosen_by = FilterChainMatch {
            server_names: (chain.hostname != Hostname::Any).then(|| chain.hostname.domain()).into_iter().collect(),
            direct_source_prefix_ranges: self.sources.clone(),
            ..FilterChainMatch::default()
        };
        let before = EnvoyFilterChain {
            filter_chain_match: (chosen_by != FilterChainMatch::default()).then_some(chosen_by),
            filters: clients::limit(&name, self.most_connections).into_iter().collect(),
            ..EnvoyFilterChain::default()
        };
        let after = EnvoyFilterChain {
            transport_socket: chain.tls.as_ref().map(|tls| transport_socket(tls, chain.leads_to)),
            name,
            transport_socket_connect_timeout: self.handshake_timeout.map(duration),
            ..EnvoyFilterChain::default()
        };
        // A filter with an `Any`, whose value goes on in `rest`.
        let begun = |tag, [text, inner]: [Vec<u8>; 2]| bytes::begun(tag, &[text, inner].concat(), rest.bytes.len());
        let text = |tag, text: &str| Fields::default().message(tag, text.as_bytes()).into_bytes();
        let value = begun(tag::ANY_VALUE, [Vec::new(), own]);
        let config = begun(tag::FILTER_TYPED_CONFIG, [text(tag::ANY_TYPE_URL, &type_url), value]);
        let filter = begun(tag::FILTER_CHAIN_FILTERS, [text(tag::FILTER_NAME, filter), config]);
        let before = [before.encode_to_vec(), filter].concat();
        Chain::of([before.into(), rest.bytes.clone(), after.encode_to_vec().into()], Some(&rest.hash))
    }
}

impl Chain {
    /// Of pieces, with the hash of the middle one where that is known.
    fn of(pieces: [Bytes; 3], middle: Option<&Hash>) -> Self {
        let [before, rest, after] = &pieces;
        let middle = middle.copied().unwrap_or_else(|| version([&**rest]));
        let hashes = [version([&**before]), middle, version([&**after])];
        let len = pieces.iter().map(Bytes::len).sum();
        Self { hash: version([hashes.as_flattened()]), len, pieces: Arc::new(pieces) }
    }
}

/// Chains without filters: Envoy closes what they are chosen for.
pub fn closed(hostnames: &[Hostname]) -> Vec<Chain> {
    let names = hostnames.iter().filter(|hostname| **hostname != Hostname::Any);
    let server_names: Vec<_> = names.map(Hostname::domain).collect();
    let named = (!server_names.is_empty()).then(|| EnvoyFilterChain {
        name: "closed".into(),
        filter_chain_match: Some(FilterChainMatch { server_names, ..FilterChainMatch::default() }),
        ..EnvoyFilterChain::default()
    });
    let others = EnvoyFilterChain { name: "closed/*".into(), ..EnvoyFilterChain::default() };
    let chains = named.into_iter().chain(hostnames.contains(&Hostname::Any).then_some(others));
    chains.map(|chain| Chain::of([chain.encode_to_vec().into(), Bytes::new(), Bytes::new()], None)).collect()
}

/// Chains as they stand in a listener, which is made from any number of such pieces.
pub fn chains<'a>(chains: impl Iterator<Item = &'a Chain>) -> Body {
    bytes::joined(tag::LISTENER_FILTER_CHAINS, chains.map(|chain| (chain.pieces.clone(), chain.len)).collect())
}

fn transport_socket(tls: &TlsTermination, leads_to: LeadsTo) -> TransportSocket {
    // What is spoken by clients of streams nobody knows.
    let alpn_protocols = match leads_to {
        LeadsTo::RouteConfiguration => vec!["h2".into(), "http/1.1".into()],
        LeadsTo::Cluster => Vec::new(),
    };
    let authorities = tls.clients.as_ref();
    let unjudged = tls.asks_unjudged.then(|| ValidationContextType::ValidationContext(clients::unjudged()));
    let secret = |name: &Arc<str>| SdsSecretConfig { name: name.to_string(), sds_config: Some(ads()) };
    let context = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: TlsProtocol::TlSv12 as i32,
                ..TlsParameters::default()
            }),
            tls_certificate_sds_secret_configs: tls.secrets.iter().map(secret).collect(),
            alpn_protocols,
            // Authorities come apart, so that one that rotates drains nothing.
            validation_context_type: authorities
                .map(secret)
                .map(ValidationContextType::ValidationContextSdsSecretConfig)
                .or(unjudged),
            ..CommonTlsContext::default()
        }),
        require_client_certificate: authorities.map(|_| boolean(true)),
        // Who resumes a session shows no certificate again, though that may have expired.
        session_ticket_keys_type: authorities.map(|_| SessionTicketKeysType::DisableStatelessSessionResumption(true)),
        disable_stateful_session_resumption: authorities.is_some(),
        ..DownstreamTlsContext::default()
    };
    TransportSocket {
        name: extension::TLS.into(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(any(&context))),
    }
}
