//! What requests ask of policies, and of the backends that answer them.

use std::time::Duration;

use super::{Asked, Draw};
use crate::client::Request;
use crate::echo;
use crate::oracle::{Answer, Oracle, Outcome};

/// How long a backend thinks whose answer is late for the shortest timeouts, by as much again.
const LATE: Duration = Duration::from_secs(3);

/// How many answers are late in a world at most: they take their time.
const MOST_LATE: usize = 8;

/// The requests that a backend answers or that are redirected.
pub(super) fn answered(oracle: &Oracle, aimed: &[Asked]) -> Vec<Asked> {
    let is_answered = |asked: &&Asked| {
        let answer = oracle.ask(asked.gateway, asked.port, &asked.request).answer();
        matches!(answer, Answer::Redirect | Answer::Backends { broken_share: false, .. })
    };
    aimed.iter().filter(is_answered).cloned().collect()
}

/// The same as requests that ask something of policies. Some are sent twice.
pub(super) fn questions(draw: &mut Draw, oracle: &Oracle, units: &[&str], aimed: &[Asked]) -> Vec<Asked> {
    let mut questions = Vec::new();
    for asked in aimed {
        let mut respond = backend();
        if draw.percent(40) {
            (respond.status, respond.failures) = (Some(503), Some(draw.of(&[1, 2])));
        }
        let one = Asked { request: ask(draw, asked.request.clone(), &respond), ..asked.clone() };
        let repeated = draw.percent(25).then(|| Asked { is_repeated: true, ..one.clone() });
        questions.extend([one].into_iter().chain(repeated));
    }
    questions.append(&mut wishes(draw, oracle, units, aimed));
    questions
}

/// Requests that ask something of a backend by which a client sees what some units say. Most are for what guards let
/// through.
fn wishes(draw: &mut Draw, oracle: &Oracle, units: &[&str], aimed: &[Asked]) -> Vec<Asked> {
    let redirects = if units.contains(&"internalRedirect") { 60 } else { 4 };
    let compresses = if units.contains(&"compression.responseCompression") { 60 } else { 4 };
    let (delays, mut late) = (if units.contains(&"timeouts") { 50 } else { 0 }, 0);
    let mut wishes = Vec::new();
    for asked in aimed {
        let plain = Asked { request: introduce(draw, asked.request.clone()), ..asked.clone() };
        let reaches = match oracle.ask(plain.gateway, plain.port, &plain.request) {
            Outcome::Route(taken) => oracle.follow(&plain, &taken).sight.is_forwarded,
            Outcome::NotFound(_) => false,
        };
        let mut wish = |request: Request, respond: &echo::Respond| {
            wishes.push(Asked { request: with(request, respond), ..plain.clone() });
        };
        for _ in 0..if reaches { 3 } else { draw.below(2) } {
            if draw.percent(redirects) {
                let there: Vec<_> =
                    aimed.iter().filter(|to| (to.gateway, to.port) == (asked.gateway, asked.port)).collect();
                let to = if draw.percent(30) { asked } else { draw.of(&there) };
                wish(plain.request.clone(), &redirect(draw, &to.request));
            }
            if draw.percent(compresses) {
                let (request, respond) = accept(draw, plain.request.clone());
                wish(request, &respond);
            }
        }
        if reaches && late < MOST_LATE && draw.percent(delays) {
            late += 1;
            wish(plain.request.clone(), &echo::Respond { delay: Some(LATE), ..backend() });
        }
    }
    wishes
}

/// What a backend answers that is asked for nothing else.
fn backend() -> echo::Respond {
    echo::Respond { headers: vec![text("x-a", "backend")], ..echo::Respond::default() }
}

/// A redirect to where another request goes.
fn redirect(draw: &mut Draw, to: &Request) -> echo::Respond {
    let mut respond = backend();
    respond.status = Some(draw.of(&[302, 302, 302, 302, 302, 302, 307, 307, 303, 303, 308, 301]));
    respond.failures = draw.of(&[Some(1), None]);
    let Request { host, path, .. } = to;
    let location = match draw.below(12) {
        0 => format!("https://{host}{path}"),
        1 => path.clone(),
        2 => format!("http://{host}/nowhere"),
        _ => format!("http://{host}{path}"),
    };
    respond.headers.push(text("location", &location));
    respond
}

/// Has a client accept encodings, and a backend answer what can be compressed, or cannot.
fn accept(draw: &mut Draw, request: Request) -> (Request, echo::Respond) {
    let mut respond = backend();
    // A client of tests reads no body that is compressed.
    let length = draw.of(&[29, 30, 30, 100, 100, 100]);
    respond.body = Some("a".repeat(length));
    let kind = draw.of(&["", "", "", "text/html", "image/svg+xml", "text/plain; charset=utf-8", "image/png"]);
    if !kind.is_empty() {
        respond.headers.push(text("content-type", kind));
    }
    let accepted = [
        "gzip",
        "gzip",
        "br",
        "gzip, br",
        "br, gzip",
        "gzip;q=0.5, br",
        "gzip;q=0.5, br",
        "br;q=0.1, gzip",
        "zstd, gzip;q=0",
        "identity",
    ];
    (request.header("accept-encoding", draw.of(&accepted)), respond)
}

fn text(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn with(request: Request, respond: &echo::Respond) -> Request {
    request.header(echo::RESPOND, &serde_json::to_string(respond).expect("JSON"))
}

/// Has a request show what most guards let through.
fn introduce(draw: &mut Draw, request: Request) -> Request {
    let mut request = request.header("x-user", "alice").header("api-key", "key-one");
    request = request.header("authorization", "Basic YWxpY2U6c2VjcmV0");
    if draw.percent(50) {
        request = request.header("x-a", "client");
    }
    if request.method == "POST" || draw.percent(20) {
        "POST".clone_into(&mut request.method);
        "few".clone_into(&mut request.body);
    }
    request
}

/// Has a request ask something of policies.
fn ask(draw: &mut Draw, mut request: Request, respond: &echo::Respond) -> Request {
    if draw.percent(60) {
        request = request.header("x-user", draw.of(&["alice", "alice", "bob"]));
    }
    if draw.percent(70) {
        request = request.header("api-key", draw.of(&["key-one", "key-one", "key-two", "key-x"]));
        request = request.header("x-client", "whoever");
    }
    if draw.percent(70) {
        // alice:secret, bob:other and alice:other.
        let users = ["YWxpY2U6c2VjcmV0", "YWxpY2U6c2VjcmV0", "Ym9iOm90aGVy", "YWxpY2U6b3RoZXI="];
        request = request.header("authorization", &format!("Basic {}", draw.of(&users)));
    }
    if draw.percent(50) {
        let own = format!("https://{}", request.host);
        let origins = ["https://a.example".to_owned(), "https://b.example".to_owned(), own];
        request = request.header("origin", &draw.of(&origins));
    }
    for name in ["x-a", "x-b"] {
        if draw.percent(50) {
            request = request.header(name, "client");
        }
    }
    match draw.below(10) {
        0 => {
            "OPTIONS".clone_into(&mut request.method);
            request = request.header("access-control-request-method", "GET");
        }
        1..4 => "POST".clone_into(&mut request.method),
        _ => {}
    }
    if request.method == "POST" {
        draw.of(&["", "few", "more than eight bytes"]).clone_into(&mut request.body);
    }
    with(request, respond)
}
