//! What a login costs a request of somebody who is in: at a real OpenID provider, whom none of these requests reaches.

use anyhow::{Context, Result, ensure};
use portcullis_tests::{
    client::{Request, Target, send},
    echo::Echo,
    envoy::Envoy,
    objects::{self, Route},
    openid::{Browser, CLIENT, OpenId, SECRET},
    portcullis::Portcullis,
    ports,
    wait::{TIMEOUT, eventually},
};

use crate::of_requests;

const HOST: &str = "plain.example";

/// A route, and what the extension of its login says besides; none for a route without a login.
const ROUTES: [(&str, Option<&str>); 3] =
    [("nothing", None), ("oauth2", Some("")), ("oauth2-jwt", Some("jwt: {jwksURI: 'KEYS', idToken: {}}"))];

/// A route at a path of its name, and what guards it.
fn manifests(name: &str, login: Option<&str>, provider: &OpenId) -> String {
    let rules = format!("  - {{matches: [{{path: {{value: /{name}}}}}], backendRefs: [{{name: backend, port: 80}}]}}");
    let route = Route { name, hosts: HOST, rules: &rules, ..Route::default() };
    let Some(more) = login else { return route.to_string() };
    let port = provider.port();
    let more = more.replace("KEYS", &format!("https://localhost:{port}/keys"));
    format!(
        "{route}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: GatewayExtension
metadata: {{namespace: infra, name: {name}}}
spec:
  oauth2:
    backendRef: {{name: openid, port: 80}}
    authorizationEndpoint: https://localhost:{port}/auth
    tokenEndpoint: https://localhost:{port}/oauth/token
    redirectURI: 'http://{HOST}/{name}/back'
    scopes: [openid, profile]
    credentials: {{clientID: {CLIENT}, clientSecretRef: {{name: client}}}}
    {more}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{namespace: infra, name: {name}}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}]
  oauth2: {{extensionRef: {{name: {name}}}}}
"
    )
}

/// The request of somebody who has logged in where that is asked for.
async fn request(target: &Target, name: &str, login: bool, provider: &OpenId) -> Result<Request> {
    let (path, mut browser) = (format!("/{name}"), Browser::new(target.clone(), HOST));
    let first = if login { 302 } else { 200 };
    eventually(TIMEOUT, async || {
        let answer = send(target, &browser.request(&path)).await?;
        ensure!(answer.status == first, "{path} answers {} {}", answer.status, answer.body);
        Ok(())
    })
    .await?;
    if login {
        let back = browser.log_in(provider, &path).await?;
        let answer = browser.get(&back).await?;
        ensure!(answer.status == 302, "{back} answers {} {}", answer.status, answer.body);
    }
    Ok(browser.request(&path))
}

/// Prints what so many requests of each take, above those of a route that anybody may ask.
pub(crate) async fn print_logins(echo: &Echo, count: u32) -> Result<()> {
    let backs = ROUTES.map(|(name, _)| format!("http://{HOST}/{name}/back"));
    let provider = OpenId::start(&backs.each_ref().map(String::as_str)).await?;
    let port = ports::free_port()?;
    let openid = objects::service_at("openid", provider.target().address);
    let client = format!(
        "
---
apiVersion: v1
kind: Secret
metadata: {{namespace: infra, name: client}}
stringData: {{client-secret: {SECRET}}}
"
    );
    let files = [
        ("a-gateway.yaml", objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")])),
        ("b-services.yaml", objects::service("backend", echo) + &openid),
        ("c-client.yaml", client),
        ("d-routes.yaml", ROUTES.map(|(name, login)| manifests(name, login, &provider)).concat()),
    ];
    let portcullis = Portcullis::start(&files.map(|(name, content)| (name.to_owned(), content))).await?;
    let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let target = Target::local(port);
    println!(
        "\n{:<28} {:>11} {:>11} {:>11} {:>11} {:>11}",
        "a login, to a backend", "a request", "p50", "p99", "p50 more", "p99 more"
    );
    let mut nothing = None;
    for (name, login) in ROUTES {
        let request = request(&target, name, login.is_some(), &provider).await.with_context(|| name)?;
        of_requests(&envoy, &target, &request, count.div_ceil(10)).await?;
        let [time, p50, p99] = of_requests(&envoy, &target, &request, count).await.with_context(|| name)?;
        let [_, p50_of_none, p99_of_none] = *nothing.get_or_insert([time, p50, p99]);
        println!(
            "{name:<28} {time:>8.1} us {p50:>8.1} us {p99:>8.1} us {:>8.1} us {:>8.1} us",
            p50 - p50_of_none,
            p99 - p99_of_none
        );
    }
    Ok(())
}
