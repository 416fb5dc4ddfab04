//! What a Gateway shows to backends, as its `spec.tls.backend` says.

use super::*;

/// A Gateway that shows the certificate in Secret `shown`, with routes to Service `backend` and, below `/plain`, to Service `clear`.
async fn start(backend: &Echo, clear: &Echo, more: &str) -> Result<World> {
    let port = ports::free_port()?;
    let gateway = objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")]);
    let rules = "  - backendRefs: [{name: backend, port: 80}]
  - {matches: [{path: {type: PathPrefix, value: /plain}}], backendRefs: [{name: clear, port: 80}]}";
    let route = objects::Route { name: "route", rules, ..Default::default() };
    let services = format!("{}{}", service("backend", backend), service("clear", clear));
    let base = format!("{gateway}  tls: {{backend: {{clientCertificateRef: {{name: shown}}}}}}\n{services}{route}");
    let portcullis = Portcullis::start(&[file("base.yaml", &base), file("more.yaml", more)]).await?;
    let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    Ok(World { portcullis, envoy, target: Target::local(port) })
}

fn tls_policy() -> &'static str {
    "
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: infra, name: p}
spec:
  targetRefs: [{group: '', kind: Service, name: backend}]
  validation: {hostname: backend.example, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}
"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_shows_its_certificate_to_who_demands_it_or_sends_nothing() -> Result<()> {
    let names = ["backend.example".to_owned()];
    let [server, shown, other] = [(), (), ()].map(|()| Certificate::new(&names, KeyKind::Ecdsa));
    let (server, shown, other) = (server?, shown?, other?);
    let echo = Echo::start_tls("backend", (LOOPBACK, 0).into(), server.server(Some(&shown))?).await?;
    let clear = Echo::start("clear", (LOOPBACK, 0).into()).await?;
    let ca = objects::authorities("ca", &[&server.certificate]);
    let secret = |of: &Certificate| objects::secret("shown", &of.certificate, &of.key);
    // Each request shows it anew.
    let once = "commonHttpProtocolOptions: {maxRequestsPerConnection: 1}";
    let verified = format!("{}{ca}{}", tls_policy(), policy(once));
    let configured = |more: &str| {
        let tls = format!("tls: {{secretRef: {{name: trust}}, sni: backend.example{more}}}");
        format!("{}{}", policy(&format!("{tls}\n  {once}")), trust(&server, ""))
    };
    let world = start(&echo, &clear, &format!("{verified}{}", secret(&shown))).await?;
    world.answers(200).await?;
    let clusters = world.portcullis.snapshot().await?.to_string();
    ensure!(clusters.contains("client-certificate"), "the certificate does not come by SDS");
    let line = shown.key.lines().nth(1).context("a key")?;
    ensure!(!clusters.contains(line), "a document shows the key");
    for (more, status) in [
        // Another one is shown at once, which nobody expects.
        (format!("{verified}{}", secret(&other)), 503),
        (format!("{verified}{}", secret(&shown)), 200),
        // None can be shown.
        (verified.clone(), 503),
        (format!("{}{}", configured(""), secret(&shown)), 200),
        (format!("{}{}", configured(", simpleTLS: true"), secret(&shown)), 503),
        (configured(""), 503),
        (format!("{verified}{}", secret(&shown)), 200),
    ] {
        world.portcullis.write("more.yaml", &more)?;
        world.answers(status).await.with_context(|| more.clone())?;
        let before = echo.count(any);
        world.answers(status).await?;
        ensure!((echo.count(any) > before) == (status == 200), "{status} under {more}");
        // What is not encrypted has nothing to do with it.
        let response = client::send(&world.target, &Request::get("example.com", "/plain")).await?;
        ensure!(response.status == 200, "{}", response.status);
    }
    world.portcullis.was_never_refused().await?;
    world.end().await
}
