//! What templates come to for the program in proxies (`envoy::extensions`): data, which it interprets.

mod compile;
#[cfg(test)]
mod costs;
mod words;

use envoy::{
    extensions::programs::{self, list, text},
    slots,
};
use envoy_types::pb::{
    envoy::extensions::filters::http::lua::v3::LuaPerRoute,
    google::protobuf::{Value, value::Kind},
};
use ir::rule::Slot;

use compile::{Compiler, Kept};
pub(super) use compile::{Needed, body_of};

use super::{Change, Changes, template::Template};

/// The form of what is written here, which the program must know.
const VERSION: &str = "1";

/// What one slot says; none where nothing is changed.
pub(super) fn slot(request: &[Change], response: &[Change]) -> Option<Slot> {
    if request.is_empty() && response.is_empty() {
        return None;
    }
    let mut kept = Vec::new();
    let request = read(request).into_iter().chain(request.iter().map(|change| item(change, None))).collect();
    let response =
        read(response).into_iter().chain(response.iter().map(|change| item(change, Some(&mut kept)))).collect();
    let kept = kept.into_iter().map(texts).collect();
    let all = list(vec![text(VERSION), list(request), list(response), list(kept)]);
    Some(programs::told(slots::TRANSFORMATION_LUA, all))
}

/// Says how the body is needed; none where it is not.
fn read(changes: &[Change]) -> Option<Value> {
    let needs = |needs: fn(&Template) -> bool| changes.iter().filter_map(Change::template).any(needs);
    let how = if needs(|template| body_of(template) == Some(Needed::Json)) {
        "j"
    } else if needs(|template| body_of(template).is_some()) {
        "s"
    } else if changes.iter().any(|change| matches!(change, Change::Body(_))) {
        "w"
    } else {
        return None;
    };
    Some(texts(vec!["read".into(), how.into()]))
}

/// How many instructions some changes come to, and of how many bytes.
pub(super) fn size(changes: &[Change]) -> (usize, usize) {
    let mut kept = Vec::new();
    let mut all = Vec::new();
    for template in changes.iter().filter_map(Change::template) {
        Compiler::compile(template, Some(&mut kept), &mut all);
    }
    let all = || all.iter().chain(kept.iter().flatten());
    (all().count(), all().map(String::len).sum())
}

fn texts(all: Vec<String>) -> Value {
    list(all.into_iter().map(text).collect())
}

fn item(change: &Change, kept: Kept<'_>) -> Value {
    let mut all = match change {
        Change::Set(name, _) => vec!["set".to_owned(), name.clone()],
        Change::Add(name, _) => vec!["add".to_owned(), name.clone()],
        Change::Remove(name) => vec!["remove".to_owned(), name.clone()],
        Change::Metadata(namespace, key, _) => vec!["meta".to_owned(), namespace.clone(), key.clone()],
        Change::Body(_) => vec!["body".to_owned()],
    };
    if let Some(template) = change.template() {
        Compiler::compile(template, kept, &mut all);
    }
    texts(all)
}

/// What a route says in the slot, in words; none if it says nothing there.
pub(super) fn said(per_route: &LuaPerRoute) -> Option<String> {
    let all = strings(programs::said(per_route)?)?;
    let [_, request, response, kept] = all.as_slice() else { return None };
    let kept: Vec<String> = lists(kept).iter().map(|own| words::expression(own, &[], "request_header")).collect();
    let of = |what: &str, changes: &Value, kept: &[String]| {
        let words: Vec<_> = lists(changes).iter().filter_map(|change| words::change(change, kept)).collect();
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

impl Changes {
    /// Whether they need no program: plain texts in headers.
    pub(super) fn are_plain(&self) -> bool {
        self.request.iter().chain(&self.response).all(|change| match change {
            Change::Set(name, value) | Change::Add(name, value) => !name.starts_with(':') && value.text().is_some(),
            Change::Remove(_) => true,
            Change::Metadata(..) | Change::Body(_) => false,
        })
    }
}
