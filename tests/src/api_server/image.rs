//! What etcd has of a server with CRDs, for further servers to start with.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::guardian::Guardian;
use super::{ApiServer, etcd_data};
use crate::process::{freeze, thaw};

/// A copy of etcd's data. It goes with this process.
#[derive(Debug)]
pub(super) struct Image {
    guardian: Guardian,
}

impl Image {
    /// A copy of what the etcd of `server` has now.
    pub(super) async fn of(server: &ApiServer) -> Result<Self> {
        let image = Self { guardian: Guardian::new()? };
        let etcd = server.etcd.id().context("etcd has ended")?;
        // On disk it is at each moment such that etcd could be killed.
        freeze(etcd).await?;
        let copied = copy(&etcd_data(server.folder()), &image.data()).await;
        thaw(etcd).await?;
        copied?;
        Ok(image)
    }

    /// Makes the folder `to`, for an etcd that does not run yet.
    pub(super) async fn copy_to(&self, to: &Path) -> Result<()> {
        copy(&self.data(), to).await
    }

    fn data(&self) -> std::path::PathBuf {
        etcd_data(self.guardian.folder())
    }
}

/// Copies a folder. etcd reserves 64 MB for each of its logs, nearly all of which are holes then.
async fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").args(["-r", "--sparse=always"]).arg(from).arg(to).output().await?;
    ensure!(copied.status.success(), "cp: {}", String::from_utf8_lossy(&copied.stderr));
    Ok(())
}
