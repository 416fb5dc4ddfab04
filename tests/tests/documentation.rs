//! The documentation: each link leads somewhere, and each command does what stands beside it.
//!
//! What a page shows in blocks `sh` and `console` is followed from top to bottom, in a copy of the examples with free ports:
//! `make run` starts what the Makefile starts, `curl` has to be answered as the comment behind it says
//! (`documentation/claim.rs`), and a command with `$` before it has to print what stands below it. Of what needs a cluster,
//! charts are rendered and manifests are judged, and flags and names of files have to exist (`documentation/session.rs`).

#[path = "documentation/claim.rs"]
mod claim;
#[path = "documentation/named.rs"]
mod named;
#[path = "documentation/page.rs"]
mod page;
#[path = "documentation/session.rs"]
mod session;

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};

use portcullis_tests::process::{portcullis_binary, root};

use crate::page::{Page, dead_links};
use crate::session::{Command, Session};

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
