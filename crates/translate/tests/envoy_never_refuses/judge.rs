//! What a translator sends, as static configuration that a real Envoy judges.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
    sync::OnceLock,
};

use api::{Kind, ObjectId};
use envoy::{
    ResourceKind,
    bootstrap::{AdminAddress, XdsAddress, bootstrap, bootstrap_json},
    json as envoy_json,
    route::BROKEN_CLUSTER,
    testing::inline_extensions,
};
use ir::{NsName, settings::Edge};
use serde_json::{Value, json};
use translate::Translator;

/// Static resources, their names such that those of several worlds fit into one Envoy.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    listeners: Vec<Value>,
    clusters: Vec<Value>,
    secrets: Vec<Value>,
    /// The routes in it by what they do.
    pub(crate) routes: BTreeMap<&'static str, usize>,
}

/// What goes to the proxies of one Gateway.
struct Resources {
    prefix: String,
    by_name: BTreeMap<(ResourceKind, String), Value>,
    /// Whether they have nothing to show to backends that a certificate is shown to: these are not sent, and nobody waits for them.
    shows_nothing: bool,
}

impl Sent {
    /// Everything that `translator` sends. Fails if something is named that is not sent, which Envoy would wait for.
    pub(crate) fn by(translator: &Translator, prefix: &str) -> Self {
        let mut sent = Self::default();
        for (gateway, list) in translator.resources() {
            let by_name = list.into_iter().map(|(key, encoded)| {
                let value = envoy_json::value(key.kind.message_name(), &encoded.body.to_bytes()).expect("JSON");
                ((key.kind, key.name.to_string()), value)
            });
            let status =
                translator.status(&ObjectId::new(Kind::Gateway, gateway.namespace.clone(), gateway.name.clone()));
            let resources = Resources {
                prefix: format!("{prefix}/{gateway}/"),
                by_name: by_name.collect(),
                shows_nothing: status.is_some_and(|status| status.contains("spec.tls.backend.clientCertificateRef")),
            };
            resources.add_to(&mut sent);
        }
        sent
    }
}

/// The fields that name secrets, but for [`CERTIFICATES`].
const SECRETS: [&str; 3] = ["tokenSecret", "hmacSecret", "validationContextSdsSecretConfig"];

/// The field that lists certificates.
const CERTIFICATES: &str = "tlsCertificateSdsSecretConfigs";

impl Resources {
    fn add_to(&self, sent: &mut Sent) {
        for ((kind, name), value) in &self.by_name {
            match kind {
                ResourceKind::Cluster => sent.clusters.push(self.cluster(name, value.clone())),
                ResourceKind::Secret => {
                    let mut secret = value.clone();
                    secret["name"] = json!(self.named(name));
                    sent.secrets.push(secret);
                }
                ResourceKind::Listener => sent.listeners.push(self.listener(value.clone())),
                ResourceKind::RouteConfiguration => count(value, &mut sent.routes),
                ResourceKind::Endpoints | ResourceKind::ExtensionConfig => {}
            }
        }
        self.addresses_differ();
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn get(&self, kind: ResourceKind, name: &str) -> Value {
        let found = self.by_name.get(&(kind, name.to_owned()));
        found.unwrap_or_else(|| panic!("{kind:?} {name:?} is named and not sent")).clone()
    }

    /// With its endpoints inside, unless it looks for them itself, and its secrets static.
    fn cluster(&self, name: &str, mut cluster: Value) -> Value {
        self.own_secrets(&mut cluster);
        if cluster.get("clusterType").is_some() {
            cluster["name"] = json!(self.named(name));
            return cluster;
        }
        let mut endpoints = self.get(ResourceKind::Endpoints, name);
        endpoints["clusterName"] = json!(self.named(name));
        cluster["name"] = json!(self.named(name));
        cluster["type"] = json!("STATIC");
        cluster["loadAssignment"] = endpoints;
        cluster.as_object_mut().expect("a cluster").remove("edsClusterConfig").expect("endpoints come over EDS");
        cluster
    }

    /// With its routes and extensions inside, its secrets static, and on a port that is free for all.
    fn listener(&self, mut listener: Value) -> Value {
        listener["name"] = json!(self.named(listener["name"].as_str().expect("a name")));
        for address in addresses(&mut listener) {
            address["portValue"] = json!(0);
        }
        if listener.get("udpListenerConfig").is_some() {
            let route = "/listenerFilters/0/typedConfig/matcher/onNoMatch/action/typedConfig/cluster";
            self.reference(listener.pointer_mut(route).expect("a cluster"));
            return listener;
        }
        for chain in listener["filterChains"].as_array_mut().expect("chains") {
            if chain.get("filters").is_none() {
                continue; // it closes what it is chosen for
            }
            let config = &mut chain["filters"][0]["typedConfig"];
            match config.get_mut("cluster") {
                Some(cluster) => self.reference(cluster),
                None => self.manager(config),
            }
            if let Some(socket) = chain.get_mut("transportSocket") {
                self.own_secrets(socket);
            }
        }
        listener
    }

    /// With its routes and extensions inside.
    fn manager(&self, manager: &mut Value) {
        let rds = manager.as_object_mut().and_then(|manager| manager.remove("rds")).expect("routes come over RDS");
        let routes = self.get(ResourceKind::RouteConfiguration, rds["routeConfigName"].as_str().expect("a name"));
        manager["routeConfig"] = self.routes(routes);
        inline_extensions(manager, |name| self.get(ResourceKind::ExtensionConfig, name));
    }

    fn routes(&self, mut config: Value) -> Value {
        // As it is over RDS. What is named is looked for here.
        config["validateClusters"] = json!(false);
        self.own_secrets(&mut config);
        for host in list(&mut config["virtualHosts"]) {
            for route in list(&mut host["routes"]) {
                let Some(action) = route.get_mut("route") else { continue };
                if let Some(cluster) = action.get_mut("cluster") {
                    self.reference(cluster);
                }
                if let Some(weighted) = action.get_mut("weightedClusters") {
                    list(&mut weighted["clusters"]).for_each(|cluster| self.reference(&mut cluster["name"]));
                }
                if let Some(mirrors) = action.get_mut("requestMirrorPolicies") {
                    list(mirrors).for_each(|mirror| self.reference(&mut mirror["cluster"]));
                }
            }
        }
        config
    }

    /// Secrets of filters, clusters and listeners, wherever they are named.
    fn own_secrets(&self, value: &mut Value) {
        let own = |field: &mut Value| {
            let name = field["name"].as_str().expect("a name").to_owned();
            self.get(ResourceKind::Secret, &name);
            *field = json!({"name": self.named(&name)});
        };
        match value {
            Value::Object(fields) => {
                for (key, field) in fields {
                    if SECRETS.contains(&key.as_str()) {
                        own(field);
                    } else if key == CERTIFICATES {
                        list(field).for_each(own);
                    } else {
                        self.own_secrets(field);
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.own_secrets(item)),
            _ => {}
        }
    }

    fn reference(&self, cluster: &mut Value) {
        let name = cluster.as_str().expect("a name").to_owned();
        let may_be_missing = name == BROKEN_CLUSTER || self.shows_nothing;
        if !may_be_missing {
            self.get(ResourceKind::Cluster, &name);
        }
        *cluster = json!(self.named(&name));
    }

    /// Envoy refuses a listener whose address another one has.
    fn addresses_differ(&self) {
        let mut seen = BTreeSet::new();
        for ((kind, name), value) in &self.by_name {
            if *kind == ResourceKind::Listener {
                for address in addresses(&mut value.clone()) {
                    assert!(seen.insert(address.to_string()), "{name}: {address} is bound twice");
                }
            }
        }
    }
}

fn list(value: &mut Value) -> impl Iterator<Item = &mut Value> {
    value.as_array_mut().into_iter().flatten()
}

fn addresses(listener: &mut Value) -> Vec<&mut Value> {
    let Some(fields) = listener.as_object_mut() else { return Vec::new() };
    let mut found = Vec::new();
    for (field, value) in fields {
        match field.as_str() {
            "address" => found.push(&mut value["socketAddress"]),
            "additionalAddresses" => {
                found.extend(list(value).map(|additional| &mut additional["address"]["socketAddress"]));
            }
            _ => {}
        }
    }
    found
}

fn count(config: &Value, routes: &mut BTreeMap<&'static str, usize>) {
    let hosts = config["virtualHosts"].as_array().into_iter().flatten();
    for route in hosts.flat_map(|host| host["routes"].as_array().into_iter().flatten()) {
        let does = ["route", "redirect", "directResponse"].into_iter().find(|field| route.get(field).is_some());
        *routes.entry(does.expect("an action")).or_default() += 1;
    }
}

/// What Envoy says against all of these together, if anything.
pub(crate) fn refused(all: &[&Sent]) -> Option<String> {
    let mut whole = base().clone();
    let resources = &mut whole["staticResources"];
    for (field, part) in [
        ("listeners", (|sent| &sent.listeners) as fn(&Sent) -> &Vec<Value>),
        ("clusters", |sent| &sent.clusters),
        ("secrets", |sent| &sent.secrets),
    ] {
        if resources[field].is_null() {
            resources[field] = json!([]);
        }
        resources[field].as_array_mut().expect("a list").extend(all.iter().flat_map(|sent| part(sent)).cloned());
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("bootstrap.json");
    std::fs::write(&path, serde_json::to_vec(&whole).expect("JSON")).expect("a file");
    let output = Command::new(envoy())
        .args(["--mode", "validate", "--log-level", "error", "--disable-hot-restart", "--config-path"])
        .arg(&path)
        .output()
        .expect("Envoy runs");
    (!output.status.success())
        .then(|| format!("{}: {}", output.status, shortened(&String::from_utf8_lossy(&output.stderr))))
}

/// Without the message in the middle, which Envoy repeats.
fn shortened(words: &str) -> String {
    const KEPT: usize = 800;
    let characters: Vec<char> = words.trim().chars().collect();
    if characters.len() <= 2 * KEPT {
        return characters.into_iter().collect();
    }
    let (start, end) = (&characters[..KEPT], &characters[characters.len() - KEPT..]);
    format!("{}\n[…]\n{}", start.iter().collect::<String>(), end.iter().collect::<String>())
}

/// The bootstrap of a proxy, which carries what regular expressions are limited to.
fn base() -> &'static Value {
    static BASE: OnceLock<Value> = OnceLock::new();
    BASE.get_or_init(|| {
        let xds = XdsAddress::Tcp { host: "127.0.0.1".into(), port: 18_000 };
        let admin = AdminAddress::Tcp { address: std::net::Ipv4Addr::LOCALHOST.into(), port: 0 };
        let message = bootstrap(&NsName::new("infra", "edge"), "test", &xds, &admin, &Edge::default());
        bootstrap_json(&message).expect("JSON")
    })
}

fn envoy() -> PathBuf {
    let path = std::env::var_os("PORTCULLIS_ENVOY").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/envoy/bin/envoy")),
        PathBuf::from,
    );
    assert!(path.is_file(), "no Envoy at {}: set PORTCULLIS_ENVOY, or run `make envoy`", path.display());
    path
}

#[test]
fn what_envoy_refuses_is_noticed() {
    let (_, world) = crate::corners::worlds().swap_remove(0);
    let mut sent = crate::sent(&world, 0);
    assert_eq!(refused(&[&sent]), None);
    let route =
        sent.listeners[0].pointer_mut("/filterChains/0/filters/0/typedConfig/routeConfig/virtualHosts/0/routes/0");
    route.expect("a route")["match"] = json!({"safeRegex": {"regex": "("}});
    let said = refused(&[&sent]).expect("a broken pattern is refused");
    assert!(said.contains("missing )"), "{said}");
}
