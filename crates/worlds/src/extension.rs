//! Providers of worlds, now and then with something that Envoy refuses.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::values;

/// A public key that consists of one letter.
pub fn key(letter: char) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "x": format!("{}A", letter.to_string().repeat(42)), "alg": "EdDSA"})
}

/// GatewayExtensions, one of each name in [`values::EXTENSIONS`], and a ConfigMap with keys that they may name.
pub fn extensions() -> BoxedStrategy<Vec<Value>> {
    let all = (
        judge(),
        over_http(),
        processor(Just(json!(null)).boxed()),
        processor(stage()),
        counter(),
        tokens(),
        tokens(),
        login(),
    );
    (all, key_set())
        .prop_map(|(all, keys)| {
            let specs: [Value; 8] = all.into();
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"jwks": keys},
                "metadata": {"namespace": "apps", "name": "keys"}});
            let named = values::EXTENSIONS.iter().zip(specs).map(|(name, spec)| {
                json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
                    "metadata": {"namespace": "apps", "name": name}, "spec": spec})
            });
            named.chain([map]).collect()
        })
        .boxed()
}

/// A Service, now and then one that is not there.
fn backend() -> BoxedStrategy<Value> {
    prop_oneof![15 => 0..3_u8, 1 => Just(3)]
        .prop_map(|service| json!({"name": format!("s{service}"), "port": 80}))
        .boxed()
}

/// Where a provider is, how long it may take, and how it is asked again.
fn service() -> BoxedStrategy<Value> {
    let timeout = || option::of(prop_oneof![16 => select(&["1ms", "5m", "250ms"][..]), 1 => Just("6m")]);
    let retry = option::of((prop_oneof![8 => 0..10_u8, 1 => 10..12_u8], timeout()).prop_map(|(attempts, base)| {
        json!({"attempts": attempts, "backoff": base.map(|base| json!({"baseInterval": base, "maxInterval": "5m"}))})
    }));
    (backend(), timeout(), retry)
        .prop_map(|(backend, timeout, retry)| json!({"backendRef": backend, "requestTimeout": timeout, "retry": retry}))
        .boxed()
}

fn judge() -> BoxedStrategy<Value> {
    let status = option::of(values::number_of(&[200, 401, 403, 418, 503, 511]));
    let prefix = option::of(prop_oneof![3 => Just("judge".to_owned()), 1 => values::hostile()]);
    let authority = option::of(prop_oneof![3 => Just("judge.example".to_owned()), 1 => values::hostile()]);
    (service(), status, prefix, authority, any::<bool>(), any::<bool>())
        .prop_map(|(mut service, status, prefix, authority, open, anew)| {
            service["authority"] = json!(authority);
            json!({"extAuth": {"grpcService": service, "statusOnError": status, "statPrefix": prefix,
                "failOpen": open, "clearRouteCache": anew}})
        })
        .boxed()
}

fn over_http() -> BoxedStrategy<Value> {
    let path = option::of(prop_oneof![3 => Just("/judge".to_owned()), 1 => values::hostile()]);
    let value = prop_oneof![
        3 => select(&["a", "%REQ(x)%", "100%%", "%PROTOCOL%", "%X%"][..]).prop_map(str::to_owned),
        1 => values::hostile(),
    ];
    let name =
        || prop_oneof![6 => Just("x-user".to_owned()), 1 => Just("Content-Length".to_owned()), 1 => values::hostile()];
    (service(), path, value, name(), name())
        .prop_map(|(mut service, path, value, told, passed)| {
            service["pathPrefix"] = json!(path);
            service["authorizationRequest"] = json!({"headersToAdd": {told: value}});
            service["authorizationResponse"] = json!({"headersToBackend": [passed]});
            json!({"extAuth": {"httpService": service}})
        })
        .boxed()
}

fn stage() -> BoxedStrategy<Value> {
    let stages = select(&["Fault", "AuthN", "AuthZ", "RateLimit", "Route"][..]);
    let predicates = select(&["Before", "During", "After"][..]);
    (stages, predicates).prop_map(|(stage, predicate)| json!({"stage": stage, "predicate": predicate})).boxed()
}

fn processor(stage: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let attribute = prop_oneof![6 => Just("request.path".to_owned()), 1 => values::hostile()];
    let mode = prop_oneof![
        12 => select(&["NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL"][..]),
        1 => Just("FULL_DUPLEX_STREAMED"),
    ];
    let trailers = select(&["SEND", "SKIP"][..]);
    let action = select(&["FromResponse", "Clear", "Retain"][..]);
    (service(), stage, attribute, mode, trailers, action, any::<bool>(), any::<bool>())
        .prop_map(|(service, stage, attribute, mode, trailers, action, open, overrides)| {
            json!({"extProc": {"grpcService": service, "filterStage": stage, "requestAttributes": [attribute],
                "processingMode": {"requestBodyMode": mode, "requestTrailerMode": trailers}, "failOpen": open,
                "routeCacheAction": action, "allowProcessingModeOverride": overrides,
                "allowedProcessingModeOverrides": [{"requestBodyMode": mode, "requestTrailerMode": trailers}]}})
        })
        .boxed()
}

fn counter() -> BoxedStrategy<Value> {
    let domain = prop_oneof![6 => Just("shop".to_owned()), 1 => values::hostile()];
    (service(), domain, any::<bool>(), any::<bool>())
        .prop_map(|(service, domain, open, tells)| {
            let headers = if tells { "DraftVersion03" } else { "Off" };
            json!({"rateLimit": {"grpcService": service, "domain": domain, "failOpen": open, "xRateLimitHeaders": headers}})
        })
        .boxed()
}

/// Those whose tokens are taken: with keys that are there or on a server.
fn tokens() -> BoxedStrategy<Value> {
    (vec(maker(), 1..4), option::of(select(&["Strict", "AllowMissing"][..])))
        .prop_map(|(mut makers, mode)| {
            for (index, maker) in makers.iter_mut().enumerate() {
                maker["name"] = json!(format!("p{index}"));
            }
            json!({"jwt": {"providers": makers, "validationMode": mode}})
        })
        .boxed()
}

fn maker() -> BoxedStrategy<Value> {
    let issuer = option::of(prop_oneof![3 => Just("https://issuer.example".to_owned()), 1 => values::hostile()]);
    let claim =
        (prop_oneof![4 => Just("role".to_owned()), 1 => values::hostile()], select(&["x-role", "X-User", "host"][..]))
            .prop_map(|(name, header)| json!([{"name": name, "header": header}]));
    let source = prop_oneof![
        2 => Just(json!({"header": {"header": "X-Token", "prefix": "Token "}})),
        1 => values::hostile().prop_map(|text| json!({"header": {"header": "x-token", "prefix": text}})),
        1 => values::hostile().prop_map(|text| json!({"header": {"header": text}})),
        2 => Just(json!({"queryParameter": "token"})),
        1 => values::hostile().prop_map(|text| json!({"queryParameter": text})),
    ];
    let audiences = option::of(prop_oneof![3 => Just("shop".to_owned()), 1 => values::hostile()]);
    (issuer, option::weighted(0.4, claim), option::weighted(0.4, source), audiences, keys(), any::<bool>())
        .prop_map(|(issuer, claims, source, audience, keys, forward)| {
            json!({"issuer": issuer, "claimsToHeaders": claims, "tokenSource": source, "forwardToken": forward,
                "audiences": audience.map(|audience| [audience]), "jwks": keys})
        })
        .boxed()
}

/// What is judged of the tokens of a login.
fn of_tokens() -> BoxedStrategy<Value> {
    let claim =
        (prop_oneof![4 => Just("sub".to_owned()), 1 => values::hostile()], select(&["x-role", "X-User", "host"][..]))
            .prop_map(|(name, header)| json!([{"name": name, "header": header}]));
    let audiences = option::of(prop_oneof![3 => Just("shop".to_owned()), 1 => values::hostile()]);
    let token = || {
        (option::weighted(0.4, claim.clone()), audiences.clone()).prop_map(
            |(claims, audience)| json!({"claimsToHeaders": claims, "audiences": audience.map(|audience| [audience])}),
        )
    };
    let keys = option::weighted(
        0.9,
        prop_oneof![6 => Just("https://a.example/keys?of=all".to_owned()), 1 => values::hostile()],
    );
    (option::of(token()), option::of(token()), keys, option::of(backend()))
        .prop_map(|(access, id, keys, server)| {
            json!({"accessToken": access, "idToken": id, "jwksURI": keys, "jwksBackendRef": server})
        })
        .boxed()
}

/// Who logs people in, by a Secret that is there or is not.
fn login() -> BoxedStrategy<Value> {
    let text = |sound: &'static str| prop_oneof![8 => Just(sound.to_owned()), 1 => values::hostile()];
    let back = option::of(prop_oneof![
        6 => select(&[
            "https://shop.example/back", "%REQ(:scheme)%://%REQ(:authority)%/back", "https://%REQ(x)%/back", "/back",
        ][..]).prop_map(str::to_owned),
        1 => values::hostile(),
    ]);
    let secret = prop_oneof![8 => select(&values::CREDENTIALS[..]), 1 => select(&["c0", "missing"][..])];
    let cookies = option::of((
        option::of(text("shop.example")),
        option::of(text("token")),
        option::of(select(&["Lax", "Strict", "None"][..])),
        any::<bool>(),
    ));
    let cookies = cookies.prop_map(|cookies| {
        cookies.map(|(domain, name, site, disable)| {
            json!({"domain": domain, "names": {"accessToken": name}, "sameSite": site,
                "disableRefreshTokenSetCookie": disable})
        })
    });
    let denied = prop_oneof![
        3 => text("XMLHttpRequest").prop_map(|value| json!({"name": "x-requested-with", "value": value})),
        1 => values::regex().prop_map(|regex| json!({"name": "accept", "type": "RegularExpression", "value": regex})),
    ];
    let paths =
        (option::of(text("/leave")), back, option::of(text("openid")), option::of(Just("https://a.example/end")));
    let rest = (any::<bool>(), option::of(of_tokens()));
    (backend(), secret, text("shop"), paths, cookies, option::of(vec(denied, 1..3)), rest)
        .prop_map(|(backend, secret, client, (leave, back, scope, end), cookies, denied, (forwards, tokens))| {
            json!({"oauth2": {
                "backendRef": backend, "authorizationEndpoint": "https://a.example/auth?x=y",
                "tokenEndpoint": "https://a.example:8443/token", "endSessionEndpoint": end, "redirectURI": back,
                "logoutPath": leave, "forwardAccessToken": forwards,
                "scopes": scope.map(|scope| vec![scope]).unwrap_or_default(),
                "credentials": {"clientID": client, "clientSecretRef": {"name": secret}},
                "cookies": cookies, "denyRedirect": denied.map(|headers| json!({"headers": headers})), "jwt": tokens,
            }})
        })
        .boxed()
}

/// Keys as they are written.
fn key_set() -> BoxedStrategy<String> {
    // A modulus of 2048 bits, a point of P-256, one that is none, and one of a curve that Envoy does not know.
    let rsa = json!({"kty": "RSA", "n": "_".repeat(341) + "w", "e": "AQAB", "alg": "RS256"});
    let point = json!({"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"});
    let mut no_point = point.clone();
    no_point["y"] = json!("AQAB");
    let other = json!({"kty": "EC", "crv": "secp256k1", "x": "AQAB", "y": "AQAB"});
    let shared = json!({"kty": "oct", "k": "AQAB"});
    let key = select(vec![rsa, point.clone(), point, key('A'), no_point, other, shared]);
    prop_oneof![
        4 => vec(key.clone(), 0..3).prop_map(|keys| json!({"keys": keys}).to_string()),
        2 => key.prop_map(|key| key.to_string()),
        1 => values::hostile(),
    ]
    .boxed()
}

fn keys() -> BoxedStrategy<Value> {
    let duration = || option::of(select(&["1s", "500ms", "1h", "99999h"][..]));
    let url = prop_oneof![4 => Just("https://issuer.example/keys".to_owned()), 1 => values::hostile()];
    let remote = (backend(), url, duration(), duration(), any::<bool>(), option::of(0..12_i32)).prop_map(
        |(backend, url, cache, again, early, tries)| {
            json!({"remote": {"url": url, "backendRef": backend, "cacheDuration": cache,
                "asyncFetch": early.then(|| json!({"failedRefetchDuration": again})),
                "retryPolicy": tries.map(|tries| json!({"numRetries": tries, "backOff": {"baseInterval": "10ms"}}))}})
        },
    );
    prop_oneof![
        3 => key_set().prop_map(|text| json!({"local": {"inline": text}})),
        1 => select(&["keys", "nobody"][..]).prop_map(|name| json!({"local": {"configMapRef": {"name": name}}})),
        1 => remote,
    ]
    .boxed()
}
