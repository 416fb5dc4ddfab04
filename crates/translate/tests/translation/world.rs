//! Worlds of objects, sound and broken, small enough that they meet.

mod listeners;

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof},
    sample::{Index, select},
    strategy::Union,
};
use serde_json::{Value, json};

use self::listeners::{at_set, listener, listener_set};
use worlds::{extension::extensions, units::each};

const NAMESPACES: [&str; 3] = ["infra", "apps", "other"];
const HOSTNAMES: [&str; 7] =
    ["", "example.com", "a.example.com", "*.example.com", "b.a.example.com", "*.a.example.com", "bad_host"];

/// An object of a world, with a kind and a name from a small pool, so that later ones replace earlier ones.
pub(crate) fn object() -> BoxedStrategy<Value> {
    prop_oneof![
        1 => class(),
        3 => gateway(),
        4 => listener_set(),
        8 => route(),
        3 => grpc_route(),
        4 => stream_route(),
        2 => service(),
        2 => slice(),
        1 => secret(),
        1 => grant(),
        1 => namespace(),
        2 => delegation_policy(),
        3 => policy(),
        1 => direct_response(),
        2 => extension(),
        1 => host(),
        2 => backend_tls_policy(),
        1 => backend_config_policy(),
        1 => authorities(),
    ]
    .boxed()
}

const API: &str = "gateway.networking.k8s.io";

/// What policies of connections target.
fn backends() -> impl Strategy<Value = Vec<Value>> {
    let service = (0..4_u8, option::of(select(&["http", "udp", ""][..]))).prop_map(
        |(name, section)| json!({"group": "", "kind": "Service", "name": format!("s{name}"), "sectionName": section}),
    );
    let host = (0..2_u8)
        .prop_map(|name| json!({"group": "gateway.kgateway.dev", "kind": "Backend", "name": format!("b{name}")}));
    vec(prop_oneof![3 => service, 1 => host], 1..3)
}

/// A Backend.
fn host() -> impl Strategy<Value = Value> {
    (0..2_u8, namespaces(), select(&["192.0.2.1", "host.example", "127.0.0.1"][..])).prop_map(
        |(name, namespace, host)| {
            json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "Backend",
            "metadata": {"name": format!("b{name}"), "namespace": namespace},
            "spec": {"static": {"hosts": [{"host": host, "port": 443}]}}})
        },
    )
}

/// A BackendTLSPolicy, sound or broken.
fn backend_tls_policy() -> impl Strategy<Value = Value> {
    let ca = |kind: &str, name: &str| json!({"caCertificateRefs": [{"group": "", "kind": kind, "name": name}]});
    let trust = vec![
        json!({"wellKnownCACertificates": "System"}),
        ca("ConfigMap", "ca"),
        ca("Secret", "cert"),
        json!({"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}, {"group": "", "kind": "ConfigMap", "name": "none"}]}),
        ca("Service", "ca"),
    ];
    let hostname = select(&["a.example", "10.0.0.1"][..]);
    (0..3_u8, namespaces(), backends(), select(trust), hostname, 0..10_i64).prop_map(
        |(name, namespace, targets, mut validation, hostname, created)| {
            validation["hostname"] = json!(hostname);
            json!({"apiVersion": format!("{API}/v1"), "kind": "BackendTLSPolicy",
                "metadata": {"name": format!("t{name}"), "namespace": namespace, "creationTimestamp": timestamp(created)},
                "spec": {"targetRefs": targets, "validation": validation}})
        },
    )
}

/// A BackendConfigPolicy, most of them with TLS.
fn backend_config_policy() -> impl Strategy<Value = Value> {
    let said = select(vec![
        json!({"tls": {"insecureSkipVerify": true}}),
        json!({"tls": {"secretRef": {"name": "cert"}}}),
        json!({"tls": {"secretRef": {"name": "cert"}, "simpleTLS": true}}),
        json!({"connectTimeout": "1s"}),
    ]);
    (0..2_u8, namespaces(), backends(), said).prop_map(|(name, namespace, mut targets, mut spec)| {
        for target in &mut targets {
            target["sectionName"] = Value::Null;
        }
        spec["targetRefs"] = json!(targets);
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "BackendConfigPolicy", "spec": spec,
            "metadata": {"name": format!("c{name}"), "namespace": namespace}})
    })
}

/// A ConfigMap with authorities, or with something else.
fn authorities() -> impl Strategy<Value = Value> {
    (namespaces(), select(vec![0, 1, 2]), any::<bool>()).prop_map(|(namespace, which, both)| {
        let certificates = super::certificates();
        let text = match which {
            2 => "no PEM".to_owned(),
            _ if both => certificates.iter().map(|(chain, _)| chain.as_str()).collect(),
            which => certificates[which].0.clone(),
        };
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ca", "namespace": namespace},
            "data": {"ca.crt": text}})
    })
}

/// What a Gateway says of TLS on both of its sides.
fn gateway_tls() -> impl Strategy<Value = Value> {
    let reference =
        (select(&["ConfigMap", "Secret", "Service"][..]), option::of(namespaces())).prop_map(|(kind, namespace)| {
            let name = if kind == "Secret" { "cert" } else { "ca" };
            json!({"group": "", "kind": kind, "name": name, "namespace": namespace})
        });
    let mode = option::of(select(&["AllowValidOnly", "AllowInsecureFallback", "Maybe"][..]));
    let validation = (vec(reference, 1..3), mode).prop_map(|(references, mode)| {
        let mut validation = json!({"caCertificateRefs": references});
        if let Some(mode) = mode {
            validation["mode"] = json!(mode);
        }
        json!({"validation": validation})
    });
    let validation = option::of(validation).prop_map(|validation| validation.unwrap_or_else(|| json!({}))).boxed();
    let per_port = option::of((select(&[443, 81][..]), validation.clone()));
    let shown = option::of((select(&["cert", "broken", "none"][..]), option::of(namespaces())));
    (validation, per_port, shown).prop_map(|(default, per_port, shown)| {
        let per_port: Vec<_> = per_port.into_iter().map(|(port, tls)| json!({"port": port, "tls": tls})).collect();
        let mut tls = json!({"frontend": {"default": default, "perPort": per_port}});
        if let Some((name, namespace)) = shown {
            tls["backend"] = json!({"clientCertificateRef": {"name": name, "namespace": namespace}});
        }
        tls
    })
}

/// A policy, sound or broken, on anything.
fn policy() -> impl Strategy<Value = Value> {
    let section = option::of(select(&["named", "l0", "l1"][..]));
    let target = (any::<u8>(), 0..7_u8, section.clone()).prop_map(|(kind, name, section)| {
        let (kind, name) = match kind {
            0..40 => ("Gateway", format!("g{}", name % 3)),
            200.. => ("ListenerSet", format!("z{}", name % 3)),
            40..60 => ("GRPCRoute", format!("r{}", name % 3)),
            _ => ("HTTPRoute", format!("r{name}")),
        };
        json!({"group": API, "kind": kind, "name": name, "sectionName": section})
    });
    let labels = select(vec![json!({}), json!({"delegation.kgateway.dev/label": "a"}), json!({"x": "y"})]);
    let selector = (any::<u8>(), labels, section).prop_map(|(kind, labels, section)| {
        let kind = if kind < 20 { "Gateway" } else { "HTTPRoute" };
        json!({"group": API, "kind": kind, "matchLabels": labels, "sectionName": section})
    });
    let traffic = select(vec![
        json!({"urlRewrite": {"pathRegex": {"pattern": "^/f(o*)", "substitution": "/\\1"}}}),
        json!({"urlRewrite": {"pathRegex": {"pattern": "o", "substitution": "0"}}}),
        json!({"urlRewrite": {"pathRegex": {"pattern": "(?=o)", "substitution": "0"}}}),
        json!({"urlRewrite": {"pathRegex": {"pattern": "o", "substitution": "\\1"}}}),
        json!({"extProc": {}}),
        json!({}),
        json!({"timeouts": {"request": "5s"}}),
        json!({"timeouts": {"streamIdle": "5s"}, "retry": {"retryOn": ["5xx"], "perTryTimeout": "1s"}}),
        json!({"timeouts": {"request": "7s"}, "buffer": {"maxRequestSize": 16}}),
        json!({"buffer": {"maxRequestSize": "1Ki"}}),
        json!({"buffer": {"disable": {}}}),
        json!({"buffer": {"maxRequestSize": 0}}),
        json!({"basicAuth": {"secretRef": {"name": "cert"}}}),
        json!({"basicAuth": {"secretRef": {"name": "cert", "namespace": "infra"}}, "buffer": {"disable": {}}}),
        json!({"basicAuth": {"disable": {}}}),
        json!({"apiKeyAuth": {"secretRef": {"name": "cert"}}}),
        json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"which": "0"}}}}),
        json!({"headerModifiers": {"request": {"set": [{"name": "x-a", "secretRef": {"name": "broken", "namespace": "apps"}}]}}}),
    ]);
    // Each unit, now and then with a value that is refused.
    let traffic = prop_oneof![2 => traffic, 1 => Union::new(each())];
    let rewrite = select(vec![
        json!([{"prefix": "/foo", "replacement": "/x/"}, {"replacement": "/y"}]),
        json!([{"prefix": "/foo/bar/", "replacement": "/"}]),
        json!([{"replacement": "/z"}]),
        json!([{"replacement": "z"}]),
        json!([{"prefix": "/a", "replacement": "/z"}, {"prefix": "/a/", "replacement": "/z"}]),
    ]);
    let content = prop_oneof![
        traffic.prop_map(|spec| ("TrafficPolicy", "gateway.kgateway.dev", spec)),
        rewrite.prop_map(|entries| ("RewritePolicy", "gateway.portcullis.dev", json!({"replacePrefix": entries}))),
    ];
    let name = (0..3_u8, namespaces(), 0..3_i64, option::of(select(&["1", "-1", "x"][..])));
    (name, content, vec(target, 0..3), vec(selector, 0..2)).prop_map(
        |((name, namespace, created, weight), (kind, group, mut spec), refs, selectors)| {
            spec["targetRefs"] = json!(refs);
            spec["targetSelectors"] = json!(selectors);
            let annotations = weight.map_or(json!({}), |weight| json!({"kgateway.dev/policy-weight": weight}));
            json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "spec": spec,
                "metadata": {"name": format!("p{name}"), "namespace": namespace,
                    "creationTimestamp": timestamp(created), "annotations": annotations}})
        },
    )
}

/// A provider.
fn extension() -> impl Strategy<Value = Value> {
    (any::<Index>(), extensions()).prop_map(|(which, all)| which.get(&all).clone())
}

fn direct_response() -> impl Strategy<Value = Value> {
    let spec = select(vec![
        json!({"status": 503, "body": "later"}),
        json!({"status": 200, "bodyFormat": {"text": "%PROTOCOL% 100%%"}}),
        json!({"status": 200, "bodyFormat": {"json": {"a": ["%REQ(:path)%", null, 1]}, "contentType": "text/x"}}),
        json!({"status": 200, "bodyFormat": {"text": "%NOTHING%"}}),
    ]);
    (0..2_u8, namespaces(), spec).prop_map(|(name, namespace, spec)| {
        json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "DirectResponse", "spec": spec,
            "metadata": {"name": format!("d{name}"), "namespace": namespace}})
    })
}

fn namespaces() -> impl Strategy<Value = &'static str> {
    select(&NAMESPACES[..])
}

fn class() -> impl Strategy<Value = Value> {
    (select(&["ours", "theirs"][..]), any::<bool>()).prop_map(|(name, parameters)| {
        let mut spec = json!({"controllerName": if name == "ours" { "portcullis.dev/gateway-controller" } else { "x.dev/y" }});
        if parameters {
            spec["parametersRef"] = json!({"group": "", "kind": "ConfigMap", "name": "p", "namespace": "infra"});
        }
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": name}, "spec": spec})
    })
}

fn gateway() -> impl Strategy<Value = Value> {
    let tls = option::weighted(0.4, gateway_tls());
    let admits = select(&["None", "Same", "Selector", "All", "All", "Maybe"][..]);
    let tls = (tls, admits);
    (0..2_u8, vec(listener(), 1..5), any::<u8>(), 0..10_i64, any::<bool>(), option::of(priority()), tls).prop_map(
        |(name, mut listeners, class, created, addressed, priority, (tls, admits))| {
            let annotations = priority.map(|priority| json!({"kgateway.dev/inherited-policy-priority": priority}));
            let mut seen = std::collections::HashSet::new();
            listeners.retain(|listener| seen.insert(listener["name"].to_string()));
            let mut spec =
                json!({"gatewayClassName": if class < 230 { "ours" } else { "theirs" }, "listeners": listeners, "tls": tls});
            let selector = json!({"matchLabels": {"team": "a"}});
            spec["allowedListeners"] = json!({"namespaces": {"from": admits, "selector": selector}});
            if addressed {
                spec["addresses"] = json!([{"value": "127.0.0.1"}]);
            }
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "spec": spec,
            "metadata": {"name": format!("g{name}"), "namespace": "infra", "creationTimestamp": timestamp(created),
                "annotations": annotations}})
        },
    )
}

/// How what a Gateway says is merged; the last means nothing.
fn priority() -> impl Strategy<Value = &'static str> {
    select(&["ShallowMergePreferParent", "DeepMergePreferChild", "DeepMergePreferParent", "Parent"][..])
}

fn timestamp(created: i64) -> String {
    format!("2026-01-01T00:00:0{created}Z")
}

fn route() -> impl Strategy<Value = Value> {
    let parent =
        (0..3_u8, option::of(0..4_u8), option::of(select(&[80, 443][..]))).prop_map(|(gateway, section, port)| {
            let mut parent = json!({"name": format!("g{gateway}"), "namespace": "infra"});
            if let Some(section) = section {
                parent["sectionName"] = json!(format!("l{section}"));
            }
            if let Some(port) = port {
                parent["port"] = json!(port);
            }
            parent
        });
    let above = (0..6_u8, select(&ROUTE_NAMESPACES[..])).prop_map(|(name, namespace)| {
        json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": format!("r{name}"), "namespace": namespace})
    });
    let parent = prop_oneof![3 => parent, 2 => at_set(), 1 => above];
    let hostnames = vec(select(&HOSTNAMES[1..]), 0..3);
    let hostnames = prop_oneof![2 => hostnames, 1 => Just(Vec::new())];
    let rule = prop_oneof![2 => rule().boxed(), 1 => delegating().boxed()];
    let name = (0..6_u8, select(&ROUTE_NAMESPACES[..]));
    (name, vec(parent, 0..3), hostnames, vec(rule, 1..4), 0..10_i64, vec(annotation(), 0..3), option::of(select(&["a", "b"][..]))).prop_map(
        |((name, namespace), parents, hostnames, rules, created, annotations, label)| {
            let annotations: serde_json::Map<_, _> = annotations.into_iter().map(|(name, value)| (name.into(), json!(value))).collect();
            let labels = label.map_or(json!({}), |label| json!({"delegation.kgateway.dev/label": label}));
            json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": format!("r{name}"), "namespace": namespace, "creationTimestamp": timestamp(created),
                    "annotations": annotations, "labels": labels},
                "spec": {"parentRefs": parents, "hostnames": hostnames, "rules": rules}})
        },
    )
}

/// One that is to have the name of an HTTPRoute now and then.
fn grpc_route() -> impl Strategy<Value = Value> {
    let parts = |usual: &'static [&'static str]| option::of(select(usual));
    let method = (parts(&["a.B", "a.C", "b", "a/b", ""]), parts(&["Get", "Put", "-"]))
        .prop_map(|(service, method)| json!({"service": service, "method": method}));
    let pattern = parts(&["a[.].", "(?=x)", "^a", "[a-z]{1,20}"])
        .prop_map(|service| json!({"type": "RegularExpression", "service": service, "method": "G.t"}));
    let method = prop_oneof![4 => method, 1 => pattern];
    let matching = (option::of(method), any::<bool>()).prop_map(|(method, header)| {
        let headers = if header { json!([{"name": "x-a", "value": "1"}]) } else { json!([]) };
        json!({"method": method, "headers": headers})
    });
    let named = extra().prop_filter("one that GRPCRoutes have", |(field, _)| !matches!(*field, "timeouts" | "retry"));
    let rule = (vec(matching, 0..3), vec(backend(), 0..4), vec(filter(), 0..2), option::of(named)).prop_map(
        |(matches, backends, filters, extra)| {
            let mut rule = json!({"matches": matches, "backendRefs": backends, "filters": filters});
            if let Some((field, value)) = extra {
                rule[field] = value;
            }
            rule
        },
    );
    (route(), 0..3_u8, vec(rule, 0..3)).prop_map(|(mut route, name, rules)| {
        route["kind"] = json!("GRPCRoute");
        route["metadata"]["name"] = json!(format!("r{name}"));
        route["spec"]["rules"] = json!(rules);
        route
    })
}

/// One of connections or datagrams.
fn stream_route() -> impl Strategy<Value = Value> {
    let weight = option::of(select(&[0, 1, 3][..]));
    let backend =
        (0..5_u8, select(&[80, 80, 81][..]), namespaces(), weight).prop_map(|(name, port, namespace, weight)| {
            let mut backend = json!({"name": format!("s{name}"), "port": port, "namespace": namespace});
            if let Some(weight) = weight {
                backend["weight"] = json!(weight);
            }
            backend
        });
    let kind = select(&["TLSRoute", "TLSRoute", "TCPRoute", "UDPRoute"][..]);
    (route(), kind, 0..3_u8, vec(backend, 1..4)).prop_map(|(mut route, kind, name, backends)| {
        route["kind"] = json!(kind);
        route["metadata"]["name"] = json!(format!("r{name}"));
        route["spec"]["rules"] = json!([{"backendRefs": backends}]);
        if kind != "TLSRoute" {
            route["spec"].as_object_mut().expect("a spec").remove("hostnames");
        }
        route
    })
}

const ROUTE_NAMESPACES: [&str; 2] = ["apps", "other"];

fn annotation() -> impl Strategy<Value = (&'static str, &'static str)> {
    select(
        &[
            ("delegation.kgateway.dev/inherit-parent-matcher", "true"),
            ("delegation.kgateway.dev/inherit-parent-matcher", "true"),
            ("delegation.kgateway.dev/inherit-parent-matcher", "maybe"),
            ("kgateway.dev/route-weight", "5"),
            ("kgateway.dev/route-weight", "-1"),
            ("kgateway.dev/route-weight", "heavy"),
            ("kgateway.dev/inherited-policy-priority", "ShallowMergePreferParent"),
            ("kgateway.dev/inherited-policy-priority", "DeepMergePreferChild"),
            ("kgateway.dev/inherited-policy-priority", "DeepMergePreferParent"),
            ("kgateway.dev/inherited-policy-priority", "Parent"),
        ][..],
    )
}

fn delegation_policy() -> impl Strategy<Value = Value> {
    let specs = [
        json!({"sortMethod": "TableWeight"}),
        json!({"sortMethod": "TableWeight"}),
        json!({"sortMethod": "Tomorrow"}),
        json!({"allowedChildren": {"namespaces": {"names": ["apps"]}}}),
        json!({"allowedChildren": {"namespaces": {"selector": {"matchLabels": {"team": "a"}}}}}),
        json!({"allowedChildren": {"backends": [{"kind": "Service", "name": "s[01]"}]}}),
        json!({"defaultBackendRefs": [{"name": "s0", "port": 80}]}),
        json!({"requireAuth": true}),
        json!({"allowedChildren": {"allowDisablingInheritedPolicies": false}}),
        json!({"failureMode": "FreezeConfig"}),
    ];
    let section = option::of(Just("named"));
    (0..4_u8, select(&ROUTE_NAMESPACES[..]), 0..6_u8, section, select(specs.to_vec()), 0..10_i64).prop_map(
        |(name, namespace, target, section, mut spec, created)| {
            let target = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": format!("r{target}"), "sectionName": section});
            spec["targetRefs"] = json!([target]);
            json!({"apiVersion": "gateway.portcullis.dev/v1alpha1", "kind": "DelegationPolicy", "spec": spec,
                "metadata": {"name": format!("d{name}"), "namespace": namespace, "creationTimestamp": timestamp(created)}})
        },
    )
}

/// A rule that delegates.
pub(crate) fn delegating() -> impl Strategy<Value = Value> {
    let named = (0..7_u8, option::of(select(&ROUTE_NAMESPACES[..]))).prop_map(|(name, namespace)| {
        json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": format!("r{name}"), "namespace": namespace})
    });
    let all = select(&["apps", "other", "empty"][..]).prop_map(|namespace| {
        json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": "*", "namespace": namespace})
    });
    let labelled = (select(&["a", "b", "c"][..]), option::of(select(&["apps", "all"][..]))).prop_map(|(label, namespace)| {
        json!({"group": "delegation.kgateway.dev", "kind": "label", "name": label, "namespace": namespace})
    });
    let reference = prop_oneof![4 => named, 2 => all, 2 => labelled, 1 => backend()];
    (vec(matching(), 0..3), vec(reference, 1..4), vec(filter(), 0..2), option::of(extra())).prop_map(
        |(matches, backends, filters, extra)| {
            let mut rule = json!({"matches": matches, "backendRefs": backends, "filters": filters});
            if let Some((field, value)) = extra {
                rule[field] = value;
            }
            rule
        },
    )
}

/// A rule, sound or broken.
pub(crate) fn rule() -> impl Strategy<Value = Value> {
    (vec(matching(), 0..3), vec(backend(), 0..4), vec(filter(), 0..2), option::of(extra())).prop_map(
        |(matches, backends, filters, extra)| {
            let mut rule = json!({"matches": matches, "backendRefs": backends, "filters": filters});
            if let Some((field, value)) = extra {
                rule[field] = value;
            }
            rule
        },
    )
}

fn matching() -> impl Strategy<Value = Value> {
    let paths = select(
        &[
            ("PathPrefix", "/"),
            ("PathPrefix", "/foo"),
            ("PathPrefix", "/foo/"),
            ("PathPrefix", "/foo/bar"),
            ("Exact", "/foo/bar"),
            ("RegularExpression", "/foo(/.*)?"),
            ("Exact", "/foo"),
            ("RegularExpression", "/f[a-z]+"),
            ("RegularExpression", "/(?=x)"),
            ("PathPrefix", "no-slash"),
        ][..],
    );
    let headers = option::of(select(
        &[("Exact", "x-a", "1"), ("RegularExpression", "x-b", "a+"), ("Exact", "bad name", "1")][..],
    ));
    (paths, headers, option::of(select(&["GET", "POST"][..])), any::<bool>()).prop_map(
        |((kind, path), header, method, query)| {
            let mut matching = json!({"path": {"type": kind, "value": path}});
            if let Some((kind, name, value)) = header {
                matching["headers"] = json!([{"type": kind, "name": name, "value": value}]);
            }
            if let Some(method) = method {
                matching["method"] = json!(method);
            }
            if query {
                matching["queryParams"] = json!([{"name": "q", "value": "1"}]);
            }
            matching
        },
    )
}

fn backend() -> impl Strategy<Value = Value> {
    (0..5_u8, option::of(namespaces()), select(&[80, 81, 90][..]), 0..3_u32, any::<u8>()).prop_map(|(name, namespace, port, weight, kind)| {
        let mut backend = json!({"name": format!("s{name}"), "port": port, "weight": weight});
        if let Some(namespace) = namespace {
            backend["namespace"] = json!(namespace);
        }
        match kind {
            0..20 => backend["kind"] = json!("Pod"),
            60..90 => {
                backend = json!({"group": "gateway.kgateway.dev", "kind": "Backend", "name": format!("b{}", name % 2)});
            }
            20..50 => backend["filters"] = json!([{"type": "RequestHeaderModifier", "requestHeaderModifier": {"add": [{"name": "x", "value": "100%"}]}}]),
            50..60 => backend["filters"] = json!([{"type": "RequestRedirect", "requestRedirect": {}}]),
            _ => {}
        }
        backend
    })
}

fn filter() -> BoxedStrategy<Value> {
    let filters = [
        json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "X-A", "value": "1"}], "remove": ["x-b"]}}),
        json!({"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "bad name", "value": "1"}]}}),
        json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": {"add": [{"name": "X-A", "value": "%1"}]}}),
        json!({"type": "RequestRedirect", "requestRedirect": {"scheme": "https", "statusCode": 308}}),
        json!({"type": "RequestRedirect", "requestRedirect": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/bar"}}}),
        json!({"type": "URLRewrite", "urlRewrite": {"hostname": "x.org", "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}),
        json!({"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": "/a\\1"}}}),
        json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "s0", "port": 80}, "percent": 40}}),
        json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "none", "port": 80}}}),
        json!({"type": "CORS", "cors": {"allowOrigins": ["https://*.example.com"], "allowMethods": ["GET"]}}),
        json!({"type": "ExtensionRef", "extensionRef": {"group": "x.dev", "kind": "Y", "name": "z"}}),
        json!({"type": "ExtensionRef", "extensionRef": {"group": "gateway.kgateway.dev", "kind": "TrafficPolicy", "name": "p0"}}),
        json!({"type": "ExtensionRef", "extensionRef": {"group": "gateway.portcullis.dev", "kind": "RewritePolicy", "name": "p1"}}),
        json!({"type": "ExtensionRef", "extensionRef": {"group": "gateway.kgateway.dev", "kind": "DirectResponse", "name": "d0"}}),
        json!({"type": "ExternalAuth", "externalAuth": {"protocol": "HTTP", "backendRef": {"name": "s0", "port": 80}}}),
        json!({"type": "Tomorrow"}),
    ];
    select(filters.to_vec()).boxed()
}

fn extra() -> BoxedStrategy<(&'static str, Value)> {
    prop_oneof![
        Just(("name", json!("named"))),
        Just(("timeouts", json!({"request": "5s", "backendRequest": "1s"}))),
        Just(("timeouts", json!({"request": "five"}))),
        Just(("retry", json!({"codes": [503, 500], "attempts": 2, "backoff": "100ms"}))),
        Just(("sessionPersistence", json!({"sessionName": "s"}))),
        Just(("sessionPersistence", json!({"type": "Header", "sessionName": "x-session"}))),
    ]
    .boxed()
}

fn service() -> impl Strategy<Value = Value> {
    let protocols =
        option::of(select(&["kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss", "https", "odd"][..]));
    (0..4_u8, namespaces(), protocols, select(&["ClusterIP", "ExternalName"][..]), any::<bool>()).prop_map(|(name, namespace, protocol, kind, second)| {
        let mut port = json!({"name": "http", "port": 80, "targetPort": 8080});
        if let Some(protocol) = protocol {
            port["appProtocol"] = json!(protocol);
        }
        let mut ports = vec![port];
        if second {
            ports.push(json!({"name": "udp", "port": 81, "protocol": "UDP"}));
        }
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{name}"), "namespace": namespace},
            "spec": {"type": if second { kind } else { "ClusterIP" }, "externalName": "example.org", "ports": ports}})
    })
}

fn slice() -> impl Strategy<Value = Value> {
    let endpoint = (1..20_u8, any::<bool>(), any::<bool>(), option::of(select(&["z1", "z2"][..]))).prop_map(
        |(host, ready, terminating, zone)| {
            json!({"addresses": [format!("10.0.0.{host}")], "zone": zone,
            "conditions": {"ready": ready && !terminating, "serving": true, "terminating": terminating}})
        },
    );
    (0..4_u8, namespaces(), 0..3_u8, vec(endpoint, 0..4)).prop_map(|(service, namespace, name, endpoints)| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": format!("slice{name}"), "namespace": namespace,
                "labels": {"kubernetes.io/service-name": format!("s{service}")}},
            "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080}, {"name": "udp", "port": 8081, "protocol": "UDP"}]})
    })
}

fn secret() -> impl Strategy<Value = Value> {
    (select(&["cert", "broken"][..]), namespaces(), 0..2_usize).prop_map(|(name, namespace, which)| {
        let (chain, key) = &super::certificates()[which];
        let key = if name == "broken" { "not a key" } else { key };
        let users = if which == 0 { "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=" } else { "alice:secret" };
        json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": name, "namespace": namespace, "labels": {"which": which.to_string()}},
            "stringData": {"tls.crt": chain, "tls.key": key, "ca.crt": chain, ".htpasswd": users, "x-a": users}})
    })
}

fn grant() -> impl Strategy<Value = Value> {
    let gateway_api = "gateway.networking.k8s.io";
    let from = prop_oneof![
        Just((gateway_api, "HTTPRoute", "Service")),
        Just((gateway_api, "GRPCRoute", "Service")),
        Just((gateway_api, "TLSRoute", "Service")),
        Just((gateway_api, "Gateway", "Secret")),
        Just((gateway_api, "ListenerSet", "Secret")),
        Just((gateway_api, "Gateway", "ConfigMap")),
        Just(("gateway.kgateway.dev", "TrafficPolicy", "Secret")),
    ];
    (0..2_u8, namespaces(), from, namespaces(), option::of(select(&["s0", "cert"][..]))).prop_map(
        |(name, namespace, (group, from, to), from_namespace, only)| {
            json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": format!("grant{name}"), "namespace": namespace},
            "spec": {"from": [{"group": group, "kind": from, "namespace": from_namespace}],
                "to": [{"group": "", "kind": to, "name": only}]}})
        },
    )
}

fn namespace() -> impl Strategy<Value = Value> {
    (namespaces(), select(&["a", "b"][..])).prop_map(|(name, team)| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}})
    })
}
