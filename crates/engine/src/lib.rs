//! Typed incremental tables and groups: write what changed, settle, take what changed because of it.
//!
//! # How to add a table
//!
//! A **table** is a marker type with a name, a key type and a value type ([`Table`]), and one of three roles:
//!
//! | role | rows exist | `compute` may |
//! |---|---|---|
//! | [`Input`] | when written from outside | (has none) |
//! | [`Lookup`] | when a row reads them, until no row does | read |
//! | [`Derived`] | while a row, an input row or the outside demands them | read, demand later rows, emit into later groups |
//!
//! A **group** ([`Group`]) is an ordered collection under one key. Derived rows emit entries into it, each under a sort
//! key of its own. Whoever reads a group gets a [`View`]: an ordered snapshot in shared pages with count, [`Summary`] and
//! hash.
//!
//! 1. Write the marker type, implement [`Table`] and the role. `compute` is a pure function of the key and of what it
//!    reads: no clock, no IO, no global state, nothing captured.
//! 2. Register it with the [`Builder`], behind everything it reads and before everything it demands or emits into.
//!    Registration order is settling order. Where data flows in a circle that ends because something gets deeper, such
//!    as a tree whose nodes select their children, give keys a depth and register the circle with
//!    [`Builder::layered`]: it settles depth by depth.
//! 3. Add [`Builder::track`] if the outside wants to know which rows changed ([`Engine::take_changes`]).
//!
//! ```
//! use engine::{Derived, Emitter, Engine, Group, Input, Lookup, Scope, Table};
//!
//! /// Who lives where: person to town. Written from outside.
//! struct Homes;
//! impl Table for Homes {
//!     const NAME: &'static str = "Homes";
//!     type Key = &'static str;
//!     type Value = &'static str;
//! }
//! impl Input for Homes {}
//!
//! /// Town to country. Written from outside.
//! struct Countries;
//! impl Table for Countries {
//!     const NAME: &'static str = "Countries";
//!     type Key = &'static str;
//!     type Value = &'static str;
//! }
//! impl Input for Countries {}
//!
//! /// Whether letters to a town need a customs form. Many people share a town: the question is answered once, and who
//! /// asks is woken only if the answer changes, not whenever the town's country does.
//! struct Customs;
//! impl Table for Customs {
//!     const NAME: &'static str = "Customs";
//!     type Key = &'static str;
//!     type Value = bool;
//! }
//! impl Lookup for Customs {
//!     fn compute(scope: &Scope<'_>, town: &&'static str) -> Option<bool> {
//!         // A town nobody has written is a read as well: this row is computed again when it appears.
//!         let country = scope.get::<Countries>(town)?;
//!         Some(*country != "Home")
//!     }
//! }
//!
//! /// The envelope of each person. It exists because the person does (`derived_for_each` below).
//! struct Envelopes;
//! impl Table for Envelopes {
//!     const NAME: &'static str = "Envelopes";
//!     type Key = &'static str;
//!     type Value = String;
//! }
//! impl Derived for Envelopes {
//!     fn compute(scope: &Emitter<'_>, person: &&'static str) -> Option<String> {
//!         let town = scope.get::<Homes>(person)?;
//!         let form = scope.get::<Customs>(&town).is_some_and(|needed| *needed);
//!         let text = format!("{person}, {town}{}", if form { " (customs)" } else { "" });
//!         scope.emit::<Bags>(*town, *person, text.clone());
//!         scope.demand::<Bag>(*town);
//!         Some(text)
//!     }
//! }
//!
//! /// The envelopes for a town, by person.
//! struct Bags;
//! impl Group for Bags {
//!     const NAME: &'static str = "Bags";
//!     type Key = &'static str;
//!     type Sort = &'static str;
//!     type Entry = String;
//!     /// Letters in all of them.
//!     type Summary = u64;
//!     fn summary(text: &String) -> u64 {
//!         text.len() as u64
//!     }
//!     const HASH: Option<fn(&String) -> [u8; 16]> = Some(|text| {
//!         let mut hash = [0; 16];
//!         hash.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
//!         hash
//!     });
//! }
//!
//! /// The label on a town's bag. It exists while an envelope demands it.
//! struct Bag;
//! impl Table for Bag {
//!     const NAME: &'static str = "Bag";
//!     type Key = &'static str;
//!     type Value = (usize, u64, [u8; 16]);
//! }
//! impl Derived for Bag {
//!     fn compute(scope: &Emitter<'_>, town: &&'static str) -> Option<(usize, u64, [u8; 16])> {
//!         let bag = scope.group::<Bags>(town);
//!         Some((bag.len(), *bag.summary(), bag.hash()))
//!     }
//! }
//!
//! let mut engine = Engine::builder()
//!     .input::<Homes>()
//!     .input::<Countries>()
//!     .lookup::<Customs>()
//!     .derived_for_each::<Envelopes, Homes>(|person| Some(*person))
//!     .group::<Bags>()
//!     .derived::<Bag>()
//!     .track::<Bag>()
//!     .build();
//!
//! engine.set::<Homes>("Ann", Some("Ulm"));
//! engine.set::<Homes>("Ben", Some("Ulm"));
//! engine.set::<Countries>("Ulm", Some("Abroad"));
//! engine.settle();
//! assert_eq!(engine.take_changes::<Bag>(), ["Ulm"]);
//! assert_eq!(engine.group::<Bags>(&"Ulm").get(&"Ann").map(String::as_str), Some("Ann, Ulm (customs)"));
//!
//! // An equal answer wakes nobody: the lookup row is computed, the envelopes are not.
//! engine.set::<Countries>("Ulm", Some("Elsewhere"));
//! assert_eq!(engine.settle().computed, 1);
//! assert!(engine.take_changes::<Bag>().is_empty());
//!
//! // The last envelope takes the bag with it.
//! engine.set::<Homes>("Ann", None);
//! engine.set::<Homes>("Ben", None);
//! engine.settle();
//! assert_eq!(engine.take_changes::<Bag>(), ["Ulm"]);
//! assert!(engine.get::<Bag>(&"Ulm").is_none());
//! ```
//!
//! # What the engine promises
//!
//! - **Incremental equals from scratch**: after [`Engine::settle`] every value and group is what a new engine would have
//!   that is given the same inputs.
//! - **At most once**: a row is computed at most once a batch, when everything it can read is settled.
//! - **Equality cuts off**: an input written and written back, a row computed to an equal value, a group whose entries
//!   end up equal wake nobody.
//! - **Nothing is left behind**: a row that holds nothing and that nobody reads or demands is forgotten with the batch,
//!   and its place used again.
//! - **Order is checked**: a read of a later table, a demand or emission into an earlier one, a read within a table
//!   that does not go to a strictly lower depth, or the like between layered tables panics and names both rows. That
//!   leaves no room for a cycle.
//! - **A panic costs one row** and those that cannot do without it.
//!
//! # What it costs
//!
//! A settling costs what it computes: some tens of nanoseconds for each read, and a node of about 90 bytes for each row.
//! A read of an input, derived row or group that is not there costs 20 bytes, unless another row reads the same.
//! A row that reads a thousand others reads them all again when one changes, so give collections to a group, and put a
//! lookup between a row and an input of which it needs only a part. Writing into a group costs its page (up to 64
//! entries); a group whose view is kept as part of a value is copied page by page as it changes, so that the kept view
//! stays as it was.
//!
//! # When a row panics
//!
//! A panic is an error in the program, and costs one row. The row is **poisoned**: it has no value, what it demanded and
//! emitted is withdrawn, and a row that reads it is poisoned too. A poisoned row is never read as one that does not exist,
//! since that often means "allowed". Poison ends at tables that say what a fault closes ([`Lookup::poisoned`],
//! [`Derived::poisoned`]); what it had read stays recorded, so that a row heals with its inputs. All that still holds:
//! incremental equals from scratch, whether a row panics or not.
//!
//! A group does not carry poison: the entries of a row that panicked are missing from it, which a table whose entries
//! restrict something must not leave so. A tracked table tells no change of a row that is poisoned, so that the outside
//! keeps what it has.
//!
//! [`Engine::take_faults`] tells who panicked, where and with which message; [`Engine::why`] of any row tells by whom it
//! is poisoned. Panics anywhere else, such as in `Group::summarize` or in the equality of values, are as everywhere.
//!
//! # When a row is wrong
//!
//! [`Engine::why`] prints what the row read (and whether that existed), who reads it, who demands it and what it
//! emitted. [`Engine::stats`] tells what each table holds and how much it computed.

#![forbid(unsafe_code)]

mod builder;
mod changes;
mod chunks;
mod core;
mod edge;
mod engine;
mod fault;
mod frame;
mod graph;
mod groups;
mod misses;
mod node;
mod pages;
mod places;
mod queue;
mod rows;
mod scope;
mod set_hash;
mod sort;
mod stats;
mod store;
mod table;
mod why;

pub use builder::Builder;
pub use core::Batch;
pub use engine::{Engine, Origins};
pub use fault::{Fault, TOLD_TO, Turned};
pub use pages::{Change, Page, View};
pub use scope::{Emitter, Scope};
pub use set_hash::set_hash;
pub use stats::{Kind, TableStats};
pub use table::{Derived, EntryHash, Group, Input, Key, Lookup, Summary, Table};
pub use why::{Seen, Why};
