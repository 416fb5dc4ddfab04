//! A wide table of values of the model, each of which Envoy must take.

use std::{sync::Arc, time::Duration};

use ir::{
    RouteId,
    filter::{
        Cors, Filters, HeaderChanges, HeaderModifier, Mirror, PathModifier, PrefixReplacement, Redirect, Rewrite,
        Scheme,
    },
    matching::{Condition, Grpc, PathMatch, RequestMatch, ValueMatch},
    rule::{
        Action, BodyContent, BodyFormat, PolicyFields, Retry, Rule, SessionCarrier, SessionPersistence, Source,
        Timeouts, WeightedBackend,
    },
};
use validate::format;

mod clusters;
mod listeners;
mod telemetry;

pub use clusters::{assignments, clusters, stream_clusters};
pub use listeners::{listeners, udp_listeners};

/// The clusters that [`rules`] forward to; any other name is a broken share.
pub const CLUSTERS: [&str; 3] = ["service/apps/one/80", "service/apps/two/8080", "service/apps/three/443"];

/// The source of the `index`th sample.
pub fn source(index: usize) -> Source {
    Source {
        route: RouteId::http("apps", "sample"),
        rule: u32::try_from(index).unwrap_or(u32::MAX),
        rule_name: (index % 2 == 1).then(|| "named".into()),
        matching: 1,
        part: u32::from(index % 3 == 2),
    }
}

/// A match of a path alone.
pub fn path(path: PathMatch) -> RequestMatch {
    RequestMatch {
        path,
        method: None,
        headers: vec![],
        queries: vec![],
        grpc: None,
        implied: false,
        host_with_port: false,
    }
}

/// The matches that a path prefix means.
pub fn prefix(prefix: &str) -> Vec<RequestMatch> {
    let matches = RequestMatch::prefix_paths(prefix).into_iter();
    matches.map(|(text, implied)| RequestMatch { implied, ..path(text) }).collect()
}

/// A share without changes of its own.
pub fn share(cluster: Option<&str>, weight: u32) -> WeightedBackend {
    WeightedBackend {
        weight,
        cluster: cluster.map(Into::into),
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
        hostname: None,
    }
}

/// A rule that does this and nothing else.
pub fn rule(action: Action) -> Rule {
    Rule {
        action,
        filters: Filters::default(),
        timeouts: Timeouts::default(),
        retry: None,
        session: None,
        slots: Vec::new(),
        by_policy: PolicyFields::default(),
    }
}

/// A rule that forwards to the first cluster.
pub fn forward() -> Rule {
    rule(Action::Forward(vec![share(Some(CLUSTERS[0]), 1)]))
}

/// Matches of every kind.
pub fn matches() -> Vec<RequestMatch> {
    let condition = |name: &str, value| Condition { name: name.into(), value };
    let exact = |text: &str| ValueMatch::Exact(text.into());
    let regex = |text: &str| ValueMatch::Regex(text.into());
    let everything = RequestMatch {
        method: Some("PATCH".into()),
        headers: vec![condition("version", exact("v1, v2")), condition("x-user", regex("[a-z]{1,50}(%41)?"))],
        queries: vec![condition("Q", exact("a b")), condition("page", regex("\\d+"))],
        ..path(PathMatch::Exact("/every/thing".into()))
    };
    let mut matches = vec![
        everything,
        RequestMatch {
            grpc: Some(Grpc { service: 9, method: 3 }),
            headers: vec![condition("version", exact("v1"))],
            ..path(PathMatch::Exact("/shop.Cart/Add".into()))
        },
        path(PathMatch::Exact("/".into())),
        path(PathMatch::Exact("/caf\u{e9}/%2f".into())),
        path(PathMatch::Regex("/orders/[a-z]{1,50}(/.*)?".into())),
    ];
    for text in ["/", "/a", "/a/", "/a.b+(c)", "/deep/er/path/", "/q%3F~:@!$&'*,;="] {
        matches.extend(prefix(text));
    }
    matches
}

/// Rules of every kind.
pub fn rules() -> Vec<Rule> {
    let filters = |filters: Filters| Rule { filters, ..forward() };
    let mut rules = vec![forward(), Rule::direct_response(500, ""), Rule::direct_response(404, "%no% \"such\" page\n")];
    rules.extend(formats().into_iter().map(|format| rule(Action::Formatted { status: 418, format })));
    rules.extend(shares().into_iter().map(|shares| rule(Action::Forward(shares))));
    rules.extend(redirects().into_iter().map(|redirect| rule(Action::Redirect(redirect))));
    rules.extend(rewrites().into_iter().map(|rewrite| filters(Filters { rewrite, ..Filters::default() })));
    rules.extend(cors().into_iter().map(|cors| filters(Filters { cors: Some(cors), ..Filters::default() })));
    rules.push(filters(Filters {
        request_headers: headers("request"),
        response_headers: headers("response"),
        mirrors: [None, Some((1, 2)), Some((1, 3)), Some((0, 7)), Some((1, u32::MAX))]
            .map(|fraction| Mirror { cluster: CLUSTERS[1].into(), fraction })
            .into(),
        ..Filters::default()
    }));
    rules.extend(times());
    rules.extend(
        sessions().into_iter().map(|carrier| Rule { session: Some(SessionPersistence { carrier }), ..forward() }),
    );
    rules
}

fn formats() -> Vec<BodyFormat> {
    let text = |text: &str| BodyContent::Text(text.into());
    let json = |text: &str| BodyContent::Json(text.into());
    // Every operator without a parameter that the checks let pass.
    let operators: Vec<_> = format::PLAIN.iter().map(|operator| format!("%{operator}%")).collect();
    let contents = [
        text("100%% of %REQ(:path)% %REQ(x-a?:authority):12%"),
        text(&operators.join(" ")),
        json(r#"{"a": null, "b": [1, 2.5, true, {"c": "%RESPONSE_CODE%"}], "d": {}}"#),
        json("{}"),
    ];
    let plain = contents.map(|content| BodyFormat { content, content_type: None });
    let typed = BodyFormat { content: text("<p>"), content_type: Some("text/html; charset=utf-8".into()) };
    plain.into_iter().chain([typed]).collect()
}

fn headers(tag: &str) -> HeaderModifier {
    let pair = |name: &str, value: &str| (Arc::from(name), Arc::from(value));
    let changes = HeaderChanges {
        set: vec![pair("x-set", tag), pair("x-format", "100% %REQ(x)% %%")],
        add: vec![pair("x-add", "a, \"b\""), pair("x-empty", "")],
        remove: vec!["x-remove".into()],
    };
    changes.into()
}

fn shares() -> Vec<Vec<WeightedBackend>> {
    let filtered = WeightedBackend {
        request_headers: headers("share"),
        response_headers: headers("share"),
        hostname: Some("share.example.com".into()),
        ..share(Some(CLUSTERS[1]), 3)
    };
    vec![
        vec![share(Some(CLUSTERS[0]), 1), share(Some(CLUSTERS[1]), 0), share(Some(CLUSTERS[2]), 9)],
        vec![share(Some(CLUSTERS[0]), u32::MAX)],
        vec![share(None, 1), share(Some(CLUSTERS[0]), 1), share(None, 2)],
        vec![share(None, 1)],
        vec![share(Some(CLUSTERS[0]), 0)],
        vec![filtered.clone()],
        vec![share(Some(CLUSTERS[0]), 1), filtered],
    ]
}

fn redirects() -> Vec<Redirect> {
    let plain = Redirect { scheme: None, hostname: None, port: None, path: None, status: 302 };
    let mut redirects: Vec<_> = [301, 302, 303, 307, 308].map(|status| Redirect { status, ..plain.clone() }).into();
    for scheme in [None, Some(Scheme::Http), Some(Scheme::Https)] {
        for port in [None, Some(80), Some(443), Some(65_535)] {
            let hostname = Some("other.example.com".into());
            redirects.push(Redirect { scheme, port, hostname, ..plain.clone() });
        }
    }
    redirects.extend(paths().into_iter().map(|path| Redirect { path: Some(path), ..plain.clone() }));
    redirects
}

fn rewrites() -> Vec<Rewrite> {
    let hostname = Some("rewritten.example.com".into());
    let paths = paths().into_iter().map(|path| Rewrite { hostname: None, path: Some(path) });
    paths.chain([Rewrite { hostname, path: None }]).collect()
}

fn paths() -> Vec<PathModifier> {
    ["/", "", "/new", "/new/", "/new\\1/$0%41"]
        .map(|text| PathModifier::Prefix(text.into()))
        .into_iter()
        .chain(["/", "/full", "/full\\0%"].map(|text| PathModifier::Full(text.into())))
        .chain([
            PathModifier::Regex { pattern: "^/a(/.*)?$".into(), substitution: "/b\\1\\\\?x=\\0".into() },
            PathModifier::Prefixes(
                [(Some("/a"), "/named/"), (None, "/")]
                    .map(|(prefix, replacement)| PrefixReplacement {
                        prefix: prefix.map(Into::into),
                        replacement: replacement.into(),
                    })
                    .into(),
            ),
        ])
        .collect()
}

fn cors() -> Vec<Cors> {
    let list = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>();
    let any = Cors {
        allow_origins: list(&["*"]),
        allow_methods: list(&["*"]),
        allow_headers: list(&["*"]),
        expose_headers: list(&["*"]),
        allow_credentials: true,
        max_age: None,
    };
    let exact = Cors {
        allow_origins: list(&["https://www.example.com", "http://*.example.com:8080", "https://a.b:443", "http://*"]),
        allow_methods: list(&["GET", "OPTIONS"]),
        allow_headers: list(&["x-one", "x-two"]),
        expose_headers: list(&["x-three"]),
        allow_credentials: false,
        max_age: Some(Duration::from_hours(24)),
    };
    let nothing = Cors {
        allow_origins: vec![],
        allow_methods: vec![],
        allow_headers: vec![],
        expose_headers: vec![],
        ..any.clone()
    };
    vec![any, exact, nothing]
}

fn times() -> Vec<Rule> {
    let ms = Duration::from_millis;
    let mut rules: Vec<_> = [
        (None, Some(ms(100))),
        (Some(ms(1)), None),
        (Some(ms(500)), Some(ms(100))),
        (Some(Duration::ZERO), Some(Duration::ZERO)),
        (Some(Duration::from_hours(2)), None),
        (Some(Duration::from_hours(99_999)), Some(Duration::from_hours(99_999))),
    ]
    .map(|(request, backend_request)| Rule {
        timeouts: Timeouts { request, backend_request, ..Timeouts::default() },
        ..forward()
    })
    .into();
    for backoff in [None, Some(Duration::ZERO), Some(Duration::from_micros(1)), Some(Duration::from_hours(99_999))] {
        for (attempts, codes) in [(None, vec![]), (Some(1), vec![500]), (Some(u32::MAX), vec![400, 503, 599])] {
            let timeouts =
                Timeouts { backend_request: attempts.map(|_| ms(10)), stream_idle: backoff, ..Timeouts::default() };
            let conditions =
                Retry::CONNECTION.into_iter().chain(["5xx", "retriable-status-codes"]).map(Arc::from).collect();
            let retry = Some(Retry { conditions, codes, attempts, backoff });
            rules.push(Rule { retry, timeouts, ..forward() });
        }
    }
    rules
}

fn sessions() -> Vec<SessionCarrier> {
    let cookie = |ttl| SessionCarrier::Cookie { name: Some("session".into()), path: "/".into(), ttl };
    vec![
        cookie(None),
        cookie(Some(Duration::ZERO)),
        cookie(Some(Duration::from_hours(24))),
        SessionCarrier::Header { name: "x-session".into() },
    ]
}
