//! What expressions may say.

use proptest::prelude::*;

use super::*;

fn accepts(text: &str, usage: Use) -> Result<Costs, Invalid> {
    parse(text).and_then(|expression| check(text, &expression, usage))
}

#[test]
fn an_expression_is_read_by_the_strength_of_its_operators() {
    let name = |name: &str| Expression::Name(name.into());
    let operator = |function, parts: &[Expression]| Expression::Operator(function, parts.to_vec());
    let (a, b, c) = (name("a"), name("b"), name("c"));
    let not_a = operator("!_", std::slice::from_ref(&a));
    for (text, expected) in [
        ("a || b && c", Expression::Any(vec![a.clone(), Expression::All(vec![b.clone(), c.clone()])])),
        ("(a || b) && c", Expression::All(vec![Expression::Any(vec![a.clone(), b.clone()]), c.clone()])),
        ("a - b - c", operator("_-_", &[operator("_-_", &[a.clone(), b.clone()]), c.clone()])),
        (
            "a + b * c == c",
            operator("_==_", &[operator("_+_", &[a.clone(), operator("_*_", &[b.clone(), c.clone()])]), c.clone()]),
        ),
        (
            "a ? b : c ? a : b",
            operator("_?_:_", &[a.clone(), b.clone(), operator("_?_:_", &[c.clone(), a.clone(), b.clone()])]),
        ),
        ("!a in [b,c,]", operator("@in", &[not_a, Expression::List(vec![b.clone(), c.clone()])])),
        (
            "a.b['x'] // said",
            Expression::Index(
                Box::new(Expression::Field(Box::new(a.clone()), "b".into())),
                Box::new(Expression::Literal(Literal::String("x".into()))),
            ),
        ),
        ("has(a.b)", Expression::Has(Box::new(a.clone()), "b".into())),
        ("-1", Expression::Literal(Literal::Int(-1))),
        ("0x1fu", Expression::Literal(Literal::Uint(31))),
        ("1e3", Expression::Literal(Literal::Double(1000.0))),
        (r#""\u00e9\x41\101\n" "#, Expression::Literal(Literal::String("éAA\n".into()))),
        (r"r'\d'", Expression::Literal(Literal::String(r"\d".into()))),
        (r"b'\xff'", Expression::Literal(Literal::Bytes(vec![0xff]))),
        ("'''a\n'b'''", Expression::Literal(Literal::String("a\n'b".into()))),
    ] {
        assert_eq!(parse(text).as_ref(), Ok(&expected), "{text}");
    }
}

#[test]
fn what_envoy_evaluates_is_accepted() {
    for text in [
        "request.path.startsWith('/a') || request.method in ['GET', 'HEAD']",
        "request.headers['x-team'] == 'a' && !('x-debug' in request.headers)",
        "request.headers.host != 'a' && has(request.referer)",
        "source.address.startsWith('10.') && source.port > 1024",
        "request.time.getHours() >= 8 && request.time < timestamp('2030-01-31T00:00:00Z')",
        "matches(request.url_path, '^/[a-z]+$') && request.query.matches('a=1')",
        "metadata.filter_metadata['envoy.filters.http.jwt_authn'].payload.team == 'a'",
        "connection.requested_server_name == 'a' ? connection.mtls : true",
        "size(request.headers) < 10 && int(request.headers['n']) + 1 < 5 && request.size < 100",
        "duration('1h') > duration('30m')",
        "true",
    ] {
        accepts(text, Use::Allow).unwrap_or_else(|refused| panic!("{refused}"));
    }
    let costs = Costs { patterns: vec!["a+".to_owned()], searches: 1 };
    assert_eq!(accepts("request.path.matches('a+') || request.path.contains('a')", Use::Allow), Ok(costs));
}

#[test]
fn what_envoy_refuses_or_could_never_evaluate_is_refused_by_name() {
    for (text, words) in [
        ("", "ends where something is missing"),
        ("a b", "b stands where it cannot"),
        ("request.path ==", "ends where"),
        ("request.path == 'a", "does not end"),
        ("request.path == 'a' &", "means nothing"),
        ("request.path = 'a'", "means nothing"),
        ("99999999999999999999 == 1", "64 bits"),
        ("request.path == '\\q'", "backslash"),
        ("{'a': 1}['a'] == 1", "maps"),
        ("request.path.substring(1) == 'a'", "no function substring()"),
        ("request.path.lowerAscii() == 'a'", "no function lowerAscii()"),
        ("string(1) == '1'", "no function string()"),
        ("request.headers.exists(h, h == 'a')", "does not go through lists"),
        ("[1].all(x, true)", "does not go through lists"),
        ("[1].exists(request.path)", "does not go through lists"),
        ("request.body == ''", "request has no field body"),
        ("request.duration < duration('1s')", "request has no field duration"),
        ("response.code == 200", "nothing of a request is named response"),
        ("xds.route_name == 'a'", "nothing of a request is named xds"),
        ("request == 1", "request is no value by itself"),
        ("request.path", "does not say whether"),
        ("request.path == 1", "two types"),
        ("request.path && true", "stand between"),
        ("request.path + 'a' == 'b'", "does not join texts"),
        ("request.path.matches('(')", "("),
        ("request.path.matches('[a-z]{1,50}')", "no more than 100 instructions"),
        (r"request.path.matches('\\p{Greek}')", "outside ASCII"),
        ("request.path.matches('(?i)a')", "does not ignore case"),
        ("request.path.matches(request.query)", "written out"),
        ("request.path.startsWith()", "does not take"),
        ("request.path.contains(request.query)", "written out"),
        (&format!("request.path.contains('{}')", "a".repeat(257)), "256 bytes"),
        ("request.headers[1] == 'a'", "no key"),
        ("request.time.getHours('Europe/Berlin') == 1", "time zones"),
        ("timestamp('soon') < request.time", "no time"),
        ("duration('soon') < duration('1s')", "duration"),
        ("[1, 'a'] == [1]", "several types"),
        ("has(request)", "has() asks"),
        ("has(request.body)", "no field body"),
        ("for == 1", "keeps the word"),
        ("request.path == null", "two types"),
    ] {
        let refused = accepts(text, Use::Allow).expect_err(text).to_string();
        assert!(refused.contains(words), "{text}: {refused}");
    }
}

#[test]
fn what_keeps_requests_out_lets_none_through_that_it_cannot_judge() {
    for text in [
        "request.headers['x-team'] == 'a'",
        "request.path.startsWith('/a') && request.headers.agent.contains('bot')",
        "!(request.headers['x-team'] != 'a')",
        "!('x-team' in request.headers) || request.headers['X-Team'] != 'a'",
        "has(request.referer) && request.referer != 'a'",
        "!has(request.referer) || !request.referer.startsWith('https://a')",
        "'x' in request.headers ? request.headers['x'] != 'a' : true",
        "request.method != 'GET'",
        "!request.path.startsWith('/public')",
        "request.headers['x'] in ['a', 'b']",
        "!(source.address.startsWith('10.'))",
        "metadata.filter_metadata['a'].b == 'c'",
    ] {
        accepts(text, Use::Deny).unwrap_or_else(|refused| panic!("{refused}"));
    }
    for text in [
        "request.headers['x-team'] != 'a'",
        "!(request.headers['x-team'] == 'a')",
        "!request.headers['x-team'].startsWith('a')",
        "request.referer != 'a'",
        "!('x-other' in request.headers) || request.headers['x-team'] != 'a'",
        "(request.headers['x'] == 'a') == false",
        "request.headers['x'] == 'a' ? false : true",
        "!(request.headers['x'] == 'a' && request.method == 'GET')",
        "metadata.filter_metadata['a'].b != 'c'",
        "!metadata.filter_metadata['a'].b",
        "int(request.headers['n']) > 5",
        "size(request.path) / size(request.query) > 5",
        "[request.headers['x'] == 'a'][0] == false",
        "int('abc') == 5",
        "1 / 0 == 1",
        "request.headers['x'].matches('^evil.*$')",
        "request.query.matches('a=[^&]')",
        "request.path.matches(r'/\\S/')",
        "request.headers[request.query] != 'a'",
        "connection.tls_version != 'TLSv1.3'",
    ] {
        let refused = accepts(text, Use::Deny).expect_err(text).to_string();
        assert!(refused.contains("would be let through"), "{text}: {refused}");
        accepts(text, Use::Allow).unwrap_or_else(|refused| panic!("{refused}"));
    }
}

#[test]
fn what_is_long_deep_or_large_is_refused_before_it_costs() {
    let cases = [
        ("a".repeat(MAX_LENGTH + 1), "bytes"),
        ("(".repeat(64 << 10), "bytes"),
        ("(".repeat(1_000) + "true" + &")".repeat(1_000), "deep"),
        ("!".repeat(1_000) + "true", "deep"),
        ("-".repeat(1_000) + "1", "deep"),
        ("[".repeat(1_000), "deep"),
        ("a.".repeat(1_000) + "b", "deep"),
        ("a".to_owned() + &"[0]".repeat(1_000), "deep"),
        ("1".to_owned() + &"+1".repeat(1_000), "deep"),
        ("true ? true : ".repeat(500) + "true", "deep"),
        ("true".to_owned() + &"||true".repeat(1_000), "parts"),
        ("[".to_owned() + &"1,".repeat(1_000) + "]", "parts"),
    ];
    for (text, words) in cases {
        let refused = parse(&text).expect_err(&text).to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let long = "true".to_owned() + &"||true".repeat(200);
    assert_eq!(parse(&long).expect("a chain").count(), 401);
}

proptest! {
    #[test]
    fn whatever_is_written_is_judged(text in "\\PC{0,40}|[a-z.()\\[\\]!&|='\"\\\\0-9 ?:+-]{0,60}") {
        for usage in [Use::Allow, Use::Deny] {
            let _ = accepts(&text, usage);
        }
    }

    #[test]
    fn what_is_kept_out_could_be_let_through_too(text in "(!)?(request.headers\\['[a-c]'\\]|request.path|request.referer) (==|!=) '[a-c]'( (&&|\\|\\|) (!)?\\('[a-c]' in request.headers\\)){0,2}") {
        if accepts(&text, Use::Deny).is_ok() {
            prop_assert!(accepts(&text, Use::Allow).is_ok());
        }
    }
}
