#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;

/// Patterns and the program sizes that Envoy 1.40 named when it was set to refuse all of them.
const MEASURED: &[(&str, u64)] = &[
    ("/orders/[a-z]{1,50}", 111),
    (".", 6),
    ("(?s).", 5),
    (".*", 6),
    ("[^/]*", 6),
    (".{1,1000}", 3003),
    ("(?:x*)*", 5),
    ("(a*)*", 11),
    ("(?:a*b*)*", 11),
    ("(?:|a)*", 10),
    ("(?:a{0,5}){3}", 34),
    ("a{0,5}", 14),
    ("[ac]{10}", 24),
    ("((a{100}){10})", 1026),
    ("a{1000}", 1004),
    (r"\pL", 11),
    (r"\p{L}{1,20}", 163),
    (r"[^\p{L}]", 12),
    (r"\pP", 19),
    ("é", 6),
    ("☃", 7),
    ("(?i)k", 5),
    ("(?i)[k]", 5),
    ("(?:(?:(?:0){3}?){3}){10,}", 95),
    ("(?:é){10,60}", 174),
    (r"(?:(?:(\d)(?:\n){30}?0{2}){30,})+?", 1056),
    (r"((?:\b[a-b-c](?:]){10}){30}|(?:[a-z])+-[a\]]\PL+)", 412),
];

#[test]
fn the_bound_is_never_below_what_envoy_counts() {
    for &(pattern, measured) in MEASURED {
        let bound = program_size(pattern).unwrap();
        assert!(bound >= measured, "{pattern}: {bound} < {measured}");
        assert!(bound <= measured * 5 + 24, "{pattern}: {bound} is far above {measured}");
    }
}

#[test]
fn the_syntax_that_both_share_is_taken() {
    for pattern in [
        "/",
        "^/a$",
        "a|b|",
        "(a)(?:b)(?P<n>c)(?<m>d)",
        "a*?b+?c??d{2}?",
        "(?:a*)*",
        "(?i)abc",
        "(?i:a)b",
        "(?-i)a",
        "(?ims-U)a",
        r"\d\D\w\W\s\S",
        r"\b\B\A\z",
        r"\x41\x{41}\x{0041}",
        r"\a\f\t\n\r\v",
        r"\.\*\-\/\ \_\@",
        "[a-z]",
        "[^/]",
        "[]a]",
        "[^]a]",
        "[a-]",
        r"[\w.-]",
        "[[:alpha:]_]",
        "[[:^digit:]]",
        r"\pL\p{Lu}\P{Nd}\p{Greek}",
        "}",
        "]",
        "é",
        "(?:é)+",
        "a\nb",
        "a{0}",
        "a{1000}",
        "(?:a{10}){99}",
        "^*",
        "()",
        "(|a)",
        "~a&b-c",
        "[a&b]",
    ] {
        if let Err(refused) = check(pattern) {
            panic!("{refused}");
        }
    }
}

#[test]
fn what_re2_refuses_is_refused() {
    for pattern in [
        "",
        "a++",
        "a**",
        "a+*",
        "x*{2}",
        "a{2}{3}",
        "a{2}*",
        "a???",
        "a{1001}",
        "a{1,1001}",
        "a{1001,}",
        "(a{100}){100}",
        "(?:a{501}){2}",
        "(?:(?:a{10}){10}){11}",
        r"\<a",
        r"a\>",
        r"\b{start}",
        r"\b{end-half}",
        "(?x)a",
        "(?x: a )",
        "(?R)a",
        "(?u)a",
        "(?-u)a",
        r"\u00e9",
        r"\u{e9}",
        r"\U000000e9",
        r"\p{Letter}",
        r"\p{greek}",
        r"\p{sc=Greek}",
        r"\p{Cn}",
        r"\p{LC}",
        r"\p{Alphabetic}",
        r"\p{Garay}",
        "(?P<é>a)",
        "(?P<a.b>a)",
        "(?P<a[0]>a)",
    ] {
        assert!(check(pattern).is_err(), "{pattern:?}");
    }
}

#[test]
fn what_re2_reads_differently_is_refused() {
    for pattern in [
        "[a&&b]",
        "[a--b]",
        "[a~~b]",
        "[[a]b]",
        "[a[^b]]",
        "a{,3}",
        "a{ 2 }",
        "a{2, 3}",
        "a{01}",
        r"\x{ 41 }",
        r"\x80",
        r"\x{e9}",
        r"\x{10FFFF}",
        "[é]",
        "[a-é]",
        "é+",
        "é{2}",
        "(?i)é",
        "é(?i)a",
    ] {
        assert!(check(pattern).is_err(), "{pattern:?}");
    }
}

#[test]
fn what_rust_cannot_read_is_refused() {
    for pattern in [
        r"\Qa\E",
        r"\C",
        r"\123",
        "a{",
        "{",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        r"(a)\1",
        "(?P=n)",
        "(?>a)",
        "(",
        ")",
        "[",
        "*a",
        "+",
        "?",
        "a|*",
        "(?i)*",
        "(?)",
        "[z-a]",
        r"\",
        r"a\",
        r"\y",
        "[[:nope:]]",
        "(?P<n>a)(?P<n>b)",
        "a\\\u{1}",
        "\\\n",
        r"\é",
    ] {
        assert!(check(pattern).is_err(), "{pattern:?}");
    }
}

#[test]
fn what_is_refused_says_where_and_what_to_write() {
    let refused = check("/a++").unwrap_err();
    assert_eq!(refused.why, "+ at byte 3 repeats a repetition, which RE2 refuses");
    assert_eq!(refused.remedy, "put the inner one into a group, as in (?:a*)*");
    assert!(check("/users/{id}").unwrap_err().remedy.contains(r"\{"));
    assert!(check(r"[\w-.]").unwrap_err().remedy.contains(r"\-"));
}

#[test]
fn large_programs_are_refused() {
    assert!(check("(?:[ac-eg]{10}){33}").is_ok());
    let refused = check("[a-z]{1000}".repeat(40).as_str()).unwrap_err();
    assert!(refused.why.contains("40008 instructions"), "{refused}");
    assert!(check("/orders/[a-z]{1,50}").is_ok() && check("/users/[^/]{1,64}").is_ok() && check("a{1000}").is_ok());
}

#[test]
fn long_and_deep_patterns_are_refused() {
    let longest = "(?:(?:))".repeat(MAX_LENGTH / 8);
    assert!(program_size(&longest).is_ok());
    assert!(program_size(&format!("{longest}a")).is_err());
    let deep = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    assert!(check(&deep(90)).is_ok());
    assert!(check(&deep(200)).is_err());
    assert!(check(&"(".repeat(MAX_LENGTH)).is_err());
    assert!(check(&"[".repeat(MAX_LENGTH)).is_err());
}

#[test]
fn a_substitution_keeps_its_backslashes() {
    assert_eq!(quote_substitution(r"/a\1"), r"/a\\1");
}

#[test]
fn what_everything_begins_with_is_read_from_the_expression() {
    for (pattern, prefix) in [
        ("/orders/[a-z]{1,50}", "/orders/"),
        ("^/a/b.*", "/a/b"),
        ("(?:/a(?:/b))c+", "/a/bc"),
        (r"/a\.b/.*", "/a.b/"),
        ("/shop/(?:cart|card)", "/shop/car"),
        ("/shop/a|/shop/b.*|/shop/", "/shop/"),
        ("(?:/a|/a)/b", "/a/b"),
        ("(?:/a|/b)/c", "/"),
        ("(?:/a|/ab)c", "/a"),
        ("/a|/b", "/"),
        ("/a|b", ""),
        ("a|b", ""),
        ("(?i)/a", "/"),
        ("/[a]b", "/ab"),
        ("/[ab]c", "/"),
        ("/a?", "/"),
        ("(?:/a)?/a", ""),
        ("/(?:){2}a", "/a"),
        ("/(?:)*a", "/a"),
        ("/a{3}b", "/aaab"),
        ("/a{2,}b", "/aa"),
        ("(?:/a){2,3}", "/a/a"),
        ("(?:/[ab]){2}c", "/"),
        (".*", ""),
        ("(", ""),
        ("", ""),
        ("/é/.*", "/é/"),
        ("/é.|/è.", "/"),
    ] {
        assert_eq!(literal_prefix(pattern), prefix, "{pattern}");
    }
}

#[test]
fn what_everything_begins_with_has_a_bound_whatever_is_repeated() {
    for pattern in ["a{2000}", "(?:a{1000}){1000}b", "(?:(?:(?:){1000}a){1000}){1000}", "(?:a|a{900}){1024}"] {
        let prefix = literal_prefix(pattern);
        assert!(prefix.len() == 1_024 || prefix == "a", "{pattern}: {}", prefix.len());
    }
}

/// Expressions of some few characters.
fn expression() -> impl Strategy<Value = String> {
    let leaf = proptest::sample::select(vec!["/", "a", "b", "/a", ".", "[ab]", "[a]", "", "^"]).prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            4 => proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            2 => proptest::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            1 => (inner, proptest::sample::select(vec!["*", "+", "?", "{2}", "{1,2}", "{0,2}"]))
                .prop_map(|(part, how)| format!("(?:{part}){how}")),
        ]
    })
}

proptest! {
    #[test]
    fn everything_that_matches_begins_with_the_prefix(
        pattern in expression(),
        paths in proptest::collection::vec("[/ab]{0,6}", 40),
    ) {
        let regex = regex_lite::Regex::new(&format!(r"\A(?:{pattern})\z")).expect("an expression");
        let prefix = literal_prefix(&pattern);
        for path in paths.iter().filter(|path| regex.is_match(path)) {
            prop_assert!(path.starts_with(&prefix), "{} matches {}", pattern, path);
        }
    }

    #[test]
    fn a_quoted_literal_passes_and_is_read_as_itself(literal in "[ -~\n\u{e9}\u{2603}]{1,40}") {
        let quoted = quote(&literal);
        let regex = check(&quoted).unwrap();
        prop_assert_eq!(regex.as_str(), quoted.as_str());
        let hir = regex_syntax::parse(&quoted).unwrap();
        let same = matches!(hir.kind(), regex_syntax::hir::HirKind::Literal(l) if &*l.0 == literal.as_bytes());
        prop_assert!(same, "{}", quoted);
    }

    #[test]
    fn no_pattern_panics(pattern in r"(\PC|[\\()\[\]{}*+?|^$.,:<>=!&~\-0-9aixsmUuRpPxbBdDwW\n]){0,60}") {
        if let Ok(regex) = check(&pattern) {
            prop_assert!(regex.program_size() <= MAX_INSTRUCTIONS);
        }
    }
}

#[test]
fn a_substitution_refers_to_groups_that_are_there() {
    let accepted = |pattern: &str, text: &str| substitution(&check(pattern).expect("sound"), text).is_ok();
    for (pattern, text) in
        [("^/a/(.*)$", r"/b/\1"), ("a", r"\0"), ("a", r"\\1"), ("(?:a)(b)|(c)+", r"\2\1"), ("(?P<n>a)", "/%41;x=1")]
    {
        assert!(accepted(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [
        ("a", r"\1"),
        ("(?:a)", r"\1"),
        ("(a)", r"\2"),
        ("(a)", r"/\x"),
        ("(a)", "/\\"),
        ("a", "/ b"),
        ("a", "/\n"),
        ("a", "/é"),
        ("a", "/new//../path"),
        ("a", "/a/./b"),
        ("a", "/a/.."),
        ("a", "/%2fb"),
        ("a", "/%5Cb"),
        ("a", "/%2e%2e/b"),
        ("a", "/b?c"),
        ("a", "/b#c"),
        ("a", r"/\\..\\b"),
        ("(a)", r"\1//b"),
        ("(a)", r"/b/../\1"),
        ("(a)", r"/b\1?c"),
    ] {
        assert!(!accepted(pattern, text), "{pattern} {text}");
    }
}
