//! What `explain` says of a request is what becomes of it, whatever bytes it has.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use portcullis_tests::client::{self, Request};
use portcullis_tests::wait::{TIMEOUT, eventually};
use serde_json::Value;

use crate::manifests::rules;
use crate::stage::Stage;

/// Expressions in which a byte and a character differ.
const PATTERNS: &[&str] = &[
    ".",
    "..",
    ".*",
    "a?[^a]+",
    "[^a]",
    "[^a]+",
    r"\\w+",
    r"\\W+",
    r"\\S\\S",
    r"a\\b.*",
    r"\\p{L}",
    r"\\p{L}.",
    r"[\\p{Lu}x].+",
    r"[^\\p{L}]+",
    r"\\p{Greek}+",
    "(?:..)+",
    "(?i)a.+",
    "[[:alpha:]]+",
    ".{4}",
];

const VALUES: &[&str] = &["a", "é", "éé", "Ω", "😀", "aé", "\u{b5}", "\u{e0}z", "ÃŸ"];

fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        let _ = write!(escaped, "%{byte:02X}");
        escaped
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_of_headers_are_explained_as_envoy_matches_them_byte_by_byte() -> Result<()> {
    let mut stage = Stage::start().await?;
    let rule = |(number, pattern): (usize, &&str)| {
        let header = format!("{{name: x-value, type: RegularExpression, value: \"{pattern}\"}}");
        let matching = format!("{{path: {{type: Exact, value: /{number}}}, headers: [{header}]}}");
        crate::manifests::rule(&matching)
    };
    // A route has 16 rules at most.
    let matching: Vec<_> = PATTERNS.iter().enumerate().map(rule).collect();
    let routes = matching.chunks(16).zip(["one", "two"]);
    let route: String = routes.map(|(some, name)| rules(name, "bytes.example", &some.concat())).collect();
    stage.write(&route).await?;
    stage.reports(&[]).await?;
    let mut matched = 0;
    for (number, pattern) in PATTERNS.iter().enumerate() {
        for value in VALUES {
            let request = Request::get("bytes.example", &format!("/{number}")).header("x-value", value);
            let status = client::send(stage.http(), &request).await?.status;
            let port = stage.http().address.port();
            let (url, header) = (format!("http://bytes.example:{port}/{number}"), format!("x-value: {value}"));
            let asked = format!(
                "/debug/explain?gateway=infra/gateway&format=json&url={}&header={}",
                escaped(&url),
                escaped(&header)
            );
            let explained = eventually(TIMEOUT, async || {
                let response = stage.portcullis.admin(&asked).await?;
                ensure!(response.status == 200, "{}", response.body);
                Ok(serde_json::from_str::<Value>(&response.body)?)
            });
            let explained = explained.await?;
            let taken = explained["outcome"]["kind"] == "backends" || explained["outcome"].get("backends").is_some();
            ensure!(taken == (status == 200), "{pattern} and {value}: {status}, explained as {}", explained["outcome"]);
            matched += usize::from(taken);
        }
    }
    ensure!(matched > VALUES.len() && matched < PATTERNS.len() * VALUES.len() / 2, "{matched} matched");
    Ok(())
}
