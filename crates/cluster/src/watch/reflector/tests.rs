//! Against a server that answers as the test says. What a real one does is tested with a real one.

use std::convert::Infallible;

use api::Kind;
use http::Response;
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;

use super::*;
use crate::watch::{
    ErrorLabels, KindLabel, Metrics,
    request::{Only, Target},
};

type Chunks = mpsc::Sender<Result<Frame<Bytes>, Infallible>>;
type Answer = Response<StreamBody<ReceiverStream<Result<Frame<Bytes>, Infallible>>>>;

/// A request that waits for its answer.
struct Asked {
    uri: String,
    answer: oneshot::Sender<Answer>,
}

impl Asked {
    /// Begins to answer.
    fn answer(self, code: u16, headers: &[(&str, &str)]) -> Chunks {
        let (chunks, body) = mpsc::channel(64);
        let mut response = Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let response = response.body(StreamBody::new(ReceiverStream::new(body))).expect("a response");
        self.answer.send(response).expect("somebody waits");
        chunks
    }

    /// Answers in full.
    async fn say(self, code: u16, body: &str) {
        send(&self.answer(code, &[]), body).await;
    }
}

async fn send(chunks: &Chunks, text: &str) {
    chunks.send(Ok(Frame::data(Bytes::copy_from_slice(text.as_bytes())))).await.expect("somebody reads");
}

/// A client, and what it asks.
fn server() -> (Client, mpsc::Receiver<Asked>) {
    let (requests, asked) = mpsc::channel(16);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let requests: mpsc::Sender<Asked> = requests.clone();
        async move {
            let (answer, response) = oneshot::channel();
            let uri = request.uri().to_string();
            requests.send(Asked { uri, answer }).await.map_err(|_| "the server is gone")?;
            response.await.map_err(|_| "connection refused")
        }
    });
    (Client::new(service, "default"), asked)
}

/// Reads objects of namespace `n` once, or the one of a name.
fn fetch(
    client: &Client,
    crds: &watch::Receiver<Arc<Crds>>,
    slots: &Arc<Semaphore>,
    target: Target,
    name: Option<&str>,
) -> Fetch {
    let list_watch = ListWatch {
        target,
        namespace: Some("n".into()),
        only: name.map_or(Only::All, |name| Only::Named(name.into())),
    };
    let (client, crds, slots) = (client.clone(), crds.clone(), Arc::clone(slots));
    Fetch { client, list_watch, limits: Limits::default(), crds, slots }
}

/// A reader and its server.
struct Scene {
    asked: mpsc::Receiver<Asked>,
    sent: mpsc::Receiver<Vec<Event>>,
    crds: watch::Sender<Arc<Crds>>,
    metrics: Metrics,
    /// A request that was waited for and not answered.
    early: Option<Asked>,
    /// What was read from `sent` and not looked at.
    events: std::collections::VecDeque<Event>,
}

impl Scene {
    fn new(kind: Kind) -> Self {
        let (client, asked) = server();
        let (sink, sent) = mpsc::channel(64);
        let (crds, known) = watch::channel(Arc::default());
        let target = Target::Kind(kind);
        let metrics = Metrics::default();
        let reflector = Reflector {
            client,
            list_watch: ListWatch { target, namespace: None, only: Only::All },
            decoder: Decoder::new(target),
            limits: Limits::default(),
            crds: known,
            sink: async move |events| sink.send(events).await.map_err(|_| Closed),
            metrics: metrics.reflector(kind.as_str()),
        };
        tokio::spawn(reflector.run());
        Self { asked, sent, crds, metrics, early: None, events: std::collections::VecDeque::new() }
    }

    async fn asked(&mut self) -> Asked {
        if let Some(asked) = self.early.take() {
            return asked;
        }
        self.asked.recv().await.expect("a request")
    }

    /// Expects the next request not to come earlier.
    async fn quiet_for(&mut self, since: Instant, wait: Duration) {
        let asked = self.asked().await;
        assert!(since.elapsed() >= wait, "{:?}", since.elapsed());
        self.early = Some(asked);
    }

    /// The next event, a word or two.
    async fn event(&mut self) -> String {
        while self.events.is_empty() {
            let Some(events) = self.sent.recv().await else { panic!("the reflector ended") };
            self.events.extend(events);
        }
        match self.events.pop_front().expect("an event") {
            Event::ListStarted => "begin".to_owned(),
            Event::Applied(watched) => format!("put {}", watched.name.name),
            Event::Deleted(name) => format!("gone {}", name.name),
            Event::ListComplete => "end".to_owned(),
            Event::Failing { why, .. } => format!("failing {why}"),
            Event::Recovered => "working".to_owned(),
            Event::NotServed => "not served".to_owned(),
        }
    }

    async fn expect<const N: usize>(&mut self, expected: [&str; N]) {
        for expected in expected {
            assert_eq!(self.event().await, expected);
        }
    }

    /// A watch that has listed one object at version 5.
    async fn listed(kind: Kind) -> (Self, Chunks) {
        let mut scene = Self::new(kind);
        scene.expect(["begin"]).await;
        let chunks = scene.asked().await.answer(200, &[]);
        send(&chunks, &(change("ADDED", "a", 3) + &listed(5))).await;
        scene.expect(["put a", "end"]).await;
        (scene, chunks)
    }
}

fn line(event: &str, object: &Value) -> String {
    json!({ "type": event, "object": object }).to_string() + "\n"
}

fn change(event: &str, name: &str, version: u32) -> String {
    let metadata = json!({ "name": name, "namespace": "n", "resourceVersion": version.to_string() });
    line(event, &json!({ "metadata": metadata, "spec": {}, "data": { "text": "ä€😀" } }))
}

fn listed(version: u32) -> String {
    let annotations = json!({ "k8s.io/initial-events-end": "true" });
    let metadata = json!({ "resourceVersion": version.to_string(), "annotations": annotations });
    line("BOOKMARK", &json!({ "metadata": metadata }))
}

fn bookmark(version: u32) -> String {
    line("BOOKMARK", &json!({ "metadata": { "resourceVersion": version.to_string() } }))
}

fn since(uri: &str) -> &str {
    uri.rsplit_once("resourceVersion=").map_or("", |(_, since)| since)
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was_cut() {
    let (mut scene, chunks) = Scene::listed(Kind::Service).await;
    send(&chunks, &(change("MODIFIED", "a", 6) + &change("DELETED", "b", 7) + &bookmark(9))).await;
    scene.expect(["put a", "gone b"]).await;
    drop(chunks);
    let asked = scene.asked().await;
    assert_eq!(since(&asked.uri), "9");
    assert!(!asked.uri.contains("sendInitialEvents"), "{}", asked.uri);
    let chunks = asked.answer(200, &[]);
    send(&chunks, &change("ADDED", "c", 10)).await;
    scene.expect(["put c"]).await;
}

#[tokio::test(start_paused = true)]
async fn lines_come_in_pieces_of_any_size() {
    let (mut scene, chunks) = Scene::listed(Kind::Service).await;
    let text = change("ADDED", "x", 6) + "\n\r\n" + &change("ADDED", "y", 7) + &bookmark(8) + &change("ADDED", "z", 9);
    for byte in text.as_bytes() {
        chunks.send(Ok(Frame::data(Bytes::copy_from_slice(&[*byte])))).await.expect("somebody reads");
    }
    scene.expect(["put x", "put y", "put z"]).await;
    // The last line has no end.
    send(&chunks, change("ADDED", "cut", 10).trim_end()).await;
    drop(chunks);
    assert_eq!(since(&scene.asked().await.uri), "9");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_version_begins_an_up_to_date_list() {
    let (mut scene, chunks) = Scene::listed(Kind::Service).await;
    send(&chunks, &line("ERROR", &json!({ "code": 410, "message": "too old" }))).await;
    scene.expect(["begin"]).await;
    let asked = scene.asked().await;
    assert!(asked.uri.contains("sendInitialEvents=true"), "{}", asked.uri);
    assert_eq!(since(&asked.uri), "");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_is_left_alone_for_as_long_as_it_asks() {
    let (mut scene, chunks) = Scene::listed(Kind::Service).await;
    drop(chunks);
    for _ in 0..2 {
        let before = Instant::now();
        let refused = scene.asked().await.answer(429, &[("retry-after", "7")]);
        send(&refused, "later").await;
        drop(refused);
        scene.quiet_for(before, Duration::from_secs(7)).await;
    }
    scene.expect(["failing the API server answered 429: later"]).await;
    let asked = scene.asked().await;
    let _chunks = asked.answer(200, &[]);
    scene.expect(["working"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_for_minutes_is_asked_every_few_seconds() {
    let (mut scene, chunks) = Scene::listed(Kind::Service).await;
    drop(chunks);
    let before = Instant::now();
    let mut requests = 0;
    while before.elapsed() < Duration::from_mins(5) {
        // Some are refused, some answered with an error, some never answered.
        let asked = scene.asked().await;
        requests += 1;
        match requests % 3 {
            0 => drop(asked),
            1 => asked.say(500, "{}").await,
            _ => {
                let silent = asked;
                assert!(scene.event().await.starts_with("failing the API server answered 500"));
                scene.expect(["failing the API server does not answer in time"]).await;
                drop(silent);
                continue;
            }
        }
        if requests % 3 == 0 {
            let event = scene.event().await;
            assert!(event.contains("connection refused"), "{event}");
        }
    }
    assert!((20..80).contains(&requests), "{requests}");
    let asked = loop {
        let asked = scene.asked().await;
        if requests % 3 != 2 {
            break asked;
        }
        requests += 1;
    };
    assert_eq!(since(&asked.uri), "5", "nothing was forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_which_nothing_is_heard_is_made_anew_and_that_is_no_failure() {
    let (mut scene, chunks) = Scene::listed(Kind::Service).await;
    let before = Instant::now();
    let asked = scene.asked().await;
    let silence = before.elapsed();
    assert!(silence >= Limits::default().idle && silence < Duration::from_mins(2), "{silence:?}");
    assert!(chunks.is_closed(), "the old connection is given up");
    let chunks = asked.answer(200, &[]);
    send(&chunks, &change("ADDED", "b", 6)).await;
    scene.expect(["put b"]).await;
}

#[tokio::test(start_paused = true)]
async fn garbage_is_told_and_what_was_read_before_it_stays() {
    let (mut scene, chunks) = Scene::listed(Kind::Service).await;
    send(&chunks, &(change("ADDED", "b", 6) + "<html>\n" + &change("ADDED", "c", 7))).await;
    scene.expect(["put b"]).await;
    let event = scene.event().await;
    assert!(event.starts_with("failing the answer is not what an API server writes"), "{event}");
    assert_eq!(since(&scene.asked().await.uri), "6");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stops_half_way_is_begun_again_in_pages() {
    let mut scene = Scene::new(Kind::Service);
    let chunks = scene.asked().await.answer(200, &[]);
    send(&chunks, &change("ADDED", "a", 3)).await;
    scene.expect(["begin", "put a", "failing the API server does not answer in time", "begin"]).await;
    let page = |name: &str, next: &str| {
        let metadata = json!({ "name": name, "namespace": "n", "resourceVersion": "3" });
        let list = json!({ "resourceVersion": "8", "continue": next });
        json!({ "metadata": list, "items": [{ "metadata": metadata }] }).to_string()
    };
    let asked = scene.asked().await;
    assert!(asked.uri.contains("limit=500") && !asked.uri.contains("watch"), "{}", asked.uri);
    asked.say(200, &page("a", "t")).await;
    let asked = scene.asked().await;
    assert!(asked.uri.ends_with("continue=t"), "{}", asked.uri);
    asked.say(200, &page("b", "")).await;
    scene.expect(["put a", "put b", "end"]).await;
    let asked = scene.asked().await;
    assert_eq!(since(&asked.uri), "8");
    let _chunks = asked.answer(200, &[]);
    scene.expect(["working"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_looked_for_when_its_crd_comes_and_dropped_when_it_goes() {
    let name = "httproutes.gateway.networking.k8s.io";
    let known = |crds: &[(&str, &str)]| Arc::new(Crds::known(crds));
    let mut scene = Scene::new(Kind::HttpRoute);
    scene.crds.send_replace(known(&[]));
    for _ in 0..2 {
        scene.asked().await.say(404, "404 page not found").await;
    }
    scene.expect(["begin", "begin", "not served"]).await;

    let before = Instant::now();
    scene.crds.send_replace(known(&[(name, "1")]));
    let asked = scene.asked().await;
    assert!(before.elapsed() < Duration::from_secs(1));
    let chunks = asked.answer(200, &[]);
    send(&chunks, &(change("ADDED", "a", 3) + &listed(5))).await;
    scene.expect(["begin", "put a", "end"]).await;

    scene.crds.send_replace(known(&[]));
    for _ in 0..2 {
        scene.asked().await.say(404, "404 page not found").await;
    }
    scene.expect(["not served"]).await;
    assert!(chunks.is_closed());
}

#[tokio::test(start_paused = true)]
async fn routes_do_not_vanish_because_a_server_does_not_find_them_however_long() {
    let (mut scene, chunks) = Scene::listed(Kind::HttpRoute).await;
    drop(chunks);
    let before = Instant::now();
    while before.elapsed() < 10 * Limits::default().doubt {
        for _ in 0..2 {
            scene.asked().await.say(404, "404 page not found").await;
        }
        scene.expect(["failing the API server answered 404: 404 page not found"]).await;
    }
    let _chunks = scene.asked().await.answer(200, &[]);
    scene.expect(["working"]).await;
}

#[tokio::test(start_paused = true)]
async fn changes_lists_failures_and_silence_are_counted_by_kind() {
    let (mut scene, chunks) = Scene::listed(Kind::Service).await;
    let metrics = scene.metrics.clone();
    let label = KindLabel { kind: "Service" };
    let events = || metrics.events.get_or_create(&label).get();
    let lists = || metrics.lists.get_or_create(&label).get();
    let errors = |reason| metrics.errors.get_or_create(&ErrorLabels { kind: "Service", reason }).get();
    assert_eq!((events(), lists()), (1, 1));
    send(&chunks, &(change("MODIFIED", "a", 6) + &change("DELETED", "b", 7))).await;
    scene.expect(["put a", "gone b"]).await;
    assert_eq!((events(), lists()), (3, 1));

    tokio::time::advance(Duration::from_secs(40)).await;
    let silence = || {
        metrics.refresh();
        metrics.silence.get_or_create(&label).get()
    };
    assert!((39.0..41.0).contains(&silence()), "{}", silence());
    send(&chunks, &(bookmark(8) + &line("ERROR", &json!({ "code": 410, "message": "too old" })))).await;
    scene.expect(["begin"]).await;
    assert!(silence() < 1.0, "{}", silence());
    assert_eq!(errors("expired"), 1);
    scene.asked().await.say(403, "no").await;
    scene.expect(["failing the API server answered 403: no", "begin"]).await;
    assert_eq!((errors("forbidden"), errors("not_found")), (1, 0));
    drop(scene.asked().await);
    scene.event().await;
    assert_eq!(errors("connection"), 1);
    let chunks = scene.asked().await.answer(200, &[]);
    send(&chunks, &(change("ADDED", "a", 6) + &listed(9))).await;
    scene.expect(["begin", "put a", "end"]).await;
    assert_eq!((events(), lists()), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_is_no_failure_and_a_watch_that_went_is_not_silent() {
    let mut scene = Scene::new(Kind::HttpRoute);
    scene.crds.send_replace(Arc::new(Crds::known(&[])));
    for _ in 0..2 {
        scene.asked().await.say(404, "404 page not found").await;
    }
    scene.expect(["begin", "begin", "not served"]).await;
    let metrics = scene.metrics.clone();
    let labels = ErrorLabels { kind: "HTTPRoute", reason: "not_found" };
    assert_eq!(metrics.errors.get_or_create(&labels).get(), 0);
    metrics.refresh();
    let shown = || {
        let mut registry = prometheus_client::registry::Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("text");
        text.contains("watch_silence_seconds{kind=\"HTTPRoute\"}")
    };
    assert!(shown());
    // Its reader ends when nobody listens.
    drop(scene);
    tokio::time::advance(Duration::from_mins(2)).await;
    while shown() {
        tokio::task::yield_now().await;
        metrics.refresh();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_fetched_is_all_of_it_whatever_it_takes() {
    let (client, mut asked) = server();
    let (_crds, known) = watch::channel(Arc::default());
    let fetch = fetch(&client, &known, &Arc::new(Semaphore::new(1)), Target::Kind(Kind::Service), None);
    let fetched = tokio::spawn(async move { fetch.run(None, &OnceLock::new()).await });
    let page = |names: &[&str], next: &str| {
        let items = names.iter().map(|name| json!({ "metadata": { "name": name, "namespace": "n" } }));
        json!({ "metadata": { "resourceVersion": "8", "continue": next }, "items": items.collect::<Vec<_>>() })
            .to_string()
    };
    drop(asked.recv().await);
    let first = asked.recv().await.expect("a request");
    assert!(first.uri.starts_with("/api/v1/namespaces/n/services?"), "{}", first.uri);
    first.say(200, &page(&["a", "b"], "t")).await;
    asked.recv().await.expect("a request").say(410, "{}").await;
    let whole = asked.recv().await.expect("a request");
    assert!(!whole.uri.contains("limit"), "{}", whole.uri);
    whole.say(200, &page(&["a", "c"], "")).await;
    let names: Vec<_> = fetched.await.expect("ends").into_iter().map(|watched| watched.name.name.to_string()).collect();
    assert_eq!(names, ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_small_parts_is_given_time_to_become_more_and_what_is_there_is_taken_at_once() {
    let began = Instant::now();
    let (part, body) = oneshot::channel();
    part.send(1).expect("somebody listens");
    assert_eq!(coalesced(pin!(body)).await, Some(Ok(1)));
    let (part, body) = oneshot::channel();
    // Another task is about to hand it over.
    tokio::spawn(async move { part.send(2) });
    assert_eq!(coalesced(pin!(body)).await, Some(Ok(2)));
    assert_eq!(began.elapsed(), Duration::ZERO);
    let (part, body) = oneshot::channel::<i32>();
    let mut body = pin!(body);
    assert_eq!(coalesced(body.as_mut()).await, None);
    assert!(began.elapsed() >= COALESCE_DELAY);
    part.send(3).expect("it is still listened to");
    assert_eq!(coalesced(body).await, Some(Ok(3)));
}

#[test]
fn a_server_says_how_long_to_wait_in_seconds_or_by_a_date() {
    let headers = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().expect("a value"));
        headers
    };
    assert_eq!(retry_after(&headers("3")), Some(Duration::from_secs(3)));
    assert_eq!(retry_after(&headers("Wed, 21 Oct 2015 07:28:00 GMT")), None);
    assert!(retry_after(&headers("Wed, 21 Oct 2099 07:28:00 GMT")).is_some());
    assert_eq!(retry_after(&headers("soon")), None);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_another_attempt_holds_up_nobody() {
    let (client, mut asked) = server();
    let (_crds, known) = watch::channel(Arc::default());
    let slots = Arc::new(Semaphore::new(1));
    for name in ["forbidden", "other"] {
        let fetch = fetch(&client, &known, &slots, Target::Content(Kind::Secret), Some(name));
        tokio::spawn(async move { fetch.run(None, &OnceLock::new()).await });
    }
    let is_of = |request: &Asked, name: &str| request.uri.contains(&format!("metadata.name%3D{name}"));
    for name in ["forbidden", "other"] {
        let request = asked.recv().await.expect("a request");
        assert!(is_of(&request, name), "{}", request.uri);
        request.say(403, "{}").await;
    }
    // Which of them comes first now is up to chance.
    loop {
        let request = asked.recv().await.expect("it is tried again");
        if is_of(&request, "forbidden") {
            break;
        }
        request.say(403, "{}").await;
    }
}
