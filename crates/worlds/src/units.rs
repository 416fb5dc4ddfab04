//! Units of TrafficPolicies of worlds, with values that Envoy takes and now and then one that it does not.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::values;

/// A spec with some of them.
pub(super) fn units() -> BoxedStrategy<Value> {
    let some: Vec<_> = each().into_iter().map(|unit| option::weighted(0.1, unit)).collect();
    some.prop_map(|units| merged(units.into_iter().flatten())).boxed()
}

/// Specs with one unit, a strategy for each unit.
pub fn each() -> Vec<BoxedStrategy<Value>> {
    vec![
        timeouts(),
        retry(),
        buffer(),
        fault_injection(),
        csrf(),
        stat_prefix(),
        internal_redirect(),
        request_mirror(),
        compression("responseCompression"),
        compression("requestDecompression"),
        cors(),
        local_rate_limit(),
        header_modifiers(),
        prop_oneof![Just(true), Just(false)].prop_map(|rewrites| json!({"autoHostRewrite": rewrites})).boxed(),
        tracing(),
        acl(),
        rbac(),
        transformation(),
        basic_auth(),
        api_key_auth(),
        ext_auth(),
        jwt_auth(),
        oauth2(),
        ext_proc(),
        global_rate_limit(),
    ]
}

/// What all of them say. Groups of units are joined.
fn merged(units: impl IntoIterator<Item = Value>) -> Value {
    let mut spec = json!({});
    for (field, value) in units.into_iter().flat_map(|unit| unit.as_object().cloned().into_iter().flatten()) {
        match (spec[&field].as_object_mut(), value) {
            (Some(group), Value::Object(more)) => group.extend(more),
            (_, value) => spec[&field] = value,
        }
    }
    spec
}

/// A value that a unit takes, and now and then one that it does not.
fn mostly(sound: &'static [&'static str], broken: &'static str) -> BoxedStrategy<Value> {
    prop_oneof![16 => select(sound), 1 => Just(broken)].prop_map(|text| json!(text)).boxed()
}

/// The same of numbers.
fn mostly_number(sound: &'static [i64], broken: i64) -> BoxedStrategy<Value> {
    prop_oneof![16 => select(sound), 1 => Just(broken)].prop_map(|number| json!(number)).boxed()
}

fn duration() -> BoxedStrategy<Option<Value>> {
    option::of(mostly(&["0s", "1ms", "250ms", "1h30m", "99999h"], "soon")).boxed()
}

fn percent() -> BoxedStrategy<Option<Value>> {
    option::of(mostly_number(&[0, 1, 50, 100], 101)).boxed()
}

fn disable(field: &'static str) -> BoxedStrategy<Value> {
    Just(json!({field: {"disable": {}}})).boxed()
}

fn timeouts() -> BoxedStrategy<Value> {
    (duration(), duration())
        .prop_map(|(request, idle)| json!({"timeouts": {"request": request, "streamIdle": idle}}))
        .boxed()
}

fn retry() -> BoxedStrategy<Value> {
    let codes = option::of(vec(values::number_of(&[400, 503, 599]), 1..3));
    let on = option::of(vec(mostly(&["5xx", "reset", "unavailable"], "sometimes"), 1..3));
    (on, codes, option::of(0..4_u8), duration(), duration())
        .prop_map(|(on, codes, attempts, each, wait)| {
            json!({"retry": {
                "retryOn": on, "statusCodes": codes, "attempts": attempts, "perTryTimeout": each,
                "backoffBaseInterval": wait,
            }})
        })
        .boxed()
}

fn buffer() -> BoxedStrategy<Value> {
    let size = mostly(&["1", "1.5Ki", "16Mi", "16777216"], "4Gi");
    prop_oneof![3 => size.prop_map(|size| json!({"buffer": {"maxRequestSize": size}})), 1 => disable("buffer")].boxed()
}

fn fault_injection() -> BoxedStrategy<Value> {
    let delay = (mostly(&["1ms", "1h", "250ms"], "0s"), percent())
        .prop_map(|(delay, share)| json!({"fixedDelay": delay, "percentage": share}));
    let status = prop_oneof![
        2 => mostly_number(&[200, 503, 599], 600).prop_map(|status| ("httpStatus", status)),
        1 => mostly_number(&[0, 14, 16], 17).prop_map(|status| ("grpcStatus", status)),
    ];
    let abort = (status, percent()).prop_map(|((kind, status), share)| json!({kind: status, "percentage": share}));
    let rate = (mostly_number(&[1, 1_000, 1 << 31], 0), percent())
        .prop_map(|(rate, share)| json!({"kbitsPerSecond": rate, "percentage": share}));
    let most = option::of(mostly_number(&[0, 1, 4_294_967_295], -1));
    let faults = (option::of(delay), option::of(abort), rate, most).prop_map(|(delay, abort, rate, most)| {
        json!({"faultInjection": {"delay": delay, "abort": abort, "responseRateLimit": rate, "maxActiveFaults": most}})
    });
    prop_oneof![4 => faults, 1 => disable("faultInjection")].boxed()
}

fn csrf() -> BoxedStrategy<Value> {
    let text =
        prop_oneof![3 => select(&["a.example", "*", "a:80"][..]).prop_map(str::to_owned), 1 => values::hostile()];
    let literal = (select(&["exact", "prefix", "suffix", "contains"][..]), text, option::of(proptest::bool::ANY))
        .prop_map(|(kind, text, case)| json!({kind: text, "ignoreCase": case}));
    let expression = values::regex().prop_map(|regex| json!({"safeRegex": regex}));
    let origins = option::of(vec(prop_oneof![4 => literal, 1 => expression], 0..3));
    let share = prop_oneof![
        2 => percent().prop_map(|share| ("percentageEnabled", share)),
        1 => percent().prop_map(|share| ("percentageShadowed", share)),
    ];
    (share, origins)
        .prop_map(|((kind, share), origins)| json!({"csrf": {kind: share, "additionalOrigins": origins}}))
        .boxed()
}

fn stat_prefix() -> BoxedStrategy<Value> {
    let sound = &["a", "a..b", ".", "%-_", "{{rule_name}}", "{{ route_namespace }}.{{route_name}}.{{rule_name}}"];
    mostly(sound, "a b").prop_map(|prefix| json!({"statPrefix": prefix})).boxed()
}

fn internal_redirect() -> BoxedStrategy<Value> {
    let codes = option::of(vec(mostly_number(&[301, 302, 303, 307, 308], 304), 0..3));
    let headers = option::of(vec(mostly(&["x-a", "X-B", "te", "cookie"], "Host"), 0..3));
    let most = option::of(mostly_number(&[1, 4_294_967_295], 0));
    (codes, headers, most, option::of(proptest::bool::ANY))
        .prop_map(|(codes, headers, most, cross)| {
            json!({"internalRedirect": {
                "redirectResponseCodes": codes, "responseHeadersToCopy": headers, "maxRedirects": most,
                "allowCrossSchemeRedirect": cross,
            }})
        })
        .boxed()
}

fn request_mirror() -> BoxedStrategy<Value> {
    let host = option::of(mostly(&["shadow.example", "a:80", "10.0.0.1", "[::1]:80"], "a b"));
    (host, option::of(proptest::bool::ANY))
        .prop_map(|(host, disable)| {
            json!({"requestMirror": {"hostRewriteLiteral": host, "disableShadowHostSuffixAppend": disable}})
        })
        .boxed()
}

fn compression(direction: &'static str) -> BoxedStrategy<Value> {
    let libraries = option::of(vec(mostly(&["Gzip", "Brotli", "Zstd"], "Lzma"), 1..3));
    let libraries = libraries.prop_map(|libraries| json!({"libraries": libraries}));
    prop_oneof![3 => libraries, 1 => Just(json!({"disable": {}}))]
        .prop_map(move |codecs| json!({"compression": {direction: codecs}}))
        .boxed()
}

fn cors() -> BoxedStrategy<Value> {
    let origins = option::of(vec(mostly(&["https://a.example", "http://*.b.example:8080", "http://*"], "a"), 0..3));
    let list = || option::of(vec(mostly(&["x-a", "x-b"], "a b"), 0..3));
    let cors = (origins, list(), list(), option::of(proptest::bool::ANY), option::of(mostly_number(&[1, 86_400], 0)));
    let cors = cors.prop_map(|(origins, allow, expose, credentials, age)| {
        json!({"cors": {
            "allowOrigins": origins.unwrap_or_default(), "allowHeaders": allow.unwrap_or_default(),
            "exposeHeaders": expose.unwrap_or_default(), "allowCredentials": credentials, "maxAge": age,
        }})
    });
    prop_oneof![4 => cors, 1 => disable("cors")].boxed()
}

fn local_rate_limit() -> BoxedStrategy<Value> {
    let tokens = || mostly_number(&[1, 5, 4_294_967_295], 0);
    let bucket = (tokens(), option::of(tokens()), mostly(&["50ms", "1s", "99999h99999h"], "49ms"))
        .prop_map(|(most, fill, interval)| json!({"maxTokens": most, "tokensPerFill": fill, "fillInterval": interval}));
    (option::weighted(0.8, bucket), percent(), percent())
        .prop_map(|(bucket, enabled, enforced)| {
            let local = json!({"tokenBucket": bucket, "percentEnabled": enabled, "percentEnforced": enforced});
            json!({"rateLimit": {"local": local}})
        })
        .boxed()
}

fn header_modifiers() -> BoxedStrategy<Value> {
    let name = || prop_oneof![8 => select(&["x-a", "X-B", "te"][..]).prop_map(str::to_owned), 1 => values::hostile()];
    let value = prop_oneof![
        6 => select(&["a", "100%", "%REQ(x)%", "%%"][..]).prop_map(str::to_owned),
        1 => values::hostile(),
    ];
    let written = || (name(), value.clone()).prop_map(|(name, value)| json!({"name": name, "value": value}));
    let stored = || {
        (option::of(name()), secret_ref(&["client", "x-a", "lines"])).prop_map(|(name, secret)| match name {
            Some(name) => json!({"name": name, "secretRef": secret}),
            None => json!({"secretRef": secret}),
        })
    };
    let header = || prop_oneof![6 => written().boxed(), 1 => stored().boxed()];
    let removed = prop_oneof![
        8 => select(&["x-a", "content-length", "cookie"][..]),
        1 => select(&["host", ":path", "", "cdn-loop", "a b"][..]),
    ];
    let headers = || option::of(vec(header(), 0..3));
    let changes = (headers(), headers(), option::of(vec(removed, 0..3)))
        .prop_map(|(add, set, remove)| json!({"add": add, "set": set, "remove": remove}));
    (option::of(changes.clone()), option::of(changes))
        .prop_map(|(request, response)| json!({"headerModifiers": {"request": request, "response": response}}))
        .boxed()
}

fn tracing() -> BoxedStrategy<Value> {
    let text = || prop_oneof![8 => select(&["a", "x-b"][..]).prop_map(str::to_owned), 1 => values::hostile()];
    let attribute = prop_oneof![
        text().prop_map(|value| json!({"name": "a", "literal": {"value": value}})),
        (text(), text()).prop_map(|(tag, name)| json!({"name": tag, "requestHeader": {"name": name}})),
        (mostly(&["Request", "Route", "Cluster", "Host"], "Client"), vec(text(), 0..3)).prop_map(|(kind, path)| {
            let path: Vec<_> = path.into_iter().map(|key| json!({"key": key})).collect();
            json!({"name": "m", "metadata": {"kind": kind, "metadataKey": {"key": "k", "path": path}}})
        }),
    ];
    let all = (percent(), percent(), option::of(vec(attribute, 0..3))).prop_map(|(client, overall, attributes)| {
        json!({"tracing": {"clientSampling": client, "overallSampling": overall, "attributes": attributes}})
    });
    prop_oneof![4 => all, 1 => disable("tracing")].boxed()
}

fn acl() -> BoxedStrategy<Value> {
    let action = || mostly(&["allow", "deny"], "Deny");
    let range = mostly(
        &["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "::/0", "2001:db8::/32", "::1", "127.0.0.0/8"],
        "10.0.0.1/8",
    );
    let name =
        || option::of(prop_oneof![8 => select(&["a", "50%", "é"][..]).prop_map(str::to_owned), 1 => values::hostile()]);
    let rule = (name(), vec(range, 1..4), action())
        .prop_map(|(name, cidrs, action)| json!({"name": name, "cidrs": cidrs, "action": action}));
    let header = (prop_oneof![8 => Just("x-a".to_owned()), 1 => values::hostile()], "[a-z%]{1,3}")
        .prop_map(|(name, value)| json!({"name": name, "value": value}));
    let status = option::of(mostly_number(&[200, 204, 404, 599], 199));
    let answer = (status, vec(header, 0..3), option::of(mostly(&["X-By", "server"], ":status")))
        .prop_map(|(status, headers, by)| json!({"statusCode": status, "headers": headers, "blockedByHeaderName": by}));
    (action(), option::of(vec(rule, 0..4)), option::of(answer))
        .prop_map(|(action, rules, answer)| {
            json!({"acl": {"defaultAction": action, "rules": rules.unwrap_or_default(), "denyResponse": answer}})
        })
        .boxed()
}

fn rbac() -> BoxedStrategy<Value> {
    let text = || prop_oneof![8 => select(&["a", "/a/b", "x-a"][..]).prop_map(str::to_owned), 1 => values::hostile()];
    let value = || {
        select(
            &[
                "request.path",
                "request.url_path",
                "request.host",
                "request.method",
                "request.headers['x-a']",
                "request.headers.host",
                "request.referer",
                "request.useragent",
                "request.id",
                "source.address",
                "destination.address",
                "connection.requested_server_name",
                "connection.subject_peer_certificate",
                "metadata.filter_metadata['a']['b']",
                "request.body",
            ][..],
        )
    };
    let quoted = move || text().prop_map(|text| format!("{text:?}"));
    let comparison = prop_oneof![
        3 => (value(), select(&["==", "!=", "<", ">="][..]), quoted())
            .prop_map(|(value, sign, text)| format!("{value} {sign} {text}")),
        2 => (value(), select(&["startsWith", "endsWith", "contains", "substring"][..]), quoted())
            .prop_map(|(value, function, text)| format!("{value}.{function}({text})")),
        1 => (value(), values::regex()).prop_map(|(value, pattern)| format!("{value}.matches({pattern:?})")),
        1 => (value(), vec(quoted(), 0..4)).prop_map(|(value, list)| format!("{value} in [{}]", list.join(", "))),
        1 => quoted().prop_map(|name| format!("{name} in request.headers")),
        1 => select(&["has(request.referer)", "has(connection.tls_version)", "request.time.getHours() > 3"][..])
            .prop_map(str::to_owned),
        1 => (select(&["+", "-", "*", "/", "%"][..]), any::<i64>())
            .prop_map(|(sign, number)| format!("size(request.query) {sign} {number} == source.port")),
        1 => select(&["request.size > 9223372036854775807", "double(request.query) < 1e308", "1u < uint('2')", "null == null",
            "duration('1h') > duration('30m')", "request.time < timestamp('2030-02-28T00:00:00Z')", "b'\\xff' == b'a'",
            "true", "[1, 2][5] == 1", "connection.mtls"][..]).prop_map(str::to_owned),
    ];
    let expression = comparison.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            3 => (vec(inner.clone(), 2..6), select(&[" && ", " || "][..]))
                .prop_map(|(parts, sign)| format!("({})", parts.join(sign))),
            1 => inner.clone().prop_map(|inner| format!("!({inner})")),
            1 => (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
        ]
    });
    (vec(expression, 1..4), option::of(mostly(&["Allow", "Deny"], "deny")))
        .prop_map(
            |(expressions, action)| json!({"rbac": {"policy": {"matchExpressions": expressions}, "action": action}}),
        )
        .boxed()
}

fn transformation() -> BoxedStrategy<Value> {
    let name = || prop_oneof![8 => select(&["x-a", "X-B", "te"][..]).prop_map(str::to_owned), 1 => values::hostile()];
    let plain = || mostly(&["a", "100%", "%REQ(x)%", "", "}}", "{ {", "a\n"], "{{ a }}");
    let header = move |value: BoxedStrategy<Value>| {
        (name(), option::of(value)).prop_map(|(name, value)| json!({"name": name, "value": value}))
    };
    // Half of all are plain texts alone, which another filter changes.
    let value = prop_oneof![Just(plain().boxed()), Just(prop_oneof![plain(), template()].boxed())];
    value.prop_flat_map(move |value| transformation_with(&header(value).boxed())).boxed()
}

/// A template that is not only text.
fn template() -> BoxedStrategy<Value> {
    let text = select(
        &[
            "'a'",
            "\"b\\n\"",
            "'é'",
            "7",
            "header('x-a')",
            "request_header('X-B')",
            "header(':path')",
            "get_cookie('c')",
            "get_cookie_i('C')",
        ][..],
    )
    .prop_map(str::to_owned);
    let expression = text.prop_recursive(4, 16, 3, |inner| {
        let call = |name: &'static str, inner: &BoxedStrategy<String>| {
            inner.clone().prop_map(move |text| format!("{name}({text} ~ '')"))
        };
        let inner = inner.boxed();
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a} ~ {b})")),
            call("base64_encode", &inner),
            call("base64url_decode", &inner),
            call("raw_string", &inner),
            inner.clone().prop_map(|text| format!("substring({text}, 1, 3)")),
            inner.clone().prop_map(|text| format!("replace_with_random({text} ~ '', 'a')")),
            inner.prop_map(|text| format!("replace_with_string({text} ~ '', 'a', '%')")),
        ]
    });
    let text = prop_oneof![32 => select(&["", "a ", "{# c #}"][..]), 1 => Just("{% if a %}")];
    (text, expression).prop_map(|(text, expression)| json!(format!("{text}{{{{- {expression} }}}}"))).boxed()
}

fn transformation_with(header: &BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let targets = [(":path", "/b"), (":path", "{{ header('x-a') }}"), (":method", "POST"), (":status", "200")];
    let target = option::weighted(0.1, select(targets.to_vec()));
    let metadata = option::weighted(0.2, mostly(&["n", "a.b"], "envoy.lb"));
    let removed = mostly(&["x-a", "content-length", "cookie"], "host");
    let value = option::of(select(
        &[
            "text",
            "{{ body() }}",
            "{% for a in [1, 2] if a > 1 %}{{ loop.index ~ a }}{% else %}é{% endfor %}",
            "{{ b.c | d(1) }}",
        ][..],
    ));
    let body = option::weighted(0.2, (mostly(&["None", "AsString", "AsJson"], "AsXml"), value));
    let lists = (vec(header.clone(), 0..3), vec(header.clone(), 0..2), vec(removed, 0..3));
    let changes = (lists, body, target, metadata).prop_map(|((mut set, add, remove), body, target, metadata)| {
        set.extend(target.map(|(name, value)| json!({"name": name, "value": value})));
        let body = body.map(|(parsed, value)| json!({"parseAs": parsed, "value": value}));
        let metadata = metadata
            .map(|name| json!({"namespace": name, "key": "k", "value": {"stringValue": "{{ header('x-a') }}"}}));
        let metadata: Vec<_> = metadata.into_iter().collect();
        json!({"set": set, "add": add, "remove": remove, "body": body, "dynamicMetadata": metadata})
    });
    (option::of(changes.clone()), option::of(changes))
        .prop_map(|(request, response)| json!({"transformation": {"request": request, "response": response}}))
        .boxed()
}

/// A reference to a Secret that has credentials, or to one that is not there or has something else, and perhaps to a key.
fn secret_ref(keys: &'static [&'static str]) -> BoxedStrategy<Value> {
    let name = prop_oneof![12 => select(&values::CREDENTIALS[..]), 1 => select(&["cert", "missing"][..])];
    let namespace = option::weighted(0.2, select(&["apps", "infra", "team"][..]));
    (name, option::of(select(keys)), namespace)
        .prop_map(|(name, key, namespace)| {
            let mut reference = json!({"name": name});
            if let Some(key) = key {
                reference["key"] = json!(key);
            }
            if let Some(namespace) = namespace {
                reference["namespace"] = json!(namespace);
            }
            reference
        })
        .boxed()
}

fn basic_auth() -> BoxedStrategy<Value> {
    let users = vec(mostly(&values::USERS[..], "alice:plain"), 1..3).prop_map(|users| json!({"users": users}));
    let stored = secret_ref(&[".htpasswd", "users"]).prop_map(|secret| json!({"secretRef": secret}));
    let auth = prop_oneof![2 => users, 4 => stored].prop_map(|auth| json!({"basicAuth": auth}));
    prop_oneof![5 => auth, 1 => disable("basicAuth")].boxed()
}

fn api_key_auth() -> BoxedStrategy<Value> {
    let text =
        || prop_oneof![6 => select(&["x-key", "key", "a b"][..]).prop_map(str::to_owned), 1 => values::hostile()];
    let source = (option::of(text()), option::of(text()), option::of(text()))
        .prop_map(|(header, query, cookie)| json!({"header": header, "query": query, "cookie": cookie}));
    let keys = prop_oneof![
        4 => select(&values::CREDENTIALS[..]).prop_map(|name| json!({"name": name})).prop_map(|secret| ("secretRef", secret)),
        1 => select(&["one", "none"][..]).prop_map(|team| ("secretSelector", json!({"matchLabels": {"keys": team}}))),
    ];
    let client = option::of(mostly(&["x-client", "X-Id"], "x-envoy-id"));
    let auth = (keys, option::weighted(0.3, vec(source, 0..3)), client, option::of(proptest::bool::ANY)).prop_map(
        |((kind, keys), sources, client, forwards)| {
            let auth = json!({kind: keys, "keySources": sources.unwrap_or_default(), "clientIdHeader": client, "forwardCredential": forwards});
            json!({"apiKeyAuth": auth})
        },
    );
    prop_oneof![5 => auth, 1 => disable("apiKeyAuth")].boxed()
}

/// A reference to an extension, which may be one of another kind, or not be there.
fn extension(name: &'static str) -> BoxedStrategy<Value> {
    (
        prop_oneof![12 => Just(name), 2 => select(&values::EXTENSIONS[..]), 1 => Just("none")],
        option::weighted(0.8, Just("apps")),
    )
        .prop_map(|(name, namespace)| json!({"name": name, "namespace": namespace}))
        .boxed()
}

fn ext_auth() -> BoxedStrategy<Value> {
    let body = option::of((mostly_number(&[1, 1 << 16], 0), any::<bool>())).prop_map(|body| {
        body.map(|(bytes, partial)| json!({"maxRequestBytes": bytes, "allowPartialMessage": partial}))
    });
    let context =
        option::of(prop_oneof![Just(json!({})), values::hostile().prop_map(|text| json!({"b": text, "a": "1"}))]);
    let auth = (prop_oneof![3 => extension("judge"), 1 => extension("over-http")], body, context)
        .prop_map(|(extension, body, context)| {
            json!({"extAuth": {"extensionRef": extension, "withRequestBody": body, "contextExtensions": context}})
        });
    prop_oneof![5 => auth, 1 => disable("extAuth")].boxed()
}

fn jwt_auth() -> BoxedStrategy<Value> {
    let name = prop_oneof![3 => extension("tokens"), 1 => extension("tokens2")];
    prop_oneof![5 => name.prop_map(|name| json!({"jwtAuth": {"extensionRef": name}})), 1 => disable("jwtAuth")].boxed()
}

fn oauth2() -> BoxedStrategy<Value> {
    extension("login").prop_map(|name| json!({"oauth2": {"extensionRef": name}})).boxed()
}

fn ext_proc() -> BoxedStrategy<Value> {
    let mode = option::of((
        mostly(&["NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL"], "FULL_DUPLEX_STREAMED"),
        select(&["DEFAULT", "SEND", "SKIP"][..]),
    ));
    let mode = mode
        .prop_map(|mode| mode.map(|(body, headers)| json!({"requestBodyMode": body, "responseHeaderMode": headers})));
    let name = prop_oneof![3 => extension("processor"), 1 => extension("early")];
    let asks = (name, mode)
        .prop_map(|(extension, mode)| json!({"extProc": {"extensionRef": extension, "processingMode": mode}}));
    prop_oneof![5 => asks, 1 => disable("extProc")].boxed()
}

fn global_rate_limit() -> BoxedStrategy<Value> {
    let entry = prop_oneof![
        2 => Just(json!({"type": "Path"})),
        2 => Just(json!({"type": "RemoteAddress"})),
        2 => mostly(&["X-Team", "host"], "a b").prop_map(|header| json!({"type": "Header", "header": header})),
        2 => values::hostile().prop_map(|text| json!({"type": "Generic", "generic": {"key": "k", "value": text}})),
    ];
    let descriptors = vec(vec(entry, 1..3).prop_map(|entries| json!({"entries": entries})), 1..3);
    (extension("counter"), descriptors)
        .prop_map(|(extension, descriptors)| {
            json!({"rateLimit": {"global": {"extensionRef": extension, "descriptors": descriptors}}})
        })
        .boxed()
}
