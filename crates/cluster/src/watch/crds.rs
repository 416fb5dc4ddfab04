//! Which CustomResourceDefinitions there are.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    event::Event,
    plan::Presence,
    wire::{Name, Said, What},
};

/// The CRDs that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Crds {
    /// They may not be read, were not yet, or what was read may be old.
    #[default]
    Unknown,
    /// Name and uid of each.
    Known(BTreeMap<Arc<str>, Arc<str>>),
}

/// What is known of one CRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Crd {
    Unknown,
    Absent,
    /// It is the one of this uid.
    Present(Arc<str>),
}

impl Crd {
    /// What is known of the CRD of this name; nothing where none is needed.
    pub(super) fn of(crds: &Crds, name: Option<&str>) -> Self {
        match (crds, name) {
            (Crds::Known(crds), Some(name)) => crds.get(name).cloned().map_or(Self::Absent, Self::Present),
            _ => Self::Unknown,
        }
    }

    /// Whether what is watched has gone. What only becomes known, or unknown, changes nothing about a watch that works.
    pub(super) fn replaced(&self, now: &Self) -> bool {
        self != now && !matches!((self, now), (_, Self::Unknown) | (Self::Unknown, Self::Present(_)))
    }

    pub(super) fn presence(&self) -> Presence {
        match self {
            Self::Unknown => Presence::Unknown,
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
                Event::Failing(_) | Event::NotServed => self.failing = true,
                Event::Working => self.failing = false,
            }
        }
    }

    /// What is known for sure.
    pub(super) fn crds(&self) -> Crds {
        if !self.listed || self.failing {
            return Crds::Unknown;
        }
        Crds::Known(self.crds.iter().map(|(name, (uid, _))| (Arc::clone(name), Arc::clone(uid))).collect())
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

    fn known(crds: &[(&str, &str)]) -> Crds {
        Crds::Known(crds.iter().map(|(name, uid)| ((*name).into(), (*uid).into())).collect())
    }

    #[test]
    fn nothing_is_known_before_the_first_list_and_while_the_watch_fails() {
        let mut learner = Learner::default();
        learner.learn(vec![Event::Begin, put("a", "1")]);
        assert_eq!(learner.crds(), Crds::Unknown);
        learner.learn(vec![put("b", "2"), Event::End]);
        assert_eq!(learner.crds(), known(&[("a", "1"), ("b", "2")]));
        learner.learn(vec![Event::Failing("forbidden".into())]);
        assert_eq!(learner.crds(), Crds::Unknown);
        learner.learn(vec![Event::Begin, put("b", "3"), Event::End, Event::Working]);
        assert_eq!(learner.crds(), known(&[("b", "3")]));
        learner.learn(vec![Event::Gone(name("b"))]);
        assert_eq!(learner.crds(), known(&[]));
    }

    #[test]
    fn a_watch_goes_on_unless_its_crd_is_another_or_gone() {
        let present = |uid: &str| Crd::Present(uid.into());
        assert!(present("1").replaced(&Crd::Absent));
        assert!(present("1").replaced(&present("2")));
        assert!(Crd::Unknown.replaced(&Crd::Absent));
        assert!(!present("1").replaced(&Crd::Unknown));
        assert!(!Crd::Unknown.replaced(&present("1")));
        assert!(!present("1").replaced(&present("1")));
    }
}
