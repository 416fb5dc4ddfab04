//! What a change costs, and how that grows with the number of rows it does not touch.
//!
//! The network has the shape of a control plane: routes name a backend and a host, a row is made of each route, a host
//! collects its rows, and endpoints hang on backends that no route row reads.

use std::hint::black_box;
use std::time::Instant;

use engine::{Derived, Emitter, Engine, Group, Input, Lookup, Scope, Table};

const SIZES: [u32; 3] = [1_000, 10_000, 100_000];

macro_rules! table {
    ($name:ident, $value:ty) => {
        struct $name;
        impl Table for $name {
            const NAME: &'static str = stringify!($name);
            type Key = u32;
            type Value = $value;
        }
    };
}

table!(Routes, (u32, u32, u64)); // host, backend, content
impl Input for Routes {}

table!(Backends, u32); // its port
impl Input for Backends {}

table!(Endpoints, u64);
impl Input for Endpoints {}

table!(Ports, u32);
impl Lookup for Ports {
    fn compute(scope: &Scope<'_>, key: &u32) -> Option<u32> {
        Some(*scope.get::<Backends>(key)? % 4)
    }
}

table!(Rows, u64);
impl Derived for Rows {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<u64> {
        let (host, backend, content) = *scope.get::<Routes>(key)?;
        let bytes = content ^ u64::from(*scope.get::<Ports>(&backend)?);
        scope.emit::<HostRows>(host, *key, bytes);
        scope.demand::<Hosts>(host);
        scope.demand::<Clusters>(backend);
        Some(bytes)
    }
}

struct HostRows;
impl Group for HostRows {
    const NAME: &'static str = "HostRows";
    type Key = u32;
    type Sort = u32;
    type Entry = u64;
    type Summary = ();
    const HASH: Option<fn(&u64) -> [u8; 16]> = Some(|entry| u128::from(*entry).to_le_bytes());
}

table!(Hosts, (usize, [u8; 16]));
impl Derived for Hosts {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<(usize, [u8; 16])> {
        let rows = scope.group::<HostRows>(key);
        Some((rows.len(), rows.hash()))
    }
}

table!(Clusters, (u32, u64));
impl Derived for Clusters {
    fn compute(scope: &Emitter<'_>, key: &u32) -> Option<(u32, u64)> {
        Some((*scope.get::<Ports>(key)?, *scope.get::<Endpoints>(key)?))
    }
}

fn world(n: u32, routes_per_host: u32) -> Engine {
    let mut engine = Engine::builder()
        .input::<Routes>()
        .input::<Backends>()
        .input::<Endpoints>()
        .lookup::<Ports>()
        .derived_for_each::<Rows, Routes>(|key| Some(*key))
        .group::<HostRows>()
        .derived::<Hosts>()
        .track::<Hosts>()
        .derived::<Clusters>()
        .track::<Clusters>()
        .build();
    for key in 0..n {
        engine.set::<Routes>(key, Some((key / routes_per_host, key / 2, u64::from(key))));
        engine.set::<Backends>(key / 2, Some(80));
        engine.set::<Endpoints>(key / 2, Some(1));
    }
    engine.settle();
    engine.take_changes::<Hosts>();
    engine.take_changes::<Clusters>();
    engine
}

/// Nanoseconds for one of many changes, spread over the keys. Best of three, for the machine is not ours alone.
fn measure(mut change: impl FnMut(u32)) -> f64 {
    const TIMES: u32 = 20_000;
    let mut run = || {
        let start = Instant::now();
        (0..TIMES).for_each(|i| change(i.wrapping_mul(7919)));
        start.elapsed().as_secs_f64() * 1e9 / f64::from(TIMES)
    };
    (0..3).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn print(what: &str, unit: &str, figures: &[f64]) {
    let columns = figures.iter().map(|figure| format!("{figure:>12.0}")).collect::<Vec<_>>().concat();
    println!("{what:<44}{columns}  {unit:<8} x{:.2}", figures[figures.len() - 1] / figures[0]);
}

/// Peak of resident memory in kB, where the system tells.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(f64::NAN)
}

fn main() {
    println!("{:<44}{}  {:<8} largest / smallest", "rows", SIZES.map(|n| format!("{n:>12}")).concat(), "");
    let mut figures: [Vec<f64>; 6] = Default::default();
    for n in SIZES {
        let before = resident();
        let start = Instant::now();
        let mut engine = world(n, 10);
        figures[0].push(start.elapsed().as_secs_f64() * 1e9 / f64::from(n));
        figures[1].push((resident() - before) * 1024.0 / f64::from(n));

        let mut version = 1;
        figures[2].push(measure(|i| {
            version += 1;
            engine.set::<Endpoints>(i % (n / 2), Some(version));
            engine.settle();
            assert_eq!(black_box(engine.take_changes::<Clusters>()).len(), 1);
        }));
        figures[3].push(measure(|i| {
            version += 1;
            let key = i % n;
            engine.set::<Routes>(key, Some((key / 10, key / 2, version)));
            engine.settle();
            assert_eq!(black_box(engine.take_changes::<Hosts>()).len(), 1);
        }));
        figures[4].push(measure(|i| {
            engine.set::<Backends>(i % (n / 2), Some(80));
            engine.settle();
        }));
        figures[5].push(measure(|i| {
            // In and out again, with a host of its own.
            let key = n + i % n;
            engine.set::<Routes>(key, Some((key, 0, 1)));
            engine.settle();
            engine.set::<Routes>(key, None);
            engine.settle();
            engine.take_changes::<Hosts>();
        }));
    }
    let [cold, memory, endpoint, route, noop, churn] = figures;
    print("cold start, per route", "ns", &cold);
    print("memory, per route", "bytes", &memory);
    print("an endpoint changes", "ns", &endpoint);
    print("a route changes, 10 on its host", "ns", &route);
    print("a write of an equal value", "ns", &noop);
    print("a route comes and goes", "ns", &churn);

    let one_host = SIZES.map(|n| {
        let mut engine = world(n, n);
        let mut version = 1;
        let start = Instant::now();
        for i in 0..200_u32 {
            version += 1;
            let key = i.wrapping_mul(7919) % n;
            engine.set::<Routes>(key, Some((0, key / 2, version)));
            engine.settle();
        }
        start.elapsed().as_secs_f64() * 1e9 / 200.0
    });
    print("a route changes, all on one host (rehashed)", "ns", &one_host);
}
