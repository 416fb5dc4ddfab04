//! A tenant's structure in what Envoy decodes: how deep it nests is his own matter alone.

use anyhow::{Result, ensure};

use crate::manifests::rules;
use crate::stage::{Finding, Stage};

/// A route whose answer is a body of so many mappings, one in the other.
fn nested(levels: usize) -> String {
    let (open, close) = ("{a: ".repeat(levels - 1), "}".repeat(levels - 1));
    let rule = "  - {filters: [{type: ExtensionRef, extensionRef: {group: gateway.kgateway.dev, kind: DirectResponse, \
                name: nested}}]}\n";
    format!(
        "{}
---
apiVersion: gateway.kgateway.dev/v1alpha1
kind: DirectResponse
metadata: {{namespace: infra, name: nested}}
spec: {{status: 200, bodyFormat: {{json: {open}{{a: deep}}{close}}}}}
",
        rules("evil", "evil.example", rule)
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_nests_too_deep_for_envoy_replaces_its_own_route_alone() -> Result<()> {
    let mut stage = Stage::start().await?;
    for levels in [33, 64] {
        stage.write(&nested(levels)).await?;
        stage.answers("evil.example", "/", 500).await?;
        stage.is_unharmed().await?;
        let words = ["DirectResponse infra/nested", "spec.bodyFormat.json", "nests", "30", "flatten"];
        stage
            .reports(&[
                Finding {
                    severity: "replaced",
                    object: "HTTPRoute infra/evil",
                    field: "spec.rules[0].filters[0].extensionRef.name",
                    at: "",
                    words: &words,
                },
                Finding {
                    severity: "refused",
                    object: "DirectResponse infra/nested",
                    field: "spec.bodyFormat.json",
                    at: "",
                    words: &words[2..],
                },
            ])
            .await?;
    }
    // The deepest that is taken is served as it is.
    stage.write(&nested(30)).await?;
    stage.answers("evil.example", "/", 200).await?;
    stage.is_unharmed().await?;
    stage.reports(&[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_no_reader_would_follow_is_told_and_harms_nobody() -> Result<()> {
    let mut stage = Stage::start().await?;
    for levels in [500, 20_000] {
        stage.write(&nested(levels)).await?;
        let (code, text) = stage.check("text").await?;
        ensure!(code == Some(1), "exit code {code:?} for\n{text}");
        stage.is_unharmed().await?;
    }
    Ok(())
}
