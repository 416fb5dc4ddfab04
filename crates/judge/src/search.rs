//! Who is to blame for a batch that is refused.

use std::{ops::Range, sync::Arc};

use tokio::time::Instant;

use crate::outcome::Outcome;

/// How much may be spent on finding out whom to blame.
#[derive(Clone, Debug)]
pub struct Budget {
    /// How many processes may still run.
    pub runs: u32,
    /// Until when.
    pub until: Instant,
}

impl Budget {
    fn spend(&mut self) -> bool {
        if self.runs == 0 || Instant::now() >= self.until {
            return false;
        }
        self.runs -= 1;
        true
    }
}

/// What is known of one of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A batch was taken that it was in.
    Accepted,
    /// It was alone, and this came of it: neither accepted nor unavailable.
    ToBlame(Outcome),
    /// Nobody knows, for this reason.
    Unknown(Arc<str>),
}

/// What is known of a range before it is tried.
#[derive(Debug)]
enum Known {
    Nothing,
    /// The whole was refused, and all before this range was accepted.
    Guilty,
    /// It was tried, and this came of it.
    Tried(Outcome),
}

/// What the next answer is to.
#[derive(Debug)]
enum Asked {
    /// This range.
    Range(Range<usize>),
    /// The first half of one that was refused.
    Half(Range<usize>, Range<usize>),
    /// One alone, once more.
    Again(usize),
    /// Nothing at all, on behalf of a range of which this came.
    Nothing(Range<usize>, Outcome),
}

/// A search for those of a batch that are to blame, which somebody else puts to the test: all together first, then by halves.
///
/// One culprit among *n* costs about 1.5 log2 *n* questions, and no more than 2 log2 *n* + 2. What is refused together and accepted
/// in parts is accepted: a batch is put together by chance, and the time that it has is for all of it.
#[derive(Debug)]
pub struct Search {
    found: Vec<Found>,
    /// What is to be looked at, the next at the end.
    open: Vec<(Range<usize>, Known)>,
    asked: Option<Asked>,
    /// Whether it is known that nothing at all is accepted.
    is_sound: bool,
}

impl Search {
    /// One of so many.
    pub fn new(count: usize) -> Self {
        Self::in_batches(count, std::iter::once(0..count))
    }

    /// The same of ranges that are never tried together, and are all of it.
    pub fn in_batches(count: usize, batches: impl IntoIterator<Item = Range<usize>>) -> Self {
        let mut open: Vec<_> = batches.into_iter().map(|batch| (batch, Known::Nothing)).collect();
        open.reverse();
        let found = vec![Found::Unknown("there was no time left to judge it".into()); count];
        Self { found, open, asked: None, is_sound: false }
    }

    /// What is to be tried next; none where all is known that will be. The same again until there is an answer.
    pub fn question(&mut self) -> Option<Range<usize>> {
        while self.asked.is_none() {
            let (range, known) = self.open.pop()?;
            self.asked = self.look(range, known);
        }
        self.asked.as_ref().map(|asked| match asked {
            Asked::Range(range) | Asked::Half(range, _) => range.clone(),
            Asked::Again(at) => *at..at + 1,
            Asked::Nothing(..) => 0..0,
        })
    }

    /// What has to be tried for a range; none where it is known.
    fn look(&mut self, range: Range<usize>, known: Known) -> Option<Asked> {
        if range.is_empty() {
            return None;
        }
        let middle = range.start + range.len() / 2;
        let half = Asked::Half(range.start..middle, middle..range.end);
        match known {
            Known::Guilty if range.len() > 1 => Some(half),
            Known::Guilty | Known::Nothing => Some(Asked::Range(range)),
            Known::Tried(Outcome::Accepted) => {
                self.found[range].fill(Found::Accepted);
                None
            }
            // Who takes nothing at all says nothing of what is in something.
            Known::Tried(outcome) if !self.is_sound => Some(Asked::Nothing(range, outcome)),
            Known::Tried(_) if range.len() > 1 => Some(half),
            Known::Tried(outcome @ Outcome::Refused(_)) => {
                self.found[range.start] = Found::ToBlame(outcome);
                None
            }
            // Without words, it may have been what else runs on the machine, or somebody who kills processes: once more, alone.
            Known::Tried(_) => Some(Asked::Again(range.start)),
        }
    }

    /// What came of the last question.
    pub fn answer(&mut self, outcome: Outcome) {
        let Some(asked) = self.asked.take() else { return };
        if let Outcome::Unavailable(why) = &outcome {
            return self.end(why);
        }
        match asked {
            Asked::Range(range) => self.open.push((range, Known::Tried(outcome))),
            Asked::Half(first, second) => {
                let of_second = if outcome == Outcome::Accepted { Known::Guilty } else { Known::Nothing };
                self.open.push((second, of_second));
                self.open.push((first, Known::Tried(outcome)));
            }
            Asked::Again(at) => {
                self.found[at] = if outcome == Outcome::Accepted { Found::Accepted } else { Found::ToBlame(outcome) };
            }
            Asked::Nothing(range, of_range) if outcome == Outcome::Accepted => {
                self.is_sound = true;
                self.open.push((range, Known::Tried(of_range)));
            }
            Asked::Nothing(..) => self.end(&format!("it takes nothing at all: {outcome:?}")),
        }
    }

    /// Nothing more is asked: what is not known yet is not, for this reason.
    fn end(&mut self, why: &str) {
        self.open.clear();
        let why: Arc<str> = why.into();
        for entry in &mut self.found {
            if matches!(entry, Found::Unknown(_)) {
                *entry = Found::Unknown(why.clone());
            }
        }
    }

    /// What is known of each, in their order.
    pub fn found(&self) -> &[Found] {
        &self.found
    }
}

/// Judges `count` of a batch, which `run` puts into a process range by range.
pub(crate) async fn search(
    count: usize,
    budget: &mut Budget,
    mut run: impl AsyncFnMut(Range<usize>) -> Outcome,
) -> Vec<Found> {
    let mut search = Search::new(count);
    while let Some(range) = search.question() {
        if !budget.spend() {
            break;
        }
        search.answer(run(range).await);
    }
    search.found
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeSet, time::Duration};

    use proptest::{collection::btree_set, prelude::*};

    use super::*;

    const REFUSED: fn() -> Outcome = || Outcome::Refused("no".into());

    /// What is found among `count` with these culprits, and how many processes it takes.
    async fn searched(count: usize, culprits: &[usize], runs: u32) -> (Vec<Found>, u32) {
        let mut budget = Budget { runs, until: Instant::now() + Duration::from_hours(1) };
        let found = search(count, &mut budget, async |range: Range<usize>| {
            if culprits.iter().any(|culprit| range.contains(culprit)) { REFUSED() } else { Outcome::Accepted }
        });
        (found.await, runs - budget.runs)
    }

    #[tokio::test]
    async fn each_culprit_is_found_and_no_other() {
        let all: Vec<_> = (0..64).collect();
        for culprits in [&[][..], &[0], &[999], &[500], &[499, 500], &[1, 2, 998], &all] {
            let (found, _) = searched(1_000, culprits, u32::MAX).await;
            for (at, found) in found.iter().enumerate() {
                let expected = if culprits.contains(&at) { Found::ToBlame(REFUSED()) } else { Found::Accepted };
                assert_eq!(*found, expected, "{at} of {culprits:?}");
            }
        }
    }

    #[tokio::test]
    async fn few_culprits_take_few_processes() {
        assert_eq!(searched(1_000, &[], 1).await.1, 1, "a sound batch takes one");
        for culprit in [0, 1, 333, 512, 999] {
            let (_, runs) = searched(1_000, &[culprit], u32::MAX).await;
            assert!(runs <= 22, "{runs} for {culprit}");
        }
        assert!(searched(1_000, &[3, 500, 990], u32::MAX).await.1 <= 50);
        assert!(searched(1, &[0], u32::MAX).await.1 <= 2, "one alone, and an empty one");
    }

    #[tokio::test]
    async fn what_the_budget_does_not_reach_is_unknown_and_never_accepted() {
        for runs in 0..30 {
            let (found, spent) = searched(1_000, &[700], runs).await;
            assert!(spent <= runs);
            assert_ne!(found[700], Found::Accepted);
        }
        let mut late = Budget { runs: 9, until: Instant::now() };
        let found = search(3, &mut late, async |_| Outcome::Accepted).await;
        assert!(found.iter().all(|found| matches!(found, Found::Unknown(_))));
    }

    #[tokio::test]
    async fn an_envoy_that_takes_nothing_blames_nobody() {
        for outcome in [REFUSED(), Outcome::Crashed(11), Outcome::Unavailable("gone".into())] {
            let mut budget = Budget { runs: 99, until: Instant::now() + Duration::from_hours(1) };
            let found = search(1_000, &mut budget, async |_| outcome.clone()).await;
            assert!(found.iter().all(|found| matches!(found, Found::Unknown(_))), "{outcome:?}");
            assert!(budget.runs >= 97, "it is noticed at once");
        }
    }

    #[tokio::test]
    async fn one_that_goes_away_while_it_is_asked_keeps_what_it_said() {
        let mut budget = Budget { runs: 99, until: Instant::now() + Duration::from_hours(1) };
        let asked = RefCell::new(0);
        let found = search(8, &mut budget, async |range: Range<usize>| {
            *asked.borrow_mut() += 1;
            match *asked.borrow() {
                // All, an empty one, the first half.
                1 => REFUSED(),
                2 | 3 => Outcome::Accepted,
                _ => Outcome::Unavailable(format!("gone at {range:?}")),
            }
        })
        .await;
        assert_eq!(found[..4], vec![Found::Accepted; 4]);
        assert!(found[4..].iter().all(|found| matches!(found, Found::Unknown(why) if why.contains("gone"))));
    }

    #[tokio::test]
    async fn what_ends_without_words_is_blamed_only_if_it_does_so_again() {
        for (outcome, again) in [
            (Outcome::OutOfMemory, false),
            (Outcome::OutOfMemory, true),
            (Outcome::Crashed(11), false),
            (Outcome::Stalled, false),
            (Outcome::Ended("exit status: 7".into()), true),
        ] {
            let mut budget = Budget { runs: 99, until: Instant::now() + Duration::from_hours(1) };
            let asked = RefCell::new(0);
            let found = search(8, &mut budget, async |range: Range<usize>| {
                if !range.contains(&5) {
                    return Outcome::Accepted;
                }
                *asked.borrow_mut() += usize::from(range.len() == 1);
                if *asked.borrow() < 2 || again { outcome.clone() } else { Outcome::Accepted }
            })
            .await;
            let expected = if again { Found::ToBlame(outcome.clone()) } else { Found::Accepted };
            assert_eq!(found[5], expected);
            assert!(found.iter().enumerate().all(|(at, found)| at == 5 || *found == Found::Accepted));
        }
    }

    #[tokio::test]
    async fn what_is_too_much_together_is_accepted_in_parts() {
        let mut budget = Budget { runs: 99, until: Instant::now() + Duration::from_hours(1) };
        let found = search(
            8,
            &mut budget,
            async |range: Range<usize>| {
                if range.len() > 3 { Outcome::TooExpensive } else { Outcome::Accepted }
            },
        );
        assert_eq!(found.await, vec![Found::Accepted; 8]);
    }

    /// What is found with no more than this many questions, and how many it took.
    fn asked(culprits: &BTreeSet<usize>, mut search: Search, most: u32) -> (Vec<Found>, u32) {
        let mut questions = 0;
        while let Some(range) = search.question() {
            if questions == most {
                break;
            }
            questions += 1;
            assert_eq!(search.question().as_ref(), Some(&range), "it is the same until it is answered");
            search.answer(if culprits.range(range).next().is_some() { REFUSED() } else { Outcome::Accepted });
        }
        (search.found().to_vec(), questions)
    }

    proptest! {
        #[test]
        fn within_a_bound_it_finds_the_culprits_or_says_that_it_does_not_know(
            count in 1_usize..2_000,
            culprits in btree_set(0_usize..2_000, 0..8),
            batch in 1_usize..2_000,
            most in 0_u32..64,
        ) {
            let culprits: BTreeSet<_> = culprits.into_iter().filter(|at| *at < count).collect();
            let batches = (0..count).step_by(batch).map(|start| start..count.min(start + batch));
            let number = u32::try_from(batches.len()).expect("few");
            let (found, questions) = asked(&culprits, Search::in_batches(count, batches), most);
            prop_assert!(questions <= most);
            let mut is_known = true;
            for (at, found) in found.iter().enumerate() {
                match found {
                    Found::ToBlame(outcome) => prop_assert!(culprits.contains(&at) && *outcome == REFUSED()),
                    Found::Accepted => prop_assert!(!culprits.contains(&at)),
                    Found::Unknown(_) => is_known = false,
                }
            }
            // Each culprit costs twice the height of its tree at most, each batch one, and one is for nothing at all.
            let height = batch.min(count).next_power_of_two().ilog2();
            let enough = number + 1 + u32::try_from(culprits.len()).expect("few") * 2 * height;
            prop_assert!(is_known || most < enough, "{most} of {enough} questions are not enough");
        }
    }

    #[test]
    fn one_culprit_of_ten_thousand_takes_no_more_than_thirty_two_questions() {
        for culprit in [0, 1, 4_999, 5_000, 8_191, 9_999] {
            let (found, questions) = asked(&[culprit].into(), Search::new(10_000), u32::MAX);
            assert!(questions <= 32 && found[culprit] == Found::ToBlame(REFUSED()), "{questions} for {culprit}");
        }
    }
}
