//! What the CRDs of Gateway API say about each field by itself: bounds, lengths, patterns, values, duplicates.
//!
//! A test holds these tables against the CRDs of the release, field by field and in both directions.

use std::{collections::HashSet, sync::OnceLock};

use regex_lite::Regex;
use serde_json::Value;

use super::Violation;
use crate::Kind;

mod gateway;
mod http_route;
mod values;

pub(crate) use values::{HOSTNAME_PATTERN, LABEL_KEY_PATTERN, LABEL_PATTERN, PATH_PATTERN, SUBDOMAIN_PATTERN};

/// What a value must be like.
#[derive(Debug)]
pub enum Node {
    /// A string.
    Text(Text),
    /// A whole number.
    Number {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
        /// The only values allowed; empty for any.
        values: &'static [i64],
    },
    /// A boolean.
    Flag,
    /// A list.
    List {
        /// The fewest items.
        min: usize,
        /// The most items.
        max: usize,
        /// Which items must differ.
        unique: Unique,
        /// What each item must be like.
        items: &'static Node,
    },
    /// A mapping with keys of the user's choice.
    Map {
        /// The most entries.
        max: usize,
        /// What each value must be like.
        values: &'static Node,
    },
    /// A mapping with these keys.
    Object(&'static [Field]),
}

/// What a string must be like.
#[derive(Debug)]
pub struct Text {
    /// The fewest characters.
    pub min: usize,
    /// The most characters.
    pub max: usize,
    /// What it must look like.
    pub pattern: Option<&'static Pattern>,
    /// The only values allowed; empty for any.
    pub values: &'static [&'static str],
}

/// Which items of a list must differ.
#[derive(Debug)]
pub enum Unique {
    /// None.
    No,
    /// All of them.
    Items,
    /// All of them in this field.
    By(&'static str),
}

/// A key of a mapping.
#[derive(Debug)]
pub struct Field {
    /// The key.
    pub name: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// What its value must be like.
    pub node: &'static Node,
}

/// A regular expression of the CRDs, found anywhere in a string unless it is anchored.
#[derive(Debug)]
pub struct Pattern {
    /// The expression, as the CRDs write it.
    pub regex: &'static str,
    /// What it stands for, to follow "must be".
    pub means: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    const fn new(regex: &'static str, means: &'static str) -> Self {
        Self { regex, means, compiled: OnceLock::new() }
    }

    /// Whether the pattern is found in the text.
    pub fn is_match(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| Regex::new(self.regex).ok());
        compiled.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// The table of a kind's spec; none for kinds that are not Gateway API's.
pub fn spec(kind: Kind) -> Option<&'static Node> {
    match kind {
        Kind::GatewayClass => Some(&gateway::GATEWAY_CLASS_SPEC),
        Kind::Gateway => Some(&gateway::GATEWAY_SPEC),
        Kind::HttpRoute => Some(&http_route::HTTP_ROUTE_SPEC),
        Kind::ReferenceGrant => Some(&gateway::REFERENCE_GRANT_SPEC),
        Kind::Service | Kind::EndpointSlice | Kind::Secret | Kind::ConfigMap | Kind::Namespace => None,
    }
}

/// Notes where the value, found at the path, is not what the table says.
pub(super) fn check(node: &Node, value: &Value, path: &str, found: &mut Vec<Violation>) {
    match (node, value) {
        (Node::Text(text), Value::String(value)) => found.extend(text.check(value, path)),
        (Node::Number { min, max, values }, Value::Number(number)) => {
            let allowed = number.as_i64().is_some_and(|number| {
                (*min..=*max).contains(&number) && (values.is_empty() || values.contains(&number))
            });
            if !allowed {
                found.push(Violation::new(path, number, number_rule(*min, *max, values)));
            }
        }
        (Node::List { min, max, unique, items }, Value::Array(values)) => {
            if !(*min..=*max).contains(&values.len()) {
                let rule = count_rule(*min, *max, "item");
                found.push(Violation::new(path, format_args!("{} items", values.len()), rule));
            }
            for (index, value) in values.iter().enumerate() {
                check(items, value, &format!("{path}[{index}]"), found);
            }
            unique.check(values, path, found);
        }
        (Node::Map { max, values: node }, Value::Object(values)) => {
            if values.len() > *max {
                let rule = count_rule(0, *max, "entry");
                found.push(Violation::new(path, format_args!("{} entries", values.len()), rule));
            }
            for (key, value) in values {
                check(node, value, &format!("{path}[{key}]"), found);
            }
        }
        (Node::Object(fields), Value::Object(values)) => {
            for Field { name, required, node } in *fields {
                match values.get(*name) {
                    Some(value) => check(node, value, &format!("{path}.{name}"), found),
                    None if *required => {
                        found.push(Violation::new(format!("{path}.{name}"), "", "is missing: set it"));
                    }
                    None => {}
                }
            }
        }
        // Types were settled when the object was decoded.
        _ => {}
    }
}

/// The first value in a manifest that is not of the table's type: its path, and what it must be.
///
/// Serde would take a list in the place of a mapping, item by item.
pub(crate) fn wrong_type<'v>(node: &Node, value: &'v Value, path: &str) -> Option<(String, &'static str, &'v Value)> {
    let expected = match (node, value) {
        (Node::Text(_), Value::String(_)) | (Node::Flag, Value::Bool(_)) => return None,
        (Node::Number { .. }, Value::Number(number)) if number.is_i64() => return None,
        (Node::List { items, .. }, Value::Array(values)) => {
            let mut values = values.iter().enumerate();
            return values.find_map(|(index, value)| wrong_type(items, value, &format!("{path}[{index}]")));
        }
        (Node::Map { values: node, .. }, Value::Object(values)) => {
            return values.iter().find_map(|(key, value)| wrong_type(node, value, &format!("{path}[{key}]")));
        }
        (Node::Object(fields), Value::Object(values)) => {
            return fields
                .iter()
                .find_map(|Field { name, node, .. }| wrong_type(node, values.get(*name)?, &format!("{path}.{name}")));
        }
        (Node::Text(_), _) => "a string (put it in quotes)",
        (Node::Number { .. }, _) => "a whole number",
        (Node::Flag, _) => "true or false",
        (Node::List { .. }, _) => "a list",
        (Node::Map { .. } | Node::Object(_), _) => "a mapping",
    };
    Some((path.to_owned(), expected, value))
}

impl Text {
    /// The first rule that the value breaks: what is too long is not told that it looks wrong, too.
    fn check(&self, value: &str, path: &str) -> Option<Violation> {
        let length = value.chars().count();
        let message = if value.is_empty() && self.min > 0 {
            "must not be empty".to_owned()
        } else if !(self.min..=self.max).contains(&length) {
            format!("has {length} characters: {}", count_rule(self.min, self.max, "character"))
        } else if !self.values.is_empty() && !self.values.contains(&value) {
            format!("must be one of {}", self.values.join(", "))
        } else if let Some(pattern) = self.pattern.filter(|pattern| !pattern.is_match(value)) {
            format!("must be {}", pattern.means)
        } else {
            return None;
        };
        Some(Violation::new(path, value, message))
    }
}

impl Unique {
    fn check(&self, values: &[Value], path: &str, found: &mut Vec<Violation>) {
        let mut seen = HashSet::new();
        for (index, value) in values.iter().enumerate() {
            let (key, path) = match self {
                Self::No => return,
                Self::Items => (Some(value), format!("{path}[{index}]")),
                Self::By(field) => (value.get(field), format!("{path}[{index}].{field}")),
            };
            let Some(key) = key else { continue };
            if !seen.insert(key) {
                let text = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                found.push(Violation::new(path, text, "must not occur twice in this list"));
            }
        }
    }
}

fn number_rule(min: i64, max: i64, values: &[i64]) -> String {
    if !values.is_empty() {
        let values: Vec<_> = values.iter().map(ToString::to_string).collect();
        return format!("must be one of {}", values.join(", "));
    }
    match (min, max) {
        (min, i64::MAX) => format!("must be at least {min}"),
        (min, max) => format!("must be a number from {min} to {max}"),
    }
}

fn count_rule(min: usize, max: usize, what: &str) -> String {
    let many = |count: usize| match (count, what) {
        (1, _) => format!("1 {what}"),
        (_, "entry") => format!("{count} entries"),
        _ => format!("{count} {what}s"),
    };
    match (min, max) {
        (0, max) => format!("at most {} may be given", many(max)),
        (min, usize::MAX) => format!("at least {} must be given", many(min)),
        (min, max) => format!("{min} to {} must be given", many(max)),
    }
}
