//! The other end of a connection.

use std::net::SocketAddr;

/// Where a connection comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerAddress {
    /// A TCP connection from this address.
    Tcp(SocketAddr),
    /// A Unix socket connection.
    Unix,
}

/// The other end of a connection, as far as it is known without asking it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Where the connection comes from. Says nothing about who it is.
    pub address: PeerAddress,
}

impl Peer {
    pub(crate) fn new(address: PeerAddress) -> Self {
        Self { address }
    }
}
