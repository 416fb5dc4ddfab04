//! Envoy's rate limit service with its Redis, as they are run in life.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use tokio::net::TcpStream;

use crate::client::{Request, Target, send};
use crate::ports;
use crate::process::{Process, root};

/// A running service, and what it counts in.
#[derive(Debug)]
pub struct RateLimit {
    service: Process,
    redis: Process,
    grpc: u16,
    health: u16,
    redis_port: u16,
    folder: tempfile::TempDir,
}

/// A program of `make ratelimit`, or below `PORTCULLIS_RATELIMIT`.
fn program(name: &str) -> Result<PathBuf> {
    let folder =
        std::env::var_os("PORTCULLIS_RATELIMIT").map_or_else(|| root().join(".tools/ratelimit/bin"), PathBuf::from);
    let path = folder.join(name);
    if !path.exists() {
        bail!("no {name} at {}: run `make ratelimit` or set PORTCULLIS_RATELIMIT", path.display());
    }
    Ok(path)
}

impl RateLimit {
    /// Starts both, with the limits of this file.
    pub async fn start(limits: &str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("ratelimit-").tempdir()?;
        std::fs::create_dir(folder.path().join("config"))?;
        std::fs::write(folder.path().join("config/limits.yaml"), limits)?;
        let (grpc, health, redis_port) = (ports::free_port()?, ports::free_port()?, ports::free_port()?);
        let redis = redis(redis_port, &folder).await?;
        let mut service = service(grpc, health, redis_port, &folder)?;
        service.wait_until(|| healthy(health)).await?;
        Ok(Self { service, redis, grpc, health, redis_port, folder })
    }

    /// The port on which it is asked.
    pub fn port(&self) -> u16 {
        self.grpc
    }

    /// The id of the service's process, unless it has ended.
    pub fn id(&self) -> Option<u32> {
        self.service.id()
    }

    /// Ends the service; what was counted stays.
    pub async fn end(&mut self) -> Result<()> {
        self.service.kill().await
    }

    /// Starts the service again.
    pub async fn restart(&mut self) -> Result<()> {
        self.service = service(self.grpc, self.health, self.redis_port, &self.folder)?;
        let health = self.health;
        self.service.wait_until(|| healthy(health)).await
    }

    /// Ends Redis, and with it what was counted.
    pub async fn end_redis(&mut self) -> Result<()> {
        self.redis.kill().await
    }

    /// Starts Redis again, empty.
    pub async fn restart_redis(&mut self) -> Result<()> {
        self.redis = redis(self.redis_port, &self.folder).await?;
        Ok(())
    }
}

async fn healthy(port: u16) -> Result<()> {
    let response = send(&Target::local(port), &Request::get("localhost", "/healthcheck")).await?;
    ensure!(response.status == 200, "not healthy: {}", response.body);
    Ok(())
}

async fn redis(port: u16, folder: &tempfile::TempDir) -> Result<Process> {
    let port_text = port.to_string();
    let arguments = ["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let mut redis = Process::start("redis", &program("redis-server")?, arguments, folder.path().join("redis.log"))?;
    let answers = async || {
        TcpStream::connect(("127.0.0.1", port)).await.context("Redis does not listen")?;
        Ok(())
    };
    redis.wait_until(answers).await?;
    Ok(redis)
}

fn service(grpc: u16, health: u16, redis: u16, folder: &tempfile::TempDir) -> Result<Process> {
    let variables = [
        ("HOST", "127.0.0.1".to_owned()),
        ("PORT", health.to_string()),
        ("GRPC_HOST", "127.0.0.1".to_owned()),
        ("GRPC_PORT", grpc.to_string()),
        ("DEBUG_HOST", "127.0.0.1".to_owned()),
        ("DEBUG_PORT", ports::free_port()?.to_string()),
        ("REDIS_SOCKET_TYPE", "tcp".to_owned()),
        ("REDIS_URL", format!("127.0.0.1:{redis}")),
        ("REDIS_TIMEOUT", "1s".to_owned()),
        ("RUNTIME_ROOT", folder.path().display().to_string()),
        ("RUNTIME_WATCH_ROOT", "false".to_owned()),
        ("USE_STATSD", "false".to_owned()),
    ];
    let log = folder.path().join("service.log");
    Process::start_with("ratelimit", &program("ratelimit")?, [""; 0], variables, log)
}
