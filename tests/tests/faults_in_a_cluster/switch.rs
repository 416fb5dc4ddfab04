//! What a Service is to proxies: connections go to whoever it stands before at that moment.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Passes connections on. It ends with all of them when this is dropped.
pub(crate) struct Switch {
    pub(crate) address: SocketAddr,
    target: watch::Sender<SocketAddr>,
    _accepting: JoinSet<()>,
}

impl Switch {
    pub(crate) async fn start(target: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (target, targets) = watch::channel(target);
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let target = *targets.borrow();
                connections.spawn(async move {
                    let Ok(mut server) = TcpStream::connect(target).await else { return };
                    // Whoever asked sees that the connection ends.
                    let _: Result<_, _> = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Ok(Self { address, target, _accepting: accepting })
    }

    /// New connections go there. Those that there are stay.
    pub(crate) fn turn(&self, target: SocketAddr) {
        self.target.send_replace(target);
    }
}
