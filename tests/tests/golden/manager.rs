//! The HTTP connection manager, in what `portcullis translate` prints.
//!
//! It is read as lines: what stands deeper than the key that begins it is a part of it.

use libtest_mimic::Failed;

const BEGINS: &str = "- name: envoy.filters.network.http_connection_manager";
const CONFIG: &str = "typedConfig:";

/// The first one, as [`generic`] has it.
pub(crate) fn first(printed: &str) -> Option<String> {
    let lines: Vec<_> = printed.lines().collect();
    let at = (0..lines.len()).find(|at| begins(&lines, *at))?;
    generic(&lines[at + 1..end(&lines, at)]).map(|(text, _)| text)
}

/// The text with a line in place of each that equals `standard` but for what names its listener.
pub(crate) fn elided(printed: &str, standard: &str) -> String {
    let lines: Vec<_> = printed.lines().collect();
    let (mut kept, mut at) = (Vec::new(), 0);
    while let Some(line) = lines.get(at) {
        at += 1;
        kept.push((*line).to_owned());
        if !begins(&lines, at - 1) {
            continue;
        }
        let end = end(&lines, at - 1);
        if let Some((_, named)) = generic(&lines[at..end]).filter(|(text, _)| text == standard) {
            kept.pop();
            kept.push(format!("{line} as in connection-manager.yaml, {named}"));
            at = end;
        }
    }
    kept.join("\n") + "\n"
}

fn begins(lines: &[&str], at: usize) -> bool {
    lines[at].trim() == CONFIG && at > 0 && lines[at - 1].trim_start() == BEGINS
}

/// Where what the line at `at` begins has ended.
fn end(lines: &[&str], at: usize) -> usize {
    let depth = indent(lines[at]);
    (at + 1..lines.len()).find(|&line| indent(lines[line]) <= depth).unwrap_or(lines.len())
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A connection manager without what names its listener, not indented, and what that is.
fn generic(lines: &[&str]) -> Option<(String, String)> {
    let value = |key: &str| lines.iter().find_map(|line| line.trim_start().strip_prefix(key)).map(str::trim);
    let (routes, pseudonym) = (value("routeConfigName:")?, value("cdnId:")?);
    let depth = lines.first().map(|line| indent(line))?;
    let text: String = lines
        .iter()
        .map(|line| {
            let line = line[depth..].replace(pseudonym, "PSEUDONYM");
            match line.split_once(": ") {
                Some((key, value)) if value == routes => format!("{key}: ROUTES\n"),
                _ => line + "\n",
            }
        })
        .collect();
    Some((text, format!("of {routes} and {pseudonym}")))
}

/// A test of this module.
pub(crate) fn differs() -> Result<(), Failed> {
    let printed = |header: &str| {
        format!(
            "filters:\n{BEGINS}\n  {CONFIG}\n    cdnId: me\n    header: {header}\n    pattern: (me){{3}}\n    \
             routeConfigName: http/80\n    statPrefix: http/80\nname: http/80\n"
        )
    };
    let standard = first(&printed("one")).ok_or("there is one")?;
    let short =
        format!("filters:\n{BEGINS}\n  {CONFIG} as in connection-manager.yaml, of http/80 and me\nname: http/80\n");
    let whole = printed("two");
    for (printed, expected) in [(printed("one"), &short), (whole.clone(), &whole)] {
        let elided = elided(&printed, &standard);
        if elided != *expected {
            return Err(format!("{elided}\ninstead of\n{expected}").into());
        }
    }
    Ok(())
}
