use expect_test::{Expect, expect, expect_file};
use ir::{NsName, backend::Transport, settings::Trust};
use serde_json::{Value, json};

use super::*;
use crate::{Parameters, Port};

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

fn parameters(of_gateway: &str) -> Parameters {
    trusted(of_gateway, Trust::default())
}

fn trusted(of_gateway: &str, trust: Trust) -> Parameters {
    Parameters::read(None, Some(&yaml(of_gateway)), trust).expect("good parameters")
}

fn port(name: &str, port: u16) -> Port {
    let target = if port < 1024 { 10_000 + port } else { port };
    Port { name: name.into(), port, target, transport: Transport::Tcp, optional: false }
}

fn plan() -> Plan {
    Plan {
        gateway: NsName::new("shop", "web"),
        uid: "0f7ae0b6".into(),
        class: "portcullis".into(),
        ports: vec![port("http", 80), port("https", 443)],
        labels: Vec::new(),
        annotations: Vec::new(),
        addresses: Vec::new(),
        parameters: Parameters::default(),
        bootstrap: r#"{"admin":{}}"#.into(),
        files: Vec::new(),
        trust_bundle: None,
    }
}

fn rendered(plan: &Plan) -> Vec<Manifest> {
    render(plan, &Settings::default()).expect("good plan")
}

fn object(plan: &Plan, kind: &str) -> Value {
    rendered(plan).into_iter().find(|manifest| manifest.kind == kind).expect("rendered").object
}

fn pod(plan: &Plan) -> Value {
    object(plan, "Deployment")["spec"]["template"]["spec"].clone()
}

fn fault(plan: &Plan) -> (About, String) {
    let fault = render(plan, &Settings::default()).expect_err("a fault");
    (fault.about, format!("{fault}"))
}

/// Everything that is made, without the long text in the ConfigMap that has a test of its own.
fn golden(plan: &Plan, expected: &expect_test::ExpectFile) {
    let documents = rendered(plan).into_iter().map(|mut manifest| {
        if let Some(drain) = manifest.object.pointer_mut("/data/drain.json") {
            *drain = "(left out)".into();
        }
        serde_saphyr::to_string(&manifest.object).expect("YAML")
    });
    expected.assert_eq(&documents.collect::<Vec<_>>().join("---\n"));
}

fn check_of(value: &Value, expected: &Expect) {
    expected.assert_eq(&serde_saphyr::to_string(value).expect("YAML"));
}

#[test]
fn a_minimal_gateway_has_an_account_a_config_map_a_deployment_and_a_service() {
    golden(&plan(), &expect_file!["golden/minimal.yaml"]);
}

#[test]
fn everything_that_parameters_can_ask_for_is_rendered() {
    let everything = include_str!("golden/everything-parameters.yaml");
    let parameters = trusted(everything, Trust::Unrestricted);
    let plan = Plan { parameters, trust_bundle: Some("PEM".into()), ..plan() };
    golden(&plan, &expect_file!["golden/everything.yaml"]);
}

#[test]
fn overlays_come_last_and_the_gateway_s_after_the_class_s() {
    let class = yaml(include_str!("golden/overlays-class.yaml"));
    let gateway = yaml(include_str!("golden/overlays-gateway.yaml"));
    let parameters = Parameters::read(Some(&class), Some(&gateway), Trust::Unrestricted).expect("good parameters");
    golden(&Plan { parameters, ..plan() }, &expect_file!["golden/overlays.yaml"]);
}

#[test]
fn infrastructure_s_labels_and_annotations_are_on_every_object_and_on_the_pods() {
    let plan = Plan {
        labels: vec![("team".into(), "a".into()), ("app.kubernetes.io/name".into(), "theirs".into())],
        annotations: vec![("example.com/a".into(), "b".into())],
        parameters: parameters("kube: {horizontalPodAutoscaler: {spec: {maxReplicas: 3}}, podDisruptionBudget: {}}"),
        ..plan()
    };
    let manifests = rendered(&plan);
    assert_eq!(manifests.len(), 6);
    let template = &manifests[2].object["spec"]["template"];
    for object in manifests.iter().map(|manifest| &manifest.object).chain([template]) {
        let metadata = &object["metadata"];
        assert_eq!(metadata["labels"]["team"], "a", "{object:#}");
        assert_eq!(metadata["labels"]["app.kubernetes.io/name"], "theirs", "{object:#}");
        assert_eq!(metadata["annotations"]["example.com/a"], "b", "{object:#}");
        assert_eq!(metadata["labels"][GATEWAY_NAME], "web", "{object:#}");
    }
    for (key, value) in [(GATEWAY_NAME, "x"), ("a b", "x"), ("a", "x y")] {
        let wrong = Plan { labels: vec![(key.into(), value.into())], ..plan.clone() };
        let (about, text) = fault(&wrong);
        assert!(about == About::Gateway && text.starts_with("spec.infrastructure.labels: "), "{text}");
    }
}

#[test]
fn names_and_labels_of_long_names_are_short_enough_and_the_owner_is_named_in_full() {
    let gateway = "a".repeat(253);
    let plan = Plan { gateway: NsName::new("shop", gateway.as_str()), ..plan() };
    let service = object(&plan, "Service");
    assert_eq!(service["metadata"]["name"].as_str().map(str::len), Some(63));
    assert_eq!(service["metadata"]["labels"][GATEWAY_NAME].as_str().map(str::len), Some(63));
    assert_eq!(service["spec"]["selector"][GATEWAY_NAME], service["metadata"]["labels"][GATEWAY_NAME]);
    assert_eq!(service["metadata"]["ownerReferences"][0]["name"], gateway);
}

#[test]
fn one_address_is_asked_for_and_more_are_reported() {
    let address = |text: &str| text.parse().expect("an address");
    let one = Plan { addresses: vec![address("192.0.2.1")], ..plan() };
    assert_eq!(object(&one, "Service")["spec"]["loadBalancerIP"], "192.0.2.1");
    let two = Plan { addresses: vec![address("192.0.2.1"), address("2001:db8::1")], ..plan() };
    let (about, text) = fault(&two);
    assert_eq!(about, About::Addresses);
    expect!["spec.addresses[1]: 2001:db8::1 cannot be had beside 192.0.2.1: a Service asks for one address; remove one of them"].assert_eq(&text);
    let inside = Plan { parameters: parameters("kube: {service: {type: ClusterIP}}"), ..one.clone() };
    assert_eq!(fault(&inside).0, About::Addresses);
    let same = parameters("kube: {service: {type: ClusterIP, clusterIP: 192.0.2.1}}");
    assert_eq!(object(&Plan { parameters: same, ..one }, "Service")["spec"]["clusterIP"], "192.0.2.1");
}

#[test]
fn a_gateway_without_ports_has_no_service() {
    let kinds: Vec<_> = rendered(&Plan { ports: Vec::new(), ..plan() }).iter().map(|manifest| manifest.kind).collect();
    assert_eq!(kinds, ["ServiceAccount", "ConfigMap", "Deployment"]);
}

#[test]
fn a_number_in_tcp_and_in_udp_is_two_ports_of_the_service() {
    let udp = |name: &str| Port { transport: Transport::Udp, ..port(name, 53) };
    let ports = |ports| object(&Plan { ports, ..plan() }, "Service")["spec"]["ports"].clone();
    assert_eq!(
        ports(vec![port("dns", 53), udp("dns-udp")]),
        json!([
            {"name": "dns", "port": 53, "targetPort": 10_053, "protocol": "TCP"},
            {"name": "dns-udp", "port": 53, "targetPort": 10_053, "protocol": "UDP"},
        ])
    );
    let names = ports(vec![port("a.b", 53), udp("c.d")]);
    assert_eq!([&names[0]["name"], &names[1]["name"]], ["port-53", "port-53-udp"]);
}

#[test]
fn ports_whose_names_kubernetes_does_not_take_are_called_by_number() {
    let ports = vec![port("a.b", 80), port("x", 81), port("x", 82), port(&"y".repeat(64), 83)];
    let ports = object(&Plan { ports, ..plan() }, "Service")["spec"]["ports"].clone();
    let names: Vec<_> = ports.as_array().expect("a list").iter().map(|port| port["name"].clone()).collect();
    assert_eq!(names, ["port-80", "x", "port-82", "port-83"]);
}

#[test]
fn nothing_is_rendered_for_proxies_that_somebody_else_runs() {
    assert_eq!(rendered(&Plan { parameters: parameters("selfManaged: {}"), ..plan() }), []);
}

#[test]
fn pods_are_replaced_for_another_bootstrap_and_not_for_another_port_or_certificate() {
    let template = |plan: &Plan| object(plan, "Deployment")["spec"]["template"].clone();
    let before = template(&plan());
    assert_ne!(template(&Plan { bootstrap: r#"{"admin":{"x":1}}"#.into(), ..plan() }), before);
    assert_eq!(template(&Plan { trust_bundle: Some("another".into()), ..plan() }), before);
    assert_eq!(template(&Plan { ports: vec![port("new", 8080)], ..plan() }), before);
}

#[test]
fn selectors_depend_on_nothing_but_gateway_and_class() {
    let selectors = |plan: &Plan| {
        (object(plan, "Deployment")["spec"]["selector"].clone(), object(plan, "Service")["spec"]["selector"].clone())
    };
    let changed = Plan {
        parameters: trusted(include_str!("golden/everything-parameters.yaml"), Trust::Unrestricted),
        labels: vec![("app.kubernetes.io/name".into(), "x".into())],
        bootstrap: "{}".into(),
        ports: vec![port("new", 1)],
        ..plan()
    };
    assert_eq!(selectors(&changed), selectors(&plan()));
}

#[test]
fn a_limit_below_the_default_request_lowers_it_and_a_request_above_the_default_limit_lifts_it() {
    let resources = |text: &str| {
        let parameters = parameters(&format!("kube: {{envoyContainer: {{resources: {text}}}}}"));
        pod(&Plan { parameters, ..plan() })["containers"][0]["resources"].clone()
    };
    let expected = json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}});
    assert_eq!(resources("{limits: {memory: 64Mi}}"), expected);
    let expected = json!({"requests": {"cpu": "100m", "memory": "2Gi"}, "limits": {}});
    assert_eq!(resources("{requests: {memory: 2Gi}}"), expected);
}

#[test]
fn replicas_beside_an_autoscaler_are_its_minimum() {
    let parameters = parameters("kube: {deployment: {replicas: 2}, horizontalPodAutoscaler: {spec: {maxReplicas: 5}}}");
    let plan = Plan { parameters, ..plan() };
    assert_eq!(object(&plan, "Deployment")["spec"].get("replicas"), None);
    assert_eq!(object(&plan, "HorizontalPodAutoscaler")["spec"]["minReplicas"], 2);
}

#[test]
fn an_image_of_other_name_is_not_asked_for_our_digest() {
    let image = |text: &str, digest: &str| {
        let mut settings = Settings::default();
        settings.image.digest = digest.to_owned();
        let parameters = parameters(&format!("kube: {{envoyContainer: {{image: {text}}}}}"));
        let manifests = render(&Plan { parameters, ..plan() }, &settings).expect("good plan");
        manifests[2].object["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    };
    assert_eq!(image("{}", "sha256:ab"), "docker.io/envoyproxy/envoy:distroless-v1.40.0@sha256:ab");
    assert_eq!(image("{tag: v1}", "sha256:ab"), "docker.io/envoyproxy/envoy:v1");
    let digest = format!("sha256:{}", "0".repeat(64));
    assert_eq!(image(&format!("{{digest: {digest:?}}}"), ""), format!("docker.io/envoyproxy/envoy@{digest}"));
    assert_eq!(image("{registry: '', repository: local/envoy, tag: dev}", ""), "local/envoy:dev");
}

#[test]
fn the_security_context_is_extended_and_left_out_where_asked() {
    let contexts = |text: &str| {
        let pod = pod(&Plan { parameters: trusted(text, Trust::Unrestricted), ..plan() });
        (pod["securityContext"].clone(), pod["containers"][0]["securityContext"].clone())
    };
    let (of_pod, of_container) = contexts(
        "kube: {envoyContainer: {securityContext: {runAsUser: 5}}, podTemplate: {securityContext: {fsGroup: 6}}}",
    );
    assert_eq!((&of_pod["fsGroup"], &of_pod["runAsNonRoot"]), (&json!(6), &json!(true)));
    assert_eq!((&of_container["runAsUser"], &of_container["readOnlyRootFilesystem"]), (&json!(5), &json!(true)));
    assert_eq!(contexts("kube: {omitDefaultSecurityContext: true}"), (Value::Null, Value::Null));
}

#[test]
fn what_extra_arguments_say_is_not_said_twice() {
    let text = "kube: {envoyContainer: {extraArgs: [--log-level, debug, --drain-time-s=5, --concurrency, '2']}}";
    let plan = Plan { parameters: parameters(text), ..plan() };
    let arguments = pod(&plan)["containers"][0]["args"].clone();
    let count = |flag: &str| {
        arguments.as_array().expect("a list").iter().filter(|a| a.as_str().is_some_and(|a| a.starts_with(flag))).count()
    };
    assert_eq!((count("--log-level"), count("--drain-time-s"), count("--config-path")), (1, 1, 1));
    let plan = Plan { parameters: parameters("kube: {envoyContainer: {extraArgs: [-l, debug]}}"), ..plan };
    let arguments = pod(&plan)["containers"][0]["args"].to_string();
    assert!(!arguments.contains("--log-level"), "{arguments}");
}

#[test]
fn a_proxy_logs_no_tokens_of_logins_unless_somebody_asks_for_it() {
    let levels = |text: &str| {
        let pod = pod(&Plan { parameters: parameters(text), ..plan() });
        let arguments = pod["containers"][0]["args"].as_array().cloned().expect("a list");
        let flag = arguments.iter().position(|argument| argument == "--component-log-level").expect("it is said");
        arguments[flag + 1].clone()
    };
    assert_eq!(levels("kube: {}"), "oauth2:critical");
    assert_eq!(levels("kube: {envoyContainer: {bootstrap: {logLevel: debug}}}"), "oauth2:critical");
    let asked = "kube: {envoyContainer: {bootstrap: {componentLogLevels: {http2: trace, oauth2: info}}}}";
    assert_eq!(levels(asked), "http2:trace,oauth2:info");
}

#[test]
fn no_drain_means_no_hook_and_no_configuration_for_it() {
    let plan = Plan { parameters: parameters("kube: {podTemplate: {gracefulShutdown: {enabled: false}}}"), ..plan() };
    assert_eq!(pod(&plan)["containers"][0].get("lifecycle"), None);
    assert_eq!(pod(&plan)["terminationGracePeriodSeconds"], 20);
    assert_eq!(object(&plan, "ConfigMap")["data"].get(DRAIN_FILE), None);
}

#[test]
fn the_time_to_end_covers_the_time_to_drain() {
    let plan_of = |text: &str| Plan { parameters: parameters(&format!("kube: {{podTemplate: {text}}}")), ..plan() };
    let longer = plan_of("{gracefulShutdown: {sleepTimeSeconds: 100}}");
    assert_eq!(pod(&longer)["terminationGracePeriodSeconds"], 122);
    let given = plan_of("{terminationGracePeriodSeconds: 12}");
    assert_eq!(pod(&given)["terminationGracePeriodSeconds"], 12);
    let (about, text) = fault(&plan_of("{terminationGracePeriodSeconds: 11}"));
    assert_eq!(about, About::GatewayParameters);
    assert!(text.starts_with("spec.kube.podTemplate.terminationGracePeriodSeconds: 11 s are too few"), "{text}");
}

#[test]
fn what_the_bootstrap_must_have_for_parameters_is_added_to_it() {
    let text = "
kube:
  stats: {matcher: {inclusionList: [{prefix: http., ignoreCase: true}, {exact: a}]}}
  envoyContainer:
    bootstrap: {dnsResolver: {udpMaxQueries: 7}, logFormat: {json: {a: '%v'}}}
";
    let bootstrap = r#"{"admin": {"a": 1}, "stats_config": {"use_all_default_tags": true}}"#.into();
    let plan = Plan { parameters: parameters(text), bootstrap, ..plan() };
    let config_map = object(&plan, "ConfigMap");
    let bootstrap = config_map["data"][BOOTSTRAP_FILE].as_str().expect("text");
    let bootstrap: Value = serde_json::from_str(bootstrap).expect("JSON");
    check_of(
        &bootstrap,
        &expect![[r#"
        admin:
          a: 1
        application_log_config:
          log_format:
            json_format:
              a: "%v"
        stats_config:
          stats_matcher:
            inclusion_list:
              patterns:
              - ignore_case: true
                prefix: http.
              - exact: a
          use_all_default_tags: true
        typed_dns_resolver_config:
          name: envoy.network.dns_resolver.cares
          typed_config:
            "@type": >-
              type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig
            udp_max_queries: 7
    "#]],
    );
}

#[test]
fn a_text_format_of_logs_is_added_to_the_bootstrap() {
    let text = "kube: {envoyContainer: {bootstrap: {logFormat: {text: '[%l] %v'}}}}";
    let config_map = object(&Plan { parameters: parameters(text), ..plan() }, "ConfigMap");
    let expected = r#"{"admin":{},"application_log_config":{"log_format":{"text_format":"[%l] %v"}}}"#;
    assert_eq!(config_map["data"][BOOTSTRAP_FILE], expected);
}

#[test]
fn what_overlays_must_not_touch_is_reported_on_them() {
    let cases = [
        ("deploymentOverlay: {spec: {selector: {matchLabels: {a: b}}}}", "spec.kube.deploymentOverlay.spec.selector: "),
        (
            "deploymentOverlay: {spec: {template: {metadata: {labels: {gateway.networking.k8s.io/gateway-name: x}}}}}",
            "spec.kube.deploymentOverlay.spec.template.metadata.labels: ",
        ),
        (
            "deploymentOverlay: {metadata: {labels: {app.kubernetes.io/managed-by: null}}}",
            "spec.kube.deploymentOverlay.metadata.labels: ",
        ),
        (
            "deploymentOverlay: {spec: {template: {spec: {containers: [{name: envoy, $patch: delete}]}}}}",
            "spec.kube.deploymentOverlay.spec.template.spec.containers: ",
        ),
        (
            "deploymentOverlay: {spec: {template: {spec: {containers: [{image: x}]}}}}",
            "spec.kube.deploymentOverlay.spec.template.spec.containers[0]: needs name",
        ),
        (
            "deploymentOverlay: {spec: {template: {spec: {containers: [{name: envoy, ports: [{containerPort: x}]}]}}}}",
            "spec.kube.deploymentOverlay.spec.template.spec.containers[0].ports[1].containerPort: ",
        ),
        ("serviceOverlay: {spec: {selector: {a: b}}}", "spec.kube.serviceOverlay.spec.selector: "),
        ("serviceOverlay: {spec: {ports: [{$patch: replace}]}}", "spec.kube.serviceOverlay.spec.ports: "),
        ("horizontalPodAutoscaler: {}", "spec.kube.horizontalPodAutoscaler.spec.maxReplicas: "),
        (
            "horizontalPodAutoscaler: {spec: {maxReplicas: 1, minReplicas: 2}}",
            "spec.kube.horizontalPodAutoscaler.spec.minReplicas: ",
        ),
        (
            "horizontalPodAutoscaler: {spec: {maxReplicas: 1, scaleTargetRef: {name: x}}}",
            "spec.kube.horizontalPodAutoscaler.spec.scaleTargetRef: ",
        ),
        ("verticalPodAutoscaler: {spec: {targetRef: {name: x}}}", "spec.kube.verticalPodAutoscaler.spec.targetRef: "),
        (
            "podDisruptionBudget: {spec: {minAvailable: 1, maxUnavailable: 1}}",
            "spec.kube.podDisruptionBudget.spec.maxUnavailable: ",
        ),
    ];
    for (text, expected) in cases {
        let parameters =
            Parameters::read(Some(&yaml(&format!("kube: {{{text}}}"))), None, Trust::default()).expect("good shape");
        let (about, found) = fault(&Plan { parameters, ..plan() });
        assert!(about == About::ClassParameters && found.starts_with(expected), "{text}: {found}");
    }
}

#[test]
fn volumes_that_clash_or_are_missing_are_reported() {
    let cases = [
        (
            "podTemplate: {extraVolumes: [{name: config, emptyDir: {}}]}",
            "podTemplate.extraVolumes: \"config\" is a volume",
        ),
        ("envoyContainer: {extraVolumeMounts: [{name: x, mountPath: /x}]}", "there is no volume \"x\""),
        (
            "envoyContainer: {extraVolumeMounts: [{name: config, mountPath: /etc/portcullis}]}",
            "\"/etc/portcullis\" is taken",
        ),
    ];
    for (text, expected) in cases {
        let (_, found) = fault(&Plan { parameters: parameters(&format!("kube: {{{text}}}")), ..plan() });
        assert!(found.contains(expected), "{text}: {found}");
    }
    // A volume that an overlay brings is one.
    let text = "
kube:
  envoyContainer: {extraVolumeMounts: [{name: x, mountPath: /x}]}
  deploymentOverlay: {spec: {template: {spec: {volumes: [{name: x, emptyDir: {}}]}}}}
";
    rendered(&Plan { parameters: parameters(text), ..plan() });
}

#[test]
fn equal_plans_give_equal_manifests() {
    let parameters = trusted(include_str!("golden/everything-parameters.yaml"), Trust::Unrestricted);
    let plan = Plan { parameters, ..plan() };
    assert_eq!(rendered(&plan), rendered(&plan.clone()));
}
