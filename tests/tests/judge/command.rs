//! `check` and `translate` with `--strict-with`.

use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use portcullis_tests::process::{envoy_binary, portcullis_binary, root};
use serde_json::Value;

use crate::fake::Fake;

const WORLD: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: portcullis}
spec: {controllerName: portcullis.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: web}
spec:
  gatewayClassName: portcullis
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: v1
kind: Service
metadata: {name: app, namespace: web}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: app, namespace: web}
spec:
  parentRefs: [{name: edge}]
  rules:
  - matches: [{path: {value: /sound}}]
    backendRefs: [{name: app, port: 80}]
  - matches: [{path: {value: /a}}, {path: {value: /b}}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-told, value: does-wrong}]}
    backendRefs: [{name: app, port: 80}]
  - matches: [{path: {value: /matches-wrong}}]
    backendRefs: [{name: app, port: 80}]
";

/// An Envoy that refuses two things which are none of its business.
const PICKY: &str = "for word in ['does-wrong', 'matches-wrong']:\n    if word.encode() in data: refuse('there is \"%s\" in it\\nsource/common/x.cc:7' % word)\n";

fn portcullis(command: &str, envoy: &Path, files: &Path, more: &[&str]) -> Result<Output> {
    let mut portcullis = std::process::Command::new(portcullis_binary()?);
    Ok(portcullis.arg(command).arg("-f").arg(files).arg("--strict-with").arg(envoy).args(more).output()?)
}

fn world() -> Result<(tempfile::TempDir, Fake)> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("world.yaml"), WORLD)?;
    Ok((folder, Fake::new(PICKY)?))
}

#[test]
fn check_reports_what_envoy_refuses_at_its_rule_in_envoys_words() -> Result<()> {
    let (folder, envoy) = world()?;
    let output = portcullis("check", &envoy.path, folder.path(), &[])?;
    let report = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == Some(1), "{report}");
    for (line, field, severity, words) in [
        (26, "spec.rules[1].matches[0]", "replaced", "does-wrong"),
        (26, "spec.rules[1].matches[1]", "replaced", "does-wrong"),
        (31, "spec.rules[2].matches[0]", "refused", "matches-wrong"),
    ] {
        let expected = format!("HTTPRoute web/app: {severity}: {field}: ");
        let mut lines = report.lines().filter(|text| text.contains(&expected));
        let told = lines.next().with_context(|| format!("nothing of {expected}:\n{report}"))?;
        ensure!(lines.next().is_none(), "twice:\n{report}");
        ensure!(told.contains(&format!("world.yaml:{line}:")), "{told}");
        ensure!(told.contains(&format!("Envoy 1.40.0 refuses it: there is \"{words}\" in it; write")), "{told}");
    }
    ensure!(report.ends_with("1 refused, 2 replaced, 0 ignored, 0 warnings\n"), "{report}");
    Ok(())
}

#[test]
fn translate_prints_what_stands_in_place_of_what_envoy_refuses_and_all_else_as_before() -> Result<()> {
    let (folder, envoy) = world()?;
    let document = |output: Output| -> Result<Value> {
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let plain = std::process::Command::new(portcullis_binary()?)
        .args(["translate", "-o", "json", "-f"])
        .arg(folder.path())
        .output()?;
    let plain = document(plain)?;
    let strict = document(portcullis("translate", &envoy.path, folder.path(), &["-o", "json"])?)?;
    let rows = |document: &Value| -> Result<Vec<Value>> {
        let host = document.pointer("/gateways/0/routes/0/virtualHosts/0/routes").context("no routes")?;
        Ok(host.as_array().context("no list")?.clone())
    };
    let named = |rows: &[Value], name: &str| rows.iter().find(|row| row["name"] == name).cloned();
    let (before, after) = (rows(&plain)?, rows(&strict)?);
    ensure!(named(&before, "web/app/0/0") == named(&after, "web/app/0/0"), "a sibling moved");
    for name in ["web/app/1/0", "web/app/1/1"] {
        let (before, after) =
            (named(&before, name).context("it is there")?, named(&after, name).context("it is there")?);
        ensure!(before["match"] == after["match"] && after["directResponse"]["status"] == 500, "{after}");
    }
    ensure!(named(&after, "web/app/2/0").is_none() && named(&before, "web/app/2/0").is_some());
    ensure!(plain["gateways"][0]["clusters"] == strict["gateways"][0]["clusters"]);
    let statuses = strict["statuses"].as_array().context("statuses")?;
    let status = statuses.iter().find(|entry| entry["kind"] == "HTTPRoute").context("a status")?.to_string();
    ensure!(status.contains("PartiallyInvalid") && status.contains("does-wrong"), "{status}");
    Ok(())
}

#[test]
fn words_are_withheld_where_they_might_quote_a_credential() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("world.yaml"), WORLD)?;
    std::fs::write(
        folder.path().join("policy.yaml"),
        "apiVersion: v1\nkind: Secret\nmetadata: {name: users, namespace: web}\nstringData: {.htpasswd: \"ann:{SHA}2kuSN7rMzfGcB2DKt67EqDWQELA=\"}\n\
         ---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: users, namespace: web}\n\
         spec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: app}]\n  basicAuth: {secretRef: {name: users}}\n",
    )?;
    let envoy = Fake::new("at = data.find(b'ann:{SHA}')\nif at >= 0: refuse(data[at:at + 40].decode('latin-1'))\n")?;
    let output = portcullis("check", &envoy.path, folder.path(), &[])?;
    let report = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == Some(1) && report.contains("its words are withheld"), "{report}");
    ensure!(!report.contains("2kuSN7rMzfGcB2DKt67EqDWQELA"), "{report}");
    Ok(())
}

#[test]
fn an_envoy_that_cannot_be_run_fails_the_command_and_one_that_takes_nothing_is_told() -> Result<()> {
    let (folder, _) = world()?;
    let output = portcullis("check", Path::new("/no/such/envoy"), folder.path(), &[])?;
    let error = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(2) && error.contains("/no/such/envoy"), "{error}");
    let output = portcullis("check", &Fake::new("sys.exit(7)")?.path, folder.path(), &[])?;
    let report = String::from_utf8(output.stdout)?;
    ensure!(output.status.code() == Some(1) && report.contains("nobody knows whether Envoy takes"), "{report}");
    Ok(())
}

#[test]
fn translate_prints_nothing_that_was_not_judged() -> Result<()> {
    let (folder, _) = world()?;
    let output = portcullis("translate", &Fake::new("sys.exit(7)")?.path, folder.path(), &[])?;
    let error = String::from_utf8(output.stderr)?;
    ensure!(!output.status.success() && output.stdout.is_empty() && error.contains("were not judged"), "{error}");
    Ok(())
}

#[test]
fn a_crash_closes_a_match_and_never_lets_its_requests_through() -> Result<()> {
    let (folder, _) = world()?;
    // Also what answers 500 in its place.
    let fake = Fake::new("if b'/matches-wrong' in data: os.kill(os.getpid(), signal.SIGSEGV)\n")?;
    let output = portcullis("translate", &fake.path, folder.path(), &["-o", "json"])?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{errors}");
    let document: Value = serde_json::from_slice(&output.stdout)?;
    let rows = document.pointer("/gateways/0/routes/0/virtualHosts/0/routes").and_then(Value::as_array);
    let row = rows.context("no routes")?.iter().find(|row| row["name"] == "web/app/2/0").context("it is gone")?;
    ensure!(row["directResponse"]["status"] == 500, "{row}");
    ensure!(errors.contains("crashes when it reads it (signal 11)") && errors.contains("sent as it is"), "{errors}");
    Ok(())
}

#[test]
fn words_are_withheld_where_they_might_quote_another_namespace() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let parent = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: parent, namespace: web}\n\
        spec:\n  parentRefs: [{name: edge}]\n  rules:\n  - matches: [{path: {value: /child}}]\n    backendRefs: \
        [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: child, namespace: team}]\n---\n\
        apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: child, namespace: team}\n\
        spec:\n  rules:\n  - matches: [{path: {value: /child/it}}]\n    backendRefs: [{name: app, port: 80}]\n---\n\
        apiVersion: v1\nkind: Service\nmetadata: {name: app, namespace: team}\nspec: {ports: [{port: 80}]}\n---\n\
        apiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {name: of-parent, namespace: web}\n\
        spec:\n  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: parent}]\n  \
        headerModifiers: {request: {set: [{name: x-told, value: of-another}]}}\n";
    let world = WORLD.rsplit_once("---\n").context("documents")?.0;
    std::fs::write(folder.path().join("world.yaml"), format!("{world}---\n{parent}"))?;
    let envoy = Fake::new("if b'of-another' in data: refuse('it says of-another')\n")?;
    let output = portcullis("check", &envoy.path, folder.path(), &[])?;
    let report = String::from_utf8(output.stdout)?;
    ensure!(report.contains("HTTPRoute team/child: replaced") && report.contains("words are withheld"), "{report}");
    ensure!(!report.contains("of-another"), "{report}");
    Ok(())
}

/// What is checked in process is checked well enough: no golden case has anything that Envoy refuses.
#[test]
fn envoy_takes_everything_of_every_golden_case() -> Result<()> {
    let envoy = envoy_binary()?;
    let mut cases = Vec::new();
    for topic in std::fs::read_dir(root().join("tests/golden"))? {
        let topic = topic?.path();
        if topic.is_dir() {
            for case in std::fs::read_dir(topic)? {
                cases.push(case?.path().join("input.yaml"));
            }
        }
    }
    cases.retain(|case| case.is_file());
    ensure!(cases.len() > 20, "{} cases alone were found", cases.len());
    let next = AtomicUsize::new(0);
    let judge = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let output = portcullis("check", &envoy, case, &[])?;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(matches!(output.status.code(), Some(0 | 1)), "{}: {errors}", case.display());
            let report = String::from_utf8(output.stdout)?;
            let mut lines = report.lines();
            let said = lines.find(|line| line.contains("Envoy 1.40.0") || line.contains("nobody knows whether"));
            ensure!(said.is_none(), "{}: {}", case.display(), said.unwrap_or_default());
        }
        Ok(())
    };
    // Most of the time of each is an Envoy's start.
    std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(judge));
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
