//! Rules of HTTPRoutes.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::values;

/// A rule with something from every field of it now and then.
pub(super) fn rule() -> BoxedStrategy<Value> {
    let extras = (
        option::weighted(0.2, values::label().prop_map(|name| json!(name))),
        option::weighted(0.25, timeouts()),
        option::weighted(0.25, retry()),
        option::weighted(0.2, session()),
    );
    let redirect = redirect().prop_map(|redirect| json!({"filters": [redirect]}));
    let answer = super::policy::extension().prop_map(|filter| json!({"filters": [filter]}));
    let forward = (vec(backend(), 0..4), vec(filter(), 0..3))
        .prop_map(|(backends, filters)| json!({"backendRefs": backends, "filters": filters}));
    let does = prop_oneof![2 => redirect, 1 => answer, 12 => forward];
    (vec(matching(), 0..4), does, extras)
        .prop_map(|(matches, mut rule, (name, timeouts, retry, session))| {
            rule["matches"] = json!(matches);
            let extras = [("name", name), ("timeouts", timeouts), ("retry", retry), ("sessionPersistence", session)];
            for (field, value) in extras {
                if let Some(value) = value {
                    rule[field] = value;
                }
            }
            rule
        })
        .boxed()
}

fn matching() -> BoxedStrategy<Value> {
    let path = prop_oneof![
        3 => values::path().prop_map(|value| json!({"type": "PathPrefix", "value": value})),
        2 => values::path().prop_map(|value| json!({"type": "Exact", "value": value})),
        3 => values::regex().prop_map(|value| json!({"type": "RegularExpression", "value": value})),
    ];
    let query = (values::query_name(), typed(values::query_value())).prop_map(named);
    let methods = values::variant(&["GET", "POST", "CONNECT", "OPTIONS", "TRACE", "PATCH"]);
    (option::weighted(0.9, path), vec(header(), 0..2), vec(query, 0..2), option::weighted(0.3, methods))
        .prop_map(|(path, headers, queries, method)| {
            let mut matching = json!({"headers": headers, "queryParams": queries});
            if let Some(path) = path {
                matching["path"] = path;
            }
            if let Some(method) = method {
                matching["method"] = json!(method);
            }
            matching
        })
        .boxed()
}

/// A condition on a header.
pub(super) fn header() -> BoxedStrategy<Value> {
    (values::header_name(), typed(values::header_value())).prop_map(named).boxed()
}

fn typed(exact: BoxedStrategy<String>) -> BoxedStrategy<Value> {
    prop_oneof![
        exact.prop_map(|value| json!({"type": "Exact", "value": value})),
        values::regex().prop_map(|value| json!({"type": "RegularExpression", "value": value})),
    ]
    .boxed()
}

fn named((name, mut value): (String, Value)) -> Value {
    value["name"] = json!(name);
    value
}

/// The Backends of every world.
const BACKENDS: [&str; 2] = ["b0", "b1"];

fn reference() -> BoxedStrategy<Value> {
    let names = prop_oneof![
        24 => select(&["s0", "s1", "s2"][..]).prop_map(str::to_owned),
        6 => select(&BACKENDS[..]).prop_map(str::to_owned),
        1 => Just("missing".to_owned()),
        1 => values::hostile(),
    ];
    let namespace = prop_oneof![12 => Just(Some("apps")), 1 => Just(None), 1 => Just(Some("nowhere"))];
    let port = values::number_of(&[80, 80, 80, 80, 80, 80, 81]);
    (names, namespace, port, option::weighted(0.03, values::hostile()))
        .prop_map(|(name, namespace, port, kind)| {
            let mut reference = json!({"name": name, "port": port});
            if BACKENDS.contains(&&*name) {
                reference = json!({"name": name, "group": "gateway.kgateway.dev", "kind": "Backend"});
            }
            if let Some(namespace) = namespace {
                reference["namespace"] = json!(namespace);
            }
            if let Some(kind) = kind {
                reference["kind"] = json!(kind);
            }
            reference
        })
        .boxed()
}

/// A backend with a weight, without filters.
pub(super) fn weighted() -> BoxedStrategy<Value> {
    (reference(), values::number_of(&[0, 1, 1, 2, 1_000_000]))
        .prop_map(|(mut backend, weight)| {
            backend["weight"] = json!(weight);
            backend
        })
        .boxed()
}

fn backend() -> BoxedStrategy<Value> {
    let filters = prop_oneof![12 => Just(Vec::new()), 6 => vec(on_backend(), 1..3), 1 => vec(filter(), 1..2)];
    (weighted(), filters)
        .prop_map(|(mut backend, filters)| {
            if !filters.is_empty() {
                backend["filters"] = json!(filters);
            }
            backend
        })
        .boxed()
}

fn on_backend() -> BoxedStrategy<Value> {
    prop_oneof![
        modifier("RequestHeaderModifier", "requestHeaderModifier"),
        modifier("ResponseHeaderModifier", "responseHeaderModifier"),
        values::precise_hostname().prop_map(|name| json!({"type": "URLRewrite", "urlRewrite": {"hostname": name}})),
    ]
    .boxed()
}

/// A filter that lets a rule forward.
fn filter() -> BoxedStrategy<Value> {
    prop_oneof![
        4 => modifier("RequestHeaderModifier", "requestHeaderModifier"),
        4 => modifier("ResponseHeaderModifier", "responseHeaderModifier"),
        4 => rewrite(),
        3 => mirror(),
        4 => cors(),
        1 => super::policy::extension(),
        1 => other(),
    ]
    .boxed()
}

pub(super) fn modifier(kind: &'static str, field: &'static str) -> BoxedStrategy<Value> {
    let header = || {
        (values::header_name(), values::header_value()).prop_map(|(name, value)| json!({"name": name, "value": value}))
    };
    (vec(header(), 0..3), vec(header(), 0..3), vec(values::header_name(), 0..3))
        .prop_map(move |(set, add, remove)| {
            let mut filter = json!({"type": kind});
            filter[field] = json!({"set": set, "add": add, "remove": remove});
            filter
        })
        .boxed()
}

fn path() -> BoxedStrategy<Value> {
    prop_oneof![
        values::new_path().prop_map(|path| json!({"type": "ReplaceFullPath", "replaceFullPath": path})),
        values::new_path().prop_map(|path| json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": path})),
    ]
    .boxed()
}

fn rewrite() -> BoxedStrategy<Value> {
    (option::of(values::precise_hostname()), option::weighted(0.8, path()))
        .prop_map(|(hostname, path)| json!({"type": "URLRewrite", "urlRewrite": {"hostname": hostname, "path": path}}))
        .boxed()
}

fn redirect() -> BoxedStrategy<Value> {
    let parts = (
        option::of(values::variant(&["http", "https"])),
        option::of(values::precise_hostname()),
        option::weighted(0.7, path()),
        option::of(values::number_of(&[1, 80, 443, 8080, 65_535])),
        option::of(values::number_of(&[301, 302, 303, 307, 308])),
    );
    parts
        .prop_map(|(scheme, hostname, path, port, status)| {
            let redirect =
                json!({"scheme": scheme, "hostname": hostname, "path": path, "port": port, "statusCode": status});
            json!({"type": "RequestRedirect", "requestRedirect": redirect})
        })
        .boxed()
}

pub(super) fn mirror() -> BoxedStrategy<Value> {
    let share = prop_oneof![
        Just(json!({})),
        values::number_of(&[0, 1, 50, 100]).prop_map(|percent| json!({"percent": percent})),
        (values::number_of(&[0, 1, 2, 3]), values::number_of(&[3, 7, 100, 2_147_483_647]))
            .prop_map(|(top, bottom)| json!({"fraction": {"numerator": top, "denominator": bottom}})),
    ];
    (reference(), share)
        .prop_map(|(backend, mut mirror)| {
            mirror["backendRef"] = backend;
            json!({"type": "RequestMirror", "requestMirror": mirror})
        })
        .boxed()
}

fn cors() -> BoxedStrategy<Value> {
    let methods = prop_oneof![
        2 => vec(values::variant(&["GET", "POST", "OPTIONS"]), 0..3),
        1 => Just(vec!["*".to_owned()]),
    ];
    let headers = || prop_oneof![2 => vec(values::header_name(), 0..3), 1 => Just(vec!["*".to_owned()])];
    (
        vec(values::origin(), 0..3),
        methods,
        headers(),
        headers(),
        any::<bool>(),
        values::number_of(&[1, 5, 2_147_483_647]),
    )
        .prop_map(|(origins, methods, allow, expose, credentials, age)| {
            let cors = json!({"allowOrigins": origins, "allowMethods": methods, "allowHeaders": allow,
                "exposeHeaders": expose, "allowCredentials": credentials, "maxAge": age});
            json!({"type": "CORS", "cors": cors})
        })
        .boxed()
}

fn other() -> BoxedStrategy<Value> {
    let external = json!({"type": "ExternalAuth", "externalAuth": {"protocol": "HTTP", "backendRef": {"name": "s0"}}});
    prop_oneof![
        Just(external),
        (values::hostile(), values::hostile()).prop_map(
            |(kind, name)| json!({"type": "ExtensionRef", "extensionRef": {"group": "x", "kind": kind, "name": name}})
        ),
        values::hostile().prop_map(|kind| json!({"type": kind})),
        Just(json!({"type": "URLRewrite"})),
        redirect(),
    ]
    .boxed()
}

fn timeouts() -> BoxedStrategy<Value> {
    (option::of(values::duration()), option::of(values::duration()))
        .prop_map(|(request, backend)| json!({"request": request, "backendRequest": backend}))
        .boxed()
}

fn retry() -> BoxedStrategy<Value> {
    let codes = vec(values::number_of(&[400, 500, 502, 503, 599]), 0..3);
    (codes, option::of(values::number_of(&[0, 1, 3, 4_294_967_295, 4_294_967_296])), option::of(values::duration()))
        .prop_map(|(codes, attempts, backoff)| json!({"codes": codes, "attempts": attempts, "backoff": backoff}))
        .boxed()
}

pub(super) fn session() -> BoxedStrategy<Value> {
    let cookie = (option::of(values::session_name()), option::of(values::duration())).prop_map(|(name, time)| {
        let lifetime = if time.is_some() { "Permanent" } else { "Session" };
        json!({"sessionName": name, "absoluteTimeout": time, "cookieConfig": {"lifetimeType": lifetime}})
    });
    let header = option::of(values::session_name()).prop_map(|name| json!({"type": "Header", "sessionName": name}));
    prop_oneof![9 => cookie, 6 => header, 1 => values::hostile().prop_map(|kind| json!({"type": kind}))].boxed()
}
