//! The API server that tests run against, itself: what they conclude from it holds.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Api, Client};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::{TIMEOUT, eventually};

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: none
  listeners:
  - {name: http, port: 80, protocol: HTTP}
";

fn gateways(client: Client, namespace: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
    Api::namespaced_with(client, namespace, &ApiResource::from_gvk(&kind))
}

fn config_map(key: &str, value: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some("kept".to_owned());
    object.data = Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    object
}

#[tokio::test]
async fn a_gateway_reads_back_with_what_its_schema_adds() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    server.apply_in(&namespace, GATEWAY).await?;
    let gateway = gateways(server.client().await?, &namespace).get("gw").await?;
    ensure!(gateway.data["spec"]["listeners"][0]["allowedRoutes"]["namespaces"]["from"] == "Same", "{gateway:#?}");
    ensure!(gateway.metadata.generation == Some(1), "{gateway:#?}");
    Ok(())
}

#[tokio::test]
async fn what_the_schema_forbids_is_refused_in_the_schema_s_words() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let wrong = GATEWAY.replace("port: 80", "port: 80, hostname: 192.0.2.1.");
    let error = server.apply_in(&namespace, &wrong).await.err().context("taken")?;
    ensure!(format!("{error:#}").contains("spec.listeners[0].hostname"), "unclear: {error:#}");
    Ok(())
}

#[tokio::test]
async fn our_own_kinds_are_served() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let policy = "
apiVersion: gateway.portcullis.dev/v1alpha1
kind: DelegationPolicy
metadata: {name: policy}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}]
";
    let applied = server.apply_in(&namespace, policy).await?;
    ensure!(applied[0].metadata.uid.is_some(), "{applied:#?}");
    Ok(())
}

#[tokio::test]
async fn a_token_is_reviewed_as_its_service_account_s_and_for_its_audience_only() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("proxy".to_owned());
    Api::namespaced(server.client().await?, &namespace).create(&PostParams::default(), &account).await?;
    let token = server.token(&namespace, "proxy", &["xds"]).await?;

    let reviews: Api<TokenReview> = Api::all(server.client().await?);
    for (audience, authenticated) in [("xds", true), ("other", false)] {
        let spec = TokenReviewSpec { token: Some(token.clone()), audiences: Some(vec![audience.to_owned()]) };
        let review = TokenReview { spec, ..TokenReview::default() };
        let status = reviews.create(&PostParams::default(), &review).await?.status.context("no answer")?;
        ensure!(status.authenticated.unwrap_or_default() == authenticated, "{audience}: {status:#?}");
        let user = status.user.and_then(|user| user.username);
        ensure!(user == authenticated.then(|| format!("system:serviceaccount:{namespace}:proxy")), "{user:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_service_account_may_do_what_rbac_says_and_nothing_else() -> Result<()> {
    let server = ApiServer::shared().await?;
    let namespace = server.namespace().await?;
    let rules = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader}]
";
    server.apply_in(&namespace, rules).await?;
    let client = server.client_of(&namespace, "reader").await?;
    let allowed: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    // The server itself learns of new rules by watching.
    eventually(TIMEOUT, async || allowed.list(&ListParams::default()).await).await?;
    let forbidden: Api<Secret> = Api::namespaced(client, &namespace);
    match forbidden.list(&ListParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        other => anyhow::bail!("not forbidden: {other:?}"),
    }
}

#[tokio::test]
async fn objects_outlive_an_api_server_that_is_killed_or_stopped() -> Result<()> {
    let mut server = ApiServer::in_turn().await?;
    let api: Api<ConfigMap> = Api::namespaced(server.client().await?, &server.namespace().await?);
    api.create(&PostParams::default(), &config_map("since", "before")).await?;
    for how in ["killed", "stopped"] {
        match how {
            "killed" => server.kill().await?,
            _ => server.stop().await?,
        }
        ensure!(api.get("kept").await.is_err(), "{how} and answers");
        server.restart().await?;
        // The same client finds the same object at the same address.
        let object = eventually(TIMEOUT, async || api.get("kept").await).await?;
        ensure!(object.data == config_map("since", "before").data, "{how}: {object:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_frozen_api_server_says_nothing_until_it_goes_on() -> Result<()> {
    let server = ApiServer::in_turn().await?;
    let api: Api<ConfigMap> = Api::namespaced(server.client().await?, &server.namespace().await?);
    server.freeze().await?;
    let (params, object) = (PostParams::default(), config_map("while", "frozen"));
    let mut create = std::pin::pin!(api.create(&params, &object));
    let early = tokio::time::timeout(Duration::from_millis(500), &mut create).await;
    ensure!(early.is_err(), "answered: {early:?}");
    server.thaw().await?;
    create.await?;
    Ok(())
}

#[tokio::test]
async fn the_standard_channel_has_no_fields_that_are_experimental() -> Result<()> {
    let server = ApiServer::with_standard_crds().await?;
    let namespace = server.namespace().await?;
    let route = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r}
spec:
  rules:
  - retry: {attempts: 2}
";
    let error = server.apply_in(&namespace, route).await.err().context("taken")?;
    ensure!(format!("{error:#}").contains("retry: field not declared in schema"), "unclear: {error:#}");
    server.apply_in(&namespace, &route.replace("retry: {attempts: 2}", "name: one")).await?;
    Ok(())
}

#[tokio::test]
async fn nothing_is_left_of_a_server_that_was_dropped() -> Result<()> {
    let server = ApiServer::start().await?;
    let folder = server.folder().to_owned();
    let ids = ["etcd", "kube-apiserver"]
        .map(|name| Ok(std::fs::read_to_string(folder.join(name).with_extension("pid"))?.trim().to_owned()))
        .into_iter()
        .collect::<Result<Vec<String>>>()?;
    ensure!(ids.iter().all(|id| runs(id)), "{ids:?} do not run");
    drop(server);
    ensure!(!folder.exists(), "{} is still there", folder.display());
    eventually(TIMEOUT, async || {
        ensure!(!ids.iter().any(|id| runs(id)), "some of {ids:?} still run");
        Ok(())
    })
    .await
}

/// Whether a process runs. One that has ended and was not yet waited for does not.
fn runs(id: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(id).join("status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
