//! `transformation`: headers and bodies are changed as templates say.
//!
//! Where all values are plain texts, Envoy's own filter changes the headers. Else a program does, which is the same for all
//! (`envoy::extensions`): what is written here is data to it, and nothing of a tenant is ever run.

mod program;
mod template;

use envoy::slots;
use envoy_types::pb::envoy::{
    config::{
        common::mutation_rules::v3::{HeaderMutation, header_mutation::Action},
        core::v3::header_value_option::HeaderAppendAction,
        route::v3::Route,
    },
    extensions::filters::http::{header_mutation::v3::Mutations, lua::v3::LuaPerRoute},
};
use ir::rule::Slot;
use program::Needed;
use serde::Deserialize;
use template::Template;
use validate::{Invalid, header};

use super::{Deep, Refused, Unit, mutations, spec};

/// As the CRD has it, a list.
const MOST_HEADERS: usize = 16;
/// As the CRD has it, the name of a namespace or key of metadata.
const MOST_NAME: usize = 256;
/// The most bytes of a template, and of all templates of one direction together.
const MOST_BYTES: usize = 65_536;
/// The most texts, functions and joints of all templates of one direction together.
const MOST_PARTS: usize = 1024;

/// Reads the name of a header that is set.
type Name = fn(&str) -> Result<String, Invalid>;

/// What headers are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transformation {
    changes: Changes,
    /// What says it; none changes nothing.
    slot: Option<Slot>,
}

/// The changes of both directions, in the order in which they are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Changes {
    request: Vec<Change>,
    response: Vec<Change>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// The header has this value alone.
    Set(String, Template),
    /// It has this value too.
    Add(String, Template),
    /// It goes.
    Remove(String),
    /// A namespace and a key of the request's metadata have this value.
    Metadata(String, String, Template),
    /// This stands in place of the body.
    Body(Template),
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    request: Option<Written>,
    response: Option<Written>,
}

/// Changes of one direction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(default)]
    set: Vec<Header>,
    #[serde(default)]
    add: Vec<Header>,
    #[serde(default)]
    remove: Vec<String>,
    body: Option<Body>,
    #[serde(default)]
    dynamic_metadata: Vec<Metadata>,
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

/// What is noted of a request for filters that come later, and for access logs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: MetadataValue,
}

/// Its value.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MetadataValue {
    string_value: Option<String>,
}

/// Which message is changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Response,
}

impl Unit for Transformation {
    const FIELD: &'static str = "transformation";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::TRANSFORMATION, slots::TRANSFORMATION_LUA];
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

    fn read(written: Spec) -> Result<Self, Refused> {
        let changes = |changes: Option<&Written>, direction| changes.map_or(Ok(Vec::new()), |all| all.read(direction));
        let changes = Changes {
            request: changes(written.request.as_ref(), Direction::Request)?,
            response: changes(written.response.as_ref(), Direction::Response)?,
        };
        // What they become is compared part by part, which is for as many as may be served.
        let directions = [(Direction::Request, &written.request), (Direction::Response, &written.response)];
        for (direction, all) in directions.into_iter().filter(|_| !changes.are_plain()) {
            let length = all.as_ref().map_or(0, Written::length);
            if length > MOST_BYTES {
                let message =
                    format!("its texts have {length} bytes together, and {MOST_BYTES} are the most; shorten them");
                return Err(Refused::new(direction.field(), message));
            }
        }
        let unit = Self::of(changes);
        unit.excess().map_or(Ok(unit), Err)
    }

    fn slots(&self) -> Vec<Slot> {
        self.slot.clone().into_iter().collect()
    }

    fn over(&self, other: &Self) -> Option<Self> {
        Some(Self::of(Changes {
            request: over(&self.changes.request, &other.changes.request),
            response: over(&self.changes.response, &other.changes.response),
        }))
    }

    fn excess(&self) -> Option<Refused> {
        if self.changes.are_plain() {
            return None;
        }
        let directions = [(Direction::Request, &self.changes.request), (Direction::Response, &self.changes.response)];
        directions.into_iter().find_map(|(direction, changes)| {
            let (parts, bytes) = program::size(changes);
            let message = if parts > MOST_PARTS {
                format!("its templates have {parts} parts together, and {MOST_PARTS} are the most; leave some out")
            } else if bytes > MOST_BYTES {
                format!("its templates have {bytes} bytes together, and {MOST_BYTES} are the most; shorten them")
            } else {
                return None;
            };
            Some(Refused::new(direction.field(), message))
        })
    }

    fn explain(route: &Route) -> Option<String> {
        mutations::said(route, slots::TRANSFORMATION)
            .or_else(|| program::said(&spec::said::<LuaPerRoute>(route, slots::TRANSFORMATION_LUA)?))
    }
}

impl Transformation {
    fn of(changes: Changes) -> Self {
        let slot = if changes.are_plain() {
            let of = |changes: &[Change]| changes.iter().filter_map(Change::plain).collect();
            let mutations = Mutations {
                request_mutations: of(&changes.request),
                response_mutations: of(&changes.response),
                ..Mutations::default()
            };
            mutations::slot(slots::TRANSFORMATION, mutations)
        } else {
            program::slot(&changes.request, &changes.response)
        };
        Self { changes, slot }
    }
}

/// Changes that come behind others. Of two bodies the later one stands.
fn over(preferred: &[Change], other: &[Change]) -> Vec<Change> {
    let is_body = |change: &&Change| matches!(change, Change::Body(_));
    let has_body = preferred.iter().any(|change| is_body(&change));
    other.iter().filter(|change| !(has_body && is_body(change))).chain(preferred).cloned().collect()
}

impl Change {
    /// What makes its value; none where it has none.
    fn template(&self) -> Option<&Template> {
        match self {
            Self::Set(_, value) | Self::Add(_, value) | Self::Metadata(_, _, value) | Self::Body(value) => Some(value),
            Self::Remove(_) => None,
        }
    }

    /// As Envoy's filter has it; none where it cannot.
    fn plain(&self) -> Option<HeaderMutation> {
        let append = |name: &String, value: &Template, how| {
            Some(mutations::append(name.clone(), header::escape_percent(value.text()?), how))
        };
        match self {
            Self::Set(name, value) => append(name, value, HeaderAppendAction::OverwriteIfExistsOrAdd),
            Self::Add(name, value) => append(name, value, HeaderAppendAction::AppendIfExistsOrAdd),
            Self::Remove(name) => Some(mutations::change(Action::Remove(name.clone()))),
            Self::Metadata(..) | Self::Body(_) => None,
        }
    }
}

impl Direction {
    fn field(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
        }
    }

    /// Reads the name of a header that is set.
    fn name(self) -> Name {
        match self {
            Self::Request => header::client_name,
            Self::Response => header::settable_name,
        }
    }

    /// What a template at `at` says of a message of this direction, whose body is read as `parsed`.
    fn template(self, text: &str, at: &str, parsed: Parsed) -> Result<Template, Refused> {
        if text.len() > MOST_BYTES {
            let message = format!("it has {} bytes, and {MOST_BYTES} are the most; shorten it", text.len());
            return Err(Refused::new(at, message));
        }
        let template = template::parse(text).map_err(Refused::at(at))?;
        let refused = |why: String, remedy: &str| Err(Refused::at(at)(Invalid::new(text, why, remedy)));
        if self == Self::Response && template.expressions().iter().any(|expression| expression.asks_by_message()) {
            let why = "request_header(), get_cookie() and get_cookie_i() read the request, before what header() reads of \
                       the response is known";
            return refused(why.into(), "have neither header() nor variables nor the body in the name that they read");
        }
        let field = self.field();
        match program::body_of(&template) {
            Some(Needed::Json) if parsed != Parsed::Json => {
                let what = template.reads_variables().map_or("context() is".into(), |name| {
                    format!("{} is a variable, and variables are", validate::shown(name))
                });
                let remedy = format!(
                    "set {field}.body.parseAs to AsJson, quote it if it is a text, or read a header with header(\"NAME\")"
                );
                refused(format!("{what} of the JSON of a body, which is not read"), &remedy)
            }
            Some(Needed::Text) if parsed == Parsed::Not => {
                let remedy = format!("set {field}.body.parseAs to AsString or AsJson");
                refused("body() reads the body, which is not read".into(), &remedy)
            }
            _ => Ok(template),
        }
    }
}

impl Written {
    /// Bytes of all values.
    fn length(&self) -> usize {
        let headers = self.set.iter().chain(&self.add).filter_map(|header| header.value.as_deref());
        let metadata = self.dynamic_metadata.iter().filter_map(|entry| entry.value.string_value.as_deref());
        let body = self.body.iter().filter_map(|body| body.value.as_deref());
        headers.chain(metadata).chain(body).map(str::len).sum()
    }

    /// In the order in which they are made.
    fn read(&self, direction: Direction) -> Result<Vec<Change>, Refused> {
        let field = direction.field();
        let parsed = self.body.as_ref().map_or(Ok(Parsed::Not), |body| body.parsed(field))?;
        let mut changes = Vec::new();
        // First, so that what is said of the new one stands.
        if let Some(value) = self.body.as_ref().and_then(|body| body.value.as_deref()).filter(|value| !value.is_empty())
        {
            changes.push(Change::Body(direction.template(value, &format!("{field}.body.value"), parsed)?));
        }
        spec::at_most(&self.set, format_args!("{field}.set"), MOST_HEADERS)?;
        for (index, header) in self.set.iter().enumerate() {
            changes.push(header.set(&format!("{field}.set[{index}]"), direction, parsed)?);
        }
        spec::at_most(&self.add, format_args!("{field}.add"), MOST_HEADERS)?;
        for (index, header) in self.add.iter().enumerate() {
            let at = format!("{field}.add[{index}]");
            let name = direction.name()(&header.name).map_err(Refused::at(format_args!("{at}.name")))?;
            changes.push(Change::Add(name, header.value(&at, direction, parsed)?));
        }
        spec::at_most(&self.remove, format_args!("{field}.remove"), MOST_HEADERS)?;
        for (index, name) in self.remove.iter().enumerate() {
            let name = header::modifiable_name(name).map_err(Refused::at(format_args!("{field}.remove[{index}]")))?;
            changes.push(Change::Remove(name));
        }
        spec::at_most(&self.dynamic_metadata, format_args!("{field}.dynamicMetadata"), MOST_HEADERS)?;
        for (index, metadata) in self.dynamic_metadata.iter().enumerate() {
            changes.push(metadata.read(&format!("{field}.dynamicMetadata[{index}]"), direction, parsed)?);
        }
        Ok(changes)
    }
}

/// How templates may read the body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parsed {
    Not,
    Text,
    Json,
}

impl Body {
    fn parsed(&self, field: &str) -> Result<Parsed, Refused> {
        let at = format!("{field}.body.parseAs");
        match self.parse_as.as_deref() {
            None | Some("AsString") => Ok(Parsed::Text),
            Some("AsJson") => Ok(Parsed::Json),
            Some(none @ "None") if self.value.as_ref().is_some_and(|value| !value.is_empty()) => {
                let invalid =
                    Invalid::new(none, "value would not stand in place of the body", "use AsString, or remove value");
                Err(Refused::at(&at)(invalid))
            }
            Some("None") => Ok(Parsed::Not),
            Some(other) => {
                let invalid = Invalid::new(other, "bodies are not read so", "use AsString, AsJson or None");
                Err(Refused::at(&at)(invalid))
            }
        }
    }
}

impl Header {
    /// An empty text removes the header.
    fn set(&self, at: &str, direction: Direction, parsed: Parsed) -> Result<Change, Refused> {
        let field = format!("{at}.value");
        let lower = self.name.to_ascii_lowercase();
        let value = direction.template(self.value.as_deref().unwrap_or_default(), &field, parsed)?;
        if direction == Direction::Request && START_LINE.contains(&&*lower) {
            if let Some(text) = value.text() {
                start_line(&lower, text).map_err(Refused::at(&field))?;
            }
            return Ok(Change::Set(lower, value));
        }
        let named = |name: Name| name(&self.name).map_err(Refused::at(format_args!("{at}.name")));
        if value.text() == Some("") {
            return Ok(Change::Remove(named(header::modifiable_name)?));
        }
        let name = named(direction.name())?;
        Ok(Change::Set(name, can_stand(value, &field)?))
    }

    fn value(&self, at: &str, direction: Direction, parsed: Parsed) -> Result<Template, Refused> {
        let at = format!("{at}.value");
        can_stand(direction.template(self.value.as_deref().unwrap_or_default(), &at, parsed)?, &at)
    }
}

/// Refuses what no header can have as its value, as far as that is known before a request comes.
fn can_stand(value: Template, at: &str) -> Result<Template, Refused> {
    if let Some(text) = value.text() {
        header::value(text).map(|_| ()).map_err(Refused::at(at))?;
        return Ok(value);
    }
    for text in value.texts() {
        // Blanks at its ends stand between texts here.
        let text = text.trim_matches([' ', '\t']);
        let checked = if text.is_empty() { Ok(String::new()) } else { header::value(text) };
        checked.map_err(Refused::at(at))?;
    }
    Ok(value)
}

/// What of the start line of a request can be set. Proxies check again what comes of a template.
const START_LINE: [&str; 3] = [":authority", ":method", ":path"];

/// Refuses what a proxy would refuse for each request.
fn start_line(name: &str, text: &str) -> Result<(), Invalid> {
    let (is_one, why, remedy) = match name {
        ":path" => (
            text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'),
            "a path begins with / and has neither blanks nor # nor letters outside ASCII",
            "write such a path, with %XX for what cannot stand there",
        ),
        ":authority" => (
            !text.is_empty()
                && text.len() <= 255
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte)),
            "it is no hostname with or without a port",
            "write one",
        ),
        _ => (
            !text.is_empty()
                && text.len() <= 32
                && text.starts_with(|c: char| c.is_ascii_uppercase())
                && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
                && !["CONNECT", "HEAD"].contains(&text),
            "it is no method that a request can get: one in capitals, not HEAD or CONNECT, which change what a message is",
            "write another one, such as POST",
        ),
    };
    if is_one { Ok(()) } else { Err(Invalid::new(text, why, remedy)) }
}

impl Metadata {
    fn read(&self, at: &str, direction: Direction, parsed: Parsed) -> Result<Change, Refused> {
        for (field, name) in [("namespace", &self.namespace), ("key", &self.key)] {
            let why = if name.is_empty() {
                "it is empty"
            } else if name.chars().count() > MOST_NAME {
                "it is longer than 256 characters"
            } else if name.contains('\0') {
                "it has a character that ends it"
            } else {
                continue;
            };
            let invalid = Invalid::new(name, why, "write a name of 1 to 256 characters");
            return Err(Refused::at(format_args!("{at}.{field}"))(invalid));
        }
        if self.namespace.starts_with("envoy.") || self.namespace.starts_with("portcullis.") {
            let why = "filters write there what others trust, and nobody else may";
            let invalid = Invalid::new(&self.namespace, why, "use a namespace of your own");
            return Err(Refused::at(format_args!("{at}.namespace"))(invalid));
        }
        let field = format!("{at}.value.stringValue");
        let Some(text) = self.value.string_value.as_deref().filter(|text| !text.is_empty()) else {
            return Err(Refused::new(&field, "it is empty; write what the metadata says, or remove the entry"));
        };
        if text.contains('\0') {
            return Err(Refused::new(&field, "it has a character that ends it; remove the character"));
        }
        let value = direction.template(text, &field, parsed)?;
        Ok(Change::Metadata(self.namespace.clone(), self.key.clone(), value))
    }
}
