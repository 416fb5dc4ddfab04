use serde_json::Value;

use super::*;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

fn read(class: &str, gateway: &str) -> Parameters {
    Parameters::read(Some(&yaml(class)), Some(&yaml(gateway)), Trust::default()).expect("good parameters")
}

fn fault(text: &str) -> String {
    let fault = Parameters::read(None, Some(&yaml(text)), Trust::default()).expect_err("a fault");
    assert_eq!(fault.about, About::GatewayParameters, "{fault}");
    fault.to_string()
}

#[test]
fn maps_are_merged_deeply_and_the_gateway_wins() {
    let merged = read(
        "kube: {deployment: {replicas: 2}, service: {type: NodePort, extraLabels: {a: class, b: class}}}",
        "kube: {service: {extraLabels: {b: gateway}}, podTemplate: {priorityClassName: high}}",
    );
    assert_eq!(merged.kube.deployment.replicas, Some(2));
    assert_eq!(merged.kube.service.r#type.as_deref(), Some("NodePort"));
    assert_eq!(
        merged.kube.service.extra_labels,
        [("a", "class"), ("b", "gateway")].map(|(k, v)| (k.into(), v.into())).into()
    );
    assert_eq!(merged.kube.pod_template.priority_class_name.as_deref(), Some("high"));
}

#[test]
fn lists_are_joined_by_name_and_an_empty_one_empties() {
    let class = "kube: {envoyContainer: {env: [{name: A, value: c}, {name: B, value: c}], extraArgs: [-l, info]}, \
                 podTemplate: {tolerations: [{key: a}], imagePullSecrets: [{name: a}]}}";
    let merged = read(
        class,
        "kube: {envoyContainer: {env: [{name: A, value: g}], extraArgs: [-l, debug]}, \
         podTemplate: {tolerations: [{key: a}, {key: b}], imagePullSecrets: []}}",
    );
    let container = &merged.kube.envoy_container;
    let env: Vec<_> = container.env.iter().map(|env| (env["name"].as_str(), env["value"].as_str())).collect();
    assert_eq!(env, [(Some("B"), Some("c")), (Some("A"), Some("g"))]);
    assert_eq!(container.extra_args, ["-l", "debug"]);
    assert_eq!(merged.kube.pod_template.tolerations.len(), 2);
    assert!(merged.kube.pod_template.image_pull_secrets.is_empty());
}

#[test]
fn of_fields_that_exclude_each_other_the_gateway_s_remains() {
    let merged = read(
        "kube: {podTemplate: {readinessProbe: {exec: {command: [a]}, periodSeconds: 7}}, \
         envoyContainer: {bootstrap: {logFormat: {text: a}}, image: {digest: 'sha256:00000000000000000000000000000000'}}, \
         stats: {matcher: {inclusionList: [{exact: a}]}}, deployment: {strategy: {rollingUpdate: {maxSurge: 2}}}}",
        "kube: {podTemplate: {readinessProbe: {tcpSocket: {port: 1}}}, \
         envoyContainer: {bootstrap: {logFormat: {json: {a: b}}}, image: {tag: v2}}, \
         stats: {matcher: {exclusionList: [{exact: a}]}}, deployment: {strategy: {type: Recreate}}}",
    );
    let probe = merged.kube.pod_template.readiness_probe.expect("a probe");
    assert_eq!(*probe, serde_json::json!({"tcpSocket": {"port": 1}, "periodSeconds": 7}));
    assert_eq!(merged.kube.envoy_container.image.digest, None);
    assert!(merged.kube.envoy_container.bootstrap.log_format.is_some_and(|format| format.text.is_none()));
    assert!(merged.kube.stats.matcher.is_some_and(|matcher| matcher.inclusion_list.is_none()));
}

#[test]
fn self_managed_of_the_gateway_makes_nothing_of_the_class_s_and_the_other_way_round() {
    assert!(read("kube: {deployment: {replicas: 2}}", "selfManaged: {}").self_managed());
    let merged = read("selfManaged: {}", "kube: {deployment: {replicas: 2}}");
    assert!(!merged.self_managed());
    assert_eq!(merged.kube.deployment.replicas, Some(2));
    assert!(fault("{kube: {}, selfManaged: {}}").starts_with("spec.selfManaged: cannot stand beside kube"));
    assert!(fault("{}").starts_with("spec: needs kube or selfManaged"));
}

#[test]
fn without_any_all_is_as_by_default() {
    let none = Parameters::read(None, None, Trust::default()).expect("nothing is wrong");
    assert_eq!(none, Parameters::default());
    assert!(none.stats() && !none.self_managed());
}

#[test]
fn null_says_nothing() {
    let null = "kube: {deployment: null, service: {type: null}, deploymentOverlay: null, envoyContainer: {env: null}}";
    let parameters = Parameters::read(None, Some(&yaml(null)), Trust::default()).expect("good parameters");
    assert_eq!(parameters.kube, Kube::default());
    assert_eq!(parameters.overlays, []);
}

#[test]
fn a_fault_is_reported_to_whose_word_it_is() {
    let (good, bad) = (yaml("kube: {}"), yaml("kube: {service: {type: ExternalName}}"));
    let about = |class: &Value, gateway: &Value| {
        Parameters::read(Some(class), Some(gateway), Trust::default()).expect_err("a fault").about
    };
    assert_eq!(about(&bad, &good), About::ClassParameters);
    assert_eq!(about(&good, &bad), About::GatewayParameters);
    // Each is good, and together they are not: the Gateway's word is what does not fit.
    let class = yaml("kube: {service: {type: ClusterIP}}");
    let gateway = yaml("kube: {service: {loadBalancerClass: a.b/c}}");
    assert_eq!(about(&class, &gateway), About::GatewayParameters);
}

#[test]
fn what_is_not_honoured_is_reported_with_the_field() {
    for (text, expected) in [
        ("istio: {}", "istio: is not supported"),
        ("sdsContainer: {}", "sdsContainer: is not supported"),
        ("stats: {enableStatsRoute: true}", "stats.enableStatsRoute: is not supported"),
        ("stats: {routePrefixRewrite: /a}", "stats.routePrefixRewrite: is not supported"),
        ("stats: {statsRoutePrefixRewrite: /a}", "stats.statsRoutePrefixRewrite: is not supported"),
        ("stats: {matcher: {inclusionList: [{safeRegex: a}]}}", "stats.matcher.inclusionList[0].safeRegex: is not"),
        (
            "envoyContainer: {bootstrap: {enableReadinessProbeProxyProtocol: true}}",
            "envoyContainer.bootstrap.enableReadinessProbeProxyProtocol: is not supported",
        ),
        ("newer: {}", "newer: is not known"),
        ("service: {newer: 1}", "service.newer: is not known"),
        ("deploymentOverlay: {newer: 1}", "deploymentOverlay.newer: is not known"),
        ("deploymentOverlay: {metadata: {name: a}}", "deploymentOverlay.metadata.name: is not known"),
        ("serviceAccountOverlay: {spec: {a: b}}", "serviceAccountOverlay.spec: is nothing"),
    ] {
        let found = fault(&format!("kube: {{{text}}}"));
        assert!(found.starts_with(&format!("spec.kube.{expected}")), "{text}: {found}");
    }
}

#[test]
fn what_the_api_server_would_refuse_is_reported_with_the_field() {
    for (text, expected) in [
        ("deployment: {replicas: -1}", "deployment.replicas: must be a number between"),
        ("deployment: {replicas: 3000000000}", "deployment.replicas: is too large"),
        ("deployment: {replicas: two}", "deployment.replicas: must be"),
        ("deployment: {strategy: {type: Rolling}}", "deployment.strategy.type: \"Rolling\" is no strategy"),
        (
            "deployment: {strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}",
            "deployment.strategy.rollingUpdate: ",
        ),
        ("deployment: {strategy: {rollingUpdate: {maxSurge: 0}}}", "deployment.strategy.rollingUpdate: maxSurge and"),
        ("deployment: {strategy: {rollingUpdate: {maxSurge: -1}}}", "deployment.strategy.rollingUpdate.maxSurge: must"),
        ("deployment: {strategy: {rollingUpdate: {maxSurge: a%}}}", "deployment.strategy.rollingUpdate.maxSurge: must"),
        (
            "deployment: {strategy: {rollingUpdate: {maxUnavailable: 101%}}}",
            "deployment.strategy.rollingUpdate.maxUnavailable: cannot",
        ),
        ("envoyContainer: {env: [{name: 'a=b'}]}", "envoyContainer.env[0].name: is no name"),
        ("envoyContainer: {env: [{name: A}, {name: A}]}", "envoyContainer.env[1]: \"A\" stands here twice"),
        ("envoyContainer: {env: [{name: POD_NAME}]}", "envoyContainer.env[0].name: POD_NAME is set by"),
        ("envoyContainer: {env: [{name: 1}]}", "envoyContainer.env[0]: name: must be"),
        ("envoyContainer: {env: [{name: A, value: a, valueFrom: {}}]}", "envoyContainer.env[0]: has both"),
        ("envoyContainer: {extraArgs: [-c, x]}", "envoyContainer.extraArgs[0]: -c is set by"),
        ("envoyContainer: {extraVolumeMounts: [{name: a}]}", "envoyContainer.extraVolumeMounts[0].mountPath: must"),
        ("envoyContainer: {image: {tag: 'a b'}}", "envoyContainer.image.tag: \"a b\" cannot"),
        ("envoyContainer: {image: {digest: abc}}", "envoyContainer.image.digest: \"abc\" is no digest"),
        ("envoyContainer: {image: {pullPolicy: Sometimes}}", "envoyContainer.image.pullPolicy: \"Sometimes\""),
        ("envoyContainer: {resources: {limits: {cpu: lots}}}", "envoyContainer.resources.limits.cpu: \"lots\" is no"),
        ("envoyContainer: {resources: {limits: {cpu: -1}}}", "envoyContainer.resources.limits.cpu: -1 is no"),
        (
            "envoyContainer: {resources: {limits: {cpu: 1}, requests: {cpu: 1001m}}}",
            "envoyContainer.resources.requests.cpu",
        ),
        ("envoyContainer: {securityContext: {runAsUser: root}}", "envoyContainer.securityContext: runAsUser: must be"),
        (
            "envoyContainer: {bootstrap: {logLevel: loud}}",
            "envoyContainer.bootstrap.logLevel: \"loud\" is no log level",
        ),
        ("envoyContainer: {bootstrap: {componentLogLevels: {'a,b': info}}}", "envoyContainer.bootstrap.componentLog"),
        ("envoyContainer: {bootstrap: {logFormat: {}}}", "envoyContainer.bootstrap.logFormat: needs exactly one"),
        ("podTemplate: {extraLabels: {'a b': c}}", "podTemplate.extraLabels: \"a b\" is no label key"),
        ("podTemplate: {extraLabels: {app.kubernetes.io/managed-by: x}}", "podTemplate.extraLabels: "),
        ("podTemplate: {extraAnnotations: {'a b': c}}", "podTemplate.extraAnnotations: \"a b\" is no annotation key"),
        ("podTemplate: {nodeSelector: {a: 'b c'}}", "podTemplate.nodeSelector: \"b c\" is no label value"),
        ("podTemplate: {priorityClassName: A}", "podTemplate.priorityClassName: \"A\" is no name"),
        ("podTemplate: {readinessProbe: {}}", "podTemplate.readinessProbe: needs exactly one"),
        (
            "podTemplate: {livenessProbe: {exec: {}, periodSeconds: -1}}",
            "podTemplate.livenessProbe.periodSeconds: cannot",
        ),
        (
            "podTemplate: {terminationGracePeriodSeconds: -1}",
            "podTemplate.terminationGracePeriodSeconds: must be a number between",
        ),
        ("podTemplate: {gracefulShutdown: {sleepTimeSeconds: -1}}", "podTemplate.gracefulShutdown.sleepTimeSeconds: "),
        ("podTemplate: {extraVolumes: [{name: A_}]}", "podTemplate.extraVolumes[0].name: is no name"),
        ("podTemplate: {extraVolumes: [{name: a, emptyDir: {}, secret: {}}]}", "podTemplate.extraVolumes[0]: has more"),
        ("podTemplate: {affinity: {nodeAffinity: []}}", "podTemplate.affinity: nodeAffinity: must be"),
        ("service: {type: ExternalName}", "service.type: \"ExternalName\" is not supported"),
        ("service: {type: NodePort, loadBalancerClass: a}", "service.loadBalancerClass: needs a Service of type"),
        ("service: {loadBalancerClass: 'a b'}", "service.loadBalancerClass: \"a b\" is no class"),
        (
            "service: {type: NodePort, loadBalancerSourceRanges: [10.0.0.0/8]}",
            "service.loadBalancerSourceRanges: needs",
        ),
        ("service: {loadBalancerSourceRanges: [10.0.0.0/33]}", "service.loadBalancerSourceRanges[0]: \"10.0.0.0/33\""),
        ("service: {type: ClusterIP, externalTrafficPolicy: Local}", "service.externalTrafficPolicy: needs"),
        ("service: {externalTrafficPolicy: Near}", "service.externalTrafficPolicy: \"Near\" is no policy"),
        ("service: {clusterIP: None}", "service.clusterIP: needs a Service of type ClusterIP"),
        ("service: {clusterIP: a}", "service.clusterIP: \"a\" is no IP address"),
        ("service: {ports: [{nodePort: 1}]}", "service.ports[0]: needs ports"),
        ("service: {ports: [{port: 70000}]}", "service.ports[0].port: must be a number between"),
        ("service: {ports: [{port: 1}, {port: 1}]}", "service.ports[1].port: 1 stands here twice"),
        ("service: {ports: [{port: 1, nodePort: 3}, {port: 2, nodePort: 3}]}", "service.ports[1].nodePort: 3 stands"),
        ("service: {type: ClusterIP, ports: [{port: 1, nodePort: 3}]}", "service.ports[0].nodePort: needs"),
        ("stats: {matcher: {}}", "stats.matcher: needs exactly one"),
        ("stats: {matcher: {inclusionList: [{}]}}", "stats.matcher.inclusionList[0]: needs exactly one"),
        ("deploymentOverlay: {metadata: {labels: {a: b c}}}", "deploymentOverlay.metadata.labels: \"b c\" is no label"),
        ("deploymentOverlay: {spec: []}", "deploymentOverlay.spec: must be an object"),
    ] {
        let found = fault(&format!("kube: {{{text}}}"));
        assert!(found.starts_with(&format!("spec.kube.{expected}")), "{text}: {found}");
    }
}

/// What the two documents can say and this version does not look at would be ignored: so each property of the CRD's
/// schema is decoded here with a value, and refused if nobody knows it.
#[test]
fn every_property_is_known() {
    let properties = "deployment deploymentOverlay envoyContainer horizontalPodAutoscaler istio omitDefaultSecurityContext \
                      podDisruptionBudget podTemplate sdsContainer service serviceAccount serviceAccountOverlay \
                      serviceOverlay stats verticalPodAutoscaler";
    for property in properties.split_whitespace() {
        let value = if property == "omitDefaultSecurityContext" { "true" } else { "{}" };
        let found = Parameters::read(None, Some(&yaml(&format!("kube: {{{property}: {value}}}"))), Trust::default());
        assert!(!found.is_err_and(|fault| fault.message.contains("is not known")), "{property}");
    }
}
