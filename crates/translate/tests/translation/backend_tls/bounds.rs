//! How much policies may say, and how many may be told.

use super::*;

#[test]
fn bundles_are_bounded_by_certificates_and_by_bytes() {
    let many = authority_pems();
    let first = |count: usize| many[..count].concat();
    let large = format!("{}\n{}", pem(), "# padding\n".repeat(1_000_000));
    let neighbour = [
        service("n"),
        route(
            "n",
            json!({"rules": [{"backendRefs": [{"name": "n", "port": 80}],
        "matches": [{"path": {"type": "PathPrefix", "value": "/n"}}]}]}),
        ),
    ];
    let neighbours = |scene: &Scene| cluster(scene, "service/apps/n/80");
    let mut scene = scene(neighbour.into_iter().chain([policy("p", "", json!({})), authorities()]));
    let before = neighbours(&scene);
    for (text, words) in [(first(1_000), "bytes"), (large, "bytes"), (first(257), "257 certificates")] {
        let changes = scene.put(config_map("ca", json!({"ca.crt": text})));
        assert_eq!(told(&scene, "apps/p", 0)[0], "False NoValidCACertificate");
        let text = message(&scene, "apps/p");
        for words in [words, "spec.validation.caCertificateRefs[0]", "ca.crt", "262144"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(neighbours(&scene), before);
        assert!(!changed(&changes).iter().any(|it| it.contains("/n/")), "{:?}", changed(&changes));
        // As many as there may be are taken again.
        scene.put(config_map("ca", json!({"ca.crt": first(256)})));
        assert_eq!(told(&scene, "apps/p", 0), GOOD);
    }
    // What fits alone, and not beside another, is left out.
    let (half, rest) = (first(200), many[200..400].concat());
    let refs = json!([reference("ConfigMap", "ca"), reference("ConfigMap", "rest")]);
    let objects = [
        policy("p", "", json!({"caCertificateRefs": refs})),
        config_map("ca", json!({"ca.crt": half})),
        config_map("rest", json!({"ca.crt": rest})),
    ];
    let scene = super::scene(objects);
    assert_eq!(told(&scene, "apps/p", 0), ["True Accepted", "False InvalidCACertificateRef"]);
    assert!(message(&scene, "apps/p").contains("400 certificates"), "{}", message(&scene, "apps/p"));
}

#[test]
fn a_certificate_that_is_there_twice_counts_once() {
    let mut twice = pem().to_owned();
    let _ = write!(twice, "# again\n{}", pem());
    let scene = scene([policy("p", "", json!({})), config_map("ca", json!({"ca.crt": twice}))]);
    let secret = scene.resource("infra/edge", ResourceKind::Secret, BUNDLE).expect("a secret").to_string();
    assert_eq!(secret.matches("BEGIN CERTIFICATE").count(), 1);
}

#[test]
fn proxies_for_which_a_status_has_no_room_send_nothing_there_and_are_told() {
    let gateways = |count: u16| {
        (0..count).map(|number| {
            let mut gateway = gateway(&format!("g{number:02}"), json!([http("web", 8000 + number, "")]));
            gateway["metadata"]["creationTimestamp"] = json!(format!("20{:02}-01-01T00:00:00Z", 40 - number));
            gateway
        })
    };
    let parents: Vec<_> =
        (0..17).map(|number| json!({"name": format!("g{number:02}"), "namespace": "infra"})).collect();
    let objects = gateways(17).chain([
        service("s"),
        route("r", json!({"parentRefs": parents})),
        policy("p", "", json!({})),
        authorities(),
    ]);
    let mut scene = Scene::new(objects);
    let serves = |scene: &Scene, number: usize| {
        scene.resource(&format!("infra/g{number:02}"), ResourceKind::Cluster, CLUSTER).is_some()
    };
    // The youngest has no room.
    assert!(!serves(&scene, 0) && (1..17).all(|number| serves(&scene, number)));
    let ancestors =
        |scene: &Scene| scene.status(Kind::BackendTlsPolicy, "apps/p")["ancestors"].as_array().map_or(0, Vec::len);
    assert_eq!(ancestors(&scene), 16);
    let told = scene.gateway_message("infra/g00", "Accepted");
    assert!(told.starts_with("True") && told.contains("1 BackendTLSPolicies of other namespaces"), "{told}");
    assert!(
        scene.problems().iter().any(|it| it.starts_with("p ") && it.contains("infra/g00")),
        "{:?}",
        scene.problems()
    );
    // What others write takes room too.
    let id = ObjectId::new(Kind::BackendTlsPolicy, "apps", "p");
    scene.0.set_foreign_ancestors(&id, 3);
    scene.0.settle();
    assert_eq!((0..17).filter(|number| !serves(&scene, *number)).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(ancestors(&scene), 13);
    scene.0.set_foreign_ancestors(&id, 0);
    scene.remove(gateways(17).next_back().expect("a Gateway"));
    assert!((0..16).all(|number| serves(&scene, number)));
    assert_eq!(scene.gateway("infra/g00", "Accepted"), "True Accepted");
    assert_eq!(NsName::new("infra", "g00").to_string(), "infra/g00");
}
