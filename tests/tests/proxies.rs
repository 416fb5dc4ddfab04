//! What is rendered for a Gateway's proxies, run by a real Envoy.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use ir::NsName;
use portcullis_tests::{
    client::{Connection, Protocol, Request, Target},
    envoy::Envoy,
    ports::free_port,
    process::envoy_binary,
    wait::{TIMEOUT, eventually},
};
use serde_json::{Value, json};
use tokio::process::Command;

fn plan(parameters: &Value) -> Result<deploy::Plan> {
    Ok(deploy::Plan {
        gateway: NsName::new("shop", "web"),
        // No other test may have the sockets that are called by it.
        uid: format!("{}-{}", std::process::id(), free_port()?).into(),
        class: "portcullis".into(),
        ports: Vec::new(),
        labels: Vec::new(),
        annotations: Vec::new(),
        addresses: Vec::new(),
        parameters: deploy::Parameters::read(None, Some(parameters), ir::settings::Trust::default())?,
        bootstrap: "{}".into(),
        files: Vec::new(),
        trust_bundle: None,
    })
}

/// The container of Envoy, with its configuration in a folder.
fn render(plan: &deploy::Plan, settings: &deploy::Settings, folder: &Path) -> Result<Value> {
    let manifests = deploy::render(plan, settings)?;
    let of = |kind: &str| manifests.iter().find(|manifest| manifest.kind == kind).context("not rendered");
    for (file, text) in of("ConfigMap")?.object["data"].as_object().context("no data")? {
        std::fs::write(folder.join(file), text.as_str().context("no text")?)?;
    }
    Ok(of("Deployment")?.object["spec"]["template"]["spec"]["containers"][0].clone())
}

/// A command line as the container has it, with the folder of its configuration.
fn words(words: &Value, folder: &Path) -> Vec<String> {
    let words = words.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.map(|word| word.replace(deploy::CONFIG_FOLDER, &folder.to_string_lossy())).collect()
}

fn answering(port: u16) -> Value {
    let routes =
        json!([{"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "ok"}}}]);
    let hcm = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [{"name": "router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
        }}],
    });
    json!({"static_resources": {"listeners": [{
        "name": "http",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "http", "typed_config": hcm}]}],
    }]}})
}

#[tokio::test]
async fn the_hook_that_ends_a_proxy_fails_its_readiness_and_ends_connections_with_their_next_response() -> Result<()> {
    let port = free_port()?;
    let mut envoy = Envoy::start(&answering(port)).await?;
    let folder = tempfile::tempdir()?;
    let settings = deploy::Settings { admin: envoy.admin_address(), ..deploy::Settings::default() };
    let plan = plan(&json!({"kube": {"podTemplate": {"gracefulShutdown": {"sleepTimeSeconds": 5}}}}))?;
    let container = render(&plan, &settings, folder.path())?;

    let target = Target::local(port);
    let both = Target { protocol: Protocol::H2, ..target.clone() };
    let request = Request::get("localhost", "/");
    let mut one = Connection::open(&target).await?;
    let mut two = Connection::open(&both).await?;
    for connection in [&mut one, &mut two] {
        let response = connection.send(&request).await?;
        ensure!(response.status == 200 && response.header("connection").is_none(), "{response:?}");
    }

    let hook = words(&container["lifecycle"]["preStop"]["exec"]["command"], folder.path());
    ensure!(hook[0] == "envoy", "{hook:?}");
    let mut hook = Command::new(envoy_binary()?)
        .args(&hook[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    eventually(TIMEOUT, async || {
        let ready = envoy.admin("/ready").await?;
        ensure!(ready.status == 503, "{ready:?}");
        Ok::<_, anyhow::Error>(())
    })
    .await?;

    // What is open is answered and ends.
    let response = one.send(&request).await?;
    ensure!(response.status == 200 && response.header("connection").as_deref() == Some("close"), "{response:?}");
    let goes = async {
        while two.is_open() {
            // The word that it ends may come while a request waits to be sent, which then is not.
            if let Ok(response) = two.send(&request).await {
                ensure!(response.status == 200, "{response:?}");
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    };
    tokio::time::timeout(TIMEOUT, goes).await.context("HTTP/2 goes on")??;
    // Who does not know yet that the proxy goes is served.
    let response = Connection::open(&target).await?.send(&request).await?;
    ensure!(response.status == 200, "{response:?}");

    let ended = tokio::time::timeout(TIMEOUT, hook.wait()).await.context("the hook does not end")??;
    ensure!(ended.success(), "{ended}");
    envoy.check().await
}

#[tokio::test]
async fn envoy_takes_its_arguments_and_what_parameters_add_to_the_bootstrap() -> Result<()> {
    let parameters = |format: Value| {
        json!({"kube": {
            "envoyContainer": {
                "bootstrap": {
                    "logLevel": "info",
                    "componentLogLevels": {"upstream": "debug", "http2": "trace"},
                    "dnsResolver": {"udpMaxQueries": 7},
                    "logFormat": format,
                },
                "extraArgs": ["--concurrency", "2"],
            },
            "stats": {"matcher": {"inclusionList": [
                {"prefix": "a", "ignoreCase": true}, {"suffix": "b"}, {"contains": "c"}, {"exact": "d"},
            ]}},
        }})
    };
    for format in [json!({"text": "%v"}), json!({"json": {"level": "%l", "message": "%j"}})] {
        let folder = tempfile::tempdir()?;
        let plan = plan(&parameters(format))?;
        let container = render(&plan, &deploy::Settings::default(), folder.path())?;
        let arguments = words(&container["args"], folder.path());
        let command = Command::new(envoy_binary()?).args(arguments).args(["--mode", "validate"]).output();
        let output = command.await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let drain = folder.path().join(deploy::DRAIN_FILE);
        let command =
            Command::new(envoy_binary()?).arg("--config-path").arg(drain).args(["--mode", "validate"]).output();
        let output = command.await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
