use ir::{NsName, settings::Edge};
use prost::Message;
use serde_json::{Value, json};

use super::{AdminAddress, Credentials, XdsAddress, bootstrap, bootstrap_json, secured_bootstrap};
use crate::testing::pgv;

fn built(xds: &XdsAddress, admin: &AdminAddress, edge: &Edge) -> Value {
    let message = bootstrap(&NsName::new("infra", "edge"), "pod-1", xds, admin, edge);
    let violations = pgv::violations("envoy.config.bootstrap.v3.Bootstrap", &message.encode_to_vec());
    assert_eq!(violations.expect("readable"), []);
    bootstrap_json(&message).expect("JSON")
}

fn tcp(host: &str) -> XdsAddress {
    XdsAddress::Tcp { host: host.into(), port: 18_000 }
}

fn loopback() -> AdminAddress {
    AdminAddress::Tcp { address: std::net::Ipv4Addr::LOCALHOST.into(), port: 19_000 }
}

#[test]
fn a_proxy_says_who_it_is_and_reads_everything_over_delta_ads() {
    let built = built(&tcp("127.0.0.1"), &loopback(), &Edge::default());
    assert_eq!(built["node"], json!({"id": "pod-1", "cluster": "infra/edge"}));
    let dynamic = &built["dynamicResources"];
    let ads = json!({"ads": {}, "resourceApiVersion": "V3"});
    assert_eq!((&dynamic["ldsConfig"], &dynamic["cdsConfig"]), (&ads, &ads));
    assert_eq!(
        dynamic["adsConfig"],
        json!({
            "apiType": "DELTA_GRPC",
            "transportApiVersion": "V3",
            "grpcServices": [{"envoyGrpc": {
                "clusterName": "xds",
                "retryPolicy": {"retryBackOff": {"baseInterval": "0.250s", "maxInterval": "1s"}},
            }}],
            "setNodeOnFirstMessageOnly": true,
        })
    );
    assert_eq!(built["admin"]["address"]["socketAddress"], json!({"address": "127.0.0.1", "portValue": 19_000}));
}

#[test]
fn the_controller_is_reached_by_address_name_or_socket() {
    let cluster = |xds| {
        let built = built(&xds, &AdminAddress::Unix("/run/admin.sock".into()), &Edge::default());
        let cluster = built["staticResources"]["clusters"][0].clone();
        let endpoint = &cluster["loadAssignment"]["endpoints"][0]["lbEndpoints"][0]["endpoint"]["address"];
        (cluster["type"].clone(), endpoint.clone())
    };
    let (discovery, address) = cluster(tcp("[::1]"));
    assert_eq!(discovery, "STATIC");
    assert_eq!(address["socketAddress"], json!({"address": "::1", "portValue": 18_000}));
    let (discovery, address) = cluster(tcp("portcullis.infra.svc"));
    assert_eq!(discovery, "STRICT_DNS");
    assert_eq!(address["socketAddress"]["address"], "portcullis.infra.svc");
    let (_, address) = cluster(XdsAddress::Unix("/run/xds.sock".into()));
    assert_eq!(address["pipe"]["path"], "/run/xds.sock");
}

#[test]
fn connections_are_bounded_and_the_heap_where_asked_for() {
    let manager = |edge: &Edge| built(&tcp("a"), &loopback(), edge)["overloadManager"].clone();
    let plain = manager(&Edge::default());
    assert_eq!(plain["resourceMonitors"][0]["typedConfig"]["maxActiveDownstreamConnections"], "50000");
    assert_eq!(plain["actions"], Value::Null);
    let bounded = manager(&Edge { max_heap_bytes: 1 << 30, ..Edge::default() });
    assert_eq!(bounded["resourceMonitors"][1]["typedConfig"]["maxHeapSizeBytes"], "1073741824");
    assert_eq!(bounded["actions"].as_array().map(Vec::len), Some(4));
}

#[test]
fn regular_expressions_may_be_as_large_as_validation_allows() {
    let runtime = built(&tcp("a"), &loopback(), &Edge::default())["layeredRuntime"].clone();
    assert_eq!(runtime["layers"][0]["staticLayer"]["re2.max_program_size.error_level"], 32_768.0);
}

#[test]
fn no_server_of_a_tenant_fills_a_proxy_with_its_answers() {
    let runtime = built(&tcp("a"), &loopback(), &Edge::default())["layeredRuntime"].clone();
    assert_eq!(runtime["layers"][0]["staticLayer"]["http.async_response_buffer_limit"], 262_144.0);
}

#[test]
fn cookies_of_logins_are_encrypted_so_that_nobody_decrypts_them_without_the_key() {
    let runtime = built(&tcp("a"), &loopback(), &Edge::default())["layeredRuntime"].clone();
    let said =
        |feature: &str| runtime["layers"][0]["staticLayer"][format!("envoy.reloadable_features.{feature}")].clone();
    assert_eq!(said("oauth2_use_gcm_encryption"), true);
    assert_eq!(said("oauth2_legacy_cbc_decrypt_compat"), false);
}

fn credentials() -> Credentials {
    Credentials {
        server_name: "portcullis.infra.svc".into(),
        authorities_file: "/etc/xds/authorities/ca.crt".into(),
        token_file: "/var/run/secrets/xds/token".into(),
        folder: "/etc/xds".into(),
    }
}

fn secured() -> Value {
    let observed = "0.0.0.0:19001".parse().expect("an address");
    let gateway = NsName::new("infra", "edge");
    let xds = tcp("portcullis.infra.svc");
    let message = secured_bootstrap(&gateway, "pod-1", &xds, &credentials(), &loopback(), observed, &Edge::default());
    let violations = pgv::violations("envoy.config.bootstrap.v3.Bootstrap", &message.encode_to_vec());
    assert_eq!(violations.expect("readable"), []);
    bootstrap_json(&message).expect("JSON")
}

#[test]
fn a_secured_proxy_trusts_one_name_and_shows_its_token_on_each_stream() {
    let built = secured();
    let cluster = &built["staticResources"]["clusters"][0];
    let tls = &cluster["transportSocket"]["typedConfig"];
    assert_eq!(tls["sni"], "portcullis.infra.svc");
    let authorities = &tls["commonTlsContext"]["validationContextSdsSecretConfig"];
    assert_eq!(authorities["sdsConfig"]["pathConfigSource"]["path"], "/etc/xds/xds-authorities.json");
    let options = &cluster["typedExtensionProtocolOptions"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"];
    let injector = &options["httpFilters"][0]["typedConfig"];
    // Without a token it fails here and not at the controller.
    assert_eq!(injector["allowRequestWithoutCredential"], Value::Null);
    let generic = &injector["credential"]["typedConfig"];
    assert_eq!(generic["headerValuePrefix"], "Bearer ");
    assert_eq!(generic["credential"]["sdsConfig"]["pathConfigSource"]["path"], "/etc/xds/xds-token.json");
}

#[test]
fn secrets_stay_in_files_that_the_bootstrap_only_names() {
    let [authorities, token] = credentials().files().expect("JSON");
    assert_eq!((authorities.name, token.name), ("xds-authorities.json", "xds-token.json"));
    let context = &authorities.content["resources"][0]["validationContext"];
    assert_eq!(context["trustedCa"], json!({"filename": "/etc/xds/authorities/ca.crt"}));
    assert_eq!(context["watchedDirectory"], json!({"path": "/etc/xds/authorities"}));
    let names = json!([{"sanType": "DNS", "matcher": {"exact": "portcullis.infra.svc"}}]);
    assert_eq!(context["matchTypedSubjectAltNames"], names);
    let secret = &token.content["resources"][0]["genericSecret"]["secret"];
    assert_eq!(*secret, json!({"filename": "/var/run/secrets/xds/token"}));
}

#[test]
fn a_secured_proxy_shows_two_pages_of_its_admin_interface() {
    let built = secured();
    let listeners = built["staticResources"]["listeners"].as_array().expect("listeners");
    assert_eq!(listeners.len(), 1);
    let manager = &listeners[0]["filterChains"][0]["filters"][0]["typedConfig"];
    let routes = manager["routeConfig"]["virtualHosts"][0]["routes"].as_array().expect("routes");
    let get = json!([{"name": ":method", "stringMatch": {"exact": "GET"}}]);
    let matches: Vec<_> = routes.iter().map(|route| route["match"].clone()).collect();
    assert_eq!(
        matches,
        [json!({"path": "/ready", "headers": get}), json!({"path": "/stats/prometheus", "headers": get})]
    );
}
