//! Tokens of logins, judged: by the keys of a real OpenID provider, and by those of a server that says what a test wants.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Request, Response, send};
use portcullis_tests::objects::service_at;
use portcullis_tests::openid::{Browser, CLIENT, OpenId, SECRET};
use portcullis_tests::wait::{TIMEOUT, eventually};
use tokio::sync::Mutex;

use super::HOST;
use super::guards::{World, own_policy, policy};
use super::logins::{BACK, client, expect, extension, logged_in, service};
use super::tokens::{KEY, NEXT_KEY, NEXT_TOKEN, Server, TOKEN};

pub(super) const LOGIN: &str = "oauth2: {extensionRef: {name: login}}";

/// What a policy says that lets nobody in but one, as his ID token names him.
fn only(subject: &str) -> String {
    let payload = "metadata.filter_metadata['envoy.filters.http.jwt_authn']";
    format!("{LOGIN}\n  rbac: {{policy: {{matchExpressions: [\"{payload}.idToken.sub == '{subject}'\"]}}}}")
}

/// A world with what logs people in at a provider, and judges what `tokens` says by its keys.
async fn start(provider: &OpenId, tokens: &str) -> Result<World> {
    let world = World::start("", &[]).await?;
    world.portcullis.write("c-openid.yaml", &service(provider))?;
    world.portcullis.write("d-client.yaml", &client(SECRET))?;
    world.portcullis.write("e-extensions.yaml", &judging(provider, tokens))?;
    Ok(world)
}

fn judging(provider: &OpenId, tokens: &str) -> String {
    let keys = format!("https://localhost:{}/keys", provider.port());
    extension("login", provider, &format!("jwt: {{jwksURI: '{keys}', {tokens}}}"))
}

/// The header of a claim, as a backend saw it.
pub(super) fn shown(answer: &Response, header: &str) -> Option<String> {
    answer.echoed.as_ref()?.header(header)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_says_of_who_logs_in_is_shown_to_the_backend_and_decides_who_passes() -> Result<()> {
    let provider = OpenId::start(&[BACK]).await?;
    let shows = |audience: &str| {
        format!("idToken: {{audiences: [{audience}], claimsToHeaders: [{{name: sub, header: X-User}}]}}")
    };
    let mut world = start(&provider, &shows(CLIENT)).await?;
    let older = Mutex::new(Connection::open(&world.target).await?);
    world.portcullis.write("policy.yaml", &policy(LOGIN))?;
    let browser = logged_in(&world, &provider).await?;

    // What the client says of itself is gone, also over a connection that was there before.
    let request = browser.request("/").header("x-user", "root");
    for answer in [send(&world.target, &request).await?, older.lock().await.send(&request).await?] {
        expect(&answer, 200)?;
        ensure!(shown(&answer, "x-user").as_deref() == Some("id1"), "{answer:?}");
    }
    world.portcullis.write("policy.yaml", &policy(&only("id2")))?;
    eventually(TIMEOUT, async || expect(&older.lock().await.send(&request).await?, 403)).await?;
    world.portcullis.write("policy.yaml", &policy(&only("id1")))?;
    eventually(TIMEOUT, async || expect(&older.lock().await.send(&request).await?, 200)).await?;

    // For another audience it is none of theirs, and logging out is possible all the same.
    world.portcullis.write("e-extensions.yaml", &judging(&provider, &shows("another")))?;
    eventually(TIMEOUT, async || expect(&older.lock().await.send(&request).await?, 403)).await?;
    expect(&browser.clone().get("/logout").await?, 302)?;

    // The provider's access tokens are none that could be judged.
    world.portcullis.write("e-extensions.yaml", &judging(&provider, "idToken: {}, accessToken: {}"))?;
    eventually(TIMEOUT, async || expect(&older.lock().await.send(&request).await?, 401)).await?;
    let stranger = Browser::new(world.target.clone(), HOST);
    expect(&send(&world.target, &stranger.request("/")).await?, 302)?;

    world.portcullis.write("e-extensions.yaml", &judging(&provider, "idToken: {}"))?;
    eventually(TIMEOUT, async || expect(&older.lock().await.send(&request).await?, 200)).await?;
    // Without a place to have the keys from, the extension closes what asks for it.
    let nowhere = extension("login", &provider, "issuerURI: 'https://localhost'\n    jwt: {idToken: {}}");
    world.portcullis.write("e-extensions.yaml", &nowhere)?;
    eventually(TIMEOUT, async || expect(&older.lock().await.send(&request).await?, 500)).await?;
    world.envoy.check().await?;
    world.portcullis.was_never_refused().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_passes_while_the_keys_of_its_provider_vouch_for_it_and_no_longer() -> Result<()> {
    let provider = OpenId::start(&[BACK]).await?;
    let own = send(&provider.target(), &Request::get("localhost", "/keys")).await?.body;
    let mut world = start(&provider, "idToken: {}").await?;
    let keys = Server::start(KEY).await?;
    world.portcullis.write("c-keys.yaml", &service_at("keys", ([127, 0, 0, 1], keys.port()).into()))?;
    // Each is another extension, for which keys are read anew.
    let judged = |turn: &str| {
        let tokens = format!("idToken: {{claimsToHeaders: [{{name: sub, header: x-{turn}}}]}}");
        let server = format!(
            "jwt: {{jwksURI: 'https://keys.example/{turn}', jwksBackendRef: {{name: keys, port: 80}}, {tokens}}}"
        );
        extension("login", &provider, &server)
    };
    world.portcullis.write("policy.yaml", &own_policy(LOGIN))?;
    let browser = logged_in(&world, &provider).await?;
    let open = Mutex::new(Connection::open(&world.target).await?);
    let becomes = async |turn: &str, status: u16| {
        world.portcullis.write("e-extensions.yaml", &judged(turn))?;
        eventually(TIMEOUT, async || {
            let before = open.lock().await.send(&browser.request("/")).await?;
            let now = send(&world.target, &browser.request("/")).await?;
            expect(&before, status)?;
            expect(&now, status)?;
            ensure!(status != 200 || shown(&now, &format!("x-{turn}")).is_some(), "{now:?}");
            Ok(())
        })
        .await
        .with_context(|| turn.to_owned())
    };
    // Such as a token that somebody else made: the cookies prove that the proxy put it there.
    becomes("another-key", 401).await?;
    keys.say(&own)?;
    becomes("own-key", 200).await?;
    keys.say(NEXT_KEY)?;
    becomes("rotated", 401).await?;
    keys.say(&own)?;
    becomes("again", 200).await?;
    keys.say("no keys")?;
    becomes("garbage", 401).await?;
    // So that the next change can be seen.
    keys.say(&own)?;
    becomes("at-last", 200).await?;
    drop(keys);
    becomes("down", 401).await?;
    // Who has no login is sent to the provider as before, and the route that nobody guards is open.
    let mut stranger = Browser::new(world.target.clone(), HOST);
    expect(&stranger.get("/").await?, 302)?;
    expect(&stranger.get("/free").await?, 200)?;
    world.envoy.check().await?;
    world.portcullis.was_never_refused().await
}

/// A world with what logs people in at one server, and judges their tokens by the keys of another.
pub(super) struct AtServers {
    pub(super) world: World,
    pub(super) provider: Server,
    _keys: Server,
}

impl AtServers {
    /// With what `tokens` says to judge, and what follows there.
    pub(super) async fn start(tokens: &str) -> Result<Self> {
        let world = World::start("", &[]).await?;
        let (provider, keys) = (Server::start("").await?, Server::start(KEY).await?);
        let services = [("issuer", &provider), ("keys", &keys)];
        let services = services.map(|(name, at)| service_at(name, ([127, 0, 0, 1], at.port()).into()));
        world.portcullis.write("c-services.yaml", &services.concat())?;
        world.portcullis.write("d-client.yaml", &client(SECRET))?;
        let at = Self { world, provider, _keys: keys };
        at.says(tokens)?;
        Ok(at)
    }

    /// Has the extension say this from now on.
    pub(super) fn says(&self, tokens: &str) -> Result<()> {
        let keys = "jwksURI: 'https://keys.example/', jwksBackendRef: {name: keys, port: 80}";
        let extension = format!(
            "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {{namespace: infra, name: login}}
spec:
  oauth2: {{
    backendRef: {{name: issuer, port: 80}},
    authorizationEndpoint: 'https://issuer.example/auth',
    tokenEndpoint: 'https://issuer.example/token',
    scopes: [openid],
    credentials: {{clientID: {CLIENT}, clientSecretRef: {{name: client}}}},
    jwt: {{{keys}, {tokens}}}
  }}
"
        );
        self.world.portcullis.write("e-extensions.yaml", &extension)
    }
}

/// One who comes back from a provider that gives these tokens to everybody.
pub(super) async fn with_tokens(world: &World, provider: &Server, access: &str, id: Option<&str>) -> Result<Browser> {
    let id = id.map_or_else(String::new, |id| format!(r#""id_token": "{id}", "#));
    provider.say(&format!(r#"{{"access_token": "{access}", {id}"token_type": "Bearer", "expires_in": 3600}}"#))?;
    let mut browser = Browser::new(world.target.clone(), HOST);
    eventually(TIMEOUT, async || expect(&browser.clone().get("/").await?, 302)).await?;
    let sent = browser.get("/").await?;
    let location = sent.header("location").context("a location")?;
    let (_, state) = location.split_once("state=").with_context(|| location.clone())?;
    let state = state.split('&').next().unwrap_or_default();
    expect(&browser.get(&format!("/oauth2/redirect?code=a&state={state}")).await?, 302)?;
    Ok(browser)
}

#[tokio::test(flavor = "multi_thread")]
async fn both_tokens_of_a_login_are_judged_each_where_the_provider_put_it() -> Result<()> {
    let both = "accessToken: {claimsToHeaders: [{name: role, header: x-role}]}, \
                idToken: {claimsToHeaders: [{name: sub, header: x-user}]}";
    let mut at = AtServers::start(both).await?;
    at.world.portcullis.write("policy.yaml", &policy(LOGIN))?;
    let target = at.world.target.clone();
    let stranger = Browser::new(target.clone(), HOST);

    let browser = with_tokens(&at.world, &at.provider, TOKEN, Some(TOKEN)).await?;
    let answer = browser.clone().get("/").await?;
    expect(&answer, 200)?;
    let seen = [shown(&answer, "x-role"), shown(&answer, "x-user")];
    ensure!(seen == [Some("admin".to_owned()), Some("alice".to_owned())], "{answer:?}");

    // Either of both is refused for itself, by whatever else the request is good.
    let signature = TOKEN.rsplit_once('.').context("a signature")?.1;
    let forged = TOKEN.replace(signature, &NEXT_TOKEN[NEXT_TOKEN.len() - signature.len()..]);
    for bad in [NEXT_TOKEN, &forged, "opaque"] {
        for (access, id) in [(bad, TOKEN), (TOKEN, bad)] {
            let browser = with_tokens(&at.world, &at.provider, access, Some(id)).await?;
            let request = browser.request(&format!("/?access_token={TOKEN}"));
            let request = request.header("authorization", &format!("Bearer {TOKEN}"));
            let answer = send(&target, &request).await?;
            expect(&answer, 401).with_context(|| format!("{access} {id}"))?;
            ensure!(!answer.body.contains(bad), "{}", answer.body);
        }
    }
    let by_token = stranger.request("/").header("authorization", &format!("Bearer {TOKEN}"));
    expect(&send(&target, &by_token).await?, 302)?;

    // Nor is anything else taken for an ID token that the provider did not give.
    let lacking = with_tokens(&at.world, &at.provider, TOKEN, None).await?;
    let bearer = |request: Request| request.header("authorization", &format!("Bearer {TOKEN}"));
    let query = format!("/?access_token={TOKEN}");
    for request in [lacking.request("/"), bearer(lacking.request("/")), lacking.request(&query)] {
        expect(&send(&target, &request).await?, 401)?;
    }
    let planted = browser.cookies.iter().filter(|(name, _)| name.contains("IdToken"));
    let mut planted = planted.map(|(name, _)| (name.clone(), TOKEN.to_owned())).collect::<Vec<_>>();
    ensure!(planted.len() == 1, "{planted:?}");
    let mut planting = lacking.clone();
    planting.cookies.extend(planted.pop());
    expect(&send(&target, &bearer(planting.request(&query))).await?, 302)?;

    // A cookie that a client adds is not taken for that of the login.
    let (name, _) = browser.cookies.iter().find(|(name, _)| name.contains("AccessToken")).context("a cookie")?;
    let own = browser.request("/").headers.pop().context("cookies")?.1;
    for cookies in [format!("{name}={NEXT_TOKEN}; {own}"), format!("{own}; {name}={NEXT_TOKEN}")] {
        let request = stranger.request("/").header("cookie", &cookies);
        let answer = send(&target, &request).await?;
        let is_own = answer.status == 200 && shown(&answer, "x-role").as_deref() == Some("admin");
        ensure!(is_own || answer.status == 302, "{answer:?}");
    }

    // Another audience, and a claim that would stand for two.
    at.says("accessToken: {audiences: [another]}")?;
    eventually(TIMEOUT, async || expect(&browser.clone().get("/").await?, 403)).await?;
    at.says(&both.replace("x-user", "X-Role"))?;
    eventually(TIMEOUT, async || expect(&browser.clone().get("/").await?, 500)).await?;
    at.says("accessToken: {audiences: [another, shop]}")?;
    eventually(TIMEOUT, async || expect(&browser.clone().get("/").await?, 200)).await?;
    at.world.envoy.check().await?;
    at.world.portcullis.was_never_refused().await
}
