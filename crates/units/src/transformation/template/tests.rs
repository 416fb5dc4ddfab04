#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use proptest::prelude::*;

use super::*;

fn text(text: &str) -> Expression {
    Expression::Text(text.into())
}

fn header(name: &str) -> Expression {
    Expression::Call(Function::Header, vec![text(name)])
}

#[test]
fn texts_and_what_functions_make_stand_one_behind_the_other() {
    let joined = |parts: &[Expression]| Expression::Joined(parts.to_vec());
    let cases = [
        ("", text("")),
        ("a\n", text("a")),
        ("a\r\n", text("a")),
        ("a\n\n", text("a\n")),
        ("{ {} }} %} #}", text("{ {} }} %} #}")),
        ("{{ header(\"a\") }}", header("a")),
        ("{{header('a')}}", header("a")),
        ("{{ 'a' ~ \"b\" }}c", text("abc")),
        ("{{ '}}' }}", text("}}")),
        ("{{ 12 ~ (('a')) }}", text("12a")),
        ("a {{- ' ' -}} b", text("a b")),
        ("a {#- c }} -#} b{# #}", text("ab")),
        ("{{ '\\u00e9\\n\\'' }}", text("é\n'")),
        ("a{{ header('b') ~ '' ~ 'c' }}d", joined(&[text("a"), header("b"), text("cd")])),
        (
            "{{ substring(replace_with_string(header(\"a\"), 'b', 'c'), 1, 2) }}",
            Expression::Part(
                Box::new(Expression::Call(Function::Replace, vec![header("a"), text("b"), text("c")])),
                1,
                Some(2),
            ),
        ),
        ("{{ substring('a', 1) }}", Expression::Part(Box::new(text("a")), 1, None)),
    ];
    for (template, expected) in cases {
        assert_eq!(parse(template).unwrap(), expected, "{template:?}");
    }
}

#[test]
fn what_is_not_served_is_refused_with_its_place_and_a_remedy() {
    let deep = "{{ ".to_owned() + &"(".repeat(1000) + "'a'" + &")".repeat(1000) + " }}";
    let calls = "{{ ".to_owned() + &"raw_string(".repeat(1000) + "'a'" + &")".repeat(1000) + " }}";
    let sought = format!("{{{{ replace_with_string(header('a'), '{}', 'b') }}}}", "c".repeat(257));
    let cases = [
        ("a{{", "at character 2, {{ begins an expression that does not end"),
        ("é{{ header('a'", "at character 2, {{ begins"),
        ("{{ header('a) }}", "' begins a text that does not end"),
        ("{# a", "{# begins a comment that does not end"),
        ("{% if true %}a{% endif %}", "at character 1, {% begins a statement"),
        ("{{ a }}", "a is a variable"),
        ("{{ connection.mtls }}", "attributes of connections"),
        ("{{ header }}", "header is a variable"),
        ("{{ env('HOME') }}", "environment of the proxy"),
        ("{{ body() }}", "bodies are not read yet"),
        ("{{ context() }}", "bodies are not read yet"),
        ("{{ upper('a') }}", "no function upper()"),
        ("{{ 'a' | upper }}", "filters are not served"),
        ("{{ 'a' + 'b' }}", "write ~"),
        ("{{ 'a' == 'b' }}", "comparisons"),
        ("{{ 'a' if true else 'b' }}", "conditions"),
        ("{{ 'a' is defined }}", "conditions"),
        ("{{ ['a'] }}", "lists"),
        ("{{ -1 }}", "something else"),
        ("{{ }}", "something else"),
        ("{{ 1.5 }}", "whole number"),
        ("{{ 99999999999 }}", "whole number"),
        ("{{ header() }}", "something else"),
        ("{{ header('a', 'b') }}", "takes 1 text"),
        ("{{ header(1) }}", "takes texts"),
        ("{{ substring('a') }}", "substring() takes"),
        ("{{ substring('a', 'b') }}", "as numbers"),
        ("{{ substring('a', -1) }}", "as numbers"),
        ("{{ substring('a', 1, 2, 3) }}", "substring() takes"),
        ("{{ '\\q' }}", "no meaning"),
        ("{{ '\\ud800' }}", "no meaning"),
        ("{{ '\\", "no meaning"),
        (&deep, "16 deep"),
        (&calls, "16 deep"),
        (&sought, "257 bytes"),
    ];
    for (template, why) in cases {
        let refused = parse(template).unwrap_err();
        assert!(refused.why.contains(why) || refused.remedy.contains(why), "{template:.40?}: {refused}");
        assert!(!refused.remedy.is_empty(), "{refused}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_much_for_it(parts in proptest::collection::vec(
        prop_oneof![
            proptest::sample::select(&["{{", "}}", "-", "{%", "{#", "#}", "(", ")", ",", "~", "'", "\"", "\\", "header", "substring",
                "1", "é", " ", "\n", "a", "\\u", "|"][..]).prop_map(str::to_owned),
            ".{0,3}",
        ],
        0..30,
    )) {
        let _ = parse(&parts.concat());
    }
}
