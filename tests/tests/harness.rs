//! The test support itself, against an Envoy with a static configuration: what the other tests conclude from it holds.

use anyhow::{Context, Result, ensure};
use portcullis_tests::certificates::{Certificate, Certificates, KeyKind};
use portcullis_tests::client::{self, Connection, Protocol, Request, Target, Tls};
use portcullis_tests::echo::{Echo, RESPOND};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::expect::{Case, Stage};
use portcullis_tests::{ports, topic};
use serde_json::{Value, json};

struct World {
    echo: Echo,
    envoy: Envoy,
    plain: Target,
    secure: Target,
    certificates: [Certificate; 2],
}

impl World {
    async fn start() -> Result<Self> {
        let echo = Echo::start("static", ([127, 0, 0, 1], 0).into()).await?;
        let (plain, secure) = (ports::free_port()?, ports::free_port()?);
        let names = ["example.org".to_owned()];
        let certificates = [Certificate::new(&names, KeyKind::Ecdsa)?, Certificate::new(&names, KeyKind::Rsa)?];
        let listeners = [listener(plain, None), listener(secure, Some(&certificates))];
        let cluster = json!({
            "name": "echo",
            "type": "STATIC",
            "loadAssignment": {"clusterName": "echo", "endpoints": [{"lbEndpoints": [{"endpoint":
                {"address": address(echo.address().port())}}]}]},
        });
        let bootstrap = json!({"staticResources": {"listeners": listeners, "clusters": [cluster]}});
        let target = |port, tls| Target { address: ([127, 0, 0, 1], port).into(), protocol: Protocol::Http1, tls };
        let tls = Tls::to("example.org");
        Ok(Self {
            envoy: Envoy::start(&bootstrap).await?,
            echo,
            plain: target(plain, None),
            secure: target(secure, Some(tls)),
            certificates,
        })
    }
}

fn address(port: u16) -> Value {
    json!({"socketAddress": {"address": "127.0.0.1", "portValue": port}})
}

fn listener(port: u16, certificates: Option<&[Certificate; 2]>) -> Value {
    let route = json!({
        "virtualHosts": [{"name": "all", "domains": ["*"], "routes": [
            {"match": {"prefix": "/"}, "route": {"cluster": "echo"}},
        ]}],
    });
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "statPrefix": "http",
        "upgradeConfigs": [{"upgradeType": "websocket"}],
        "routeConfig": route,
        "httpFilters": [{"name": "router", "typedConfig":
            {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
    });
    let mut chain = json!({"filters": [{"name": "http", "typedConfig": manager}]});
    if let Some(certificates) = certificates {
        let certificates = certificates.each_ref().map(|certificate| {
            json!({
                "certificateChain": {"inlineString": certificate.certificate},
                "privateKey": {"inlineString": certificate.key},
            })
        });
        chain["transportSocket"] = json!({"name": "tls", "typedConfig": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "commonTlsContext": {"alpnProtocols": ["h2", "http/1.1"], "tlsCertificates": certificates},
        }});
    }
    json!({"name": format!("port-{port}"), "address": address(port), "filterChains": [chain]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_arrives_as_it_was_written_and_its_answer_is_as_asked_for() -> Result<()> {
    let mut world = World::start().await?;
    let respond = r#"{"status": 418, "headers": [["a", "1"], ["a", "2"]]}"#;
    let mut request = Request::get("some.host:1234", "//a%2Fb/../c?q=1&q=%20")
        .header(RESPOND, respond)
        .header("x-two", "1")
        .header("X-Two", "2");
    request.method = "PATCH".to_owned();
    request.body = "hello".to_owned();

    for protocol in [Protocol::Http1, Protocol::H2] {
        world.plain.protocol = protocol;
        let response = client::send(&world.plain, &request).await?;
        assert_eq!(response.status, 418);
        assert_eq!(response.header("A").as_deref(), Some("1,2"));
        let echoed = response.echoed.context("the backend did not answer")?;
        assert_eq!(echoed.backend, "static");
        assert_eq!(echoed.method, "PATCH");
        assert_eq!(echoed.path, "//a%2Fb/../c?q=1&q=%20");
        assert_eq!(echoed.host, "some.host:1234");
        assert_eq!(echoed.header("x-two").as_deref(), Some("1,2"));
        assert_eq!(echoed.body, "hello");
    }
    assert_eq!(world.echo.count(|seen| seen.path.starts_with("//a")), 2);
    world.envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_speaks_what_it_asked_for_and_tells_which_certificate_was_shown() -> Result<()> {
    let mut world = World::start().await?;
    let cases = [(KeyKind::Ecdsa, 0), (KeyKind::Rsa, 1)];
    for (key, expected) in cases {
        for (protocol, name) in [(Protocol::Http1, "HTTP/1.1"), (Protocol::H2, "HTTP/2.0")] {
            world.secure.protocol = protocol;
            world.secure.tls =
                Some(Tls { server_name: Some("example.org".to_owned()), key: Some(key), ..Tls::default() });
            let mut connection = Connection::open(&world.secure).await?;
            let shown = connection.certificate.clone().context("no certificate")?;
            assert_eq!(shown, world.certificates[expected].der);
            let request = Request::get("example.org", "/");
            let response = connection.send(&request).await?;
            assert_eq!(response.protocol, name);
            let echoed = response.echoed.context("the backend did not answer")?;
            assert_eq!(echoed.header("x-forwarded-proto").as_deref(), Some("https"));
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_echoes_text_and_bytes() -> Result<()> {
    let world = World::start().await?;
    let request = Request::get("some.host", "/ws");
    client::websocket_echo(&world.plain, &request).await?;
    assert_eq!(world.echo.count(|seen| seen.path == "/ws"), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_fails_as_often_as_it_was_asked_to_for_one_id() -> Result<()> {
    let world = World::start().await?;
    let request = |id| Request::get("some.host", "/?status=503&failures=2").header("x-test-id", id);
    let mut statuses = Vec::new();
    for id in ["one", "one", "two", "one"] {
        statuses.push(client::send(&world.plain, &request(id)).await?.status);
    }
    assert_eq!(statuses, [503, 503, 503, 200]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_refuses_its_bootstrap_is_reported_in_its_own_words() -> Result<()> {
    let bootstrap = json!({"staticResources": {"listeners": [{"name": "no address"}]}});
    let error = Envoy::start(&bootstrap).await.err();
    let error = error.context("Envoy took a listener without an address")?;
    ensure!(format!("{error:#}").contains("no address"), "unclear: {error:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_does_not_hold_is_told() -> Result<()> {
    let World { echo, envoy: _envoy, plain, secure, .. } = World::start().await?;
    let port = |number, target: &Target| (("static".to_owned(), number), target.address.port());
    let stage = Stage {
        ports: [port(80, &plain), port(443, &secure)].into(),
        backends: vec![echo],
        certificates: Certificates::default(),
        block: ports::LoopbackBlock::reserve()?,
    };
    let holds = [
        "{request: {port: 80, path: /a, respond: {headers: [[x, z]]}}, expect: {backend: static, protocol: HTTP/1.1, \
          response: {headers: {x: z}}}}",
        "{request: {port: 80, respond: {status: 302, headers: [[location, 'http://example.com/']]}}, expect: {status: \
          302, redirect: {}}}",
        "{request: {port: 80, times: 10}, expect: {shares: {static: 1}}}",
        "{request: {port: 443, tls: {sni: example.org}, protocol: h2}, expect: {backend: static}}",
        "{request: {port: 80, tls: {sni: example.org}}, expect: {refused: true}}",
        "{request: {port: 80, websocket: true}, expect: {backend: static}}",
    ];
    for row in holds {
        check(&stage, row).await?;
    }
    let fails = [
        "{request: {port: 80}, expect: {backend: other}}",
        "{request: {port: 80}, expect: {status: 404}}",
        "{request: {port: 80, respond: {status: 404}}}",
        "{request: {port: 80}, expect: {noBackend: true}}",
        "{request: {port: 80}, expect: {path: /other}}",
        "{request: {port: 80}, expect: {host: other}}",
        "{request: {port: 80}, expect: {protocol: HTTP/2.0}}",
        "{request: {port: 80, headers: {a: b}}, expect: {headers: {a: c}}}",
        "{request: {port: 80}, expect: {headers: {a: b}}}",
        "{request: {port: 80, headers: {a: b}}, expect: {absentHeaders: [A]}}",
        "{request: {port: 80}, expect: {response: {headers: {content-type: text/html}}}}",
        "{request: {port: 80}, expect: {response: {either: {content-type: [text/html]}}}}",
        "{request: {port: 80}, expect: {response: {absentHeaders: [Content-Type]}}}",
        "{request: {port: 80}, expect: {response: {body: something else}}}",
        "{request: {port: 80}, expect: {redirect: {}}}",
        "{request: {port: 80, respond: {status: 302, headers: [[location, 'http://example.com:81/']]}}, expect: \
          {status: 302, redirect: {}}}",
        "{request: {port: 80, respond: {status: 302, headers: [[location, 'https://example.com/']]}}, expect: \
          {status: 302, redirect: {}}}",
        "{request: {port: 80}, expect: {mirrored: [other]}}",
        "{request: {port: 80, times: 50}, expect: {shares: {static: 0.5, other: 0.5}}}",
        "{request: {port: 80, times: 50}, expect: {mirroredShares: {other: 0.5}}}",
        "{request: {port: 80}, expect: {session: {cookie: a}}}",
        "{request: {port: 80, respond: {headers: [[a, b]]}}, expect: {session: {header: a}}}",
        "{request: {port: 80}, expect: {refused: true}}",
        "{request: {port: 443, tls: {sni: example.org}}, expect: {certificate: infra/other}}",
        "{request: {port: 443, websocket: true}}",
        "{request: {}, expect: {backend: static}}",
    ];
    for row in fails {
        ensure!(check(&stage, row).await.is_err(), "held: {row}");
    }
    Ok(())
}

async fn check(stage: &Stage, row: &str) -> Result<()> {
    let case: Case = serde_saphyr::from_str(row)?;
    case.check(stage).await
}

#[test]
fn every_topic_reads_and_expects_only_backends_that_exist() -> Result<()> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("traffic");
    let mut topics = 0;
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.is_dir() {
            topic::check(&folder.join("base.yaml"), &path).with_context(|| path.display().to_string())?;
            topics += 1;
        }
    }
    ensure!(topics > 40, "only {topics} topics");
    Ok(())
}
