//! One Gateway with many routes, in an API server.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use cluster::identity::tokens::AUDIENCE;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, TypeMeta};
use kube::{Api, Client};
use portcullis_tests::api_server::ApiServer;
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::{Value, json};

const CLASS: &str = "bench";
pub(crate) const CONTROLLER: &str = "portcullis.dev/bench";
const GATEWAY: &str = "edge";
/// How many requests are under way at once while objects are made.
const AT_ONCE: usize = 32;

pub(crate) struct World {
    client: Client,
    routes: usize,
    namespace: String,
    token: String,
}

impl World {
    pub(crate) async fn new(api: &ApiServer, routes: usize) -> Result<Self> {
        let namespace = api.namespace().await?;
        let client = api.client().await?;
        let account = format!("{GATEWAY}-{CLASS}");
        let mut object = ServiceAccount::default();
        object.metadata.name = Some(account.clone());
        Api::namespaced(client.clone(), &namespace).create(&PostParams::default(), &object).await?;
        let token = api.token(&namespace, &account, &[AUDIENCE]).await?;
        Ok(Self { client, routes, namespace, token })
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn routes(&self) -> usize {
        self.routes
    }

    pub(crate) fn gateway(&self) -> String {
        format!("{}/{GATEWAY}", self.namespace)
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// The authority of the controller, once there is one.
    pub(crate) async fn authority(&self) -> Result<Vec<u8>> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = eventually(TIMEOUT, async || secrets.get("portcullis-xds-authority").await).await?;
        Ok(secret.data.unwrap_or_default().remove("ca.crt").context("no ca.crt")?.0)
    }

    pub(crate) async fn create(&self) -> Result<()> {
        let class = json!({ "metadata": { "name": CLASS }, "spec": { "controllerName": CONTROLLER } });
        self.make(CLASSES, class).await?;
        let listeners = json!([{ "name": "http", "port": 8080, "protocol": "HTTP" }]);
        let spec = json!({ "gatewayClassName": CLASS, "listeners": listeners });
        self.make(GATEWAYS, json!({ "metadata": { "name": GATEWAY }, "spec": spec })).await?;
        let services = (0..self.routes / 2).flat_map(|n| [(SERVICES, service(n)), (SLICES, slice(n, 1))]);
        let routes = (0..self.routes).map(|n| (ROUTES, route(n, "initial")));
        self.make_all(services.chain(routes)).await
    }

    /// Changes what a route adds to requests.
    pub(crate) async fn change_route(&self, number: usize, marker: &str) -> Result<()> {
        self.patch(ROUTES, &format!("r{number}"), &json!({ "spec": { "rules": rules(number, marker) } })).await
    }

    /// Changes the address of an endpoint.
    pub(crate) async fn change_endpoint(&self, number: usize, turn: usize) -> Result<()> {
        self.patch(SLICES, &format!("s{number}"), &json!({ "endpoints": endpoints(number, turn) })).await
    }

    /// Makes routes that nobody had before, all at once.
    pub(crate) async fn add_routes(&self, numbers: std::ops::Range<usize>, marker: &str) -> Result<()> {
        let routes = numbers.map(|number| {
            let mut made = route(number, &format!("{marker}-{number}-"));
            // Nobody has made a Service for it.
            made["spec"]["rules"][0]["backendRefs"][0]["name"] = json!(format!("s{}", number % (self.routes / 2)));
            (ROUTES, made)
        });
        self.make_all(routes).await
    }

    /// Makes a route with as many matches as one may have, large regular expressions all, and tells its host.
    pub(crate) async fn add_hostile_route(&self) -> Result<&'static str> {
        const HOST: &str = "hostile.example.com";
        let pattern = |number: usize| format!("/{number}/.*a[ab]{{900}}c");
        let matches = |rule: usize| {
            let matches =
                (0..60).map(|n| json!({ "path": { "type": "RegularExpression", "value": pattern(60 * rule + n) } }));
            matches.collect::<Vec<_>>()
        };
        let rules: Vec<_> = (0..2)
            .map(|rule| json!({ "matches": matches(rule), "backendRefs": [{ "name": "s0", "port": 80 }] }))
            .collect();
        let spec = json!({ "parentRefs": [{ "name": GATEWAY }], "hostnames": [HOST], "rules": rules });
        self.make(ROUTES, json!({ "metadata": { "name": "hostile" }, "spec": spec })).await?;
        Ok(HOST)
    }

    async fn make_all(&self, objects: impl Iterator<Item = (Kind, Value)>) -> Result<()> {
        let made = futures::stream::iter(objects).map(|(kind, object)| self.make(kind, object));
        made.buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn make(&self, kind: Kind, object: Value) -> Result<()> {
        let api = self.api(kind);
        let mut object: DynamicObject = serde_json::from_value(object)?;
        let ApiResource { api_version, kind, .. } = resource(kind);
        object.types = Some(TypeMeta { api_version, kind });
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    async fn patch(&self, kind: Kind, name: &str, patch: &Value) -> Result<()> {
        self.api(kind).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        if kind.3 {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource(kind))
        } else {
            Api::all_with(self.client.clone(), &resource(kind))
        }
    }
}

/// Group, version, kind, and whether it is namespaced.
type Kind = (&'static str, &'static str, &'static str, bool);

const CLASSES: Kind = ("gateway.networking.k8s.io", "v1", "GatewayClass", false);
const GATEWAYS: Kind = ("gateway.networking.k8s.io", "v1", "Gateway", true);
const ROUTES: Kind = ("gateway.networking.k8s.io", "v1", "HTTPRoute", true);
const SERVICES: Kind = ("", "v1", "Service", true);
const SLICES: Kind = ("discovery.k8s.io", "v1", "EndpointSlice", true);

fn resource((group, version, kind, _): Kind) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn service(number: usize) -> Value {
    let spec = json!({ "clusterIP": "None", "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] });
    json!({ "metadata": { "name": format!("s{number}") }, "spec": spec })
}

fn slice(number: usize, turn: usize) -> Value {
    let service = format!("s{number}");
    let labels = BTreeMap::from([("kubernetes.io/service-name", &service)]);
    json!({
        "metadata": { "name": service, "labels": labels },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
        "endpoints": endpoints(number, turn),
    })
}

/// Four endpoints, of which the last has an address that tells the turn.
fn endpoints(number: usize, turn: usize) -> Value {
    let (high, low) = (number / 250, number % 250);
    let mut addresses: Vec<String> = (1..4).map(|pod| format!("10.{pod}.{high}.{low}")).collect();
    addresses.push(address(turn));
    let conditions = json!({ "ready": true, "serving": true, "terminating": false });
    let endpoint = |address: String| json!({ "addresses": [address], "conditions": conditions });
    addresses.into_iter().map(endpoint).collect()
}

/// The address that tells a turn.
pub(crate) fn address(turn: usize) -> String {
    format!("10.{}.{}.{}", 100 + turn / 10_000, 100 + turn / 100 % 100, 100 + turn % 100)
}

fn route(number: usize, marker: &str) -> Value {
    let spec = json!({
        "parentRefs": [{ "name": GATEWAY }],
        "hostnames": [format!("host-{}.example.com", number / 10)],
        "rules": rules(number, marker),
    });
    json!({ "metadata": { "name": format!("r{number}") }, "spec": spec })
}

fn rules(number: usize, marker: &str) -> Value {
    let set = json!([{ "name": "x-marker", "value": marker }]);
    json!([{
        "matches": [{ "path": { "type": "PathPrefix", "value": format!("/path-{number}") } }],
        "filters": [{ "type": "RequestHeaderModifier", "requestHeaderModifier": { "set": set } }],
        "backendRefs": [{ "name": format!("s{}", number / 2), "port": 80 }],
    }])
}
