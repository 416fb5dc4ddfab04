//! The configuration of the second Envoy, which ends the first (see the crate's documentation).

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};

use super::Rendering;

/// The configuration; none where proxies are to end at once.
pub(super) fn drain(plan: &Rendering<'_>) -> Option<String> {
    let time = time(plan)?;
    // Sockets without a file, which only this pod sees; unless pods share the network of their node, where each Gateway
    // has its own.
    let own = &blake3::hash(plan.plan.uid.as_bytes()).to_hex()[..16];
    let socket = |name: &str| json!({"pipe": {"path": format!("@portcullis-drain-{name}-{own}")}});
    Some(configuration(plan.settings.admin, &socket("admin"), &socket("delay"), time).to_string())
}

/// How long a proxy drains before it ends; none where it is to end at once.
pub(super) fn time(plan: &Rendering<'_>) -> Option<Duration> {
    let shutdown = &plan.plan.parameters.kube.pod_template.graceful_shutdown;
    if shutdown.enabled == Some(false) {
        return None;
    }
    let asked = shutdown.sleep_time_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    Some(asked.unwrap_or(plan.settings.drain)).filter(|time| !time.is_zero())
}

/// `admin` is the second Envoy's own admin interface, and `delay` the listener that delays what goes there.
fn configuration(proxy: SocketAddr, admin: &Value, delay: &Value, time: Duration) -> Value {
    let proxy = json!({"socket_address": {"address": proxy.ip().to_string(), "port_value": proxy.port()}});
    let hcm = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "delay",
        "route_config": {"virtual_hosts": [{
            "name": "end",
            "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "self", "timeout": "0s"}}],
        }]},
        "stream_idle_timeout": "0s",
        "http_filters": [
            {"name": "delay", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
                "delay": {"fixed_delay": seconds(time), "percentage": {"numerator": 100}},
            }},
            {"name": "router", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            }},
        ],
    });
    json!({
        "node": {"id": "drain", "cluster": "drain"},
        "admin": {"address": admin},
        "static_resources": {
            "listeners": [{
                "name": "delay",
                "address": delay,
                "filter_chains": [{"filters": [{"name": "http", "typed_config": hcm}]}],
            }],
            "clusters": [
                cluster("self", admin, None),
                // Again each second, in case that the proxy has no time for the first.
                cluster("proxy", &proxy, Some(&posting("/healthcheck/fail", Duration::from_secs(1)))),
                cluster("end", delay, Some(&posting("/quitquitquit", time + Duration::from_mins(1)))),
            ],
        },
    })
}

fn cluster(name: &str, address: &Value, health_check: Option<&Value>) -> Value {
    let mut cluster = json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
    });
    if let Some(health_check) = health_check {
        cluster["health_checks"] = json!([health_check]);
    }
    cluster
}

/// A health check is the one request that Envoy makes on its own and whose method is ours to say.
fn posting(path: &str, timeout: Duration) -> Value {
    json!({
        "timeout": seconds(timeout),
        "interval": "1s",
        "no_traffic_interval": "1s",
        "healthy_threshold": 1,
        "unhealthy_threshold": 1,
        "http_health_check": {"host": "localhost", "path": path, "method": "POST"},
    })
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs())
}
