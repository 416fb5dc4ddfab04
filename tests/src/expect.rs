//! Requests and what must come of them, as data.

mod check;
mod headers;
mod session;
mod shares;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::certificates::KeyKind;
use crate::client::Protocol;
use crate::echo::Respond;

pub use check::Stage;
pub use headers::Headers;

/// One row of a table: a request, and what must come of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Case {
    /// What the row shows, where the request does not say it.
    pub name: Option<String>,
    /// The request.
    #[serde(default)]
    pub request: RequestRow,
    /// What must come of it.
    #[serde(default)]
    pub expect: Expectation,
}

/// A request. What is not said is `GET / HTTP/1.1` with `Host: example.com` to the one listener there is.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RequestRow {
    /// The Gateway (`NAMESPACE/NAME`).
    pub gateway: Option<String>,
    /// The port of the listener, as it is written in the manifest.
    pub port: Option<u16>,
    /// The method.
    pub method: String,
    /// The `Host` header or `:authority`.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// Further headers.
    pub headers: Headers,
    /// The body.
    pub body: String,
    /// The protocol towards the listener.
    pub protocol: Protocol,
    /// TLS towards the listener.
    pub tls: Option<TlsRow>,
    /// What the backend shall answer.
    pub respond: Respond,
    /// Open a WebSocket, and check that it echoes.
    pub websocket: bool,
    /// Send it this often; needed where shares are counted.
    pub times: Option<usize>,
}

impl Default for RequestRow {
    fn default() -> Self {
        Self {
            gateway: None,
            port: None,
            method: "GET".to_owned(),
            host: "example.com".to_owned(),
            path: "/".to_owned(),
            headers: Headers::default(),
            body: String::new(),
            protocol: Protocol::default(),
            tls: None,
            respond: Respond::default(),
            websocket: false,
            times: None,
        }
    }
}

/// TLS of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TlsRow {
    /// The server name; none is sent if this is not set.
    pub sni: Option<String>,
    /// The only kind of certificate that the client takes.
    pub key: Option<KeyKind>,
}

/// What must come of a request. What is not said is not compared, but for the status (200) and, where a backend is
/// named, for the request that reaches it: path, host and method as sent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Expectation {
    /// The status.
    pub status: Option<u16>,
    /// The backend that answers (`NAMESPACE/SERVICE`).
    pub backend: Option<String>,
    /// No backend answers: Envoy does.
    pub no_backend: bool,
    /// The path and query that the backend sees.
    pub path: Option<String>,
    /// The host that the backend sees.
    pub host: Option<String>,
    /// The method that the backend sees.
    pub method: Option<String>,
    /// The protocol that the backend is spoken to with, as in `HTTP/2.0`.
    pub protocol: Option<String>,
    /// Headers that the backend sees, all values of a name joined by commas.
    pub headers: Headers,
    /// Headers that the backend does not see.
    pub absent_headers: Vec<String>,
    /// The response.
    pub response: ResponseExpectation,
    /// Where the client is sent.
    pub redirect: Option<Redirect>,
    /// Backends that get a copy each of every request.
    pub mirrored: Vec<String>,
    /// The host that the copies are for, if it is another.
    pub mirrored_host: Option<String>,
    /// Backends that get a copy of this share of the requests (0 to 1).
    pub mirrored_shares: BTreeMap<String, f64>,
    /// Which share of the requests each backend answers (0 to 1); a status in place of a backend stands for answers
    /// that no backend gave.
    pub shares: BTreeMap<String, f64>,
    /// Which share of the requests each endpoint answers, by address as it is written in the manifest.
    pub endpoint_shares: BTreeMap<String, f64>,
    /// Beside shares: what holds for the requests that a backend answers.
    pub each: BTreeMap<String, Expectation>,
    /// Requests of one session reach one endpoint.
    pub session: Option<Session>,
    /// The Secret (`NAMESPACE/NAME`) whose certificate is shown.
    pub certificate: Option<String>,
    /// No connection comes about: nobody listens, or the TLS handshake is refused.
    pub refused: bool,
}

impl Expectation {
    /// Every backend that is named, or status in place of one.
    pub fn backends(&self) -> impl Iterator<Item = &String> {
        let shares = self.shares.keys().chain(self.mirrored_shares.keys());
        let others = self.backend.iter().chain(&self.mirrored);
        others.chain(shares).chain(self.each.keys())
    }

    /// Whether the request has to be sent many times.
    fn has_shares(&self) -> bool {
        !(self.shares.is_empty() && self.endpoint_shares.is_empty() && self.mirrored_shares.is_empty())
    }
}

/// What the client gets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ResponseExpectation {
    /// Headers, all values of a name joined by commas; blanks around commas do not matter.
    pub headers: Headers,
    /// Headers that have one of several values.
    pub either: BTreeMap<String, Vec<String>>,
    /// Headers that are not there.
    pub absent_headers: Vec<String>,
    /// A part of the body.
    pub body: Option<String>,
}

/// A `Location`. What is not said is as in the request; a port is not said if it is the scheme's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Redirect {
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// The host without port.
    pub host: Option<String>,
    /// The port, or `listener` for that on which the listener really listens.
    pub port: Option<String>,
    /// Path and query.
    pub path: Option<String>,
}

/// How a session is recognised.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Session {
    /// By a cookie of this name.
    Cookie(String),
    /// By a header of this name, which the response carries first.
    Header(String),
}
