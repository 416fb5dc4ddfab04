//! Statuses are written to a real API server, which has other writers, conflicts, prunes, refuses and goes away.

#[path = "statuses/controller.rs"]
mod controller;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use api::{Kind, ObjectId};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::DeleteParams;
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::eventually;
use serde_json::{Value, json};

use self::controller::{
    Controller, THEM, US, entries, entry, make_route, objects, route, routes, said, says, server_client, status,
    status_client, stored, until, write_foreign,
};

#[tokio::test]
async fn a_status_is_written_once_and_an_equal_one_never() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let routes = routes(server, &namespace).await?;
    make_route(&routes, "a").await?;
    make_route(&routes, "b").await?;
    let controller = Controller::leading(server, &namespace, &[]).await?;
    controller.desire(&namespace, "a", "words");
    let written = says(&routes, "a", &[(US, "words")]).await?;
    ensure!(entries(&written)[0]["conditions"][0]["lastTransitionTime"].is_string());

    controller.desire(&namespace, "a", "words");
    controller.writer.lead(false);
    controller.writer.lead(true);
    // What was told first is compared first.
    controller.desire(&namespace, "b", "words");
    says(&routes, "b", &[(US, "words")]).await?;
    controller.at_rest().await?;
    let now = routes.get("a").await?;
    ensure!(now.metadata.resource_version == written.metadata.resource_version, "{now:#?}");
    ensure!(controller.writes("written") == 2);

    // Another process starts, and finds everything right.
    drop(controller);
    let another = Controller::leading(server, &namespace, &[("a", "words"), ("b", "others")]).await?;
    says(&routes, "b", &[(US, "others")]).await?;
    another.at_rest().await?;
    ensure!(another.writes("written") == 1);
    Ok(())
}

#[tokio::test]
async fn entries_of_another_controller_stay_while_both_write() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let routes = routes(server, &namespace).await?;
    make_route(&routes, "a").await?;
    let controller = Controller::leading(server, &namespace, &[]).await?;
    let others = async {
        for n in 0..60 {
            write_foreign(&routes, "a", &format!("theirs {n}")).await?;
        }
        write_foreign(&routes, "a", "their last").await
    };
    let ours = async {
        for n in 0..60 {
            let message = format!("ours {n}");
            controller.desire(&namespace, "a", &message);
            until(async || {
                let said = said(&routes.get("a").await?);
                ensure!(said.contains(&(US.into(), message.clone())), "{said:?}");
                Ok(())
            })
            .await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let (theirs, ours) = tokio::join!(others, ours);
    ours?;
    let route_now = says(&routes, "a", &[(THEM, "their last"), (US, "ours 59")]).await?;
    ensure!(entries(&route_now)[0] == theirs?, "every word of theirs is as they wrote it");

    controller.writer.desired(&route(&namespace, "a"), None);
    says(&routes, "a", &[(THEM, "their last")]).await?;
    Ok(())
}

#[tokio::test]
async fn a_conflict_is_solved_without_the_watch() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let routes = routes(server, &namespace).await?;
    let old = make_route(&routes, "a").await?;
    write_foreign(&routes, "a", "theirs").await?;
    // Nothing watches: the writer knows the version from before.
    let controller = Controller::start(server_client(server).await?);
    controller.writer.lead(true);
    controller.writer.stored(&route(&namespace, "a"), Some(&stored(&old)?));
    controller.desire(&namespace, "a", "words");
    says(&routes, "a", &[(THEM, "theirs"), (US, "words")]).await?;
    ensure!(controller.writes("conflict") == 1 && controller.writer.metrics().reads.get() == 1);

    controller.desire(&namespace, "a", "more words");
    says(&routes, "a", &[(THEM, "theirs"), (US, "more words")]).await?;
    ensure!(controller.writes("conflict") == 1, "it knows the version from its own write");
    Ok(())
}

#[tokio::test]
async fn an_object_that_is_deleted_and_made_again_has_its_status_again() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let routes = routes(server, &namespace).await?;
    let controller = Controller::leading(server, &namespace, &[]).await?;
    controller.desire(&namespace, "a", "words");
    for _ in 0..10 {
        make_route(&routes, "a").await?;
        says(&routes, "a", &[(US, "words")]).await?;
        routes.delete("a", &DeleteParams::default()).await?;
    }
    // The writer may not have heard of it, and writes to what is gone.
    controller.desire(&namespace, "a", "for another");
    make_route(&routes, "a").await?;
    says(&routes, "a", &[(US, "for another")]).await?;
    Ok(())
}

#[tokio::test]
async fn stale_entries_go_when_a_controller_takes_over() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let routes = routes(server, &namespace).await?;
    make_route(&routes, "a").await?;
    write_foreign(&routes, "a", "theirs").await?;
    let before = Controller::leading(server, &namespace, &[]).await?;
    before.desire(&namespace, "a", "words");
    says(&routes, "a", &[(THEM, "theirs"), (US, "words")]).await?;
    drop(before);
    // The route left while nobody was there.
    let _after = Controller::leading(server, &namespace, &[]).await?;
    says(&routes, "a", &[(THEM, "theirs")]).await?;
    Ok(())
}

#[tokio::test]
async fn only_the_leader_writes_and_a_change_of_leaders_writes_nothing() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let routes = routes(server, &namespace).await?;
    let (first, second) =
        (Controller::leading(server, &namespace, &[]).await?, Controller::leading(server, &namespace, &[]).await?);
    second.writer.lead(false);
    let tell = |message: &str| {
        for n in 0..20 {
            for controller in [&first, &second] {
                controller.desire(&namespace, &n.to_string(), message);
            }
        }
    };
    tell("first");
    for n in 0..20 {
        make_route(&routes, &n.to_string()).await?;
    }
    for n in 0..20 {
        says(&routes, &n.to_string(), &[(US, "first")]).await?;
    }
    first.writer.lead(false);
    first.writer.drained().await;
    second.writer.lead(true);
    tell("second");
    for n in 0..20 {
        says(&routes, &n.to_string(), &[(US, "second")]).await?;
    }
    second.at_rest().await?;
    ensure!((first.writes("written"), second.writes("written")) == (20, 20));
    Ok(())
}

#[tokio::test]
async fn what_the_server_refuses_holds_up_nothing_and_is_written_once_it_is_right() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let routes = routes(server, &namespace).await?;
    let controller = Controller::leading(server, &namespace, &[]).await?;
    let mut wrong = status("wrong");
    wrong["parents"][0]["parentRef"]["port"] = 70_000.into();
    controller.writer.desired(&route(&namespace, "a"), Some(&wrong.to_string()));
    controller.desire(&namespace, "b", "words");
    make_route(&routes, "a").await?;
    make_route(&routes, "b").await?;
    says(&routes, "b", &[(US, "words")]).await?;
    until(async || {
        ensure!(controller.writes("refused") > 0, "nothing was refused");
        Ok(())
    })
    .await?;
    controller.desire(&namespace, "a", "right");
    says(&routes, "a", &[(US, "right")]).await?;
    Ok(())
}

#[tokio::test]
async fn what_exceeds_the_schema_is_cut_and_written() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let routes = routes(server, &namespace).await?;
    make_route(&routes, "a").await?;
    let controller = Controller::leading(server, &namespace, &[]).await?;
    let parents = (0..40).map(|n| {
        let mut entry = entry(US, &"ü".repeat(100));
        entry["parentRef"]["name"] = format!("gateway-{n}").into();
        entry["conditions"][0]["reason"] = "not a reason!".into();
        entry
    });
    let mut parents: Vec<_> = parents.collect();
    parents[0]["conditions"][0]["message"] = "ü".repeat(40_000).into();
    controller.writer.desired(&route(&namespace, "a"), Some(&json!({"parents": parents}).to_string()));
    until(async || {
        let count = entries(&routes.get("a").await?).len();
        ensure!(count == 32, "{count} entries");
        Ok(())
    })
    .await?;
    controller.at_rest().await?;
    ensure!((controller.writes("written"), controller.writes("refused")) == (1, 0));
    Ok(())
}

#[tokio::test]
async fn every_kind_takes_its_status_and_a_gateway_that_leaves_waits_again() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let class = format!("class-{namespace}");
    let manifests = format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{name: {class}}}
spec: {{controllerName: {US}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: a}}
spec:
  gatewayClassName: {class}
  listeners: [{{name: http, port: 80, protocol: HTTP}}]
---
apiVersion: gateway.portcullis.dev/v1alpha1
kind: DelegationPolicy
metadata: {{name: a}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}}]
"
    );
    server.apply_in(&namespace, &manifests).await?;
    let conditions = entry(US, "words")["conditions"].clone();
    let mut ancestor = entry(US, "words");
    let reference = ancestor["parentRef"].take();
    ancestor["ancestorRef"] = reference;
    ancestor.as_object_mut().context("an object")?.remove("parentRef");
    let gateway = json!({
        "addresses": [{"type": "IPAddress", "value": "192.0.2.1"}],
        "conditions": conditions,
        "listeners": [{"name": "http", "supportedKinds": [], "attachedRoutes": 1, "conditions": conditions}],
    });
    let kinds = [
        (Kind::GatewayClass, &*class, json!({"conditions": conditions, "supportedFeatures": [{"name": "HTTPRoute"}]})),
        (Kind::Gateway, "a", gateway),
        (Kind::DelegationPolicy, "a", json!({"ancestors": [ancestor]})),
    ];
    let mut watching = Controller::start(server_client(server).await?);
    watching.writer.lead(true);
    for (kind, name, desired) in kinds {
        let id = ObjectId::new(kind, if kind.namespaced() { &*namespace } else { "" }, name);
        let api = objects(server.client().await?, &namespace, kind);
        watching.watch(server.client().await?, &namespace, kind);
        watching.writer.desired(&id, Some(&desired.to_string()));
        until(async || {
            let status = api.get(name).await?.data["status"].clone();
            ensure!(without_times(status.clone()) == desired, "{status:#}");
            Ok(())
        })
        .await?;
    }
    watching.at_rest().await?;
    ensure!(watching.writes("written") == 3, "once each");

    let id = ObjectId::new(Kind::Gateway, &*namespace, "a");
    watching.writer.desired(&id, None);
    let gateways = objects(server.client().await?, &namespace, Kind::Gateway);
    until(async || {
        let status = gateways.get("a").await?.data["status"].clone();
        ensure!(status["conditions"][0]["reason"] == "Pending", "{status:#}");
        ensure!(status["addresses"].is_null() && status["listeners"].is_null(), "{status:#}");
        Ok(())
    })
    .await
}

fn without_times(mut value: Value) -> Value {
    match &mut value {
        Value::Object(object) => {
            object.remove("lastTransitionTime");
            object.values_mut().for_each(|value| *value = without_times(value.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| *value = without_times(value.take())),
        _ => {}
    }
    value
}

#[tokio::test]
async fn what_is_forbidden_is_written_once_it_is_allowed_and_who_is_turned_away_comes_again() -> Result<()> {
    // The API server turns away whoever comes second.
    let overloaded = ["--max-mutating-requests-inflight=1"];
    let server = ApiServer::with_crds(&overloaded).await?;
    let namespace = server.namespace().await?;
    let routes = routes(&server, &namespace).await?;
    server.apply_in(&namespace, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: writer}}").await?;
    let mut controller = Controller::start(status_client(&server.kubeconfig_of(&namespace, "writer").await?).await?);
    controller.watch(server.client().await?, &namespace, Kind::HttpRoute);
    controller.writer.lead(true);
    for n in 0..60 {
        controller.desire(&namespace, &n.to_string(), "words");
        make_route(&routes, &n.to_string()).await?;
    }
    until(async || {
        ensure!(controller.writes("refused") >= 60, "not all were refused");
        Ok(())
    })
    .await?;
    server.apply_in(&namespace, RIGHTS).await?;
    for n in 0..60 {
        says(&routes, &n.to_string(), &[(US, "words")]).await?;
    }
    (0..60).for_each(|n| controller.desire(&namespace, &n.to_string(), "more words"));
    for n in 0..60 {
        says(&routes, &n.to_string(), &[(US, "more words")]).await?;
    }
    controller.at_rest().await?;
    ensure!(controller.writes("written") == 120);
    ensure!(controller.writes("retry") > 0, "nobody was turned away");
    Ok(())
}

const RIGHTS: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: statuses}
rules:
- {apiGroups: [gateway.networking.k8s.io], resources: [httproutes/status], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: statuses}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: statuses}
subjects: [{kind: ServiceAccount, name: writer}]
";

#[tokio::test]
async fn an_api_server_that_was_away_gets_what_is_desired_then() -> Result<()> {
    let mut server = ApiServer::in_turn().await?;
    let namespace = server.namespace().await?;
    let routes = routes(&server, &namespace).await?;
    for n in 0..50 {
        make_route(&routes, &n.to_string()).await?;
    }
    let controller = Controller::leading(&server, &namespace, &[]).await?;
    let tell = |message: &str| {
        for n in 0..50 {
            controller.desire(&namespace, &n.to_string(), message);
        }
    };
    tell("before");
    for n in 0..50 {
        says(&routes, &n.to_string(), &[(US, "before")]).await?;
    }
    controller.at_rest().await?;
    server.kill().await?;
    tell("while it was away");
    tell("after");
    until(async || {
        ensure!(controller.writes("retry") > 2, "nothing was tried");
        Ok(())
    })
    .await?;
    ensure!(controller.writes("retry") < 50, "an API server that is away is asked by one");
    server.restart().await?;
    for n in 0..50 {
        says(&routes, &n.to_string(), &[(US, "after")]).await?;
    }
    controller.at_rest().await?;
    ensure!(controller.writes("written") == 100);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_routes_get_their_status_with_one_write_each() -> Result<()> {
    // Ten times as many cost the API server a minute of CPU; `make bench` has them.
    const ROUTES: usize = 1_000;
    let server = ApiServer::with_crds(&[]).await?;
    let namespace = server.namespace().await?;
    let routes = routes(&server, &namespace).await?;
    let make = |n: usize| {
        let routes = &routes;
        async move { make_route(routes, &format!("r{n}")).await.map(drop) }
    };
    let start = Instant::now();
    stream::iter(0..ROUTES).map(make).buffer_unordered(16).try_collect::<()>().await?;
    println!("{ROUTES} routes made in {:?}", start.elapsed());

    let controller = Controller::leading(&server, &namespace, &[]).await?;
    let start = Instant::now();
    for n in 0..ROUTES {
        controller.desire(&namespace, &format!("r{n}"), "words");
    }
    let told = start.elapsed();
    let patience = portcullis_tests::wait::TIMEOUT * 10;
    let written = eventually(patience, async || {
        let written = controller.writes("written");
        if written == ROUTES as u64 { Ok(()) } else { Err(format!("{written} statuses were written")) }
    });
    written.await.map_err(anyhow::Error::msg)?;
    let took = start.elapsed();
    println!("{ROUTES} statuses: told in {told:?}, written in {took:?}");
    controller.at_rest().await?;
    ensure!(controller.writes("written") == ROUTES as u64);
    ensure!(controller.writes("conflict") == 0);
    let list = routes.list(&kube::api::ListParams::default()).await?;
    ensure!(list.items.iter().all(|object| said(object) == [(US.into(), "words".into())]));

    let start = Instant::now();
    controller.writer.lead(false);
    controller.writer.lead(true);
    controller.at_rest().await?;
    println!("compared again in {:?}", start.elapsed());
    ensure!(controller.writes("written") == ROUTES as u64, "taking over writes nothing");
    Ok(())
}
