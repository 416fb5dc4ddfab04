//! What tests draw at random: some of it is the same in every run, and some is new.

use std::hash::{BuildHasher as _, RandomState};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngSeed, TestRunner},
};

/// Of how many fixed values there is one new one, unless `PROPTEST_CASES` says how many.
const FIXED_A_NEW_ONE: usize = 8;

/// Values of strategies: fixed ones first, which keep what was found once from coming back, then new ones.
///
/// What is new depends on a seed, which is printed; `PROPTEST_RNG_SEED` repeats it. `proptest!` reads that variable too.
#[derive(Debug)]
pub struct Draws {
    fixed: TestRunner,
    new: TestRunner,
    count: Option<usize>,
}

impl Draws {
    /// With the seed and the number of new values that the environment has, if it has them.
    ///
    /// # Panics
    ///
    /// Where `PROPTEST_CASES` is no number.
    #[expect(clippy::new_without_default, reason = "it prints")]
    pub fn new() -> Self {
        // Reads the environment.
        let config = Config::default();
        let seed = match config.rng_seed {
            RngSeed::Fixed(seed) => seed,
            RngSeed::Random => RandomState::new().hash_one(()),
        };
        println!("PROPTEST_RNG_SEED={seed} repeats what is new in this run");
        let new = TestRunner::new(Config { rng_seed: RngSeed::Fixed(seed), ..config });
        let count = std::env::var("PROPTEST_CASES").ok().map(|text| text.parse().expect("PROPTEST_CASES is a number"));
        Self { fixed: TestRunner::deterministic(), new, count }
    }

    /// So many fixed values, and the new ones.
    ///
    /// # Panics
    ///
    /// Where the strategy refuses all that it is given.
    pub fn take<S: Strategy>(&mut self, strategy: &S, fixed: usize) -> Vec<S::Tree> {
        let new = self.count.unwrap_or(fixed.div_ceil(FIXED_A_NEW_ONE));
        let mut values = Vec::new();
        for (runner, count) in [(&mut self.fixed, fixed), (&mut self.new, new)] {
            values.extend((0..count).map(|_| strategy.new_tree(runner).expect("a value")));
        }
        values
    }
}
