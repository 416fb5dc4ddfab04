//! The IO of one watch.

use std::{
    pin::{Pin, pin},
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::yield_now,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    Limits,
    crds::{Crd, Crds},
    decoder::{Decoder, Line, MalformedAnswer, Page, Status, WatchedObject},
    event::Event,
    metrics::ReflectorMetrics,
    plan::{Next, Outcome, Plan, Verdict},
    request::{Ask, ListWatch},
};

/// A watch lasts so many seconds at most, so that connections move to servers that are new.
const LASTS: std::ops::Range<u32> = 200..290;

/// More than any event, and any page of a list, has; what is longer is no answer of an API server.
const LONGEST: usize = 512 << 20;

/// So many objects of a list are sent at once.
const BATCH: usize = 500;

/// An API server sends the objects of a list one by one, so that who reads each as it comes wakes up for each. Nobody
/// waits for a part of a list, so what comes in this time is read at once.
const COALESCE_DELAY: Duration = Duration::from_millis(2);

/// Lists and watches, and hands what becomes known to `sink`, which makes the API server wait while it is busy.
pub(super) struct Reflector<S> {
    pub(super) client: Client,
    pub(super) list_watch: ListWatch,
    pub(super) decoder: Decoder,
    pub(super) limits: Limits,
    pub(super) crds: watch::Receiver<Arc<Crds>>,
    pub(super) sink: S,
    pub(super) metrics: ReflectorMetrics,
}

/// Nobody needs what is watched any more.
pub(super) struct Closed;

impl<S: AsyncFnMut(Vec<Event>) -> Result<(), Closed>> Reflector<S> {
    /// Runs until the sink is closed.
    pub(super) async fn run(mut self) {
        let mut plan = Plan::new(self.list_watch.target, self.limits);
        let mut failing = false;
        loop {
            let seen = self.crd();
            let Ok(outcome) = self.attempt(&mut plan, &mut failing).await else { return };
            // What is there now counts, not what was there when the attempt began.
            let crd = self.crd();
            let (code, reason) = (outcome.code(), outcome.reason(self.limits.settle));
            let Verdict { next, failing: why } = plan.judge(outcome, crd.presence(), Instant::now());
            // That a kind is not there, or not in this version, is no failure.
            let reason = reason.filter(|_| code != Some(404) || why.is_some());
            if let Some(reason) = reason {
                self.metrics.failed(reason);
            }
            let mut events = Vec::new();
            if let Some(why) = why {
                tracing::debug!(watch = ?self.list_watch, why, "a watch does not work");
                failing = true;
                events.push(Event::Failing { why, forbidden: matches!(code, Some(401 | 403)) });
            }
            let wait = match next {
                Next::Now => Duration::ZERO,
                Next::Wait(wait) => wait,
                Next::Absent(wait) => {
                    events.push(Event::NotServed);
                    if std::mem::take(&mut failing) {
                        events.push(Event::Recovered);
                    }
                    wait
                }
            };
            if self.send(events).await.is_err() {
                return;
            }
            if seen != crd || (!wait.is_zero() && timeout(wait, self.crd_changes(&crd)).await.is_ok()) {
                plan.hurry();
            }
        }
    }

    async fn send(&mut self, events: Vec<Event>) -> Result<(), Closed> {
        if events.is_empty() {
            return Ok(());
        }
        let changes = events.iter().filter(|event| matches!(event, Event::Applied(_) | Event::Deleted(_)));
        self.metrics.events(changes.count());
        if events.iter().any(|event| matches!(event, Event::ListComplete)) {
            self.metrics.listed();
        }
        (self.sink)(events).await
    }

    /// One request and what comes of it.
    async fn attempt(&mut self, plan: &mut Plan, failing: &mut bool) -> Result<Outcome, Closed> {
        let (version, ask) = plan.ask();
        if plan.begins_list() {
            self.send(vec![Event::ListStarted]).await?;
        }
        let body = match answer(&self.client, &self.list_watch, version, &ask, &self.limits).await {
            Ok(body) => body,
            Err(outcome) => {
                if matches!(outcome, Outcome::Refused { .. }) {
                    self.metrics.contact();
                }
                return Ok(outcome);
            }
        };
        self.metrics.contact();
        if !matches!(ask, Ask::Page { .. }) {
            return self.stream(plan, failing, body).await;
        }
        let page = match page(&self.decoder, body, self.limits.answer).await {
            Ok(page) => page,
            Err(outcome) => return Ok(outcome),
        };
        plan.answered();
        let mut events: Vec<_> = page.objects.into_iter().map(Event::Applied).collect();
        if plan.page(&page.version, page.next) {
            events.push(Event::ListComplete);
        }
        self.send(events).await?;
        Ok(COMPLETE)
    }

    async fn stream(&mut self, plan: &mut Plan, failing: &mut bool, body: Body) -> Result<Outcome, Closed> {
        let began = Instant::now();
        let settles = began + self.limits.settle;
        let crd = self.crd();
        let ended = |why: &str| Outcome::Ended { why: why.to_owned(), lasted: began.elapsed() };
        let mut crds = self.crds.clone();
        let name = self.list_watch.target.crd();
        let mut changed = pin!(crds.wait_for(|crds| crd.replaced(&crds.of(name.as_deref()))));
        let mut body = pin!(body);
        let mut lines = Lines::default();
        let mut unsent = Vec::new();
        let outcome = loop {
            let now = Instant::now();
            if *failing && !plan.lists() && now >= settles {
                *failing = false;
                plan.settled();
                self.send(vec![Event::Recovered]).await?;
            }
            let unsettled = *failing && !plan.lists();
            let until = match plan.lists() {
                true => now + self.limits.answer,
                false if unsettled => settles,
                false => now + self.limits.idle,
            };
            let mut next = pin!(timeout_at(until, body.frame()));
            let lists = plan.lists();
            let frame = async {
                let at_once = if lists { coalesced(next.as_mut()).await } else { None };
                match at_once {
                    Some(frame) => frame,
                    None => next.await,
                }
            };
            let frame = tokio::select! {
                biased;
                Ok(_) = &mut changed, if name.is_some() => break ended("the CRD has changed"),
                frame = frame => frame,
            };
            if matches!(frame, Ok(Some(Ok(_)))) {
                self.metrics.contact();
            }
            let chunk = match frame {
                Err(_) if unsettled => continue,
                Err(_) if plan.lists() => break Outcome::Slow,
                Err(_) => break Outcome::Silent,
                Ok(None) => break ended("the API server ended the watch at once"),
                Ok(Some(Err(error))) => break ended(&causes(&error)),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(chunk) => chunk,
                    Err(_) => continue,
                },
            };
            let (events, outcome) = lines.take(&self.decoder, plan, &chunk);
            if events.iter().any(|event| matches!(event, Event::ListComplete)) {
                plan.answered();
            }
            unsent.extend(events);
            if let Some(outcome) = outcome {
                break outcome;
            }
            // Nobody waits for a part of a list, and each batch wakes others up.
            if !plan.lists() || unsent.len() >= BATCH {
                self.send(std::mem::take(&mut unsent)).await?;
            }
        };
        self.send(unsent).await?;
        Ok(outcome)
    }

    fn crd(&self) -> Crd {
        self.crds.borrow().of(self.list_watch.target.crd().as_deref())
    }

    async fn crd_changes(&mut self, seen: &Crd) {
        let name = self.list_watch.target.crd();
        if self.crds.wait_for(|crds| crds.of(name.as_deref()) != *seen).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// What `next` gives if that is there by now. Otherwise none, after a while in which more than that has come.
async fn coalesced<F: Future>(mut next: Pin<&mut F>) -> Option<F::Output> {
    // A connection is a task of its own. It hands over one part, and reads on at its next turn.
    for _ in 0..3 {
        let given = next.as_mut().now_or_never();
        if given.is_some() {
            return given;
        }
        yield_now().await;
    }
    sleep(COALESCE_DELAY).await;
    None
}

/// A page is no watch, so that it did not end early.
const COMPLETE: Outcome = Outcome::Ended { why: String::new(), lasted: Duration::MAX };

/// Asks, and gives the answer if it is one.
async fn answer(
    client: &Client,
    list_watch: &ListWatch,
    version: &str,
    ask: &Ask,
    limits: &Limits,
) -> Result<Body, Outcome> {
    let request = list_watch.request(version, ask, fastrand::u32(LASTS));
    let request = request.map_err(|error| Outcome::Failed(error.to_string()))?;
    let response = match timeout(limits.answer, client.send(request.map(Body::from))).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(Outcome::Failed(causes(&error))),
        Err(_) => return Err(Outcome::Slow),
    };
    let code = response.status();
    let retry_after = retry_after(response.headers());
    let body = response.into_body();
    if code == StatusCode::OK {
        return Ok(body);
    }
    let body = timeout(limits.answer, collect(body, 1 << 20)).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    Err(Outcome::Refused { status: Status::of(code.as_u16(), &body), retry_after })
}

/// Lists the objects of a [`ListWatch`] once.
pub(super) struct Fetch {
    pub(super) client: Client,
    pub(super) list_watch: ListWatch,
    pub(super) limits: Limits,
    pub(super) crds: watch::Receiver<Arc<Crds>>,
    /// Who has none of them waits, and has none while it waits for another attempt.
    pub(super) slots: Arc<Semaphore>,
}

impl Fetch {
    /// Reads, for as long as it takes, with a slot for the first attempt. Gives nothing if the kind is not served. Why the
    /// first attempt that failed did so can be read in `why` meanwhile.
    pub(super) async fn run(
        self,
        mut slot: Option<OwnedSemaphorePermit>,
        why: &OnceLock<String>,
    ) -> Vec<WatchedObject> {
        let Self { client, list_watch, limits, crds, slots } = self;
        let decoder = Decoder::new(list_watch.target);
        let mut plan = Plan::paged(list_watch.target, limits);
        let crd = list_watch.target.crd();
        let mut objects = Vec::new();
        loop {
            if slot.is_none() {
                slot = Arc::clone(&slots).acquire_owned().await.ok();
            }
            let (version, ask) = plan.ask();
            if plan.begins_list() {
                objects.clear();
            }
            let outcome = match answer(&client, &list_watch, version, &ask, &limits).await {
                Ok(body) => match page(&decoder, body, limits.answer).await {
                    Ok(page) => {
                        objects.extend(page.objects);
                        if plan.page(&page.version, page.next) {
                            return objects;
                        }
                        COMPLETE
                    }
                    Err(outcome) => outcome,
                },
                Err(outcome) => outcome,
            };
            let presence = crds.borrow().of(crd.as_deref()).presence();
            let Verdict { next, failing } = plan.judge(outcome, presence, Instant::now());
            if let Some(failing) = failing
                && why.set(failing.clone()).is_ok()
            {
                tracing::warn!(watch = ?list_watch, why = failing, "cannot be read; it is tried again");
            }
            match next {
                Next::Now => {}
                Next::Wait(wait) => {
                    slot = None;
                    sleep(wait).await;
                }
                Next::Absent(_) => return Vec::new(),
            }
        }
    }
}

/// Puts lines together.
#[derive(Default)]
struct Lines {
    /// The beginning of a line whose end has not come.
    rest: Vec<u8>,
}

impl Lines {
    /// The events of all lines that are complete, and the end of the watch if one of them brings it.
    fn take(&mut self, decoder: &Decoder, plan: &mut Plan, chunk: &Bytes) -> (Vec<Event>, Option<Outcome>) {
        let Some(end) = memchr::memrchr(b'\n', chunk) else {
            self.rest.extend_from_slice(chunk);
            let malformed = Outcome::Failed("the API server sends no lines".to_owned());
            return (Vec::new(), (self.rest.len() > LONGEST).then_some(malformed));
        };
        let (complete, rest) = (&chunk[..end], &chunk[end + 1..]);
        let mut joined = std::mem::take(&mut self.rest);
        let complete = if joined.is_empty() {
            complete
        } else {
            joined.extend_from_slice(complete);
            &joined
        };
        let mut events = Vec::new();
        let mut outcome = None;
        let ends = memchr::memchr_iter(b'\n', complete).chain([complete.len()]);
        let mut begins = 0;
        for end in ends {
            let line = &complete[std::mem::replace(&mut begins, end + 1)..end];
            if line.trim_ascii().is_empty() {
                continue;
            }
            outcome = take_line(decoder, plan, line, &mut events);
            if outcome.is_some() {
                break;
            }
        }
        self.rest.extend_from_slice(rest);
        (events, outcome)
    }
}

fn take_line(decoder: &Decoder, plan: &mut Plan, line: &[u8], events: &mut Vec<Event>) -> Option<Outcome> {
    let (line, version) = match decoder.line(line) {
        Ok(line) => line,
        Err(malformed) => return Some(Outcome::Failed(malformed.to_string())),
    };
    match line {
        Line::Applied(watched) => events.push(Event::Applied(watched)),
        Line::Deleted(name) => events.push(Event::Deleted(name)),
        Line::Bookmark { listed } => {
            if listed && plan.lists() {
                plan.listed(version.as_deref().unwrap_or_default());
                events.push(Event::ListComplete);
            }
        }
        Line::Nameless => tracing::warn!("an API server sends an object without a name"),
        Line::Error(status) => return Some(Outcome::Refused { status, retry_after: None }),
    }
    plan.reached(version.unwrap_or_default());
    None
}

/// Reads a page of a list.
async fn page(decoder: &Decoder, body: Body, answer_timeout: Duration) -> Result<Page, Outcome> {
    match timeout(answer_timeout, collect(body, LONGEST)).await {
        Ok(Ok(body)) => {
            decoder.page(&body).map_err(|malformed: MalformedAnswer| Outcome::Failed(malformed.to_string()))
        }
        Ok(Err(why)) => Err(Outcome::Failed(why)),
        Err(_) => Err(Outcome::Slow),
    }
}

async fn collect(body: Body, most: usize) -> Result<Vec<u8>, String> {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| causes(&error))?;
        if let Ok(chunk) = frame.into_data() {
            bytes.extend_from_slice(&chunk);
        }
        if bytes.len() > most {
            return Err("the API server's answer is too long".to_owned());
        }
    }
    Ok(bytes)
}

/// How long an answer asks to wait before the next attempt (RFC 9110, section 10.2.3): in seconds, or until a date. It can be
/// any time.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    SystemTime::from(date.timestamp()).duration_since(SystemTime::now()).ok()
}

/// An error with what it comes from, which is where the reason stands.
pub fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
