//! What stands between input and output: the tables and groups of the engine that more than one module knows, with their
//! keys and values.
//!
//! One module computes the rows of a table (it has the `impl Derived` or `impl Lookup`), and any number read them or ask
//! for them. All of these know the declarations here and not each other, so data may flow in a circle where modules may
//! not depend in one: a Gateway asks for its listeners, and a listener reads its Gateway. What one module alone knows is
//! declared there.

/// Declares tables: `Name: Key => Value;`.
macro_rules! tables {
    ($($(#[doc = $doc:literal])+ $table:ident: $key:ty => $value:ty;)+) => {$(
        $(#[doc = $doc])+
        pub(crate) struct $table;

        impl engine::Table for $table {
            const NAME: &'static str = stringify!($table);
            type Key = $key;
            type Value = $value;
        }
    )+};
}

/// Declares groups: `Name: Key, Sort => Entry;`, behind the entry with `sum of COUNT` where their entries are counted, and
/// `at depth DEPTH` of a key where they settle depth by depth.
macro_rules! groups {
    (@summary) => {
        type Summary = ();
    };
    (@summary $count:expr) => {
        type Summary = u64;

        fn summary(entry: &Self::Entry) -> u64 {
            let count: fn(&Self::Entry) -> u64 = $count;
            count(entry)
        }
    };
    ($(
        $(#[doc = $doc:literal])+ $group:ident: $key:ty, $sort:ty => $entry:ty
        $(, sum of $count:expr)? $(, at depth $depth:expr)?;
    )+) => {$(
        $(#[doc = $doc])+
        pub(crate) struct $group;

        impl engine::Group for $group {
            const NAME: &'static str = stringify!($group);
            type Key = $key;
            type Sort = $sort;
            type Entry = $entry;
            groups!(@summary $($count)?);

            $(fn depth(key: &$key) -> u32 {
                let depth: fn(&$key) -> u32 = $depth;
                depth(key)
            })?
        }
    )+};
}

pub(crate) mod attachment;
pub(crate) mod backend;
pub(crate) mod capacity;
pub(crate) mod delegation;
pub(crate) mod edition;
pub(crate) mod gateway;
pub(crate) mod host;
pub(crate) mod input;
pub(crate) mod listener;
pub(crate) mod login;
pub(crate) mod output;
pub(crate) mod policy;
pub(crate) mod proxies;
pub(crate) mod replacement;
pub(crate) mod route;
pub(crate) mod set;
pub(crate) mod stream;
pub(crate) mod strict;
pub(crate) mod terms;
pub(crate) mod tls;
