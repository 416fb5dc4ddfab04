//! `headerModifiers`: headers of requests and responses are changed.

use std::fmt;

use api::traffic_policy::secrets::SecretKeyReference;
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
use validate::{Invalid, header};

use super::{Deep, Others, Refused, SecretReader, Unit, mutations, secret_store, spec};

/// As the CRD has it, a list.
const MOST_HEADERS: usize = 16;

/// Most bytes that a list takes from Secrets: Envoy refuses a request whose headers are larger.
const MOST_STORED: usize = 60 << 10;

/// Reads the name of a header that is set.
type ReadName = fn(&str) -> Result<String, Invalid>;

/// What headers are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderModifiers {
    /// What is written, if it names Secrets that were not read yet.
    written: Option<Box<Spec>>,
    /// None changes nothing.
    slot: Option<Slot>,
}

/// What may be written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    request: Option<Changes>,
    response: Option<Changes>,
}

/// Changes of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Changes {
    add: Option<Vec<Header>>,
    set: Option<Vec<Header>>,
    remove: Option<Vec<String>>,
}

/// A header and its value, which never shows in `Debug`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    name: Option<String>,
    value: Option<String>,
    secret_ref: Option<SecretKeyReference>,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, secret_ref, .. } = self;
        f.debug_struct("Header").field("name", name).field("secret_ref", secret_ref).finish_non_exhaustive()
    }
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

    fn read(written: Spec) -> Result<Self, Refused> {
        if written.request.is_none() && written.response.is_none() {
            return Err(Refused::new("", "it says nothing; set request or response, or remove it"));
        }
        // All but what Secrets decide.
        let read = Self::of(written.mutations(None)?);
        Ok(if written.names_secrets() { Self { written: Some(Box::new(written)), ..read } } else { read })
    }

    fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
        let mutations = self.written.as_ref().map(|written| written.mutations(Some(others.secrets)));
        mutations.map(|mutations| mutations.map(Self::of)).transpose()
    }

    fn slots(&self) -> Vec<Slot> {
        self.slot.clone().into_iter().collect()
    }

    /// One that changes nothing adds nothing to what the other does.
    fn over(&self, other: &Self) -> Option<Self> {
        let slot = mutations::after(slots::HEADER_MODIFIERS, self.slot.as_ref(), other.slot.as_ref());
        Some(Self { written: None, slot })
    }

    fn explain(route: &Route) -> Option<String> {
        mutations::said(route, slots::HEADER_MODIFIERS)
    }
}

impl HeaderModifiers {
    fn of(changed: Mutations) -> Self {
        Self { written: None, slot: mutations::slot(slots::HEADER_MODIFIERS, changed) }
    }
}

impl Spec {
    /// The lists of headers.
    fn headers(&self) -> impl Iterator<Item = &Header> {
        let changes = [&self.request, &self.response].into_iter().flatten();
        changes.flat_map(|changes| [&changes.add, &changes.set]).flatten().flatten()
    }

    fn names_secrets(&self) -> bool {
        self.headers().any(|header| header.secret_ref.is_some())
    }

    /// What changes headers; without what stands in Secrets where there are none.
    fn mutations(&self, secrets: Option<&dyn SecretReader>) -> Result<Mutations, Refused> {
        let changes = |changes: Option<&Changes>, field: &str, name: ReadName| {
            changes.map_or(Ok(Vec::new()), |all| all.read(field, name, secrets))
        };
        Ok(Mutations {
            request_mutations: changes(self.request.as_ref(), "request", header::client_name)?,
            response_mutations: changes(self.response.as_ref(), "response", header::settable_name)?,
            ..Mutations::default()
        })
    }
}

impl Changes {
    /// In the order in which they are made; `name` reads what is set.
    fn read(
        &self,
        field: &str,
        name: ReadName,
        secrets: Option<&dyn SecretReader>,
    ) -> Result<Vec<HeaderMutation>, Refused> {
        let Self { add, set, remove } = self;
        if add.is_none() && set.is_none() && remove.is_none() {
            return Err(Refused::new(field, "it says nothing; set add, set or remove, or remove it"));
        }
        let mut mutations = Vec::new();
        let mut stored = 0;
        let bytes_of = |(header, _): &(HeaderValue, bool)| header.key.len() + header.value.len();
        let written = [
            ("add", add, HeaderAppendAction::AppendIfExistsOrAdd),
            ("set", set, HeaderAppendAction::OverwriteIfExistsOrAdd),
        ];
        for (list, headers, how) in written {
            let headers = headers.as_deref().unwrap_or_default();
            spec::at_most(headers, format_args!("{field}.{list}"), MOST_HEADERS)?;
            for (index, written) in headers.iter().enumerate() {
                let headers = written.read(format_args!("{field}.{list}[{index}]"), name, secrets)?;
                // Before the rest is read: each may name all of a Secret.
                header::changes(mutations.len() + headers.len()).map_err(Refused::at(field))?;
                stored += headers.iter().filter(|(_, is_secret)| *is_secret).map(bytes_of).sum::<usize>();
                if stored > MOST_STORED {
                    let message = format!("its values from Secrets take more than {MOST_STORED} bytes; leave some out");
                    return Err(Refused::new(field, message));
                }
                mutations.extend(headers.into_iter().map(|(header, is_secret)| {
                    let header = Some(header);
                    let append_action = how as i32;
                    let mut option = HeaderValueOption { header, append_action, ..HeaderValueOption::default() };
                    if is_secret {
                        slots::mark_secret(&mut option);
                    }
                    Action::Append(option)
                }));
            }
        }
        let removed = remove.as_deref().unwrap_or_default();
        spec::at_most(removed, format_args!("{field}.remove"), MOST_HEADERS)?;
        for (index, name) in removed.iter().enumerate() {
            let name = header::modifiable_name(name).map_err(Refused::at(format_args!("{field}.remove[{index}]")))?;
            mutations.push(Action::Remove(name));
        }
        Ok(mutations.into_iter().map(|action| HeaderMutation { action: Some(action) }).collect())
    }
}

impl Header {
    /// The headers that it comes to, each with whether its value is secret.
    fn read(
        &self,
        field: fmt::Arguments<'_>,
        read_name: ReadName,
        secrets: Option<&dyn SecretReader>,
    ) -> Result<Vec<(HeaderValue, bool)>, Refused> {
        let name = self.name.as_deref();
        let read_name = |name: &str| read_name(name).map_err(Refused::at(format_args!("{field}.name")));
        match (&self.value, &self.secret_ref) {
            (Some(value), None) => {
                let without = || Refused::new(&field.to_string(), "it must have a name beside its value");
                let name = name.ok_or_else(without)?;
                let key = read_name(name)?;
                let value = header::value(value).map_err(Refused::at(format_args!("{field}.value")))?;
                Ok(vec![(HeaderValue { key, value, ..HeaderValue::default() }, false)])
            }
            (None, Some(reference)) => {
                if reference.name.is_empty() {
                    return Err(Refused::new(&format!("{field}.secretRef.name"), "it is empty; name a Secret"));
                }
                name.map(read_name).transpose()?;
                let Some(secrets) = secrets else { return Ok(Vec::new()) };
                let field = format!("{field}.secretRef");
                stored(secrets, name, reference, &field, |name| {
                    read_name(name).map_err(|refused| Refused::new(&field, refused.message))
                })
            }
            _ => Err(Refused::new(&field.to_string(), "it must have a value, beside its name, or a secretRef")),
        }
    }
}

/// Headers with values of a Secret: one under `name`, which its key has too unless it is said, or all that there are.
fn stored(
    secrets: &dyn SecretReader,
    name: Option<&str>,
    reference: &SecretKeyReference,
    field: &str,
    read_name: impl Fn(&str) -> Result<String, Refused>,
) -> Result<Vec<(HeaderValue, bool)>, Refused> {
    let refused = |why| Refused::new(field, why);
    let id = secrets.permitted(reference.namespace.as_ref(), &reference.name).map_err(refused)?;
    let header = |name: &str, key: &str| {
        let text = secret_store::value(secrets.store(), &id, key).map_err(refused)?;
        // Why is not told: it would quote the value.
        let value = header::value(text.as_str()).map_err(|_| {
            let what = format!(
                "no header can have this value; store at most {} characters, without blanks at the ends, line breaks and \
                 other control characters (`printf`, not `echo`)",
                header::MAX_VALUE
            );
            Refused::new(field, text.wrong(&what))
        })?;
        Ok((HeaderValue { key: read_name(name)?, value, ..HeaderValue::default() }, true))
    };
    match (name, reference.key.as_deref()) {
        (Some(name), key) => Ok(vec![header(name, key.unwrap_or(name))?]),
        (None, Some(key)) => Ok(vec![header(key, key)?]),
        (None, None) => {
            let secret = secret_store::find(secrets.store(), &id).map_err(refused)?;
            if secret.data.0.is_empty() {
                let message = format!("Secret {}/{} has no data; store it there", secret.namespace, secret.name);
                return Err(Refused::new(field, message));
            }
            header::changes(secret.data.0.len()).map_err(Refused::at(field))?;
            secret.data.0.keys().map(|key| header(key, key)).collect()
        }
    }
}
