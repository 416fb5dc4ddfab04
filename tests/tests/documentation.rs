//! The documentation: each link leads somewhere, and each command does what stands beside it.
//!
//! What a page shows in blocks `sh` and `console` is followed from top to bottom, in a copy of the examples with free ports:
//! `make run` starts what the Makefile starts, `curl` has to be answered as the comment behind it says
//! (`documentation/claim.rs`), and a command with `$` before it has to print what stands below it. Of what needs a cluster,
//! charts are rendered and manifests are judged, and flags and names of files have to exist (`documentation/session.rs`).

#[path = "documentation/claim.rs"]
mod claim;
#[path = "documentation/page.rs"]
mod page;
#[path = "documentation/session.rs"]
mod session;

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};

use portcullis_tests::process::{portcullis_binary, root};

use crate::page::{Page, dead_links};
use crate::session::{Command, Session, has_its_target, has_its_test};

/// How many pages are followed at a time.
const AT_A_TIME: usize = 3;

#[test]
fn every_link_leads_somewhere() -> Result<()> {
    let pages = Page::all()?;
    let links: usize = pages.iter().map(|page| page.links().len()).sum();
    ensure!(links > 50, "{links} links alone were found");
    let dead = dead_links(&pages);
    ensure!(dead.is_empty(), "these lead nowhere:\n{}", dead.join("\n"));
    Ok(())
}

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
        ("Helm", minor(after("e2e/helm/go.mod", "helm.sh/helm/v3 v")?)),
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
    let profile = conformance.lines().find(|line| line.starts_with("| GATEWAY-HTTP |")).context("no such profile")?;
    let cells: Vec<&str> = profile.split('|').map(str::trim).collect();
    let (core, extended) = (cells[2], cells[3].split(' ').next().unwrap_or_default());
    for figure in [format!("{core} core tests"), format!("{extended} extended ones")] {
        ensure!(figures.contains(&figure), "docs/conformance.md says {figure}");
    }
    Ok(())
}

#[test]
fn the_front_page_is_short() -> Result<()> {
    let pages = Page::all()?;
    let front = pages.iter().find(|page| page.path.as_os_str() == "README.md").context("no README.md")?;
    ensure!(front.length() <= 120, "it has {} lines; what is for reference goes into docs/", front.length());
    Ok(())
}

#[test]
fn the_index_names_every_page_of_the_docs() -> Result<()> {
    let pages = Page::all()?;
    let index = pages.iter().find(|page| page.path.as_os_str() == "docs/README.md").context("no docs/README.md")?;
    let links = index.links();
    for page in pages.iter().filter(|page| page.path.starts_with("docs") && page.path != index.path) {
        let name = page.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        ensure!(links.iter().any(|link| link.split('#').next() == Some(&name)), "{name} is not in docs/README.md");
    }
    Ok(())
}

#[test]
fn every_example_is_followed_on_a_page() -> Result<()> {
    let pages = Page::all()?;
    let commands: Vec<Command> = pages.iter().flat_map(Page::blocks).flat_map(|block| Command::of(&block)).collect();
    for entry in std::fs::read_dir(root().join("examples"))? {
        let example = format!("examples/{}", entry?.file_name().to_string_lossy());
        ensure!(commands.iter().any(|command| command.text.contains(&example)), "no page has a command with {example}");
    }
    Ok(())
}

#[test]
fn settings_that_are_shown_are_taken() -> Result<()> {
    let shown = shown(|lines| lines.iter().any(|line| line.starts_with("invalidRouteReplacement:")))?;
    ensure!(shown.len() > 1, "{shown:?} alone were found");
    for (place, text) in shown {
        let folder = tempfile::tempdir()?;
        let settings = folder.path().join("settings.yaml");
        std::fs::write(&settings, text)?;
        let mut command = std::process::Command::new(portcullis_binary()?);
        command.arg("check").arg("--config").arg(settings).arg("-f").arg(root().join("examples/quickstart"));
        let output = command.output()?;
        ensure!(output.status.success(), "{place}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

#[test]
fn no_manifest_that_is_shown_is_refused() -> Result<()> {
    let shown = shown(|lines| lines.first().is_some_and(|line| line.starts_with("apiVersion:")))?;
    ensure!(shown.len() > 3, "{shown:?} alone were found");
    for (place, text) in shown {
        let folder = tempfile::tempdir()?;
        let manifest = folder.path().join("shown.yaml");
        std::fs::write(&manifest, text)?;
        let checked = std::process::Command::new(portcullis_binary()?).arg("check").arg("-f").arg(manifest).output()?;
        let said = String::from_utf8_lossy(&checked.stdout);
        // What it refers to may be missing: a page shows what matters.
        let sound = said.lines().last().is_some_and(|line| line.starts_with("0 refused"));
        ensure!(sound, "{place}: {said}");
    }
    Ok(())
}

/// The blocks of YAML on all pages of which this holds, each with its place.
fn shown(of_which: impl Fn(&[&str]) -> bool) -> Result<Vec<(String, String)>> {
    let mut shown = Vec::new();
    for page in Page::all()? {
        for block in page.blocks().into_iter().filter(|block| block.language == "yaml") {
            let lines: Vec<&str> = block.lines.iter().map(|(_, line)| *line).collect();
            if of_which(&lines) {
                shown.push((format!("{}:{}", page.path.display(), block.lines[0].0), lines.join("\n")));
            }
        }
    }
    Ok(shown)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_does_what_stands_beside_it() -> Result<()> {
    let pages = Page::all()?;
    let followed = stream::iter(&pages).map(follow).buffer_unordered(AT_A_TIME).try_collect::<Vec<_>>().await?;
    let run: usize = followed.iter().map(|(run, _)| run).sum();
    let wrong: Vec<String> = followed.into_iter().flat_map(|(_, wrong)| wrong).collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    ensure!(run > 60, "{run} commands alone were run");
    Ok(())
}

/// Follows a page, and gives how many of its commands were run and which did not do what the page says.
async fn follow(page: &Page) -> Result<(usize, Vec<String>)> {
    let (mut run, mut wrong) = (0, Vec::new());
    let commands: Vec<Command> = page.blocks().iter().flat_map(Command::of).collect();
    if commands.is_empty() {
        return Ok((run, wrong));
    }
    let mut session = Session::new().await?;
    for command in &commands {
        match session.follow(command).await {
            Ok(here) => run += usize::from(here),
            Err(error) => {
                wrong.push(format!("{}:{}: {}\n{error:#}", page.path.display(), command.line, command.text));
            }
        }
    }
    session.end().await?;
    Ok((run, wrong))
}
