use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tokio::time::sleep;

use super::*;
use crate::metrics::GatewayLabel;

/// A program in the place of Envoy.
struct Fake {
    folder: tempfile::TempDir,
    supervisor: Supervisor,
}

impl Fake {
    /// A shell script; `$DIR` is a folder for what it leaves behind.
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("envoy");
        let text = format!("#!/bin/sh\nDIR={}\n{script}\n", folder.path().display());
        // By another process: what this one has open for writing, its children have too, until they are the programs that they
        // become, and no program is started that anybody has open for writing.
        let mut writer = Command::new("sh");
        writer.args(["-c", "cat >$0 && chmod 700 $0"]).arg(&program).stdin(Stdio::piped());
        let mut writer = writer.spawn().expect("a shell");
        writer.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        assert!(writer.wait().expect("it ends").success());
        let supervisor = Supervisor {
            envoy: program,
            xds: XdsAddress::Tcp { host: "127.0.0.1".into(), port: 1 },
            edge: Edge::default(),
            grace_period: Duration::from_millis(100),
            metrics: Metrics::default(),
        };
        Self { folder, supervisor }
    }

    fn starts(&self, gateway: &NsName) -> u64 {
        self.supervisor.metrics.envoy_starts.get_or_create(&GatewayLabel::of(gateway.to_string())).get()
    }

    fn left(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

async fn eventually(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_mins(1), wait).await.expect("it comes true");
}

fn gateway(name: &str) -> NsName {
    NsName::new("ns", name)
}

struct Run {
    served: watch::Sender<BTreeSet<NsName>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Run {
    fn new(fake: &Fake, gateways: &[NsName]) -> Self {
        let (served, serving) = watch::channel(gateways.iter().cloned().collect());
        let (stop, stopped) = watch::channel(false);
        Self { served, stop, task: tokio::spawn(fake.supervisor.clone().run(serving, stopped)) }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        timeout(Duration::from_mins(1), self.task).await.expect("it ends").expect("it does not panic");
    }
}

#[tokio::test]
async fn a_program_that_dies_is_started_again() {
    let fake = Fake::new("exit 1");
    let run = Run::new(&fake, &[gateway("a")]);
    eventually(|| fake.starts(&gateway("a")) >= 3).await;
    run.stop().await;
}

#[tokio::test]
async fn every_gateway_has_a_program_with_its_own_bootstrap_while_it_is_served() {
    let fake = Fake::new("echo $$ >> $DIR/pids; cat $2 >> $DIR/bootstraps; exec sleep 1000");
    let run = Run::new(&fake, &[gateway("a")]);
    eventually(|| fake.left("bootstraps").contains("\"cluster\":\"ns/a\"")).await;
    run.served.send_modify(|all| {
        all.insert(gateway("b"));
    });
    eventually(|| fake.left("bootstraps").contains("\"cluster\":\"ns/b\"")).await;
    eventually(|| fake.left("pids").lines().count() == 2).await;
    let pids: Vec<String> = fake.left("pids").lines().map(str::to_owned).collect();
    let alive = |pid: &str| Path::new("/proc").join(pid).exists();
    assert!(alive(&pids[0]) && alive(&pids[1]));
    run.served.send_modify(|all| {
        all.remove(&gateway("a"));
    });
    // It has no admin interface and does not react: it is killed.
    eventually(|| !alive(&pids[0])).await;
    assert!(alive(&pids[1]));
    run.stop().await;
    assert!(!alive(&pids[1]), "nothing is left behind");
    assert_eq!((fake.starts(&gateway("a")), fake.starts(&gateway("b"))), (1, 1));
}

#[tokio::test]
async fn a_program_that_cannot_be_run_is_found_at_once() {
    let mut fake = Fake::new("echo version 1");
    assert_eq!(fake.supervisor.probe().await.expect("it runs"), "version 1");
    fake.supervisor.envoy = "/nonexistent/envoy".into();
    let error = fake.supervisor.probe().await.expect_err("it is not there");
    assert!(error.to_string().starts_with("cannot run /nonexistent/envoy: "), "{error}");
    let fake = Fake::new("exit 3");
    let error = fake.supervisor.probe().await.expect_err("it fails");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
}

#[tokio::test]
async fn a_program_that_does_not_answer_is_not_waited_for_without_end() {
    let fake = Fake::new("exec sleep 1000");
    tokio::time::pause();
    let error = fake.supervisor.probe().await.expect_err("it says nothing");
    assert!(error.to_string().contains("does not print its version"), "{error}");
}
