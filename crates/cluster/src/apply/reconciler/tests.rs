use serde_json::json;

use super::*;

fn owner_of(name: &str) -> NsName {
    NsName::new("shop", name)
}

fn key() -> ObjectKey {
    ObjectKey { kind: Kind::Service, name: "web".into() }
}

fn service(port: u16) -> Arc<Value> {
    Arc::new(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"port": port}}))
}

fn metadata(uid: &str, version: &str) -> ObjectMeta {
    let gateway = json!([{
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "web", "uid": "g", "controller": true
    }]);
    let fields = json!([{"manager": "portcullis", "operation": "Apply", "fieldsV1": {format!("f:{version}"): {}}}]);
    let metadata = json!({
        "name": "web", "namespace": "shop", "uid": uid, "managedFields": fields, "ownerReferences": gateway
    });
    serde_json::from_value(metadata).expect("metadata")
}

fn live(applied: Option<Arc<Value>>, version: &str) -> LiveObject {
    LiveObject { uid: "u".into(), applied, changed: false, fingerprint: Fingerprint::of(&metadata("u", version)) }
}

fn done(job: &Job, version: &str) -> Outcome {
    let inventory = job.objects.iter().map(|object| (key(), live(Some(Arc::clone(object)), version))).collect();
    Outcome { inventory, failures: Vec::new(), retry: None, retry_after: Duration::ZERO }
}

fn failed(job: &Job, retry: Retry) -> Outcome {
    let failures = vec![Failure { object: key().to_string(), port: None, message: "no".to_owned() }];
    Outcome { inventory: job.inventory.clone(), failures, retry: Some(retry), retry_after: Duration::ZERO }
}

fn leading(now: Instant) -> Reconciler {
    let mut reconciler = Reconciler::new(2);
    reconciler.lead(true);
    assert_eq!(reconciler.next(now), Next::Start(Work::List));
    reconciler.listed(Some(Vec::new()), now);
    reconciler
}

/// The objects of a Gateway are being applied.
fn applying(now: Instant) -> (Reconciler, NsName, Job) {
    let mut reconciler = leading(now);
    let web = owner_of("web");
    reconciler.desired(&web, Some(vec![service(1)]), now);
    let job = job(&mut reconciler, now);
    (reconciler, web, job)
}

/// The objects of a Gateway are there as desired.
fn applied(now: Instant) -> (Reconciler, NsName) {
    let (mut reconciler, web, job) = applying(now);
    reconciler.finished(&web, done(&job, "1"), now);
    (reconciler, web)
}

fn job(reconciler: &mut Reconciler, now: Instant) -> Job {
    match reconciler.next(now) {
        Next::Start(Work::Gateway(job)) => job,
        next => panic!("{next:?}"),
    }
}

fn until(reconciler: &mut Reconciler, now: Instant) -> Option<Duration> {
    match reconciler.next(now) {
        Next::Wait(until) => until.map(|until| until - now),
        next => panic!("{next:?}"),
    }
}

#[test]
fn nothing_is_done_without_leading_and_before_what_is_there_was_listed() {
    let now = Instant::now();
    let mut reconciler = Reconciler::new(2);
    reconciler.desired(&owner_of("web"), Some(vec![service(1)]), now);
    assert_eq!(until(&mut reconciler, now), None);
    reconciler.lead(true);
    assert_eq!(reconciler.next(now), Next::Start(Work::List));
    assert_eq!(until(&mut reconciler, now), None);
    reconciler.listed(Some(vec![(owner_of("web"), key(), live(None, "1"))]), now);
    let job = job(&mut reconciler, now);
    assert_eq!((job.objects.len(), job.inventory.len()), (1, 1));
}

#[test]
fn what_is_desired_again_is_not_done_again_and_newer_objects_wait_for_the_job_in_flight() {
    let now = Instant::now();
    let (mut reconciler, web, first) = applying(now);
    reconciler.desired(&web, Some(vec![service(2)]), now);
    reconciler.desired(&web, Some(vec![service(3)]), now);
    assert_eq!(until(&mut reconciler, now), None);
    reconciler.finished(&web, done(&first, "1"), now);
    let second = job(&mut reconciler, now);
    assert_eq!(second.objects, [service(3)]);
    reconciler.finished(&web, done(&second, "2"), now);
    reconciler.desired(&web, Some(vec![service(3)]), now);
    assert_eq!(until(&mut reconciler, now), None);
    assert!(reconciler.pending() == 0);
}

#[test]
fn our_own_write_coming_back_causes_nothing_and_another_s_is_put_right() {
    let now = Instant::now();
    let (mut reconciler, web, first) = applying(now);
    // The watch may be faster than the answer.
    reconciler.applied(Kind::Service, &metadata("u", "1"), now);
    reconciler.finished(&web, done(&first, "1"), now);
    reconciler.applied(Kind::Service, &metadata("u", "1"), now);
    assert_eq!(until(&mut reconciler, now), None);

    reconciler.applied(Kind::Service, &metadata("u", "2"), now);
    assert_eq!(until(&mut reconciler, now), Some(SPACING));
    let again = job(&mut reconciler, now + SPACING);
    assert!(again.inventory[&key()].changed);
    reconciler.finished(&web, done(&again, "3"), now);
    assert_eq!(until(&mut reconciler, now), None);
}

#[test]
fn only_what_the_watch_says_last_while_a_job_is_in_flight_counts() {
    let now = Instant::now();
    let (mut reconciler, web) = applied(now);
    reconciler.desired(&web, Some(vec![service(2)]), now);
    let second = job(&mut reconciler, now);
    for version in ["somebody else's", "half way", "2"] {
        reconciler.applied(Kind::Service, &metadata("u", version), now);
    }
    reconciler.finished(&web, done(&second, "2"), now);
    assert_eq!(until(&mut reconciler, now), None);
}

#[test]
fn what_a_list_does_not_have_is_made_again_where_it_was_listed() {
    let now = Instant::now();
    let (mut reconciler, _) = applied(now);
    let nothing = HashSet::new();
    reconciler.relisted(Kind::Service, None, &HashSet::from([("shop".into(), "web".into())]), now);
    reconciler.relisted(Kind::Service, Some("elsewhere"), &nothing, now);
    reconciler.relisted(Kind::ConfigMap, Some("shop"), &nothing, now);
    assert_eq!(until(&mut reconciler, now), None);
    reconciler.relisted(Kind::Service, Some("shop"), &nothing, now);
    assert!(job(&mut reconciler, now + SPACING).inventory.is_empty());
}

#[test]
fn what_somebody_deleted_or_replaced_is_made_again() {
    let now = Instant::now();
    for replaced in [false, true] {
        let (mut reconciler, _) = applied(now);
        if replaced {
            let mut other = metadata("other", "2");
            other.owner_references = None;
            reconciler.applied(Kind::Service, &other, now);
        } else {
            reconciler.deleted(Kind::Service, "shop", "web", now);
        }
        assert!(job(&mut reconciler, now + SPACING).inventory.is_empty());
    }
}

#[test]
fn what_is_left_over_goes_once_every_gateway_is_known() {
    let now = Instant::now();
    let mut reconciler = Reconciler::new(2);
    reconciler.lead(true);
    assert_eq!(reconciler.next(now), Next::Start(Work::List));
    reconciler.listed(Some(vec![(owner_of("web"), key(), live(None, "1"))]), now);
    assert_eq!(until(&mut reconciler, now), None);
    reconciler.complete(now);
    let left = job(&mut reconciler, now);
    assert_eq!((left.objects.len(), left.inventory.len()), (0, 1));
    let left_nothing = Outcome { inventory: Inventory::new(), ..done(&left, "1") };
    reconciler.finished(&left.owner, left_nothing, now);
    assert!(reconciler.pending() == 0 && reconciler.entries.is_empty());
}

#[test]
fn a_failure_is_reported_once_and_tried_ever_more_rarely_and_its_end_is_reported() {
    let now = Instant::now();
    let (mut reconciler, web, first) = applying(now);
    assert_eq!(reconciler.finished(&web, failed(&first, Retry::Refused), now).map(|failures| failures.len()), Some(1));
    assert_eq!(until(&mut reconciler, now), Some(Duration::from_secs(1)));
    let second = job(&mut reconciler, now + Duration::from_secs(1));
    assert_eq!(reconciler.finished(&web, failed(&second, Retry::Refused), now), None);
    assert_eq!(until(&mut reconciler, now), Some(Duration::from_secs(2)));
    reconciler.deleted(Kind::Service, "shop", "web", now);
    assert_eq!(until(&mut reconciler, now), Some(Duration::from_secs(2)), "what others do makes it no sooner");
    // What is desired anew is tried at once.
    reconciler.desired(&web, Some(vec![service(2)]), now);
    let third = job(&mut reconciler, now);
    assert_eq!(reconciler.finished(&web, failed(&third, Retry::Refused), now), None);
    assert_eq!(until(&mut reconciler, now), Some(Duration::from_secs(1)), "it failed for the first time");
    let fourth = job(&mut reconciler, now + Duration::from_secs(1));
    assert_eq!(reconciler.finished(&web, done(&fourth, "1"), now), Some(Vec::new()));
    assert_eq!(until(&mut reconciler, now), None);
}

#[test]
fn while_the_api_server_is_away_nothing_is_tried() {
    let now = Instant::now();
    let mut reconciler = leading(now);
    for name in ["a", "b", "c"] {
        reconciler.desired(&owner_of(name), Some(vec![service(1)]), now);
    }
    let first = job(&mut reconciler, now);
    reconciler.finished(&first.owner, failed(&first, Retry::Everywhere), now);
    assert_eq!(until(&mut reconciler, now), Some(Duration::from_millis(100)));
    let later = now + Duration::from_millis(100);
    assert!(matches!(reconciler.next(later), Next::Start(Work::Gateway(_))));
}

#[test]
fn an_api_server_that_asks_to_be_left_alone_is_but_not_for_ever() {
    let (minute, second) = (Duration::from_mins(1), Duration::from_secs(1));
    for (retry, asked, paused) in [
        (Retry::Everywhere, minute, minute),
        (Retry::Everywhere, Duration::MAX, LONGEST_PAUSE),
        (Retry::Soon, second, second),
        (Retry::Soon, Duration::MAX, LONGEST_PAUSE),
    ] {
        let now = Instant::now();
        let (mut reconciler, web, job) = applying(now);
        reconciler.finished(&web, Outcome { retry_after: asked, ..failed(&job, retry) }, now);
        assert_eq!(until(&mut reconciler, now), Some(paused), "{retry:?}, {asked:?}");
    }
}

#[test]
fn a_new_term_waits_for_what_the_last_one_began_and_forgets_what_it_knew() {
    let now = Instant::now();
    let (mut reconciler, web, first) = applying(now);
    reconciler.lead(false);
    assert_eq!(reconciler.in_flight(), 1);
    reconciler.lead(true);
    assert_eq!(until(&mut reconciler, now), None);
    reconciler.finished(&web, done(&first, "1"), now);
    assert_eq!(reconciler.next(now), Next::Start(Work::List));
    reconciler.lead(false);
    reconciler.lead(true);
    assert_eq!(until(&mut reconciler, now), None);
    reconciler.listed(Some(vec![(web, key(), live(None, "1"))]), now);
    assert_eq!(reconciler.next(now), Next::Start(Work::List), "the list was of the last term");
    reconciler.listed(Some(Vec::new()), now);
    assert!(job(&mut reconciler, now).inventory.is_empty());
}

#[test]
fn a_gateway_that_goes_while_nobody_leads_is_forgotten() {
    let now = Instant::now();
    let mut reconciler = Reconciler::new(2);
    reconciler.desired(&owner_of("web"), Some(vec![service(1)]), now);
    reconciler.desired(&owner_of("web"), None, now);
    assert!(reconciler.entries.is_empty());
}

#[test]
fn what_is_retained_stays_and_holds_up_nothing_that_is_left_over() {
    let now = Instant::now();
    let mut reconciler = Reconciler::new(2);
    reconciler.retain(&owner_of("web"));
    reconciler.complete(now);
    reconciler.lead(true);
    assert_eq!(reconciler.next(now), Next::Start(Work::List));
    let found = |owner: &str| (owner_of(owner), key(), live(None, "1"));
    reconciler.listed(Some(vec![found("web"), found("left")]), now);
    let left = job(&mut reconciler, now);
    assert_eq!((left.owner.clone(), left.objects.len()), (owner_of("left"), 0));
    reconciler.finished(&left.owner, done(&left, "1"), now);
    reconciler.applied(Kind::Service, &metadata("u", "2"), now);
    assert_eq!(until(&mut reconciler, now), None, "nobody touches what is kept");

    // Once it is known what shall be, that holds, and goes on to hold.
    reconciler.desired(&owner_of("web"), Some(vec![service(1)]), now);
    let wanted = job(&mut reconciler, now);
    assert_eq!((wanted.objects.len(), wanted.inventory.len()), (1, 1));
    reconciler.finished(&wanted.owner, done(&wanted, "3"), now);
    reconciler.retain(&owner_of("web"));
    reconciler.deleted(Kind::Service, "shop", "web", now);
    assert_eq!(until(&mut reconciler, now), Some(SPACING));
    reconciler.desired(&owner_of("web"), None, now);
    assert_eq!(job(&mut reconciler, now).objects.len(), 0);
}

#[test]
fn what_somebody_changes_before_all_is_known_stays_until_it_is_known_what_shall_be() {
    let now = Instant::now();
    let mut reconciler = Reconciler::new(2);
    reconciler.lead(true);
    assert_eq!(reconciler.next(now), Next::Start(Work::List));
    reconciler.listed(Some(vec![(owner_of("web"), key(), live(None, "1"))]), now);
    reconciler.applied(Kind::Service, &metadata("u", "2"), now);
    assert_eq!(until(&mut reconciler, now), None, "it is not known to be left over");
    reconciler.complete(now);
    assert_eq!(job(&mut reconciler, now).objects.len(), 0);
}
