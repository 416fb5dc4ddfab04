//! The other end of a connection.

use std::net::{IpAddr, SocketAddr};

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
    /// Where the connection comes from, which proves no identity.
    pub address: PeerAddress,
}

/// What distinguishes connections before they are authenticated; none for a Unix socket.
pub(crate) type Origin = Option<IpAddr>;

impl Peer {
    pub(crate) fn new(address: PeerAddress) -> Self {
        Self { address }
    }

    pub(crate) fn origin(&self) -> Origin {
        match self.address {
            PeerAddress::Tcp(address) => Some(address.ip().to_canonical()),
            PeerAddress::Unix => None,
        }
    }
}
