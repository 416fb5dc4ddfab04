//! Objects of Gateways at a real API server.

#[path = "apply/ports.rs"]
pub(crate) mod ports;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use anyhow::{Context as _, Result, ensure};
use cluster::apply::{Applier, Failure, Labels, Metrics, Report, Settings};
use ir::{NsName, backend::Transport, settings::Trust};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use portcullis_tests::{
    api_server::ApiServer,
    wait::{TIMEOUT, eventually},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// An applier at work in a namespace of its own.
struct Scene {
    client: Client,
    namespace: String,
    applier: Applier,
    reports: Arc<Mutex<Vec<Report>>>,
    metrics: Metrics,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Scene {
    async fn new() -> Result<Self> {
        let server = ApiServer::shared().await?;
        let namespace = server.namespace().await?;
        Ok(Self::in_namespace(server.client().await?, namespace))
    }

    fn in_namespace(client: Client, namespace: String) -> Self {
        let namespaces = vec![namespace.clone()];
        Self::with(client, namespace, namespaces)
    }

    /// One that looks into these namespaces; into all, if there are none.
    fn with(client: Client, namespace: String, namespaces: Vec<String>) -> Self {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&reports);
        let settings = Settings { namespaces, ..Settings::default() };
        let metrics = Metrics::default();
        let applier =
            Applier::new(settings, metrics.clone(), move |report| told.lock().expect("no panic").push(report));
        applier.lead(true);
        let (running, writing, watching) = (applier.clone(), client.clone(), client.clone());
        let task = tokio::spawn(async move { running.run(writing, watching).await });
        Self { client, namespace, applier, reports, metrics, task }
    }

    fn owner(&self) -> NsName {
        NsName::new(self.namespace.as_str(), "web")
    }

    /// How often objects of this kind were applied.
    fn applied(&self, kind: &'static str) -> u64 {
        self.metrics.applies.get_or_create(&Labels { kind, result: "applied" }).get()
    }

    /// The objects of a second Gateway, `other`.
    fn desire_other(&self) -> Result<()> {
        let plan = deploy::Plan { gateway: NsName::new(self.namespace.as_str(), "other"), ..self.plan() };
        let manifests = deploy::render(&plan, &deploy::Settings::default())?;
        self.applier.desired(&plan.gateway, Some(manifests.into_iter().map(|manifest| manifest.object).collect()));
        Ok(())
    }

    /// Takes a label from an object of `other` and waits until it is back: what the watch of that kind said before has been
    /// dealt with by then, since it came before and nothing waits for longer.
    async fn overtaken<K>(&self) -> Result<()>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let label = "gateway.networking.k8s.io/gateway-name";
        let patch = json!({"metadata": {"labels": {label: null}}});
        let api = self.api::<K>();
        api.patch("other-portcullis", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        eventually(TIMEOUT, async || {
            let object = api.get_metadata("other-portcullis").await?;
            ensure!(object.metadata.labels.is_some_and(|labels| labels.contains_key(label)), "the label is not back");
            Ok(())
        })
        .await?;
        self.settled().await
    }

    fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn get<K>(&self) -> Result<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        Ok(self.api::<K>().get("web-portcullis").await?)
    }

    /// Waits until there is nothing to do.
    async fn settled(&self) -> Result<()> {
        let pending = async || {
            let pending = self.applier.pending();
            ensure!(pending == 0, "{pending} pending; {:?}", self.reports.lock().expect("no panic"));
            Ok(())
        };
        eventually(TIMEOUT, pending).await
    }

    /// Waits until the last report is of that many failures, and gives them.
    async fn failures(&self, count: usize) -> Result<Vec<Failure>> {
        let look = async || {
            let reports = self.reports.lock().expect("no panic");
            let last = reports.last().context("no report")?;
            ensure!(last.failures.len() == count, "{last:?}");
            Ok(last.failures.clone())
        };
        eventually(TIMEOUT, look).await
    }

    /// The same with their messages alone.
    async fn reported(&self, count: usize) -> Result<Vec<String>> {
        let failures = self.failures(count).await?;
        Ok(failures.iter().map(|failure| format!("{}: {}", failure.object, failure.message)).collect())
    }

    /// What a Gateway may have.
    fn plan(&self) -> deploy::Plan {
        deploy::Plan {
            gateway: self.owner(),
            uid: "0f7ae0b6-0000-0000-0000-000000000000".into(),
            class: "portcullis".into(),
            ports: vec![deploy::Port { target: 10080, ..port("http", 80) }],
            labels: Vec::new(),
            annotations: Vec::new(),
            addresses: Vec::new(),
            parameters: deploy::Parameters::default(),
            bootstrap: "{}".into(),
            files: Vec::new(),
            trust_bundle: None,
        }
    }

    fn desire(&self, plan: &deploy::Plan) -> Result<()> {
        let manifests = deploy::render(plan, &deploy::Settings::default())?;
        let optional = manifests.iter().flat_map(|manifest| manifest.optional_ports.clone()).collect();
        let objects = manifests.into_iter().map(|manifest| manifest.object).collect();
        self.applier.desired_or_without(&self.owner(), Some(objects), optional);
        Ok(())
    }
}

/// A port of TCP that is a Gateway's own.
fn port(name: &str, port: u16) -> deploy::Port {
    deploy::Port { name: name.into(), port, target: port, transport: Transport::Tcp, optional: false }
}

fn parameters(kube: &Value) -> Result<deploy::Parameters> {
    Ok(deploy::Parameters::read(None, Some(&json!({"kube": kube})), Trust::Unrestricted)?)
}

fn everything() -> Value {
    let yaml = include_str!("../../crates/deploy/src/render/golden/everything-parameters.yaml");
    let mut value: Value = serde_saphyr::from_str(yaml).expect("YAML");
    let kube = value["kube"].as_object_mut().expect("an object");
    // Its CRD is not there.
    kube.remove("verticalPodAutoscaler");
    value["kube"].clone()
}

#[tokio::test]
async fn an_api_server_takes_all_that_is_rendered() -> Result<()> {
    let scene = Scene::new().await?;
    let mut everything = everything();
    // Who has it is known to the API server alone.
    everything["service"]["clusterIP"] = json!("");
    let plan = deploy::Plan {
        parameters: parameters(&everything)?,
        labels: vec![("team".into(), "a".into())],
        annotations: vec![("example.com/a".into(), "b".into())],
        ..scene.plan()
    };
    scene.desire(&plan)?;
    scene.settled().await?;
    ensure!(scene.reports.lock().expect("no panic").is_empty(), "{:?}", scene.reports);
    let deployment: Deployment = scene.get().await?;
    let pod = deployment.spec.and_then(|spec| spec.template.spec).context("no pod")?;
    ensure!(pod.containers[0].image.as_deref() == Some("registry.example/envoy:v1"), "{pod:?}");
    let autoscaler: HorizontalPodAutoscaler = scene.get().await?;
    ensure!(autoscaler.spec.and_then(|spec| spec.min_replicas) == Some(3));
    Ok(())
}

#[tokio::test]
async fn pods_pass_the_restricted_pod_security_standard() -> Result<()> {
    let scene = Scene::new().await?;
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    let namespaces: Api<Namespace> = Api::all(scene.client.clone());
    namespaces.patch(&scene.namespace, &PatchParams::default(), &Patch::Merge(&labels)).await?;
    let pod = |plan: &deploy::Plan| -> Result<Pod> {
        let manifests = deploy::render(plan, &deploy::Settings::default())?;
        let deployment = manifests.iter().find(|manifest| manifest.kind == "Deployment").context("none")?;
        let mut pod: Pod = serde_json::from_value(deployment.object["spec"]["template"].clone())?;
        pod.metadata.name = Some("web".to_owned());
        Ok(pod)
    };
    // An API server takes a moment to learn the labels of a namespace, and what it refuses shows that it has.
    let omitted =
        deploy::Plan { parameters: parameters(&json!({"omitDefaultSecurityContext": true}))?, ..scene.plan() };
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let pods: Api<Pod> = scene.api();
    let refused = async || {
        let answer = pods.create(&dry, &pod(&omitted)?).await;
        let refused = answer.err().context("taken")?.to_string();
        ensure!(refused.contains("violates PodSecurity"), "{refused}");
        Ok::<_, anyhow::Error>(())
    };
    eventually(TIMEOUT, refused).await?;
    pods.create(&dry, &pod(&scene.plan())?).await?;
    Ok(())
}

#[tokio::test]
async fn what_is_as_it_was_applied_is_not_applied_again_and_a_change_is_made_in_place() -> Result<()> {
    let scene = Scene::new().await?;
    scene.desire(&scene.plan())?;
    scene.settled().await?;
    let versions = async || -> Result<_> {
        let (service, config): (Service, ConfigMap) = (scene.get().await?, scene.get().await?);
        Ok((service.metadata, config.metadata))
    };
    let (service, config) = versions().await?;
    scene.desire(&scene.plan())?;
    ensure!(scene.applier.pending() == 0);

    scene.desire(&deploy::Plan { trust_bundle: Some("PEM".into()), ..scene.plan() })?;
    scene.settled().await?;
    let (same, changed) = versions().await?;
    ensure!(same == service, "the Service was written");
    ensure!(changed.uid == config.uid && changed.resource_version != config.resource_version);
    Ok(())
}

#[tokio::test]
async fn what_is_no_longer_asked_for_goes_also_after_a_restart() -> Result<()> {
    let scene = Scene::new().await?;
    let scaled =
        parameters(&json!({"horizontalPodAutoscaler": {"spec": {"maxReplicas": 3}}, "podDisruptionBudget": {}}))?;
    scene.desire(&deploy::Plan { parameters: scaled, ..scene.plan() })?;
    scene.settled().await?;
    scene.get::<HorizontalPodAutoscaler>().await?;
    let only_budget = parameters(&json!({"podDisruptionBudget": {}}))?;
    scene.desire(&deploy::Plan { parameters: only_budget, ..scene.plan() })?;
    scene.settled().await?;
    ensure!(scene.api::<HorizontalPodAutoscaler>().get_opt("web-portcullis").await?.is_none());
    let deleted = Labels { kind: "HorizontalPodAutoscaler", result: "deleted" };
    ensure!(scene.metrics.applies.get_or_create(&deleted).get() == 1);

    // The next process knows nothing of what this one made.
    scene.applier.lead(false);
    scene.applier.drained().await;
    let next = Scene::in_namespace(scene.client.clone(), scene.namespace.clone());
    next.desire(&next.plan())?;
    next.settled().await?;
    let budgets: Api<k8s_openapi::api::policy::v1::PodDisruptionBudget> = next.api();
    ensure!(budgets.get_opt("web-portcullis").await?.is_none());
    next.get::<Deployment>().await?;
    Ok(())
}

#[tokio::test]
async fn what_somebody_changes_is_put_right() -> Result<()> {
    let scene = Scene::new().await?;
    scene.desire(&scene.plan())?;
    scene.settled().await?;
    let services: Api<Service> = scene.api();
    let only_port = async |wanted: i32| {
        eventually(TIMEOUT, async || {
            let service: Service = scene.get().await?;
            let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
            let ports: Vec<_> = ports.iter().map(|port| port.port).collect();
            ensure!(ports == [wanted], "{ports:?}; {:?}", scene.reports);
            Ok(())
        })
        .await?;
        scene.settled().await
    };
    // As `kubectl edit` does, and as one does who only adds.
    let renumbered = json!([{"name": "http", "port": 81, "targetPort": 1, "protocol": "TCP"}]);
    let added = json!([
        {"name": "http", "port": 80, "targetPort": 10080, "protocol": "TCP"},
        {"name": "other", "port": 81, "targetPort": 1, "protocol": "TCP"},
    ]);
    for ports in [renumbered, added] {
        let patch = json!({"spec": {"ports": ports}});
        services.patch("web-portcullis", &PatchParams::default(), &Patch::Merge(&patch)).await?;
        only_port(80).await?;
    }
    // And the ports are ours to change again.
    scene.desire(&deploy::Plan { ports: vec![port("other", 82)], ..scene.plan() })?;
    only_port(82).await?;

    // The label by which it is watched, and one that is not.
    for label in ["app.kubernetes.io/managed-by", "gateway.networking.k8s.io/gateway-name"] {
        let before: Service = scene.get().await?;
        let before = before.metadata.labels.and_then(|labels| labels.get(label).cloned()).context("no label")?;
        for value in [json!("somebody"), Value::Null] {
            let patch = json!({"metadata": {"labels": {label: value}}});
            services.patch("web-portcullis", &PatchParams::default(), &Patch::Merge(&patch)).await?;
            eventually(TIMEOUT, async || {
                let service: Service = scene.get().await?;
                let now = service.metadata.labels.and_then(|labels| labels.get(label).cloned());
                ensure!(now.as_ref() == Some(&before), "{now:?}; {:?}", scene.reports);
                Ok(())
            })
            .await?;
            scene.settled().await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn our_own_writes_coming_back_cause_no_further_one() -> Result<()> {
    let scene = Scene::new().await?;
    scene.desire(&scene.plan())?;
    scene.desire_other()?;
    scene.settled().await?;
    scene.overtaken::<Service>().await?;
    scene.overtaken::<ConfigMap>().await?;
    let (services, config_maps) = (scene.applied("Service"), scene.applied("ConfigMap"));
    let foreign = scene.metrics.foreign_changes.get();

    scene.desire(&deploy::Plan { ports: vec![port("http", 8080)], bootstrap: "{\"a\": 1}".into(), ..scene.plan() })?;
    scene.settled().await?;
    scene.overtaken::<Service>().await?;
    scene.overtaken::<ConfigMap>().await?;
    // Changed once, and the other one put right once.
    let after = (scene.applied("Service") - services, scene.applied("ConfigMap") - config_maps);
    ensure!(after == (2, 2), "{after:?}");
    let foreign = scene.metrics.foreign_changes.get() - foreign;
    ensure!(foreign == 2, "{foreign}");
    Ok(())
}

#[tokio::test]
async fn what_is_not_ours_to_say_causes_nothing() -> Result<()> {
    let scene = Scene::new().await?;
    let scaled = json!({"horizontalPodAutoscaler": {"spec": {"maxReplicas": 9}}});
    scene.desire(&deploy::Plan { parameters: parameters(&scaled)?, ..scene.plan() })?;
    scene.desire_other()?;
    scene.settled().await?;
    scene.overtaken::<Deployment>().await?;
    let before = scene.applied("Deployment");
    let deployments: Api<Deployment> = scene.api();
    // As the controllers of Deployments and of autoscalers do, and as somebody does who adds something.
    let status = json!({"status": {"replicas": 3, "updatedReplicas": 3, "observedGeneration": 1}});
    let manager = |name: &str| PatchParams { field_manager: Some(name.to_owned()), ..PatchParams::default() };
    let controllers = manager("kube-controller-manager");
    deployments.patch_status("web-portcullis", &controllers, &Patch::Merge(&status)).await?;
    deployments.patch_scale("web-portcullis", &controllers, &Patch::Merge(&json!({"spec": {"replicas": 5}}))).await?;
    let annotations = json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": "1"}}});
    deployments.patch("web-portcullis", &controllers, &Patch::Merge(&annotations)).await?;
    let added = json!({"spec": {"template": {"metadata": {"labels": {"somebody": "else"}}}}});
    deployments.patch("web-portcullis", &manager("kubectl-patch"), &Patch::Merge(&added)).await?;

    scene.overtaken::<Deployment>().await?;
    let after = scene.applied("Deployment");
    ensure!(after == before + 1, "{} applies of what was not ours", after - before - 1);
    let deployment: Deployment = scene.get().await?;
    ensure!(deployment.spec.and_then(|spec| spec.replicas) == Some(5));
    Ok(())
}

#[tokio::test]
async fn who_does_not_lead_puts_nothing_right_and_does_once_it_leads() -> Result<()> {
    let scene = Scene::new().await?;
    scene.desire(&scene.plan())?;
    scene.settled().await?;
    scene.applier.lead(false);
    scene.applier.drained().await;
    let services: Api<Service> = scene.api();
    services.delete("web-portcullis", &DeleteParams::default()).await?;
    let before = scene.applied("Service");
    // One who leads is at work beside it, and its watch has seen all that happened before.
    let leader = Scene::in_namespace(scene.client.clone(), scene.namespace.clone());
    leader.desire_other()?;
    leader.settled().await?;
    leader.overtaken::<Service>().await?;
    ensure!(services.get_opt("web-portcullis").await?.is_none() && scene.applied("Service") == before);
    leader.applier.lead(false);
    scene.applier.lead(true);
    eventually(TIMEOUT, async || services.get("web-portcullis").await).await?;
    Ok(())
}

#[tokio::test]
async fn what_somebody_deletes_is_made_again() -> Result<()> {
    let scene = Scene::new().await?;
    scene.desire(&scene.plan())?;
    scene.settled().await?;
    let services: Api<Service> = scene.api();
    let accounts: Api<ServiceAccount> = scene.api();
    services.delete("web-portcullis", &DeleteParams::default()).await?;
    accounts.delete("web-portcullis", &DeleteParams::default()).await?;
    eventually(TIMEOUT, async || services.get("web-portcullis").await).await?;
    eventually(TIMEOUT, async || accounts.get("web-portcullis").await).await?;
    scene.settled().await?;

    // Deleted, and something else changes before the watch has a word of it: what we believed to know is wrong.
    services.delete("web-portcullis", &DeleteParams::default()).await?;
    scene.desire(&deploy::Plan { ports: vec![port("http", 8080)], ..scene.plan() })?;
    eventually(TIMEOUT, async || {
        let service: Service = scene.get().await?;
        let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
        ensure!(ports.len() == 1 && ports[0].port == 8080, "{ports:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_somebody_deletes_is_made_again_where_all_namespaces_are_read() -> Result<()> {
    let server = ApiServer::shared().await?;
    let scene = Scene::with(server.client().await?, server.namespace().await?, Vec::new());
    scene.desire(&scene.plan())?;
    scene.settled().await?;
    let services: Api<Service> = scene.api();
    services.delete("web-portcullis", &DeleteParams::default()).await?;
    eventually(TIMEOUT, async || services.get("web-portcullis").await).await?;
    Ok(())
}

#[tokio::test]
async fn what_happened_while_the_watch_was_cut_is_put_right_too() -> Result<()> {
    let mut server = ApiServer::in_turn().await?;
    let namespace = server.namespace().await?;
    let scene = Scene::in_namespace(server.client().await?, namespace);
    scene.desire(&scene.plan())?;
    scene.settled().await?;
    server.kill().await?;
    server.restart().await?;
    let services: Api<Service> = scene.api();
    eventually(TIMEOUT, async || services.delete("web-portcullis", &DeleteParams::default()).await).await?;
    eventually(TIMEOUT, async || services.get("web-portcullis").await).await?;
    Ok(())
}

#[tokio::test]
async fn an_object_of_somebody_else_is_a_conflict_and_stays_as_it_is() -> Result<()> {
    let scene = Scene::new().await?;
    let mut foreign =
        ConfigMap { data: Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])), ..ConfigMap::default() };
    foreign.metadata.name = Some("web-portcullis".to_owned());
    let config_maps: Api<ConfigMap> = scene.api();
    let created = config_maps.create(&PostParams::default(), &foreign).await?;
    scene.desire(&scene.plan())?;
    let messages = scene.reported(1).await?;
    ensure!(messages[0].starts_with("ConfigMap web-portcullis: is there already"), "{messages:?}");
    ensure!(scene.get::<ConfigMap>().await? == created, "the foreign object was written");
    // The others are applied all the same.
    scene.get::<Deployment>().await?;
    let refused = Labels { kind: "ConfigMap", result: "refused" };
    ensure!(scene.metrics.failures.get() == 1 && scene.metrics.applies.get_or_create(&refused).get() >= 1);
    ensure!(scene.metrics.queue.get() == 1, "it waits to be tried again");

    config_maps.delete("web-portcullis", &DeleteParams::default()).await?;
    scene.reported(0).await?;
    ensure!(scene.metrics.failures.get() == 0 && scene.metrics.queue.get() == 0);
    ensure!(scene.get::<ConfigMap>().await?.data.is_some_and(|data| data.contains_key("bootstrap.json")));
    Ok(())
}

#[tokio::test]
async fn all_of_a_gateway_that_goes_is_deleted_and_nothing_else() -> Result<()> {
    let scene = Scene::new().await?;
    scene.desire(&scene.plan())?;
    scene.settled().await?;
    let mut foreign = ServiceAccount::default();
    foreign.metadata.name = Some("foreign".to_owned());
    // With our label, and nobody's.
    foreign.metadata.labels = Some(BTreeMap::from([("app.kubernetes.io/managed-by".into(), "portcullis".into())]));
    let accounts: Api<ServiceAccount> = scene.api();
    accounts.create(&PostParams::default(), &foreign).await?;

    scene.applier.desired(&scene.owner(), None);
    scene.settled().await?;
    ensure!(scene.api::<Deployment>().get_opt("web-portcullis").await?.is_none());
    ensure!(scene.api::<Service>().get_opt("web-portcullis").await?.is_none());
    ensure!(scene.api::<ConfigMap>().get_opt("web-portcullis").await?.is_none());
    ensure!(accounts.get_opt("web-portcullis").await?.is_none());
    accounts.get("foreign").await?;
    Ok(())
}

#[tokio::test]
async fn what_a_gateway_left_that_went_while_nobody_led_goes_once_all_were_told_of() -> Result<()> {
    let scene = Scene::new().await?;
    scene.desire(&scene.plan())?;
    scene.settled().await?;
    scene.applier.lead(false);
    scene.applier.drained().await;
    let next = Scene::in_namespace(scene.client.clone(), scene.namespace.clone());
    next.settled().await?;
    next.get::<Deployment>().await?;
    next.applier.complete();
    eventually(TIMEOUT, async || {
        let left = next.api::<Deployment>().get_opt("web-portcullis").await?;
        ensure!(left.is_none(), "still there");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn what_the_api_server_refuses_is_told_and_tried_again_when_it_is_other() -> Result<()> {
    let scene = Scene::new().await?;
    let wrong = parameters(&json!({"service": {"clusterIP": "192.0.2.1"}}))?;
    scene.desire(&deploy::Plan { parameters: wrong, ..scene.plan() })?;
    let messages = scene.reported(1).await?;
    ensure!(messages[0].contains("Service web-portcullis: ") && messages[0].contains("clusterIP"), "{messages:?}");
    scene.desire(&scene.plan())?;
    scene.reported(0).await?;
    scene.get::<Service>().await?;
    Ok(())
}

#[tokio::test]
async fn a_namespace_that_is_missing_is_told_and_its_coming_is_enough() -> Result<()> {
    let server = ApiServer::shared().await?;
    let name = format!("{}-late", server.namespace().await?);
    let scene = Scene::in_namespace(server.client().await?, name.clone());
    scene.desire(&scene.plan())?;
    let messages = scene.reported(4).await?;
    ensure!(messages.iter().all(|message| message.contains("not found")), "{messages:?}");
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name);
    Api::all(server.client().await?).create(&PostParams::default(), &namespace).await?;
    scene.reported(0).await?;
    scene.get::<Deployment>().await?;
    Ok(())
}

#[tokio::test]
async fn replicas_that_are_no_longer_ours_to_say_stay_as_they_are() -> Result<()> {
    let scene = Scene::new().await?;
    scene.desire(&deploy::Plan { parameters: parameters(&json!({"deployment": {"replicas": 4}}))?, ..scene.plan() })?;
    scene.settled().await?;
    let scaled = json!({"deployment": {"replicas": 4}, "horizontalPodAutoscaler": {"spec": {"maxReplicas": 9}}});
    scene.desire(&deploy::Plan { parameters: parameters(&scaled)?, ..scene.plan() })?;
    scene.settled().await?;
    let deployment: Deployment = scene.get().await?;
    ensure!(deployment.spec.and_then(|spec| spec.replicas) == Some(4));
    Ok(())
}

#[tokio::test]
async fn an_api_server_that_is_away_is_waited_for() -> Result<()> {
    let mut server = ApiServer::in_turn().await?;
    let namespace = server.namespace().await?;
    let scene = Scene::in_namespace(server.client().await?, namespace);
    scene.settled().await?;
    server.stop().await?;
    scene.desire(&scene.plan())?;
    scene.reported(4).await?;
    server.restart().await?;
    scene.reported(0).await?;
    scene.get::<Deployment>().await?;
    Ok(())
}
