//! Tokens, judged while things change: those of logins over connections of an earlier release, and all as extensions change under
//! load.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use portcullis_tests::client::{Connection, Request, Response, Target, send};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::openid::Browser;
use portcullis_tests::ports;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use super::HOST;
use super::guards::{World, policy};
use super::login_tokens::{AtServers, LOGIN, shown, with_tokens};
use super::logins::expect;
use super::tokens::{KEY, NEXT_TOKEN, TOKEN};

/// What listeners of an earlier release have not.
const NEW_SLOT: &str = "oauth2.claims";

/// Who asks at the same time, and how often an extension changes meanwhile.
const ASKING: usize = 4;
const CHANGES: usize = 6;

/// The listener that `envoy` has, at another port and as an earlier release had it.
async fn of_earlier_release(envoy: &Envoy, port: u16) -> Result<Value> {
    let mut dump = envoy.config_dump().await?;
    let of_listeners = |config: &&mut Value| config.get("dynamic_listeners").is_some();
    let configs = dump["configs"].as_array_mut().context("configs")?.iter_mut().find(of_listeners);
    let mut listener = configs.context("listeners")?["dynamic_listeners"][0]["active_state"]["listener"].take();
    listener.as_object_mut().context("a listener")?.remove("@type");
    listener["address"]["socket_address"]["port_value"] = port.into();
    // Envoy does not show what it has there.
    without(&mut listener, "basicAuth");
    ensure!(without(&mut listener, NEW_SLOT) > 0, "{listener}");
    Ok(listener)
}

/// Removes whatever has this name from all lists, and says how much that is.
fn without(value: &mut Value, name: &str) -> usize {
    match value {
        Value::Array(all) => {
            let before = all.len();
            all.retain(|one| one["name"] != name);
            before - all.len() + all.iter_mut().map(|one| without(one, name)).sum::<usize>()
        }
        Value::Object(fields) => fields.values_mut().map(|field| without(field, name)).sum(),
        _ => 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn over_connections_of_an_earlier_release_no_client_says_of_itself_what_a_claim_says() -> Result<()> {
    let mut at = AtServers::start("idToken: {claimsToHeaders: [{name: sub, header: x-user}]}").await?;
    at.world.portcullis.write("policy.yaml", &policy(LOGIN))?;
    let browser = with_tokens(&at.world, &at.provider, TOKEN, Some(TOKEN)).await?;
    let port = ports::free_port()?;
    let mut bootstrap = at.world.portcullis.bootstrap("infra/gateway").await?;
    let dynamic = bootstrap["dynamicResources"].as_object_mut().context("dynamic resources")?;
    dynamic.remove("ldsConfig").context("listeners")?;
    bootstrap["staticResources"]["listeners"] = vec![of_earlier_release(&at.world.envoy, port).await?].into();
    let mut earlier = Envoy::start(&bootstrap).await?;
    let target = Target::local(port);
    let request = browser.request("/").header("x-user", "root");
    let user = |answer: &Response| shown(answer, "x-user");
    eventually(TIMEOUT, async || expect(&send(&target, &request).await?, 200)).await?;
    let answer = send(&target, &request).await?;
    ensure!(user(&answer).is_none(), "{answer:?}");
    let answer = send(&at.world.target, &request).await?;
    ensure!(user(&answer).as_deref() == Some("alice"), "{answer:?}");
    // Whoever has no login, or one that is not good, is kept out there as everywhere.
    expect(&send(&target, &Request::get(HOST, "/").header("x-user", "root")).await?, 302)?;
    let bad = with_tokens(&at.world, &at.provider, TOKEN, Some(NEXT_TOKEN)).await?;
    expect(&send(&target, &bad.request("/").header("x-user", "root")).await?, 401)?;
    earlier.check().await?;
    at.world.envoy.check().await?;
    at.world.portcullis.was_never_refused().await
}

/// Holds every answer to `request` against `is_right` while an extension `says` one of two words after the other, each of which is
/// there once the answer to it `has_come`.
async fn while_it_changes(
    target: &Target,
    request: &Request,
    says: impl Fn(usize) -> Result<()>,
    has_come: impl Fn(usize, &Response) -> bool,
    is_right: impl Fn(&Response) -> bool,
) -> Result<()> {
    let is_done = AtomicBool::new(false);
    let asking = (0..ASKING).map(async |_| {
        let mut connection = Connection::open(target).await?;
        let mut answers = 0;
        while !is_done.load(Ordering::Relaxed) {
            let answer = connection.send(request).await?;
            ensure!(is_right(&answer), "{answer:?}");
            answers += 1;
        }
        Ok(answers)
    });
    let changing = async {
        for turn in 1..=CHANGES {
            let word = turn % 2;
            says(word)?;
            let come = eventually(TIMEOUT, async || {
                let answer = send(target, request).await?;
                ensure!(has_come(word, &answer), "{answer:?}");
                Ok(())
            });
            come.await.with_context(|| format!("word {word}"))?;
        }
        is_done.store(true, Ordering::Relaxed);
        Ok(())
    };
    let (answers, ()) = tokio::try_join!(try_join_all(asking), changing)?;
    ensure!(answers.iter().all(|answers: &usize| *answers > CHANGES), "{answers:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cookie_that_a_login_does_not_prove_is_judged_while_an_extension_changes() -> Result<()> {
    let judged = |cookie: &str| {
        let claims = "claimsToHeaders: [{name: sub, header: x-user}]";
        format!("idToken: {{{claims}}}}}, cookies: {{names: {{idToken: {cookie}}}")
    };
    let words = [judged("aaa"), judged("bbb")];
    let mut at = AtServers::start(&words[0]).await?;
    at.world.portcullis.write("policy.yaml", &policy(LOGIN))?;
    // A token that the keys do not vouch for, and one that they do, which no login of this client brought.
    let mut browser = with_tokens(&at.world, &at.provider, TOKEN, Some(NEXT_TOKEN)).await?;
    browser.cookies.insert("bbb".to_owned(), TOKEN.to_owned());
    let request = browser.request("/");
    // To the other word he has no login at all.
    let statuses = [401, 302];
    let has_come = |word: usize, answer: &Response| answer.status == statuses[word];
    let is_right = |answer: &Response| statuses.contains(&answer.status);
    while_it_changes(&at.world.target, &request, |word| at.says(&words[word]), has_come, is_right).await?;
    at.world.envoy.check().await?;
    at.world.portcullis.was_never_refused().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_login_passes_each_time_while_an_extension_changes() -> Result<()> {
    let headers = ["x-user", "x-name"];
    let words = headers.map(|header| format!("idToken: {{claimsToHeaders: [{{name: sub, header: {header}}}]}}"));
    let mut at = AtServers::start(&words[0]).await?;
    at.world.portcullis.write("policy.yaml", &policy(LOGIN))?;
    let browser: Browser = with_tokens(&at.world, &at.provider, TOKEN, Some(TOKEN)).await?;
    let says = |answer: &Response| headers.map(|header| shown(answer, header).as_deref() == Some("alice"));
    let has_come = |word: usize, answer: &Response| says(answer)[word];
    // By the one word or by the other, and never by parts of both.
    let is_right = |answer: &Response| answer.status == 200 && says(answer).iter().filter(|said| **said).count() == 1;
    let request = browser.request("/");
    while_it_changes(&at.world.target, &request, |word| at.says(&words[word]), has_come, is_right).await?;
    at.world.envoy.check().await?;
    at.world.portcullis.was_never_refused().await
}

/// An extension that takes tokens, and a policy that goes by it and by what is said besides.
fn by_either_word(mode: &str, more: &str) -> String {
    let extension = format!(
        "
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {{namespace: infra, name: tokens}}
spec: {{jwt: {{validationMode: {mode}, providers: [{{name: p, jwks: {{local: {{inline: '{KEY}'}}}}}}]}}}}
"
    );
    extension + &policy(&format!("jwtAuth: {{extensionRef: {{name: tokens}}}}\n  {more}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_without_a_token_passes_while_an_extension_comes_to_need_none_and_routes_ask_for_more() -> Result<()> {
    let payload = "metadata.filter_metadata['envoy.filters.http.jwt_authn'].payload";
    let of_alice = format!("rbac: {{policy: {{matchExpressions: [\"{payload}.sub == 'alice'\"]}}}}");
    let words = [by_either_word("Strict", ""), by_either_word("AllowMissing", &of_alice)];
    let mut world = World::start(&words[0], &[]).await?;
    let request = Request::get(HOST, "/");
    let statuses = [401, 403];
    eventually(TIMEOUT, async || expect(&send(&world.target, &request).await?, statuses[0])).await?;
    let has_come = |word: usize, answer: &Response| answer.status == statuses[word];
    let is_right = |answer: &Response| statuses.contains(&answer.status);
    let says = |word: usize| world.portcullis.write("policy.yaml", &words[word]);
    while_it_changes(&world.target, &request, says, has_come, is_right).await?;
    let sound = request.header("authorization", &format!("Bearer {TOKEN}"));
    expect(&send(&world.target, &sound).await?, 200)?;
    world.envoy.check().await?;
    world.portcullis.was_never_refused().await
}
