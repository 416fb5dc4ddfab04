//! What one rule of a route does.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    NsName,
    backend::Asked,
    filter::{Filters, HeaderModifier, Redirect},
    id::{RouteId, RouteKind},
    upstream::HashPolicy,
};

/// The object, rule and match that an Envoy route came from, which are its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source {
    /// The object.
    pub route: RouteId,
    /// The index of the rule.
    pub rule: u32,
    /// The rule's name, if it has one.
    pub rule_name: Option<Arc<str>>,
    /// The index of the match.
    pub matching: u32,
    /// Tells apart the Envoy routes of one match; zero for the first ([`crate::matching::Part::number`]).
    pub part: u32,
}

impl Source {
    /// The name of the Envoy route: `NS/NAME/RULE/MATCH`, with `/PART` behind where it is not the first of its match, and
    /// the path of its route for `NS/NAME` ([`RouteId::path`]).
    pub fn name(&self) -> String {
        let Self { route, rule, matching, part, .. } = self;
        // Put together, since every Envoy route has one and formatting it takes longer.
        let NsName { namespace, name } = &route.name;
        let [rule, matching, number] = [rule, matching, part].map(u32::to_string);
        let part = if *part == 0 { ["", ""] } else { ["/", &number] };
        [route.kind.prefix(), namespace, "/", name, "/", &rule, "/", &matching, part[0], part[1]].concat()
    }
}

/// A rule, resolved: nothing in it needs another object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Where requests go.
    pub action: Action,
    /// What is changed on the way.
    pub filters: Filters,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// Whether it is tried again.
    pub retry: Option<Retry>,
    /// Whether a client stays with a backend.
    pub session: Option<SessionPersistence>,
    /// What it says in slots of the filter chain.
    pub slots: Vec<Slot>,
    /// What only policies say of it.
    pub by_policy: PolicyFields,
}

impl Rule {
    /// What stands in place of a rule of a route of a kind, where nobody says what else does.
    pub fn broken(kind: RouteKind) -> Self {
        Self::direct_response(kind.broken_status(), "")
    }

    /// A rule that only answers: what stands in place of one that is broken.
    pub fn direct_response(status: u16, body: impl Into<Arc<str>>) -> Self {
        Self {
            action: Action::DirectResponse { status, body: body.into() },
            filters: Filters::default(),
            timeouts: Timeouts::default(),
            retry: None,
            session: None,
            slots: Vec::new(),
            by_policy: PolicyFields::default(),
        }
    }
}

/// Where requests go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// To backends by weight; at least one weight is above zero and their sum fits 32 bits.
    Forward(Vec<WeightedBackend>),
    /// Elsewhere.
    Redirect(Redirect),
    /// Nowhere.
    DirectResponse {
        /// The status code.
        status: u16,
        /// The body, at most 4,096 bytes.
        body: Arc<str>,
    },
    /// Nowhere, with an answer in which something is filled in.
    Formatted {
        /// The status code.
        status: u16,
        /// The body.
        format: BodyFormat,
    },
}

/// A body in which Envoy fills something in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BodyFormat {
    /// The body.
    pub content: BodyContent,
    /// The media type; none leaves it to the content.
    pub content_type: Option<Arc<str>>,
}

/// A text, or texts within JSON, with Envoy's command operators.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BodyContent {
    /// A text.
    Text(Arc<str>),
    /// The text of a JSON object.
    Json(Arc<str>),
}

/// One share of a rule's requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WeightedBackend {
    /// Its part of the sum of all weights.
    pub weight: u32,
    /// The cluster; none for a share whose backend is broken, which answers as [`RouteKind::broken_status`] has it.
    pub cluster: Option<Arc<str>>,
    /// Changes to request headers of this share.
    pub request_headers: HeaderModifier,
    /// Changes to response headers of this share.
    pub response_headers: HeaderModifier,
    /// A new host for this share.
    pub hostname: Option<Arc<str>>,
}

/// Gateway API `HTTPRouteTimeouts`, and what policies add. None means no timeout is set; zero means it is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timeouts {
    /// For the request as a whole, retries included.
    pub request: Option<Duration>,
    /// For one try.
    pub backend_request: Option<Duration>,
    /// For silence on a stream; none leaves it to [`Timeouts::silence`].
    pub stream_idle: Option<Duration>,
}

impl Timeouts {
    /// How long a stream may be silent that nobody said anything of, if not as long as any: a rule that asks for more time
    /// than streams may be silent by default gets it, and one that switches its timeouts off is not cut for silence either.
    pub fn silence(&self) -> Option<Duration> {
        const LONG: Duration = Duration::from_mins(5);
        let set = [self.request, self.backend_request];
        let longest = set.into_iter().flatten().max()?;
        if set.contains(&Some(Duration::ZERO)) {
            Some(Duration::ZERO)
        } else {
            (longest >= LONG).then(|| longest + Duration::from_secs(5))
        }
    }
}

/// When requests are tried again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// Envoy's conditions (`retry_on`); sorted, once each, that for `codes` included.
    pub conditions: Vec<Arc<str>>,
    /// Response codes that are tried again; sorted, once each.
    pub codes: Vec<u16>,
    /// How often at most; none leaves it to the default.
    pub attempts: Option<u32>,
    /// The longest first wait; Envoy waits a random time up to it, and doubles it from try to try.
    pub backoff: Option<Duration>,
}

impl Retry {
    /// The conditions of connections that fail.
    pub const CONNECTION: [&str; 3] = ["connect-failure", "refused-stream", "reset"];
    /// The condition that goes with `codes`.
    pub const BY_STATUS: &str = "retriable-status-codes";

    /// Gateway API `HTTPRouteRetry`: connections that fail, and `codes`, which are sorted and occur once each. `backoff` is
    /// the least wait.
    pub fn gateway_api(codes: Vec<u16>, attempts: Option<u32>, backoff: Option<Duration>) -> Self {
        let by_status = (!codes.is_empty()).then_some(Self::BY_STATUS);
        let conditions = Self::CONNECTION.into_iter().chain(by_status).map(Arc::from).collect();
        // Twice what is asked for makes the first wait what is asked for on average, which is as near as Envoy comes to a
        // least one.
        Self { conditions, codes, attempts, backoff: backoff.map(|least| least.saturating_mul(2)) }
    }
}

/// What a rule says in a slot of the filter chain. What it says never shows in `Debug`: it may be secret.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The slot.
    pub name: &'static str,
    /// An encoded `google.protobuf.Any`.
    pub config: Arc<[u8]>,
    /// How many messages, texts and lists of numbers there are in that. Many routes have one slot, of which they are counted
    /// once.
    pub parts: u64,
    /// The expressions in it, which requests are held against.
    pub patterns: Arc<[Arc<str>]>,
    /// What it refers to in the configuration of a filter, which comes to a proxy apart from the filter's listener.
    pub entry: Option<Box<ExtensionEntry>>,
    /// Whom it asks.
    pub asks: Arc<[Asked]>,
}

/// An entry in the configuration of a filter, to which slots of routes refer by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExtensionEntry {
    /// How many requests are taken in a time.
    LocalRate(LocalRate),
    /// Whose tokens are taken: those of this GatewayExtension. What it says is no part of the entry, so that nobody who refers
    /// to it is woken by a key that changes.
    Tokens(NsName),
    /// What people are logged in by that have to log in by this GatewayExtension: secrets of its own.
    Login(NsName),
    /// The tokens that such a login brings, where the GatewayExtension has them judged.
    LoginTokens(NsName),
    /// The program of this slot, which is the same for all.
    Program(&'static str),
}

/// How many requests each proxy takes in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalRate {
    /// At once.
    pub most: u32,
    /// How many more in each interval.
    pub more: u32,
    /// The interval.
    pub interval: Duration,
}

impl fmt::Display for LocalRate {
    /// The name of the entry, such as `100+10/1s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { most, more, interval } = self;
        write!(f, "{most}+{more}/{interval:?}")
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, config, patterns, entry, asks, parts: _ } = self;
        f.debug_struct("Slot")
            .field("name", name)
            .field("bytes", &config.len())
            .field("patterns", patterns)
            .field("entry", entry)
            .field("asks", asks)
            .finish()
    }
}

/// Fields of an Envoy route that no field of a rule means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyFields {
    /// Under which name Envoy counts its requests.
    pub stat_prefix: Option<StatPrefix>,
    /// Which redirects of a backend Envoy follows.
    pub internal_redirect: Option<Box<InternalRedirect>>,
    /// What host copies are for.
    pub mirror_host: MirrorHost,
    /// Whether a backend is asked under its own hostname, if it has one.
    pub auto_host_rewrite: bool,
    /// What of a request is hashed, for backends that are chosen by it.
    pub hash: Arc<[HashPolicy]>,
    /// An encoded `envoy.config.route.v3.Tracing`.
    pub tracing: Option<Arc<[u8]>>,
}

/// Redirects that Envoy follows in place of the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InternalRedirect {
    /// How often at most.
    pub most: u32,
    /// The statuses; none means 302.
    pub codes: Vec<u32>,
    /// Whether also to another scheme.
    pub cross_scheme: bool,
    /// Headers of the redirect that the next request gets, in lower case.
    pub copied: Vec<Arc<str>>,
}

/// What host a copy of a request is for: its own, unless said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MirrorHost {
    /// Another one.
    pub literal: Option<Arc<str>>,
    /// Its own with `-shadow` behind it.
    pub shadow: bool,
}

/// A name for statistics, with what is filled in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StatPrefix(pub Arc<[StatPart]>);

/// A part of a name for statistics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StatPart {
    /// A text.
    Text(Arc<str>),
    /// The namespace of the route that has the rule.
    RouteNamespace,
    /// The name of that route.
    RouteName,
    /// The rule's name; nothing where it has none.
    RuleName,
}

impl StatPrefix {
    /// The name for a rule. Dots part it into segments, and empty ones are left out; it may be empty.
    pub fn of(&self, source: &Source) -> String {
        let part = |part: &StatPart| match part {
            StatPart::Text(text) => text.to_string(),
            StatPart::RouteNamespace => source.route.namespace().to_string(),
            StatPart::RouteName => source.route.name.name.to_string(),
            StatPart::RuleName => source.rule_name.as_deref().unwrap_or_default().to_owned(),
        };
        let filled: String = self.0.iter().map(part).collect();
        filled.split('.').filter(|segment| !segment.is_empty()).collect::<Vec<_>>().join(".")
    }
}

/// Gateway API `SessionPersistence`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionPersistence {
    /// What carries the session.
    pub carrier: SessionCarrier,
}

/// What carries a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionCarrier {
    /// A cookie.
    Cookie {
        /// Its name; none means one that no other rule has.
        name: Option<Arc<str>>,
        /// The path it is sent for.
        path: Arc<str>,
        /// How long it lives; none makes it a session cookie.
        ttl: Option<Duration>,
    },
    /// A header.
    Header {
        /// Its name, lower case.
        name: Arc<str>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_envoy_route_tells_where_it_came_from() {
        let http = |matching, part| Source {
            route: RouteId::http("apps", "shop.v2"),
            rule: 3,
            rule_name: Some("cart".into()),
            matching,
            part,
        };
        for (source, name) in [(http(0, 0), "apps/shop.v2/3/0"), (http(12, 5), "apps/shop.v2/3/12/5")] {
            assert_eq!(source.name(), name);
        }
    }

    #[test]
    fn what_a_rule_does_not_have_leaves_no_gap_in_the_name_of_its_statistics() {
        let source = |rule_name: Option<&str>| Source {
            route: RouteId::http("apps", "shop"),
            rule: 0,
            rule_name: rule_name.map(Into::into),
            matching: 0,
            part: 0,
        };
        let (dot, dash, end) = (|| StatPart::Text(".".into()), StatPart::Text("-".into()), StatPart::Text(".x".into()));
        let prefix = StatPrefix(
            [StatPart::RouteNamespace, dash, StatPart::RouteName, dot(), StatPart::RuleName, dot(), end].into(),
        );
        assert_eq!(prefix.of(&source(Some("cart"))), "apps-shop.cart.x");
        assert_eq!(prefix.of(&source(None)), "apps-shop.x");
        assert_eq!(StatPrefix([dot(), StatPart::RuleName].into()).of(&source(None)), "");
    }
}
