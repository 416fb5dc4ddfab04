//! Which CustomResourceDefinitions there are.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    event::Event,
    plan::Presence,
    wire::{Name, Said, What},
};

/// The CRDs that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Crds {
    /// Name and uid of each, as they were read last: an API server that is in trouble takes none away.
    present: BTreeMap<Arc<str>, Arc<str>>,
    /// What is known of all others: never that one is present.
    others: Crd,
}

/// What is known of one CRD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Crd {
    /// Nothing yet, or nothing that is not old.
    #[default]
    Unknown,
    /// Nothing, for CRDs may not be read.
    Hidden,
    /// It is not there.
    Absent,
    /// It is the one of this uid.
    Present(Arc<str>),
}

impl Crds {
    /// None may be read.
    pub(super) fn hidden() -> Self {
        Self { present: BTreeMap::new(), others: Crd::Hidden }
    }

    /// These and no others, by name and uid.
    #[cfg(test)]
    pub(super) fn known(present: &[(&str, &str)]) -> Self {
        let present = present.iter().map(|(name, uid)| ((*name).into(), (*uid).into())).collect();
        Self { present, others: Crd::Absent }
    }

    /// What is known of the CRD of this name; nothing where none is needed.
    pub(super) fn of(&self, name: Option<&str>) -> Crd {
        let Some(name) = name else { return Crd::Unknown };
        self.present.get(name).cloned().map_or_else(|| self.others.clone(), Crd::Present)
    }
}

impl Crd {
    /// Whether what is watched has gone. What only becomes known, or unknown, changes nothing about a watch that works.
    pub(super) fn replaced(&self, now: &Self) -> bool {
        use Crd::{Absent, Hidden, Present, Unknown};
        match (self, now) {
            (_, Unknown | Hidden) | (Unknown | Hidden, Present(_)) | (Absent, Absent) => false,
            (Present(before), Present(now)) => before != now,
            _ => true,
        }
    }

    pub(super) fn presence(&self) -> Presence {
        match self {
            Self::Unknown => Presence::Unknown,
            Self::Hidden => Presence::Hidden,
            Self::Absent => Presence::Absent,
            Self::Present(_) => Presence::Present,
        }
    }
}

/// Learns from the watch of CRDs.
#[derive(Debug, Default)]
pub(super) struct Learner {
    /// Uid of each, and the last list that it was in.
    crds: BTreeMap<Arc<str>, (Arc<str>, u64)>,
    list: u64,
    listed: bool,
    failing: bool,
    forbidden: bool,
}

impl Learner {
    pub(super) fn learn(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Begin => self.list += 1,
                Event::Put(Said { name: Name { name, .. }, what: What::Exists { uid }, .. }) => {
                    self.crds.insert(name, (uid, self.list));
                }
                Event::Put(_) => {}
                Event::Gone(name) => _ = self.crds.remove(&name.name),
                Event::End => {
                    self.crds.retain(|_, (_, list)| *list == self.list);
                    self.listed = true;
                }
                Event::Failing { forbidden, .. } => (self.failing, self.forbidden) = (true, forbidden),
                Event::NotServed => self.failing = true,
                Event::Working => (self.failing, self.forbidden) = (false, false),
            }
        }
    }

    /// What is known. That one is there holds until the API server says otherwise, and that one is not only while it can
    /// be asked.
    pub(super) fn crds(&self) -> Crds {
        let others = match self {
            Self { forbidden: true, .. } => Crd::Hidden,
            Self { listed: true, failing: false, .. } => Crd::Absent,
            _ => Crd::Unknown,
        };
        let present = self.crds.iter().map(|(name, (uid, _))| (Arc::clone(name), Arc::clone(uid))).collect();
        Crds { present, others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        Name { namespace: "".into(), name: name.into() }
    }

    fn put(crd: &str, uid: &str) -> Event {
        Event::Put(Said { name: name(crd), version: 0, what: What::Exists { uid: uid.into() } })
    }

    fn failing(forbidden: bool) -> Event {
        Event::Failing { why: "refused".into(), forbidden }
    }

    fn present(uid: &str) -> Crd {
        Crd::Present(uid.into())
    }

    /// What is known of `a` and of `b`.
    fn known(learner: &Learner) -> [Crd; 2] {
        ["a", "b"].map(|name| learner.crds().of(Some(name)))
    }

    #[test]
    fn that_a_crd_is_not_there_is_known_once_all_are_and_while_they_can_be_watched() {
        let mut learner = Learner::default();
        assert_eq!(known(&learner), [Crd::Unknown, Crd::Unknown]);
        learner.learn(vec![Event::Begin, put("a", "1")]);
        assert_eq!(known(&learner), [present("1"), Crd::Unknown]);
        learner.learn(vec![Event::End]);
        assert_eq!(known(&learner), [present("1"), Crd::Absent]);
        learner.learn(vec![failing(false)]);
        assert_eq!(known(&learner), [present("1"), Crd::Unknown], "what was there is, until the server says otherwise");
        learner.learn(vec![Event::Begin, put("b", "3"), Event::End, Event::Working]);
        assert_eq!(known(&learner), [Crd::Absent, present("3")]);
        learner.learn(vec![Event::Gone(name("b"))]);
        assert_eq!(known(&learner), [Crd::Absent, Crd::Absent]);
    }

    #[test]
    fn who_may_not_read_crds_knows_that_nothing_comes_to_be_known() {
        let mut learner = Learner::default();
        learner.learn(vec![Event::Begin, failing(true)]);
        assert_eq!(known(&learner), [Crd::Hidden, Crd::Hidden]);
        learner.learn(vec![failing(false)]);
        assert_eq!(known(&learner), [Crd::Unknown, Crd::Unknown]);
        learner.learn(vec![Event::Begin, put("a", "1"), Event::End, Event::Working]);
        assert_eq!(known(&learner), [present("1"), Crd::Absent]);
    }

    #[test]
    fn a_watch_goes_on_unless_its_crd_is_another_or_gone() {
        assert!(present("1").replaced(&Crd::Absent));
        assert!(present("1").replaced(&present("2")));
        assert!(Crd::Absent.replaced(&present("1")));
        for unknown in [Crd::Unknown, Crd::Hidden] {
            assert!(unknown.replaced(&Crd::Absent));
            assert!(!present("1").replaced(&unknown));
            assert!(!unknown.replaced(&present("1")));
        }
        assert!(!present("1").replaced(&present("1")));
    }
}
