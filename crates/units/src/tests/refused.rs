//! What policies may not say.

use serde_json::{Value, json};

use super::{refused, units};

/// Each spec is refused at a field, with these words.
fn are_refused<const N: usize>(cases: [(Value, &str, &str); N]) {
    for (spec, field, words) in cases {
        let (at, message) = refused(spec.clone());
        assert_eq!(at, field, "{spec}");
        assert!(message.contains(words), "{spec}: {message}");
    }
}

#[test]
fn what_is_wrong_with_times_sizes_and_paths_is_told_with_its_field() {
    are_refused([
        (json!({"timeouts": {"request": "1 s"}}), "spec.timeouts.request", "500ms"),
        (json!({"timeouts": {"streamIdle": 5}}), "spec.timeouts.streamIdle", "must be a string"),
        (json!({"timeouts": "5s"}), "spec.timeouts", "must be a mapping"),
        (json!({"timeouts": {}}), "spec.timeouts", "set request or streamIdle"),
        (json!({"retry": {"retryOn": ["retriable-status-codes"]}}), "spec.retry", "statusCodes"),
        (json!({"timeouts": {"idle": "5s"}}), "spec.timeouts.idle", "not known"),
        (json!({"retry": {}}), "spec.retry", "retryOn or statusCodes"),
        (json!({"retry": {"retryOn": ["5xx", "sometimes"]}}), "spec.retry.retryOn[1]", "sometimes"),
        (json!({"retry": {"statusCodes": [399]}}), "spec.retry.statusCodes[0]", "399"),
        (json!({"retry": {"retryOn": ["5xx"], "attempts": -1}}), "spec.retry.attempts", "0 or more"),
        (json!({"retry": {"retryOn": ["5xx"], "perTryTimeout": "0s"}}), "spec.retry.perTryTimeout", "zero"),
        (
            json!({"retry": {"retryOn": ["5xx"], "perTryTimeout": "2s"}, "timeouts": {"request": "2s"}}),
            "spec.retry.perTryTimeout",
            "timeouts.request",
        ),
        (json!({"buffer": {}}), "spec.buffer", "either"),
        (json!({"buffer": {"maxRequestSize": 1, "disable": {}}}), "spec.buffer", "either"),
        (json!({"buffer": {"maxRequestSize": 0}}), "spec.buffer.maxRequestSize", "at most 16Mi"),
        (json!({"buffer": {"maxRequestSize": "16.1Mi"}}), "spec.buffer.maxRequestSize", "at most 16Mi"),
        (json!({"buffer": {"maxRequestSize": "big"}}), "spec.buffer.maxRequestSize", "10Mi"),
        (json!({"urlRewrite": {}}), "spec.urlRewrite.pathRegex", "missing"),
        (
            json!({"urlRewrite": {"pathRegex": {"pattern": "(", "substitution": ""}}}),
            "spec.urlRewrite.pathRegex.pattern",
            "(",
        ),
    ]);
}

#[test]
fn what_is_wrong_with_faults_and_origins_is_told_with_its_field() {
    are_refused([
        (json!({"faultInjection": {}}), "spec.faultInjection", "delay, abort"),
        (json!({"faultInjection": {"maxActiveFaults": 1}}), "spec.faultInjection", "delay, abort"),
        (json!({"faultInjection": {"delay": {}}}), "spec.faultInjection.delay", "fixedDelay"),
        (json!({"faultInjection": {"delay": {"fixedDelay": "0s"}}}), "spec.faultInjection.delay.fixedDelay", "zero"),
        (json!({"faultInjection": {"delay": {"fixedDelay": "61m"}}}), "spec.faultInjection.delay.fixedDelay", "1h"),
        (
            json!({"faultInjection": {"delay": {"fixedDelay": "1s", "percentage": 101}}}),
            "spec.faultInjection.delay.percentage",
            "100",
        ),
        (json!({"faultInjection": {"abort": {}}}), "spec.faultInjection.abort", "either"),
        (json!({"faultInjection": {"abort": {"httpStatus": 199}}}), "spec.faultInjection.abort.httpStatus", "200"),
        (json!({"faultInjection": {"abort": {"grpcStatus": 17}}}), "spec.faultInjection.abort.grpcStatus", "16"),
        (
            json!({"faultInjection": {"responseRateLimit": {"kbitsPerSecond": 0}}}),
            "spec.faultInjection.responseRateLimit.kbitsPerSecond",
            "2147483648",
        ),
        (
            json!({"faultInjection": {"abort": {"httpStatus": 503}, "maxActiveFaults": -1}}),
            "spec.faultInjection.maxActiveFaults",
            "0 or more",
        ),
        (json!({"csrf": {"percentageEnabled": 1, "percentageShadowed": 1}}), "spec.csrf", "both"),
        (json!({"csrf": {"percentageEnabled": -1}}), "spec.csrf.percentageEnabled", "100"),
        (json!({"csrf": {"additionalOrigins": [{"ignoreCase": true}]}}), "spec.csrf.additionalOrigins[0]", "one of"),
        (
            json!({"csrf": {"additionalOrigins": [{"exact": "a"}, {"exact": "a", "prefix": "a"}]}}),
            "spec.csrf.additionalOrigins[1]",
            "one of",
        ),
        (json!({"csrf": {"additionalOrigins": [{"suffix": ""}]}}), "spec.csrf.additionalOrigins[0].suffix", "empty"),
        (json!({"csrf": {"additionalOrigins": [{"safeRegex": "("}]}}), "spec.csrf.additionalOrigins[0].safeRegex", "("),
        (
            json!({"csrf": {"additionalOrigins": [{"safeRegex": "a", "ignoreCase": true}]}}),
            "spec.csrf.additionalOrigins[0].ignoreCase",
            "(?i)",
        ),
        (
            json!({"csrf": {"additionalOrigins": vec![json!({"exact": "a"}); 17]}}),
            "spec.csrf.additionalOrigins",
            "17 entries",
        ),
        (json!({"cors": {"allowOrigins": ["a"]}}), "spec.cors.allowOrigins[0]", "http"),
        (json!({"cors": {"allowMethods": ["*", "GET"]}}), "spec.cors.allowMethods", "alone"),
        (json!({"cors": {"maxAge": 0}}), "spec.cors.maxAge", "seconds"),
        (json!({"cors": {"allowAll": true}}), "spec.cors.allowAll", "not known"),
    ]);
}

#[test]
fn what_is_wrong_with_redirects_copies_and_statistics_is_told_with_its_field() {
    are_refused([
        (json!({"internalRedirect": {"maxRedirects": 0}}), "spec.internalRedirect.maxRedirects", "1 or 2"),
        (
            json!({"internalRedirect": {"redirectResponseCodes": [301, 304]}}),
            "spec.internalRedirect.redirectResponseCodes[1]",
            "304",
        ),
        (
            json!({"internalRedirect": {"redirectResponseCodes": [301, 301]}}),
            "spec.internalRedirect.redirectResponseCodes[1]",
            "before",
        ),
        (
            json!({"internalRedirect": {"responseHeadersToCopy": ["Host"]}}),
            "spec.internalRedirect.responseHeadersToCopy[0]",
            "Host",
        ),
        (
            json!({"internalRedirect": {"responseHeadersToCopy": ["a", "X-Envoy-Upstream-Alt-Stat-Name"]}}),
            "spec.internalRedirect.responseHeadersToCopy[1]",
            "steers the proxy",
        ),
        (
            json!({"internalRedirect": {"responseHeadersToCopy": ["X-Forwarded-For"]}}),
            "spec.internalRedirect.responseHeadersToCopy[0]",
            "a client cannot send it",
        ),
        (
            json!({"internalRedirect": {"responseHeadersToCopy": ["a", "A"]}}),
            "spec.internalRedirect.responseHeadersToCopy[1]",
            "before",
        ),
        (json!({"requestMirror": {}}), "spec.requestMirror", "says nothing"),
        (json!({"requestMirror": {"hostRewriteLiteral": "a b"}}), "spec.requestMirror.hostRewriteLiteral", "a b"),
        (json!({"autoHostRewrite": "yes"}), "spec.autoHostRewrite", "true or false"),
        (json!({"tracing": {"clientSampling": 101}}), "spec.tracing.clientSampling", "100"),
        (json!({"tracing": {"disable": {}, "attributes": []}}), "spec.tracing.disable", "beside"),
        (json!({"tracing": {"attributes": [{"name": "a"}]}}), "spec.tracing.attributes[0]", "one of"),
        (
            json!({"tracing": {"attributes": [{"name": "a", "literal": {"value": "v".repeat(4096)}}]}}),
            "spec.tracing.attributes",
            "have 4097 bytes, and 4096 are the most, since a proxy holds them for each span; shorten them",
        ),
        (
            json!({"tracing": {"attributes": [
                {"name": "a", "literal": {"value": "v".repeat(2048)}},
                {"name": "b", "requestHeader": {"name": "x-a", "defaultValue": "v".repeat(1024)}},
                {"name": "c", "metadata": {"kind": "Request", "metadataKey": {"key": "a", "path": [{"key": "b"}]},
                    "defaultValue": "v".repeat(1024)}},
            ]}}),
            "spec.tracing.attributes",
            "have 4099 bytes",
        ),
        (
            json!({"tracing": {"attributes": [
                {"name": "a", "requestHeader": {"name": "x-a", "defaultValue": "1"}},
                {"name": "b", "requestHeader": {"name": "X-A", "defaultValue": "2"}},
            ]}}),
            "spec.tracing.attributes",
            "two tell header \"x-a\" with a default value",
        ),
        (
            json!({"tracing": {"attributes": [{"name": "", "literal": {"value": "a"}}]}}),
            "spec.tracing.attributes[0].name",
            "empty",
        ),
        (
            json!({"tracing": {"attributes": [{"name": "a", "environment": {"name": "PATH"}}]}}),
            "spec.tracing.attributes[0].environment",
            "not for policies",
        ),
        (json!({"statPrefix": ""}), "spec.statPrefix", "1 to 256"),
        (json!({"statPrefix": "a b"}), "spec.statPrefix", "a character"),
        (json!({"statPrefix": "{{gateway}}"}), "spec.statPrefix", "a variable that there is not"),
        (json!({"statPrefix": "a{{rule_name"}), "spec.statPrefix", "ends with }}"),
    ]);
}

#[test]
fn what_is_wrong_with_bodies_limits_and_headers_is_told_with_its_field() {
    are_refused([
        (json!({"compression": []}), "spec.compression", "must be a mapping"),
        (json!({"compression": {"all": {}}}), "spec.compression.all", "not supported"),
        (
            json!({"compression": {"responseCompression": {"libraries": []}}}),
            "spec.compression.responseCompression.libraries",
            "empty",
        ),
        (
            json!({"compression": {"responseCompression": {"libraries": ["Gzip", "Lzma"]}}}),
            "spec.compression.responseCompression.libraries[1]",
            "Lzma",
        ),
        (
            json!({"compression": {"requestDecompression": {"libraries": ["Gzip", "Zstd"]}}}),
            "spec.compression.requestDecompression.libraries",
            "use Gzip or Brotli",
        ),
        (
            json!({"compression": {"requestDecompression": {"libraries": ["Gzip", "Gzip"]}}}),
            "spec.compression.requestDecompression.libraries[1]",
            "before",
        ),
        (json!({"rateLimit": {"global": {}, "local": {}}}), "spec.rateLimit.global.extensionRef", "missing"),
        (json!({"rateLimit": {"local": {"percentEnabled": 1}}}), "spec.rateLimit.local.tokenBucket", "missing"),
        (
            json!({"rateLimit": {"local": {"tokenBucket": {"maxTokens": 0, "fillInterval": "1s"}}}}),
            "spec.rateLimit.local.tokenBucket.maxTokens",
            "1 or more",
        ),
        (
            json!({"rateLimit": {"local": {"tokenBucket": {"maxTokens": 1, "fillInterval": "49ms"}}}}),
            "spec.rateLimit.local.tokenBucket.fillInterval",
            "50ms",
        ),
        (json!({"headerModifiers": {}}), "spec.headerModifiers", "says nothing"),
        (json!({"headerModifiers": {"request": {}}}), "spec.headerModifiers.request", "says nothing"),
        (
            json!({"headerModifiers": {"request": {"set": [{"name": "a", "value": "b"}, {"name": "c"}]}}}),
            "spec.headerModifiers.request.set[1]",
            "a value, beside its name",
        ),
        (
            json!({"headerModifiers": {"request": {"set": [{"name": ":path", "value": "/"}]}}}),
            "spec.headerModifiers.request.set[0].name",
            "':'",
        ),
        (
            json!({"headerModifiers": {"request": {"add": [{"name": "Content-Length", "value": "1"}]}}}),
            "spec.headerModifiers.request.add[0].name",
            "frames",
        ),
        (
            json!({"headerModifiers": {"request": {"set": [{"name": "x-envoy-max-retries", "value": "9"}]}}}),
            "spec.headerModifiers.request.set[0].name",
            "steers the proxy",
        ),
        (
            json!({"headerModifiers": {"request": {"add": [{"name": "x_user", "value": "root"}]}}}),
            "spec.headerModifiers.request.add[0].name",
            "a client cannot send it",
        ),
        (
            json!({"headerModifiers": {"request": {"set": [{"name": "a", "value": "b\n"}]}}}),
            "spec.headerModifiers.request.set[0].value",
            "line breaks",
        ),
        (
            json!({"headerModifiers": {"request": {"remove": ["a", "host"]}}}),
            "spec.headerModifiers.request.remove[1]",
            "Host",
        ),
    ]);
}

#[test]
fn what_is_wrong_with_addresses_is_told_with_its_field() {
    let rule = |cidrs: Value| json!({"acl": {"defaultAction": "deny", "rules": [{"cidrs": cidrs, "action": "allow"}]}});
    let answer = |response: Value| json!({"acl": {"defaultAction": "deny", "denyResponse": response}});
    let named = |name: &str, response: Value| {
        let rules = json!([{"name": name, "cidrs": ["10.0.0.0/8"], "action": "deny"}]);
        json!({"acl": {"defaultAction": "allow", "rules": rules, "denyResponse": response}})
    };
    are_refused([
        (json!({"acl": {}}), "spec.acl.defaultAction", "missing"),
        (json!({"acl": {"defaultAction": "Deny"}}), "spec.acl.defaultAction", "allow or deny"),
        (
            json!({"acl": {"defaultAction": "deny", "rules": [{"cidrs": ["::/0"]}]}}),
            "spec.acl.rules[0].action",
            "missing",
        ),
        (rule(json!([])), "spec.acl.rules[0].cidrs", "empty"),
        (rule(json!(["::/0", "10.0.0.1/8"])), "spec.acl.rules[0].cidrs[1]", "write 10.0.0.0/8"),
        (rule(json!(["10.0.0.0/33"])), "spec.acl.rules[0].cidrs[0]", "not a range"),
        (rule(json!(["::ffff:10.0.0.0/104"])), "spec.acl.rules[0].cidrs[0]", "write 10.0.0.0/8"),
        (rule(json!(vec!["::/0"; 1025])), "spec.acl.rules", "1025 ranges"),
        (answer(json!({})), "spec.acl.denyResponse", "says nothing"),
        (answer(json!({"statusCode": 199})), "spec.acl.denyResponse.statusCode", "200"),
        (
            answer(json!({"headers": [{"name": "a", "value": "b"}, {"name": "Content-Length", "value": "9"}]})),
            "spec.acl.denyResponse.headers[1].name",
            "frames",
        ),
        (answer(json!({"headers": [{"name": "a", "value": "b\n"}]})), "spec.acl.denyResponse.headers[0].value", "line"),
        (answer(json!({"blockedByHeaderName": ":status"})), "spec.acl.denyResponse.blockedByHeaderName", "':'"),
        (named("a\nb", json!({"blockedByHeaderName": "x"})), "spec.acl.rules[0].name", "line"),
        (named(&"a".repeat(257), json!({"statusCode": 403})), "spec.acl.rules[0].name", "256"),
    ]);
}

#[test]
fn what_is_wrong_with_expressions_is_told_with_its_field() {
    let rbac = |action: &str, expressions: Value| json!({"rbac": {"action": action, "policy": {"matchExpressions": expressions}}});
    let first = "spec.rbac.policy.matchExpressions[0]";
    let all = "spec.rbac.policy.matchExpressions";
    let part = "true".to_owned() + &"||true".repeat(150);
    are_refused([
        (json!({"rbac": {}}), all, "there is none"),
        (rbac("Allow", json!([])), all, "there is none"),
        (rbac("deny", json!(["true"])), "spec.rbac.action", "Allow or Deny"),
        (rbac("Allow", json!(["true", "request.path ="])), "spec.rbac.policy.matchExpressions[1]", "means nothing"),
        (rbac("Allow", json!(["request.path.substring(1) == 'a'"])), first, "no function substring()"),
        (rbac("Deny", json!(["request.headers['a'] != 'b'"])), first, "would be let through"),
        (rbac("Allow", json!(vec!["true"; 257])), all, "257 entries"),
        (rbac("Allow", json!(vec!["request.path.contains('a')"; 17])), all, "16 times"),
        (rbac("Allow", json!(["a".repeat(65_536)])), all, "65536 bytes"),
        (rbac("Allow", json!(["a".repeat(10_000)])), first, "10000 bytes"),
        (rbac("Allow", json!([part, part, part, part])), all, "1024 parts"),
        (rbac("Allow", json!(["(".repeat(1_000) + "true" + &")".repeat(1_000)])), first, "deep"),
    ]);
}

#[test]
fn the_texts_of_a_direction_are_bounded_together_also_where_they_come_to_little() {
    let sets = |count: usize| {
        let set = |at: usize| json!({"name": format!("x-{at}"), "value": format!("{{{{ header('b') }}}}{{#{}#}}", "x".repeat(20_000))});
        json!({"set": (0..count).map(set).collect::<Vec<_>>()})
    };
    let both = |request: usize, response: usize| json!({"transformation": {"request": sets(request), "response": sets(response)}});
    assert_eq!(units(both(3, 3)).len(), 1, "each direction has its own");
    for (spec, field) in [(both(4, 1), "spec.transformation.request"), (both(1, 4), "spec.transformation.response")] {
        are_refused([(spec, field, "bytes together, and 65536 are the most")]);
    }
}

#[test]
fn templates_that_are_not_served_are_told_with_their_field() {
    let set =
        |name: &str, value: &str| json!({"transformation": {"request": {"set": [{"name": name, "value": value}]}}});
    let (name, value) = ("spec.transformation.request.set[0].name", "spec.transformation.request.set[0].value");
    let metadata = |namespace: &str, key: &str, value: &str| {
        let metadata = json!({"namespace": namespace, "key": key, "value": {"stringValue": value}});
        json!({"transformation": {"request": {"dynamicMetadata": [metadata]}}})
    };
    are_refused([
        (set("a", "{{ b }}"), value, "is a variable"),
        (set("a", "x{%if true%}y"), value, "at character 2, {% if %} begins a statement that does not end"),
        (set("a", "{{ body() }}"), value, "set request.body.parseAs to AsString or AsJson"),
        (set("a", "{{ context().b }}"), value, "set request.body.parseAs to AsJson"),
        (
            json!({"transformation": {"response": {"body": {"value": "{% for a in b %}{% endfor %}"}}}}),
            "spec.transformation.response.body.value",
            "b is a variable",
        ),
        (
            json!({"transformation": {"response": {
                "body": {"parseAs": "AsJson"},
                "set": [{"name": "a", "value": "{{ request_header(b) }}"}],
            }}}),
            "spec.transformation.response.set[0].value",
            "nor variables nor the body",
        ),
        (set("a", "b{# c "), value, "{# begins a comment that does not end"),
        (set("a", "{{"), value, "{{ begins an expression that does not end"),
        (set("a", "{{ header('b') }}\nc"), value, "line breaks"),
        (set("a", &"{# #}".repeat(20_000)), value, "65536 are the most"),
        (
            set("a", &"{{ header('b') }}".repeat(600)),
            "spec.transformation.request",
            "1201 parts together, and 1024 are the most",
        ),
        (set(":scheme", "{{ header('b') }}"), name, "':'"),
        (set("host", "{{ header('b') }}"), name, "Host"),
        (set("content-length", "{{ header('b') }}"), name, "frames the message"),
        (set("x-forwarded-for", "{{ header('b') }}"), name, "cannot send"),
        (set("é", "{{ header('b') }}"), name, "must not contain"),
        (set(":path", ""), value, "a path begins with /"),
        (set(":path", "/a b"), value, "a path begins with /"),
        (set(":method", "HEAD"), value, "it is no method"),
        (set(":authority", "a/b"), value, "it is no hostname"),
        (
            json!({"transformation": {"request": {"add": [{"name": ":path", "value": "/a"}]}}}),
            "spec.transformation.request.add[0].name",
            "':'",
        ),
        (
            json!({"transformation": {"response": {"set": [{"name": ":status", "value": "{{ header('a') }}"}]}}}),
            "spec.transformation.response.set[0].name",
            "':'",
        ),
        (
            json!({"transformation": {"response": {"set": [{"name": "a", "value": "{{ get_cookie(header('b')) }}"}]}}}),
            "spec.transformation.response.set[0].value",
            "have neither header()",
        ),
        (set("a", "b\nc"), value, "line breaks"),
        (set("host", ""), "spec.transformation.request.set[0].name", "Host"),
        (set("x-forwarded-for", "10.0.0.1"), "spec.transformation.request.set[0].name", "cannot send"),
        (
            json!({"transformation": {"response": {"add": [{"name": "a"}]}}}),
            "spec.transformation.response.add[0].value",
            "empty",
        ),
        (
            json!({"transformation": {"response": {"remove": [":status"]}}}),
            "spec.transformation.response.remove[0]",
            "':'",
        ),
        (
            json!({"transformation": {"request": {"body": {"parseAs": "None", "value": "a"}}}}),
            "spec.transformation.request.body.parseAs",
            "remove value",
        ),
        (
            json!({"transformation": {"request": {"body": {"parseAs": "AsXml"}}}}),
            "spec.transformation.request.body.parseAs",
            "use AsString, AsJson or None",
        ),
        (metadata("", "k", "v"), "spec.transformation.request.dynamicMetadata[0].namespace", "empty"),
        (metadata("a", &"k".repeat(257), "v"), "spec.transformation.request.dynamicMetadata[0].key", "256 characters"),
        (metadata("a", "k", ""), "spec.transformation.request.dynamicMetadata[0].value.stringValue", "empty"),
        (metadata("a", "k", "{{"), "spec.transformation.request.dynamicMetadata[0].value.stringValue", "does not end"),
        (metadata("envoy.lb", "k", "v"), "spec.transformation.request.dynamicMetadata[0].namespace", "of your own"),
        (metadata("portcullis.a", "k", "v"), "spec.transformation.request.dynamicMetadata[0].namespace", "of your own"),
        (
            json!({"transformation": {"request": {"remove": vec!["a"; 17]}}}),
            "spec.transformation.request.remove",
            "17 entries",
        ),
    ]);
}

#[test]
fn what_is_wrong_with_users_is_told_with_its_field() {
    are_refused([
        (json!({"basicAuth": {}}), "spec.basicAuth", "one of users"),
        (json!({"basicAuth": {"users": ["a"], "disable": {}}}), "spec.basicAuth", "one of users"),
        (json!({"basicAuth": {"users": []}}), "spec.basicAuth.users", "names no user"),
        (json!({"basicAuth": {"users": ["#", "alice"]}}), "spec.basicAuth.users[1]", "no colon"),
        (json!({"basicAuth": {"users": ["#\nb:c"]}}), "spec.basicAuth.users[0]", "one user an entry"),
        (json!({"basicAuth": {"users": vec!["#"; 257]}}), "spec.basicAuth.users", "257 entries"),
        (json!({"basicAuth": {"secretRef": {"name": ""}}}), "spec.basicAuth.secretRef.name", "empty"),
        (json!({"basicAuth": {"secretRef": {"name": "s", "kind": "S"}}}), "spec.basicAuth.secretRef.kind", "not known"),
        (json!({"basicAuth": {"secretRef": {"name": 1}}}), "spec.basicAuth.secretRef.name", "must be a string"),
    ]);
}

#[test]
fn what_is_wrong_with_keys_is_told_with_its_field() {
    let of = |mut spec: Value| {
        spec["secretRef"] = json!({"name": "s"});
        json!({"apiKeyAuth": spec})
    };
    are_refused([
        (json!({"apiKeyAuth": {}}), "spec.apiKeyAuth", "one of secretRef"),
        (of(json!({"disable": {}})), "spec.apiKeyAuth", "one of secretRef"),
        (json!({"apiKeyAuth": {"secretRef": {"name": ""}}}), "spec.apiKeyAuth.secretRef.name", "empty"),
        (
            json!({"apiKeyAuth": {"secretRef": {"name": "s", "kind": "ConfigMap"}}}),
            "spec.apiKeyAuth.secretRef.kind",
            "only a Secret",
        ),
        (
            json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {}}}}),
            "spec.apiKeyAuth.secretSelector.matchLabels",
            "every Secret",
        ),
        (
            json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"a": "b"}, "matchExpressions": []}}}),
            "spec.apiKeyAuth.secretSelector.matchExpressions",
            "not known",
        ),
        (of(json!({"keySources": [{}]})), "spec.apiKeyAuth.keySources[0]", "it names nothing"),
        (of(json!({"keySources": [{"header": "Host"}]})), "spec.apiKeyAuth.keySources[0].header", "Host"),
        (of(json!({"keySources": [{"query": ""}]})), "spec.apiKeyAuth.keySources[0].query", "256"),
        (of(json!({"keySources": [{"cookie": "a=b"}]})), "spec.apiKeyAuth.keySources[0].cookie", "a cookie"),
        (of(json!({"keySources": vec![json!({"query": "a"}); 17]})), "spec.apiKeyAuth.keySources", "17 entries"),
        (of(json!({"clientIdHeader": "x-forwarded-for"})), "spec.apiKeyAuth.clientIdHeader", "steers the proxy"),
        (of(json!({"clientIdHeader": "API-Key"})), "spec.apiKeyAuth.clientIdHeader", "looked for in this header"),
    ]);
}
