//! Processes that die at random steps of what they store and read of a tree: whoever comes after serves the edition before or the
//! next one, and never a part of one.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use portcullis_tests::{
    objects,
    portcullis::Portcullis,
    ports,
    wait::{TIMEOUT, eventually},
};
use serde_json::Value;

use crate::{FREEZE, GROUP, HOST, Place, policy, route};

/// How often somebody dies where nobody asks for more.
const RUNS: usize = 20;
/// So many children, with so much to say that the tree is kept in parts.
const CHILDREN: usize = 16;
const PADDING: usize = 4000;
/// How many steps it takes to store a change, and to read what is kept.
const STORING: i64 = 12;
const READING: i64 = 24;

/// A child whose requests are told a number.
fn child(number: usize, said: usize, backend: &str) -> (String, String) {
    let padding = "x".repeat(PADDING);
    let rule = format!(
        "  - matches: [{{path: {{value: /c-{number}}}}}]\n    backendRefs: [{{name: {backend}, port: 80}}]\n    \
         filters: [{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: x-said, value: said-{said}-}}, \
         {{name: x-much, value: {padding}}}, {{name: x-more, value: {padding}}}]}}}}]\n"
    );
    (format!("c-{number}.yaml"), route(&format!("c-{number}"), "", &rule))
}

fn tree() -> Result<Vec<(String, String)>> {
    let to = |number: usize| {
        format!(
            "  - matches: [{{path: {{value: /c-{number}}}}}]\n    backendRefs: [{{group: {GROUP}, kind: HTTPRoute, name: \
             c-{number}}}]\n"
        )
    };
    let attached = format!("  parentRefs: [{{name: gateway}}]\n  hostnames: [{HOST}]\n");
    let root = route("root", &attached, &(0..CHILDREN).map(to).collect::<String>());
    let listener = format!("{{name: http, port: {}, protocol: HTTP}}", ports::free_port()?);
    let backend = objects::service_at("backend", ([127, 0, 0, 1], 9).into());
    let base = objects::gateway(&[listener]) + &backend + &root + &policy(FREEZE);
    let children = (0..CHILDREN).map(|number| child(number, 0, "backend"));
    Ok([("a.yaml".to_owned(), base)].into_iter().chain(children).collect())
}

/// The Envoy route for a path.
fn row<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) if fields.get("match").is_some_and(|it| it["pathSeparatedPrefix"] == path) => Some(value),
        Value::Object(fields) => fields.values().find_map(|value| row(value, path)),
        Value::Array(all) => all.iter().find_map(|value| row(value, path)),
        _ => None,
    }
}

/// What the requests of each child are told: all of them go to the backend.
fn served(snapshot: &Value) -> Result<Vec<usize>> {
    let said = |number: usize| {
        let row =
            row(&snapshot["gateways"], &format!("/c-{number}")).with_context(|| format!("no route of {number}"))?;
        ensure!(row["route"].is_object(), "child {number} is replaced: {row:.300}");
        let text = row.to_string();
        let said = text.split_once("said-").and_then(|(_, rest)| rest.split_once('-'));
        Ok(said.with_context(|| format!("child {number} says nothing"))?.0.parse()?)
    };
    (0..CHILDREN).map(said).collect()
}

/// Waits until the root is told this, and the tree is served so.
async fn until(portcullis: &Portcullis, reason: &str, is: impl Fn(&[usize]) -> bool) -> Result<Vec<usize>> {
    eventually(TIMEOUT, async || {
        let snapshot = portcullis.snapshot().await?;
        let is_told = snapshot["statuses"].to_string().contains(&format!("{reason:?}"));
        ensure!(is_told, "the root is not told {reason}");
        let served = served(&snapshot)?;
        ensure!(is(&served), "{served:?}");
        Ok(served)
    })
    .await
    .with_context(|| portcullis.log_tail())
}

/// Changes a child, has the process die while it stores that or while the next one reads it, and looks what is served.
async fn run(
    place: &Place,
    portcullis: &mut Portcullis,
    served_before: &mut Vec<usize>,
    rng: &mut Rng,
    number: usize,
) -> Result<()> {
    let die_after = |steps: i64| {
        let (order, written) = (place.state().join(".die-after"), place.state().join(".order"));
        std::fs::write(&written, steps.to_string())?;
        std::fs::rename(written, order)
    };
    let (changed, broken) = (rng.usize(0..CHILDREN), rng.usize(0..CHILDREN));
    let (file, content) = child(changed, number, "backend");
    die_after(rng.i64(0..STORING))?;
    portcullis.write(&file, &content)?;
    portcullis.ended().await?;
    // What breaks in between is not served, whatever of the change is stored.
    let breaks = rng.bool() && broken != changed;
    if breaks {
        let (file, content) = child(broken, number, "nobody");
        portcullis.write(&file, &content)?;
    }
    if rng.bool() {
        die_after(rng.i64(0..READING))?;
    }
    portcullis.crash().await?;
    let is_ready = portcullis.wait_until_ready().await;
    // Nobody dies any more, whatever is left of the order before.
    die_after(i64::MAX)?;
    if is_ready.is_err() || portcullis.check().is_err() {
        portcullis.crash().await?;
        portcullis.wait_until_ready().await?;
    }
    let mut after = served_before.clone();
    after[changed] = number;
    if breaks {
        let is_whole = |served: &[usize]| served == &after[..] || served == &served_before[..];
        until(portcullis, "TreeBroken", is_whole).await?;
        let (file, content) = child(broken, number, "backend");
        portcullis.write(&file, &content)?;
        after[broken] = number;
    }
    until(portcullis, "Committed", |served| served == &after[..]).await?;
    *served_before = after;
    portcullis.check()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_after_one_who_died_at_any_step_serves_a_whole_edition() -> Result<()> {
    let minutes = std::env::var("CHAOS_MINUTES").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let until_then = Instant::now() + Duration::from_secs(60 * minutes);
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    let mut rng = Rng::with_seed(seed);
    let place = Place::new()?;
    let mut portcullis = Portcullis::start_with(&tree()?, &place.arguments()).await?;
    let mut served = until(&portcullis, "Committed", |_| true).await?;
    let parts = std::fs::read_dir(place.state().join("edition-part"))?.count();
    ensure!(parts > 1, "it is kept in {parts} parts, and shows nothing of these");
    for number in 1.. {
        if number > RUNS && Instant::now() >= until_then {
            break;
        }
        let run = run(&place, &mut portcullis, &mut served, &mut rng, number).await;
        run.with_context(|| format!("run {number} of PROPTEST_RNG_SEED={seed}"))?;
    }
    Ok(())
}
