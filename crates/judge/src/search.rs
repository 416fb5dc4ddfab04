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
pub(crate) enum Found {
    /// A process took a batch that it was in.
    Accepted,
    /// A process had it alone, and this came of it: neither accepted nor unavailable.
    ToBlame(Outcome),
    /// Nobody knows, for this reason.
    Unknown(Arc<str>),
}

/// What is known of a range before it runs.
enum Known {
    Nothing,
    /// The whole was refused, and all before this range was accepted.
    Guilty,
    /// It ran, and this came of it.
    Ran(Outcome),
}

/// Judges `count` of a batch, which `run` puts into a process range by range. All together first, then by halves.
///
/// One culprit among *n* costs about 1.5 log2 *n* processes. What is refused together and accepted in parts is accepted: a
/// batch is put together by chance, and the time that it has is for all of it.
pub(crate) async fn search(
    count: usize,
    budget: &mut Budget,
    mut run: impl AsyncFnMut(Range<usize>) -> Outcome,
) -> Vec<Found> {
    let mut found = vec![Found::Unknown("there was no time left to judge it".into()); count];
    let mut is_sound = false;
    let mut open = vec![(0..count, Known::Nothing)];
    while let Some((range, known)) = open.pop() {
        if range.is_empty() {
            continue;
        }
        let outcome = match known {
            Known::Guilty if range.len() > 1 => None,
            Known::Ran(outcome) => Some(outcome),
            Known::Guilty | Known::Nothing => {
                if !budget.spend() {
                    break;
                }
                Some(run(range.clone()).await)
            }
        };
        match outcome {
            Some(Outcome::Accepted) => {
                found[range].fill(Found::Accepted);
                continue;
            }
            Some(Outcome::Unavailable(why)) => return unavailable(found, &why),
            Some(outcome @ Outcome::Refused(_)) if range.len() == 1 && is_sound => {
                found[range.start] = Found::ToBlame(outcome);
                continue;
            }
            // Without words, it may have been what else runs on the machine, or somebody who kills processes: once more, alone.
            Some(_) if range.len() == 1 && is_sound => {
                if !budget.spend() {
                    break;
                }
                found[range.start] = match run(range.clone()).await {
                    Outcome::Accepted => Found::Accepted,
                    Outcome::Unavailable(why) => return unavailable(found, &why),
                    outcome => Found::ToBlame(outcome),
                };
                continue;
            }
            _ => {}
        }
        if !is_sound {
            // An Envoy that refuses an empty bootstrap says nothing of what is in another.
            match if budget.spend() { run(0..0).await } else { break } {
                Outcome::Accepted => is_sound = true,
                Outcome::Unavailable(why) => return unavailable(found, &why),
                outcome => return unavailable(found, &format!("it takes no bootstrap at all: {outcome:?}")),
            }
            if range.len() == 1 {
                open.push((range, outcome.map_or(Known::Guilty, Known::Ran)));
                continue;
            }
        }
        let middle = range.start + range.len() / 2;
        let (first, second) = (range.start..middle, middle..range.end);
        if !budget.spend() {
            break;
        }
        match run(first.clone()).await {
            Outcome::Accepted => {
                found[first].fill(Found::Accepted);
                open.push((second, Known::Guilty));
            }
            Outcome::Unavailable(why) => return unavailable(found, &why),
            outcome => {
                open.push((second, Known::Nothing));
                open.push((first, Known::Ran(outcome)));
            }
        }
    }
    found
}

/// What is known, and of the rest why it is not.
fn unavailable(mut found: Vec<Found>, why: &str) -> Vec<Found> {
    let why: Arc<str> = why.into();
    for entry in &mut found {
        if matches!(entry, Found::Unknown(_)) {
            *entry = Found::Unknown(why.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, time::Duration};

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
}
