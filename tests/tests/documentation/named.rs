//! What pages name is there: files, tests, targets of make, versions, figures.

use anyhow::{Context, Result, ensure};
use portcullis_tests::process::root;

use crate::page::Page;
use crate::session::{has_its_target, has_its_test};

#[test]
fn every_file_that_is_named_is_there() -> Result<()> {
    let mut missing = Vec::new();
    for page in Page::all()? {
        let begins = ["crates/", "tests/", "charts/", "crds/", "docs/", "examples/", "e2e/", ".ci/"];
        // Capital letters, as in `tests/traffic/TOPIC`, stand for a name.
        let is_path =
            |text: &&str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-./".contains(c));
        let named =
            page.spans().into_iter().filter(is_path).filter(|span| begins.iter().any(|it| span.starts_with(it)));
        let here = root().join(page.path.parent().unwrap_or(&page.path));
        let absent = named.filter(|path| !root().join(path).exists() && !here.join(path).exists());
        missing.extend(absent.map(|path| format!("{}: {path}", page.path.display())));
    }
    ensure!(missing.is_empty(), "these are not there:\n{}", missing.join("\n"));
    Ok(())
}

#[test]
fn every_test_and_target_that_is_named_is_there() -> Result<()> {
    for page in Page::all()? {
        for span in page.spans() {
            let named = match span.split(' ').next() {
                Some("cargo") => has_its_test(span),
                Some("make") if span.contains(' ') => has_its_target(span),
                _ => Ok(()),
            };
            named.with_context(|| format!("{}: {span}", page.path.display()))?;
        }
    }
    Ok(())
}

#[test]
fn every_test_that_holds_a_claim_about_security_is_there() -> Result<()> {
    let pages = Page::all()?;
    let page = pages.iter().find(|page| page.path.as_os_str() == "SECURITY.md").context("no SECURITY.md")?;
    // Names of tests are sentences, and nothing else in backticks is as long.
    let is_sentence = |text: &str| {
        text.matches('_').count() > 3 && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let named: Vec<&str> = page.spans().into_iter().filter(|span| is_sentence(span)).collect();
    ensure!(named.len() > 20, "{named:?} alone were found");
    let sources = sources()?;
    let missing: Vec<_> = named.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    ensure!(missing.is_empty(), "these are not there: {missing:?}");
    Ok(())
}

/// All sources of Rust, one after the other.
fn sources() -> Result<String> {
    let mut all = String::new();
    let mut folders = vec![root().join("crates"), root().join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all += &std::fs::read_to_string(path)?;
            }
        }
    }
    Ok(all)
}

#[test]
fn the_versions_that_are_said_to_be_tested_are_those_that_the_tests_run_with() -> Result<()> {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned());
    // What follows `mark` in a file, up to the end of the word.
    let after = |path: &str, mark: &str| {
        let text = read(path)?;
        let (_, rest) = text.split_once(mark).with_context(|| format!("no {mark} in {path}"))?;
        Ok::<_, anyhow::Error>(rest.split(['"', '\n', ' ']).next().unwrap_or_default().to_owned())
    };
    let minor = |version: String| version.split('.').take(2).collect::<Vec<_>>().join(".");
    let page = read("docs/support.md")?;
    for (row, version) in [
        ("Kubernetes", minor(after("e2e/tools/go.mod", "k8s.io/kubernetes v")?)),
        ("Gateway API", after("e2e/suite/go.mod", "sigs.k8s.io/gateway-api v")?),
        ("Envoy", after("Makefile", "ENVOY_VERSION := ")?),
        ("Envoy", after("charts/portcullis/values.yaml", "tag: distroless-v")?),
        ("Helm", minor(after("e2e/tools/go.mod", "helm.sh/helm/v3 v")?)),
        ("to build and test", minor(after("Cargo.toml", "rust-version = \"")?)),
        ("to build and test", minor(after("e2e/tools/go.mod", "\ngo ")?)),
    ] {
        let line = page.lines().find(|line| line.starts_with(&format!("| {row} |"))).context(row)?;
        let tested = line.split('|').nth(2).unwrap_or_default();
        ensure!(tested.contains(&version), "{row} {version} is what the tests run with, and the page says{tested}");
    }
    Ok(())
}

#[test]
fn the_figures_of_the_front_page_are_those_of_the_pages_behind_it() -> Result<()> {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).with_context(|| path.to_owned());
    let (front, settings, conformance) = (read("README.md")?, read("docs/settings.md")?, read("docs/conformance.md")?);
    let (_, figures) = front.split_once("## Figures").context("no figures")?;
    let figures = figures.split("## ").next().unwrap_or_default();
    let words: Vec<&str> = figures.split_whitespace().map(|word| word.trim_matches([',', '.', ':'])).collect();
    let measured = words.windows(2).filter(|pair| matches!(pair[1], "kB" | "ms"));
    let measured: Vec<String> = measured.map(|pair| pair.join(" ")).collect();
    ensure!(measured.len() > 3, "{measured:?}");
    for figure in measured {
        // A setting's default stands without a blank.
        let known = settings.contains(&figure) || settings.contains(&format!("`{}`", figure.replace(' ', "")));
        ensure!(known, "docs/settings.md does not have {figure}");
    }
    let (_, tests) = conformance.split_once("## All tests").context("no tests")?;
    let outcomes = tests.lines().filter_map(|line| line.split('|').map(str::trim).nth(3));
    let outcomes: Vec<_> = outcomes.filter(|outcome| !outcome.is_empty() && !outcome.starts_with('-')).collect();
    let passed = outcomes.iter().filter(|outcome| **outcome == "passed").count();
    let figure = format!("{passed} of {} tests passed", outcomes.len());
    ensure!(figures.contains(&figure), "docs/conformance.md says {figure}");
    Ok(())
}
