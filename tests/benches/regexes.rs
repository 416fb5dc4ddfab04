//! What one request costs a worker of a real Envoy at most where tenants write the worst regular expressions that are
//! taken: milliseconds of CPU, which are to be no more than `regex.maxTime` (50 ms), and of waiting, which depends on what
//! else the machine does.
//!
//! `cargo bench -p portcullis-tests --bench regexes` fills every share of a virtual host (its own hostname, the wildcard
//! above, and routes without hostnames) with one family of expressions, more than fit, and asks for what is slow with it.
//! Each request is another text, so that no automaton knows it. The first after a change is the slow one, so there are
//! several Envoys, each of which knows nothing at first. It does not matter how Portcullis was built: only Envoy is measured.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use portcullis_tests::{
    client::{self, Request, Target},
    envoy::Envoy,
    objects,
    portcullis::Portcullis,
    ports,
    wait::{TIMEOUT, eventually},
};

/// A kind of expression, and where it stands.
struct Family {
    name: &'static str,
    place: Place,
    pattern: fn(usize) -> String,
}

/// What an expression is held against.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Path,
    Header,
}

const FAMILIES: &[Family] = &[
    Family { name: "few states, any length", place: Place::Path, pattern: |index| format!("/[^/]+/orders/{index}/.*") },
    Family { name: "hundreds of states", place: Place::Path, pattern: |index| format!("/.*a[ab]{{6}}c{index}") },
    Family {
        name: "too many states, bounded",
        place: Place::Path,
        pattern: |index| format!("/[ab]{{0,80}}a[ab]{{80}}{index}"),
    },
    Family { name: "a header, few states", place: Place::Header, pattern: |index| format!("[ab]*c{index}") },
    Family {
        name: "a header, bounded",
        place: Place::Header,
        pattern: |index| format!("[ab]{{0,80}}a[ab]{{80}}{index}"),
    },
];

/// Rules of one kind in a share: more than fit.
const RULES: usize = 192;

/// Envoys that are started one after the other, and requests to each.
const PROXIES: u32 = 3;
const REQUESTS: u32 = 9;

/// Bytes of a path or header: less than a proxy takes in all.
const LENGTH: usize = 58 * 1024;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    println!("{:<28} {:>22} {:>22} {:>22}", "", "CPU", "waiting", "CPU without");
    println!("{:<28}{}", "expressions", format!(" {:>10} {:>11}", "median", "most").repeat(3));
    for family in FAMILIES {
        let port = ports::free_port()?;
        let mut manifests = objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")]);
        manifests.push_str(&route("plain", "plain.other.net", "{path: {value: /}}"));
        let hosts = ["a.b.example.com", "'*.example.com'", ""];
        for (hosts, at) in hosts.into_iter().zip(0..) {
            for rules in 0..RULES / 16 {
                let matches: Vec<_> = (0..16).map(|index| family.matching(rules * 16 + index)).collect();
                manifests.push_str(&route(&format!("r-{at}-{rules}"), hosts, &matches.join(", ")));
            }
        }
        let portcullis = Portcullis::start(&[("all.yaml".to_owned(), manifests)]).await?;
        let bootstrap = portcullis.bootstrap("infra/gateway").await?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for proxy in 0..PROXIES {
            let envoy = Envoy::start(&bootstrap).await?;
            let target = Target::local(port);
            eventually(10 * TIMEOUT, async || {
                let status = client::send(&target, &Request::get("plain.other.net", "/")).await?.status;
                ensure!(status == 500, "{status}");
                Ok::<_, anyhow::Error>(())
            })
            .await?;
            for seed in proxy * REQUESTS..(proxy + 1) * REQUESTS {
                with.push(family.ask(&envoy, &target, "a.b.example.com", seed).await?);
                without.push(family.ask(&envoy, &target, "plain.other.net", seed).await?);
            }
        }
        let [cpu, waiting] = [figures(&with, |cost| cost.cpu), figures(&with, |cost| cost.waiting)];
        println!("{:<28}{cpu}{waiting}{}", family.name, figures(&without, |cost| cost.cpu));
    }
    Ok(())
}

/// Median and most of what requests cost.
fn figures(costs: &[Cost], of: fn(&Cost) -> Duration) -> String {
    let mut times: Vec<_> = costs.iter().map(of).collect();
    times.sort();
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    format!(" {:>10} {:>11}", ms(times[times.len() / 2]), ms(times[times.len() - 1]))
}

/// What a request cost.
struct Cost {
    /// The CPU time of Envoy's worker.
    cpu: Duration,
    /// Until the answer came.
    waiting: Duration,
}

impl Family {
    fn matching(&self, index: usize) -> String {
        let pattern = (self.pattern)(index);
        match self.place {
            Place::Path => format!("{{path: {{type: RegularExpression, value: '{pattern}'}}}}"),
            Place::Header => format!("{{headers: [{{name: x, type: RegularExpression, value: '{pattern}'}}]}}"),
        }
    }

    /// What one request costs.
    async fn ask(&self, envoy: &Envoy, target: &Target, host: &str, seed: u32) -> Result<Cost> {
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        let letters = (0..LENGTH).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if state >> 31 == 0 { 'a' } else { 'b' }
        });
        let text: String = letters.collect();
        let request = match self.place {
            Place::Path => Request::get(host, &format!("/{text}")),
            Place::Header => Request::get(host, "/").header("x", &text),
        };
        let mut connection = client::Connection::open(target).await?;
        let (before, began) = (envoy.worker_time().await?, Instant::now());
        connection.send(&request).await?;
        let waiting = began.elapsed();
        Ok(Cost { cpu: envoy.worker_time().await?.saturating_sub(before), waiting })
    }
}

/// A route whose one rule has no backend.
fn route(name: &str, hosts: &str, matches: &str) -> String {
    objects::Route { name, hosts, rules: &format!("  - {{matches: [{matches}]}}"), ..Default::default() }.to_string()
}
