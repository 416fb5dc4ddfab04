//! Owns the state, starts readers and hands on what is observed.

use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use api::Kind;
use kube::Client;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    Limits, Observed, Options, Scope,
    crds::{Crds, Learner},
    event::{Event, Message},
    metrics::Metrics,
    reader::{Fetch, Reader},
    request::{Order, Place, Target},
    state::State,
    wire::Wire,
};

/// Batches that wait; when so many do, the API server is made to wait.
const WAITING: usize = 64;

/// How many namespaces and kinds are fetched at a time.
const FETCHES: usize = 4;

/// How many objects to which others refer are read at a time.
const READS: usize = 16;

/// Watches until nobody listens.
pub(super) async fn run(client: Client, options: Options, sink: mpsc::Sender<Vec<Observed>>) {
    let (out, mut inbox) = mpsc::channel(WAITING);
    let (crds, _) = watch::channel(Arc::default());
    let mut tasks = Tasks {
        client,
        limits: options.limits,
        learner: Learner::default(),
        crds,
        out,
        metrics: options.metrics.clone(),
        readers: JoinSet::new(),
        running: HashMap::new(),
        fetches: BTreeMap::new(),
        reads: BTreeMap::new(),
        slots: Arc::new(Semaphore::new(FETCHES)),
        read_slots: Arc::new(Semaphore::new(READS)),
    };
    let places = places(&options);
    let mut state = State::new(&options.scope, &places);
    // Which namespaces are read must be known before what is in them comes.
    let selects = matches!(options.scope, Scope::Selector(_));
    let (first, mut later): (Vec<_>, Vec<_>) =
        places.into_iter().partition(|place| !selects || place.target == Target::Kind(Kind::Namespace));
    if first.iter().chain(&later).any(|place| place.target.crd().is_some()) {
        tasks.read(Place { target: Target::Crds, namespace: None, name: None }, Duration::ZERO);
    }
    for place in first {
        tasks.read(place, Duration::ZERO);
    }
    let mut messages = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = sink.closed() => return,
            Some(ended) = tasks.readers.join_next_with_id() => tasks.ended(&ended),
            _ = inbox.recv_many(&mut messages, WAITING) => {}
        }
        for message in messages.drain(..) {
            match message {
                Message::Read(Place { target: Target::Kind(kind), namespace, .. }, events) => {
                    state.read(kind, namespace.as_ref(), events);
                }
                Message::Read(Place { target: Target::Crds, .. }, events) => tasks.take_crds(events),
                // Nobody here asks for it.
                Message::Read(Place { target: Target::Labelled(_) | Target::Content(_), .. }, _) => {}
                Message::Fetched(request, objects) => {
                    tasks.fetches.remove(&request);
                    state.fetched(request, objects);
                }
                Message::Late(request, why) => state.late(request, why),
                Message::Content(request, objects) => {
                    tasks.reads.remove(&request);
                    state.arrived(request, objects);
                }
            }
        }
        for order in state.take_orders() {
            tasks.obey(order);
        }
        if state.has_read(Kind::Namespace) {
            for place in later.drain(..) {
                tasks.read(place, Duration::ZERO);
            }
        }
        let observed = state.take_told();
        if !observed.is_empty() && sink.send(observed).await.is_err() {
            return;
        }
    }
}

/// What is to be watched.
fn places(options: &Options) -> Vec<Place> {
    let mut kinds = options.kinds.clone();
    if matches!(options.scope, Scope::Selector(_)) {
        kinds.insert(Kind::Namespace);
    }
    let whole = |kind| vec![Place { target: Target::Kind(kind), namespace: None, name: None }];
    let places = kinds.into_iter().flat_map(|kind| match &options.scope {
        Scope::Named(namespaces) if kind.namespaced() || kind == Kind::Namespace => {
            let place = |name| Place { target: Target::Kind(kind), namespace: Some(Arc::clone(name)), name: None };
            namespaces.iter().map(place).collect()
        }
        _ => whole(kind),
    });
    places.collect()
}

struct Tasks {
    client: Client,
    limits: Limits,
    learner: Learner,
    crds: watch::Sender<Arc<Crds>>,
    out: mpsc::Sender<Message>,
    metrics: Metrics,
    readers: JoinSet<()>,
    running: HashMap<tokio::task::Id, Place>,
    fetches: BTreeMap<u64, AbortHandle>,
    reads: BTreeMap<u64, AbortHandle>,
    slots: Arc<Semaphore>,
    read_slots: Arc<Semaphore>,
}

impl Tasks {
    fn read(&mut self, place: Place, after: Duration) {
        let reader = Reader {
            client: self.client.clone(),
            wire: Wire::new(place.target),
            place: place.clone(),
            limits: self.limits,
            crds: self.crds.subscribe(),
            out: self.out.clone(),
            metrics: self.metrics.place(place.target.name()),
        };
        let task = self.readers.spawn(async move {
            sleep(after).await;
            reader.run().await;
        });
        self.running.insert(task.id(), place);
    }

    /// A reader ends by a fault of its own alone. Another one begins with a list, and objects stay until then.
    fn ended(&mut self, ended: &Result<(tokio::task::Id, ()), tokio::task::JoinError>) {
        let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, ())| *id);
        let Some(place) = self.running.remove(&id) else { return };
        if ended.as_ref().is_err_and(tokio::task::JoinError::is_panic) {
            tracing::error!(?place, "a watch panicked and is begun again");
        }
        self.read(place, self.limits.backoff_max);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Fetch(request, place) => {
                let (fetch, out) = (self.fetch(place, &self.slots), self.out.clone());
                let task = self.readers.spawn(async move {
                    let slot = Arc::clone(&fetch.slots).acquire_owned().await.ok();
                    let objects = fetch.run(slot, &OnceLock::new()).await;
                    let _ = out.send(Message::Fetched(request, objects)).await;
                });
                self.fetches.insert(request, task);
            }
            Order::Read(request, place) => {
                let (fetch, out) = (self.fetch(place, &self.read_slots), self.out.clone());
                let task = self.readers.spawn(async move { read(request, fetch, &out).await });
                self.reads.insert(request, task);
            }
            Order::Cancel(request) => self.fetches.remove(&request).iter().for_each(AbortHandle::abort),
            Order::Forget(request) => self.reads.remove(&request).iter().for_each(AbortHandle::abort),
        }
    }

    fn fetch(&self, place: Place, slots: &Arc<Semaphore>) -> Fetch {
        let (client, limits, crds) = (self.client.clone(), self.limits, self.crds.subscribe());
        Fetch { client, place, limits, crds, slots: Arc::clone(slots) }
    }

    fn take_crds(&mut self, events: Vec<Event>) {
        self.learner.learn(events);
        let known = self.learner.crds();
        self.crds.send_if_modified(|crds| {
            let changed = **crds != known;
            *crds = Arc::new(known);
            changed
        });
    }
}

/// Reads an object to which others refer, and tells once that takes longer than anybody shall wait. How long it waited for
/// its turn does not count: then there are many objects, and nothing is wrong with this one.
async fn read(request: u64, fetch: Fetch, out: &mpsc::Sender<Message>) {
    let (patience, why) = (fetch.limits.answer, OnceLock::new());
    let slot = Arc::clone(&fetch.slots).acquire_owned().await.ok();
    let mut reading = pin!(fetch.run(slot, &why));
    let objects = match timeout(patience, reading.as_mut()).await {
        Ok(objects) => objects,
        Err(_) => {
            let why = why.get().map_or("the API server does not answer in time", String::as_str);
            let _ = out.send(Message::Late(request, why.to_owned())).await;
            reading.await
        }
    };
    let _ = out.send(Message::Content(request, objects)).await;
}
