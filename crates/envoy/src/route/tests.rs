use std::{sync::Arc, time::Duration};

use ir::{
    filter::{Cors, HeaderChanges, Mirror, PathModifier, Redirect, Rewrite, Scheme},
    matching::{PathMatch, RequestMatch},
    rule::{Action, BodyContent, BodyFormat, Retry, Rule, SessionCarrier, SessionPersistence, Source, Timeouts},
};
use serde_json::{Value, json};

use super::{GuardedMatch, RouteAt, depends_on_listener};
use crate::bytes::{Row, Unreadable};
use crate::{
    json,
    testing::{
        pgv,
        samples::{self, CLUSTERS, forward, path, prefix, rule, share, source},
    },
};

const AT: RouteAt = RouteAt { scheme: Scheme::Http, port: 8080 };
const ROUTE: &str = "envoy.config.route.v3.Route";

fn route(source: &Source, request: &RequestMatch, rule: &Rule, at: RouteAt) -> Row {
    super::route(source, &GuardedMatch::new(request.clone()), rule, at).expect("readable")
}

fn built(request: &RequestMatch, rule: &Rule) -> Value {
    built_at(request, rule, AT)
}

fn built_at(request: &RequestMatch, rule: &Rule, at: RouteAt) -> Value {
    json::value(ROUTE, &route(&source(0), request, rule, at).bytes).expect("a route")
}

fn root() -> RequestMatch {
    path(PathMatch::Prefix("/".into()))
}

/// The part of a route action that is not the same for all.
fn action(rule: &Rule) -> Value {
    built(&root(), rule)["route"].clone()
}

fn list(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

#[test]
fn every_sample_keeps_the_rules_of_its_message_and_has_one_encoding() {
    let rules = samples::rules();
    let matches = samples::matches();
    for (index, rule) in rules.iter().enumerate() {
        for request in &matches {
            let source = source(index);
            let row = route(&source, request, rule, AT);
            let violations = pgv::violations(ROUTE, &row.bytes).expect("readable");
            assert_eq!(violations, [], "{request:?} {rule:?}");
            assert_eq!(route(&source, request, rule, AT), row);
        }
    }
    for rule in &rules {
        let first = route(&source(1), &matches[0], rule, AT);
        assert!((0..100).all(|_| route(&source(1), &matches[0], rule, AT) == first), "{rule:?}");
    }
}

#[test]
fn a_route_tells_once_where_it_came_from() {
    let sample = source(1);
    let built = json::value(ROUTE, &route(&sample, &root(), &forward(), AT).bytes).expect("a route");
    assert_eq!(built["name"], "apps/sample/1/1");
    assert_eq!(built["metadata"], Value::Null);
}

#[test]
fn matches_are_written_in_envoys_terms() {
    let written = |request: &RequestMatch| built(request, &forward())["match"].clone();
    assert_eq!(written(&path(PathMatch::Exact("/a".into()))), json!({"path": "/a"}));
    assert_eq!(written(&path(PathMatch::Segments("/a".into()))), json!({"pathSeparatedPrefix": "/a"}));
    assert_eq!(written(&path(PathMatch::Prefix("/a/".into()))), json!({"prefix": "/a/"}));
    assert_eq!(written(&path(PathMatch::Regex("/[ab]+".into()))), json!({"safeRegex": {"regex": "/[ab]+"}}));
    let every_kind = &samples::matches()[0];
    assert_eq!(
        written(every_kind),
        json!({
            "path": "/every/thing",
            "headers": [
                {"name": ":method", "stringMatch": {"exact": "PATCH"}},
                {"name": ":path", "stringMatch": {"prefix": "/every/thing"}},
                {"name": "version", "stringMatch": {"exact": "v1, v2"}},
                {"name": "x-user", "stringMatch": {"safeRegex": {"regex": "[a-z]{1,50}(%41)?"}}},
            ],
            "queryParameters": [
                {"name": "Q", "stringMatch": {"exact": "a b"}},
                {"name": "page", "stringMatch": {"safeRegex": {"regex": "\\d+"}}},
            ],
        })
    );
}

#[test]
fn a_rule_without_timeouts_has_none() {
    assert_eq!(action(&forward()), json!({"cluster": CLUSTERS[0], "timeout": "0s"}));
}

#[test]
fn timeouts_hold_for_the_request_and_for_each_try() {
    let ms = Duration::from_millis;
    let timeouts = |request, backend_request| {
        action(&Rule { timeouts: Timeouts { request, backend_request, stream_idle: None }, ..forward() })
    };
    let both = timeouts(Some(ms(1500)), Some(ms(200)));
    assert_eq!(both["timeout"], "1.500s");
    assert_eq!(both["retryPolicy"], json!({"perTryTimeout": "0.200s"}));
    assert_eq!(both["idleTimeout"], Value::Null, "a short timeout leaves silence to the listener");
    assert_eq!(timeouts(None, Some(ms(200)))["timeout"], "0s");
    assert_eq!(timeouts(Some(Duration::from_mins(10)), None)["idleTimeout"], "605s");
    let off = timeouts(Some(Duration::ZERO), Some(Duration::ZERO));
    assert_eq!((&off["timeout"], &off["idleTimeout"]), (&json!("0s"), &json!("0s")));
    assert_eq!(off["retryPolicy"], Value::Null);
}

#[test]
fn retries_cover_connection_errors_and_the_given_codes() {
    let retry = |codes: &[u16], attempts, backoff| {
        action(&Rule { retry: Some(Retry::gateway_api(codes.into(), attempts, backoff)), ..forward() })["retryPolicy"]
            .clone()
    };
    let plain = retry(&[], None, None);
    assert_eq!(plain["retryOn"], "connect-failure,refused-stream,reset");
    assert_eq!(plain["numRetries"], 1);
    assert_eq!(plain["retryBackOff"], Value::Null);
    let full = retry(&[500, 503], Some(3), Some(Duration::from_millis(100)));
    assert_eq!(full["retryOn"], "connect-failure,refused-stream,reset,retriable-status-codes");
    assert_eq!(full["retriableStatusCodes"], json!([500, 503]));
    assert_eq!(full["numRetries"], 3);
    assert_eq!(full["retryBackOff"], json!({"baseInterval": "0.200s", "maxInterval": "2s"}));
}

#[test]
fn shares_without_weight_get_no_entry_and_broken_ones_answer_500() {
    let shares = vec![share(Some(CLUSTERS[0]), 1), share(Some(CLUSTERS[1]), 0), share(None, 2)];
    let built = action(&rule(Action::Forward(shares)));
    assert_eq!(built["clusterNotFoundResponseCode"], "INTERNAL_SERVER_ERROR");
    assert_eq!(
        built["weightedClusters"]["clusters"],
        json!([{"name": CLUSTERS[0], "weight": 1}, {"name": "broken", "weight": 2}])
    );
}

#[test]
fn a_rule_with_nothing_but_broken_shares_answers_500() {
    for shares in [vec![], vec![share(None, 1)], vec![share(None, 1), share(Some(CLUSTERS[0]), 0)]] {
        let built = built(&root(), &rule(Action::Forward(shares)));
        assert_eq!(built["directResponse"], json!({"status": 500}));
        assert_eq!(built["route"], Value::Null);
    }
}

#[test]
fn changes_of_a_share_come_after_those_of_its_rule() {
    let pair = |name: &str, value: &str| (Arc::from(name), Arc::from(value));
    let mut filtered = share(Some(CLUSTERS[0]), 1);
    let of_share =
        HeaderChanges { set: vec![pair("both", "share")], add: vec![pair("added", "share")], remove: list(&["gone"]) };
    filtered.request_headers = of_share.into();
    let mut rule = rule(Action::Forward(vec![filtered, share(Some(CLUSTERS[1]), 1)]));
    let of_rule = HeaderChanges {
        set: vec![pair("both", "rule"), pair("gone", "rule"), pair("own", "rule")],
        add: vec![pair("added", "rule")],
        remove: list(&["removed"]),
    };
    rule.filters.request_headers = of_rule.into();
    rule.filters.response_headers = HeaderChanges { remove: list(&["server"]), ..HeaderChanges::default() }.into();
    let built = built(&root(), &rule);
    assert_eq!(built["requestHeadersToAdd"], Value::Null);
    assert_eq!(built["responseHeadersToRemove"], json!(["server"]), "no share changes responses");
    let clusters = &built["route"]["weightedClusters"]["clusters"];
    let added = |share: usize| -> Vec<String> {
        let headers = clusters[share]["requestHeadersToAdd"].as_array().expect("headers");
        headers
            .iter()
            .map(|h| {
                format!(
                    "{}={}",
                    h["header"]["key"].as_str().expect("text"),
                    h["header"]["value"].as_str().expect("text")
                )
            })
            .collect()
    };
    assert_eq!(added(0), ["own=rule", "both=share", "added=rule", "added=share"]);
    assert_eq!(clusters[0]["requestHeadersToRemove"], json!(["removed", "gone"]));
    assert_eq!(added(1), ["both=rule", "gone=rule", "own=rule", "added=rule"]);
}

#[test]
fn header_values_are_literal() {
    let mut rule = forward();
    let (set, add) = (vec![("a".into(), "50% %REQ(x)%".into())], vec![("b".into(), "".into())]);
    rule.filters.request_headers = HeaderChanges { set, add, ..HeaderChanges::default() }.into();
    assert_eq!(
        built(&root(), &rule)["requestHeadersToAdd"],
        json!([
            {"header": {"key": "a", "value": "50%% %%REQ(x)%%"}, "appendAction": "OVERWRITE_IF_EXISTS_OR_ADD"},
            {"header": {"key": "b"}, "keepEmptyValue": true},
        ])
    );
}

/// What Envoy makes of a path: tells prefix rewrites by the matched text, and regular expressions by themselves.
fn rewritten(request: &RequestMatch, action: &Value, path: &str) -> String {
    if let Some(replacement) = action["prefixRewrite"].as_str() {
        let matched = match &request.path {
            PathMatch::Exact(text) | PathMatch::Segments(text) | PathMatch::Prefix(text) => text,
            PathMatch::Regex(_) => panic!("a regular expression has no prefix"),
        };
        format!("{replacement}{}", path.strip_prefix(&**matched).expect("the match fits the path"))
    } else if let Some(pattern) = action["regexRewrite"]["pattern"]["regex"].as_str() {
        let pattern = regex_lite::Regex::new(pattern).expect("a pattern");
        let substitution = action["regexRewrite"]["substitution"].as_str().unwrap_or_default().replace("\\\\", "\\");
        pattern.replace_all(path, regex_lite::NoExpand(&substitution)).into_owned()
    } else {
        path.to_owned()
    }
}

fn fits(request: &RequestMatch, path: &str) -> bool {
    match &request.path {
        PathMatch::Exact(text) => path == &**text,
        PathMatch::Segments(text) => path == &**text || path.starts_with(&format!("{text}/")),
        PathMatch::Prefix(text) => path.starts_with(&**text),
        PathMatch::Regex(_) => false,
    }
}

#[test]
fn a_replaced_prefix_follows_the_formula_for_rewrites_and_redirects() {
    let table = [
        ("/foo", "/xyz", "/foo/bar", "/xyz/bar"),
        ("/foo", "/xyz/", "/foo/bar", "/xyz/bar"),
        ("/foo/", "/xyz", "/foo/bar", "/xyz/bar"),
        ("/foo/", "/xyz/", "/foo/bar", "/xyz/bar"),
        ("/foo", "/xyz", "/foo", "/xyz"),
        ("/foo", "/xyz", "/foo/", "/xyz/"),
        ("/foo/", "/xyz", "/foo", "/xyz"),
        ("/foo/", "/xyz", "/foo/", "/xyz/"),
        ("/foo", "", "/foo/bar", "/bar"),
        ("/foo", "", "/foo/", "/"),
        ("/foo", "", "/foo", "/"),
        ("/foo", "/", "/foo/", "/"),
        ("/foo", "/", "/foo", "/"),
        ("/foo/", "/", "/foo/bar", "/bar"),
        ("/foo/", "/", "/foo/", "/"),
        ("/foo/", "/", "/foo", "/"),
        ("/", "/app", "/x", "/app/x"),
        ("/", "/app/", "/x", "/app/x"),
        ("/", "/app", "/", "/app/"),
        ("/", "/", "/x", "/x"),
        ("/f.o+(x)[y]{2}^$|?", "/", "/f.o+(x)[y]{2}^$|?/a", "/a"),
        ("/foo", "/a\\1$0", "/foo/bar", "/a\\1$0/bar"),
    ];
    for (text, replacement, from, to) in table {
        let requests = prefix(text);
        let request = requests.iter().find(|request| fits(request, from)).expect("one match fits");
        let modifier = PathModifier::Prefix(replacement.into());
        let mut rule = forward();
        rule.filters.rewrite = Rewrite { hostname: None, path: Some(modifier.clone()) };
        assert_eq!(rewritten(request, &action_of(request, &rule), from), to, "{text} to {replacement}");
        let redirect = Redirect { scheme: None, hostname: None, port: None, path: Some(modifier), status: 302 };
        let redirect = built(request, &samples::rule(Action::Redirect(redirect)))["redirect"].clone();
        assert_eq!(rewritten(request, &redirect, from), to, "{text} to {replacement}");
    }
}

fn action_of(request: &RequestMatch, rule: &Rule) -> Value {
    built(request, rule)["route"].clone()
}

#[test]
fn a_prefix_to_replace_beside_a_match_that_has_none_answers_500() {
    let modifier = PathModifier::Prefix("/new".into());
    let redirect = Redirect { scheme: None, hostname: None, port: None, path: Some(modifier.clone()), status: 302 };
    let mut rewrite = forward();
    rewrite.filters.rewrite.path = Some(modifier);
    for request in [path(PathMatch::Exact("/a".into())), path(PathMatch::Regex("/a".into()))] {
        for rule in [&rewrite, &rule(Action::Redirect(redirect.clone()))] {
            assert_eq!(built(&request, rule)["directResponse"], json!({"status": 500}));
        }
    }
}

#[test]
fn a_full_path_is_literal() {
    let mut rule = forward();
    rule.filters.rewrite.path = Some(PathModifier::Full("/one\\2".into()));
    assert_eq!(action(&rule)["regexRewrite"], json!({"pattern": {"regex": "^.*$"}, "substitution": "/one\\\\2"}));
}

#[test]
fn the_port_of_a_redirect_follows_gateway_api() {
    use Scheme::{Http, Https};
    // Scheme and port of the redirect, scheme and port of the listener, port of the location.
    let table = [
        (None, None, (Http, 80), None),
        (None, None, (Http, 8080), Some(8080)),
        (None, None, (Https, 443), None),
        (None, None, (Https, 8443), Some(8443)),
        (None, None, (Http, 443), Some(443)),
        (Some(Https), None, (Http, 8080), None),
        (Some(Http), None, (Https, 8443), None),
        (Some(Https), None, (Https, 8443), None),
        (None, Some(80), (Http, 8080), None),
        (None, Some(80), (Https, 443), Some(80)),
        (Some(Https), Some(443), (Http, 80), None),
        (Some(Http), Some(443), (Http, 80), Some(443)),
        (Some(Https), Some(8443), (Http, 80), Some(8443)),
    ];
    for (scheme, port, (at_scheme, at_port), expected) in table {
        let redirect = Redirect { scheme, hostname: Some("a.example.com".into()), port, path: None, status: 301 };
        let at = RouteAt { scheme: at_scheme, port: at_port };
        let built = built_at(&root(), &rule(Action::Redirect(redirect)), at);
        assert_eq!(built["redirect"]["portRedirect"].as_u64(), expected, "{scheme:?} {port:?} at {at:?}");
    }
}

#[test]
fn only_redirects_differ_between_listeners() {
    let other = RouteAt { scheme: Scheme::Https, port: 8443 };
    for rule in samples::rules() {
        let differs = route(&source(0), &root(), &rule, AT) != route(&source(0), &root(), &rule, other);
        assert!(depends_on_listener(&rule) || !differs, "{rule:?}");
    }
    let redirect = Redirect { scheme: None, hostname: None, port: None, path: None, status: 302 };
    assert!(depends_on_listener(&rule(Action::Redirect(redirect))));
}

#[test]
fn mirrors_copy_the_share_that_is_asked_for() {
    let mut rule = forward();
    let fractions =
        [None, Some((50, 100)), Some((1, 8)), Some((1, 3)), Some((1, u32::MAX)), Some((0, 5)), Some((9, 3))];
    rule.filters.mirrors = fractions.map(|fraction| Mirror { cluster: CLUSTERS[1].into(), fraction }).into();
    let built = action(&rule);
    let fractions: Vec<_> = (0..fractions.len())
        .map(|index| {
            let mirror = &built["requestMirrorPolicies"][index];
            assert_eq!(mirror["disableShadowHostSuffixAppend"], true);
            let fraction = &mirror["runtimeFraction"]["defaultValue"];
            (fraction["numerator"].as_u64(), fraction["denominator"].as_str().map(str::to_owned))
        })
        .collect();
    let expected = [
        (None, None),
        (Some(50), None),
        (Some(1250), Some("TEN_THOUSAND".to_owned())),
        (Some(333_333), Some("MILLION".to_owned())),
        (Some(1), Some("MILLION".to_owned())),
        (None, None),
        (Some(100), None),
    ];
    assert_eq!(fractions, expected);
}

fn cors(allow_origins: &[&str], allow_credentials: bool) -> Value {
    let mut rule = forward();
    rule.filters.cors = Some(Cors {
        allow_origins: list(allow_origins),
        allow_methods: list(&["GET", "PUT"]),
        allow_headers: list(&["*"]),
        expose_headers: list(&["*", "x-a"]),
        allow_credentials,
        max_age: None,
    });
    let mut policy = built(&root(), &rule)["typedPerFilterConfig"]["cors"].clone();
    policy.as_object_mut().expect("a policy").remove("@type");
    policy
}

#[test]
fn cors_is_configured_on_the_route() {
    assert_eq!(
        cors(&["https://a.example.com"], true),
        json!({
            "allowOriginStringMatch": [{"exact": "https://a.example.com"}],
            "allowMethods": "GET, PUT",
            "allowHeaders": "*",
            "exposeHeaders": "x-a",
            "allowCredentials": true,
            "maxAge": "5",
            "forwardNotMatchingPreflights": false,
        })
    );
    let anonymous = cors(&["*"], false);
    assert_eq!(anonymous["exposeHeaders"], "*, x-a");
    assert_eq!(anonymous["allowCredentials"], Value::Null);
}

#[test]
fn origins_match_by_label_and_port() {
    let allowed = |configured: &str, origin: &str| {
        let matcher = cors(&[configured], false)["allowOriginStringMatch"][0].clone();
        if let Some(exact) = matcher["exact"].as_str() {
            return exact == origin;
        }
        let pattern = matcher["safeRegex"]["regex"].as_str().expect("a pattern");
        regex_lite::Regex::new(&format!("^(?:{pattern})$")).expect("a pattern").is_match(origin)
    };
    for (configured, origin) in [
        ("*", "null"),
        ("https://a.com", "https://a.com"),
        ("https://a.com:443", "https://a.com"),
        ("http://A.com:80", "http://a.com"),
        ("https://*.a.com", "https://b.a.com"),
        ("https://*.a.com", "https://c.b.a.com"),
        ("https://*", "https://anything.at.all"),
        ("http://*.a.com:8080", "http://b.a.com:8080"),
    ] {
        assert!(allowed(configured, origin), "{origin} by {configured}");
    }
    for (configured, origin) in [
        ("https://a.com", "http://a.com"),
        ("https://a.com:80", "https://a.com"),
        ("https://*.a.com", "https://a.com"),
        ("https://*.a.com", "https://xa.com"),
        ("https://*.a.com", "https://b.axcom"),
        ("https://*.a.com", "https://b.a.com:444"),
        ("https://*.a.com", "https://evil.com/.a.com"),
        ("https://*", "https://a.com:8443"),
    ] {
        assert!(!allowed(configured, origin), "{origin} by {configured}");
    }
}

#[test]
fn a_session_is_kept_by_cookie_or_header() {
    let state = |carrier| {
        let rule = Rule { session: Some(SessionPersistence { carrier }), ..forward() };
        let config = &built(&root(), &rule)["typedPerFilterConfig"]["envoy.filters.http.stateful_session"];
        config["statefulSession"]["sessionState"]["typedConfig"].clone()
    };
    let cookie = |ttl| state(SessionCarrier::Cookie { name: Some("s".into()), path: "/p".into(), ttl });
    assert_eq!(cookie(None)["cookie"], json!({"name": "s", "path": "/p"}));
    assert_eq!(cookie(Some(Duration::from_mins(1)))["cookie"]["ttl"], "60s");
    assert_eq!(state(SessionCarrier::Header { name: "x-s".into() })["name"], "x-s");
}

#[test]
fn a_route_that_envoy_could_not_read_is_none() {
    let answer = |levels: usize| {
        let json = format!("{}0{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let format = BodyFormat { content: BodyContent::Json(json.into()), content_type: None };
        super::route(&source(0), &GuardedMatch::new(root()), &rule(Action::Formatted { status: 200, format }), AT)
    };
    assert!(answer(30).is_ok());
    assert_eq!(answer(33), Err(Unreadable::Nested));
    let long = Action::DirectResponse { status: 200, body: "a".repeat(1 << 20).into() };
    assert!(matches!(
        super::route(&source(0), &GuardedMatch::new(root()), &rule(long), AT),
        Err(Unreadable::Long { .. })
    ));
}

#[test]
fn the_cookie_of_a_rule_that_names_none_is_its_own() {
    let carrier = SessionCarrier::Cookie { name: None, path: "/".into(), ttl: None };
    let rule = Rule { session: Some(SessionPersistence { carrier }), ..forward() };
    let name = |source: &Source| {
        let built = json::value(ROUTE, &route(source, &root(), &rule, AT).bytes).expect("a route");
        let config = &built["typedPerFilterConfig"]["envoy.filters.http.stateful_session"];
        let cookie = &config["statefulSession"]["sessionState"]["typedConfig"]["cookie"];
        cookie["name"].as_str().expect("a name").to_owned()
    };
    let first = source(0);
    let others = [
        Source { rule: 1, ..first.clone() },
        Source { rule_name: Some("0".into()), ..first.clone() },
        Source { route: ir::RouteId::http("other", first.route.name.name.clone()), ..first.clone() },
    ];
    assert_eq!(name(&first), name(&Source { matching: 7, part: 1, ..first.clone() }), "of the rule, not of the match");
    assert!(others.iter().all(|other| name(other) != name(&first)));
    let named = |rule| Source { rule, rule_name: Some("cart".into()), ..first.clone() };
    assert_eq!(name(&named(0)), name(&named(1)), "a name is kept wherever its rule stands");
    assert_eq!(name(&first), "portcullis-session-ed22d848de658542", "the same in every build");
}
