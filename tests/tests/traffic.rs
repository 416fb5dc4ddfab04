//! Sends the requests of `tests/traffic` through a real Envoy that Portcullis controls: one test for every folder, and a second
//! one for those with providers, where what routes say alike is said once however few they are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Failed, Trial};
use portcullis_tests::topic;

fn main() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traffic");
    let base = folder.join("base.yaml");
    let mut topics: Vec<PathBuf> = std::fs::read_dir(&folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    topics.sort();
    let trials = topics
        .into_iter()
        .flat_map(|topic| {
            let name = topic.file_name().unwrap_or_default().to_string_lossy();
            let name = name.into_owned();
            let base = base.clone();
            // What this machine cannot run counts as ignored, never as passed.
            let obstacle = topic::obstacle(&base, &topic).unwrap_or_default();
            if let Some(reason) = &obstacle {
                eprintln!("{name} is ignored: {reason}");
            }
            let once = name.starts_with("policy-ext-").then(|| {
                let (base, topic) = (base.clone(), topic.clone());
                Trial::test(format!("{name}, said once"), move || play(&base, &topic, &ONCE))
            });
            let own = Trial::test(name, move || play(&base, &topic, &[]));
            [Some(own), once].into_iter().flatten().map(move |trial| trial.with_ignored_flag(obstacle.is_some()))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit()
}

/// Has said once what a single row says.
const ONCE: [&str; 2] = ["--policies-say-once-from", "1"];

fn play(base: &Path, folder: &Path, flags: &[&str]) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(topic::run(base, folder, flags)).map_err(|error| format!("{error:#}").into())
}
