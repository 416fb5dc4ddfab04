//! Programs that filters of the chain run for what no other filter does as it must be done. Routes say what as data.
//!
//! Each comes apart from its listener, so that connections that were open before an upgrade have the program that the routes
//! after it are written for. A proxy has one only while a route needs it, since each worker has a machine for it in each filter
//! chain, which takes 90 KB; where it is not, requests are refused, since Envoy's filter for programs would let them pass. Only
//! that of templates (500 KB) is always there: listeners of older releases take nothing else in its place.

use std::{ops::RangeInclusive, sync::LazyLock};

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{DataSource, data_source::Specifier},
            rbac::v3::Rbac as Rules,
        },
        extensions::filters::http::{
            lua::v3::{Lua, LuaPerRoute},
            rbac::v3::Rbac,
        },
    },
    google::protobuf::{Any, ListValue, Struct, Value, value::Kind},
};
use ir::rule::{ExtensionEntry, Slot};

use super::has_entries;
use crate::{bytes::any, slots};

/// Where a route's data are for its program.
const DATA: &str = "t";

/// What takes credentials out of requests.
const HIDE: &str = include_str!("programs/hide.lua");

/// What refuses bodies that are too long.
const BODY: &str = include_str!("programs/body.lua");

/// What a filter runs if any route needs it, and otherwise what refuses every request. `body_bytes` is the most of a body that
/// templates read or replace.
pub(super) fn filter(name: &str, is_needed: bool, body_bytes: u32) -> Any {
    let program = match name {
        slots::TRANSFORMATION_LUA => transformation(body_bytes),
        _ if !is_needed => return any(&Rbac { rules: Some(Rules::default()), ..Rbac::default() }),
        slots::API_KEY_AUTH_HIDE | slots::JWT_AUTH_HIDE => HIDE.to_owned(),
        _ => BODY.to_owned(),
    };
    any(&Lua {
        default_source_code: Some(DataSource {
            specifier: Some(Specifier::InlineString(program)),
            ..DataSource::default()
        }),
        // What it changes does not lead a request to another route, whose policies would not be asked.
        clear_route_cache: Some(crate::boolean(false)),
        ..Lua::default()
    })
}

/// What a route says to the program of a slot.
pub fn told(name: &'static str, data: Value) -> Slot {
    // One field: a map of more has no order.
    let context = Struct { fields: [(DATA.to_owned(), data)].into() };
    let told = LuaPerRoute { filter_context: Some(context), ..LuaPerRoute::default() };
    let entry = has_entries(name).then(|| ExtensionEntry::Program(name).into());
    Slot { entry, ..slots::slot(name, &told) }
}

/// What [`told`] told.
pub fn said(told: &LuaPerRoute) -> Option<&Value> {
    told.filter_context.as_ref()?.fields.get(DATA)
}

/// A part of a request that shows who sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A header, by its name in small letters.
    Header(String),
    /// All parameters of a query with this name, as it is without escapes.
    Query(String),
    /// All cookies with this name.
    Cookie(String),
}

/// What takes these out of requests, and leaves all else as it was sent. Envoy's own filters write the rest of a query anew,
/// decoded, so that a backend gets parameters which nobody in front has seen.
pub fn hides(name: &'static str, parts: &[Shown]) -> Slot {
    let part = |part: &Shown| {
        let (what, name) = match part {
            Shown::Header(name) => ("header", name),
            Shown::Query(name) => ("query", name),
            Shown::Cookie(name) => ("cookie", name),
        };
        list(vec![text(what), text(name)])
    };
    told(name, list(parts.iter().map(part).collect()))
}

/// What refuses with 413 a body of more than `most` bytes. Envoy's own filters count what waits in them, and what comes in one
/// piece with its end does not wait.
pub fn bounds_bodies(name: &'static str, most: u32) -> Slot {
    told(name, Value { kind: Some(Kind::NumberValue(most.into())) })
}

/// A text as data.
pub fn text(text: impl Into<String>) -> Value {
    Value { kind: Some(Kind::StringValue(text.into())) }
}

/// A list as data.
pub fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

/// The program that takes credentials out of requests, as proxies have it.
#[cfg(feature = "testing")]
pub fn hiding_program() -> &'static str {
    HIDE
}

/// What changes headers and bodies as templates say.
const TRANSFORMATION: &str = concat!(
    include_str!("transformation/texts.lua"),
    "\n",
    include_str!("transformation/values.lua"),
    "\n",
    include_str!("transformation/json.lua"),
    "\n",
    include_str!("transformation/filters.lua"),
    "\n",
    include_str!("transformation/machine.lua"),
    "\n",
    include_str!("transformation/messages.lua"),
);

/// The program that interprets templates, as proxies have it.
#[cfg(feature = "testing")]
pub fn transformation_program(body_bytes: u32) -> String {
    transformation(body_bytes)
}

/// The program, for bodies of at most so many bytes.
fn transformation(body_bytes: u32) -> String {
    let [capital, small] = &*CASES;
    format!(
        "-- Bytes of a body that is read or replaced.\nlocal MOST_BODY = {body_bytes}\n\
         -- Letters outside of ASCII with their capital ones, and with their small ones.\n\
         local CAPITAL, SMALL = \"{capital}\", \"{small}\"\n\n{TRANSFORMATION}"
    )
}

/// Where the letters outside of ASCII are that have another case. To look at all of Unicode takes 50 ms of a start without
/// optimization.
const CASED: [RangeInclusive<char>; 6] = [
    '\u{80}'..='\u{2FFF}',
    '\u{A000}'..='\u{ABFF}',
    '\u{FB00}'..='\u{10FFF}',
    '\u{11800}'..='\u{118FF}',
    '\u{16E00}'..='\u{16EFF}',
    '\u{1E900}'..='\u{1E9FF}',
];

/// Letters outside of ASCII, each with what it becomes and a blank behind: capital ones, and small ones.
static CASES: LazyLock<[String; 2]> = LazyLock::new(|| {
    let [mut capital, mut small] = [const { String::new() }; 2];
    for letter in CASED.into_iter().flatten() {
        if !letter.to_uppercase().eq([letter]) {
            capital.push(letter);
            capital.extend(letter.to_uppercase());
            capital.push(' ');
        }
        if !letter.to_lowercase().eq([letter]) {
            small.push(letter);
            small.extend(letter.to_lowercase());
            small.push(' ');
        }
    }
    [capital, small]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_elsewhere_has_another_case() {
        let mut elsewhere = ('\u{80}'..=char::MAX).filter(|c| !CASED.iter().any(|range| range.contains(c)));
        assert_eq!(elsewhere.find(|c| !c.to_uppercase().eq([*c]) || !c.to_lowercase().eq([*c])), None);
        let [capital, small] = &*CASES;
        assert!(capital.contains("ßSS ") && small.contains("Éé "));
    }
}
