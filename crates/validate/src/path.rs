//! Paths of matches, rewrites and redirects.

use super::{Invalid, at_most, escaped, quoted};

/// Longest path of Gateway API, in characters.
pub const MAX_LENGTH: usize = 1024;

/// Accepts the value of an `Exact` match.
///
/// Absolute and in the form to which Envoy normalises a request's path before it routes: no empty or dot segments, no
/// escaped slash or backslash, no escape of a character that needs none (RFC 3986 section 2.3). Anything else would be a
/// match that never holds, and what it is meant for would go to a broader one.
pub fn exact(path: &str) -> Result<(), Invalid> {
    absolute(path)?;
    segments(path)?;
    unescaped(path)?;
    characters(path)?;
    at_most(path, MAX_LENGTH)
}

/// Accepts the value of a `PathPrefix` match, with or without a slash at its end; the rules are those of [`exact`].
pub fn prefix(path: &str) -> Result<(), Invalid> {
    exact(path)
}

/// Accepts a `replaceFullPath` of a rewrite: an absolute path without a query, since the request's own is kept.
///
/// Nothing normalises it on its way to the backend, so its segments are those of [`exact`]. Escapes that need not be stay
/// as they are written.
pub fn rewrite(path: &str) -> Result<(), Invalid> {
    absolute(path)?;
    segments(path)?;
    characters(path)?;
    at_most(path, MAX_LENGTH)
}

/// Accepts a text that becomes a part of a path at a place that is not known: its segments are those of [`rewrite`].
pub fn part(text: &str) -> Result<(), Invalid> {
    if let Some(bad) = text.chars().find(|c| matches!(c, '?' | '#')) {
        return Err(Invalid::new(
            text,
            format!("the path must not contain {}: the query of the request is kept", quoted(bad)),
            "remove it and what follows",
        ));
    }
    segments(text)
}

/// Accepts a `replaceFullPath` of a redirect: an absolute path, perhaps with a query.
pub fn redirect(path: &str) -> Result<(), Invalid> {
    let (before, query) = path.split_once('?').unwrap_or((path, ""));
    absolute(before)?;
    characters(before)?;
    // A query may hold what a path may, and '?' besides.
    for part in query.split('?').filter(|part| !part.is_empty()) {
        characters(part)?;
    }
    at_most(path, MAX_LENGTH)
}

/// Accepts a `replacePrefixMatch` of a rewrite: what [`rewrite`] accepts, or nothing, which stands for `/`.
pub fn replace_prefix(path: &str) -> Result<(), Invalid> {
    if path.is_empty() { Ok(()) } else { rewrite(path) }
}

/// Accepts a `replacePrefixMatch` of a redirect: an absolute path without a query, or nothing, which stands for `/`.
/// Clients normalise what they are sent to.
pub fn redirect_prefix(path: &str) -> Result<(), Invalid> {
    if path.is_empty() {
        return Ok(());
    }
    absolute(path)?;
    characters(path)?;
    at_most(path, MAX_LENGTH)
}

fn absolute(path: &str) -> Result<(), Invalid> {
    if path.is_empty() {
        return Err(Invalid::new(path, "the path is empty", "write an absolute path such as /"));
    }
    if !path.starts_with('/') {
        return Err(Invalid::new(path, "the path is not absolute", "begin it with '/'"));
    }
    Ok(())
}

/// Refuses segments that lead elsewhere than they seem to, whoever reads them.
fn segments(path: &str) -> Result<(), Invalid> {
    let refuse = |why: &str, remedy: &str| Err(Invalid::new(path, why, remedy));
    // Nearly all paths have neither a dot behind a slash nor an escape, which is soon seen.
    let has_dot = path.contains("/.");
    let has_escape = path.contains('%');
    let has = |lower: &str| {
        has_escape && path.as_bytes().windows(3).any(|escape| escape.eq_ignore_ascii_case(lower.as_bytes()))
    };
    if path.contains("//") {
        return refuse("the path has an empty segment '//'", "write one '/'");
    }
    if has_dot && (path.contains("/./") || path.contains("/../") || path.ends_with("/.") || path.ends_with("/..")) {
        return refuse("the path has a segment '.' or '..'", "write the path that it leads to");
    }
    if has("%2f") {
        return refuse("the path has an escaped slash", "write '/'");
    }
    if has("%5c") {
        return refuse("the path has an escaped backslash, which becomes '/' where it is unescaped", "write '/'");
    }
    if has("%2e") {
        return refuse("the path has an escaped dot, which may become a segment '.' or '..'", "write '.'");
    }
    Ok(())
}

/// Refuses what Envoy unescapes before it matches.
fn unescaped(path: &str) -> Result<(), Invalid> {
    let Some((escape, plain)) = needless_escape(path) else { return Ok(()) };
    Err(Invalid::new(
        path,
        format!("{escape} is unescaped before the path is matched, so that it would never match"),
        format!("write '{plain}'"),
    ))
}

/// The first escape of an unreserved character of RFC 3986, and that character.
fn needless_escape(path: &str) -> Option<(&str, char)> {
    path.match_indices('%').find_map(|(at, _)| {
        let escape = path.get(at..at + 3)?;
        let plain = char::from(u8::from_str_radix(&escape[1..], 16).ok()?);
        (plain.is_ascii_alphanumeric() || "-._~".contains(plain)).then_some((escape, plain))
    })
}

/// Refuses what RFC 3986 does not allow in a path: only its path characters, '/' and whole percent escapes pass.
fn characters(path: &str) -> Result<(), Invalid> {
    let mut rest = path.chars();
    while let Some(c) = rest.next() {
        match c {
            '%' => {
                let mut digits = rest.by_ref().take(2);
                let whole = (0..2).all(|_| digits.next().is_some_and(|d| d.is_ascii_hexdigit()));
                if !whole {
                    return Err(Invalid::new(
                        path,
                        "the path has a '%' without two hexadecimal digits",
                        "write %25 for the character itself",
                    ));
                }
            }
            'A'..='Z' | 'a'..='z' | '0'..='9' => {}
            c if "-/._~!$&'()*+,;=:@".contains(c) => {}
            c => {
                let remedy = match c {
                    '?' => "match on query parameters instead".to_owned(),
                    '#' => "remove the fragment, clients do not send it".to_owned(),
                    _ => format!("write {}", escaped(c)),
                };
                return Err(Invalid::new(path, format!("the path must not contain {}", quoted(c)), remedy));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_take_what_the_crd_takes() {
        for good in ["/", "/foo", "/foo/", "/a.b/..c/.d", "/-A9._~!$&'()*+,;=:@", "/%20%e4", "/...", "/a/..b"] {
            assert!(exact(good).is_ok() && prefix(good).is_ok(), "{good}");
        }
        let long = format!("/{}", "a".repeat(1024));
        for bad in [
            "", "foo", "//", "/a//b", "/a/./b", "/a/../b", "/a/.", "/a/..", "/.", "/..", "/a%2fb", "/a%2Fb", "/a#b",
            "/a?b", "/a b", "/é", "/a\\b", "/a\u{0}", "/a\n", "/%", "/%2", "/%zz", "/%é", "/%5C", "/a%5cb", "/%41",
            "/%7euser", "/a%2Db", "/%2e", "/[", "/a|b", "/a\"", "/{id}", &long,
        ] {
            assert!(exact(bad).is_err() && prefix(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_redirects_may_carry_a_query() {
        assert!(redirect("/login?from=/a&x=%20").is_ok());
        assert!(redirect("/login?a?b").is_ok());
        assert!(rewrite("/login?from=a").is_err());
        assert!(redirect("/a//b/../c%2f").is_ok() && redirect_prefix("/a//b").is_ok() && redirect_prefix("").is_ok());
        assert!(redirect_prefix("/a?b").is_err() && redirect_prefix("a").is_err());
        for bad in ["", "?a=b", "login", "/a#b", "/a?b#c", "/a?b c", "/a?b\n", "/a?%g"] {
            assert!(redirect(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_empty_prefix_replacement_is_a_slash() {
        assert!(replace_prefix("").is_ok());
        assert!(replace_prefix("/").is_ok());
        assert!(replace_prefix("xyz").is_err());
        assert!(rewrite("").is_err());
    }

    #[test]
    fn a_new_path_has_the_segments_of_a_match() {
        for good in ["/", "/a/", "/.well-known", "/...", "/a/..b", "/%20", "/a%25"] {
            assert!(rewrite(good).is_ok() && replace_prefix(good).is_ok() && part(good).is_ok(), "{good}");
        }
        for bad in [
            "//",
            "/a//b",
            "/a/./b",
            "/a/../b",
            "/a/.",
            "/a/..",
            "/a%2fb",
            "/a%2Fb",
            "/a%5cb",
            "/a%5C",
            "/%2e%2e/a",
            "/%2E",
            "/a?b",
            "/a#b",
        ] {
            assert!(rewrite(bad).is_err() && replace_prefix(bad).is_err() && part(bad).is_err(), "{bad:?}");
        }
        assert!(part("").is_ok() && part("b").is_ok() && part("..b").is_ok());
    }

    #[test]
    fn an_escape_that_envoy_undoes_is_refused_with_what_to_write() {
        let refused = exact("/caf%C3%A9/%7Euser").expect_err("matched as ~user");
        assert_eq!(refused.remedy, "write '~'");
        assert!(refused.why.contains("%7E"), "{refused}");
        assert!(rewrite("/%7Euser").is_ok(), "a new path is written as it stands");
    }

    #[test]
    fn the_remedy_names_the_escape() {
        let refused = exact("/é").expect_err("outside ASCII");
        assert_eq!(refused.remedy, "write %C3%A9");
    }
}
