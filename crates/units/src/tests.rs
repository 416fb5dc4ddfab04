//! What policies say, read and put into rules.

use std::time::Duration;

use envoy::route::{GuardedMatch, RouteAt};
use ir::{
    RouteId,
    filter::{HeaderChanges, HeaderModifier, Scheme},
    matching::{PathMatch, RequestMatch},
    route::{Fields, Handling},
    rule::{self, Action, Rule, Source, WeightedBackend},
};
use prost::Message;
use serde_json::{Value, json};

use super::*;

mod deep;
mod hiding;
mod logins;
mod providers;
mod refused;
mod secrets;

/// Gateways that are all alike.
struct Plain {
    is_traced: bool,
    takes_addresses: bool,
}

const TRACED: Plain = Plain { is_traced: true, takes_addresses: false };

impl Gateways for Plain {
    fn are_traced(&self) -> bool {
        self.is_traced
    }

    fn take_addresses(&self) -> bool {
        self.takes_addresses
    }
}

fn policy(spec: Value) -> TrafficPolicySpec {
    serde_json::from_value(spec).expect("a spec")
}

fn others(secrets: &secrets::Store) -> Others<'_> {
    Others { secrets, extensions: &Everybody }
}

/// What a spec says, with these Secrets.
fn read_all(spec: Value, secrets: &secrets::Store) -> Result<Vec<ParsedUnit>, Problem> {
    let spec = policy(spec);
    read(&spec, &others(secrets))
}

fn units(spec: Value) -> Vec<AnyUnit> {
    let said = read_all(spec, &secrets::samples()).expect("units");
    said.into_iter().map(|said| said.unit.expect("a unit that is served")).map(|unit| AnyUnit::clone(&unit)).collect()
}

/// Where a policy is refused, and why.
fn refused(spec: Value) -> (String, String) {
    let said = read_all(spec, &secrets::samples());
    let refused = said.map(|said| {
        said.into_iter().find_map(|said| said.unit.err()).map(|refused| *refused).expect("a unit that is refused")
    });
    let Problem { field, message, .. } = refused.unwrap_or_else(|problem| problem);
    (field, message)
}

/// What a rule that forwards says of them, in words.
fn said(spec: Value) -> Vec<(&'static str, String)> {
    let (handling, _) = applied(spec, Fields::default());
    let share = WeightedBackend {
        weight: 1,
        cluster: Some("c".into()),
        request_headers: HeaderModifier::default(),
        response_headers: HeaderModifier::default(),
        hostname: None,
    };
    let rule = Rule {
        action: Action::Forward(vec![share]),
        slots: handling.slots,
        by_policy: handling.by_policy,
        ..Rule::direct_response(500, "")
    };
    let source = Source { route: RouteId::http("apps", "shop"), rule: 0, rule_name: None, matching: 0, part: 0 };
    let path = PathMatch::Exact("/".into());
    let request = RequestMatch {
        path,
        method: None,
        headers: vec![],
        queries: vec![],
        grpc: None,
        implied: false,
        host_with_port: false,
    };
    let row =
        envoy::route::route(&source, &GuardedMatch::new(request), &rule, RouteAt { scheme: Scheme::Http, port: 80 });
    explain(&Route::decode(&*row.expect("a route").bytes).expect("a route"))
}

fn applied(spec: Value, fields: Fields) -> (Handling, Vec<bool>) {
    let mut rule = Handling { fields, ..Handling::default() };
    let holds = units(spec).into_iter().map(|unit| SharedUnit::from(unit).apply(&mut rule)).collect();
    (rule, holds)
}

#[test]
fn units_come_in_the_order_of_the_list_whatever_the_order_of_the_fields() {
    let spec = json!({
        "urlRewrite": {"pathRegex": {"pattern": "a", "substitution": "b"}},
        "buffer": {"maxRequestSize": "1Ki"},
        "retry": {"retryOn": ["5xx"]},
        "timeouts": {"request": "1s"},
        "csrf": {},
        "statPrefix": "a",
        "faultInjection": {"disable": {}},
        "internalRedirect": {},
        "requestMirror": {"disableShadowHostSuffixAppend": true},
        "compression": {"requestDecompression": {}, "responseCompression": {}},
        "cors": {},
        "rateLimit": {"local": {}, "global": {"extensionRef": {"name": "counter"}, "descriptors": [{"entries": [{"type": "Path"}]}]}},
        "headerModifiers": {"request": {"remove": ["a"]}},
        "autoHostRewrite": true,
        "tracing": {},
        "acl": {"defaultAction": "deny"},
        "rbac": {"policy": {"matchExpressions": ["true"]}},
        "transformation": {},
        "apiKeyAuth": {"disable": {}},
        "basicAuth": {"disable": {}},
        "extAuth": {"disable": {}},
        "jwtAuth": {"disable": {}},
        "oauth2": {"extensionRef": {"name": "login"}},
        "extProc": {"disable": {}},
    });
    let fields: Vec<_> = units(spec).iter().map(AnyUnit::field).collect();
    assert_eq!(fields, AnyUnit::FIELDS);
}

#[test]
fn a_field_that_is_not_served_refuses_the_policy_and_names_all_of_them() {
    let (field, message) = refused(json!({"unknown": {}, "another": {}, "timeouts": {}}));
    assert_eq!(field, "spec.another");
    assert!(message.starts_with("field another is not supported, nor is unknown"), "{message}");
}

#[test]
fn a_rules_own_timeouts_win_over_those_that_they_name() {
    let second = Some(Duration::from_secs(1));
    let own = rule::Timeouts { request: second, ..rule::Timeouts::default() };
    let fields = || Fields { timeouts: Some(own), ..Fields::default() };
    let (rule, holds) = applied(json!({"timeouts": {"request": "9s", "streamIdle": "3s"}}), fields());
    let idle = Some(Duration::from_secs(3));
    assert_eq!(rule.fields.timeouts, Some(rule::Timeouts { stream_idle: idle, ..own }));
    assert_eq!(holds, [true]);
    assert_eq!(applied(json!({"timeouts": {"request": "9s"}}), fields()).1, [false]);
}

#[test]
fn a_rules_own_retry_wins_as_a_whole() {
    let spec = json!({"retry": {"retryOn": ["reset", "5xx"], "statusCodes": [503, 502, 503], "perTryTimeout": "1s"}});
    let (rule, holds) = applied(spec.clone(), Fields::default());
    let retry = rule.fields.retry.expect("a retry");
    assert_eq!(retry.conditions.join(","), "5xx,reset,retriable-status-codes");
    assert_eq!((&*retry.codes, retry.attempts), (&[502, 503][..], Some(1)));
    assert_eq!(retry.backoff, Some(Duration::from_millis(25)));
    assert_eq!(rule.fields.timeouts.and_then(|timeouts| timeouts.backend_request), Some(Duration::from_secs(1)));
    assert_eq!(holds, [true]);
    let own = rule::Retry { conditions: Vec::new(), codes: Vec::new(), attempts: None, backoff: None };
    let (rule, holds) = applied(spec, Fields { retry: Some(own.clone().into()), ..Fields::default() });
    assert_eq!((rule.fields.retry, rule.fields.timeouts), (Some(own.into()), None));
    assert_eq!(holds, [false]);
}

#[test]
fn what_policies_write_alike_is_judged_in_each_of_them_by_itself() {
    let retry = json!({"retryOn": ["5xx"], "perTryTimeout": "2s"});
    let alone = json!({"retry": retry});
    let beside = json!({"retry": retry, "timeouts": {"request": "1s"}});
    let on = |kind: &str| {
        let target = json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": "x"});
        json!({"targetRefs": [target], "autoHostRewrite": true})
    };
    let (route, gateway) = (on("HTTPRoute"), on("Gateway"));
    for (sound, broken) in [(alone, beside), (route, gateway)] {
        // Each is known while the other is read.
        let before = units(sound.clone());
        let (field, _) = refused(broken.clone());
        assert_eq!(units(sound.clone()), before, "{field}");
        assert_eq!(refused(broken).0, field);
    }
    let compression = |field: &str| units(json!({"compression": {field: {}}}));
    let (responses, requests) = (compression("responseCompression"), compression("requestDecompression"));
    assert_ne!(responses, requests);
}

#[test]
fn a_size_is_said_in_its_slot_which_is_switched_off_where_the_unit_is() {
    for (spec, words, disables) in [
        (json!({"buffer": {"maxRequestSize": "10Ki"}}), "requests of at most 10240 bytes, read whole", false),
        (json!({"buffer": {"disable": {}}}), "off", true),
    ] {
        let (rule, holds) = applied(spec.clone(), Fields::default());
        assert_eq!(holds, [true]);
        let unit = &units(spec)[0];
        assert_eq!((unit.slots(), unit.disables()), (rule.slots.clone(), disables));
        assert_eq!(rule.slots.iter().map(|slot| slot.name).collect::<Vec<_>>(), ["buffer", "buffer.body"]);
        let slots = rule.slots.iter().map(|Slot { name, config, .. }| {
            ((*name).to_owned(), envoy_types::pb::google::protobuf::Any::decode(&**config).expect("a message"))
        });
        let route = Route { typed_per_filter_config: slots.collect(), ..Route::default() };
        assert_eq!(explain(&route), [("buffer", words.to_owned())]);
    }
}

#[test]
fn a_field_is_refused_at_targets_for_which_its_crd_does_not_allow_it() {
    let rewrite = json!({"urlRewrite": {"pathRegex": {"pattern": "a", "substitution": "b"}}});
    let on = |mut spec: Value, list: &str, kind: &str| {
        let target = json!({"group": "gateway.networking.k8s.io", "kind": kind, "name": "x", "matchLabels": {}});
        spec[list] = json!([target]);
        spec
    };
    for list in ["targetRefs", "targetSelectors"] {
        let (field, message) = refused(on(rewrite.clone(), list, "Gateway"));
        assert_eq!(field, "spec.urlRewrite");
        assert!(
            message.starts_with("it can be set for HTTPRoutes only, and the policy targets a Gateway"),
            "{message}"
        );
        assert_eq!(units(on(rewrite.clone(), list, "HTTPRoute")).len(), 1);
        assert_eq!(units(on(json!({"timeouts": {"request": "1s"}}), list, "Gateway")).len(), 1);
    }
}

#[test]
fn faults_are_said_in_their_slot_and_where_they_are_switched_off_that_too() {
    let spec = json!({"faultInjection": {
        "delay": {"fixedDelay": "1s500ms", "percentage": 5}, "abort": {"grpcStatus": 14},
        "responseRateLimit": {"kbitsPerSecond": 8}, "maxActiveFaults": 3,
    }});
    let words = "5% wait 1.5s, 100% are answered gRPC status 14, 100% of responses come at 8 KiB/s, while fewer than 3 \
                 faults are active at the listener";
    assert_eq!(said(spec), [("faultInjection", words.to_owned())]);
    // As an API server completes it.
    let off = json!({"faultInjection": {"disable": {}, "abort": {"httpStatus": 503, "percentage": 100}}});
    assert_eq!(said(off), [("faultInjection", "off".to_owned())]);
}

#[test]
fn clients_make_no_statistics_by_what_they_ask_a_route_with_faults() {
    let (rule, _) = applied(json!({"faultInjection": {"abort": {"httpStatus": 503}}}), Fields::default());
    let any = envoy_types::pb::google::protobuf::Any::decode(&*rule.slots[0].config).expect("an Any");
    let fault = envoy_types::pb::envoy::extensions::filters::http::fault::v3::HttpFault::decode(&*any.value);
    assert!(fault.expect("a fault").disable_downstream_cluster_stats);
}

#[test]
fn origins_are_checked_by_the_share_that_is_said_and_else_its_author_is_warned() {
    let spec = json!({"csrf": {"percentageEnabled": 100, "additionalOrigins": [
        {"exact": "a.example:8080"}, {"suffix": ".b.example", "ignoreCase": true}, {"safeRegex": "c[0-9]"},
    ]}});
    let words = "requests that change something come from pages of their own host or a.example:8080, ....b.example, \
                 c[0-9]; 100% are held to it";
    assert_eq!(said(spec.clone()), [("csrf", words.to_owned())]);
    assert!(units(spec.clone()).iter().all(|unit| unit.warning(&TRACED).is_none()));
    let (rule, _) = applied(spec, Fields::default());
    assert_eq!(*rule.slots[0].patterns, ["c[0-9]".into()], "its expressions have a price");
    let nothing = json!({"csrf": {"additionalOrigins": [{"exact": "a"}]}});
    assert_eq!(said(nothing.clone()), [("csrf", "off".to_owned())]);
    let warning = units(nothing)[0].warning(&TRACED).expect("a warning");
    assert_eq!(warning.field, "spec.csrf");
}

#[test]
fn statistics_are_named_after_the_rule() {
    let spec = json!({"statPrefix": "all.{{route_namespace}}.{{ rule_name }}.{{route_name}}-1%"});
    assert_eq!(said(spec), [("statPrefix", "all.apps.shop-1%".to_owned())]);
}

#[test]
fn redirects_are_followed_once_by_302_unless_said() {
    let words = |spec| said(json!({"internalRedirect": spec}))[0].1.clone();
    assert_eq!(words(json!({})), "302 are followed up to 1 times");
    let all = json!({"maxRedirects": 2, "redirectResponseCodes": [307, 301], "allowCrossSchemeRedirect": true});
    assert_eq!(words(all), "307, 301 are followed up to 2 times, to another scheme too");
    let many = json!({"internalRedirect": {"maxRedirects": 3}});
    assert_eq!(said(many.clone())[0].1, "302 are followed up to 2 times");
    let [many] = &units(many)[..] else { panic!("one unit") };
    assert_eq!(many.warning(&TRACED).expect("a warning").field, "spec.internalRedirect.maxRedirects");
    let behind = Plain { takes_addresses: true, ..TRACED };
    let warning = many.warning(&behind).expect("a warning").to_string();
    assert!(warning.contains("redirects go to the client"), "{warning}");
}

#[test]
fn what_is_not_switched_on_of_several_slots_is_switched_off() {
    let compression = |spec: Value| {
        let (rule, _) = applied(json!({"compression": spec}), Fields::default());
        rule.slots.iter().map(|slot| (slot.name, *slot == slots::off(slot.name))).collect::<Vec<_>>()
    };
    let zstd = compression(json!({"responseCompression": {"libraries": ["Zstd", "Gzip"]}}));
    assert_eq!(zstd, [("compress.zstd", false), ("compress.gzip", false), ("compress.brotli", true)]);
    // As an API server completes it.
    let none = compression(json!({"requestDecompression": {"disable": {}, "libraries": ["Gzip"]}}));
    assert_eq!(none, [("decompress.gzip", true), ("decompress.brotli", true), ("decompress.zstd", true)]);
    let words = said(json!({"compression": {"responseCompression": {}, "requestDecompression": {"disable": {}}}}));
    let gzip = "by Gzip, where the client accepts it".to_owned();
    let off = "off".to_owned();
    assert_eq!(words, [("compression.responseCompression", gzip), ("compression.requestDecompression", off)]);
}

#[test]
fn a_rules_own_cors_filter_wins_as_a_whole() {
    let spec = json!({"cors": {"allowOrigins": ["https://*.a.example"], "maxAge": 60}});
    let (rule, holds) = applied(spec.clone(), Fields::default());
    assert_eq!(holds, [true]);
    assert_eq!(*rule.slots[0].patterns, [r"https://[^/:]+\.a\.example".into()], "its expressions have a price");
    assert_eq!(said(spec.clone())[0].0, "cors");
    let own = cors(&api::http_route::HttpCorsFilter::default()).expect("a filter");
    let (rule, holds) = applied(spec, Fields { cors: Some(own.into()), ..Fields::default() });
    assert_eq!((rule.slots.len(), holds), (0, vec![false]));
    assert_eq!(said(json!({"cors": {"disable": {}, "maxAge": 5}})), [("cors", "off".to_owned())]);
}

#[test]
fn a_limit_counts_all_requests_unless_said_and_none_where_it_is_empty() {
    let words = |spec| said(json!({"rateLimit": {"local": spec}}))[0].1.clone();
    let bucket = json!({"maxTokens": 5, "fillInterval": "1s"});
    assert_eq!(words(json!({"tokenBucket": bucket})), "5 requests at once, 1 more each 1s, in each proxy");
    let some = json!({"tokenBucket": bucket, "percentEnabled": 50, "percentEnforced": 0});
    assert_eq!(
        words(some),
        "5 requests at once, 1 more each 1s, in each proxy, 50% are counted, of these 0% held to it"
    );
    assert_eq!(words(json!({})), "off");
}

#[test]
fn a_rule_that_sets_what_no_client_could_sends_redirects_to_the_client() {
    let sets = |name: &str| {
        HeaderModifier::from(HeaderChanges { set: vec![(name.into(), "a".into())], ..HeaderChanges::default() })
    };
    let follow = || json!({"internalRedirect": {}});
    for (name, holds) in [("x-user", true), ("X-Forwarded-For", false), ("x-envoy-retry-on", false), ("x_user", false)]
    {
        let fields = Fields { request_headers: sets(name), ..Fields::default() };
        let (rule, held) = applied(follow(), fields);
        assert_eq!((held, rule.by_policy.internal_redirect.is_some()), (vec![holds], holds), "{name}");
    }
}

#[test]
fn what_switches_off_is_known_as_such() {
    for spec in [
        json!({"buffer": {"disable": {}}}),
        json!({"compression": {"responseCompression": {"disable": {}}, "requestDecompression": {"disable": {}}}}),
        json!({"cors": {"disable": {}}}),
        json!({"faultInjection": {"disable": {}}}),
        json!({"rateLimit": {"local": {}}}),
        json!({"tracing": {"disable": {}}}),
        json!({"acl": {"defaultAction": "allow"}}),
        json!({"acl": {"defaultAction": "allow", "rules": [{"cidrs": ["10.0.0.0/8"], "action": "allow"}]}}),
    ] {
        assert!(units(spec.clone()).iter().all(AnyUnit::disables), "{spec}");
    }
    for spec in
        [json!({"buffer": {"maxRequestSize": 1}}), json!({"tracing": {}}), json!({"timeouts": {"request": "1s"}})]
    {
        assert!(!units(spec.clone()).iter().any(AnyUnit::disables), "{spec}");
    }
}

#[test]
fn headers_are_added_then_set_then_removed_and_a_percent_sign_is_one() {
    let header = |name: &str, value: &str| json!({"name": name, "value": value});
    let spec = json!({"headerModifiers": {
        "request": {"remove": ["X-Gone"], "set": [header("X-Set", "100%")], "add": [header("x-add", "a")]},
        "response": {"remove": ["content-length"]},
    }});
    let words = "request: add x-add: a, set x-set: 100%, remove x-gone; response: remove content-length";
    assert_eq!(said(spec), [("headerModifiers", words.to_owned())]);
    assert_eq!(said(json!({"headerModifiers": {"request": {"add": []}}})), [("headerModifiers", "off".to_owned())]);
}

#[test]
fn an_address_counts_to_the_narrowest_range_and_to_the_last_rule_that_names_it() {
    let spec = json!({"acl": {
        "defaultAction": "allow",
        "rules": [
            {"name": "internal", "cidrs": ["10.0.0.0/8", "10.1.2.3"], "action": "deny"},
            {"name": "trusted", "cidrs": ["10.1.0.0/16"], "action": "allow"},
            {"cidrs": ["10.1.2.3/32", "2001:db8::/32"], "action": "deny"},
        ],
        "denyResponse": {"statusCode": 451},
    }});
    let words = "10.1.2.3/32: 451, blocked by rule; 10.1.0.0/16: taken; 10.0.0.0/8: 451, blocked by internal; \
                 2001:db8::/32: 451, blocked by rule; any other address: taken";
    assert_eq!(said(spec), [("acl", words.to_owned())]);
    let nobody = json!({"acl": {"defaultAction": "deny"}});
    assert_eq!(said(nobody), [("acl", "any other address: 403, blocked by default".to_owned())]);
    let all = json!({"acl": {"defaultAction": "deny", "rules": [{"cidrs": ["::/0"], "action": "allow"}]}});
    let words = "0.0.0.0/0: 403, blocked by default; ::/0: taken; any other address: 403, blocked by default";
    assert_eq!(said(all), [("acl", words.to_owned())]);
}

#[test]
fn ranges_of_ipv6_say_nothing_of_ipv4() {
    let both =
        json!({"acl": {"defaultAction": "allow", "rules": [{"cidrs": ["0.0.0.0/0", "::/0"], "action": "deny"}]}});
    let words = "0.0.0.0/0: 403, blocked by rule; ::/0: 403, blocked by rule; any other address: taken";
    assert_eq!(said(both), [("acl", words.to_owned())]);
}

#[test]
fn requests_are_let_through_by_any_of_several_expressions() {
    let spec = |action: &str, expressions: &[&str]| json!({"rbac": {"action": action, "policy": {"matchExpressions": expressions}}});
    let words = "request.path == '/a', or request.method == 'GET': let through; otherwise: 403";
    let expressions = ["request.path == '/a'", "request.method == 'GET'"];
    assert_eq!(said(spec("Allow", &expressions)), [("rbac", words.to_owned())]);
    let words = "request.path.matches('^/a'): 403; otherwise: let through";
    assert_eq!(said(spec("Deny", &["request.path.matches('^/a')"])), [("rbac", words.to_owned())]);
    let slot = units(spec("Deny", &["request.path.matches('^/a')"]))[0].slots().remove(0);
    assert_eq!(slot.patterns.to_vec(), ["^/a".into()]);
}

#[test]
fn plain_texts_are_set_then_added_then_removed_and_an_empty_one_removes() {
    let spec = json!({"transformation": {
        "request": {
            "remove": ["X-Gone"],
            "add": [{"name": "x-add", "value": "50% }} %} #}\n"}],
            "set": [{"name": "X-Set", "value": "a"}, {"name": "X-Empty", "value": ""}, {"name": "x-none"}],
            "body": {"parseAs": "None"},
        },
        "response": {"set": [{"name": "server", "value": "\n"}], "body": {"parseAs": "AsString"}},
    }});
    let words = "request: set x-set: a, remove x-empty, remove x-none, add x-add: 50% }} %} #}, remove x-gone; \
                 response: remove server";
    assert_eq!(said(spec), [("transformation", words.to_owned())]);
    assert_eq!(said(json!({"transformation": {"request": {}}})), [("transformation", "off".to_owned())]);
    // One that is no plain text has a program make all of them.
    let spec = json!({"transformation": {
        "request": {
            "set": [{"name": ":path", "value": "/a{{ substring(header(':path'), 2) }}"}, {"name": "x-a", "value": "50%"}],
            "dynamicMetadata": [{"namespace": "n", "key": "k", "value": {"stringValue": "{{ get_cookie('c') }}"}}],
        },
        "response": {
            "add": [{"name": "x-b", "value": "{{ request_header('x-c') ~ header('x-d') }}"}],
            "set": [{"name": "x-e", "value": "{{ base64_encode(get_cookie_i('F')) }}"}, {"name": "x-f", "value": "{{ '' }}"}],
        },
    }});
    let words = "request: set :path: \"/a\" ~ substring(header(\":path\"), 2), set x-a: 50%, \
                 metadata n k: get_cookie(\"c\"); response: set x-e: base64_encode(get_cookie_i(\"F\")), remove x-f, \
                 add x-b: request_header(\"x-c\") ~ header(\"x-d\")";
    assert_eq!(said(spec), [("transformation", words.to_owned())]);
}

#[test]
fn bodies_are_told_in_the_words_of_their_templates() {
    let spec = json!({"transformation": {
        "request": {
            "body": {"parseAs": "AsJson", "value": "{{ user.name | default('nobody') ~ '!' }}"},
            "set": [{"name": "x-tier", "value": "{{ tier }}"}],
        },
        "response": {
            "body": {"value": "{% if header('x-a') %}{{ body() }}{% endif %}"},
            "add": [{"name": "x-b", "value": "{{ body() | length }}"}],
        },
    }});
    let words = "request: body: user.name | default(\"nobody\") ~ \"!\", set x-tier: tier; \
                 response: body: a template of 8 parts, add x-b: body() | length";
    assert_eq!(said(spec), [("transformation", words.to_owned())]);
}

#[test]
fn of_two_bodies_the_preferred_one_stands_and_all_headers_are_changed() {
    let body = |value: &str, name: &str| {
        let set = json!([{"name": name, "value": "{{ header('h') }}"}]);
        units(json!({"transformation": {"request": {"body": {"value": value}, "set": set}}})).remove(0)
    };
    let (ours, theirs) = (body("ours", "x-ours"), body("theirs", "x-theirs"));
    let merged = ours.over(&theirs).expect("both are sound");
    let said = format!("{merged:?}");
    assert!(said.contains("\"ours\"") && said.contains("x-ours") && said.contains("x-theirs"), "{said}");
    assert!(!said.contains("\"theirs\""), "{said}");
}

#[test]
fn what_is_traced_where_nobody_is_told_is_written_and_its_author_is_warned() {
    let attributes = json!([
        {"name": "a", "literal": {"value": "b"}}, {"name": "c", "requestHeader": {"name": "X-C", "defaultValue": "d"}},
        {"name": "e", "metadata": {"kind": "Request", "metadataKey": {"key": "k", "path": [{"key": "l"}]}}},
    ]);
    let spec = json!({"autoHostRewrite": true, "tracing": {"randomSampling": 5, "attributes": attributes}});
    let warned = |is_traced| -> Vec<_> {
        let gateways = Plain { is_traced, ..TRACED };
        units(spec.clone()).iter().map(|unit| unit.warning(&gateways).is_some()).collect()
    };
    assert_eq!(warned(false), [false, true], "what backends have hostnames is for their routes to say");
    assert_eq!(warned(true), [false, false]);
    let tracing = "random sampling 5%, attribute a, attribute c, attribute e".to_owned();
    let host = "the hostname of the backend, if it has one".to_owned();
    assert_eq!(said(spec), [("autoHostRewrite", host), ("tracing", tracing)]);
    let off = "client sampling 0%, random sampling 0%, overall sampling 0%".to_owned();
    assert_eq!(said(json!({"tracing": {"disable": {}}})), [("tracing", off)]);
    let own = || Fields {
        rewrite: Some(Box::new(ir::filter::Rewrite { hostname: Some("a".into()), path: None })),
        ..Fields::default()
    };
    assert_eq!(applied(json!({"autoHostRewrite": true}), own()).1, [false]);
}

#[test]
fn what_rules_that_answer_by_themselves_do_too_stands_in_slots_or_is_for_routes_alone() {
    for (field, holds_for_answers, targets, slots) in AnyUnit::ALL {
        let reaches_all = !holds_for_answers || !slots.is_empty() || !targets.contains(&"Gateway");
        assert!(reaches_all, "{field} of a Gateway would not hold for rules that answer by themselves");
    }
}
