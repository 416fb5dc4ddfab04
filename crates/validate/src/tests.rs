use proptest::prelude::*;

use super::*;

#[test]
fn a_message_shows_the_value_on_one_bounded_line() {
    let refused = Invalid::new(&format!("a\n\u{202e}b{}", "é".repeat(200)), "it is odd", "write another");
    assert!(refused.value.starts_with(r"a\u{a}\u{202e}bé"));
    assert_eq!(refused.value.matches('é').count(), 124);
    assert!(refused.value.ends_with('…'));
    assert!(!refused.to_string().contains('\n'));
    let refused = Invalid::new("x", "it is odd", "write another");
    assert_eq!(refused.to_string(), r#""x" is refused: it is odd; write another"#);
}

/// Text that parsers dislike: separators, escapes, controls, wide and combining characters, and long runs.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        "\\PC{0,40}",
        r"[%\\/.*:;,=?#@\[\](){}<>|'+$!&~^ \t\r\n\x00\x7f-\x9f0-9a-zA-Z_\-]{0,60}",
        r"(\*\.|%[0-9a-f]?|/\.\.?|//|https?://|[0-9]{1,9}(h|m|s|ms|us|d)?|\{[0-9,]*\}|\u{0}|\u{1f600}|\u{301}){0,12}",
        ".{250,260}",
    ]
}

proptest! {
    #[test]
    fn no_value_panics_and_every_refusal_is_one_bounded_line(text in hostile(), number: i64, other: i64) {
        let refusals = [
            cors::origin(&text).err(),
            cors::method(&text).err(),
            cors::header(&text).err(),
            duration::parse(&text).err(),
            duration::positive(&text).err(),
            header::match_name(&text).err(),
            header::modifiable_name(&text).err(),
            header::settable_name(&text).err(),
            header::value(&text).err(),
            header::match_value(&text).err(),
            header::method(&text).err(),
            hostname::check(&text).err(),
            hostname::precise(&text).err(),
            name::cookie(&text).err(),
            name::session_header(&text).err(),
            name::query_parameter(&text).err(),
            name::query_value(&text).err(),
            path::exact(&text).err(),
            path::rewrite(&text).err(),
            path::redirect(&text).err(),
            path::replace_prefix(&text).err(),
            path::redirect_prefix(&text).err(),
            path::part(&text).err(),
            regex::check(&text).err(),
            tls::check(text.as_bytes(), text.as_bytes()).err(),
            number::weight(number).err(),
            number::percent(number).err(),
            number::fraction(number, Some(other)).err(),
            number::port(number).err(),
        ];
        for refused in refusals.into_iter().flatten() {
            let text = refused.to_string();
            prop_assert!(!text.contains(char::is_control), "{:?}", text);
            prop_assert!(text.len() < 2_000, "{}", text);
            prop_assert!(!refused.why.is_empty() && !refused.remedy.is_empty());
        }
        let _ = hostname::normalise(&text);
    }
}
