//! A fault in every table, about objects of every kind that its rows read.

use std::collections::BTreeSet;

use translate::{Translator, testing::one_of_each};

use super::*;

/// The object in another version, in which nothing differs that anybody reads.
fn rewritten(mut value: Value) -> Value {
    value["metadata"]["labels"]["another"] = json!("version");
    value["metadata"]["annotations"]["another"] = json!("version");
    value
}

fn without(guilty: &ObjectId) -> Vec<Value> {
    one_of_each().into_iter().filter(|value| object(value.clone()).id() != *guilty).collect()
}

#[test]
fn wherever_a_row_fails_because_of_an_object_siblings_keep_their_bytes_and_replicas_agree() {
    let mut plain = Translator::new(Settings::default());
    plain.set_login_seed(Some(LoginSeed::unserved()));
    for value in one_of_each() {
        plain.apply(Change::Put(object(value)));
    }
    plain.settle();
    let written: BTreeMap<_, _> = one_of_each().into_iter().map(|value| (object(value.clone()).id(), value)).collect();
    let sound = Replica::new(&Quarantine::default(), one_of_each());
    let (mut tried, mut kinds, mut unended) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (table, key) in plain.computed_rows() {
        plain.fail_at(table, &key);
        plain.settle();
        let faults = plain.unended();
        plain.fail_no_more(table, &key);
        plain.settle();
        for id in faults.iter().flat_map(|fault| &fault.objects) {
            unended.insert(table);
            // One object for each table, and one for each kind: each takes new worlds.
            let is_new = !tried.contains(table) || !kinds.contains(&id.kind);
            let Some(value) = written.get(id).filter(|_| is_new) else { continue };
            let changed = rewritten(value.clone());
            // Slim models may read nothing of it.
            if object(changed.clone()) == object(value.clone()) {
                continue;
            }
            // What is about a process that begins costs most of the time: it is tried with one row for each kind.
            tried.insert(table);
            let begins = kinds.insert(id.kind);
            is_confined(&sound, &format!("{table}:{key}"), id, &changed, begins);
        }
    }
    assert!(unended.contains("GatewayRow") && unended.len() > 10, "{unended:?}");
    let expected = [Kind::GatewayClass, Kind::Gateway, Kind::HttpRoute, Kind::TrafficPolicy];
    assert!(expected.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

fn is_confined(sound: &Replica, row: &str, guilty: &ObjectId, changed: &Value, begins: bool) {
    let what = format!("{row} because of {guilty}");
    let fails = |replica: &mut Replica| replica.guarded.translator_mut().fail_because(object(changed.clone()), row);
    let mut replica = Replica::new(&Quarantine::default(), one_of_each());
    fails(&mut replica);
    replica.put([changed.clone()]);
    assert_eq!(replica.aside(), [guilty.to_string()], "{what}");
    // Of a kind that cannot be recorded no version stays in force.
    let missing = guilty.kind.is_built_in().then(|| Replica::new(&Quarantine::default(), without(guilty)));
    let expected = missing.as_ref().unwrap_or(sound);
    assert_eq!(replica.served, expected.served, "{what}: siblings keep their bytes, and so does it");
    let statuses = |replica: &Replica| {
        let mut statuses: BTreeMap<_, _> = replica.guarded.statuses().into_iter().collect();
        statuses.remove(guilty);
        statuses
    };
    assert_eq!(statuses(&replica), statuses(expected), "{what}");

    // A process that begins now, with the records and without.
    let begin = |stored: &Quarantine| {
        let mut begun = Replica::new(stored, Vec::new());
        fails(&mut begun);
        begun.put(without(guilty).into_iter().chain([changed.clone()]));
        begun
    };
    let restarted = begin(&replica.stored());
    assert_eq!(restarted.served, replica.served, "{what}: a new process has the same bytes");
    assert_eq!(restarted.guarded.entries(), replica.guarded.entries(), "{what}");
    if !begins {
        return;
    }
    let anew = begin(&Quarantine::default());
    // Without the class everything would be somebody else's: the Gateway is set aside whose row fails.
    if guilty.kind != Kind::GatewayClass {
        assert_eq!(anew.aside(), [guilty.to_string()], "{what}, which was never sound");
    }
    assert_eq!(begin(&anew.stored()).served, anew.served, "{what}: a second replica agrees");
}
