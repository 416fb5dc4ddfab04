//! Ports and loopback addresses that parallel tests do not fight over.

use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

/// Ports are taken from below Linux's ephemeral range, so that no outgoing connection of a test holds one of them.
const FIRST: u16 = 10_000;
/// How many a process takes at once.
const CHUNK: u16 = 250;
const CHUNKS: u16 = 80;

/// Who has bound one of these UDP ports has the chunk of ports, or the loopback addresses, that it stands for. They are
/// above the ephemeral range.
const CHUNK_LOCKS: u16 = 61_000;
const LOOPBACK_LOCKS: u16 = 61_200;

/// Second octets of loopback addresses: 1 to 250.
const SECONDS: u8 = 250;

static PORTS: Mutex<Series> = Mutex::new(Series { member: 0, next: CHUNK });
static BLOCKS: Mutex<Series> = Mutex::new(Series { member: 0, next: 256 });

/// One of several series of numbers, and the next number of it.
#[derive(Debug)]
struct Series {
    member: u16,
    next: u16,
}

impl Series {
    /// The next number of a series of `length`; of another one, which no other process has, when that is used up.
    fn next(series: &Mutex<Self>, length: u16, locks: u16, members: u16) -> Result<(u16, u16)> {
        let mut series = series.lock().unwrap_or_else(PoisonError::into_inner);
        if series.next == length {
            *series = Self { member: claim(locks, members)?, next: 0 };
        }
        series.next += 1;
        Ok((series.member, series.next - 1))
    }
}

/// One of `count` things that no other process of this machine has, for as long as this process lives.
fn claim(locks: u16, count: u16) -> Result<u16> {
    let mut free =
        (0..count).filter_map(|index| Some((index, UdpSocket::bind((Ipv4Addr::LOCALHOST, locks + index)).ok()?)));
    let (index, lock) = free.next().context("other processes have all ports of tests")?;
    // It ends with the process.
    std::mem::forget(lock);
    Ok(index)
}

/// A TCP port on which nobody listens, handed out once, in this process and in others that ask here.
pub fn free_port() -> Result<u16> {
    loop {
        let (chunk, place) = Series::next(&PORTS, CHUNK, CHUNK_LOCKS, CHUNKS)?;
        let port = FIRST + chunk * CHUNK + place;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return Ok(port);
        }
    }
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
    /// Takes a block that no other test has, of this process or another.
    pub fn reserve() -> Result<Self> {
        let (second, third) = Series::next(&BLOCKS, 256, LOOPBACK_LOCKS, SECONDS.into())?;
        Ok(Self { second: u8::try_from(1 + second)?, third: u8::try_from(third)? })
    }

    /// The address of this block with the last octet `host`.
    pub fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, self.second, self.third, host)
    }
}
