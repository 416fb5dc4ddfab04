//! Tokens of logins, judged while things change: over connections of an earlier release, and as extensions change under load.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Request, Response, Target, send};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::ports;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use super::HOST;
use super::guards::policy;
use super::login_tokens::{AtServers, LOGIN, shown, with_tokens};
use super::logins::expect;
use super::tokens::{NEXT_TOKEN, TOKEN};

/// What listeners of an earlier release have not.
const NEW_SLOT: &str = "oauth2.claims";

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
