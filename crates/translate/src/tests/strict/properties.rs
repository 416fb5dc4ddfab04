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
}

/// A change of a small world, in which most is served.
fn change() -> impl Strategy<Value = Change> {
    let to = |rule: Value, service: &str| {
        let mut rule = rule;
        rule["backendRefs"][0]["name"] = json!(service);
        rule
    };
    let rules = vec((0_u8..6, prop::sample::select(vec!["s", "t", "none"])), 1..4).prop_map(move |rules| {
        let rules = rules.into_iter().map(|(path, service)| to(rule(&format!("/{path}")), service));
        json!({"rules": rules.collect::<Vec<_>>()})
    });
    let routes = (0_u8..4, rules).prop_map(|(name, rules)| Change::Put(object(route(&format!("r{name}"), rules))));
    let gone = (0_u8..4).prop_map(|name| Change::Remove(object(route(&format!("r{name}"), json!({}))).id()));
    let services = any::<bool>().prop_map(|there| match object(service("t")) {
        service if there => Change::Put(service),
        service => Change::Remove(service.id()),
    });
    let wide = (0_u8..4).prop_map(|header| Change::Put(object(super::wide(&format!("v{header}")))));
    prop_oneof![6 => routes, 1 => gone, 1 => services, 1 => wide]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Where it holds, no row and no cluster is sent that nobody took, but for constant answers.
    #[test]
    fn nothing_is_sent_before_it_was_taken(batches in vec((vec(change(), 1..4), 0_u8..5, 0_u8..4), 1..12)) {
        let mut strict = Strict::new(WhenUnavailable::Hold);
        strict.put(base());
        strict.settle(accepting);
        let taken = std::cell::RefCell::new(std::collections::HashSet::new());
        for (batch, mood, seconds) in batches {
            for change in batch {
                strict.apply(change);
            }
            let word = |sent: &Sent| match sent.fragment.hash[1] % 5 {
                0 => some(sent),
                of if of < mood => Word::Accepted,
                of if of == mood => Word::Suspect,
                _ => Word::Unknown,
            };
            strict.later(Duration::from_secs(u64::from(seconds) * 6), |sent| {
                let word = word(sent);
                if word == Word::Accepted {
                    taken.borrow_mut().insert(asked(sent).0);
                }
                word
            });
            for sent in strict.translator.inspect().sent() {
                let name = sent.fragment.kind.message_name();
                let is_answer = sent.fragment.kind == envoy::judged::Kind::Row && {
                    let row = envoy::json::value(name, &sent.fragment.bytes).expect("JSON");
                    row["directResponse"]["status"] == 500 && row["directResponse"]["body"].is_null()
                };
                let is_whole = !matches!(sent.fragment.kind, envoy::judged::Kind::Row | envoy::judged::Kind::Cluster);
                let is_taken = taken.borrow().contains(&asked(&sent).0) || strict.said.get(&asked(&sent)) == Some(&Word::Accepted);
                prop_assert!(is_answer || is_whole || is_taken, "{:?} {}", sent.object, sent.field);
            }
        }
    }
}
