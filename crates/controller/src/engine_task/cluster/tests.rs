use cluster::apply;
use translate::Deploying;
use xds::{Hub, ResourceType};

use super::*;
use crate::{
    engine_task::{EngineTask, Event, View},
    metrics::{GatewayLabel, RefusalLabels, SourceLabel},
    testing::{Memory, world},
};

/// An engine that watches a cluster whose objects are those of files, and runs proxies there.
struct World {
    task: EngineTask,
    applier: Applier,
    accounts: watch::Receiver<Accounts>,
    metrics: Metrics,
    files: Memory,
}

impl World {
    fn new() -> Self {
        let metrics = Metrics::default();
        let settings = ir::Settings { shared_host: false, ..ir::Settings::default() };
        let controller = cluster::status::Settings::new(Arc::clone(&settings.controller_name));
        let applier = Applier::new(apply::Settings::default(), apply::Metrics::default(), |_| {});
        let sinks = ClusterSinks {
            statuses: Writer::new(controller, metrics.statuses.clone()),
            applier: Some(applier.clone()),
            accounts: watch::Sender::default(),
        };
        let accounts = sinks.accounts.subscribe();
        let deploying = Deploying {
            settings: deploy::Settings::default(),
            xds_host: "portcullis.portcullis-system.svc".into(),
            xds_port: 9977,
            authorities: None,
            applied: true,
        };
        let task = EngineTask::new(settings, Hub::new(), None, metrics.clone()).watching(sinks, Some(deploying));
        Self { task, applier, accounts, metrics, files: Memory::default() }
    }

    /// What a watch says when the cluster has these objects, beside those of other names.
    fn objects(&mut self, name: &str, text: &str) -> Vec<Observed> {
        let update = self.files.write(name, text);
        assert!(update.problems.is_empty(), "{:?}", update.problems);
        let observed = update.changes.into_iter().map(|change| match change {
            Change::Put(object) => Observed::Put { object, stored: None, version: 0 },
            Change::Remove(id) => Observed::Remove(id),
        });
        observed.collect()
    }

    fn observe(&mut self, observed: Vec<Observed>) {
        self.task.work(vec![Event::Cluster(observed)]);
    }

    fn write(&mut self, name: &str, text: &str) {
        let observed = self.objects(name, text);
        self.observe(observed);
    }

    fn keeps_edge(&self) -> bool {
        self.applier.retains(&NsName::new("web", "edge"))
    }

    fn all_synced(&mut self) {
        self.observe(Kind::ALL.iter().map(|kind| Observed::Synced(*kind)).collect());
    }

    fn authorities(&mut self) {
        self.task.work(vec![Event::Authorities("-----BEGIN CERTIFICATE-----\n".into())]);
    }
}

/// The world with parameters that are not there.
fn with_missing_parameters() -> String {
    world(8080).replace(
        "  gatewayClassName: portcullis\n",
        "  gatewayClassName: portcullis\n  infrastructure: {parametersRef: {group: gateway.kgateway.dev, kind: \
         GatewayParameters, name: large}}\n",
    )
}

const PARAMETERS: &str = "\
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayParameters
metadata: {name: large, namespace: web}
spec: {kube: {deployment: {replicas: 3}}}
";

#[test]
fn nothing_is_left_over_before_everything_was_read() {
    let mut w = World::new();
    w.authorities();
    w.write("a.yaml", &world(8080));
    assert!(!w.applier.is_complete());
    w.all_synced();
    assert!(w.applier.is_complete());
}

#[test]
fn what_runs_stays_until_the_authorities_are_known() {
    let mut w = World::new();
    w.write("a.yaml", &world(8080));
    w.all_synced();
    assert!(w.keeps_edge());
    w.authorities();
    assert!(!w.keeps_edge());
}

#[test]
fn what_runs_stays_while_nobody_knows_what_should_run_and_holds_up_nothing_that_is_left_over() {
    let mut w = World::new();
    w.authorities();
    w.write("a.yaml", &with_missing_parameters());
    w.all_synced();
    assert!(w.keeps_edge() && w.applier.is_complete());
    w.write("c.yaml", PARAMETERS);
    assert!(!w.keeps_edge());
}

#[test]
fn a_gateway_that_goes_keeps_nothing() {
    let mut w = World::new();
    w.authorities();
    w.write("a.yaml", &with_missing_parameters());
    w.all_synced();
    assert!(w.keeps_edge());
    w.write("a.yaml", "");
    assert!(!w.keeps_edge());
}

#[test]
fn events_and_the_size_of_batches_count_objects() {
    let mut w = World::new();
    let objects = w.objects("a.yaml", &world(8080));
    let count = objects.len() as u64;
    assert!(count > 1);
    w.observe(objects);
    w.authorities();
    assert_eq!(w.metrics.events.get_or_create(&SourceLabel::of("cluster")).get(), count);
    assert_eq!(w.metrics.events.get_or_create(&SourceLabel::of("identity")).get(), 1);
    let shows = |line: &str| {
        let text = crate::metrics::render(&w.metrics.registry());
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    };
    shows(&format!("portcullis_batch_events_sum {}.0", count + 1));
    shows("portcullis_batch_events_count 2");
    // Who only asks makes no batch.
    w.task.work(vec![Event::Ask(Box::new(|_| ()))]);
    shows("portcullis_batch_events_count 2");
    shows("portcullis_batches_total 2");
    shows("portcullis_settle_seconds_count 2");
}

#[test]
fn a_kind_that_cannot_be_watched_is_shown_until_it_can() {
    let mut w = World::new();
    let stale = |w: &World| w.metrics.stale_watches.get_or_create(&KindLabel::of("Service")).get();
    w.observe(vec![Observed::Stale { kind: Kind::Service, why: "forbidden".into() }]);
    assert_eq!(stale(&w), 1);
    w.observe(vec![Observed::Fresh(Kind::Service)]);
    assert_eq!(stale(&w), 0);
}

#[test]
fn refusals_of_proxies_are_counted_by_gateway_and_type() {
    let mut w = World::new();
    let gateway = || "web/edge".to_owned();
    w.task.work(vec![
        Event::Proxy(xds::Event::Connected { gateway: gateway(), node_id: "a".into(), envoy: None, stream: 1 }),
        Event::Proxy(xds::Event::Nacked {
            gateway: gateway(),
            stream: 1,
            kind: ResourceType::Listener,
            names: vec!["listener/8080".into()],
            versions: Vec::new(),
            acknowledged: Vec::new(),
            envoy: None,
            message: "no".into(),
        }),
        Event::Proxy(xds::Event::UnknownName {
            gateway: gateway(),
            stream: 1,
            kind: ResourceType::Cluster,
            name: "x".into(),
            count: 3,
        }),
    ]);
    let labels = |kind: &str| RefusalLabels { gateway: gateway(), r#type: kind.to_owned() };
    assert_eq!(w.metrics.nacks.get_or_create(&labels("Listener")).get(), 1);
    assert_eq!(w.metrics.nacks.get_or_create(&labels("Cluster")).get(), 0);
    assert_eq!(w.metrics.unknown_names.get_or_create(&GatewayLabel::of(gateway())).get(), 3);
    assert_eq!(w.metrics.streams.get(), 1);
    w.task.work(vec![Event::Proxy(xds::Event::Disconnected { gateway: gateway(), stream: 1 })]);
    assert_eq!(w.metrics.streams.get(), 0);
}

#[test]
fn what_cannot_be_decoded_is_reported_until_it_can_or_goes() {
    let mut w = World::new();
    let objects = w.objects("a.yaml", &world(8080));
    let routes = objects.iter().filter_map(|observed| match observed {
        Observed::Put { object, .. } => Some(object.id()),
        _ => None,
    });
    let id = routes.into_iter().find(|id| id.kind == Kind::HttpRoute).expect("a route");
    let undecodable = || Observed::Undecodable { id: id.clone(), why: "a port is text".to_owned(), refused: false };
    let undecoded = |w: &mut World| {
        let (sender, answer) = std::sync::mpsc::channel();
        let question = move |view: &View<'_>| {
            sender.send(view.cluster.map(|cluster| cluster.undecodable().clone())).expect("somebody waits");
        };
        w.task.work(vec![Event::Ask(Box::new(question))]);
        answer.recv().expect("an answer").expect("there is a cluster").into_keys().collect::<Vec<_>>()
    };
    w.observe(objects.clone());
    w.observe(vec![undecodable()]);
    assert_eq!(undecoded(&mut w), std::slice::from_ref(&id));
    w.observe(objects);
    assert_eq!(undecoded(&mut w), []);
    w.observe(vec![undecodable(), Observed::Remove(id.clone())]);
    assert_eq!(undecoded(&mut w), []);
}

#[test]
fn an_account_belongs_to_the_gateway_that_had_it_first_until_that_goes() {
    let mut w = World::new();
    w.authorities();
    let class = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: edge-portcullis}\n\
                 spec: {controllerName: portcullis.dev/gateway-controller}\n";
    let gateway = |name: &str, class: &str, created: u8| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n\
             metadata: {{name: {name}, namespace: web, creationTimestamp: '2026-01-0{created}T00:00:00Z'}}\n\
             spec: {{gatewayClassName: {class}, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}\n"
        )
    };
    let accounts = w.accounts.clone();
    let owner = move || {
        let accounts = accounts.borrow().clone();
        accounts.get(&NsName::new("web", "web-edge-portcullis")).map(ToString::to_string)
    };
    w.write("a.yaml", &world(8080));
    w.write("b.yaml", class);
    w.write("c.yaml", &gateway("web-edge", "portcullis", 1));
    w.all_synced();
    assert_eq!(owner().as_deref(), Some("web/web-edge"));
    w.write("d.yaml", &gateway("web", "edge-portcullis", 2));
    assert_eq!(owner().as_deref(), Some("web/web-edge"));
    assert!(w.applier.retains(&NsName::new("web", "web")));
    w.write("c.yaml", "");
    assert_eq!(owner().as_deref(), Some("web/web"));
    w.write("d.yaml", "");
    assert_eq!(owner(), None);
}
