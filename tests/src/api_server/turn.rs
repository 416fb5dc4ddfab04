//! Servers that one test has at a time.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use anyhow::{Result, ensure};
use http::header::ACCEPT;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use tokio::sync::{Mutex, MutexGuard};

use super::{ApiServer, Channel};
use crate::wait::{TIMEOUT, eventually};

type Server = Mutex<Option<ApiServer>>;

/// The server, until this is dropped.
#[derive(Debug)]
pub struct Turn(MutexGuard<'static, Option<ApiServer>>);

impl ApiServer {
    /// A server with the CRDs of the shared one that tests of this binary have one after the other, so that each may stop, kill
    /// or freeze it. It runs when a test gets it.
    pub async fn in_turn() -> Result<Turn> {
        static SERVER: Server = Mutex::const_new(None);
        Turn::take(&SERVER, || Self::with_crds(&[])).await
    }

    /// Another one, which has no CRDs when a test gets it.
    pub async fn without_crds() -> Result<Turn> {
        static SERVER: Server = Mutex::const_new(None);
        let turn = Turn::take(&SERVER, Self::start).await?;
        turn.delete_crds().await?;
        Ok(turn)
    }

    /// Another one, with our CRDs and those of Gateway API's standard channel. A test that deletes one of these puts it back.
    pub async fn with_standard_crds() -> Result<Turn> {
        static SERVER: Server = Mutex::const_new(None);
        let start = async || {
            let server = Self::start().await?;
            server.apply_crds(Channel::Standard).await?;
            Ok(server)
        };
        Turn::take(&SERVER, start).await
    }

    /// Deletes all CRDs, and with them their objects, and waits until nothing tells of them any more.
    async fn delete_crds(&self) -> Result<()> {
        let client = self.client().await?;
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let there = crds.list(&ListParams::default()).await?.items;
        if there.is_empty() {
            return Ok(());
        }
        crds.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        let groups: BTreeSet<_> = there.into_iter().map(|crd| format!("{:?}", crd.spec.group)).collect();
        eventually(TIMEOUT, async || {
            let left = crds.list_metadata(&ListParams::default()).await?.items;
            ensure!(left.is_empty(), "{} CRDs are left", left.len());
            // What is asked in either way is put together apart from the other.
            for accepted in ["application/json", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"]
            {
                let request = http::Request::get("/apis").header(ACCEPT, accepted).body(Vec::new())?;
                let served = client.request_text(request).await?;
                let left = groups.iter().find(|group| served.contains(*group));
                ensure!(left.is_none(), "{left:?} is served");
            }
            Ok(())
        })
        .await
    }
}

impl Turn {
    /// Waits for one's turn. Whatever the test before did to the server, it runs.
    async fn take(server: &'static Server, start: impl AsyncFnOnce() -> Result<ApiServer>) -> Result<Self> {
        let mut turn = server.lock().await;
        let server = match turn.take() {
            Some(mut server) => {
                server.recover().await?;
                server
            }
            None => start().await?,
        };
        *turn = Some(server);
        Ok(Self(turn))
    }
}

impl Deref for Turn {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        self.0.as_ref().expect("whoever has the turn has the server")
    }
}

impl DerefMut for Turn {
    fn deref_mut(&mut self) -> &mut ApiServer {
        self.0.as_mut().expect("whoever has the turn has the server")
    }
}
