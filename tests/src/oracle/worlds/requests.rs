//! Requests at the boundaries of matches.

use std::collections::BTreeSet;

use super::{Asked, Draw, GATEWAYS};
use crate::client::Request;

const REQUESTS: usize = 60;

/// Requests for some of the paths that are served or written, and for what is close to them.
pub(super) fn requests(draw: &mut Draw, served: &BTreeSet<String>, written: &BTreeSet<String>) -> Vec<Asked> {
    let list = |paths: &BTreeSet<String>| {
        // Envoy merges slashes before it looks at routes, and the oracle does not.
        let plain = paths.iter().filter(|path| path.starts_with('/') && !path.contains("//"));
        let list: Vec<_> = plain.cloned().collect();
        if list.is_empty() { vec!["/".to_owned()] } else { list }
    };
    let (served, written) = (list(served), list(written));
    let around = |draw: &mut Draw| {
        let path = if draw.percent(75) { draw.of(&served) } else { draw.of(&written) };
        let bare = path.trim_end_matches('/');
        let above = bare.rsplit_once('/').map_or("", |(above, _)| above);
        let close = [
            path.clone(),
            bare.to_owned(),
            format!("{bare}/"),
            format!("{bare}/zz"),
            format!("{bare}/x"),
            // Half a segment more.
            format!("{bare}zz"),
            above.to_owned(),
        ];
        let close = draw.of(&close);
        if close.starts_with('/') { close } else { "/".to_owned() }
    };
    let requests = (0..REQUESTS).map(|_| {
        let path = around(draw);
        request(draw, path)
    });
    requests.collect()
}

fn request(draw: &mut Draw, mut path: String) -> Asked {
    let (gateway, port) = draw.of(&[(0, 80), (0, 80), (0, 80), (0, 80), (0, 81), (1, 80)]);
    let hosts = [
        "a.example.com",
        "a.example.com",
        "a.example.com",
        "b.example.com",
        "c.b.example.com",
        "example.org",
        "other.test",
    ];
    if draw.percent(60) {
        path.push_str(draw.of(&["?q=1", "?q=1", "?z=1&q=1", "?q=2"]));
    }
    let mut request = Request::get(draw.of(&hosts), &path);
    if draw.percent(60) {
        request = request.header(draw.of(&["x-h", "X-H"]), draw.of(&["1", "1", "1", "2"]));
    }
    if draw.percent(50) {
        request = request.header("x-i", draw.of(&["v1", "v1", "v12"]));
    }
    if draw.percent(20) {
        "POST".clone_into(&mut request.method);
    }
    Asked { gateway: GATEWAYS[gateway].0, port, request, is_repeated: false }
}
