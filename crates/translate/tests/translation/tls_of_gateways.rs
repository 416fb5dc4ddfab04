//! What Gateways ask of clients, and show to backends: `spec.tls`.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use api::Kind;
use envoy::ResourceKind;
use serde_json::{Value, json};

use super::scene::{Scene, authority_pems, certificates, gateway, http, https, opaque, route, secret, service, tls};
use translate::Changes;

fn with_tls(mut gateway: Value, tls: Value) -> Value {
    gateway["spec"]["tls"] = tls;
    gateway
}

fn config_map(namespace: &str, name: &str, which: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        "data": {"ca.crt": certificates()[which].0}})
}

fn reference(kind: &str, name: &str, namespace: Option<&str>) -> Value {
    json!({"group": "", "kind": kind, "name": name, "namespace": namespace})
}

fn asks(references: &[Value], mode: &str) -> Value {
    json!({"validation": {"caCertificateRefs": references, "mode": mode}})
}

fn grant(kind: &str) -> Value {
    json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "ReferenceGrant",
        "metadata": {"name": "gateways", "namespace": "shared"},
        "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "infra"}],
            "to": [{"group": "", "kind": kind}]}})
}

fn frontend(default: Value, per_port: Value) -> Value {
    let listeners = json!([http("plain", 80, ""), https("tls", 443, "", "one"), https("other", 8443, "", "one")]);
    with_tls(gateway("edge", listeners), json!({"frontend": {"default": default, "perPort": per_port}}))
}

fn socket(scene: &Scene, port: u16) -> Value {
    let listener = scene.resource("infra/edge", ResourceKind::Listener, &format!("listener/{port}"));
    listener.unwrap_or_default()["filterChains"][0]["transportSocket"]["typedConfig"].clone()
}

fn said(scene: &Scene, listener: &str) -> [String; 3] {
    ["Accepted", "ResolvedRefs", "Programmed"].map(|condition| scene.listener("infra/edge", listener, condition))
}

fn changed(changes: &Changes) -> Vec<String> {
    changes.resources.iter().map(|(key, _)| format!("{:?} {}", key.kind, key.name)).collect()
}

const GOOD: [&str; 3] = ["True Accepted", "True ResolvedRefs", "True Programmed"];
const BUNDLE: &str = "authorities/infra/ConfigMap/ca";

#[test]
fn what_is_asked_of_a_port_holds_in_place_of_what_is_asked_of_all() {
    let ca = || [reference("ConfigMap", "ca", None)];
    let lax = asks(&ca(), "AllowInsecureFallback");
    let mut scene = Scene::new([
        secret("one"),
        config_map("infra", "ca", 0),
        frontend(asks(&ca(), "AllowValidOnly"), json!([{"port": 8443, "tls": lax}])),
    ]);
    let strict = socket(&scene, 443);
    assert_eq!(strict["requireClientCertificate"], true);
    assert_eq!(strict["commonTlsContext"]["validationContextSdsSecretConfig"]["name"], BUNDLE);
    let resumes = [&strict["disableStatelessSessionResumption"], &strict["disableStatefulSessionResumption"]];
    assert_eq!(resumes, [true, true]);
    let taken = |socket: &Value| socket["commonTlsContext"]["validationContext"]["trustChainVerification"].clone();
    let nothing_asked = |socket: &Value| {
        let fields =
            ["requireClientCertificate", "disableStatelessSessionResumption", "disableStatefulSessionResumption"];
        let common = &socket["commonTlsContext"];
        common.is_object()
            && common["validationContextSdsSecretConfig"].is_null()
            && fields.iter().all(|it| socket[it].is_null())
    };
    assert!(nothing_asked(&socket(&scene, 8443)), "nothing is needed");
    assert_eq!(taken(&socket(&scene, 8443)), "ACCEPT_UNTRUSTED", "and whatever is shown is taken");
    assert!(scene.resource("infra/edge", ResourceKind::Secret, BUNDLE).is_some());
    assert_eq!([said(&scene, "tls"), said(&scene, "other"), said(&scene, "plain")], [GOOD; 3]);
    let told = scene.gateway_message("infra/edge", "InsecureFrontendValidationMode");
    assert!(told.starts_with("True ConfigurationChanged") && told.contains("listeners other"), "{told}");
    assert!(scene.problems().iter().any(|it| it.contains("AllowValidOnly")), "{:?}", scene.problems());
    // A port of which something else is said asks for nothing that is not said there.
    scene.put(frontend(asks(&ca(), "AllowValidOnly"), json!([{"port": 8443, "tls": {}}])));
    assert!(nothing_asked(&socket(&scene, 8443)) && taken(&socket(&scene, 8443)).is_null());
    assert_eq!(socket(&scene, 443), strict);
    assert_eq!(scene.gateway("infra/edge", "InsecureFrontendValidationMode"), "");
    assert_eq!(scene.problems(), [""; 0]);
}

#[test]
fn connections_from_before_a_certificate_is_demanded_follow_no_route_and_are_told_421() {
    const ALL: &str = "https/443/tls";
    const VERIFIED: &str = "https/443/tls/verified";
    let asked = |tls: Value| frontend(json!({}), json!([{"port": 443, "tls": tls}]));
    let with_mode = |mode: &str| asked(asks(&[reference("ConfigMap", "ca", None)], mode));
    let objects = [secret("one"), config_map("infra", "ca", 0), service("s"), route("r", json!({})), asked(json!({}))];
    let mut scene = Scene::new(objects);
    let read = |scene: &Scene| {
        let listener = scene.resource("infra/edge", ResourceKind::Listener, "listener/443").unwrap_or_default();
        listener["filterChains"][0]["filters"][0]["typedConfig"]["rds"]["routeConfigName"].clone()
    };
    let hosts = |scene: &Scene, name: &str| {
        let config = scene.resource("infra/edge", ResourceKind::RouteConfiguration, name).unwrap_or_default();
        config["virtualHosts"].clone()
    };
    let served = hosts(&scene, ALL);
    assert!(served.to_string().contains("service/apps/s/80"), "{served}");
    let all = |scene: &Scene| (read(scene), hosts(scene, ALL), hosts(scene, VERIFIED));
    for _ in 0..2 {
        assert_eq!(all(&scene), (json!(ALL), served.clone(), Value::Null));
        scene.put(with_mode("AllowInsecureFallback"));
        assert_eq!(all(&scene), (json!(ALL), served.clone(), Value::Null));
        let changes = scene.put(with_mode("AllowValidOnly"));
        assert_eq!((read(&scene), hosts(&scene, VERIFIED)), (json!(VERIFIED), served.clone()));
        let left = hosts(&scene, ALL);
        assert_eq!(
            [&left[0]["domains"], &left[0]["routes"][0]["directResponse"]],
            [&json!(["*"]), &json!({"status": 421})]
        );
        assert_eq!((left.as_array().map(Vec::len), left[0]["routes"].as_array().map(Vec::len)), (Some(1), Some(1)));
        let ends = changes.resources.iter().filter(|(_, now)| now.as_ref().is_some_and(|now| now.ends));
        assert_eq!(ends.map(|(key, _)| &*key.name).collect::<Vec<_>>(), [ALL], "in place of it alone");
        // Other ports have nothing to do with it.
        assert_eq!(hosts(&scene, "https/8443/other"), served);
        scene.put(asked(json!({})));
    }
}

#[test]
fn authorities_of_clients_that_rotate_are_one_secret() {
    let ca = [reference("ConfigMap", "ca", None)];
    let mut scene =
        Scene::new([secret("one"), config_map("infra", "ca", 0), frontend(asks(&ca, "AllowValidOnly"), json!([]))]);
    assert_eq!(changed(&scene.put(config_map("infra", "ca", 1))), [format!("Secret {BUNDLE}")]);
}

#[test]
fn where_no_reference_leads_to_an_authority_nobody_is_let_in_and_the_listener_says_why() {
    let none = reference("ConfigMap", "none", None);
    for (references, resolved, words) in [
        (vec![none.clone()], "InvalidCACertificateRef", "ConfigMap infra/none does not exist"),
        (vec![reference("Service", "ca", None)], "InvalidCACertificateKind", "use a ConfigMap or a Secret"),
        (
            vec![reference("ConfigMap", "theirs", Some("shared"))],
            "RefNotPermitted",
            "no ReferenceGrant there allows Gateways of infra",
        ),
        (vec![reference("Secret", "theirs", Some("shared"))], "RefNotPermitted", "Secret shared/theirs"),
        (
            vec![reference("Service", "ca", None), none],
            "InvalidCACertificateKind",
            "ConfigMap infra/none does not exist",
        ),
    ] {
        for mode in ["AllowValidOnly", "AllowInsecureFallback"] {
            let mut scene = Scene::new([
                secret("one"),
                config_map("infra", "ca", 0),
                config_map("shared", "theirs", 0),
                frontend(asks(&references, mode), json!([{"port": 8443, "tls": {}}])),
            ]);
            let expected =
                ["False NoValidCACertificate".to_owned(), format!("False {resolved}"), "False Invalid".to_owned()];
            assert_eq!(said(&scene, "tls"), expected, "{words}");
            let message = scene.listener_status("infra/edge", "tls").to_string();
            assert!(message.contains(words), "{words}: {message}");
            assert!(scene.problems().iter().any(|it| it.contains(words)), "{:?}", scene.problems());
            assert!(scene.resource("infra/edge", ResourceKind::Listener, "listener/443").is_none(), "{words}");
            // Nobody else is concerned.
            assert_eq!([said(&scene, "other"), said(&scene, "plain")], [GOOD; 2]);
            assert_eq!(scene.gateway("infra/edge", "Accepted"), "True ListenersNotValid");
            scene.put(frontend(asks(&[reference("ConfigMap", "ca", None)], "AllowValidOnly"), json!([])));
            assert_eq!(said(&scene, "tls"), GOOD);
        }
    }
}

#[test]
fn authorities_beyond_the_bound_close_their_ports_alone_until_they_are_fewer() {
    let many = authority_pems();
    let holding = |text: String| {
        let mut map = config_map("infra", "ca", 0);
        map["data"]["ca.crt"] = json!(text);
        map
    };
    let asked = asks(&[reference("ConfigMap", "ca", None)], "AllowValidOnly");
    let asked = frontend(asked, json!([{"port": 8443, "tls": {}}]));
    let mut scene = Scene::new([secret("one"), config_map("infra", "ca", 0), asked]);
    let neighbours = |scene: &Scene| {
        [80, 8443].map(|port| scene.resource("infra/edge", ResourceKind::Listener, &format!("listener/{port}")))
    };
    let before = neighbours(&scene);
    assert!(before.iter().all(Option::is_some));
    for (text, words) in [
        (many.concat(), "bytes"),
        (format!("{}{}", many[0], "# padding\n".repeat(1_000_000)), "bytes"),
        (many[..257].concat(), "257 certificates"),
    ] {
        let changes = scene.put(holding(text));
        assert_eq!(
            said(&scene, "tls"),
            ["False NoValidCACertificate", "False InvalidCACertificateRef", "False Invalid"]
        );
        let told = scene.listener_status("infra/edge", "tls").to_string();
        for words in [words, "spec.tls.frontend.default.validation.caCertificateRefs[0]", "ca.crt", "262144"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert!(scene.resource("infra/edge", ResourceKind::Listener, "listener/443").is_none());
        assert_eq!(neighbours(&scene), before);
        assert!(
            !changed(&changes).iter().any(|it| it.contains("/8443") || it.contains("/80")),
            "{:?}",
            changed(&changes)
        );
        scene.put(holding(many[..256].concat()));
        assert_eq!(said(&scene, "tls"), GOOD);
    }
}

#[test]
fn of_several_references_those_that_lead_to_authorities_serve_and_a_grant_lets_others_in() {
    let both = [reference("ConfigMap", "ca", None), reference("ConfigMap", "theirs", Some("shared"))];
    let mut scene = Scene::new([
        secret("one"),
        config_map("infra", "ca", 0),
        config_map("shared", "theirs", 1),
        frontend(asks(&both, "AllowValidOnly"), json!([])),
    ]);
    assert_eq!(said(&scene, "tls"), ["True Accepted", "False RefNotPermitted", "True Programmed"]);
    let name = |scene: &Scene| {
        let context = socket(scene, 443)["commonTlsContext"].clone();
        context["validationContextSdsSecretConfig"]["name"].as_str().expect("a name").to_owned()
    };
    assert_eq!(name(&scene), BUNDLE);
    // A grant to another kind is none.
    scene.put(grant("Secret"));
    assert_eq!(said(&scene, "tls")[1], "False RefNotPermitted");
    scene.put(grant("ConfigMap"));
    assert_eq!(said(&scene, "tls"), GOOD);
    assert_eq!(name(&scene), "authorities/infra/ConfigMap/ca+shared/ConfigMap/theirs");
    let secret = scene.resource("infra/edge", ResourceKind::Secret, &name(&scene)).expect("a secret").to_string();
    assert_eq!(secret.matches("BEGIN CERTIFICATE").count(), 2);
    scene.remove(grant("ConfigMap"));
    assert_eq!(name(&scene), BUNDLE);
}

#[test]
fn what_has_no_effect_or_is_not_known_is_told() {
    let ca = [reference("ConfigMap", "ca", None)];
    let per_port =
        json!([{"port": 80, "tls": asks(&ca, "AllowValidOnly")}, {"port": 8443, "tls": asks(&ca, "Sometimes")}]);
    let scene = Scene::new([secret("one"), config_map("infra", "ca", 0), frontend(json!({}), per_port)]);
    assert_eq!(said(&scene, "other")[0], "False UnsupportedValue");
    assert!(scene.resource("infra/edge", ResourceKind::Listener, "listener/8443").is_none());
    assert_eq!([said(&scene, "plain"), said(&scene, "tls")], [GOOD; 2]);
    let told = scene.problems().join("\n");
    assert!(told.contains("spec.tls.frontend.perPort[0].port: no listener of protocol HTTPS or TLS"), "{told}");
    assert!(told.contains("spec.tls.frontend.perPort[1].tls.validation.mode"), "{told}");
}

#[test]
fn where_tls_ends_for_connections_clients_are_asked_too_and_where_it_does_not_that_is_told() {
    let ca = [reference("ConfigMap", "ca", None)];
    let listeners = json!([
        https("tls", 443, "a.example.com", "one"),
        tls("ended", 443, "b.example.com", Some("one")),
        tls("passed", 443, "c.example.com", None),
    ]);
    let asking = |per_port: Value| {
        let frontend = json!({"default": asks(&ca, "AllowValidOnly"), "perPort": per_port});
        with_tls(gateway("edge", listeners.clone()), json!({ "frontend": frontend }))
    };
    let streams = json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "TLSRoute",
        "metadata": {"name": "t", "namespace": "infra"},
        "spec": {"parentRefs": [{"name": "edge"}], "hostnames": ["b.example.com", "c.example.com"],
            "rules": [{"backendRefs": [{"name": "s", "port": 80}]}]}});
    let served = |scene: &Scene| -> Vec<(String, Value)> {
        let listener = scene.resource("infra/edge", ResourceKind::Listener, "listener/443").unwrap_or_default();
        let chains = listener["filterChains"].as_array().cloned().unwrap_or_default();
        let asked = |chain: &Value| chain["transportSocket"]["typedConfig"]["requireClientCertificate"].clone();
        let open = chains.iter().filter(|chain| chain["filters"].is_array());
        open.map(|chain| (chain["filterChainMatch"]["serverNames"][0].as_str().expect("a name").into(), asked(chain)))
            .collect()
    };
    let chain = |name: &str, asked: Value| (format!("{name}.example.com"), asked);
    let mut scene = Scene::new([secret("one"), config_map("infra", "ca", 0), asking(json!([])), streams.clone()]);
    let [a, b, c] = [chain("a", json!(true)), chain("b", json!(true)), chain("c", Value::Null)];
    assert_eq!(served(&scene), [a, b, c.clone()]);
    let told = scene.problems().join("\n");
    assert!(
        told.contains("spec.listeners[2].tls.mode: who is passed through shows a certificate to the backend"),
        "{told}"
    );
    // They are sent with the first chain that refers to them.
    let sent = |scene: &Scene| scene.resource("infra/edge", ResourceKind::Secret, BUNDLE).is_some();
    assert!(sent(&scene));
    // Nobody is let in while nobody can be judged, and who is passed through is not concerned.
    scene.remove(config_map("infra", "ca", 0));
    assert_eq!(served(&scene), [c]);
    assert_eq!(said(&scene, "ended")[0], "False NoValidCACertificate");
    // What is asked of nobody needs no word.
    scene.put(config_map("infra", "ca", 0));
    scene.put(asking(json!([{"port": 443, "tls": {}}])));
    assert_eq!(served(&scene), ["a", "b", "c"].map(|name| chain(name, Value::Null)));
    let told = scene.problems().join("\n");
    assert!(!told.contains("spec.tls.frontend"), "{told}");
    let frontend = json!({"frontend": {"default": asks(&ca, "AllowValidOnly")}});
    scene.put(with_tls(gateway("edge", json!([tls("ended", 443, "b.example.com", Some("one"))])), frontend));
    assert!(sent(&scene));
    scene.remove(streams);
    assert!(!sent(&scene), "no connection is ended");
}

/// A backend behind TLS, and one in plain text.
fn backends() -> Vec<Value> {
    vec![
        service("s"),
        service("t"),
        route(
            "r",
            json!({"rules": [{"backendRefs": [{"name": "s", "port": 80}, {"name": "t", "port": 80}]}],
            "parentRefs": [{"name": "edge", "namespace": "infra"}, {"name": "plain", "namespace": "infra"}]}),
        ),
        gateway("plain", json!([http("web", 81, "")])),
        config_map("apps", "ca", 0),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
            "metadata": {"name": "p", "namespace": "apps"},
            "spec": {"targetRefs": [reference("Service", "s", None)],
                "validation": {"hostname": "s.example", "caCertificateRefs": [reference("ConfigMap", "ca", None)]}}}),
    ]
}

fn shows(reference: Value) -> Value {
    with_tls(gateway("edge", json!([http("web", 80, "")])), json!({"backend": {"clientCertificateRef": reference}}))
}

const SECURED: &str = "service/apps/s/80/tls";
const SHOWN: &str = "client-certificate";

fn shown(scene: &Scene, gateway: &str) -> Value {
    let cluster = scene.resource(gateway, ResourceKind::Cluster, SECURED).unwrap_or_default();
    let common = &cluster["transportSocket"]["typedConfig"]["commonTlsContext"];
    common["tlsCertificateSdsSecretConfigs"][0]["name"].clone()
}

#[test]
fn a_gateway_shows_its_certificate_by_one_secret_and_others_keep_their_clusters() {
    let mut scene = Scene::new(backends().into_iter().chain([secret("one"), shows(json!({"name": "one"}))]));
    assert_eq!([shown(&scene, "infra/edge"), shown(&scene, "infra/plain")], [json!(SHOWN), Value::Null]);
    assert_eq!(scene.gateway("infra/edge", "ResolvedRefs"), "True ResolvedRefs");
    assert!(scene.resource("infra/plain", ResourceKind::Secret, SHOWN).is_none());
    assert_eq!(scene.problems(), [""; 0]);
    let mut rotated = secret("one");
    let (chain, key) = &certificates()[1];
    rotated["stringData"] = json!({"tls.crt": chain, "tls.key": key});
    assert_eq!(changed(&scene.put(rotated)), [format!("Secret {SHOWN}")]);
    // So does another Secret.
    scene.put(secret("two"));
    let mut other = shows(json!({"name": "two"}));
    other["metadata"]["generation"] = json!(4);
    assert_eq!(changed(&scene.put(other)), [format!("Secret {SHOWN}")]);
}

#[test]
fn a_gateway_that_has_nothing_to_show_sends_nothing_where_it_would_and_says_why() {
    let theirs = || {
        let mut theirs = secret("theirs");
        theirs["metadata"]["namespace"] = json!("shared");
        theirs
    };
    let broken = || {
        let mut broken = opaque("broken", json!({"tls.crt": "no PEM", "tls.key": "no PEM"}));
        broken["metadata"]["namespace"] = json!("infra");
        broken
    };
    for (reference, reason, words) in [
        (json!({"name": "none"}), "InvalidClientCertificateRef", "Secret infra/none does not exist"),
        (json!({"name": "one", "group": "example.com"}), "InvalidClientCertificateRef", "cannot hold a certificate"),
        (json!({"name": "one", "kind": "ConfigMap"}), "InvalidClientCertificateRef", "cannot hold a certificate"),
        (json!({"name": "broken"}), "InvalidClientCertificateRef", "Secret infra/broken"),
        (
            json!({"name": "theirs", "namespace": "shared"}),
            "RefNotPermitted",
            "no ReferenceGrant there allows Gateways of infra",
        ),
    ] {
        let objects = [secret("one"), theirs(), broken(), shows(reference)];
        let mut scene = Scene::new(backends().into_iter().chain(objects));
        assert_eq!(scene.gateway("infra/edge", "ResolvedRefs"), format!("False {reason}"));
        assert_eq!(scene.gateway("infra/edge", "Accepted"), "True Accepted", "{words}");
        assert_eq!(scene.gateway("infra/edge", "Programmed"), "True Programmed", "{words}");
        let message = scene.gateway_message("infra/edge", "ResolvedRefs");
        assert!(message.contains("spec.tls.backend.clientCertificateRef") && message.contains(words), "{message}");
        assert!(scene.problems().iter().any(|it| it.contains(words)), "{:?}", scene.problems());
        let there =
            |scene: &Scene, gateway: &str, name: &str| scene.resource(gateway, ResourceKind::Cluster, name).is_some();
        assert!(!there(&scene, "infra/edge", SECURED), "{words}");
        assert!(there(&scene, "infra/edge", "service/apps/t/80"), "plain text has nothing to do with it");
        assert!(there(&scene, "infra/plain", SECURED), "another Gateway has nothing to do with it");
        scene.put(grant("Secret"));
        scene.put(shows(json!({"name": "theirs", "namespace": "shared"})));
        assert_eq!(shown(&scene, "infra/edge"), SHOWN);
        assert_eq!(scene.gateway("infra/edge", "ResolvedRefs"), "True ResolvedRefs");
    }
}

#[test]
fn the_features_are_published() {
    let scene = Scene::new([]);
    let features = scene.status(Kind::GatewayClass, "portcullis")["supportedFeatures"].to_string();
    for feature in [
        "GatewayBackendClientCertificate",
        "GatewayFrontendClientCertificateValidation",
        "GatewayFrontendClientCertificateValidationInsecureFallback",
    ] {
        assert!(features.contains(&format!("\"{feature}\"")), "{features}");
    }
}
