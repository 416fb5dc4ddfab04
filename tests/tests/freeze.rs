//! Trees of routes that keep their last good version, with a real Envoy: what waits, what goes at once, and what outlives the
//! process.

#[path = "freeze/chaos.rs"]
mod chaos;
#[path = "bad_input/manifests.rs"]
#[allow(dead_code, reason = "the tests of bad input use all of them")]
mod manifests;
#[path = "bad_input/stage.rs"]
#[allow(dead_code, reason = "the tests of bad input use all of it")]
mod stage;
#[path = "freeze/strict.rs"]
mod strict;
#[path = "freeze/wide.rs"]
mod wide;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use portcullis_tests::{
    portcullis::run,
    process::envoy_binary,
    wait::{TIMEOUT, eventually},
};
use stage::Stage;

const HOST: &str = "tree.example";
const GROUP: &str = "gateway.networking.k8s.io";

/// A folder for settings and for what outlives the process.
struct Place {
    folder: tempfile::TempDir,
    /// Further arguments of Portcullis.
    more: Vec<String>,
}

impl Place {
    fn new() -> Result<Self> {
        let place = Self { folder: tempfile::tempdir()?, more: Vec::new() };
        place.set(true)?;
        Ok(place)
    }

    /// The same where an Envoy is asked before anything is sent.
    fn strict() -> Result<Self> {
        let more = vec!["--strict-with".to_owned(), envoy_binary()?.to_string_lossy().into_owned()];
        Ok(Self { more, ..Self::new()? })
    }

    fn settings(&self) -> PathBuf {
        self.folder.path().join("settings.yaml")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Whether trees are kept, from the next start on.
    fn set(&self, is_enabled: bool) -> Result<()> {
        Ok(std::fs::write(self.settings(), format!("freeze: {{enabled: {is_enabled}}}\n"))?)
    }

    fn arguments(&self) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let own = ["--config".to_owned(), text(&self.settings()), "--state".to_owned(), text(&self.state())];
        own.into_iter().chain(self.more.iter().cloned()).collect()
    }

    fn heads(&self) -> usize {
        let is_head = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("edition-");
        let files = std::fs::read_dir(self.state().join("edition")).into_iter().flatten().flatten();
        files.filter(|file| is_head(&file.file_name())).count()
    }
}

fn route(name: &str, more: &str, rules: &str) -> String {
    format!(
        "---\napiVersion: {GROUP}/v1\nkind: HTTPRoute\nmetadata: {{namespace: infra, name: {name}}}\nspec:\n{more}  rules:\n{rules}"
    )
}

fn root() -> String {
    let to = |path: &str, name: &str| {
        format!(
            "  - matches: [{{path: {{value: {path}}}}}]\n    backendRefs: [{{group: {GROUP}, kind: HTTPRoute, name: {name}}}]\n"
        )
    };
    let attached = format!("  parentRefs: [{{name: gateway, sectionName: http}}]\n  hostnames: [{HOST}]\n");
    route("root", &attached, &(to("/one", "one") + &to("/two", "two")))
}

fn child(name: &str, path: &str, backend: &str) -> String {
    let rule =
        format!("  - matches: [{{path: {{value: {path}}}}}]\n    backendRefs: [{{name: {backend}, port: 80}}]\n");
    route(name, "", &rule)
}

fn policy(more: &str) -> String {
    format!(
        "---\napiVersion: gateway.portcullis.dev/v1alpha1\nkind: DelegationPolicy\nmetadata: {{namespace: infra, name: freezing}}\n\
         spec:\n  targetRefs: [{{group: {GROUP}, kind: HTTPRoute, name: root}}]\n{more}"
    )
}

/// A policy on a route.
fn traffic_policy(route: &str) -> String {
    format!(
        "---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{namespace: infra, name: more}}\n\
         spec: {{targetRefs: [{{group: {GROUP}, kind: HTTPRoute, name: {route}}}], timeouts: {{request: 7s}}}}\n"
    )
}

const FREEZE: &str = "  failureMode: FreezeConfig\n";

fn tree(one: &str, two: &str) -> String {
    root() + one + two + &policy(FREEZE)
}

fn one() -> String {
    child("one", "/one", "backend")
}

fn two() -> String {
    child("two", "/two", "backend")
}

fn broken() -> String {
    child("one", "/one", "nobody")
}

/// Waits until the owner of the root is told this.
async fn told(stage: &Stage, words: &str) -> Result<()> {
    eventually(TIMEOUT, async || {
        let statuses = stage.portcullis.snapshot().await?["statuses"].to_string();
        let (_, frozen) = statuses.split_once("portcullis.dev/Frozen").unwrap_or_default();
        ensure!(
            statuses.contains("portcullis.dev/Frozen") && statuses.contains(words),
            "{words} is not told: {frozen:.400}"
        );
        anyhow::Ok(())
    })
    .await
    .with_context(|| stage.portcullis.log_tail())
}

/// Whether the status of an object of a kind says that its change waits.
async fn withheld(stage: &Stage, kind: &str) -> Result<bool> {
    let snapshot = stage.portcullis.snapshot().await?;
    let statuses = snapshot["statuses"].as_array().context("no statuses")?;
    let mut of_kind = statuses.iter().filter(|status| status["kind"] == kind);
    Ok(of_kind.any(|status| status.to_string().contains("ChangeWithheld")))
}

/// A tree that is kept.
async fn kept(place: &Place) -> Result<Stage> {
    let mut stage = Stage::start_with(&place.arguments()).await?;
    stage.write(&tree(&one(), &two())).await?;
    stage.answers(HOST, "/one", 200).await?;
    told(&stage, "\"Committed\"").await?;
    Ok(stage)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_breaks_is_served_as_it_was_across_a_crash_until_it_is_mended() -> Result<()> {
    let place = Place::new()?;
    let mut stage = kept(&place).await?;
    // The change of a route that is sound, and the policy that comes with it, wait too.
    let changed = || child("two", "/two/more", "backend") + &traffic_policy("two");
    stage.write(&tree(&broken(), &changed())).await?;
    told(&stage, "\"TreeBroken\"").await?;
    for (kind, waits) in [("TrafficPolicy", true), ("HTTPRoute", true), ("DelegationPolicy", false)] {
        ensure!(withheld(&stage, kind).await? == waits, "{kind}");
    }
    for (path, status) in [("/one", 200), ("/two", 200), ("/three", 404)] {
        stage.answers(HOST, path, status).await?;
    }
    stage.portcullis.crash().await?;
    stage.portcullis.wait_until_ready().await?;
    told(&stage, "\"TreeBroken\"").await?;
    for path in ["/one", "/two"] {
        stage.answers(HOST, path, 200).await?;
    }
    let (files, state) = (stage.portcullis.files().to_string_lossy().into_owned(), place.state());
    let now = run(&["tree", "-f", &files]).await?;
    ensure!(now.contains("/two/more") && now.contains("nobody"), "{now}");
    let kept = run(&["tree", "-f", &files, "--edition", "infra/root", "--state", &state.to_string_lossy()]).await?;
    ensure!(kept.contains("infra/two") && !kept.contains("/two/more") && !kept.contains("nobody"), "{kept}");
    stage.write(&tree(&one(), &changed())).await?;
    stage.answers(HOST, "/two", 404).await?;
    stage.answers(HOST, "/two/more", 200).await?;
    stage.answers(HOST, "/one", 200).await?;
    told(&stage, "\"Committed\"").await?;
    ensure!(!withheld(&stage, "TrafficPolicy").await?, "it is served");
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_goes_at_once_though_the_tree_is_broken() -> Result<()> {
    let place = Place::new()?;
    let mut stage = kept(&place).await?;
    // The tree is broken all the time: nothing of it is committed.
    let nobody = child("two", "/two", "nobody");
    stage.write(&tree(&one(), &nobody)).await?;
    told(&stage, "\"TreeBroken\"").await?;
    let all = |one: &str, policy: &str| root() + one + &nobody + policy;
    let consent = |parent: &str| {
        let parents = format!("  parentRefs: [{{group: {GROUP}, kind: HTTPRoute, name: {parent}}}]\n");
        let rule = "  - matches: [{path: {value: /one}}]\n    backendRefs: [{name: backend, port: 80}]\n";
        route("one", &parents, rule)
    };
    for (words, one_is, policy_is, one_answers, two_answers) in [
        ("deleted", String::new(), policy(FREEZE), 500, 200),
        ("of another parent", consent("another"), policy(FREEZE), 500, 200),
        ("of this parent", consent("root"), policy(FREEZE), 200, 200),
        ("guarded", one(), policy(&format!("{FREEZE}  requireAuth: true\n")), 500, 500),
        ("free again", one(), policy(FREEZE), 200, 200),
        (
            "not allowed",
            one(),
            policy(&format!("{FREEZE}  allowedChildren: {{backends: [{{kind: Service, name: other}}]}}\n")),
            500,
            500,
        ),
        ("free once more", one(), policy(FREEZE), 200, 200),
        ("refused, which ends nothing", one(), policy(&format!("{FREEZE}  sortMethod: Tomorrow\n")), 200, 200),
    ] {
        stage.write(&all(&one_is, &policy_is)).await?;
        stage.answers(HOST, "/one", one_answers).await.context(words)?;
        stage.answers(HOST, "/two", two_answers).await.context(words)?;
    }
    // The root gives a hostname up, then its Gateway.
    let elsewhere = all(&one(), &policy(FREEZE)).replace(HOST, "elsewhere.example");
    stage.write(&elsewhere).await?;
    stage.answers(HOST, "/one", 404).await?;
    stage.answers("elsewhere.example", "/one", 404).await?;
    stage.write(&all(&one(), &policy(FREEZE))).await?;
    stage.answers(HOST, "/one", 200).await?;
    stage.write(&all(&one(), &policy(FREEZE)).replace("sectionName: http", "sectionName: none")).await?;
    stage.answers(HOST, "/one", 404).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_kept_any_more_never_comes_back() -> Result<()> {
    let place = Place::new()?;
    let mut stage = kept(&place).await?;
    stage.write(&tree(&broken(), &two())).await?;
    told(&stage, "\"TreeBroken\"").await?;
    stage.answers(HOST, "/one", 200).await?;
    // Nobody sees to it that the edition stays what it was.
    place.set(false)?;
    stage.portcullis.restart().await?;
    stage.answers(HOST, "/one", 500).await?;
    ensure!(place.heads() == 0, "what was kept is there still");
    place.set(true)?;
    stage.portcullis.restart().await?;
    told(&stage, "\"NoEdition\"").await?;
    stage.answers(HOST, "/one", 500).await?;
    stage.answers(HOST, "/two", 200).await?;
    // The same where a policy says so, while the process runs or not.
    stage.write(&tree(&one(), &two())).await?;
    told(&stage, "\"Committed\"").await?;
    stage.write(&(root() + &broken() + &two() + &policy(""))).await?;
    stage.answers(HOST, "/one", 500).await?;
    eventually(TIMEOUT, async || {
        ensure!(place.heads() == 0, "what was kept is there still");
        anyhow::Ok(())
    })
    .await?;
    stage.write(&tree(&broken(), &two())).await?;
    told(&stage, "\"NoEdition\"").await?;
    stage.answers(HOST, "/one", 500).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_later_release_keeps_stays_and_what_is_damaged_goes() -> Result<()> {
    let place = Place::new()?;
    let mut stage = kept(&place).await?;
    let record = |name: &str| place.state().join("edition").join(format!("edition-{name}.json"));
    let (later, damaged) = (record("0123456789abcdef0123"), record("3210fedcba9876543210"));
    // Of a root of a kind that this release does not know.
    std::fs::write(&later, r#"{"format":4,"kind":"edition"}"#)?;
    for is_started_anew in [false, true] {
        if is_started_anew {
            stage.portcullis.restart().await?;
            told(&stage, "\"Committed\"").await?;
        }
        std::fs::write(&damaged, "{")?;
        let goes = eventually(TIMEOUT, async || {
            ensure!(!damaged.exists(), "it is there");
            anyhow::Ok(())
        });
        goes.await.with_context(|| stage.portcullis.log_tail())?;
        ensure!(later.exists(), "it went too");
    }
    stage.is_unharmed().await
}
