//! What holds whatever there is, and whatever is said of it.

use envoy::judged::Kind;

use super::*;
use crate::{
    policies::{at as targets, policy, with},
    scene::{https, secret, stream, stream_route, tls, tls_route, to as delegates},
};

/// Refuses a part of all that it is asked about, whatever it is, by its hash.
pub(super) fn some(sent: &Sent) -> Word {
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
        standard.set_login_seed(Some(translate::LoginSeed::unserved()));
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

/// Texts that stand in wider scopes and in chains: each says whether what has it was taken.
const MARKS: [&str; 7] =
    ["wide-0", "wide-1", "wide-2", "wide-3", "one.example.com", "two.example.com", "three.example.com"];

/// The Gateway and routes of a small world.
pub(super) fn small() -> Vec<Value> {
    let listeners = json!([
        http("web", 80, ""),
        https("secure", 443, "web.example.com", "c"),
        tls("tls", 443, "*.example.com", Some("c")),
        stream("db", 5432, "TCP"),
    ]);
    vec![class(), service("s"), gateway("edge", listeners), secret("c")]
}

/// A policy that keeps requests out, on a route or on the Gateway.
fn guard(of_gateway: bool, name: &str, user: u8) -> Value {
    let target = if of_gateway { targets("Gateway", "edge") } else { targets("HTTPRoute", name) };
    let expression = format!("request.headers['x-user'] == 'u{user}'");
    let said = json!({"rbac": {"action": "Allow", "policy": {"matchExpressions": [expression]}}});
    let mut policy = policy("TrafficPolicy", &format!("guard-{name}"), with(target, said));
    if of_gateway {
        policy["metadata"]["namespace"] = json!("infra");
    }
    policy
}

/// A change of a small world, in which most is served.
pub(super) fn change() -> impl Strategy<Value = Change> {
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
    let wide = (0_u8..4).prop_map(|header| Change::Put(object(super::wide(&format!("wide-{header}")))));
    let parents = vec((0_u8..3, 0_u8..2), 1..3).prop_map(|rules| {
        let rules = rules.into_iter().map(|(path, child)| delegates(&format!("/{path}"), &[&format!("c{child}")]));
        Change::Put(object(route("parent", json!({"rules": rules.collect::<Vec<_>>()}))))
    });
    let children = (0_u8..2, 0_u8..3, 0_u8..3).prop_map(|(name, path, below)| {
        let spec = json!({"parentRefs": [], "rules": [rule(&format!("/{path}/{below}"))]});
        Change::Put(object(route(&format!("c{name}"), spec)))
    });
    let guards = (any::<bool>(), 0_u8..4, 0_u8..3, any::<bool>()).prop_map(|(of_gateway, name, user, is_there)| {
        let policy = object(guard(of_gateway, &format!("r{name}"), user));
        if is_there { Change::Put(policy) } else { Change::Remove(policy.id()) }
    });
    let to_s = || json!([{"name": "s", "port": 80}]);
    let hostnames = (0_u8..3, prop::sample::select(MARKS[4..].to_vec()), any::<bool>());
    let names = hostnames.prop_map(move |(name, hostname, is_there)| {
        let route = object(tls_route(&format!("t{name}"), &[hostname], to_s()));
        if is_there { Change::Put(route) } else { Change::Remove(route.id()) }
    });
    let streams = any::<bool>().prop_map(move |is_there| {
        let route = object(stream_route("TCPRoute", "db", to_s()));
        if is_there { Change::Put(route) } else { Change::Remove(route.id()) }
    });
    let of_routes = prop_oneof![6 => routes, 1 => gone, 1 => services, 2 => parents, 2 => children, 2 => guards];
    prop_oneof![5 => of_routes, 1 => wide, 2 => names, 1 => streams]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Where it holds, nothing is sent that nobody took, but for constant answers and chains that close.
    #[test]
    fn nothing_is_sent_before_it_was_taken(batches in vec((vec(change(), 1..4), 0_u8..5, 0_u8..4), 1..12)) {
        let mut strict = Strict::new(WhenUnavailable::Hold);
        strict.put(small());
        let taken = std::cell::RefCell::new(std::collections::HashSet::new());
        // What is taken of whole messages is known by what it says, since they are put together from what was.
        let texts = std::cell::RefCell::new(std::collections::HashSet::new());
        strict.settle(accepting);
        taken.borrow_mut().extend(strict.said.keys().map(|(fragment, _)| *fragment));
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
                    let marks = MARKS.into_iter().filter(|mark| contains(sent, mark));
                    texts.borrow_mut().extend(marks.map(|mark| (sent.fragment.kind, mark)));
                }
                word
            });
            for sent in strict.translator.inspect().sent() {
                let name = sent.fragment.kind.message_name();
                let is_answer = sent.fragment.kind == Kind::Row && {
                    let row = envoy::json::value(name, &sent.fragment.bytes).expect("JSON");
                    row["directResponse"]["status"] == 500 && row["directResponse"]["body"].is_null()
                };
                let said: Vec<_> = MARKS.into_iter().filter(|mark| contains(&sent, mark)).collect();
                let is_taken = match sent.fragment.kind {
                    Kind::Row | Kind::Cluster => {
                        taken.borrow().contains(&asked(&sent).0) || strict.said.get(&asked(&sent)) == Some(&Word::Accepted)
                    }
                    // A chain that closes says nothing of where connections go.
                    Kind::Listener => said.iter().all(|mark| {
                        let leads = format!("/{mark}");
                        !contains(&sent, &leads) || texts.borrow().contains(&(Kind::Listener, *mark))
                    }),
                    // What is said for a virtual host is judged as what is said for all of them.
                    Kind::RouteConfiguration | Kind::Host => said.iter().all(|mark| {
                        !mark.starts_with("wide") || texts.borrow().contains(&(Kind::RouteConfiguration, *mark))
                    }),
                    Kind::Extension => said.is_empty(),
                };
                prop_assert!(is_answer || is_taken, "{:?} {} {said:?}", sent.object, sent.field);
            }
        }
    }
}
