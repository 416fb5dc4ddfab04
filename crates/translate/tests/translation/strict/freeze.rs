//! Trees and policies that keep their last good version, where Envoy is asked before anything is sent: about the next version before
//! it is kept, and so before it is served.

use ir::RootId;

use super::{
    properties::{change, small, some},
    *,
};
use crate::{
    policies::{at as targets, policy, with},
    scene::{child, forward, to as delegates},
};
use translate::{Edition, Wish, strict::NOTICED};

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
        Self::with(WhenUnavailable::Hold, objects)
    }

    fn with(when: WhenUnavailable, objects: impl IntoIterator<Item = Value>) -> Self {
        let mut settings = settings();
        settings.freeze.enabled = true;
        let mut both = Self { strict: Strict::with(settings, when), kept: BTreeMap::new() };
        both.strict.put(base());
        both.put(objects, accepting);
        both
    }

    /// What was kept is there before anything else is, as where a controller starts.
    fn started(kept: &BTreeMap<RootId, Edition>) -> Self {
        let mut both = Self::with(WhenUnavailable::Hold, []);
        for (root, edition) in kept {
            both.strict.translator.set_edition(root, Some(edition));
        }
        Self { kept: kept.clone(), ..both }
    }

    fn put(&mut self, objects: impl IntoIterator<Item = Value>, word: impl Fn(&Sent) -> Word) {
        self.strict.put(objects);
        self.settle(word);
    }

    /// The same later.
    fn later(&mut self, time: Duration, word: impl Fn(&Sent) -> Word) {
        self.strict.now += time;
        self.settle(word);
    }

    /// What is wrong with the only root that shall be kept, and whether it waits.
    fn candidate(&self, root: &RootId) -> (Vec<String>, bool) {
        match self.strict.translator.wish(root) {
            Wish::Kept(candidate) => (candidate.first.iter().map(ToString::to_string).collect(), candidate.waits),
            other => panic!("{root} shall be kept: {other:?}"),
        }
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
        ["alice", "bob", "carol"].into_iter().find(|user| said.contains(user))
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

fn the_root() -> RootId {
    RootId::Route(ir::NsName::new("apps", "root"))
}

/// A child with another rule beside its first one.
fn more(name: &str) -> Value {
    let path = format!("/a/{name}");
    child(name, json!([forward(&path), forward(&format!("{path}/more"))]))
}

#[test]
fn the_next_version_is_judged_before_it_is_kept_and_goes_as_a_whole() {
    let mut both = Both::new(tree());
    let before = answers([("/a/one", None), ("/a/two", None)]);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 1));
    let kept = both.kept.clone();
    let only_one = |sent: &Sent| if contains(sent, "/a/two/more") { Word::Unknown } else { Word::Accepted };
    both.put(["one", "two"].map(more), only_one);
    assert_eq!((both.routes(), &both.kept), (before, &kept));
    assert_eq!(both.candidate(&the_root()), (Vec::new(), true));
    both.settle(accepting);
    let after = [("/a/one", None), ("/a/one/more", None), ("/a/two", None), ("/a/two/more", None)];
    assert_eq!(both.routes(), answers(after));
    assert_ne!(both.kept, kept);
    assert_eq!(both.candidate(&the_root()), (Vec::new(), false));
}

#[test]
fn where_nobody_can_be_asked_nothing_is_kept_however_long_that_lasts() {
    for when in [WhenUnavailable::Standard, WhenUnavailable::Hold] {
        let mut both = Both::with(when, tree());
        let kept = both.kept.clone();
        both.strict.translator.set_judge_unavailable(Some("it is away".to_owned()));
        both.put([more("one"), broken("two", "/a/two")], nobody);
        let before = answers([("/a/one", None), ("/a/two", None)]);
        for _ in 0..4 {
            both.later(T, nobody);
            assert_eq!((both.routes(), &both.kept), (before.clone(), &kept));
        }
        // Nor is what is refused once somebody can be, when all else is mended.
        both.strict.translator.set_judge_unavailable(None);
        both.settle(refusing("/a/one/more"));
        assert_eq!(both.candidate(&the_root()).0.len(), 2);
        both.put([of("two", "/a/two")], refusing("/a/one/more"));
        assert_eq!((both.routes(), &both.kept), (before, &kept));
        assert_eq!(both.candidate(&the_root()).0.len(), 1);
        both.put([of("one", "/a/one/other")], refusing("/a/one/more"));
        assert_eq!(both.routes(), answers([("/a/one/other", None), ("/a/two", None)]));
    }
}

#[test]
fn what_only_a_listener_makes_of_a_rule_is_asked_about_too() {
    let redirects = |hostname: &str| {
        let filter = json!({"type": "RequestRedirect", "requestRedirect": {"hostname": hostname}});
        child("one", json!([{"matches": [{"path": {"value": "/a/one"}}], "filters": [filter]}]))
    };
    let [root, _, two, freezing] = tree();
    let listeners = json!([http("web", 8080, "")]);
    let mut both = Both::new([gateway("edge", listeners), root, redirects("one.example.com"), two, freezing]);
    let (kept, sent) = (both.kept.clone(), both.strict.sent.clone());
    assert_eq!(kept.len(), 1);
    let words = "Envoy 1.40.0 refuses it: so it is";
    let refuses =
        |sent: &Sent| if contains(sent, "no.example.com") { Word::Refused(words.into()) } else { Word::Accepted };
    both.put([redirects("no.example.com")], refuses);
    assert!(both.kept == kept && both.strict.sent == sent);
    let (faults, waits) = both.candidate(&the_root());
    let told = faults.first().is_some_and(|told| told.starts_with("HTTPRoute apps/one ") && told.contains(words));
    assert!(told && faults.len() == 1 && !waits, "{faults:?}");
    both.put([redirects("other.example.com")], refuses);
    assert!(both.kept != kept && both.candidate(&the_root()) == (Vec::new(), false));
}

#[test]
fn the_cluster_of_a_session_is_asked_about_beside_its_envoy_routes() {
    let lasting = |protocol: &str| {
        let to = |name: &str| json!({"name": format!("{protocol}{name}"), "port": 80});
        let rule = json!({
            "matches": [{"path": {"value": "/a/one"}}], "sessionPersistence": {"sessionName": "s", "type": "Cookie"},
            "backendRefs": [to("s"), to("t")],
        });
        child("one", json!([rule]))
    };
    let with_http2 = ["h2-s", "h2-t"].map(|name| {
        let mut service = service(name);
        service["spec"]["ports"][0]["appProtocol"] = json!("kubernetes.io/h2c");
        service
    });
    let [root, _, two, freezing] = tree();
    let services = with_http2.into_iter().chain([service("t")]);
    let mut both = Both::new(services.chain([root, lasting(""), two, freezing]));
    let kept = both.kept.clone();
    assert_eq!(kept.len(), 1, "{:?}", both.candidate(&the_root()));
    let said: Vec<_> = both.strict.said.keys().map(|(fragment, _)| *fragment).collect();
    let is_new = |sent: &Sent| {
        let Sent { fragment, .. } = sent;
        fragment.kind == envoy::judged::Kind::Cluster && !said.contains(&(fragment.kind, fragment.hash))
    };
    let refuses = |word: Word| move |sent: &Sent| if is_new(sent) { word.clone() } else { Word::Accepted };
    both.put([lasting("h2-")], refuses(Word::Unknown));
    assert!(both.kept == kept && both.candidate(&the_root()) == (Vec::new(), true));
    both.settle(refuses(Word::Refused("so it is".into())));
    assert!(both.kept == kept && both.candidate(&the_root()).0.len() == 1, "{:?}", both.candidate(&the_root()));
    both.put([lasting("")], refuses(Word::Refused("so it is".into())));
    assert_eq!(both.candidate(&the_root()), (Vec::new(), false));
    both.put([lasting("h2-")], accepting);
    assert!(both.kept != kept && both.candidate(&the_root()) == (Vec::new(), false));
}

#[test]
fn a_route_whose_kept_version_waits_after_a_start_is_told() {
    let kept = Both::new(tree()).kept;
    let mut both = Both::started(&kept);
    both.strict.put(base());
    both.put(tree(), nobody);
    let told = |both: &Both| {
        let all = both.strict.translator.statuses();
        let said = all.into_iter().map(|(object, status)| (object.to_string(), format!("{status:?}")));
        said.filter(|(_, status)| status.contains("ValidationPending")).map(|(object, _)| object).collect::<Vec<_>>()
    };
    both.later(NOTICED, nobody);
    assert_eq!(told(&both), ["HTTPRoute apps/one", "HTTPRoute apps/root", "HTTPRoute apps/two"]);
    both.settle(accepting);
    assert_eq!((both.routes(), told(&both)), (answers([("/a/one", None), ("/a/two", None)]), Vec::new()));
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
fn a_tree_that_is_kept_from_now_on_or_no_more_is_served_on_though_nobody_can_be_asked() {
    let [root, one, two, freezing] = tree();
    let mut both = Both::new([root, one, two]);
    let before = answers([("/a/one", None), ("/a/two", None)]);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 0));
    both.put([freezing.clone()], nobody);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 0));
    both.settle(accepting);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 1));
    both.strict.remove(freezing.clone());
    both.settle(nobody);
    assert_eq!((both.routes(), both.kept.len()), (before.clone(), 0));
    both.settle(accepting);
    assert_eq!(both.routes(), before);
    // Of one that breaks as it is kept no more, what is served is what it is; what has no word yet is as it was.
    both.put([freezing.clone()], accepting);
    both.put([broken("one", "/a/one"), more("two")], accepting);
    assert_eq!((both.routes(), both.kept.len()), (before, 1));
    both.strict.remove(freezing);
    both.settle(nobody);
    assert_eq!(both.routes(), answers([("/a/one", Some(500)), ("/a/two", None)]));
    both.settle(accepting);
    assert_eq!(both.routes(), answers([("/a/one", Some(500)), ("/a/two", None), ("/a/two/more", None)]));
}

#[test]
fn what_envoy_refuses_is_not_kept_and_the_last_good_version_stays_until_it_is_mended() {
    let mut both = Both::new(tree());
    let before = answers([("/a/one", None), ("/a/two", None)]);
    let kept = both.kept.clone();
    both.put([of("one", "/a/bad"), more("two")], refusing("/a/bad"));
    assert_eq!((both.routes(), &both.kept), (before, &kept));
    let (faults, waits) = both.candidate(&the_root());
    assert!(!waits && faults.len() == 1 && faults[0].contains("/one spec.rules[0]"), "{faults:?}");
    both.put([of("one", "/a/one")], refusing("/a/bad"));
    assert_eq!(both.routes(), answers([("/a/one", None), ("/a/two", None), ("/a/two/more", None)]));
    assert_eq!(both.candidate(&the_root()), (Vec::new(), false));
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
    // Those who are let in are those who were, until there is a word.
    let gateway = RootId::Gateway(ir::NsName::new("infra", "edge"));
    both.put([user("bob")], nobody);
    assert_eq!((both.guard(), both.routes()), (Some("alice"), answers([("/a", None)])));
    assert_eq!(both.candidate(&gateway), (Vec::new(), true));
    let words = "Envoy 1.40.0 refuses it: so it is";
    both.settle(|sent| if contains(sent, "bob") { Word::Refused(words.into()) } else { Word::Accepted });
    assert_eq!((both.guard(), both.routes()), (Some("alice"), answers([("/a", None)])));
    assert_eq!(both.candidate(&gateway), (vec![words.to_owned()], false));
    both.put([user("carol")], accepting);
    assert_eq!((both.guard(), both.routes()), (Some("carol"), answers([("/a", None)])));
}

/// A tree and policies of a Gateway of which nobody knows what they are now are not kept.
#[cfg(debug_assertions)]
#[test]
fn where_what_shall_be_judged_cannot_be_computed_what_was_kept_stays_until_it_can() {
    let mut edge = gateway("edge", json!([http("web", 80, "")]));
    edge["metadata"]["annotations"] = json!({"portcullis.dev/failure-mode": "FreezeConfig"});
    let mut both = Both::new(tree().into_iter().chain([edge, super::wide("one")]));
    let mut tried = Vec::new();
    for (table, key) in both.strict.translator.computed_rows() {
        if !["CandidateOffer", "CandidateWide"].contains(&table) {
            continue;
        }
        tried.push(table);
        let (kept, sent) = (both.kept.clone(), both.strict.sent.clone());
        let said = format!("other-{}", tried.len());
        let changed = if table == "CandidateWide" { super::wide(&said) } else { of("two", &format!("/a/two/{said}")) };
        // It waits, and cannot be computed any more when there is a word; or could not be from the beginning.
        if tried.len().is_multiple_of(2) {
            both.put([changed], nobody);
            both.strict.translator.fail_at(table, &key);
            both.later(T, accepting);
        } else {
            both.strict.translator.fail_at(table, &key);
            both.put([changed], accepting);
        }
        assert!(both.kept == kept && both.strict.sent == sent, "{table}({key})");
        both.strict.translator.fail_no_more(table, &key);
        both.settle(nobody);
        assert!(both.kept == kept && both.strict.sent == sent, "{table}({key})");
        both.settle(accepting);
        assert!(both.kept != kept && both.strict.sent != sent, "{table}({key})");
        assert_eq!(both.strict.translator.faults(), 0);
    }
    tried.dedup();
    assert_eq!(tried.len(), 2, "{tried:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// The same objects, the same words and what was kept give the same bytes, whatever was before; and what is kept is what
    /// would be kept again.
    #[test]
    fn incremental_equals_from_scratch_with_what_is_kept_and_the_words_of_envoy(
        batches in vec((vec(change(), 1..5), any::<bool>()), 1..10),
    ) {
        let keeps = || {
            let of_tree = with(targets("HTTPRoute", "parent"), json!({"failureMode": "FreezeConfig"}));
            let mut edge = small().into_iter().find(|object| object["kind"] == "Gateway").expect("a Gateway");
            edge["metadata"]["annotations"] = json!({"portcullis.dev/failure-mode": "FreezeConfig"});
            small().into_iter().chain([edge, policy("DelegationPolicy", "keeps", of_tree)])
        };
        let mut both = Both::new(keeps());
        let mut now = BTreeMap::new();
        for (batch, is_known) in batches {
            for change in batch {
                match &change {
                    Change::Put(object) => drop(now.insert(object.id(), object.clone())),
                    Change::Remove(id) => drop(now.remove(id)),
                }
                both.strict.apply(change);
            }
            both.settle(|sent| if is_known || sent.fragment.hash[1].is_multiple_of(2) { some(sent) } else { Word::Unknown });
        }
        both.settle(some);
        let mut fresh = Both::started(&both.kept);
        fresh.strict.put(keeps());
        for object in now.into_values() {
            fresh.strict.apply(Change::Put(object));
        }
        fresh.settle(some);
        prop_assert_eq!(&both.strict.sent, &fresh.strict.sent);
        prop_assert!(both.kept == fresh.kept);
    }
}
