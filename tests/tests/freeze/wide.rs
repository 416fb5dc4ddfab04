//! Gateways that keep the last good version of their policies.

use anyhow::{Context, Result, ensure};
use portcullis_tests::{
    client::{self, Request, Target},
    echo::Echo,
    envoy::Envoy,
    objects,
    portcullis::{Portcullis, run},
    ports,
    wait::{TIMEOUT, eventually},
};

use super::{GROUP, Place};

/// A route at a Gateway that asks for its policies to be kept, or does not.
pub(super) struct World {
    pub(super) portcullis: Portcullis,
    envoy: Envoy,
    http: Target,
    // Answers for as long as it lives.
    _echo: Echo,
}

const FREEZE: &str = ", annotations: {portcullis.dev/failure-mode: FreezeConfig}";

fn gateway(http: u16, more: &str) -> String {
    let gateway = objects::gateway(&[format!("{{name: http, port: {http}, protocol: HTTP}}")]);
    gateway.replace("name: gateway}", &format!("name: gateway{more}}}"))
}

/// A policy on a Gateway, or on its listener.
fn policy(name: &str, section: &str, spec: &str) -> String {
    format!(
        "---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{namespace: infra, name: {name}}}\n\
         spec:\n  targetRefs: [{{group: {GROUP}, kind: Gateway, name: gateway{section}}}]\n  {spec}\n"
    )
}

fn keys(of: &str) -> String {
    policy("keys", "", &format!("apiKeyAuth: {{secretRef: {{name: {of}}}}}"))
}

fn secret(name: &str, key: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{namespace: infra, name: {name}}}\nstringData: {{client: {key}}}\n"
    )
}

pub(super) fn header(value: &str) -> String {
    let set = format!("headerModifiers: {{response: {{set: [{{name: x-version, value: \"{value}\"}}]}}}}");
    policy("header", ", sectionName: http", &set)
}

impl World {
    pub(super) async fn start(place: &Place, policies: &str) -> Result<Self> {
        let echo = Echo::start("backend", ([127, 0, 0, 1], 0).into()).await?;
        let http = ports::free_port()?;
        let route = objects::Route {
            name: "route",
            hosts: "a.example",
            rules: "  - {backendRefs: [{name: backend, port: 80}]}\n",
            ..Default::default()
        };
        let files = [
            ("gateway.yaml", gateway(http, FREEZE)),
            ("rest.yaml", objects::service("backend", &echo) + &route.to_string()),
            ("secrets.yaml", secret("good", "right")),
            ("policies.yaml", policies.to_owned()),
        ];
        let files = files.map(|(name, content)| (name.to_owned(), content));
        let portcullis = Portcullis::start_with(&files, &place.arguments()).await?;
        let envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        Ok(Self { portcullis, envoy, http: Target::local(http), _echo: echo })
    }

    /// What is answered with this key, and the header that policies set.
    pub(super) async fn answers(&self, key: &str, status: u16, version: &str) -> Result<()> {
        eventually(TIMEOUT, async || {
            let response = client::send(&self.http, &Request::get("a.example", "/").header("api-key", key)).await?;
            let is = response.header("x-version").unwrap_or_default();
            ensure!(response.status == status && is == version, "{key}: {} with version {is:?}", response.status);
            anyhow::Ok(())
        })
        .await
        .with_context(|| self.portcullis.log_tail())
    }

    /// Whether those without the key are kept out, and who has it is let in.
    async fn is_guarded(&self, version: &str) -> Result<()> {
        self.answers("right", 200, version).await?;
        self.answers("wrong", 401, version).await
    }

    /// Waits until the status of an object of a kind has this.
    pub(super) async fn says(&self, kind: &str, words: &str) -> Result<()> {
        eventually(TIMEOUT, async || {
            let snapshot = self.portcullis.snapshot().await?;
            let statuses = snapshot["statuses"].as_array().context("no statuses")?;
            let mut of_kind = statuses.iter().filter(|status| status["kind"] == kind);
            ensure!(
                of_kind.any(|status| status.to_string().contains(words)),
                "{kind} does not say {words}: {statuses:?}"
            );
            anyhow::Ok(())
        })
        .await
        .with_context(|| self.portcullis.log_tail())
    }

    /// The edition from which the Gateway is served, by the word of its status.
    async fn edition(&self) -> Result<String> {
        let statuses = self.portcullis.snapshot().await?["statuses"].to_string();
        let mut named = statuses.split("edition ").filter_map(|rest| rest.split_once(" is served"));
        let (name, _) = named.find(|(name, _)| !name.contains(' ')).context("no edition is named")?;
        Ok(name.to_owned())
    }

    pub(super) async fn ends_well(mut self) -> Result<()> {
        self.portcullis.was_never_refused().await?;
        self.portcullis.check()?;
        self.envoy.check().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_of_a_gateway_that_break_guard_as_they_did_across_a_crash_until_they_are_mended() -> Result<()> {
    let place = Place::new()?;
    let mut world = World::start(&place, &(keys("good") + &header("1"))).await?;
    world.is_guarded("1").await?;
    world.says("Gateway", "\"Committed\"").await?;
    // A Secret that is not there, and a change that is sound and waits too.
    world.portcullis.write("policies.yaml", &(keys("bad") + &header("2")))?;
    world.says("Gateway", "\"PoliciesBroken\"").await?;
    world.says("TrafficPolicy", "\"ChangeWithheld\"").await?;
    world.is_guarded("1").await?;
    ensure!(world.portcullis.metric("portcullis_frozen_trees{reason=\"PoliciesBroken\"}").await? == Some(1.0));
    for _ in 0..2 {
        world.portcullis.crash().await?;
        world.portcullis.wait_until_ready().await?;
        world.says("Gateway", "\"PoliciesBroken\"").await?;
        world.is_guarded("1").await?;
    }
    let state = place.state().to_string_lossy().into_owned();
    let shown = run(&["records", "editions", "show", "Gateway/infra/gateway", "--state", &state]).await?;
    ensure!(shown.contains("TrafficPolicy infra/keys") && shown.contains("Gateway infra/gateway"), "{shown}");
    let files = world.portcullis.files().to_string_lossy().into_owned();
    let now = run(&["tree", "-f", &files]).await?;
    ensure!(now.contains("  ! GatewayReplaced: TrafficPolicy infra/keys is not valid"), "{now}");
    let kept = run(&["tree", "-f", &files, "--edition", "Gateway/infra/gateway", "--state", &state]).await?;
    for line in [
        "Gateway infra/gateway\n  apiKeyAuth, from TrafficPolicy infra/keys\n",
        "    headerModifiers, from TrafficPolicy infra/header\n    HTTPRoute infra/route for a.example\n",
    ] {
        ensure!(kept.contains(line), "{line} in {kept}");
    }
    let address = world.portcullis.admin_address().to_string();
    let url = format!("http://a.example:{}/", world.http.address.port());
    let asked = ["--address", &address];
    let explained = run(&[&["explain", "--gateway", "infra/gateway", &url][..], &asked].concat()).await?;
    for text in [run(&[&["tree"][..], &asked].concat()).await?, explained] {
        let why = "since the set of its policies as it is now is broken: TrafficPolicy infra/keys spec.apiKeyAuth";
        let frozen = text.lines().find(|line| line.contains(why) && line.ends_with("(Gateway infra/gateway)"));
        ensure!(frozen.is_some_and(|line| line.contains("! PoliciesBroken: edition ")), "{text}");
        ensure!(text.contains("from TrafficPolicy infra/keys"), "{text}");
    }
    world.portcullis.write("secrets.yaml", &(secret("good", "old") + &secret("bad", "right")))?;
    world.says("Gateway", "\"Committed\"").await?;
    world.is_guarded("2").await?;
    world.ends_well().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_from_a_gateway_goes_at_once_and_what_is_over_stays_over() -> Result<()> {
    let place = Place::new()?;
    let world = World::start(&place, &(keys("good") + &header("1"))).await?;
    world.is_guarded("1").await?;
    world.says("Gateway", "\"Committed\"").await?;
    // The policy that guards is deleted, while another is broken: that waits.
    let broken = policy("header", ", sectionName: http", "extAuth: {}");
    world.portcullis.write("policies.yaml", &broken)?;
    world.says("Gateway", "\"PoliciesBroken\"").await?;
    world.is_guarded("1").await?;
    world.portcullis.write("secrets.yaml", "")?;
    for key in ["right", "wrong"] {
        world.answers(key, 500, "").await?;
    }
    world.portcullis.write("secrets.yaml", &secret("good", "right"))?;
    world.is_guarded("1").await?;
    let http = world.http.address.port();
    world.portcullis.write("gateway.yaml", &gateway(http, ", annotations: {portcullis.dev/failure-mode: Tomorrow}"))?;
    world.answers("right", 500, "").await?;
    world.says("Gateway", "it counts as RouteReplacement").await?;
    eventually(TIMEOUT, async || {
        ensure!(place.heads() == 0, "what was kept is there still");
        anyhow::Ok(())
    })
    .await?;
    world.portcullis.write("gateway.yaml", &gateway(http, FREEZE))?;
    world.says("Gateway", "\"NoEdition\"").await?;
    world.answers("right", 500, "").await?;
    world.portcullis.write("policies.yaml", &keys("good"))?;
    world.says("Gateway", "\"Committed\"").await?;
    world.is_guarded("").await?;
    // Its owner holds what is good, and thaws what is not.
    let by_hand = |name: &str, value: &str| {
        gateway(http, &FREEZE.replace('}', &format!(", portcullis.dev/{name}: \"{value}\"}}")))
    };
    world.portcullis.write("gateway.yaml", &by_hand("hold", "true"))?;
    world.portcullis.write("policies.yaml", &(keys("good") + &header("3")))?;
    world.says("Gateway", "\"Hold\"").await?;
    world.is_guarded("").await?;
    world.portcullis.write("gateway.yaml", &gateway(http, FREEZE))?;
    world.is_guarded("3").await?;
    world.portcullis.write("policies.yaml", &(keys("good") + &broken))?;
    world.says("Gateway", "\"PoliciesBroken\"").await?;
    world.is_guarded("3").await?;
    world.portcullis.write("gateway.yaml", &by_hand("thaw", &world.edition().await?))?;
    world.answers("right", 500, "").await?;
    world.ends_well().await
}
