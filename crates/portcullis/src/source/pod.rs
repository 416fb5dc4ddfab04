//! Which pod is the controller, and where its admin server is.

use std::time::Duration;

use anyhow::bail;
use controller::{cluster_snapshot::Refusal, run::LEASE};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Container, Pod},
};
use kube::{Api, Client, api::ListParams};
use tokio::time::timeout;

use super::Unusable;

/// What the charts call it.
const SELECTOR: &str = "app.kubernetes.io/name=portcullis";

/// The flag for the address of the admin server, its variable, and its default.
const FLAG: &str = "--admin-address";
const VARIABLE: &str = "PORTCULLIS_ADMIN_ADDRESS";
const PORT: u16 = 18001;

/// The pod to ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    /// Of its admin server.
    pub(super) port: u16,
}

/// Finds the leader, since it alone also knows what became of the proxies' objects; else any that is ready.
pub(super) async fn find(client: &Client, namespace: &str, request_timeout: Duration) -> anyhow::Result<Found> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let lease = answered(timeout(request_timeout, leases.get_opt(LEASE)).await);
    // Who may not read it can still ask any other.
    let lease = match lease {
        Err(error) if !matches!(error.downcast_ref(), Some(Unusable(Refusal::Forbidden(_)))) => return Err(error),
        lease => lease.ok().flatten(),
    };
    let leader = lease.and_then(|lease| lease.spec?.holder_identity).filter(|name| !name.is_empty());
    if let Some(leader) = leader {
        let pod = answered(timeout(request_timeout, pods.get_opt(&leader)).await)?;
        if let Some(pod) = pod.filter(is_ready) {
            return Ok(Found { name: leader, port: admin_port(&pod) });
        }
    }
    let listed = answered(timeout(request_timeout, pods.list(&ListParams::default().labels(SELECTOR))).await)?;
    choose(&listed.items, namespace)
}

fn answered<T>(answer: Result<kube::Result<T>, tokio::time::error::Elapsed>) -> anyhow::Result<T> {
    match answer {
        Ok(answer) => answer.map_err(|error| Unusable::of(&error)),
        Err(_) => bail!(Unusable(Refusal::Unreached("the API server does not answer in time".to_owned()))),
    }
}

fn choose(pods: &[Pod], namespace: &str) -> anyhow::Result<Found> {
    let mut ready: Vec<_> = pods.iter().filter(|pod| is_ready(pod)).collect();
    ready.sort_by_key(|pod| pod.metadata.name.clone());
    let name = |pod: &Pod| pod.metadata.name.clone();
    match (ready.first(), pods.len()) {
        (Some(pod), _) => Ok(Found { name: name(pod).unwrap_or_default(), port: admin_port(pod) }),
        (None, 0) => bail!(
            "no controller runs in namespace {namespace}: install one with helm install portcullis charts/portcullis \
             --namespace {namespace}"
        ),
        (None, count) => bail!(
            "of {count} pods of the controller in namespace {namespace} none is ready: see why with kubectl -n {namespace} get \
             pods"
        ),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready" && condition.status == "True");
    pod.metadata.deletion_timestamp.is_none() && ready.next().is_some()
}

/// The port of the admin server, by the arguments and variables of a container, or by default.
fn admin_port(pod: &Pod) -> u16 {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let address = containers.find_map(admin_address);
    address.and_then(|address| address.rsplit_once(':')?.1.parse().ok()).unwrap_or(PORT)
}

fn admin_address(container: &Container) -> Option<&str> {
    let mut words = container.command.iter().flatten().chain(container.args.iter().flatten());
    let by_flag = words.find_map(|word| match word.strip_prefix(FLAG) {
        Some("") => Some(None),
        Some(rest) => rest.strip_prefix('=').map(Some),
        None => None,
    });
    match by_flag {
        Some(Some(address)) => Some(address),
        Some(None) => words.next().map(String::as_str),
        None => container.env.iter().flatten().find(|env| env.name == VARIABLE)?.value.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: &str, container: &serde_json::Value) -> Pod {
        let mut container = container.clone();
        container["name"] = "portcullis".into();
        let pod = json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "name": "sidecar" }, container] },
            "status": { "conditions": [{ "type": "Ready", "status": ready }] },
        });
        serde_json::from_value(pod).expect("a pod")
    }

    #[test]
    fn the_port_is_the_one_that_the_container_is_given() {
        for (container, port) in [
            (json!({ "args": ["run", "--admin-address=127.0.0.1:9979"] }), 9979),
            (json!({ "args": ["run", "--admin-address", "[::1]:7"] }), 7),
            (json!({ "command": ["portcullis", "run", "--admin-address=127.0.0.1:8"] }), 8),
            (json!({ "env": [{ "name": VARIABLE, "value": "127.0.0.1:9" }] }), 9),
            (json!({ "args": ["run"] }), PORT),
            (json!({ "args": ["run", "--admin-address"] }), PORT),
        ] {
            assert_eq!(admin_port(&pod("a", "True", &container)), port, "{container}");
        }
    }

    #[test]
    fn any_replica_is_asked_that_is_ready() {
        let container = json!({});
        let pods = [pod("b", "True", &container), pod("a", "False", &container), pod("c", "True", &container)];
        assert_eq!(choose(&pods, "home").expect("one is ready").name, "b");
        let mut leaving = pods[0].clone();
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2020-01-01T00:00:00Z")).expect("a time");
        assert!(choose(&[leaving], "home").expect_err("it goes").to_string().contains("none is ready"));
        assert!(
            choose(&[], "home")
                .expect_err("there is none")
                .to_string()
                .contains("no controller runs in namespace home")
        );
    }
}
