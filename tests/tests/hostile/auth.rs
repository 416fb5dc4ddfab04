//! Policies that read Secrets: connections that were open before, and where credentials could show.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Connection, Request};
use portcullis_tests::process::portcullis_binary;
use portcullis_tests::wait::{TIMEOUT, eventually};

use crate::manifests::{rule, rules};
use crate::stage::Stage;

/// A Secret with users (`alice`, whose password is `secret`), a key of a client, and a value of a header.
const SECRET: &str = "\
apiVersion: v1
kind: Secret
metadata: {namespace: infra, name: credentials}
stringData: {.htpasswd: \"alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\", client: key-that-nobody-sees, x-token: value-that-nobody-sees}
---
";

/// What no document may show.
const SECRETS: [&str; 4] =
    ["5en6G6MezRroT3XKqkdPOmY", "key-that-nobody-sees", "value-that-nobody-sees", "hash-that-nobody-sees"];

/// The same Secret without what no key can be.
fn keys() -> String {
    SECRET.replace("name: credentials", "name: keys")
}

fn route(name: &str) -> String {
    rules(name, &format!("{name}.example"), &rule("{path: {value: /}}"))
}

fn policy(name: &str, says: &str) -> String {
    format!(
        "---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{namespace: infra, name: {name}}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}]
  {says}
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_open_before_a_policy_came_is_guarded_by_it() -> Result<()> {
    let mut stage = Stage::start().await?;
    let basic = ("basicAuth: {secretRef: {name: credentials}}", ("authorization", "Basic YWxpY2U6c2VjcmV0"));
    let key = ("apiKeyAuth: {secretRef: {name: keys}}", ("api-key", "key-that-nobody-sees"));
    for (says, (name, value)) in [basic, key] {
        stage.write(&format!("{SECRET}{}{}", keys(), route("guarded"))).await?;
        stage.answers("guarded.example", "/", 200).await?;
        let mut before = Connection::open(stage.http()).await?;
        let plain = Request::get("guarded.example", "/");
        ensure!(before.send(&plain).await?.status == 200, "{says}");
        stage.write(&format!("{SECRET}{}{}{}", keys(), route("guarded"), policy("guarded", says))).await?;
        // New connections are guarded, so Envoy has the routes.
        stage.answers("guarded.example", "/", 401).await?;
        ensure!(before.send(&plain).await?.status == 401, "{says}: an old connection is let through");
        let shown = before.send(&plain.clone().header(name, value)).await?;
        ensure!(shown.status == 200, "{says}: {shown:?}");
        // A Secret that goes away closes it too.
        stage.write(&format!("{}{}", route("guarded"), policy("guarded", says))).await?;
        stage.answers("guarded.example", "/", 500).await?;
        let shown = before.send(&plain.header(name, value)).await?;
        ensure!(shown.status == 500, "{says}: {shown:?}");
        stage.is_unharmed().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_with_a_secret_value_comes_to_connections_that_were_open_before() -> Result<()> {
    let mut stage = Stage::start().await?;
    stage.write(&format!("{SECRET}{}", route("sent"))).await?;
    stage.answers("sent.example", "/", 200).await?;
    let mut before = Connection::open(stage.http()).await?;
    let says = "headerModifiers: {request: {set: [{name: x-token, secretRef: {name: credentials}}]}}";
    stage.write(&format!("{SECRET}{}{}", route("sent"), policy("sent", says))).await?;
    let request = Request::get("sent.example", "/");
    let sent = |response: client::Response| -> Result<()> {
        let token = response.echoed.context("no echo")?.headers.into_iter().find(|(name, _)| name == "x-token");
        let token = token.map(|(_, value)| value);
        ensure!(token.as_deref() == Some("value-that-nobody-sees"), "{token:?}");
        Ok(())
    };
    eventually(TIMEOUT, async || sent(client::send(stage.http(), &request).await?)).await?;
    sent(before.send(&request).await?)?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_document_and_no_log_shows_a_credential() -> Result<()> {
    let mut stage = Stage::start_with(&["--log-level".to_owned(), "debug".to_owned()]).await?;
    let all = [
        ("stored", "basicAuth: {secretRef: {name: credentials}}"),
        ("written", "basicAuth: {users: ['bob:{SHA}hash-that-nobody-sees-28-cha']}"),
        ("keys", "apiKeyAuth: {secretRef: {name: keys}}"),
        ("sent", "headerModifiers: {request: {set: [{name: x-token, secretRef: {name: credentials}}]}}"),
        ("broken", "apiKeyAuth: {secretRef: {name: twice}}"),
    ];
    let twice = "apiVersion: v1\nkind: Secret\nmetadata: {namespace: infra, name: twice}\n\
                 stringData: {a: key-that-nobody-sees, b: key-that-nobody-sees}\n---\n";
    let mut files = format!("{SECRET}{}{twice}", keys());
    for (name, says) in all {
        files.extend([route(name), policy(name, says), "---\n".to_owned()]);
    }
    stage.write(&files).await?;
    stage.answers("stored.example", "/", 401).await?;
    stage.answers("broken.example", "/", 500).await?;
    let mut documents = Vec::new();
    for page in ["/debug/snapshot", "/debug/status", "/debug/routes", "/debug/engine", "/metrics", "/readyz"] {
        documents.push((page.to_owned(), stage.portcullis.admin(page).await?.body));
    }
    let port = stage.http().address.port();
    for (name, _) in all {
        let page = format!("/debug/explain?gateway=infra/gateway&url=http://{name}.example:{port}/");
        documents.push((page.clone(), stage.portcullis.admin(&page).await?.body));
    }
    let sent = format!("http://sent.example:{port}/");
    let folder = stage.portcullis.files().to_owned();
    let gateway = ["--gateway", "infra/gateway"];
    let commands = [
        ("translate", vec!["-o", "json"]),
        ("translate", vec!["-o", "yaml"]),
        ("check", vec!["-o", "json"]),
        ("check", vec![]),
        ("tree", vec!["-o", "json"]),
        ("config-dump", gateway.to_vec()),
        ("explain", [&gateway[..], &[&sent]].concat()),
    ];
    for (command, arguments) in commands {
        let mut run = tokio::process::Command::new(portcullis_binary()?);
        let output = run.arg(command).args(&arguments).arg("-f").arg(&folder).output().await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        ensure!(text.contains("infra") && !text.contains("Usage"), "{command} {arguments:?}: {text}");
        documents.push((command.to_owned(), text));
    }
    documents.push(("log".to_owned(), stage.portcullis.log()));
    let shows = |name: &str, words: &str| documents.iter().any(|(of, text)| of.contains(name) && text.contains(words));
    ensure!(shows("/debug/snapshot", "[redacted]") && shows("translate", "[redacted]"), "nothing is redacted");
    ensure!(shows("/debug/snapshot", "client") && shows("sent.example", "x-token"), "nothing is shown: {documents:?}");
    for (name, text) in &documents {
        for secret in SECRETS {
            ensure!(!text.contains(secret), "{name} shows {secret}: {text}");
        }
    }
    stage.is_unharmed().await
}
