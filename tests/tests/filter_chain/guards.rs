//! Policies that keep requests out: whom they hold, and what they go by.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Protocol, Request, Target, send};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};

use tokio::sync::Mutex;

use super::{HOST, route};

/// A policy of the Gateway.
pub(super) fn policy(spec: &str) -> String {
    format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{namespace: infra, name: guard}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: Gateway, name: gateway}}]
  {spec}
"
    )
}

/// A policy of the route, and a route at another path that none is on.
pub(super) fn own_policy(spec: &str) -> String {
    let of_route = policy(spec).replace("kind: Gateway, name: gateway", "kind: HTTPRoute, name: plain");
    format!(
        "{of_route}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: infra, name: free}}
spec:
  parentRefs: [{{name: gateway}}]
  hostnames: [{HOST}]
  rules: [{{matches: [{{path: {{value: /free}}}}], backendRefs: [{{name: backend, port: 80}}]}}]
"
    )
}

/// Providers of whom none is there.
const NOBODY: &str = "
---
apiVersion: v1
kind: Service
metadata: {namespace: infra, name: nobody}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: judge}
spec: {extAuth: {grpcService: {backendRef: {name: nobody, port: 80}}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: judge-in-http}
spec: {extAuth: {httpService: {backendRef: {name: nobody, port: 80}}, statusOnError: 503}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: processor}
spec: {extProc: {failOpen: false, grpcService: {backendRef: {name: nobody, port: 80}}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: counter}
spec: {rateLimit: {domain: shop, failOpen: false, grpcService: {backendRef: {name: nobody, port: 80}}}}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {namespace: infra, name: issuer}
spec: {jwt: {providers: [{name: p, jwks: {remote: {url: 'http://issuer.example/', backendRef: {name: nobody, port: 80}}}}]}}
";

/// A route of a Gateway, and a proxy of it.
pub(super) struct World {
    pub(super) portcullis: Portcullis,
    pub(super) envoy: Envoy,
    pub(super) target: Target,
    _echo: Echo,
}

impl World {
    pub(super) async fn start(policy: &str, arguments: &[&str]) -> Result<Self> {
        let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
        let port = ports::free_port()?;
        let files = [
            ("a-gateway.yaml", objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")])),
            ("b-backend.yaml", objects::service("backend", &echo)),
            ("c-providers.yaml", NOBODY.to_owned()),
            ("policy.yaml", policy.to_owned()),
            ("route.yaml", route("")),
        ];
        let files = files.map(|(name, content)| (name.to_owned(), content));
        let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let portcullis = Portcullis::start_with(&files, &arguments).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy, target: Target::local(port), _echo: echo })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_open_before_a_policy_came_is_held_to_it() -> Result<()> {
    let mut world = World::start("", &[]).await?;
    // As a page elsewhere has a browser send it.
    let post =
        Request { method: "POST".to_owned(), ..Request::get(HOST, "/").header("origin", "http://elsewhere.example") };
    let of = |protocol| Target { protocol, ..world.target.clone() };
    let mut connections = Vec::new();
    for target in [of(Protocol::Http1), of(Protocol::H2)] {
        eventually(TIMEOUT, async || {
            ensure!(send(&target, &post).await?.status == 200, "not yet");
            Ok(())
        })
        .await?;
        let mut connection = Connection::open(&target).await?;
        ensure!(connection.send(&post).await?.status == 200, "not served");
        connections.push(Mutex::new(connection));
    }
    let policies = [
        ("acl: {defaultAction: deny}", 403),
        ("acl: {defaultAction: allow}", 200),
        ("rbac: {policy: {matchExpressions: ['false']}}", 403),
        ("rbac: {policy: {matchExpressions: ['true']}}", 200),
        ("csrf: {percentageEnabled: 100}", 403),
        ("csrf: {percentageEnabled: 0}", 200),
        ("rateLimit: {local: {tokenBucket: {maxTokens: 1, fillInterval: 1h}}}", 429),
        ("rateLimit: {local: {}}", 200),
        ("extAuth: {extensionRef: {name: judge}}", 403),
        ("extAuth: {disable: {}}", 200),
        ("extAuth: {extensionRef: {name: judge-in-http}}", 503),
        ("extAuth: {disable: {}}", 200),
        ("extProc: {extensionRef: {name: processor}}", 500),
        ("extProc: {disable: {}}", 200),
        (
            "rateLimit: {global: {extensionRef: {name: counter}, descriptors: [{entries: [{type: RemoteAddress}]}]}}",
            500,
        ),
        ("rateLimit: {local: {}}", 200),
        ("jwtAuth: {extensionRef: {name: issuer}}", 401),
        ("jwtAuth: {disable: {}}", 200),
        // Who is not there is no provider of anybody.
        ("extAuth: {extensionRef: {name: missing}}", 500),
        ("extAuth: {disable: {}}", 200),
    ];
    for (spec, status) in policies {
        world.portcullis.write("policy.yaml", &policy(spec))?;
        for connection in &connections {
            eventually(TIMEOUT, async || {
                let response = connection.lock().await.send(&post).await?;
                ensure!(response.status == status, "{spec}: {response:?}");
                Ok(())
            })
            .await?;
        }
    }
    ensure!(connections.into_iter().all(|connection| connection.into_inner().is_open()), "a connection was closed");
    world.envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_open_before_follows_what_is_said_once_for_routes_and_others_are_let_alone() -> Result<()>
{
    let mut world = World::start(&own_policy("buffer: {disable: {}}"), &["--policies-say-once-from", "1"]).await?;
    let connection = eventually(TIMEOUT, async || {
        ensure!(send(&world.target, &Request::get(HOST, "/free")).await?.status == 200, "not yet");
        Connection::open(&world.target).await
    });
    let connection = Mutex::new(connection.await?);
    let global = |descriptors: &str| {
        format!(
            "rateLimit: {{global: {{extensionRef: {{name: counter}}, descriptors: [{{entries: [{descriptors}]}}]}}}}"
        )
    };
    let policies = [
        ("extAuth: {extensionRef: {name: judge}}".to_owned(), 403),
        ("extAuth: {extensionRef: {name: judge-in-http}, contextExtensions: {a: b}}".to_owned(), 503),
        ("extProc: {extensionRef: {name: processor}}".to_owned(), 500),
        (global("{type: RemoteAddress}"), 500),
        ("extAuth: {disable: {}}".to_owned(), 200),
        ("extAuth: {extensionRef: {name: judge}}".to_owned(), 403),
        ("extAuth: {extensionRef: {name: missing}}".to_owned(), 500),
    ];
    for (spec, status) in policies {
        world.portcullis.write("policy.yaml", &own_policy(&spec))?;
        let is_said = eventually(TIMEOUT, async || {
            let response = connection.lock().await.send(&Request::get(HOST, "/")).await?;
            ensure!(response.status == status, "{spec}: {response:?}");
            let dump = world.envoy.config_dump().await?;
            let configs = dump["configs"].as_array().into_iter().flatten();
            let mut routes =
                configs.flat_map(|config| config["dynamic_route_configs"].as_array().into_iter().flatten());
            Ok(routes.any(|routes| routes["route_config"]["typed_per_filter_config"].is_object()))
        });
        ensure!(is_said.await? != (spec.contains("disable") || spec.contains("missing")), "{spec}");
        let free = connection.lock().await.send(&Request::get(HOST, "/free")).await?;
        ensure!(free.status == 200, "{spec}: {free:?}");
    }
    ensure!(connection.into_inner().is_open(), "the connection was closed");
    world.envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_trusted_hops_an_address_is_what_they_say_in_whatever_form() -> Result<()> {
    let rules =
        "[{name: ten, cidrs: [10.0.0.0/8, '2001:db8::/32'], action: deny}, {cidrs: [10.1.0.0/16], action: allow}]";
    let spec = format!("acl: {{defaultAction: allow, rules: {rules}, denyResponse: {{blockedByHeaderName: x-by}}}}");
    let mut world = World::start(&policy(&spec), &["--trusted-hops", "1"]).await?;
    let status = async |forwarded_for: &str| -> Result<u16> {
        let request = Request::get(HOST, "/").header("x-forwarded-for", forwarded_for);
        Ok(send(&world.target, &request).await?.status)
    };
    eventually(TIMEOUT, async || {
        ensure!(status("10.2.0.1").await? == 403, "not yet");
        Ok(())
    })
    .await?;
    for (forwarded_for, expected) in [
        ("10.1.0.1", 200),
        ("192.0.2.1", 200),
        ("::ffff:10.2.0.1", 403),
        ("::ffff:a02:1", 403),
        ("::ffff:10.1.0.1", 200),
        ("[::ffff:10.2.0.1]:80", 200),
        ("10.2.0.1:80", 200),
        ("2001:db8::1", 403),
        ("2001:db9::1", 200),
        ("10.2.0.1, 192.0.2.1", 200),
        ("192.0.2.1, 10.2.0.1", 403),
    ] {
        ensure!(status(forwarded_for).await? == expected, "{forwarded_for}");
    }
    world.portcullis.check().context("a fault")?;
    world.envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_trusted_hops_no_redirect_within_the_proxy_passes_for_the_hop() -> Result<()> {
    let redirecting =
        policy("internalRedirect: {}").replace("kind: Gateway, name: gateway", "kind: HTTPRoute, name: plain");
    let guarded = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: infra, name: guarded}
spec:
  parentRefs: [{name: gateway}]
  hostnames: [guarded.example]
  rules: [{backendRefs: [{name: backend, port: 80}]}]
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: guarded}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: guarded}]
  acl: {defaultAction: deny, rules: [{cidrs: [127.0.0.0/8], action: allow}]}
";
    let path = "/?status=302&header=location:http://guarded.example/";
    for (arguments, direct, redirected) in [(&["--trusted-hops", "1"][..], 403, 302), (&[], 200, 200)] {
        let mut world = World::start(&format!("{redirecting}{guarded}"), arguments).await?;
        let status = async |host: &str, path: &str| -> Result<u16> {
            let request = Request::get(host, path).header("x-forwarded-for", "198.51.100.7");
            Ok(send(&world.target, &request).await?.status)
        };
        eventually(TIMEOUT, async || {
            let seen = (status("guarded.example", "/").await?, status(HOST, path).await?);
            ensure!(seen == (direct, redirected), "{arguments:?}: {seen:?}");
            Ok(())
        })
        .await?;
        world.portcullis.check().context("a fault")?;
        world.envoy.check().await?;
    }
    Ok(())
}
