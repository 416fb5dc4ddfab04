//! What templates come to for the program in proxies, `transformation.lua`: data, which it interprets.

use envoy::slots;
use envoy_types::pb::{
    envoy::extensions::filters::http::lua::v3::LuaPerRoute,
    google::protobuf::{ListValue, Struct, Value, value::Kind},
};
use ir::rule::Slot;

use super::{
    Change, Changes,
    template::{Expression, Function},
};

/// The form of what is written here, which the program must know.
const VERSION: &str = "1";

/// What one slot says; none where nothing is changed.
pub(super) fn slot(request: &[Change], response: &[Change]) -> Option<Slot> {
    if request.is_empty() && response.is_empty() {
        return None;
    }
    let mut kept = Vec::new();
    let request = request.iter().map(|change| item(change, &mut None)).collect();
    let response = response.iter().map(|change| item(change, &mut Some(&mut kept))).collect();
    let kept = kept.into_iter().map(texts).collect();
    let all = list(vec![text(VERSION.into()), list(request), list(response), list(kept)]);
    // One field: a map of more has no order.
    let context = Struct { fields: [("t".to_owned(), all)].into() };
    Some(slots::slot(
        slots::TRANSFORMATION_LUA,
        &LuaPerRoute { filter_context: Some(context), ..LuaPerRoute::default() },
    ))
}

/// How many instructions some changes come to, and of how many bytes.
pub(super) fn size(changes: &[Change]) -> (usize, usize) {
    let mut kept = Vec::new();
    let mut all = Vec::new();
    for change in changes {
        if let Change::Set(_, value) | Change::Add(_, value) | Change::Metadata(_, _, value) = change {
            compile(value, &mut Some(&mut kept), &mut all);
        }
    }
    let all = || all.iter().chain(kept.iter().flatten());
    (all().count(), all().map(String::len).sum())
}

fn text(text: String) -> Value {
    Value { kind: Some(Kind::StringValue(text)) }
}

fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

fn texts(all: Vec<String>) -> Value {
    list(all.into_iter().map(text).collect())
}

/// What is kept of a request for its response; none for a request itself.
type Kept<'a> = Option<&'a mut Vec<Vec<String>>>;

fn item(change: &Change, kept: &mut Kept<'_>) -> Value {
    let (mut all, value) = match change {
        Change::Set(name, value) => (vec!["set".to_owned(), name.clone()], Some(value)),
        Change::Add(name, value) => (vec!["add".to_owned(), name.clone()], Some(value)),
        Change::Remove(name) => (vec!["remove".to_owned(), name.clone()], None),
        Change::Metadata(namespace, key, value) => {
            (vec!["meta".to_owned(), namespace.clone(), key.clone()], Some(value))
        }
    };
    if let Some(value) = value {
        compile(value, kept, &mut all);
    }
    texts(all)
}

fn compile(expression: &Expression, kept: &mut Kept<'_>, all: &mut Vec<String>) {
    match expression {
        Expression::Text(text) => all.push(format!("={text}")),
        Expression::Joined(parts) => {
            for part in parts {
                compile(part, kept, all);
            }
            all.push(format!("~{}", parts.len()));
        }
        Expression::Part(whole, start, length) => {
            compile(whole, kept, all);
            all.push(format!("u{start}:{}", length.map(|length| length.to_string()).unwrap_or_default()));
        }
        Expression::Call(function, texts) => {
            if let Some(kept) = kept.as_mut().filter(|_| function.is_of_request()) {
                let mut own = Vec::new();
                compile(expression, &mut None, &mut own);
                let index = kept.iter().position(|known| *known == own).unwrap_or_else(|| {
                    kept.push(own);
                    kept.len() - 1
                });
                all.push(format!("k{}", index + 1));
                return;
            }
            for text in texts {
                compile(text, kept, all);
            }
            let letter = Function::ALL.iter().find(|(known, ..)| known == function).map(|(.., letter)| *letter);
            all.extend(letter.map(String::from));
        }
    }
}

/// What a route says in the slot, in words; none if it says nothing there.
pub(super) fn said(per_route: &LuaPerRoute) -> Option<String> {
    let all = strings(per_route.filter_context.as_ref()?.fields.get("t")?)?;
    let [_, request, response, kept] = all.as_slice() else { return None };
    let kept: Vec<String> = lists(kept).iter().map(|own| words(own, &[], "request_header")).collect();
    let of = |what: &str, changes: &Value, kept: &[String]| {
        let words: Vec<_> = lists(changes).iter().filter_map(|change| changed(change, kept)).collect();
        (!words.is_empty()).then(|| format!("{what}: {}", words.join(", ")))
    };
    let directions = [of("request", request, &[]), of("response", response, &kept)];
    Some(directions.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

fn strings(value: &Value) -> Option<Vec<Value>> {
    match value.kind.as_ref()? {
        Kind::ListValue(list) => Some(list.values.clone()),
        _ => None,
    }
}

fn lists(value: &Value) -> Vec<Vec<String>> {
    let text = |value: Value| match value.kind {
        Some(Kind::StringValue(text)) => Some(text),
        _ => None,
    };
    let lists = strings(value).unwrap_or_default();
    lists.iter().filter_map(strings).map(|list| list.into_iter().filter_map(text).collect()).collect()
}

fn changed(change: &[String], kept: &[String]) -> Option<String> {
    let (kind, rest) = change.split_first()?;
    let (name, rest) = rest.split_first()?;
    Some(match (&**kind, rest) {
        ("remove", _) => format!("remove {name}"),
        ("meta", [key, value @ ..]) => format!("metadata {name} {key}: {}", words(value, kept, "header")),
        (_, [value]) if value.starts_with('=') => format!("{kind} {name}: {}", &value[1..]),
        _ => format!("{kind} {name}: {}", words(rest, kept, "header")),
    })
}

/// What instructions make, as it is written in templates.
fn words(instructions: &[String], kept: &[String], header: &str) -> String {
    let mut stack: Vec<String> = Vec::new();
    for instruction in instructions {
        let mut chars = instruction.chars();
        let letter = chars.next().unwrap_or_default();
        let operand = chars.as_str();
        let said = match letter {
            '=' => format!("{operand:?}"),
            'k' => operand
                .parse()
                .ok()
                .and_then(|index: usize| kept.get(index.checked_sub(1)?))
                .cloned()
                .unwrap_or_default(),
            '~' => {
                let count: usize = operand.parse().unwrap_or_default();
                stack.split_off(stack.len().saturating_sub(count)).join(" ~ ")
            }
            'u' => {
                let whole = stack.pop().unwrap_or_default();
                let numbers = operand.trim_end_matches(':').replace(':', ", ");
                format!("substring({whole}, {numbers})")
            }
            _ => {
                let function = Function::ALL.iter().find(|(.., known)| *known == letter);
                let (name, count) = function.map_or(("", 0), |(_, name, count, _)| (*name, *count));
                let name = if letter == 'h' { header } else { name };
                let texts = stack.split_off(stack.len().saturating_sub(count));
                format!("{name}({})", texts.join(", "))
            }
        };
        stack.push(said);
    }
    stack.pop().unwrap_or_default()
}

impl Changes {
    /// Whether they need no program: plain texts in headers.
    pub(super) fn are_plain(&self) -> bool {
        self.request.iter().chain(&self.response).all(|change| match change {
            Change::Set(name, value) | Change::Add(name, value) => {
                !name.starts_with(':') && matches!(value, Expression::Text(_))
            }
            Change::Remove(_) => true,
            Change::Metadata(..) => false,
        })
    }
}
