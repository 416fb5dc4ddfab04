use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::Listener as EnvoyListener;
use ir::{downstream::CertificateDetail, settings::Edge};
use prost::Message;
use serde_json::{Value, json};

use super::{Common, chains, closed, composed, listener, udp};
use crate::{
    json,
    testing::{
        pgv,
        samples::{listeners, udp_listeners},
    },
};

const LISTENER: &str = "envoy.config.listener.v3.Listener";

fn secrets() -> [Arc<str>; 2] {
    ["secret/apps/rsa".into(), "secret/apps/ecdsa".into()]
}

fn built(index: usize) -> Value {
    json::value(LISTENER, &listener(&listeners(&secrets())[index], &Edge::default()).body.to_bytes())
        .expect("a listener")
}

fn manager(index: usize, edge: &Edge) -> Value {
    let built =
        json::value(LISTENER, &listener(&listeners(&secrets())[index], edge).body.to_bytes()).expect("a listener");
    built["filterChains"][0]["filters"][0]["typedConfig"].clone()
}

#[test]
fn every_sample_keeps_the_rules_of_its_message_and_has_one_encoding() {
    let other = Edge {
        access_log: false,
        trusted_hops: 2,
        max_heap_bytes: 1 << 30,
        max_listener_connections: 1,
        proxy_protocol_sources: [([192, 0, 2, 0].into(), 24)].into(),
        client_certificate_details: CertificateDetail::ALL.into(),
        ..Edge::default()
    };
    let edges = [Edge::default(), other];
    for sample in listeners(&secrets()) {
        for edge in &edges {
            let encoded = listener(&sample, edge);
            assert_eq!(pgv::violations(LISTENER, &encoded.body.to_bytes()).expect("readable"), [], "{sample:?}");
            assert!((0..100).all(|_| listener(&sample, edge) == encoded), "{sample:?}");
        }
    }
}

/// Envoy compares what it has with what comes, and drains what differs.
#[test]
fn a_listener_is_the_same_however_its_chains_are_split_and_as_if_it_were_encoded_whole() {
    let edge = Edge::default();
    for sample in listeners(&secrets()) {
        let whole = listener(&sample, &edge);
        let bytes = whole.body.to_bytes();
        assert_eq!(EnvoyListener::decode(&*bytes).expect("a listener").encode_to_vec(), bytes, "{sample:?}");
        let common = Common::new(&sample.head.gateway, &sample.head.config, &edge);
        let all: Vec<_> = sample.chains.iter().map(|chain| common.chain(chain)).chain(closed(&sample.closed)).collect();
        let hashes: Vec<_> = all.iter().map(|chain| *chain.hash()).collect();
        let split = composed(&sample.head, &edge, all.iter().map(|chain| chains(std::iter::once(chain))), &hashes);
        assert_eq!((split.version, split.body.to_bytes()), (whole.version, bytes));
    }
}

#[test]
fn every_sample_of_datagrams_keeps_the_rules_of_its_message_and_has_one_encoding() {
    for sample in udp_listeners() {
        let encoded = udp(&sample, &Edge::default());
        assert_eq!(pgv::violations(LISTENER, &encoded.body.to_bytes()).expect("readable"), [], "{sample:?}");
        assert!((0..100).all(|_| udp(&sample, &Edge::default()) == encoded), "{sample:?}");
    }
}

#[test]
fn connections_and_sessions_last_as_long_as_settings_say() {
    use std::time::Duration;

    let edge = Edge {
        tcp_idle_timeout: Duration::from_mins(5),
        tcp_max_duration: Duration::from_hours(2),
        udp_session_timeout: Duration::from_secs(3),
        ..Edge::default()
    };
    let proxies = |edge: &Edge| {
        let samples = listeners(&secrets());
        let built = samples.iter().map(|sample| {
            let built = json::value(LISTENER, &listener(sample, edge).body.to_bytes()).expect("a listener");
            built["filterChains"].as_array().cloned().unwrap_or_default()
        });
        let configs = built.flatten().map(|chain| chain["filters"][0]["typedConfig"].clone());
        configs.filter(|config| config["cluster"].is_string()).collect::<Vec<_>>()
    };
    for (edge, idle, most) in [(&edge, "300s", json!("7200s")), (&Edge::default(), "3600s", Value::Null)] {
        let all = proxies(edge);
        assert!(!all.is_empty());
        for proxy in all {
            assert_eq!((&proxy["idleTimeout"], &proxy["maxDownstreamConnectionDuration"]), (&json!(idle), &most));
        }
    }
    let built = json::value(LISTENER, &udp(&udp_listeners()[0], &edge).body.to_bytes()).expect("a listener");
    assert_eq!(built["listenerFilters"][0]["typedConfig"]["idleTimeout"], "3s");
}

#[test]
fn a_listener_of_datagrams_sends_all_to_one_cluster_and_has_no_chains() {
    let sample = &udp_listeners()[0];
    let built = json::value(LISTENER, &udp(sample, &Edge::default()).body.to_bytes()).expect("a listener");
    assert_eq!(built["name"], "listener/53/udp");
    let address = json!({"protocol": "UDP", "address": "0.0.0.0", "portValue": 10_053});
    assert_eq!((&built["address"]["socketAddress"], &built["filterChains"]), (&address, &Value::Null));
    let proxy = &built["listenerFilters"][0]["typedConfig"];
    let cluster = &proxy["matcher"]["onNoMatch"]["action"]["typedConfig"]["cluster"];
    assert_eq!((cluster, &proxy["idleTimeout"]), (&json!("udp/dns"), &json!("60s")));
    let sizes = [&built["udpListenerConfig"]["downstreamSocketConfig"], &proxy["upstreamSocketConfig"]];
    assert_eq!(sizes.map(|size| size["maxRxDatagramSize"].clone()), [json!("9000"), json!("9000")]);
}

#[test]
fn a_stream_goes_to_one_cluster_with_one_attempt() {
    let built = built(5);
    let chain = &built["filterChains"][0];
    let proxy = &chain["filters"][0]["typedConfig"];
    assert_eq!((&proxy["cluster"], &proxy["maxConnectAttempts"]), (&json!("tcp/db"), &json!(1)));
    assert_eq!((&chain["filterChainMatch"], &built["listenerFilters"]), (&Value::Null, &Value::Null));
}

#[test]
fn chains_of_streams_and_of_requests_share_a_port_of_tls() {
    let built = built(6);
    assert_eq!(built["listenerFilters"][0]["name"], "envoy.filters.listener.tls_inspector");
    let chains = built["filterChains"].as_array().expect("chains").iter();
    let names: Vec<_> = chains.map(|chain| chain["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["https/446/exact", "tls/through/b.example.com", "tls/ends/*.example.com", "closed", "closed/*"]);
    let ends = &built["filterChains"][2]["transportSocket"]["typedConfig"]["commonTlsContext"];
    assert_eq!(ends["alpnProtocols"], Value::Null, "nobody knows what clients speak");
    assert_eq!(built["filterChains"][1]["transportSocket"], Value::Null);
    assert_eq!(built["filterChains"][4]["filterChainMatch"], Value::Null);
}

#[test]
fn a_plain_listener_has_one_chain_without_a_match() {
    let built = built(0);
    assert_eq!(built["name"], "listener/80");
    assert_eq!(built["address"]["socketAddress"], json!({"address": "127.0.0.1", "portValue": 10_080}));
    assert_eq!(built["listenerFilters"], Value::Null);
    let chain = &built["filterChains"][0];
    assert_eq!((&chain["filterChainMatch"], &chain["transportSocket"]), (&Value::Null, &Value::Null));
    let manager = &chain["filters"][0]["typedConfig"];
    assert_eq!(
        manager["rds"],
        json!({"configSource": {"ads": {}, "resourceApiVersion": "V3"}, "routeConfigName": "http/80"})
    );
}

#[test]
fn tls_chains_are_chosen_by_server_name_and_read_their_certificates_over_sds() {
    let built = built(1);
    assert_eq!(built["listenerFilters"][0]["name"], "envoy.filters.listener.tls_inspector");
    let names: Vec<_> = (0..3).map(|index| built["filterChains"][index]["filterChainMatch"].clone()).collect();
    assert_eq!(
        names,
        [Value::Null, json!({"serverNames": ["a.example.com"]}), json!({"serverNames": ["*.example.com"]})]
    );
    let context = &built["filterChains"][1]["transportSocket"]["typedConfig"]["commonTlsContext"];
    assert_eq!(context["alpnProtocols"], json!(["h2", "http/1.1"]));
    assert_eq!(context["tlsParams"], json!({"tlsMinimumProtocolVersion": "TLSv1_2"}));
    let sds = json!({"ads": {}, "resourceApiVersion": "V3"});
    assert_eq!(
        context["tlsCertificateSdsSecretConfigs"],
        json!([{"name": "secret/apps/rsa", "sdsConfig": sds}, {"name": "secret/apps/ecdsa", "sdsConfig": sds}])
    );
}

#[test]
fn further_addresses_are_additional_ones() {
    let built = built(2);
    assert_eq!(built["address"]["socketAddress"]["address"], "::1");
    assert_eq!(built["additionalAddresses"][1]["address"]["socketAddress"]["address"], "127.0.0.2");
}

#[test]
fn requests_are_hardened_as_the_edge_wants() {
    let edge = Edge { trusted_hops: 2, ..Edge::default() };
    let manager = manager(0, &edge);
    let expected = json!({
        "useRemoteAddress": true,
        "xffNumTrustedHops": 2,
        "normalizePath": true,
        "mergeSlashes": true,
        "pathWithEscapedSlashesAction": "UNESCAPE_AND_REDIRECT",
        "stripTrailingHostDot": true,
        "streamIdleTimeout": "300s",
        "requestHeadersTimeout": "10s",
        "maxRequestHeadersKb": 60,
        "serverHeaderTransformation": "PASS_THROUGH",
        "upgradeConfigs": [{"upgradeType": "websocket"}],
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&manager[name], value, "{name}");
    }
    assert_eq!(
        manager["commonHttpProtocolOptions"],
        json!({"idleTimeout": "3600s", "maxHeadersCount": 100, "headersWithUnderscoresAction": "REJECT_REQUEST"})
    );
    assert_eq!(manager["http2ProtocolOptions"]["maxConcurrentStreams"], 100);
}

#[test]
fn no_peer_is_internal() {
    let ranges = manager(0, &Edge::default())["internalAddressConfig"]["cidrRanges"].clone();
    assert_eq!(ranges, json!([{"addressPrefix": "255.255.255.255", "prefixLen": 32}]));
}

fn filters(manager: &Value) -> Vec<(String, bool)> {
    let filters = manager["httpFilters"].as_array().expect("filters");
    let name = |filter: &Value| filter["name"].as_str().expect("a name").to_owned();
    filters.iter().map(|filter| (name(filter), filter["disabled"] == json!(true))).collect()
}

#[test]
fn every_slot_stands_in_every_chain_in_its_order_and_is_disabled() {
    let slots = "grpcWeb extProc.start fault extProc.fault acl extProc.acl cors.wide cors \
                 compress.gzip compress.brotli compress.zstd decompress.gzip decompress.brotli decompress.zstd \
                 oauth2 extProc.oauth2 apiKeyAuth apiKeyAuth.hide basicAuth oauth2.jwt oauth2.claims \
                 extAuth.wide.0 extAuth.wide.1 extAuth.wide.2 extAuth.wide.3 \
                 extAuth.0 extAuth.1 extAuth.2 extAuth.3 extAuth.body extProc.extAuth jwtAuth jwtAuth.hide jwtAuth.claims \
                 extProc.jwtAuth \
                 rbac extProc.rbac.0 extProc.rbac.1 extProc.rbac.2 extProc.rbac.3 \
                 rateLimit.local.rate rateLimit.local rateLimit.local.share rateLimit.global extProc.rateLimit.global \
                 buffer buffer.body transformation transformation.lua extProc.transformation headerModifiers csrf extProc.csrf";
    let mut expected = vec![("envoy.filters.http.cdn_loop".to_owned(), false)];
    expected.extend(slots.split_whitespace().map(|slot| (slot.to_owned(), true)));
    expected.extend(["stateful_session", "router"].map(|name| (format!("envoy.filters.http.{name}"), false)));
    for index in 0..3 {
        for chain in built(index)["filterChains"].as_array().expect("chains") {
            // A chain that only closes connections has no filters.
            if let Some(manager) = chain.pointer("/filters/0/typedConfig") {
                let mut filters = filters(manager);
                // Where nobody judges what clients show, all requests are marked before any slot.
                if chain["name"] == "https/443/wild" {
                    assert_eq!(filters.remove(1), ("envoy.filters.http.set_metadata".to_owned(), false));
                }
                assert_eq!(filters, expected);
            }
        }
    }
}

#[test]
fn a_request_that_comes_too_often_is_told_from_others_that_fail() {
    let manager = manager(0, &Edge::default());
    let pseudonym = manager["httpFilters"][0]["typedConfig"]["cdnId"].as_str().expect("a token").to_owned();
    assert!(pseudonym.starts_with("portcullis-") && pseudonym.len() == 27, "{pseudonym}");
    let mapper = &manager["localReplyConfig"]["mappers"][0];
    let filters = &mapper["filter"]["andFilter"]["filters"];
    let header = &filters[1]["headerFilter"]["header"];
    let pattern = header["stringMatch"]["safeRegex"]["regex"].as_str().expect("a pattern");
    let pattern = regex_lite::Regex::new(&format!("^(?:{pattern})$")).expect("a pattern");
    assert_eq!((&mapper["statusCode"], &header["name"]), (&json!(508), &json!("cdn-loop")));
    assert!(!pattern.is_match(&format!("{pseudonym},cdn.example,{pseudonym}")));
    assert!(pattern.is_match(&format!("{pseudonym},cdn.example,{pseudonym},{pseudonym}")));
}

#[test]
fn each_request_is_logged_as_json_unless_switched_off() {
    let log = manager(0, &Edge::default())["accessLog"][0]["typedConfig"].clone();
    assert_eq!(log["@type"], "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog");
    let fields = &log["logFormat"]["jsonFormat"];
    assert_eq!(fields["route_name"], "%ROUTE_NAME%");
    assert_eq!(fields["response_code_details"], "%RESPONSE_CODE_DETAILS%");
    assert_eq!(manager(0, &Edge { access_log: false, ..Edge::default() })["accessLog"], Value::Null);
}
