//! Clusters and endpoints of every kind.

use std::{sync::Arc, time::Duration};

use ir::{
    Settings,
    backend::{Assignment, Cluster, Endpoint, Host, Locality, PLAIN, Protocol, StreamCluster, Transport, Way},
    upstream::{
        Balance, Breakers, ClusterConfig, Dns, Hashing, HealthCheck, HealthCheckBy, Http1Options, Http2Options,
        HttpOptions, Keepalive, LoadBalancer, OutlierDetection, PeerName, Ping, ProxyProtocol, Tls, TlsTrust,
        TlsVersion,
    },
};

use super::CLUSTERS;

/// Clusters of every kind; the first three are [`CLUSTERS`].
pub fn clusters() -> Vec<Cluster> {
    let settings = Settings::default();
    let cluster = |name: &str, protocol, weighted_localities| Cluster {
        name: name.into(),
        hosts: Box::default(),
        config: Arc::default(),
        guarded: false,
        protocol,
        weighted_localities,
        connect_timeout: settings.connect_timeout,
        trust_store: settings.system_trust_store.clone(),
        limits: settings.cluster,
    };
    let host = |name: &str, port| Host { name: name.into(), port };
    vec![
        cluster(CLUSTERS[0], Protocol::Http1, false),
        cluster(CLUSTERS[1], Protocol::H2c, true),
        cluster(CLUSTERS[2], Protocol::Http1Tls, false),
        Cluster {
            connect_timeout: Duration::from_nanos(1),
            ..cluster("httproute/apps/sample/rule/0", Protocol::Http1, true)
        },
        Cluster {
            hosts: [host("a.example", 443), host("2001:db8::1", 1), host("a.example.", 65535)].into(),
            guarded: true,
            ..cluster("backend/apps/names", Protocol::Http1Tls, false)
        },
        Cluster { hosts: [host("localhost", 80)].into(), ..cluster("backend/apps/open", Protocol::H2c, false) },
        Cluster {
            hosts: [host("localhost", 80)].into(),
            config: Arc::new(ClusterConfig {
                balance: Some(LoadBalancer {
                    by: Balance::RingHash {
                        least: Some(2),
                        most: 3,
                        hash: Hashing { of: Arc::default(), by_hostname: true },
                    },
                    panic_threshold: None,
                    update_merge_window: None,
                    close_on_change: true,
                }),
                dns: Some(Dns {
                    refresh: Some(Duration::from_secs(1)),
                    jitter: Some(Duration::ZERO),
                    by_ttl: Some(true),
                }),
                tls: Some(Tls { by_endpoint: true, sni: None, trust: TlsTrust::System, ..tls() }),
                ..ClusterConfig::default()
            }),
            ..cluster("backend/apps/hashed", Protocol::Http1, false)
        },
        Cluster { config: Arc::new(connections()), ..cluster("service/apps/configured/80", Protocol::Http1, false) },
        Cluster {
            config: Arc::new(ClusterConfig { tls: Some(named()), ..ClusterConfig::default() }),
            ..cluster("service/apps/named/443", Protocol::H2c, false)
        },
        Cluster {
            config: Arc::new(ClusterConfig {
                balance: Some(LoadBalancer {
                    by: Balance::Maglev { hash: Hashing::default() },
                    panic_threshold: None,
                    update_merge_window: None,
                    close_on_change: false,
                }),
                health_check: Some(HealthCheck {
                    by: HealthCheckBy::Grpc { service: "s".into(), authority: "a.example".into() },
                    ..health_check()
                }),
                ..connections()
            }),
            ..cluster("service/apps/configured/81", Protocol::H2c, false)
        },
    ]
}

fn health_check() -> HealthCheck {
    HealthCheck {
        timeout: Duration::from_secs(1),
        interval: Duration::from_millis(100),
        unhealthy: 0,
        healthy: 3,
        by: HealthCheckBy::Http { host: "a.example".into(), path: "/healthz".into(), method: "TRACE" },
    }
}

/// All that can be said of a cluster at once.
fn connections() -> ClusterConfig {
    let some = |seconds| Some(Duration::from_secs(seconds));
    ClusterConfig {
        connect_timeout: Some(Duration::from_millis(1)),
        buffer_bytes: Some(1),
        keepalive: Some(Keepalive { probes: Some(127), time: Some(32_767), interval: Some(1) }),
        http: Some(HttpOptions {
            idle_timeout: some(0),
            max_headers: Some(1),
            max_stream_duration: some(1),
            max_requests: Some(0),
        }),
        http1: Some(Http1Options { trailers: true, preserve_case: true, stream_error: Some(false) }),
        http2: Some(Http2Options {
            keepalive: Some(Ping { interval: some(1), timeout: Duration::from_millis(1), idle_interval: some(1) }),
            connection_window: Some(65_535),
            stream_window: Some(16 << 20),
            max_streams: Some(1),
            stream_error: Some(true),
        }),
        balance: Some(LoadBalancer {
            by: Balance::RingHash { least: Some(1), most: 65_536, hash: Hashing::default() },
            panic_threshold: Some(100),
            update_merge_window: some(0),
            close_on_change: true,
        }),
        health_check: Some(health_check()),
        outliers: Some(OutlierDetection {
            consecutive_5xx: Some(0),
            interval: Some(Duration::from_millis(100)),
            base_ejection_time: some(3600),
            max_ejection_percent: Some(100),
            enforcing_consecutive_5xx: Some(0),
            split_local: true,
            consecutive_local: Some(1),
            enforcing_consecutive_local: Some(100),
        }),
        breakers: Some(Breakers {
            connections: Some(1),
            retries: Some(0),
            track_remaining: true,
            ..Breakers::default()
        }),
        tls: Some(tls()),
        proxy_protocol: Some(ProxyProtocol::V1),
        dns: None,
    }
}

fn tls() -> Tls {
    Tls {
        sni: Some("a.example".into()),
        by_endpoint: false,
        trust: TlsTrust::Anybody,
        names: Box::default(),
        certificate: None,
        anonymous: false,
        alpn: ["h2".into(), "http/1.1".into()].into(),
        renegotiation: true,
        least_version: Some(TlsVersion::V1_0),
        most_version: Some(TlsVersion::V1_3),
        ciphers: ["ECDHE-ECDSA-CHACHA20-POLY1305".into(), "AES256-SHA".into()].into(),
        curves: ["X25519".into(), "P-521".into()].into(),
        signatures: ["ecdsa_secp521r1_sha512".into(), "rsa_pkcs1_sha256".into()].into(),
    }
}

/// Names of every kind. Authorities come apart, under a name that nobody sends here.
fn named() -> Tls {
    let names = [
        PeerName::Dns("a.example".into()),
        PeerName::Below("a.example".into()),
        PeerName::Uri("spiffe://a.example/b".into()),
        PeerName::Address("10.0.0.1".into()),
    ];
    Tls {
        trust: TlsTrust::Bundle("authorities/apps/ConfigMap/ca".into()),
        names: names.into(),
        alpn: ["h2".into()].into(),
        renegotiation: false,
        ..tls()
    }
}

/// Clusters of places of streams, of every kind.
pub fn stream_clusters() -> Vec<StreamCluster> {
    let settings = Settings::default();
    let cluster = |name: &str, transport, ways: Vec<Way>| StreamCluster {
        name: name.into(),
        transport,
        ways,
        connect_timeout: settings.connect_timeout,
        trust_store: settings.system_trust_store.clone(),
        limits: settings.cluster,
    };
    let way = |name: &str, tls, proxy_protocol| Way { name: name.into(), tls, proxy_protocol };
    vec![
        cluster("tcp/db", Transport::Tcp, vec![]),
        cluster("udp/dns", Transport::Udp, vec![]),
        cluster(
            "tls/ends/a.example.com",
            Transport::Tcp,
            vec![
                way("service/apps/a/443/tls", Some(tls()), None),
                way("service/apps/b/443", None, Some(ProxyProtocol::V2)),
                way("service/apps/c/443/tls", Some(Tls::of(TlsTrust::System)), Some(ProxyProtocol::V1)),
            ],
        ),
    ]
}

/// Endpoints of every kind, for a cluster of this name.
pub fn assignments(cluster: &Arc<str>) -> Vec<Assignment> {
    let endpoint = |address: &str, ready| Endpoint {
        address: address.parse().unwrap_or(std::net::Ipv4Addr::LOCALHOST.into()),
        port: 8080,
        ready,
        is_host: ready,
    };
    let locality = |zone: &str, sub_zone: &str, weight, endpoints| Locality {
        zone: zone.into(),
        sub_zone: sub_zone.into(),
        weight,
        way: if sub_zone.is_empty() { "".into() } else { PLAIN.into() },
        endpoints,
    };
    let both = vec![endpoint("10.0.0.1", true), endpoint("2001:db8::1", true), endpoint("10.0.0.2", false)];
    let assignment = |localities| Assignment { cluster: cluster.clone(), localities };
    vec![
        assignment(vec![]),
        assignment(vec![locality("", "", None, vec![])]),
        assignment(vec![locality("", "", None, both.clone())]),
        assignment(vec![
            locality("a", "", None, both.clone()),
            locality("b", "", None, vec![endpoint("10.0.1.1", true)]),
        ]),
        assignment(vec![
            locality("a", "apps/one", Some(u32::MAX / 2), both),
            locality("a", "apps/two", Some(0), vec![endpoint("10.0.1.1", true)]),
            locality("", "apps/three", Some(1), vec![]),
        ]),
    ]
}
