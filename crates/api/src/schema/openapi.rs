//! What the CRDs of Gateway API and of policies say about each field by itself: bounds, lengths, patterns, values, duplicates.
//!
//! A test holds these tables against the CRDs of the release, field by field and in both directions.

use std::{collections::HashSet, sync::OnceLock};

use regex::Regex;
use serde_json::Value;

use crate::Violation;

mod path;
pub(crate) mod policy;
pub(crate) mod route;
pub(crate) mod values;

pub(crate) use path::Path;

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
    /// A mapping whose content is nobody's concern here.
    Opaque,
}

impl Node {
    /// Whether it says anything of the value that this key of a mapping has.
    pub(crate) fn says(&self, key: &str) -> bool {
        let Self::Object(fields) = self else { return false };
        fields.iter().any(|field| field.name == key && !matches!(field.node, Self::Opaque))
    }
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
    pub(crate) const fn new(regex: &'static str, means: &'static str) -> Self {
        Self { regex, means, compiled: OnceLock::new() }
    }

    /// Whether the pattern is found in the text.
    pub fn is_match(&self, text: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| Regex::new(self.regex).ok());
        compiled.as_ref().is_some_and(|regex| regex.is_match(text))
    }
}

/// The table of the status that a policy has, by Gateway API.
pub fn policy_status() -> &'static Node {
    &policy::POLICY_STATUS
}

/// Notes where the value, found at the path, is not what the table says.
pub(crate) fn check(node: &Node, value: &Value, path: Path<'_>, found: &mut Vec<Violation>) {
    match (node, value) {
        (Node::Text(text), Value::String(value)) => found.extend(text.check(value, path)),
        (Node::Number { min, max, values }, Value::Number(number)) => {
            let allowed = number.as_i64().is_some_and(|number| {
                (*min..=*max).contains(&number) && (values.is_empty() || values.contains(&number))
            });
            if !allowed {
                found.push(Violation::new(path.to_string(), number, number_rule(*min, *max, values)));
            }
        }
        (Node::List { min, max, unique, items }, Value::Array(values)) => {
            found.extend(check_length(values.len(), *min, *max, path));
            for (index, value) in values.iter().enumerate() {
                check(items, value, Path::Item(&path, index), found);
            }
            unique.check(values, path, found);
        }
        (Node::Map { max, values: node }, Value::Object(values)) => {
            if values.len() > *max {
                let rule = count_rule(0, *max, "entry");
                found.push(Violation::new(path.to_string(), format_args!("{} entries", values.len()), rule));
            }
            for (key, value) in values {
                check(node, value, Path::Key(&path, key), found);
            }
        }
        (Node::Object(fields), Value::Object(values)) => {
            // Most fields are not set, which the lengths of those that are tell soonest.
            let lengths = values.keys().fold(0_u64, |lengths, key| lengths | 1 << (key.len() % 64));
            let may_be_set = |name: &str| lengths >> (name.len() % 64) & 1 == 1;
            for Field { name, required, node } in *fields {
                let path = Path::Field(&path, name);
                match may_be_set(name).then(|| values.get(*name)).flatten() {
                    Some(value) => check(node, value, path, found),
                    None if *required => found.push(Violation::without_value(path.to_string(), "is missing: set it")),
                    None => {}
                }
            }
        }
        // Types were settled when the object was decoded.
        _ => {}
    }
}

/// A mapping whose values are texts, which is not JSON.
pub(crate) trait Texts {
    /// The text that a key has.
    fn text(&self, key: &str) -> Option<&str>;
}

/// As [`check`], of a list of such mappings whose items may be alike.
pub(crate) fn check_texts(node: &Node, list: &[impl Texts], path: Path<'_>, found: &mut Vec<Violation>) {
    let Node::List { min, max, items: Node::Object(fields), .. } = node else { return };
    found.extend(check_length(list.len(), *min, *max, path));
    for (index, item) in list.iter().enumerate() {
        let path = Path::Item(&path, index);
        for Field { name, required, node } in *fields {
            let path = Path::Field(&path, name);
            match (item.text(name), node) {
                (Some(value), Node::Text(text)) => found.extend(text.check(value, path)),
                (None, _) if *required => found.push(Violation::without_value(path.to_string(), "is missing: set it")),
                _ => {}
            }
        }
    }
}

fn check_length(length: usize, min: usize, max: usize, path: Path<'_>) -> Option<Violation> {
    let is_allowed = (min..=max).contains(&length);
    (!is_allowed)
        .then(|| Violation::new(path.to_string(), format_args!("{length} items"), count_rule(min, max, "item")))
}

/// A value that is not of the table's type.
pub(crate) struct WrongType<'v> {
    /// Where it stands.
    pub(crate) path: String,
    /// What it must be.
    pub(crate) expected: &'static str,
    /// What it is.
    pub(crate) value: &'v Value,
}

/// Goes through a manifest as it was written, and notes the fields that the table does not know.
///
/// # Errors
/// At the first value of the wrong type. (Serde would take a list in the place of a mapping, item by item.)
pub(crate) fn survey<'v>(
    node: &Node,
    value: &'v Value,
    path: Path<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), WrongType<'v>> {
    let expected = match (node, value) {
        (Node::Text(_), Value::String(_)) | (Node::Flag, Value::Bool(_)) | (Node::Opaque, Value::Object(_)) => {
            return Ok(());
        }
        (Node::Number { .. }, Value::Number(number)) if number.is_i64() => return Ok(()),
        (Node::List { items, .. }, Value::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                survey(items, value, Path::Item(&path, index), unknown)?;
            }
            return Ok(());
        }
        (Node::Map { values: node, .. }, Value::Object(values)) => {
            for (key, value) in values {
                survey(node, value, Path::Key(&path, key), unknown)?;
            }
            return Ok(());
        }
        (Node::Object(fields), Value::Object(values)) => {
            for (key, value) in values {
                let path = Path::Field(&path, key);
                match fields.iter().find(|field| field.name == key) {
                    Some(field) => survey(field.node, value, path, unknown)?,
                    None => unknown.push(path.to_string()),
                }
            }
            return Ok(());
        }
        (Node::Text(_), _) => "a string (put it in quotes)",
        (Node::Number { .. }, _) => "a whole number",
        (Node::Flag, _) => "true or false",
        (Node::List { .. }, _) => "a list",
        (Node::Map { .. } | Node::Object(_) | Node::Opaque, _) => "a mapping",
    };
    Err(WrongType { path: path.to_string(), expected, value })
}

/// Takes out of a manifest the fields that the table does not know.
pub(crate) fn prune(node: &Node, value: &mut Value) {
    match (node, value) {
        (Node::List { items, .. }, Value::Array(values)) => {
            for value in values {
                prune(items, value);
            }
        }
        (Node::Map { values: node, .. }, Value::Object(values)) => {
            for value in values.values_mut() {
                prune(node, value);
            }
        }
        (Node::Object(fields), Value::Object(values)) => values.retain(|key, value| {
            let known = fields.iter().find(|field| field.name == key);
            if let Some(field) = known {
                prune(field.node, value);
            }
            known.is_some()
        }),
        _ => {}
    }
}

impl Text {
    /// The first rule that the value breaks: what is too long is not told that it looks wrong, too.
    fn check(&self, value: &str, path: Path<'_>) -> Option<Violation> {
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
        Some(Violation::new(path.to_string(), value, message))
    }
}

impl Unique {
    fn check(&self, values: &[Value], path: Path<'_>, found: &mut Vec<Violation>) {
        let field = match self {
            _ if values.len() < 2 => return,
            Self::No => return,
            Self::Items => None,
            Self::By(field) => Some(field),
        };
        let mut seen = HashSet::with_capacity(values.len());
        for (index, value) in values.iter().enumerate() {
            let Some(key) = field.map_or(Some(value), |field| value.get(field)) else { continue };
            if seen.insert(key) {
                continue;
            }
            let item = Path::Item(&path, index);
            let path = field.map_or_else(|| item.to_string(), |field| Path::Field(&item, field).to_string());
            let text = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
            found.push(Violation::new(path, text, "must not occur twice in this list"));
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

#[cfg(test)]
mod tests;
