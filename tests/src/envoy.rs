//! A real Envoy.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::client::{self, Request, Target};
use crate::process::{Process, envoy_binary};
use crate::wait::{TIMEOUT, eventually};
use crate::{certificates, ports};

/// A running Envoy; it is killed when this is dropped.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    admin: Target,
    // Holds bootstrap and log for as long as the process runs.
    _folder: tempfile::TempDir,
}

impl Envoy {
    /// Starts Envoy and waits until it says that it is ready: with dynamic configuration, until that is in place.
    ///
    /// The admin address of `bootstrap` is replaced by one on a free port.
    pub async fn start(bootstrap: &Value) -> Result<Self> {
        Self::start_with(bootstrap, &[]).await
    }

    /// The same with further arguments.
    pub async fn start_with(bootstrap: &Value, arguments: &[&str]) -> Result<Self> {
        let mut envoy = Self::launch_as(bootstrap, ports::free_port()?, arguments)?;
        let (process, admin) = (&mut envoy.process, &envoy.admin);
        let ready = process.wait_until(async || {
            let ready = client::send(admin, &Request::get("localhost", "/ready")).await?;
            ensure!(ready.status == 200, "Envoy is {}", ready.body.trim());
            Ok(())
        });
        ready.await?;
        Ok(envoy)
    }

    /// Starts Envoy without waiting.
    pub fn launch(bootstrap: &Value) -> Result<Self> {
        Self::launch_with_admin(bootstrap, ports::free_port()?)
    }

    /// The same with the admin interface on a port of one's own, for what is to reach it from `bootstrap`.
    pub fn launch_with_admin(bootstrap: &Value, admin: u16) -> Result<Self> {
        Self::launch_as(bootstrap, admin, &[])
    }

    fn launch_as(bootstrap: &Value, admin: u16, more: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("envoy-").tempdir()?;
        let mut bootstrap = bootstrap.clone();
        bootstrap["admin"] = json!({"address": {"socketAddress": {"address": "127.0.0.1", "portValue": admin}}});
        let path = folder.path().join("bootstrap.json");
        std::fs::write(&path, serde_json::to_vec_pretty(&bootstrap)?)?;
        let log = folder.path().join("envoy.log");
        let path = path.to_string_lossy().into_owned();
        let arguments = [
            ["--config-path", &path],
            ["--concurrency", "1"],
            ["--log-level", "info"],
            // Envoy keeps the access log for 10 seconds otherwise.
            ["--file-flush-interval-msec", "10"],
        ];
        let more = more.iter().copied();
        let arguments = arguments.into_iter().flatten().chain(["--disable-hot-restart"]).chain(more);
        Ok(Self {
            process: Process::start("envoy", &envoy_binary()?, arguments, log)?,
            admin: Target::local(admin),
            _folder: folder,
        })
    }

    /// The process' id, unless it has ended.
    pub fn id(&self) -> Option<u32> {
        self.process.id()
    }

    /// The address of the admin interface.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address
    }

    /// GET on the admin interface.
    pub async fn admin(&self, path: &str) -> Result<client::Response> {
        client::send(&self.admin, &Request::get("localhost", path)).await
    }

    /// The configuration that Envoy has.
    pub async fn config_dump(&self) -> Result<Value> {
        let dump = self.admin("/config_dump?include_eds").await?;
        Ok(serde_json::from_str(&dump.body)?)
    }

    /// The listeners that it has, in text.
    pub async fn listeners(&self) -> Result<String> {
        Ok(self.admin("/config_dump?resource=dynamic_listeners").await?.body)
    }

    /// All counters and gauges.
    pub async fn stats(&self) -> Result<BTreeMap<String, u64>> {
        let stats = self.admin("/stats").await?;
        ensure!(stats.status == 200, "no stats: {}", stats.body);
        // Histograms have text as value and are left out.
        Ok(stats
            .body
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect())
    }

    /// Fails if Envoy has ended or has ever refused an update.
    pub async fn check(&mut self) -> Result<()> {
        self.process.check_alive()?;
        let stats = self.stats().await?;
        let refused: Vec<_> =
            stats.iter().filter(|(name, count)| name.ends_with("update_rejected") && **count > 0).collect();
        if !refused.is_empty() {
            let log = self.process.log();
            let words: Vec<&str> = log.lines().filter(|line| line.contains("reject")).collect();
            bail!("Envoy refused updates: {refused:?}\n{}", words.join("\n"));
        }
        Ok(())
    }

    /// Fails if Envoy has ended, whatever it refused.
    pub fn check_alive(&mut self) -> Result<()> {
        self.process.check_alive()
    }

    /// The CPU time that Envoy's worker has used so far: of its thread alone, whatever else the machine does. It counts
    /// once the worker sleeps, which is waited for.
    pub async fn worker_time(&self) -> Result<Duration> {
        let id = self.process.id().context("Envoy has ended")?;
        for thread in std::fs::read_dir(format!("/proc/{id}/task"))? {
            let thread = thread?.path();
            if std::fs::read_to_string(thread.join("comm"))?.trim() != "wrk:worker_0" {
                continue;
            }
            eventually(TIMEOUT, async || {
                let stat = std::fs::read_to_string(thread.join("stat"))?;
                ensure!(stat.contains(" S "), "the worker is at work: {stat}");
                anyhow::Ok(())
            })
            .await?;
            let times = std::fs::read_to_string(thread.join("schedstat"))?;
            let on_cpu = times.split_whitespace().next().context("no time")?.parse()?;
            return Ok(Duration::from_nanos(on_cpu));
        }
        bail!("Envoy has no worker")
    }

    /// Everything that Envoy has printed, its access log among it.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The last lines that Envoy has printed.
    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// The name of the Secret whose certificate `connection` was shown.
    pub fn shown_secret(connection: &client::Connection, certificates: &certificates::Certificates) -> Option<String> {
        certificates.secret_of(connection.certificate.as_deref()?)
    }
}
