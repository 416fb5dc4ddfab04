//! A wide table of values of the model, each of which Envoy must take.

use std::{net::IpAddr, sync::Arc, time::Duration};

use ir::{
    Hostname, NsName, RouteId, Settings,
    backend::{Assignment, Cluster, Endpoint, Host, Locality, Protocol},
    downstream::{
        AccessLog, Client, Compare, FLAGS, Http2, HttpConfig, ListenerConfig, LogFilter, LogFormat, LogStream, LogTo,
        ProxyProtocolFrom, ServerHeader, StripPort, Traces,
    },
    filter::{Cors, Filters, HeaderModifier, Mirror, PathModifier, PrefixReplacement, Redirect, Rewrite, Scheme},
    listener::{FilterChain, Listener, TlsTermination},
    matching::{Condition, Grpc, PathMatch, RequestMatch, ValueMatch},
    rule::{
        Action, BodyContent, BodyFormat, PolicyFields, Retry, Rule, SessionCarrier, SessionPersistence, Source,
        Timeouts, WeightedBackend,
    },
    upstream::{
        Balance, Breakers, ClusterConfig, Dns, Hashing, HealthCheck, HealthCheckBy, Http1Options, Http2Options,
        HttpOptions, Keepalive, LoadBalancer, OutlierDetection, PeerName, Ping, ProxyProtocol, Tls, TlsTrust,
        TlsVersion,
    },
};
use validate::format;

mod telemetry;

/// The clusters that [`rules`] forward to; any other name is a broken share.
pub const CLUSTERS: [&str; 3] = ["service/apps/one/80", "service/apps/two/8080", "service/apps/three/443"];

/// The source of the `index`th sample.
pub fn source(index: usize) -> Source {
    Source {
        route: RouteId::http("apps", "sample"),
        rule: u32::try_from(index).unwrap_or(u32::MAX),
        rule_name: (index % 2 == 1).then(|| "named".into()),
        matching: 1,
        part: u32::from(index % 3 == 2),
    }
}

/// A match of a path alone.
pub fn path(path: PathMatch) -> RequestMatch {
    RequestMatch {
        path,
        method: None,
        headers: vec![],
        queries: vec![],
        grpc: None,
        implied: false,
        host_with_port: false,
    }
}

/// The matches that a path prefix means.
pub fn prefix(prefix: &str) -> Vec<RequestMatch> {
    let matches = RequestMatch::prefix_paths(prefix).into_iter();
    matches.map(|(text, implied)| RequestMatch { implied, ..path(text) }).collect()
}

/// A share without changes of its own.
pub fn share(cluster: Option<&str>, weight: u32) -> WeightedBackend {
    WeightedBackend {
        weight,
        cluster: cluster.map(Into::into),
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
        hostname: None,
    }
}

/// A rule that does this and nothing else.
pub fn rule(action: Action) -> Rule {
    Rule {
        action,
        filters: Filters::default(),
        timeouts: Timeouts::default(),
        retry: None,
        session: None,
        slots: Vec::new(),
        by_policy: PolicyFields::default(),
    }
}

/// A rule that forwards to the first cluster.
pub fn forward() -> Rule {
    rule(Action::Forward(vec![share(Some(CLUSTERS[0]), 1)]))
}

/// Matches of every kind.
pub fn matches() -> Vec<RequestMatch> {
    let condition = |name: &str, value| Condition { name: name.into(), value };
    let exact = |text: &str| ValueMatch::Exact(text.into());
    let regex = |text: &str| ValueMatch::Regex(text.into());
    let everything = RequestMatch {
        method: Some("PATCH".into()),
        headers: vec![condition("version", exact("v1, v2")), condition("x-user", regex("[a-z]{1,50}(%41)?"))],
        queries: vec![condition("Q", exact("a b")), condition("page", regex("\\d+"))],
        ..path(PathMatch::Exact("/every/thing".into()))
    };
    let mut matches = vec![
        everything,
        RequestMatch {
            grpc: Some(Grpc { service: 9, method: 3 }),
            headers: vec![condition("version", exact("v1"))],
            ..path(PathMatch::Exact("/shop.Cart/Add".into()))
        },
        path(PathMatch::Exact("/".into())),
        path(PathMatch::Exact("/caf\u{e9}/%2f".into())),
        path(PathMatch::Regex("/orders/[a-z]{1,50}(/.*)?".into())),
    ];
    for text in ["/", "/a", "/a/", "/a.b+(c)", "/deep/er/path/", "/q%3F~:@!$&'*,;="] {
        matches.extend(prefix(text));
    }
    matches
}

/// Rules of every kind.
pub fn rules() -> Vec<Rule> {
    let filters = |filters: Filters| Rule { filters, ..forward() };
    let mut rules = vec![forward(), Rule::direct_response(500, ""), Rule::direct_response(404, "%no% \"such\" page\n")];
    rules.extend(formats().into_iter().map(|format| rule(Action::Formatted { status: 418, format })));
    rules.extend(shares().into_iter().map(|shares| rule(Action::Forward(shares))));
    rules.extend(redirects().into_iter().map(|redirect| rule(Action::Redirect(redirect))));
    rules.extend(rewrites().into_iter().map(|rewrite| filters(Filters { rewrite, ..Filters::default() })));
    rules.extend(cors().into_iter().map(|cors| filters(Filters { cors: Some(cors), ..Filters::default() })));
    rules.push(filters(Filters {
        request_headers: headers("request"),
        response_headers: headers("response"),
        mirrors: [None, Some((1, 2)), Some((1, 3)), Some((0, 7)), Some((1, u32::MAX))]
            .map(|fraction| Mirror { cluster: CLUSTERS[1].into(), fraction })
            .into(),
        ..Filters::default()
    }));
    rules.extend(times());
    rules.extend(
        sessions().into_iter().map(|carrier| Rule { session: Some(SessionPersistence { carrier }), ..forward() }),
    );
    rules
}

fn formats() -> Vec<BodyFormat> {
    let text = |text: &str| BodyContent::Text(text.into());
    let json = |text: &str| BodyContent::Json(text.into());
    // Every operator without a parameter that the checks let pass.
    let operators: Vec<_> = format::PLAIN.iter().map(|operator| format!("%{operator}%")).collect();
    let contents = [
        text("100%% of %REQ(:path)% %REQ(x-a?:authority):12%"),
        text(&operators.join(" ")),
        json(r#"{"a": null, "b": [1, 2.5, true, {"c": "%RESPONSE_CODE%"}], "d": {}}"#),
        json("{}"),
    ];
    let plain = contents.map(|content| BodyFormat { content, content_type: None });
    let typed = BodyFormat { content: text("<p>"), content_type: Some("text/html; charset=utf-8".into()) };
    plain.into_iter().chain([typed]).collect()
}

fn headers(tag: &str) -> HeaderModifier {
    let pair = |name: &str, value: &str| (Arc::from(name), Arc::from(value));
    HeaderModifier {
        set: vec![pair("x-set", tag), pair("x-format", "100% %REQ(x)% %%")],
        add: vec![pair("x-add", "a, \"b\""), pair("x-empty", "")],
        remove: vec!["x-remove".into()],
    }
}

fn shares() -> Vec<Vec<WeightedBackend>> {
    let filtered = WeightedBackend {
        request_headers: headers("share"),
        response_headers: headers("share"),
        hostname: Some("share.example.com".into()),
        ..share(Some(CLUSTERS[1]), 3)
    };
    vec![
        vec![share(Some(CLUSTERS[0]), 1), share(Some(CLUSTERS[1]), 0), share(Some(CLUSTERS[2]), 9)],
        vec![share(Some(CLUSTERS[0]), u32::MAX)],
        vec![share(None, 1), share(Some(CLUSTERS[0]), 1), share(None, 2)],
        vec![share(None, 1)],
        vec![share(Some(CLUSTERS[0]), 0)],
        vec![filtered.clone()],
        vec![share(Some(CLUSTERS[0]), 1), filtered],
    ]
}

fn redirects() -> Vec<Redirect> {
    let plain = Redirect { scheme: None, hostname: None, port: None, path: None, status: 302 };
    let mut redirects: Vec<_> = [301, 302, 303, 307, 308].map(|status| Redirect { status, ..plain.clone() }).into();
    for scheme in [None, Some(Scheme::Http), Some(Scheme::Https)] {
        for port in [None, Some(80), Some(443), Some(65_535)] {
            let hostname = Some("other.example.com".into());
            redirects.push(Redirect { scheme, port, hostname, ..plain.clone() });
        }
    }
    redirects.extend(paths().into_iter().map(|path| Redirect { path: Some(path), ..plain.clone() }));
    redirects
}

fn rewrites() -> Vec<Rewrite> {
    let hostname = Some("rewritten.example.com".into());
    let paths = paths().into_iter().map(|path| Rewrite { hostname: None, path: Some(path) });
    paths.chain([Rewrite { hostname, path: None }]).collect()
}

fn paths() -> Vec<PathModifier> {
    ["/", "", "/new", "/new/", "/new\\1/$0%41"]
        .map(|text| PathModifier::Prefix(text.into()))
        .into_iter()
        .chain(["/", "/full", "/full\\0%"].map(|text| PathModifier::Full(text.into())))
        .chain([
            PathModifier::Regex { pattern: "^/a(/.*)?$".into(), substitution: "/b\\1\\\\?x=\\0".into() },
            PathModifier::Prefixes(
                [(Some("/a"), "/named/"), (None, "/")]
                    .map(|(prefix, replacement)| PrefixReplacement {
                        prefix: prefix.map(Into::into),
                        replacement: replacement.into(),
                    })
                    .into(),
            ),
        ])
        .collect()
}

fn cors() -> Vec<Cors> {
    let list = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>();
    let any = Cors {
        allow_origins: list(&["*"]),
        allow_methods: list(&["*"]),
        allow_headers: list(&["*"]),
        expose_headers: list(&["*"]),
        allow_credentials: true,
        max_age: None,
    };
    let exact = Cors {
        allow_origins: list(&["https://www.example.com", "http://*.example.com:8080", "https://a.b:443", "http://*"]),
        allow_methods: list(&["GET", "OPTIONS"]),
        allow_headers: list(&["x-one", "x-two"]),
        expose_headers: list(&["x-three"]),
        allow_credentials: false,
        max_age: Some(Duration::from_hours(24)),
    };
    let nothing = Cors {
        allow_origins: vec![],
        allow_methods: vec![],
        allow_headers: vec![],
        expose_headers: vec![],
        ..any.clone()
    };
    vec![any, exact, nothing]
}

fn times() -> Vec<Rule> {
    let ms = Duration::from_millis;
    let mut rules: Vec<_> = [
        (None, Some(ms(100))),
        (Some(ms(1)), None),
        (Some(ms(500)), Some(ms(100))),
        (Some(Duration::ZERO), Some(Duration::ZERO)),
        (Some(Duration::from_hours(2)), None),
        (Some(Duration::from_hours(99_999)), Some(Duration::from_hours(99_999))),
    ]
    .map(|(request, backend_request)| Rule {
        timeouts: Timeouts { request, backend_request, ..Timeouts::default() },
        ..forward()
    })
    .into();
    for backoff in [None, Some(Duration::ZERO), Some(Duration::from_micros(1)), Some(Duration::from_hours(99_999))] {
        for (attempts, codes) in [(None, vec![]), (Some(1), vec![500]), (Some(u32::MAX), vec![400, 503, 599])] {
            let timeouts =
                Timeouts { backend_request: attempts.map(|_| ms(10)), stream_idle: backoff, ..Timeouts::default() };
            let conditions =
                Retry::CONNECTION.into_iter().chain(["5xx", "retriable-status-codes"]).map(Arc::from).collect();
            let retry = Some(Retry { conditions, codes, attempts, backoff });
            rules.push(Rule { retry, timeouts, ..forward() });
        }
    }
    rules
}

fn sessions() -> Vec<SessionCarrier> {
    let cookie = |ttl| SessionCarrier::Cookie { name: Some("session".into()), path: "/".into(), ttl };
    vec![
        cookie(None),
        cookie(Some(Duration::ZERO)),
        cookie(Some(Duration::from_hours(24))),
        SessionCarrier::Header { name: "x-session".into() },
    ]
}

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

/// Listeners of every kind; each TLS chain reads the secrets of these names.
pub fn listeners(secrets: &[Arc<str>]) -> Vec<Listener> {
    let chain = |name: &str, hostname: &str, tls: bool| FilterChain {
        route_config: name.into(),
        hostname: Hostname::parse(hostname),
        tls: tls.then(|| TlsTermination { secrets: secrets.into() }),
    };
    let listener = |port: u16, addresses: &[&str], chains| Listener {
        name: format!("listener/{port}").into(),
        addresses: addresses.iter().map(|address| Arc::from(*address)).collect(),
        bind_port: 10_000 + port,
        gateway: NsName::new("infra", "edge"),
        pseudonym: "portcullis-0".into(),
        chains,
        closed: if port == 443 {
            vec![Hostname::parse("b.example.com"), Hostname::parse("*.b.example.com")]
        } else {
            vec![]
        },
        config: ListenerConfig::default(),
    };
    vec![
        listener(80, &["127.0.0.1"], vec![chain("http/80", "", false)]),
        listener(
            443,
            &["0.0.0.0", "::"],
            vec![
                chain("https/443/any", "", true),
                chain("https/443/exact", "a.example.com", true),
                chain("https/443/wild", "*.example.com", true),
            ],
        ),
        listener(444, &["::1", "127.0.0.1", "127.0.0.2"], vec![chain("https/444/one", "*.a.example.com", true)]),
        Listener { config: said(), ..listener(81, &["127.0.0.1"], vec![chain("http/81", "", false)]) },
        Listener { config: said_of_proxies(), ..listener(445, &["::1"], vec![chain("https/445/one", "", true)]) },
    ]
}

/// What policies can say of a listener: all of it.
fn said() -> ListenerConfig {
    ListenerConfig {
        buffer_bytes: Some(1024),
        keepalive: Some(Keepalive { probes: Some(3), time: Some(30), interval: Some(5) }),
        handshake_timeout: Some(Duration::from_secs(5)),
        proxy_protocol: Some(ProxyProtocolFrom::Some),
        http: HttpConfig {
            client: Some(Client {
                by_connection: Some(false),
                trusted_ranges: vec![
                    (IpAddr::from([10, 0, 0, 0]), 8),
                    (IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]), 32),
                ],
                skip_append: Some(true),
                trusted_hops: None,
            }),
            idle_timeout: Some(Duration::from_mins(1)),
            stream_idle_timeout: Some(Duration::ZERO),
            max_headers: Some(10),
            max_headers_kib: Some(8),
            max_requests: Some(1000),
            http2: Some(Http2 { max_streams: Some(10), stream_window: Some(65_535), connection_window: Some(65_536) }),
            preserve_case: Some(true),
            proxy_100: Some(true),
            server: Some(ServerHeader::AppendIfAbsent),
            server_name: Some("edge".into()),
            strip_port: Some(StripPort::Any),
            upgrades: Some(vec!["websocket".into(), "spdy/3.1".into()].into()),
            access_logs: Some(access_logs()),
            tracing: Some(Traces::To(telemetry::tracing().into())),
        },
    }
}

/// Each operator, and each filter.
fn access_logs() -> Arc<[AccessLog]> {
    let operators = format::PLAIN.iter().chain(format::LOGGED).map(|operator| format!("%{operator}%"));
    let every = operators.chain(["%REQ(:path)%", "%RESP(a?b):3%", "%TRAILER(c)%"].map(Into::into));
    let text = every.collect::<Vec<_>>().join(" ");
    let filters = vec![
        LogFilter::Status(Compare::AtLeast, 500),
        LogFilter::Duration(Compare::AtMost, u32::MAX),
        LogFilter::GrpcStatus { statuses: (0..17).collect(), exclude: true },
        LogFilter::Header("x-a".into(), "b".into()),
        LogFilter::Flags(FLAGS.map(Into::into).into()),
        LogFilter::NotHealthCheck,
        LogFilter::Traceable,
        LogFilter::Share { key: "a.b".into(), numerator: 5, denominator: 10_000, independent: true },
    ];
    let json = r#"{"a": {"b": ["%DURATION%", 3, true]}}"#;
    [
        AccessLog { to: LogTo::Stream(LogStream::Stdout, LogFormat::Text(text.into())), filter: None },
        AccessLog {
            to: LogTo::Stream(LogStream::Stderr, LogFormat::Json(json.into())),
            filter: Some(LogFilter::Any(filters.clone().into())),
        },
        AccessLog {
            to: LogTo::Stream(LogStream::Stderr, LogFormat::Text("%PROTOCOL%".into())),
            filter: Some(LogFilter::All(filters.into())),
        },
        AccessLog {
            to: LogTo::Stream(LogStream::Stdout, LogFormat::Text("-".into())),
            filter: Some(LogFilter::Status(Compare::Equal, 200)),
        },
        AccessLog { to: LogTo::Server(telemetry::entries().into()), filter: None },
        AccessLog { to: LogTo::Server(telemetry::records().into()), filter: Some(LogFilter::NotHealthCheck) },
    ]
    .into()
}

/// The same of what stands in place of some of it.
fn said_of_proxies() -> ListenerConfig {
    ListenerConfig {
        proxy_protocol: Some(ProxyProtocolFrom::All),
        http: HttpConfig {
            client: Some(Client { trusted_hops: Some(2), by_connection: Some(false), ..Client::default() }),
            server_name: Some("edge".into()),
            strip_port: Some(StripPort::Matching),
            upgrades: Some(Arc::default()),
            ..HttpConfig::default()
        },
        ..ListenerConfig::default()
    }
}
