//! The policies of a Gateway that keeps their last good version, by its annotation: those on it and on its own listeners.
//!
//! With them is kept what of the Gateway decides which of them hold where: its labels, the names of its listeners, and how what it
//! says is merged with what routes say. Where a listener is not among those that are kept, its policies are as they are now: whoever
//! renames a listener is guarded at once by what is said of the new one. All else of the Gateway is as it is now, and so are
//! policies on ListenerSets, whose owners are others, and those of the namespace whose policies hold everywhere.

use std::{collections::BTreeSet, sync::Arc};

use api::{
    Kind, ObjectId,
    gateway::{GatewaySpec, Listener},
    meta::ObjectMeta,
};
use engine::{Derived, Emitter, Engine};
use ir::{ListenerId, NsName, RootId};

use super::TOLD;
use crate::{
    internal,
    kept::{asks, freezing},
    offer::is_strict,
    policy::wide::{judge, section, whole},
    route::annotations,
    tables::{
        edition::{
            Beside, Tree, WideTree,
            objects::{Edition, Member},
        },
        gateway::GatewayRow,
        input::{CandidateWords, Classes, Gateways, Kept, ObjectKey, Shared, TrafficPolicies},
        policy::NamingListeners,
        strict::{CandidateWide, CandidateWord},
    },
    target::{is_global, key_of, no_section},
};

/// What annotations of ours begin with.
const OURS: &str = "portcullis.dev/";

/// What of a Gateway is kept with its policies.
fn kept_of(gateway: &api::Gateway) -> api::Gateway {
    let api::Gateway { metadata, spec } = gateway;
    let priority = metadata.annotations.get(annotations::PRIORITY);
    let listeners = spec.listeners.iter().map(|listener| Listener {
        name: listener.name.clone(),
        port: listener.port,
        protocol: listener.protocol.clone(),
        ..Listener::default()
    });
    api::Gateway {
        metadata: ObjectMeta {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
            labels: metadata.labels.clone(),
            annotations: priority.map(|priority| (annotations::PRIORITY, priority)).into_iter().collect(),
            ..ObjectMeta::default()
        },
        spec: GatewaySpec {
            gateway_class_name: spec.gateway_class_name.clone(),
            listeners: listeners.collect(),
            ..GatewaySpec::default()
        },
    }
}

fn beside(metadata: &ObjectMeta) -> Beside {
    let ours = metadata.annotations.iter().filter(|(name, _)| name.starts_with(OURS));
    let annotations = ours.map(|(name, value)| (name.clone(), value.clone())).collect();
    Beside { uid: metadata.uid.clone(), annotations }
}

impl Derived for WideTree {
    fn compute(scope: &Emitter<'_>, name: &NsName) -> Option<Tree> {
        freezing(scope, name)?;
        // One of another controller's is not looked at.
        scope.get::<GatewayRow>(name)?;
        let gateway = scope.get::<Gateways>(name)?;
        let listeners = gateway.spec.listeners.iter();
        let listeners = listeners.map(|listener| section(&ListenerId::of_gateway(name.clone(), listener.name.clone())));
        let mut policies = BTreeSet::new();
        let mut faults = BTreeSet::new();
        for target in std::iter::once(whole(name)).chain(listeners) {
            let (of_target, problems) = judge(scope, &target);
            policies.extend(of_target);
            faults.extend(problems);
        }
        // Whom it was to guard, nobody knows.
        let object = name.clone().id(Kind::Gateway);
        for ((policy, index), listener) in scope.group::<NamingListeners>(name).iter() {
            let is_there = gateway.spec.listeners.iter().any(|known| known.name == *listener);
            if !is_there && !is_global(scope, policy) {
                policies.insert(policy.clone());
                faults.insert(format!("{policy} {}", no_section(&object, listener, index)));
            }
        }
        let policy = |id: ObjectId| {
            let policy = scope.get::<TrafficPolicies>(&key_of(&id))?;
            Some((id, Shared(Kept::TrafficPolicy(policy))))
        };
        let own = (object, Shared(Kept::Gateway(Arc::new(kept_of(&gateway)))));
        let objects = policies.into_iter().filter_map(policy).chain([own]);
        let members = objects.map(|(id, object)| {
            let member = Member::new(&id, object);
            (id, member)
        });
        let word = scope.get::<CandidateWords>(&RootId::Gateway(name.clone()));
        if let Some(CandidateWord::Refused(words)) = word.as_deref() {
            faults.insert(words.to_string());
        }
        if is_strict(scope) {
            scope.demand::<CandidateWide>(name.clone());
        }
        let waits = matches!(word.as_deref(), Some(CandidateWord::Awaited));
        let first = faults.iter().take(TOLD).map(|words| Arc::from(&**words)).collect();
        let beside = Some(beside(&gateway.metadata));
        Some(Tree { edition: Edition::of_members(members), faults: faults.len(), first, waits, beside })
    }

    /// Nobody knows what they say, so that none of it is good.
    fn poisoned(scope: &Emitter<'_>, name: &NsName, _: &engine::Fault) -> Option<Tree> {
        freezing(scope, name)?;
        Some(Tree {
            edition: Edition::default(),
            faults: 1,
            first: [internal::WORDS.into()].into(),
            waits: false,
            beside: None,
        })
    }
}

/// Whether nobody knows if a Gateway is of ours that asks for its policies to be kept: nothing of it ends.
pub(super) fn is_unknown(engine: &Engine, gateway: &NsName) -> bool {
    let is_asked = |gateway: &api::Gateway| {
        asks(&gateway.metadata) && engine.get::<Classes>(&gateway.spec.gateway_class_name).is_none()
    };
    engine.get::<Gateways>(gateway).is_some_and(|gateway| is_asked(&gateway))
}
