use ir::{NsName, settings::Edge};
use prost::Message;
use serde_json::{Value, json};

use super::{AdminAddress, XdsAddress, bootstrap, bootstrap_json};
use crate::envoy::testing::pgv;

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
            "grpcServices": [{"envoyGrpc": {"clusterName": "xds"}}],
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
