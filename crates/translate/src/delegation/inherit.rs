//! What a child's match becomes that inherits its parent's (EP-10943, "Matcher inheritance").

use std::sync::Arc;

use ir::matching::{Condition, Match, Path};
use validate::{Invalid, regex};

use super::regex::Pattern;

/// Why a child's match cannot be joined with its parent's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unjoinable {
    /// The parent means one path, and the child asks for more of it.
    #[error("the parent's path is exact, and nothing lies below it: leave the path out")]
    BelowExact,
    /// What the child's regular expression matches could continue the last segment of the parent's path.
    #[error("the regular expression also matches what does not begin with /, which leads out of the parent's path")]
    Outside,
    /// The joined regular expression is none that Envoy takes.
    #[error("joined with the parent's: {0}")]
    Regex(Invalid),
}

/// Refuses a child's match that cannot be joined with any parent's.
pub(super) fn joinable(child: &Match) -> Result<(), Unjoinable> {
    match &child.path {
        Path::Regex(pattern) if !Pattern::read(pattern).begins_with_slash() => Err(Unjoinable::Outside),
        _ => Ok(()),
    }
}

/// The child's match below its parent's: the paths joined with one `/`, the child's type kept; headers and query
/// parameters of both, the parent's winning where both name one; the parent's method, if it has one.
///
/// A child path of `/` adds nothing, so the parent's stays. A path that is joined to a regular expression, or of one,
/// becomes a regular expression.
///
/// The child's must be [`joinable`].
pub(super) fn join(parent: &Match, child: &Match) -> Result<Match, Unjoinable> {
    Ok(Match {
        path: path(&parent.path, &child.path)?,
        method: parent.method.clone().or_else(|| child.method.clone()),
        headers: united(&parent.headers, &child.headers),
        queries: united(&parent.queries, &child.queries),
        grpc: child.grpc,
    })
}

fn path(parent: &Path, child: &Path) -> Result<Path, Unjoinable> {
    let adds_nothing = matches!(child, Path::Exact(path) | Path::Prefix(path) if **path == *"/");
    let joined = match (parent, child) {
        (Path::Exact(_), _) => return if adds_nothing { Ok(parent.clone()) } else { Err(Unjoinable::BelowExact) },
        (Path::Regex(_), _) if adds_nothing => return Ok(parent.clone()),
        (Path::Prefix(parent), Path::Prefix(_)) if adds_nothing => return Ok(Path::Prefix(parent.clone())),
        (Path::Prefix(parent), Path::Exact(_)) if adds_nothing => return Ok(Path::Exact(bare(parent))),
        (Path::Prefix(parent), Path::Prefix(child)) => return Ok(Path::Prefix(below(parent, child))),
        (Path::Prefix(parent), Path::Exact(child)) => return Ok(Path::Exact(below(parent, child))),
        (Path::Prefix(parent), Path::Regex(child)) => {
            format!("{}(?:{child})", regex::quote(parent.trim_end_matches('/')))
        }
        (Path::Regex(parent), Path::Exact(child)) => format!("(?:{parent}){}", regex::quote(child)),
        (Path::Regex(parent), Path::Prefix(child)) => {
            format!("(?:{parent}){}(/.*)?", regex::quote(child.trim_end_matches('/')))
        }
        (Path::Regex(parent), Path::Regex(child)) => format!("(?:{parent})(?:{child})"),
    };
    regex::check(&joined).map_err(Unjoinable::Regex)?;
    Ok(Path::Regex(joined.into()))
}

/// `child`, which begins with `/`, below `parent`.
fn below(parent: &str, child: &str) -> Arc<str> {
    format!("{}{child}", parent.trim_end_matches('/')).into()
}

/// A prefix as the path that it means itself.
fn bare(prefix: &str) -> Arc<str> {
    let bare = prefix.trim_end_matches('/');
    if bare.is_empty() { "/".into() } else { bare.into() }
}

fn united(parent: &[Condition], child: &[Condition]) -> Vec<Condition> {
    let own = child.iter().filter(|condition| parent.iter().all(|other| other.name != condition.name));
    parent.iter().chain(own).cloned().collect()
}

#[cfg(test)]
mod tests {
    use ir::matching::ValueMatch;

    use super::*;

    fn exact(path: &str) -> Path {
        Path::Exact(path.into())
    }

    fn prefix(path: &str) -> Path {
        Path::Prefix(path.into())
    }

    fn regex(pattern: &str) -> Path {
        Path::Regex(pattern.into())
    }

    fn of(path: Path) -> Match {
        Match { path, method: None, headers: Vec::new(), queries: Vec::new(), grpc: None }
    }

    #[test]
    fn paths_are_joined_with_one_slash_and_the_type_of_the_child() {
        for (parent, child, joined) in [
            (prefix("/a"), prefix("/b"), prefix("/a/b")),
            (prefix("/a/"), prefix("/b/"), prefix("/a/b/")),
            (prefix("/"), prefix("/b"), prefix("/b")),
            (prefix("/a"), exact("/b"), exact("/a/b")),
            (prefix("/a"), exact("/b/"), exact("/a/b/")),
            (prefix("/a"), prefix("/"), prefix("/a")),
            (prefix("/a/"), prefix("/"), prefix("/a/")),
            (prefix("/a/"), exact("/"), exact("/a")),
            (prefix("/"), exact("/"), exact("/")),
            (exact("/a"), prefix("/"), exact("/a")),
            (exact("/a"), exact("/"), exact("/a")),
            (prefix("/a.b"), regex("/c|/d"), regex(r"/a\.b(?:/c|/d)")),
            (prefix("/"), regex("/c.*"), regex("(?:/c.*)")),
            (regex("/a|/b"), exact("/c.d"), regex(r"(?:/a|/b)/c\.d")),
            (regex("/a|/b"), prefix("/c/"), regex("(?:/a|/b)/c(/.*)?")),
            (regex("/a|/b"), prefix("/"), regex("/a|/b")),
            (regex("/a|/b"), regex("/c|/d"), regex("(?:/a|/b)(?:/c|/d)")),
            (regex("(?i)/a"), regex("/c"), regex("(?:(?i)/a)(?:/c)")),
            // A path is never cleaned.
            (prefix("/a"), regex("/../b"), regex("/a(?:/../b)")),
        ] {
            assert_eq!(path(&parent, &child), Ok(joined), "{parent:?} {child:?}");
        }
    }

    #[test]
    fn nothing_is_below_an_exact_path() {
        for child in [prefix("/b"), exact("/b"), regex("/.*")] {
            assert_eq!(path(&exact("/a"), &child), Err(Unjoinable::BelowExact));
        }
    }

    #[test]
    fn an_expression_cannot_continue_the_parents_last_segment() {
        for child in [".*", "/?x", "x|/y", "(/a)?.", "[^/]*/x"] {
            assert_eq!(joinable(&of(regex(child))), Err(Unjoinable::Outside), "{child}");
        }
        for child in ["(/x)?", "(?i)/x", "(?:/x|/y.*)"] {
            assert!(join(&of(prefix("/a")), &of(regex(child))).is_ok(), "{child}");
        }
    }

    #[test]
    fn what_envoy_would_refuse_is_not_joined() {
        let long = regex(&format!("/{}", "a{500}".repeat(40)));
        assert!(matches!(path(&long, &long), Err(Unjoinable::Regex(_))));
    }

    #[test]
    fn conditions_are_united_by_name_and_the_parent_wins() {
        let condition =
            |name: &str, value: &str| Condition { name: name.into(), value: ValueMatch::Exact(value.into()) };
        let parent = Match {
            path: prefix("/a"),
            method: Some("GET".into()),
            headers: vec![condition("h", "parent")],
            queries: vec![condition("q", "parent")],
            grpc: None,
        };
        let child = Match {
            path: exact("/b"),
            method: Some("PUT".into()),
            headers: vec![condition("i", "child"), condition("h", "child")],
            queries: vec![condition("Q", "child"), condition("q", "child")],
            grpc: None,
        };
        let joined = join(&parent, &child).expect("a match");
        assert_eq!(joined.headers, [condition("h", "parent"), condition("i", "child")]);
        assert_eq!(joined.queries, [condition("q", "parent"), condition("Q", "child")]);
        assert_eq!(joined.method.as_deref(), Some("GET"));
        let without = Match { method: None, ..parent };
        assert_eq!(join(&without, &child).expect("a match").method.as_deref(), Some("PUT"));
    }
}
