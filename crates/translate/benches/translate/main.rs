//! What a change costs, in figures: time, instructions, memory.
//!
//! `cargo bench --bench translate` prints times; with `-- instructions` it counts instructions by running itself under
//! valgrind, which no other load on the machine disturbs. `-- trees` has the times of delegated routes alone, and
//! `-- tree-instructions` their instructions, both with those of policies and of streams. `-- policies` and `-- streams` have these alone,
//! times and memory too. With `report` behind the arguments of one run it says which rows it computed.

use std::{
    collections::BTreeMap,
    hint::black_box,
    process::Command,
    time::{Duration, Instant},
};

use api::Object;
use envoy::body::Body;
use ir::Settings;
use translate::{Change, Translator};

mod policies;
mod streams;
mod tree;
mod world;

use policies::Owners;
use tree::{Scene, Tree};
use world::World;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A change that is measured: its name and what it does to a world; the number makes each one different.
type Step = (&'static str, fn(&World, usize) -> Object);

const STEPS: [Step; 5] = [
    ("one route changed", World::route_with_header),
    ("one endpoint changed", World::slice_with_address),
    ("route put again as it is", |world, _| world.route(1)),
    ("label on a namespace that nobody selects", World::namespace_with_label),
    ("a grant that admits one reference", World::grant),
];

fn main() {
    let args: Vec<_> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run", step, size, times] => drop(run(step, parse(size), parse(times))),
        ["run", step, size, times, "report"] => println!("{}", run(step, parse(size), parse(times)).engine_report()),
        ["instructions"] => {
            instructions();
            tree_instructions();
        }
        ["tree-instructions"] => tree_instructions(),
        ["cold", "tree", leaves] => {
            cold("leaves of a tree", parse(leaves), Tree::settings(), Tree::new(parse(leaves)).objects());
        }
        // Within the bounds that there are.
        ["cold", "policies", leaves] => {
            let objects = policies::tree(parse(leaves), Owners::Above);
            cold("leaves of a tree, whose policies they inherit", parse(leaves), Tree::settings(), objects);
        }
        ["cold", "own policies", leaves] => {
            let objects = policies::tree(parse(leaves), Owners::Leaves);
            cold("leaves of a tree, each with its own policy", parse(leaves), Tree::settings(), objects);
        }
        ["cold", "all policies", leaves] => {
            let objects = policies::tree(parse(leaves), Owners::All);
            cold("leaves of a tree, with its own and inherited ones", parse(leaves), Tree::settings(), objects);
        }
        ["cold", "wildcards"] => cold("routes that delegate to *", 12, World::settings(), tree::wildcards()),
        ["cold", "sets", sets, protocol] => {
            let objects = streams::hosts(parse(sets), protocol);
            cold(
                &format!("ListenerSets with a host of {protocol} and a route"),
                parse(sets),
                World::settings(),
                objects,
            );
        }
        ["cold", routes] => cold("routes", parse(routes), World::settings(), World::new(parse(routes)).objects()),
        ["trees"] => tree_times(),
        ["policies"] => {
            changes(policies::STEPS.iter());
            for what in ["tree", "policies", "own policies", "all policies"] {
                cold_apart(&["cold", what, "10000"]);
            }
            for step in &policies::STEPS {
                instructions_of(step.name, step.sizes);
            }
        }
        ["streams"] => {
            changes(streams::STEPS.iter());
            for protocol in ["HTTP", "HTTPS"] {
                cold_apart(&["cold", "sets", "5000", protocol]);
            }
            for step in &streams::STEPS {
                instructions_of(step.name, step.sizes);
            }
        }
        _ => {
            times();
            tree_times();
        }
    }
}

fn parse(number: &str) -> usize {
    number.parse().expect("a number")
}

fn translator(objects: Vec<Object>) -> Translator {
    translator_with(World::settings(), objects)
}

fn translator_with(settings: Settings, objects: Vec<Object>) -> Translator {
    let mut translator = Translator::new(settings);
    for object in objects {
        translator.apply(Change::Put(object));
    }
    black_box(translator.settle());
    translator
}

fn times() {
    println!("{:<44} {:>8} {:>12} {:>12} {:>12}", "change", "routes", "p50", "p99", "max");
    for routes in [1_000, 10_000, 100_000] {
        let world = World::new(routes);
        let mut translator = translator(world.objects());
        for (name, step) in STEPS {
            timed(name, routes, &mut translator, |turn| step(&world, turn));
        }
    }
    for routes in [1_000, 10_000] {
        let world = World::new(routes);
        let mut settings = World::settings();
        // Half of what the routes and their clusters take.
        settings.capacity.max_bytes = 4_000 * routes as u64;
        let mut translator = translator_with(settings, world.objects());
        let name = "one route changed, beyond the capacity";
        timed(name, routes, &mut translator, |turn| world.route_with_header(turn));
    }
    for routes in [1_000, 10_000] {
        let world = World::on_one_host(routes);
        one_host("one route changed, all on one host", routes, world.objects(), |turn| world.route_with_header(turn));
    }
    for routes in ["1000", "10000", "100000"] {
        cold_apart(&["cold", routes]);
    }
}

/// Prints how long changes take.
fn timed(name: &str, routes: usize, translator: &mut Translator, change: impl Fn(usize) -> Object) {
    let mut taken: Vec<_> = (0..1_000)
        .map(|turn| {
            let object = change(turn);
            let start = Instant::now();
            translator.apply(Change::Put(object));
            black_box(translator.settle());
            start.elapsed()
        })
        .collect();
    taken.sort_unstable();
    let [p50, p99, max] = [500, 989, 999].map(|rank| micros(taken[rank]));
    println!("{name:<44} {routes:>8} {p50:>12} {p99:>12} {max:>12}");
}

/// Times of changes.
fn changes<'a>(steps: impl Iterator<Item = &'a tree::Step>) {
    println!(
        "{:<44} {:>16} {:>12} {:>12} {:>12} {:>8} {:>10} {:>18} {:>12}",
        "change", "of", "p50", "p99", "max", "rows", "p50 each", "sent", "joined p50"
    );
    for tree::Step { name, of, sizes, scene } in steps {
        for &size in *sizes {
            let Scene { objects, change } = scene(size);
            let mut translator = translator_with(Tree::settings(), objects);
            let (mut computed, mut sent, mut bytes) = (0, 0, 0);
            // What is composed of many parts is put together when it is sent.
            let mut joined = Vec::new();
            let mut taken: Vec<_> = (0..tree::WAITING)
                .map(|turn| {
                    let object = change(turn);
                    let start = Instant::now();
                    translator.apply(Change::Put(object));
                    let changes = black_box(translator.settle());
                    let elapsed = start.elapsed();
                    computed = computed.max(changes.computed);
                    sent = changes.resources.len();
                    let bodies = || changes.resources.iter().filter_map(|(_, now)| Some(&now.as_ref()?.body));
                    bytes = bodies().map(Body::len).sum();
                    let start = Instant::now();
                    bodies().for_each(|body| {
                        black_box(body.pieces());
                    });
                    joined.push(start.elapsed());
                    elapsed
                })
                .collect();
            taken.sort_unstable();
            joined.sort_unstable();
            let [p50, p99, max] = [50, 99, 100].map(|percent| taken[(taken.len() - 1) * percent / 100]);
            let each = p50 / u32::try_from(size).unwrap_or(u32::MAX);
            let [p50, p99, max, each, joined] = [p50, p99, max, each, joined[joined.len() / 2]].map(micros);
            println!(
                "{name:<44} {:>16} {p50:>12} {p99:>12} {max:>12} {computed:>8} {each:>10} {:>18} {joined:>12}",
                format!("{size} {of}"),
                format!("{sent}, {} kB", bytes / 1_000)
            );
        }
    }
}

/// Times of delegated routes.
fn tree_times() {
    changes(steps());
    for leaves in [1_000, 10_000, 100_000] {
        let tree = Tree::new(leaves);
        one_host("one leaf changed", leaves, tree.objects(), |turn| tree.leaf_with_header(turn));
    }
    for leaves in ["1000", "10000", "100000"] {
        cold_apart(&["cold", "tree", leaves]);
    }
    for what in ["policies", "own policies", "all policies"] {
        cold_apart(&["cold", what, "10000"]);
    }
    cold_apart(&["cold", "wildcards"]);
    for protocol in ["HTTP", "HTTPS"] {
        cold_apart(&["cold", "sets", "5000", protocol]);
    }
}

/// Changes of trees, of policies and of streams.
fn steps() -> impl Iterator<Item = &'static tree::Step> {
    tree::STEPS.iter().chain(&policies::STEPS).chain(&streams::STEPS)
}

/// In a process of its own, so that memory is that of one world.
fn cold_apart(args: &[&str]) {
    let own = std::env::current_exe().expect("its own path");
    Command::new(&own).args(args).status().expect("itself again");
}

/// One virtual host with all routes: its assembly is the part that must grow.
fn one_host(name: &str, routes: usize, objects: Vec<Object>, change: impl Fn(usize) -> Object) {
    let mut translator = translator_with(Tree::settings(), objects);
    let mut bytes = 0;
    let mut taken: Vec<_> = (0..1_000)
        .map(|turn| {
            let object = change(turn);
            let start = Instant::now();
            translator.apply(Change::Put(object));
            let changes = translator.settle();
            let elapsed = start.elapsed();
            bytes = changes.resources.iter().filter_map(|(_, now)| Some(now.as_ref()?.body.len())).sum();
            elapsed
        })
        .collect();
    taken.sort_unstable();
    let megabytes = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / 1e6;
    let per_megabyte = taken[500].as_secs_f64() * 1e3 / megabytes;
    println!(
        "{name:<44} {routes:>8} {:>12} {:>12}   {megabytes:.2} MB, {per_megabyte:.3} ms/MB",
        micros(taken[500]),
        micros(taken[989]),
    );
}

fn micros(duration: Duration) -> String {
    format!("{:.1} us", duration.as_secs_f64() * 1e6)
}

/// From objects in memory to every resource; and once more, as after a panic outside of any row.
fn cold(of: &str, routes: usize, settings: Settings, objects: Vec<Object>) {
    let (before, start) = (resident(), cpu_time());
    let mut translator = translator_with(settings, objects);
    let elapsed = cpu_time().saturating_sub(start);
    let bytes: usize = translator.resources().values().flatten().map(|(_, encoded)| encoded.body.len()).sum();
    println!(
        "cold start {routes:>8} {of}: {:>8.1} ms of CPU, {} MB resident ({} MB before), {:.1} MB of resources",
        elapsed.as_secs_f64() * 1e3,
        resident() / 1024,
        before / 1024,
        f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / 1e6,
    );
    let start = cpu_time();
    let changes = translator.anew(&BTreeMap::new()).settle();
    let elapsed = cpu_time().saturating_sub(start);
    assert!(changes.resources.is_empty(), "it says the same");
    println!("another one in its place {routes:>8} {of}: {:>8.1} ms of CPU", elapsed.as_secs_f64() * 1e3);
}

/// What this process, of one thread, has spent on a CPU, whatever else the machine does.
fn cpu_time() -> Duration {
    let spent = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    Duration::from_nanos(spent.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap_or_default())
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

fn run(step: &str, size: usize, times: usize) -> Translator {
    let Scene { objects, change } = match steps().find(|known| known.name == step) {
        Some(known) => (known.scene)(size),
        None => plain(step, size),
    };
    let mut translator = translator_with(Tree::settings(), objects);
    let objects: Vec<_> = (0..times).map(change).collect();
    for object in objects {
        measured_change(&mut translator, object);
    }
    translator
}

/// What instructions are counted in, by its name; never inlined, so that the name is there.
#[inline(never)]
fn measured_change(translator: &mut Translator, object: Object) {
    translator.apply(Change::Put(object));
    black_box(translator.settle());
}

fn plain(step: &str, routes: usize) -> Scene {
    let world = World::new(routes);
    let (_, change) = STEPS.iter().find(|(name, _)| *name == step).expect("a known step");
    Scene { objects: world.objects(), change: Box::new(move |turn| change(&world, turn)) }
}

/// Instructions of one change.
fn instructions() {
    println!("{:<44} {:>8} {:>14}", "change", "routes", "instructions");
    for (index, (name, _)) in STEPS.iter().enumerate() {
        // The largest world takes minutes under valgrind, so only what is most frequent is shown there.
        instructions_of(name, if index < 2 { &[1_000, 10_000, 100_000] } else { &[1_000, 10_000] });
    }
}

/// How many changes instructions are counted of; enough that what happens now and then, such as a page that splits,
/// weighs as it does in the long run.
const CHANGES: usize = 200;

fn tree_instructions() {
    for tree::Step { name, sizes, .. } in steps() {
        instructions_of(name, sizes);
    }
}

fn instructions_of(name: &str, sizes: &[usize]) {
    let mut first = None;
    for &size in sizes {
        let each = counted(name, size, CHANGES) / CHANGES as u64;
        let base = *first.get_or_insert(each);
        let ratio =
            f64::from(u32::try_from(each).unwrap_or(u32::MAX)) / f64::from(u32::try_from(base.max(1)).unwrap_or(1));
        println!("{name:<44} {size:>8} {each:>14}  x{ratio:.2}");
    }
}

fn counted(step: &str, routes: usize, times: usize) -> u64 {
    let own = std::env::current_exe().expect("its own path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", "--toggle-collect=*measured_change*"])
        .arg(own)
        .args(["run", step, &routes.to_string(), &times.to_string()])
        .output()
        .expect("valgrind, a package of every distribution");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = words.lines().find_map(|line| line.split("Collected :").nth(1));
    line.and_then(|count| count.trim().parse().ok()).expect("a count")
}
