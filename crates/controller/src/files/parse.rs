//! Text of a manifest file to objects, completed as an API server would complete them.

use std::sync::Arc;

use api::{DecodeError, Kind, Object, ObjectId};
use ir::{Problem, Reason, Severity};
use serde_json::Value;

use super::yaml::{self, Document, Places, Position, SyntaxError};

/// A piece of a file, parsed. Places in it count from its own beginning, so that a piece that only moved is reused.
#[derive(Debug)]
pub(super) struct Piece {
    /// Of the text.
    pub(super) hash: blake3::Hash,
    /// The manifests in it, the items of lists one by one.
    pub(super) manifests: Vec<Manifest>,
}

/// One manifest of a piece.
#[derive(Debug)]
pub(super) struct Manifest {
    /// Which document of the piece.
    pub(super) document: usize,
    /// Which item, if the document is a list.
    pub(super) item: Option<usize>,
    /// Where it begins.
    pub(super) position: Position,
    /// What it is.
    pub(super) outcome: Outcome,
    /// What is wrong with it.
    pub(super) problems: Vec<(Position, Problem)>,
}

/// What a manifest is.
#[derive(Debug)]
pub(super) enum Outcome {
    /// An object.
    Object(ObjectId, Arc<Object>),
    /// An object that an API server would refuse. A policy is served as far as it can be read unless it was sound
    /// before: translation refuses it, and what it was to limit is not served without it.
    Refused(ObjectId, Option<Arc<Object>>),
    /// Nothing that has a kind; the name, if it is known.
    Unclear(Option<(String, String)>),
    /// An object of a kind that is none of ours.
    Foreign {
        /// Its namespace, `default` if none is written.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// Parses the pieces of a file, with those that are known reused.
pub(super) fn pieces(
    text: &str,
    json: bool,
    mut known: impl FnMut(&blake3::Hash) -> Option<Arc<Piece>>,
) -> Result<Vec<(u32, Arc<Piece>)>, SyntaxError> {
    let chunks = if json { vec![yaml::Chunk { text, lines_before: 0 }] } else { yaml::chunks(text) };
    let mut pieces = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let hash = blake3::hash(chunk.text.as_bytes());
        let piece = match known(&hash) {
            Some(piece) => piece,
            None => Arc::new(piece(hash, chunk.text, json).map_err(|error| error.below(chunk.lines_before))?),
        };
        pieces.push((chunk.lines_before, piece));
    }
    Ok(pieces)
}

fn piece(hash: blake3::Hash, text: &str, json: bool) -> Result<Piece, SyntaxError> {
    let documents = if json { yaml::json_documents(text)? } else { yaml::documents(text)? };
    let mut places = LazyPlaces { text, places: None };
    let mut manifests = Vec::with_capacity(documents.len());
    for (index, Document { value, position }) in documents.into_iter().enumerate() {
        match list_items(value) {
            Ok(items) => {
                for (item, value) in items.into_iter().enumerate() {
                    let position = places.locate(index, &format!("items[{item}]")).unwrap_or(position);
                    manifests.push(manifest(value, index, Some(item), position, &mut places));
                }
            }
            Err(value) => manifests.push(manifest(value, index, None, position, &mut places)),
        }
    }
    Ok(Piece { hash, manifests })
}

/// The items of a `List`, or of a list of one kind.
fn list_items(mut value: Value) -> Result<Vec<Value>, Value> {
    let is_list = value.get("kind").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("List"));
    match value.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => {
            // Items of a list of one kind may leave out the kind of the list.
            let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
            let kind = text("kind").strip_suffix("List").unwrap_or_default();
            let types = [("kind", kind), ("apiVersion", text("apiVersion"))];
            let complete = |mut item: Value| {
                if let (Value::Object(fields), false) = (&mut item, kind.is_empty()) {
                    for (field, text) in types {
                        fields.entry(field).or_insert_with(|| text.into());
                    }
                }
                item
            };
            Ok(items.into_iter().map(complete).collect())
        }
        Some(items) => {
            value["items"] = items;
            Err(value)
        }
        None => Err(value),
    }
}

fn manifest(
    mut value: Value,
    document: usize,
    item: Option<usize>,
    position: Position,
    places: &mut LazyPlaces<'_>,
) -> Manifest {
    let prefix = item.map(|item| format!("items[{item}]."));
    let mut place = |field: &str| {
        let path = prefix.as_deref().unwrap_or_default().to_owned() + field;
        places.locate(document, &path).unwrap_or(position)
    };
    complete(&mut value);
    let name = name_of(&value);
    let mut problems = Vec::new();
    let outcome = match api::decode_or_targets(value) {
        Ok(decoded) => {
            let mut object = decoded.object;
            // The number of a change is counted by an API server; in files every state is the first.
            if let Some(metadata) = object.metadata_mut() {
                metadata.generation = 1;
            }
            let id = object.id();
            for field in decoded.unknown_fields {
                // What is not known and may protect something has an effect, and the object's own report has it.
                let effect = if object.keeps(&field) { "" } else { " and has no effect" };
                let message = format!("this field is not known{effect}: correct its name, or remove it");
                problems.push((place(&field), Problem::new(Severity::Ignored, Reason::UnknownField, &field, message)));
            }
            let violations = api::violations(&object);
            for violation in &violations {
                let message = match &violation.value {
                    None => violation.message.clone(),
                    Some(value) => format!("{value:?} is invalid: {}", violation.message),
                };
                let problem = Problem::new(Severity::Refused, Reason::Invalid, &violation.path, message);
                problems.push((place(&violation.path), problem));
            }
            if violations.is_empty() {
                Outcome::Object(id, Arc::new(object))
            } else {
                let limits = id.kind.is_policy();
                Outcome::Refused(id, limits.then(|| Arc::new(object)))
            }
        }
        Err((error, targets)) => refusal(error, targets, name, &mut problems, &mut place),
    };
    Manifest { document, item, position, outcome, problems }
}

/// What an API server does to every object it is given.
fn complete(value: &mut Value) {
    if let Value::Object(fields) = value {
        // A status is written by controllers, never in manifests.
        fields.remove("status");
    }
}

fn name_of(value: &Value) -> Option<(String, String)> {
    let text = |field| value.get("metadata")?.get(field)?.as_str().filter(|text| !text.is_empty());
    Some((text("namespace").unwrap_or("default").to_owned(), text("name")?.to_owned()))
}

fn refusal(
    error: DecodeError,
    targets: Option<Box<Object>>,
    name: Option<(String, String)>,
    problems: &mut Vec<(Position, Problem)>,
    place: &mut impl FnMut(&str) -> Position,
) -> Outcome {
    let message = error.to_string();
    let mut refused = |field: &str, message: String| {
        problems.push((place(field), Problem::new(Severity::Refused, Reason::Invalid, field, message)));
    };
    if let Some(violation) = error.violation() {
        refused(&violation.path, violation.message);
    }
    match error {
        DecodeError::MissingField { object, .. } | DecodeError::WrongType { object, .. } => {
            // What is wrong may be the name itself.
            if object.name.is_empty() {
                Outcome::Unclear(None)
            } else {
                Outcome::Refused(object, targets.map(Arc::from))
            }
        }
        DecodeError::UnknownKind { api_version, kind, hint } => {
            // A StatefulSet beside its routes is no mistake; a kind of a group of ours should have had effect.
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            let ours = !hint.is_empty() || Kind::ALL.iter().any(|kind| !kind.is_built_in() && kind.group() == group);
            let severity = if ours { Severity::Ignored } else { Severity::Warning };
            let remedy = if ours && hint.is_empty() { "; remove it" } else { &hint };
            let (namespace, name) = name.unwrap_or_default();
            let of = if name.is_empty() { String::new() } else { format!(" of {namespace}/{name}") };
            let message = format!(
                "{api_version} {kind} is not a kind that is read here, so this manifest{of} has no effect{remedy}"
            );
            problems.push((place("kind"), Problem::new(severity, Reason::UnknownKind, "kind", message)));
            Outcome::Foreign { namespace, name }
        }
        DecodeError::MissingType { field } => {
            refused(field, "is missing: set it to a string".to_owned());
            Outcome::Unclear(name)
        }
        DecodeError::MissingName { .. } => {
            refused("metadata.name", "is missing: every object needs a name".to_owned());
            Outcome::Unclear(None)
        }
        DecodeError::InvalidName { path, value, expected, max, .. } => {
            refused(path, format!("{value:?} must be {expected}, at most {max} characters long"));
            Outcome::Unclear(None)
        }
        DecodeError::NotAnObject { .. } => {
            refused("", message);
            Outcome::Unclear(None)
        }
    }
}

/// Where the fields of a piece stand, read when first asked for.
struct LazyPlaces<'a> {
    text: &'a str,
    places: Option<Places>,
}

impl LazyPlaces<'_> {
    fn locate(&mut self, index: usize, path: &str) -> Option<Position> {
        self.places.get_or_insert_with(|| Places::of(self.text)).locate(index, path)
    }
}

/// Where a manifest stands in its file, for faults that are found later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<super::FileKey>,
    /// Where the manifest begins.
    pub position: Position,
    pub(super) piece: usize,
    pub(super) document: usize,
    pub(super) item: Option<usize>,
}

/// Where the fields of a file's manifests stand. A file may have thousands of faults, so no piece of it is read twice.
#[derive(Default)]
pub struct FilePlaces(Vec<PiecePlaces>);

struct PiecePlaces {
    lines_before: u32,
    text: String,
    places: Option<Places>,
}

impl FilePlaces {
    /// Those of a file with this text. Its pieces are parsed when first asked for.
    pub fn of(text: &str) -> Self {
        let piece = |chunk: yaml::Chunk<'_>| PiecePlaces {
            lines_before: chunk.lines_before,
            text: chunk.text.to_owned(),
            places: None,
        };
        Self(yaml::chunks(text).into_iter().map(piece).collect())
    }

    /// Where a field of a manifest stands, if the text is that from which the manifest was loaded.
    pub fn locate(&mut self, origin: &Origin, field: &str) -> Position {
        let found = self.0.get_mut(origin.piece).and_then(|piece| {
            let prefix = origin.item.map(|item| format!("items[{item}].")).unwrap_or_default();
            let places = piece.places.get_or_insert_with(|| Places::of(&piece.text));
            Some(places.locate(origin.document, &(prefix + field))?.below(piece.lines_before))
        });
        found.unwrap_or(origin.position)
    }
}
