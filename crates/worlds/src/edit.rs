//! Changes of a manifest at any place, as somebody makes them who does not know what the field is for.

use proptest::{
    prelude::{BoxedStrategy, Strategy, any, prop_oneof},
    sample::{Index, select},
};
use serde_json::{Value, json};

use super::values;

/// One change.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// A string becomes another one.
    Text(Index, String),
    /// A number becomes another one.
    Number(Index, i64),
    /// A field or an item goes.
    Remove(Index),
    /// The last item of a list is there so often, each time a little different.
    Repeat(Index, usize),
}

pub(super) fn edit() -> BoxedStrategy<Edit> {
    prop_oneof![
        10 => (any::<Index>(), values::hostile()).prop_map(|(at, text)| Edit::Text(at, text)),
        4 => (any::<Index>(), values::number()).prop_map(|(at, number)| Edit::Number(at, number)),
        3 => any::<Index>().prop_map(Edit::Remove),
        2 => (any::<Index>(), select(&[2, 3, 20, 70, 1_100][..])).prop_map(|(at, times)| Edit::Repeat(at, times)),
    ]
    .boxed()
}

/// What makes an object the one that it is; without it there is no object.
const IDENTITY: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Edit {
    pub(super) fn apply(&self, manifest: &mut Value) {
        let is_text = |value: &Value| value.is_string();
        let is_number = |value: &Value| value.is_number();
        let is_list = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
        match self {
            Self::Text(at, text) => {
                if let Some(place) = choose(manifest, *at, is_text) {
                    *place = json!(text);
                }
            }
            Self::Number(at, number) => {
                if let Some(place) = choose(manifest, *at, is_number) {
                    *place = json!(number);
                }
            }
            // What is null counts as absent.
            Self::Remove(at) => {
                if let Some(place) = choose(manifest, *at, |_| true) {
                    *place = Value::Null;
                }
            }
            Self::Repeat(at, times) => {
                if let Some(list) = choose(manifest, *at, is_list).and_then(Value::as_array_mut) {
                    let last = list.last().cloned().unwrap_or_default();
                    list.extend((1..*times).map(|number| numbered(&last, number)));
                }
            }
        }
    }
}

/// The value with a number in its name, so that it is not taken for the same thing twice.
fn numbered(value: &Value, number: usize) -> Value {
    match value {
        Value::String(text) if text.contains('.') => json!(format!("n{number}.{text}")),
        Value::String(text) => json!(format!("{text}{number}")),
        Value::Object(fields) => {
            let mut fields = fields.clone();
            if let Some(Value::String(name)) = fields.get_mut("name") {
                name.push_str(&number.to_string());
            }
            Value::Object(fields)
        }
        other => other.clone(),
    }
}

fn choose(manifest: &mut Value, at: Index, fits: impl Fn(&Value) -> bool) -> Option<&mut Value> {
    let mut paths = Vec::new();
    for (field, value) in manifest.as_object()? {
        if !IDENTITY.contains(&field.as_str()) {
            collect(value, &format!("/{field}"), &fits, &mut paths);
        }
    }
    let path = paths.get(if paths.is_empty() { 0 } else { at.index(paths.len()) })?;
    manifest.pointer_mut(path)
}

fn collect(value: &Value, path: &str, fits: &impl Fn(&Value) -> bool, paths: &mut Vec<String>) {
    if fits(value) {
        paths.push(path.to_owned());
    }
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let field = field.replace('~', "~0").replace('/', "~1");
                collect(value, &format!("{path}/{field}"), fits, paths);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, &format!("{path}/{index}"), fits, paths);
            }
        }
        _ => {}
    }
}
