//! What a match takes, whether it lies inside another, what it becomes below one, and how much it asks for.

use std::cmp::Reverse;
use std::fmt;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::model::{list, text};
use super::pattern::Pattern;
use crate::client::Request;

/// A match as it is written, or joined with those of its ancestors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Match {
    /// The path.
    pub(super) path: Path,
    /// The method, if it matters.
    pub(super) method: Option<String>,
    /// Conditions on headers, names in lower case.
    pub(super) headers: Vec<Condition>,
    /// Conditions on query parameters.
    pub(super) queries: Vec<Condition>,
    /// Whether its path is an expression for which case does not count, which lies inside no other path.
    any_case: bool,
    /// Which part of a prefix that ends with a slash is meant.
    part: Part,
}

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Path {
    /// This path.
    Exact(String),
    /// This path and what is below it.
    Prefix(String),
    /// All paths that match.
    Regex(Pattern),
}

/// A condition on a header or query parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    name: String,
    value: Text,
}

#[derive(Clone, Debug, PartialEq)]
enum Text {
    Exact(String),
    Regex(Pattern),
}

/// A prefix `/foo/` means `/foo` too, which has a place of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Whole,
    Below,
    Bare,
}

/// How much a match asks for: the smallest goes first.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Specificity {
    kind: u8,
    length: Reverse<usize>,
    any_method: bool,
    headers: Reverse<usize>,
    queries: Reverse<usize>,
    implied: bool,
}

/// What becomes of a child's match below one of its parent's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Below {
    /// It fits, as this.
    Fits(Match),
    /// It asks for more than the parent gives.
    Outside,
    /// The parent gives nothing, since its path is not a prefix.
    Unreachable,
}

impl Match {
    /// Reads a match; an empty one is that of Gateway API's default.
    pub(super) fn read(value: &Value) -> Result<Self> {
        let path = value.get("path");
        let written = path.and_then(|path| text(path, "/value")).unwrap_or_else(|| "/".to_owned());
        let kind = path.and_then(|path| text(path, "/type"));
        let any_case = written.contains("(?i)");
        let path = match kind.as_deref().unwrap_or("PathPrefix") {
            "Exact" => Path::Exact(written),
            "PathPrefix" => Path::Prefix(written),
            "RegularExpression" => Path::Regex(Pattern::parse(&written)?),
            other => bail!("the oracle knows no path of type {other}"),
        };
        let mut headers = conditions(value, "/headers")?;
        for header in &mut headers {
            header.name.make_ascii_lowercase();
        }
        let queries = conditions(value, "/queryParams")?;
        Ok(Self {
            path,
            method: text(value, "/method"),
            headers: first(headers),
            queries: first(queries),
            any_case,
            part: Part::Whole,
        })
    }

    /// The match that a rule without one has.
    pub(super) fn everything() -> Self {
        let (headers, queries) = (Vec::new(), Vec::new());
        Self { path: Path::Prefix("/".to_owned()), method: None, headers, queries, any_case: false, part: Part::Whole }
    }

    /// Whether it takes a request.
    pub(super) fn takes(&self, request: &Request) -> bool {
        let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
        let header = |name: &str| {
            let mut values = request.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
            values.next().map(|(_, value)| value.as_str())
        };
        let parameter = |name: &str| {
            let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
            pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        self.path.takes(path, self.part)
            && self.method.as_ref().is_none_or(|method| *method == request.method)
            && self.headers.iter().all(|condition| condition.holds(header(&condition.name)))
            && self.queries.iter().all(|condition| condition.holds(parameter(&condition.name)))
    }

    /// The parts that have places of their own among all matches.
    pub(super) fn parts(&self) -> Vec<Self> {
        match &self.path {
            Path::Prefix(prefix) if prefix.ends_with('/') && !bare(prefix).is_empty() => {
                [Part::Below, Part::Bare].map(|part| Self { part, ..self.clone() }).to_vec()
            }
            _ => vec![self.clone()],
        }
    }

    /// How much it asks for.
    pub(super) fn specificity(&self) -> Specificity {
        let (kind, length) = match (&self.path, self.part) {
            (Path::Exact(path), _) => (0, path.len()),
            (Path::Regex(_), _) => (1, 0),
            (Path::Prefix(path), Part::Bare) => (2, bare(path).len()),
            (Path::Prefix(path), _) => (2, path.len()),
        };
        Specificity {
            kind,
            length: Reverse(length),
            any_method: self.method.is_none(),
            headers: Reverse(self.headers.len()),
            queries: Reverse(self.queries.len()),
            implied: self.part == Part::Bare,
        }
    }

    /// What this match of a child becomes below the merged one of its parent.
    pub(super) fn below(&self, parent: &Self, inherits: bool) -> Below {
        if inherits { self.joined(parent) } else { self.contained(parent) }
    }

    fn contained(&self, parent: &Self) -> Below {
        let Path::Prefix(prefix) = &parent.path else { return Below::Unreachable };
        let all = |asked: &[Condition], by: &[Condition]| asked.iter().all(|condition| by.contains(condition));
        let inside = !self.any_case
            && self.path.is_below(prefix)
            && all(&parent.headers, &self.headers)
            && all(&parent.queries, &self.queries)
            && (parent.method.is_none() || parent.method == self.method);
        if inside { Below::Fits(self.clone()) } else { Below::Outside }
    }

    fn joined(&self, parent: &Self) -> Below {
        let Some(path) = self.path.joined(&parent.path) else { return Below::Outside };
        let united = |parent: &[Condition], own: &[Condition]| first(parent.iter().chain(own).cloned().collect());
        Below::Fits(Self {
            path,
            method: parent.method.clone().or_else(|| self.method.clone()),
            headers: united(&parent.headers, &self.headers),
            queries: united(&parent.queries, &self.queries),
            any_case: self.any_case,
            part: Part::Whole,
        })
    }
}

impl Path {
    fn takes(&self, path: &str, part: Part) -> bool {
        match self {
            Self::Exact(exact) => path == exact,
            Self::Regex(pattern) => pattern.matches(path),
            Self::Prefix(prefix) => {
                let rest = path.strip_prefix(bare(prefix));
                let is_bare = rest == Some("");
                let is_below = rest.is_some_and(|rest| rest.starts_with('/'));
                (part != Part::Below && is_bare) || (part != Part::Bare && is_below)
            }
        }
    }

    fn is_below(&self, prefix: &str) -> bool {
        match self {
            Self::Exact(path) | Self::Prefix(path) => Self::Prefix(prefix.to_owned()).takes(path, Part::Whole),
            Self::Regex(pattern) => pattern.stays_below(bare(prefix)),
        }
    }

    /// The path below `parent`'s, for a child that inherits. A regular expression that could begin otherwise than with a
    /// slash would lead out of the parent's last segment, so it does not fit.
    fn joined(&self, parent: &Self) -> Option<Self> {
        let slash = matches!(self, Self::Exact(path) | Self::Prefix(path) if path == "/");
        if !self.is_below("/") {
            return None;
        }
        Some(match (parent, self) {
            (Self::Exact(_), _) => return slash.then(|| parent.clone()),
            (Self::Regex(_), _) | (Self::Prefix(_), Self::Prefix(_)) if slash => parent.clone(),
            (Self::Prefix(prefix), Self::Exact(_)) if slash => {
                Self::Exact(if bare(prefix).is_empty() { "/".to_owned() } else { bare(prefix).to_owned() })
            }
            (Self::Prefix(prefix), Self::Exact(path)) => Self::Exact(format!("{}{path}", bare(prefix))),
            (Self::Prefix(prefix), Self::Prefix(path)) => Self::Prefix(format!("{}{path}", bare(prefix))),
            (Self::Prefix(prefix), Self::Regex(pattern)) => {
                Self::Regex(Pattern::literal(bare(prefix)).then(pattern.clone()))
            }
            (Self::Regex(start), Self::Exact(path)) => Self::Regex(start.clone().then(Pattern::literal(path))),
            (Self::Regex(start), Self::Prefix(path)) => {
                Self::Regex(start.clone().then(Pattern::literal(bare(path))).then(Pattern::or_below()))
            }
            (Self::Regex(start), Self::Regex(pattern)) => Self::Regex(start.clone().then(pattern.clone())),
        })
    }
}

impl Path {
    /// Some paths that it takes.
    pub(super) fn examples(&self) -> Vec<String> {
        match self {
            Self::Exact(path) | Self::Prefix(path) => vec![path.clone()],
            Self::Regex(pattern) => pattern.examples().into_iter().collect(),
        }
    }
}

impl Condition {
    fn holds(&self, value: Option<&str>) -> bool {
        value.is_some_and(|value| match &self.value {
            Text::Exact(text) => text == value,
            Text::Regex(pattern) => pattern.matches(value),
        })
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match &self.path {
            Path::Exact(path) => format!("= {path}"),
            Path::Prefix(path) => path.clone(),
            Path::Regex(pattern) => format!("~ {:?}", pattern.examples()),
        };
        write!(f, "{path} {:?}", self.part)?;
        if let Some(method) = &self.method {
            write!(f, " {method}")?;
        }
        for condition in self.headers.iter().chain(&self.queries) {
            write!(f, " {}", condition.name)?;
        }
        Ok(())
    }
}

fn bare(prefix: &str) -> &str {
    prefix.trim_end_matches('/')
}

fn conditions(value: &Value, pointer: &str) -> Result<Vec<Condition>> {
    let read = |condition: &Value| {
        let name = text(condition, "/name").context("a condition without name")?;
        let value = text(condition, "/value").context("a condition without value")?;
        let value = match text(condition, "/type").as_deref().unwrap_or("Exact") {
            "Exact" => Text::Exact(value),
            "RegularExpression" => Text::Regex(Pattern::parse(&value)?),
            other => bail!("the oracle knows no condition of type {other}"),
        };
        Ok(Condition { name, value })
    };
    list(value, pointer).map(read).collect()
}

/// Gateway API: of several conditions with one name the first counts.
fn first(conditions: Vec<Condition>) -> Vec<Condition> {
    let mut kept: Vec<Condition> = Vec::new();
    for condition in conditions {
        if kept.iter().all(|known| known.name != condition.name) {
            kept.push(condition);
        }
    }
    kept
}
