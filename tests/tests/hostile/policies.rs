//! TrafficPolicies of one tenant: what they have a proxy do to others.

use anyhow::{Result, ensure};
use portcullis_tests::client::{self, Request};

use crate::manifests::{rule, rules};
use crate::stage::{Finding, Stage};

/// A route of `HOST.example` with a policy that says this.
fn route(name: &str, says: &str) -> String {
    format!(
        "{}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {{namespace: infra, name: {name}}}
spec:
  targetRefs: [{{group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name}}}]
  {says}
",
        rules(name, &format!("{name}.example"), &rule("{path: {value: /}}"))
    )
}

/// A policy that says this is refused at `field` in these words; its own rule is closed, and nobody else's.
async fn refuses(stage: &mut Stage, says: &str, field: &str, words: &str) -> Result<()> {
    stage.write(&route("evil", says)).await?;
    stage.answers("evil.example", "/", 500).await?;
    let (object, rule) = ("HTTPRoute infra/evil", "spec.rules[0]");
    let replaced = Finding { severity: "replaced", object, field: rule, at: "", words: &["evil"] };
    let refused = Finding { severity: "refused", object: "TrafficPolicy infra/evil", field, at: "", words: &[words] };
    stage.reports(&[replaced, refused]).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_make_no_statistics_of_their_own_at_a_route_with_faults() -> Result<()> {
    const NAMES: u32 = 50;
    let mut stage = Stage::start().await?;
    stage.write(&route("evil", "faultInjection: {abort: {httpStatus: 418}, delay: {fixedDelay: 1ms}}")).await?;
    stage.answers("evil.example", "/", 418).await?;
    let before = stage.envoy().stats().await?.len();
    for name in 0..NAMES {
        // The header by which Envoy would count for each who asks.
        let request = Request::get("evil.example", "/")
            .header("x-envoy-downstream-service-cluster", &format!("whoever-{name}"))
            .header("x-envoy-downstream-service-node", &format!("whoever-{name}"));
        let response = client::send(stage.http(), &request).await?;
        ensure!(response.status == 418, "{response:?}");
    }
    let after = stage.envoy().stats().await?;
    ensure!(after.keys().all(|name| !name.contains("whoever")), "clients name statistics");
    ensure!(after.len() < before + NAMES as usize, "{before} statistics became {}", after.len());
    stage.is_unharmed().await?;
    stage.reports(&[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_for_origins_take_no_more_time_than_a_rule_may() -> Result<()> {
    let mut stage = Stage::start().await?;
    let slow =
        "csrf: {percentageEnabled: 100, additionalOrigins: [{safeRegex: '.*a[ab]{300}c'}, {exact: evil.example}]}";
    stage.write(&route("evil", slow)).await?;
    stage.answers("evil.example", "/", 500).await?;
    let words = ["expressions", "of a request's time", "simplify"];
    let replaced =
        Finding { severity: "replaced", object: "HTTPRoute infra/evil", field: "spec.rules[0]", at: "", words: &words };
    let refused =
        Finding { severity: "refused", object: "TrafficPolicy infra/evil", field: "spec.csrf", at: "", words: &words };
    stage.reports(&[replaced, refused]).await?;
    stage.is_unharmed().await?;
    // One that is decided quickly is served.
    stage
        .write(&route(
            "evil",
            "csrf: {percentageEnabled: 100, additionalOrigins: [{safeRegex: '[a-z]{1,50}[.]example'}]}",
        ))
        .await?;
    stage.answers("evil.example", "/", 200).await?;
    stage.is_unharmed().await?;
    stage.reports(&[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_within_the_proxy_meets_the_policies_of_the_route_that_it_leads_to() -> Result<()> {
    let mut stage = Stage::start().await?;
    let evil = route("evil", "internalRedirect: {redirectResponseCodes: [301, 302, 303, 307, 308]}");
    // Stands for whatever lets nobody through.
    let guarded = route("guarded", "faultInjection: {abort: {httpStatus: 403}}");
    stage.write(&format!("{evil}---\n{guarded}")).await?;
    stage.answers("guarded.example", "/", 403).await?;
    for status in [302, 307] {
        let path = format!("/?status={status}&header=location:http://guarded.example/");
        stage.answers("evil.example", &path, 403).await?;
    }
    stage.is_unharmed().await?;
    stage.reports(&[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_within_the_proxy_says_nothing_that_a_client_could_not() -> Result<()> {
    let mut stage = Stage::start().await?;
    for name in ["x-envoy-upstream-alt-stat-name", "x-forwarded-for", "x_user"] {
        let says = format!("internalRedirect: {{responseHeadersToCopy: [{name}]}}");
        refuses(&mut stage, &says, "spec.internalRedirect.responseHeadersToCopy[0]", "a client cannot send it").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_policy_winds_back_how_often_a_request_came_or_frames_a_message() -> Result<()> {
    let mut stage = Stage::start().await?;
    for (says, field) in [
        ("headerModifiers: {request: {remove: [CDN-Loop]}}", "spec.headerModifiers.request.remove[0]"),
        ("headerModifiers: {request: {set: [{name: cdn-loop, value: a}]}}", "spec.headerModifiers.request.set[0].name"),
        (
            "headerModifiers: {request: {add: [{name: Transfer-Encoding, value: chunked}]}}",
            "spec.headerModifiers.request.add[0].name",
        ),
        ("internalRedirect: {responseHeadersToCopy: [cdn-loop]}", "spec.internalRedirect.responseHeadersToCopy[0]"),
        (
            "internalRedirect: {responseHeadersToCopy: [content-length]}",
            "spec.internalRedirect.responseHeadersToCopy[0]",
        ),
    ] {
        refuses(&mut stage, says, field, "leave it to Envoy").await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_two_hosts_are_counted_apart_under_one_prefix() -> Result<()> {
    let mut stage = Stage::start().await?;
    let [evil, other] = ["evil", "other"].map(|name| route(name, "statPrefix: \"all.{{rule_name}}\""));
    stage.write(&format!("{evil}---\n{other}")).await?;
    for host in ["evil.example", "other.example", "evil.example"] {
        stage.answers(host, "/", 200).await?;
    }
    let counted = async |host: &str| {
        let stats = stage.envoy().stats().await?;
        let names =
            stats.iter().filter(|(name, _)| name.contains(host) && name.ends_with(".route.all.upstream_rq_total"));
        anyhow::Ok(names.map(|(_, count)| *count).collect::<Vec<_>>())
    };
    let both = (counted("evil.example").await?, counted("other.example").await?);
    ensure!(both == (vec![2], vec![1]), "{both:?}");
    stage.is_unharmed().await?;
    stage.reports(&[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_that_cost_others_or_could_not_be_judged_are_refused() -> Result<()> {
    let mut stage = Stage::start().await?;
    let rbac = |action: &str, expression: &str| {
        format!("rbac: {{action: {action}, policy: {{matchExpressions: [\"{expression}\"]}}}}")
    };
    let (all, first) = ("spec.rbac.policy.matchExpressions", "spec.rbac.policy.matchExpressions[0]");
    let nested = "(".repeat(1_000) + "true" + &")".repeat(1_000);
    let searches = vec!["request.path.contains('a')"; 17].join(" || ");
    for (says, field, words) in [
        (rbac("Allow", &"a".repeat(65_536)), all, "65536 bytes"),
        (rbac("Allow", &nested), first, "deep"),
        (rbac("Allow", &"!".repeat(8_000)), first, "deep"),
        (rbac("Allow", &("true".to_owned() + &"||true".repeat(600))), first, "512 parts"),
        (rbac("Allow", &searches), all, "contains()"),
        (rbac("Allow", "request.path.matches('[a-z]{1,99}[a-z]{1,99}')"), first, "100 instructions"),
        // Envoy would refuse all of its configuration.
        (rbac("Allow", "request.path.substring(1) == 'a'"), first, "substring()"),
        (rbac("Allow", "[1].exists(x, x == 1)"), first, "exists()"),
        // Envoy would let these requests through.
        (rbac("Deny", "request.headers['x-token'] != 'a'"), first, "would be let through"),
        (rbac("Deny", "int(request.headers['x-age']) < 18"), first, "would be let through"),
        (rbac("Deny", "request.body == 'a'"), first, "no field body"),
    ] {
        refuses(&mut stage, &says, field, words).await?;
    }
    let ranges: Vec<_> = (0..1_025).map(|index| format!("10.{}.{}.0/24", index / 256, index % 256)).collect();
    let acl = |ranges: &str| format!("acl: {{defaultAction: allow, rules: [{{cidrs: [{ranges}], action: deny}}]}}");
    refuses(&mut stage, &acl(&ranges.join(", ")), "spec.acl.rules", "1024 are the most").await?;
    let mapped = "'::ffff:10.0.0.0/104'";
    refuses(&mut stage, &acl(mapped), "spec.acl.rules[0].cidrs[0]", "write 10.0.0.0/8").await
}
