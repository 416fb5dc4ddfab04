//! An object that makes the translation panic, with the real program and a real Envoy.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::Request;
use portcullis_tests::objects;
use portcullis_tests::portcullis::run as portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};

use crate::manifests::{self, HEALTHY, rule, rules};
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
    let traffic = Traffic::start(stage.http(), &Request::get(HEALTHY, "/"));

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

/// What is said at `path` of a route that fails as `at` says.
fn failing(path: &str, at: &str) -> String {
    let rules = rule(&format!("{{path: {{value: {path}}}}}"));
    let annotations = format!("test.portcullis.dev/fail-at: {at}");
    objects::Route { name: "guilty", hosts: HOST, rules: &rules, annotations: &annotations, ..Default::default() }
        .to_string()
}

/// Waits until so many objects are set aside.
async fn are_set_aside(stage: &Stage, count: f64) -> Result<()> {
    eventually(TIMEOUT, async || {
        let now = stage.portcullis.metric("portcullis_quarantined_objects").await?;
        ensure!(now == Some(count), "{now:?}");
        anyhow::Ok(())
    })
    .await
    .with_context(|| stage.portcullis.log_tail())
}

/// Waits until what is listed of a folder has these words.
async fn is_listed(state: &str, words: &str) -> Result<String> {
    eventually(TIMEOUT, async || {
        let listed = portcullis(&["records", "quarantine", "--state", state]).await?;
        ensure!(listed.contains(words), "{listed}");
        anyhow::Ok(listed)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_nothing_can_be_closed_of_is_set_aside_and_others_are_followed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state").to_string_lossy().into_owned();
    let mut stage = Stage::start_with(&["--state".to_owned(), state.clone()]).await?;
    let process = stage.portcullis.id();
    let traffic = Traffic::start(stage.http(), &Request::get(HEALTHY, "/"));
    stage.write(&guilty(&["/fine"])).await?;
    stage.answers(HOST, "/fine", 200).await?;

    // Its last version stays in force, and others are followed, who are written later.
    stage.write(&failing("/other", "settling")).await?;
    are_set_aside(&stage, 1.0).await?;
    stage.answers(HOST, "/fine", 200).await?;
    stage.answers(HOST, "/other", 404).await?;
    ensure!(process.is_some() && stage.portcullis.id() == process, "the process ended");
    let problems = stage.portcullis.admin("/debug/status").await?.body;
    ensure!(problems.contains("set aside, its last version stays in force: an internal error"), "{problems}");
    let statuses = stage.portcullis.snapshot().await?["statuses"].to_string();
    ensure!(statuses.contains("portcullis.dev/Quarantined") && !statuses.contains("told to panic"), "{statuses}");

    // A new process comes to the same.
    let listed = is_listed(&state, "HTTPRoute infra/guilty").await?;
    stage.portcullis.restart().await?;
    are_set_aside(&stage, 1.0).await?;
    stage.answers(HOST, "/fine", 200).await?;
    stage.answers(HOST, "/other", 404).await?;
    traffic.finish().await?;
    stage.others_are_unharmed().await?;

    // Who is asked for is shown, without what the object says.
    let id = listed.split_whitespace().next().context("an id")?;
    let shown = portcullis(&["records", "quarantine", "show", id, "--state", &state]).await?;
    ensure!(shown.contains("a panic outside of rows") && !shown.contains("/fine"), "{shown}");
    // It still fails when it is tried again.
    portcullis(&["records", "quarantine", "forget", id, "--state", &state]).await?;
    eventually(TIMEOUT, async || {
        let tried = stage.portcullis.log().matches("a panic outside of rows:").count();
        ensure!(tried == 1, "tried {tried} times since the process began");
        anyhow::Ok(())
    })
    .await?;
    is_listed(&state, "HTTPRoute infra/guilty").await?;

    stage.write(&guilty(&["/other"])).await?;
    stage.answers(HOST, "/other", 200).await?;
    are_set_aside(&stage, 0.0).await?;
    is_listed(&state, "over").await?;
    stage.others_are_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_which_the_process_dies_is_set_aside_when_it_starts_again() -> Result<()> {
    for (at, code) in [("abort", None), ("hang", Some(70))] {
        let folder = tempfile::tempdir()?;
        let state = folder.path().to_string_lossy().into_owned();
        // So long that no sound settling takes it, whatever else runs here.
        let arguments = ["--state", &state, "--settling-timeout", "8s"].map(str::to_owned);
        let mut stage = Stage::start_with(&arguments).await?;
        stage.portcullis.write("bad.yaml", &failing("/fine", at))?;
        ensure!(stage.portcullis.ended().await?.code() == code, "{}", stage.portcullis.log_tail());
        // All others first, and then it dies of this one again.
        stage.portcullis.relaunch().await?;
        ensure!(stage.portcullis.ended().await?.code() == code, "{}", stage.portcullis.log_tail());
        stage.portcullis.restart().await?;
        are_set_aside(&stage, 1.0).await?;
        is_listed(&state, "HTTPRoute infra/guilty").await?;
        stage.others_are_unharmed().await?;
        // It goes on to be, whatever became of the process.
        stage.portcullis.restart().await?;
        are_set_aside(&stage, 1.0).await?;
        stage.write(&guilty(&["/fine"])).await?;
        stage.answers(HOST, "/fine", 200).await?;
        are_set_aside(&stage, 0.0).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_to_blame_is_found_among_all_objects_of_a_process_that_dies_at_its_start() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().to_string_lossy().into_owned();
    let mut stage = Stage::start_with(&["--state".to_owned(), state.clone()]).await?;
    stage.portcullis.terminate().await?;
    let many: String = (0..300).map(|n| manifests::route(&format!("r{n}"), HOST, &format!("/{n}"))).collect();
    stage.portcullis.write("many.yaml", &many)?;
    stage.portcullis.write("bad.yaml", &failing("/fine", "abort"))?;
    // All of them, then 256 at a time, then each by itself.
    for _ in 0..3 {
        stage.portcullis.relaunch().await?;
        stage.portcullis.ended().await?;
    }
    stage.portcullis.restart().await?;
    are_set_aside(&stage, 1.0).await?;
    is_listed(&state, "HTTPRoute infra/guilty").await?;
    stage.answers(HOST, "/299", 200).await?;
    stage.others_are_unharmed().await
}
