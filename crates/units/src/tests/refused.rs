//! What policies may not say.

use serde_json::{Value, json};

use super::refused;

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
        (json!({"rateLimit": {"global": {}, "local": {}}}), "spec.rateLimit.global", "not supported"),
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
            "both name and value",
        ),
        (
            json!({"headerModifiers": {"response": {"add": [{"secretRef": {"name": "s"}}]}}}),
            "spec.headerModifiers.response.add[0].secretRef",
            "not served yet",
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
