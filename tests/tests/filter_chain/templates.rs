//! What becomes of a response that a template cannot change.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Protocol, Request, Target, send};
use portcullis_tests::echo::{Echo, RESPOND};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::wait::{TIMEOUT, eventually};
use portcullis_tests::{objects, ports};

use super::guards::policy;
use super::{HOST, route};

#[tokio::test(flavor = "multi_thread")]
async fn of_a_response_that_a_template_cannot_change_nothing_goes_on_trailers_included() -> Result<()> {
    let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
    let port = ports::free_port()?;
    let backend =
        objects::service("backend", &echo).replace("{port: 80}", "{port: 80, appProtocol: kubernetes.io/h2c}");
    let files = [
        ("a-gateway.yaml", objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")])),
        ("b-backend.yaml", backend),
        ("policy.yaml", String::new()),
        ("route.yaml", route("")),
    ];
    let portcullis = Portcullis::start(&files.map(|(name, content)| (name.to_owned(), content))).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let target = Target { protocol: Protocol::H2, ..Target::local(port) };
    // A line break, which no header may have.
    let respond = r#"{"headers": [["x-to", "YQpi"]], "trailers": [["x-end", "of the backend"]]}"#;
    let request = Request::get(HOST, "/").header(RESPOND, respond);
    let before = eventually(TIMEOUT, async || {
        let response = send(&target, &request).await?;
        ensure!(response.status == 200, "{}", response.status);
        Ok(response)
    });
    let before = before.await.with_context(|| portcullis.log_tail())?;
    ensure!(before.trailers == [("x-end".to_owned(), "of the backend".to_owned())], "{:?}", before.trailers);

    let template = "transformation: {response: {set: [{name: x-out, value: \"{{ base64_decode(header('x-to')) }}\"}]}}";
    portcullis.write("policy.yaml", &policy(template))?;
    let after = eventually(TIMEOUT, async || {
        let response = send(&target, &request).await?;
        ensure!(response.status == 500, "{}", response.status);
        Ok(response)
    });
    let after = after.await.with_context(|| portcullis.log_tail())?;
    ensure!(after.body.is_empty() && after.header("x-to").is_none(), "{after:?}");
    ensure!(after.trailers.is_empty(), "{:?}", after.trailers);
    envoy.check().await
}
