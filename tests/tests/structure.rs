//! The structure of the sources: which crate and which module may know which, and that none grows over the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use portcullis_tests::process::root;

/// The crates in the order of ARCHITECTURE.md, whose dependencies point upwards.
fn crates() -> Result<Vec<String>> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `crates/")?.split_once('`'));
    let crates: Vec<_> = rows.map(|(name, _)| name.to_owned()).collect();
    let mut folders: Vec<_> = fs::read_dir(root().join("crates"))?
        .map(|entry| anyhow::Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    let mut told = crates.clone();
    folders.sort();
    told.sort();
    ensure!(folders == told, "ARCHITECTURE.md has {told:?}, and there are {folders:?}");
    Ok(crates)
}

#[test]
fn every_file_that_the_architecture_names_is_there() -> Result<()> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let of_ours = |name: &&str| {
        name.split_once('/').is_some_and(|(folder, _)| !folder.is_empty() && root().join(folder).is_dir())
    };
    let names: Vec<_> = page.split('`').skip(1).step_by(2).filter(of_ours).collect();
    ensure!(names.len() > 50, "the page must name files, it names {names:?}");
    for name in names {
        ensure!(root().join(name).exists(), "ARCHITECTURE.md names {name}, which is not there");
    }
    Ok(())
}

/// Sources without those of tests, with their text.
fn sources(folder: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if name == "tests" || name == "testing" {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            found.push((path, text));
        }
    }
    Ok(found)
}

#[test]
fn no_crate_depends_on_one_below_it() -> Result<()> {
    let crates = crates()?;
    for (place, name) in crates.iter().enumerate() {
        let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml"))?;
        let dependencies = manifest.split("[dependencies]").nth(1).context("no dependencies")?;
        let dependencies = dependencies.split("\n[").next().unwrap_or_default().lines();
        let names = dependencies.filter_map(|line| line.split(['.', ' ']).next());
        for dependency in names.filter(|dependency| crates.iter().any(|known| known == dependency)) {
            let is_above = crates[..place].iter().any(|above| above == dependency);
            ensure!(is_above, "{name} depends on {dependency}, which stands below it in ARCHITECTURE.md");
        }
    }
    Ok(())
}

#[test]
fn no_crate_is_more_than_a_quarter_of_all() -> Result<()> {
    let mut lines = BTreeMap::new();
    for name in crates()? {
        let sources = sources(&root().join("crates").join(&name).join("src"))?;
        lines.insert(name, sources.iter().map(|(_, text)| text.lines().count()).sum::<usize>());
    }
    let all: usize = lines.values().sum();
    for (name, own) in &lines {
        ensure!(own * 4 <= all, "{name} has {own} of {all} lines: take out what has an edge of its own");
    }
    Ok(())
}

/// The modules of a crate that one of its sources names by `crate::`, or by `root`, which means the same there: `super::`, as
/// often as its module is deep.
fn named(text: &str, root: &str) -> BTreeSet<String> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n");
    let mut names = BTreeSet::new();
    for (at, path) in code.match_indices("crate::").chain(code.match_indices(root)) {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || "_$:".contains(before)) {
            continue;
        }
        let rest = &code[at + path.len()..];
        let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let (mut depth, mut is_first) = (0, true);
        for (at, character) in list.char_indices() {
            match character {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                character if is_first && character.is_alphanumeric() => {
                    names.insert(word(&list[at..]));
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    names
}

/// A way from `at` back to `start`, if there is one.
fn circle<'a>(
    knows: &'a BTreeMap<String, BTreeSet<String>>,
    start: &str,
    at: &'a str,
    seen: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    for next in knows.get(at)? {
        if next == start {
            return Some(vec![at]);
        }
        if seen.insert(next)
            && let Some(mut way) = circle(knows, start, next, seen)
        {
            way.insert(0, at);
            return Some(way);
        }
    }
    None
}

#[test]
fn modules_of_a_crate_know_each_other_in_one_direction() -> Result<()> {
    for name in crates()? {
        let folder = root().join("crates").join(&name).join("src");
        let mut knows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, text) in sources(&folder)? {
            let below = path.strip_prefix(&folder)?;
            let first = below.components().next().context("a file")?.as_os_str().to_string_lossy().into_owned();
            let module = first.strip_suffix(".rs").unwrap_or(&first).to_owned();
            if module != "lib" && module != "main" {
                let root = "super::".repeat(below.components().count());
                knows.entry(module).or_default().extend(named(&text, &root));
            }
        }
        let modules: BTreeSet<_> = knows.keys().cloned().collect();
        for (module, known) in &mut knows {
            known.retain(|other| other != module && modules.contains(other));
        }
        for module in &modules {
            let way = circle(&knows, module, module, &mut BTreeSet::new());
            ensure!(way.is_none(), "a circle in {name}: {} > {module}", way.unwrap_or_default().join(" > "));
        }
    }
    Ok(())
}

#[test]
fn names_are_read_out_of_lists_and_paths() {
    let text = "use crate::{\n    a, b::{c, d},\n    e::F,\n};\nlet x = crate::g::h(); // crate::i\nuse other_crate::j;\n\
                use super::super::k;\nuse super::l;";
    assert_eq!(named(text, "super::super::").into_iter().collect::<Vec<_>>(), ["a", "b", "e", "g", "k"]);
}
