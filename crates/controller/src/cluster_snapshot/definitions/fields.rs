//! Which fields of a kind are read.

use api::{Kind, schema::openapi::Node};
use units::AnyUnit;

/// The paths of the fields that are read, with `[]` for the items of a list. None of a kind of Kubernetes itself.
pub(super) fn read(kind: Kind) -> Vec<String> {
    let read = kind.honoured().read;
    if !read.is_empty() {
        return read.iter().map(ToString::to_string).collect();
    }
    let mut found = Vec::new();
    // A TrafficPolicy is refused if it sets another field.
    let is_unit = |field: &str| field.starts_with("target") || AnyUnit::FIELDS.contains(&field);
    // Of a group of units the schema says no more than that it is there.
    let grouped = AnyUnit::FIELDS.iter().filter(|field| kind == Kind::TrafficPolicy && field.contains('.'));
    found.extend(grouped.map(|field| format!("spec.{field}")));
    if let Some(Node::Object(fields)) = kind.spec_schema() {
        for field in fields.iter().filter(|field| kind != Kind::TrafficPolicy || is_unit(field.name)) {
            leaves(field.node, format!("spec.{}", field.name), &mut found);
        }
    }
    found
}

fn leaves(node: &Node, path: String, found: &mut Vec<String>) {
    match node {
        Node::Object(fields) => {
            fields.iter().for_each(|field| leaves(field.node, format!("{path}.{}", field.name), found));
        }
        Node::List { items: items @ Node::Object(_), .. } => leaves(items, path + "[]", found),
        _ => found.push(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_plain_values_and_mappings_are_one_field() {
        let read = read(Kind::DelegationPolicy);
        for path in ["spec.allowedChildren.namespaces.names", "spec.targetRefs[].name", "spec.requireAuth"] {
            assert!(read.contains(&path.to_owned()), "{path} in {read:?}");
        }
        assert!(super::read(Kind::Service).is_empty());
    }
}
