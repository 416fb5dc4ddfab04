//! The status of policies.

use std::sync::Arc;

use api::{
    Kind, ObjectId,
    meta::ObjectMeta,
    policy::{LocalPolicyTargetReference, LocalPolicyTargetSelector},
    rewrite_policy::ReplacePrefix,
    shared::ParentReference,
    status::{Condition, PolicyStatus as Status},
};
use engine::{Derived, Emitter, Scope};
use ir::{Problem, Reason, RouteId, Severity};
use units::Gateways;

use super::{
    Conditions, StatusReport,
    ancestors::{entries, gateway_ref, target_ref},
    and_notes, backend_config_policy, backend_tls_policy, delegation_policy, frozen, listed, listener_policy,
};
use crate::{
    extension::OfPolicy,
    gateway::policy::{TakesAddresses, Traced},
    tables::{
        edition::Source,
        input::{ObjectKey, RewritePolicies, TrafficPolicies},
        policy::{
            InvalidPolicies, Override, Overrides, Policy, PolicyGateways, PolicyRow, Sections, StandingCounts,
            Standings, UsedEntry, Why, Winner,
        },
        route::RouteHead,
    },
    target::{key_of, no_section, section, target_kind, weight_problem},
    words::MAX_LISTED,
};

tables! {
    /// Statuses of policies.
    PolicyStatus: ObjectId => StatusReport<Status>;
}

/// A policy of any kind, as its owner wrote it.
struct Written<'a> {
    metadata: &'a ObjectMeta,
    refs: &'a [LocalPolicyTargetReference],
    selectors: &'a [LocalPolicyTargetSelector],
    /// The entries of a RewritePolicy.
    entries: &'a [ReplacePrefix],
}

impl Derived for PolicyStatus {
    fn compute(scope: &Emitter<'_>, id: &ObjectId) -> Option<Self::Value> {
        let mut report = of_kind(scope, id)?;
        if let Some(told) = frozen(scope, || id.clone()) {
            for ancestor in report.status.iter_mut().flat_map(|status| &mut status.ancestors) {
                let list = std::mem::take(&mut ancestor.conditions);
                let generation = list.first().and_then(|first| first.observed_generation).unwrap_or_default();
                let mut conditions = Conditions { generation, list };
                conditions.frozen(&told);
                ancestor.conditions = conditions.done();
            }
        }
        Some(report)
    }
}

/// The Gateways to which a policy applies.
struct AppliesTo<'a, 'b> {
    scope: &'a Scope<'b>,
    policy: &'a ObjectId,
}

impl Gateways for AppliesTo<'_, '_> {
    fn are_traced(&self) -> bool {
        self.scope
            .group::<PolicyGateways>(self.policy)
            .iter()
            .all(|(gateway, ())| self.scope.get::<Traced>(gateway).is_some())
    }

    fn take_addresses(&self) -> bool {
        self.scope
            .group::<PolicyGateways>(self.policy)
            .iter()
            .any(|(gateway, ())| self.scope.get::<TakesAddresses>(gateway).is_some())
    }
}

fn of_kind(scope: &Scope<'_>, id: &ObjectId) -> Option<StatusReport<Status>> {
    if id.kind == Kind::DelegationPolicy {
        delegation_policy::report(scope, id)
    } else if id.kind == Kind::BackendConfigPolicy {
        backend_config_policy::report(scope, id)
    } else if id.kind == Kind::BackendTlsPolicy {
        backend_tls_policy::report(scope, id)
    } else if id.kind == Kind::ListenerPolicy {
        listener_policy::report(scope, id)
    } else if id.kind == Kind::TrafficPolicy {
        let policy = scope.get::<TrafficPolicies>(&key_of(id))?;
        let api::TrafficPolicy { metadata, spec } = &*policy;
        let written = Written { metadata, refs: &spec.target_refs, selectors: &spec.target_selectors, entries: &[] };
        let warnings = OfPolicy { scope, namespace: &metadata.namespace }.warnings(spec);
        Some(report(scope, id, &written, warnings))
    } else {
        let policy = scope.get::<RewritePolicies>(&key_of(id))?;
        let api::RewritePolicy { metadata, spec } = &*policy;
        let entries = &spec.replace_prefix;
        let written = Written { metadata, refs: &spec.target_refs, selectors: &spec.target_selectors, entries };
        Some(report(scope, id, &written, Vec::new()))
    }
}

fn report(scope: &Scope<'_>, id: &ObjectId, written: &Written<'_>, warnings: Vec<Problem>) -> StatusReport<Status> {
    let mut notes: Vec<_> = weight_problem(written.metadata).into_iter().chain(foreign_kinds(id, written)).collect();
    notes.extend(warnings);
    let gateways = scope.group::<PolicyGateways>(id);
    let policy = scope.get::<PolicyRow>(&Source::live(id.clone()));
    if let Some(Ok(units)) = policy.as_ref().map(|policy| &policy.units) {
        let sound = || units.iter().filter_map(|said| said.unit.as_ref().ok());
        notes.extend(sound().filter_map(|unit| unit.warning(&AppliesTo { scope, policy: id })));
    }
    let missing = missing(scope, id, written);
    let is_nowhere = gateways.is_empty() && missing.is_empty();
    let frozen = is_nowhere.then(|| frozen(scope, || id.clone())).flatten();
    if is_nowhere && !(written.refs.is_empty() && written.selectors.is_empty()) {
        let note = match &frozen {
            Some(told) => Problem::new(Severity::Warning, told.reason, "", &*told.message),
            None => {
                let message = "it applies to nothing that is served";
                Problem::new(Severity::Warning, Reason::TargetNotFound, "", message)
            }
        };
        notes.push(note);
    }
    let mut problems = Vec::new();
    let at_gateways = conditions(scope, id, written, policy.as_deref(), &notes, !gateways.is_empty(), &mut problems);
    let mut ancestors: Vec<_> =
        gateways.iter().map(|(gateway, ())| (gateway_ref(gateway), at_gateways.clone())).collect();
    // One that came to a tree that is kept stands at no Gateway yet.
    for target in written.refs.iter().filter(|_| frozen.is_some()) {
        let accepted = at_gateways.iter().filter(|condition| condition.r#type == "Accepted").cloned().collect();
        ancestors.push((target_ref(&id.namespace, target), accepted));
    }
    for (target, problem) in &missing {
        let mut conditions = Conditions::new(written.metadata.generation);
        conditions.no("Accepted", problem.reason, problem.to_string());
        ancestors.push((target.clone(), conditions.done()));
    }
    problems.extend(notes);
    problems.extend(missing.into_iter().map(|(_, problem)| problem));
    let (status, untold) = entries(scope, ancestors);
    problems.extend(untold);
    StatusReport { status, problems }
}

/// What is to be said wherever the policy applies.
fn conditions(
    scope: &Scope<'_>,
    id: &ObjectId,
    written: &Written<'_>,
    policy: Option<&Policy>,
    notes: &[Problem],
    applies: bool,
    problems: &mut Vec<Problem>,
) -> Vec<Condition> {
    let mut conditions = Conditions::new(written.metadata.generation);
    let faults: Vec<_> = policy.iter().flat_map(|policy| policy.faults()).collect();
    // Whether a TrafficPolicy is valid nobody else decides.
    let invalid = (id.kind == Kind::RewritePolicy).then(|| scope.get::<InvalidPolicies>(id)).flatten();
    match (invalid, &faults[..]) {
        (Some(invalid), []) => {
            conditions.no("Accepted", invalid.reason, invalid.error.to_string());
            problems.push(Problem::new(Severity::Replaced, invalid.reason, "spec.replacePrefix", &*invalid.error));
        }
        (_, [first, ..]) => {
            let of_all = policy.as_ref().is_some_and(|policy| policy.units.is_err());
            let all: Vec<_> = faults.iter().map(ToString::to_string).collect();
            let nowhere = applies && !of_all && scope.group::<Standings>(id).summary().in_force() == 0;
            let nowhere = if nowhere { "; it is in force nowhere, so nothing is closed by it" } else { "" };
            conditions.no("Accepted", first.reason, format!("{}{nowhere}", all.join("; ")));
            problems.extend(faults.into_iter().cloned());
            return conditions.done();
        }
        (None, []) => {
            let reason = if is_of_kgateway(id) { Reason::Valid } else { Reason::Accepted };
            conditions.yes("Accepted", reason, and_notes("the policy is valid", notes));
        }
    }
    attached(scope, id, &mut conditions);
    let is_unused =
        |index: usize| u32::try_from(index).is_ok_and(|index| scope.get::<UsedEntry>(&(id.clone(), index)).is_none());
    let unused = written.entries.iter().enumerate().filter(|(index, _)| is_unused(*index));
    let unused: Vec<_> = unused
        .map(|(index, entry)| {
            let prefix = entry.prefix.as_ref().map(|prefix| format!(" ({prefix})")).unwrap_or_default();
            (format!("spec.replacePrefix[{index}]"), prefix)
        })
        .collect();
    if applies && !unused.is_empty() {
        let named: Vec<_> = unused.iter().map(|(field, prefix)| format!("{field}{prefix}")).collect();
        let message = format!("no routing prefix is that of {}; correct it, or remove it", listed(&named));
        conditions.yes("portcullis.dev/UnusedReplacement", Reason::UnusedReplacement, message.clone());
        problems.push(Problem::new(Severity::Warning, Reason::UnusedReplacement, &unused[0].0, message));
    }
    conditions.done()
}

/// Whether it is a kind of kgateway, whose conditions mean what they mean there.
fn is_of_kgateway(id: &ObjectId) -> bool {
    id.kind == Kind::TrafficPolicy
}

/// Whether the policy holds: the worst of all places counts for a kind of kgateway, and for others the best.
fn attached(scope: &Scope<'_>, id: &ObjectId, conditions: &mut Conditions) {
    let counts = *scope.group::<Standings>(id).summary();
    let overrides = overrides(scope, id);
    let message = in_words(&counts, overrides.as_deref());
    let is_of_kgateway = is_of_kgateway(id);
    let is_merged = overrides.is_some() || (is_of_kgateway && counts.shared > 0);
    if counts.places() + counts.yields == 0
        && let Some(told) = frozen(scope, || id.clone())
    {
        return conditions.no("Attached", told.reason, told.message.to_string());
    }
    let loses = counts.lost > 0 && (is_of_kgateway || counts.in_force() == 0);
    if loses {
        conditions.no("Attached", Reason::Overridden, message);
    } else if counts.in_force() == 0 && counts.closed > 0 {
        conditions.no("Attached", Reason::Pending, message);
    } else {
        conditions.yes("Attached", if is_merged { Reason::Merged } else { Reason::Attached }, message);
    }
}

/// Where a policy holds, and what holds in its place elsewhere.
fn in_words(counts: &StandingCounts, overrides: Option<&str>) -> String {
    let places = counts.places();
    if places + counts.yields == 0 {
        return "nothing overrides it".into();
    }
    let mut parts = vec![format!("it is in force at {} of {places} places", counts.in_force())];
    if counts.shared > 0 {
        parts.push(format!("in part or beside others: {}", counts.shared));
    }
    if counts.closed > 0 {
        parts.push(format!(
            "closed for another fault, which the status of the route or Gateway names: {}",
            counts.closed
        ));
    }
    if counts.yields > 0 {
        parts.push(format!("rules there that say otherwise: {}", counts.yields));
    }
    let message = parts.join("; ");
    match overrides {
        Some(overrides) => format!("{message}; overridden by {overrides}"),
        None => message,
    }
}

/// What holds in place of a policy, the first of them by name; none where nothing does.
fn overrides(scope: &Scope<'_>, id: &ObjectId) -> Option<String> {
    let overrides = scope.group::<Overrides>(id);
    // One may hold in its place at many places.
    let next = |known: Option<&Arc<Override>>| {
        overrides.behind(|(by, _)| known.is_some_and(|known| by <= known)).next().map(|((by, _), ())| by)
    };
    let mut all = std::iter::successors(next(None), |known| next(Some(known)));
    let mut names: Vec<_> = all.by_ref().take(MAX_LISTED).map(|by| name(id, by)).collect();
    names.dedup();
    names.extend(all.next().map(|_| "and others".to_owned()));
    (!names.is_empty()).then(|| names.join("; "))
}

/// What holds in place of a policy, and why, as its owner may know it.
fn name(id: &ObjectId, Override { by, why }: &Override) -> String {
    let is_own = |namespace: &Arc<str>| *namespace == id.namespace;
    let by = match by {
        Winner::Rule("urlRewrite" | "autoHostRewrite") => "the URLRewrite filter of a rule".into(),
        Winner::Rule("cors") => "the CORS filter of a rule".into(),
        Winner::Rule(field) => format!("the {field} of a rule itself"),
        Winner::Policy(policy) if is_own(&policy.namespace) => policy.to_string(),
        Winner::Policy(policy) => format!("a {} of another namespace", policy.kind),
        Winner::Keeper(policy) if is_own(&policy.namespace) => {
            format!("DelegationPolicy {policy}, which lets no child switch off what it inherits")
        }
        Winner::Keeper(_) => "the owner of a route above, who lets no child switch off what it inherits".into(),
    };
    let why = match why {
        None => return by,
        Some(Why::Closer) => "attached to less".into(),
        Some(Why::Kind) => "of a kind that goes first".into(),
        Some(Why::Weight) => "of greater weight".into(),
        Some(Why::Age) => "older".into(),
        Some(Why::Name) => "as old, and first by name".into(),
        Some(Why::Nearer) => "of a level nearer to the rule".into(),
        // A status names the Gateways of its policy.
        Some(Why::Annotation(word)) if is_own(&word.owner.namespace) || word.owner.kind == Kind::Gateway => {
            format!("by {word}")
        }
        Some(Why::Annotation(word)) => format!("by {} of a route above", word.priority.as_str()),
    };
    format!("{by} ({why})")
}

/// Targets of kinds that no policy of this kind can apply to here.
fn foreign_kinds(id: &ObjectId, written: &Written<'_>) -> Vec<Problem> {
    let refs = written.refs.iter().map(|target| (&target.group, &target.kind)).enumerate();
    let selectors = written.selectors.iter().map(|target| (&target.group, &target.kind)).enumerate();
    let all = refs.map(|one| ("targetRefs", one)).chain(selectors.map(|one| ("targetSelectors", one)));
    let foreign = all.filter(|(_, (_, (group, kind)))| target_kind(id.kind, group, kind).is_none());
    let problems = foreign.map(|(list, (index, (group, kind)))| {
        let message = format!("{kind} of group {group:?} is not served here, so it has no effect; remove it");
        Problem::new(Severity::Ignored, Reason::UnsupportedValue, format!("spec.{list}[{index}].kind"), message)
    });
    problems.collect()
}

/// Targets that are named and not there.
fn missing(scope: &Scope<'_>, id: &ObjectId, written: &Written<'_>) -> Vec<(ParentReference, Problem)> {
    let mut missing = Vec::new();
    for (index, target) in written.refs.iter().enumerate() {
        let Some(kind) = target_kind(id.kind, &target.group, &target.kind) else { continue };
        let object = ObjectId::new(kind, id.namespace.clone(), target.name.clone());
        let wanted = section(target.section_name.as_ref());
        let is_there = match (&wanted, RouteId::of(&object)) {
            // As most policies mean it: what its rules are called is nobody's concern.
            (None, Some(route)) => scope.get::<RouteHead>(&route).is_some(),
            _ => scope.get::<Sections>(&object).is_some(),
        };
        let problem = if is_there {
            let Some(section) = wanted else { continue };
            if scope.get::<Sections>(&object).is_some_and(|sections| sections.contains(&section)) {
                continue;
            }
            no_section(&object, &section, index)
        } else {
            let message = format!("{object} does not exist; create it, or correct the name");
            let field = format!("spec.targetRefs[{index}].name");
            Problem::new(Severity::Ignored, Reason::TargetNotFound, field, message)
        };
        missing.push((target_ref(&id.namespace, target), problem));
    }
    missing
}
