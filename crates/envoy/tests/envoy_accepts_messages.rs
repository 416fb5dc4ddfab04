//! A real Envoy takes everything that the builders make of a wide table of values.
//!
//! References that would be followed over ADS are turned into static ones, since Envoy only looks at what it has.

use std::{path::PathBuf, process::Command, sync::Arc, time::Duration};

use envoy::{
    ResourceKind,
    bootstrap::{AdminAddress, XdsAddress, bootstrap, bootstrap_json},
    bytes, cluster,
    extensions::{self, TokenJudges},
    json as envoy_json, listener,
    route::{GuardedMatch, RouteAt, route},
    secret,
    testing::{inline_extensions, samples},
};
use envoy_types::pb::envoy::{
    config::core::v3::{DataSource, data_source::Specifier},
    extensions::filters::http::jwt_authn::v3::{
        JwtProvider, JwtRequirement, jwt_provider::JwksSourceSpecifier, jwt_requirement::RequiresType,
    },
};
use ir::{
    NsName,
    listener::TlsSecret,
    rule::{ExtensionEntry, LocalRate},
    settings::Edge,
};
use serde_json::{Value, json};

fn envoy() -> PathBuf {
    let path = std::env::var_os("PORTCULLIS_ENVOY").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/envoy/bin/envoy")),
        PathBuf::from,
    );
    assert!(path.is_file(), "no Envoy at {}: set PORTCULLIS_ENVOY, or let `make test` install it", path.display());
    path
}

/// What Envoy says against a bootstrap, if anything.
fn refused(bootstrap: &Value) -> Option<String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("bootstrap.json");
    std::fs::write(&path, serde_json::to_vec(bootstrap).expect("JSON")).expect("a file");
    let output = Command::new(envoy())
        .args(["--mode", "validate", "--log-level", "error", "--disable-hot-restart", "--config-path"])
        .arg(&path)
        .output()
        .expect("Envoy runs");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn base(edge: &Edge) -> Value {
    let xds = XdsAddress::Tcp { host: "127.0.0.1".into(), port: 18_000 };
    let admin = AdminAddress::Tcp { address: std::net::Ipv4Addr::LOCALHOST.into(), port: 0 };
    let message = bootstrap(&NsName::new("infra", "edge"), "test", &xds, &admin, edge);
    bootstrap_json(&message).expect("JSON")
}

fn resource(kind: ResourceKind, body: &[u8]) -> Value {
    envoy_json::value(kind.message_name(), body).expect("JSON")
}

/// A listener with its routes and extensions inside, and its secrets static.
fn with_routes(mut listener: Value, routes: &Value) -> Value {
    for chain in listener["filterChains"].as_array_mut().expect("chains") {
        let Some(manager) = chain.pointer_mut("/filters/0/typedConfig") else { continue };
        if manager.as_object_mut().expect("a connection manager").remove("rds").is_some() {
            manager["routeConfig"] = routes.clone();
            inline_extensions(manager, sample_extension);
        }
        let context = &mut chain["transportSocket"]["typedConfig"]["commonTlsContext"];
        for secret in context["tlsCertificateSdsSecretConfigs"].as_array_mut().into_iter().flatten() {
            secret.as_object_mut().expect("a secret").remove("sdsConfig").expect("secrets come over SDS");
        }
        with_static_authorities(context);
        if chain["transportSocket"]["name"].is_null() {
            chain.as_object_mut().expect("a chain").remove("transportSocket");
        }
    }
    listener
}

/// An extension with an entry, if any is of it.
fn sample_extension(name: &str) -> Value {
    let rate = LocalRate { most: 3, more: 1, interval: Duration::from_millis(50) };
    let issuer = NsName::new("apps", "issuer");
    let tokens = [ExtensionEntry::Tokens, ExtensionEntry::LoginTokens].map(|of| of(issuer.clone()));
    let entries = tokens.into_iter().chain([ExtensionEntry::LocalRate(rate)]).collect::<Vec<_>>();
    let keys = DataSource {
        specifier: Some(Specifier::InlineString(
            r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#
                .into(),
        )),
        ..DataSource::default()
    };
    let provider =
        JwtProvider { jwks_source_specifier: Some(JwksSourceSpecifier::LocalJwks(keys)), ..JwtProvider::default() };
    let requirement = JwtRequirement { requires_type: Some(RequiresType::ProviderName("apps/issuer/p".into())) };
    let judges = TokenJudges::new(issuer.to_string(), vec![("apps/issuer/p".into(), provider)], requirement);
    let own = entries.iter().filter(|entry| extensions::holder(entry) == Some(name));
    resource(
        ResourceKind::ExtensionConfig,
        &extensions::extension(name, own, |_| Some(judges.clone()), 1).body.to_bytes(),
    )
}

/// A cluster with its endpoints inside, unless it looks for them itself.
fn with_endpoints(mut cluster: Value, endpoints: Value) -> Value {
    let fields = cluster.as_object_mut().expect("a cluster");
    if fields.contains_key("clusterType") {
        return cluster;
    }
    fields.remove("edsClusterConfig").expect("endpoints come over EDS");
    fields.insert("type".into(), json!("STATIC"));
    fields.insert("loadAssignment".into(), endpoints);
    cluster
}

fn sample_routes() -> Value {
    let at = RouteAt { scheme: ir::filter::Scheme::Https, port: 8443 };
    let mut rows = Vec::new();
    for (index, rule) in samples::rules().iter().enumerate() {
        let written = samples::matches().into_iter().map(GuardedMatch::new);
        let written = written.map(|matching| route(&samples::source(index), &matching, rule, at));
        rows.extend(written.map(|row| row.expect("readable")));
    }
    let hashes: Vec<_> = rows.iter().map(|row| row.hash).collect();
    let pieces = || [(bytes::routes(rows.iter(), &bytes::Alike::default()), &hashes[..])];
    let hosts = [["*"], ["*.example.com"], ["a.example.com"]].map(|domains| {
        bytes::virtual_host(domains[0], &domains.map(str::to_owned), &[], &bytes::Alike::default(), pieces())
    });
    let hashes = hosts.each_ref().map(|host| *host.hash());
    let config = bytes::route_configuration("https/443/any", &[], [bytes::hosts(hosts.iter())], &hashes);
    let mut routes = resource(ResourceKind::RouteConfiguration, &config.body.to_bytes());
    // The default over RDS; a static one would have to know its clusters.
    routes["validateClusters"] = json!(false);
    routes
}

fn sample_clusters() -> Vec<Value> {
    let mut clusters = Vec::new();
    for (index, sample) in samples::clusters().into_iter().enumerate() {
        for (variant, assignment) in samples::assignments(&sample.name).iter().enumerate() {
            let mut message = with_endpoints(
                resource(ResourceKind::Cluster, &cluster::cluster(&sample).body.to_bytes()),
                resource(ResourceKind::Endpoints, &cluster::endpoints(assignment).body.to_bytes()),
            );
            if variant > 0 {
                message["name"] = json!(format!("{index}/{variant}"));
            }
            with_static_authorities(&mut message);
            clusters.push(message);
        }
    }
    for sample in samples::stream_clusters() {
        let mut assignments = samples::assignments(&sample.name);
        let mut message = with_endpoints(
            resource(ResourceKind::Cluster, &cluster::stream(&sample).body.to_bytes()),
            resource(
                ResourceKind::Endpoints,
                &cluster::endpoints(&assignments.pop().expect("samples")).body.to_bytes(),
            ),
        );
        with_static_authorities(&mut message);
        clusters.push(message);
    }
    clusters
}

/// Has the authorities of a cluster or listener be static, too: Envoy 1.40 ends where one of its bootstrap asks for them over ADS.
fn with_static_authorities(message: &mut Value) {
    match message {
        Value::Object(fields) => {
            if let Some(Value::Object(secret)) = fields.get_mut("validationContextSdsSecretConfig") {
                secret.remove("sdsConfig");
            }
            fields.values_mut().for_each(with_static_authorities);
        }
        Value::Array(items) => items.iter_mut().for_each(with_static_authorities),
        _ => {}
    }
}

fn sample_secrets() -> Vec<(Arc<str>, Value)> {
    let algorithms = [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384];
    let secrets = algorithms.into_iter().enumerate().map(|(index, algorithm)| {
        let key = rcgen::KeyPair::generate_for(algorithm).expect("a key");
        let names = vec!["*.example.com".to_owned(), "a.example.com".to_owned()];
        let certificate = rcgen::CertificateParams::new(names).expect("names").self_signed(&key).expect("signed");
        let sample = TlsSecret {
            name: TlsSecret::resource_name(&NsName::new("apps", format!("cert{index}"))).into(),
            chain: certificate.pem().into_bytes().into(),
            key: key.serialize_pem().into_bytes().into(),
        };
        (sample.name.clone(), resource(ResourceKind::Secret, &secret::secret(&sample).body.to_bytes()))
    });
    secrets.collect()
}

fn udp_listeners(edge: &Edge) -> impl Iterator<Item = Value> {
    let samples = samples::udp_listeners().into_iter();
    samples.map(|sample| resource(ResourceKind::Listener, &listener::udp(&sample, edge).body.to_bytes()))
}

#[test]
fn envoy_takes_every_route_cluster_listener_and_secret() {
    let edge = Edge { trusted_hops: 1, max_heap_bytes: 1 << 30, ..Edge::default() };
    let secrets = sample_secrets();
    let names: Vec<_> = secrets.iter().map(|(name, _)| name.clone()).collect();
    let routes = sample_routes();
    let listeners: Vec<_> = samples::listeners(&names)
        .iter()
        .map(|sample| {
            with_routes(resource(ResourceKind::Listener, &listener::listener(sample, &edge).body.to_bytes()), &routes)
        })
        .chain(udp_listeners(&edge))
        .collect();
    let mut whole = base(&edge);
    let resources = &mut whole["staticResources"];
    resources["clusters"].as_array_mut().expect("clusters").extend(sample_clusters());
    resources["listeners"] = json!(listeners);
    let key = rcgen::KeyPair::generate().expect("a key");
    let authority = rcgen::CertificateParams::new(Vec::new()).expect("names").self_signed(&key).expect("signed");
    let authorities = json!({
        "name": "authorities/apps/ConfigMap/ca",
        "validationContext": {"trustedCa": {"inlineString": authority.pem()}},
    });
    resources["secrets"] = secrets.into_iter().map(|(_, secret)| secret).chain([authorities]).collect();
    assert_eq!(refused(&whole), None);
}

#[test]
fn envoy_takes_listeners_and_clusters_that_read_everything_over_ads() {
    let edge = Edge {
        access_log: false,
        max_listener_connections: 5,
        proxy_protocol_sources: [([127, 0, 0, 0].into(), 8)].into(),
        client_certificate_details: ir::downstream::CertificateDetail::ALL.into(),
        ..Edge::default()
    };
    let mut whole = base(&edge);
    let resources = &mut whole["staticResources"];
    let clusters = samples::clusters();
    let clusters =
        clusters.iter().map(|sample| resource(ResourceKind::Cluster, &cluster::cluster(sample).body.to_bytes()));
    let streams = samples::stream_clusters();
    let streams =
        streams.iter().map(|sample| resource(ResourceKind::Cluster, &cluster::stream(sample).body.to_bytes()));
    resources["clusters"].as_array_mut().expect("clusters").extend(clusters.chain(streams));
    let listeners = samples::listeners(&["secret/apps/cert".into()]);
    let listeners = listeners.iter();
    resources["listeners"] = listeners
        .map(|sample| resource(ResourceKind::Listener, &listener::listener(sample, &edge).body.to_bytes()))
        .chain(udp_listeners(&edge))
        .collect();
    assert_eq!(refused(&whole), None);
}

#[test]
fn the_check_notices_what_envoy_refuses() {
    let mut whole = base(&Edge::default());
    let mut routes = sample_routes();
    routes["virtualHosts"][1]["domains"] = json!(["*"]);
    let listeners = samples::listeners(&[]);
    let plain = resource(ResourceKind::Listener, &listener::listener(&listeners[0], &Edge::default()).body.to_bytes());
    whole["staticResources"]["listeners"] = json!([with_routes(plain, &routes)]);
    let said = refused(&whole).expect("one domain twice is refused");
    assert!(said.contains("Only a single wildcard domain"), "{said}");
}
