//! How long an expression takes a worker of Envoy, at most.
//!
//! RE2 builds a deterministic automaton while it reads, a state when it is first met, and then takes a byte in a few
//! nanoseconds. Where there are too many states it gives up, and goes on instruction by instruction, which takes a
//! thousand times as long. So an expression is explored here: if its states are few, it costs what reading costs; if
//! not, what all of its instructions cost for each byte.
//!
//! All figures were measured with Envoy 1.40 on an AMD EPYC, the slowest of what was tried, and rounded up.

use std::collections::HashMap;

use regex_automata::{
    nfa::thompson::{self, NFA, State, WhichCaptures},
    util::{alphabet::Unit, primitives::StateID},
};
use regex_syntax::{
    ParserBuilder,
    hir::{Hir, Look},
};

/// Reading a byte, in nanoseconds, as all that follow.
const BYTE: u64 = 2;

/// Building a state of the automaton.
const STATE: u64 = 1_500;

/// An instruction, where a state is built or a byte is taken by instructions.
const INSTRUCTION: u64 = 8;

/// The same where groups are kept.
const CAPTURING_INSTRUCTION: u64 = 15;

/// Replacing one match.
const REPLACEMENT: u64 = 100;

/// What RE2 lends an automaton, in bytes.
pub const MEMORY: u64 = 2_600_000;

/// States that are explored at most.
const MAX_STATES: usize = 500;

/// Instructions that are looked at while exploring an automaton, at most.
const MAX_STEPS: u64 = 30_000;

/// A state of the automaton in memory, a kind of bytes and an instruction in it, in bytes.
const STATE_BYTES: u64 = 100;
const KIND_BYTES: u64 = 8;
const INSTRUCTION_BYTES: u64 = 8;

/// What an expression is found to take, and what it took to find that out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// Time at most, in nanoseconds.
    pub nanos: u64,
    /// What the states take that are built meanwhile, in bytes. They are kept, so it is not what one text takes, but
    /// what all do that may ever be read.
    pub memory: u64,
    /// Instructions that were looked at, some nanoseconds each.
    pub steps: u64,
}

/// How long it takes at most to hold a text of up to `longest` bytes against all of `pattern`.
pub fn matching(pattern: &str, longest: u64) -> Estimate {
    let Some(hir) = read(pattern) else { return Estimate { nanos: u64::MAX, memory: MEMORY, steps: 0 } };
    let length = longest_match(&hir).map_or(longest, |most| most.saturating_add(1).min(longest));
    let slow = by_instruction(pattern, length);
    let Some(nfa) = compile(&hir, false) else { return Estimate { nanos: slow, memory: MEMORY, steps: 0 } };
    let mut explorer = Explorer::new(&nfa);
    let explored = explorer.explore(nfa.start_anchored());
    let memory = memory(explored.as_ref());
    let nanos = explored.map_or(slow, |automaton| automaton.reading(length).min(slow));
    Estimate { nanos, memory, steps: explorer.steps }
}

/// How long it takes at most to replace all that `pattern` matches in a text of up to `longest` bytes.
///
/// After each match the search begins anew, so an expression that reads on after a match, in the hope of a longer one,
/// may read the rest of the text after each byte.
pub fn replacing(pattern: &str, longest: u64) -> Estimate {
    let compiled = read(pattern).and_then(|hir| Some((compile(&hir, false)?, compile(&hir, true)?, hir)));
    let Some((nfa, backwards, hir)) = compiled else {
        return Estimate { nanos: u64::MAX, memory: 2 * MEMORY, steps: 0 };
    };
    let once = hir.properties().look_set_prefix().contains(Look::Start);
    let shortest = hir.properties().minimum_len().unwrap_or(1).max(1) as u64;
    let matches = if once { 1 } else { longest / shortest };
    let slow = by_instruction(pattern, longest);
    let start = if once { nfa.start_anchored() } else { nfa.start_unanchored() };
    let mut explorer = Explorer::new(&nfa);
    // It looks for the end, and backwards for the start.
    let forwards = explorer.explore(start);
    let mut memory = memory(forwards.as_ref());
    let finding = forwards.map_or(slow, |automaton| automaton.reading(longest).saturating_mul(2));
    let found = explorer.explore(nfa.start_anchored());
    let width = found.as_ref().map_or_else(|| super::program_size(pattern).unwrap_or(u64::MAX), |found| found.largest);
    let beyond = match found {
        _ if once => 0,
        found => found.and_then(|found| found.reads_beyond()).or(longest_match(&hir)).unwrap_or(longest).min(longest),
    };
    let searching = beyond.saturating_mul(BYTE).saturating_add(REPLACEMENT).saturating_mul(matches);
    let groups = longest.saturating_mul(width).saturating_mul(CAPTURING_INSTRUCTION);
    let mut steps = explorer.steps;
    if !once {
        let mut explorer = Explorer::new(&backwards);
        memory += self::memory(explorer.explore(backwards.start_anchored()).as_ref());
        steps += explorer.steps;
    }
    Estimate { nanos: finding.saturating_add(searching).saturating_add(groups), memory, steps }
}

/// An expression as Envoy means it, over bytes.
pub(super) fn read(pattern: &str) -> Option<Hir> {
    ParserBuilder::new().utf8(false).unicode(false).build().parse(&super::without_unicode(pattern)).ok()
}

fn longest_match(hir: &Hir) -> Option<u64> {
    hir.properties().maximum_len().map(|length| length as u64)
}

/// What it costs where RE2 gives up.
fn by_instruction(pattern: &str, length: u64) -> u64 {
    let Ok(size) = super::program_size(pattern) else { return u64::MAX };
    // A state has half of them, in the middle.
    let states = (MEMORY / (2 * size + 100)).min(length);
    let building = states.saturating_mul(STATE + INSTRUCTION * size);
    length.saturating_mul(size).saturating_mul(INSTRUCTION).saturating_add(building)
}

fn compile(hir: &Hir, is_backwards: bool) -> Option<NFA> {
    let config = thompson::Config::new().utf8(false).which_captures(WhichCaptures::None).nfa_size_limit(Some(1 << 20));
    NFA::compiler().configure(config.reverse(is_backwards)).build_from_hir(hir).ok()
}

/// What the states of an automaton take, in bytes, if it could be explored.
fn memory(automaton: Option<&Automaton>) -> u64 {
    automaton.map_or(MEMORY, |automaton| {
        let state = STATE_BYTES + KIND_BYTES * automaton.kinds + INSTRUCTION_BYTES * automaton.largest;
        MEMORY.min(automaton.states.len() as u64 * state)
    })
}

/// A deterministic automaton.
struct Automaton {
    states: Vec<Known>,
    /// Instructions of its largest state.
    largest: u64,
    /// Kinds of bytes that it tells apart.
    kinds: u64,
}

/// A state of an automaton.
struct Known {
    /// The states that follow, each at least once; none for an end.
    next: Vec<usize>,
    matches: bool,
}

impl Automaton {
    /// What a text of `length` bytes costs, with all states that it meets still to be built.
    fn reading(&self, length: u64) -> u64 {
        let states = (self.states.len() as u64).min(length);
        length.saturating_mul(BYTE).saturating_add(states * (STATE + INSTRUCTION * self.largest))
    }

    /// How many bytes are read at most after a match before the next one, or before it is clear that there is none; none
    /// where there is no bound.
    fn reads_beyond(&self) -> Option<u64> {
        let mut beyond = vec![None; self.states.len()];
        let mut most = 0;
        for state in self.states.iter().filter(|state| state.matches) {
            for next in &state.next {
                most = most.max(self.beyond(*next, &mut beyond)?);
            }
        }
        Some(most)
    }

    /// The longest way from a state through such that do not match; none where there is a circle.
    fn beyond(&self, from: usize, known: &mut [Option<Way>]) -> Option<u64> {
        match known[from] {
            _ if self.states[from].matches => return Some(1),
            Some(Way::Open) => return None,
            Some(Way::Of(length)) => return Some(length),
            None => known[from] = Some(Way::Open),
        }
        let mut longest = 0;
        for next in &self.states[from].next {
            longest = longest.max(self.beyond(*next, known)?);
        }
        known[from] = Some(Way::Of(longest + 1));
        Some(longest + 1)
    }
}

/// What is known of the way from a state.
#[derive(Clone, Copy)]
enum Way {
    /// It is being looked for.
    Open,
    /// Its length.
    Of(u64),
}

/// Explores the automata of a program.
struct Explorer<'a> {
    nfa: &'a NFA,
    /// One of each kind of bytes that the program tells apart.
    bytes: Vec<u8>,
    /// What was looked at so far.
    steps: u64,
    /// Of each instruction, the last round in which it was met.
    met: Vec<u32>,
    round: u32,
}

impl<'a> Explorer<'a> {
    fn new(nfa: &'a NFA) -> Self {
        let bytes = nfa.byte_classes().representatives(0..=u8::MAX).filter_map(Unit::as_u8).collect();
        // It took a look at each to make it.
        let steps = nfa.states().len() as u64;
        Self { nfa, bytes, steps, met: vec![0; nfa.states().len()], round: 0 }
    }

    /// All states from `start` on; none where they are too many. Assertions count as if they always held.
    fn explore(&mut self, start: StateID) -> Option<Automaton> {
        let last = self.steps + MAX_STEPS;
        let mut places = HashMap::new();
        let mut sets = vec![self.close(vec![start], last)?];
        places.insert(sets[0].clone(), 0);
        let mut automaton = Automaton { states: Vec::new(), largest: 1, kinds: self.bytes.len() as u64 };
        while let Some(set) = sets.get(automaton.states.len()).cloned() {
            let mut next = Vec::new();
            for byte in 0..self.bytes.len() {
                self.step(set.len(), last)?;
                let byte = self.bytes[byte];
                let after: Vec<_> = set.iter().filter_map(|id| after(self.nfa.state(*id), byte)).collect();
                if after.is_empty() {
                    continue;
                }
                let after = self.close(after, last)?;
                let place = *places.entry(after).or_insert_with_key(|after| {
                    sets.push(after.clone());
                    sets.len() - 1
                });
                if !next.contains(&place) {
                    next.push(place);
                }
            }
            if sets.len() > MAX_STATES {
                return None;
            }
            automaton.largest = automaton.largest.max(set.len() as u64);
            let matches = set.iter().any(|id| matches!(self.nfa.state(*id), State::Match { .. }));
            automaton.states.push(Known { next, matches });
        }
        Some(automaton)
    }

    /// Counts what is looked at; none where that is more than there may be.
    fn step(&mut self, count: usize, last: u64) -> Option<()> {
        self.steps += count as u64;
        (self.steps <= last).then_some(())
    }

    /// The instructions that are reached without a byte, sorted; none where there are no steps left.
    fn close(&mut self, mut open: Vec<StateID>, last: u64) -> Option<Vec<StateID>> {
        self.round += 1;
        let mut closed = Vec::new();
        while let Some(id) = open.pop() {
            if std::mem::replace(&mut self.met[id.as_usize()], self.round) == self.round {
                continue;
            }
            self.step(1, last)?;
            match self.nfa.state(id) {
                State::Look { next, .. } | State::Capture { next, .. } => open.push(*next),
                State::Union { alternates } => open.extend(alternates.iter().copied()),
                State::BinaryUnion { alt1, alt2 } => open.extend([*alt1, *alt2]),
                State::Fail => {}
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) | State::Match { .. } => closed.push(id),
            }
        }
        closed.sort_unstable();
        Some(closed)
    }
}

/// The instruction behind one that takes this byte.
fn after(state: &State, byte: u8) -> Option<StateID> {
    match state {
        State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
        State::Sparse(transitions) => transitions.matches_byte(byte),
        State::Dense(transitions) => transitions.matches_byte(byte),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: u64 = 60 * 1024;
    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn what_people_write_takes_less_than_a_fifth_of_a_millisecond() {
        for pattern in [
            "/orders/[a-z]{1,50}",
            "/users/[^/]+",
            "/users/[^/]+/orders/[0-9]+",
            "/v[0-9]+/(users|orders|carts)(/.*)?",
            "/api/.*",
            r".*\.(jpg|jpeg|png|gif|css|js)",
            "/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "(?i)/health(z|y)?",
            "/a/.*/b/.*",
            "/é/.*",
            r"/\p{Greek}+",
        ] {
            let time = matching(pattern, HEADERS).nanos;
            assert!(time < MILLISECOND / 5, "{pattern}: {time}");
        }
    }

    #[test]
    fn what_has_too_many_states_costs_all_of_its_instructions_for_each_byte() {
        // Measured: 24 ms, 42 ms and 92 ms for 50,000 bytes, 8.1 ms for 1,000.
        for (pattern, longest, measured) in [
            ("/x/.*a[ab]{30}c", 50_000, 24),
            ("/x/.*a[ab]{100}c", 50_000, 42),
            ("/x/.*a[ab]{300}c", 50_000, 92),
            ("/x/.*a[ab]{100}c", 8_000, 20),
            ("/x/.*a[ab]{900}c", 1_000, 8),
        ] {
            let time = matching(pattern, longest).nanos;
            assert!(time >= measured * MILLISECOND, "{pattern}: {time}");
        }
    }

    #[test]
    fn what_is_bounded_in_length_costs_no_more_than_that_length() {
        let bounded = "/orders/[a-z]{1,50}";
        assert_eq!(matching(bounded, HEADERS), matching(bounded, 1 << 40));
        assert!(matching("(?:[ab]{0,9}a[ab]{9}){0,2}", HEADERS).nanos < MILLISECOND);
    }

    #[test]
    fn replacing_what_is_read_again_and_again_costs_the_square() {
        // Measured: 82 ms for 8,000 bytes, 360 ms for 20,000.
        assert!(replacing("a.*z|a", 8_000).nanos > 80 * MILLISECOND);
        assert!(replacing("a|a[ab]{500}z", HEADERS).nanos > 10 * MILLISECOND);
        for pattern in [
            "^/service/([^/]+)(/.*)$",
            "^/(.*)a(.*)$",
            r"\w+",
            "/anything/stores/(\\w+)/entities",
            "^/old",
            "[0-9]{1,40}",
            "^.*$",
        ] {
            let time = replacing(pattern, HEADERS).nanos;
            assert!(time < 10 * MILLISECOND, "{pattern}: {time}");
        }
    }

    #[test]
    fn states_that_many_texts_have_built_take_memory_though_one_text_takes_little_time() {
        // Measured: 1.4 MB each in Envoy, after 8,000 requests.
        let estimate = matching("/r0/[ab]{0,11}a[ab]{11}", HEADERS);
        assert!(estimate.nanos < MILLISECOND / 10 && estimate.memory >= 1_400_000, "{estimate:?}");
        for pattern in ["/users/[^/]+", "/orders/[a-z]{1,50}", r".*\.(jpg|jpeg|png|gif|css|js)", "/v[0-9]"] {
            let estimate = matching(pattern, HEADERS);
            assert!(estimate.memory < 60_000, "{pattern}: {estimate:?}");
        }
    }

    #[test]
    fn exploring_ends_early() {
        let alternatives: Vec<_> = (0..40).map(|count| format!("[ab]*a[ab]{{{count}}}")).collect();
        for pattern in [alternatives.join("|"), ".*".repeat(120), "(?:a?){250}b*".into(), "[^a]{80}.*".into()] {
            let estimate = matching(&pattern, HEADERS);
            let size =
                compile(&read(&pattern).expect("an expression"), false).expect("a program").states().len() as u64;
            // The last set that is looked at may be as large as the program.
            assert!(estimate.steps <= MAX_STEPS + 2 * size, "{pattern}: {estimate:?}");
        }
    }
}
