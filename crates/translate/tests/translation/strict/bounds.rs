//! How long anything waits, in whose name it is judged, and what is remembered of it.

use super::*;
use crate::{
    policies::{at as targets, policy, with},
    scene::{child, forward, to as delegates},
};

/// What says this is a suspect, whatever it answers.
fn suspecting(text: &'static str) -> impl Fn(&Sent) -> Word {
    move |sent| if contains(sent, text) { Word::Suspect } else { Word::Accepted }
}

#[test]
fn a_match_of_which_nobody_says_anything_answers_500_at_a_replica_that_knows_nothing_from_before() {
    for then in [WhenUnavailable::Standard, WhenUnavailable::Hold] {
        let mut strict = Strict::new(then);
        strict.put(base());
        let mut odd = rule("/kills/a");
        odd["matches"] = json!([{
            "path": {"type": "RegularExpression", "value": "/kills/[a-z]+"},
            "headers": [{"name": "x-kills", "value": "now"}],
        }]);
        strict.put([route("r", json!({"rules": [odd, rule("/a")]})), route("all", rules(&["/"]))]);
        strict.settle(suspecting("kills"));
        assert_eq!(strict.routes(), [], "a Gateway goes with what came with it");
        assert!(strict.gate.is_holding(), "and nobody is served before");
        strict.later(T, suspecting("kills"));
        assert!(!strict.gate.is_holding());
        assert_eq!(strict.routes(), [at("/", None), at("/a", None), at("/kills/", Some(500))]);
        let told = strict.translator.problems_of(&object(route("r", json!({}))).id());
        assert!(told.iter().any(|problem| problem.reason == ir::Reason::NotJudged), "{told:?}");
        // One of which somebody says something in the end is what it says.
        strict.settle(accepting);
        assert_eq!(strict.routes().len(), 3);
        assert!(!strict.routes().iter().any(|(_, status)| status.is_some()), "{:?}", strict.routes());
    }
}

/// A rule with this expression.
fn expression(pattern: &str) -> Value {
    json!({
        "matches": [{"path": {"type": "RegularExpression", "value": pattern}}],
        "backendRefs": [{"name": "s", "port": 80}],
    })
}

#[test]
fn an_expression_of_a_child_that_nobody_judges_closes_nothing_outside_of_its_parents_prefix() {
    for (pattern, closed) in [
        ("/team/kills|/team/b", "/team/"),
        ("/team(/kills)?", "/team"),
        // Of these it is not read from the expression.
        ("(/team)?/team/kills|/team", "/team"),
        ("(?:|/team)/team(/kills)?", "/team"),
    ] {
        let mut strict = Strict::new(WhenUnavailable::Hold);
        strict.put(base());
        strict.put([route("other", rules(&["/", "/teammate"]))]);
        strict.settle(accepting);
        let others = [at("/", None), at("/teammate", None)];
        assert_eq!(strict.routes(), others);
        strict.put([
            route("root", json!({"rules": [delegates("/team", &["child"])]})),
            child("child", json!([expression(pattern)])),
        ]);
        strict.settle(suspecting("kills"));
        strict.later(T, suspecting("kills"));
        let [all, beside] = others.clone();
        assert_eq!(strict.routes(), [all, at(closed, Some(500)), beside], "{pattern}");
        strict.settle(accepting);
        let [all, beside] = others;
        assert_eq!(strict.routes(), [at("", None), all, beside], "{pattern}");
    }
}

#[test]
fn an_expression_below_several_routes_closes_nothing_outside_of_the_nearest_prefix() {
    let inherits = |mut route: Value| {
        route["metadata"]["annotations"] = json!({"delegation.kgateway.dev/inherit-parent-matcher": "true"});
        route
    };
    let mut between = delegates("/", &["child"]);
    between["matches"] = json!([{"path": {"type": "RegularExpression", "value": "(/team)?/team/[a-z]+|/team"}}]);
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([
        route("root", json!({"rules": [delegates("/team", &["between"])]})),
        child("between", json!([between])),
        inherits(child("child", json!([forward("/kills")]))),
        route("other", rules(&["/teammate"])),
    ]);
    strict.settle(suspecting("kills"));
    strict.later(T, suspecting("kills"));
    assert_eq!(strict.routes(), [at("/team", Some(500)), at("/teammate", None)]);
}

#[test]
fn what_waited_while_nobody_could_be_asked_has_its_time_once_somebody_can_be() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.settle(accepting);
    strict.put([route("r", rules(&["/a"]))]);
    strict.translator.set_judge_unavailable(Some("away".into()));
    strict.settle(|_| Word::Unknown);
    strict.later(10 * T, |_| Word::Unknown);
    strict.translator.set_judge_unavailable(None);
    strict.settle(|_| Word::Judging);
    assert_eq!(strict.routes(), [], "it is not closed for what others did");
    strict.settle(accepting);
    assert_eq!(strict.routes(), [at("/a", None)]);
}

/// A limit of so many requests, for a route.
fn limited(name: &str, tokens: u32) -> Value {
    let bucket = json!({"maxTokens": tokens, "tokensPerFill": 1, "fillInterval": "1s"});
    policy(
        "TrafficPolicy",
        name,
        with(targets("HTTPRoute", name), json!({"rateLimit": {"local": {"tokenBucket": bucket}}})),
    )
}

fn is_extension(sent: &Sent) -> bool {
    sent.fragment.kind == envoy::judged::Kind::Extension
}

#[test]
fn what_many_say_alike_is_judged_in_the_name_of_who_asks_for_it() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.settle(accepting);
    let of = |namespace: &str, mut object: Value| {
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    // In the name of evil nobody says anything.
    let word = |sent: &Sent| match (&*sent.object.namespace, is_extension(sent)) {
        ("evil", _) => Word::Suspect,
        (_, true) => Word::Judging,
        _ => Word::Accepted,
    };
    let names = |strict: &Strict| {
        let asked = strict.gate.unknown().filter(|sent| is_extension(sent));
        asked.map(|sent| sent.object.namespace.to_string()).collect::<Vec<_>>()
    };
    strict.put([of("evil", service("s")), of("evil", route("r", rules(&["/evil"]))), of("evil", limited("r", 7))]);
    strict.settle(word);
    assert_eq!(names(&strict), ["evil"]);
    strict.put([route("good", rules(&["/good"])), limited("good", 7)]);
    strict.settle(word);
    assert_eq!(names(&strict), ["apps"]);
}

#[test]
fn of_a_limit_for_which_nobody_asks_any_more_nothing_is_remembered_and_a_refused_one_heals() {
    let mut strict = Strict::new(WhenUnavailable::Standard);
    strict.put(base());
    let no_extension = |sent: &Sent| if is_extension(sent) { Word::Refused("no".into()) } else { Word::Accepted };
    let refused = |strict: &Strict| strict.translator.refused_parts();
    for tokens in 1..20 {
        strict.put([route("r", rules(&["/a"])), limited("r", tokens)]);
        strict.settle(no_extension);
        assert_eq!((strict.routes(), refused(&strict)), (vec![at("/a", Some(500))], 1), "{tokens}");
    }
    // The tables are built anew, and another Envoy takes it.
    strict.translator = strict.translator.anew(&BTreeMap::new());
    strict.settle(no_extension);
    assert_eq!(strict.routes(), [at("/a", Some(500))]);
    strict.put([limited("r", 99)]);
    strict.settle(accepting);
    assert_eq!((strict.routes(), refused(&strict)), (vec![at("/a", None)], 0));
    strict.put([limited("r", 100)]);
    strict.settle(no_extension);
    strict.remove(route("r", rules(&["/a"])));
    strict.settle(no_extension);
    assert_eq!(refused(&strict), 0);
}

/// The work after one change does not grow with what waits.
#[test]
fn one_change_asks_about_itself_however_much_waits() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.settle(accepting);
    let waiting = |sent: &Sent| if contains(sent, "/wait") { Word::Judging } else { Word::Accepted };
    strict.put((0..200).map(|number| route(&format!("r{number}"), rules(&[&format!("/wait/{number}")]))));
    strict.settle(waiting);
    assert!(strict.asked >= 200 && strict.gate.unknown().len() == 200);
    strict.gate.take_wanted();
    strict.settle(waiting);
    assert_eq!(strict.asked, 0, "nothing turned");
    strict.put([route("one", rules(&["/one"]))]);
    strict.settle(waiting);
    assert!(strict.asked <= 4, "{}", strict.asked);
    strict.settle(|sent| if sent.object.name.as_ref() == "r7" { Word::Accepted } else { waiting(sent) });
    assert!(strict.asked <= 4, "{}", strict.asked);
    let wanted = strict.gate.take_wanted();
    assert_eq!((wanted.more.len(), wanted.less.len()), (0, 1));
    assert_eq!(paths(&strict), ["/one", "/wait/7"]);
    assert!(!strict.gate.is_due(strict.now), "and a look at the clock asks about nobody");
}

/// Two namespaces change at once, and one of them is a suspect.
#[test]
fn who_is_judged_apart_delays_no_other_that_changes_at_the_same_time() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.put([route("good", rules(&["/good"])), route("evil", rules(&["/evil"]))]);
    strict.settle(accepting);
    strict.put([route("good", rules(&["/good/2"])), route("evil", rules(&["/kills"]))]);
    strict.settle(suspecting("/kills"));
    assert_eq!(strict.routes(), [at("/evil", Some(500)), at("/good/2", None)]);
}

#[test]
fn time_counts_while_somebody_can_be_asked_alone() {
    let mut strict = Strict::new(WhenUnavailable::Hold);
    strict.put(base());
    strict.settle(accepting);
    strict.put([route("r", rules(&["/a"]))]);
    strict.settle(|_| Word::Judging);
    // A judge that comes and goes gives nobody more of it.
    for passed in 1..=6 {
        strict.later(T / 2, |_| Word::Judging);
        strict.translator.set_judge_unavailable(Some("away".into()));
        strict.settle(|_| Word::Unknown);
        strict.later(10 * T, |_| Word::Unknown);
        strict.translator.set_judge_unavailable(None);
        strict.settle(|_| Word::Judging);
        let expected = if passed < 6 { vec![] } else { vec![at("/a", Some(500))] };
        assert_eq!(strict.routes(), expected, "{passed}");
    }
}

/// Two Gateways with the same policy: what they say is one text.
#[test]
fn who_says_the_same_as_what_was_sent_unjudged_waits_for_himself_and_is_looked_at_when_it_is_refused() {
    let says = |value: &str, gateways: &[&str]| {
        let mut policy = wide(value);
        let target = |name: &&str| json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": name});
        policy["spec"]["targetRefs"] = gateways.iter().map(target).collect();
        policy
    };
    let at_both = json!([{"name": "edge", "namespace": "infra"}, {"name": "other", "namespace": "infra"}]);
    let start = || {
        let mut strict = Strict::new(WhenUnavailable::Standard);
        strict.put(base());
        strict.put([gateway("other", json!([http("web", 81, "")]))]);
        strict.put([route("r", with(rules(&["/a"]), json!({"parentRefs": at_both})))]);
        strict.settle(accepting);
        strict
    };
    let said = |strict: &Strict| {
        let mut configs = strict.sent.iter().filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration);
        let says = |encoded: &Encoded| String::from_utf8_lossy(&encoded.body.to_bytes()).contains("odd");
        (configs.clone().count(), configs.by_ref().filter(|(_, encoded)| says(encoded)).count())
    };
    let odd = |word: Word| move |sent: &Sent| if contains(sent, "odd") { word.clone() } else { Word::Accepted };
    let mut strict = start();
    strict.put([says("odd", &["edge", "other"])]);
    strict.settle(odd(Word::Unknown));
    strict.later(T, odd(Word::Unknown));
    assert_eq!(said(&strict), (2, 2));
    strict.settle(odd(Word::Refused("no".into())));
    assert_eq!(said(&strict), (2, 0), "none keeps what is refused");
    // And whoever comes while somebody is about to judge it waits.
    let mut strict = start();
    strict.put([says("odd", &["edge"])]);
    strict.settle(odd(Word::Unknown));
    strict.later(T, odd(Word::Unknown));
    strict.put([says("odd", &["edge", "other"])]);
    strict.settle(odd(Word::Judging));
    assert_eq!(said(&strict), (2, 1));
}
