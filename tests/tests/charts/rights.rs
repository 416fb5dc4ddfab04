//! What the controller may do: read off the templates, and asked of a real API server.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use api::Kind;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use portcullis_tests::api_server::ApiServer;
use serde_json::Value;

use crate::helm::{chart, helm_on, objects};

const READ: [&str; 3] = ["get", "list", "watch"];

/// Those whose status is written.
const TOLD: [Kind; 16] = [
    Kind::GatewayClass,
    Kind::Gateway,
    Kind::ListenerSet,
    Kind::HttpRoute,
    Kind::GrpcRoute,
    Kind::TlsRoute,
    Kind::TcpRoute,
    Kind::UdpRoute,
    Kind::BackendTlsPolicy,
    Kind::TrafficPolicy,
    Kind::Backend,
    Kind::BackendConfigPolicy,
    Kind::ListenerPolicy,
    Kind::GatewayExtension,
    Kind::RewritePolicy,
    Kind::DelegationPolicy,
];

/// The rules of a `ClusterRole`, or of a Role in a namespace.
struct Role {
    namespace: Option<String>,
    rules: Vec<PolicyRule>,
}

impl Role {
    fn all(values: &str) -> Result<Vec<Self>> {
        let objects = objects(values)?;
        let roles = objects.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role");
        let role = |object: &Value| {
            let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
            Ok(Self { namespace, rules: serde_json::from_value(object["rules"].clone())? })
        };
        roles.map(role).collect()
    }

    fn cluster(roles: &[Self]) -> Result<&Self> {
        roles.iter().find(|role| role.namespace.is_none()).context("no ClusterRole")
    }

    fn of<'a>(roles: &'a [Self], namespace: &str) -> Result<&'a Self> {
        roles.iter().find(|role| role.namespace.as_deref() == Some(namespace)).context("no Role")
    }

    /// Whether all `verbs` on the resource are granted, whatever the name of the object.
    fn grants(&self, group: &str, resource: &str, verbs: &[&str]) -> bool {
        let granted = |verb: &str| {
            self.rules.iter().any(|rule| {
                rule.api_groups.iter().flatten().any(|known| known == group)
                    && rule.resources.iter().flatten().any(|known| known == resource)
                    && rule.verbs.iter().any(|known| known == verb)
            })
        };
        verbs.iter().all(|verb| granted(verb))
    }

    /// All of `(group/resource, verb)`.
    fn pairs(&self) -> BTreeSet<(String, String)> {
        let mut pairs = BTreeSet::new();
        for rule in &self.rules {
            for group in rule.api_groups.iter().flatten() {
                for resource in rule.resources.iter().flatten() {
                    let resource = format!("{group}/{resource}");
                    pairs.extend(rule.verbs.iter().map(|verb| (resource.clone(), verb.clone())));
                }
            }
        }
        pairs
    }
}

#[test]
fn every_kind_that_is_read_may_be_read_and_every_status_written() -> Result<()> {
    let check = |role: &Role, kind: Kind| {
        ensure!(role.grants(kind.group(), kind.plural(), &READ), "{kind} is not read in {:?}", role.namespace);
        let status = format!("{}/status", kind.plural());
        ensure!(role.grants(kind.group(), &status, &["patch"]) == TOLD.contains(&kind), "the status of {kind}");
        Ok(())
    };
    for values in ["default", "everything", "little"] {
        let roles = Role::all(values)?;
        Kind::ALL.iter().copied().try_for_each(|kind| check(Role::cluster(&roles)?, kind))?;
    }
    let roles = Role::all("namespaces")?;
    for kind in Kind::ALL.iter().copied() {
        if kind.namespaced() {
            check(Role::of(&roles, "team-a")?, kind)?;
            check(Role::of(&roles, "team-b")?, kind)?;
        } else {
            check(Role::cluster(&roles)?, kind)?;
        }
    }
    Ok(())
}

#[test]
fn where_namespaces_are_named_the_cluster_role_has_only_what_is_of_the_cluster() -> Result<()> {
    let roles = Role::all("namespaces")?;
    let all: BTreeSet<_> = Role::cluster(&roles)?.pairs().into_iter().map(|(resource, _)| resource).collect();
    let expected = [
        "/namespaces",
        "apiextensions.k8s.io/customresourcedefinitions",
        "authentication.k8s.io/tokenreviews",
        "gateway.networking.k8s.io/gatewayclasses",
        "gateway.networking.k8s.io/gatewayclasses/status",
    ];
    ensure!(all == expected.map(str::to_owned).into(), "{all:?}");
    Ok(())
}

#[test]
fn nothing_grants_what_the_controller_never_needs() -> Result<()> {
    for values in ["default", "everything", "namespaces", "little"] {
        for role in Role::all(values)? {
            for (resource, verb) in role.pairs() {
                let told = format!("{values}, {:?}: {verb} {resource}", role.namespace);
                ensure!(!resource.contains('*') && verb != "*", "{told}");
                ensure!(!["escalate", "bind", "impersonate", "deletecollection"].contains(&&*verb), "{told}");
                let (group, name) = resource.split_once('/').context("no group")?;
                ensure!(group != "rbac.authorization.k8s.io" && !name.starts_with("pods"), "{told}");
                ensure!(name != "serviceaccounts/token" && name != "nodes", "{told}");
                // Proxies are deployed with Secrets that others made; only our own namespace has one of ours.
                let own = role.namespace.as_deref() == Some("portcullis-system");
                ensure!(name != "secrets" || READ.contains(&&*verb) || (own && verb != "delete"), "{told}");
                // What routes traffic is its owners'.
                let routing = group.starts_with("gateway.") && !name.ends_with("/status");
                ensure!(!routing || READ.contains(&&*verb), "{told}");
            }
        }
    }
    Ok(())
}

#[test]
fn who_deploys_no_proxies_writes_nothing_but_statuses() -> Result<()> {
    let roles = Role::all("little")?;
    for (resource, verb) in Role::cluster(&roles)?.pairs() {
        let harmless = READ.contains(&&*verb) || resource.ends_with("/status") || resource.ends_with("/tokenreviews");
        ensure!(harmless, "{verb} {resource}");
    }
    Ok(())
}

/// Whether the API server lets this client do that.
async fn may(client: &Client, verb: &str, resource: &str, namespace: &str, name: Option<&str>) -> Result<bool> {
    let (group, resource) = resource.split_once('/').context("no group")?;
    let (resource, subresource) = resource.split_once('/').map_or((resource, None), |(a, b)| (a, Some(b)));
    let attributes = ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        verb: Some(verb.to_owned()),
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await?;
    Ok(answer.status.context("no answer")?.allowed)
}

async fn install(server: &ApiServer, namespace: &str, sets: &[&str]) -> Result<Client> {
    let chart = chart("portcullis");
    let mut arguments = vec!["install", "portcullis", chart.to_str().context("UTF-8")?, "--namespace", namespace];
    arguments.extend(["--set", "gatewayClass.create=false"]);
    for set in sets {
        arguments.extend(["--set", set]);
    }
    helm_on(server, &arguments)?;
    server.client_of(namespace, "portcullis").await
}

/// Whether objects that run proxies may be watched and written in a namespace: those of a kind whose CRD may be missing
/// only where that is asked for.
async fn applies(controller: &Client, namespace: &str, expected: bool) -> Result<()> {
    for kind in cluster::apply::Kind::ALL {
        let expected = expected && kind != cluster::apply::Kind::VerticalPodAutoscaler;
        let resource = kind.resource();
        let resource = format!("{}/{}", resource.group, resource.plural);
        for verb in ["get", "list", "watch", "create", "patch", "delete"] {
            let allowed = may(controller, verb, &resource, namespace, None).await?;
            ensure!(allowed == expected, "{verb} {resource} in {namespace} is {allowed}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_installed_controller_may_do_its_work_everywhere_and_no_more() -> Result<()> {
    let server = ApiServer::shared().await?;
    let (own, other) = (server.namespace().await?, server.namespace().await?);
    let controller = install(server, &own, &[]).await?;
    for kind in Kind::ALL.iter().copied() {
        let resource = format!("{}/{}", kind.group(), kind.plural());
        for verb in READ {
            ensure!(may(&controller, verb, &resource, "", None).await?, "{verb} {kind}");
        }
    }
    applies(&controller, &other, true).await?;
    let authority = Some("portcullis-xds-authority");
    for (expected, verb, resource, namespace, name) in [
        (true, "create", "apps/deployments", &other, None),
        (true, "patch", "gateway.networking.k8s.io/httproutes/status", &other, Some("r")),
        (true, "create", "/secrets", &own, None),
        (true, "update", "/secrets", &own, authority),
        (true, "update", "/secrets", &own, Some("portcullis-logins")),
        (true, "create", "coordination.k8s.io/leases", &own, None),
        (true, "patch", "coordination.k8s.io/leases", &own, Some("portcullis")),
        (false, "patch", "gateway.networking.k8s.io/httproutes", &other, Some("r")),
        (true, "update", "/secrets", &own, Some("portcullis-quarantine")),
        (true, "update", "/secrets", &own, Some("portcullis-verdicts")),
        (true, "update", "/secrets", &own, Some("portcullis-editions")),
        (false, "update", "/secrets", &own, Some("another")),
        (false, "delete", "/secrets", &own, Some("portcullis-quarantine")),
        (false, "delete", "/secrets", &own, authority),
        (false, "create", "/secrets", &other, None),
        (false, "update", "/secrets", &other, authority),
        (false, "update", "/secrets", &other, Some("portcullis-logins")),
        (false, "patch", "coordination.k8s.io/leases", &own, Some("another")),
        (false, "create", "/pods", &other, None),
        (false, "create", "/pods/exec", &other, Some("p")),
        (false, "create", "/serviceaccounts/token", &other, Some("a")),
        (false, "create", "rbac.authorization.k8s.io/roles", &other, None),
    ] {
        let allowed = may(&controller, verb, resource, namespace, name).await?;
        ensure!(allowed == expected, "{verb} {resource} {name:?} in {namespace} is {allowed}");
    }
    Ok(())
}

#[tokio::test]
async fn a_controller_of_named_namespaces_reads_those_and_no_others() -> Result<()> {
    let server = ApiServer::shared().await?;
    let (own, named, other) = (server.namespace().await?, server.namespace().await?, server.namespace().await?);
    let controller = install(server, &own, &[&format!("watchNamespaces={{{named}}}")]).await?;
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.namespaced()) {
        let resource = format!("{}/{}", kind.group(), kind.plural());
        ensure!(may(&controller, "watch", &resource, &named, None).await?, "{kind} in a named namespace");
        ensure!(!may(&controller, "watch", &resource, &other, None).await?, "{kind} in another");
        ensure!(!may(&controller, "watch", &resource, "", None).await?, "{kind} in all");
    }
    applies(&controller, &named, true).await?;
    applies(&controller, &other, false).await?;
    ensure!(!may(&controller, "create", "apps/deployments", &own, None).await?);
    // As it is watched: by name, for which a right to that name is enough.
    let namespaces: Api<Namespace> = Api::all(controller);
    let found = namespaces.list(&ListParams::default().fields(&format!("metadata.name={named}"))).await?;
    ensure!(found.items.len() == 1, "{found:?}");
    ensure!(namespaces.list(&ListParams::default()).await.is_err(), "all namespaces are read");
    Ok(())
}

#[tokio::test]
async fn where_trees_are_kept_secrets_of_the_own_namespace_may_be_written_and_of_no_other() -> Result<()> {
    let server = ApiServer::shared().await?;
    let (own, other) = (server.namespace().await?, server.namespace().await?);
    let controller = install(server, &own, &["freeze.enabled=true"]).await?;
    for verb in ["get", "list", "watch", "create", "update", "delete"] {
        ensure!(may(&controller, verb, "/secrets", &own, None).await?, "{verb} in the own namespace");
        let elsewhere = may(&controller, verb, "/secrets", &other, None).await?;
        ensure!(elsewhere == READ.contains(&verb), "{verb} elsewhere is {elsewhere}");
    }
    ensure!(!may(&controller, "deletecollection", "/secrets", &own, None).await?);
    Ok(())
}
