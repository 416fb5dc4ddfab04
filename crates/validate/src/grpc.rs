//! Services and methods of gRPC, which are the two segments of a path.

use regex_syntax::hir::Hir;

use super::{Invalid, at_most, quoted, regex};

/// Longest service or method of Gateway API, in characters.
pub const MAX_LENGTH: usize = 1024;

/// Accepts the service of an exact match: names of letters, digits and underscores, joined by dots.
///
/// The CRD's own expression ignores case, by which two letters outside ASCII pass; no path has these.
pub fn service(name: &str) -> Result<(), Invalid> {
    let parts = name.strip_prefix('.').unwrap_or(name).split('.');
    identifiers(name, "service", parts)
}

/// Accepts the method of an exact match: letters, digits and underscores.
pub fn method(name: &str) -> Result<(), Invalid> {
    identifiers(name, "method", [name])
}

fn identifiers<'a>(name: &str, what: &str, parts: impl IntoIterator<Item = &'a str>) -> Result<(), Invalid> {
    let refuse = |why: String| Err(Invalid::new(name, why, "write it as its .proto file has it"));
    for part in parts {
        if let Some(bad) = part.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '_') {
            return refuse(format!("no {what} of gRPC has {} in its name", quoted(bad)));
        }
        match part.chars().next() {
            None => return refuse(format!("a part of the name of the {what} is empty")),
            Some(digit) if digit.is_ascii_digit() => {
                return refuse(format!("no part of the name of a {what} begins with a digit"));
            }
            Some(_) => {}
        }
    }
    at_most(name, MAX_LENGTH)
}

/// The expression of a service or of a method without the anchors at its ends, which say nothing: it matches the part whole.
pub fn unanchored(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    match pattern.strip_suffix('$') {
        Some(rest) if rest.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 0 => rest,
        _ => pattern,
    }
}

/// Accepts the expression of a service or of a method, which matches it whole: [`regex::check`], and no anchor but at its
/// [ends](unanchored), since it never holds where the expression stands in that of a path.
pub fn pattern(pattern: &str) -> Result<(), Invalid> {
    let pattern = unanchored(pattern);
    regex::check(pattern)?;
    let is_anchored = |hir: Hir| hir.properties().look_set().contains_anchor();
    if regex_syntax::parse(pattern).is_ok_and(is_anchored) {
        let why = "an anchor within a path never holds, and service and method are compared whole without one";
        return Err(Invalid::new(pattern, why, "remove ^ and $"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_proto_files() {
        for good in ["Cart", "shop.v1.Cart", ".shop.Cart", "_a._9", "grpc.health.v1.Health"] {
            assert_eq!(service(good), Ok(()), "{good}");
        }
        for good in ["Add", "add_2", "_"] {
            assert_eq!(method(good), Ok(()), "{good}");
        }
        let long = "a".repeat(MAX_LENGTH + 1);
        for bad in ["", ".", "a.", "a..b", "..a", "a/b", "2a", "a.2b", "a-b", "a b", "\u{212a}art", "a\n", &long] {
            assert!(service(bad).is_err(), "{bad:?}");
            assert!(method(bad).is_err(), "{bad:?}");
        }
        assert!(method("a.b").is_err());
    }

    #[test]
    fn an_anchor_is_refused_but_at_the_ends() {
        for good in ["shop[.].+", "(?i)cart", "a|b", r"\bcart\b", "[^/]+", r"a\$", "^cart", "cart$", "^a|b$"] {
            assert_eq!(pattern(good), Ok(()), "{good}");
        }
        for bad in ["a^cart", "^^cart", "cart$$", "a|^b", r"cart\\$$", "(?:cart$)?", r"\Acart", "(", "a)|(b"] {
            assert!(pattern(bad).is_err(), "{bad}");
        }
        let ends = [("^a$", "a"), (r"a\$", r"a\$"), (r"a\\$", r"a\\"), ("^$", ""), ("a", "a")];
        for (written, meant) in ends {
            assert_eq!(unanchored(written), meant, "{written}");
        }
    }
}
