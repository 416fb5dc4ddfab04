//! What keeps one object from costing the others: which objects a fault is about that no table ends, what an object was
//! before, a translator that begins anew, and what is told of objects that are set aside.

use std::{collections::BTreeMap, sync::Arc};

use api::{Kind, Object, ObjectId, StatusKind};
use engine::Fault;
use ir::{NsName, Problem, RootId, Severity};
use serde_json::{Value, json};

use super::{Change, Translator, reports, tables};
use crate::{
    gateway::Served,
    host::Cleared,
    internal,
    status::Report,
    tables::{
        edition::{TreeOf, WideTree},
        gateway::GatewayRow,
        host::{CandidateOffer, Offer},
        input::{self, Config, Shared},
        output::Outputs,
        policy::InvalidPolicies,
        proxies::ProxiesOf,
        replacement::{Replaced, ReplacedWide},
        set::SetHead,
        strict::{CandidateWide, OfferedListener, OfferedPart, OfferedWide},
    },
};

/// Tables of words: what they say stays as it was, all is served as it shall be, and no object is set aside for it.
const WORDS_ALONE: [&str; 12] = [
    "RefusedResponses",
    "InvalidPolicies",
    "Replaced",
    "ReplacedWide",
    "ClassStatus",
    "GatewayStanding",
    "GatewayStatus",
    "SetStatus",
    "RouteStatus",
    "BackendStatus",
    "PolicyStatus",
    "ExtensionStatus",
];

/// The condition of an object that is set aside.
const QUARANTINED: &str = "portcullis.dev/Quarantined";

/// A fault that no table ends, so that what hangs on it stays as it was.
#[derive(Clone, Debug)]
pub struct Unended {
    /// The fault.
    pub fault: Fault,
    /// The objects that the row has read which panicked, itself or through others.
    pub objects: Vec<ObjectId>,
    /// The roots of the editions that it has read.
    pub editions: Vec<RootId>,
}

/// An object that is set aside.
#[derive(Debug)]
pub(super) struct Quarantined {
    /// As its owner wrote it.
    object: Object,
    /// Whether an older version is in force.
    kept: bool,
}

impl Quarantined {
    fn problem(&self) -> Problem {
        let stands = match (self.kept, self.object.kind().is_policy()) {
            (true, _) => "its last version stays in force",
            (false, true) => "what it targets is closed",
            (false, false) => "it counts as not there",
        };
        let mut problem = internal::problem(Severity::Refused, "");
        problem.message = format!("set aside, {stands}: {}", problem.message);
        problem
    }

    fn condition(&self) -> Value {
        json!({
            "type": QUARANTINED, "status": "True", "reason": self.problem().reason.as_str(), "message": self.problem().message,
            "observedGeneration": self.object.metadata().map_or(0, |metadata| metadata.generation),
        })
    }

    /// What is said of an object of which nothing else is: it is not accepted.
    fn refusal(&self) -> Value {
        let mut refusal = self.condition();
        refusal["type"] = "Accepted".into();
        refusal["status"] = "False".into();
        json!([refusal, self.condition()])
    }
}

/// What is said of an object that is set aside, besides what is said of what stands in its place.
struct SetAside {
    of: Arc<Quarantined>,
    report: Option<Arc<dyn Report>>,
    /// The parents of ours that a route names.
    parents: Vec<Value>,
    controller_name: Arc<str>,
}

impl Report for SetAside {
    fn has_status(&self) -> bool {
        self.json().is_some()
    }

    fn json(&self) -> Option<String> {
        let said = self.report.as_ref().and_then(|report| report.json());
        let said: Option<Value> = said.and_then(|json| serde_json::from_str(&json).ok());
        let list = match self.of.object.kind().status() {
            StatusKind::None => return None,
            StatusKind::Route => Some("parents"),
            StatusKind::Policy => Some("ancestors"),
            _ => None,
        };
        let mut status = match (said, list) {
            (Some(said), _) => said,
            (None, None) => return Some(json!({"conditions": self.of.refusal()}).to_string()),
            (None, Some(_)) if self.parents.is_empty() => return None,
            (None, Some(list)) => {
                let entry = |parent: &Value| {
                    json!({
                        "parentRef": parent, "controllerName": &*self.controller_name, "conditions": self.of.refusal(),
                    })
                };
                return Some(json!({list: self.parents.iter().map(entry).collect::<Vec<_>>()}).to_string());
            }
        };
        let places = match list {
            Some(list) => status[list].as_array_mut().into_iter().flatten().collect(),
            None => vec![&mut status],
        };
        for place in places {
            if let Some(conditions) = place["conditions"].as_array_mut() {
                conditions.push(self.of.condition());
            }
        }
        Some(status.to_string())
    }

    fn problems(&self) -> Vec<Problem> {
        let said = self.report.iter().flat_map(|report| report.problems());
        [self.of.problem()].into_iter().chain(said).collect()
    }
}

impl Translator {
    /// The faults that no table ends, and that keep something from being served: see [`engine::Engine::unended`].
    pub fn unended(&self) -> Vec<Unended> {
        let mut faults: Vec<_> = self.engine.unended();
        faults.retain(|(table, _)| !WORDS_ALONE.contains(table));
        let mut known: Vec<Unended> = Vec::new();
        for (_, fault) in faults {
            if known.iter().all(|other| other.fault != fault) {
                let origins = self.engine.origins(&fault);
                let objects = input::among(&self.engine, &origins);
                let editions = input::editions_among(&self.engine, &origins);
                known.push(Unended { fault, objects, editions });
            }
        }
        known
    }

    /// An object as it is in force; none if it is not there.
    pub fn object(&self, id: &ObjectId) -> Option<Shared> {
        input::get(&self.engine, id)
    }

    /// All objects as they are in force.
    pub fn objects(&self) -> Vec<(ObjectId, Shared)> {
        input::all(&self.engine).into_iter().map(|shared| (shared.object().id(), shared)).collect()
    }

    /// A translator in the place of this one, which may have panicked: of the same objects, but for those of `otherwise`,
    /// which are as it says. What it tells when it is settled is what differs from what this one told.
    pub fn anew(&mut self, otherwise: &BTreeMap<ObjectId, Option<Shared>>) -> Self {
        let mut engine = tables::all();
        input::copy_others(&mut engine, &self.engine);
        input::copy::<Cleared>(&mut engine, &self.engine);
        engine.resume::<Offer>(&self.engine);
        engine.resume::<OfferedPart>(&self.engine);
        engine.resume::<OfferedWide>(&self.engine);
        engine.resume::<OfferedListener>(&self.engine);
        engine.resume::<CandidateOffer>(&self.engine);
        engine.resume::<CandidateWide>(&self.engine);
        engine.resume::<Outputs>(&self.engine);
        engine.resume::<TreeOf>(&self.engine);
        engine.resume::<WideTree>(&self.engine);
        engine.resume::<Served>(&self.engine);
        engine.resume::<ProxiesOf>(&self.engine);
        engine.resume::<InvalidPolicies>(&self.engine);
        engine.resume::<Replaced>(&self.engine);
        engine.resume::<ReplacedWide>(&self.engine);
        reports::resume(&mut engine, &self.engine);
        let mut anew = Self {
            engine,
            unasked: std::mem::take(&mut self.unasked),
            held: std::mem::take(&mut self.held),
            left_out: std::mem::take(&mut self.left_out),
            turned: std::mem::take(&mut self.turned),
            quarantined: std::mem::take(&mut self.quarantined),
            #[cfg(debug_assertions)]
            failing: std::mem::take(&mut self.failing),
        };
        #[cfg(debug_assertions)]
        anew.fail_again(&self.engine);
        let others = input::all(&self.engine).into_iter().map(|shared| shared.object());
        let others = others.filter(|object| !otherwise.contains_key(&object.id()));
        for object in others.chain(otherwise.values().flatten().map(Shared::object)) {
            anew.apply(Change::Put(object));
        }
        anew
    }

    /// Has it told that an object is set aside which its owner wrote as it is here, and that what stands in its place, if
    /// anything, was applied; none once it is not.
    pub fn set_quarantined(&mut self, id: &ObjectId, object: Option<Object>) {
        let before = match object {
            Some(object) => {
                let kept = self.object(id).is_some_and(|shared| api::violations(&shared.object()).is_empty());
                self.quarantined.insert(id.clone(), Arc::new(Quarantined { object, kept }))
            }
            None => self.quarantined.remove(id),
        };
        if before.is_some() || self.quarantined.contains_key(id) {
            self.turned.push(id.clone());
        }
        if id.kind == Kind::Gateway {
            // Its proxies are not to go: see `Held`.
            self.held.proxies.insert(NsName::new(id.namespace.clone(), id.name.clone()));
        }
    }

    /// Objects that are set aside, in order.
    pub fn quarantined(&self) -> impl Iterator<Item = &ObjectId> {
        self.quarantined.keys()
    }

    /// That an object is set aside, and what stands in its place; none of one that is not.
    pub fn set_aside(&self, id: &ObjectId) -> Option<Problem> {
        self.quarantined.get(id).map(|quarantined| quarantined.problem())
    }

    /// Whether a Gateway is set aside and nothing stands in its place: its proxies keep what they have.
    pub(super) fn is_set_aside(&self, gateway: &NsName) -> bool {
        let id = || ObjectId::new(Kind::Gateway, gateway.namespace.clone(), gateway.name.clone());
        !self.quarantined.is_empty() && self.quarantined.contains_key(&id()) && self.object(&id()).is_none()
    }

    /// What is said of an object, with that it is set aside if it is.
    pub(super) fn told(&self, id: &ObjectId, report: Option<Arc<dyn Report>>) -> Option<Arc<dyn Report>> {
        let Some(of) = self.quarantined.get(id) else { return report };
        let controller_name = self.engine.get::<Config>(&()).map(|config| config.controller_name.clone());
        let of_ours = |parents: &[api::shared::ParentReference]| {
            parents.iter().filter_map(|parent| self.parent(id, parent)).collect()
        };
        let parents = match &of.object {
            Object::HttpRoute(route) => of_ours(&route.spec.parent_refs),
            Object::GrpcRoute(route) => of_ours(&route.spec.parent_refs),
            _ => Vec::new(),
        };
        let controller_name = controller_name.unwrap_or_default();
        Some(Arc::new(SetAside { of: Arc::clone(of), report, parents, controller_name }))
    }

    /// A parent of ours, as a status names it.
    fn parent(&self, route: &ObjectId, parent: &api::shared::ParentReference) -> Option<Value> {
        let parent = serde_json::to_value(parent).ok()?;
        let namespace = parent["namespace"].as_str().unwrap_or(&route.namespace);
        let name = NsName::new(namespace, parent["name"].as_str()?);
        let is = |kind: Kind| parent["kind"].as_str().unwrap_or(Kind::Gateway.as_str()) == kind.as_str();
        let is_of_set = is(Kind::ListenerSet) && self.engine.get::<SetHead>(&name).is_some_and(|head| head.is_ours());
        let is_ours = is_of_set || is(Kind::Gateway) && self.engine.get::<GatewayRow>(&name).is_some();
        is_ours.then_some(parent)
    }
}
