//! Certificates of every kind on one port: each is served as it is, or refused alone and told.

#[path = "certificates/made.rs"]
mod made;

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Protocol, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::objects;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::{TIMEOUT, eventually};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};

use made::{Case, Fate, cases};

fn host(number: usize) -> String {
    format!("c{number}.example")
}

/// How many listeners a Gateway has here, of the 64 that it may have.
const AT_ONCE: usize = 40;

/// A Gateway with a listener for each certificate, which all share a port.
fn gateway(port: u16, cases: &[(usize, &Case)]) -> Vec<Value> {
    let mut listeners = Vec::new();
    let mut manifests = Vec::new();
    for &(number, case) in cases {
        let name = format!("c{number}");
        listeners.push(json!({
            "name": name, "port": port, "protocol": "HTTPS", "hostname": host(number),
            "tls": {"certificateRefs": [{"name": name}]},
        }));
        manifests.push(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"namespace": "infra", "name": name},
            "data": {"tls.crt": made::base64(&case.chain), "tls.key": made::base64(&case.key)},
        }));
    }
    manifests.push(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "portcullis"},
        "spec": {"controllerName": "portcullis.dev/gateway-controller"},
    }));
    manifests.push(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"namespace": "infra", "name": "gateway"},
        "spec": {"gatewayClassName": "portcullis", "listeners": listeners},
    }));
    manifests.push(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"namespace": "infra", "name": "all"},
        "spec": {"parentRefs": [{"name": "gateway"}], "rules": [{"backendRefs": [{"name": "backend", "port": 80}]}]},
    }));
    manifests
}

/// What the status of a listener says of a condition: its status and reason.
fn condition(snapshot: &Value, listener: &str, r#type: &str) -> Option<String> {
    let statuses = snapshot["statuses"].as_array()?;
    let gateway = statuses.iter().find(|status| status["kind"] == "Gateway")?;
    let listeners = gateway["status"]["listeners"].as_array()?;
    let conditions = listeners.iter().find(|status| status["name"] == listener)?["conditions"].as_array()?;
    let condition = conditions.iter().find(|condition| condition["type"] == r#type)?;
    Some(format!("{} {}", condition["status"].as_str()?, condition["reason"].as_str()?))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_certificate_is_served_as_it_is_or_refused_alone_and_told() -> Result<()> {
    let cases = cases()?;
    ensure!(cases.len() >= 50, "only {} certificates", cases.len());
    let backend = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let port = free_port()?;
    let backend = objects::service("backend", &backend);
    let file = |cases: &[(usize, &Case)]| -> Result<(String, String)> {
        Ok(("all.yaml".to_owned(), portcullis_tests::manifests::print(&gateway(port, cases))? + &backend))
    };
    let numbered: Vec<_> = cases.iter().enumerate().collect();
    let (first, _) = numbered.split_at(AT_ONCE);
    let mut portcullis = Portcullis::start(&[file(first)?]).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let mut wrong = Vec::new();
    for part in numbered.chunks(AT_ONCE) {
        let (name, content) = file(part)?;
        portcullis.write(&name, &content)?;
        let snapshot = eventually(TIMEOUT, async || {
            let snapshot = portcullis.snapshot().await?;
            let said = |number: usize| condition(&snapshot, &format!("c{number}"), "ResolvedRefs").is_some();
            ensure!(part.iter().all(|(number, _)| said(*number)), "the certificates are not read");
            anyhow::Ok(snapshot)
        })
        .await?;
        for &(number, case) in part {
            let judged = judge(&snapshot, number, case, port).await;
            wrong.extend(judged.with_context(|| case.name.clone()).err().map(|error| format!("{error:#}")));
        }
    }
    ensure!(wrong.is_empty(), "{} of {}:\n{}\n{}", wrong.len(), cases.len(), wrong.join("\n"), envoy.log_tail());
    let log = portcullis.log();
    for case in cases.iter().filter(|case| case.key.len() > 200) {
        // Nothing of a key is told, however broken it is.
        let key = String::from_utf8_lossy(&case.key).into_owned();
        let line = key.lines().filter(|line| !line.contains("-----")).max_by_key(|line| line.len()).unwrap_or_default();
        ensure!(line.is_empty() || !log.contains(line.trim()), "the log tells the key of {}", case.name);
    }
    portcullis.check()?;
    envoy.check().await
}

/// Fails unless a certificate has the fate that it shall have.
async fn judge(snapshot: &Value, number: usize, case: &Case, port: u16) -> Result<()> {
    let listener = format!("c{number}");
    let resolved = condition(snapshot, &listener, "ResolvedRefs").context("no condition ResolvedRefs")?;
    let tls = Tls::to(&host(number));
    let target = Target { address: ([127, 0, 0, 1], port).into(), protocol: Protocol::Http1, tls: Some(tls) };
    if case.fate == Fate::Refused {
        ensure!(resolved == "False InvalidCertificateRef", "it is told {resolved}");
        ensure!(Connection::open(&target).await.is_err(), "it is served");
        return Ok(());
    }
    ensure!(resolved.starts_with("True"), "it is told {resolved}");
    let leaf = CertificateDer::from_pem_slice(&case.chain)?;
    eventually(TIMEOUT, async || {
        let connection = Connection::open(&target).await?;
        ensure!(connection.certificate.as_deref() == Some(&*leaf), "another certificate is shown");
        Ok(())
    })
    .await
}

/// A Service for each certificate, whose backends the certificate vouches for, and a route to all of them.
fn backends(cases: &[Case], backend: &Echo, port: u16) -> Result<String> {
    let mut manifests = gateway(port, &[]);
    manifests.retain(|manifest| manifest["kind"] == "GatewayClass");
    manifests.push(json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"namespace": "infra", "name": "gateway"},
        "spec": {"gatewayClassName": "portcullis", "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}]},
    }));
    let mut services = String::new();
    for (number, case) in cases.iter().enumerate() {
        let name = format!("c{number}");
        services += &objects::service(&name, backend);
        manifests.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "infra", "name": name},
            "data": {"ca.crt": made::base64(&case.chain)},
        }));
        manifests.push(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy",
            "metadata": {"namespace": "infra", "name": name},
            "spec": {
                "targetRefs": [{"group": "", "kind": "Service", "name": name}],
                "validation": {"hostname": "b.example", "caCertificateRefs": [{"group": "", "kind": "Secret", "name": name}]},
            },
        }));
        let path = json!({"type": "PathPrefix", "value": format!("/{name}")});
        manifests.push(json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"namespace": "infra", "name": name},
            "spec": {
                "parentRefs": [{"name": "gateway"}],
                "rules": [{"matches": [{"path": path}], "backendRefs": [{"name": name, "port": 80}]}],
            },
        }));
    }
    Ok(portcullis_tests::manifests::print(&manifests)? + &services)
}

/// One that Envoy would not take would have it judge backends and clients by those that it had before.
#[tokio::test(flavor = "multi_thread")]
async fn authorities_of_every_kind_are_taken_by_envoy_or_refused_and_told() -> Result<()> {
    let cases = cases()?;
    let backend = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let all = backends(&cases, &backend, free_port()?)?;
    let mut portcullis = Portcullis::start(&[("all.yaml".to_owned(), all)]).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let snapshot = portcullis.snapshot().await?;
    let status = |number: usize| {
        let name = format!("c{number}");
        let of = |status: &&Value| status["kind"] == "BackendTLSPolicy" && status["metadata"]["name"] == name.as_str();
        let status = snapshot["statuses"].as_array()?.iter().find(of)?;
        let conditions = status["status"]["ancestors"][0]["conditions"].as_array()?;
        conditions.iter().find(|condition| condition["type"] == "Accepted")?["status"].as_str()
    };
    let said: Vec<_> = (0..cases.len()).map(status).collect();
    let (taken, refused) = (said.iter().filter(|it| **it == Some("True")).count(), said.iter().flatten().count());
    ensure!(taken > 20 && refused - taken > 10 && refused == cases.len(), "{said:?}\n{snapshot}");
    eventually(TIMEOUT, async || {
        let dump = envoy.admin("/config_dump?resource=dynamic_active_secrets").await?.body;
        for (number, case) in cases.iter().enumerate() {
            let has = dump.contains(&format!("\"authorities/infra/Secret/c{number}\""));
            ensure!(
                has == (said[number] == Some("True")),
                "Envoy has {}: {has}, and it is told {:?}",
                case.name,
                said[number]
            );
        }
        anyhow::Ok(())
    })
    .await
    .with_context(|| envoy.log_tail())?;
    portcullis.was_never_refused().await?;
    portcullis.check()?;
    envoy.check().await
}
