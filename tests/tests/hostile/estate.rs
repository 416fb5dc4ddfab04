//! Victims with a real Envoy, and room for a hostile tenant beside them.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Protocol, Request, Response, Target, Tls};
use portcullis_tests::echo::Echo;
use portcullis_tests::envoy::Envoy;
use portcullis_tests::manifests;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports::free_port;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::{Value, json};
use worlds::tenant::{HEALTHY, NEIGHBOUR, OWNED_HOST, Place, SHARED, TREE_HOST, victims};

/// A Gateway of the platform with victims, whose Envoy runs.
pub(crate) struct Estate {
    pub(crate) portcullis: Portcullis,
    pub(crate) envoy: Envoy,
    pub(crate) place: Place,
    /// What answers for all victims.
    pub(crate) backend: Echo,
    batches: usize,
}

impl Estate {
    pub(crate) async fn start() -> Result<Self> {
        let backend = Echo::start("victims", ([127, 0, 0, 1], 0).into()).await?;
        let place = Place {
            http: free_port()?,
            https: free_port()?,
            open: free_port()?,
            own: free_port()?,
            foreign: free_port()?,
            backend: ("127.0.0.1", backend.address().port()),
        };
        let victims = file(&victims(&place, &[]))?;
        let portcullis = Portcullis::start(&[("a-victims.json".to_owned(), victims)]).await?;
        let envoy = Envoy::start(&portcullis.bootstrap(SHARED).await?).await?;
        let mut estate = Self { portcullis, envoy, place, backend, batches: 0 };
        estate.written("tenant.json", &[]).await?;
        estate.serves().await?;
        Ok(estate)
    }

    /// Writes a file, and waits until it was taken in: until a route in a file written later is served.
    pub(crate) async fn written(&mut self, name: &str, objects: &[Value]) -> Result<()> {
        self.portcullis.write(name, &file(objects)?)?;
        self.batches += 1;
        let path = format!("/{}", self.batches);
        let later = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "later", "namespace": "apps", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "parentRefs": [
                    {"name": "shared", "namespace": "infra", "sectionName": "rest"},
                    {"name": "shared", "namespace": "infra", "sectionName": "open"},
                ],
                "hostnames": ["later.test"],
                "rules": [{"matches": [{"path": {"type": "Exact", "value": path}}], "backendRefs": [{"name": "s0", "port": 80}]}],
            },
        });
        self.portcullis.write("z-later.json", &file(&[later])?)?;
        // The routes of each port come by themselves.
        let targets = [self.place.http, self.place.open].map(Target::local);
        // What an attack has a proxy build may be hundreds of megabytes, with all else that runs beside.
        let served = eventually(2 * TIMEOUT, async || {
            for target in &targets {
                let status = client::send(target, &Request::get("later.test", &path)).await?.status;
                ensure!(status == 200, "batch {} is not served: {status}", self.batches);
            }
            anyhow::Ok(())
        });
        served.await.with_context(|| self.portcullis.log_tail())
    }

    /// A listener with TLS, asked for by this server name.
    pub(crate) fn over_tls(&self, server_name: Option<&str>, protocol: Protocol) -> Target {
        let tls = Tls { server_name: server_name.map(str::to_owned), ..Tls::default() };
        Target { address: ([127, 0, 0, 1], self.place.https).into(), protocol, tls: Some(tls) }
    }

    /// The answers to clients of all victims, each of whom was served.
    pub(crate) async fn answers(&self) -> Result<Vec<Response>> {
        let tree = format!("/victim{HEALTHY}");
        let requests = [
            (Target::local(self.place.http), OWNED_HOST, HEALTHY),
            (self.over_tls(Some(OWNED_HOST), Protocol::Http1), OWNED_HOST, HEALTHY),
            (Target::local(self.place.open), NEIGHBOUR, HEALTHY),
            (Target::local(self.place.http), TREE_HOST, &tree),
        ];
        let mut answers = Vec::new();
        for (target, host, path) in requests {
            let answer = client::send(&target, &Request::get(host, path)).await.with_context(|| host.to_owned())?;
            let backend = answer.echoed.as_ref().map(|echoed| echoed.backend.as_str());
            ensure!(
                answer.status == 200 && backend == Some("victims"),
                "{host}{path}: {} {}",
                answer.status,
                answer.body
            );
            answers.push(answer);
        }
        Ok(answers)
    }

    /// Waits until all victims are served.
    pub(crate) async fn serves(&self) -> Result<()> {
        eventually(TIMEOUT, async || self.answers().await.map(drop)).await
    }

    /// The virtual hosts of a route configuration, as Envoy has them.
    pub(crate) async fn hosts(&self, configuration: &str) -> Result<Vec<Value>> {
        hosts(&self.envoy, configuration).await
    }

    /// The virtual hosts of the victim who shares no listener, as Envoy has them. On the open port its name is anybody's.
    pub(crate) async fn owned_hosts(&self) -> Result<Vec<Value>> {
        let plain = self.hosts(&format!("http/{}", self.place.http)).await?;
        let tls = self.hosts(&format!("https/{}/owned-tls", self.place.https)).await?;
        Ok(plain.into_iter().chain(tls).filter(|host| host["name"] == OWNED_HOST).collect())
    }

    /// Nobody ended or panicked, and no update was refused.
    pub(crate) async fn is_unharmed(&mut self) -> Result<()> {
        self.serves().await?;
        self.portcullis.check()?;
        self.portcullis.was_never_refused().await?;
        self.envoy.check().await
    }
}

/// A file with objects. JSON, since YAML has no place for some characters.
pub(crate) fn file(objects: &[Value]) -> Result<String> {
    Ok(manifests::print(objects)?.replace("---\n", ""))
}

/// The virtual hosts of a route configuration, as an Envoy has them.
pub(crate) async fn hosts(envoy: &Envoy, configuration: &str) -> Result<Vec<Value>> {
    let dump = envoy.config_dump().await?;
    let configs = dump["configs"].as_array().context("no configs")?;
    let routes = configs.iter().filter_map(|section| section["dynamic_route_configs"].as_array()).flatten();
    let named = routes.map(|config| &config["route_config"]).filter(|config| config["name"] == configuration);
    Ok(named.filter_map(|config| config["virtual_hosts"].as_array()).flatten().cloned().collect())
}
