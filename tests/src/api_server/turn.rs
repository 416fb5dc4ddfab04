//! A server that one test has at a time.

use std::ops::{Deref, DerefMut};

use anyhow::Result;
use tokio::sync::{Mutex, MutexGuard};

use super::ApiServer;

static SERVER: Mutex<Option<ApiServer>> = Mutex::const_new(None);

/// The server, until this is dropped.
#[derive(Debug)]
pub struct Turn(MutexGuard<'static, Option<ApiServer>>);

impl Turn {
    /// Waits for one's turn. Whatever the test before did to the server, it runs.
    pub(super) async fn take() -> Result<Self> {
        let mut turn = SERVER.lock().await;
        let server = match turn.take() {
            Some(mut server) => {
                server.recover().await?;
                server
            }
            None => ApiServer::start_with_crds().await?,
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
