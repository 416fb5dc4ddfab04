//! Whether all that a child's match takes is its parent's.

use std::fmt;

use ir::matching::{Condition, Match, Path};

use super::regex::Pattern;

/// Why a child's match takes requests that its parent's does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// The parent's path is not a prefix, so that nothing lies below it.
    NothingBelow,
    /// The path leads out of the parent's.
    Path,
    /// Whether it does is too much to find out.
    Effort,
    /// A condition on a header of the parent's is missing, or another.
    Header,
    /// A condition on a query parameter of the parent's is missing, or another.
    Query,
    /// The method is another than the parent's, or missing.
    Method,
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingBelow => "the parent's path is not a prefix",
            Self::Path => "the path leads out of the parent's",
            Self::Effort => {
                "the expression repeats itself too often to tell whether it leads out of the parent's; simplify it"
            }
            Self::Header => "a header that the parent asks for is missing, or is asked for otherwise",
            Self::Query => "a query parameter that the parent asks for is missing, or is asked for otherwise",
            Self::Method => "the method is not the parent's",
        })
    }
}

/// A child's match, ready to be held against many of its parents'.
pub(super) struct Inner<'a> {
    child: &'a Match,
    /// Of a regular expression: reading it is most of the work.
    pattern: Option<Pattern>,
}

impl<'a> Inner<'a> {
    pub(super) fn of(child: &'a Match) -> Self {
        let pattern = match &child.path {
            Path::Regex(pattern) => Some(Pattern::read(pattern)),
            Path::Exact(_) | Path::Prefix(_) => None,
        };
        Self { child, pattern }
    }

    /// Whether everything that it takes is taken by `parent`, which must be a path prefix; compared by segment. Of
    /// headers, query parameters and the method it must ask for all that the parent asks for, in the same words.
    ///
    /// # Errors
    /// The first that is not so.
    pub(super) fn lies_below(&self, parent: &Match) -> Result<(), Outside> {
        let Path::Prefix(prefix) = &parent.path else { return Err(Outside::NothingBelow) };
        let prefix = prefix.trim_end_matches('/');
        let child = self.child;
        let below = match (&child.path, &self.pattern) {
            (_, Some(pattern)) => pattern.stays_below(prefix),
            (Path::Exact(path) | Path::Prefix(path) | Path::Regex(path), None) => is_below(prefix, path),
        };
        let all = |asked: &[Condition], by: &[Condition]| asked.iter().all(|condition| by.contains(condition));
        if !below && self.pattern.as_ref().is_some_and(Pattern::is_too_much) {
            Err(Outside::Effort)
        } else if !below {
            Err(Outside::Path)
        } else if !all(&parent.headers, &child.headers) {
            Err(Outside::Header)
        } else if !all(&parent.queries, &child.queries) {
            Err(Outside::Query)
        } else if parent.method.is_some() && parent.method != child.method {
            Err(Outside::Method)
        } else {
            Ok(())
        }
    }
}

/// Whether a path is `prefix`, which has no slash at its end, or lies below it.
fn is_below(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ir::matching::ValueMatch;

    use super::*;

    fn contains(parent: &Match, child: &Match) -> Result<(), Outside> {
        Inner::of(child).lies_below(parent)
    }

    fn at(path: Path) -> Match {
        Match { path, method: None, headers: Vec::new(), queries: Vec::new(), grpc: None }
    }

    fn prefix(path: &str) -> Match {
        at(Path::Prefix(path.into()))
    }

    fn exact(path: &str) -> Match {
        at(Path::Exact(path.into()))
    }

    fn condition(name: &str, value: ValueMatch) -> Condition {
        Condition { name: name.into(), value }
    }

    #[test]
    fn paths_are_compared_by_segment() {
        for (parent, inside, outside) in [
            ("/a", ["/a", "/a/", "/a/b"], ["/abc", "/", "/b"]),
            ("/a/", ["/a", "/a/", "/a/b"], ["/abc", "/", "/b/a"]),
            ("/", ["/", "/a", "/a/b"], ["", "a", "*"]),
        ] {
            for path in inside {
                assert_eq!(contains(&prefix(parent), &prefix(path)), Ok(()), "{parent} {path}");
                assert_eq!(contains(&prefix(parent), &exact(path)), Ok(()), "{parent} {path}");
            }
            for path in outside.into_iter().filter(|path| path.starts_with('/')) {
                assert_eq!(contains(&prefix(parent), &prefix(path)), Err(Outside::Path), "{parent} {path}");
                assert_eq!(contains(&prefix(parent), &exact(path)), Err(Outside::Path), "{parent} {path}");
            }
        }
    }

    #[test]
    fn only_a_prefix_has_anything_below() {
        for parent in [exact("/a"), at(Path::Regex("/a(/.*)?".into()))] {
            assert_eq!(contains(&parent, &exact("/a")), Err(Outside::NothingBelow));
        }
    }

    #[test]
    fn a_child_asks_for_all_that_its_parent_asks_for_in_the_same_words() {
        let exact = |text: &str| ValueMatch::Exact(text.into());
        let parent = Match {
            headers: vec![condition("h", exact("1"))],
            queries: vec![condition("q", exact("1"))],
            method: Some("GET".into()),
            ..prefix("/a")
        };
        let more = |list: &[Condition]| [list, &[condition("more", exact("x"))]].concat();
        let child = Match { headers: more(&parent.headers), queries: more(&parent.queries), ..parent.clone() };
        assert_eq!(contains(&parent, &child), Ok(()));
        let other =
            [condition("h", exact("2")), condition("h", ValueMatch::Regex("1".into())), condition("x", exact("1"))];
        for header in other {
            let child = Match { headers: vec![header], ..child.clone() };
            assert_eq!(contains(&parent, &child), Err(Outside::Header));
        }
        // Names of query parameters are compared with their case.
        let child = Match { queries: vec![condition("Q", exact("1"))], ..child };
        assert_eq!(contains(&parent, &child), Err(Outside::Query));
        let child = Match { queries: parent.queries.clone(), ..child };
        for method in [None, Some(Arc::from("POST"))] {
            assert_eq!(contains(&parent, &Match { method, ..child.clone() }), Err(Outside::Method));
        }
    }
}
