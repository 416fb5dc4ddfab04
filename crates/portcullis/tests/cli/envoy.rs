//! `portcullis run --envoy` with a real Envoy: the one at `PORTCULLIS_ENVOY`, or the one that `make envoy` installs.

use portcullis_tests::{ports::free_port, process::envoy_binary};

use super::{
    running::{Running, TIMEOUT, eventually, signal},
    *,
};

fn envoy() -> String {
    envoy_binary().expect("it is installed").to_str().expect("it is text").to_owned()
}

/// A class, and Gateways with a listener on a port each whose only route answers 500, since it has no backend.
fn manifests(gateways: &[(&str, u16)]) -> String {
    let mut text = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portcullis}
spec: {controllerName: portcullis.dev/gateway-controller}
"
    .to_owned();
    for (name, port) in gateways {
        let objects = format!(
            "---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: {name}, namespace: web}}
spec:
  gatewayClassName: portcullis
  listeners: [{{name: http, port: {port}, protocol: HTTP}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: {name}, namespace: web}}
spec:
  parentRefs: [{{name: {name}}}]
  rules: [{{backendRefs: [{{name: none, port: 80}}]}}]
"
        );
        text.push_str(&objects);
    }
    text
}

/// The status of `GET /`, if anybody answers.
fn status(port: u16) -> Option<u16> {
    let mut socket = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    socket.set_read_timeout(Some(TIMEOUT)).ok()?;
    socket.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

/// The process of the next Envoy that is started.
fn started(running: &Running) -> u64 {
    running.wait_for("an Envoy was started")["pid"].as_u64().expect("it has a process")
}

fn is_alive(process: u64) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[test]
fn every_gateway_gets_an_envoy_that_is_replaced_when_it_dies_and_goes_with_its_gateway() {
    let (a, b) = (free_port().expect("a port"), free_port().expect("a port"));
    let files = folder(&[("a.yaml", &manifests(&[("a", a)]))]);
    let mut running = Running::start(files.path(), "127.0.0.1:0", &["--envoy", &envoy()]);
    let first = started(&running);
    eventually("the first Gateway answers", || status(a) == Some(500));
    fs::write(files.path().join("a.yaml"), manifests(&[("a", a), ("b", b)])).expect("a file");
    let second = started(&running);
    eventually("the second Gateway answers", || status(b) == Some(500));
    assert!(is_alive(first), "a Gateway that comes moves no other");

    signal("-KILL", first);
    let third = started(&running);
    eventually("the first Gateway answers again", || status(a) == Some(500));

    fs::write(files.path().join("a.yaml"), manifests(&[("a", a)])).expect("a file");
    eventually("the second Envoy is gone", || !is_alive(second));
    assert_eq!(status(b), None, "nobody listens where it did");
    assert_eq!(status(a), Some(500));

    assert_eq!(running.terminate(), Some(0));
    assert!(!is_alive(third), "nothing is left behind");
}

#[test]
fn a_port_that_another_process_has_is_taken_up_when_it_is_free() {
    let port = free_port().expect("a port");
    let other = TcpListener::bind(("0.0.0.0", port)).expect("it is free");
    let files = folder(&[("a.yaml", &manifests(&[("a", port)]))]);
    let mut running = Running::start(files.path(), "127.0.0.1:0", &["--envoy", &envoy()]);
    let line = running.wait_for("a port cannot be bound");
    assert_eq!(line["port"], port);
    drop(other);
    running.wait_for("a port can be bound again");
    eventually("the Gateway answers", || status(port) == Some(500));
    assert_eq!(running.terminate(), Some(0));
}
