//! Ports and loopback addresses that parallel tests do not fight over.

use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

/// Ports are taken from below Linux's ephemeral range, so that no outgoing connection of a test holds one of them.
const FIRST: u32 = 10_000;
const COUNT: u32 = 20_000;

static NEXT_PORT: AtomicU32 = AtomicU32::new(0);
static NEXT_BLOCK: AtomicU16 = AtomicU16::new(0);

/// A TCP port on which nobody listens, handed out once in this process.
pub fn free_port() -> Result<u16> {
    // Processes start at different places, since several test binaries may run at once.
    let offset = std::process::id().wrapping_mul(97);
    for _ in 0..COUNT {
        let next = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + offset.wrapping_add(next) % COUNT)?;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between {FIRST} and {}", FIRST + COUNT)
}

/// Whether this process may listen on `port` right now.
pub fn can_bind(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok()
}

/// An address of this machine that is not one of loopback, since an API server takes none of those for a pod's.
pub fn own_address() -> Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Sends nothing: it only has the system choose the address from which it would send.
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).context("this machine has loopback addresses alone")?;
    Ok(socket.local_addr()?.ip())
}

/// A /24 of loopback addresses of one test: what is a pod's address in a manifest becomes one of these, so that a
/// backend keeps its port number.
#[derive(Clone, Copy, Debug)]
pub struct LoopbackBlock {
    second: u8,
    third: u8,
}

impl LoopbackBlock {
    /// Takes a block that no other test of this process has.
    pub fn reserve() -> Result<Self> {
        let second = u8::try_from(1 + std::process::id() % 250)?;
        let third = NEXT_BLOCK.fetch_add(1, Ordering::Relaxed);
        let third = u8::try_from(third).context("a process has 256 loopback blocks")?;
        Ok(Self { second, third })
    }

    /// The address of this block with the last octet `host`.
    pub fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, self.second, self.third, host)
    }
}
