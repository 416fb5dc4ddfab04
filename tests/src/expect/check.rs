//! Sends the request of a row and compares what comes of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use http::Uri;

use super::{Case, Expectation, Redirect, RequestRow, session, shares};
use crate::certificates::Certificates;
use crate::client::{self, Connection, Protocol, Request, Response, Target, Tls};
use crate::echo::{Echo, Echoed, RESPOND, join};
use crate::manifests::LOCALHOST;
use crate::ports::LoopbackBlock;
use crate::wait::eventually;

/// The header by which the test finds a request again.
pub(super) const ID: &str = "x-test-id";

/// What rows are played on.
pub struct Stage {
    /// The real port of a listener, by Gateway and written port.
    pub ports: BTreeMap<(String, u16), u16>,
    /// The backends.
    pub backends: Vec<Echo>,
    /// The certificates of the Secrets.
    pub certificates: Certificates,
    /// The addresses that pods got.
    pub block: LoopbackBlock,
}

impl Case {
    /// Sends the request, once or as often as the row says, and compares.
    pub async fn check(&self, stage: &Stage) -> Result<()> {
        let checked = async {
            let target = stage.target(&self.request)?;
            if self.expect.refused {
                return refused(&target, &self.request).await;
            }
            if self.request.websocket {
                return self.check_websocket(stage, &target).await;
            }
            if let Some(session) = &self.expect.session {
                return session::check(self, session, &target).await;
            }
            if self.expect.has_shares() {
                return shares::check(self, stage, &target).await;
            }
            for _ in 0..self.request.times.unwrap_or(1) {
                self.check_once(stage, &target).await?;
            }
            Ok(())
        };
        checked.await.with_context(|| self.to_string())
    }

    async fn check_once(&self, stage: &Stage, target: &Target) -> Result<()> {
        let (id, request) = self.request.build()?;
        let mut connection = Connection::open(target).await?;
        if let Some(expected) = &self.expect.certificate {
            let shown = connection.certificate.as_deref();
            let shown = shown.and_then(|der| stage.certificates.secret_of(der));
            ensure!(shown.as_ref() == Some(expected), "certificate of {shown:?} shown, expected {expected}");
        }
        let response = connection.send(&request).await?;
        self.expect.compare(&self.request, target, &response)?;
        for backend in &self.expect.mirrored {
            self.check_copy(stage, backend, &id).await?;
        }
        Ok(())
    }

    async fn check_copy(&self, stage: &Stage, backend: &str, id: &str) -> Result<()> {
        // A copy is on its way when the client has its answer.
        let copy = eventually(std::time::Duration::from_secs(3), async || {
            let sent = |seen: &Echoed| seen.header(ID).as_deref() == Some(id);
            let copy = stage.backends_named(backend).find_map(|echo| echo.latest(sent));
            copy.with_context(|| format!("{backend} got no copy"))
        });
        let copy = copy.await?;
        let host = self.expect.mirrored_host.as_ref().or(self.expect.host.as_ref()).cloned();
        let expect = Expectation { host, ..self.expect.clone() };
        expect.compare_upstream_request(&self.request, &copy).with_context(|| format!("the copy for {backend}"))
    }

    async fn check_websocket(&self, stage: &Stage, target: &Target) -> Result<()> {
        let (id, request) = self.request.build()?;
        client::websocket_echo(target, &request).await?;
        let Some(backend) = &self.expect.backend else {
            return Ok(());
        };
        let reached = |echo: &Echo| echo.count(|seen| seen.header(ID).as_deref() == Some(&id)) > 0;
        ensure!(stage.backends_named(backend).any(reached), "the WebSocket did not reach {backend}");
        Ok(())
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let request = &self.request;
        write!(f, "{} {}{} {:?}", request.method, request.host, request.path, request.headers.0)?;
        match &self.name {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

impl Stage {
    /// The backends of one Service.
    pub(super) fn backends_named(&self, name: &str) -> impl Iterator<Item = &Echo> {
        self.backends.iter().filter(move |echo| echo.name() == name)
    }

    fn target(&self, request: &RequestRow) -> Result<Target> {
        let mut candidates = self.ports.iter().filter(|((gateway, port), _)| {
            request.gateway.as_ref().is_none_or(|wanted| wanted == gateway)
                && request.port.is_none_or(|wanted| wanted == *port)
        });
        let (Some((_, port)), None) = (candidates.next(), candidates.next()) else {
            bail!("say which Gateway and port are meant, of {:?}", self.ports.keys());
        };
        Ok(Target {
            address: SocketAddr::new(LOCALHOST, *port),
            protocol: request.protocol,
            tls: request.tls.as_ref().map(|tls| Tls { server_name: tls.sni.clone(), key: tls.key, ..Tls::default() }),
        })
    }
}

impl RequestRow {
    /// The request with an id that no other has.
    pub(super) fn build(&self) -> Result<(String, Request)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut headers = self.headers.0.clone();
        headers.push((ID.to_owned(), id.clone()));
        if !self.respond.is_default() {
            let respond = serde_json::to_string(&self.respond)?;
            headers.push((RESPOND.to_owned(), respond));
        }
        let request = Request {
            method: self.method.clone(),
            path: self.path.clone(),
            host: self.host.clone(),
            headers,
            body: self.body.clone(),
        };
        Ok((id, request))
    }
}

impl Expectation {
    /// Compares one response, and the request that the backend saw.
    pub(super) fn compare(&self, request: &RequestRow, target: &Target, response: &Response) -> Result<()> {
        let status = self.status.unwrap_or(200);
        ensure!(
            response.status == status,
            "status {}, expected {status}; from {}, body {:?}",
            response.status,
            response.echoed.as_ref().map_or("Envoy", |seen| &seen.backend),
            shorten(&response.body)
        );
        self.compare_response(response)?;
        if let Some(redirect) = &self.redirect {
            redirect.compare(request, target, response)?;
        }
        match (&self.backend, &response.echoed) {
            (Some(expected), Some(seen)) => {
                ensure!(seen.backend == *expected, "backend {}, expected {expected}", seen.backend);
                self.compare_upstream_request(request, seen)
            }
            (Some(expected), None) if request.method == "HEAD" => {
                bail!("a HEAD cannot tell whether {expected} answered")
            }
            (Some(expected), None) => {
                bail!("no backend answered, expected {expected}: {}", response.body)
            }
            (None, Some(seen)) if self.no_backend || (status >= 300 && request.respond.is_default()) => {
                bail!("{} answered, which should not be reached", seen.backend)
            }
            (None, Some(seen)) => self.compare_upstream_request(request, seen),
            (None, None) => Ok(()),
        }
    }

    fn compare_response(&self, response: &Response) -> Result<()> {
        for (name, expected) in &self.response.headers.0 {
            let actual = response.header(name);
            ensure!(
                actual.as_deref().map(squeeze) == Some(squeeze(expected)),
                "response header {name} is {actual:?}, expected {expected:?}"
            );
        }
        for (name, allowed) in &self.response.either {
            let actual = response.header(name).as_deref().map(squeeze);
            let mut allowed_values = allowed.iter().map(|value| squeeze(value));
            ensure!(
                allowed_values.any(|value| actual.as_ref() == Some(&value)),
                "response header {name} is {actual:?}, expected one of {allowed:?}"
            );
        }
        for name in &self.response.absent_headers {
            let actual = response.header(name);
            ensure!(actual.is_none(), "response header {name} is {actual:?}");
        }
        if let Some(part) = &self.response.body {
            ensure!(response.body.contains(part), "body {:?} lacks {part:?}", shorten(&response.body));
        }
        Ok(())
    }

    /// Compares the request as a backend saw it.
    pub(super) fn compare_upstream_request(&self, sent: &RequestRow, seen: &Echoed) -> Result<()> {
        let path = self.path.as_ref().unwrap_or(&sent.path);
        ensure!(seen.path == *path, "the backend saw path {}, expected {path}", seen.path);
        // Copies may carry a host of their own.
        let host = self.host.as_ref().unwrap_or(&sent.host);
        let copied = seen.host == format!("{host}-shadow");
        ensure!(seen.host == *host || copied, "the backend saw host {}, expected {host}", seen.host);
        let method = self.method.as_ref().unwrap_or(&sent.method);
        ensure!(seen.method == *method, "the backend saw method {}, expected {method}", seen.method);
        if let Some(protocol) = &self.protocol {
            ensure!(seen.protocol == *protocol, "the backend saw {}, expected {protocol}", seen.protocol);
        }
        for (name, expected) in &self.headers.0 {
            let actual = seen.header(name);
            ensure!(
                actual.as_deref().map(squeeze) == Some(squeeze(expected)),
                "the backend saw header {name} as {actual:?}, expected {expected:?}"
            );
        }
        for name in &self.absent_headers {
            let actual = seen.header(name);
            ensure!(actual.is_none(), "the backend saw {name}: {actual:?}");
        }
        Ok(())
    }
}

impl Redirect {
    fn compare(&self, request: &RequestRow, target: &Target, response: &Response) -> Result<()> {
        let location = join(&response.headers, "location").context("no Location")?;
        let actual: Uri = location.parse()?;
        let fail = |what: &str, expected: &str| format!("{what} {expected} expected in {location}");

        let sent_scheme = if target.tls.is_some() { "https" } else { "http" };
        let scheme = self.scheme.as_deref().unwrap_or(sent_scheme);
        ensure!(actual.scheme_str() == Some(scheme), fail("scheme", scheme));
        let sent_host = request.host.split(':').next().unwrap_or_default();
        let host = self.host.as_deref().unwrap_or(sent_host);
        ensure!(actual.host() == Some(host), fail("host", host));
        let port = match self.port.as_deref() {
            None => None,
            Some("listener") => Some(target.address.port()),
            Some(port) => Some(port.parse()?),
        };
        ensure!(actual.port_u16() == port, fail("port", &format!("{port:?}")));
        let path = self.path.as_deref().unwrap_or(&request.path);
        let actual_path = actual.path_and_query().map(http::uri::PathAndQuery::as_str);
        ensure!(actual_path == Some(path), fail("path", path));
        Ok(())
    }
}

async fn refused(target: &Target, row: &RequestRow) -> Result<()> {
    let Ok(mut connection) = Connection::open(target).await else {
        return Ok(());
    };
    // A server may close right after the handshake.
    let (_, request) = row.build()?;
    if let (Ok(response), Protocol::Http1 | Protocol::H2) = (connection.send(&request).await, target.protocol) {
        bail!("answered with {}, expected no connection", response.status);
    }
    Ok(())
}

/// Blanks around commas mean nothing in a list.
fn squeeze(value: &str) -> String {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    parts.join(",")
}

fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}
