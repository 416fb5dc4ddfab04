//! The content of a group: entries in order, in pages that are shared with whoever looks at them.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use smallvec::{SmallVec, smallvec};

use crate::node::NodeId;
use crate::set_hash::SetHash;
use crate::table::{Group, Summary};

/// A page that would hold more is split.
const MAX: usize = 64;
/// A page that holds fewer is joined with a neighbour, if both together stay below [`JOINED`].
const MIN: usize = 16;
const JOINED: usize = 48;
/// Hashes that are gathered before they are hashed.
const HASHED_AT_ONCE: usize = 2048;

struct Item<G: Group> {
    sort: G::Sort,
    entry: G::Entry,
    emitter: NodeId,
}

impl<G: Group> Clone for Item<G> {
    fn clone(&self) -> Self {
        Self { sort: self.sort.clone(), entry: self.entry.clone(), emitter: self.emitter }
    }
}

/// A run of entries of a group.
///
/// Where one page ends and the next begins depends on the history of the group, so nothing that is computed may depend
/// on it; pages are for working fast, not for meaning.
pub struct Page<G: Group> {
    /// Most groups have one, which takes no block of its own.
    items: SmallVec<[Item<G>; 1]>,
    summary: G::Summary,
    more: OnceLock<Box<More>>,
}

/// What few pages have.
#[derive(Default)]
struct More {
    /// The hashes of the entries, in order.
    hashes: Vec<[u8; 16]>,
    cache: Mutex<Option<Cached>>,
}

/// What a page keeps, and of what besides its entries it was made.
struct Cached {
    of: [u8; 16],
    made: Arc<dyn Any + Send + Sync>,
}

impl More {
    /// None where there is nothing to keep.
    fn new(hashes: Vec<[u8; 16]>) -> OnceLock<Box<Self>> {
        let more = OnceLock::new();
        if !hashes.is_empty() {
            more.get_or_init(|| Box::new(Self { hashes, cache: Mutex::default() }));
        }
        more
    }
}

impl<G: Group> Clone for Page<G> {
    fn clone(&self) -> Self {
        let mut items = SmallVec::with_capacity(self.len() + 1);
        items.extend(self.items.iter().cloned());
        let mut hashes = Vec::with_capacity(if G::HASH.is_some() { self.len() + 1 } else { 0 });
        hashes.extend_from_slice(self.hashes());
        // A page is cloned in order to be changed, so what was cached for it ends here.
        Self { items, summary: self.summary.clone(), more: More::new(hashes) }
    }
}

impl<G: Group> Page<G> {
    fn of(item: Item<G>) -> Self {
        let hashes = G::HASH.map(|hash| hash(&item.entry)).into_iter().collect();
        let summary = G::summary(&item.entry);
        Self { items: smallvec![item], summary, more: More::new(hashes) }
    }

    /// What was made of it is not kept any more, since it changes. Gives its hashes.
    fn changing(&mut self) -> Option<&mut Vec<[u8; 16]>> {
        let more = self.more.get_mut()?;
        more.cache = Mutex::default();
        Some(&mut more.hashes)
    }

    /// Number of entries, at least one.
    #[expect(clippy::len_without_is_empty, reason = "a page is never empty")]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// What the entries come to together.
    pub fn summary(&self) -> &G::Summary {
        &self.summary
    }

    /// The entries' hashes, in order, if they have any.
    pub fn hashes(&self) -> &[[u8; 16]] {
        self.more.get().map_or(&[], |more| &more.hashes)
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&G::Sort, &G::Entry)> {
        self.items.iter().map(|item| (&item.sort, &item.entry))
    }

    /// Something made from this page alone (its entries' bytes in one piece, for instance), made once and kept for as
    /// long as the page lives unchanged.
    ///
    /// A page keeps one such thing. If it already keeps one of another type, `make` is called and nothing is kept.
    pub fn cached<C: Send + Sync + 'static>(&self, make: impl FnOnce(&Self) -> C) -> Arc<C> {
        self.cached_with([0; 16], make)
    }

    /// The same, made from the page and from something else, whose content hash is `of`: with another one it is made anew
    /// and takes the place of what was kept.
    pub fn cached_with<C: Send + Sync + 'static>(&self, of: [u8; 16], make: impl FnOnce(&Self) -> C) -> Arc<C> {
        let more = self.more.get_or_init(Box::default);
        let cache = || more.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = cache().as_ref().filter(|kept| kept.of == of).map(|kept| Arc::clone(&kept.made));
        match kept.map(Arc::downcast) {
            Some(Ok(made)) => return made,
            Some(Err(_)) => return Arc::new(make(self)),
            None => {}
        }
        let fresh = Arc::new(make(self));
        // Another reader of the same page may have been first; what it made is equal.
        *cache() = Some(Cached { of, made: Arc::clone(&fresh) as Arc<dyn Any + Send + Sync> });
        fresh
    }

    fn last(&self) -> &G::Sort {
        &self.items[self.items.len() - 1].sort
    }

    fn insert(&mut self, i: usize, item: Item<G>) {
        self.summary.add(&G::summary(&item.entry));
        let hash = G::HASH.map(|hash| hash(&item.entry));
        if let (Some(hashes), Some(hash)) = (self.changing(), hash) {
            hashes.insert(i, hash);
        }
        self.items.insert(i, item);
    }

    fn remove(&mut self, i: usize) -> Item<G> {
        let item = self.items.remove(i);
        if let (Some(hashes), Some(_)) = (self.changing(), G::HASH) {
            hashes.remove(i);
        }
        self.summary.remove(&G::summary(&item.entry));
        item
    }

    fn split_off(&mut self, i: usize) -> Self {
        let items: SmallVec<[Item<G>; 1]> = self.items.drain(i..).collect();
        let hashes = self.changing().map(|hashes| hashes.split_off(i.min(hashes.len()))).unwrap_or_default();
        let mut summary = G::Summary::default();
        for item in &items {
            summary.add(&G::summary(&item.entry));
        }
        self.summary.remove(&summary);
        Self { items, summary, more: More::new(hashes) }
    }

    fn append(&mut self, mut other: Self) {
        self.items.append(&mut other.items);
        if let (Some(hashes), Some(others)) = (self.changing(), other.changing()) {
            hashes.append(others);
        }
        self.summary.add(&other.summary);
    }
}

/// Where a key is in a group that has not changed since: a page, and the place there, which is `Err` if the key is not there.
pub(crate) type Spot = (usize, Result<usize, usize>);

/// All of a group.
pub(crate) struct Content<G: Group> {
    /// In order, none empty.
    pages: SmallVec<[Arc<Page<G>>; 1]>,
    len: usize,
    summary: G::Summary,
    /// None while it never had an entry with a hash.
    hashed: Option<Box<Hashed>>,
}

/// What is known of the hashes of all entries.
#[derive(Clone, Default)]
struct Hashed {
    in_order: OnceLock<[u8; 16]>,
    as_set: SetHash,
}

impl Hashed {
    /// Notes that an entry with this hash comes, or else goes.
    fn turn(&mut self, hash: &[u8; 16], comes: bool) {
        self.in_order = OnceLock::new();
        self.as_set.turn(hash, comes);
    }
}

impl<G: Group> Default for Content<G> {
    fn default() -> Self {
        Self { pages: SmallVec::new(), len: 0, summary: G::Summary::default(), hashed: None }
    }
}

impl<G: Group> Clone for Content<G> {
    fn clone(&self) -> Self {
        Self { pages: self.pages.clone(), len: self.len, summary: self.summary.clone(), hashed: self.hashed.clone() }
    }
}

impl<G: Group> Content<G> {
    /// Where the key is, or would be.
    pub(crate) fn locate(&self, sort: &G::Sort) -> Spot {
        // What arrives in order is behind everything.
        if self.pages.last().is_none_or(|last| last.last() < sort) {
            return (self.pages.len(), Err(0));
        }
        let page = self.pages.partition_point(|page| page.last() < sort);
        match self.pages.get(page) {
            Some(found) => (page, found.items.binary_search_by(|item| item.sort.cmp(sort))),
            None => (page, Err(0)),
        }
    }

    fn find(&self, sort: &G::Sort) -> Option<&Item<G>> {
        let (page, Ok(i)) = self.locate(sort) else { return None };
        Some(&self.pages[page].items[i])
    }

    /// Who emitted the entry at that spot, and the entry, if there is one.
    pub(crate) fn holder(&self, (page, i): Spot) -> Option<(NodeId, &G::Entry)> {
        let item = &self.pages.get(page)?.items[i.ok()?];
        Some((item.emitter, &item.entry))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn emitters(&self) -> impl Iterator<Item = (&G::Sort, NodeId)> {
        self.pages.iter().flat_map(|page| page.items.iter().map(|item| (&item.sort, item.emitter)))
    }

    /// Puts an entry at that key, in the place of another one if there is one. `spot` is where the key was located.
    pub(crate) fn put(&mut self, (page, i): Spot, sort: &G::Sort, emitter: NodeId, entry: G::Entry) {
        let summary = G::summary(&entry);
        self.summary.add(&summary);
        let hash = G::HASH.map(|hash| hash(&entry));
        if let Some(hash) = &hash {
            self.hashed.get_or_insert_default().turn(hash, true);
        }
        match i {
            Ok(i) => {
                let page = Arc::make_mut(&mut self.pages[page]);
                let before = G::summary(&page.items[i].entry);
                self.summary.remove(&before);
                page.summary.add(&summary);
                page.summary.remove(&before);
                if let (Some(hashes), Some(hash), Some(hashed)) = (page.changing(), hash, &mut self.hashed) {
                    hashed.turn(&std::mem::replace(&mut hashes[i], hash), false);
                }
                let item = &mut page.items[i];
                (item.entry, item.emitter) = (entry, emitter);
            }
            Err(i) => {
                self.len += 1;
                self.insert(page, i, Item { sort: sort.clone(), entry, emitter });
            }
        }
    }

    fn insert(&mut self, mut page: usize, mut i: usize, item: Item<G>) {
        if page == self.pages.len() {
            // Behind everything. A full last page is left full, so that what arrives in order fills its pages.
            match self.pages.last() {
                Some(last) if last.len() < MAX => (page, i) = (page - 1, last.len()),
                _ => return self.pages.push(Arc::new(Page::of(item))),
            }
        }
        if self.pages[page].len() >= MAX {
            let full = Arc::make_mut(&mut self.pages[page]);
            let upper = full.split_off(MAX / 2);
            self.pages.insert(page + 1, Arc::new(upper));
            if i > MAX / 2 {
                (page, i) = (page + 1, i - MAX / 2);
            }
        }
        Arc::make_mut(&mut self.pages[page]).insert(i, item);
    }

    /// Takes the entry at that spot away, if there is one.
    pub(crate) fn remove(&mut self, spot: Spot) {
        let (page, Ok(i)) = spot else { return };
        if let Some(hashed) = &mut self.hashed {
            hashed.turn(&self.pages[page].hashes()[i], false);
        }
        self.len -= 1;
        if self.pages[page].len() == 1 {
            self.summary.remove(&self.pages.remove(page).summary);
            return;
        }
        let item = Arc::make_mut(&mut self.pages[page]).remove(i);
        self.summary.remove(&G::summary(&item.entry));
        if self.pages[page].len() < MIN {
            let left = if page > 0 { page - 1 } else { page };
            if left + 1 < self.pages.len() && self.pages[left].len() + self.pages[left + 1].len() <= JOINED {
                let right = self.pages.remove(left + 1);
                Arc::make_mut(&mut self.pages[left]).append(Arc::unwrap_or_clone(right));
            }
        }
    }

    /// The entry at that spot goes on unchanged under another emitter.
    pub(crate) fn hand_over(&mut self, spot: Spot, emitter: NodeId) {
        let (page, Ok(i)) = spot else { return };
        Arc::make_mut(&mut self.pages[page]).items[i].emitter = emitter;
    }
}

/// A cheap shared snapshot of a group, which stays as it is when the group changes.
pub struct View<G: Group>(pub(crate) Arc<Content<G>>);

impl<G: Group> View<G> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether nothing is emitted into the group.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the entries come to together. Costs nothing.
    pub fn summary(&self) -> &G::Summary {
        &self.0.summary
    }

    /// Hash over the entries' hashes in order. Depends on nothing else: not on pages, not on sort keys, not on the
    /// history of the group. Computed once a change, when first asked for.
    pub fn hash(&self) -> [u8; 16] {
        let hash = || {
            let mut hasher = blake3::Hasher::new();
            // BLAKE3 is several times faster on long pieces than on a page at a time.
            let mut piece = Vec::with_capacity(self.len().min(HASHED_AT_ONCE) * 16);
            for page in &self.0.pages {
                if piece.len() + page.len() * 16 > HASHED_AT_ONCE * 16 {
                    hasher.update(&piece);
                    piece.clear();
                }
                piece.extend_from_slice(page.hashes().as_flattened());
            }
            hasher.update(&piece);
            let mut hash = [0; 16];
            hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
            hash
        };
        self.0.hashed.as_ref().map_or_else(hash, |hashed| *hashed.in_order.get_or_init(hash))
    }

    /// Hash over the entries' hashes as a set: for entries that tell themselves where they stand. Of a group with many
    /// entries it costs a change a small part of what [`View::hash`] costs.
    pub fn set_hash(&self) -> [u8; 16] {
        let entries = self.0.pages.iter().flat_map(|page| page.hashes());
        match &self.0.hashed {
            Some(hashed) => hashed.as_set.of(self.len(), entries),
            None => SetHash::default().of(0, entries),
        }
    }

    /// The entries, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&G::Sort, &G::Entry)> {
        self.0.pages.iter().flat_map(|page| page.iter())
    }

    /// The entries in order, page by page.
    pub fn pages(&self) -> impl DoubleEndedIterator<Item = &Page<G>> {
        self.0.pages.iter().map(|page| &**page)
    }

    /// The entry with the lowest sort key.
    pub fn first(&self) -> Option<(&G::Sort, &G::Entry)> {
        let item = &self.0.pages.first()?.items[0];
        Some((&item.sort, &item.entry))
    }

    /// The entry with the highest sort key.
    pub fn last(&self) -> Option<(&G::Sort, &G::Entry)> {
        let item = self.0.pages.last()?.items.last()?;
        Some((&item.sort, &item.entry))
    }

    /// The entry at that sort key.
    pub fn get(&self, sort: &G::Sort) -> Option<&G::Entry> {
        self.0.find(sort).map(|item| &item.entry)
    }

    /// The entries behind those whose sort keys are `before`, which must be the first ones, in order. What is skipped is
    /// not looked through.
    pub fn behind(&self, before: impl Fn(&G::Sort) -> bool) -> impl Iterator<Item = (&G::Sort, &G::Entry)> {
        let page = self.0.pages.partition_point(|page| before(page.last()));
        let skip = self.0.pages.get(page).map_or(0, |page| page.items.partition_point(|item| before(&item.sort)));
        self.0.pages[page..].iter().flat_map(|page| page.iter()).skip(skip)
    }

    /// Whether both are the same snapshot, or snapshots between which nothing was written. Costs nothing; equal views
    /// with different histories are not the same.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What changed from `old` to this view, in order of sort keys: `(sort, entry before, entry now)`. Pages that both
    /// share are skipped.
    pub fn changes_since<'a>(&'a self, old: &'a Self) -> Vec<Change<'a, G>> {
        diff(&old.0.pages, &self.0.pages)
    }
}

/// A sort key, its entry before and its entry now.
pub type Change<'a, G> = (&'a <G as Group>::Sort, Option<&'a <G as Group>::Entry>, Option<&'a <G as Group>::Entry>);

fn diff<'a, G: Group>(old: &'a [Arc<Page<G>>], new: &'a [Arc<Page<G>>]) -> Vec<Change<'a, G>> {
    let mut changes = Vec::new();
    let (mut olds, mut news) = (Cursor::new(old), Cursor::new(new));
    loop {
        if let (Some(a), Some(b)) = (olds.page_start(), news.page_start())
            && Arc::ptr_eq(a, b)
        {
            olds.skip_page();
            news.skip_page();
            continue;
        }
        let order = match (olds.peek(), news.peek()) {
            (None, None) => return changes,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(a), Some(b)) => a.sort.cmp(&b.sort),
        };
        let before = if order.is_le() { olds.next() } else { None };
        let now = if order.is_ge() { news.next() } else { None };
        let same = matches!((before, now), (Some(a), Some(b)) if a.entry == b.entry);
        if let Some(item) = before.or(now)
            && !same
        {
            changes.push((&item.sort, before.map(|item| &item.entry), now.map(|item| &item.entry)));
        }
    }
}

/// A position in a list of pages.
struct Cursor<'a, G: Group> {
    pages: &'a [Arc<Page<G>>],
    i: usize,
}

impl<'a, G: Group> Cursor<'a, G> {
    fn new(pages: &'a [Arc<Page<G>>]) -> Self {
        Self { pages, i: 0 }
    }

    fn page_start(&self) -> Option<&'a Arc<Page<G>>> {
        if self.i == 0 { self.pages.first() } else { None }
    }

    fn skip_page(&mut self) {
        self.pages = &self.pages[1..];
        self.i = 0;
    }

    fn peek(&self) -> Option<&'a Item<G>> {
        self.pages.first().map(|page| &page.items[self.i])
    }

    fn next(&mut self) -> Option<&'a Item<G>> {
        let item = self.peek()?;
        self.i += 1;
        if self.i == self.pages[0].len() {
            self.skip_page();
        }
        Some(item)
    }
}

impl<G: Group> Clone for View<G> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Equal sort keys and entries, however they are paged. Shared pages are not looked into.
impl<G: Group> PartialEq for View<G> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || (self.len() == other.len() && diff(&self.0.pages, &other.0.pages).is_empty())
    }
}

impl<G: Group> fmt::Debug for View<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(G::NAME)?;
        f.debug_list().entries(self.iter().map(|(sort, _)| sort)).finish()
    }
}

#[cfg(test)]
mod tests;
