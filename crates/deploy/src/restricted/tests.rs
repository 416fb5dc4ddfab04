//! Each door, by each of what is not allowed.

use ir::{NsName, backend::Transport, settings::Trust};
use serde_json::Value;

use crate::{About, Fault, Manifest, Parameters, Plan, Port, Settings, render};

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("YAML")
}

fn plan(parameters: Parameters) -> Plan {
    Plan {
        gateway: NsName::new("shop", "web"),
        uid: "u".into(),
        class: "portcullis".into(),
        ports: vec![Port { name: "http".into(), port: 80, target: 10_080, transport: Transport::Tcp, optional: false }],
        labels: Vec::new(),
        annotations: Vec::new(),
        addresses: Vec::new(),
        parameters,
        bootstrap: r#"{"admin":{}}"#.into(),
        files: Vec::new(),
        trust_bundle: None,
    }
}

fn read(of_class: Option<&str>, of_gateway: Option<&str>, trust: Trust) -> Result<Vec<Manifest>, Fault> {
    let spec = |text: &str| yaml(&format!("kube: {text}"));
    let (of_class, of_gateway) = (of_class.map(spec), of_gateway.map(spec));
    let parameters = Parameters::read(of_class.as_ref(), of_gateway.as_ref(), trust)?;
    render(&plan(parameters), &Settings::default())
}

/// An overlay on the pod.
fn pod(spec: &str) -> String {
    format!("{{deploymentOverlay: {{spec: {{template: {{spec: {spec}}}}}}}}}")
}

/// An overlay on Envoy's container.
fn envoy(fields: &str) -> String {
    pod(&format!("{{containers: [{{name: envoy, {fields}}}]}}"))
}

/// What a side container needs, but for what `fields` says.
const SAFE: &str = "securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}";

/// What is not allowed, and the field below `spec.kube` that is told.
#[allow(clippy::too_many_lines, reason = "a list")]
fn refused() -> Vec<(String, String)> {
    const POD: &str = "deploymentOverlay.spec.template.spec";
    const ENVOY: &str = "deploymentOverlay.spec.template.spec.containers[name=\"envoy\"]";
    let mut cases = Vec::new();
    let mut case = |text: String, field: String| cases.push((text, field));
    // By the parameters themselves.
    for (text, field) in [
        (
            "podTemplate: {extraVolumes: [{name: a, hostPath: {path: /}}]}",
            "podTemplate.extraVolumes[name=\"a\"].hostPath",
        ),
        (
            "podTemplate: {extraVolumes: [{name: a, secret: {secretName: s}}]}",
            "podTemplate.extraVolumes[name=\"a\"].secret",
        ),
        ("podTemplate: {extraVolumes: [{name: a, csi: {driver: d}}]}", "podTemplate.extraVolumes[name=\"a\"].csi"),
        (
            "podTemplate: {extraVolumes: [{name: a, nfs: {path: /, server: s}}]}",
            "podTemplate.extraVolumes[name=\"a\"].nfs",
        ),
        (
            "podTemplate: {extraVolumes: [{name: a, projected: {sources: [{secret: {name: s}}]}}]}",
            "podTemplate.extraVolumes[name=\"a\"].projected.sources[0].secret",
        ),
        (
            "podTemplate: {extraVolumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}",
            "podTemplate.extraVolumes[name=\"a\"].projected.sources[0].serviceAccountToken",
        ),
        (
            "podTemplate: {extraVolumes: [{name: xds-token, secret: {secretName: s}}]}",
            "podTemplate.extraVolumes[name=\"xds-token\"].secret",
        ),
        ("podTemplate: {priorityClassName: system-node-critical}", "podTemplate.priorityClassName"),
        (
            "podTemplate: {extraVolumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {volumeName: v}}}}]}",
            "podTemplate.extraVolumes[name=\"a\"].ephemeral.volumeClaimTemplate.spec.volumeName",
        ),
        (
            "podTemplate: {extraVolumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: ''}}}}]}",
            "podTemplate.extraVolumes[name=\"a\"].ephemeral.volumeClaimTemplate.spec.storageClassName",
        ),
        ("podTemplate: {securityContext: {runAsUser: 0}}", "podTemplate.securityContext.runAsUser"),
        ("podTemplate: {securityContext: {runAsNonRoot: false}}", "podTemplate.securityContext.runAsNonRoot"),
        (
            "podTemplate: {securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}}",
            "podTemplate.securityContext.sysctls[name=\"kernel.msgmax\"].name",
        ),
        (
            "podTemplate: {securityContext: {seccompProfile: {type: Unconfined}}}",
            "podTemplate.securityContext.seccompProfile.type",
        ),
        (
            "podTemplate: {securityContext: {appArmorProfile: {type: Unconfined}}}",
            "podTemplate.securityContext.appArmorProfile.type",
        ),
        (
            "podTemplate: {securityContext: {seLinuxOptions: {type: spc_t}}}",
            "podTemplate.securityContext.seLinuxOptions.type",
        ),
        (
            "podTemplate: {securityContext: {windowsOptions: {hostProcess: true}}}",
            "podTemplate.securityContext.windowsOptions.hostProcess",
        ),
        (
            "podTemplate: {extraAnnotations: {container.apparmor.security.beta.kubernetes.io/envoy: unconfined}}",
            "podTemplate.extraAnnotations",
        ),
        (
            "podTemplate: {livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}}",
            "podTemplate.livenessProbe.httpGet.host",
        ),
        (
            "podTemplate: {readinessProbe: {tcpSocket: {host: 10.0.0.1, port: 80}}}",
            "podTemplate.readinessProbe.tcpSocket.host",
        ),
        (
            "envoyContainer: {env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}",
            "envoyContainer.env[name=\"A\"].valueFrom.secretKeyRef",
        ),
        ("envoyContainer: {securityContext: {privileged: true}}", "envoyContainer.securityContext.privileged"),
        ("envoyContainer: {securityContext: {runAsUser: 0}}", "envoyContainer.securityContext.runAsUser"),
        ("envoyContainer: {securityContext: {runAsNonRoot: false}}", "envoyContainer.securityContext.runAsNonRoot"),
        (
            "envoyContainer: {securityContext: {allowPrivilegeEscalation: true}}",
            "envoyContainer.securityContext.allowPrivilegeEscalation",
        ),
        (
            "envoyContainer: {securityContext: {capabilities: {drop: [ALL], add: [NET_ADMIN]}}}",
            "envoyContainer.securityContext.capabilities.add",
        ),
        ("envoyContainer: {securityContext: {capabilities: {}}}", "envoyContainer.securityContext.capabilities.drop"),
        ("envoyContainer: {securityContext: {procMount: Unmasked}}", "envoyContainer.securityContext.procMount"),
        ("omitDefaultSecurityContext: true", "envoyContainer.securityContext.allowPrivilegeEscalation"),
    ] {
        case(format!("{{{text}}}"), field.to_owned());
    }
    // By overlays on the pod.
    for (text, field) in [
        ("{hostNetwork: true}", "hostNetwork"),
        ("{hostPID: true}", "hostPID"),
        ("{nodeName: a}", "nodeName"),
        ("{priority: 5}", "priority"),
        ("{hostIPC: true}", "hostIPC"),
        ("{serviceAccountName: admin}", "serviceAccountName"),
        ("{serviceAccountName: null}", "serviceAccountName"),
        ("{serviceAccount: admin}", "serviceAccount"),
        ("{automountServiceAccountToken: true}", "automountServiceAccountToken"),
        ("{automountServiceAccountToken: null}", "automountServiceAccountToken"),
        ("{aFieldOfTomorrow: true}", "aFieldOfTomorrow"),
        ("{volumes: [{name: a, hostPath: {path: /}}]}", "volumes[name=\"a\"].hostPath"),
        ("{volumes: [{name: a, secret: {secretName: s}}]}", "volumes[name=\"a\"].secret"),
        ("{volumes: [{name: a, secret: {}}]}", "volumes[name=\"a\"].secret"),
        ("{volumes: [{name: config, configMap: null, hostPath: {path: /}}]}", "volumes[name=\"config\"].hostPath"),
        (
            "{volumes: [{name: xds-token, projected: {sources: [{serviceAccountToken: {path: token}}]}}]}",
            "volumes[name=\"xds-token\"].projected.sources[0].serviceAccountToken",
        ),
        ("{securityContext: {$patch: replace}}", "containers[name=\"envoy\"].securityContext.runAsNonRoot"),
        ("{securityContext: {seccompProfile: null}}", "containers[name=\"envoy\"].securityContext.seccompProfile.type"),
        ("{securityContext: {runAsUser: 0}}", "securityContext.runAsUser"),
        ("{ephemeralContainers: [{name: a, image: b}]}", "ephemeralContainers"),
        (
            "{containers: [{name: side, image: a}]}",
            "containers[name=\"side\"].securityContext.allowPrivilegeEscalation",
        ),
        (
            "{initContainers: [{name: side, image: a}]}",
            "initContainers[name=\"side\"].securityContext.allowPrivilegeEscalation",
        ),
    ] {
        case(pod(text), format!("{POD}.{field}"));
    }
    for (fields, field) in [
        ("envFrom: [{secretRef: {name: s}}]", "envFrom[0].secretRef"),
        ("env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]", "env[name=\"A\"].valueFrom.secretKeyRef"),
        (
            "env: [{name: POD_NAME, valueFrom: {aSourceOfTomorrow: {a: b}}}]",
            "env[name=\"POD_NAME\"].valueFrom.aSourceOfTomorrow",
        ),
        ("ports: [{containerPort: 80, hostPort: 80}]", "ports[1].hostPort"),
        ("lifecycle: {postStart: {httpGet: {host: 10.0.0.1, port: 80}}}", "lifecycle.postStart.httpGet.host"),
        ("securityContext: {privileged: true}", "securityContext.privileged"),
        ("securityContext: {aFieldOfTomorrow: true}", "securityContext.aFieldOfTomorrow"),
        ("aFieldOfTomorrow: {a: b}", "aFieldOfTomorrow"),
        ("volumeDevices: [{name: a, devicePath: /dev/a}]", "volumeDevices"),
    ] {
        case(envoy(fields), format!("{ENVOY}.{field}"));
    }
    for (context, field) in [
        ("{privileged: true}", "privileged"),
        ("{allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [SYS_ADMIN]}}", "capabilities.add"),
        ("{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, runAsUser: 0}", "runAsUser"),
        ("{allowPrivilegeEscalation: false, capabilities: {drop: [KILL]}}", "capabilities.drop"),
    ] {
        let side = pod(&format!("{{containers: [{{name: side, image: a, securityContext: {context}}}]}}"));
        case(side, format!("{POD}.containers[name=\"side\"].securityContext.{field}"));
    }
    // By overlays on the Service.
    for (text, field) in [
        ("{externalIPs: [192.0.2.9]}", "externalIPs"),
        ("{type: ExternalName, externalName: a.example}", "externalName"),
        ("{type: ExternalName}", "type"),
        ("{loadBalancerIP: 192.0.2.9}", "loadBalancerIP"),
        ("{aFieldOfTomorrow: [a]}", "aFieldOfTomorrow"),
    ] {
        case(format!("{{serviceOverlay: {{spec: {text}}}}}"), format!("serviceOverlay.spec.{field}"));
    }
    cases
}

#[test]
fn what_is_not_a_tenant_s_is_refused_by_whichever_door_it_comes_and_reported_with_field_and_remedy() {
    for (text, field) in refused() {
        let by_gateway = read(None, Some(&text), Trust::Restricted).expect_err(&text);
        assert_eq!(
            (by_gateway.about, &*by_gateway.field),
            (About::GatewayParameters, &*format!("spec.kube.{field}")),
            "{text}"
        );
        assert!(by_gateway.message.contains("gatewayParameters.trust"), "{by_gateway}");
        assert!(by_gateway.message.contains("; remove it") || by_gateway.message.contains("; set it"), "{by_gateway}");
        // Whoever else says something, it is told to whose word it is.
        let beside = "{deployment: {replicas: 2}}";
        let by_class = read(Some(&text), Some(beside), Trust::Restricted).expect_err(&text);
        assert_eq!((by_class.about, by_class.field), (About::ClassParameters, by_gateway.field.clone()), "{text}");
        let by_gateway = read(Some(beside), Some(&text), Trust::Restricted).expect_err(&text);
        assert_eq!(by_gateway.about, About::GatewayParameters, "{text}");
    }
}

#[test]
fn whoever_trusts_parameters_has_none_of_it_refused() {
    for (text, _) in refused() {
        let judged =
            |trusted: Result<_, Fault>| trusted.err().filter(|fault| fault.message.contains("gatewayParameters"));
        assert_eq!(judged(read(None, Some(&text), Trust::Unrestricted)), None, "{text}");
        assert_eq!(judged(read(Some(&text), Some("{deployment: {replicas: 2}}"), Trust::ClassOnly)), None, "{text}");
    }
}

#[test]
fn where_the_class_alone_is_trusted_a_gateway_says_nothing_of_pods_images_and_overlays() {
    for (text, field) in [
        ("{envoyContainer: {image: {tag: mine}}}", "envoyContainer"),
        ("{envoyContainer: {env: [{name: A, value: b}]}}", "envoyContainer"),
        ("{podTemplate: {tolerations: [{key: a}]}}", "podTemplate"),
        ("{omitDefaultSecurityContext: true}", "omitDefaultSecurityContext"),
        ("{deploymentOverlay: {metadata: {labels: {a: b}}}}", "deploymentOverlay"),
        ("{serviceOverlay: {spec: {sessionAffinity: ClientIP}}}", "serviceOverlay"),
        ("{serviceAccountOverlay: {metadata: {labels: {a: b}}}}", "serviceAccountOverlay"),
    ] {
        let fault = read(None, Some(text), Trust::ClassOnly).expect_err(text);
        assert_eq!((fault.about, fault.field), (About::GatewayParameters, format!("spec.kube.{field}")), "{text}");
        read(Some(text), None, Trust::ClassOnly).expect("the class may");
        if field != "omitDefaultSecurityContext" {
            read(None, Some(text), Trust::Restricted).expect("it is harmless");
        }
    }
    let rest = "{deployment: {replicas: 2}, service: {type: NodePort}, serviceAccount: {extraLabels: {a: b}}, stats: {enabled: \
                false}, horizontalPodAutoscaler: {spec: {maxReplicas: 3}}, podDisruptionBudget: {}, verticalPodAutoscaler: {}, \
                podTemplate: null}";
    read(None, Some(rest), Trust::ClassOnly).expect("these are a Gateway's");
}

#[test]
fn all_else_of_the_schema_stays() {
    let side = format!(
        "{{volumes: [{{name: cache, emptyDir: {{}}}}], hostAliases: [{{ip: 192.0.2.1, hostnames: [a]}}], \
         containers: [{{name: side, image: a, command: [b], volumeMounts: [{{name: cache, mountPath: /c}}], {SAFE}}}]}}"
    );
    for text in [
        "{podTemplate: {imagePullSecrets: [{name: pull}]}}",
        "{podTemplate: {extraVolumes: [{name: a, configMap: {name: c}}, {name: b, emptyDir: {}}, {name: c, \
         persistentVolumeClaim: {claimName: c}}, {name: d, projected: {sources: [{configMap: {name: c}}]}}]}}",
        "{podTemplate: {securityContext: {fsGroup: 5, runAsUser: 7, sysctls: [{name: net.ipv4.tcp_syncookies, value: '1'}]}}}",
        "{podTemplate: {priorityClassName: high, tolerations: [{operator: Exists}], nodeSelector: {a: b}}}",
        "{envoyContainer: {image: {registry: r.example, repository: e, tag: t}, extraArgs: [--concurrency, '2']}}",
        "{envoyContainer: {env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k}}}]}}",
        "{envoyContainer: {securityContext: {readOnlyRootFilesystem: false, runAsUser: 5}}}",
        // Who gives the whole context anew, as OpenShift wants it, without users.
        "{omitDefaultSecurityContext: true, podTemplate: {securityContext: {runAsNonRoot: true, seccompProfile: {type: \
         RuntimeDefault}}}, envoyContainer: {securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}}",
        "{service: {type: NodePort, ports: [{port: 80, nodePort: 30080}]}}",
        "{service: {clusterIP: 10.0.0.7, loadBalancerClass: a.b/c, loadBalancerSourceRanges: [192.0.2.0/24]}}",
        "{serviceOverlay: {spec: {sessionAffinity: ClientIP, ipFamilyPolicy: PreferDualStack, externalIPs: []}}}",
        "{deploymentOverlay: {spec: {revisionHistoryLimit: 2, template: {spec: {hostNetwork: false}}}}}",
        "{deploymentOverlay: {spec: {template: {spec: {volumes: [{name: xds-token, projected: {defaultMode: 256}}]}}}}}",
        &pod(&side),
    ] {
        read(None, Some(text), Trust::Restricted).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    }
}

#[test]
fn an_address_that_the_gateway_asks_for_and_an_annotation_of_its_own_are_judged_too() {
    let gateway = Plan { addresses: vec!["192.0.2.1".parse().expect("an address")], ..plan(Parameters::default()) };
    render(&gateway, &Settings::default()).expect("it is asked for where that belongs");
    let key = "container.apparmor.security.beta.kubernetes.io/envoy";
    let gateway = Plan { annotations: vec![(key.into(), "unconfined".into())], ..gateway };
    let fault = render(&gateway, &Settings::default()).expect_err("it is let out");
    assert_eq!((fault.about, &*fault.field), (About::Gateway, "spec.infrastructure.annotations"));
}
