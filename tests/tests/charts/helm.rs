//! helm, run as a user runs it.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use portcullis_tests::api_server::{ApiServer, program};
use portcullis_tests::manifests;
use portcullis_tests::process::root;
use serde_json::Value;

/// What charts are rendered for where no cluster is asked.
const KUBERNETES: &str = "1.35.4";

/// The folder of a chart.
pub(crate) fn chart(name: &str) -> PathBuf {
    root().join("charts").join(name)
}

/// The folder of values files, and of what comes of them.
pub(crate) fn golden() -> PathBuf {
    root().join("tests/golden-charts")
}

/// What helm prints; an error is what it says.
pub(crate) fn helm<S: AsRef<str> + Debug>(arguments: &[S]) -> Result<String> {
    let home = tempfile::tempdir()?;
    let mut command = Command::new(program("helm")?);
    for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(folder, home.path());
    }
    // It ends before garbage is worth to collect.
    command.env("GOGC", "off");
    let output = command.args(arguments.iter().map(AsRef::as_ref)).env_remove("KUBECONFIG").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm {arguments:?}: {said}{}", String::from_utf8_lossy(&output.stdout));
    Ok(String::from_utf8(output.stdout)?)
}

/// What `helm template` prints, without a cluster: release `portcullis` in `portcullis-system`.
pub(crate) fn template(chart: &Path, arguments: &[&str]) -> Result<String> {
    let chart = chart.to_string_lossy();
    let mut all = vec!["template", "portcullis", &chart, "--namespace", "portcullis-system"];
    all.extend(["--kube-version", KUBERNETES]);
    all.extend(arguments);
    helm(&all)
}

/// The objects of a chart with a file of values.
pub(crate) fn objects(values: &str) -> Result<Vec<Value>> {
    let file = golden().join(format!("{values}.values.yaml"));
    manifests::parse(&template(&chart("portcullis"), &["--values", &file.to_string_lossy()])?)
}

/// Runs a command of helm on a real API server.
pub(crate) fn helm_on(server: &ApiServer, arguments: &[&str]) -> Result<String> {
    let kubeconfig = server.kubeconfig();
    let mut all = vec!["--kubeconfig", kubeconfig.to_str().context("a path in UTF-8")?];
    all.extend(arguments);
    helm(&all)
}
