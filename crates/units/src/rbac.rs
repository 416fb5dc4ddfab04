//! `rbac`: which requests are let through, by expressions in CEL.

mod parsed;

use std::sync::LazyLock;

use envoy::{
    bytes::any,
    cel::{CelMatcher, HttpAttributesCelMatchInput},
    listener, slots,
};
use envoy_types::pb::{
    envoy::{
        config::{
            rbac::v3::{Action as RbacAction, rbac::Action as Kind},
            route::v3::Route,
        },
        extensions::filters::http::rbac::v3::{Rbac as RbacFilter, RbacPerRoute},
    },
    google::protobuf::Any,
    xds::{
        core::v3::TypedExtensionConfig as XdsExtension,
        r#type::{
            matcher::v3::{
                Matcher,
                matcher::{
                    MatcherList, MatcherType, OnMatch,
                    matcher_list::{
                        FieldMatcher, Predicate,
                        predicate::{MatchType, PredicateList, SinglePredicate, single_predicate},
                    },
                    on_match,
                },
            },
            v3::CelExpression,
        },
    },
};
use ir::rule::Slot;
use prost::Message;
use serde::Deserialize;
use validate::{
    Invalid,
    cel::{self, Use},
};

use super::{Refused, Unit, spec};

/// As the CRD has it.
const MOST_EXPRESSIONS: usize = 256;

/// Parts of all expressions together. A proxy looks at each for each request.
const MOST_PARTS: usize = 1024;

/// How often all expressions together search for a text. For a header of 50 kB Envoy takes 0.3 ms each time.
const MOST_SEARCHES: usize = 16;

/// Bytes of all expressions together.
const MOST_BYTES: usize = 16_384;

/// Which requests are let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rbac {
    slot: Slot,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    policy: Option<Policy>,
    action: Option<String>,
}

/// What requests are told by.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Policy {
    #[serde(default)]
    match_expressions: Vec<String>,
}

impl Unit for Rbac {
    const FIELD: &'static str = "rbac";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::RBAC];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"policy": {"matchExpressions": ["request.method == 'GET'"]}}"#,
        other: r#"{"action": "Deny", "policy": {"matchExpressions": ["request.headers['x-user'] == 'mallory'"]}}"#,
        merged: None,
        off: None,
        refused: Some(r#"{"policy": {"matchExpressions": ["request.path.substring(1) == 'a'"]}}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let usage = match written.action.as_deref() {
            None | Some("Allow") => Use::Allow,
            Some("Deny") => Use::Deny,
            Some(other) => {
                return Err(Refused::at("action")(Invalid::new(other, "it is no action", "use Allow or Deny")));
            }
        };
        let field = "policy.matchExpressions";
        let expressions = written.policy.map(|policy| policy.match_expressions).unwrap_or_default();
        if expressions.is_empty() {
            return Err(Refused::new(field, "there is none; write one, or remove rbac"));
        }
        spec::at_most(&expressions, field, MOST_EXPRESSIONS)?;
        let bytes: usize = expressions.iter().map(String::len).sum();
        if bytes > MOST_BYTES {
            let message = format!("they have {bytes} bytes together, and {MOST_BYTES} are the most; shorten them");
            return Err(Refused::new(field, message));
        }
        let (mut predicates, mut patterns) = (Vec::new(), Vec::new());
        let (mut parts, mut searches, mut reads_connection) = (0, 0, false);
        for (index, text) in expressions.into_iter().enumerate() {
            let at = || format!("{field}[{index}]");
            let expression = cel::parse(&text).map_err(|invalid| Refused::at(&at())(invalid))?;
            parts += expression.count();
            if parts > MOST_PARTS {
                let message = format!("they have more than {MOST_PARTS} parts together; make them simpler");
                return Err(Refused::new(field, message));
            }
            let costs = cel::check(&text, &expression, usage).map_err(|invalid| Refused::at(&at())(invalid))?;
            searches += costs.searches;
            if searches > MOST_SEARCHES {
                let message = format!(
                    "they call contains() more than {MOST_SEARCHES} times together; use startsWith, endsWith and in"
                );
                return Err(Refused::new(field, message));
            }
            patterns.extend(costs.patterns.into_iter().map(Into::into));
            reads_connection |= text.contains("connection");
            let reads = usage == Use::Allow && text.contains("connection");
            let expression = holds(parsed::expression(&expression), text);
            predicates.push(if reads { unless_unjudged(expression) } else { expression });
        }
        if usage == Use::Deny && reads_connection {
            predicates.insert(0, unjudged());
        }
        let (action, otherwise) =
            if usage == Use::Allow { (Kind::Allow, Kind::Deny) } else { (Kind::Deny, Kind::Allow) };
        let matcher = FieldMatcher { predicate: Some(any_of(predicates)), on_match: Some(on_match(action)) };
        let matcher = Matcher {
            matcher_type: Some(MatcherType::MatcherList(MatcherList { matchers: vec![matcher] })),
            on_no_match: Some(Box::new(on_match(otherwise))),
        };
        let filter = RbacFilter { matcher: Some(matcher), ..RbacFilter::default() };
        let slot = slots::slot(slots::RBAC, &RbacPerRoute { rbac: Some(filter) });
        Ok(Self { slot: Slot { patterns: patterns.into(), ..slot } })
    }

    fn slots(&self) -> Vec<Slot> {
        vec![self.slot.clone()]
    }

    fn explain(route: &Route) -> Option<String> {
        words(&spec::said::<RbacPerRoute>(route, slots::RBAC)?.rbac?.matcher?)
    }
}

fn extension(name: &str, config: Any) -> XdsExtension {
    XdsExtension { name: name.into(), typed_config: Some(config) }
}

/// Whether an expression holds of a request.
fn holds(expression: CelExpression, text: String) -> Predicate {
    let matcher = CelMatcher { expr_match: Some(expression), description: text };
    let predicate = SinglePredicate {
        input: Some(extension("request", any(&HttpAttributesCelMatchInput {}))),
        matcher: Some(single_predicate::Matcher::CustomMatch(extension("expression", any(&matcher)))),
    };
    Predicate { match_type: Some(MatchType::SinglePredicate(predicate)) }
}

/// Whether a client showed a certificate that nobody judged. Nothing that an expression says of certificates may let it through.
fn unjudged() -> Predicate {
    static PARSED: LazyLock<CelExpression> = LazyLock::new(|| {
        let text = format!(
            "connection.mtls && metadata.filter_metadata['{}'].{} == true",
            listener::UNJUDGED,
            listener::UNJUDGED_KEY
        );
        parsed::expression(&cel::parse(&text).expect("it is an expression"))
    });
    holds(PARSED.clone(), "a certificate that nobody judged".into())
}

/// An expression that holds for nobody with such a certificate.
fn unless_unjudged(expression: Predicate) -> Predicate {
    let not = Predicate { match_type: Some(MatchType::NotMatcher(Box::new(unjudged()))) };
    Predicate { match_type: Some(MatchType::AndMatcher(PredicateList { predicate: vec![not, expression] })) }
}

fn any_of(mut predicates: Vec<Predicate>) -> Predicate {
    if predicates.len() == 1 {
        return predicates.swap_remove(0);
    }
    Predicate { match_type: Some(MatchType::OrMatcher(PredicateList { predicate: predicates })) }
}

fn on_match(action: Kind) -> OnMatch {
    let name = if action == Kind::Allow { "allow" } else { "deny" };
    let action = RbacAction { name: name.into(), action: action as i32 };
    OnMatch { on_match: Some(on_match::OnMatch::Action(extension(name, any(&action)))), ..OnMatch::default() }
}

fn words(matcher: &Matcher) -> Option<String> {
    let Some(MatcherType::MatcherList(list)) = &matcher.matcher_type else { return None };
    let entry = list.matchers.first()?;
    let on_match::OnMatch::Action(action) = entry.on_match.as_ref()?.on_match.as_ref()? else { return None };
    let becomes = if action.name == "allow" { "let through" } else { "403" };
    let otherwise = if action.name == "allow" { "403" } else { "let through" };
    let single = |predicate: &Predicate| {
        let of = match &predicate.match_type {
            Some(MatchType::AndMatcher(list)) => &list.predicate.last()?.match_type,
            own => own,
        };
        let Some(MatchType::SinglePredicate(predicate)) = of else { return None };
        let single_predicate::Matcher::CustomMatch(matcher) = predicate.matcher.as_ref()? else { return None };
        CelMatcher::decode(&*matcher.typed_config.as_ref()?.value).ok().map(|matcher| matcher.description)
    };
    let predicate = entry.predicate.as_ref()?;
    let expressions: Vec<_> = match &predicate.match_type {
        Some(MatchType::OrMatcher(list)) => list.predicate.iter().map(single).collect::<Option<_>>()?,
        _ => vec![single(predicate)?],
    };
    Some(format!("{}: {becomes}; otherwise: {otherwise}", expressions.join(", or ")))
}
