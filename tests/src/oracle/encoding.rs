//! How the body of a backend comes to the client: as it is, or compressed.

use serde_json::Value;

use super::sight::header;
use crate::client::Request;
use crate::echo::{Respond, join};

/// Bodies below this are left alone.
const SHORTEST: usize = 30;

/// What is compressed: text, HTML, CSS, JavaScript, JSON, XML and SVG.
const TYPES: [&str; 8] = [
    "text/plain",
    "text/html",
    "text/css",
    "application/javascript",
    "application/json",
    "application/xml",
    "text/xml",
    "image/svg+xml",
];

/// The libraries, with the names that clients know.
const CODINGS: [(&str, &str); 3] = [("Gzip", "gzip"), ("Brotli", "br"), ("Zstd", "zstd")];

/// The `Content-Encoding` of what a backend answers, if it is compressed, and why.
pub(super) fn encoding(
    compression: Option<&Value>,
    request: &Request,
    asked: &Respond,
) -> (Option<&'static str>, &'static str) {
    let Some(accepted) = header(request, "accept-encoding") else { return (None, "nothing is accepted") };
    let Some(compression) = compression else { return (None, "nothing compresses") };
    // What a client likes alike comes in its order.
    let mut liked: Vec<(f32, &str)> = accepted.split(',').map(liking).filter(|(liking, _)| *liking > 0.0).collect();
    liked.sort_by(|one, other| other.0.total_cmp(&one.0));
    let usual = [Value::from("Gzip")];
    let libraries = compression["libraries"].as_array().map_or(&usual[..], Vec::as_slice);
    let offered = |name: &str| {
        let coding = CODINGS.into_iter().find(|(_, coding)| *coding == name);
        coding.filter(|(library, _)| libraries.iter().any(|other| other == library))
    };
    let Some((_, coding)) = liked.into_iter().find_map(|(_, name)| offered(name)) else {
        return (None, "nothing that is accepted is offered");
    };
    let kind = join(&asked.headers, "content-type");
    let kind = kind.as_deref().unwrap_or("application/json").split(';').next().unwrap_or_default();
    if !TYPES.contains(&kind) {
        return (None, "the type is not compressed");
    }
    // What a backend tells of the request is longer.
    if asked.body.as_ref().is_some_and(|body| body.len() < SHORTEST) {
        return (None, "too short to be compressed");
    }
    (Some(coding), "compressed")
}

/// How much a client likes a coding, and its name.
fn liking(accepted: &str) -> (f32, &str) {
    match accepted.split_once(";q=") {
        Some((name, liking)) => (liking.trim().parse().expect("a number"), name.trim()),
        None => (1.0, accepted.trim()),
    }
}
