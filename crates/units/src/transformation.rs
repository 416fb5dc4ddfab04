//! `transformation`: headers are changed as templates say; only those that are plain texts are served.

use api::traffic_policy::TrafficPolicySpec;
use envoy::slots;
use envoy_types::pb::envoy::{
    config::{
        common::mutation_rules::v3::{HeaderMutation, header_mutation::Action},
        core::v3::header_value_option::HeaderAppendAction,
        route::v3::Route,
    },
    extensions::filters::http::header_mutation::v3::Mutations,
};
use ir::rule::Slot;
use serde::Deserialize;
use serde_json::Value;
use validate::{Invalid, header};

use super::{Deep, Refused, Unit, mutations, spec};

/// As the CRD has it, a list.
const MOST_HEADERS: usize = 16;

/// What begins something other than text in a template.
const CONSTRUCTS: [&str; 3] = ["{{", "{%", "{#"];

/// Reads the name of a header that is set.
type Name = fn(&str) -> Result<String, Invalid>;

/// What headers are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformation {
    /// None changes nothing.
    slot: Option<Slot>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    request: Option<Changes>,
    response: Option<Changes>,
}

/// Changes of one direction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Changes {
    #[serde(default)]
    set: Vec<Header>,
    #[serde(default)]
    add: Vec<Header>,
    #[serde(default)]
    remove: Vec<String>,
    body: Option<Body>,
    #[serde(default)]
    dynamic_metadata: Vec<Value>,
}

/// A header and its value.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    name: String,
    value: Option<String>,
}

/// How the body is read, and what takes its place.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Body {
    parse_as: Option<String>,
    value: Option<String>,
}

impl Unit for Transformation {
    const FIELD: &'static str = "transformation";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::TRANSFORMATION];
    const DEEP: Deep = Deep::Operations;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"request": {"set": [{"name": "a", "value": ""}], "add": [{"name": "b", "value": "1"}]}}"#,
        other: r#"{"response": {"remove": ["c"]}}"#,
        merged: Some((
            r#"{"request": {"set": [{"name": "a"}], "add": [{"name": "b", "value": "1"}]}, "response": {"remove": ["c"]}}"#,
            r#"{"request": {"set": [{"name": "a"}], "add": [{"name": "b", "value": "1"}]}, "response": {"remove": ["c"]}}"#,
        )),
        off: None,
        refused: Some(r#"{"request": {"set": [{"name": "a", "value": "{{ b }}"}]}}"#),
    };
    type Spec = Spec;

    fn read(written: Spec, _: &TrafficPolicySpec) -> Result<Self, Refused> {
        let changes = |changes: Option<&Changes>, field: &str, name: Name| {
            changes.map_or(Ok(Vec::new()), |all| all.read(field, name))
        };
        let changes = Mutations {
            request_mutations: changes(written.request.as_ref(), "request", header::client_name)?,
            response_mutations: changes(written.response.as_ref(), "response", header::settable_name)?,
            ..Mutations::default()
        };
        Ok(Self { slot: mutations::slot(slots::TRANSFORMATION, changes) })
    }

    fn slots(&self) -> Vec<Slot> {
        self.slot.clone().into_iter().collect()
    }

    fn over(&self, other: &Self) -> Option<Self> {
        let slot = mutations::after(slots::TRANSFORMATION, self.slot.as_ref(), other.slot.as_ref());
        Some(Self { slot })
    }

    fn explain(route: &Route) -> Option<String> {
        mutations::said(route, slots::TRANSFORMATION)
    }
}

impl Changes {
    /// In the order in which they are made; `name` reads what is set.
    fn read(&self, field: &str, name: Name) -> Result<Vec<HeaderMutation>, Refused> {
        self.reads_no_more(field)?;
        let mut changes = Vec::new();
        spec::at_most(&self.set, &format!("{field}.set"), MOST_HEADERS)?;
        for (index, header) in self.set.iter().enumerate() {
            let at = format!("{field}.set[{index}]");
            let text = header.text(&at)?;
            changes.push(if text.is_empty() {
                let name = header::modifiable_name(&header.name).map_err(Refused::at(&format!("{at}.name")))?;
                mutations::change(Action::Remove(name))
            } else {
                header.read(&at, text, name, HeaderAppendAction::OverwriteIfExistsOrAdd)?
            });
        }
        spec::at_most(&self.add, &format!("{field}.add"), MOST_HEADERS)?;
        for (index, header) in self.add.iter().enumerate() {
            let at = format!("{field}.add[{index}]");
            changes.push(header.read(&at, header.text(&at)?, name, HeaderAppendAction::AppendIfExistsOrAdd)?);
        }
        spec::at_most(&self.remove, &format!("{field}.remove"), MOST_HEADERS)?;
        for (index, name) in self.remove.iter().enumerate() {
            let name = header::modifiable_name(name).map_err(Refused::at(&format!("{field}.remove[{index}]")))?;
            changes.push(mutations::change(Action::Remove(name)));
        }
        Ok(changes)
    }

    /// Refuses what is more than headers.
    fn reads_no_more(&self, field: &str) -> Result<(), Refused> {
        if !self.dynamic_metadata.is_empty() {
            let message = "metadata is not written yet; remove it";
            return Err(Refused::new(&format!("{field}.dynamicMetadata"), message));
        }
        let Some(body) = &self.body else { return Ok(()) };
        if body.value.is_some() {
            let message = "bodies are not changed yet; remove it";
            return Err(Refused::new(&format!("{field}.body.value"), message));
        }
        match body.parse_as.as_deref() {
            None | Some("None" | "AsString") => Ok(()),
            Some(other) => {
                let invalid = Invalid::new(other, "bodies are not read yet", "use None, or remove it");
                Err(Refused::at(&format!("{field}.body.parseAs"))(invalid))
            }
        }
    }
}

impl Header {
    /// What a template without anything but text comes to: one line break at its end is not part of it.
    fn text(&self, at: &str) -> Result<&str, Refused> {
        let written = self.value.as_deref().unwrap_or_default();
        if let Some(construct) = CONSTRUCTS.iter().find(|construct| written.contains(**construct)) {
            let why =
                format!("it is a template, and templates are not evaluated yet: {construct} begins what is no text");
            let invalid = Invalid::new(written, why, "write a plain text, or remove the entry");
            return Err(Refused::at(&format!("{at}.value"))(invalid));
        }
        Ok(written.strip_suffix("\r\n").or_else(|| written.strip_suffix('\n')).unwrap_or(written))
    }

    fn read(&self, at: &str, text: &str, name: Name, how: HeaderAppendAction) -> Result<HeaderMutation, Refused> {
        let name = name(&self.name).map_err(Refused::at(&format!("{at}.name")))?;
        let value = header::value(text).map_err(Refused::at(&format!("{at}.value")))?;
        Ok(mutations::append(name, value, how))
    }
}
