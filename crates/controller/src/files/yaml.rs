//! Text of a manifest file to documents, with the places they stand at.
//!
//! A file is cut at its document markers before it is parsed: a line that starts with `---` ends a document wherever
//! it stands (YAML 1.2, `c-forbidden`), so that a file of ten thousand documents in which one changed is parsed for
//! that one alone.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::{
    Error, ExternalMessageSource, Localizer, Location, Options, Spanned, UserMessageFormatter, budget::BudgetBreach,
    granit_parser::ErrorKind,
};

/// A line and a column of a file, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in characters.
    pub column: u32,
}

impl Position {
    /// Where a file begins.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The same place, `lines` further down.
    pub fn below(self, lines: u32) -> Self {
        Self { line: self.line.saturating_add(lines), ..self }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Why a text is no YAML (or no JSON).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {message}")]
pub struct SyntaxError {
    /// Where.
    pub position: Position,
    /// The parser's message; never an excerpt of the text, which may hold a private key.
    pub message: String,
}

impl SyntaxError {
    /// The same error in a text that begins `lines` further up.
    #[must_use]
    pub fn below(self, lines: u32) -> Self {
        Self { position: self.position.below(lines), ..self }
    }
}

/// One document: its value, and where it begins within the text it was parsed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// Its value.
    pub value: Value,
    /// Where its first node stands.
    pub position: Position,
}

/// A piece of a file that holds whole documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The text.
    pub text: &'a str,
    /// How many lines of the file precede it.
    pub lines_before: u32,
}

/// Cuts a file at its document markers. Together the chunks are the file.
pub fn chunks(text: &str) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    let mut offset = 0;
    // Directives (`%YAML`) and comments before a marker belong to the document that the marker begins.
    let mut only_preamble = true;
    for (line_number, line) in (0..).zip(text.split_inclusive('\n')) {
        let marker = is_marker(line, "---");
        if marker && !only_preamble {
            chunks.push(Chunk { text: &text[start..offset], lines_before: start_line });
            (start, start_line) = (offset, line_number);
        }
        offset += line.len();
        let content = line.trim_start_matches('\u{feff}').trim_end();
        only_preamble = !marker && only_preamble && (content.is_empty() || content.starts_with(['%', '#']));
        if is_marker(line, "...") {
            chunks.push(Chunk { text: &text[start..offset], lines_before: start_line });
            (start, start_line) = (offset, line_number + 1);
            only_preamble = true;
        }
    }
    if start < text.len() {
        chunks.push(Chunk { text: &text[start..], lines_before: start_line });
    }
    chunks
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// How deep a manifest may be nested. What goes deepest is schemas: that of `HTTPRoute` has 24 levels.
const MAX_DEPTH: usize = 100;
/// The stack of a thread that parses, in bytes. Each level takes more than 20 kB where the compiler does not optimise.
pub const STACK: usize = 16 << 20;

/// The documents of a text; those that hold nothing are left out. For a thread with [`STACK`].
pub fn documents(text: &str) -> Result<Vec<Document>, SyntaxError> {
    let documents: Vec<Spanned<Value>> =
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| syntax_error(&error))?;
    Ok(documents
        .into_iter()
        .map(|document| Document { position: position(document.referenced), value: document.value })
        .collect())
}

/// The documents of a JSON file: one value after another.
pub fn json_documents(text: &str) -> Result<Vec<Document>, SyntaxError> {
    if let Some(end) = too_deep(text) {
        return Err(SyntaxError {
            position: advance(Position::START, &text[..end]),
            message: unparsed("JSON", TOO_DEEP),
        });
    }
    let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut documents = Vec::new();
    let (mut seen, mut at) = (0, Position::START);
    loop {
        let from = stream.byte_offset();
        match stream.next() {
            None => return Ok(documents),
            Some(Ok(value)) => {
                let begin = from + text[from..].len() - text[from..].trim_start().len();
                at = advance(at, &text[seen..begin]);
                seen = begin;
                documents.push(Document { value, position: at });
            }
            Some(Err(error)) => {
                let place = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).max(1);
                let words = error.to_string();
                let suffix = format!(" at line {} column {}", error.line(), error.column());
                return Err(SyntaxError {
                    position: Position { line: place(error.line()), column: place(error.column()) },
                    message: unparsed("JSON", words.strip_suffix(&suffix).unwrap_or(&words)),
                });
            }
        }
    }
}

/// Where JSON is nested deeper than [`MAX_DEPTH`], if it is. Brackets within strings do not count.
fn too_deep(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    text.bytes().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > MAX_DEPTH
    })
}

/// The place at the end of `text`, which begins at `from`.
fn advance(from: Position, text: &str) -> Position {
    let place = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    match text.rsplit_once('\n') {
        None => Position { column: from.column.saturating_add(place(text.chars().count())), ..from },
        Some((above, last)) => Position {
            line: from.line.saturating_add(place(above.matches('\n').count() + 1)),
            column: place(last.chars().count() + 1),
        },
    }
}

/// The places of all fields of a text. Made only where there is something to report: it costs another parse.
pub struct Places(Vec<Spanned<Tree>>);

impl Places {
    /// Reads the places; a text that does not parse has none.
    pub fn of(text: &str) -> Self {
        Self(serde_saphyr::from_multiple_with_options(text, options()).unwrap_or_default())
    }

    /// Where the field at `path` stands in document number `index`: the place of its key, or that of the nearest field
    /// above it that is there.
    pub fn locate(&self, index: usize, path: &str) -> Option<Position> {
        let document = self.0.get(index)?;
        let mut place = document.referenced;
        let mut tree = &document.value;
        for step in steps(path) {
            let found = match (tree, step) {
                (Tree::Map(entries), Step::Key(key)) => {
                    entries.iter().find(|(name, _)| name.value == key).map(|(name, value)| (name.referenced, value))
                }
                (Tree::Seq(items), Step::Index(index)) => items.get(index).map(|item| (item.referenced, &item.value)),
                _ => None,
            };
            let Some(found) = found else { break };
            (place, tree) = found;
        }
        Some(position(place))
    }
}

/// One step of the path of a field.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// Reads `spec.rules[0].matches` and `metadata.labels[app.kubernetes.io/name]`.
fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(inner) = rest.strip_prefix('[') {
            let (key, after) = inner.split_once(']').unwrap_or((inner, ""));
            let key = key.trim_matches('"');
            steps.push(key.parse().map_or_else(|_| Step::Key(key.to_owned()), Step::Index));
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end > 0 {
                steps.push(Step::Key(rest[..end].to_owned()));
            }
            rest = &rest[end..];
        }
    }
    steps
}

/// The most nodes of one chunk that anchors keep, and that aliases repeat.
const MAX_REPEATED: usize = 50_000;

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            // Bounds on one chunk of one file; an object of an API server is at most 1.5 MB.
            max_events: 20_000_000,
            max_nodes: 10_000_000,
            max_documents: 1_000_000,
            // A manifest repeats a few labels; text that repeats more is made to be dear to read.
            max_recorded_anchor_events: MAX_REPEATED,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPEATED },
        // A snippet would put lines of a Secret into logs and reports.
        with_snippet: false,
        emit_comments: false,
    }
}

fn syntax_error(error: &Error) -> SyntaxError {
    let position = error.location().map_or(Position::START, position);
    SyntaxError { position, message: unparsed("YAML", &words(error)) }
}

/// What is wrong, for authors of manifests. The place stands beside it: the text is only a part of a file.
fn words(error: &Error) -> String {
    use BudgetBreach::{AliasAnchorRatio, Aliases, Anchors, Depth, RecordedAnchorBytes, RecordedAnchorEvents};
    use Error::{AliasExpansionLimitExceeded, AliasReplayLimitExceeded, AliasReplayStackDepthExceeded};
    match error {
        Error::AliasError { error, .. } => words(error),
        Error::Budget { breach: Depth { .. }, .. } => TOO_DEEP.to_owned(),
        // The scanner has a bound of its own on brackets.
        Error::ExternalMessage { source, .. }
            if matches!(&**source, ExternalMessageSource::Parser(error)
                if matches!(error.kind(), ErrorKind::RecursionLimitExceeded)) =>
        {
            TOO_DEEP.to_owned()
        }
        AliasReplayLimitExceeded { .. }
        | AliasExpansionLimitExceeded { .. }
        | AliasReplayStackDepthExceeded { .. }
        | Error::Budget {
            breach:
                Aliases { .. }
                | Anchors { .. }
                | AliasAnchorRatio { .. }
                | RecordedAnchorEvents { .. }
                | RecordedAnchorBytes { .. },
            ..
        } => "its aliases stand for too much".to_owned(),
        Error::Budget { .. } => "it is too large".to_owned(),
        error => error.render_with_formatter(&UserMessageFormatter.with_localizer(&WithoutPlace)),
    }
}

/// Leaves the place out of the parser's messages.
struct WithoutPlace;

impl Localizer for WithoutPlace {
    fn attach_location<'a>(&self, words: Cow<'a, str>, _: Location) -> Cow<'a, str> {
        words
    }
}

const TOO_DEEP: &str = "it is nested too deeply";

fn unparsed(language: &str, words: &str) -> String {
    format!("this cannot be read as {language}: {words}; correct it, nothing of the file is taken in until then")
}

fn position(location: Location) -> Position {
    let place = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).max(1);
    Position { line: place(location.line()), column: place(location.column()) }
}

/// The skeleton of a document, with places instead of scalars.
enum Tree {
    Map(Vec<(Spanned<String>, Tree)>),
    Seq(Vec<Spanned<Tree>>),
    Leaf,
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

macro_rules! leaves {
    ($($visit:ident($($scalar:ty)?))+) => {$(
        fn $visit<E>(self $(, _: $scalar)?) -> Result<Tree, E> {
            Ok(Tree::Leaf)
        }
    )+};
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key()? {
            entries.push((key, map.next_value()?));
        }
        Ok(Tree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Tree::Seq(items))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    leaves! { visit_unit() visit_none() visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str) visit_bytes(&[u8]) }

    fn visit_enum<A: serde::de::EnumAccess<'de>>(self, data: A) -> Result<Tree, A::Error> {
        let _: (IgnoredAny, A::Variant) = data.variant()?;
        Ok(Tree::Leaf)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;
    use serde_json::json;

    use super::{Chunk, MAX_DEPTH, Places, Position, STACK, Step, chunks, documents, json_documents, steps};

    fn texts(text: &str) -> Vec<(&str, u32)> {
        chunks(text).into_iter().map(|Chunk { text, lines_before }| (text, lines_before)).collect()
    }

    #[test]
    fn a_file_is_cut_at_its_document_markers() {
        assert_eq!(
            texts("a: 1\n---\nb: 2\n--- # two\nc: 3"),
            [("a: 1\n", 0), ("---\nb: 2\n", 1), ("--- # two\nc: 3", 3)]
        );
        assert_eq!(texts("# licence\n---\na: 1\n"), [("# licence\n---\na: 1\n", 0)]);
        assert_eq!(texts("a: 1\n...\n%YAML 1.2\n---\nb: 2\n"), [("a: 1\n...\n", 0), ("%YAML 1.2\n---\nb: 2\n", 2)]);
        assert_eq!(texts("a: ---\n  ---\n---x: 1\n"), [("a: ---\n  ---\n---x: 1\n", 0)]);
        assert_eq!(texts(""), []);
    }

    #[test]
    fn empty_documents_are_left_out_and_the_others_keep_their_place() {
        let all = documents("---\n---\n# nothing\n---\n\n  a: 1\n").expect("valid");
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].value, json!({"a": 1}));
        assert_eq!(all[0].position, Position { line: 6, column: 3 });
    }

    #[test]
    fn a_syntax_error_has_its_line_and_column_and_no_excerpt() {
        let error = documents("a: 1\nkey: \"MIIEverysecret\nb: [1, 2\n").expect_err("unbalanced");
        assert!(error.position.line >= 2, "{error}");
        assert!(!error.message.contains("MIIE"), "{error}");
        assert!(!error.message.contains("at line"), "{error}");
        let error = documents("a: 1\na: 2\n").expect_err("a key twice");
        assert_eq!(error.position, Position { line: 2, column: 1 });
        assert!(error.message.contains(": duplicate mapping key `a` is not allowed here; "), "{error}");
    }

    #[test]
    fn what_is_too_much_is_reported_in_plain_words() {
        let mut aliases = String::new();
        for n in 1..12 {
            let nine = vec![format!("*a{}", n - 1); 9].join(",");
            writeln!(aliases, "a{n}: &a{n} [{nine}]").expect("a string takes it");
        }
        let too_much = documents(&format!("a0: &a0 [x,x,x,x,x,x,x,x,x]\n{aliases}")).expect_err("a billion");
        assert!(too_much.message.contains("its aliases stand for too much"), "{too_much}");
        for open in ["[", "{a: "] {
            let deep = "a: ".to_owned() + &open.repeat(1000);
            let parse =
                std::thread::Builder::new().stack_size(STACK).spawn(move || documents(&deep).expect_err("deep"));
            let error = parse.expect("a thread").join().expect("it has room enough");
            assert!(error.message.contains("it is nested too deeply"), "{error}");
        }
        let nested = |depth| "{\"a[\\\"\": [".repeat(depth / 2) + &"]}\n".repeat(depth / 2);
        json_documents(&nested(MAX_DEPTH)).expect("deep enough");
        let deep = json_documents(&nested(MAX_DEPTH + 2)).expect_err("deep");
        assert!(deep.message.contains("it is nested too deeply"), "{deep}");
    }

    #[test]
    fn aliases_repeat_a_little_and_never_grow_out_of_bounds() {
        let all = documents("labels: &l {app: web}\nselector: *l\n").expect("valid");
        assert_eq!(all[0].value["selector"], json!({"app": "web"}));
        let level = |n: usize| format!("a{n}: &a{n} [{}]\n", format!("*a{},", n - 1).repeat(10));
        let nested: String = (1..20).map(level).collect();
        let flat = format!("b: &b [{}]\nc: [{}]\n", "x,".repeat(10_000), "*b,".repeat(10_000));
        for bomb in [format!("a0: &a0 [x]\n{nested}"), flat] {
            let error = documents(&bomb).expect_err("too much");
            assert!(error.message.starts_with("this cannot be read as YAML: "), "{error}");
        }
    }

    #[test]
    fn json_files_may_hold_several_values() {
        let all = json_documents("{\"a\": 1}\n\t{\"b\":\n2}").expect("valid");
        assert_eq!(all.iter().map(|document| document.position.line).collect::<Vec<_>>(), [1, 2]);
        let error = json_documents("{\"a\": 1}\n{\"b\":").expect_err("cut off");
        assert_eq!(error.position.line, 2);
    }

    #[test]
    fn the_path_of_a_field_leads_to_its_key() {
        let text = "kind: A\n---\nspec:\n  rules:\n  - name: x\n    ports: [1, 2]\n  - {name: y}\n";
        let places = Places::of(text);
        let at = |path| places.locate(1, path).map(|position| (position.line, position.column));
        assert_eq!(at("spec.rules[0].name"), Some((5, 5)));
        assert_eq!(at("spec.rules[0].ports[1]"), Some((6, 16)));
        assert_eq!(at("spec.rules[1].name"), Some((7, 6)));
        assert_eq!(at("spec.rules[1].missing.more"), Some((7, 5)), "the nearest that is there");
        assert_eq!(at(""), Some((3, 1)));
        assert_eq!(places.locate(2, "spec"), None);
    }

    #[test]
    fn paths_take_keys_in_brackets() {
        let key = |text: &str| Step::Key(text.to_owned());
        assert_eq!(steps("metadata.labels[a.b/c]"), [key("metadata"), key("labels"), key("a.b/c")]);
        assert_eq!(steps("spec.rules[3]"), [key("spec"), key("rules"), Step::Index(3)]);
        assert_eq!(steps("[[..]"), [key("[..")]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).{0,200}", path in ".{0,40}") {
            let _ = documents(&text);
            let _ = json_documents(&text);
            let _ = Places::of(&text).locate(0, &path);
        }

        #[test]
        fn no_text_of_yaml_signs_panics(parts in prop::collection::vec(
            prop::sample::select(vec![
                "---", "...", "\n", " ", "  ", "- ", "a", "b: ", ": ", "? ", "{", "}", "[", "]", ",", "&x ", "*x", "!!binary ",
                "!t ", "|", ">", "'", "\"", "#", "%YAML 1.2", "\\", "<<: ", "1e999", "~", "\t", "\r", "\u{feff}", "@", "`",
            ]), 0..40)) {
            let text = parts.concat();
            let _ = Places::of(&text).locate(0, "a.b[0]");
            if let Ok(whole) = documents(&text) {
                // What is valid as a whole is valid in pieces, and means the same.
                let mut pieces = Vec::new();
                for chunk in chunks(&text) {
                    for document in documents(chunk.text).expect("a piece of what is valid") {
                        pieces.push(document.value);
                    }
                }
                prop_assert_eq!(pieces, whole.into_iter().map(|document| document.value).collect::<Vec<_>>());
            }
        }

        #[test]
        fn chunks_are_the_whole_text(text in "(---|\\.\\.\\.|[ \r\n#%a:]){0,60}") {
            let joined: String = chunks(&text).iter().map(|chunk| chunk.text).collect();
            prop_assert_eq!(&joined, &text);
            let mut before = 0;
            for chunk in chunks(&text) {
                prop_assert_eq!(chunk.lines_before as usize, text[..before].matches('\n').count());
                before += chunk.text.len();
            }
        }
    }
}
