//! Where the xDS server listens.

use std::{net::SocketAddr, path::PathBuf};

use envoy::bootstrap::XdsAddress;
use tokio::net::{TcpListener, UnixListener};

use super::RunError;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bind {
    /// On an address and a port.
    Tcp(SocketAddr),
    /// On a Unix socket.
    Unix(PathBuf),
}

/// A bound listener of the xDS server.
pub(super) enum XdsListener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl XdsListener {
    /// Binds it; anywhere but on loopback and on Unix sockets only where clients are authenticated.
    pub(super) async fn bind(bind: &Bind, secured: bool) -> Result<Self, RunError> {
        let failed = |why: &dyn std::fmt::Display| RunError::listen(bind, "--xds-address", why);
        match bind {
            Bind::Tcp(address) => {
                if !secured {
                    xds::check_bind(*address).map_err(|error| failed(&error))?;
                }
                let listener = TcpListener::bind(address).await.map_err(|error| failed(&error))?;
                let address = listener.local_addr().map_err(|error| failed(&error))?;
                Ok(Self::Tcp(listener, address))
            }
            Bind::Unix(path) => {
                let listener = accept::bind_unix(path).map_err(|error| failed(&error))?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Where Envoys on this host find it.
    pub(super) fn address(&self) -> XdsAddress {
        match self {
            Self::Tcp(_, address) => XdsAddress::Tcp { host: address.ip().to_string(), port: address.port() },
            Self::Unix(_, path) => XdsAddress::Unix(path.clone()),
        }
    }

    /// The path of a Unix socket, which stays after it is closed.
    pub(super) fn socket(&self) -> Option<PathBuf> {
        match self {
            Self::Tcp(..) => None,
            Self::Unix(_, path) => Some(path.clone()),
        }
    }

    /// Serves until `shutdown`; with `certificate` over TLS.
    pub(super) async fn serve(
        self,
        server: xds::Server,
        certificate: Option<xds::Certificate>,
        shutdown: impl Future<Output = ()> + Send,
    ) {
        match self {
            Self::Tcp(listener, _) => {
                let served = match certificate {
                    Some(certificate) => server.serve_tls(listener, &certificate, shutdown).await,
                    None => server.serve_tcp(listener, shutdown).await,
                };
                if let Err(error) = served {
                    tracing::error!(%error, "the xDS server failed");
                }
            }
            Self::Unix(listener, _) => server.serve_unix(listener, shutdown).await,
        }
    }
}

impl std::fmt::Display for XdsListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(_, address) => address.fmt(f),
            Self::Unix(_, path) => Bind::Unix(path.clone()).fmt(f),
        }
    }
}

impl std::fmt::Display for Bind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl std::str::FromStr for Bind {
    type Err = String;

    /// `ADDRESS:PORT`, or `unix:PATH`.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("a path is missing after unix:".into()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Tcp).map_err(|_| "must be ADDRESS:PORT or unix:PATH".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_of_tcp_or_the_path_of_a_socket() {
        assert_eq!("127.0.0.1:80".parse(), Ok(Bind::Tcp(([127, 0, 0, 1], 80).into())));
        assert_eq!("unix:/run/x".parse(), Ok(Bind::Unix("/run/x".into())));
        for text in ["", "unix:", "localhost", "127.0.0.1", "/run/x"] {
            assert!(text.parse::<Bind>().is_err(), "{text}");
        }
        assert_eq!("unix:/run/x".parse::<Bind>().map(|bind| bind.to_string()), Ok("unix:/run/x".into()));
    }

    #[tokio::test]
    async fn xds_is_not_served_where_others_can_reach_it() {
        let bind = Bind::Tcp(([0, 0, 0, 0], 0).into());
        let error = XdsListener::bind(&bind, false).await.err().expect("it is refused");
        assert!(error.to_string().contains("--xds-address") && error.to_string().contains("loopback"), "{error}");
    }
}
