//! What a request asks the backend to answer.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Request;
use serde::{Deserialize, Serialize};

use super::{Echoed, RESPOND};

/// The header by which attempts of one request are recognised as such.
pub const ATTEMPTS_OF: &str = "x-test-id";

/// The answer that a request asks for. What is not set is what a backend without opinions does: 200, at once.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Respond {
    /// The status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How many attempts get `status` and `delay` before the backend answers 200 at once; all of them if not set.
    /// Attempts are told apart from new requests by the header `x-test-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<u32>,
    /// How long the backend thinks.
    #[serde(skip_serializing_if = "Option::is_none", with = "duration")]
    pub delay: Option<Duration>,
    /// What the body says. What was received stands in the header [`ECHOED`](super::ECHOED) then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Headers of the response; a name may come twice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// What follows the body, over HTTP/2.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trailers: Vec<(String, String)>,
}

impl Respond {
    /// What `request` asks for: by header if it has one, else by query. What cannot be understood is not asked for.
    pub fn of<B>(request: &Request<B>) -> Self {
        let header = request.headers().get(RESPOND);
        if let Some(header) = header.and_then(|value| value.to_str().ok()) {
            return serde_json::from_str(header).unwrap_or_default();
        }
        let mut wanted = Self::default();
        let query = request.uri().query().unwrap_or_default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "status" => wanted.status = value.parse().ok(),
                "failures" => wanted.failures = value.parse().ok(),
                "delay" => wanted.delay = duration::parse(value),
                "header" => wanted
                    .headers
                    .extend(value.split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()))),
                _ => {}
            }
        }
        wanted
    }

    /// Whether nothing is asked for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Counts the attempts of requests that shall fail a number of times.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<String, u32>>);

impl Attempts {
    /// Whether this attempt is one of those that get what was asked for.
    pub(super) fn fails(&self, wanted: &Respond, request: &Echoed) -> bool {
        let Some(failures) = wanted.failures else {
            return true;
        };
        let id = request.header(ATTEMPTS_OF).unwrap_or_default();
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = attempts.entry(id).or_default();
        *attempt += 1;
        *attempt <= failures
    }
}

mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// `200ms`, `2s`.
    pub(super) fn parse(text: &str) -> Option<Duration> {
        if let Some(millis) = text.strip_suffix("ms") {
            return Some(Duration::from_millis(millis.parse().ok()?));
        }
        Some(Duration::from_secs(text.strip_suffix('s')?.parse().ok()?))
    }

    // The signature is serde's.
    #[allow(clippy::ref_option, reason = "serde passes the field by reference")]
    pub(super) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = value.unwrap_or_default().as_millis();
        serializer.serialize_str(&format!("{millis}ms"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(Some).ok_or_else(|| D::Error::custom(format!("{text:?} is not like 200ms or 2s")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_asks_for_status_delay_and_headers() {
        let request =
            Request::get("/x?status=503&delay=200ms&header=a:b&header=a:c&other").body(()).expect("valid request");
        let wanted = Respond::of(&request);
        assert_eq!(wanted.status, Some(503));
        assert_eq!(wanted.delay, Some(Duration::from_millis(200)));
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(wanted.headers, [pair("a", "b"), pair("a", "c")]);
    }

    #[test]
    fn the_header_wins_over_the_query_and_survives_json() {
        let asked = Respond {
            status: Some(500),
            failures: Some(2),
            delay: Some(Duration::from_secs(1)),
            body: Some("short".to_owned()),
            headers: vec![("a".to_owned(), "b".to_owned())],
            trailers: vec![("c".to_owned(), "d".to_owned())],
        };
        let json = serde_json::to_string(&asked).expect("encodes");
        let request = Request::get("/x?status=503").header(RESPOND, json);
        let request = request.body(()).expect("valid request");
        assert_eq!(Respond::of(&request), asked);
    }
}
