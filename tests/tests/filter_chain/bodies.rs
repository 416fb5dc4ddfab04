//! What templates make of bodies, held against `MiniJinja` itself, and what becomes of bodies on their way.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, ensure};
use minijinja::Environment;
use portcullis_tests::client::{Connection, Protocol, Request, Target, send};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use worlds::Draws;

use super::guards::policy;
use super::{HOST, route};

/// Templates of which those are served that `MiniJinja` makes something of, all at once.
const TEMPLATES: usize = 800;
/// Bodies that each of them gets.
const BODIES: usize = 4;
/// As Gateway API has it, of a route.
const MOST_RULES: usize = 16;

const NAMES: [&str; 6] = ["a", "b", "c", "xs", "m", "s"];
const TEXTS: [&str; 10] = ["", "a", "A", "Hello World", "x,y,z", " pad ", "é", "5", "<&>'\"", "ab ab"];

/// JSON whose objects have the names that templates read.
fn json_value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        select(vec![json!(null), json!(true), json!(false)]),
        select(vec![0, 1, 2, -1, 5, -7, 1_234_567]).prop_map(Value::from),
        select(vec![json!(0.5), json!(1.0), json!(-2.5), json!(1.0e15), json!(1.5e-7)]),
        select(TEXTS.to_vec()).prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(3, 12, 4, |inner| {
        let key = select(NAMES.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..4).prop_map(|map| json!(map)),
        ]
    });
    value.boxed()
}

fn body() -> BoxedStrategy<Value> {
    let name = select(NAMES.to_vec()).prop_map(str::to_owned);
    proptest::collection::btree_map(name, json_value(), 3..6).prop_map(|map: BTreeMap<_, _>| json!(map)).boxed()
}

fn expression() -> BoxedStrategy<String> {
    let name = || select([&NAMES[..], &["x", "q"]].concat());
    let literals =
        ["1", "2", "0", "1.5", "'a'", "''", "\"x,y\"", "true", "none", "[]", "[1, 2]", "['b', 'A']", "{'a': 1}"];
    let leaf = prop_oneof![
        4 => name().prop_map(str::to_owned),
        2 => select(literals.to_vec()).prop_map(str::to_owned),
        2 => (name(), select(NAMES.to_vec())).prop_map(|(one, part)| format!("{one}.{part}")),
        1 => (name(), select(vec!["0", "-1", "'a'", "5"])).prop_map(|(one, place)| format!("{one}[{place}]")),
    ];
    // No count that a text would be repeated by too often.
    let operators = ["+", "-", "* 2 +", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in"];
    let filters = [
        "upper",
        "lower",
        "title",
        "capitalize",
        "trim",
        "length",
        "string",
        "int",
        "float",
        "abs",
        "round",
        "first",
        "last",
        "sort",
        "unique",
        "list",
        "join",
        "min",
        "max",
        "sum",
        "tojson",
        "bool",
        "count",
        "d",
        "items",
        "dictsort",
        "join(', ')",
        "replace('a', 'bb')",
        "default('z')",
        "default('q', true)",
        "split(',') | list",
        "split | list",
        "round(1)",
        "sort(reverse=true)",
        "sort(case_sensitive=true)",
        "sort(attribute='a')",
        "map(attribute='a')",
        "map(attribute='b', default=7)",
        "unique(case_sensitive=true)",
        "trim('a ')",
        "dictsort(by='value')",
    ];
    let tests = [
        "defined",
        "undefined",
        "none",
        "string",
        "number",
        "integer",
        "float",
        "boolean",
        "mapping",
        "sequence",
        "iterable",
        "odd",
        "even",
        "divisibleby(2)",
        "startingwith('a')",
        "endingwith 'c'",
        "eq 1",
        "in([1, 'a'])",
        "true",
        "false",
        "not none",
    ];
    let any = leaf.prop_recursive(3, 6, 3, move |inner| {
        let of = inner.clone().prop_map(|inner| format!("({inner})")).boxed();
        prop_oneof![
            3 => (of.clone(), select(operators.to_vec()), of.clone()).prop_map(|(a, sign, b)| format!("{a} {sign} {b}")),
            // MiniJinja makes a boolean of two that are written out.
            1 => (of.clone(), select(vec!["and", "or"]), select(NAMES.to_vec()))
                .prop_map(|(a, sign, name)| format!("{a} {sign} {name}")),
            4 => (of.clone(), select(filters.to_vec())).prop_map(|(one, filter)| format!("{one} | {filter}")),
            2 => (of.clone(), select(tests.to_vec())).prop_map(|(one, test)| format!("{one} is {test}")),
            1 => (of.clone(), of.clone(), of.clone()).prop_map(|(a, b, c)| format!("{a} if {b} else {c}")),
            1 => (of.clone(), select(vec!["1:", "0:2", ":-1", "-2:", "::2"])).prop_map(|(one, part)| format!("{one}[{part}]")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            1 => inner.clone().prop_map(|one| format!("{{'k': {one}}}")),
            1 => of.prop_map(|one| format!("not {one}")),
        ]
    });
    // No parenthesised condition begins where another one is expected.
    any.prop_map(|any| format!("({any})")).boxed()
}

fn template() -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        1 => select(vec!["text", " ", "\n", "a{b", "{# c #}", "{% raw %}{{ a }}{% endraw %}"]).prop_map(str::to_owned),
        4 => (select(vec!["{{", "{{-"]), expression(), select(vec!["}}", "-}}"])).prop_map(|(a, b, c)| format!("{a} {b} {c}")),
        1 => (select(vec!["a", "q", "x"]), expression()).prop_map(|(name, value)| format!("{{% set {name} = {value} %}}")),
    ];
    let said = [
        "",
        "{{ loop.index }}",
        "{{ loop.first }}{{ loop.last }}",
        "{{ loop.length }}",
        "{{ x }}",
        "{{ loop.revindex0 }}",
    ];
    let node = leaf.prop_recursive(2, 6, 3, move |inner| {
        let some = proptest::collection::vec(inner, 0..3).prop_map(|nodes| nodes.concat()).boxed();
        let head = select(vec!["x in", "x, y in"]);
        let only = prop_oneof![3 => Just(String::new()), 1 => expression().prop_map(|only| format!(" if {only}"))];
        prop_oneof![
            (expression(), some.clone(), expression(), some.clone(), some.clone()).prop_map(|(a, b, c, d, e)| {
                format!("{{% if {a} %}}{b}{{%- elif {c} %}}{d}{{% else -%}}{e}{{% endif %}}")
            }),
            (head, expression(), only, select(said.to_vec()), some.clone(), some).prop_map(
                |(a, b, only, said, c, d)| {
                    format!("{{% for {a} {b}{only} %}}{said}{c}{{% else %}}{d}{{% endfor %}}")
                }
            ),
        ]
    });
    proptest::collection::vec(node, 1..3).prop_map(|nodes| nodes.concat()).boxed()
}

/// What `MiniJinja` makes; none where it finds an error, or shows what it would go through as no value.
fn reference(template: &str, body: &Value) -> Option<String> {
    let environment = Environment::new();
    let variables: HashMap<&str, minijinja::Value> = body
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (&**name, minijinja::Value::from_serialize(value)))
        .collect();
    let made = environment.render_str(template, variables).ok()?;
    (!made.contains("<iterator>")).then_some(made)
}

/// A rule for each template, which makes the body that a backend gets.
fn manifests(templates: &[String]) -> String {
    let mut manifests = String::new();
    for (route, templates) in templates.chunks(MOST_RULES).enumerate() {
        let rule = |(rule, _): (usize, &String)| {
            let path = json!({"path": {"type": "Exact", "value": format!("/{route}/{rule}")}});
            json!({"name": format!("r{rule}"), "matches": [path], "backendRefs": [{"name": "backend", "port": 80}]})
        };
        let object = json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"namespace": "infra", "name": format!("route-{route}")},
            "spec": {
                "parentRefs": [{"name": "gateway"}],
                "hostnames": [HOST],
                "rules": templates.iter().enumerate().map(rule).collect::<Vec<_>>(),
            },
        });
        manifests.extend(["---\n", &object.to_string(), "\n"]);
        for (rule, template) in templates.iter().enumerate() {
            let target = json!({
                "group": "gateway.networking.k8s.io",
                "kind": "HTTPRoute",
                "name": format!("route-{route}"),
                "sectionName": format!("r{rule}"),
            });
            let body = json!({"parseAs": "AsJson", "value": template});
            let object = json!({
                "apiVersion": "gateway.kgateway.dev/v1alpha1",
                "kind": "TrafficPolicy",
                "metadata": {"namespace": "infra", "name": format!("template-{route}-{rule}")},
                "spec": {"targetRefs": [target], "transformation": {"request": {"body": body}}},
            });
            manifests.extend(["---\n", &object.to_string(), "\n"]);
        }
    }
    manifests
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_make_of_json_what_mini_jinja_makes() -> Result<()> {
    let drawn = Draws::new().take(&(template(), proptest::collection::vec(body(), BODIES)), TEMPLATES);
    let drawn = drawn.iter().map(ValueTree::current);
    let cases: Vec<(String, Vec<Value>)> = drawn
        // What comes of it is quoted, so that it is never nothing.
        .map(|(template, bodies)| (format!("<{template}>"), bodies))
        .filter(|(template, bodies)| bodies.iter().any(|body| reference(template, body).is_some()))
        .collect();
    let templates: Vec<_> = cases.iter().map(|(template, _)| template.clone()).collect();

    let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let port = ports::free_port()?;
    let files = [
        ("a-gateway.yaml", objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")])),
        ("b-backend.yaml", objects::service("backend", &echo)),
        ("routes.yaml", manifests(&templates)),
    ];
    let portcullis = Portcullis::start(&files.map(|(name, content)| (name.to_owned(), content))).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let target = Target::local(port);
    let request = |index: usize, body: &Value| {
        let path = format!("/{}/{}", index / MOST_RULES, index % MOST_RULES);
        Request { method: "POST".into(), body: body.to_string(), ..Request::get(HOST, &path) }
    };
    eventually(TIMEOUT, async || {
        let response = send(&target, &request(templates.len() - 1, &json!({"a": 1}))).await?;
        ensure!(response.status != 404 && response.status != 503, "{}", response.status);
        Ok(())
    })
    .await
    .with_context(|| portcullis.log_tail())?;

    let mut different = Vec::new();
    let mut compared = 0;
    for (index, (template, bodies)) in cases.iter().enumerate() {
        for body in bodies {
            let Some(expected) = reference(template, body) else { continue };
            let response = send(&target, &request(index, body)).await?;
            compared += 1;
            let made = response.echoed.as_ref().map(|echoed| &*echoed.body);
            if made != Some(&expected) {
                different.push(format!("{template}\n  of {body}\n  {}: {made:?}\n  not {expected:?}", response.status));
            }
        }
    }
    println!("{compared} bodies of {} templates compared", cases.len());
    ensure!(compared > TEMPLATES / 2, "only {compared} could be compared");
    ensure!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
    envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_come_in_pieces_over_connections_from_before_are_changed_as_a_whole() -> Result<()> {
    let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let port = ports::free_port()?;
    let files = [
        ("a-gateway.yaml", objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")])),
        ("b-backend.yaml", objects::service("backend", &echo)),
        ("policy.yaml", String::new()),
        ("route.yaml", route("")),
    ];
    let portcullis = Portcullis::start(&files.map(|(name, content)| (name.to_owned(), content))).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let target = Target::local(port);
    let post = |body: &str| Request { method: "POST".into(), body: body.into(), ..Request::get(HOST, "/") };
    eventually(TIMEOUT, async || {
        ensure!(send(&target, &post("{}")).await?.status == 200);
        Ok(())
    })
    .await
    .with_context(|| portcullis.log_tail())?;
    let mut before = Connection::open(&target).await?;
    let mut over_h2 = Connection::open(&Target { protocol: Protocol::H2, ..target.clone() }).await?;
    ensure!(before.send(&post("{}")).await?.echoed.is_some_and(|echoed| echoed.body == "{}"));

    let template = "transformation: {request: {body: {parseAs: AsJson, value: '{{ name | upper }}'}}}";
    portcullis.write("policy.yaml", &policy(template))?;
    eventually(TIMEOUT, async || {
        let echoed = send(&target, &post(r#"{"name": "new"}"#)).await?.echoed;
        ensure!(echoed.is_some_and(|echoed| echoed.body == "NEW"));
        Ok(())
    })
    .await
    .with_context(|| portcullis.log_tail())?;
    for connection in [&mut before, &mut over_h2] {
        let response = connection.send(&post(r#"{"name": "old connection"}"#)).await?;
        ensure!(response.echoed.is_some_and(|echoed| echoed.body == "OLD CONNECTION"), "{}", response.status);
    }

    let mut stream = tokio::net::TcpStream::connect(target.address).await?;
    let head = format!("POST / HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n");
    for piece in [&*head, "8\r\n{\"name\":\r\n", "7\r\n \"two\"}\r\n", "0\r\n\r\n"] {
        stream.write_all(piece.as_bytes()).await?;
        stream.flush().await?;
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.contains(r#""body": "TWO""#), "{answer}");
    envoy.check().await
}
