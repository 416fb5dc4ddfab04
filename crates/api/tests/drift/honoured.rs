//! Decoded is not honoured: both lists against the schema, and against what is reported.

use std::collections::BTreeSet;

use api::{decode, honoured::Honoured};
use serde_json::Value;

use crate::crd::{self, kinds, manifest, maximal, properties};

/// Every property without properties of its own.
fn leaves(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    let items = &schema["items"];
    if properties(schema).next().is_some() {
        properties(schema).for_each(|(name, property)| leaves(property, &format!("{path}.{name}"), found));
    } else if properties(items).next().is_some() {
        leaves(items, &format!("{path}[]"), found);
    } else {
        found.insert(path.to_owned());
    }
}

#[test]
fn every_property_of_the_schema_is_either_read_or_refused() {
    for kind in kinds() {
        let Honoured { read, refused } = kind.honoured();
        let ours: BTreeSet<_> = read.iter().chain(refused).map(ToString::to_string).collect();
        assert_eq!(ours.len(), read.len() + refused.len(), "{kind}: a property stands on both lists, or twice on one");
        let mut theirs = BTreeSet::new();
        leaves(&crd::spec(kind), "spec", &mut theirs);
        assert_eq!(ours.symmetric_difference(&theirs).collect::<Vec<_>>(), [""; 0], "{kind}");
    }
}

#[test]
fn what_is_reported_where_everything_is_set_is_what_the_list_refuses() {
    for kind in kinds() {
        let spec = maximal(&crd::spec(kind), "spec");
        let object = decode(manifest(kind, &spec)).expect("a manifest of the schema decodes").object;
        let reported: Vec<_> =
            object.refused_fields().into_iter().map(|field| field.path.replace("[0]", "[]")).collect();
        let covered = |leaf: &str| {
            reported
                .iter()
                .any(|path| leaf.strip_prefix(path.as_str()).is_some_and(|rest| !rest.starts_with(char::is_alphabetic)))
        };
        let Honoured { read, refused } = kind.honoured();
        for leaf in refused {
            assert!(covered(leaf), "{kind} {leaf} is refused, and not reported when it is set");
        }
        for leaf in read {
            assert!(!covered(leaf), "{kind} {leaf} is read, and reported as refused");
        }
    }
}
