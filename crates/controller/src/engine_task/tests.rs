use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex},
};

use ir::{Port, backend::Transport};
use xds::{Hub, ResourceType};

use super::*;
use crate::{
    document::Document,
    testing::{Memory, world},
};

const GATEWAY: &str = "web/edge";

struct World {
    task: EngineTask,
    hub: Hub,
    files: Memory,
}

impl World {
    fn new(ports: Option<PortCheck>) -> Self {
        let hub = Hub::new();
        let task = EngineTask::new(Settings::default(), hub.clone(), ports, Metrics::default());
        Self { task, hub, files: Memory::default() }
    }

    fn write(&mut self, name: &str, text: &str) {
        let update = self.files.write(name, text);
        self.task.work(vec![Event::Files(update)]);
    }

    fn remove(&mut self, name: &str) {
        let update = self.files.remove(name);
        self.task.work(vec![Event::Files(update)]);
    }

    fn names(&self, kind: ResourceType) -> Vec<String> {
        let snapshot = self.hub.snapshot(GATEWAY).expect("it is published");
        snapshot.iter(kind).map(|resource| resource.name().to_owned()).collect()
    }

    fn document(&mut self) -> serde_json::Value {
        let (sender, answer) = std::sync::mpsc::channel();
        let question: Question = Box::new(move |view| {
            let document = serde_json::to_value(Document::of(view.translator));
            sender.send(document.expect("it is what translation made")).expect("somebody waits");
        });
        self.task.work(vec![Event::Ask(question)]);
        answer.try_recv().expect("questions are answered at once")
    }

    fn conditions(&mut self) -> String {
        let document = self.document();
        let mut statuses = document["statuses"].as_array().into_iter().flatten();
        let gateway = statuses.find(|status| status["kind"] == "Gateway").expect("it has a status");
        gateway["status"].to_string()
    }
}

/// A host on which some ports are taken.
#[derive(Clone, Default)]
struct Host(Arc<Mutex<HostState>>);

#[derive(Default)]
struct HostState {
    taken: BTreeSet<Port>,
    tried: Vec<(Port, bool)>,
}

impl Host {
    fn take(&self, ports: &[Port]) {
        self.0.lock().expect("no test panicked").taken = ports.iter().copied().collect();
    }

    fn tried(&self) -> Vec<(Port, bool)> {
        std::mem::take(&mut self.0.lock().expect("no test panicked").tried)
    }
}

impl HostPorts for Host {
    fn try_bind(&mut self, port: Port, _: Transport, ours: bool) -> Result<(), io::Error> {
        let mut state = self.0.lock().expect("no test panicked");
        state.tried.push((port, ours));
        if state.taken.contains(&port) && !ours { Err(io::ErrorKind::AddrInUse.into()) } else { Ok(()) }
    }
}

#[test]
fn nothing_is_ready_before_all_is_read() {
    let mut world_ = World::new(None);
    world_.task.work(vec![Event::RecheckPorts]);
    assert!(!world_.hub.is_ready());
    world_.write("a.yaml", "");
    assert!(world_.hub.is_ready());
}

#[test]
fn what_files_hold_is_published_by_gateway() {
    let mut w = World::new(None);
    w.write("a.yaml", &world(8080));
    assert_eq!(w.hub.published(), [GATEWAY]);
    assert_eq!(w.names(ResourceType::Listener), ["listener/8080"]);
    assert_eq!(w.names(ResourceType::Cluster), ["service/web/app/80"]);
    assert_eq!(w.names(ResourceType::Endpoints), ["service/web/app/80"]);
    assert_eq!(w.names(ResourceType::RouteConfiguration), ["http/8080"]);
    let served = w.task.served();
    assert_eq!(served.borrow().iter().map(ToString::to_string).collect::<Vec<_>>(), [GATEWAY]);
}

#[test]
fn an_update_that_changes_nothing_publishes_nothing() {
    let mut w = World::new(None);
    w.write("a.yaml", &world(8080));
    let before = w.hub.snapshot(GATEWAY).expect("it is published");
    w.write("a.yaml", &format!("# a comment\n{}", world(8080)));
    assert_eq!(w.hub.snapshot(GATEWAY), Some(before));
}

#[test]
fn snapshots_kept_up_to_date_equal_those_of_a_fresh_start() {
    let other = world(9090).replace("edge", "other").replace("name: app", "name: app2");
    let mut w = World::new(None);
    w.write("a.yaml", &world(8080));
    w.write("b.yaml", &other);
    w.write("a.yaml", &world(8081).replace("port: 80}", "port: 81}"));
    w.remove("b.yaml");
    w.write("a.yaml", &world(8082));
    let mut fresh = World::new(None);
    fresh.write("a.yaml", &world(8082));
    assert_eq!(w.hub.snapshot(GATEWAY), fresh.hub.snapshot(GATEWAY));
    assert_eq!(w.document(), fresh.document());
}

#[test]
fn proxies_of_a_gateway_that_went_get_an_empty_snapshot() {
    let mut w = World::new(None);
    w.write("a.yaml", &world(8080));
    let mut served = w.task.served();
    served.mark_unchanged();
    w.remove("a.yaml");
    assert!(w.hub.snapshot(GATEWAY).expect("it stays published").is_empty());
    assert!(served.has_changed().expect("the task is there"));
    assert!(served.borrow_and_update().is_empty());
    w.write("a.yaml", &world(8080));
    assert_eq!(w.names(ResourceType::Listener), ["listener/8080"]);
}

#[test]
fn what_a_proxy_refuses_is_reported_on_its_gateway_in_its_words_until_it_takes_it() {
    let mut w = World::new(None);
    w.write("a.yaml", &world(8080));
    assert!(!w.conditions().contains("no such thing"));
    w.task.work(vec![Event::Proxy(xds::Event::Nacked {
        gateway: GATEWAY.into(),
        stream: 1,
        kind: ResourceType::Listener,
        names: vec!["listener/8080".into()],
        versions: Vec::new(),
        acknowledged: Vec::new(),
        envoy: None,
        message: "no such thing".into(),
    })]);
    assert!(w.conditions().contains("no such thing"), "{}", w.conditions());
    w.task.work(vec![Event::Proxy(xds::Event::Recovered {
        gateway: GATEWAY.into(),
        stream: 1,
        kind: ResourceType::Listener,
        names: vec!["listener/8080".into()],
    })]);
    assert!(!w.conditions().contains("no such thing"));
}

#[test]
fn a_port_that_another_process_has_is_never_sent_and_used_once_it_is_free() {
    let host = Host::default();
    host.take(&[8080]);
    let mut w = World::new(Some(PortCheck::new(host.clone())));
    w.write("a.yaml", &world(8080));
    assert!(w.hub.snapshot(GATEWAY).is_none_or(|snapshot| snapshot.len(ResourceType::Listener) == 0));
    assert!(w.conditions().contains("another process has it"), "{}", w.conditions());
    w.task.work(vec![Event::RecheckPorts]);
    assert!(w.conditions().contains("another process has it"));
    host.take(&[]);
    w.task.work(vec![Event::RecheckPorts]);
    assert_eq!(w.names(ResourceType::Listener), ["listener/8080"]);
    assert!(!w.conditions().contains("another process"));
}

#[test]
fn a_port_of_our_own_is_not_tried_again() {
    let host = Host::default();
    let mut w = World::new(Some(PortCheck::new(host.clone())));
    w.write("a.yaml", &world(8080));
    assert_eq!(host.tried(), [(8080, false)]);
    // From here on our Envoy has it.
    host.take(&[8080]);
    w.write("b.yaml", &world(8080).replace("name: app,", "name: other,"));
    w.task.work(vec![Event::RecheckPorts]);
    assert_eq!(host.tried(), []);
    w.remove("b.yaml");
    w.remove("a.yaml");
    // It may still be draining there.
    w.write("a.yaml", &world(8080));
    assert_eq!(host.tried(), [(8080, true)]);
    assert_eq!(w.names(ResourceType::Listener), ["listener/8080"]);
}

#[tokio::test]
async fn the_task_ends_with_the_last_handle() {
    let (handle, events) = channel();
    let task = EngineTask::new(Settings::default(), Hub::new(), None, Metrics::default());
    let thread = std::thread::spawn(move || task.run(events));
    let mut files = Memory::default();
    let update = files.write("a.yaml", &world(8080));
    handle.send(Event::Files(update)).await.expect("it runs");
    let gateways = handle.ask(|view| view.translator.gateways().len()).await.expect("it runs");
    assert_eq!(gateways, 1, "questions see what was sent before");
    drop(handle);
    thread.join().expect("it ends by itself");
}
