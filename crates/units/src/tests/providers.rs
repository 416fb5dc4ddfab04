//! What units make of providers.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use envoy_types::pb::envoy::extensions::filters::http::filter_chain::v3::FilterChainConfigPerRoute;
use serde_json::{Value, json};

use super::*;

/// The slots of a unit that are on, each with the name of the filter in it.
pub(super) fn places(unit: &AnyUnit) -> Vec<(&'static str, String)> {
    let wrapped = unit.slots().into_iter().filter_map(|slot| {
        let chain = spec::decoded::<FilterChainConfigPerRoute>(&slot)?.filter_chain?;
        Some((slot.name, chain.filters.first()?.name.clone()))
    });
    wrapped.collect()
}

pub(super) fn one(spec: Value) -> AnyUnit {
    units(spec).remove(0)
}

fn judged_by(name: &str) -> AnyUnit {
    one(json!({"extAuth": {"extensionRef": {"name": name}}}))
}

#[test]
fn judges_of_two_levels_stand_in_the_order_of_their_names() {
    let both = judged_by("judge2").over(&judged_by("judge")).expect("both judge");
    let places = places(&both);
    assert_eq!(places, [("extAuth.0", "extAuth.0.ask".to_owned()), ("extAuth.1", "extAuth.1.ask".to_owned())]);
    assert!(both.authenticates() && both.excess().is_none());
}

#[test]
fn more_judges_than_there_are_places_are_no_unit() {
    let names = ["judge", "judge2", "judge3", "judge4"];
    let four = names.into_iter().map(judged_by).reduce(|all, one| all.over(&one).expect("all judge")).expect("four");
    assert!(four.excess().is_none());
    let five = four.over(&judged_by("judge5")).expect("all judge");
    let problem = five.excess().expect("too many");
    assert_eq!(
        (&*problem.field, &*problem.message),
        ("spec.extAuth", "5 providers come together here, and 4 are the most; leave some out",)
    );
}

#[test]
fn what_a_judge_is_told_of_a_route_stands_under_the_name_of_the_filter_in_its_wrapper() {
    let unit = one(json!({"extAuth": {"extensionRef": {"name": "judge"}, "contextExtensions": {"a": "1", "b": "2"}}}));
    let told = |slots: Vec<Slot>| slots.iter().map(|slot| slot.name).collect::<Vec<_>>();
    assert!(told(unit.slots()).contains(&"extAuth.0.ask"));
    let wide = told(unit.wide_slots("infra/policy"));
    assert!(wide.contains(&"extAuth.wide.0") && wide.contains(&"extAuth.wide.0.ask"), "{wide:?}");
    assert!(envoy::slots::is_merged("extAuth.wide.0.ask") && !envoy::slots::is_merged("extAuth.wide.0"));
    let again = one(json!({"extAuth": {"extensionRef": {"name": "judge"}, "contextExtensions": {"b": "2", "a": "1"}}}));
    assert_eq!(unit.slots(), again.slots(), "the same bytes, whatever the order");
}

#[test]
fn a_processor_stands_where_its_stage_says_and_one_more_there_is_no_unit() {
    let processed_by = |name: &str| one(json!({"extProc": {"extensionRef": {"name": name}}}));
    assert_eq!(places(&processed_by("processor")), [("extProc.rbac.0", "extProc.ask".to_owned())]);
    assert_eq!(places(&processed_by("first")), [("extProc.fault", "extProc.ask".to_owned())]);
    let both = processed_by("processor").over(&processed_by("first")).expect("both process");
    assert_eq!((places(&both).len(), both.excess()), (2, None));
    let two = processed_by("processor").over(&processed_by("processor2")).expect("both process");
    let places: Vec<_> = places(&two).into_iter().map(|(place, _)| place).collect();
    assert_eq!(places, ["extProc.rbac.0", "extProc.rbac.1"]);
}

#[test]
fn who_is_named_must_be_of_the_kind_that_is_needed() {
    for (field, spec) in [
        ("spec.extAuth.extensionRef", json!({"extAuth": {"extensionRef": {"name": "counter"}}})),
        ("spec.extProc.extensionRef", json!({"extProc": {"extensionRef": {"name": "judge"}}})),
        (
            "spec.rateLimit.global.extensionRef",
            json!({"rateLimit": {"global":
                {"extensionRef": {"name": "judge"}, "descriptors": [{"entries": [{"type": "Path"}]}]}}}),
        ),
        ("spec.extAuth.extensionRef", json!({"extAuth": {"extensionRef": {"name": "nobody"}}})),
    ] {
        assert_eq!(refused(spec).0, field);
    }
}

#[test]
fn an_extension_that_envoy_would_refuse_or_that_is_unsafe_is_refused() {
    let service = json!({"backendRef": {"name": "s", "port": 80}});
    let with = |more: Value| {
        let mut all = json!({"grpcService": service});
        all.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        all
    };
    let over_http = |more: Value| {
        let mut http = service.clone();
        http.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        json!({"extAuth": {"httpService": http}})
    };
    let cases = [
        (json!({"extAuth": with(json!({"statusOnError": 418}))}), "spec.extAuth.statusOnError"),
        (json!({"extAuth": with(json!({"statusOnError": 100}))}), "spec.extAuth.statusOnError"),
        (json!({"extAuth": with(json!({"statPrefix": "a b"}))}), "spec.extAuth.statPrefix"),
        (json!({"extAuth": with(json!({"headersToForward": [":path"]}))}), "spec.extAuth.headersToForward[0]"),
        (
            {
                let mut framing = over_http(json!({}));
                framing["extAuth"]["headersToForward"] = json!(["cookie", "Transfer-Encoding"]);
                framing
            },
            "spec.extAuth.headersToForward[1]",
        ),
        (over_http(json!({"pathPrefix": "judge"})), "spec.extAuth.httpService.pathPrefix"),
        (
            over_http(json!({"authorizationRequest": {"headersToAdd": {"a": "%ENVIRONMENT(HOME)%"}}})),
            "spec.extAuth.httpService.authorizationRequest.headersToAdd[a]",
        ),
        (
            over_http(json!({"authorizationRequest": {"headersToAdd": {"a": "100%"}}})),
            "spec.extAuth.httpService.authorizationRequest.headersToAdd[a]",
        ),
        (
            over_http(json!({"authorizationResponse": {"headersToBackend": ["Content-Length"]}})),
            "spec.extAuth.httpService.authorizationResponse.headersToBackend[0]",
        ),
        (
            over_http(json!({"authorizationResponse": {"headersToBackend": ["x-user", "X-Forwarded-Client-Cert"]}})),
            "spec.extAuth.httpService.authorizationResponse.headersToBackend[1]",
        ),
        (over_http(json!({"requestTimeout": "1h"})), "spec.extAuth.httpService.requestTimeout"),
        (over_http(json!({"retry": {"attempts": 1000}})), "spec.extAuth.httpService.retry.attempts"),
        (json!({"extProc": with(json!({"requestAttributes": ["1 +"]}))}), "spec.extProc.requestAttributes[0]"),
        (
            json!({"extProc": with(json!({"processingMode": {"responseBodyMode": "FULL_DUPLEX_STREAMED"}}))}),
            "spec.extProc.processingMode",
        ),
        (
            json!({"extProc": with(json!({"processingMode":
                {"requestBodyMode": "FULL_DUPLEX_STREAMED", "requestTrailerMode": "SEND"}}))}),
            "spec.extProc.processingMode",
        ),
        (
            json!({"extProc": with(json!({"allowProcessingModeOverride": true}))}),
            "spec.extProc.allowProcessingModeOverride",
        ),
        (
            json!({"extProc": with(json!({"allowProcessingModeOverride": true, "allowedProcessingModeOverrides": [
                {"responseBodyMode": "STREAMED"}, {"responseBodyMode": "FULL_DUPLEX_STREAMED"}]}))}),
            "spec.extProc.allowedProcessingModeOverrides[1]",
        ),
        (
            json!({"extProc": with(json!({"filterStage": {"stage": "Route", "predicate": "After"}}))}),
            "spec.extProc.filterStage",
        ),
        (json!({"rateLimit": with(json!({"domain": ""}))}), "spec.rateLimit.domain"),
        (json!({"jwt": {}}), "spec.jwt.providers"),
        (json!({"oauth2": {}}), "spec.oauth2.issuerURI"),
    ];
    for (spec, field) in cases {
        let written = serde_json::from_value(spec.clone()).expect("a spec");
        let id = ir::NsName::new("n", "e");
        let refused = Extension::read(&id, &written, &mut Everybody).expect_err("it is refused");
        assert_eq!(refused.field, field, "{spec}: {}", refused.message);
    }
}

#[test]
fn a_provider_that_has_the_route_chosen_anew_is_refused() {
    let service = json!({"backendRef": {"name": "s", "port": 80}});
    for (spec, field) in [
        (json!({"extAuth": {"grpcService": service, "clearRouteCache": true}}), "spec.extAuth.clearRouteCache"),
        (json!({"extProc": {"grpcService": service, "routeCacheAction": "Clear"}}), "spec.extProc.routeCacheAction"),
    ] {
        let written = serde_json::from_value(spec).expect("a spec");
        let refused = Extension::read(&ir::NsName::new("n", "e"), &written, &mut Everybody).expect_err("it is refused");
        assert_eq!(refused.field, field);
    }
}

/// A filter that judges tokens, which knows of this extension.
pub(super) fn judged(slot: &str, extension: &Extension, entries: &[ir::rule::ExtensionEntry]) -> Value {
    let judges = extension.provider.token_judges().cloned();
    let resource = envoy::extensions::extension(slot, entries, |_| judges.clone(), 0);
    let json =
        envoy::json::value("envoy.config.core.v3.TypedExtensionConfig", &resource.body.to_bytes()).expect("JSON");
    json["typedConfig"].clone()
}

fn tokens_of(spec: Value) -> Result<Extension, ir::Problem> {
    let written = serde_json::from_value(json!({"jwt": spec})).expect("a spec");
    Extension::read(&ir::NsName::new("n", "e"), &written, &mut Everybody)
}

fn key(letter: &str) -> Value {
    json!({"local": {"inline": json!({"kty": "OKP", "crv": "Ed25519", "x": letter.repeat(42) + "A"}).to_string()}})
}

fn remote(more: Value) -> Value {
    let mut remote = json!({"url": "https://issuer.example/keys", "backendRef": {"name": "s", "port": 80}});
    remote.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
    json!({"remote": remote})
}

#[test]
fn a_maker_of_tokens_that_envoy_would_refuse_or_that_is_unsafe_is_refused() {
    let cases = [
        (json!({}), "keys", "jwks"),
        (json!({"jwks": {"local": {"configMapRef": {"name": "a"}}}}), "does not exist", "jwks.local.configMapRef.name"),
        (json!({"jwks": {"local": {"configMapRef": {"name": "bad"}}}}), "no JSON", "jwks.local.configMapRef.name"),
        (json!({"jwks": {"local": {"inline": "{}"}}}), "no JSON", "jwks.local.inline"),
        (json!({"jwks": key("A"), "issuer": "portcullis:n/e"}), "which no issuer", "issuer"),
        (json!({"jwks": key("A"), "audiences": [""]}), "0 bytes", "audiences[0]"),
        (
            json!({"jwks": key("A"), "claimsToHeaders": [{"name": "a", "header": "host"}]}),
            "host",
            "claimsToHeaders[0].header",
        ),
        (
            json!({"jwks": key("A"), "claimsToHeaders": [{"name": "a", "header": "x"}, {"name": "b", "header": "X"}]}),
            "another claim",
            "claimsToHeaders[1].header",
        ),
        (
            json!({"jwks": key("A"), "tokenSource": {"header": {"header": ":path"}}}),
            "pseudo",
            "tokenSource.header.header",
        ),
        (
            json!({"jwks": key("A"), "tokenSource": {"header": {"header": "a", "prefix": "\n"}}}),
            "correct it",
            "tokenSource.header.prefix",
        ),
        (json!({"jwks": key("A"), "tokenSource": {"queryParameter": ""}}), "", "tokenSource.queryParameter"),
        (json!({"jwks": remote(json!({"url": "issuer.example"}))}), "https://", "jwks.remote.url"),
        (json!({"jwks": remote(json!({"cacheDuration": "1ms"}))}), "1s or more", "jwks.remote.cacheDuration"),
        (
            json!({"jwks": remote(json!({"asyncFetch": {"failedRefetchDuration": "1ms"}}))}),
            "1s or more",
            "jwks.remote.asyncFetch.failedRefetchDuration",
        ),
        (
            json!({"jwks": remote(json!({"retryPolicy": {"numRetries": 11}}))}),
            "0 to 10",
            "jwks.remote.retryPolicy.numRetries",
        ),
    ];
    for (mut provider, why, field) in cases {
        provider["name"] = "p".into();
        let refused = tokens_of(json!({"providers": [provider]})).expect_err(field);
        assert_eq!(refused.field, format!("spec.jwt.providers[0].{field}"), "{}", refused.message);
        assert!(refused.message.contains(why) || field == "jwks", "{}", refused.message);
    }
    let claims = |from: usize| {
        let claims = (from..from + 32).map(|at| json!({"name": "a", "header": format!("x-{at}")}));
        json!({"name": format!("p{from}"), "jwks": key("A"), "claimsToHeaders": claims.collect::<Vec<_>>()})
    };
    let refused = tokens_of(json!({"providers": [claims(0), claims(32), claims(64)]})).expect_err("too many");
    assert_eq!(refused.field, "spec.jwt.providers");
}

#[test]
fn keys_of_a_config_map_are_what_they_would_be_if_they_were_written() {
    let served = |jwks: Value| tokens_of(json!({"providers": [{"name": "p", "jwks": jwks}]})).expect("it is served");
    let inline = json!({"kty": "OKP", "crv": "Ed25519", "x": "A".repeat(43)}).to_string();
    let named = served(json!({"local": {"configMapRef": {"name": "keys"}}}));
    assert_eq!(named, served(json!({"local": {"inline": inline}})));
}

/// Envoy takes the header with a token away, and what frames a message would go with it.
#[test]
fn a_token_stands_in_a_header_that_clients_send_and_that_nothing_else_needs() {
    let from = |name: &str| {
        let source = json!({"header": {"header": name}});
        tokens_of(json!({"providers": [{"name": "p", "jwks": key("A"), "tokenSource": source}]}))
    };
    for (name, why) in [
        ("Host", "Host header"),
        ("Connection", "frames the message"),
        ("content-length", "frames the message"),
        ("Transfer-Encoding", "frames the message"),
        ("cdn-loop", "goes in circles"),
        ("X-Envoy-Original-Path", "a client cannot send it"),
        ("x-forwarded-for", "a client cannot send it"),
        ("x_token", "a client cannot send it"),
    ] {
        let refused = from(name).expect_err(name);
        assert_eq!(refused.field, "spec.jwt.providers[0].tokenSource.header.header");
        assert!(refused.message.contains(why), "{name}: {}", refused.message);
    }
    assert!(from("X-Token").is_ok());
}

/// A worker tries all of them with a token that names none, and serves nobody meanwhile.
#[test]
fn what_it_costs_to_try_all_keys_of_an_extension_is_bounded() {
    let servers = |count: usize| {
        let all = (0..count).map(|index| json!({"name": format!("p{index}"), "jwks": remote(json!({}))}));
        tokens_of(json!({"providers": all.collect::<Vec<_>>()}))
    };
    assert!(servers(8).is_ok());
    let refused = servers(9).expect_err("too many");
    assert_eq!(refused.field, "spec.jwt.providers");
    let message = "its keys count more than 128 together, which is the most: one for a key, 8 for P-384, 16 for P-521 and for a \
                   server; leave some out, or make several extensions";
    assert_eq!(refused.message, message);
}

/// What a claim is shown in may be named by anybody, and Envoy takes the header of that name from all requests.
#[test]
fn no_header_that_a_tenant_names_is_one_that_the_filter_of_all_tenants_writes() {
    let claims = json!([{"name": "sub", "header": "Authorization"}, {"name": "role", "header": "x-role"}]);
    let extension = tokens_of(json!({"providers": [{"name": "p", "jwks": key("A"), "claimsToHeaders": claims}]}));
    let extension = extension.expect("it is served");
    let entry = [ir::rule::ExtensionEntry::Tokens(extension.id.clone())];
    let json = judged(envoy::slots::JWT_AUTH, &extension, &entry);
    let name = extension.provider.token_judges().expect("it judges").name();
    let provider = &json["providers"][format!("{name}/p")];
    let headers = provider["claimToHeaders"].as_array().expect("claims").iter().map(|claim| &claim["headerName"]);
    for header in headers {
        assert!(header.as_str().is_some_and(|name| name.starts_with("x_portcullis_claim_")), "{header}");
    }
    assert_eq!(json["requirementMap"][name], json!({"providerName": format!("{name}/p")}));
}

#[test]
fn whether_there_is_no_token_is_asked_of_somebody_who_takes_none() {
    let two = json!([{"name": "a", "jwks": key("A")}, {"name": "b", "jwks": key("B"), "tokenSource": {"queryParameter": "t"}}]);
    let extension = tokens_of(json!({"validationMode": "AllowMissing", "providers": two})).expect("it is served");
    let entry = [ir::rule::ExtensionEntry::Tokens(extension.id.clone())];
    let json = judged(envoy::slots::JWT_AUTH, &extension, &entry);
    let judges = extension.provider.token_judges().expect("it judges").name();
    let nobody = &json["providers"][format!("{judges}/")];
    assert_eq!(nobody["issuer"], "portcullis:n/e");
    assert_eq!(nobody["fromParams"], json!(["t"]));
    assert_eq!(nobody["fromHeaders"], json!([{"name": "Authorization", "valuePrefix": "Bearer "}]));
    let name = |name: &str| json!({"providerName": format!("{judges}/{name}")});
    let inner = json!({"requiresAny": {"requirements": [name("a"), name("b"), name("")]}});
    let outer = json!({"requiresAny": {"requirements": [inner, name(""), {"allowMissing": {}}]}});
    assert_eq!(json["requirementMap"][judges], outer);
}

#[test]
fn providers_that_read_one_parameter_of_a_query_agree_whether_it_goes_on() {
    let two = |one: Value, other: Value| {
        let mut all = [json!({"name": "a", "jwks": key("A")}), json!({"name": "b", "jwks": key("B")})];
        for (provider, more) in all.iter_mut().zip([one, other]) {
            provider.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        }
        tokens_of(json!({"providers": all}))
    };
    let (hidden, goes_on) = (json!({"tokenSource": {"queryParameter": "access_token"}}), json!({"forwardToken": true}));
    let refused = two(hidden.clone(), goes_on.clone()).expect_err("who has it is not known");
    let message = "tokens in query parameter \"access_token\" are to go on by one of these and not by another; set forwardToken in both \
                   or none, or have them look elsewhere";
    assert_eq!((&*refused.field, &*refused.message), ("spec.jwt.providers", message));
    for (one, other, expected) in [
        (hidden.clone(), hidden.clone(), vec!["access_token"]),
        (goes_on.clone(), goes_on, vec![]),
        (hidden, json!({}), vec!["access_token"]),
        (json!({}), json!({}), vec![]),
    ] {
        let extension = two(one, other).expect("it is served");
        let Some(jwt) = extension.provider.jwt() else { panic!("no jwt") };
        assert_eq!(*jwt.hidden, expected);
    }
    let both = json!({"tokenSource": {"queryParameter": "t", "header": {"header": "x-t"}}});
    assert_eq!(two(both, json!({})).expect_err("two places").field, "spec.jwt.providers[0].tokenSource");
}

/// Judges come before the routes that refer to them.
#[test]
fn judges_of_tokens_have_another_name_wherever_they_let_in_others_and_the_same_with_other_keys() {
    let name = |spec: Value| {
        let extension = tokens_of(spec).expect("it is served");
        extension.provider.token_judges().expect("it judges").name().to_owned()
    };
    let provider = |more: Value| {
        let mut provider = json!({"name": "p", "jwks": key("A")});
        provider.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        provider
    };
    let by = |more: Value| name(json!({"providers": [provider(more)]}));
    let first = by(json!({}));
    assert_eq!(first.split_once('@').map(|(extension, word)| (extension, word.len())), Some(("n/e", 16)), "{first}");
    let mut names = vec![
        first.clone(),
        by(json!({"name": "q"})),
        by(json!({"issuer": "https://issuer.example"})),
        by(json!({"audiences": ["shop"]})),
        by(json!({"audiences": ["shop", "cart"]})),
        by(json!({"tokenSource": {"queryParameter": "t"}})),
        by(json!({"claimsToHeaders": [{"name": "sub", "header": "x-user"}]})),
        by(json!({"forwardToken": true})),
        by(json!({"jwks": remote(json!({}))})),
        by(json!({"jwks": remote(json!({"url": "https://other.example/keys"}))})),
        by(json!({"jwks": remote(json!({"backendRef": {"name": "other", "port": 80}}))})),
        name(json!({"providers": [provider(json!({}))], "validationMode": "AllowMissing"})),
        name(json!({"providers": [provider(json!({})), provider(json!({"name": "q"}))]})),
    ];
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
    for keys in [key("B"), json!({"local": {"configMapRef": {"name": "keys"}}})] {
        assert_eq!(by(json!({"jwks": keys})), first);
    }
    assert_eq!(name(json!({"providers": [provider(json!({}))], "validationMode": "Strict"})), first);
}

#[test]
fn whose_tokens_a_route_takes_is_told_by_the_name_of_their_extension() {
    let words = "tokens of GatewayExtension n/tokens";
    assert_eq!(said(json!({"jwtAuth": {"extensionRef": {"name": "tokens"}}})), [("jwtAuth", words.to_owned())]);
}

#[test]
fn only_who_must_have_a_token_is_known_by_it() {
    assert!(one(json!({"jwtAuth": {"extensionRef": {"name": "tokens"}}})).authenticates());
    assert!(!one(json!({"jwtAuth": {"disable": {}}})).authenticates());
}
