//! One way to merge what several levels say of a rule's own fields: a rule, and the delegating rules above it. Policies are
//! merged by `policy::merge`.
//!
//! The fold goes from the rule upwards. The nearest that says anything holds, unless one above prefers itself: then that
//! one holds, and of several the topmost. What is joined instead of chosen has all of them.

/// Something that a rule has of itself or inherits.
pub(crate) trait Inherit: Clone {
    /// Whether what several levels say is joined, instead of one of them holding alone.
    const JOINED: bool;

    /// Whether anything is said.
    fn is_set(&self) -> bool;

    /// Merges what a level above says into this.
    fn merge(&mut self, above: &Self, above_is_preferred: bool);
}

/// One of them holds.
impl<T: Clone> Inherit for Option<T> {
    const JOINED: bool = false;

    fn is_set(&self) -> bool {
        self.is_some()
    }

    fn merge(&mut self, above: &Self, above_is_preferred: bool) {
        if self.is_none() || (above_is_preferred && above.is_some()) {
            self.clone_from(above);
        }
    }
}

/// What a level says.
#[derive(Debug)]
pub(crate) struct LevelValue<'a, By, T> {
    /// Whose word it is.
    pub(crate) by: By,
    /// Whether it wins over all below.
    pub(crate) prefers_itself: bool,
    /// The word.
    pub(crate) value: &'a T,
}

/// What all levels come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Folded<By, T> {
    /// What holds.
    pub(crate) value: T,
    /// Who supplies it, the nearest first; several where it is joined, nobody where nothing is said.
    pub(crate) from: Vec<By>,
    /// Who says something too and is not heard, the nearest first.
    pub(crate) overridden: Vec<By>,
}

/// Merges what `own` says with the levels `above` it, the nearest first.
pub(crate) fn fold<'a, By, T: Inherit + 'a>(
    own: T,
    by: By,
    above: impl Iterator<Item = LevelValue<'a, By, T>>,
) -> Folded<By, T> {
    let mut saying: Vec<By> = own.is_set().then_some(by).into_iter().collect();
    let (mut value, mut winner) = (own, 0);
    for level in above.filter(|level| level.value.is_set()) {
        value.merge(level.value, level.prefers_itself);
        if level.prefers_itself {
            winner = saying.len();
        }
        saying.push(level.by);
    }
    if T::JOINED || saying.is_empty() {
        return Folded { value, from: saying, overridden: Vec::new() };
    }
    let from = vec![saying.remove(winner)];
    Folded { value, from, overridden: saying }
}
