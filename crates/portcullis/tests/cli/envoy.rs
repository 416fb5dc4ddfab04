//! `portcullis run --envoy` with a real Envoy: the one at `PORTCULLIS_ENVOY`, or the one that `make envoy` installs.

use super::*;

/// How long anything may take on a slow machine.
const PATIENCE: Duration = Duration::from_mins(1);

fn envoy() -> PathBuf {
    let installed = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/envoy/bin/envoy");
    let path = std::env::var_os("PORTCULLIS_ENVOY").map_or_else(installed, PathBuf::from);
    assert!(path.exists(), "no Envoy at {}: run `make envoy`, or set PORTCULLIS_ENVOY", path.display());
    path
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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("it is bound").port()
}

/// The status of `GET /`, if anybody answers.
fn status(port: u16) -> Option<u16> {
    let mut socket = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

struct Running {
    child: Child,
    files: tempfile::TempDir,
    log: mpsc::Receiver<Value>,
}

impl Running {
    fn start(text: &str) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        fs::write(files.path().join("a.yaml"), text).expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["run", "--log-format", "json", "--admin-address", "127.0.0.1:0", "--xds-address", "127.0.0.1:0"])
            .arg("--files")
            .arg(files.path())
            .arg("--envoy")
            .arg(envoy())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, log) = mpsc::channel();
        thread::spawn(move || {
            let lines = errors.lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
            for line in lines {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, files, log }
    }

    fn write(&self, text: &str) {
        fs::write(self.files.path().join("a.yaml"), text).expect("a file");
    }

    /// Waits for a line of the log with this message.
    fn wait_for(&self, message: &str) -> Value {
        loop {
            let line = self.log.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{message:?} is not logged"));
            if line["message"].as_str().is_some_and(|text| text.contains(message)) {
                return line;
            }
        }
    }

    /// The process of the next Envoy that is started.
    fn started(&self) -> u64 {
        self.wait_for("an Envoy was started")["pid"].as_u64().expect("it has a process")
    }

    fn terminate(mut self) -> Option<i32> {
        signal("-TERM", u64::from(self.child.id()));
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Asked first, so that a test that fails leaves no Envoy behind; it may have ended by itself.
        let _: std::io::Result<_> = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).output();
        let _: std::io::Result<_> = self.child.wait();
    }
}

fn signal(signal: &str, process: u64) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().expect("kill runs").success());
}

fn is_alive(process: u64) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[test]
fn every_gateway_gets_an_envoy_that_is_replaced_when_it_dies_and_goes_with_its_gateway() {
    let (a, b) = (free_port(), free_port());
    let running = Running::start(&manifests(&[("a", a)]));
    let first = running.started();
    eventually("the first Gateway answers", || status(a) == Some(500));
    running.write(&manifests(&[("a", a), ("b", b)]));
    let second = running.started();
    eventually("the second Gateway answers", || status(b) == Some(500));
    assert!(is_alive(first), "a Gateway that comes moves no other");

    signal("-KILL", first);
    let third = running.started();
    eventually("the first Gateway answers again", || status(a) == Some(500));

    running.write(&manifests(&[("a", a)]));
    eventually("the second Gateway is gone", || !is_alive(second) && status(b).is_none());
    assert_eq!(status(a), Some(500));

    assert_eq!(running.terminate(), Some(0));
    assert!(!is_alive(third), "nothing is left behind");
}

#[test]
fn a_port_that_another_process_has_is_taken_up_when_it_is_free() {
    let other = TcpListener::bind("0.0.0.0:0").expect("a port");
    let port = other.local_addr().expect("it is bound").port();
    let running = Running::start(&manifests(&[("a", port)]));
    let line = running.wait_for("a port cannot be bound");
    assert_eq!(line["port"], port);
    drop(other);
    running.wait_for("a port can be bound again");
    eventually("the Gateway answers", || status(port) == Some(500));
    assert_eq!(running.terminate(), Some(0));
}
