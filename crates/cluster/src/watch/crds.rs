//! Which CustomResourceDefinitions there are.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    decoder::{Name, Payload, WatchedObject},
    event::Event,
    plan::Presence,
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

/// Kinds that are not read, though objects of them say something that others mean, and what to write.
const SUPERSEDED: [(&str, &str); 1] = [(
    "httplistenerpolicies.gateway.kgateway.dev",
    "an HTTPListenerPolicy has no effect here: write a ListenerPolicy, with its fields in spec.default.httpSettings",
)];

impl Crds {
    /// What to write in place of objects whose definition there is, and was not before.
    pub(super) fn superseded(&self, before: &Self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_new = |name: &str| self.present.contains_key(name) && !before.present.contains_key(name);
        SUPERSEDED.into_iter().filter(move |(name, _)| is_new(name))
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

/// What the watch of CRDs brought.
#[derive(Debug, Default)]
pub(super) struct CrdStore {
    /// Uid of each, and the last list that it was in.
    crds: BTreeMap<Arc<str>, (Arc<str>, u64)>,
    list: u64,
    listed: bool,
    failing: bool,
    forbidden: bool,
}

impl CrdStore {
    pub(super) fn apply(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::ListStarted => self.list += 1,
                Event::Applied(WatchedObject { name: Name { name, .. }, payload: Payload::Exists { uid }, .. }) => {
                    self.crds.insert(name, (uid, self.list));
                }
                Event::Applied(_) => {}
                Event::Deleted(name) => _ = self.crds.remove(&name.name),
                Event::ListComplete => {
                    self.crds.retain(|_, (_, list)| *list == self.list);
                    self.listed = true;
                }
                Event::Failing { forbidden, .. } => (self.failing, self.forbidden) = (true, forbidden),
                Event::NotServed => self.failing = true,
                Event::Recovered => (self.failing, self.forbidden) = (false, false),
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
        Event::Applied(WatchedObject { name: name(crd), version: 0, payload: Payload::Exists { uid: uid.into() } })
    }

    fn failing(forbidden: bool) -> Event {
        Event::Failing { why: "refused".into(), forbidden }
    }

    fn present(uid: &str) -> Crd {
        Crd::Present(uid.into())
    }

    /// What is known of `a` and of `b`.
    fn known(crd_store: &CrdStore) -> [Crd; 2] {
        ["a", "b"].map(|name| crd_store.crds().of(Some(name)))
    }

    #[test]
    fn a_kind_that_another_took_the_place_of_is_told_once_when_its_definition_comes() {
        let nothing = Crds::default();
        let old = Crds::known(&[("httplistenerpolicies.gateway.kgateway.dev", "1"), ("a", "2")]);
        let told: Vec<_> = old.superseded(&nothing).collect();
        assert!(matches!(&told[..], [(_, remedy)] if remedy.contains("write a ListenerPolicy")), "{told:?}");
        assert_eq!(old.superseded(&old).count(), 0);
        assert_eq!(Crds::known(&[("a", "2")]).superseded(&nothing).count(), 0);
    }

    #[test]
    fn that_a_crd_is_not_there_is_known_once_all_are_and_while_they_can_be_watched() {
        let mut crd_store = CrdStore::default();
        assert_eq!(known(&crd_store), [Crd::Unknown, Crd::Unknown]);
        crd_store.apply(vec![Event::ListStarted, put("a", "1")]);
        assert_eq!(known(&crd_store), [present("1"), Crd::Unknown]);
        crd_store.apply(vec![Event::ListComplete]);
        assert_eq!(known(&crd_store), [present("1"), Crd::Absent]);
        crd_store.apply(vec![failing(false)]);
        assert_eq!(
            known(&crd_store),
            [present("1"), Crd::Unknown],
            "what was there is, until the server says otherwise"
        );
        crd_store.apply(vec![Event::ListStarted, put("b", "3"), Event::ListComplete, Event::Recovered]);
        assert_eq!(known(&crd_store), [Crd::Absent, present("3")]);
        crd_store.apply(vec![Event::Deleted(name("b"))]);
        assert_eq!(known(&crd_store), [Crd::Absent, Crd::Absent]);
    }

    #[test]
    fn who_may_not_read_crds_knows_that_nothing_comes_to_be_known() {
        let mut crd_store = CrdStore::default();
        crd_store.apply(vec![Event::ListStarted, failing(true)]);
        assert_eq!(known(&crd_store), [Crd::Hidden, Crd::Hidden]);
        crd_store.apply(vec![failing(false)]);
        assert_eq!(known(&crd_store), [Crd::Unknown, Crd::Unknown]);
        crd_store.apply(vec![Event::ListStarted, put("a", "1"), Event::ListComplete, Event::Recovered]);
        assert_eq!(known(&crd_store), [present("1"), Crd::Absent]);
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
