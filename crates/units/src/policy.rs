//! What a TrafficPolicy says, field by field.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use api::{gateway_extension::ExtensionReference, open_fields, traffic_policy::TrafficPolicySpec};
use ir::{Problem, Reason, Severity};
use serde_json::Value;

use super::{AnyUnit, Others, ParsedUnit, Refused, SharedUnit, known};

/// What a policy says, in the order of [`AnyUnit`].
///
/// # Errors
/// Where it says anything that is no unit: nobody knows for what that would count.
pub fn read(policy: &TrafficPolicySpec, others: &Others<'_>) -> Result<Vec<ParsedUnit>, Problem> {
    let written = by_unit(policy.fields.texts())?.into_iter();
    let written = written.map(|(field, text)| (AnyUnit::place(&field), field, text));
    let (mut written, unsupported): (Vec<_>, Vec<_>) = written.partition(|(place, ..)| place.is_some());
    if let Some(((_, first, _), others)) = unsupported.split_first() {
        let others = others.iter().fold(String::new(), |others, (_, name, _)| others + ", nor is " + name);
        let message = format!(
            "field {first} is not supported{others}; what the policy applies to is not served until it is removed"
        );
        return Err(Problem::new(Severity::Refused, Reason::Invalid, format!("spec.{first}"), message));
    }
    written.sort_unstable_by_key(|(place, ..)| *place);
    let said = written.into_iter().filter_map(|(place, _, text)| Some(read_one(place?, &text, policy, others)));
    Ok(said.collect())
}

/// The names of fields whose own fields are units.
static GROUPS: LazyLock<Box<[&str]>> = LazyLock::new(|| {
    let mut groups: Vec<_> = AnyUnit::FIELDS.iter().filter_map(|field| Some(field.split_once('.')?.0)).collect();
    groups.dedup();
    groups.into()
});

/// The field of a unit, and what is written there, in JSON.
type Written<'a> = (Cow<'a, str>, Arc<str>);

/// The fields of a policy as units have them.
fn by_unit<'a>(fields: impl Iterator<Item = (&'a str, &'a Arc<str>)>) -> Result<Vec<Written<'a>>, Problem> {
    let mut written: Vec<Written<'_>> = Vec::with_capacity(fields.size_hint().0);
    for (name, text) in fields {
        if !GROUPS.contains(&name) {
            written.push((name.into(), text.clone()));
            continue;
        }
        let Value::Object(group) = open_fields::parse(text) else {
            return Err(Refused::new("", "must be a mapping; correct or remove it").problem(
                Severity::Refused,
                Reason::Invalid,
                name,
            ));
        };
        let fields = group.iter().filter(|(_, value)| !value.is_null());
        written.extend(fields.map(|(field, value)| (format!("{name}.{field}").into(), value.to_string().into())));
    }
    Ok(written)
}

/// The extensions that a policy names, whatever its units make of them, each with its field.
pub fn extensions(policy: &TrafficPolicySpec) -> Vec<(String, ExtensionReference)> {
    // Nothing else is read.
    let fields = policy.fields.texts().filter(|(_, text)| text.contains("extensionRef"));
    let named = by_unit(fields).unwrap_or_default().into_iter().filter_map(|(field, text)| {
        let reference = open_fields::parse(&text).get_mut("extensionRef")?.take();
        Some((format!("spec.{field}.extensionRef"), serde_json::from_value(reference).ok()?))
    });
    named.collect()
}

/// Refuses a policy with a target for which the unit at this place cannot be set.
fn targets_allow(place: usize, policy: &TrafficPolicySpec) -> Result<(), Refused> {
    let targets = AnyUnit::TARGETS[place];
    let refs = policy.target_refs.iter().map(|target| &target.kind);
    let mut kinds = refs.chain(policy.target_selectors.iter().map(|target| &target.kind));
    let Some(kind) = kinds.find(|kind| !targets.contains(&&***kind)) else { return Ok(()) };
    let allowed: Vec<_> = targets.iter().map(|kind| format!("{kind}s")).collect();
    let message = format!(
        "it can be set for {} only, and the policy targets a {kind}; make two policies of it",
        allowed.join(" and ")
    );
    Err(Refused::new("", message))
}

/// What the field of the unit at this place says, which is written so.
fn read_one(place: usize, text: &Arc<str>, policy: &TrafficPolicySpec, others: &Others<'_>) -> ParsedUnit {
    let field = AnyUnit::FIELDS[place];
    let read = || {
        targets_allow(place, policy)?;
        let unit = known::unit(field, text, || AnyUnit::READ[place](&open_fields::parse(text)))?;
        unit.beside(policy)?;
        Ok(unit.with_others(others)?.map_or(unit, SharedUnit::from))
    };
    let refused = |refused: Refused| Box::new(refused.problem(Severity::Refused, Reason::Invalid, field));
    ParsedUnit { field, unit: read().map_err(refused) }
}
