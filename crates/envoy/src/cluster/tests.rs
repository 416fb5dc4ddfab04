use std::sync::Arc;

use serde_json::{Value, json};

use super::{cluster, endpoints, showing, stream};
use crate::{
    json,
    testing::{
        pgv,
        samples::{assignments, clusters, stream_clusters},
    },
};

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const ENDPOINTS: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";

fn built(index: usize) -> Value {
    json::value(CLUSTER, &cluster(&clusters()[index]).body.to_bytes()).expect("a cluster")
}

fn assigned(index: usize) -> Value {
    json::value(ENDPOINTS, &endpoints(&assignments(&Arc::from("c"))[index]).body.to_bytes()).expect("endpoints")
}

#[test]
fn every_sample_keeps_the_rules_of_its_message_and_has_one_encoding() {
    for sample in clusters() {
        let encoded = cluster(&sample);
        assert_eq!(pgv::violations(CLUSTER, &encoded.body.to_bytes()).expect("readable"), [], "{sample:?}");
        assert!((0..100).all(|_| cluster(&sample) == encoded), "{sample:?}");
    }
    for sample in stream_clusters() {
        let encoded = stream(&sample);
        assert_eq!(pgv::violations(CLUSTER, &encoded.body.to_bytes()).expect("readable"), [], "{sample:?}");
        assert!((0..100).all(|_| stream(&sample) == encoded), "{sample:?}");
    }
    for sample in assignments(&Arc::from("c")) {
        let encoded = endpoints(&sample);
        assert_eq!(pgv::violations(ENDPOINTS, &encoded.body.to_bytes()).expect("readable"), [], "{sample:?}");
        assert!((0..100).all(|_| endpoints(&sample) == encoded), "{sample:?}");
    }
}

#[test]
fn endpoints_come_over_ads_under_the_name_of_the_cluster() {
    let built = built(0);
    assert_eq!(built["name"], "service/apps/one/80");
    assert_eq!(built["type"], "EDS");
    assert_eq!(built["edsClusterConfig"], json!({"edsConfig": {"ads": {}, "resourceApiVersion": "V3"}}));
}

#[test]
fn an_endpoint_that_goes_in_no_way_a_cluster_of_streams_knows_is_connected_to_by_nobody() {
    let [plain, datagrams, policies] = &stream_clusters()[..] else { panic!("three samples") };
    let built = |sample| json::value(CLUSTER, &stream(sample).body.to_bytes()).expect("a cluster");
    let ways = |built: &Value| -> Vec<_> {
        let ways = built["transportSocketMatches"].as_array().into_iter().flatten();
        ways.map(|way| (way["match"]["way"].clone(), way["transportSocket"]["name"].clone())).collect()
    };
    let (raw, tls) = (json!("envoy.transport_sockets.raw_buffer"), json!("envoy.transport_sockets.tls"));
    let proxy = json!("envoy.transport_sockets.upstream_proxy_protocol");
    assert_eq!(ways(&built(plain)), [(json!("plain"), raw.clone())]);
    let nobody = &built(plain)["transportSocket"]["typedConfig"]["commonTlsContext"]["validationContext"];
    assert_eq!(nobody["verifyCertificateHash"], json!(["00".repeat(32)]));
    assert_eq!(
        ways(&built(policies)),
        [
            (json!("plain"), raw),
            (json!("service/apps/a/443/tls"), tls),
            (json!("service/apps/b/443"), proxy.clone()),
            (json!("service/apps/c/443/tls"), proxy),
        ]
    );
    assert_eq!((ways(&built(datagrams)), &built(datagrams)["transportSocket"]), (vec![], &Value::Null));
    let weighted = assigned(4);
    let metadata = &weighted["endpoints"][1]["lbEndpoints"][0]["metadata"];
    assert_eq!(metadata["filterMetadata"], json!({"envoy.transport_socket_match": {"way": "plain"}}));
}

#[test]
fn each_protocol_has_its_options() {
    let options = |index: usize| {
        let options = &built(index)["typedExtensionProtocolOptions"];
        options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"].clone()
    };
    assert_eq!(options(0)["explicitHttpConfig"], json!({"httpProtocolOptions": {}}));
    assert_eq!(options(1)["explicitHttpConfig"], json!({"http2ProtocolOptions": {}}));
    assert_eq!(options(2)["explicitHttpConfig"], json!({"httpProtocolOptions": {}}));
    assert_eq!(options(2)["upstreamHttpProtocolOptions"], json!({"autoSni": true}));
    assert_eq!(built(2)["transportSocket"]["name"], "envoy.transport_sockets.tls");
    assert_eq!(built(0)["transportSocket"], Value::Null);
    // Envoy as a client ends at TLS 1.2 by itself.
    let parameters = &built(2)["transportSocket"]["typedConfig"]["commonTlsContext"]["tlsParams"];
    assert_eq!(parameters["tlsMaximumProtocolVersion"], "TLSv1_3");
}

#[test]
fn only_weighted_clusters_balance_over_localities() {
    assert_eq!(built(0)["commonLbConfig"]["localityWeightedLbConfig"], Value::Null);
    assert_eq!(built(1)["commonLbConfig"]["localityWeightedLbConfig"], json!({}));
}

#[test]
fn an_endpoint_that_ends_is_a_last_resort_and_keeps_its_sessions() {
    let endpoints = &assigned(2)["endpoints"][0]["lbEndpoints"];
    assert_eq!(endpoints[0]["healthStatus"], Value::Null);
    assert_eq!(endpoints[2]["healthStatus"], "DEGRADED");
    assert_eq!(assigned(2)["policy"]["overprovisioningFactor"], 1_000_000);
    let lb = &built(0)["commonLbConfig"];
    assert_eq!(lb["healthyPanicThreshold"], json!({}), "zero");
    assert_eq!(lb["overrideHostStatus"]["statuses"], json!(["UNKNOWN", "HEALTHY", "DRAINING", "DEGRADED"]));
}

#[test]
fn localities_carry_zone_and_weight() {
    let localities = assigned(4)["endpoints"].clone();
    assert_eq!(localities[0]["locality"], json!({"zone": "a", "subZone": "apps/one"}));
    assert_eq!(localities[0]["loadBalancingWeight"], u32::MAX / 2);
    assert_eq!(localities[1]["loadBalancingWeight"], Value::Null, "zero is no weight");
    assert_eq!(assigned(2)["endpoints"][0]["locality"], Value::Null);
}

#[test]
fn no_endpoints_is_an_answer() {
    assert_eq!(assigned(0)["clusterName"], "c");
    assert_eq!(assigned(0)["endpoints"], Value::Null);
}

#[test]
fn a_certificate_is_shown_where_tls_is_spoken_and_none_is_and_nothing_else_changes() {
    for sample in clusters() {
        let encoded = cluster(&sample);
        let shown = showing(&encoded);
        let (before, mut after) =
            (encoded.body.to_bytes(), json::value(CLUSTER, &shown.body.to_bytes()).expect("a cluster"));
        assert_eq!(pgv::violations(CLUSTER, &shown.body.to_bytes()).expect("readable"), [], "{sample:?}");
        assert_eq!(showing(&shown), shown, "a certificate is shown twice: {sample:?}");
        assert_eq!(shown != encoded, sample.shows_certificate_of_gateway(), "{sample:?}");
        if shown != encoded {
            let outer = &mut after["transportSocket"]["typedConfig"];
            let is_wrapped = outer.get("transportSocket").is_some();
            let context = if is_wrapped { &mut outer["transportSocket"]["typedConfig"] } else { outer };
            let common = context["commonTlsContext"].as_object_mut().expect("a context");
            let certificates = common.remove("tlsCertificateSdsSecretConfigs").expect("certificates");
            assert_eq!(certificates[0]["name"], "client-certificate");
        }
        assert_eq!(after, json::value(CLUSTER, &before).expect("a cluster"), "{sample:?}");
    }
}
