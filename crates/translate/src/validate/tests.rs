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
