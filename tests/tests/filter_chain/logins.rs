//! Logins at a real OpenID provider.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Response, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::openid::{Browser, CLIENT, OpenId, SECRET};
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::process::{envoy_binary, freeze};
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};
use tokio::sync::Mutex;

use super::guards::{World, policy};
use super::{HOST, route};

/// Where people come back to, unless an extension says so.
pub(super) const BACK: &str = "http://plain.example/oauth2/redirect";

pub(super) fn extension(name: &str, provider: &OpenId, more: &str) -> String {
    let port = provider.port();
    format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {{namespace: infra, name: {name}}}
spec:
  oauth2:
    backendRef: {{name: openid, port: 80}}
    authorizationEndpoint: https://localhost:{port}/auth
    tokenEndpoint: https://localhost:{port}/oauth/token
    scopes: [openid, profile]
    credentials: {{clientID: {CLIENT}, clientSecretRef: {{name: client}}}}
    {more}
"
    )
}

pub(super) fn service(provider: &OpenId) -> String {
    format!(
        "
---
apiVersion: v1
kind: Service
metadata: {{namespace: infra, name: openid}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{namespace: infra, name: openid-a, labels: {{kubernetes.io/service-name: openid}}}}
addressType: IPv4
ports: [{{name: '', port: {}}}]
endpoints: [{{addresses: [127.0.0.1]}}]
",
        provider.port()
    )
}

pub(super) fn client(secret: &str) -> String {
    format!(
        "
---
apiVersion: v1
kind: Secret
metadata: {{namespace: infra, name: client}}
stringData: {{client-secret: {secret}}}
"
    )
}

/// What the second one of two extensions guards.
const OTHER: &str = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: infra, name: other}
spec:
  parentRefs: [{name: gateway}]
  hostnames: [plain.example]
  rules: [{matches: [{path: {type: PathPrefix, value: /other}}], backendRefs: [{name: backend, port: 80}]}]
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {namespace: infra, name: other}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: other}]
  oauth2: {extensionRef: {name: second}}
";

/// Whether a page is there, or the way to it leads by the provider.
pub(super) fn expect(answer: &Response, status: u16) -> Result<()> {
    ensure!(answer.status == status, "{} {:?} {}", answer.status, answer.header("location"), answer.body);
    ensure!(answer.echoed.is_some() == (status == 200), "whether a backend answered: {}", answer.body);
    Ok(())
}

/// One who has a session, at a page that asks for it from now on.
pub(super) async fn logged_in(world: &World, provider: &OpenId) -> Result<Browser> {
    let mut browser = Browser::new(world.target.clone(), HOST);
    eventually(TIMEOUT, async || expect(&browser.clone().get("/").await?, 302)).await?;
    let back = browser.log_in(provider, "/page?of=mine").await?;
    let answer = browser.get(&back).await?;
    expect(&answer, 302)?;
    ensure!(answer.header("location").as_deref() == Some("http://plain.example/page?of=mine"), "{answer:?}");
    expect(&browser.get("/page").await?, 200)?;
    Ok(browser)
}

async fn start(provider: &OpenId) -> Result<World> {
    let world = World::start("", &[]).await?;
    world.portcullis.write("c-openid.yaml", &service(provider))?;
    world.portcullis.write("d-client.yaml", &client(SECRET))?;
    let deny = "denyRedirect: {headers: [{name: x-requested-with, value: XMLHttpRequest}]}";
    let both = extension("login", provider, deny) + &extension("second", provider, "forwardAccessToken: true");
    world.portcullis.write("e-extensions.yaml", &both)?;
    Ok(world)
}

#[tokio::test(flavor = "multi_thread")]
async fn people_log_in_at_a_provider_and_a_login_by_one_extension_is_none_for_another() -> Result<()> {
    let provider = OpenId::start(&[BACK]).await?;
    let world = start(&provider).await?;
    let mut stranger = Browser::new(world.target.clone(), HOST);
    eventually(TIMEOUT, async || expect(&stranger.clone().get("/").await?, 200)).await?;
    let older = Mutex::new(Connection::open(&world.target).await?);
    expect(&older.lock().await.send(&stranger.request("/")).await?, 200)?;

    world.portcullis.write("policy.yaml", &(policy("oauth2: {extensionRef: {name: login}}") + OTHER))?;
    let mut browser = logged_in(&world, &provider).await?;
    eventually(TIMEOUT, async || expect(&older.lock().await.send(&stranger.request("/")).await?, 302)).await?;
    expect(&older.lock().await.send(&browser.request("/")).await?, 200)?;
    let script = stranger.request("/").header("x-requested-with", "XMLHttpRequest");
    expect(&older.lock().await.send(&script).await?, 401)?;
    // Envoy alone answers who comes back without a state of its own.
    expect(&stranger.get("/oauth2/redirect?code=a&state=b").await?, 401)?;

    // Such as prove themselves, so that nobody decrypts them by asking which ones the proxy can.
    for name in ["__Host-AccessToken", "__Host-IdToken"] {
        let (_, value) = browser.cookies.iter().find(|(cookie, _)| cookie.starts_with(name)).context("a cookie")?;
        ensure!(value.starts_with("gcm."), "{name} is {value}");
    }
    ensure!(!browser.cookies.keys().any(|name| name.contains("RefreshToken")), "{:?}", browser.cookies.keys());
    let forgeries =
        [("__Host-OauthHMAC", "AAAA"), ("__Host-OauthExpires", "99999999999"), ("__Host-AccessToken", "another")];
    for (name, forged) in forgeries {
        let mut forger = browser.clone();
        let cookie = forger.cookies.iter_mut().find(|(cookie, _)| cookie.starts_with(name)).context("a cookie")?.1;
        forged.clone_into(cookie);
        expect(&forger.get("/").await?, 302)?;
    }

    // By its own names the cookies are not seen, and by the names of the other extension they prove nothing.
    expect(&browser.clone().get("/other").await?, 302)?;
    let mut second = browser.clone();
    let back = second.log_in(&provider, "/other").await?;
    expect(&second.get(&back).await?, 401)?;
    world.portcullis.write(
        "e-extensions.yaml",
        &(extension("login", &provider, "")
            + &extension("second", &provider, "redirectURI: 'http://plain.example/other/back'")),
    )?;
    let suffix = |browser: &Browser, of: &str| -> Result<String> {
        let name =
            browser.cookies.keys().find(|name| name.starts_with(of) && !name.contains('.')).context("a cookie")?;
        Ok(name.rsplit_once('-').context("a suffix")?.1.to_owned())
    };
    let own = suffix(&browser, "__Host-OauthHMAC")?;
    let mut fresh = Browser::new(world.target.clone(), HOST);
    expect(&fresh.get("/other").await?, 302)?;
    let others = suffix(&fresh, "__Host-OauthNonce")?;
    ensure!(own != others, "both have the same cookies");
    let renamed = browser.cookies.iter().map(|(name, value)| (name.replace(&own, &others), value.clone()));
    let mut renamed = Browser { cookies: renamed.collect(), ..browser.clone() };
    expect(&renamed.get("/other").await?, 302)?;

    let left = browser.get("/logout").await?;
    expect(&left, 302)?;
    ensure!(left.header("location").as_deref() == Some("http://plain.example/"), "{left:?}");
    expect(&browser.get("/").await?, 302)?;
    world.portcullis.was_never_refused().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_token_is_taken_where_that_is_written_and_nowhere_else() -> Result<()> {
    let provider = OpenId::start(&[BACK]).await?;
    let world = start(&provider).await?;
    let with = |more: &str| extension("login", &provider, more).replace("profile", "profile, offline_access");
    let on = "cookies: {disableRefreshTokenSetCookie: false}";
    world.portcullis.write("e-extensions.yaml", &with(on))?;
    world.portcullis.write("policy.yaml", &policy("oauth2: {extensionRef: {name: login}}"))?;
    let browser = Mutex::new(logged_in(&world, &provider).await?);
    // With no other cookie: Envoy looks at none, which is why it has to be written. Each answer brings another one.
    let get = async || {
        let mut browser = browser.lock().await;
        browser.cookies.retain(|name, _| name.starts_with("__Host-RefreshToken"));
        ensure!(browser.cookies.len() == 1, "there is none");
        browser.get("/").await
    };
    for _ in 0..2 {
        expect(&get().await?, 200)?;
    }

    for off in ["", "cookies: {disableRefreshTokenSetCookie: true}"] {
        world.portcullis.write("e-extensions.yaml", &with(off))?;
        eventually(TIMEOUT, async || expect(&get().await?, 302)).await?;
        let mut known = Browser::new(world.target.clone(), HOST);
        let back = known.log_in(&provider, "/").await?;
        expect(&known.get(&back).await?, 302)?;
        expect(&known.get("/").await?, 200)?;
        ensure!(!known.cookies.keys().any(|name| name.contains("RefreshToken")), "{:?}", known.cookies.keys());
    }
    world.portcullis.was_never_refused().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_log_shows_the_tokens_of_a_login() -> Result<()> {
    const TAKEN: &str = "gcm.taken-from-somebody";
    let provider = OpenId::start(&[BACK]).await?;
    let (echo, port) = (Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?, ports::free_port()?);
    let files = [
        ("gateway.yaml", objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")])),
        ("backend.yaml", objects::service("backend", &echo) + &service(&provider) + &client(SECRET)),
        ("extension.yaml", extension("login", &provider, "")),
        ("policy.yaml", policy("oauth2: {extensionRef: {name: login}}")),
        ("route.yaml", route("")),
    ];
    let files = files.map(|(name, content)| (name.to_owned(), content));
    let envoy = envoy_binary()?.to_string_lossy().into_owned();
    let debug = ["--log-level", "debug", "--envoy", &envoy].map(ToOwned::to_owned);
    let portcullis = Portcullis::start_with(&files, &debug).await?;
    let mut browser = Browser::new(Target::local(port), HOST);
    eventually(TIMEOUT, async || expect(&browser.clone().get("/").await?, 302)).await?;
    let back = browser.log_in(&provider, "/").await?;
    expect(&browser.get(&back).await?, 302)?;
    expect(&browser.get("/").await?, 200)?;
    let mut forger = browser.clone();
    let cookies = forger.cookies.iter_mut().filter(|(name, _)| name.contains("Token"));
    cookies.for_each(|(_, value)| TAKEN.clone_into(value));
    expect(&forger.get("/").await?, 302)?;
    let log = portcullis.log();
    ensure!(log.contains("envoy"), "it logs nothing of a proxy: {log}");
    let tokens = browser.cookies.iter().filter(|(name, _)| name.contains("Token") || name.contains("HMAC"));
    for shown in tokens.map(|(_, value)| value.as_str()).chain([TAKEN]) {
        ensure!(!log.contains(shown), "it shows {shown}: {log}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_outlasts_its_provider_and_changes_of_routes_and_nobody_gets_in_by_what_fails() -> Result<()> {
    let mut provider = OpenId::start(&[BACK]).await?;
    let world = start(&provider).await?;
    world.portcullis.write("policy.yaml", &policy("oauth2: {extensionRef: {name: login}}"))?;
    let mut browser = logged_in(&world, &provider).await?;

    // Each change of routes makes the filter anew: with secrets that it has.
    for round in 0..10 {
        let header = format!("headerModifiers: {{response: {{set: [{{name: x-round, value: '{round}'}}]}}}}");
        let said = format!("oauth2: {{extensionRef: {{name: login}}}}\n  {header}");
        world.portcullis.write("policy.yaml", &policy(&said))?;
        eventually(TIMEOUT, async || {
            let answer = browser.clone().get("/").await?;
            if answer.status != 200 {
                // Not tried again: nobody may be sent away for a change.
                return Ok(answer.status);
            }
            ensure!(answer.header("x-round").as_deref() == Some(&*round.to_string()), "not yet");
            Ok(200)
        })
        .await
        .and_then(|status| {
            ensure!(status == 200, "a change of routes answers {status}");
            Ok(())
        })?;
    }

    // Another secret reaches the proxy without a change of routes; who is in stays in.
    world.portcullis.write("d-client.yaml", &client("wrong"))?;
    eventually(TIMEOUT, async || {
        let mut other = Browser::new(world.target.clone(), HOST);
        let back = other.log_in(&provider, "/").await?;
        expect(&other.get(&back).await?, 401)
    })
    .await?;
    expect(&browser.get("/").await?, 200)?;
    world.portcullis.write("d-client.yaml", &client(SECRET))?;
    eventually(TIMEOUT, async || {
        let mut other = Browser::new(world.target.clone(), HOST);
        let back = other.log_in(&provider, "/").await?;
        expect(&other.get(&back).await?, 302)?;
        expect(&other.get("/").await?, 200)
    })
    .await?;

    // A provider that does not answer, and then none.
    let mut waiting = Browser::new(world.target.clone(), HOST);
    let back = waiting.log_in(&provider, "/").await?;
    let mut late = Browser::new(world.target.clone(), HOST);
    let in_vain = late.log_in(&provider, "/").await?;
    freeze(provider.id().context("it runs")?).await?;
    expect(&waiting.get(&back).await?, 401)?;
    expect(&browser.get("/").await?, 200)?;
    provider.kill().await?;
    expect(&late.get(&in_vain).await?, 401)?;
    expect(&late.get("/").await?, 302)?;
    expect(&browser.get("/").await?, 200)?;

    // Without its secret the extension closes what asks for it, for those too who are in.
    world.portcullis.remove("d-client.yaml")?;
    eventually(TIMEOUT, async || expect(&browser.clone().get("/").await?, 500)).await?;
    world.portcullis.was_never_refused().await
}
