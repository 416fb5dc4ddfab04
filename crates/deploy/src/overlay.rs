//! Strategic merge patches, as overlays are: maps are merged, lists whose items have a key are merged by it, other lists
//! are replaced, null removes.
//!
//! Of the directives, `$patch` (`replace`, `delete`, `merge`), `$retainKeys` and `$deleteFromPrimitiveList` are known.
//! `$setElementOrder` is not: it is what tools add when they compute a patch, and refused.

use serde_json::{Map, Value};

use crate::check::join;

/// What a patch has wrong: the path in it and why.
pub(crate) type Wrong = (String, String);

/// Applies a patch to an object of a kind.
pub(crate) fn apply(kind: &str, target: &mut Value, patch: &Value) -> Result<(), Wrong> {
    merge(&Place { kind, parent: "", field: "" }, target, patch, "")
}

/// Where a value stands, which says by what its items are told apart.
#[derive(Clone, Copy)]
struct Place<'a> {
    kind: &'a str,
    parent: &'a str,
    field: &'a str,
}

impl<'a> Place<'a> {
    fn below(&self, field: &'a str) -> Self {
        Self { kind: self.kind, parent: self.field, field }
    }

    /// The field by which items of this list are told apart; none if the list is replaced as a whole.
    fn key(&self) -> Option<&'static str> {
        match (self.field, self.parent) {
            ("containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env" | "schedulingGates", _)
            | ("imagePullSecrets" | "resourceClaims", "spec") => Some("name"),
            ("ports", "spec") if self.kind == "Service" => Some("port"),
            ("ports", _) => Some("containerPort"),
            ("volumeMounts", _) => Some("mountPath"),
            ("volumeDevices", _) => Some("devicePath"),
            ("topologySpreadConstraints", _) => Some("topologyKey"),
            ("hostAliases", _) => Some("ip"),
            _ => None,
        }
    }

    /// Lists of plain values that are merged as sets.
    fn is_set(&self) -> bool {
        self.field == "finalizers"
    }
}

fn merge(place: &Place<'_>, target: &mut Value, patch: &Value, path: &str) -> Result<(), Wrong> {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => merge_map(place, target, patch, path),
        (Value::Array(target), Value::Array(patch)) if place.key().is_some() || place.is_set() => {
            merge_list(place, target, patch, path)
        }
        (target, patch) => {
            *target = cleaned(place, patch, path)?.unwrap_or(Value::Null);
            Ok(())
        }
    }
}

fn merge_map(
    place: &Place<'_>,
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    path: &str,
) -> Result<(), Wrong> {
    match directive(patch, path)? {
        Directive::Merge => {}
        // Deletion of a map that is no item of a list leaves it empty, as the API server does.
        Directive::Delete => {
            target.clear();
            return Ok(());
        }
        Directive::Replace => {
            target.clear();
        }
    }
    if let Some(retained) = patch.get("$retainKeys") {
        let retained =
            names(retained).ok_or_else(|| (join(path, "$retainKeys"), "must be a list of names".to_owned()))?;
        target.retain(|name, _| retained.contains(&name.as_str()));
    }
    for (name, value) in patch {
        let path_here = join(path, name);
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().ok_or_else(|| (path_here, "must be a list".to_owned()))?;
            if let Some(Value::Array(items)) = target.get_mut(list) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if name.starts_with('$') {
            if matches!(name.as_str(), "$patch" | "$retainKeys") {
                continue;
            }
            return Err((path_here, "is not supported; remove it".to_owned()));
        }
        let place = place.below(name);
        if value.is_null() {
            target.remove(name);
        } else if let Some(target) = target.get_mut(name) {
            merge(&place, target, value, &path_here)?;
        } else if let Some(value) = cleaned(&place, value, &path_here)? {
            target.insert(name.clone(), value);
        }
    }
    Ok(())
}

fn merge_list(place: &Place<'_>, target: &mut Vec<Value>, patch: &[Value], path: &str) -> Result<(), Wrong> {
    let Some(key) = place.key() else {
        for item in patch {
            if !target.contains(item) {
                target.push(item.clone());
            }
        }
        return Ok(());
    };
    // `- $patch: replace` without a key: the list is what stands beside it.
    let stands_alone = |item: &Value| item.get(key).is_none() && item.get("$patch").is_some_and(|is| is == "replace");
    if patch.iter().any(stands_alone) {
        target.clear();
    }
    for (index, item) in patch.iter().enumerate().filter(|(_, item)| !stands_alone(item)) {
        let path = format!("{path}[{index}]");
        let Value::Object(item) = item else {
            return Err((path, "must be an object".to_owned()));
        };
        let directive = directive(item, &path)?;
        let Some(id) = item.get(key) else {
            return Err((path, format!("needs {key}, by which items of this list are told apart")));
        };
        let position = target.iter().position(|candidate| candidate.get(key) == Some(id));
        match (directive, position) {
            (Directive::Delete, _) => target.retain(|candidate| candidate.get(key) != Some(id)),
            (_, Some(position)) => {
                if let Value::Object(target) = &mut target[position] {
                    merge_map(place, target, item, &path)?;
                }
            }
            (_, None) => {
                let mut new = Map::new();
                merge_map(place, &mut new, item, &path)?;
                target.push(Value::Object(new));
            }
        }
    }
    Ok(())
}

/// What a patch is where there is nothing to merge it with: without directives and without null. None if it says that
/// nothing is to be there.
fn cleaned(place: &Place<'_>, patch: &Value, path: &str) -> Result<Option<Value>, Wrong> {
    match patch {
        Value::Object(map) => {
            if matches!(directive(map, path)?, Directive::Delete) {
                return Ok(None);
            }
            let mut new = Map::new();
            merge_map(place, &mut new, map, path)?;
            Ok(Some(Value::Object(new)))
        }
        Value::Array(items) if place.key().is_some() => {
            let mut new = Vec::new();
            merge_list(place, &mut new, items, path)?;
            Ok(Some(Value::Array(new)))
        }
        other => Ok(Some(other.clone())),
    }
}

#[derive(Clone, Copy)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Map<String, Value>, path: &str) -> Result<Directive, Wrong> {
    match patch.get("$patch").map(Value::as_str) {
        None | Some(Some("merge")) => Ok(Directive::Merge),
        Some(Some("replace")) => Ok(Directive::Replace),
        Some(Some("delete")) => Ok(Directive::Delete),
        Some(_) => Err((join(path, "$patch"), "must be replace, delete or merge".to_owned())),
    }
}

fn names(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(kind: &str, mut target: Value, patch: &Value) -> Value {
        apply(kind, &mut target, patch).expect("applies");
        target
    }

    fn pod(spec: &Value) -> Value {
        json!({"spec": {"template": {"spec": spec}}})
    }

    #[test]
    fn maps_are_merged_and_null_removes() {
        let target = json!({"spec": {"a": 1, "b": {"c": 1, "d": 2}}});
        let patch = json!({"spec": {"a": null, "b": {"c": 3}, "e": {"f": 1, "g": null}}});
        assert_eq!(applied("Deployment", target, &patch), json!({"spec": {"b": {"c": 3, "d": 2}, "e": {"f": 1}}}));
    }

    #[test]
    fn items_are_merged_by_key_and_new_ones_appended() {
        let target = pod(&json!({"containers": [{
            "name": "envoy", "image": "a", "args": ["x"], "env": [{"name": "A", "value": "1"}],
            "ports": [{"containerPort": 1, "name": "m"}], "volumeMounts": [{"mountPath": "/a", "name": "v"}]
        }]}));
        let patch = pod(&json!({"containers": [
            {
                "name": "envoy", "args": ["y"], "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
                "ports": [{"containerPort": 1, "protocol": "TCP"}], "volumeMounts": [{"mountPath": "/a", "readOnly": true}]
            },
            {"name": "side", "image": "s"}
        ]}));
        let expected = pod(&json!({"containers": [
            {
                "name": "envoy", "image": "a", "args": ["y"],
                "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "3"}],
                "ports": [{"containerPort": 1, "name": "m", "protocol": "TCP"}],
                "volumeMounts": [{"mountPath": "/a", "name": "v", "readOnly": true}]
            },
            {"name": "side", "image": "s"}
        ]}));
        assert_eq!(applied("Deployment", target, &patch), expected);
    }

    #[test]
    fn lists_without_a_key_are_replaced() {
        let target = pod(&json!({"tolerations": [{"key": "a"}], "imagePullSecrets": [{"name": "a"}]}));
        let patch = pod(&json!({"tolerations": [{"key": "b"}], "imagePullSecrets": [{"name": "b"}]}));
        let expected = pod(&json!({"tolerations": [{"key": "b"}], "imagePullSecrets": [{"name": "a"}, {"name": "b"}]}));
        assert_eq!(applied("Deployment", target, &patch), expected);
    }

    #[test]
    fn directives_delete_and_replace() {
        let target = pod(&json!({
            "containers": [{"name": "envoy", "env": [{"name": "A"}, {"name": "B"}], "resources": {"limits": {"cpu": "1"}}}],
            "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}],
            "securityContext": {"runAsUser": 1}
        }));
        let patch = pod(&json!({
            "containers": [{
                "name": "envoy", "env": [{"name": "A", "$patch": "delete"}],
                "resources": {"$patch": "replace", "requests": {"cpu": "2"}}
            }],
            "volumes": [{"name": "v", "$retainKeys": ["name", "configMap"], "configMap": {"name": "c"}}],
            "securityContext": {"$patch": "delete"}
        }));
        let expected = pod(&json!({
            "containers": [{"name": "envoy", "env": [{"name": "B"}], "resources": {"requests": {"cpu": "2"}}}],
            "volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w"}],
            "securityContext": {}
        }));
        assert_eq!(applied("Deployment", target.clone(), &patch), expected);

        let patch = pod(&json!({"volumes": [{"$patch": "replace"}, {"name": "x"}]}));
        assert_eq!(
            applied("Deployment", target, &patch)["spec"]["template"]["spec"]["volumes"],
            json!([{"name": "x"}])
        );
    }

    #[test]
    fn ports_of_a_service_are_distinguished_by_port() {
        let target = json!({"spec": {"ports": [{"port": 80, "targetPort": 10080}]}});
        let patch = json!({"spec": {"ports": [{"port": 80, "nodePort": 30080}, {"port": 443}]}});
        let expected =
            json!({"spec": {"ports": [{"port": 80, "targetPort": 10080, "nodePort": 30080}, {"port": 443}]}});
        assert_eq!(applied("Service", target, &patch), expected);
    }

    #[test]
    fn finalizers_are_a_set_of_which_some_can_be_taken() {
        let target = json!({"metadata": {"finalizers": ["a", "b"]}});
        let patch = json!({"metadata": {"finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"]}});
        assert_eq!(applied("Service", target, &patch), json!({"metadata": {"finalizers": ["b", "c"]}}));
    }

    #[test]
    fn what_no_patch_may_say_is_reported_with_its_path() {
        let mut target = pod(&json!({"containers": [{"name": "envoy"}]}));
        for (patch, path) in [
            (json!({"containers": [{"image": "a"}]}), "spec.template.spec.containers[0]"),
            (json!({"containers": ["a"]}), "spec.template.spec.containers[0]"),
            (json!({"$setElementOrder/containers": []}), "spec.template.spec.$setElementOrder/containers"),
            (json!({"$patch": "remove"}), "spec.template.spec.$patch"),
        ] {
            let (found, _) = apply("Deployment", &mut target, &pod(&patch)).expect_err("refused");
            assert_eq!(found, path);
        }
    }
}
