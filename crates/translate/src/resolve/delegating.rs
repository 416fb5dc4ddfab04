//! What a delegating rule answers itself: nothing, where its children serve.

use engine::Scope;
use ir::{
    Problem, Reason, Severity,
    delegation::{Children, LABEL, PlacedMatch},
    route::Handling,
    rule::Rule,
};

use super::{ANYWHERE, EnvoyRoute, Findings, Unwritten};
use crate::{
    budget::cost::Meter,
    delegation::{describe, why_too_many},
    internal,
    tables::delegation::{ContributedBelow, Delegating, LastCovering, Referred, Selection, ServedChain},
};

/// The Envoy routes of a delegating rule's own matches, and what is to be said of its references.
pub(super) fn answers(
    scope: &Scope<'_>,
    unwritten: &Unwritten,
    handling: &Handling,
    meter: &mut Meter<'_, '_>,
    findings: &mut Findings,
) -> Box<[EnvoyRoute]> {
    let (chain, rule) = (&unwritten.chain, unwritten.index);
    let at = (chain.clone(), rule);
    // Where the route stands at no Gateway of ours nothing is delegated, and nothing can be said.
    let delegation = scope.get::<ServedChain>(chain).and_then(|_| scope.get::<Delegating>(&at));
    let Some(delegation) = delegation else { return Box::default() };
    let field = format!("spec.rules[{rule}]");
    if let Some(why) = why_too_many(scope, chain) {
        let field = format!("{field}.backendRefs");
        findings.unresolved.push(Problem::new(Severity::Replaced, Reason::RefNotPermitted, field, why));
        return write(unwritten, unwritten.matches.clone(), 500, meter, findings);
    }
    let References { missing, selected } = references(scope, unwritten, handling, findings);
    let (mut broken, mut empty, mut behind) = (Vec::new(), Vec::new(), Vec::new());
    for (placed, matching) in unwritten.matches.iter().zip(0..) {
        let Some(contributed) = scope.get::<ContributedBelow>(&(chain.clone(), rule, matching)) else { continue };
        let field = || format!("{field}.matches[{}]", placed.index);
        let left = || {
            let last = scope.get::<LastCovering>(&(chain.clone(), rule, matching));
            placed.behind(delegation.terms.sort, last.as_deref().map(|last| &**last))
        };
        if contributed.barred {
            let message = format!(
                "{} is no prefix, so only children that inherit it can stand below, and not all do; use PathPrefix, or \
                 annotate the children",
                describe(&placed.written)
            );
            let problem = Problem::new(Severity::Replaced, Reason::UnsupportedValue, field(), message);
            findings.closed.push((placed.index, problem));
        }
        if contributed.serves {
            if missing || contributed.barred || contributed.left_out {
                behind.push(left());
            }
        } else if missing || !selected || contributed.broken || contributed.barred || contributed.left_out {
            broken.push(if contributed.broken { left() } else { placed.clone() });
        } else {
            let message = format!(
                "no match of a child lies below {}, so it answers 404; correct the matches of the children, or this one",
                describe(&placed.written)
            );
            let problem = Problem::new(Severity::Replaced, Reason::NoMatchingChild, field(), message);
            findings.empty.push((placed.index, problem));
            empty.push(placed.clone());
        }
    }
    broken.extend(behind);
    let mut routes = write(unwritten, broken, 500, meter, findings).into_vec();
    routes.extend(write(unwritten, empty, 404, meter, findings));
    routes.into()
}

fn write(
    unwritten: &Unwritten,
    matches: Vec<PlacedMatch>,
    status: u16,
    meter: &mut Meter<'_, '_>,
    findings: &mut Findings,
) -> Box<[EnvoyRoute]> {
    let rule = Rule::direct_response(status, "");
    Unwritten { matches, rule, ..unwritten.clone() }.priced(meter).write(ANYWHERE, &mut findings.closed)
}

/// What the references of a rule come to.
#[derive(Default)]
struct References {
    /// One of them selects nobody, or not whom it names.
    missing: bool,
    /// Somebody is selected.
    selected: bool,
}

/// Follows the references of a rule, and tells of those that select nobody or close a circle.
fn references(scope: &Scope<'_>, unwritten: &Unwritten, handling: &Handling, findings: &mut Findings) -> References {
    let (chain, rule) = (&unwritten.chain, unwritten.index);
    let Some(delegation) = scope.get::<Delegating>(&(chain.clone(), rule)) else {
        return References::default();
    };
    let References { mut missing, mut selected } = References::default();
    for (position, children) in &delegation.children {
        let field = handling.delegates.get(*position as usize).map_or("", |delegate| &delegate.field);
        let mut tell = |reason, name: &str, message: String| {
            findings.unresolved.push(Problem::new(Severity::Replaced, reason, format!("{field}{name}"), message));
        };
        let Some(referral) = scope.get::<Referred>(&(chain.clone(), rule, *position)) else {
            missing = true;
            tell(Reason::BackendNotFound, ".name", nobody(children));
            continue;
        };
        selected |= referral.selected;
        for (child, selection) in &referral.others {
            match selection {
                Selection::Selected | Selection::Unasked => {}
                Selection::Missing => {
                    missing = true;
                    let message = format!("{child} does not exist; create it, or correct the name");
                    tell(Reason::BackendNotFound, ".name", message);
                }
                Selection::NotPermitted => {
                    missing = true;
                    let message = format!(
                        "{child} does not admit this parent; its owner decides by parentRefs, which must name \
                         {}",
                        chain.route()
                    );
                    tell(Reason::RefNotPermitted, ".name", message);
                }
                Selection::Withheld => {
                    missing = true;
                    let message = format!(
                        "{child} does not exist or does not admit this route; correct the name, or ask its \
                         owner, who decides by parentRefs"
                    );
                    tell(Reason::BackendNotFound, ".name", message);
                }
                Selection::Cycle => {
                    let message = format!(
                        "{child} would stand below itself: {chain} rule {rule} > {}; remove this reference",
                        child.path()
                    );
                    tell(Reason::RefNotPermitted, ".name", message);
                }
                Selection::Unknown => {
                    missing = true;
                    tell(Reason::InternalFault, "", format!("a child cannot be served: {}", internal::WORDS));
                }
            }
        }
        if referral.unasked {
            let message = "routes of another namespace are served here that name no parent: they did not ask for it. Have \
                           them name this route in parentRefs";
            findings.warnings.push(Problem::new(Severity::Warning, Reason::RefNotPermitted, field, message));
        }
    }
    References { missing, selected }
}

fn nobody(children: &Children) -> String {
    match children {
        Children::Named(child) => format!("{child} is not selected"),
        Children::InNamespace(namespace) => {
            format!("no HTTPRoute of namespace {namespace} admits this parent; create one, or correct the namespace")
        }
        Children::Labelled(label, namespace) => {
            let place = namespace.as_ref().map_or("any namespace".into(), |namespace| format!("namespace {namespace}"));
            format!(
                "no HTTPRoute of {place} with the label {LABEL}={label} admits this parent; label one, or correct the name"
            )
        }
    }
}
