//! Against a server that answers as the test says, and a clock that turns while everybody waits. A real server is asked by
//! the tests of the commands.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use axum::http::{Request as HttpRequest, Response};

use super::*;

/// After how many seconds a server was asked for HTTPRoutes.
type Asked = Arc<Mutex<Vec<u64>>>;

fn answer(code: u16, seconds: Option<&str>, text: &str) -> Response<Body> {
    let mut answer = Response::builder().status(code);
    if let Some(seconds) = seconds {
        answer = answer.header("retry-after", seconds);
    }
    answer.body(Body::from(text.as_bytes().to_vec())).expect("an answer")
}

/// A server that answers so to who asks for HTTPRoutes for the time of this number, and is well otherwise.
fn server(routes: impl Fn(usize) -> Response<Body> + Send + Sync + 'static) -> (Client, Asked) {
    let asked = Asked::default();
    let (seen, begin, routes) = (Arc::clone(&asked), Instant::now(), Arc::new(routes));
    let service = tower::service_fn(move |request: HttpRequest<Body>| {
        let response = if request.uri().path().ends_with("/httproutes") {
            let mut seen = seen.lock().expect("nobody panicked");
            seen.push(begin.elapsed().as_secs());
            routes(seen.len())
        } else {
            answer(200, None, "{}")
        };
        std::future::ready(Ok::<_, Infallible>(response))
    });
    (Client::new(service, "default"), asked)
}

async fn probed(client: &Client, request_timeout: u64) -> BTreeMap<Kind, String> {
    let deadline = Instant::now() + Duration::from_secs(request_timeout);
    refused(client, "https://server", deadline).await.expect("it is reached")
}

#[tokio::test(start_paused = true)]
async fn a_server_without_time_is_asked_again_when_it_wants_to_be() {
    let (client, asked) =
        server(|time| if time < 3 { answer(429, Some("7"), "Too many") } else { answer(200, None, "{}") });
    assert_eq!(probed(&client, 30).await, [].into());
    assert_eq!(*asked.lock().expect("nobody panicked"), [0, 7, 14]);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_time_until_the_end_is_reported_with_its_message() {
    let (client, asked) = server(|_| answer(429, Some("20"), "Too many requests, please try again later.\n"));
    let why = "the API server answered 429: Too many requests, please try again later.";
    assert_eq!(probed(&client, 30).await, [(Kind::HttpRoute, why.to_owned())].into());
    assert_eq!(*asked.lock().expect("nobody panicked"), [0, 20], "nobody asks for what would come too late");

    let (client, asked) = server(|_| answer(500, None, ""));
    let refused_lists = probed(&client, 30).await;
    assert_eq!(refused_lists, [(Kind::HttpRoute, "the API server answered 500".to_owned())].into());
    let asked = asked.lock().expect("nobody panicked").len();
    assert!((5..20).contains(&asked), "less and less often, and not for ever: {asked}");
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_is_asked_for_once() {
    let (client, asked) = server(|_| answer(403, None, r#"{"kind": "Status", "code": 403, "message": "not yours"}"#));
    assert_eq!(probed(&client, 30).await, [(Kind::HttpRoute, "not yours".to_owned())].into());
    assert_eq!(*asked.lock().expect("nobody panicked"), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_served_is_left_to_the_watches() {
    let (client, _) = server(|_| answer(404, None, "404 page not found"));
    assert_eq!(probed(&client, 30).await, [].into());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_know_who_asks_is_asked_no_further() {
    let (client, _) = server(|_| answer(401, None, r#"{"kind": "Status", "code": 401, "message": "Unauthorized"}"#));
    let error = refused(&client, "https://server", Instant::now() + Duration::from_secs(30)).await;
    let error = error.expect_err("nothing can be read").to_string();
    assert_eq!(error, "the API server https://server does not know who you are: Unauthorized");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_to_be_left_alone_for_ever_is_reported_at_once() {
    let (client, asked) = server(|_| answer(429, Some("18446744073709551615"), "Never"));
    assert_eq!(probed(&client, 30).await, [(Kind::HttpRoute, "the API server answered 429: Never".to_owned())].into());
    assert_eq!(*asked.lock().expect("nobody panicked"), [0]);
}
