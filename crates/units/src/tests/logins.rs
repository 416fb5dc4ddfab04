//! Logins, and what is judged of the tokens that they bring.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use envoy_types::pb::envoy::extensions::filters::http::oauth2::v3::{
    CookieConfig, OAuth2, OAuth2Config, cookie_config::SameSite,
};
use serde_json::{Value, json};

use super::{
    providers::{judged, one, places},
    *,
};
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

/// Secrets come before the routes that go with them.
#[test]
fn what_is_shown_to_a_provider_has_another_name_wherever_it_is_for_another() {
    let name = |more: Value| {
        let extension = login_of(more).expect("it is served");
        let name = extension.provider.login_secret().expect("it is shown something").resource_name(&extension.id);
        let credentials = filter_of_extension(&extension).credentials.expect("a client");
        assert_eq!(credentials.token_secret.expect("it is named").name, name);
        name
    };
    let client = |id: &str, secret: &str| json!({"credentials": {"clientID": id, "clientSecretRef": {"name": secret}}});
    let first = name(json!({}));
    assert!(first.starts_with("oauth2/client/n/e@"), "{first}");
    let mut names = vec![
        first.clone(),
        name(json!({"tokenEndpoint": "https://other.example/token"})),
        name(json!({"backendRef": {"name": "other", "port": 80}})),
        name(client("other", "client")),
    ];
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "{names:?}");
    let more = json!({"authorizationEndpoint": "https://issuer.example/login", "scopes": ["a"], "logoutPath": "/out"});
    for same in [more, client("shop", "other")] {
        assert_eq!(name(same), first, "it is for the same");
    }
}

fn filter_of(more: Value) -> OAuth2Config {
    filter_of_extension(&login_of(more).expect("it is served"))
}

fn filter_of_extension(extension: &Extension) -> OAuth2Config {
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
