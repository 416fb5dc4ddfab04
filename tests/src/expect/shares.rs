//! Which share of many requests goes where.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddrV4;

use anyhow::{Context, Result, ensure};

use super::Case;
use super::check::{ID, Stage};
use crate::client::{Connection, Target};
use crate::wait::eventually;

/// How many standard deviations a share may be off: once in ten million runs by chance.
const DEVIATIONS: f64 = 5.3;

type Counts = BTreeMap<String, usize>;

/// Sends the request many times and compares the shares.
pub(super) async fn check(case: &Case, stage: &Stage, target: &Target) -> Result<()> {
    let times = case.request.times.unwrap_or(300);
    let mut connection = Connection::open(target).await?;
    let mut answers = Counts::new();
    let mut endpoints = Counts::new();
    let mut ids = HashSet::new();
    for _ in 0..times {
        let (id, request) = case.request.build()?;
        let response = connection.send(&request).await?;
        let answer = match &response.echoed {
            Some(seen) => {
                let expect = &case.expect;
                expect.compare_upstream_request(&case.request, seen)?;
                if let Some(own) = expect.each.get(&seen.backend) {
                    let compared = own.compare(&case.request, target, &response);
                    compared.with_context(|| seen.backend.clone())?;
                }
                *endpoints.entry(seen.endpoint.clone()).or_default() += 1;
                seen.backend.clone()
            }
            None => response.status.to_string(),
        };
        *answers.entry(answer).or_default() += 1;
        ids.insert(id);
    }
    compare(&answers, times, &case.expect.shares)?;
    let mut real = BTreeMap::new();
    for (written, share) in &case.expect.endpoint_shares {
        let written: SocketAddrV4 = written.parse()?;
        let address = stage.block.address(written.ip().octets()[3]);
        real.insert(format!("{address}:{}", written.port()), *share);
    }
    compare(&endpoints, times, &real)?;
    for (backend, share) in &case.expect.mirrored_shares {
        // The last copies are on their way when the last answer is there.
        let counted = eventually(std::time::Duration::from_secs(3), async || {
            let copies = stage
                .backends_named(backend)
                .map(|echo| echo.count(|seen| seen.header(ID).is_some_and(|id| ids.contains(&id))));
            within(copies.sum(), times, *share)
        });
        counted.await.with_context(|| format!("copies for {backend}"))?;
    }
    Ok(())
}

fn compare(counts: &Counts, times: usize, expected: &BTreeMap<String, f64>) -> Result<()> {
    if expected.is_empty() {
        return Ok(());
    }
    for answer in counts.keys() {
        ensure!(expected.contains_key(answer), "{answer} answered, of {counts:?}");
    }
    for (answer, share) in expected {
        let count = counts.get(answer).copied().unwrap_or_default();
        within(count, times, *share).with_context(|| answer.clone())?;
    }
    Ok(())
}

/// Fails if `count` of `times` is not what chance makes of `share`; a share of 0 or 1 leaves nothing to chance.
#[allow(clippy::cast_precision_loss, reason = "counts are far below what a float holds")]
fn within(count: usize, times: usize, share: f64) -> Result<()> {
    let mean = times as f64 * share;
    let tolerance = DEVIATIONS * (mean * (1.0 - share)).sqrt();
    ensure!((count as f64 - mean).abs() <= tolerance, "{count} of {times}, expected {mean:.0} within {tolerance:.0}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn a_share_may_be_off_by_chance_but_none_is_none_and_all_is_all() {
        within(300, 1000, 0.3).expect("the mean");
        within(360, 1000, 0.3).expect("four deviations");
        within(400, 1000, 0.3).expect_err("seven deviations");
        within(0, 1000, 0.0).expect("none");
        within(1, 1000, 0.0).expect_err("one is not none");
        within(999, 1000, 1.0).expect_err("one lacks");
    }
}
