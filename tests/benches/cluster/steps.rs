//! What is measured.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use portcullis_tests::process::Memory;
use tokio::time::{MissedTickBehavior, interval, sleep};
use xds::ResourceType;

use crate::controller::Controller;
use crate::envoy::Envoy;
use crate::relay::Relay;
use crate::world::{World, address};

/// Changes one after the other.
const TURNS: usize = 200;
/// Between two of them: their statuses are written meanwhile.
const PAUSE: Duration = Duration::from_millis(150);
/// How long what follows a change may take, all in all.
const AFTERMATH: Duration = Duration::from_secs(4);
const RESTARTS: usize = 5;
const NEW: usize = 100;
const STORM_SECONDS: usize = 10;
const STORM_RATE: usize = 1_000;
const MORE: usize = 20;

/// What it takes until a connected Envoy has all of it again.
pub(crate) async fn restart(controller: &mut Controller, world: &World) -> Result<()> {
    let authority = world.authority().await?;
    let (mut times, mut cpu, mut resident) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RESTARTS {
        let started = controller.restart().await?;
        let envoy = Envoy::connect_with(controller, world, &authority).await?;
        times.push(started.elapsed());
        cpu.push(controller.cpu()?);
        resident.push(controller.memory()?.resident);
        drop(envoy);
    }
    resident.sort_unstable();
    let [p50, .., max] = ranks(&mut times);
    let [cpu, ..] = ranks(&mut cpu);
    println!(
        "  restart -> an Envoy is configured: {p50:.0} ms (max {max:.0} ms), {cpu:.0} ms CPU, {} MiB resident",
        resident[RESTARTS / 2] >> 20
    );
    controller.quiet().await?;
    let Memory { resident, most } = controller.memory()?;
    println!("  resident when all is quiet: {} MiB (at most {} MiB)", resident >> 20, most >> 20);
    Ok(())
}

pub(crate) async fn idle(controller: &Controller) -> Result<f64> {
    const LOOK: Duration = Duration::from_secs(20);
    sleep(AFTERMATH).await;
    let before = controller.cpu()?;
    sleep(LOOK).await;
    let share = controller.cpu_since(before)?.as_secs_f64() / LOOK.as_secs_f64();
    println!("  idle: {:.3} % of a core", share * 100.0);
    Ok(share)
}

/// CPU time of one change, with its status. What is written begins with `word`, so that no other step wrote it before.
pub(crate) async fn one_route(
    world: &World,
    relay: &Relay,
    controller: &Controller,
    envoy: &mut Envoy,
    word: &str,
) -> Result<Duration> {
    let mut measured = Measured::begin(controller, envoy)?;
    for turn in 0..TURNS {
        let marker = format!("{word}-{turn:06}-");
        relay.look_for(&marker);
        world.change_route(turn * 7_919 % world.routes(), &marker).await?;
        let arrived = envoy.until(ResourceType::RouteConfiguration, &marker).await?;
        measured.took(relay, envoy, arrived.at);
        sleep(PAUSE).await;
    }
    measured.print("one route changed", controller, envoy)
}

/// The same while somebody scrapes, and asks about a host with hostile regular expressions as fast as he is answered.
pub(crate) async fn one_route_while_asked(
    world: &World,
    relay: &Relay,
    controller: &Controller,
    envoy: &mut Envoy,
) -> Result<()> {
    let (host, gateway) = (world.add_hostile_route().await?, world.gateway());
    sleep(AFTERMATH).await;
    println!("  while somebody scrapes every second and asks /debug/explain without a pause:");
    tokio::select! {
        asked = Box::pin(controller.ask(&gateway, host)) => asked,
        changed = Box::pin(one_route(world, relay, controller, envoy, "asked")) => changed.map(drop),
    }
}

pub(crate) async fn one_endpoint(
    world: &World,
    relay: &Relay,
    controller: &Controller,
    envoy: &mut Envoy,
) -> Result<()> {
    let mut measured = Measured::begin(controller, envoy)?;
    for turn in 0..TURNS {
        let marker = address(turn + 10);
        relay.look_for(&marker);
        world.change_endpoint(turn * 7_919 % (world.routes() / 2), turn + 10).await?;
        let arrived = envoy.until(ResourceType::Endpoints, &marker).await?;
        measured.took(relay, envoy, arrived.at);
        sleep(PAUSE).await;
    }
    measured.print("one endpoint changed", controller, envoy)?;
    Ok(())
}

pub(crate) async fn new_routes(world: &World, controller: &Controller, envoy: &mut Envoy) -> Result<()> {
    const ROUNDS: usize = 5;
    let (mut cpu, mut late) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (before, writes) = (controller.cpu()?, controller.metric("portcullis_status_writes_total").await?);
        let first = world.routes() + round * NEW;
        let marker = format!("round-{round}");
        let wanted: Vec<String> = (first..first + NEW).map(|number| format!("{marker}-{number}-")).collect();
        let (answered, served) = tokio::join!(
            async {
                world.add_routes(first..first + NEW, &marker).await?;
                anyhow::Ok(Instant::now())
            },
            envoy.until_all(ResourceType::RouteConfiguration, &wanted),
        );
        late.push(served?.at.saturating_duration_since(answered?));
        sleep(AFTERMATH).await;
        cpu.push(controller.cpu_since(before)?);
        let written = controller.metric("portcullis_status_writes_total").await? - writes;
        ensure!(written >= NEW as f64, "only {written} statuses are written after {AFTERMATH:?}");
    }
    let [cpu, .., most] = ranks(&mut cpu);
    let [late, .., latest] = ranks(&mut late);
    println!(
        "  {NEW} new routes at once: {cpu:.0} ms CPU (max {most:.0} ms), statuses included; the last one served \
         {late:.1} ms after its creation was answered (max {latest:.1} ms)"
    );
    Ok(())
}

pub(crate) async fn storm(world: &World, controller: &Controller, envoy: &mut Envoy) -> Result<()> {
    let total = STORM_SECONDS * STORM_RATE;
    let last = address(total);
    let (before, bytes, began) = (controller.cpu()?, envoy.wire.bytes(), Instant::now());
    let changes = async {
        let mut ticks = interval(Duration::from_secs(1) / 100);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for burst in 0..total / 10 {
            ticks.tick().await;
            let numbers = (0..10).map(|n| burst * 10 + n + 1);
            let changes = numbers.map(|turn| world.change_endpoint(turn % (world.routes() / 2), turn));
            futures::future::try_join_all(changes).await?;
        }
        anyhow::Ok(began.elapsed())
    };
    let (took, arrived) = tokio::join!(changes, envoy.until(ResourceType::Endpoints, &last));
    arrived?;
    let (took, cpu) = (took?.as_secs_f64(), controller.cpu_since(before)?);
    println!(
        "  {:.0} endpoint changes a second: {:.1} % of a core ({:.0} us each), {:.0} bytes each",
        total as f64 / took,
        cpu.as_secs_f64() / took * 100.0,
        cpu.as_secs_f64() * 1e6 / total as f64,
        (envoy.wire.bytes() - bytes) as f64 / total as f64,
    );
    // Those that were under way beside the last one.
    envoy.still(AFTERMATH).await
}

/// `alone` is the CPU time of a change for one Envoy: what more Envoys add to it is the copy that each of them gets.
pub(crate) async fn twenty_more(world: &World, controller: &Controller, envoy: Envoy, alone: Duration) -> Result<()> {
    const ROUNDS: usize = 20;
    let mut envoys = vec![envoy];
    for _ in 0..MORE {
        envoys.push(Envoy::connect(controller, world).await?);
    }
    sleep(AFTERMATH).await;
    let before = controller.cpu()?;
    let mut spread = Vec::new();
    for round in 0..ROUNDS {
        let marker = format!("many-{round:06}-");
        let waiting: Vec<_> = envoys
            .into_iter()
            .map(|mut envoy| {
                let marker = marker.clone();
                tokio::spawn(async move {
                    let arrived = envoy.until(ResourceType::RouteConfiguration, &marker).await?;
                    anyhow::Ok((envoy, arrived.at))
                })
            })
            .collect();
        world.change_route(round * 7_919 % world.routes(), &marker).await?;
        envoys = Vec::new();
        let mut times = Vec::new();
        for waiting in waiting {
            let (envoy, at) = waiting.await??;
            envoys.push(envoy);
            times.push(at);
        }
        let (first, last) = (times.iter().min().context("none")?, times.iter().max().context("none")?);
        spread.push(*last - *first);
        sleep(4 * PAUSE).await;
    }
    let many = controller.cpu_since(before)? / u32::try_from(ROUNDS)?;
    let [p50, _, max] = ranks(&mut spread);
    let each = many.saturating_sub(alone) / u32::try_from(MORE)?;
    println!(
        "  {MORE} more Envoys: the last has a change {p50:.1} ms after the first (max {max:.1} ms); {:.2} ms CPU a \
         change for all, so {:.2} ms the copy for each",
        millis(many),
        millis(each),
    );
    Ok(())
}

/// Changes one after the other.
struct Measured {
    cpu: Duration,
    bytes: u64,
    first: Vec<Duration>,
    last: Vec<Duration>,
}

impl Measured {
    fn begin(controller: &Controller, envoy: &Envoy) -> Result<Self> {
        Ok(Self { cpu: controller.cpu()?, bytes: envoy.wire.bytes(), first: Vec::new(), last: Vec::new() })
    }

    fn took(&mut self, relay: &Relay, envoy: &Envoy, at: Instant) {
        // Where two reads have torn the marker apart nobody knows when it came.
        let Some(seen) = relay.seen().filter(|seen| *seen < at) else { return };
        let Some(first) = envoy.wire.first_after(seen) else { return };
        self.first.push(first - seen);
        self.last.push(at - seen);
    }

    fn print(mut self, what: &str, controller: &Controller, envoy: &Envoy) -> Result<Duration> {
        let cpu = controller.cpu_since(self.cpu)? / u32::try_from(TURNS)?;
        let bytes = (envoy.wire.bytes() - self.bytes) / TURNS as u64;
        ensure!(self.first.len() > TURNS * 9 / 10, "only {} of {TURNS} were seen", self.first.len());
        let [first, first99, _] = ranks(&mut self.first);
        let [last, last99, _] = ranks(&mut self.last);
        println!(
            "  {what} -> on the wire {first:.2} ms (p99 {first99:.2} ms), all of it there {last:.2} ms (p99 \
             {last99:.2} ms); {:.2} ms CPU, {bytes} bytes",
            millis(cpu)
        );
        Ok(cpu)
    }
}

/// Median, 99th percentile and maximum in milliseconds.
fn ranks(times: &mut [Duration]) -> [f64; 3] {
    times.sort_unstable();
    [times.len() / 2, times.len() * 99 / 100, times.len() - 1].map(|rank| millis(times[rank]))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
