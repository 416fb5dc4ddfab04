//! A page of the documentation, read as a reader of Markdown sees it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use portcullis_tests::process::root;

/// A file in Markdown.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its place, from the top of the checkout.
    pub(crate) path: PathBuf,
    text: String,
}

/// What stands between two fences.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    /// The word behind the opening fence.
    pub(crate) language: &'a str,
    /// The lines inside, with their numbers from 1.
    pub(crate) lines: Vec<(usize, &'a str)>,
}

impl Page {
    /// Every page of the checkout.
    pub(crate) fn all() -> Result<Vec<Self>> {
        let mut pages = Vec::new();
        let mut folders = vec![root().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if path.is_dir() && !name.starts_with('.') && name != "target" {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "md") {
                    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                    pages.push(Self { path: path.strip_prefix(root())?.to_owned(), text });
                }
            }
        }
        pages.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(pages)
    }

    /// How many lines it has.
    pub(crate) fn length(&self) -> usize {
        self.text.lines().count()
    }

    /// What stands between fences.
    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        let mut open: Option<Block<'_>> = None;
        for (number, line) in (1..).zip(self.text.lines()) {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(language), None) => open = Some(Block { language: language.trim(), lines: Vec::new() }),
                (None, Some(block)) => block.lines.push((number, line)),
                (None, None) => {}
            }
        }
        blocks
    }

    /// The lines outside of fences, without what stands between backticks.
    fn prose(&self) -> Vec<String> {
        let mut fenced = false;
        let mut prose = Vec::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                prose.push(line.split('`').step_by(2).collect());
            }
        }
        prose
    }

    /// What stands between backticks outside of fences.
    pub(crate) fn spans(&self) -> Vec<&str> {
        let mut fenced = false;
        let mut spans = Vec::new();
        for line in self.text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                spans.extend(line.split('`').skip(1).step_by(2));
            }
        }
        spans
    }

    /// Where its links lead, pictures included.
    pub(crate) fn links(&self) -> Vec<String> {
        let prose = self.prose().join("\n");
        let marks = [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"'), ("href=\"", '"')];
        let links = marks.iter().flat_map(|(mark, end)| {
            let found = prose.split(mark).skip(1).filter_map(|rest| rest.split_once(*end));
            found.map(|(link, _)| link.to_owned()).collect::<Vec<_>>()
        });
        links.collect()
    }

    /// The names of its headings, as links have them.
    pub(crate) fn anchors(&self) -> BTreeSet<String> {
        let mut fenced = false;
        let mut anchors = BTreeSet::new();
        for line in self.text.lines() {
            fenced ^= line.trim_start().starts_with("```");
            if let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) {
                anchors.insert(anchor(heading.trim_start_matches('#').trim()));
            }
        }
        anchors
    }
}

/// What becomes of a heading in a link: small letters, without punctuation, with hyphens for blanks.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Every link of `pages` that leads nowhere.
pub(crate) fn dead_links(pages: &[Page]) -> Vec<String> {
    let mut dead = Vec::new();
    for page in pages {
        for link in page.links() {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) = link.split_once('#').map_or((&*link, None), |(file, anchor)| (file, Some(anchor)));
            let folder = page.path.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { page.path.clone() } else { folder.join(file) };
            let leads = match anchor {
                None => root().join(&target).exists(),
                Some(anchor) => pages.iter().any(|page| page.path == plain(&target) && page.anchors().contains(anchor)),
            };
            if !leads {
                dead.push(format!("{}: {link}", page.path.display()));
            }
        }
    }
    dead
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
