//! What cannot be asked, and what is to be done about it.

use anyhow::{Result, ensure};
use portcullis_tests::wait::{TIMEOUT, eventually};

use super::way::{Detour, Way};
use super::world::{World, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_context_that_is_not_there_is_told_with_those_that_are() -> Result<()> {
    let world = World::new().await?;
    let told = world.ask(&["status", "--context", "other"]).await?;
    ensure!(told.code == 2 && told.out.is_empty(), "{told:?}");
    ensure!(told.err.contains(r#"--context "other" is not in "#) && told.err.contains("which has "), "{told:?}");
    let known = told.err.trim().rsplit("which has ").next().unwrap_or_default().to_owned();
    let good = world.held(&["tree", "--context", &known]).await?;
    ensure!(good.code == 0, "{good:?}");
    let none = text(&["status"]).await?;
    ensure!(none.code == 2 && none.err.contains("--kubeconfig or KUBECONFIG"), "{none:?}");
    let missing = text(&["status", "--kubeconfig", "/nonexistent"]).await?;
    ensure!(missing.code == 2 && missing.err.contains("/nonexistent"), "{missing:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_nobody_reaches_is_told_at_once() -> Result<()> {
    let world = World::new().await?;
    let text_of = std::fs::read_to_string(world.api.kubeconfig())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("config");
    std::fs::write(&path, text_of.replace(world.api.url(), "https://127.0.0.1:1"))?;
    for from in ["auto", "api-server", "controller"] {
        let told = text(&["status", "--kubeconfig", &path.to_string_lossy(), "--from", from]).await?;
        ensure!(told.code == 2 && told.out.is_empty(), "{told:?}");
        ensure!(told.err.contains("refused"), "{from}: {told:?}");
        ensure!(told.err.contains("https://127.0.0.1:1") && told.err.contains("--context"), "{from}: {told:?}");
        ensure!(told.err.lines().count() == 1, "nothing else is told: {told:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_is_told_what_and_what_to_do() -> Result<()> {
    let world = World::new().await?;
    let kubeconfig = world.stranger().await?;
    let asked = async |more: &[&str]| {
        text(&[&["status", "--kubeconfig", &kubeconfig.to_string_lossy(), "--from", "api-server"], more].concat()).await
    };
    let told = asked(&[]).await?;
    ensure!(told.code == 2 && told.out.is_empty(), "{told:?}");
    for part in
        ["HTTPRoute: httproutes.gateway.networking.k8s.io is forbidden", "Secret: ", "--from controller", "--partial"]
    {
        ensure!(told.err.contains(part), "{part} in {}", told.err);
    }
    let nothing = asked(&["--partial"]).await?;
    ensure!(nothing.code == 2, "nothing is no part: {nothing:?}");

    // A right to all but Secrets.
    world.api.apply(&format!(
        "apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: ClusterRole\n\
         metadata: {{name: {0}}}\n\
         rules:\n\
         - apiGroups: [gateway.networking.k8s.io, gateway.portcullis.dev, gateway.kgateway.dev, discovery.k8s.io, apps]\n\
         \x20 resources: ['*']\n\
         \x20 verbs: [list, watch]\n\
         - apiGroups: ['']\n\
         \x20 resources: [services, namespaces, configmaps]\n\
         \x20 verbs: [list, watch]\n\
         ---\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: ClusterRoleBinding\n\
         metadata: {{name: {0}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {0}}}\n\
         subjects: [{{kind: ServiceAccount, name: stranger, namespace: {0}}}]\n",
        world.namespace
    )).await?;
    let told = eventually(TIMEOUT, async || {
        let told = asked(&[]).await?;
        ensure!(!told.err.contains("HTTPRoute: "), "{told:?}");
        anyhow::Ok(told)
    });
    let told = told.await?;
    ensure!(told.code == 2 && told.out.is_empty() && told.err.contains("\n  Secret: "), "{told:?}");
    let partial = asked(&["--partial", "-n", &world.namespace]).await?;
    ensure!(partial.code == 1 && partial.err.contains("Secret cannot be read"), "{partial:?}");
    ensure!(partial.out.starts_with("! Secret cannot be read"), "the report says so too: {partial:?}");
    ensure!(partial.out.contains("BackendNotFound"), "{partial:?}");
    ensure!(partial.err.contains("definitions"), "they may not be read either: {partial:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_for_which_the_api_server_has_no_time_is_asked_for_again() -> Result<()> {
    let world = World::new().await?;
    let busy = Way::start(world.api.client().await?, Detour::Busy("/httproutes")).await?;
    let asked = async |more: &[&str]| {
        let kubeconfig = busy.kubeconfig();
        text(&[&["status", "-n", &world.namespace, "--kubeconfig", &kubeconfig, "--from", "api-server"], more].concat())
            .await
    };
    let told = asked(&["--request-timeout", "8s"]).await?;
    ensure!(told.code == 2 && told.out.is_empty(), "half a truth is not shown as whole: {told:?}");
    ensure!(told.err.contains("HTTPRoute: the API server answered 429: later"), "{told:?}");
    ensure!(!told.err.contains("Secret: "), "{told:?}");

    let before = busy.refused();
    let (told, freed) = tokio::join!(asked(&["--request-timeout", "60s"]), async {
        eventually(TIMEOUT, async || {
            ensure!(busy.refused() > before, "nobody was told to come later");
            anyhow::Ok(())
        })
        .await?;
        busy.relent();
        anyhow::Ok(())
    });
    freed?;
    let told = told?;
    ensure!(told.code == 1 && told.out.contains("BackendNotFound") && told.err.is_empty(), "{told:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_controller_can_be_asked_the_objects_are() -> Result<()> {
    let world = World::new().await?;
    let of = ["--controller-namespace", world.namespace.as_str()];
    let tree = async |more: &[&str]| world.ask(&[&["tree", "-n", &world.namespace], &of[..], more].concat()).await;
    let nobody = tree(&["--from", "controller"]).await?;
    ensure!(nobody.code == 2 && nobody.out.is_empty(), "{nobody:?}");
    for part in ["no controller runs", "--from api-server", "--controller-namespace", "helm install"] {
        ensure!(nobody.err.contains(part), "{part} in {}", nobody.err);
    }
    let held = world.held(&["tree", "-n", &world.namespace]).await?;
    let auto = tree(&[]).await?;
    ensure!(auto.code == 0 && auto.out == held.out, "{auto:?}");
    ensure!(auto.err.contains("no controller runs") && auto.err.contains("--from api-server"), "{auto:?}");
    // Settings are those of whoever asks.
    let settings = tree(&["--replacement-status", "503"]).await?;
    ensure!(settings.code == 0 && settings.err.is_empty(), "{settings:?}");

    // A pod that says it is ready, on a node that is not there.
    world.pod("controller", true).await?;
    let starting = tree(&["--from", "controller"]).await?;
    ensure!(starting.code == 2 && starting.err.contains("of 1 pods of the controller in namespace"), "{starting:?}");
    world.ready("controller").await?;
    let away = tree(&["--from", "controller"]).await?;
    ensure!(away.code == 2 && away.err.contains("no port can be forwarded to pod"), "{away:?}");
    ensure!(away.err.contains("pods/portforward") && !away.err.contains("Status {"), "{away:?}");
    let auto = tree(&[]).await?;
    ensure!(auto.code == 0 && auto.out == held.out && auto.err.contains("no port can be forwarded"), "{auto:?}");
    Ok(())
}
