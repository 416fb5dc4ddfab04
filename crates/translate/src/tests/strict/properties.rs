//! What holds whatever there is, and whatever is said of it.

use super::*;

/// Refuses a part of all that it is asked about, whatever it is, by its hash.
fn some(sent: &Sent) -> Word {
    if sent.fragment.hash[0].is_multiple_of(11) { Word::Refused("no".into()) } else { Word::Accepted }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Where all is accepted, that somebody was asked makes no difference.
    #[test]
    fn strict_with_an_envoy_that_takes_all_equals_standard(objects in vec(world::object(), 5..40)) {
        let mut strict = Strict::new(WhenUnavailable::Hold);
        let mut settings = ir::Settings::default();
        settings.delegation.max_depth = 4;
        settings.delegation.max_matches = 60;
        let mut standard = Translator::new(settings);
        standard.set_login_seed(Some(crate::LoginSeed::unserved()));
        for value in objects.into_iter().chain([class()]) {
            let change = Change::Put(object(value));
            strict.apply(change.clone());
            standard.apply(change);
        }
        strict.settle(accepting);
        standard.settle();
        let all: BTreeMap<_, _> = standard.resources().into_values().flatten().collect();
        prop_assert_eq!(&strict.sent, &all);
    }

    /// The same objects and the same words give the same bytes, whatever was before, and whoever waited for what.
    #[test]
    fn incremental_equals_from_scratch_with_the_words_of_envoy(
        batches in vec((vec((world::object(), prop::bool::weighted(0.25)), 1..6), any::<bool>()), 1..10),
    ) {
        let mut strict = Strict::new(WhenUnavailable::Hold);
        strict.put([class()]);
        let mut now = BTreeMap::new();
        for (batch, is_known) in batches {
            for (value, removed) in batch {
                let object = object(value);
                if removed {
                    now.remove(&object.id());
                    strict.apply(Change::Remove(object.id()));
                } else {
                    now.insert(object.id(), object.clone());
                    strict.apply(Change::Put(object));
                }
            }
            strict.settle(|sent| if is_known || sent.fragment.hash[1].is_multiple_of(2) { some(sent) } else { Word::Unknown });
        }
        strict.settle(some);
        let mut fresh = Strict::new(WhenUnavailable::Hold);
        fresh.put([class()]);
        for object in now.into_values() {
            fresh.apply(Change::Put(object));
        }
        fresh.settle(some);
        prop_assert_eq!(&strict.sent, &fresh.sent);
    }

    /// Where it holds, no row and no cluster is sent that nobody took, but for constant answers.
    #[test]
    fn nothing_is_sent_before_it_was_taken(
        batches in vec((vec((world::object(), prop::bool::weighted(0.25)), 1..6), 0_u8..4, 0_u8..4), 1..10),
    ) {
        let mut strict = Strict::new(WhenUnavailable::Hold);
        strict.put([class()]);
        let taken = std::cell::RefCell::new(std::collections::HashSet::new());
        for (batch, mood, seconds) in batches {
            for (value, removed) in batch {
                let object = object(value);
                strict.apply(if removed { Change::Remove(object.id()) } else { Change::Put(object) });
            }
            strict.later(Duration::from_secs(u64::from(seconds) * 6), |sent| {
                let word = match sent.fragment.hash[1] % 4 {
                    of if of < mood => some(sent),
                    of if of == mood => Word::Suspect,
                    _ => Word::Unknown,
                };
                if word == Word::Accepted {
                    taken.borrow_mut().insert((sent.fragment.kind, sent.fragment.hash));
                }
                word
            });
            for sent in strict.translator.inspect().sent() {
                let is_answer = sent.fragment.kind == envoy::judged::Kind::Row && {
                    let row = envoy::json::value(sent.fragment.kind.message_name(), &sent.fragment.bytes).expect("JSON");
                    let status = row["directResponse"]["status"].as_u64();
                    // 500, or 200 of a GRPCRoute.
                    status.is_some() && row["typedPerFilterConfig"].is_null() && row["directResponse"]["body"].is_null()
                };
                let is_judged = !matches!(sent.fragment.kind, envoy::judged::Kind::Row | envoy::judged::Kind::Cluster);
                let is_taken = taken.borrow().contains(&(sent.fragment.kind, sent.fragment.hash));
                prop_assert!(is_answer || is_judged || is_taken, "{:?} {}", sent.object, sent.field);
            }
        }
    }
}
