//! The commands that ask a cluster, as a user of kubectl has them: straight from the API server, and from a controller.

#[path = "cli_in_a_cluster/definitions.rs"]
mod definitions;
#[path = "cli_in_a_cluster/refusals.rs"]
mod refusals;
#[path = "cli_in_a_cluster/way.rs"]
mod way;
#[path = "cli_in_a_cluster/world.rs"]
mod world;

use anyhow::{Context, Result, ensure};
use portcullis_tests::portcullis::Portcullis;
use serde_json::Value;

use way::{Detour, Way};
use world::{LEADER, World, text};

const HTTP_ROUTE: &str = "HTTPRoute";

#[tokio::test(flavor = "multi_thread")]
async fn status_tells_what_is_broken_where_and_who_must_act() -> Result<()> {
    let world = World::new().await?;
    let namespace = world.namespace.as_str();
    let told = world.held(&["status", "-n", namespace]).await?;
    ensure!(told.code == 1, "{told:?}");
    let lines: Vec<_> = told.out.lines().collect();
    let at = lines.iter().position(|line| line.starts_with(HTTP_ROUTE)).context(told.out.clone())?;
    let route = format!("HTTPRoute {namespace}/broken");
    ensure!(lines[at] == format!("{route}: the owner of {route} must act"), "{}", told.out);
    let problem = lines[at + 1];
    for part in ["  replaced: spec.rules[0].backendRefs[0]", "gone", "(BackendNotFound)"] {
        ensure!(problem.contains(part), "{part} in {}", told.out);
    }
    ensure!(lines.last() == Some(&"0 refused, 1 replaced, 0 ignored, 0 warnings"), "{}", told.out);

    // One object, in each form that kubectl takes.
    for object in [
        &["httproute/broken"][..],
        &["HTTPRoute", "broken"],
        &["httproutes.gateway.networking.k8s.io/broken"],
        &["httproute"],
    ] {
        let one = world.held(&[&["status", "-n", namespace], object].concat()).await?;
        ensure!(one.code == 1 && one.out.contains(&route) && one.out.contains("BackendNotFound"), "{object:?} {one:?}");
    }
    let whole = world.held(&["status", "httproute/whole", "-n", namespace]).await?;
    ensure!(whole.code == 0 && whole.out.contains("Accepted=True (Accepted) at Gateway edge"), "{whole:?}");

    // A name is looked for in the namespace of the context, or in all.
    let elsewhere = world.held(&["status", "httproute/broken"]).await?;
    ensure!(elsewhere.code == 2 && elsewhere.err.contains("not found in namespace default"), "{elsewhere:?}");
    let all = world.held(&["status", "-A", "httproute/broken"]).await?;
    ensure!(all.code == 1 && all.out.contains(&route), "{all:?}");
    let unknown = world.held(&["status", "-n", namespace, "httproute/unknown"]).await?;
    ensure!(unknown.code == 2 && unknown.out.is_empty(), "{unknown:?}");
    ensure!(unknown.err.contains(r#"httproutes.gateway.networking.k8s.io "unknown" not found"#), "{unknown:?}");
    let kind = world.held(&["status", "pod/a"]).await?;
    ensure!(kind.code == 2 && kind.err.contains("is no kind that is read"), "{kind:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_written_as_json_and_as_yaml_too() -> Result<()> {
    let world = World::new().await?;
    let json = world.held(&["status", "-n", &world.namespace, "-o", "json"]).await?;
    let report: Value = serde_json::from_str(&json.out)?;
    let told = &report["problems"][0];
    ensure!(told["object"]["name"] == "broken" && told["object"]["kind"] == HTTP_ROUTE, "{told}");
    ensure!(told["severity"] == "replaced" && told["reason"] == "BackendNotFound", "{told}");
    ensure!(told["actor"] == format!("the owner of HTTPRoute {}/broken", world.namespace), "{told}");
    let yaml = world.held(&["status", "-n", &world.namespace, "-o", "yaml"]).await?;
    ensure!(serde_saphyr::from_str::<Value>(&yaml.out)? == report, "{}", yaml.out);
    ensure!(json.code == 1 && yaml.code == 1);
    Ok(())
}

/// What there is to ask about a namespace, each with the exit code.
fn questions(namespace: &str) -> Vec<(Vec<&str>, i32)> {
    vec![
        (vec!["tree"], 0),
        (vec!["tree", "-o", "json"], 0),
        (vec!["tree", "-o", "yaml"], 0),
        (vec!["explain", "--gateway", "edge", "http://shop.example.com/whole/1"], 0),
        (
            vec![
                "explain",
                "--gateway",
                "edge",
                "-X",
                "POST",
                "-H",
                "x-a: b&c",
                "-o",
                "json",
                "http://a.example/broken",
            ],
            0,
        ),
        (vec!["config-dump", "--gateway", "edge"], 0),
        (vec!["config-dump", "--gateway", "edge", "-o", "json"], 0),
        (vec!["status", "httproute"], 1),
        (vec!["status", "httproute/whole"], 0),
        (vec!["status", "-o", "json", "httproute/broken"], 1),
    ]
    .into_iter()
    .map(|(words, code)| ([words, vec!["-n", namespace]].concat(), code))
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_and_the_api_server_give_the_same_answers() -> Result<()> {
    let world = World::new().await?;
    let mut controller = world.controller().await?;
    let address = controller.admin_address().to_string();
    for (question, code) in questions(&world.namespace) {
        let held = world.held(&question).await?;
        // The cluster is named too, so that definitions are looked at.
        let asked = world.ask(&[&question[..], &["--address", &address]].concat()).await?;
        ensure!(held.code == code && asked.code == code, "{question:?}\n{held:?}\n{asked:?}");
        ensure!(held.out == asked.out, "{question:?}\nheld:\n{}\nasked:\n{}", held.out, asked.out);
        ensure!(
            !held.out.is_empty() && held.err.is_empty() && asked.err.is_empty(),
            "{question:?}\n{held:?}\n{asked:?}"
        );
    }
    let tree = world.held(&["tree", "-n", &world.namespace]).await?.out;
    ensure!(tree.starts_with(&format!("Gateway {}/edge\n  listener http (HTTP 80, *)\n", world.namespace)), "{tree}");
    ensure!(tree.contains("broken") && tree.contains("whole"), "{tree}");
    let explained =
        world.held(&["explain", "--gateway", "edge", "-n", &world.namespace, "http://a.example/broken"]).await?;
    ensure!(explained.out.contains("broken") && explained.out.contains("500"), "{}", explained.out);
    let dump = world.held(&["config-dump", "--gateway", "edge", "-n", &world.namespace, "-o", "json"]).await?.out;
    let dump: Value = serde_json::from_str(&dump)?;
    // Pods of a cluster may not bind low ports.
    ensure!(dump["gateways"][0]["listeners"][0]["address"]["socketAddress"]["portValue"] == 10080, "{dump}");
    controller.check()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_is_forwarded_to_the_leader_s_pod_or_to_another_that_is_ready() -> Result<()> {
    let world = World::new().await?;
    let mut controller = world.controller().await?;
    let way = Way::start(world.api.client().await?, Detour::Forwarded(controller.admin_address())).await?;
    let kubeconfig = way.kubeconfig();
    let own = ["--kubeconfig", &kubeconfig, "--controller-namespace", &world.namespace];
    let forwarded = |way: &Way, pod: &str| {
        let last = way.forwarded().pop().unwrap_or_default();
        ensure!(last.contains(&format!("/pods/{pod}/portforward")) && last.contains("ports=9979"), "{last}");
        anyhow::Ok(())
    };
    world.pod("another", true).await?;
    world.ready("another").await?;
    for (question, code) in questions(&world.namespace) {
        let held = world.held(&question).await?;
        for from in ["controller", "auto"] {
            let asked = text(&[&question[..], &own, &["--from", from]].concat()).await?;
            ensure!(
                asked.code == code && asked.out == held.out && asked.err.is_empty(),
                "{question:?}\n{held:?}\n{asked:?}"
            );
        }
        forwarded(&way, "another")?;
    }
    let unknown = text(&[&["status", "svc/unknown", "-n", &world.namespace][..], &own].concat()).await?;
    ensure!(unknown.code == 2 && unknown.err.contains(r#"services "unknown" not found"#), "{unknown:?}");
    let fine = text(&[&["status", "svc/app", "-n", &world.namespace][..], &own].concat()).await?;
    ensure!(fine.code == 0 && fine.err.contains("nothing is known to be wrong"), "{fine:?}");

    world.pod(LEADER, false).await?;
    world.ready(LEADER).await?;
    let tree = [&["tree", "-n", &world.namespace][..], &own].concat();
    ensure!(text(&tree).await?.code == 0);
    forwarded(&way, LEADER)?;

    // It is gone, and its pod does not know yet.
    controller.terminate().await?;
    let gone = text(&[&tree[..], &["--from", "controller"]].concat()).await?;
    ensure!(gone.code == 2 && gone.err.contains("Connection refused"), "{gone:?}");
    let auto = text(&tree).await?;
    ensure!(auto.code == 0 && auto.err.contains("Connection refused") && auto.out.starts_with("Gateway"), "{auto:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_is_asked_without_any_cluster_at_hand() -> Result<()> {
    let world = World::new().await?;
    let controller = world.controller().await?;
    let address = controller.admin_address().to_string();
    let status = text(&["status", "-n", &world.namespace, "--address", &address]).await?;
    ensure!(status.code == 1 && status.out.starts_with("HTTPRoute"), "nothing of definitions is known: {status:?}");
    let unknown = text(&["status", "-n", &world.namespace, "httproute/unknown", "--address", &address]).await?;
    ensure!(unknown.code == 2 && unknown.err.contains("not found"), "{unknown:?}");
    for arguments in [&["config-dump", "--gateway", "unknown"][..], &["config-dump", "--gateway", "a/b"]] {
        let unknown = text(&[arguments, &["--address", &address]].concat()).await?;
        ensure!(unknown.code == 2 && unknown.err.contains("no Gateway"), "{unknown:?}");
    }
    // Its settings are its own.
    let settings = text(&["tree", "--address", &address, "--replacement-status", "503"]).await?;
    ensure!(settings.code == 2 && settings.err.contains("by its own settings"), "{settings:?}");
    let from = text(&["tree", "--address", &address, "--from", "api-server"]).await?;
    ensure!(from.code == 2, "{from:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_controller_or_not_ready_is_told() -> Result<()> {
    let nobody = text(&["tree", "--address", "127.0.0.1:1"]).await?;
    ensure!(nobody.code == 2 && nobody.err.contains("kubectl -n portcullis-system port-forward"), "{nobody:?}");

    let world = World::new().await?;
    // What it shall read is not there yet.
    let kubeconfig = world.stranger().await?;
    let waiting = Portcullis::start_in_cluster(&kubeconfig, &world.namespace, &["--deploy-proxies", "false"])?;
    let address = waiting.admin_address().to_string();
    let early = portcullis_tests::wait::eventually(portcullis_tests::wait::TIMEOUT, async || {
        let early = text(&["tree", "--address", &address]).await?;
        ensure!(early.err.contains("not ready"), "{early:?}");
        anyhow::Ok(early)
    });
    let early = early.await?;
    ensure!(early.code == 2 && early.out.is_empty(), "{early:?}");
    Ok(())
}
