use serde_json::json;

use super::{
    values::{HOSTNAME_PATTERN, LABEL_KEY_PATTERN, PATH_PATTERN},
    *,
};
use crate::Kind;

fn broken(node: &Node, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    check(node, value, Path::Root("f"), &mut found);
    found.iter().map(ToString::to_string).collect()
}

static LETTERS: Pattern = Pattern::new("^[a-z]+$", "small letters");
static WORD: Node = Node::Text(Text { min: 1, max: 3, pattern: Some(&LETTERS), values: &[] });

static WORDS: Node = Node::List { min: 1, max: 2, unique: Unique::No, items: &WORD };
static ENTRY: Node = Node::Object(&[Field { name: "k", required: true, node: &WORD }]);

#[test]
fn a_string_is_told_the_first_rule_that_it_breaks() {
    let cases = [
        ("abc", ""),
        ("", "f is \"\": must not be empty"),
        ("ABCD", "f is \"ABCD\": has 4 characters: 1 to 3 characters must be given"),
        ("AB", "f is \"AB\": must be small letters"),
    ];
    for (text, message) in cases {
        assert_eq!(broken(&WORD, &json!(text)).concat(), message);
    }
}

#[test]
fn length_counts_characters_and_not_bytes() {
    let node = Node::Text(Text { min: 0, max: 2, pattern: None, values: &[] });
    assert_eq!(broken(&node, &json!("éé")), [""; 0]);
    assert_eq!(broken(&node, &json!("ééé")).len(), 1);
}

#[test]
fn a_long_value_is_cut_where_it_is_told() {
    let message = broken(&WORD, &json!("é".repeat(1000))).concat();
    assert!(message.contains(&format!("{}...\"", "é".repeat(100))), "{message}");
    assert!(!message.contains(&"é".repeat(101)), "{message}");
}

#[test]
fn what_a_table_does_not_know_is_taken_out_and_the_rest_left_as_it_is() {
    static ENTRIES: Node = Node::List { min: 0, max: 9, unique: Unique::No, items: &ENTRY };
    static BY_NAME: Node = Node::Map { max: 9, values: &ENTRIES };
    let mut value = json!({ "any": [{ "k": "a", "l": { "k": "b" } }, {}, { "l": null }, 5], "other": { "l": 1 } });
    prune(&BY_NAME, &mut value);
    assert_eq!(value, json!({ "any": [{ "k": "a" }, {}, {}, 5], "other": { "l": 1 } }));
}

#[test]
fn numbers_lists_and_mappings_are_told_their_bounds() {
    let number = Node::Number { min: 1, max: 9, values: &[] };
    assert_eq!(broken(&number, &json!(0)), ["f is \"0\": must be a number from 1 to 9"]);
    assert_eq!(broken(&number, &json!(9)), [""; 0]);
    let one_of = Node::Number { min: i64::MIN, max: i64::MAX, values: &[301, 302] };
    assert_eq!(broken(&one_of, &json!(300)), ["f is \"300\": must be one of 301, 302"]);
    assert_eq!(broken(&WORDS, &json!([])), ["f is \"0 items\": 1 to 2 items must be given"]);
    assert_eq!(broken(&WORDS, &json!(["a", "B"])), ["f[1] is \"B\": must be small letters"]);
    let map = Node::Map { max: 1, values: &WORD };
    assert_eq!(broken(&map, &json!({ "k": "A" })), ["f[k] is \"A\": must be small letters"]);
    assert_eq!(broken(&map, &json!({ "k": "a", "l": "b" })), ["f is \"2 entries\": at most 1 entry may be given"]);
}

#[test]
fn duplicates_are_told_where_the_second_stands() {
    let words = Node::List { min: 0, max: 9, unique: Unique::Items, items: &WORD };
    assert_eq!(broken(&words, &json!(["a", "b", "a"])), ["f[2] is \"a\": must not occur twice in this list"]);
    let entries = Node::List { min: 0, max: 9, unique: Unique::By("k"), items: &ENTRY };
    assert_eq!(
        broken(&entries, &json!([{ "k": "a" }, { "k": "a" }])),
        ["f[1].k is \"a\": must not occur twice in this list"]
    );
}

#[test]
fn every_pattern_of_the_tables_is_one_that_compiles() {
    fn patterns(node: &Node, seen: &mut Vec<&'static Pattern>) {
        match node {
            Node::Text(Text { pattern, .. }) => seen.extend(*pattern),
            Node::List { items: node, .. } | Node::Map { values: node, .. } => patterns(node, seen),
            Node::Object(fields) => fields.iter().for_each(|field| patterns(field.node, seen)),
            Node::Number { .. } | Node::Flag | Node::Opaque => {}
        }
    }
    let mut seen = vec![&LABEL_KEY_PATTERN];
    Kind::ALL.iter().filter_map(|kind| kind.spec_schema()).for_each(|node| patterns(node, &mut seen));
    assert!(seen.len() > 50, "the walk must meet the patterns");
    for pattern in seen {
        assert!(Regex::new(pattern.regex).is_ok(), "{}", pattern.regex);
    }
}

#[test]
fn patterns_mean_what_they_are_said_to_mean() {
    let cases: [(&Pattern, &[&str], &[&str]); 3] = [
        (
            &HOSTNAME_PATTERN,
            &["a", "a.example", "*.example", "1.2.3.4"],
            &["", "*", "A.example", "a..b", "a.*.b", "-a"],
        ),
        (&PATH_PATTERN, &["/", "/a%20b", "/a;b=c"], &["", "/a b", "/%zz", "/ä", "/a?b"]),
        (&LABEL_KEY_PATTERN, &["a", "a.b/c_d", "A"], &["", "/a", "a/", "a b", "a/b/c"]),
    ];
    for (pattern, good, bad) in cases {
        for text in good {
            assert!(pattern.is_match(text), "{text}");
        }
        for text in bad {
            assert!(!pattern.is_match(text), "{text}");
        }
    }
}
