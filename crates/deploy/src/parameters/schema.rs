//! The schema of `GatewayParameters`. What Kubernetes defines stays JSON, once it is known to decode.

use std::{collections::BTreeMap, marker::PhantomData, ops::Deref};

use k8s_openapi::api::core::v1 as core;
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error as _};
use serde_json::Value;

use crate::check;

/// Texts by name.
pub(crate) type Texts = BTreeMap<String, String>;
/// Texts by name, where none removes.
pub(super) type Removals = BTreeMap<String, Option<String>>;

/// JSON that decodes as `T`.
#[derive(Debug)]
pub(crate) struct Probed<T> {
    value: Value,
    of: PhantomData<fn() -> T>,
}

impl<T> Deref for Probed<T> {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

// Derived, these would be asked of `T` as well.
impl<T> Clone for Probed<T> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), of: PhantomData }
    }
}

impl<T> PartialEq for Probed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> Eq for Probed<T> {}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Probed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match check::decode::<T>(&value) {
            Ok(_) => Ok(Self { value, of: PhantomData }),
            Err((path, message)) if path.is_empty() => Err(D::Error::custom(message)),
            Err((path, message)) => Err(D::Error::custom(format!("{path}: {message}"))),
        }
    }
}

/// Declares structs that refuse what they do not know and of which everything may be left out.
macro_rules! objects {
    ($($(#[$attribute:meta])* $visibility:vis struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
            #[serde(default, rename_all = "camelCase", deny_unknown_fields)]
            #[allow(clippy::struct_field_names, reason = "fields are called as in the schema")]
            $visibility struct $name { $($(#[$of_field])* pub(crate) $field: $type,)* }
        )*
    };
}

objects! {
    pub(super) struct Spec {
        kube: Option<Kube>,
        self_managed: Option<BTreeMap<String, Value>>,
    }

    pub(crate) struct Kube {
        deployment: Deployment,
        envoy_container: Container,
        sds_container: Option<Value>,
        istio: Option<Value>,
        pod_template: Pod,
        service: Service,
        service_account: Extra,
        stats: Stats,
        omit_default_security_context: bool,
    }

    pub(crate) struct Deployment {
        replicas: Option<u32>,
        strategy: Strategy,
    }

    pub(crate) struct Strategy {
        r#type: Option<String>,
        rolling_update: RollingUpdate,
    }

    pub(crate) struct RollingUpdate {
        max_surge: Option<Value>,
        max_unavailable: Option<Value>,
    }

    pub(crate) struct Container {
        bootstrap: Bootstrap,
        env: Vec<Probed<core::EnvVar>>,
        extra_args: Vec<String>,
        extra_volume_mounts: Vec<Probed<core::VolumeMount>>,
        image: Image,
        resources: Resources,
        security_context: Option<Probed<core::SecurityContext>>,
    }

    pub(crate) struct Bootstrap {
        component_log_levels: Texts,
        dns_resolver: DnsResolver,
        enable_readiness_probe_proxy_protocol: bool,
        log_format: Option<LogFormat>,
        log_level: Option<String>,
    }

    pub(crate) struct DnsResolver {
        udp_max_queries: Option<u32>,
    }

    pub(crate) struct LogFormat {
        json: Option<BTreeMap<String, Value>>,
        text: Option<String>,
    }

    pub(crate) struct Image {
        registry: Option<String>,
        repository: Option<String>,
        tag: Option<String>,
        digest: Option<String>,
        pull_policy: Option<String>,
    }

    pub(crate) struct Resources {
        limits: BTreeMap<String, Value>,
        requests: BTreeMap<String, Value>,
        claims: Vec<Probed<core::ResourceClaim>>,
    }

    pub(crate) struct Pod {
        affinity: Option<Probed<core::Affinity>>,
        extra_annotations: Texts,
        extra_labels: Texts,
        extra_volumes: Vec<Probed<core::Volume>>,
        graceful_shutdown: GracefulShutdown,
        image_pull_secrets: Vec<Probed<core::LocalObjectReference>>,
        liveness_probe: Option<Probed<core::Probe>>,
        node_selector: Texts,
        priority_class_name: Option<String>,
        readiness_probe: Option<Probed<core::Probe>>,
        security_context: Option<Probed<core::PodSecurityContext>>,
        startup_probe: Option<Probed<core::Probe>>,
        termination_grace_period_seconds: Option<u32>,
        tolerations: Vec<Probed<core::Toleration>>,
        topology_spread_constraints: Option<Vec<Probed<core::TopologySpreadConstraint>>>,
    }

    pub(crate) struct GracefulShutdown {
        enabled: Option<bool>,
        sleep_time_seconds: Option<u32>,
    }

    pub(crate) struct Service {
        #[serde(rename = "clusterIP")]
        cluster_ip: Option<String>,
        external_traffic_policy: Option<String>,
        extra_annotations: Texts,
        extra_labels: Texts,
        load_balancer_class: Option<String>,
        load_balancer_source_ranges: Vec<String>,
        ports: Vec<NodePort>,
        r#type: Option<String>,
    }

    pub(crate) struct NodePort {
        port: u16,
        node_port: Option<u16>,
    }

    pub(crate) struct Extra {
        extra_annotations: Texts,
        extra_labels: Texts,
    }

    pub(crate) struct Stats {
        enabled: Option<bool>,
        enable_stats_route: bool,
        matcher: Option<Matcher>,
        route_prefix_rewrite: Option<String>,
        stats_route_prefix_rewrite: Option<String>,
    }

    pub(crate) struct Matcher {
        exclusion_list: Option<Vec<StringMatch>>,
        inclusion_list: Option<Vec<StringMatch>>,
    }

    pub(crate) struct StringMatch {
        contains: Option<String>,
        exact: Option<String>,
        ignore_case: bool,
        prefix: Option<String>,
        safe_regex: Option<String>,
        suffix: Option<String>,
    }

    pub(super) struct Metadata {
        annotations: Removals,
        labels: Removals,
    }
}
