//! Watches of a real API server: what is in a cluster comes to be known, whatever happens on the way.

#[path = "watches/proxy.rs"]
mod proxy;
#[path = "watches/seen.rs"]
mod seen;

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use api::meta::LabelSelector;
use api::{Kind, Object, ObjectId};
use cluster::watch::{Options, Scope};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceSpec};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use portcullis_tests::api_server::{ApiServer, Channel, kgateway_crds};
use serde_json::json;

use self::proxy::Proxy;
use self::seen::{Seen, options};

/// One object of each kind.
const EVERYTHING: &str = r#"
{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: watched},
  spec: {controllerName: example.com/watched}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: watched},
  spec: {gatewayClassName: watched, listeners: [{name: http, port: 80, protocol: HTTP},
    {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: watched}]}}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {name: watched},
  spec: {parentRef: {name: watched}, listeners: [{name: http, port: 81, protocol: HTTP}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: watched},
  spec: {rules: [{backendRefs: [{name: watched, port: 80}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: GRPCRoute, metadata: {name: watched},
  spec: {rules: [{backendRefs: [{name: watched, port: 80}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: TLSRoute, metadata: {name: watched},
  spec: {hostnames: [a.example], rules: [{backendRefs: [{name: watched, port: 443}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: TCPRoute, metadata: {name: watched},
  spec: {rules: [{backendRefs: [{name: watched, port: 5432}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: UDPRoute, metadata: {name: watched},
  spec: {rules: [{backendRefs: [{name: watched, port: 53}]}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: ReferenceGrant, metadata: {name: watched},
  spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: other}], to: [{group: "", kind: Service}]}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: BackendTLSPolicy, metadata: {name: watched},
  spec: {targetRefs: [{group: "", kind: Service, name: watched}],
    validation: {hostname: watched.example, caCertificateRefs: [{group: "", kind: ConfigMap, name: watched}]}}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: TrafficPolicy, metadata: {name: watched},
  spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: watched}]}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: DirectResponse, metadata: {name: watched}, spec: {status: 503}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: Backend, metadata: {name: watched},
  spec: {static: {hosts: [{host: 192.0.2.1, port: 80}]}}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: BackendConfigPolicy, metadata: {name: watched},
  spec: {targetRefs: [{group: gateway.kgateway.dev, kind: Backend, name: watched}], connectTimeout: 1s}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: ListenerPolicy, metadata: {name: watched},
  spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: watched}],
    default: {proxyProtocol: {}}}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: GatewayExtension, metadata: {name: watched},
  spec: {jwt: {providers: [{name: watched, jwks: {local: {configMapRef: {name: watched}}}}]}}}
---
{apiVersion: gateway.portcullis.dev/v1alpha1, kind: RewritePolicy, metadata: {name: watched},
  spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: watched}],
    replacePrefix: [{prefix: /a, replacement: /b}]}}
---
{apiVersion: gateway.portcullis.dev/v1alpha1, kind: DelegationPolicy, metadata: {name: watched},
  spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: watched}]}}
---
{apiVersion: gateway.kgateway.dev/v1alpha1, kind: GatewayParameters, metadata: {name: watched}, spec: {selfManaged: {}}}
---
{apiVersion: apps/v1, kind: Deployment,
  metadata: {name: watched, labels: {gateway.networking.k8s.io/gateway-name: watched}},
  spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: a}]}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: other},
  spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: a}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: watched}, spec: {ports: [{port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4,
  metadata: {name: watched, labels: {kubernetes.io/service-name: watched}},
  endpoints: [{addresses: [192.0.2.1]}], ports: [{port: 80}]}
---
{apiVersion: v1, kind: Secret, metadata: {name: release}, type: helm.sh/release.v1}
---
{apiVersion: v1, kind: Secret, metadata: {name: watched}, stringData: {a: b, tls.crt: c}}
---
{apiVersion: v1, kind: Secret, metadata: {name: nobodys}, stringData: {tls.crt: c}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: watched}, data: {a: b, jwks: c}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: nobodys}, data: {jwks: c}}
"#;

/// Somebody who may read routes, and nothing else.
const BLIND: &str = "
{apiVersion: v1, kind: ServiceAccount, metadata: {name: blind}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: blind},
  rules: [{apiGroups: [gateway.networking.k8s.io], resources: [httproutes], verbs: [list, watch]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: blind},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: blind},
  subjects: [{kind: ServiceAccount, name: blind, namespace: default}]}
";

fn watched(kind: Kind, namespace: &str) -> ObjectId {
    match kind {
        Kind::Namespace => ObjectId::new(kind, "", namespace),
        kind if kind.namespaced() => ObjectId::new(kind, namespace, "watched"),
        kind => ObjectId::new(kind, "", "watched"),
    }
}

/// One that is reached in no way, of which there may be any number.
fn service(name: &str, value: &str) -> Service {
    let mut object = Service::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.labels = Some([("value".to_owned(), value.to_owned())].into());
    object.spec = Some(ServiceSpec { cluster_ip: Some("None".to_owned()), ..ServiceSpec::default() });
    object
}

fn service_id(namespace: &str, name: &str) -> ObjectId {
    ObjectId::new(Kind::Service, namespace, name)
}

async fn create(api: &Api<Service>, name: &str) -> Result<()> {
    api.create(&PostParams::default(), &service(name, "first")).await?;
    Ok(())
}

async fn change(api: &Api<Service>, name: &str) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { "value": "second" } } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

async fn delete(api: &Api<Service>, name: &str) -> Result<()> {
    api.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

fn value(seen: &Seen, id: &ObjectId) -> Option<String> {
    let Some(Object::Service(object)) = seen.objects.get(id) else { return None };
    object.labels.get("value").map(ToString::to_string)
}

async fn label(client: &Client, namespace: &str, label: &str, value: Option<&str>) -> Result<()> {
    let patch = json!({ "metadata": { "labels": { label: value } } });
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(&patch)).await?;
    Ok(())
}

fn address(server: &ApiServer) -> Result<SocketAddr> {
    Ok(server.url().trim_start_matches("https://").parse()?)
}

#[tokio::test]
async fn an_object_of_every_kind_arrives_and_goes() -> Result<()> {
    let server = ApiServer::loose().await?;
    let namespace = server.namespace().await?;
    let mut seen = Seen::start(server, options(Kind::ALL)).await?;
    seen.until_synced(Kind::ALL).await?;
    let applied = server.apply_in(&namespace, EVERYTHING).await?;
    for kind in Kind::ALL {
        seen.until_put(&watched(*kind, &namespace)).await?;
    }
    let Some(Object::Secret(secret)) = seen.objects.get(&watched(Kind::Secret, &namespace)) else { bail!("no Secret") };
    ensure!(secret.data.0.keys().map(|key| &**key).eq(["tls.crt"]), "{secret:?}");
    ensure!(!seen.objects.contains_key(&ObjectId::new(Kind::Secret, &*namespace, "nobodys")), "nobody refers to it");
    let Some(Object::ConfigMap(map)) = seen.objects.get(&watched(Kind::ConfigMap, &namespace)) else {
        bail!("no ConfigMap")
    };
    ensure!(map.data.keys().map(|key| &**key).eq(["jwks"]), "{map:?}");
    ensure!(!seen.objects.contains_key(&ObjectId::new(Kind::ConfigMap, &*namespace, "nobodys")), "nobody refers to it");
    ensure!(!seen.objects.contains_key(&ObjectId::new(Kind::Secret, &*namespace, "release")), "a release was sent");

    let route = watched(Kind::HttpRoute, &namespace);
    let stored = seen.stored.get(&route).context("nothing is stored beside the route")?;
    let of_server = applied.iter().find(|object| object.metadata.uid.as_deref() == Some(&*stored.uid));
    let of_server = of_server.context("another uid")?;
    ensure!(of_server.metadata.resource_version.as_deref() == Some(&*stored.resource_version), "{stored:?}");

    let changed = EVERYTHING.replace("port: 80}]}]", "port: 81}]}]");
    server.apply_in(&namespace, &changed).await?;
    let has_port = |seen: &Seen| match seen.objects.get(&route) {
        Some(Object::HttpRoute(route)) => route.spec.rules[0].backend_refs[0].backend_ref.port == Some(81),
        _ => false,
    };
    seen.until("the new port", has_port).await?;

    let client = server.client().await?;
    for object in applied.iter().filter(|object| object.metadata.name.as_deref() == Some("watched")) {
        let types = object.types.as_ref().context("no type")?;
        let kind: kube::api::GroupVersionKind = types.try_into()?;
        let plural = Kind::find(&kind.group, &kind.kind).context("a kind that is read")?.plural();
        let resource = kube::api::ApiResource::from_gvk_with_plural(&kind, plural);
        let api: Api<kube::api::DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.delete("watched", &DeleteParams::default()).await?;
    }
    for kind in Kind::ALL.iter().filter(|kind| **kind != Kind::Namespace) {
        seen.until_gone(&watched(*kind, &namespace)).await?;
    }
    seen.until_fresh().await
}

#[tokio::test]
async fn an_api_server_that_died_and_came_back_with_changes_takes_nothing_that_is_still_there() -> Result<()> {
    let mut server = ApiServer::in_turn().await?;
    let proxy = Proxy::start(address(&server)?).await?;
    let namespace = server.namespace().await?;
    let services: Api<Service> = Api::namespaced(server.client().await?, &namespace);
    for name in ["changed", "deleted", "kept"] {
        create(&services, name).await?;
    }
    let mut seen = Seen::start_by(&server, options(&[Kind::Service]), Some(proxy.address())).await?;
    seen.until_synced(&[Kind::Service]).await?;
    ensure!(seen.objects.contains_key(&service_id(&namespace, "kept")), "{:?}", seen.objects.keys());
    seen.news();

    proxy.cut();
    seen.until("the failure", |seen| seen.stale.contains_key(&Kind::Service)).await?;
    change(&services, "changed").await?;
    delete(&services, "deleted").await?;
    create(&services, "added").await?;
    // The new one does not remember the versions of the old one, so that there is a list again.
    server.kill().await?;
    server.restart().await?;
    proxy.mend();
    seen.until_fresh().await?;
    seen.until_gone(&service_id(&namespace, "deleted")).await?;
    seen.until_put(&service_id(&namespace, "added")).await?;
    ensure!(value(&seen, &service_id(&namespace, "changed")).as_deref() == Some("second"), "not changed");
    let told = seen.news();
    ensure!(!told.iter().any(|line| line.contains("/kept")), "nothing happened to it: {told:#?}");
    let removed: Vec<_> = told.iter().filter(|line| line.starts_with("remove")).collect();
    ensure!(removed == [&format!("remove Service {namespace}/deleted")], "{told:#?}");
    Ok(())
}

#[tokio::test]
async fn connections_that_are_dead_or_a_server_that_hangs_are_noticed() -> Result<()> {
    let server = ApiServer::in_turn().await?;
    let proxy = Proxy::start(address(&server)?).await?;
    let namespace = server.namespace().await?;
    let services: Api<Service> = Api::namespaced(server.client().await?, &namespace);
    let mut seen = Seen::start_by(&server, options(&[Kind::Service]), Some(proxy.address())).await?;
    seen.until_synced(&[Kind::Service]).await?;
    seen.news();

    proxy.silence();
    create(&services, "unheard").await?;
    seen.until_put(&service_id(&namespace, "unheard")).await?;
    let told = seen.news();
    ensure!(!told.iter().any(|line| line.starts_with("stale")), "a new connection is no failure: {told:#?}");

    server.freeze().await?;
    seen.until("the failure", |seen| seen.stale.contains_key(&Kind::Service)).await?;
    ensure!(seen.objects.contains_key(&service_id(&namespace, "unheard")), "taken away");
    server.thaw().await?;
    seen.until_fresh().await?;
    create(&services, "later").await?;
    seen.until_put(&service_id(&namespace, "later")).await
}

#[tokio::test]
async fn kinds_come_and_go_with_their_crds() -> Result<()> {
    let server = ApiServer::without_crds().await?;
    let custom: Vec<_> = Kind::ALL.iter().copied().filter(|kind| kind.group().starts_with("gateway.")).collect();
    let built_in: Vec<_> = Kind::ALL.iter().copied().filter(|kind| !custom.contains(kind)).collect();
    let mut seen = Seen::start(&server, options(Kind::ALL)).await?;
    seen.until_synced(&built_in).await?;
    seen.until("no CRDs", |seen| custom.iter().all(|kind| seen.absent.contains(kind))).await?;
    // Who may not read CRDs looks for the kind now and then.
    server.apply(BLIND).await?;
    let mut blind =
        Seen::listen(server.client_of("default", "blind").await?, options(&[Kind::HttpRoute, Kind::Secret]));
    let no_routes = |seen: &Seen| seen.absent.contains(&Kind::HttpRoute);
    blind.until("no routes", no_routes).await?;
    let refused = |seen: &Seen| seen.stale.get(&Kind::Secret).is_some_and(|why| why.contains("answered 403"));
    blind.until("the refusal", refused).await?;

    server.apply_crds(Channel::Standard).await?;
    server.apply(&kgateway_crds()).await?;
    seen.until_synced(&custom).await?;
    server.apply_in("default", EVERYTHING).await?;
    let route = watched(Kind::HttpRoute, "default");
    seen.until_put(&route).await?;
    blind.until_put(&route).await?;

    let crds: Api<CustomResourceDefinition> = Api::all(server.client().await?);
    let name = "httproutes.gateway.networking.k8s.io";
    let mut crd = crds.get(name).await?;
    crds.delete(name, &DeleteParams::default()).await?;
    for seen in [&mut seen, &mut blind] {
        seen.until("no kind", no_routes).await?;
        ensure!(!seen.objects.contains_key(&route), "it outlived its kind");
    }

    // Back again, with the older version alone.
    crd.metadata = kube::api::ObjectMeta {
        name: Some(name.to_owned()),
        annotations: crd.metadata.annotations,
        ..Default::default()
    };
    crd.status = None;
    for version in &mut crd.spec.versions {
        version.served = version.name == "v1beta1";
    }
    let recreate = async || crds.create(&PostParams::default(), &crd).await;
    portcullis_tests::wait::eventually(portcullis_tests::wait::TIMEOUT, recreate).await?;
    seen.until_synced(&[Kind::HttpRoute]).await?;
    let old = EVERYTHING.split("---").find(|text| text.contains("kind: HTTPRoute, metadata")).context("no route")?;
    server.apply_in("default", &old.replace("k8s.io/v1,", "k8s.io/v1beta1,")).await?;
    seen.until_put(&route).await?;
    blind.until_put(&route).await?;
    seen.until_fresh().await
}

#[tokio::test]
async fn an_object_that_only_the_schema_understands_is_told_and_says_what_it_said_last() -> Result<()> {
    let server = ApiServer::loose().await?;
    let namespace = server.namespace().await?;
    let scope = Scope::Named([namespace.as_str().into()].into());
    let mut seen = Seen::start(server, Options { scope, ..options(&[Kind::DelegationPolicy]) }).await?;
    let policy = |name: &str, sort: &str| {
        format!(
            "{{apiVersion: gateway.portcullis.dev/v1alpha1, kind: DelegationPolicy, metadata: {{name: {name}}}, spec: \
             {{sortMethod: {sort}, targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: r}}]}}}}"
        )
    };
    let id = |name: &str| ObjectId::new(Kind::DelegationPolicy, &*namespace, name);
    let sound = |seen: &Seen, name: &str| match seen.objects.get(&id(name)) {
        Some(Object::DelegationPolicy(policy)) => Some((policy.spec.target_refs.len(), policy.spec.invalid.is_empty())),
        _ => None,
    };
    server.apply_in(&namespace, &policy("was-sound", "TableWeight")).await?;
    seen.until_put(&id("was-sound")).await?;
    server.apply_in(&namespace, &policy("was-sound", "1")).await?;
    server.apply_in(&namespace, &policy("never-was", "[1]")).await?;
    server.apply_in(&namespace, &policy("neighbour", "TableWeight")).await?;
    seen.until_put(&id("neighbour")).await?;
    ensure!(seen.undecodable.len() == 2, "{:?}", seen.undecodable);
    let why = seen.undecodable.get(&id("was-sound")).context("not told")?;
    ensure!(why.contains("spec.sortMethod: must be a string"), "{why}");
    ensure!(sound(&seen, "was-sound") == Some((1, true)), "it does not say what it said last");
    ensure!(sound(&seen, "never-was") == Some((1, false)), "its targets are open");

    server.apply_in(&namespace, &policy("never-was", "TableWeight")).await?;
    seen.until("it is sound", |seen| sound(seen, "never-was") == Some((1, true))).await?;
    seen.until_fresh().await
}

#[tokio::test]
async fn objects_come_and_go_with_the_labels_of_their_namespace() -> Result<()> {
    let server = ApiServer::shared().await?;
    let client = server.client().await?;
    let (ours, theirs) = (server.namespace().await?, server.namespace().await?);
    let key = format!("selected-by-{ours}");
    label(&client, &ours, &key, Some("yes")).await?;
    let services = |namespace: &str| Api::<Service>::namespaced(client.clone(), namespace);
    create(&services(&ours), "a").await?;
    create(&services(&theirs), "a").await?;
    let selector: LabelSelector = serde_json::from_value(json!({ "matchLabels": { &key: "yes" } }))?;
    let kinds = [Kind::Service, Kind::EndpointSlice, Kind::GatewayClass];
    let mut seen = Seen::start(server, Options { scope: Scope::Selector(selector), ..options(&kinds) }).await?;
    seen.until_synced(&kinds).await?;
    let foreign = |seen: &Seen| {
        let foreign = |id: &&ObjectId| !id.namespace.is_empty() && *id.namespace != *ours;
        seen.objects.keys().find(foreign).cloned()
    };
    ensure!(seen.objects.contains_key(&service_id(&ours, "a")), "{:?}", seen.objects.keys());
    ensure!(foreign(&seen).is_none(), "{:?}", foreign(&seen));

    label(&client, &theirs, &key, Some("yes")).await?;
    seen.until_put(&service_id(&theirs, "a")).await?;
    create(&services(&theirs), "b").await?;
    seen.until_put(&service_id(&theirs, "b")).await?;
    label(&client, &theirs, &key, None).await?;
    seen.until("no objects of theirs", |seen| foreign(seen).is_none()).await?;
    create(&services(&theirs), "c").await?;
    create(&services(&ours), "c").await?;
    seen.until_put(&service_id(&ours, "c")).await?;
    ensure!(foreign(&seen).is_none(), "{:?}", foreign(&seen));
    Ok(())
}

#[tokio::test]
async fn named_namespaces_are_watched_by_themselves() -> Result<()> {
    let server = ApiServer::shared().await?;
    let client = server.client().await?;
    let (one, two, other) = (server.namespace().await?, server.namespace().await?, server.namespace().await?);
    for namespace in [&one, &two, &other] {
        create(&Api::namespaced(client.clone(), namespace), "a").await?;
    }
    let scope = Scope::Named([one.as_str().into(), two.as_str().into()].into());
    let kinds = [Kind::Service, Kind::Namespace, Kind::GatewayClass];
    let mut seen = Seen::start(server, Options { scope, ..options(&kinds) }).await?;
    seen.until_synced(&kinds).await?;
    let mut known: Vec<_> =
        seen.objects.keys().filter(|id| id.kind != Kind::GatewayClass).map(ToString::to_string).collect();
    let mut expected: Vec<_> = [&one, &two].map(|namespace| format!("Service {namespace}/a")).into();
    expected.extend([&one, &two].map(|namespace| format!("Namespace {namespace}")));
    // Names of namespaces are numbers, which are not sorted as such.
    expected.sort();
    known.sort();
    ensure!(known == expected, "{known:?}");
    Ok(())
}

#[tokio::test]
async fn a_thousand_objects_come_in_pages_where_there_are_no_streaming_lists() -> Result<()> {
    const COUNT: usize = 1_000;
    let server = ApiServer::start_with(&["--feature-gates=WatchList=false"]).await?;
    let services: Api<Service> = Api::namespaced(server.client().await?, "default");
    let created = stream::iter(0..COUNT).map(|number| {
        let services = services.clone();
        async move { create(&services, &format!("c{number}")).await }
    });
    created.buffer_unordered(16).try_collect::<Vec<()>>().await?;
    let mut seen = Seen::start(&server, options(&[Kind::Service])).await?;
    seen.until_synced(&[Kind::Service]).await?;
    let count = |seen: &Seen| seen.objects.keys().filter(|id| *id.namespace == *"default").count();
    ensure!(count(&seen) >= COUNT, "{}", count(&seen));
    change(&services, "c7").await?;
    seen.until("a change", |seen| value(seen, &service_id("default", "c7")).as_deref() == Some("second")).await?;
    delete(&services, "c8").await?;
    seen.until_gone(&service_id("default", "c8")).await?;
    seen.until_fresh().await
}
