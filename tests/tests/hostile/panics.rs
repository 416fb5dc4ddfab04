//! An object that makes the translation panic, with the real program and a real Envoy.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::Request;
use portcullis_tests::wait::{TIMEOUT, eventually};

use crate::manifests::{HEALTHY, rule, rules};
use crate::stage::Stage;
use crate::traffic::Traffic;

/// The second rule of the route that is written below: programs with debug assertions can be told that it panics.
const ROW: &str = "ResolvedRule((infra/guilty, 1))";

const HOST: &str = "guilty.example";

fn guilty(matches: &[&str]) -> String {
    let matches = matches.iter().map(|path| rule(&format!("{{path: {{value: {path}}}}}")));
    rules("guilty", HOST, &matches.collect::<String>())
}

/// Waits until these many rows are panicking, and so many panics were counted in all.
async fn counts(stage: &Stage, now: f64, ever: f64) -> Result<()> {
    eventually(TIMEOUT, async || {
        let metric = async |name: &str| anyhow::Ok(stage.portcullis.metric(name).await?.unwrap_or_default());
        let counted = (metric("portcullis_poisoned_rows").await?, metric("portcullis_internal_faults_total").await?);
        ensure!(counted == (now, ever), "{counted:?}");
        anyhow::Ok(())
    })
    .await
    .with_context(|| stage.portcullis.log_tail())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_makes_the_translation_panic_answers_500_and_costs_nobody_else_a_request() -> Result<()> {
    let row = ROW.replacen('(', ":", 1);
    let row = row.strip_suffix(')').context("a row")?;
    let mut stage = Stage::start_with(&["--fail-at".to_owned(), row.to_owned()]).await?;
    let process = stage.portcullis.id();
    let traffic = Traffic::start(stage.http(), Request::get(HEALTHY, "/"));

    stage.write(&guilty(&["/fine", "/broken"])).await?;
    stage.answers(HOST, "/broken/a", 500).await?;
    stage.answers(HOST, "/fine", 200).await?;
    counts(&stage, 1.0, 1.0).await?;
    let log = stage.portcullis.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("a row panicked at")).collect();
    let [told] = told[..] else { anyhow::bail!("told {} times: {told:#?}", told.len()) };
    ensure!(told.contains(ROW) && told.contains("crates/engine/src/"), "neither row nor place: {told}");
    // The owner is told whose fault it is, and nothing of what the panic said.
    let problems = stage.portcullis.admin("/debug/status").await?.body;
    let statuses = stage.portcullis.snapshot().await?["statuses"].to_string();
    ensure!(problems.contains("spec.rules[1]: an internal error") && problems.contains("InternalFault"), "{problems}");
    ensure!(!(problems + &statuses).contains("told to panic"), "{statuses}");
    let answer = portcullis_tests::client::send(stage.http(), &Request::get(HOST, "/broken")).await?;
    ensure!(answer.status == 500 && !answer.body.contains("panic"), "{}", answer.body);
    stage.others_are_unharmed().await?;

    // Other objects change meanwhile, and a new process comes to the same.
    stage.write(&guilty(&["/fine-still", "/broken"])).await?;
    stage.answers(HOST, "/fine-still", 200).await?;
    stage.answers(HOST, "/broken/a", 500).await?;
    ensure!(process.is_some() && stage.portcullis.id() == process, "the process ended");
    stage.portcullis.restart().await?;
    counts(&stage, 1.0, 1.0).await?;
    stage.answers(HOST, "/broken/a", 500).await?;
    stage.others_are_unharmed().await?;

    // The object is changed, and no row of it panics.
    stage.write(&rules("guilty", HOST, &rule("{path: {value: /fine}}, {path: {value: /broken}}"))).await?;
    stage.answers(HOST, "/broken/a", 200).await?;
    counts(&stage, 0.0, 1.0).await?;
    traffic.finish().await?;
    stage.others_are_unharmed().await
}
