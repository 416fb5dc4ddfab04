//! An explanation as text.

use std::fmt;

use super::{Considered, Effect, Explanation, Leaf, Link, MatchedListener, Outcome};
use crate::{finding::Finding, served_route::Answer};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            gateway,
            request,
            normalised,
            listener,
            virtual_host,
            chain,
            frozen,
            set_aside,
            outcome,
            effects,
            tried,
            ..
        } = self;
        writeln!(f, "{request} at Gateway {gateway}")?;
        if let Some(normalised) = normalised {
            let how = "dot segments removed, slashes merged, escapes as in a URL";
            writeln!(f, "path       {normalised} ({how})")?;
        }
        if let Some(MatchedListener { name, port, hostname, clients, policies }) = listener {
            writeln!(f, "listener   {name} (port {port}, {hostname})")?;
            clients.iter().try_for_each(|clients| writeln!(f, "           {clients}"))?;
            policies.iter().try_for_each(|word| writeln!(f, "           {word}"))?;
        }
        if let Some(domain) = virtual_host {
            writeln!(
                f,
                "host       {domain}, {} {}",
                tried.routes,
                if tried.routes == 1 { "route" } else { "routes" }
            )?;
        }
        for (depth, Link { route, rule, rule_name, written, selects }) in chain.iter().enumerate() {
            let head = if depth == 0 { "route" } else { "" };
            let name = rule_name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
            let selects = selects.as_ref().map(|selects| format!(" -> {selects}")).unwrap_or_default();
            writeln!(f, "{head:<11}{:depth$}{route} rule {rule}{name}: {written}{selects}", "", depth = 2 * depth)?;
        }
        frozen.iter().chain(set_aside).try_for_each(|finding| writeln!(f, "           ! {finding}"))?;
        for Effect { what, value, from, overridden, by } in effects {
            writeln!(f, "           {what}: {value}{}", whose(from, overridden, by))?;
        }
        write_outcome(f, outcome)?;
        if !tried.missed.is_empty() {
            let which = if self.leaf.is_some() { "tried before, and why they did not match" } else { "nearest misses" };
            writeln!(f, "{which}:")?;
            tried.missed.iter().try_for_each(|missed| write_considered(f, missed))?;
        }
        let others = tried.before.saturating_sub(tried.missed.len());
        if others > 0 && self.leaf.is_some() {
            writeln!(f, "  {others} more before it, whose path does not match")?;
        }
        if !tried.behind.is_empty() {
            writeln!(f, "would have matched too:")?;
            tried.behind.iter().try_for_each(|behind| write_considered(f, behind))?;
        }
        Ok(())
    }
}

/// Whom something comes from, who is not heard, and by whose word.
pub(crate) fn whose(from: &[String], overridden: &[String], by: &[String]) -> String {
    let said = [("from", from), ("not", overridden), ("by", by)].into_iter().filter(|(_, names)| !names.is_empty());
    said.fold(String::new(), |said, (what, names)| said + ", " + what + " " + &names.join(" and "))
}

fn write_considered(f: &mut fmt::Formatter<'_>, considered: &Considered) -> fmt::Result {
    let Considered { leaf: Leaf { kind, namespace, name, rule, matching, written, .. }, why } = considered;
    writeln!(f, "  {kind} {namespace}/{name} rule {rule} match {matching}: {written}: {why}")
}

fn write_outcome(f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
    let findings = |f: &mut fmt::Formatter<'_>, because: &[Finding]| {
        because.iter().try_for_each(|finding| writeln!(f, "           ! {finding}"))
    };
    write!(f, "{:<11}", "answer")?;
    match outcome {
        Outcome::Backends { backends, url, because } => {
            writeln!(f, "{}", Answer::Backends { backends: backends.clone() })?;
            writeln!(f, "{:<11}{url}", "asked for")?;
            findings(f, because)
        }
        Outcome::Redirect { status, location } => writeln!(f, "{status} to {location}"),
        Outcome::DirectResponse { status, body, because } => {
            writeln!(f, "{}", Answer::DirectResponse { status: *status, body: body.clone() })?;
            findings(f, because)
        }
        Outcome::NotFound { why } => writeln!(f, "404: {why}"),
        Outcome::Misdirected => {
            writeln!(f, "421: the host is that of another listener, for which clients open a connection of their own")
        }
        Outcome::BadRequest { why } => writeln!(f, "400: {why}"),
        Outcome::Unreachable { why, because } => {
            writeln!(f, "nobody: {why}")?;
            findings(f, because)
        }
    }
}
