//! Reports for people: why a row has its value.

use std::fmt;

use crate::core::Core;
use crate::fault::Fault;
use crate::node::NodeId;
use crate::stats::Kind;

/// A row or group that another one read, and whether it exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Table and key.
    pub cell: String,
    /// Whether it has a value or entries.
    pub present: bool,
}

/// Why a row has its value, or a group its entries. Rows are named `Table(key)`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Why {
    /// The row.
    pub cell: String,
    /// Input, lookup, derived or group.
    pub kind: Kind,
    /// Whether it has a value (a group: entries).
    pub present: bool,
    /// Whether it would have to be computed: by the next settling, or once it is read or demanded.
    pub stale: bool,
    /// The panic because of which it has no value, or only the one that its table has for such a case.
    pub fault: Option<Fault>,
    /// Its depth within its table.
    pub depth: u32,
    /// What it read.
    pub reads: Vec<Seen>,
    /// Who reads it.
    pub readers: Vec<String>,
    /// Whether it is demanded from outside.
    pub root: bool,
    /// How many rows, input rows and roots demand it.
    pub demand: u32,
    /// The rows that demand it; input rows demand without being listed.
    pub demanded_by: Vec<String>,
    /// What it demands.
    pub demands: Vec<Seen>,
    /// Where it has entries: group and sort key.
    pub emitted: Vec<String>,
    /// A group's entries: sort key and emitter.
    pub entries: Vec<(String, String)>,
}

impl Why {
    pub(crate) fn of(core: &Core, node: NodeId) -> Self {
        let graph = core.graph.borrow();
        let cell = graph.cell(node);
        let store = core.store(cell.place);
        let (reads, demands): (Vec<_>, Vec<_>) = (graph.reads(node).collect(), graph.demands(node).to_vec());
        let (readers, groups): (Vec<_>, Vec<_>) = (graph.readers(node).collect(), graph.groups(node).to_vec());
        let demanders = graph.demanders(node);
        let is_group = store.kind() == Kind::Group;
        let stale = !matches!(store.kind(), Kind::Group | Kind::Input) && graph.is_stale(node);
        let (root, demand) = (graph.is_root(node), graph.demand_count(node));
        drop(graph);
        // One that is stale has read nothing, or what it will not read again.
        let missed = if stale { Vec::new() } else { store.missed(core, cell.row) };
        let seen = |nodes: Vec<NodeId>| {
            nodes.into_iter().map(|node| Seen { cell: core.describe(node), present: core.present(node) })
        };
        let mut reads: Vec<_> = seen(reads).collect();
        for cell in missed {
            if reads.iter().all(|seen| seen.cell != cell) {
                reads.push(Seen { cell, present: false });
            }
        }
        let named = |nodes: Vec<NodeId>| {
            let mut names: Vec<_> = nodes.into_iter().map(|node| core.describe(node)).collect();
            names.sort_unstable();
            names
        };
        Self {
            cell: core.describe(node),
            kind: store.kind(),
            present: core.present(node),
            stale,
            fault: core.faults().own(node).or(core.faults().poison(node)).cloned(),
            depth: cell.depth,
            reads,
            readers: named(readers),
            root,
            demand,
            demanded_by: named(demanders),
            demands: seen(demands).collect(),
            emitted: groups.iter().flat_map(|place| core.store(*place).emitted_by(node)).collect(),
            entries: if is_group {
                store.emitters(cell.row).into_iter().map(|(sort, node)| (sort, core.describe(node))).collect()
            } else {
                Vec::new()
            },
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let presence = |present| if present { "present" } else { "missing" };
        let stale = if self.stale && self.demand > 0 { ", stale" } else { "" };
        writeln!(f, "{}: {} {}{stale}, depth {}", self.cell, self.kind, presence(self.present), self.depth)?;
        if let Some(fault) = &self.fault {
            writeln!(f, "  poisoned: {fault}")?;
        }
        list(f, self.reads.iter().map(|seen| format!("reads {} ({})", seen.cell, presence(seen.present))))?;
        if self.root {
            writeln!(f, "  demanded from outside")?;
        }
        if self.kind == Kind::Derived && self.demand == 0 {
            writeln!(f, "  demanded by nobody")?;
        }
        list(f, self.demanded_by.iter().map(|other| format!("demanded by {other}")))?;
        let listed = self.demanded_by.len() + usize::from(self.root);
        if self.demand as usize > listed {
            writeln!(f, "  demanded by {} input row(s)", self.demand as usize - listed)?;
        }
        list(f, self.readers.iter().map(|other| format!("read by {other}")))?;
        list(f, self.demands.iter().map(|seen| format!("demands {} ({})", seen.cell, presence(seen.present))))?;
        list(f, self.emitted.iter().map(|entry| format!("emits into {entry}")))?;
        list(f, self.entries.iter().map(|(sort, emitter)| format!("entry at {sort} by {emitter}")))
    }
}

/// So many lines of a kind, and the number of the rest: a row may have 100,000 readers. The fields have them all.
fn list(f: &mut fmt::Formatter<'_>, mut lines: impl ExactSizeIterator<Item = String>) -> fmt::Result {
    const LINES: usize = 100;
    for line in lines.by_ref().take(LINES) {
        writeln!(f, "  {line}")?;
    }
    if lines.len() > 0 { writeln!(f, "  ... and {} more like this", lines.len()) } else { Ok(()) }
}
