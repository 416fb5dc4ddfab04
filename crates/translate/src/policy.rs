//! Policies: attached to routes, rules, Gateways and listeners, inherited down trees of routes, and judged.
//!
//! What they target is in [`target`]. What a rule makes of the policies on
//! it and on its ancestors is in [`rule`]; what those on a Gateway or listener do is in [`wide`].

mod count;
pub(crate) mod level;
pub(crate) mod merge;
mod read;
pub(crate) mod rule;
pub(crate) mod secrets;
pub(crate) mod wide;

use std::sync::Arc;

use api::{Kind, Object, ObjectId};
use engine::{Derived, Emitter, Lookup, Scope};
use ir::{Problem, RouteId, Severity, filter::PathModifier};
use units::{AnyUnit, Others, ParsedUnit, SharedUnit, Unit, UrlRewrite};

use crate::{
    budget::cost::{matchable, replaceable},
    extension, internal,
    tables::{
        edition::Source,
        input::{EditionObjects, Gateways, Kept, ListenerSets, ObjectKey, RewritePolicies, TrafficPolicies},
        policy::{InvalidPolicies, Policy, PolicyRow, Sections},
        route::RouteHead,
    },
    target::{self, Attachable, key_of},
    violation::{problem, sound},
};

impl Derived for PolicyRow {
    fn compute(scope: &Emitter<'_>, id: &Source<ObjectId>) -> Option<Policy> {
        row(
            scope,
            id,
            |policy| traffic(scope, policy),
            |policy| {
                let said = sound(&Object::RewritePolicy(policy.clone())).and_then(|()| read::rewrite(&policy.spec));
                Ok(vec![ParsedUnit {
                    field: UrlRewrite::FIELD,
                    unit: said.map(|said| AnyUnit::UrlRewrite(said.into()).into()).map_err(Box::new),
                }])
            },
        )
    }

    /// It is refused, and stays with its targets, which are not served as if it were not there.
    fn poisoned(scope: &Emitter<'_>, id: &Source<ObjectId>, _: &engine::Fault) -> Option<Policy> {
        let refused = || Err(internal::problem(Severity::Refused, ""));
        row(scope, id, |_| refused(), |_| refused())
    }
}

/// What a policy says. What an API server would have refused of a unit breaks that unit; of a policy that does not decode
/// nobody knows what it says.
fn traffic(scope: &Emitter<'_>, policy: &api::TrafficPolicy) -> Result<Vec<ParsedUnit>, Problem> {
    let mut refused: Vec<_> = policy.spec.violations().into_iter().map(problem).collect();
    let is_of_all =
        |problem: &Problem| !policy.spec.invalid.is_empty() || ParsedUnit::unit_at(&problem.field).is_none();
    if let Some(of_all) = refused.iter().position(is_of_all) {
        return Err(refused.swap_remove(of_all));
    }
    let secrets = secrets::OfPolicy::new(scope, &policy.metadata.namespace);
    let extensions = extension::OfPolicy { scope, namespace: &policy.metadata.namespace };
    let others = Others { secrets: &secrets, extensions: &extensions };
    let mut units = units::read(&policy.spec, &others)?;
    for said in &mut units {
        if let Some(Err(problem)) = said.unit.as_ref().ok().map(|unit| affordable(scope, unit)) {
            said.unit = Err(problem.into());
        }
    }
    for problem in refused.into_iter().rev() {
        let Some(field) = ParsedUnit::unit_at(&problem.field) else { continue };
        units.retain(|said| said.field != field);
        units.push(ParsedUnit { field, unit: Err(problem.into()) });
    }
    Ok(units)
}

/// Refuses a unit with expressions that take too long.
fn affordable(scope: &Emitter<'_>, unit: &SharedUnit) -> Result<(), Problem> {
    if let AnyUnit::UrlRewrite(rewrite) = &**unit
        && let PathModifier::Regex { pattern, .. } = &rewrite.path
    {
        replaceable(scope, pattern, "spec.urlRewrite.pathRegex.pattern")?;
    }
    let patterns: Vec<_> = unit.slots().iter().flat_map(|slot| slot.patterns.iter().cloned()).collect();
    if patterns.is_empty() { Ok(()) } else { matchable(scope, &patterns, &format!("spec.{}", unit.field())) }
}

/// A policy under what it targets, with what the reader of its kind takes from it.
fn row(
    scope: &Emitter<'_>,
    Source { edition, key: id }: &Source<ObjectId>,
    traffic: impl FnOnce(&api::TrafficPolicy) -> Result<Vec<ParsedUnit>, Problem>,
    rewrite: impl FnOnce(&api::RewritePolicy) -> Result<Vec<ParsedUnit>, Problem>,
) -> Option<Policy> {
    let key = key_of(id);
    let edition = edition.as_ref();
    let of_traffic = |policy: &api::TrafficPolicy| {
        let api::TrafficPolicy { metadata, spec } = policy;
        let written = Attachable { edition, metadata, refs: &spec.target_refs, selectors: &spec.target_selectors };
        Policy { rank: target::file(scope, id, &written), units: traffic(policy).map(Into::into) }
    };
    let of_rewrite = |policy: &api::RewritePolicy| {
        let api::RewritePolicy { metadata, spec } = policy;
        let written = Attachable { edition, metadata, refs: &spec.target_refs, selectors: &spec.target_selectors };
        Policy { rank: target::file(scope, id, &written), units: rewrite(policy).map(Into::into) }
    };
    let policy = match (edition, id.kind) {
        (Some(edition), _) => match &scope.get::<EditionObjects>(&(edition.clone(), id.clone()))?.0 {
            Kept::TrafficPolicy(policy) => of_traffic(policy),
            Kept::RewritePolicy(policy) => of_rewrite(policy),
            _ => return None,
        },
        (None, Kind::TrafficPolicy) => of_traffic(&*scope.get::<TrafficPolicies>(&key)?),
        (None, _) => of_rewrite(&*scope.get::<RewritePolicies>(&key)?),
    };
    // The rules to which a sound RewritePolicy applies tell whether it is valid.
    if edition.is_none() && (id.kind == Kind::RewritePolicy || policy.faults().next().is_some()) {
        scope.demand::<InvalidPolicies>(id.clone());
    }
    Some(policy)
}

impl Lookup for Sections {
    fn compute(scope: &Scope<'_>, object: &ObjectId) -> Option<Box<[Arc<str>]>> {
        let key = key_of(object);
        Some(match object.kind {
            Kind::Gateway => {
                scope.get::<Gateways>(&key)?.spec.listeners.iter().map(|listener| listener.name.clone()).collect()
            }
            Kind::ListenerSet => {
                scope.get::<ListenerSets>(&key)?.spec.listeners.iter().map(|listener| listener.name.clone()).collect()
            }
            _ => scope.get::<RouteHead>(&RouteId::of(object)?)?.rule_names().cloned().collect(),
        })
    }
}
