//! A permission that is withdrawn while everybody uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Request, Target};
use portcullis_tests::echo::Echo;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::estate::{Estate, file};

/// How many clients ask all the time.
const CLIENTS: usize = 4;

/// How many requests there are at least after the withdrawal.
const AFTER: usize = 300;

/// How often the permission is given and withdrawn.
const ROUNDS: usize = 4;

/// A request that was answered.
struct Answered {
    began: Instant,
    ended: Instant,
    status: u16,
    backend: String,
}

/// Asks for the shares again and again.
async fn ask(target: Target, stop: Arc<AtomicBool>) -> Result<Vec<Answered>> {
    let mut connection = Connection::open(&target).await?;
    let mut answers = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let answer = connection.send(&Request::get("shares.test", "/")).await?;
        let backend = answer.echoed.map(|echoed| echoed.backend).unwrap_or_default();
        answers.push(Answered { began, ended: Instant::now(), status: answer.status, backend });
    }
    Ok(answers)
}

fn objects(theirs: &Echo, granted: bool) -> Vec<Value> {
    let address = theirs.address();
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "theirs", "namespace": "evil"},
            "spec": {"ports": [{"name": "http", "port": 80}]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "theirs", "namespace": "evil", "labels": {"kubernetes.io/service-name": "theirs"}},
            "endpoints": [{"addresses": [address.ip()]}], "ports": [{"name": "http", "port": address.port()}]}),
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "shares", "namespace": "apps"},
        "spec": {
            "parentRefs": [{"name": "shared", "namespace": "infra", "sectionName": "rest"}],
            "hostnames": ["shares.test"],
            "rules": [{"backendRefs": [
                {"name": "s0", "port": 80}, {"name": "theirs", "namespace": "evil", "port": 80},
            ]}],
        }}),
    ];
    if granted {
        objects.push(json!({"apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
            "metadata": {"name": "theirs", "namespace": "evil"},
            "spec": {"from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "apps"}],
                "to": [{"group": "", "kind": "Service"}]}}));
    }
    objects
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_is_withdrawn_under_load_lets_no_later_request_through() -> Result<()> {
    let mut estate = Estate::start().await?;
    let theirs = Echo::start("theirs", ([127, 0, 0, 1], 0).into()).await?;
    let target = Target::local(estate.place.http);
    let once = async |wanted: &str| {
        eventually(TIMEOUT, async || {
            let answer = Connection::open(&target).await?.send(&Request::get("shares.test", "/")).await?;
            let backend = answer.echoed.map(|echoed| echoed.backend).unwrap_or_default();
            ensure!(format!("{} {backend}", answer.status).trim_end() == wanted, "{} {backend}", answer.status);
            anyhow::Ok(())
        })
        .await
    };
    for round in 0..ROUNDS {
        estate.written("tenant.json", &objects(&theirs, true)).await?;
        once("200 theirs").await.with_context(|| format!("round {round}, granted"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(ask(target.clone(), Arc::clone(&stop)));
        }
        let asked = theirs.total();
        eventually(TIMEOUT, async || {
            ensure!(theirs.total() > asked + 20, "nobody asks");
            anyhow::Ok(())
        })
        .await?;
        estate.portcullis.write("tenant.json", &file(&objects(&theirs, false))?)?;
        once("500").await.with_context(|| format!("round {round}, withdrawn"))?;
        let withdrawn = Instant::now();
        let (before, own) = (theirs.total(), estate.backend.total());
        eventually(TIMEOUT, async || {
            ensure!(estate.backend.total() > own + AFTER, "too few requests came after the withdrawal");
            anyhow::Ok(())
        })
        .await?;
        stop.store(true, Ordering::Relaxed);
        let mut answers = Vec::new();
        while let Some(done) = clients.join_next().await {
            answers.extend(done??);
        }
        let under_way = answers.iter().filter(|answer| answer.began < withdrawn && answer.ended >= withdrawn).count();
        let later = theirs.total() - before;
        ensure!(
            later <= under_way,
            "{later} requests reached the backend after the withdrawal, {under_way} were under way"
        );
        for answer in &answers {
            let own = answer.status == 200 && answer.backend == "victims";
            let refused = answer.status == 500 && answer.backend.is_empty();
            let granted = answer.status == 200 && answer.backend == "theirs" && answer.began < withdrawn;
            ensure!(own || refused || granted, "{} by {:?}", answer.status, answer.backend);
        }
        let refused = answers.iter().filter(|answer| answer.began >= withdrawn && answer.status == 500).count();
        ensure!(refused > AFTER / 2, "its share is not refused: {refused} requests");
    }
    estate.is_unharmed().await
}
