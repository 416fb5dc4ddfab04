//! The commands, run as a user runs them.

#[path = "cli/envoy.rs"]
mod envoy;
#[path = "cli/running.rs"]
mod running;
#[path = "cli/settings.rs"]
mod settings;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

const GOOD: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portcullis}
spec: {controllerName: portcullis.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: web}
spec:
  gatewayClassName: portcullis
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: v1
kind: Service
metadata: {name: app, namespace: web}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app, namespace: web}
spec:
  parentRefs: [{name: edge}]
  rules:
  - backendRefs: [{name: app, port: 80}]
";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn portcullis(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(arguments).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

fn path(folder: &TempDir) -> &str {
    folder.path().to_str().expect("it is text")
}

#[test]
fn the_definitions_in_the_folder_crds_are_those_that_are_printed() {
    let output = portcullis(&["crds"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let names = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["gateway.portcullis.dev.yaml"]);
    let stored = fs::read_to_string(folder.join("gateway.portcullis.dev.yaml")).expect("a file");
    assert!(stored == text(&output.stdout), "write them anew: portcullis crds > crds/gateway.portcullis.dev.yaml");
    let crds: Vec<Value> = serde_saphyr::from_multiple(&stored).expect("it is YAML");
    let names: Vec<_> = crds.iter().map(|crd| crd["metadata"]["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["delegationpolicies.gateway.portcullis.dev", "rewritepolicies.gateway.portcullis.dev"]);
}

#[test]
fn translate_prints_the_same_document_as_yaml_and_as_json_every_time() {
    let files = folder(&[("a.yaml", GOOD)]);
    let yaml = portcullis(&["translate", "-f", path(&files)]);
    let json = portcullis(&["translate", "-f", path(&files), "-o", "json"]);
    assert!(yaml.status.success() && json.status.success(), "{}", text(&yaml.stderr));
    let document: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(serde_saphyr::from_str::<Value>(&text(&yaml.stdout)).expect("YAML"), document);
    assert_eq!(document["gateways"][0]["gateway"], "web/edge");
    assert_eq!(document["gateways"][0]["listeners"][0]["name"], "listener/80");
    let kinds: Vec<_> = document["statuses"].as_array().expect("a list").iter().map(|entry| &entry["kind"]).collect();
    assert_eq!(kinds, ["GatewayClass", "Gateway", "HTTPRoute"]);
    assert_eq!(yaml.stdout, portcullis(&["translate", "-f", path(&files)]).stdout);
}

#[test]
fn ports_are_those_of_pods_or_of_the_host_and_the_class_is_that_of_the_controller_named() {
    let files = folder(&[("a.yaml", GOOD)]);
    let port = |arguments: &[&str]| {
        let output = portcullis(&[&["translate", "-o", "json", "-f", path(&files)], arguments].concat());
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        document["gateways"][0]["listeners"][0]["address"]["socketAddress"]["portValue"].clone()
    };
    assert_eq!(port(&[]), 10080);
    assert_eq!(port(&["--host"]), 80);
    assert_eq!(port(&["--host", "--ports", "mapped"]), 10080);
    assert_eq!(port(&["--controller-name", "example.com/other"]), Value::Null);
}

#[test]
fn check_is_silent_about_what_is_good() {
    let files = folder(&[("a.yaml", GOOD)]);
    let output = portcullis(&["check", "-f", path(&files)]);
    assert_eq!(text(&output.stdout), "0 refused, 0 replaced, 0 ignored, 0 warnings\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn two_gateways_on_one_port_are_refused_only_where_they_share_a_host() {
    let second = GOOD.split("---").nth(1).expect("a Gateway").replace("name: edge", "name: second");
    let files = folder(&[("a.yaml", &format!("{GOOD}---{second}"))]);
    for command in ["check", "status"] {
        let in_a_cluster = portcullis(&[command, "-f", path(&files)]);
        assert_eq!(text(&in_a_cluster.stdout).lines().last(), Some("0 refused, 0 replaced, 0 ignored, 0 warnings"));
        assert_eq!(in_a_cluster.status.code(), Some(0));
        let on_a_host = portcullis(&[command, "--host", "-f", path(&files)]);
        let report = text(&on_a_host.stdout);
        assert!(report.contains("port 80 of this host belongs to the older Gateway web/edge"), "{report}");
        assert_eq!(on_a_host.status.code(), Some(1));
    }
    let document = portcullis(&["translate", "-o", "json", "-f", path(&files)]).stdout;
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    let served =
        document["gateways"].as_array().expect("a list").iter().filter(|gateway| gateway["listeners"][0].is_object());
    assert_eq!(served.count(), 2);
}

#[test]
fn a_kind_that_is_misspelt_is_reported_with_the_one_that_was_meant() {
    let files = folder(&[("a.yaml", &GOOD.replace("kind: HTTPRoute", "kind: HTTPRout"))]);
    let output = portcullis(&["check", "-f", path(&files)]);
    let report = text(&output.stdout);
    assert!(report.contains("did you mean gateway.networking.k8s.io/v1 HTTPRoute?"), "{report}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn what_parameters_may_not_ask_for_is_reported_before_a_cluster_has_it() {
    let named =
        "  infrastructure: {parametersRef: {group: gateway.kgateway.dev, kind: GatewayParameters, name: own}}\n";
    let gateway = GOOD.replace("  gatewayClassName: portcullis\n", &format!("  gatewayClassName: portcullis\n{named}"));
    let parameters = "---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayParameters
metadata: {name: own, namespace: web}
spec: {kube: {deploymentOverlay: {spec: {template: {spec: {hostPID: true}}}}}}
";
    let files = folder(&[("a.yaml", &format!("{gateway}{parameters}"))]);
    let check = |arguments: &[&str]| {
        let output = portcullis(&[&["check", "-f", path(&files)], arguments].concat());
        (text(&output.stdout), output.status.code())
    };
    let (report, code) = check(&[]);
    let told = "spec.kube.deploymentOverlay.spec.template.spec.hostPID: shares a namespace with the node";
    assert!(report.contains("Gateway web/edge: refused: ") && report.contains(told), "{report}");
    assert_eq!(code, Some(1));
    assert_eq!(check(&["--gateway-parameters-trust", "unrestricted"]).1, Some(0));
    let (report, code) = check(&["--gateway-parameters-trust", "class-only"]);
    assert!(
        report.contains("spec.kube.deploymentOverlay: is for the GatewayParameters of the GatewayClass"),
        "{report}"
    );
    assert_eq!(code, Some(1));
    // On one host nobody reads them.
    assert_eq!(check(&["--host"]).1, Some(0));
}

#[test]
fn two_gateways_whose_proxies_would_share_a_name_are_reported_before_a_cluster_has_them() {
    let class = |name: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{name: {name}}}\n\
             spec: {{controllerName: portcullis.dev/gateway-controller}}\n---\n"
        )
    };
    let gateway = |name: &str, class: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}, namespace: web}}\n\
             spec: {{gatewayClassName: {class}, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}\n---\n"
        )
    };
    let (first, second) = (gateway("web-internal", "portcullis"), gateway("web", "internal-portcullis"));
    let files = folder(&[("a.yaml", &[class("portcullis"), class("internal-portcullis"), first, second].concat())]);
    let output = portcullis(&["check", "-f", path(&files)]);
    let report = text(&output.stdout);
    let told = "Gateway web/web: refused: metadata.name: its proxies would be called web-internal-portcullis, as those of \
                Gateway web/web-internal are";
    assert!(report.contains(told) && report.ends_with("1 refused, 0 replaced, 0 ignored, 0 warnings\n"), "{report}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn check_says_in_plain_words_and_with_the_place_what_is_broken() {
    let broken = GOOD.replace("{name: app, port: 80}", "{name: none, port: 80}");
    let files = folder(&[("a.yaml", &broken)]);
    let output = portcullis(&["check", "-f", path(&files)]);
    let report = text(&output.stdout);
    let line = report.lines().next().expect("a problem");
    // The line of the file, with the object, the field and the value.
    assert!(line.contains("a.yaml:24:20:"), "{report}");
    assert!(line.contains("HTTPRoute web/app: replaced: spec.rules[0].backendRefs[0]"), "{report}");
    assert!(line.contains("none"), "{report}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn check_reports_what_is_wrong_with_policies_and_where_they_stand() {
    let policies = "\
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: unsupported, namespace: web}
spec:
  targetRefs:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: gone}
  extProc: {}
---
apiVersion: gateway.portcullis.dev/v1alpha1
kind: RewritePolicy
metadata: {name: rewrite, namespace: web}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: app}]
  replacePrefix:
  - {prefix: /old, replacement: /new}
  - {prefix: /old/, replacement: new}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: DirectResponse
metadata: {name: answer, namespace: web}
spec:
  status: 200
  bodyFormat: {text: \"100%\"}
";
    let files = folder(&[("a.yaml", GOOD), ("b.yaml", policies)]);
    let output = portcullis(&["check", "-f", path(&files)]);
    let report = text(&output.stdout);
    for line in [
        "a.yaml:24:5: HTTPRoute web/app: replaced: spec.rules[0]: RewritePolicy web/rewrite is not valid",
        "b.yaml:7:3: TrafficPolicy web/unsupported: refused: spec.extProc: it must have one of extensionRef and disable",
        "b.yaml:6:57: TrafficPolicy web/unsupported: ignored: spec.targetRefs[0].name: HTTPRoute web/gone does not exist",
        "b.yaml:16:21: RewritePolicy web/rewrite: refused: spec.replacePrefix[1].replacement",
        "b.yaml:23:16: DirectResponse web/answer: refused: spec.bodyFormat.text",
    ] {
        assert!(report.contains(line), "{line} in\n{report}");
    }
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn check_reports_every_kind_of_fault_in_files() {
    let files = folder(&[
        ("a.yaml", GOOD),
        ("b.yaml", "kind: [\n"),
        ("c.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: app, namespace: web}\nspec: {}\n"),
        ("d.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: a}]}\n"),
        ("e.yaml", "apiVersion: gateway.networking.k8s.io/v1\nkind: HttpRoute\nmetadata: {name: x}\nspec: {}\n"),
        ("f.yaml", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x}\nspec: {}\n"),
    ]);
    let output = portcullis(&["check", "-f", path(&files), "-o", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let seen: Vec<_> = report["problems"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|problem| {
            let file = problem["file"].as_str().expect("a file").rsplit('/').next().expect("a name");
            format!("{file}:{} {} {}", problem["line"], problem["severity"].as_str().expect("text"), problem["field"])
        })
        .collect();
    assert_eq!(
        seen,
        [
            "b.yaml:1 refused \"\"",
            "c.yaml:1 ignored \"metadata.name\"",
            "d.yaml:4 refused \"spec.ports[0].port\"",
            "e.yaml:2 ignored \"kind\"",
            "f.yaml:2 warning \"kind\"",
        ]
    );
    assert_eq!(report["summary"]["refused"], 2);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn warnings_fail_a_check_only_where_it_is_strict() {
    let files = folder(&[("a.yaml", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x}\n")]);
    assert_eq!(portcullis(&["check", "-f", path(&files)]).status.code(), Some(0));
    assert_eq!(portcullis(&["check", "-f", path(&files), "--strict"]).status.code(), Some(1));
}

/// A root that delegates `/shop` to a team, whose routes go to the Service.
const DELEGATED: &str = "\
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: root, namespace: web}
spec:
  parentRefs: [{name: edge}]
  hostnames: [shop.example.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: /shop}}]
    timeouts: {request: 5s}
    backendRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: web}
spec:
  rules:
  - matches: [{path: {type: PathPrefix, value: /shop/cart}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}]
    backendRefs: [{name: app, port: 80}]
";

#[test]
fn tree_prints_who_delegates_to_whom() {
    let files = folder(&[("a.yaml", GOOD), ("b.yaml", DELEGATED)]);
    let output = portcullis(&["tree", "-f", path(&files)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "\
Gateway web/edge
  listener http (HTTP 80, *)
    HTTPRoute web/app for *
      rule 0: PathPrefix / -> Service web/app port 80
    HTTPRoute web/root for shop.example.com
      rule 0: PathPrefix /shop -> children
        backendRefs[0], HTTPRoute web/cart
          HTTPRoute web/cart
            rule 0: PathPrefix /shop/cart -> Service web/app port 80
"
    );
    let output = portcullis(&["tree", "-f", path(&files), "-o", "json"]);
    let tree: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(tree["gateways"][0]["listeners"][0]["routes"][1]["hostnames"][0], "shop.example.com");
}

#[test]
fn explain_tells_which_rule_takes_a_request_and_what_becomes_of_it() {
    let files = folder(&[("a.yaml", GOOD), ("b.yaml", DELEGATED)]);
    let explain = |arguments: &[&str]| {
        portcullis(&[&["explain", "-f", path(&files), "--gateway", "web/edge"], arguments].concat())
    };
    let output = explain(&["http://shop.example.com//shop/cart/1?x=1"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        "\
GET http://shop.example.com//shop/cart/1?x=1 at Gateway web/edge
path       /shop/cart/1?x=1 (dot segments removed, slashes merged, escapes as in a URL)
listener   http (port 80, *)
host       shop.example.com, 2 routes
route      HTTPRoute web/root rule 0: PathPrefix /shop -> backendRefs[0], HTTPRoute web/cart
             HTTPRoute web/cart rule 0: PathPrefix /shop/cart
           timeouts: request 5s, from HTTPRoute web/root rule 0
           urlRewrite: what ^/shop/cart/? finds in the path becomes /, from HTTPRoute web/cart rule 0
answer     Service web/app port 80
asked for  http://shop.example.com/1?x=1
would have matched too:
  HTTPRoute web/app rule 0 match 0: PathPrefix /: the one taken goes first: shop.example.com is more specific than *
"
    );
    let output = explain(&["-o", "json", "-X", "POST", "-H", "X-A: 1", "http://shop.example.com/shop"]);
    let explanation: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(explanation["leaf"]["name"], "app");
    assert_eq!(explanation["outcome"]["kind"], "backends");
    for arguments in [&["shop.example.com/"][..], &["-H", "x", "http://a/"], &["-X", "", "http://a/"], &[]] {
        assert_eq!(explain(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn status_of_files_fails_where_something_is_broken() {
    let broken = GOOD.replace("{name: app, port: 80}", "{name: none, port: 80}");
    let files = folder(&[("a.yaml", &broken)]);
    let status = |arguments: &[&str]| portcullis(&[&["status", "-f", path(&files)], arguments].concat());
    let report = text(&status(&[]).stdout);
    assert!(report.starts_with("HTTPRoute web/app: the owner of HTTPRoute web/app must act\n  replaced: "), "{report}");
    for (arguments, code) in [
        (&[][..], 1),
        (&["-n", "web"], 1),
        (&["-n", "other"], 0),
        (&["httproute/app"], 1),
        (&["httproute", "app", "-n", "web"], 1),
        (&["gateway/edge"], 0),
        (&["svc/app"], 0),
        (&["httproute/other"], 2),
        (&["httproute/app", "-n", "other"], 2),
        (&["pod/app"], 2),
        (&["-A", "-n", "web"], 2),
        (&["--from", "controller"], 2),
    ] {
        let output = status(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {}", text(&output.stderr));
    }
    let gateway = text(&status(&["gtw/edge"]).stdout);
    assert!(gateway.contains("  Accepted=True (Accepted)\n"), "{gateway}");
    assert!(gateway.contains("  Accepted=True (Accepted) at listener http\n"), "{gateway}");
}

#[test]
fn wrong_usage_and_files_that_are_not_there_exit_with_2() {
    for arguments in [
        &["translate"][..],
        &["translate", "-f", "/nonexistent"],
        &["check", "-f", "/nonexistent"],
        &["tree", "-f", "/nonexistent"],
        &["run", "--files", "/nonexistent"],
        &["bootstrap", "--gateway", "edge"],
        &["bootstrap", "--gateway", "a/b", "--xds-address", "nowhere"],
        &["other"],
    ] {
        let output = portcullis(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_check_of_nothing_does_not_pass() {
    let nothing = folder(&[("notes.txt", GOOD)]);
    let output = portcullis(&["check", "-f", path(&nothing)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(path(&nothing)), "{}", text(&output.stderr));
    // It could be read once and then never again, as a pipe.
    let output = portcullis(&["check", "-f", "/dev/null"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("neither a file nor a folder"), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_fault() {
    let files = folder(&[("a.yaml", GOOD), ("b.yaml", "kind: [")]);
    for (command, code) in [("translate", 0), ("check", 1)] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args([command, "-f", path(&files)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
}

#[test]
fn xds_is_served_on_loopback_only() {
    let files = folder(&[]);
    let output = portcullis(&["run", "--files", path(&files), "--xds-address", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("loopback"), "{}", text(&output.stderr));
}

#[test]
fn a_bootstrap_names_its_gateway_and_where_xds_is() {
    let output = portcullis(&["bootstrap", "--gateway", "web/edge", "--xds-address", "127.0.0.1:7", "-o", "json"]);
    let bootstrap: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(bootstrap["node"]["cluster"], "web/edge");
    let endpoint = "/staticResources/clusters/0/loadAssignment/endpoints/0/lbEndpoints/0/endpoint/address";
    let address = bootstrap.pointer(endpoint).expect("an address");
    assert_eq!(address["socketAddress"]["portValue"], 7);
    let yaml = portcullis(&["bootstrap", "--gateway", "web/edge", "--xds-address", "127.0.0.1:7"]);
    assert_eq!(serde_saphyr::from_str::<Value>(&text(&yaml.stdout)).expect("YAML"), bootstrap);
}

#[test]
fn a_bootstrap_that_no_envoy_could_use_is_not_printed() {
    let good = ["bootstrap", "--gateway", "web/edge"];
    for (flag, value) in [
        ("--xds-address", ":18000"),
        ("--xds-address", "http://xds:18000"),
        ("--xds-address", "xds:0"),
        ("--xds-address", "unix:"),
        ("--node-id", ""),
        ("--gateway", "Web/edge"),
    ] {
        let arguments = if flag == "--gateway" { &good[..1] } else { &good[..] };
        let output = portcullis(&[arguments, &[flag, value]].concat());
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains(flag), "{}", text(&output.stderr));
    }
}
