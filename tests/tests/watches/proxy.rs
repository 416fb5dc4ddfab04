//! A way to an API server that can be cut.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What happens to connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// They go through.
    Open,
    /// They are closed.
    Cut,
}

/// Passes connections on to `target`. TLS goes through as it is.
pub(crate) struct Proxy {
    address: SocketAddr,
    way: Arc<watch::Sender<Way>>,
    /// Connections with a lower number are dead: open, and silent.
    dead: Arc<watch::Sender<u64>>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let way = Arc::new(watch::Sender::new(Way::Open));
        let dead = Arc::new(watch::Sender::new(0));
        let (ways, deaths) = (Arc::clone(&way), Arc::clone(&dead));
        let accepting = tokio::spawn(async move {
            let mut number = 0;
            while let Ok((client, _)) = listener.accept().await {
                number = number.max(*deaths.borrow());
                tokio::spawn(pass(client, target, ways.subscribe(), deaths.subscribe(), number));
            }
        });
        Ok(Self { address, way, dead, accepting })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes connections, and lets no new one through.
    pub(crate) fn cut(&self) {
        self.way.send_replace(Way::Cut);
    }

    /// Lets new connections through again.
    pub(crate) fn mend(&self) {
        self.way.send_replace(Way::Open);
    }

    /// Connections that there are stay open, and nothing comes through any more. New ones are well.
    pub(crate) fn silence(&self) {
        self.dead.send_modify(|dead| *dead += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(
    mut client: TcpStream,
    target: SocketAddr,
    mut way: watch::Receiver<Way>,
    mut dead: watch::Receiver<u64>,
    number: u64,
) {
    let copied = async {
        let Ok(mut server) = TcpStream::connect(target).await else { return };
        let dies = async { dead.wait_for(|dead| *dead > number).await.is_ok() };
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
            _ = dies => std::future::pending().await,
        }
    };
    let cut = async { way.wait_for(|way| *way == Way::Cut).await.is_ok() };
    tokio::select! {
        biased;
        _ = cut => {}
        () = copied => {}
    }
}
