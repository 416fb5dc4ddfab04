//! What the oracle tells from the manifests is what a real Envoy does that Portcullis controls, and what Portcullis
//! explains.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use explain::{Explanation, Request};
use portcullis_tests::client;
use portcullis_tests::oracle::stage::{REGEX_MAX_TIME, Seen, Stage};
use portcullis_tests::oracle::worlds::{Asked, Kind, World, fixtures, worlds};
use portcullis_tests::oracle::{Answer, Journey, Oracle, Outcome, Settings, Treatment};
use proptest::strategy::ValueTree;
use translate::{Change, Translator};
use worlds::Draws;

/// So many worlds that are the same in each run, and new ones.
fn some(kind: Kind, fixed: usize) -> Vec<World> {
    Draws::new().take(&worlds(kind), fixed).iter().map(ValueTree::current).collect()
}

fn oracle(world: &World) -> Result<Oracle> {
    let all: Vec<_> = fixtures().into_iter().chain(world.manifests.iter().cloned()).collect();
    Oracle::read(&all, &Settings::default())
}

fn ask(oracle: &Oracle, world: &World) -> Vec<Outcome> {
    world.requests.iter().map(|asked| oracle.ask(asked.gateway, asked.port, &asked.request)).collect()
}

/// The product's own tables for a world.
fn translated(world: &World) -> Result<Translator> {
    // On the stage each Gateway has ports of its own.
    let regex = ir::settings::Regex { max_time: REGEX_MAX_TIME };
    let settings = ir::Settings { shared_host: false, regex, ..ir::Settings::default() };
    let mut translator = Translator::new(settings);
    for manifest in fixtures().into_iter().chain(world.manifests.iter().cloned()) {
        translator.apply(Change::Put(api::decode(manifest)?.object));
    }
    translator.settle();
    Ok(translator)
}

/// What `explain` says of a request.
fn explained(translator: &Translator, asked: &Asked) -> Result<Explanation> {
    let (namespace, name) = asked.gateway.split_once('/').context("a Gateway")?;
    let client::Request { method, path, host, headers, .. } = &asked.request;
    let url = format!("http://{host}:{}{path}", asked.port);
    let headers: Vec<_> = headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let request = Request::new(method, &url, headers.iter().map(String::as_str))?;
    Ok(explain::explain(translator, &ir::NsName::new(namespace, name), &request))
}

/// Whether what `explain` says of a request is what the oracle says.
fn compare(translator: &Translator, asked: &Asked, outcome: &Outcome) -> Result<()> {
    let explanation = explained(translator, asked)?;
    let leaf = explanation
        .leaf
        .as_ref()
        .map(|leaf| format!("{}/{}/{}/{}", leaf.namespace, leaf.name, leaf.rule, leaf.matching));
    let expected = outcome.route_identity().map(ToString::to_string);
    ensure!(leaf == expected, "explained as {leaf:?}, and not {outcome:?}");
    if let Answer::DirectResponse(status) = outcome.answer() {
        let explained = explanation.outcome.status();
        ensure!(explained == Some(u32::from(status)), "explained as {explained:?}, and not {status}");
    }
    Ok(())
}

/// Whether a client sees what policies come to, and `explain` says whose they are.
fn compare_policies(
    translator: &Translator,
    oracle: &Oracle,
    asked: &Asked,
    outcome: &Outcome,
    seen: &Seen,
    decided: &mut BTreeMap<&'static str, usize>,
) -> Result<()> {
    let Outcome::Route(taken) = outcome else { return Ok(()) };
    let Journey { treatment, sight, last } = oracle.follow(asked, taken);
    for why in sight.why.iter().filter(|_| sight.status.is_some()) {
        *decided.entry(why).or_default() += 1;
    }
    let told = || format!("{treatment:#?}\n{sight:#?}\n{outcome}");
    sight.compare(seen).with_context(told)?;
    if let Some(last) = &last {
        seen.is_taken_by(last).with_context(told)?;
    }
    let (Treatment::Units(units), Answer::Backends { .. }) = (&treatment, outcome.answer()) else { return Ok(()) };
    let explanation = explained(translator, asked)?;
    let told = explanation.effects.iter().filter(|effect| units::AnyUnit::FIELDS.contains(&effect.what));
    let told: BTreeMap<_, _> = told
        .map(|effect| {
            let set = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
            (effect.what, (set(&effect.from), set(&effect.overridden), set(&effect.by)))
        })
        .collect();
    let expected =
        units.iter().map(|(unit, held)| (*unit, (held.from.clone(), held.overridden.clone(), held.by.clone())));
    let expected: BTreeMap<_, _> = expected.collect();
    ensure!(told == expected, "explained as {told:#?}, and not {expected:#?}\n{explanation}");
    Ok(())
}

async fn agree(kind: Kind, fixed: usize) -> Result<()> {
    let worlds = some(kind, fixed);
    let count = worlds.len();
    let mut stage = Stage::start().await?;
    let (mut taken, mut failures) = (0, Vec::new());
    // What clients saw of some policies, and why.
    let mut decided = BTreeMap::new();
    for (number, world) in worlds.iter().enumerate() {
        let oracle = oracle(world)?;
        let outcomes = ask(&oracle, world);
        let translator = translated(world)?;
        let seen = stage.play(world).await?;
        let differences: Vec<String> = std::iter::zip(&world.requests, std::iter::zip(&seen, &outcomes))
            .filter_map(|(asked, (seen, outcome))| {
                let compared = match kind {
                    Kind::Policies => compare_policies(&translator, &oracle, asked, outcome, seen, &mut decided),
                    Kind::Plain | Kind::Trees => {
                        seen.compare(outcome).and_then(|()| compare(&translator, asked, outcome))
                    }
                };
                Some(format!("{asked}: {:#}", compared.err()?))
            })
            .collect();
        taken += outcomes.iter().filter(|outcome| outcome.route_identity().is_some()).count();
        if !differences.is_empty() {
            let manifests: Vec<_> = world.manifests.iter().map(ToString::to_string).collect();
            let parts = [differences.join("\n"), oracle.describe(), manifests.join("\n")];
            failures.push(format!("world {number}\n{}", parts.join("\n\n")));
        }
    }
    println!("{count} worlds, {taken} requests that a match takes {decided:?}");
    ensure!(taken > count * 10, "only {taken} requests were taken");
    let first = failures.first().map_or("", String::as_str);
    ensure!(failures.is_empty(), "{} of {count} worlds differ, the first of them:\n{first}", failures.len());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_delegation_envoy_and_explain_take_the_route_that_the_oracle_tells() -> Result<()> {
    agree(Kind::Plain, 60).await.context("plain worlds")
}

#[tokio::test(flavor = "multi_thread")]
async fn with_delegation_envoy_and_explain_take_the_route_that_the_oracle_tells() -> Result<()> {
    agree(Kind::Trees, 120).await.context("worlds with trees")
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_on_all_levels_do_and_are_explained_as_the_oracle_merges_them() -> Result<()> {
    agree(Kind::Policies, 24).await.context("worlds with policies")
}
