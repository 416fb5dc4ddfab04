//! Sessions of several routes on one host.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{self, Request, Response};
use portcullis_tests::echo::Echo;
use portcullis_tests::objects::service;

use crate::manifests::{rule, rules};
use crate::stage::{Finding, Stage};

/// The cookie that a response sets: name and value, and its path.
fn cookie(response: &Response) -> Result<(String, String)> {
    let set = response.header("set-cookie").with_context(|| format!("no cookie: {response:?}"))?;
    let (pair, attributes) = set.split_once(';').context("no attributes")?;
    let path = attributes.split(';').find_map(|attribute| attribute.trim().strip_prefix("Path="));
    Ok((pair.to_owned(), path.context("no path")?.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_two_routes_of_a_host_hold_beside_each_other() -> Result<()> {
    let local = || ([127, 0, 0, 1], 0).into();
    let backends = [Echo::start("a", local()).await?, Echo::start("b", local()).await?];
    let mut stage = Stage::start().await?;
    let session = "sessionPersistence: {type: Cookie}, backendRefs: [{name: a, port: 80}, {name: b, port: 80}]";
    let route = |name: &str, matching: &str| {
        let rule = rule(matching).replace("backendRefs: [{name: backend, port: 80}]", session);
        rules(name, "sessions.example", &rule)
    };
    let manifests = [
        service("a", &backends[0]),
        service("b", &backends[1]),
        route("cart", "{path: {value: /cart}}"),
        route("orders", "{path: {value: /orders}}"),
        route("evil", "{path: {value: '/evil;Domain=example'}}"),
    ];
    stage.write(&manifests.concat()).await?;
    for path in ["/cart", "/orders", "/evil;Domain=example"] {
        stage.answers("sessions.example", path, 200).await?;
    }
    let begin = async |path: &str| -> Result<(String, String, String)> {
        let response = client::send(stage.http(), &Request::get("sessions.example", path)).await?;
        let (pair, sent_for) = cookie(&response)?;
        Ok((pair, sent_for, response.echoed.context("no backend answered")?.endpoint))
    };
    let (cart, cart_path, cart_endpoint) = begin("/cart/1?x=1").await?;
    let (orders, orders_path, orders_endpoint) = begin("/orders").await?;
    ensure!((&*cart_path, &*orders_path) == ("/cart", "/orders"), "{cart_path} and {orders_path}");
    let name = |pair: &str| pair.split('=').next().map(str::to_owned);
    ensure!(name(&cart) != name(&orders), "{cart} and {orders} overwrite each other");
    // A client that sends whatever it was ever given, as one that knows no paths would.
    for _ in 0..8 {
        for (path, endpoint) in [("/cart/1?x=1", &cart_endpoint), ("/orders?y", &orders_endpoint)] {
            let request = Request::get("sessions.example", path).header("cookie", &format!("{cart}; {orders}"));
            let response = client::send(stage.http(), &request).await?;
            let came_to = response.echoed.context("no backend answered")?.endpoint;
            ensure!(came_to == *endpoint, "a session of {endpoint} at {path} came to {came_to}");
        }
    }
    let (_, sent_for, _) = begin("/evil;Domain=example").await?;
    ensure!(sent_for == "/", "a path must not write attributes: {sent_for}");
    stage.is_unharmed().await?;
    let words = ["no access control", "weight 0", "leave out backends"];
    let warning = |object| Finding {
        severity: "warning",
        object,
        field: "spec.rules[0].sessionPersistence",
        at: "",
        words: &words,
    };
    let objects = ["HTTPRoute infra/cart", "HTTPRoute infra/orders", "HTTPRoute infra/evil"];
    stage.reports(&objects.map(warning)).await
}
