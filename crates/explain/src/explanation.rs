//! What is said of a request.

pub(crate) mod text;

use ir::{RouteId, RouteKind, listener::ClientMode};
use serde::Serialize;

use crate::{finding::Finding, served_route::Share, words::path};

/// What becomes of a request. Prints as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `NAMESPACE/NAME`.
    pub gateway: String,
    /// The method, and the URL as it was given.
    pub request: String,
    /// Path and query string as they are routed, where that is not what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalised: Option<String>,
    /// The listener whose routes are tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<MatchedListener>,
    /// The domain of the virtual host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_host: Option<String>,
    /// The rule and match that takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf: Option<Leaf>,
    /// The way there, the root first and the leaf last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Link>,
    /// Why what is served is not what is there now, where it is the last good version: of the tree of routes, and of the
    /// policies of the Gateway.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub frozen: Vec<Finding>,
    /// The routes on the way that are not in force as they are written, since this program fails on them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<Finding>,
    /// What comes of it.
    pub outcome: Outcome,
    /// What is done to the request and its response, and by whom.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Effect>,
    /// The routes that were tried.
    pub tried: Tried,
}

/// The listener that answers for the host of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MatchedListener {
    /// Its section name.
    pub name: String,
    /// The Gateway's port.
    pub port: u16,
    /// Its hostname; `*` for any.
    pub hostname: String,
    /// What is asked of certificates of clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientsWord>,
    /// The policies that say how it takes connections and requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ListenerWord>,
}

const VALID_ONLY: &str = "AllowValidOnly";

/// What a listener asks of certificates of clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClientsWord {
    /// The objects with the authorities that vouch for them.
    pub authorities: Vec<String>,
    /// Who is let in: `AllowValidOnly` or `AllowInsecureFallback`.
    pub mode: &'static str,
}

impl ClientsWord {
    pub(crate) fn of(listener: &translate::inspect::Listener) -> Option<Self> {
        let (objects, mode) = listener.clients.as_ref()?;
        Some(Self {
            authorities: objects.iter().map(ToString::to_string).collect(),
            mode: match mode {
                ClientMode::ValidOnly => VALID_ONLY,
                ClientMode::Anybody => "AllowInsecureFallback",
            },
        })
    }
}

/// `clients with a certificate by ConfigMap infra/clients: AllowValidOnly`.
impl std::fmt::Display for ClientsWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.mode == VALID_ONLY {
            return write!(f, "clients with a certificate by {}: {VALID_ONLY}", self.authorities.join(" and "));
        }
        write!(f, "clients with any certificate and without: {}", self.mode)
    }
}

/// What a policy says of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenerWord {
    /// The policy.
    pub policy: String,
    /// Its fields that hold there.
    pub fields: Vec<&'static str>,
}

impl ListenerWord {
    pub(crate) fn all(listener: &translate::inspect::Listener) -> Vec<Self> {
        let word = |(policy, fields): &(api::ObjectId, Vec<&'static str>)| Self {
            policy: policy.to_string(),
            fields: fields.clone(),
        };
        listener.policies.iter().map(word).collect()
    }
}

/// `ListenerPolicy infra/edge: httpSettings.serverName, tcpKeepalive`.
impl std::fmt::Display for ListenerWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.policy, self.fields.join(", "))
    }
}

/// A match of a rule of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaf {
    /// Of the route. The name of the Envoy route tells it too.
    #[serde(skip)]
    pub kind: RouteKind,
    /// Of the route.
    pub namespace: String,
    /// Of the route.
    pub name: String,
    /// The place of the rule in the route.
    pub rule: u32,
    /// The place of the match in the rule.
    #[serde(rename = "match")]
    pub matching: u32,
    /// What it asks for, its parents' matches counted in.
    pub written: String,
    /// The name of the Envoy route, as in access logs.
    pub envoy_route: String,
}

/// A route on the way from a root to a leaf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// As a path: `NAMESPACE/NAME`.
    #[serde(serialize_with = "path")]
    pub route: RouteId,
    /// The rule that the way goes on by.
    pub rule: u32,
    /// The rule's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_name: Option<String>,
    /// The match of that rule that takes the request.
    pub written: String,
    /// The reference that selects the next route; none at the leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selects: Option<String>,
}

/// What comes of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Outcome {
    /// It goes to one of these, by weight.
    Backends {
        /// Each share.
        backends: Vec<Share>,
        /// The URL as the backend gets it; the scheme is the client's.
        url: String,
        /// Why a share answers 500.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Finding>,
    },
    /// The client is sent elsewhere.
    Redirect {
        /// The status code.
        status: u32,
        /// Where to.
        location: String,
    },
    /// Envoy answers by itself.
    DirectResponse {
        /// The status code.
        status: u32,
        /// The body.
        #[serde(skip_serializing_if = "String::is_empty")]
        body: String,
        /// Why the rule does not do what it says, and who must act.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Finding>,
    },
    /// No route takes it: 404.
    NotFound {
        /// Why.
        why: String,
    },
    /// 421: the host is another listener's, for which the client opens a connection of its own.
    Misdirected,
    /// Envoy refuses the request before it looks for a route: 400.
    BadRequest {
        /// Why.
        why: String,
    },
    /// Nobody answers.
    Unreachable {
        /// Why.
        why: String,
        /// What is wrong, and who must act.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Finding>,
    },
}

impl Outcome {
    /// The status code that Envoy answers by itself; none where a backend answers, or nobody.
    pub fn status(&self) -> Option<u32> {
        match self {
            Self::Backends { .. } | Self::Unreachable { .. } => None,
            Self::Redirect { status, .. } | Self::DirectResponse { status, .. } => Some(*status),
            Self::NotFound { .. } => Some(404),
            Self::Misdirected => Some(421),
            Self::BadRequest { .. } => Some(400),
        }
    }
}

/// Something that is done to a request or its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// The field or filter: `timeouts`, `retry`, `sessionPersistence`, `urlRewrite`, `requestHeaderModifier` and so on.
    pub what: &'static str,
    /// In words.
    pub value: String,
    /// The rules that say so, of the leaf or above it; several where they are joined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// The rules that say otherwise and are not heard.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<String>,
    /// By whose word it is so, where an object above has it merged otherwise than is the default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<String>,
}

/// The Envoy routes of a virtual host, as far as they were tried.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tried {
    /// How many there are.
    pub routes: usize,
    /// How many stand before the one that takes the request.
    pub before: usize,
    /// Those before whose path matches, in the order in which they are tried; where none takes the request, those that
    /// come nearest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<Considered>,
    /// Those behind that would match too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<Considered>,
}

/// A route that does not take the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Considered {
    /// The route.
    #[serde(flatten)]
    pub leaf: Leaf,
    /// Why it does not take the request.
    pub why: String,
}
