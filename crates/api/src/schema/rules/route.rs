//! Rules of routes of all kinds.

use std::collections::HashSet;

use super::Broken;
use crate::shared::{CookieLifetimeType, ParentReference, SessionPersistence, SessionPersistenceType};

/// The most matches that a route may have, all rules together.
const MAX_MATCHES: usize = 128;

/// The names of the rules of a route.
#[derive(Default)]
pub(crate) struct RuleNames<'a>(HashSet<&'a str>);

impl<'a> RuleNames<'a> {
    /// The name of the rule at `path` must be no other's.
    pub(crate) fn check(&mut self, name: Option<&'a str>, path: &str, broken: &mut Broken) {
        if let Some(name) = name.filter(|name| !self.0.insert(name)) {
            broken.add(format!("{path}.name"), name, "must not be the name of another rule of the route");
        }
    }
}

/// Checks how many matches the rules have.
pub(crate) fn matches(rules: impl Iterator<Item = usize>, broken: &mut Broken) {
    let matches: usize = rules.sum();
    if matches > MAX_MATCHES {
        let message = format!("all rules together have {matches} matches and may have {MAX_MATCHES}: split the route");
        broken.add_without_value("spec.rules", message);
    }
}

/// References to the same parent must differ.
pub(crate) fn parents(parents: &[ParentReference], broken: &mut Broken) {
    for (index, parent) in parents.iter().enumerate() {
        for earlier in &parents[..index] {
            if !same_object(earlier, parent) {
                continue;
            }
            let path = format!("spec.parentRefs[{index}]");
            let section = |parent: &ParentReference| parent.section_name.clone().filter(|name| !name.is_empty());
            let port = |parent: &ParentReference| parent.port.filter(|port| *port != 0);
            if (section(earlier), port(earlier)) == (section(parent), port(parent)) {
                let message = "must differ from every other reference to the same parent in sectionName or port";
                broken.add(path, &parent.name, message);
                break;
            }
            if section(earlier).is_some() != section(parent).is_some()
                || port(earlier).is_some() != port(parent).is_some()
            {
                let message = "every reference to the same parent must set sectionName, or every one port";
                broken.add(path, &parent.name, message);
                break;
            }
        }
    }
}

fn same_object(one: &ParentReference, other: &ParentReference) -> bool {
    fn key(parent: &ParentReference) -> (&str, &str, &str, &str) {
        (&parent.group, &parent.kind, &parent.name, parent.namespace.as_deref().unwrap_or_default())
    }
    key(one) == key(other)
}

/// Checks how sessions keep their backend.
pub(crate) fn session(session: &SessionPersistence, path: &str, broken: &mut Broken) {
    let Some(cookie) = &session.cookie_config else { return };
    if cookie.lifetime_type == CookieLifetimeType::Permanent && session.absolute_timeout.is_none() {
        broken.add_without_value(
            format!("{path}.absoluteTimeout"),
            "must be set when cookieConfig.lifetimeType is Permanent",
        );
    }
    if session.r#type != SessionPersistenceType::Cookie {
        let message = format!("must not be set for type {}", session.r#type);
        broken.add_without_value(format!("{path}.cookieConfig"), message);
    }
}
