//! Who is to blame for a panic outside of rows: found by halves.

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    thread,
    time::{Duration, Instant},
};

use api::ObjectId;
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
        let before = self.before.clone();
        self.translator = self.translator.anew(&before);
        if self.settle_watched().is_err() {
            // What is to blame was there before: all objects are suspects.
            let objects = self.translator.objects();
            changed = objects.into_iter().map(|(id, shared)| (id, Some(shared))).chain(changed).collect();
            let nothing = changed.iter().map(|(id, _)| (id.clone(), None)).collect();
            self.translator = self.translator.anew(&nothing);
            self.settle_watched().unwrap_or_else(|Panicked(words)| give_up(&words));
        }
        // One wins that is older.
        changed.sort_by_cached_key(|(id, _)| (self.versions.get(id).copied(), id.clone()));
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
                if *found > MOST {
                    give_up(words);
                }
                let kept = before.get(id).and_then(Option::as_ref).map(Shared::object);
                self.set_aside(shared.object(), kept, "a panic outside of rows".to_owned());
                self.settle_watched().unwrap_or_else(|Panicked(words)| give_up(&words));
            }
            // That it is gone is what panics: it stays.
            [(id, None)] => tracing::error!(%id, "that it is deleted makes this program panic: it stays in force"),
            more => {
                let (older, younger) = more.split_at(more.len() / 2);
                self.add(older, found, words);
                self.add(younger, found, words);
            }
        }
    }
}

/// Ends the thread, and with it the process, as a panic does that nobody catches.
fn give_up(words: &str) -> ! {
    tracing::error!(words, "no object can be found that the panic is about");
    resume_unwind(Box::new(words.to_owned()))
}
