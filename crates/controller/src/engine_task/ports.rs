//! Whether the ports that Gateways want can be bound on this host.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
};

use ir::{Port, backend::Transport};
use tokio::net::TcpSocket;
use translate::Translator;

/// A port in TCP or in UDP, which are two.
type Bound = (Port, Transport);

/// Tries to bind ports.
pub trait HostPorts: Send {
    /// Why the port cannot be bound, if it cannot. With `ours` a proxy of ours may hold it, which is no obstacle.
    fn try_bind(&mut self, port: Port, transport: Transport, ours: bool) -> Result<(), io::Error>;
}

/// Checks ports before proxies get listeners on them.
///
/// A port is tried when it is wanted for the first time, and again while it cannot be bound. One that a proxy of ours
/// has is not tried: it is in use, by us.
pub struct PortCheck {
    host: Box<dyn HostPorts>,
    /// What was wanted at the last look.
    wanted: BTreeSet<Bound>,
    /// Ports that could be bound once, and so may be held by a proxy of ours, even one that is about to let go.
    ours: BTreeSet<Bound>,
    unusable: BTreeMap<Bound, String>,
}

impl PortCheck {
    /// A check by these means.
    pub fn new(host: impl HostPorts + 'static) -> Self {
        Self { host: Box::new(host), wanted: BTreeSet::new(), ours: BTreeSet::new(), unusable: BTreeMap::new() }
    }

    /// Looks at the ports that are newly wanted. Returns whether anything changed for the translator.
    pub(super) fn check(&mut self, translator: &mut Translator) -> bool {
        let wanted: BTreeSet<Bound> = translator.wanted_ports().into_iter().map(|(_, port)| port).collect();
        // A port that cannot be bound stays wanted, though no listener has it while it cannot.
        let new: Vec<Bound> = wanted.difference(&self.wanted).copied().collect();
        let gone: Vec<Bound> = self.unusable.keys().filter(|port| !wanted.contains(port)).copied().collect();
        self.wanted = wanted;
        let mut changed = false;
        for port in gone {
            self.unusable.remove(&port);
            translator.set_unusable_port(port.0, port.1, None);
            changed = true;
        }
        for port in new {
            changed |= self.try_port(port, translator);
        }
        changed
    }

    /// Whether every port that is wanted can be bound.
    pub(super) fn is_content(&self) -> bool {
        self.unusable.is_empty()
    }

    /// Looks again at those that could not be bound.
    pub(super) fn recheck(&mut self, translator: &mut Translator) {
        for port in self.unusable.keys().copied().collect::<Vec<_>>() {
            self.try_port(port, translator);
        }
    }

    fn try_port(&mut self, port: Bound, translator: &mut Translator) -> bool {
        let (number, transport) = port;
        let why = self.host.try_bind(number, transport, self.ours.contains(&port)).err().map(|error| words(&error));
        if why.is_none() {
            self.ours.insert(port);
        }
        let before = match &why {
            Some(why) => self.unusable.insert(port, why.clone()),
            None => self.unusable.remove(&port),
        };
        if before == why {
            return false;
        }
        if let Some(why) = &why {
            tracing::warn!(port = number, ?transport, why, "a port cannot be bound");
        } else {
            tracing::info!(port = number, ?transport, "a port can be bound again");
        }
        translator.set_unusable_port(number, transport, why);
        true
    }
}

/// A message that does not depend on the system.
fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another process has it".into(),
        io::ErrorKind::PermissionDenied => "this process may not bind ports below 1024".into(),
        _ => error.to_string(),
    }
}

/// The ports of this host.
#[derive(Debug)]
pub struct ThisHost;

impl HostPorts for ThisHost {
    fn try_bind(&mut self, port: Port, transport: Transport, ours: bool) -> Result<(), io::Error> {
        if transport == Transport::Udp {
            return try_bind_udp(port, ours);
        }
        let socket = TcpSocket::new_v4()?;
        // As Envoy does, so that connections of the past that linger are no obstacle.
        socket.set_reuseaddr(true)?;
        // Envoy shares its ports with its next self, and so with this socket, which binds and never listens.
        #[cfg(unix)]
        socket.set_reuseport(ours)?;
        #[cfg(not(unix))]
        let _ = ours;
        socket.bind(SocketAddr::from(([0, 0, 0, 0], port)))
    }
}

/// The same for datagrams. With `ours` whoever shares the port is taken for a proxy of ours.
fn try_bind_udp(port: Port, ours: bool) -> Result<(), io::Error> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))?;
    #[cfg(unix)]
    socket.set_reuse_port(ours)?;
    #[cfg(not(unix))]
    let _ = ours;
    socket.bind(&SocketAddr::from(([0, 0, 0, 0], port)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_another_has_cannot_be_bound() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = other.local_addr().expect("it is bound").port();
        let error = ThisHost.try_bind(port, Transport::Tcp, false).expect_err("it is taken");
        assert_eq!(words(&error), "another process has it");
        drop(other);
        ThisHost.try_bind(port, Transport::Tcp, false).expect("it is free");
    }

    #[test]
    fn a_port_of_datagrams_is_another_one() {
        let other = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = other.local_addr().expect("it is bound").port();
        let error = ThisHost.try_bind(port, Transport::Udp, false).expect_err("it is taken");
        assert_eq!(words(&error), "another process has it");
        drop(other);
        ThisHost.try_bind(port, Transport::Udp, false).expect("it is free");
    }

    #[tokio::test]
    async fn a_port_that_a_proxy_of_ours_has_can_be_bound() {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("an option");
        socket.set_reuseport(true).expect("an option");
        socket.bind(([0, 0, 0, 0], 0).into()).expect("a port");
        let envoy = socket.listen(1).expect("it is bound");
        let port = envoy.local_addr().expect("it is bound").port();
        ThisHost.try_bind(port, Transport::Tcp, false).expect_err("it is taken");
        ThisHost.try_bind(port, Transport::Tcp, true).expect("it is shared");
    }
}
