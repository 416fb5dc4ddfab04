//! What units make of providers.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use envoy_types::pb::envoy::extensions::filters::http::{
    filter_chain::v3::FilterChainConfigPerRoute,
    oauth2::v3::{CookieConfig, OAuth2, OAuth2Config, cookie_config::SameSite},
};
use serde_json::{Value, json};

use super::*;

/// The slots of a unit that are on, each with the name of the filter in it.
fn places(unit: &AnyUnit) -> Vec<(&'static str, String)> {
    let wrapped = unit.slots().into_iter().filter_map(|slot| {
        let chain = spec::decoded::<FilterChainConfigPerRoute>(&slot)?.filter_chain?;
        Some((slot.name, chain.filters.first()?.name.clone()))
    });
    wrapped.collect()
}

fn one(spec: Value) -> AnyUnit {
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

fn login_of(more: Value) -> Result<Extension, ir::Problem> {
    let mut login = json!({
        "backendRef": {"name": "s", "port": 80}, "authorizationEndpoint": "https://issuer.example/authorize",
        "tokenEndpoint": "https://issuer.example/token",
        "credentials": {"clientID": "shop", "clientSecretRef": {"name": "client"}},
    });
    login.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
    let written = serde_json::from_value(json!({"oauth2": login})).expect("a spec");
    Extension::read(&ir::NsName::new("n", "e"), &written, &mut Everybody)
}

#[test]
fn a_login_that_envoy_would_refuse_or_that_is_unsafe_is_refused() {
    let header =
        |name: &str, r#type: &str, value: &str| json!({"headers": [{"name": name, "type": r#type, "value": value}]});
    let cases = [
        (
            json!({"tokenEndpoint": null, "issuerURI": "https://issuer.example"}),
            "name authorizationEndpoint",
            "issuerURI",
        ),
        (json!({"authorizationEndpoint": "https://issuer.example:99999/"}), "65535", "authorizationEndpoint"),
        (json!({"tokenEndpoint": "http://issuer.example/"}), "https://", "tokenEndpoint"),
        (json!({"endSessionEndpoint": "https://issuer.example/end"}), "add openid", "endSessionEndpoint"),
        (
            json!({"scopes": ["openid"], "endSessionEndpoint": "https://issuer.example/end?a=b"}),
            "without a query",
            "endSessionEndpoint",
        ),
        (
            json!({
                "scopes": ["openid"], "endSessionEndpoint": "https://issuer.example/end",
                "cookies": {"disableRefreshTokenSetCookie": false},
            }),
            "with refresh tokens",
            "endSessionEndpoint",
        ),
        (
            json!({"forwardAccessToken": true, "cookies": {"disableAccessTokenSetCookie": true}}),
            "from its cookie",
            "forwardAccessToken",
        ),
        (json!({"redirectURI": "/callback"}), "such as https://", "redirectURI"),
        (json!({"redirectURI": "https://shop.example"}), "such as https://", "redirectURI"),
        (json!({"redirectURI": "https://shop.example/"}), "such as https://", "redirectURI"),
        (json!({"redirectURI": "https://%REQ(x-forwarded-host)%/back"}), "", "redirectURI"),
        (json!({"redirectURI": "%REQ(x-scheme)%://%REQ(:authority)%/back"}), "such as https://", "redirectURI"),
        (json!({"redirectURI": "https://%REQ(:authority)%/%REQ(x)%"}), "such as https://", "redirectURI"),
        (json!({"redirectURI": "https://shop.example/back?a=b"}), "such as https://", "redirectURI"),
        (json!({"logoutPath": "logout"}), "", "logoutPath"),
        (json!({"logoutPath": "/oauth2/redirect"}), "another path", "logoutPath"),
        (json!({"scopes": ["openid profile"]}), "one scope", "scopes[0]"),
        (json!({"scopes": [""]}), "one scope", "scopes[0]"),
        (json!({"cookies": {"domain": "10.0.0.1"}}), "", "cookies.domain"),
        (json!({"cookies": {"names": {"idToken": "a b"}}}), "", "cookies.names.idToken"),
        (
            json!({"cookies": {"names": {"idToken": "a", "accessToken": "a"}}}),
            "another cookie",
            "cookies.names.idToken",
        ),
        (json!({"denyRedirect": header("accept", "Exact", "a\nb")}), "", "denyRedirect.headers[0].value"),
        (json!({"denyRedirect": header("accept", "RegularExpression", "(")}), "", "denyRedirect.headers[0].value"),
        (judging(json!({"idToken": {}, "jwksURI": null})), "name", "jwt.jwksURI"),
        (judging(json!({"idToken": {}, "jwksURI": "http://issuer.example/keys"})), "https://", "jwt.jwksURI"),
        (judging(json!({"idToken": {}, "jwksURI": "https://issuer.example/keys#a"})), "no URL", "jwt.jwksURI"),
        (judging(json!({"accessToken": {"audiences": ["a", ""]}})), "0 bytes", "jwt.accessToken.audiences[1]"),
        (
            judging(json!({"accessToken": {"claimsToHeaders": [{"name": "a", "header": "host"}]}})),
            "host",
            "jwt.accessToken.claimsToHeaders[0].header",
        ),
        (
            judging(json!({
                "accessToken": {"claimsToHeaders": [{"name": "a", "header": "X-User"}]},
                "idToken": {"claimsToHeaders": [{"name": "b", "header": "x"}, {"name": "a", "header": "x-user"}]},
            })),
            "of the access token",
            "jwt.idToken.claimsToHeaders[1].header",
        ),
    ];
    for (more, words, field) in cases {
        let refused = login_of(more.clone()).expect_err("it is refused");
        assert_eq!(refused.field, format!("spec.oauth2.{field}"), "{more}: {}", refused.message);
        assert!(refused.message.contains(words), "{more}: {}", refused.message);
    }
}

#[test]
fn a_name_of_a_client_that_would_say_more_than_itself_is_refused() {
    for sign in [" ", "&", "#", "%", "+", "\"", "\n", "\u{7f}", "ä"] {
        let id = format!("shop{sign}scope=all");
        let refused = login_of(json!({"credentials": {"clientID": id, "clientSecretRef": {"name": "client"}}}));
        assert_eq!(refused.expect_err("it is refused").field, "spec.oauth2.credentials.clientID", "{sign:?}");
    }
}

fn filter_of(more: Value) -> OAuth2Config {
    let extension = login_of(more).expect("it is served");
    let login = extension.provider.oauth2().expect("a login");
    login.filter.decode::<OAuth2>().config.expect("a filter")
}

#[test]
fn refresh_tokens_are_taken_only_where_that_is_written() {
    let refreshes = |more: Value| {
        let config = filter_of(json!({"cookies": more}));
        let uses = config.use_refresh_token.expect("it is said").value;
        assert_eq!(uses, !config.disable_refresh_token_set_cookie);
        uses
    };
    assert!(!refreshes(Value::Null) && !refreshes(json!({})));
    assert!(!refreshes(json!({"disableRefreshTokenSetCookie": true})));
    assert!(refreshes(json!({"disableRefreshTokenSetCookie": false})));
}

#[test]
fn cookies_of_one_host_are_planted_by_no_other() {
    let names = |more: Value| {
        let names = filter_of(more).credentials.expect("a client").cookie_names.expect("they are named");
        [
            names.bearer_token,
            names.id_token,
            names.oauth_hmac,
            names.oauth_expires,
            names.refresh_token,
            names.oauth_nonce,
            names.code_verifier,
        ]
    };
    assert!(names(json!({})).iter().all(|name| name.starts_with("__Host-")));
    let shared = names(json!({"cookies": {"domain": "shop.example"}}));
    assert!(shared.iter().all(|name| !name.starts_with("__Host-")), "browsers would not keep them");
}

#[test]
fn who_is_sent_back_by_another_site_shows_what_he_was_given() {
    let cookies = filter_of(json!({"cookies": {"sameSite": "Strict"}})).cookie_configs.expect("they are said");
    let of = |config: Option<CookieConfig>| config.expect("it is said").same_site();
    assert_eq!(of(cookies.oauth_nonce_cookie_config), SameSite::Lax);
    assert_eq!(of(cookies.code_verifier_cookie_config), SameSite::Lax);
    assert_eq!(of(cookies.bearer_token_cookie_config), SameSite::Strict);
    assert_eq!(of(cookies.oauth_hmac_cookie_config), SameSite::Strict);
}

#[test]
fn a_secret_that_no_provider_gave_is_refused_in_words_that_do_not_repeat_it() {
    let refused = |text: &str| {
        let secret = json!({"metadata": {"name": "s", "namespace": "n"}, "stringData": {"client-secret": text}});
        let secret: api::core::Secret = serde_json::from_value(secret).expect("a Secret");
        extension::client_secret(&secret).map(<[u8]>::len)
    };
    assert_eq!(refused("hunter2"), Ok(7));
    for text in ["", "hunter2\n", &"hunter2".repeat(1_000)] {
        assert!(!refused(text).expect_err("it is refused").contains("hunter2"));
    }
}

#[test]
fn people_are_sent_back_to_no_host_that_a_login_is_not_for() {
    let hosts = |more: Value| filter_of(more).allowed_redirect_domains;
    let fixed = json!("https://shop.example:8443/back");
    assert_eq!(hosts(json!({"redirectURI": fixed})), ["shop.example"]);
    let domain = json!({"domain": "shop.example"});
    assert_eq!(hosts(json!({"cookies": domain})), ["*.shop.example", "shop.example"]);
    assert_eq!(hosts(json!({"redirectURI": fixed, "cookies": domain})), ["*.shop.example", "shop.example"]);
    assert!(hosts(json!({})).is_empty(), "each host has logins of its own");
}

#[test]
fn a_login_stands_in_its_wrapper_authenticates_and_is_told() {
    let unit = one(json!({"oauth2": {"extensionRef": {"name": "login"}}}));
    assert_eq!(places(&unit), [("oauth2", "oauth2.login".to_owned())]);
    assert!(unit.authenticates() && !unit.disables());
    let words = "people log in at https://issuer.example/authorize (GatewayExtension n/login)";
    assert_eq!(said(json!({"oauth2": {"extensionRef": {"name": "login"}}})), [("oauth2", words.to_owned())]);
}

/// What judges tokens of a login, unless it says otherwise by keys of the provider.
fn judging(more: Value) -> Value {
    let mut jwt = json!({"jwksURI": "https://issuer.example/keys"});
    jwt.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
    json!({"scopes": ["openid"], "jwt": jwt})
}

#[test]
fn tokens_of_a_login_are_looked_for_in_their_cookies_alone_and_each_must_be_good() {
    let claims = json!([{"name": "sub", "header": "Authorization"}]);
    let mut spec = judging(json!({"accessToken": {"audiences": ["shop"]}, "idToken": {"claimsToHeaders": claims}}));
    spec["cookies"] = json!({"names": {"accessToken": "access", "idToken": "id"}});
    spec["jwt"]["jwksBackendRef"] = json!({"name": "keys", "port": 80});
    let extension = login_of(spec).expect("it is served");
    let entry = [ir::rule::ExtensionEntry::LoginTokens(extension.id.clone())];
    let json = judged(envoy::slots::OAUTH2_JWT, &extension, &entry);
    let name = extension.provider.token_judges().expect("it judges").name();
    let provider = |member: &str| &json["providers"][format!("{name}/{member}")];
    assert_eq!(provider("accessToken")["fromCookies"], json!(["access"]));
    assert_eq!(
        (&provider("idToken")["fromCookies"], &provider("idToken")["audiences"]),
        (&json!(["id"]), &Value::Null)
    );
    for member in ["accessToken", "idToken"] {
        assert_eq!(provider(member)["payloadInMetadata"], member);
        assert_eq!(provider(member)["remoteJwks"]["httpUri"]["cluster"], "service/n/keys/80");
        assert!(provider(member).get("fromHeaders").is_none() && provider(member).get("fromParams").is_none());
    }
    let header = &provider("idToken")["claimToHeaders"][0]["headerName"];
    assert!(header.as_str().is_some_and(|name| name.starts_with("x_portcullis_claim_")), "{header}");
    let of = |name: &str, member: &str| json!({"providerName": format!("{name}/{member}")});
    let all = json!({"requiresAll": {"requirements": [of(name, "accessToken"), of(name, "idToken")]}});
    assert_eq!(json["requirementMap"][name], all);
    let counts = extension.provider.token_counts();
    assert_eq!(
        (counts.providers, counts.keys, counts.claims),
        (2, 256, 1),
        "a server may have as many as there can be"
    );
    let one = login_of(judging(json!({"idToken": {}}))).expect("it is served");
    let json = judged(envoy::slots::OAUTH2_JWT, &one, &entry);
    let name = one.provider.token_judges().expect("it judges").name();
    assert_eq!(json["requirementMap"][name], of(name, "idToken"), "Envoy takes no list of one");
    // Of those whose tokens requests bring, nothing is known there.
    assert_eq!(judged(envoy::slots::JWT_AUTH, &extension, &[]).get("providers"), None);
}

#[test]
fn a_judge_of_logins_has_another_name_wherever_it_judges_by_another_word() {
    let name = |tokens: Value, more: Value| {
        let mut spec = judging(tokens);
        spec.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        let extension = login_of(spec).expect("it is served");
        extension.provider.token_judges().expect("it judges").name().to_owned()
    };
    let cookie = |name: &str| json!({"cookies": {"names": {"idToken": name}}});
    let first = name(json!({"idToken": {}}), cookie("a"));
    let prefix = first.split_once('@').expect("a word").0;
    assert_eq!(prefix, "n/e");
    let others = [
        name(json!({"idToken": {}}), cookie("b")),
        name(json!({"idToken": {"audiences": ["shop"]}}), cookie("a")),
        name(json!({"idToken": {}, "accessToken": {}}), cookie("a")),
        name(json!({"idToken": {"claimsToHeaders": [{"name": "sub", "header": "x-user"}]}}), cookie("a")),
        name(json!({"idToken": {}, "jwksBackendRef": {"name": "keys", "port": 80}}), cookie("a")),
    ];
    assert!(!others.contains(&first), "{first} {others:?}");
    // Where the judge relies on nothing else, it stays who it is.
    assert_eq!(
        name(json!({"idToken": {}}), json!({"cookies": {"names": {"idToken": "a"}}, "logoutPath": "/out"})),
        first
    );
}

#[test]
fn a_login_whose_tokens_are_not_judged_switches_off_what_a_wider_scope_has_judged() {
    let off = |name: &str| {
        let slots = one(json!({"oauth2": {"extensionRef": {"name": name}}})).slots();
        let off = slots.into_iter().filter(|slot| *slot == envoy::slots::off(slot.name)).map(|slot| slot.name);
        off.collect::<Vec<_>>()
    };
    assert_eq!((off("login"), off("login2")), (vec!["oauth2.jwt", "oauth2.claims"], vec![]));
    let words =
        "people log in at https://issuer.example/authorize (GatewayExtension n/login2), and its tokens are judged";
    assert_eq!(said(json!({"oauth2": {"extensionRef": {"name": "login2"}}})), [("oauth2", words.to_owned())]);
    for nothing in [json!({}), json!({"jwksURI": "https://issuer.example/keys"})] {
        assert_eq!(login_of(json!({"jwt": nothing})).expect("it is served").provider.token_judges(), None);
    }
}

#[test]
fn an_id_token_is_judged_where_each_login_brings_one_and_envoy_takes_no_other() {
    let without = |field: &str, value: Value| {
        let mut all = judging(json!({"idToken": {}}));
        all[field] = value;
        login_of(all).expect_err("it is refused")
    };
    let refused = without("scopes", json!(["profile"]));
    assert!(refused.field == "spec.oauth2.jwt.idToken" && refused.message.contains("openid"), "{refused}");
    for member in ["idToken", "accessToken"] {
        let mut all = judging(json!({(member): {}}));
        all["cookies"] = json!({"disableRefreshTokenSetCookie": false});
        let refused = login_of(all).expect_err("it is refused");
        assert_eq!(refused.field, format!("spec.oauth2.jwt.{member}"));
        assert!(refused.message.contains("refresh tokens"), "{refused}");
    }
}

#[test]
fn keys_at_another_host_than_tokens_take_a_server_of_their_own() {
    let keys_at = |host: &str, more: Value| {
        let mut all = judging(json!({"idToken": {}, "jwksURI": format!("https://{host}/keys")}));
        all["jwt"].as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
        login_of(all)
    };
    for other in ["keys.example", "issuer.example:8443"] {
        let refused = keys_at(other, json!({})).expect_err("it is refused");
        assert!(refused.field == "spec.oauth2.jwt.jwksBackendRef" && refused.message.contains(other), "{refused}");
        keys_at(other, json!({"jwksBackendRef": {"name": "keys", "port": 80}})).expect("it is served");
    }
    for same in ["issuer.example", "ISSUER.example", "issuer.example:443"] {
        keys_at(same, json!({})).expect("it is served");
    }
}

/// A filter that judges tokens, which knows of this extension.
fn judged(slot: &str, extension: &Extension, entries: &[ir::rule::ExtensionEntry]) -> Value {
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
    let provider = &json["providers"]["n/e/p"];
    let headers = provider["claimToHeaders"].as_array().expect("claims").iter().map(|claim| &claim["headerName"]);
    for header in headers {
        assert!(header.as_str().is_some_and(|name| name.starts_with("x_portcullis_claim_")), "{header}");
    }
    assert_eq!(json["requirementMap"]["n/e"], json!({"providerName": "n/e/p"}));
}

#[test]
fn whether_there_is_no_token_is_asked_of_somebody_who_takes_none() {
    let two = json!([{"name": "a", "jwks": key("A")}, {"name": "b", "jwks": key("B"), "tokenSource": {"queryParameter": "t"}}]);
    let extension = tokens_of(json!({"validationMode": "AllowMissing", "providers": two})).expect("it is served");
    let entry = [ir::rule::ExtensionEntry::Tokens(extension.id.clone())];
    let json = judged(envoy::slots::JWT_AUTH, &extension, &entry);
    let nobody = &json["providers"]["n/e/"];
    assert_eq!(nobody["issuer"], "portcullis:n/e");
    assert_eq!(nobody["fromParams"], json!(["access_token", "t"]));
    assert_eq!(nobody["fromHeaders"], json!([{"name": "Authorization", "valuePrefix": "Bearer "}]));
    let name = |name: &str| json!({"providerName": name});
    let inner = json!({"requiresAny": {"requirements": [name("n/e/a"), name("n/e/b"), name("n/e/")]}});
    let outer = json!({"requiresAny": {"requirements": [inner, name("n/e/"), {"allowMissing": {}}]}});
    assert_eq!(json["requirementMap"]["n/e"], outer);
}

#[test]
fn only_who_must_have_a_token_is_known_by_it() {
    assert!(one(json!({"jwtAuth": {"extensionRef": {"name": "tokens"}}})).authenticates());
    assert!(!one(json!({"jwtAuth": {"disable": {}}})).authenticates());
}
