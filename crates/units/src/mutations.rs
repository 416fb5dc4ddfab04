//! Changes of headers, in a slot of their own.

use envoy::{bytes::any, json::REDACTED, slots};
use envoy_types::pb::envoy::{
    config::{
        common::mutation_rules::v3::{HeaderMutation, header_mutation::Action},
        core::v3::{HeaderValue, HeaderValueOption, TypedExtensionConfig, header_value_option::HeaderAppendAction},
        route::v3::Route,
    },
    extensions::filters::http::{
        filter_chain::v3::{FilterChain, FilterChainConfigPerRoute},
        header_mutation::v3::{HeaderMutation as MutationFilter, Mutations},
    },
};
use ir::rule::Slot;
use prost::Message;

use super::spec;

/// What a wrapper says that changes headers; none where nothing is changed. The filter in it has the name of its slot.
pub(crate) fn slot(name: &'static str, mutations: Mutations) -> Option<Slot> {
    if mutations.request_mutations.is_empty() && mutations.response_mutations.is_empty() {
        return None;
    }
    let chain =
        FilterChainConfigPerRoute { filter_chain: Some(FilterChain { filters: vec![filter(name, mutations)] }) };
    Some(slots::slot(name, &chain))
}

/// What changes headers, to stand in a wrapper.
pub(crate) fn filter(name: &str, mutations: Mutations) -> TypedExtensionConfig {
    let filter = MutationFilter { mutations: Some(mutations), ..MutationFilter::default() };
    TypedExtensionConfig { name: name.into(), typed_config: Some(any(&filter)) }
}

/// What such a slot says.
fn of(slot: Option<&Slot>) -> Mutations {
    slot.and_then(spec::decoded).and_then(mutations).unwrap_or_default()
}

/// What such a slot says once what another one says is done.
pub(crate) fn after(name: &'static str, own: Option<&Slot>, other: Option<&Slot>) -> Option<Slot> {
    let (mut all, own) = (of(other), of(own));
    all.request_mutations.extend(own.request_mutations);
    all.response_mutations.extend(own.response_mutations);
    slot(name, all)
}

/// One change.
pub(crate) fn change(action: Action) -> HeaderMutation {
    HeaderMutation { action: Some(action) }
}

/// Adds a header, or has it take the place of those of its name.
pub(crate) fn append(key: String, value: String, how: HeaderAppendAction) -> HeaderMutation {
    change(Action::Append(HeaderValueOption {
        header: Some(HeaderValue { key, value, ..HeaderValue::default() }),
        append_action: how as i32,
        ..HeaderValueOption::default()
    }))
}

/// What a route says in such a slot, in words.
pub(crate) fn said(route: &Route, slot: &str) -> Option<String> {
    let mutations = mutations(spec::said(route, slot)?)?;
    let of = |what: &str, mutations: &[HeaderMutation]| {
        let words: Vec<_> = mutations.iter().filter_map(words).collect();
        (!words.is_empty()).then(|| format!("{what}: {}", words.join(", ")))
    };
    let directions = [of("request", &mutations.request_mutations), of("response", &mutations.response_mutations)];
    Some(directions.into_iter().flatten().collect::<Vec<_>>().join("; "))
}

fn mutations(slot: FilterChainConfigPerRoute) -> Option<Mutations> {
    let chain = slot.filter_chain?;
    let filter = chain.filters.first()?.typed_config.as_ref()?;
    MutationFilter::decode(&*filter.value).ok()?.mutations
}

fn words(mutation: &HeaderMutation) -> Option<String> {
    match mutation.action.as_ref()? {
        Action::Remove(name) => Some(format!("remove {name}")),
        Action::Append(option) => {
            let header = option.header.as_ref()?;
            let verb = if option.append_action() == HeaderAppendAction::AppendIfExistsOrAdd { "add" } else { "set" };
            let value = if slots::is_secret(option) { REDACTED.into() } else { header.value.replace("%%", "%") };
            Some(format!("{verb} {}: {value}", header.key))
        }
        Action::RemoveOnMatch(_) => None,
    }
}
