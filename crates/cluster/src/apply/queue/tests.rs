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

fn known(applied: Option<Arc<Value>>, version: &str) -> Known {
    Known { uid: "u".into(), applied, changed: false, print: Print::of(&metadata("u", version)) }
}

fn done(job: &Job, version: &str) -> Outcome {
    let ledger = job.objects.iter().map(|object| (key(), known(Some(Arc::clone(object)), version))).collect();
    Outcome { ledger, failures: Vec::new(), retry: None }
}

fn failed(job: &Job, retry: Retry) -> Outcome {
    let failures = vec![Failure { object: key().to_string(), message: "no".to_owned() }];
    Outcome { ledger: job.ledger.clone(), failures, retry: Some(retry) }
}

fn leading(now: Instant) -> Queue {
    let mut queue = Queue::new(2);
    queue.lead(true);
    assert_eq!(queue.next(now), Step::List);
    queue.listed(Some(Vec::new()), now);
    queue
}

fn job(queue: &mut Queue, now: Instant) -> Job {
    match queue.next(now) {
        Step::Do(job) => job,
        step => panic!("{step:?}"),
    }
}

fn until(queue: &mut Queue, now: Instant) -> Option<Duration> {
    match queue.next(now) {
        Step::Wait(until) => until.map(|until| until - now),
        step => panic!("{step:?}"),
    }
}

#[test]
fn nothing_is_done_without_leading_and_before_what_is_there_was_looked_for() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.desired(&owner_of("web"), Some(vec![service(1)]));
    assert_eq!(until(&mut queue, now), None);
    queue.lead(true);
    assert_eq!(queue.next(now), Step::List);
    assert_eq!(until(&mut queue, now), None);
    queue.listed(Some(vec![(owner_of("web"), key(), known(None, "1"))]), now);
    let job = job(&mut queue, now);
    assert_eq!((job.objects.len(), job.ledger.len()), (1, 1));
}

#[test]
fn what_was_told_again_is_not_done_again_and_newer_words_wait_for_the_job_under_way() {
    let now = Instant::now();
    let mut queue = leading(now);
    let web = owner_of("web");
    queue.desired(&web, Some(vec![service(1)]));
    let first = job(&mut queue, now);
    queue.desired(&web, Some(vec![service(2)]));
    queue.desired(&web, Some(vec![service(3)]));
    assert_eq!(until(&mut queue, now), None);
    queue.finished(&web, done(&first, "1"), now);
    let second = job(&mut queue, now);
    assert_eq!(second.objects, [service(3)]);
    queue.finished(&web, done(&second, "2"), now);
    queue.desired(&web, Some(vec![service(3)]));
    assert_eq!(until(&mut queue, now), None);
    assert!(queue.is_empty());
}

#[test]
fn our_own_write_coming_back_causes_nothing_and_another_s_is_put_right() {
    let now = Instant::now();
    let mut queue = leading(now);
    let web = owner_of("web");
    queue.desired(&web, Some(vec![service(1)]));
    let first = job(&mut queue, now);
    // The watch may be faster than the answer.
    queue.seen(Kind::Service, &metadata("u", "1"), now);
    queue.finished(&web, done(&first, "1"), now);
    queue.seen(Kind::Service, &metadata("u", "1"), now);
    assert_eq!(until(&mut queue, now), None);

    queue.seen(Kind::Service, &metadata("u", "2"), now);
    assert_eq!(until(&mut queue, now), Some(SPACING));
    let again = job(&mut queue, now + SPACING);
    assert!(again.ledger[&key()].changed);
    queue.finished(&web, done(&again, "3"), now);
    assert_eq!(until(&mut queue, now), None);
}

#[test]
fn only_what_the_watch_says_last_while_a_job_is_under_way_counts() {
    let now = Instant::now();
    let mut queue = leading(now);
    let web = owner_of("web");
    queue.desired(&web, Some(vec![service(1)]));
    let first = job(&mut queue, now);
    queue.finished(&web, done(&first, "1"), now);
    queue.desired(&web, Some(vec![service(2)]));
    let second = job(&mut queue, now);
    for version in ["somebody else's", "half way", "2"] {
        queue.seen(Kind::Service, &metadata("u", version), now);
    }
    queue.finished(&web, done(&second, "2"), now);
    assert_eq!(until(&mut queue, now), None);
}

#[test]
fn what_a_list_does_not_have_is_made_again_where_it_was_looked_for() {
    let now = Instant::now();
    let mut queue = leading(now);
    let web = owner_of("web");
    queue.desired(&web, Some(vec![service(1)]));
    let first = job(&mut queue, now);
    queue.finished(&web, done(&first, "1"), now);
    let nothing = HashSet::new();
    queue.there(Kind::Service, None, &HashSet::from([("shop".into(), "web".into())]), now);
    queue.there(Kind::Service, Some("elsewhere"), &nothing, now);
    queue.there(Kind::ConfigMap, Some("shop"), &nothing, now);
    assert_eq!(until(&mut queue, now), None);
    queue.there(Kind::Service, Some("shop"), &nothing, now);
    assert!(job(&mut queue, now + SPACING).ledger.is_empty());
}

#[test]
fn what_somebody_deleted_or_replaced_is_made_again() {
    let now = Instant::now();
    for replaced in [false, true] {
        let mut queue = leading(now);
        let web = owner_of("web");
        queue.desired(&web, Some(vec![service(1)]));
        let first = job(&mut queue, now);
        queue.finished(&web, done(&first, "1"), now);
        if replaced {
            let mut other = metadata("other", "2");
            other.owner_references = None;
            queue.seen(Kind::Service, &other, now);
        } else {
            queue.gone(Kind::Service, "shop", "web", now);
        }
        assert!(job(&mut queue, now + SPACING).ledger.is_empty());
    }
}

#[test]
fn what_is_left_over_goes_once_every_gateway_was_told_of() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.lead(true);
    assert_eq!(queue.next(now), Step::List);
    queue.listed(Some(vec![(owner_of("web"), key(), known(None, "1"))]), now);
    assert_eq!(until(&mut queue, now), None);
    queue.complete();
    let left = job(&mut queue, now);
    assert_eq!((left.objects.len(), left.ledger.len()), (0, 1));
    queue.finished(&left.owner, Outcome { ledger: Ledger::new(), failures: Vec::new(), retry: None }, now);
    assert!(queue.is_empty() && queue.entries.is_empty());
}

#[test]
fn a_failure_is_told_once_and_tried_ever_more_rarely_and_its_end_is_told() {
    let now = Instant::now();
    let mut queue = leading(now);
    let web = owner_of("web");
    queue.desired(&web, Some(vec![service(1)]));
    let first = job(&mut queue, now);
    assert_eq!(queue.finished(&web, failed(&first, Retry::Refused), now).map(|failures| failures.len()), Some(1));
    assert_eq!(until(&mut queue, now), Some(Duration::from_secs(1)));
    let second = job(&mut queue, now + Duration::from_secs(1));
    assert_eq!(queue.finished(&web, failed(&second, Retry::Refused), now), None);
    assert_eq!(until(&mut queue, now), Some(Duration::from_secs(2)));
    // Another wish is tried at once.
    queue.desired(&web, Some(vec![service(2)]));
    let third = job(&mut queue, now);
    assert_eq!(queue.finished(&web, done(&third, "1"), now), Some(Vec::new()));
    assert_eq!(until(&mut queue, now), None);
}

#[test]
fn while_the_api_server_is_away_nothing_is_tried() {
    let now = Instant::now();
    let mut queue = leading(now);
    for name in ["a", "b", "c"] {
        queue.desired(&owner_of(name), Some(vec![service(1)]));
    }
    let first = job(&mut queue, now);
    queue.finished(&first.owner, failed(&first, Retry::Everywhere), now);
    assert_eq!(until(&mut queue, now), Some(Duration::from_millis(100)));
    let later = now + Duration::from_millis(100);
    assert!(matches!(queue.next(later), Step::Do(_)));
}

#[test]
fn a_new_term_waits_for_what_the_last_one_began_and_forgets_what_it_knew() {
    let now = Instant::now();
    let mut queue = leading(now);
    let web = owner_of("web");
    queue.desired(&web, Some(vec![service(1)]));
    let first = job(&mut queue, now);
    queue.lead(false);
    assert_eq!(queue.under_way(), 1);
    queue.lead(true);
    assert_eq!(until(&mut queue, now), None);
    queue.finished(&web, done(&first, "1"), now);
    assert_eq!(queue.next(now), Step::List);
    queue.listed(Some(Vec::new()), now);
    assert!(job(&mut queue, now).ledger.is_empty());
}

#[test]
fn a_gateway_that_goes_while_nobody_leads_is_forgotten() {
    let mut queue = Queue::new(2);
    queue.desired(&owner_of("web"), Some(vec![service(1)]));
    queue.desired(&owner_of("web"), None);
    assert!(queue.entries.is_empty());
}

#[test]
fn at_most_so_many_gateways_are_worked_on_at_once() {
    let now = Instant::now();
    let mut queue = leading(now);
    for name in ["a", "b", "c"] {
        queue.desired(&owner_of(name), Some(vec![service(1)]));
    }
    job(&mut queue, now);
    job(&mut queue, now);
    assert_eq!(until(&mut queue, now), None);
    assert_eq!(queue.len(), 3);
}

#[test]
fn what_nobody_can_say_anything_of_stays_and_holds_up_nothing_that_is_left_over() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.kept(&owner_of("web"));
    queue.complete();
    queue.lead(true);
    assert_eq!(queue.next(now), Step::List);
    let found = |owner: &str| (owner_of(owner), key(), known(None, "1"));
    queue.listed(Some(vec![found("web"), found("left")]), now);
    let left = job(&mut queue, now);
    assert_eq!((left.owner.clone(), left.objects.len()), (owner_of("left"), 0));
    queue.finished(&left.owner, done(&left, "1"), now);
    queue.seen(Kind::Service, &metadata("u", "2"), now);
    assert_eq!(until(&mut queue, now), None, "nobody touches what is kept");

    // Once it is known what shall be, that holds, and goes on to hold.
    queue.desired(&owner_of("web"), Some(vec![service(1)]));
    let wanted = job(&mut queue, now);
    assert_eq!((wanted.objects.len(), wanted.ledger.len()), (1, 1));
    queue.finished(&wanted.owner, done(&wanted, "3"), now);
    queue.kept(&owner_of("web"));
    queue.gone(Kind::Service, "shop", "web", now);
    assert_eq!(until(&mut queue, now), Some(SPACING));
    queue.desired(&owner_of("web"), None);
    assert_eq!(job(&mut queue, now).objects.len(), 0);
}

#[test]
fn what_somebody_changes_before_all_was_told_stays_until_it_is_known_what_shall_be() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    queue.lead(true);
    assert_eq!(queue.next(now), Step::List);
    queue.listed(Some(vec![(owner_of("web"), key(), known(None, "1"))]), now);
    queue.seen(Kind::Service, &metadata("u", "2"), now);
    assert_eq!(until(&mut queue, now), None, "it is not known to be left over");
    queue.complete();
    assert_eq!(job(&mut queue, now).objects.len(), 0);
}
