//! Objects in, changes out.

#[cfg(debug_assertions)]
mod failing;
mod quarantine;
mod reports;
mod tables;

pub use quarantine::Unended;
pub use reports::Reports;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt::Write as _,
    sync::Arc,
};

use api::{Kind, Object, ObjectId, Violation};
use engine::{Engine, Table, TableStats, Turned};
use envoy::resource::{Encoded, ResourceKey};
use ir::{NsName, Port, RouteId, Settings, backend::Transport};

use quarantine::Quarantined;

use crate::{
    gateway::Served,
    tables::{
        gateway::{GatewayRow, NameRival},
        input::{
            self, AbsentKinds, Config, DeployConfig, ForeignAncestors, Gateways, LoginSeed, Nacks, Unapplied,
            UnservedPorts, UnusablePorts,
        },
        login::Seed,
        output::{OutputId, Outputs},
        policy::{InvalidPolicies, InvalidPolicy},
        proxies::{Deploying, Proxies, ProxiesOf},
        replacement::{RefusedRows, Replaced, ReplacedRule, ReplacedScope, ReplacedWide, Replacement},
        set::SetRow,
    },
};

/// A change of an object.
#[allow(clippy::large_enum_variant, reason = "it is moved once, straight into its table")]
#[derive(Clone, Debug)]
pub enum Change {
    /// It appeared, or is now so.
    Put(Object),
    /// It is gone.
    Remove(ObjectId),
}

/// What one settling changed. Each thing is named once, however often it changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Resources, sorted; none for one that is gone.
    pub resources: Vec<(ResourceKey, Option<Encoded>)>,
    /// Gateways that are served from now on, or no longer.
    pub gateways: Vec<(NsName, bool)>,
    /// Gateways whose proxies are run by something else from now on; none for one that is not ours any more.
    pub proxies: Vec<(NsName, Option<Proxies>)>,
    /// Objects whose status changed.
    pub statuses: Vec<ObjectId>,
    /// Other objects than those of `statuses` whose problems may have changed.
    pub problems: Vec<ObjectId>,
    /// Rules that are replaced by a direct response from now on, or for another reason, or no longer.
    pub replacements: Vec<(ReplacedRule, Option<Replacement>)>,
    /// The same of virtual hosts and route configurations as a whole.
    pub wide_replacements: Vec<(ReplacedScope, Option<Replacement>)>,
    /// Policies that are not valid from now on, or for another reason, or are valid again, or gone.
    pub invalid_policies: Vec<(ObjectId, Option<InvalidPolicy>)>,
    /// Rows that panicked, or that are sound again or gone after a panic, in the order in which that happened.
    pub faults: Vec<Turned>,
    /// How many rows were computed.
    pub computed: usize,
}

/// Translates, incrementally. Owned by one task; nothing in it waits or does IO.
///
/// The result depends on the objects as they are, never on the order or the time in which they came.
pub struct Translator {
    engine: Engine,
    /// Routes that name no parent and that one of another namespace publishes.
    unasked: HashSet<RouteId>,
    held: Held,
    /// Parts of objects that cannot be used. These objects have no other problems.
    left_out: HashMap<ObjectId, Box<[Violation]>>,
    /// Objects whose entry in `left_out` changed since the last settling.
    turned: Vec<ObjectId>,
    quarantined: BTreeMap<ObjectId, Arc<Quarantined>>,
    /// What is to panic because of objects as they are.
    #[cfg(debug_assertions)]
    failing: failing::Failing,
}

/// What changed for Gateways that cannot be read because of a panic: their proxies keep what they have until they can.
#[derive(Default)]
struct Held {
    outputs: BTreeSet<OutputId>,
    proxies: BTreeSet<NsName>,
    served: BTreeSet<NsName>,
}

impl Held {
    /// Takes what changed for a Gateway that cannot be read out of `changed`, and adds what can be told by now.
    fn sift<K: Ord>(held: &mut BTreeSet<K>, changed: Vec<K>, is_unreadable: impl Fn(&K) -> bool) -> Vec<K> {
        // As nearly always; `changed` is in order.
        if held.is_empty() && !changed.iter().any(&is_unreadable) {
            return changed;
        }
        let all = std::mem::take(held).into_iter().chain(changed);
        let (unreadable, told): (BTreeSet<_>, BTreeSet<_>) = all.partition(|key| is_unreadable(key));
        *held = unreadable;
        told.into_iter().collect()
    }
}

impl Translator {
    /// A translator that has seen no object yet.
    pub fn new(settings: Settings) -> Self {
        let mut engine = tables::all();
        engine.set::<Config>((), Some(settings));
        Self {
            engine,
            unasked: HashSet::new(),
            held: Held::default(),
            left_out: HashMap::new(),
            turned: Vec::new(),
            quarantined: BTreeMap::new(),
            #[cfg(debug_assertions)]
            failing: failing::Failing::default(),
        }
    }

    /// Records a change. It takes effect with [`Translator::settle`].
    pub fn apply(&mut self, change: Change) {
        let (id, object) = match change {
            Change::Put(object) => (object.id(), Some(object)),
            Change::Remove(id) => (id, None),
        };
        let left_out = object.as_ref().map_or(&[][..], Object::left_out);
        let before = if left_out.is_empty() {
            self.left_out.remove(&id)
        } else {
            self.left_out.insert(id.clone(), left_out.into())
        };
        if before.is_some() || !left_out.is_empty() {
            self.turned.push(id.clone());
        }
        #[cfg(debug_assertions)]
        self.fail_because_of(&id, object.as_ref());
        input::set(&mut self.engine, &id, object);
    }

    /// Why a proxy of `gateway` does not have what it shall: it refuses it, or cannot be sent it; none once it has it.
    pub fn set_nack(&mut self, gateway: &NsName, words: Option<String>) {
        self.engine.set::<Nacks>(gateway.clone(), words);
    }

    /// The Envoy routes of a route that an Envoy refuses, in place of those that it was told before. They answer 500, or match
    /// nothing where that is refused too, and the route is told.
    pub fn set_refused(&mut self, route: &RouteId, rows: RefusedRows) {
        self.engine.set::<input::RefusedRows>(route.clone(), (!rows.is_empty()).then_some(rows));
    }

    /// The Envoy routes of a route that proxies refused, in place of those that it was told before; what becomes of them is the same.
    /// Whether there is such a kind of route.
    pub fn set_refused_by_proxies(&mut self, route: &ObjectId, rows: RefusedRows) -> bool {
        let Some(route) = <RouteId as input::ObjectKey>::of(route) else { return false };
        self.engine.set::<input::RefusedByProxies>(route, (!rows.is_empty()).then_some(rows));
        true
    }

    /// The clusters that proxies refused of what [`refused_clusters_of`] names, in place of those that it was told before. They are
    /// left out, and who needs them answers 500.
    ///
    /// [`refused_clusters_of`]: crate::refused_clusters_of
    pub fn set_refused_clusters(&mut self, holder: &ObjectId, clusters: RefusedRows) {
        self.engine.set::<input::RefusedClusters>(holder.clone(), (!clusters.is_empty()).then_some(clusters));
    }

    /// Why the objects that run a Gateway's proxies are not as they should be; none once they are.
    pub fn set_unapplied(&mut self, gateway: &NsName, words: Option<String>) {
        self.engine.set::<Unapplied>(gateway.clone(), words);
    }

    /// The ports of ListenerSets that a Gateway's Service goes without, and why; none once it has all.
    pub fn set_unserved_ports(&mut self, gateway: &NsName, ports: BTreeMap<(Port, Transport), Arc<str>>) {
        self.engine.set::<UnservedPorts>(gateway.clone(), (!ports.is_empty()).then_some(ports));
    }

    /// Why `port` of this host cannot be bound for a transport; none once it can.
    pub fn set_unusable_port(&mut self, port: Port, transport: Transport, why: Option<String>) {
        self.engine.set::<UnusablePorts>((port, transport), why);
    }

    /// Whether objects of a kind can be written at all: not while its CRD is absent. Listeners support the kinds of routes that
    /// can.
    pub fn set_absent(&mut self, kind: Kind, is_absent: bool) {
        self.engine.set::<AbsentKinds>(kind, is_absent.then_some(()));
    }

    /// How many entries the status of a policy has that other controllers wrote: there is that much less room in it.
    pub fn set_foreign_ancestors(&mut self, policy: &ObjectId, count: usize) {
        self.engine.set::<ForeignAncestors>(policy.clone(), (count > 0).then_some(count));
    }

    /// How the proxies of Gateways are run; none where that is not this controller's business.
    pub fn set_deploying(&mut self, deploying: Option<Deploying>) {
        self.engine.set::<DeployConfig>((), deploying);
    }

    /// What the keys are made from that prove logins; none while nobody knows, so that nobody is logged in.
    pub fn set_login_seed(&mut self, seed: Option<Seed>) {
        self.engine.set::<LoginSeed>((), seed);
    }

    /// Brings everything derived up to date, and tells what changed since the last time.
    pub fn settle(&mut self) -> Changes {
        let computed = self.compute();
        Changes { computed, ..self.take_changes() }
    }

    /// Brings everything derived up to date, and tells how many rows it computed.
    pub fn compute(&mut self) -> usize {
        #[cfg(debug_assertions)]
        self.failing.fail();
        self.engine.settle().computed
    }

    /// What changed since this was last asked, but for how many rows were computed.
    pub fn take_changes(&mut self) -> Changes {
        let mut held = std::mem::take(&mut self.held);
        let outputs = self.engine.take_changes::<Outputs>();
        let outputs = Held::sift(&mut held.outputs, outputs, |id| self.is_unreadable(id.gateway()));
        let outputs = self.read::<Outputs, _>(outputs, Encoded::clone).into_iter();
        let mut resources: Vec<_> = outputs.map(|(id, encoded)| (id.resource(), encoded)).collect();
        resources.sort_by(|(a, _), (b, _)| a.cmp(b));
        let proxies = self.engine.take_changes::<ProxiesOf>();
        let proxies = Held::sift(&mut held.proxies, proxies, |gateway| self.is_unreadable(gateway));
        let kept: Vec<_> = held.proxies.iter().filter(|gateway| self.is_set_aside(gateway)).cloned().collect();
        let served = self.engine.take_changes::<Served>();
        let served = Held::sift(&mut held.served, served, |gateway| self.is_set_aside(gateway));
        let gateways = self.read::<Served, _>(served, |served| *served).into_iter();
        self.held = held;
        let proxies = self.read::<ProxiesOf, _>(proxies, |deployed| deployed.proxies.clone());
        let (statuses, problems) = self.take_reported();
        let faults = self.engine.take_faults();
        #[cfg(any(test, feature = "testing"))]
        assert_sound(&faults);
        Changes {
            resources,
            gateways: gateways.map(|(gateway, served)| (gateway, served.unwrap_or_default())).collect(),
            proxies: proxies
                .into_iter()
                .chain(kept.into_iter().map(|gateway| (gateway, Some(Proxies::Kept))))
                .collect(),
            statuses,
            problems,
            replacements: self.take::<Replaced, _>(Clone::clone),
            wide_replacements: self.take::<ReplacedWide, _>(Clone::clone),
            invalid_policies: self.take::<InvalidPolicies, _>(Clone::clone),
            faults,
            computed: 0,
        }
    }

    /// Whether nobody knows what the proxies of a Gateway shall have.
    fn is_unreadable(&self, gateway: &NsName) -> bool {
        self.engine.fault::<GatewayRow>(gateway).is_some() || self.is_set_aside(gateway)
    }

    /// The rows of a table that changed since the last time, as they are now; none for one that is gone.
    fn take<T: Table, R>(&mut self, row: impl Fn(&T::Value) -> R) -> Vec<(T::Key, Option<R>)> {
        let keys = self.engine.take_changes::<T>();
        self.read::<T, R>(keys, row)
    }

    fn read<T: Table, R>(&self, keys: Vec<T::Key>, row: impl Fn(&T::Value) -> R) -> Vec<(T::Key, Option<R>)> {
        let now = |key: &T::Key| self.engine.get::<T>(key).map(|value| row(&value));
        keys.into_iter().map(|key| (key.clone(), now(&key))).collect()
    }

    /// How many routes name no parent and are published by one of another namespace.
    pub fn published_unasked(&self) -> usize {
        self.unasked.len()
    }

    /// The Gateways that get proxies, sorted.
    pub fn gateways(&self) -> Vec<NsName> {
        let served = self.engine.rows::<Served>().into_iter();
        served.filter(|(_, served)| **served).map(|(gateway, _)| gateway).collect()
    }

    /// The ServiceAccount as which the proxies of a Gateway of ours run, whoever runs them. No two Gateways have the same.
    pub fn account(&self, gateway: &NsName) -> Option<NsName> {
        self.engine.get::<GatewayRow>(gateway)?;
        if self.engine.get::<NameRival>(gateway).is_some() || self.engine.fault::<NameRival>(gateway).is_some() {
            return None;
        }
        let class = &self.engine.get::<Gateways>(gateway)?.spec.gateway_class_name;
        Some(crate::proxies::name(gateway, class))
    }

    /// All resources by Gateway, sorted by kind and name.
    pub fn resources(&self) -> BTreeMap<NsName, Vec<(ResourceKey, Encoded)>> {
        let mut resources: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (id, encoded) in self.engine.rows::<Outputs>() {
            let key = id.resource();
            resources.entry(key.gateway.clone()).or_default().push((key, (*encoded).clone()));
        }
        for list in resources.values_mut() {
            list.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        resources
    }

    /// How many rows are panicking at the moment.
    pub fn faults(&self) -> usize {
        self.engine.faults().len()
    }

    /// Has a row of `table` panic whenever it is computed; `key` as the engine prints it. For tests of what becomes of it.
    #[cfg(debug_assertions)]
    pub fn fail_at(&mut self, table: &str, key: &str) {
        self.engine.fail_at(table, key);
    }

    /// Takes back a [`Translator::fail_at`].
    #[cfg(debug_assertions)]
    pub fn fail_no_more(&mut self, table: &str, key: &str) {
        self.engine.fail_no_more(table, key);
    }

    /// The ports that served Gateways want bound on this host, sorted, with their transport.
    pub fn wanted_ports(&self) -> Vec<(NsName, (Port, Transport))> {
        let rows = self.engine.rows::<GatewayRow>().into_iter();
        let of_gateways = rows
            .filter(|(_, model)| model.refused.is_none())
            .flat_map(|(key, model)| model.bind_ports().into_iter().map(move |port| (key.clone(), port)));
        let of_sets = self.engine.rows::<SetRow>().into_iter().map(|(_, set)| set);
        let of_sets = of_sets
            .filter(|set| self.engine.get::<Served>(&set.gateway).is_some_and(|served| *served))
            .flat_map(|set| set.bind_ports().into_iter().map(move |port| (set.gateway.clone(), port)));
        let mut ports: Vec<_> = of_gateways.chain(of_sets).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// The tables, for those who read them for people.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The tables, for what waits for Envoy's word.
    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// What the tables hold and cost, as text.
    pub fn engine_report(&self) -> String {
        let mut report = format!("{:<20} {:<8} {:>9} {:>9} {:>12}\n", "table", "kind", "rows", "computed", "in total");
        for table in self.engine.stats() {
            let TableStats { name, kind, rows, computed, computed_total, .. } = table;
            let _ = writeln!(report, "{name:<20} {kind:<8} {rows:>9} {computed:>9} {computed_total:>12}");
        }
        report
    }

    /// Why a row of `table` has the value it has; `key` as the engine prints it.
    pub fn why(&self, table: &str, key: &str) -> Option<String> {
        self.engine.why_named(table, key).map(|why| why.to_string())
    }

    /// The most often that any row was computed in the last settling. More than one would be an error of the engine.
    pub fn most_computed(&self) -> u32 {
        self.engine.stats().iter().map(|table| table.max_per_cell).max().unwrap_or_default()
    }
}

/// Fails the test in which a row panics that was not told to.
#[cfg(any(test, feature = "testing"))]
fn assert_sound(faults: &[Turned]) {
    for fault in faults.iter().filter_map(|turned| turned.fault.as_ref()) {
        assert!(fault.message() == engine::TOLD_TO, "{fault}");
    }
}
