//! Trees and policies that keep their last good version, where Envoy is asked before anything is sent. Settings refuse both
//! together; what holds of them is here, and what does not.

use ir::RootId;

use super::*;
use crate::{
    Edition, Wish,
    tests::{
        policies::{at as targets, policy, with},
        scene::{child, forward, to as delegates},
    },
};

/// Nobody can be asked.
fn nobody(_: &Sent) -> Word {
    Word::Unknown
}

/// Who is asked first, and who keeps editions, at once and of all that is good.
struct Both {
    strict: Strict,
    kept: BTreeMap<RootId, Edition>,
}

impl Both {
    fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut settings = settings();
        settings.freeze.enabled = true;
        let mut both = Self { strict: Strict::with(settings, WhenUnavailable::Hold), kept: BTreeMap::new() };
        both.strict.put(base());
        both.put(objects, accepting);
        both
    }

    fn put(&mut self, objects: impl IntoIterator<Item = Value>, word: impl Fn(&Sent) -> Word) {
        self.strict.put(objects);
        self.settle(word);
    }

    fn settle(&mut self, word: impl Fn(&Sent) -> Word) {
        loop {
            self.strict.settle(&word);
            let mut turned = false;
            for root in self.strict.translator.take_roots() {
                match self.strict.translator.wish(&root) {
                    Wish::Kept(candidate)
                        if candidate.is_good() && self.kept.get(&root) != Some(&candidate.edition) =>
                    {
                        self.strict.translator.set_edition(&root, Some(&candidate.edition));
                        self.kept.insert(root, candidate.edition);
                        turned = true;
                    }
                    Wish::Over => {
                        self.strict.translator.set_edition(&root, None);
                        turned |= self.kept.remove(&root).is_some();
                    }
                    _ => {}
                }
            }
            if !turned {
                return;
            }
        }
    }

    fn routes(&self) -> Vec<(String, Option<u64>)> {
        self.strict.routes()
    }

    /// The user who may enter by what is said in slots of the route configuration.
    fn guard(&self) -> Option<&'static str> {
        let mut configs = self.strict.sent.iter().filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration);
        let (_, encoded) = configs.next()?;
        let said = String::from_utf8_lossy(&encoded.body.to_bytes()).into_owned();
        ["alice", "bob"].into_iter().find(|user| said.contains(user))
    }
}

fn root() -> Value {
    route("root", json!({"rules": [delegates("/a", &["one", "two"])]}))
}

fn freezing() -> Value {
    policy("DelegationPolicy", "freezing", with(targets("HTTPRoute", "root"), json!({"failureMode": "FreezeConfig"})))
}

fn of(name: &str, path: &str) -> Value {
    child(name, json!([forward(path)]))
}

fn broken(name: &str, path: &str) -> Value {
    let rule = json!({"matches": [{"path": {"value": path}}], "backendRefs": [{"name": "nobody", "port": 80}]});
    child(name, json!([rule]))
}

fn tree() -> [Value; 4] {
    [root(), of("one", "/a/one"), of("two", "/a/two"), freezing()]
}

fn answers<const N: usize>(all: [(&str, Option<u64>); N]) -> Vec<(String, Option<u64>)> {
    all.map(|(path, status)| (path.to_owned(), status)).to_vec()
}

#[test]
fn the_next_version_is_judged_before_it_is_sent_and_goes_as_a_whole() {
    let mut both = Both::new(tree());
    let before = answers([("/a/one", None), ("/a/two", None)]);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 1));
    let more = |name: &str| {
        let path = format!("/a/{name}");
        child(name, json!([forward(&path), forward(&format!("{path}/more"))]))
    };
    let only_one = |sent: &Sent| if contains(sent, "/a/two/more") { Word::Unknown } else { Word::Accepted };
    both.put(["one", "two"].map(more), only_one);
    assert_eq!(both.routes(), before);
    both.settle(accepting);
    let after = [("/a/one", None), ("/a/one/more", None), ("/a/two", None), ("/a/two/more", None)];
    assert_eq!(both.routes(), answers(after));
}

#[test]
fn a_tree_that_breaks_stays_and_what_goes_goes_at_once_though_nobody_can_be_asked() {
    let mut both = Both::new(tree());
    let before = answers([("/a/one", None), ("/a/two", None)]);
    both.put([broken("one", "/a/one")], nobody);
    assert_eq!(both.routes(), before);
    both.put([of("two", "/a/two/more")], accepting);
    assert_eq!(both.routes(), before);
    both.strict.remove(of("two", "/a/two"));
    both.settle(nobody);
    assert_eq!(both.routes(), answers([("/a/one", None), ("/a/two", Some(500))]));
    both.put([of("one", "/a/one"), of("two", "/a/two")], accepting);
    assert_eq!(both.routes(), before);
}

#[test]
fn a_tree_that_is_kept_from_now_on_or_no_more_is_served_on_as_long_as_what_was_said_of_it_is_known() {
    let [root, one, two, freezing] = tree();
    let mut both = Both::new([root, one, two]);
    let before = answers([("/a/one", None), ("/a/two", None)]);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 0));
    both.put([freezing.clone()], accepting);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 1));
    both.strict.remove(freezing.clone());
    both.settle(accepting);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 0));
    // It counts as a new one, of which nothing was ever sent.
    both.put([freezing], nobody);
    assert_eq!((both.routes(), both.kept.len()), (Vec::new(), 1));
    both.settle(accepting);
    assert_eq!(both.routes(), before);
}

#[test]
fn what_envoy_refuses_of_a_tree_that_is_kept_is_replaced_as_elsewhere_though_what_was_kept_before_is_gone() {
    let mut both = Both::new(tree());
    both.put([of("one", "/a/bad")], refusing("/a/bad"));
    assert_eq!(both.routes(), answers([("/a/bad", Some(500)), ("/a/two", None)]));
    both.put([of("one", "/a/one")], refusing("/a/bad"));
    assert_eq!(both.routes(), answers([("/a/one", None), ("/a/two", None)]));
}

#[test]
fn policies_of_a_gateway_that_break_stay_and_the_next_ones_are_judged_before_they_are_sent() {
    let mut edge = gateway("edge", json!([http("web", 80, "")]));
    edge["metadata"]["annotations"] = json!({"portcullis.dev/failure-mode": "FreezeConfig"});
    let guard = |spec: Value| {
        let mut guard = policy("TrafficPolicy", "guard", with(targets("Gateway", "edge"), spec));
        guard["metadata"]["namespace"] = json!("infra");
        guard
    };
    let user =
        |name: &str| guard(json!({"basicAuth": {"users": [format!("{name}:{{SHA}}5en6G6MezRroT3XKqkdPOmY/BfQ=")]}}));
    let mut both = Both::new([edge, user("alice"), route("r", rules(&["/a"]))]);
    assert_eq!((both.guard(), both.kept.len()), (Some("alice"), 1));
    both.put([guard(json!({"extAuth": {}}))], nobody);
    assert_eq!((both.guard(), both.routes()), (Some("alice"), answers([("/a", None)])));
    // Who else is let in is let in by nobody meanwhile.
    both.put([user("bob")], nobody);
    assert_eq!(both.guard(), None);
    assert!(both.routes().iter().all(|(_, status)| *status == Some(500)), "{:?}", both.routes());
    both.settle(accepting);
    assert_eq!((both.guard(), both.routes()), (Some("bob"), answers([("/a", None)])));
}
