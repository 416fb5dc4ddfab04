#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use proptest::prelude::*;

use super::*;

fn text(text: &str) -> Expression {
    Expression::Text(text.into())
}

fn header(name: &str) -> Expression {
    Expression::Call(Function::Header, vec![text(name)])
}

fn plain(text: &str) -> Vec<Node> {
    if text.is_empty() { Vec::new() } else { vec![Node::Text(text.into())] }
}

#[test]
fn texts_and_what_functions_make_stand_one_behind_the_other() {
    let print = Node::Print;
    let cases = [
        ("", plain("")),
        ("a\n", plain("a")),
        ("a\r\n", plain("a")),
        ("a\n\n", plain("a\n")),
        ("{ {} }} %} #}", plain("{ {} }} %} #}")),
        ("{{ header(\"a\") }}", vec![print(header("a"))]),
        ("{{header('a')}}", vec![print(header("a"))]),
        ("{{ 'a' ~ \"b\" }}c", plain("abc")),
        ("{{ '}}' }}", plain("}}")),
        ("{{ 12 ~ (('a')) }}", plain("12a")),
        ("a {{- ' ' -}} b", plain("a b")),
        ("a {#- c }} -#} b{# #}", plain("ab")),
        ("{{ '\\u00e9\\n\\'' }}", plain("é\n'")),
        ("{% raw -%} {{ a }} {%- endraw %}", plain("{{ a }}")),
        (
            "a{{ header('b') ~ '' ~ 'c' }}d",
            vec![
                Node::Text("a".into()),
                print(Expression::Joined(vec![header("b"), text("c")])),
                Node::Text("d".into()),
            ],
        ),
        (
            "{{ substring(replace_with_string(header(\"a\"), 'b', 'c'), 1, 2) }}",
            vec![print(Expression::Part(
                Box::new(Expression::Call(Function::Replace, vec![header("a"), text("b"), text("c")])),
                1,
                Some(2),
            ))],
        ),
        ("{{ substring('a', 1) }}", vec![print(Expression::Part(Box::new(text("a")), 1, None))]),
        ("{{ body() }}", vec![print(Expression::Body)]),
        (
            "{{ a.b[0] }}",
            vec![print(Expression::Item(
                Box::new(Expression::Attribute(Box::new(Expression::Variable("a".into())), "b".into())),
                Box::new(Expression::Whole(0)),
            ))],
        ),
    ];
    for (template, expected) in cases {
        assert_eq!(parse(template).unwrap().nodes, expected, "{template:?}");
    }
}

#[test]
fn a_variable_that_nothing_sets_is_one_of_the_body() {
    let cases = [
        ("{{ a }}", Some("a")),
        ("{% set a = 1 %}{{ a }}", None),
        ("{% set a = a %}", Some("a")),
        ("{% if true %}{% set a = 1 %}{% endif %}{{ a }}", Some("a")),
        ("{% for a in [1] %}{{ a }}{{ loop.index }}{% endfor %}", None),
        ("{% for a in b %}{% endfor %}", Some("b")),
        ("{% for a in [1] %}{% else %}{{ a }}{% endfor %}", Some("a")),
        ("{{ loop }}", Some("loop")),
        ("{{ header('a') | upper }}", None),
        ("{{ [1, {'k': 2 if c.d else 3}] }}", Some("c")),
    ];
    for (template, expected) in cases {
        assert_eq!(parse(template).unwrap().reads_variables(), expected, "{template:?}");
    }
}

#[test]
fn what_is_not_served_is_refused_with_its_place_and_a_remedy() {
    let deep = "{{ ".to_owned() + &"(".repeat(1000) + "'a'" + &")".repeat(1000) + " }}";
    let calls = "{{ ".to_owned() + &"raw_string(".repeat(1000) + "'a'" + &")".repeat(1000) + " }}";
    let ifs = "{% if a %}".repeat(1000) + &"{% endif %}".repeat(1000);
    let chain = "{{ a".to_owned() + &" | upper".repeat(1000) + " }}";
    let many = "{{ a }}".repeat(4097);
    let sought = format!("{{{{ replace_with_string(header('a'), '{}', 'b') }}}}", "c".repeat(257));
    let cases = [
        ("a{{", "at character 2, {{ begins an expression that does not end"),
        ("é{{ header('a'", "at character 2, {{ begins"),
        ("{{ header('a) }}", "' begins a text that does not end"),
        ("{# a", "{# begins a comment that does not end"),
        ("{% if true %}a", "{% if %} begins a statement that does not end"),
        ("{% if true %}a{% else %}b", "end it with {% endif %}"),
        ("{% if true", "{% begins a statement that does not end"),
        ("{% raw %}a", "{% raw %} begins"),
        ("{% endif %}", "ends no statement"),
        ("{% if a %}{% endfor %}{% endif %}", "ends no statement"),
        ("{% macro a() %}{% endmacro %}", "the statement macro is not served"),
        ("{% include 'a' %}", "the statement include is not served"),
        ("{% frob %}", "there is no statement frob"),
        ("{% set a %}b{% endset %}", "takes one name, ="),
        ("{% set loop = 1 %}", "no name that a value can have"),
        ("{% for a b %}", "takes names and what to go through"),
        ("{% for a in b recursive %}{% endfor %}", "call themselves"),
        ("{% for a in b %}{{ loop.cycle('a') }}{% endfor %}", "loop.cycle is not served"),
        ("{{ connection.mtls }}", "attributes of connections"),
        ("{{ env('HOME') }}", "environment of the proxy"),
        ("{{ body(1) }}", "body() takes nothing"),
        ("{{ upper('a') }}", "no function upper()"),
        ("{{ 'a' | frob }}", "there is no filter frob"),
        ("{{ 'a' | safe }}", "there is no filter safe"),
        ("{{ 'a' | upper(1) }}", "upper does not take what it is given"),
        ("{{ 'a' | sort(by=1) }}", "sort takes nothing that is called by"),
        ("{{ 'a' | replace('b') }}", "replace is given too little"),
        ("{{ a | map('upper') }}", "map does not take"),
        ("{{ 'a' is frob }}", "there is no test frob"),
        ("{{ 1 < 2 < 3 }}", "a second comparison"),
        ("{{ a.items() }}", "no functions of their own"),
        ("{{ -a.b }}", "in parentheses"),
        ("{{ a[::-1] }}", "from 1 on"),
        ("{{ a[] }}", "says no place"),
        ("{{ (1, 2) }}", "[ ]"),
        ("{{ {1: 2} }}", "in quotes"),
        ("{{ }}", "something else"),
        ("{{ if }}", "something else"),
        ("{{ 1_0 }}", "no number that is served"),
        ("{{ 99999999999999999999 }}", "no number that is served"),
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
        (&ifs, "16 deep"),
        (&chain, "256 parts"),
        (&many, "4096 parts"),
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
                "1", "é", " ", "\n", "a", "\\u", "|", "%}", "if", "for", "in", "endif", "endfor", "else", "set", "=", "not", "is", ".",
                "[", "]", "{", "}", ":", "raw", "endraw", "+", "**", "1e", "."][..]).prop_map(str::to_owned),
            ".{0,3}",
        ],
        0..30,
    )) {
        let _ = parse(&parts.concat());
    }
}
