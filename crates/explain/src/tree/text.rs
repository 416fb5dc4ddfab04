//! A tree as text, two columns deeper a level.

use std::{collections::BTreeMap, fmt};

use ir::RouteId;

use super::{Gateway, Held, Listener, Match, Node, Reference, Root, Rule, State, Tree};
use crate::{explanation::text::whose, finding::Finding};

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.gateways.is_empty() {
            return writeln!(f, "no Gateway of ours");
        }
        self.gateways.iter().try_for_each(|gateway| write_gateway(f, gateway))
    }
}

fn line(f: &mut fmt::Formatter<'_>, depth: usize, text: fmt::Arguments<'_>) -> fmt::Result {
    writeln!(f, "{:width$}{text}", "", width = 2 * depth)
}

fn findings<'a>(
    f: &mut fmt::Formatter<'_>,
    depth: usize,
    findings: impl IntoIterator<Item = &'a Finding>,
) -> fmt::Result {
    findings.into_iter().try_for_each(|finding| line(f, depth, format_args!("! {finding}")))
}

fn write_gateway(f: &mut fmt::Formatter<'_>, gateway: &Gateway) -> fmt::Result {
    line(f, 0, format_args!("Gateway {}", gateway.gateway))?;
    findings(f, 1, gateway.refused.iter().chain(&gateway.problems))?;
    write_held(f, 1, &gateway.wide)?;
    // A route of several listeners is written at the first.
    let mut written = BTreeMap::new();
    for listener in &gateway.listeners {
        write_listener(f, listener, &mut written)?;
    }
    if !gateway.detached.is_empty() {
        line(f, 1, format_args!("attached to no listener"))?;
        findings(f, 2, &gateway.detached)?;
    }
    Ok(())
}

fn write_listener<'a>(
    f: &mut fmt::Formatter<'_>,
    listener: &'a Listener,
    written: &mut BTreeMap<&'a RouteId, &'a str>,
) -> fmt::Result {
    let Listener { name, port, protocol, hostname, refused, clients, policies, problems, wide, routes } = listener;
    let served = if refused.is_some() { ", not served" } else { "" };
    line(f, 1, format_args!("listener {name} ({protocol} {port}, {hostname}){served}"))?;
    findings(f, 2, refused.iter().chain(problems))?;
    clients.iter().try_for_each(|clients| line(f, 2, format_args!("{clients}")))?;
    policies.iter().try_for_each(|word| line(f, 2, format_args!("{word}")))?;
    write_held(f, 2, wide)?;
    if routes.is_empty() {
        line(f, 2, format_args!("no routes"))?;
    }
    for Root { hostnames, superseded, route } in routes {
        let all = superseded == hostnames;
        let hostnames = hostnames.join(", ");
        if !superseded.is_empty() && route.route.kind.is_stream() {
            let which = if all { String::new() } else { format!(" for {}", superseded.join(", ")) };
            line(f, 2, format_args!("{} for {hostnames}: another is served in its place{which}", route.route))?;
            if all {
                continue;
            }
        }
        if let Some(other) = written.get(&route.route) {
            line(f, 2, format_args!("{} for {hostnames}: as at listener {other}", route.route))?;
            continue;
        }
        written.insert(&route.route, name);
        line(f, 2, format_args!("{} for {hostnames}{}", route.route, state(route.state)))?;
        write_node(f, 3, route)?;
    }
    Ok(())
}

fn state(state: State) -> &'static str {
    match state {
        State::Served => "",
        State::Replaced => ": replaced",
        State::LeftOut => ": left out",
        State::Cycle => ": left out, since it stands above",
        State::Repeated => ": as above",
    }
}

/// What stands below the line of a route.
fn write_node(f: &mut fmt::Formatter<'_>, depth: usize, node: &Node) -> fmt::Result {
    findings(f, depth, &node.problems)?;
    node.rules.iter().try_for_each(|rule| write_rule(f, depth, rule))
}

fn write_rule(f: &mut fmt::Formatter<'_>, depth: usize, rule: &Rule) -> fmt::Result {
    let name = rule.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    match &rule.matches[..] {
        [] if rule.answer.is_some() => {
            let answer = rule.answer.as_ref().map(ToString::to_string).unwrap_or_default();
            line(f, depth, format_args!("rule {}{name} -> {answer}", rule.rule))?;
        }
        [] => line(f, depth, format_args!("rule {}{name}: matches nothing", rule.rule))?,
        [only] => line(f, depth, format_args!("rule {}{name}: {} -> {}", rule.rule, only.written, outcome(only)))?,
        all => {
            line(f, depth, format_args!("rule {}{name}", rule.rule))?;
            for matching in all {
                let Match { index, written, .. } = matching;
                line(f, depth + 1, format_args!("match {index}: {written} -> {}", outcome(matching)))?;
            }
        }
    }
    write_held(f, depth + 1, &rule.policies)?;
    findings(f, depth + 1, &rule.problems)?;
    rule.references.iter().try_for_each(|reference| write_reference(f, depth + 1, reference))
}

fn write_held(f: &mut fmt::Formatter<'_>, depth: usize, held: &[Held]) -> fmt::Result {
    held.iter().try_for_each(|Held { what, from, overridden, by }| {
        line(f, depth, format_args!("{what}{}", whose(from, overridden, by)))
    })
}

fn outcome(matching: &Match) -> String {
    match (&matching.left_out, matching.children, &matching.answer) {
        (Some(why), ..) => format!("left out: {why}"),
        (None, true, None) => "children".into(),
        (None, true, Some(answer)) => format!("children, else {answer}"),
        (None, false, Some(answer)) => answer.to_string(),
        (None, false, None) => "nothing".into(),
    }
}

fn write_reference(f: &mut fmt::Formatter<'_>, depth: usize, reference: &Reference) -> fmt::Result {
    let Reference { index, selects, children } = reference;
    let nobody = if children.is_empty() { ": nobody" } else { "" };
    line(f, depth, format_args!("backendRefs[{index}], {selects}{nobody}"))?;
    for child in children {
        line(f, depth + 1, format_args!("{}{}", child.route, state(child.state)))?;
        write_node(f, depth + 2, child)?;
    }
    Ok(())
}
