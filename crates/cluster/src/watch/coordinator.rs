//! Owns the state, starts reflectors and hands on what is observed.

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
    crds::{CrdStore, Crds},
    decoder::Decoder,
    event::{Event, Message},
    metrics::Metrics,
    reflector::{Closed, Fetch, Reflector},
    request::{Command, ListWatch, Only, Target},
    state::State,
};

/// Batches that wait; when so many do, the API server is made to wait.
const WAITING: usize = 64;

/// How many namespaces and kinds are fetched at a time.
const FETCHES: usize = 4;

/// How many objects to which others refer are read at a time.
const READS: usize = 16;

/// Watches until `sink` is closed.
pub(super) async fn run(client: Client, options: Options, sink: mpsc::Sender<Vec<Observed>>) {
    let (out, mut inbox) = mpsc::channel(WAITING);
    let (crds, _) = watch::channel(Arc::default());
    let mut tasks = Tasks {
        client,
        limits: options.limits,
        crd_store: CrdStore::default(),
        crds,
        out,
        metrics: options.metrics.clone(),
        reflectors: JoinSet::new(),
        running: HashMap::new(),
        fetches: BTreeMap::new(),
        reads: BTreeMap::new(),
        slots: Arc::new(Semaphore::new(FETCHES)),
        read_slots: Arc::new(Semaphore::new(READS)),
    };
    let list_watches = list_watches(&options);
    let mut state = State::new(&options.scope, &list_watches);
    let mut kept = options.kept;
    tokio::select! {
        () = sink.closed() => return,
        // Whoever would say it may be gone.
        _ = kept.wait_for(Option::is_some) => {}
    }
    state.keep(&kept.borrow_and_update().clone().unwrap_or_default());
    // Which namespaces are read must be known before what is in them comes.
    let selects = matches!(options.scope, Scope::Selector(_));
    let (first, mut later): (Vec<_>, Vec<_>) =
        list_watches.into_iter().partition(|list_watch| !selects || list_watch.target == Target::Kind(Kind::Namespace));
    if first.iter().chain(&later).any(|list_watch| list_watch.target.crd().is_some()) {
        tasks.read(ListWatch { target: Target::Crds, namespace: None, only: Only::All }, Duration::ZERO);
    }
    for list_watch in first {
        tasks.read(list_watch, Duration::ZERO);
    }
    let mut messages = Vec::new();
    // Whoever would say more is gone.
    let mut is_final = false;
    loop {
        tokio::select! {
            biased;
            () = sink.closed() => return,
            Some(ended) = tasks.reflectors.join_next_with_id() => tasks.ended(&ended),
            changed = kept.changed(), if !is_final => match changed {
                Ok(()) => state.keep(&kept.borrow_and_update().clone().unwrap_or_default()),
                Err(_) => is_final = true,
            },
            _ = inbox.recv_many(&mut messages, WAITING) => {}
        }
        for message in messages.drain(..) {
            match message {
                Message::Events(ListWatch { target: Target::Kind(kind), namespace, .. }, events) => {
                    state.handle(kind, namespace.as_ref(), events);
                }
                Message::Events(ListWatch { target: Target::Crds, .. }, events) => tasks.take_crds(events),
                // Nobody here asks for it.
                Message::Events(
                    ListWatch { target: Target::Labelled(_) | Target::Content(_) | Target::Selected(_), .. },
                    _,
                ) => {}
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
        for command in state.take_commands() {
            tasks.execute(command);
        }
        if state.has_read(Kind::Namespace) {
            for list_watch in later.drain(..) {
                tasks.read(list_watch, Duration::ZERO);
            }
        }
        let observed = state.take_observed();
        if !observed.is_empty() && sink.send(observed).await.is_err() {
            return;
        }
    }
}

/// What is to be watched.
fn list_watches(options: &Options) -> Vec<ListWatch> {
    let mut kinds = options.kinds.clone();
    if matches!(options.scope, Scope::Selector(_)) {
        kinds.insert(Kind::Namespace);
    }
    let namespaces = |kind: Kind| match &options.scope {
        Scope::Named(namespaces) if kind.namespaced() || kind == Kind::Namespace => {
            namespaces.iter().cloned().map(Some).collect()
        }
        _ => vec![None],
    };
    let of = |kind, namespace| ListWatch { target: Target::Kind(kind), namespace, only: Only::All };
    kinds.into_iter().flat_map(|kind| namespaces(kind).into_iter().map(move |namespace| of(kind, namespace))).collect()
}

struct Tasks {
    client: Client,
    limits: Limits,
    crd_store: CrdStore,
    crds: watch::Sender<Arc<Crds>>,
    out: mpsc::Sender<Message>,
    metrics: Metrics,
    reflectors: JoinSet<()>,
    running: HashMap<tokio::task::Id, ListWatch>,
    fetches: BTreeMap<u64, AbortHandle>,
    reads: BTreeMap<u64, AbortHandle>,
    slots: Arc<Semaphore>,
    read_slots: Arc<Semaphore>,
}

impl Tasks {
    fn read(&mut self, list_watch: ListWatch, after: Duration) {
        let (out, key) = (self.out.clone(), list_watch.clone());
        let reflector = Reflector {
            client: self.client.clone(),
            decoder: Decoder::new(list_watch.target),
            list_watch: list_watch.clone(),
            limits: self.limits,
            crds: self.crds.subscribe(),
            sink: async move |events| out.send(Message::Events(key.clone(), events)).await.map_err(|_| Closed),
            metrics: self.metrics.reflector(list_watch.target.name()),
        };
        let task = self.reflectors.spawn(async move {
            sleep(after).await;
            reflector.run().await;
        });
        self.running.insert(task.id(), list_watch);
    }

    /// A reflector ends by a fault of its own alone. Another one begins with a list, and objects stay until then.
    fn ended(&mut self, ended: &Result<(tokio::task::Id, ()), tokio::task::JoinError>) {
        let id = ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, ())| *id);
        let Some(list_watch) = self.running.remove(&id) else { return };
        if ended.as_ref().is_err_and(tokio::task::JoinError::is_panic) {
            tracing::error!(watch = ?list_watch, "a watch panicked and is begun again");
        }
        self.read(list_watch, self.limits.backoff_max);
    }

    fn execute(&mut self, command: Command) {
        match command {
            Command::Fetch(request, list_watch) => {
                let (fetch, out) = (self.fetch(list_watch, &self.slots), self.out.clone());
                let task = self.reflectors.spawn(async move {
                    let slot = Arc::clone(&fetch.slots).acquire_owned().await.ok();
                    let objects = fetch.run(slot, &OnceLock::new()).await;
                    let _ = out.send(Message::Fetched(request, objects)).await;
                });
                self.fetches.insert(request, task);
            }
            Command::Read(request, list_watch) => {
                let (fetch, out) = (self.fetch(list_watch, &self.read_slots), self.out.clone());
                let task = self.reflectors.spawn(async move { read(request, fetch, &out).await });
                self.reads.insert(request, task);
            }
            Command::Cancel(request) => self.fetches.remove(&request).iter().for_each(AbortHandle::abort),
            Command::Forget(request) => self.reads.remove(&request).iter().for_each(AbortHandle::abort),
        }
    }

    fn fetch(&self, list_watch: ListWatch, slots: &Arc<Semaphore>) -> Fetch {
        let (client, limits, crds) = (self.client.clone(), self.limits, self.crds.subscribe());
        Fetch { client, list_watch, limits, crds, slots: Arc::clone(slots) }
    }

    fn take_crds(&mut self, events: Vec<Event>) {
        self.crd_store.apply(events);
        let known = self.crd_store.crds();
        for (definition, remedy) in known.superseded(&self.crds.borrow()) {
            tracing::warn!(definition, remedy, "there is a kind of policy that is not read");
        }
        self.crds.send_if_modified(|crds| {
            let changed = **crds != known;
            *crds = Arc::new(known);
            changed
        });
    }
}

/// Reads an object to which others refer, and reports when that takes longer than anybody shall wait. How long it waited for
/// its turn does not count: then there are many objects, and nothing is wrong with this one.
async fn read(request: u64, fetch: Fetch, out: &mpsc::Sender<Message>) {
    let (answer_timeout, why) = (fetch.limits.answer, OnceLock::new());
    let slot = Arc::clone(&fetch.slots).acquire_owned().await.ok();
    let mut reading = pin!(fetch.run(slot, &why));
    let objects = match timeout(answer_timeout, reading.as_mut()).await {
        Ok(objects) => objects,
        Err(_) => {
            let why = why.get().map_or("the API server does not answer in time", String::as_str);
            let _ = out.send(Message::Late(request, why.to_owned())).await;
            reading.await
        }
    };
    let _ = out.send(Message::Content(request, objects)).await;
}
