//! Listeners of every kind, and what policies say of them.

use std::{net::IpAddr, sync::Arc, time::Duration};

use ir::{
    Hostname, NsName,
    downstream::{
        AccessLog, CertificateDetail, Client, Compare, FLAGS, Http2, HttpConfig, ListenerConfig, LogFilter, LogFormat,
        LogStream, LogTo, ProxyProtocolFrom, ServerHeader, StripPort, ToldOfClients, Traces,
    },
    listener::{FilterChain, LeadsTo, Listener, ListenerHead, TlsTermination, UdpListener},
    upstream::Keepalive,
};
use validate::format;

use super::telemetry;

/// Listeners of every kind; each TLS chain reads the secrets of these names.
pub fn listeners(secrets: &[Arc<str>]) -> Vec<Listener> {
    let chain = |name: &str, hostname: &str, tls: bool| FilterChain {
        name: name.into(),
        leads_to: LeadsTo::RouteConfiguration,
        hostname: Hostname::parse(hostname),
        tls: tls.then(|| TlsTermination {
            secrets: secrets.into(),
            clients: clients(name),
            asks_unjudged: name == "https/443/wild",
        }),
    };
    let listener = |port: u16, addresses: &[&str], chains| Listener {
        head: ListenerHead {
            name: format!("listener/{port}").into(),
            addresses: addresses.iter().map(|address| Arc::from(*address)).collect(),
            bind_port: 10_000 + port,
            gateway: NsName::new("infra", "edge"),
            over_tls: matches!(port, 443..=446),
            config: match port {
                81 => said(),
                445 => said_of_proxies(),
                _ => ListenerConfig::default(),
            },
        },
        chains,
        closed: if port == 443 {
            vec![Hostname::parse("b.example.com"), Hostname::parse("*.b.example.com")]
        } else {
            vec![]
        },
    };
    let stream =
        |name: &str, hostname: &str, tls| FilterChain { leads_to: LeadsTo::Cluster, ..chain(name, hostname, tls) };
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
        listener(81, &["127.0.0.1"], vec![chain("http/81", "", false)]),
        listener(445, &["::1"], vec![chain("https/445/one", "", true)]),
        listener(5432, &["127.0.0.1"], vec![stream("tcp/db", "", false)]),
        Listener {
            closed: vec![Hostname::Any, Hostname::parse("c.example.com")],
            ..listener(
                446,
                &["127.0.0.1"],
                vec![
                    chain("https/446/exact", "a.example.com", true),
                    stream("tls/through/b.example.com", "b.example.com", false),
                    stream("tls/ends/*.example.com", "*.example.com", true),
                ],
            )
        },
    ]
}

/// Listeners of datagrams.
pub fn udp_listeners() -> Vec<UdpListener> {
    let listener = |port: u16, addresses: &[&str]| UdpListener {
        name: format!("listener/{port}/udp").into(),
        addresses: addresses.iter().map(|address| Arc::from(*address)).collect(),
        bind_port: 10_000 + port,
        cluster: "udp/dns".into(),
    };
    vec![listener(53, &["0.0.0.0"]), listener(54, &["::1", "127.0.0.1"])]
}

/// Who vouches for clients. Authorities come apart, under a name that nobody sends here.
fn clients(chain: &str) -> Option<Arc<str>> {
    (chain == "https/443/exact").then(|| "authorities/apps/ConfigMap/ca".into())
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
            told_of_clients: Some(ToldOfClients::SaidAndShown(CertificateDetail::ALL.into())),
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
            told_of_clients: Some(ToldOfClients::Said),
            strip_port: Some(StripPort::Matching),
            upgrades: Some(Arc::default()),
            ..HttpConfig::default()
        },
        ..ListenerConfig::default()
    }
}
