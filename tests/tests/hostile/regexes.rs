//! Regular expressions that would hold the workers of a proxy for seconds.

use anyhow::Result;
use portcullis_tests::client::Request;

use crate::{
    manifests::{regex, rule, rules},
    stage::{Finding, Stage},
};

/// A path of 50 KB that no expression below can decide upon early.
fn long_path() -> String {
    // Without a period that an automaton could learn.
    let mut seed = 1_u32;
    let letters = (0..50_000).map(|_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if seed >> 31 == 0 { 'a' } else { 'b' }
    });
    format!("/evil/{}", letters.collect::<String>())
}

fn refused<'a>(field: &'a str, words: &'a [&'a str]) -> Finding<'a> {
    Finding { severity: "refused", object: "HTTPRoute infra/evil", field, at: "", words }
}

/// Asks four times for the path, and for the healthy host after that.
async fn attack(stage: &mut Stage, status: u16) -> Result<()> {
    let path = long_path();
    for _ in 0..4 {
        stage.answers("evil.example", &path, status).await?;
    }
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_of_tens_of_thousands_of_instructions_are_refused() -> Result<()> {
    let mut stage = Stage::start().await?;
    let slow: Vec<_> = (0..4).map(|index| regex(&format!("/evil/.*{index}a{}c", "[ab]{1000}".repeat(32)))).collect();
    stage.write(&rules("evil", "evil.example", &slow.concat())).await?;
    let fields: Vec<_> = (0..4).map(|index| format!("spec.rules[{index}].matches[0].path.value")).collect();
    let findings: Vec<_> = fields.iter().map(|field| refused(field, &["instructions, more than 1024"])).collect();
    stage.reports(&findings).await?;
    attack(&mut stage, 404).await
}

#[tokio::test(flavor = "multi_thread")]
async fn expressions_that_could_take_too_much_time_are_left_out_and_told() -> Result<()> {
    let mut stage = Stage::start().await?;
    let slow: Vec<_> = (0..4).map(|index| regex(&format!("/evil/.*a[ab]{{{}}}c", 900 + index))).collect();
    stage.write(&rules("evil", "evil.example", &slow.concat())).await?;
    let fields: Vec<_> = (0..4).map(|index| format!("spec.rules[{index}].matches")).collect();
    let findings: Vec<_> = fields.iter().map(|field| refused(field, &["50ms", "[a-z]{1,50}"])).collect();
    stage.reports(&findings).await?;
    attack(&mut stage, 404).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_is_held_against_an_expression_only_where_the_path_fits() -> Result<()> {
    let mut stage = Stage::start().await?;
    let header = |path: &str| {
        format!(
            "{{path: {{value: {path}}}, headers: [{{name: x, type: RegularExpression, value: 'a[ab]*'}}]}}, \
             {{path: {{type: RegularExpression, value: '{path}[xy]+/[a-z]{{1,50}}'}}}}"
        )
    };
    stage.write(&rules("evil", "evil.example", &(rule(&header("/one")) + &rule(&header("/two"))))).await?;
    stage.reports(&[]).await?;
    let asking = |path: &str, value: &str| Request::get("evil.example", path).header("x", value);
    stage.answers_to(&asking("/one", "abba"), 200).await?;
    stage.answers_to(&asking("/two/further?x=1", "abba"), 200).await?;
    stage.answers_to(&asking("/one", "abc"), 404).await?;
    stage.answers_to(&asking("/three", "abba"), 404).await?;
    stage.answers("evil.example", "/onexy/orders?x=1", 200).await?;
    stage.answers("evil.example", "/twoz/orders", 404).await?;
    attack(&mut stage, 404).await
}
