//! `acl`: from which addresses requests are taken.
//!
//! The address is that of the client as the listener knows it: of who connected, or, behind trusted hops, what they say in
//! `X-Forwarded-For`. Hops may write IPv4 addresses as IPv6 ones, which Envoy takes for others, so each IPv4 range stands
//! in both forms.

mod ranges;

use std::{collections::BTreeMap, sync::Arc};

use envoy::{bytes::any, slots};
use envoy_types::pb::{
    envoy::{
        config::{
            common::mutation_rules::v3::{HeaderMutation, header_mutation::Action as Mutation},
            core::v3::{
                CidrRange, HeaderValue, HeaderValueOption, TypedExtensionConfig,
                header_value_option::HeaderAppendAction,
            },
            route::v3::Route,
        },
        extensions::{
            filters::http::{
                composite::v3::{CompositePerRoute, ExecuteFilterAction, FilterChainConfiguration},
                fault::v3::{FaultAbort, HttpFault, fault_abort::ErrorType},
                header_mutation::v3::{HeaderMutation as MutationFilter, Mutations},
                set_metadata::v3::{Config as SetMetadata, Metadata},
            },
            matching::{common_inputs::network::v3::SourceIpInput, input_matchers::ip::v3::Ip},
        },
    },
    google::protobuf::{Any, Struct, UInt32Value, Value as ProtoValue, value::Kind},
    xds::{
        core::v3::TypedExtensionConfig as XdsExtension,
        r#type::matcher::v3::{
            Matcher,
            matcher::{
                MatcherList, MatcherType, OnMatch,
                matcher_list::{
                    FieldMatcher, Predicate,
                    predicate::{MatchType, SinglePredicate, single_predicate},
                },
                on_match,
            },
        },
    },
};
use ir::rule::Slot;
use prost::{Message, Name};
use serde::Deserialize;
use validate::{Invalid, cidr, cidr::Cidr, header, number};

use super::{Deep, Refused, Unit, spec};

/// As the CRD has it.
const MOST_RULES: usize = 256;
const MOST_HEADERS: usize = 16;

/// Ranges of all rules together. A proxy keeps some hundred bytes for each, and looks at them on its main thread at every
/// change of routes, once a route.
pub(crate) const MOST_RANGES: usize = 1024;

/// Where what a request was refused by is found in dynamic metadata.
const NAMESPACE: &str = "dev.kgateway.http.acl";
const BLOCKED_BY: &str = "blocked-by";

/// What refuses a request for want of a rule with a name, and for want of any.
const UNNAMED: &str = "rule";
const DEFAULT: &str = "default";

/// The status of requests that are refused.
const FORBIDDEN: u32 = 403;

/// The body of the answer: no client learns more than that.
const BODY: &str = "access denied";

/// A chain that no listener has: Envoy leaves what names it alone.
const NOTHING: &str = "nothing";

/// By what a request is refused; none where it is taken.
type Outcome = Option<Arc<str>>;

/// From which addresses requests are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    said: Arc<Config>,
    /// None where all are taken.
    slot: Option<Slot>,
}

/// What is said.
#[derive(Debug, PartialEq, Eq)]
struct Config {
    /// What becomes of addresses of each range.
    ranges: BTreeMap<Cidr, Outcome>,
    /// What becomes of others.
    otherwise: Outcome,
    answer: Answer,
}

/// The answer to requests that are refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Answer {
    status: Option<u32>,
    headers: Vec<(String, String)>,
    /// The header that says by what.
    blocked_by: Option<String>,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    default_action: Option<String>,
    #[serde(default)]
    rules: Vec<Rule>,
    deny_response: Option<DenyResponse>,
}

/// What becomes of requests from some addresses.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    name: Option<String>,
    cidrs: Vec<String>,
    action: Option<String>,
}

/// How requests are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DenyResponse {
    status_code: Option<i64>,
    #[serde(default)]
    headers: Vec<Header>,
    blocked_by_header_name: Option<String>,
}

/// A header and its value.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Header {
    name: String,
    value: String,
}

impl Unit for Acl {
    const FIELD: &'static str = "acl";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::ACL];
    /// Rules have their ranges as keys. Where what there is but once contradicts, nothing is merged.
    const DEEP: Deep = Deep::Leaves;
    const ADDS_UP: bool = true;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"defaultAction": "deny", "rules": [{"cidrs": ["10.0.0.0/8", "10.1.0.0/16"], "action": "allow"}]}"#,
        other: r#"{
            "defaultAction": "deny",
            "rules": [{"cidrs": ["10.1.0.0/16"], "action": "deny"}, {"cidrs": ["::1"], "action": "allow"}],
            "denyResponse": {"statusCode": 404}
        }"#,
        merged: Some((
            r#"{
                "defaultAction": "deny",
                "rules": [{"cidrs": ["10.0.0.0/8", "10.1.0.0/16", "::1"], "action": "allow"}],
                "denyResponse": {"statusCode": 404}
            }"#,
            r#"{
                "defaultAction": "deny",
                "rules": [{"cidrs": ["10.0.0.0/8", "::1"], "action": "allow"}, {"cidrs": ["10.1.0.0/16"], "action": "deny"}],
                "denyResponse": {"statusCode": 404}
            }"#,
        )),
        off: None,
        refused: Some(r#"{"defaultAction": "deny", "rules": [{"cidrs": ["10.0.0.1/8"], "action": "allow"}]}"#),
    };
    type Spec = Spec;

    fn read(written: Spec) -> Result<Self, Refused> {
        let answer = written.deny_response.as_ref().map_or(Ok(Answer::default()), DenyResponse::read)?;
        let (ranges, otherwise) = written.ranges()?;
        Ok(Self::of(Config { ranges, otherwise, answer }))
    }

    fn slots(&self) -> Vec<Slot> {
        self.slot.clone().into_iter().collect()
    }

    fn over(&self, other: &Self) -> Option<Self> {
        let (own, other) = (&*self.said, &*other.said);
        let answer = own.answer.over(&other.answer)?;
        if own.otherwise != other.otherwise {
            return None;
        }
        let mut ranges = other.ranges.clone();
        // Of what the preferred side refuses, the other lets no part through.
        ranges.retain(|range, outcome| {
            let around = own.ranges.iter().rfind(|(own, _)| own.covers(*range));
            outcome.is_some() || around.is_none_or(|(_, own)| own.is_none())
        });
        ranges.extend(own.ranges.iter().map(|(range, outcome)| (*range, outcome.clone())));
        Some(Self::of(Config { ranges, otherwise: own.otherwise.clone(), answer }))
    }

    /// Nobody knows which to leave out.
    fn excess(&self) -> Option<Refused> {
        let count = self.said.ranges.len();
        (count > MOST_RANGES).then(|| {
            let message = format!(
                "{count} ranges come together here, and {MOST_RANGES} are the most; join some to wider ones, or leave some out"
            );
            Refused::new("rules", message)
        })
    }

    fn explain(route: &Route) -> Option<String> {
        words(&spec::said::<CompositePerRoute>(route, slots::ACL)?.matcher?)
    }
}

impl Acl {
    fn of(said: Config) -> Self {
        let mut ranges = said.ranges.clone();
        // An IPv4 address in the form of IPv6 counts to no IPv6 range.
        ranges.entry(Cidr::V4).or_insert_with(|| said.otherwise.clone());
        let ordered = ranges::in_order(&ranges, &said.otherwise);
        let matchers = ordered.iter().map(|(outcome, ranges)| FieldMatcher {
            predicate: Some(lies_in(ranges)),
            on_match: Some(said.answer.on_match(outcome.as_deref())),
        });
        let matchers = MatcherList { matchers: matchers.collect() };
        let takes_all = matchers.matchers.is_empty() && said.otherwise.is_none();
        let matcher = Matcher {
            on_no_match: said.otherwise.as_deref().map(|by| Box::new(said.answer.on_match(Some(by)))),
            matcher_type: (!matchers.matchers.is_empty()).then_some(MatcherType::MatcherList(matchers)),
        };
        let slot = || slots::slot(slots::ACL, &CompositePerRoute { matcher: Some(matcher) });
        Self { slot: (!takes_all).then(slot), said: Arc::new(said) }
    }
}

impl Spec {
    /// What becomes of addresses of each range, and of others. For a range that is there twice the last counts.
    fn ranges(&self) -> Result<(BTreeMap<Cidr, Outcome>, Outcome), Refused> {
        spec::at_most(&self.rules, "rules", MOST_RULES)?;
        let count: usize = self.rules.iter().map(|rule| rule.cidrs.len()).sum();
        if count > MOST_RANGES {
            let message = format!(
                "they have {count} ranges, and {MOST_RANGES} are the most; join some to wider ones, or leave some out"
            );
            return Err(Refused::new("rules", message));
        }
        let mut ranges = BTreeMap::new();
        for (index, rule) in self.rules.iter().enumerate() {
            let at = format!("rules[{index}]");
            if rule.cidrs.is_empty() {
                return Err(Refused::new(&format!("{at}.cidrs"), "it is empty; name a range, or remove the rule"));
            }
            let name = rule.name.as_deref().filter(|name| !name.is_empty());
            if let Some(name) = name {
                // It may become the value of a header.
                let checked = header::at_most_name(name).and_then(|()| header::value(name));
                checked.map_err(Refused::at(format_args!("{at}.name")))?;
            }
            let denies = denies(rule.action.as_deref(), &format!("{at}.action"))?;
            let outcome = denies.then(|| name.unwrap_or(UNNAMED).into());
            for (position, text) in rule.cidrs.iter().enumerate() {
                let range = cidr::parse(text).map_err(Refused::at(format_args!("{at}.cidrs[{position}]")))?;
                ranges.insert(range, outcome.clone());
            }
        }
        let denies = denies(self.default_action.as_deref(), "defaultAction")?;
        Ok((ranges, denies.then(|| DEFAULT.into())))
    }
}

/// Reads an action: whether requests are refused.
fn denies(action: Option<&str>, field: &str) -> Result<bool, Refused> {
    match action {
        Some("allow") => Ok(false),
        Some("deny") => Ok(true),
        Some(other) => Err(Refused::at(field)(Invalid::new(other, "it is no action", "use allow or deny"))),
        None => Err(Refused::new(field, "missing; set it to allow or deny")),
    }
}

impl DenyResponse {
    fn read(&self) -> Result<Answer, Refused> {
        let Self { status_code, headers, blocked_by_header_name } = self;
        if status_code.is_none() && headers.is_empty() && blocked_by_header_name.is_none() {
            let message = "it says nothing; set statusCode, headers or blockedByHeaderName, or remove it";
            return Err(Refused::new("denyResponse", message));
        }
        let status = status_code.map(number::response_status).transpose();
        let status = status.map_err(Refused::at("denyResponse.statusCode"))?;
        spec::at_most(headers, "denyResponse.headers", MOST_HEADERS)?;
        let mut read = Vec::with_capacity(headers.len());
        for (index, written) in headers.iter().enumerate() {
            let at = |field: &str| format!("denyResponse.headers[{index}].{field}");
            let name = header::settable_name(&written.name).map_err(Refused::at(&at("name")))?;
            let value = header::value(&written.value).map_err(Refused::at(&at("value")))?;
            read.push((name, value));
        }
        let blocked_by = blocked_by_header_name.as_deref().map(header::settable_name).transpose();
        let blocked_by = blocked_by.map_err(Refused::at("denyResponse.blockedByHeaderName"))?;
        Ok(Answer { status, headers: read, blocked_by })
    }
}

impl Answer {
    /// What becomes of it where another one is merged; none where they contradict.
    fn over(&self, other: &Self) -> Option<Self> {
        fn agree<T: PartialEq>(own: Option<&T>, other: Option<&T>) -> bool {
            own.is_none() || other.is_none() || own == other
        }
        let (by, others) = (self.blocked_by.as_ref(), other.blocked_by.as_ref());
        if !agree(self.status.as_ref(), other.status.as_ref()) || !agree(by, others) {
            return None;
        }
        let further = other.headers.iter().filter(|(name, _)| self.headers.iter().all(|(own, _)| own != name));
        Some(Self {
            status: self.status.or(other.status),
            headers: self.headers.iter().chain(further).cloned().collect(),
            blocked_by: by.or(others).cloned(),
        })
    }

    /// What is done with a request that is refused by what is named, or taken.
    fn on_match(&self, refused_by: Option<&str>) -> OnMatch {
        let action = match refused_by {
            Some(by) => ExecuteFilterAction {
                filter_chain: Some(FilterChainConfiguration { typed_config: self.filters(by) }),
                ..ExecuteFilterAction::default()
            },
            None => ExecuteFilterAction { filter_chain_name: NOTHING.into(), ..ExecuteFilterAction::default() },
        };
        let name = if refused_by.is_some() { "deny" } else { "allow" };
        let action = XdsExtension { name: name.into(), typed_config: Some(any(&action)) };
        OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..OnMatch::default() }
    }

    /// The filters that answer.
    fn filters(&self, by: &str) -> Vec<TypedExtensionConfig> {
        let value = ProtoValue { kind: Some(Kind::StringValue(by.into())) };
        let metadata = Metadata {
            metadata_namespace: NAMESPACE.into(),
            value: Some(Struct { fields: [(BLOCKED_BY.to_owned(), value)].into() }),
            ..Metadata::default()
        };
        let abort = FaultAbort {
            percentage: Some(spec::fraction(100)),
            response_body: BODY.into(),
            error_type: Some(ErrorType::HttpStatus(self.status.unwrap_or(FORBIDDEN))),
        };
        let abort = HttpFault { abort: Some(abort), disable_downstream_cluster_stats: true, ..HttpFault::default() };
        let blocked_by = self.blocked_by.iter().map(|name| (name.clone(), header::escape_percent(by)));
        let headers: Vec<_> = self.headers.iter().cloned().chain(blocked_by).collect();
        let mut filters =
            vec![filter("metadata", any(&SetMetadata { metadata: vec![metadata], ..SetMetadata::default() }))];
        if !headers.is_empty() {
            let mutations = headers.iter().enumerate().map(|(index, (name, value))| {
                // The first of its name takes the place of what Envoy writes.
                let is_first = headers[..index].iter().all(|(other, _)| other != name);
                HeaderMutation { action: Some(Mutation::Append(header_option(name, value, is_first))) }
            });
            let mutations = Mutations { response_mutations: mutations.collect(), ..Mutations::default() };
            let mutation = MutationFilter { mutations: Some(mutations), ..MutationFilter::default() };
            filters.push(filter("headers", any(&mutation)));
        }
        filters.push(filter("abort", any(&abort)));
        filters
    }
}

fn filter(name: &str, config: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.into(), typed_config: Some(config) }
}

fn header_option(name: &str, value: &str, overwrites: bool) -> HeaderValueOption {
    let how =
        if overwrites { HeaderAppendAction::OverwriteIfExistsOrAdd } else { HeaderAppendAction::AppendIfExistsOrAdd };
    HeaderValueOption {
        header: Some(HeaderValue { key: name.into(), value: value.into(), ..HeaderValue::default() }),
        append_action: how as i32,
        ..HeaderValueOption::default()
    }
}

/// Whether the client's address lies in one of these.
fn lies_in(ranges: &[Cidr]) -> Predicate {
    let both = ranges.iter().flat_map(|range| [Some(range.parts()), range.is_v4().then(|| range.v6_parts())]);
    let cidr_ranges = both.flatten().map(|(address, length)| CidrRange {
        address_prefix: address.to_string(),
        prefix_len: Some(UInt32Value { value: length.into() }),
    });
    let matcher = Ip { cidr_ranges: cidr_ranges.collect(), stat_prefix: "acl".into() };
    let extension = |name: &str, config: Any| XdsExtension { name: name.into(), typed_config: Some(config) };
    let predicate = SinglePredicate {
        input: Some(extension("source", any(&SourceIpInput {}))),
        matcher: Some(single_predicate::Matcher::CustomMatch(extension("ranges", any(&matcher)))),
    };
    Predicate { match_type: Some(MatchType::SinglePredicate(predicate)) }
}

/// How many ranges of an entry are told.
const MOST_TOLD: usize = 8;

fn words(matcher: &Matcher) -> Option<String> {
    let list = match &matcher.matcher_type {
        Some(MatcherType::MatcherList(list)) => &*list.matchers,
        _ => &[],
    };
    let otherwise = matcher.on_no_match.as_deref().map_or_else(|| Some("taken".into()), becomes)?;
    let mut parts: Vec<String> = list.iter().map(entry_words).collect::<Option<_>>()?;
    parts.push(format!("any other address: {otherwise}"));
    Some(parts.join("; "))
}

fn entry_words(entry: &FieldMatcher) -> Option<String> {
    let MatchType::SinglePredicate(predicate) = entry.predicate.as_ref()?.match_type.as_ref()? else { return None };
    let single_predicate::Matcher::CustomMatch(matcher) = predicate.matcher.as_ref()? else { return None };
    let ranges = unpacked::<Ip>(matcher.typed_config.as_ref()?)?.cidr_ranges;
    // Each IPv4 range is there in both forms.
    let ranges = ranges.iter().filter(|range| !range.address_prefix.starts_with("::ffff:"));
    let mut ranges: Vec<_> = ranges
        .map(|range| format!("{}/{}", range.address_prefix, range.prefix_len.map_or(0, |length| length.value)))
        .collect();
    if ranges.len() > MOST_TOLD {
        let others = ranges.len() - MOST_TOLD;
        ranges.truncate(MOST_TOLD);
        ranges.push(format!("{others} more"));
    }
    Some(format!("{}: {}", ranges.join(", "), becomes(entry.on_match.as_ref()?)?))
}

/// What becomes of requests.
fn becomes(on_match: &OnMatch) -> Option<String> {
    let on_match::OnMatch::Action(action) = on_match.on_match.as_ref()? else { return None };
    let action = unpacked::<ExecuteFilterAction>(action.typed_config.as_ref()?)?;
    let Some(chain) = action.filter_chain else { return Some("taken".into()) };
    let configs = || chain.typed_config.iter().filter_map(|filter| filter.typed_config.as_ref());
    let Some(ErrorType::HttpStatus(status)) = configs().find_map(unpacked::<HttpFault>)?.abort?.error_type else {
        return None;
    };
    let metadata = configs().find_map(unpacked::<SetMetadata>)?.metadata.into_iter().next()?.value?;
    let Kind::StringValue(by) = metadata.fields.get(BLOCKED_BY)?.kind.as_ref()? else { return None };
    Some(format!("{status}, blocked by {by}"))
}

fn unpacked<M: Message + Name + Default>(config: &Any) -> Option<M> {
    (config.type_url == M::type_url()).then(|| M::decode(&*config.value).ok()).flatten()
}
