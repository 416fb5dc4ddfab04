//! What one request costs at most where tenants write the worst regular expressions that are taken, in milliseconds of a
//! real Envoy with one worker's work at a time.
//!
//! `cargo bench -p portcullis-tests --bench regexes` fills every share of a virtual host (its own hostname, the wildcard
//! above, and routes without hostnames) with one family of expressions, more than fit, and asks for what is slow with it.
//! Each request is another text, so that no automaton knows it; its first time after a change is the slow one.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and ends when anything is wrong")]

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use portcullis_tests::{
    client::{self, Request, Target},
    envoy::Envoy,
    objects,
    portcullis::Portcullis,
    ports,
    wait::{PATIENCE, eventually},
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
const RULES: usize = 160;

/// Bytes of a path or header: less than a proxy takes in all.
const LENGTH: usize = 58 * 1024;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    println!("{:<28} {:>10} {:>10} {:>10}", "expressions", "median", "slowest", "without");
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
        let _envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
        let target = Target::local(port);
        eventually(10 * PATIENCE, async || {
            let status = client::send(&target, &Request::get("plain.other.net", "/")).await?.status;
            ensure!(status == 500, "{status}");
            Ok::<_, anyhow::Error>(())
        })
        .await?;
        let mut times = Vec::new();
        let mut without = Vec::new();
        for seed in 0..9 {
            times.push(family.ask(&target, "a.b.example.com", seed).await?);
            without.push(family.ask(&target, "plain.other.net", seed).await?);
        }
        times.sort();
        without.sort();
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        println!("{:<28} {:>10} {:>10} {:>10}", family.name, ms(times[4]), ms(times[8]), ms(without[4]));
    }
    Ok(())
}

impl Family {
    fn matching(&self, index: usize) -> String {
        let pattern = (self.pattern)(index);
        match self.place {
            Place::Path => format!("{{path: {{type: RegularExpression, value: '{pattern}'}}}}"),
            Place::Header => format!("{{headers: [{{name: x, type: RegularExpression, value: '{pattern}'}}]}}"),
        }
    }

    /// How long one request takes.
    async fn ask(&self, target: &Target, host: &str, seed: u32) -> Result<Duration> {
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
        let connection = client::Connection::open(target).await?;
        let began = Instant::now();
        let mut connection = connection;
        connection.send(&request).await?;
        Ok(began.elapsed())
    }
}

/// A route whose one rule has no backend.
fn route(name: &str, hosts: &str, matches: &str) -> String {
    format!(
        "
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{namespace: infra, name: {name}}}
spec:
  parentRefs: [{{name: gateway}}]
  hostnames: [{hosts}]
  rules:
  - {{matches: [{matches}]}}
"
    )
}
