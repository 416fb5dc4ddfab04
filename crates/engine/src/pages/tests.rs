use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::graph::Graph;

struct Texts;
impl Group for Texts {
    const NAME: &'static str = "Texts";
    type Key = ();
    type Sort = u16;
    type Entry = u64;
    type Summary = u64;
    fn summary(entry: &u64) -> u64 {
        entry % 7
    }
    const HASH: Option<fn(&u64) -> [u8; 16]> = Some(|entry| u128::from(*entry).to_le_bytes());
}

fn nobody() -> NodeId {
    Graph::new(1).add(0, 0, 0)
}

fn put(content: &mut Content<Texts>, sort: u16, entry: u64) {
    content.put(content.locate(&sort), &sort, nobody(), entry);
}

fn remove(content: &mut Content<Texts>, sort: u16) {
    content.remove(content.locate(&sort));
}

fn content(entries: impl IntoIterator<Item = (u16, u64)>) -> Content<Texts> {
    let mut content = Content::default();
    for (sort, entry) in entries {
        put(&mut content, sort, entry);
    }
    content
}

fn view(entries: impl IntoIterator<Item = (u16, u64)>) -> View<Texts> {
    View(Arc::new(content(entries)))
}

fn entries(view: &View<Texts>) -> Vec<(u16, u64)> {
    view.iter().map(|(sort, entry)| (*sort, *entry)).collect()
}

fn plain_hash(entries: impl IntoIterator<Item = u64>) -> [u8; 16] {
    let bytes: Vec<u8> = entries.into_iter().flat_map(|entry| u128::from(entry).to_le_bytes()).collect();
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
    hash
}

fn assert_sound(content: &Content<Texts>) {
    for page in &content.pages {
        assert!((1..=MAX).contains(&page.len()), "a page of {} entries", page.len());
        assert_eq!(page.hashes().len(), page.len());
        assert_eq!(page.summary, page.iter().map(|(_, entry)| entry % 7).sum::<u64>());
    }
    for pair in content.pages.windows(2) {
        assert!(pair[0].last() < &pair[1].items[0].sort);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_group_is_an_ordered_map(
        ops in proptest::collection::vec((0..600_u16, proptest::option::weighted(0.6, 0..50_u64)), 1..2500),
        drain in any::<bool>(),
    ) {
        let mut model = BTreeMap::new();
        let mut group = Arc::new(Content::<Texts>::default());
        let mut kept = View(Arc::clone(&group));
        let mut kept_model: BTreeMap<u16, u64> = BTreeMap::new();
        let drained = (0..600).filter(|_| drain).map(|sort| (sort, None));
        for (i, (sort, entry)) in ops.into_iter().chain(drained).enumerate() {
            let now = Arc::make_mut(&mut group);
            if let Some(entry) = entry {
                model.insert(sort, entry);
                put(now, sort, entry);
            } else {
                model.remove(&sort);
                remove(now, sort);
            }
            if i % 97 == 0 {
                assert_sound(&group);
                let view = View(Arc::clone(&group));
                let plain: Vec<(u16, u64)> = model.clone().into_iter().collect();
                prop_assert_eq!(&entries(&view), &plain);
                prop_assert_eq!(view.len(), plain.len());
                prop_assert_eq!(*view.summary(), plain.iter().map(|(_, entry)| entry % 7).sum::<u64>());
                prop_assert_eq!(view.hash(), plain_hash(model.values().copied()));
                let anew = content(plain.iter().copied());
                prop_assert_eq!(view.set_hash(), View(Arc::new(anew)).set_hash(), "what is known of before is used");
                let hashes: Vec<_> = group.pages.iter().flat_map(|page| page.hashes().iter().rev()).collect();
                prop_assert_eq!(view.set_hash(), crate::set_hash(hashes.into_iter()), "in any order");
                prop_assert_eq!(view.get(&sort).copied(), model.get(&sort).copied());
                prop_assert_eq!(view.first().map(|(sort, _)| *sort), model.keys().next().copied());
                prop_assert_eq!(view.last().map(|(sort, _)| *sort), model.keys().next_back().copied());
                let tail: Vec<u16> = view.behind(|at| *at < sort).map(|(sort, _)| *sort).collect();
                prop_assert_eq!(tail, model.range(sort..).map(|(sort, _)| *sort).collect::<Vec<_>>());

                prop_assert_eq!(&entries(&kept), &kept_model.clone().into_iter().collect::<Vec<_>>());
                let changes: Vec<_> = view
                    .changes_since(&kept)
                    .into_iter()
                    .map(|(sort, before, now)| (*sort, before.copied(), now.copied()))
                    .collect();
                let expected: Vec<_> = (0..600)
                    .map(|sort| (sort, kept_model.get(&sort).copied(), model.get(&sort).copied()))
                    .filter(|(_, before, now)| before != now)
                    .collect();
                prop_assert_eq!(&changes, &expected);
                prop_assert_eq!(view == kept, expected.is_empty());
                (kept, kept_model) = (view, model.clone());
            }
        }
    }
}

#[test]
fn pages_that_shrink_are_joined() {
    let mut content = content((0..6400).map(|i| (i, 1)));
    assert_eq!(content.pages.len(), 100, "what arrives in order fills its pages");
    for sort in (0..6400).filter(|sort| sort % 16 != 0) {
        remove(&mut content, sort);
    }
    assert_sound(&content);
    assert_eq!(content.len, 400);
    assert!(content.pages.len() < 30, "{} pages for 400 entries", content.pages.len());
}

#[test]
fn equal_entries_hash_equal_however_they_came_about() {
    let in_order = view((0..1000).map(|i| (i, u64::from(i))));
    let backwards = view((0..1000).rev().map(|i| (i, u64::from(i))));
    let mut detour = content((0..2000).map(|i| (i, u64::from(i))));
    (1000..2000).rev().for_each(|sort| remove(&mut detour, sort));
    let detour = View(Arc::new(detour));
    assert_ne!(in_order.pages().count(), backwards.pages().count(), "the pages differ");
    for other in [&backwards, &detour] {
        assert_eq!((in_order.hash(), in_order.set_hash()), (other.hash(), other.set_hash()));
        assert!(in_order == *other && !in_order.is_same(other));
    }
    assert_ne!(in_order.hash(), view((0..1000).map(|i| (i, u64::from(i ^ 1)))).hash(), "order counts");
    let fewer = view((0..999).map(|i| (i, u64::from(i))));
    assert!(in_order.hash() != fewer.hash() && in_order.set_hash() != fewer.set_hash(), "and so does every entry");
}

#[test]
fn what_a_page_caches_lasts_until_the_page_changes() {
    let mut group = Arc::new(content((0..200).map(|i| (i, 1))));
    let sums = |view: &View<Texts>, made: &mut usize| -> u64 {
        let sum = |page: &Page<Texts>, made: &mut usize| {
            *made += 1;
            page.iter().map(|(_, entry)| entry).sum::<u64>()
        };
        view.pages().map(|page| *page.cached(|page| sum(page, made))).sum()
    };
    let (mut made, before) = (0, View(Arc::clone(&group)));
    assert_eq!((sums(&before, &mut made), made), (200, 4));
    assert_eq!((sums(&before, &mut made), made), (200, 4));
    put(Arc::make_mut(&mut group), 70, 11);
    let after = View(Arc::clone(&group));
    assert_eq!((sums(&after, &mut made), made), (210, 5), "one page of four changed");
    assert_eq!((sums(&before, &mut made), made), (200, 5), "the old snapshot has what it had");
    drop((before, after));
    remove(Arc::make_mut(&mut group), 70);
    assert_eq!((sums(&View(group), &mut made), made), (199, 6), "nobody else had the page: changed in place");
}

#[test]
fn what_is_made_from_a_page_and_more_is_made_anew_when_that_changes() {
    let view = view([(1, 5)]);
    let page = view.pages().next().expect("one page");
    let with = |of: u8, made: usize| *page.cached_with([of; 16], |_| made);
    assert_eq!([with(1, 10), with(1, 11)], [10, 10]);
    assert_eq!([with(2, 12), with(2, 13)], [12, 12]);
    assert_eq!(with(1, 14), 14, "one thing is kept");
}

#[test]
fn two_kinds_of_cached_things_do_not_mix() {
    let view = view([(1, 5)]);
    let page = view.pages().next().expect("one page");
    assert_eq!(*page.cached(Page::len), 1);
    assert_eq!(*page.cached(|_| "text"), "text");
    assert_eq!(*page.cached(|_| 7_usize), 1);
}
