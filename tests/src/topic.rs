//! One folder of `tests/traffic`: manifests, and what requests must come of them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use crate::echo::Echo;
use crate::envoy::Envoy;
use crate::expect::{Case, Stage};
use crate::manifests::{self, ObjectId, PortMapping, Renderer};
use crate::portcullis::Portcullis;
use crate::ports;
use crate::statuses::StatusExpectation;
use crate::wait::{TIMEOUT, eventually};

/// `requests.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Topic {
    /// Which ports listeners get.
    #[serde(default)]
    pub ports: PortMapping,
    /// Flags of the controller.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Requests and what must come of them.
    #[serde(default)]
    pub requests: Vec<Case>,
    /// What statuses must say.
    #[serde(default)]
    pub statuses: Vec<StatusExpectation>,
    /// What holds after changes, one after the other.
    #[serde(default)]
    pub then: Vec<Phase>,
}

impl Topic {
    /// Reads `requests.yaml` of `folder`.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("requests.yaml");
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| path.display().to_string())?;
        serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
    }
}

/// What holds after a change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Phase {
    /// A file of the folder whose objects replace those of their names.
    pub apply: Option<PathBuf>,
    /// Objects to delete, as `KIND NAMESPACE/NAME`.
    pub delete: Vec<String>,
    /// Requests and what must come of them.
    pub requests: Vec<Case>,
    /// What statuses must say.
    pub statuses: Vec<StatusExpectation>,
}

/// Why this machine cannot run the topic in `folder`, if so.
pub fn obstacle(base: &Path, folder: &Path) -> Result<Option<String>> {
    let topic = Topic::read(folder)?;
    let mut world = World::new(base, folder, topic.ports)?;
    world.apply(Path::new("manifests.yaml"))?;
    world.obstacle(topic.ports)
}

/// Runs the topic in `folder`, with the objects of `base` and these flags beside its own.
pub async fn run(base: &Path, folder: &Path, flags: &[&str]) -> Result<()> {
    let mut topic = Topic::read(folder)?;
    topic.flags.extend(flags.iter().map(ToString::to_string));
    let mut world = World::new(base, folder, topic.ports)?;
    world.apply(Path::new("manifests.yaml"))?;
    world.start(&topic).await?;
    world.phase("", &topic.requests, &topic.statuses).await?;
    for (number, phase) in topic.then.iter().enumerate() {
        world.change(phase).await?;
        let label = format!("then[{number}]: ");
        world.phase(&label, &phase.requests, &phase.statuses).await?;
    }
    Ok(())
}

/// Reads the topic in `folder` without running it: its files are well-formed, and every backend that it expects exists.
pub fn check(base: &Path, folder: &Path) -> Result<()> {
    let topic = Topic::read(folder)?;
    let mut world = World::new(base, folder, topic.ports)?;
    world.apply(Path::new("manifests.yaml"))?;
    let mut files = topic.then.iter().filter_map(|phase| phase.apply.as_ref());
    files.try_for_each(|file| world.apply(file))?;
    let later = topic.then.iter().flat_map(|phase| &phase.requests);
    for row in topic.requests.iter().chain(later) {
        world.listener_of(row)?;
        for backend in row.expect.backends() {
            let mut known = world.renderer.backends().values();
            let exists = backend.parse::<u16>().is_ok() || known.any(|name| name == backend);
            ensure!(exists, "{row}: there is no backend {backend}");
        }
    }
    Ok(())
}

struct World {
    folder: PathBuf,
    base: String,
    renderer: Renderer,
    objects: Vec<(ObjectId, Value)>,
    stage: Stage,
    running: Option<(Portcullis, BTreeMap<String, Envoy>)>,
}

impl World {
    fn new(base: &Path, folder: &Path, mapping: PortMapping) -> Result<Self> {
        let mut renderer = Renderer::new(mapping)?;
        let mut documents = manifests::parse(&std::fs::read_to_string(base)?)?;
        if mapping != PortMapping::Gateway {
            // They would all have the same port.
            documents.retain(|document| document.get("kind") != Some(&"Gateway".into()));
        }
        for document in &mut documents {
            renderer.render(document)?;
        }
        let certificates = renderer.certificates().clone();
        let block = renderer.block();
        Ok(Self {
            folder: folder.to_owned(),
            base: manifests::print(&documents)?,
            renderer,
            objects: Vec::new(),
            stage: Stage { ports: BTreeMap::new(), backends: Vec::new(), certificates, block },
            running: None,
        })
    }

    fn apply(&mut self, file: &Path) -> Result<()> {
        let path = self.folder.join(file);
        let yaml = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for mut document in manifests::parse(&yaml).with_context(|| path.display().to_string())? {
            let id = ObjectId::of(&document)?;
            self.renderer.render(&mut document)?;
            match self.objects.iter_mut().find(|(known, _)| *known == id) {
                Some((_, known)) => *known = document,
                None => self.objects.push((id, document)),
            }
        }
        Ok(())
    }

    fn manifests(&self) -> Result<String> {
        let documents: Vec<Value> = self.objects.iter().map(|(_, value)| value.clone()).collect();
        manifests::print(&documents)
    }

    /// Why this machine cannot run the topic.
    fn obstacle(&self, mapping: PortMapping) -> Result<Option<String>> {
        if mapping == PortMapping::Own {
            for port in self.own_ports()? {
                if !ports::can_bind(port) {
                    return Ok(Some(format!("cannot listen on port {port}")));
                }
            }
        }
        let ipv6 = self.renderer.backends().keys().find(|at| at.is_ipv6());
        let usable = ipv6.is_none_or(|at| std::net::TcpListener::bind(at).is_ok());
        Ok((!usable).then(|| "no IPv6 loopback".to_owned()))
    }

    fn own_ports(&self) -> Result<BTreeSet<u16>> {
        let mut ports = BTreeSet::new();
        for (id, object) in &self.objects {
            if id.kind != "Gateway" {
                continue;
            }
            let listeners = object.pointer("/spec/listeners").and_then(Value::as_array);
            for listener in listeners.into_iter().flatten() {
                let port = listener.get("port").and_then(Value::as_u64);
                ports.insert(u16::try_from(port.context("a listener without port")?)?);
            }
        }
        Ok(ports)
    }

    async fn start(&mut self, topic: &Topic) -> Result<()> {
        self.start_backends().await?;
        let files = [("base.yaml".to_owned(), self.base.clone()), ("manifests.yaml".to_owned(), self.manifests()?)];
        let portcullis = Portcullis::start_with(&files, &topic.flags).await?;
        self.running = Some((portcullis, BTreeMap::new()));

        let later = topic.then.iter().flat_map(|phase| &phase.requests);
        let rows = topic.requests.iter().chain(later);
        let wanted: BTreeSet<(String, u16)> = rows.map(|row| self.listener_of(row)).collect::<Result<_>>()?;
        for (gateway, port) in wanted {
            let real = self.renderer.port(&gateway, port)?;
            self.stage.ports.insert((gateway.clone(), port), real);
            let (portcullis, envoys) = self.running.as_mut().context("not started")?;
            if let Entry::Vacant(envoy) = envoys.entry(gateway) {
                let bootstrap = portcullis.bootstrap(envoy.key()).await?;
                let started = Envoy::start(&bootstrap).await;
                envoy.insert(started.with_context(|| portcullis.log_tail())?);
            }
        }
        Ok(())
    }

    async fn start_backends(&mut self) -> Result<()> {
        for (address, name) in self.renderer.backends() {
            let started = |echo: &Echo| echo.address() == *address;
            if !self.stage.backends.iter().any(started) {
                self.stage.backends.push(Echo::start(name, *address).await?);
            }
        }
        Ok(())
    }

    /// The Gateway and port that a row means: where it does not say, those of the base.
    fn listener_of(&self, row: &Case) -> Result<(String, u16)> {
        let own: Vec<&str> =
            self.objects.iter().filter(|(id, _)| id.kind == "Gateway").map(|(id, _)| id.name.as_str()).collect();
        let gateway = match (&row.request.gateway, own.as_slice()) {
            (Some(gateway), _) => gateway,
            (None, []) => "infra/same-namespace",
            (None, [only]) => only,
            (None, several) => bail!("{row}: say which Gateway of {several:?}"),
        };
        let default = if row.request.tls.is_some() { 443 } else { 80 };
        Ok((gateway.to_owned(), row.request.port.unwrap_or(default)))
    }

    async fn change(&mut self, phase: &Phase) -> Result<()> {
        if let Some(file) = &phase.apply {
            self.apply(file)?;
        }
        for object in &phase.delete {
            let id = ObjectId::parse(object)?;
            let before = self.objects.len();
            self.objects.retain(|(known, _)| *known != id);
            ensure!(self.objects.len() < before, "there is no {object}");
        }
        self.start_backends().await?;
        let manifests = self.manifests()?;
        let (portcullis, _) = self.running.as_ref().context("not started")?;
        portcullis.write("manifests.yaml", &manifests)
    }

    async fn phase(&mut self, label: &str, requests: &[Case], statuses: &[StatusExpectation]) -> Result<()> {
        let start = Instant::now();
        let mut failures = Vec::new();
        for row in requests {
            let (gateway, port) = self.listener_of(row)?;
            let mut row = row.clone();
            row.request.gateway = Some(gateway);
            row.request.port = Some(port);
            // Rows that hold do so together; one that fails after that is tried once.
            let left = TIMEOUT.saturating_sub(start.elapsed());
            if let Err(error) = eventually(left, || row.check(&self.stage)).await {
                failures.push(format!("{label}{error:#}"));
            }
        }
        let (portcullis, envoys) = self.running.as_mut().context("not started")?;
        for expected in statuses {
            let left = TIMEOUT.saturating_sub(start.elapsed());
            let checked = eventually(left, async || expected.check(&portcullis.snapshot().await?));
            if let Err(error) = checked.await {
                failures.push(format!("{label}{error:#}"));
            }
        }
        for (gateway, envoy) in envoys.iter_mut() {
            if let Err(error) = envoy.check().await {
                failures.push(format!("{label}Envoy of {gateway}: {error:#}"));
            }
        }
        if let Err(error) = portcullis.check() {
            failures.push(format!("{label}{error:#}"));
        }
        if !failures.is_empty() {
            bail!("{} failures:\n{}\n{}", failures.len(), failures.join("\n"), portcullis.log_tail());
        }
        Ok(())
    }
}
