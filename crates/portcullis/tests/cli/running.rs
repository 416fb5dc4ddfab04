//! A program that runs: what it serves, and how it ends.

use portcullis_tests::ports::free_port;

use super::*;

/// How long anything may take on a slow machine.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);

/// A running `portcullis run`, stopped when it is dropped.
pub(super) struct Running {
    child: Child,
    admin: SocketAddr,
    log: mpsc::Receiver<Value>,
}

impl Running {
    pub(super) fn start(files: &Path, xds: &str, arguments: &[&str]) -> Self {
        let admin = SocketAddr::from(([127, 0, 0, 1], free_port().expect("a port")));
        let mut child = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["run", "--log-format", "json", "--admin-address", &admin.to_string(), "--xds-address", xds])
            .arg("--files")
            .arg(files)
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, log) = mpsc::channel();
        thread::spawn(move || {
            let lines = errors.lines().map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok());
            lines.map(|line| sender.send(line)).find(Result::is_err)
        });
        Self { child, admin, log }
    }

    /// Waits for a line of the log whose message has this text.
    pub(super) fn wait_for(&self, part: &str) -> Value {
        loop {
            let line = self.log.recv_timeout(TIMEOUT).unwrap_or_else(|_| panic!("{part} is not logged"));
            if line["message"].as_str().is_some_and(|message| message.contains(part)) {
                return line;
            }
        }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let mut socket = TcpStream::connect(self.admin).expect("it listens");
        write!(socket, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
        (status, body.to_owned())
    }

    /// Asks for the metrics until this one is there.
    fn wait_for_metric(&self, metric: &str) {
        eventually(metric, || self.get("/metrics").1.contains(metric));
    }

    pub(super) fn terminate(&mut self) -> Option<i32> {
        signal("-TERM", u64::from(self.child.id()));
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if thread::panicking() {
            // What the test did not wait for.
            self.log.try_iter().for_each(|line| eprintln!("{line}"));
        }
        // Asked to end, so that a test that fails leaves no Envoy behind; it may have ended by itself.
        let _: std::io::Result<_> = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).output();
        let _: std::io::Result<_> = self.child.wait();
    }
}

pub(super) fn signal(signal: &str, process: u64) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().expect("kill runs").success());
}

pub(super) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn run_serves_follows_and_ends_in_order() {
    let files = folder(&[("a.yaml", GOOD)]);
    let sockets = folder(&[]);
    let socket: PathBuf = sockets.path().join("xds.sock");
    let mut running = Running::start(files.path(), &format!("unix:{}", socket.display()), &[]);
    running.wait_for("everything is read and published");
    for page in ["/healthz", "/readyz", "/"] {
        assert_eq!(running.get(page).0, 200, "{page}");
    }
    assert_eq!(running.get("/other").0, 404);
    let (status, metrics) = running.get("/metrics");
    assert_eq!(status, 200);
    for metric in ["portcullis_batches_total", "portcullis_gateways 1", "portcullis_problems{severity=\"refused\"} 0"] {
        assert!(metrics.contains(metric), "{metric} in {metrics}");
    }
    let translated = portcullis(&["translate", "-o", "json", "--host", "-f", path(&files)]);
    assert_eq!(running.get("/debug/snapshot"), (200, text(&translated.stdout)), "live and by command, they are equal");
    let tree = portcullis(&["tree", "--host", "-f", path(&files)]);
    assert_eq!(running.get("/debug/routes"), (200, text(&tree.stdout)));
    let tree = portcullis(&["tree", "-o", "json", "--host", "-f", path(&files)]);
    assert_eq!(running.get("/debug/routes?format=json"), (200, text(&tree.stdout)));
    assert_eq!(running.get("/debug/routes?format=xml").0, 400);
    let status = portcullis(&["status", "--host", "-f", path(&files)]);
    assert_eq!(running.get("/debug/status"), (200, text(&status.stdout)));
    let dump = portcullis(&["config-dump", "--host", "-f", path(&files), "--gateway", "web/edge"]);
    assert_eq!(running.get("/debug/snapshot?gateway=web/edge&format=yaml"), (200, text(&dump.stdout)));
    let explanation =
        portcullis(&["explain", "--host", "-f", path(&files), "--gateway", "web/edge", "-H", "a: b", "http://a/b"]);
    let asked = "/debug/explain?gateway=web/edge&url=http://a/b&header=a:%20b";
    assert_eq!(running.get(asked), (200, text(&explanation.stdout)));
    for (page, code) in [
        ("/debug/snapshot?gateway=web/other", 404),
        ("/debug/snapshot?gateway=web", 400),
        ("/debug/snapshot?format=text", 400),
        ("/debug/status?kind=Pod", 400),
        ("/debug/explain", 400),
        ("/debug/explain?gateway=web&url=http://a/", 400),
        ("/debug/explain?gateway=web/edge&url=a", 400),
        ("/debug/explain?gateway=web/edge&url=http://a/&format=xml", 400),
    ] {
        assert_eq!(running.get(page).0, code, "{page}");
    }
    assert!(running.get("/debug/engine").1.contains("Routes"));
    assert_eq!(running.get("/debug/engine?why=Nothing:there").0, 404);
    assert!(socket.exists());

    fs::write(files.path().join("b.yaml"), "kind: [").expect("a file");
    let line = running.wait_for("b.yaml:1:");
    assert_eq!(line["level"], "WARN");
    // What is counted follows what is logged.
    running.wait_for_metric("portcullis_files_broken 1");

    assert_eq!(running.terminate(), Some(0));
    assert!(!socket.exists(), "nothing is left behind");
}

#[test]
fn an_address_that_is_in_use_is_refused_with_its_flag() {
    let files = folder(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().map(|address| (taken, address.to_string())).expect("it is bound");
    for flag in ["--admin-address", "--xds-address"] {
        let other = if flag == "--admin-address" { "--xds-address" } else { "--admin-address" };
        let output = portcullis(&["run", "--files", path(&files), flag, &taken.1, other, "127.0.0.1:0"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(flag), "{}", text(&output.stderr));
    }
}
