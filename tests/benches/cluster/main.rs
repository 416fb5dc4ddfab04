//! What a change costs in a cluster, in figures: a real API server before the controller, and behind it a client that
//! plays Envoy, with TLS and a token as a proxy has them.
//!
//! `cargo bench -p portcullis-tests --bench cluster` prints all; numbers of routes as arguments choose the worlds.
//! A change begins when its watch event arrives at the controller, which a relay before it sees; it is on the wire when
//! its first bytes reach the client, and there when its last do. API server, relay and client run on the same cores.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]
#![allow(clippy::cast_precision_loss, reason = "figures of four digits")]

mod controller;
mod envoy;
mod relay;
mod steps;
mod world;

use std::time::Instant;

use anyhow::Result;
use portcullis_tests::api_server::{ApiServer, Channel};

use controller::Controller;
use envoy::Envoy;
use relay::Relay;
use world::World;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    for routes in if sizes.is_empty() { vec![1_000, 5_000, 10_000] } else { sizes } {
        measure(routes).await?;
    }
    Ok(())
}

async fn measure(routes: usize) -> Result<()> {
    println!("\n{routes} routes on {} hosts, {} Services with 4 endpoints each", routes / 10, routes / 2);
    let api = ApiServer::start().await?;
    api.apply_crds(Channel::Experimental).await?;
    let world = World::new(&api, routes).await?;
    let began = Instant::now();
    world.create().await?;
    println!("  created in {:.1} s", began.elapsed().as_secs_f64());

    let mut controller = Controller::start(&api.kubeconfig(), world.namespace())?;
    let began = Instant::now();
    controller.quiet().await?;
    let written = controller.metric("portcullis_status_writes_total").await?;
    println!(
        "  {written:.0} statuses written {:.1} s after the start",
        began.elapsed().saturating_sub(controller::STILL).as_secs_f64()
    );
    steps::restart(&mut controller, &world).await?;
    controller.end().await?;

    let relay = Relay::start(&api).await?;
    let mut controller = Controller::start(relay.kubeconfig(), world.namespace())?;
    controller.quiet().await?;
    let mut envoy = Envoy::connect(&controller, &world).await?;
    steps::idle(&controller).await?;
    let alone = steps::one_route(&world, &relay, &controller, &mut envoy, "alone").await?;
    steps::one_route_while_asked(&world, &relay, &controller, &mut envoy).await?;
    steps::one_endpoint(&world, &relay, &controller, &mut envoy).await?;
    steps::new_routes(&world, &controller, &mut envoy).await?;
    steps::storm(&world, &controller, &mut envoy).await?;
    steps::twenty_more(&world, &controller, envoy, alone).await?;
    controller.end().await
}
