//! The field rules that Envoy's messages carry (`validate.rules`), which Envoy checks on everything that it is sent.
//!
//! An oracle for tests: it reads the rules from the descriptors and looks into every `Any`. A rule that it does not
//! know is a violation too, so that none is passed over.

use prost_reflect::{
    Cardinality, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MapKey, OneofDescriptor, ReflectMessage,
    Value,
};

use crate::json;

#[cfg(test)]
mod tests;

/// One rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, such as `virtual_hosts[0].domains`.
    pub path: String,
    /// What is asked for.
    pub rule: String,
}

/// The rules that a message breaks, the message itself and everything in it considered.
///
/// Fails where the message cannot be read at all.
pub fn violations(name: &str, body: &[u8]) -> Result<Vec<Violation>, json::Error> {
    let message = json::dynamic(name, body)?;
    let mut checker = Checker { path: Vec::new(), violations: Vec::new() };
    checker.message(&message);
    Ok(checker.violations)
}

struct Checker {
    path: Vec<String>,
    violations: Vec<Violation>,
}

fn extension(message: &DynamicMessage, name: &str) -> Option<ExtensionDescriptor> {
    message.descriptor().parent_pool().get_extension_by_name(name)
}

/// The value of a `validate` option, if it is set.
fn option(options: &DynamicMessage, name: &str) -> Option<Value> {
    let extension = extension(options, name)?;
    options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
}

impl Checker {
    fn violation(&mut self, rule: impl Into<String>) {
        self.violations.push(Violation { path: self.path.join("."), rule: rule.into() });
    }

    fn at(&mut self, step: impl Into<String>, check: impl FnOnce(&mut Self)) {
        self.path.push(step.into());
        check(self);
        self.path.pop();
    }

    fn message(&mut self, message: &DynamicMessage) {
        let descriptor = message.descriptor();
        if message.unknown_fields().next().is_some() {
            self.violation("no unknown fields");
        }
        match descriptor.full_name() {
            "google.protobuf.Any" => return self.any(message),
            name if name.starts_with("google.protobuf.") => return,
            _ => {}
        }
        let skipped = ["validate.disabled", "validate.ignored"];
        if skipped.iter().any(|name| option(&descriptor.options(), name) == Some(Value::Bool(true))) {
            return;
        }
        for oneof in descriptor.oneofs() {
            self.oneof(message, &oneof);
        }
        for field in descriptor.fields() {
            self.at(field.name(), |checker| checker.field(message, &field));
        }
    }

    fn oneof(&mut self, message: &DynamicMessage, oneof: &OneofDescriptor) {
        let required = option(&oneof.options(), "validate.required") == Some(Value::Bool(true));
        if required && !oneof.fields().any(|field| message.has_field(&field)) {
            self.at(oneof.name(), |checker| checker.violation("required"));
        }
    }

    fn any(&mut self, any: &DynamicMessage) {
        let url = any.get_field_by_name("type_url").and_then(|url| url.as_str().map(str::to_owned)).unwrap_or_default();
        let value = any.get_field_by_name("value").and_then(|value| value.as_bytes().cloned()).unwrap_or_default();
        let name = url.rsplit('/').next().unwrap_or_default();
        match json::dynamic(name, &value) {
            Ok(message) => self.at(format!("[{name}]"), |checker| checker.message(&message)),
            Err(error) => self.violation(error.to_string()),
        }
    }

    fn field(&mut self, message: &DynamicMessage, field: &FieldDescriptor) {
        let rules = match option(&field.options(), "validate.rules") {
            Some(Value::Message(rules)) => Some(rules),
            _ => None,
        };
        if let Some(rules) = &rules {
            self.presence(message, field, rules);
        }
        // Without presence, the default is a value like any other.
        if field.supports_presence() && !message.has_field(field) {
            return;
        }
        let value = message.get_field(field);
        match &*value {
            Value::List(items) => {
                self.count(rules.as_ref(), "repeated", items.len());
                let rules = nested(rules.as_ref(), "repeated", "items");
                for (index, item) in items.iter().enumerate() {
                    self.at(format!("{index}"), |checker| checker.value(&field.kind(), item, rules.as_ref()));
                }
            }
            Value::Map(entries) => {
                self.count(rules.as_ref(), "map", entries.len());
                let Kind::Message(entry) = field.kind() else { return };
                let (keys, values) = (nested(rules.as_ref(), "map", "keys"), nested(rules.as_ref(), "map", "values"));
                for (key, value) in entries {
                    self.at(format!("{key:?}"), |checker| {
                        if let MapKey::String(key) = key {
                            let kind = entry.map_entry_key_field().kind();
                            checker.value(&kind, &Value::String(key.clone()), keys.as_ref());
                        }
                        checker.value(&entry.map_entry_value_field().kind(), value, values.as_ref());
                    });
                }
            }
            value => self.value(&field.kind(), value, rules.as_ref()),
        }
    }

    fn presence(&mut self, message: &DynamicMessage, field: &FieldDescriptor, rules: &DynamicMessage) {
        let required = ["message", "any", "duration", "timestamp"].iter().any(|kind| {
            set(rules, kind).and_then(|rules| set(rules.as_message()?, "required")) == Some(Value::Bool(true))
        });
        let chosen = field.containing_oneof().is_none();
        if required && chosen && field.cardinality() != Cardinality::Repeated && !message.has_field(field) {
            self.violation("required");
        }
    }

    fn count(&mut self, rules: Option<&DynamicMessage>, kind: &str, count: usize) {
        let Some(Value::Message(rules)) = rules.and_then(|rules| set(rules, kind)) else { return };
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        for (rule, bound) in rules.fields() {
            let bound_to = bound.as_u64().unwrap_or_default();
            let kept = match rule.name() {
                "min_items" | "min_pairs" => count >= bound_to,
                "max_items" | "max_pairs" => count <= bound_to,
                "items" | "keys" | "values" => true,
                _ => false,
            };
            if !kept {
                self.violation(format!("{} {bound}", rule.name()));
            }
        }
    }

    fn value(&mut self, kind: &Kind, value: &Value, rules: Option<&DynamicMessage>) {
        let skip = rules.and_then(|rules| set(rules, "message")).and_then(|rules| set(rules.as_message()?, "skip"));
        let scalar = rules.and_then(|rules| rules.fields().find(|(field, _)| field.name() != "message"));
        if let Some((field, Value::Message(rules))) = scalar {
            self.scalar(field.name(), kind, value, rules);
        }
        if let Value::Message(message) = value
            && skip != Some(Value::Bool(true))
        {
            self.message(message);
        }
    }

    fn scalar(&mut self, rules_of: &str, kind: &Kind, value: &Value, rules: &DynamicMessage) {
        // Rules of a wrapper are those of what it wraps.
        let unwrapped = match (rules_of, value) {
            ("duration" | "timestamp" | "any", _) => None,
            (_, Value::Message(wrapper)) => wrapper.get_field_by_name("value").map(std::borrow::Cow::into_owned),
            _ => None,
        };
        let value = unwrapped.as_ref().unwrap_or(value);
        if set(rules, "ignore_empty") == Some(Value::Bool(true)) && is_empty(value) {
            return;
        }
        for (rule, expected) in rules.fields() {
            let kept = match (rules_of, value) {
                ("string", Value::String(text)) => string_rule(text, rule.name(), expected, rules),
                ("bytes", Value::Bytes(bytes)) => length_rule(bytes.len(), rule.name(), expected),
                ("enum", Value::EnumNumber(number)) => enum_rule(kind, *number, rule.name(), expected),
                ("bool", value) => Some(rule.name() == "const" && value == expected),
                ("any", _) => (rule.name() == "required").then_some(true),
                (_, value) => number(value).and_then(|value| number_rule(value, rule.name(), expected)),
            };
            if kept != Some(true) {
                self.violation(format!("{} {expected}", rule.name()));
            }
        }
    }
}

/// A field of a message, if it is set.
fn set(message: &DynamicMessage, name: &str) -> Option<Value> {
    let field = message.descriptor().get_field_by_name(name)?;
    message.has_field(&field).then(|| message.get_field(&field).into_owned())
}

/// The rules for what a list or map holds.
fn nested(rules: Option<&DynamicMessage>, kind: &str, of: &str) -> Option<DynamicMessage> {
    let Value::Message(rules) = set(rules?, kind)? else { return None };
    match set(&rules, of)? {
        Value::Message(rules) => Some(rules),
        _ => None,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        value => number(value) == Some(0.0),
    }
}

/// Numbers and durations (in seconds) on one scale. Bounds in rules are small enough to be exact.
fn number(value: &Value) -> Option<f64> {
    #[allow(clippy::cast_precision_loss, reason = "rules are about bounds far below 2^53")]
    match value {
        Value::I32(number) => Some(f64::from(*number)),
        Value::U32(number) => Some(f64::from(*number)),
        Value::I64(number) => Some(*number as f64),
        Value::U64(number) => Some(*number as f64),
        Value::F32(number) => Some(f64::from(*number)),
        Value::F64(number) => Some(*number),
        Value::Message(duration) => {
            let seconds = duration.get_field_by_name("seconds")?.as_i64()?;
            let nanos = duration.get_field_by_name("nanos")?.as_i32()?;
            Some(seconds as f64 + f64::from(nanos) / 1e9)
        }
        _ => None,
    }
}

/// None where the rule is not known.
fn number_rule(value: f64, rule: &str, expected: &Value) -> Option<bool> {
    let any_of = |expected: &Value| -> Option<bool> {
        Some(expected.as_list()?.iter().any(|expected| number(expected) == Some(value)))
    };
    Some(match rule {
        "const" => (number(expected)? - value).abs() < f64::EPSILON,
        "lt" => value < number(expected)?,
        "lte" => value <= number(expected)?,
        "gt" => value > number(expected)?,
        "gte" => value >= number(expected)?,
        "in" => any_of(expected)?,
        "not_in" => !any_of(expected)?,
        "required" | "ignore_empty" => true,
        _ => return None,
    })
}

fn enum_rule(kind: &Kind, number: i32, rule: &str, expected: &Value) -> Option<bool> {
    let any_of = |expected: &Value| -> Option<bool> {
        Some(expected.as_list()?.iter().any(|expected| expected.as_i32() == Some(number)))
    };
    Some(match rule {
        "const" => expected.as_i32()? == number,
        "defined_only" => kind.as_enum()?.get_value(number).is_some(),
        "in" => any_of(expected)?,
        "not_in" => !any_of(expected)?,
        _ => return None,
    })
}

fn length_rule(length: usize, rule: &str, expected: &Value) -> Option<bool> {
    let length = u64::try_from(length).unwrap_or(u64::MAX);
    Some(match rule {
        "len" | "len_bytes" => length == expected.as_u64()?,
        "min_len" | "min_bytes" => length >= expected.as_u64()?,
        "max_len" | "max_bytes" => length <= expected.as_u64()?,
        "ignore_empty" => true,
        _ => return None,
    })
}

fn string_rule(text: &str, rule: &str, expected: &Value, rules: &DynamicMessage) -> Option<bool> {
    let any_of = |expected: &Value| -> Option<bool> {
        Some(expected.as_list()?.iter().any(|expected| expected.as_str() == Some(text)))
    };
    Some(match rule {
        "const" => expected.as_str()? == text,
        "len" | "min_len" | "max_len" => return length_rule(text.chars().count(), rule, expected),
        "len_bytes" | "min_bytes" | "max_bytes" => return length_rule(text.len(), rule, expected),
        "pattern" => regex_lite::Regex::new(expected.as_str()?).ok()?.is_match(text),
        "prefix" => text.starts_with(expected.as_str()?),
        "suffix" => text.ends_with(expected.as_str()?),
        "contains" => text.contains(expected.as_str()?),
        "not_contains" => !text.contains(expected.as_str()?),
        "in" => any_of(expected)?,
        "not_in" => !any_of(expected)?,
        "well_known_regex" => header_rule(text, expected, set(rules, "strict") != Some(Value::Bool(false)))?,
        "strict" | "ignore_empty" => true,
        _ => return None,
    })
}

fn header_rule(text: &str, expected: &Value, strict: bool) -> Option<bool> {
    const NAME: i32 = 1;
    const VALUE: i32 = 2;
    let breaks_line = |byte: u8| matches!(byte, b'\0' | b'\n' | b'\r');
    Some(match (expected.as_enum_number()?, strict) {
        (NAME | VALUE, false) => !text.bytes().any(breaks_line),
        (NAME, true) => {
            let name = text.strip_prefix(':').unwrap_or(text);
            let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_|~`".contains(&byte);
            !name.is_empty() && name.bytes().all(token)
        }
        (VALUE, true) => text.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f)),
        _ => return None,
    })
}
