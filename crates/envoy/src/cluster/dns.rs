//! Hosts whose names proxies look for in DNS.

use std::collections::HashMap;

use envoy_types::pb::{
    envoy::{
        config::{
            cluster::v3::cluster::CustomClusterType,
            core::v3::TypedExtensionConfig,
            endpoint::v3::{
                ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
            },
            rbac::v3::{Permission, Policy, Principal, Rbac as Rules, permission, principal, rbac::Action},
        },
        extensions::{
            clusters::{common::dns::v3::DnsLookupFamily, dns::v3::DnsCluster},
            filters::{
                http::{rbac::v3::Rbac, upstream_codec::v3::UpstreamCodec},
                network::http_connection_manager::v3::{HttpFilter, http_filter::ConfigType},
            },
            network::dns_resolver::cares::v3::CaresDnsResolverConfig,
        },
    },
    google::{
        api::expr::v1alpha1::{
            Constant, Expr,
            constant::ConstantKind,
            expr::{Call, ExprKind, Ident, Select},
        },
        protobuf::UInt64Value,
    },
};
use ir::{backend::Host, upstream::Dns};

use crate::{bytes::any, duration, extension, socket_address, uint32};

/// How long a name server may take to answer, in seconds, and how often it is asked. A proxy that starts waits for each
/// cluster, so a name that nobody answers for must not hold it for long.
const QUERY_SECONDS: u64 = 2;
const QUERY_TRIES: u32 = 2;

/// How proxies look for names: each address that a name has is an endpoint, IPv4 before IPv6, for as long as its record says.
///
/// A cluster is ready when it looked for them once, so that one that changes takes the place of the old one only then.
pub(super) fn discovery(said: Option<&Dns>) -> CustomClusterType {
    let said = said.copied().unwrap_or_default();
    let resolver = CaresDnsResolverConfig {
        query_timeout_seconds: Some(UInt64Value { value: QUERY_SECONDS }),
        query_tries: Some(uint32(QUERY_TRIES)),
        ..CaresDnsResolverConfig::default()
    };
    let cluster = DnsCluster {
        respect_dns_ttl: said.by_ttl.unwrap_or(said.refresh.is_none()),
        dns_refresh_rate: said.refresh.map(duration),
        dns_jitter: said.jitter.map(duration),
        dns_lookup_family: DnsLookupFamily::V4Preferred as i32,
        typed_dns_resolver_config: Some(TypedExtensionConfig {
            name: extension::CARES.into(),
            typed_config: Some(any(&resolver)),
        }),
        ..DnsCluster::default()
    };
    CustomClusterType { name: extension::DNS_CLUSTER.into(), typed_config: Some(any(&cluster)) }
}

/// The hosts to look for. Requests whose host is rewritten to that of the endpoint get the name as it is written.
pub(super) fn hosts(cluster: &str, hosts: &[Host]) -> ClusterLoadAssignment {
    let endpoint = |Host { name, port }: &Host| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            hostname: name.trim_end_matches('.').into(),
            address: Some(socket_address(name, *port)),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    };
    ClusterLoadAssignment {
        cluster_name: cluster.into(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: hosts.iter().map(endpoint).collect(),
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    }
}

/// Filters behind the choice of an endpoint that refuse a request whose endpoint has a local address. Whoever owns a name
/// decides what address it has, and from one moment to the next another one: only here it is known where a request goes.
pub(super) fn guard() -> Vec<HttpFilter> {
    let policy = Policy {
        permissions: vec![Permission { rule: Some(permission::Rule::Any(true)) }],
        principals: vec![Principal { identifier: Some(principal::Identifier::Any(true)) }],
        condition: Some(is_local()),
        ..Policy::default()
    };
    let rules = Rules {
        action: Action::Deny as i32,
        policies: HashMap::from([("local-address".to_owned(), policy)]),
        ..Rules::default()
    };
    let rbac = Rbac { rules: Some(rules), ..Rbac::default() };
    let filter = |name: &str, config| HttpFilter {
        name: name.into(),
        config_type: Some(ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    };
    vec![filter(extension::RBAC, any(&rbac)), filter(extension::UPSTREAM_CODEC, any(&UpstreamCodec::default()))]
}

/// `upstream.address.matches(LOCAL[0]) || upstream.address.matches(LOCAL[1])`, parsed.
fn is_local() -> Expr {
    let either = validate::host::LOCAL.into_iter().zip([1, 5]).map(|(pattern, first)| matches(first, pattern));
    let call = Call { function: "_||_".into(), args: either.collect(), ..Call::default() };
    Expr { id: 9, expr_kind: Some(ExprKind::CallExpr(Box::new(call))) }
}

/// `upstream.address.matches(pattern)`, with four ids from `first` on.
fn matches(first: i64, pattern: &str) -> Expr {
    let expr = |place, kind| Expr { id: first + place, expr_kind: Some(kind) };
    let upstream = expr(0, ExprKind::IdentExpr(Ident { name: "upstream".into() }));
    let address = Select { operand: Some(Box::new(upstream)), field: "address".into(), test_only: false };
    let pattern = Constant { constant_kind: Some(ConstantKind::StringValue(pattern.into())) };
    let call = Call {
        target: Some(Box::new(expr(1, ExprKind::SelectExpr(Box::new(address))))),
        function: "matches".into(),
        args: vec![expr(2, ExprKind::ConstExpr(pattern))],
    };
    expr(3, ExprKind::CallExpr(Box::new(call)))
}
