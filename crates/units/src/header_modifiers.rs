//! `headerModifiers`: headers of requests and responses are changed.

use api::traffic_policy::TrafficPolicySpec;
use envoy::slots;
use envoy_types::pb::envoy::{
    config::{
        common::mutation_rules::v3::{HeaderMutation, header_mutation::Action},
        core::v3::{HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction},
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

/// Reads the name of a header that is set.
type Name = fn(&str) -> Result<String, Invalid>;

/// What headers are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderModifiers {
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
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Changes {
    add: Option<Vec<Header>>,
    set: Option<Vec<Header>>,
    remove: Option<Vec<String>>,
}

/// A header and its value.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    name: Option<String>,
    value: Option<String>,
    secret_ref: Option<Value>,
}

impl Unit for HeaderModifiers {
    const FIELD: &'static str = "headerModifiers";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::HEADER_MODIFIERS];
    const DEEP: Deep = Deep::Operations;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"request": {"add": [{"name": "a", "value": "1"}]}}"#,
        other: r#"{"request": {"add": [{"name": "a", "value": "2"}]}, "response": {"remove": ["b"]}}"#,
        merged: Some((
            r#"{"request": {"add": [{"name": "a", "value": "2"}, {"name": "a", "value": "1"}]}, "response": {"remove": ["b"]}}"#,
            r#"{"request": {"add": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]}, "response": {"remove": ["b"]}}"#,
        )),
        off: None,
        refused: Some(r#"{"request": {"remove": ["host"]}}"#),
    };
    type Spec = Spec;

    fn read(written: Spec, _: &TrafficPolicySpec) -> Result<Self, Refused> {
        if written.request.is_none() && written.response.is_none() {
            return Err(Refused::new("", "it says nothing; set request or response, or remove it"));
        }
        let changes = |changes: Option<&Changes>, field: &str, name: Name| {
            changes.map_or(Ok(Vec::new()), |all| all.read(field, name))
        };
        let changed = Mutations {
            request_mutations: changes(written.request.as_ref(), "request", header::client_name)?,
            response_mutations: changes(written.response.as_ref(), "response", header::settable_name)?,
            ..Mutations::default()
        };
        Ok(Self { slot: mutations::slot(slots::HEADER_MODIFIERS, changed) })
    }

    fn slots(&self) -> Vec<Slot> {
        self.slot.clone().into_iter().collect()
    }

    /// One that changes nothing adds nothing to what the other does.
    fn over(&self, other: &Self) -> Option<Self> {
        let slot = mutations::after(slots::HEADER_MODIFIERS, self.slot.as_ref(), other.slot.as_ref());
        Some(Self { slot })
    }

    fn explain(route: &Route) -> Option<String> {
        mutations::said(route, slots::HEADER_MODIFIERS)
    }
}

impl Changes {
    /// In the order in which they are made; `name` reads what is set.
    fn read(&self, field: &str, name: Name) -> Result<Vec<HeaderMutation>, Refused> {
        let Self { add, set, remove } = self;
        if add.is_none() && set.is_none() && remove.is_none() {
            return Err(Refused::new(field, "it says nothing; set add, set or remove, or remove it"));
        }
        let mut mutations = Vec::new();
        let written = [
            ("add", add, HeaderAppendAction::AppendIfExistsOrAdd),
            ("set", set, HeaderAppendAction::OverwriteIfExistsOrAdd),
        ];
        for (list, headers, how) in written {
            let headers = headers.as_deref().unwrap_or_default();
            spec::at_most(headers, &format!("{field}.{list}"), MOST_HEADERS)?;
            for (index, written) in headers.iter().enumerate() {
                let header = written.read(&format!("{field}.{list}[{index}]"), name)?;
                mutations.push(Action::Append(HeaderValueOption {
                    header: Some(header),
                    append_action: how as i32,
                    ..HeaderValueOption::default()
                }));
            }
        }
        let removed = remove.as_deref().unwrap_or_default();
        spec::at_most(removed, &format!("{field}.remove"), MOST_HEADERS)?;
        for (index, name) in removed.iter().enumerate() {
            let name = header::modifiable_name(name).map_err(Refused::at(&format!("{field}.remove[{index}]")))?;
            mutations.push(Action::Remove(name));
        }
        Ok(mutations.into_iter().map(|action| HeaderMutation { action: Some(action) }).collect())
    }
}

impl Header {
    fn read(&self, field: &str, read_name: Name) -> Result<HeaderValue, Refused> {
        if self.secret_ref.is_some() {
            let message =
                "values from Secrets are not served yet; write a value that is no secret, or remove the entry";
            return Err(Refused::new(&format!("{field}.secretRef"), message));
        }
        let (Some(name), Some(value)) = (&self.name, &self.value) else {
            return Err(Refused::new(field, "it must have both name and value"));
        };
        let key = read_name(name).map_err(Refused::at(&format!("{field}.name")))?;
        let value = header::value(value).map_err(Refused::at(&format!("{field}.value")))?;
        Ok(HeaderValue { key, value, ..HeaderValue::default() })
    }
}
