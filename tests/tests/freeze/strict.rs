//! What is kept where an Envoy is asked before anything is sent: it is asked about the next version before that is kept.

use anyhow::Result;

use super::{
    FREEZE, GROUP, HOST, Place, child, kept, one, policy, root, told, tree,
    wide::{World, header},
};

/// What no check in process sees, in programs with debug assertions, and Envoy refuses.
const UNSEEN: &str = "test.portcullis.dev/unchecked %NO_SUCH_COMMAND%";

/// A policy on a route that adds a header to requests.
fn adds(route: &str, header: &str) -> String {
    format!(
        "---\napiVersion: gateway.kgateway.dev/v1alpha1\nkind: TrafficPolicy\nmetadata: {{namespace: infra, name: adds}}\n\
         spec: {{targetRefs: [{{group: {GROUP}, kind: HTTPRoute, name: {route}}}], \
         headerModifiers: {{request: {{set: [{{name: x-more, value: '{header}'}}]}}}}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_envoy_refuses_of_a_tree_is_not_kept_and_its_last_good_version_stays() -> Result<()> {
    let place = Place::strict()?;
    let mut stage = kept(&place).await?;
    let changed = |header: &str| tree(&one(), &child("two", "/two/more", "backend")) + &adds("one", header);
    stage.write(&changed(UNSEEN)).await?;
    for crashes in [false, true] {
        if crashes {
            stage.portcullis.crash().await?;
            stage.portcullis.wait_until_ready().await?;
        }
        told(&stage, "\"TreeBroken\"").await?;
        told(&stage, "Envoy 1.40.0 refuses it: ").await?;
        for path in ["/one", "/two"] {
            stage.answers(HOST, path, 200).await?;
        }
    }
    stage.write(&changed("sound")).await?;
    for (path, status) in [("/two/more", 200), ("/two", 404), ("/one", 200)] {
        stage.answers(HOST, path, status).await?;
    }
    told(&stage, "\"Committed\"").await?;
    // What goes is asked about by nobody.
    stage.write(&(root() + &child("two", "/two/more", "backend") + &policy(FREEZE))).await?;
    stage.answers(HOST, "/one", 500).await?;
    stage.answers(HOST, "/two/more", 200).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_envoy_refuses_of_policies_of_a_gateway_is_not_kept_and_the_last_good_ones_stay() -> Result<()> {
    let place = Place::strict()?;
    let mut world = World::start(&place, &header("one")).await?;
    world.answers("", 200, "one").await?;
    world.says("Gateway", "\"Committed\"").await?;
    world.portcullis.write("policies.yaml", &header(UNSEEN))?;
    world.says("Gateway", "\"PoliciesBroken\"").await?;
    world.says("Gateway", "Envoy 1.40.0 refuses it: ").await?;
    world.answers("", 200, "one").await?;
    world.portcullis.crash().await?;
    world.portcullis.wait_until_ready().await?;
    world.says("Gateway", "\"PoliciesBroken\"").await?;
    world.answers("", 200, "one").await?;
    world.portcullis.write("policies.yaml", &header("two"))?;
    world.answers("", 200, "two").await?;
    world.says("Gateway", "\"Committed\"").await?;
    world.ends_well().await
}
