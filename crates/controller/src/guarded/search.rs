//! Who is to blame for a panic outside of rows: found by halves.

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use api::{Kind, ObjectId};
use translate::{Change, Shared};

use super::{Guarded, MOST, Panicked, caught};

/// A search begins so long after the last one: it takes the time that others need for their changes.
const PACE: Duration = Duration::from_secs(5);

/// What objects shall be; none for one that is gone.
type Wanted = [(ObjectId, Option<Shared>)];

impl Guarded {
    /// Builds the translator anew from what was there before, and adds what came since by halves.
    pub(super) fn search(&mut self, Panicked(words): &Panicked) {
        tracing::error!(
            words,
            "a panic outside of rows: a new translator is built, and the object is looked for that it is about"
        );
        if let Some(searched) = self.searched {
            thread::sleep((searched + PACE).saturating_duration_since(Instant::now()));
        }
        self.searched = Some(Instant::now());
        let mut changed: Vec<_> = self.before.keys().map(|id| (id.clone(), self.translator.object(id))).collect();
        let before = self.before.iter().map(|(id, before)| (id.clone(), before.object.clone())).collect();
        // A class that cannot be set aside is no suspect: others are tried with it.
        let is_fixed = |id: &ObjectId| id.kind == Kind::GatewayClass && self.kept(id).is_none();
        let is_there_before = !changed.iter().any(|(id, shared)| is_fixed(id) && shared.is_some());
        self.translator = self.translator.anew(&before);
        if !is_there_before || self.settle_watched().is_err() {
            // What is to blame was there before: all objects are suspects.
            let objects = self.translator.objects();
            changed = objects.into_iter().map(|(id, shared)| (id, Some(shared))).chain(changed).collect();
            let nothing = changed.iter().map(|(id, _)| (id.clone(), None)).collect();
            self.translator = self.translator.anew(&nothing);
            self.settle_watched().unwrap_or_else(|Panicked(words)| give_up(&words));
        }
        // One wins that is older, but nothing is of ours without its class.
        changed
            .sort_by_cached_key(|(id, _)| (id.kind != Kind::GatewayClass, self.versions.get(id).copied(), id.clone()));
        let mut found = 0;
        self.add(&changed, &mut found, words);
    }

    /// Adds these, but for those that it panics on.
    fn add(&mut self, wanted: &Wanted, found: &mut usize, words: &str) {
        if wanted.is_empty() {
            return;
        }
        let before: BTreeMap<_, _> = wanted.iter().map(|(id, _)| (id.clone(), self.translator.object(id))).collect();
        let applied = caught(|| {
            for (id, shared) in wanted {
                let object = shared.as_ref().map(Shared::object);
                self.translator.apply(object.map_or_else(|| Change::Remove(id.clone()), Change::Put));
            }
        });
        match applied.and_then(|()| self.settle_watched()) {
            Ok(()) => return,
            Err(_) => self.translator = self.translator.anew(&before),
        }
        self.settle_watched().unwrap_or_else(|Panicked(words)| give_up(&words));
        match wanted {
            [(id, Some(shared))] => {
                *found += 1;
                self.leave(id, shared, &before);
                if !self.aside.contains_key(id) {
                    give_up(words);
                }
                self.settle_watched().unwrap_or_else(|Panicked(words)| give_up(&words));
            }
            // That it is gone is what panics: it stays.
            [(id, None)] => tracing::error!(%id, "that it is deleted makes this program panic: it stays in force"),
            // Each further one would be looked for while everybody waits: all that are left come later.
            more if *found >= MOST && more.iter().any(|one| self.is_new(one)) => {
                // What stands in the place of others already is not taken from them unproven.
                let (new, others): (Vec<_>, Vec<_>) = more.iter().cloned().partition(|one| self.is_new(one));
                tracing::error!(
                    objects = new.len(),
                    "more objects may be to blame: they are set aside, and tried again later"
                );
                for (id, shared) in new.iter().filter_map(|(id, shared)| Some((id, shared.as_ref()?))) {
                    self.leave(id, shared, &before);
                    if let Some(entry) = self.entries.get_mut(id) {
                        *entry = entry.clone().unproven();
                    }
                }
                self.settle_watched().unwrap_or_else(|Panicked(words)| give_up(&words));
                self.add(&others, found, words);
            }
            more => {
                let (older, younger) = more.split_at(more.len() / 2);
                self.add(older, found, words);
                self.add(younger, found, words);
            }
        }
    }
}

impl Guarded {
    /// Whether this is an object that is not set aside yet.
    fn is_new(&self, (id, shared): &(ObjectId, Option<Shared>)) -> bool {
        shared.is_some() && !self.aside.contains_key(id)
    }

    /// Sets an object aside that cannot be added to what there is.
    fn leave(&mut self, id: &ObjectId, shared: &Shared, before: &BTreeMap<ObjectId, Option<Shared>>) {
        // What stood in its place already is no version of its own.
        let (object, kept) = match self.aside.get(id) {
            Some(aside) => (aside.object.clone(), None),
            None => {
                let object = shared.object();
                let kept = before.get(id).and_then(Option::as_ref).and_then(|_| self.kept(id));
                let kept = kept.or_else(|| self.recorded(&object));
                (object, kept)
            }
        };
        self.set_aside(object, kept, "a panic outside of rows".to_owned());
    }
}

/// Ends the thread, and with it the process, as a panic does that nobody catches.
fn give_up(words: &str) -> ! {
    tracing::error!(words, "no object can be found that the panic is about");
    resume_unwind(Box::new(words.to_owned()))
}
