//! The name that a client asks for in TLS, against the host that it asks for in HTTP.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Connection, Protocol, Request};
use serde_json::json;
use worlds::tenant::{HEALTHY, OWNED_HOST};

use crate::estate::Estate;

/// A host of the tenant's, on the listener for all of the domain.
const HIS: &str = "his.example.com";

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_in_tls_for_a_tenant_reaches_no_route_of_another_listener_and_is_told_421() -> Result<()> {
    let mut estate = Estate::start().await?;
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "r0", "namespace": "evil"},
        "spec": {
            "parentRefs": [{"name": "shared", "namespace": "infra", "sectionName": "wild-tls"}],
            "hostnames": [HIS, OWNED_HOST],
            "rules": [{"filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": "his.test"}}]}],
        },
    });
    estate.written("tenant.json", &[route]).await?;
    let trailing = format!("{OWNED_HOST}.");
    let with_port = format!("{OWNED_HOST}:443");
    let upper = OWNED_HOST.to_uppercase();
    let rows = [
        // Server name, host, and what comes of it.
        (Some(OWNED_HOST), OWNED_HOST, 200),
        (Some(upper.as_str()), OWNED_HOST, 200),
        (Some(OWNED_HOST), upper.as_str(), 200),
        (Some(OWNED_HOST), with_port.as_str(), 200),
        (Some(HIS), HIS, 302),
        // On a connection to one listener nobody gets what is another's.
        (Some(HIS), OWNED_HOST, 421),
        (Some(HIS), upper.as_str(), 421),
        (Some(HIS), with_port.as_str(), 421),
        (Some(OWNED_HOST), HIS, 421),
        (Some("nobody.example.com"), OWNED_HOST, 421),
    ];
    let before = estate.backend.total();
    let mut reached = 0;
    for protocol in [Protocol::Http1, Protocol::H2] {
        for (server_name, host, expected) in rows {
            let target = estate.over_tls(server_name, protocol);
            let words = || format!("{protocol:?}, server name {server_name:?}, host {host}");
            let mut connection = Connection::open(&target).await.with_context(words)?;
            let answer = connection.send(&Request::get(host, HEALTHY)).await.with_context(words)?;
            ensure!(answer.status == expected, "{}: {} and not {expected}", words(), answer.status);
            reached += usize::from(expected == 200);
        }
        // A host that is not quite the victim's may be refused in any way, but not served.
        let mut connection = Connection::open(&estate.over_tls(Some(HIS), protocol)).await?;
        let answer = connection.send(&Request::get(&trailing, HEALTHY)).await?;
        ensure!(answer.echoed.is_none(), "{trailing} is served to who asked for {HIS}");
        // Nobody serves names outside of the domain, or none.
        for server_name in [None, Some("elsewhere.test")] {
            let opened = Connection::open(&estate.over_tls(server_name, protocol)).await;
            ensure!(opened.is_err(), "server name {server_name:?} is let in");
        }
    }
    let seen = estate.backend.total() - before;
    ensure!(seen == reached, "{seen} requests reached the victim's backend, and not {reached}");
    estate.is_unharmed().await
}
