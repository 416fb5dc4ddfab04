//! A program that runs: what it serves, and how it ends.

use super::*;

/// A running `portcullis run`, killed when it is dropped.
struct Running {
    child: Child,
    admin: SocketAddr,
    log: mpsc::Receiver<String>,
}

impl Running {
    fn start(files: &Path, socket: &Path, arguments: &[&str]) -> Self {
        let admin = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let mut child = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["run", "--log-format", "json", "--admin-address", &admin.to_string()])
            .arg("--xds-address")
            .arg(format!("unix:{}", socket.display()))
            .arg("--files")
            .arg(files)
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let errors = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, log) = mpsc::channel();
        thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, admin, log }
    }

    /// Waits for a line of the log with this text.
    fn wait_for(&self, part: &str) -> String {
        loop {
            let line = self.log.recv_timeout(Duration::from_mins(1)).unwrap_or_else(|_| panic!("{part} is not logged"));
            if line.contains(part) {
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
        let begin = Instant::now();
        while !self.get("/metrics").1.contains(metric) {
            assert!(begin.elapsed() < Duration::from_mins(1), "{metric} is not there");
        }
    }

    fn terminate(&mut self) -> Option<i32> {
        let kill = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(kill.success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _: std::io::Result<()> = self.child.kill();
        let _: std::io::Result<_> = self.child.wait();
    }
}

#[test]
fn run_serves_follows_and_ends_in_order() {
    let files = folder(&[("a.yaml", GOOD)]);
    let sockets = folder(&[]);
    let socket: PathBuf = sockets.path().join("xds.sock");
    let mut running = Running::start(files.path(), &socket, &[]);
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
    let line: Value = serde_json::from_str(&line).expect("a log line is JSON");
    assert_eq!(line["level"], "WARN");
    // What is counted follows what is logged.
    running.wait_for_metric("portcullis_files_broken 1");

    assert_eq!(running.terminate(), Some(0));
    assert!(!socket.exists(), "nothing is left behind");
}

#[test]
fn an_address_that_is_in_use_is_told() {
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
