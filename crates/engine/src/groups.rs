//! The groups of one type: what is emitted, by whom, and the settling of both.

use std::any::TypeId;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::core::{Core, Store, Turn};
use crate::edge::Read;
use crate::misses::Miss;
use crate::node::{NodeId, Place, Row};
use crate::pages::{Content, View};
use crate::rows::Rows;
use crate::sort::{sort_by, sort_numbers};
use crate::stats::{Counts, Kind, TableStats};
use crate::table::Group;

/// An entry that is to be there, or (none) no more, once the group settles.
struct Op<G: Group> {
    row: Row,
    sort: G::Sort,
    emitter: NodeId,
    entry: Option<G::Entry>,
}

/// Entries by emitter, as many as hold one sort key.
type Holders<G> = SmallVec<[(NodeId, <G as Group>::Entry); 2]>;

/// Where entries stand: group and sort key, in order.
type Spots<G> = Box<[(Row, <G as Group>::Sort)]>;

/// An emission of the row that is being computed.
struct Staged<G: Group>(Row, G::Sort, G::Entry);

struct Data<G: Group> {
    rows: Rows<G::Key, Arc<Content<G>>>,
    /// What the row that is being computed has emitted so far.
    staged: Vec<Staged<G>>,
    /// Where each emitter's entries stand, in order.
    emitted: HashMap<NodeId, Spots<G>, RandomState>,
    /// What has been emitted and withdrawn in this batch, by the depth of the group, the least last.
    ops: Vec<(u32, Vec<Op<G>>)>,
    /// Entries that wait behind another emitter's entry with the same sort key.
    contested: HashMap<(Row, G::Sort), Holders<G>, RandomState>,
    counts: Counts,
}

impl Core {
    pub(crate) fn groups<G: Group>(&self) -> (Place, &GroupStore<G>) {
        self.typed(TypeId::of::<G>(), G::NAME)
    }
}

impl<G: Group> Data<G> {
    fn push(&mut self, op: Op<G>) {
        let depth = G::depth(&self.rows.slot(op.row).key);
        let at = self.ops.partition_point(|(other, _)| *other > depth);
        match self.ops.get_mut(at) {
            Some((same, ops)) if *same == depth => ops.push(op),
            _ => self.ops.insert(at, (depth, vec![op])),
        }
    }

    /// From now on the entries of an emitter stand where these do, which are sorted. What stands elsewhere is withdrawn.
    fn set_spots(&mut self, emitter: NodeId, staged: &[Staged<G>]) {
        let stands = |(row, sort): &(Row, G::Sort), Staged(at, key, _): &Staged<G>| row == at && sort == key;
        let before = self.emitted.get(&emitter).map_or(&[][..], |spots| spots);
        // As nearly always when a row is computed again.
        if before.len() == staged.len() && before.iter().zip(staged).all(|(spot, staged)| stands(spot, staged)) {
            return;
        }
        let old = self.emitted.remove(&emitter).unwrap_or_default();
        let mut new = Vec::with_capacity(staged.len());
        new.extend(staged.iter().map(|Staged(row, sort, _)| (*row, sort.clone())));
        new.dedup();
        let mut kept = new.iter().peekable();
        for (row, sort) in old {
            while kept.next_if(|other| (other.0, &other.1) < (row, &sort)).is_some() {}
            if kept.peek().is_none_or(|other| (other.0, &other.1) != (row, &sort)) {
                self.push(Op { row, sort, emitter, entry: None });
            }
        }
        if !new.is_empty() {
            self.emitted.insert(emitter, new.into());
        }
    }
}

/// Operations by their groups, and there by sort key. The later of two of one emitter on one key counts, so they stay in order.
fn in_order<G: Group>(ops: Vec<Op<G>>) -> impl Iterator<Item = Op<G>> {
    // Most groups get a single one in a batch, so that sort keys, which are text, are seldom compared. Row and place are one
    // number, which is compared at once.
    let place = |ordered: u64| (ordered & 0xffff_ffff) as u32 as usize;
    let mut order: Vec<_> = ops.iter().zip(0_u64..).map(|(op, at)| u64::from(op.row) << 32 | at).collect();
    order.sort_unstable();
    for same in order.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
        sort_numbers(same, &|a, b| ops[place(a)].sort.cmp(&ops[place(b)].sort));
    }
    let mut ops: Vec<_> = ops.into_iter().map(Some).collect();
    order.into_iter().filter_map(move |ordered| ops[place(ordered)].take())
}

/// All groups of one type.
pub(crate) struct GroupStore<G: Group> {
    place: Place,
    empty: Arc<Content<G>>,
    data: RefCell<Data<G>>,
}

impl<G: Group> GroupStore<G> {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            empty: Arc::default(),
            data: RefCell::new(Data {
                rows: Rows::default(),
                staged: Vec::new(),
                emitted: HashMap::default(),
                ops: Vec::new(),
                contested: HashMap::default(),
                counts: Counts::default(),
            }),
        }
    }

    fn intern(&self, core: &Core, data: &mut Data<G>, key: &G::Key) -> Row {
        data.rows.intern(key, |row| self.make(core, row, key))
    }

    fn make(&self, core: &Core, row: Row, key: &G::Key) -> (NodeId, Arc<Content<G>>) {
        (core.graph.borrow_mut().add(self.place, row, G::depth(key)), Arc::clone(&self.empty))
    }

    /// The group's node and its content, or that it has none, for `reader`.
    pub(crate) fn read(&self, core: &Core, key: &G::Key, reader: NodeId) -> (Read, View<G>) {
        let data = &mut *self.data.borrow_mut();
        let place = self.place;
        let missed = |hash| {
            let miss = Miss { place, hash };
            core.graph.borrow_mut().claim_miss(miss, reader).then_some(miss)
        };
        match data.rows.intern_unless(key, missed, |row| self.make(core, row, key)) {
            Ok(row) => {
                let slot = data.rows.slot(row);
                (Read::Node(slot.node), View(Arc::clone(&slot.payload)))
            }
            Err(miss) => (Read::Miss(miss), View(Arc::clone(&self.empty))),
        }
    }

    /// The group as it is, without a trace.
    pub(crate) fn peek(&self, key: &G::Key) -> View<G> {
        View(Arc::clone(self.data.borrow().rows.get(key).map_or(&self.empty, |slot| &slot.payload)))
    }

    pub(crate) fn node(&self, key: &G::Key) -> Option<NodeId> {
        self.data.borrow().rows.get(key).map(|slot| slot.node)
    }

    /// An emission of the row that is being computed.
    pub(crate) fn stage(&self, core: &Core, key: &G::Key, sort: G::Sort, entry: G::Entry) {
        let data = &mut *self.data.borrow_mut();
        let row = self.intern(core, data, key);
        data.staged.push(Staged(row, sort, entry));
    }

    /// Brings one group and sort key to what the operations say. Tells whether a reader sees a difference.
    fn apply(
        core: &Core,
        data: &mut Data<G>,
        row: Row,
        sort: &G::Sort,
        ops: impl Iterator<Item = (NodeId, Option<G::Entry>)>,
    ) -> bool {
        let content = &data.rows.slot(row).payload;
        let mut holders: Holders<G> = SmallVec::new();
        let spot = content.locate(sort);
        let seen = content.holder(spot).map(|(emitter, entry)| (emitter, entry.clone()));
        holders.extend(seen.clone());
        if !data.contested.is_empty()
            && let Some(waiting) = data.contested.remove(&(row, sort.clone()))
        {
            holders.extend(waiting);
        }
        for (emitter, entry) in ops {
            let held = holders.iter().position(|(holder, _)| *holder == emitter);
            match (held, entry) {
                (Some(i), Some(entry)) if holders[i].1 == entry => {}
                (Some(i), Some(entry)) => holders[i].1 = entry,
                (None, Some(entry)) => holders.push((emitter, entry)),
                (Some(i), None) => drop(holders.remove(i)),
                (None, None) => {}
            }
        }
        if holders.len() > 1 {
            sort_by(&mut holders, |a, b| core.compare(a.0, b.0));
            data.contested.insert((row, sort.clone()), holders.drain(1..).collect());
        }
        let content = &mut data.rows.slot_mut(row).payload;
        match (seen, holders.pop()) {
            (None, None) => false,
            (Some(_), None) => {
                Arc::make_mut(content).remove(spot);
                true
            }
            (None, Some((emitter, entry))) => {
                Arc::make_mut(content).put(spot, sort, emitter, entry);
                true
            }
            (Some((before, old)), Some((emitter, new))) => {
                if old == new {
                    if before != emitter {
                        Arc::make_mut(content).hand_over(spot, emitter);
                    }
                    return false;
                }
                drop(old);
                Arc::make_mut(content).put(spot, sort, emitter, new);
                true
            }
        }
    }
}

impl<G: Group> Store for GroupStore<G> {
    fn name(&self) -> &'static str {
        G::NAME
    }

    fn pending(&self) -> Option<u32> {
        self.data.borrow().ops.last().map(|(depth, _)| *depth)
    }

    fn open(&self, core: &Core, depth: u32) {
        let data = &mut *self.data.borrow_mut();
        let Some((_, ops)) = data.ops.pop_if(|(least, _)| *least == depth) else { return };
        let mut ops = in_order(ops).peekable();
        while let Some(Op { row, sort, emitter, entry }) = ops.next() {
            let further = std::iter::from_fn(|| ops.next_if(|op| op.row == row && op.sort == sort));
            let all = std::iter::once((emitter, entry)).chain(further.map(|op| (op.emitter, op.entry)));
            let changed = Self::apply(core, data, row, &sort, all);
            let slot = data.rows.slot(row);
            let mut graph = core.graph.borrow_mut();
            if changed {
                // Marks the group, and wakes its readers, once: the queue drops repetitions.
                graph.enqueue(slot.node);
            }
            if slot.payload.is_empty() {
                graph.suspect(slot.node);
            }
        }
    }

    fn turn(&self, core: &Core, row: Row) -> Turn {
        let data = &mut *self.data.borrow_mut();
        let node = data.rows.slot(row).node;
        let mut graph = core.graph.borrow_mut();
        graph.dequeued(node);
        graph.wake_readers(node);
        graph.wake_missing(self.place, || data.rows.missed_by(row));
        data.counts.counting(graph.batch()).changed += 1;
        Turn { computed: false, changed: true }
    }

    fn commit(&self, core: &Core, emitter: NodeId) -> bool {
        core.graph.borrow_mut().set_busy(self.place);
        let data = &mut *self.data.borrow_mut();
        let mut staged = std::mem::take(&mut data.staged);
        sort_by(&mut staged, |a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let any = !staged.is_empty();
        data.set_spots(emitter, &staged);
        for Staged(row, sort, entry) in staged.drain(..) {
            data.push(Op { row, sort, emitter, entry: Some(entry) });
        }
        data.staged = staged;
        any
    }

    fn unstage(&self, core: &Core) {
        let data = &mut *self.data.borrow_mut();
        for Staged(row, ..) in data.staged.drain(..) {
            core.graph.borrow_mut().suspect(data.rows.slot(row).node);
        }
    }

    fn holds(&self, row: Row) -> bool {
        !self.data.borrow().rows.slot(row).payload.is_empty()
    }

    fn free(&self, row: Row) {
        self.data.borrow_mut().rows.remove(row);
    }

    fn compare_keys(&self, a: Row, b: Row) -> Ordering {
        let data = self.data.borrow();
        data.rows.slot(a).key.cmp(&data.rows.slot(b).key)
    }

    fn describe(&self, row: Row) -> String {
        format!("{}({:?})", G::NAME, self.data.borrow().rows.slot(row).key)
    }

    fn missed(&self, _core: &Core, _row: Row) -> Vec<String> {
        Vec::new()
    }

    fn find_described(&self, key: &str) -> Option<NodeId> {
        self.data.borrow().rows.find_described(key)
    }

    #[cfg(debug_assertions)]
    fn keys(&self) -> Vec<(String, NodeId)> {
        self.data.borrow().rows.described()
    }

    fn emitted_by(&self, emitter: NodeId) -> Vec<String> {
        let data = self.data.borrow();
        let entries = data.emitted.get(&emitter).into_iter().flatten();
        entries.map(|(row, sort)| format!("{}({:?}) at {sort:?}", G::NAME, data.rows.slot(*row).key)).collect()
    }

    fn emitters(&self, row: Row) -> Vec<(String, NodeId)> {
        let data = self.data.borrow();
        data.rows.slot(row).payload.emitters().map(|(sort, node)| (format!("{sort:?}"), node)).collect()
    }

    fn kind(&self) -> Kind {
        Kind::Group
    }

    fn stats(&self, batch: u32) -> TableStats {
        let data = self.data.borrow();
        TableStats {
            name: G::NAME,
            kind: Kind::Group,
            rows: data.rows.len(),
            computed: 0,
            computed_total: 0,
            max_per_cell: 0,
            changed: data.counts.in_batch(batch).changed,
            contested: data.contested.values().map(SmallVec::len).sum(),
        }
    }
}
