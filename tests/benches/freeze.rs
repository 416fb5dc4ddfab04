//! What it costs that a tree of routes keeps its last good version: one route of 10,000 changes.
//!
//! `PORTCULLIS_BIN=target/release/portcullis cargo bench -p portcullis-tests --bench freeze` runs it on files, with the tree kept and
//! not, and prints the time from the file written until the last byte of the routes is at a client, the CPU time of a change,
//! what the store is written of it, and what the process has in memory. What is kept is in memory (`/dev/shm`) where there is
//! such a place, so that no disk is measured.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]
#![allow(clippy::cast_precision_loss, reason = "figures of four digits")]

#[path = "ads/client.rs"]
mod client;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Context, Result, ensure};
use client::Client;
use portcullis_tests::{
    objects,
    portcullis::Portcullis,
    process::{cpu, memory},
    wait::eventually,
};

const ROUTES: usize = 10_000;
const CHANGES: usize = 100;
/// How long anything may take.
const TIMEOUT: Duration = Duration::from_mins(2);
const GROUP: &str = "gateway.networking.k8s.io";

/// What was measured.
struct Figures {
    /// From the file written until the routes were there, sorted, in milliseconds.
    times: Vec<f64>,
    /// Milliseconds of a change.
    cpu: f64,
    /// Bytes that the store was written, of a change.
    written: u64,
    resident: u64,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    println!(
        "{:<10} {:>10} {:>11} {:>10} {:>10} {:>10}",
        "one change", "median", "99 of 100", "CPU", "written", "resident"
    );
    let mut all = Vec::new();
    for is_kept in [false, true] {
        let figures = measure(is_kept).await?;
        let Figures { times, cpu, written, resident } = &figures;
        let [median, most] = [times[CHANGES / 2], times[CHANGES * 99 / 100]];
        let name = if is_kept { "kept" } else { "not kept" };
        let resident = resident >> 20;
        println!("{name:<10} {median:>7.1} ms {most:>8.1} ms {cpu:>7.1} ms {written:>8} B {resident:>6} MiB");
        all.push(figures);
    }
    let [plain, kept] = &all[..] else { unreachable!("two were measured") };
    println!(
        "kept: {:+.1} ms, {:+.1} ms CPU, {:.2} times as much in memory",
        kept.times[CHANGES / 2] - plain.times[CHANGES / 2],
        kept.cpu - plain.cpu,
        kept.resident as f64 / plain.resident as f64
    );
    Ok(())
}

async fn measure(is_kept: bool) -> Result<Figures> {
    let shared = Path::new("/dev/shm");
    let state = if shared.is_dir() { tempfile::tempdir_in(shared)? } else { tempfile::tempdir()? };
    let child = |number: usize, more: &str| {
        let rule = format!(
            "  - matches: [{{path: {{value: /a/{number}{more}}}}}]\n    backendRefs: [{{name: s, port: 80}}]\n"
        );
        route(&format!("child-{number}"), "", &rule)
    };
    let mut base = objects::gateway(&["{name: http, port: 80, protocol: HTTP}".to_owned()]);
    base += "---\napiVersion: v1\nkind: Service\nmetadata: {namespace: infra, name: s}\nspec: {ports: [{port: 80}]}\n";
    let rule = format!(
        "  - matches: [{{path: {{value: /a}}}}]\n    backendRefs: [{{group: {GROUP}, kind: HTTPRoute, name: \"*\"}}]\n"
    );
    base += &route("root", "  parentRefs: [{name: gateway}]\n  hostnames: [tree.example]\n", &rule);
    let _ = write!(
        base,
        "---\napiVersion: gateway.portcullis.dev/v1alpha1\nkind: DelegationPolicy\nmetadata: {{namespace: infra, name: keeps}}\n\
         spec: {{targetRefs: [{{group: {GROUP}, kind: HTTPRoute, name: root}}], failureMode: FreezeConfig}}\n"
    );
    for number in 1..ROUTES {
        base += &child(number, "");
    }
    let files = [("base.yaml".to_owned(), base), ("one.yaml".to_owned(), child(0, ""))];
    let enabled = is_kept.to_string();
    let arguments = ["--freeze-enabled", &enabled, "--state", &state.path().to_string_lossy()].map(str::to_owned);
    let mut portcullis = Portcullis::launch_with(&files, &arguments)?;
    portcullis.wait_until_ready().await?;
    if is_kept {
        eventually(TIMEOUT, async || {
            let metrics = portcullis.admin("/metrics").await?.body;
            let is_stored =
                metrics.lines().any(|line| line.starts_with("portcullis_edition_bytes ") && !line.ends_with(" 0"));
            ensure!(is_stored, "nothing is kept yet");
            anyhow::Ok(())
        })
        .await?;
    }
    let mut client = Client::connect(&portcullis, "http/80").await?;
    client.until("/a/0").await?;
    let id = portcullis.id().context("it runs")?;
    let (mut times, mut written) = (Vec::new(), 0);
    let mut before = files_in(state.path());
    let used = cpu(id)?;
    for change in 1..=CHANGES {
        let marker = format!("/changed-{change}-");
        let began = Instant::now();
        portcullis.write("one.yaml", &child(0, &marker))?;
        client.until(&marker).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        let now = files_in(state.path());
        written +=
            now.iter().filter(|(name, file)| before.get(*name) != Some(file)).map(|(_, (_, size))| size).sum::<u64>();
        before = now;
    }
    let cpu = cpu(id)?.saturating_sub(used).as_secs_f64() * 1e3 / CHANGES as f64;
    times.sort_by(f64::total_cmp);
    portcullis.check()?;
    Ok(Figures { times, cpu, written: written / CHANGES as u64, resident: memory(id)?.resident })
}

fn route(name: &str, more: &str, rules: &str) -> String {
    format!(
        "---\napiVersion: {GROUP}/v1\nkind: HTTPRoute\nmetadata: {{namespace: infra, name: {name}}}\nspec:\n{more}  rules:\n{rules}"
    )
}

/// The files below a folder, with when they were written and their size.
fn files_in(folder: &Path) -> BTreeMap<String, (SystemTime, u64)> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            files.extend(files_in(&entry.path()));
        } else if let Ok(modified) = metadata.modified() {
            files.insert(entry.path().to_string_lossy().into_owned(), (modified, metadata.len()));
        }
    }
    files
}
