//! The controller as a process of its own, and what it uses.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::{Memory, cpu, memory};

use crate::world::CONTROLLER;

/// How long ten thousand statuses may take at most.
const TIMEOUT: Duration = Duration::from_mins(10);
/// Between two looks, which cost the controller something too.
const PAUSE: Duration = Duration::from_millis(100);
/// What is still for so long is taken to be done.
pub(crate) const STILL: Duration = Duration::from_secs(1);

pub(crate) struct Controller {
    portcullis: Portcullis,
}

impl Controller {
    pub(crate) fn start(kubeconfig: &Path, namespace: &str) -> Result<Self> {
        // The clusters of 5,000 Services are more than the default lets a proxy have, and none shall be left out here.
        let capacity = ["--capacity-max-bytes", "8589934592"];
        let arguments = ["--xds-service", "localhost:1", "--deploy-proxies", "false", "--controller-name", CONTROLLER];
        let portcullis = Portcullis::start_in_cluster(kubeconfig, namespace, &[&arguments[..], &capacity].concat())?;
        Ok(Self { portcullis })
    }

    /// Ends it and starts it again; when it was started.
    pub(crate) async fn restart(&mut self) -> Result<Instant> {
        self.portcullis.relaunch().await
    }

    pub(crate) fn xds_address(&self) -> std::net::SocketAddr {
        self.portcullis.xds_address()
    }

    /// CPU time that it has used.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        cpu(self.id()?)
    }

    /// CPU time that it has used since it had used so much.
    pub(crate) fn cpu_since(&self, before: Duration) -> Result<Duration> {
        // A thread that has ended takes its time with it.
        Ok(self.cpu()?.saturating_sub(before))
    }

    /// What it has in memory.
    pub(crate) fn memory(&self) -> Result<Memory> {
        memory(self.id()?)
    }

    fn id(&self) -> Result<u32> {
        self.portcullis.id().context("it runs")
    }

    /// The sum of the samples of a metric.
    pub(crate) async fn metric(&self, name: &str) -> Result<f64> {
        let text = self.portcullis.admin("/metrics").await?.body;
        let samples =
            text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])));
        samples.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?)).sum()
    }

    /// Scrapes once a second, and asks without a pause what becomes of requests for a host.
    pub(crate) async fn ask(&self, gateway: &str, host: &str) -> Result<()> {
        let scrapes = async {
            let mut seconds = tokio::time::interval(Duration::from_secs(1));
            loop {
                seconds.tick().await;
                self.portcullis.admin("/metrics").await?;
            }
            #[expect(unreachable_code, reason = "it tells the type")]
            anyhow::Ok(())
        };
        let explains = async {
            for number in 0.. {
                let question = format!("/debug/explain?gateway={gateway}&url=http://{host}:8080/{number}/x");
                let told = self.portcullis.admin(&question).await?;
                ensure!(told.status == 200, "{}", told.body);
            }
            anyhow::Ok(())
        };
        tokio::try_join!(scrapes, explains).map(|((), ())| ())
    }

    /// Waits until everything is read and no status is to be written any more.
    pub(crate) async fn quiet(&mut self) -> Result<()> {
        self.portcullis.wait_until_ready().await?;
        let (began, mut last) = (Instant::now(), (0.0, Instant::now()));
        while last.1.elapsed() < STILL {
            let writes = self.metric("portcullis_status_writes_total").await?;
            let queue = self.metric("portcullis_status_queue").await?;
            if writes > last.0 || queue > 0.0 {
                last = (writes, Instant::now());
            }
            ensure!(began.elapsed() < TIMEOUT, "{queue} statuses wait");
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    pub(crate) async fn end(mut self) -> Result<()> {
        self.portcullis.check()?;
        self.portcullis.terminate().await?;
        Ok(())
    }
}
