//! A file of settings. One that is wrong anywhere is refused as a whole: a controller that runs with other settings than
//! its operator wrote is not the one that they trust.

use std::{fs, panic, path::Path, thread, time::Duration};

use anyhow::Context;
use controller::files::yaml::{self, Places, Position};
use ir::settings::{Consent, ExtensionGrants, PortMapping, Trust, ValidationLevel, WhenUnavailable};
use serde_json::{Map, Value};

use super::{
    SETTINGS, SettingsArgs,
    parse::{Details, Ranges},
};

/// Something wrong in a file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fault {
    /// Where it stands.
    pub(super) position: Position,
    /// What is wrong, and what to write instead.
    pub(super) message: String,
}

/// Reads the settings of a file.
pub(super) fn read(path: &Path) -> anyhow::Result<SettingsArgs> {
    let name = path.display();
    let text = fs::read_to_string(path)
        .with_context(|| format!("cannot read the settings in {name}, which --config or PORTCULLIS_CONFIG names"))?;
    parse(&text)?.map_err(|faults| {
        let faults = faults.iter().map(|Fault { position, message }| format!("\n  {name}:{position}: {message}"));
        anyhow::anyhow!("the settings in {name} are not valid, correct them:{}", faults.collect::<String>())
    })
}

/// Reads settings; faults come in the order in which they stand. The outer error: there is no thread to be had.
pub(super) fn parse(text: &str) -> anyhow::Result<Result<SettingsArgs, Vec<Fault>>> {
    // Nested text takes more stack than this thread may have.
    thread::scope(|scope| {
        let parser = thread::Builder::new().stack_size(yaml::STACK).spawn_scoped(scope, || of_text(text))?;
        Ok(parser.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    })
}

fn of_text(text: &str) -> Result<SettingsArgs, Vec<Fault>> {
    // JSON is read as the YAML that it is, so that a key that stands there twice is an error too.
    let documents =
        yaml::documents(text).map_err(|error| vec![Fault { position: error.position, message: error.message }])?;
    let document = match &documents[..] {
        // Everything in it may be a comment.
        [] => return Ok(SettingsArgs::default()),
        [document] => document,
        [_, second, ..] => {
            let message = "settings are one document: remove this one".to_owned();
            return Err(vec![Fault { position: second.position, message }]);
        }
    };
    let Value::Object(top) = &document.value else {
        let message = format!("settings must be a mapping with {}", names(None));
        return Err(vec![Fault { position: document.position, message }]);
    };
    let mut settings = SettingsArgs::default();
    let faults = set_all(&mut settings, top);
    if faults.is_empty() {
        return Ok(settings);
    }
    let places = Places::of(text);
    let mut faults: Vec<_> = faults
        .into_iter()
        .map(|(path, message)| Fault { position: places.locate(0, &path).unwrap_or(document.position), message })
        .collect();
    faults.sort();
    Err(faults)
}

/// Sets all that is there. What is wrong comes back, by the path where it stands.
fn set_all(settings: &mut SettingsArgs, top: &Map<String, Value>) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    for (name, value) in top {
        if keys().any(|(group, key)| group.is_none() && key == name) {
            if let Err(message) = settings.set(name, value) {
                faults.push((name.clone(), format!("{name} {message}")));
            }
        } else if keys().any(|(group, _)| group == Some(name)) {
            match value {
                // Everything in it may be a comment.
                Value::Null => {}
                Value::Object(members) => faults.extend(set_group(settings, name, members)),
                _ => {
                    let message =
                        format!("{name} is {}: it must be a mapping with {}", shown(value), names(Some(name)));
                    faults.push((name.clone(), message));
                }
            }
        } else {
            faults.push((format!("[{name}]"), format!("{name} is no setting: there are {}", names(None))));
        }
    }
    faults
}

fn set_group(settings: &mut SettingsArgs, group: &str, members: &Map<String, Value>) -> Vec<(String, String)> {
    let fault = |(name, value): (&String, &Value)| {
        let key = format!("{group}.{name}");
        let message = if keys().any(|known| known == (Some(group), name)) {
            settings.set(&key, value).err()?
        } else {
            format!("is no setting: {group} has {}", names(Some(group)))
        };
        Some((format!("{group}[{name}]"), format!("{key} {message}")))
    };
    members.iter().filter_map(fault).collect()
}

/// The group and the name of each setting.
fn keys() -> impl Iterator<Item = (Option<&'static str>, &'static str)> {
    SETTINGS.iter().map(|setting| match setting.key.split_once('.') {
        Some((group, name)) => (Some(group), name),
        None => (None, setting.key),
    })
}

/// What may stand in a group, or above all groups.
fn names(of: Option<&str>) -> String {
    let mut names: Vec<_> = keys()
        .filter_map(|(group, name)| match of {
            None => Some(group.unwrap_or(name)),
            Some(_) => (group == of).then_some(name),
        })
        .collect();
    names.dedup();
    names.join(", ")
}

/// How values of a type are written in a file.
pub(super) trait Scalar {
    /// As text, and not as a number or as `true` and `false`.
    const TEXT: bool;
}

macro_rules! scalars {
    ($($type:ty: $text:literal),+) => { $(impl Scalar for $type { const TEXT: bool = $text; })+ };
}

scalars! {
    u16: false, u32: false, u64: false, bool: false, String: true, Duration: true, PortMapping: true, Consent: true, ExtensionGrants: true, Trust: true, ValidationLevel: true,
    WhenUnavailable: true, Ranges: true, Details: true
}

/// Reads the value of a setting with the parser that flags have.
pub(super) fn scalar<T: Scalar>(value: &Value, parser: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    let parsed = match value {
        Value::Null => return Err("has no value: write one, or leave the key out".to_owned()),
        Value::Array(_) | Value::Object(_) => {
            return Err(format!("is {}: it must be a single value, neither a list nor a mapping", shown(value)));
        }
        Value::String(text) => parser(text),
        Value::Bool(_) | Value::Number(_) => parser(&value.to_string()),
    };
    let parsed = parsed.map_err(|must| format!("is {}: it {must}", shown(value)))?;
    match (T::TEXT, value.is_string()) {
        (true, false) => Err(format!("is {}: it must be text, write it in quotes", shown(value))),
        (false, true) => Err(format!("is {}: write it without quotes", shown(value))),
        _ => Ok(parsed),
    }
}

/// A value as far as one wants to read it.
fn shown(value: &Value) -> String {
    const ENOUGH: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(ENOUGH) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
