use api::Kind;

use super::*;

const ROUTES: Target = Target::Kind(Kind::HttpRoute);
const SECRETS: Target = Target::Kind(Kind::Secret);

fn plan(target: Target) -> Plan {
    Plan::new(target, Limits::default())
}

fn refused(code: u16) -> Outcome {
    Outcome::Refused { status: Status { code, ..Status::default() }, retry_after: None }
}

fn judge(plan: &mut Plan, outcome: Outcome) -> Verdict {
    plan.judge(outcome, Presence::Unknown, Instant::now())
}

fn wait(verdict: &Verdict) -> Duration {
    let Next::Wait(wait) = verdict.next else { panic!("{verdict:?}") };
    assert!(verdict.failing.is_some(), "{verdict:?}");
    wait
}

fn ended(lasted: u64) -> Outcome {
    Outcome::Ended { why: "cut".to_owned(), lasted: Duration::from_secs(lasted) }
}

#[test]
fn changes_are_watched_from_where_the_list_ended_and_on_from_what_was_read() {
    let mut plan = plan(ROUTES);
    assert_eq!(plan.ask(), ("v1", Ask::Initial { latest: false }));
    plan.reached("9".into());
    assert_eq!(plan.ask().1, Ask::Initial { latest: false }, "versions in a list come in any order");
    plan.listed("10");
    plan.reached("12".into());
    assert_eq!(judge(&mut plan, ended(200)), NOW);
    assert_eq!(plan.ask().1, Ask::Changes { since: "12".into() });
}

#[test]
fn only_the_first_list_may_be_from_a_cache_that_is_behind() {
    let mut plan = plan(ROUTES);
    plan.listed("10");
    assert_eq!(judge(&mut plan, refused(410)), NOW);
    assert_eq!(plan.ask().1, Ask::Initial { latest: true });
    let mut cut = self::plan(ROUTES);
    assert_eq!(judge(&mut cut, ended(5)), NOW);
    assert_eq!(cut.ask().1, Ask::Initial { latest: true });
}

#[test]
fn versions_that_expire_again_and_again_make_it_wait() {
    let mut plan = plan(ROUTES);
    plan.listed("10");
    assert_eq!(judge(&mut plan, refused(410)), NOW);
    wait(&judge(&mut plan, refused(410)));
    plan.listed("11");
    assert_eq!(judge(&mut plan, refused(410)), NOW);
}

#[test]
fn a_server_without_streaming_lists_is_asked_for_pages() {
    for code in [400, 422] {
        let mut plan = plan(SECRETS);
        assert_eq!(judge(&mut plan, refused(code)), NOW);
        assert_eq!(plan.ask().1, Ask::Page { next: None, whole: false });
        assert!(!plan.page("5", Some("t".into())));
        assert!(!plan.begins_list());
        assert_eq!(plan.ask().1, Ask::Page { next: Some("t".into()), whole: false });
        assert!(plan.page("5", None));
        assert_eq!(plan.ask().1, Ask::Changes { since: "5".into() });
    }
}

#[test]
fn a_server_that_does_not_come_to_the_end_of_a_streaming_list_is_asked_for_pages() {
    let mut plan = plan(SECRETS);
    wait(&judge(&mut plan, Outcome::Slow));
    assert_eq!(plan.ask().1, Ask::Page { next: None, whole: false });
}

#[test]
fn a_list_that_outlives_its_pages_is_asked_for_as_a_whole() {
    let mut plan = Plan::paged(SECRETS, Limits::default());
    plan.page("5", Some("t".into()));
    assert_eq!(judge(&mut plan, refused(410)), NOW);
    assert!(plan.begins_list());
    assert_eq!(plan.ask().1, Ask::Page { next: None, whole: true });
}

#[test]
fn an_older_version_is_asked_for_where_the_preferred_one_is_not_served() {
    let mut plan = plan(ROUTES);
    assert_eq!(judge(&mut plan, refused(404)), NOW);
    assert_eq!(plan.ask().0, "v1beta1");
    plan.answered();
    plan.listed("3");
    assert_eq!(judge(&mut plan, refused(404)), NOW);
    assert_eq!(plan.ask(), ("v1", Ask::Changes { since: "3".into() }), "the objects are the same");
}

/// Two versions are not found.
fn not_found(plan: &mut Plan, presence: Presence) -> Verdict {
    plan.judge(refused(404), presence, Instant::now());
    plan.judge(refused(404), presence, Instant::now())
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_absent_at_once_if_its_crd_is_and_after_a_while_where_crds_may_not_be_read() {
    let mut plan = plan(ROUTES);
    plan.listed("7");
    wait(&not_found(&mut plan, Presence::Hidden));
    assert_eq!(plan.ask().1, Ask::Changes { since: "7".into() }, "perhaps it only starts");
    tokio::time::advance(Limits::default().doubt).await;
    let Next::Absent(wait) = not_found(&mut plan, Presence::Hidden).next else { panic!("not absent") };
    assert_eq!(wait, Limits::default().absent_poll);
    assert_eq!(plan.ask().1, Ask::Initial { latest: true });
    let verdict = not_found(&mut self::plan(ROUTES), Presence::Absent);
    assert!(matches!(verdict, Verdict { next: Next::Absent(_), failing: None }), "{verdict:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_crd_is_there_or_not_yet_known_is_not_absent_however_long_it_is_not_found() {
    for presence in [Presence::Present, Presence::Unknown] {
        let mut plan = plan(ROUTES);
        plan.listed("7");
        for _ in 0..100 {
            wait(&not_found(&mut plan, presence));
            assert_eq!(plan.ask().1, Ask::Changes { since: "7".into() });
            tokio::time::advance(Limits::default().doubt).await;
        }
        let verdict = not_found(&mut plan, Presence::Absent);
        assert!(matches!(verdict.next, Next::Absent(_)), "{verdict:?}");
        // It is made again, and not served yet.
        let verdict = not_found(&mut plan, Presence::Present);
        assert!(matches!(verdict.next, Next::Absent(wait) if wait <= Limits::default().backoff_max), "{verdict:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn that_a_kind_was_never_found_is_told_after_a_while_with_what_its_crd_must_serve() {
    let mut plan = plan(ROUTES);
    let verdict = not_found(&mut plan, Presence::Unknown);
    assert!(matches!(verdict, Verdict { next: Next::Wait(_), failing: None }), "{verdict:?}");
    tokio::time::advance(Limits::default().doubt).await;
    let verdict = not_found(&mut plan, Presence::Present);
    let why = verdict.failing.expect("why it does not work");
    let remedy = "although there is a CustomResourceDefinition httproutes.gateway.networking.k8s.io: it must serve v1 or v1beta1";
    assert!(why.ends_with(remedy), "{why}");
}

#[test]
fn a_kind_that_needs_no_crd_is_never_absent() {
    let mut plan = plan(SECRETS);
    for _ in 0..100 {
        wait(&plan.judge(refused(404), Presence::Absent, Instant::now()));
    }
}

#[test]
fn waits_grow_up_to_a_bound_and_no_two_are_equal() {
    let Limits { backoff_min, backoff_max, .. } = Limits::default();
    let (mut one, mut other) = (plan(SECRETS), plan(SECRETS));
    let waits: Vec<_> = (0..50).map(|_| wait(&judge(&mut one, Outcome::Failed("refused".into())))).collect();
    assert!(waits[0] <= backoff_min && waits[0] >= backoff_min / 2, "{waits:?}");
    assert!(waits[10..].iter().all(|wait| *wait <= backoff_max && *wait >= backoff_max / 2), "{waits:?}");
    let others: Vec<_> = (0..50).map(|_| wait(&judge(&mut other, Outcome::Failed("refused".into())))).collect();
    assert_ne!(waits, others);
    one.settled();
    assert!(wait(&judge(&mut one, Outcome::Failed("refused".into()))) <= backoff_min);
}

#[test]
fn a_server_is_given_the_time_that_it_asks_for_within_the_bound() {
    let asked = |seconds| Outcome::Refused {
        status: Status { code: 429, ..Status::default() },
        retry_after: Some(Duration::from_secs(seconds)),
    };
    let mut plan = plan(SECRETS);
    let first = judge(&mut plan, asked(3));
    assert_eq!(first, Verdict { next: Next::Wait(Duration::from_secs(3)), failing: None }, "once is nothing");
    assert_eq!(wait(&judge(&mut plan, asked(3))), Duration::from_secs(3));
    assert_eq!(wait(&judge(&mut plan, asked(3600))), Duration::from_secs(10));
}

#[test]
fn a_watch_that_is_over_at_once_is_a_failure_the_second_time() {
    let mut plan = plan(SECRETS);
    plan.listed("5");
    assert_eq!(judge(&mut plan, ended(0)), NOW);
    wait(&judge(&mut plan, ended(0)));
    assert_eq!(judge(&mut plan, ended(100)), NOW);
    assert_eq!(judge(&mut plan, ended(0)), NOW);
}

#[test]
fn a_server_that_lost_versions_is_asked_for_everything() {
    let again = |code, body: &str| {
        let mut plan = plan(SECRETS);
        plan.listed("5");
        judge(&mut plan, Outcome::Refused { status: Status::of(code, body.as_bytes()), retry_after: None });
        plan.ask().1
    };
    let all = Ask::Initial { latest: true };
    assert_eq!(again(400, "{}"), all);
    let cause = r#"{"message": "5 is too large", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}"#;
    assert_eq!(again(504, cause), all, "the API server says why in a cause, in whatever words");
    let other = r#"{"message": "Too large resource version", "details": {"causes": [{"reason": "Other"}]}}"#;
    assert_eq!(again(504, other), Ask::Changes { since: "5".into() });
}

#[test]
fn a_watch_that_is_silent_even_when_made_anew_is_not_trusted() {
    let mut plan = plan(SECRETS);
    plan.listed("5");
    assert_eq!(judge(&mut plan, Outcome::Silent), NOW);
    assert_eq!(plan.ask().1, Ask::Changes { since: "5".into() });
    plan.reached("6".into());
    assert_eq!(judge(&mut plan, Outcome::Silent), NOW);
    assert_eq!(plan.ask().1, Ask::Changes { since: "6".into() });
    assert_eq!(judge(&mut plan, Outcome::Silent), NOW);
    assert_eq!(plan.ask().1, Ask::Initial { latest: true });
}
