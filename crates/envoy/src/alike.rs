//! What many rows of a route configuration say alike in a slot, said once for all of them.
//!
//! To Envoy a filter that a row says completely costs as much as the rest of the row several times over. Of a slot in the list
//! of [`crate::slots`] the route configuration then says what most rows say there, each virtual host switches the slot off, and
//! a row that says exactly this says instead that the slot is on, so that Envoy takes what the next wider scope says: the
//! virtual host has no words for it, and the route configuration has these. A row with other words has them as before, and
//! one without any is as little held up as before, since nothing more is built for its requests.
//!
//! A row that switches on what its route configuration lacks would pass without the filter. So both are made from one
//! [`Alike`], and stand in one resource.

use bytes::Bytes;
use ir::rule::Slot;

use crate::{
    bytes::{
        Alike, Row,
        alike::{self, Once, Said},
    },
    slots,
};

/// Whether rows of a rule with these slots may say anything that their route configuration may say for them.
pub fn may_say(slots: &[Slot]) -> bool {
    slots.iter().any(|slot| slots::may_be_said_once(slot.name.as_bytes()).is_some())
}

/// What a row says in slots that its route configuration may say for it. It holds no more of the row than that.
pub fn said(row: &Row) -> Vec<(&'static str, Said)> {
    let named = alike::slots(row).filter_map(|(name, config)| Some((slots::may_be_said_once(name)?, config)));
    let told = named.filter(|(name, config)| !slots::is_switch(name, config));
    told.map(|(name, config)| (name, Said::new(Bytes::copy_from_slice(config)))).collect()
}

/// This, said once; at most one of a slot.
pub fn once(said: impl IntoIterator<Item = (&'static str, Said)>) -> Alike {
    let once = said.into_iter().map(|(name, said)| Once { said, on: slots::on(name), off: slots::off(name) });
    Alike::of(once.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::{envoy::config::route::v3::Route, google::protobuf::Any};

    use crate::bytes::{Fields, tag};

    fn row(slots: &[Slot]) -> Row {
        let route = Route { name: "apps/shop/0/0".into(), ..Route::default() };
        let slots = slots.iter().map(|slot| (slot.name, &slot.config));
        Row::new(Fields::of(&route).map(tag::ROUTE_TYPED_PER_FILTER_CONFIG, slots).into_bytes()).expect("readable")
    }

    fn told(name: &'static str, what: &str) -> Slot {
        slots::slot(name, &Any { type_url: what.into(), ..Any::default() })
    }

    #[test]
    fn a_row_says_what_it_says_in_slots_that_ask_somebody() {
        let [off, csrf] = [slots::off(slots::EXT_AUTH[1]), told(slots::CSRF, "a")];
        let judged = told(slots::EXT_AUTH[0], "judge");
        let said = said(&row(&[judged.clone(), off, csrf]));
        assert_eq!(said, [(slots::EXT_AUTH[0], Said::new(Bytes::copy_from_slice(&judged.config)))]);
    }

    #[test]
    fn a_row_with_the_same_words_switches_the_slot_on_and_others_keep_theirs() {
        let [ours, theirs] = ["ours", "theirs"].map(|who| told(slots::EXT_AUTH[0], who));
        let besides = [told(slots::CSRF, "ours"), slots::off(slots::EXT_AUTH[1])];
        let with = |slot: &Slot| row(&[slot.clone(), besides[0].clone(), besides[1].clone()]);
        let alike = once(said(&row(std::slice::from_ref(&ours))));
        assert_eq!(alike.slots().map(|slot| slot.config).collect::<Vec<_>>(), std::slice::from_ref(&ours.config));
        assert_eq!(*alike.row(&with(&ours)), *with(&slots::on(slots::EXT_AUTH[0])).bytes);
        for row in [with(&theirs), with(&slots::off(slots::EXT_AUTH[0])), row(&besides), row(&[])] {
            assert_eq!(*alike.row(&row), *row.bytes);
            assert_eq!(*Alike::default().row(&row), *row.bytes);
        }
    }

    #[test]
    fn nothing_of_what_is_said_is_printed() {
        let said = said(&row(&[told(slots::EXT_AUTH[0], "a secret")]));
        assert!(!format!("{:?}", once(said)).contains("secret"));
    }
}
