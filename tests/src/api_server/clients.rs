//! Clients of the administrator. To make one, and to have it shake hands, costs several times as much as a request.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::runtime::{Handle, Id};

/// One for each runtime that asked, whose connections end with it.
#[derive(Default)]
pub(super) struct Clients(Mutex<HashMap<Id, Client>>);

impl Clients {
    /// The one of this runtime.
    pub(super) async fn get(&self, kubeconfig: &Path) -> Result<Client> {
        let runtime = Handle::current().id();
        let known = self.lock().get(&runtime).cloned();
        match known {
            Some(client) => Ok(client),
            None => {
                let client = client_for(kubeconfig).await?;
                Ok(self.lock().entry(runtime).or_insert(client).clone())
            }
        }
    }

    /// Has everybody get a new one.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Client>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} clients", self.lock().len())
    }
}

/// A client for a kubeconfig.
pub(super) async fn client_for(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
