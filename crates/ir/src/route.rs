//! What a route says, whatever its kind. An object is read once, rule by rule; references to other objects are followed
//! later.

use std::sync::Arc;

use crate::{
    filter::{Cors, HeaderModifier, Redirect, Rewrite},
    hostname::Hostname,
    id::{GATEWAY_API, NsName, ParentId, RouteId, RouteKind},
    matching::Match,
    priority::Priority,
    problem::Problem,
    rule::{PolicyFields, Retry, SessionPersistence, Slot, Timeouts},
};

/// A route without what its rules say. What changes with every change, such as `metadata.generation`, is not part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// What tells it from a later route of its name; empty where nobody says.
    pub uid: Arc<str>,
    /// When it was created, in seconds since 1970.
    pub created: i64,
    /// Its labels, in the order of their keys.
    pub labels: Arc<[(Box<str>, Box<str>)]>,
    /// What its annotations say.
    pub annotations: Annotations,
    /// Its parents, as they are written.
    pub parents: Box<[ParentRef]>,
    /// The hostnames that it asks for, each once, with its place; [`Hostname::Any`] where it names none.
    pub hostnames: Box<[(u32, Hostname)]>,
    /// Whether it names hostnames.
    pub names_hostnames: bool,
    /// Its rules.
    pub rules: Box<[RuleHead]>,
    /// What is wrong outside its rules.
    pub problems: Box<[Problem]>,
}

impl Head {
    /// Whether any of its rules delegates.
    pub fn delegates(&self) -> bool {
        self.rules.iter().any(|rule| rule.delegates)
    }

    /// The names of its rules.
    pub fn rule_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rules.iter().filter_map(|rule| rule.name.as_ref())
    }
}

/// A rule, as others need to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleHead {
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// Whether any of its references means routes.
    pub delegates: bool,
}

/// The label of a route that is served only where it is known who asks.
pub const REQUIRE_AUTH: &str = "portcullis.dev/require-auth";

/// What the annotations of a route say, where a value that means nothing counts as none, and [`REQUIRE_AUTH`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// Whether its matches are joined with its parent's.
    pub inherits_matcher: bool,
    /// Its place among its siblings, the greater first.
    pub weight: i32,
    /// How what it hands down is merged with what its descendants say.
    pub priority: Priority,
    /// Whether whoever asks must be known.
    pub requires_auth: bool,
}

/// Gateway API `ParentReference`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ParentRef {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// The namespace, if one is named.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// A listener or a rule of it, if one is named.
    pub section_name: Option<Arc<str>>,
    /// Only what is on this port.
    pub port: Option<i32>,
}

impl ParentRef {
    /// The object that is meant by a route of namespace `own`.
    pub fn target(&self, own: &Arc<str>) -> NsName {
        NsName::new(named(self.namespace.as_ref()).unwrap_or(own).clone(), self.name.clone())
    }

    /// The Gateway or ListenerSet that is meant by a route of namespace `own`; none for a reference to anything else.
    pub fn parent(&self, own: &Arc<str>) -> Option<ParentId> {
        let parent = match (&*self.group, &*self.kind) {
            (GATEWAY_API, "Gateway") => ParentId::Gateway,
            (GATEWAY_API, "ListenerSet") => ParentId::ListenerSet,
            _ => return None,
        };
        Some(parent(self.target(own)))
    }

    /// The route that is meant by a route of namespace `own`; none for a reference to anything else.
    pub fn route(&self, own: &Arc<str>) -> Option<RouteId> {
        Some(RouteId::new(RouteKind::named(&self.group, &self.kind)?, self.target(own)))
    }

    /// The listener or rule that is meant; none for all of the object.
    pub fn section(&self) -> Option<&Arc<str>> {
        named(self.section_name.as_ref())
    }
}

/// An empty name is none.
fn named(name: Option<&Arc<str>>) -> Option<&Arc<str>> {
    name.filter(|name| !name.is_empty())
}

/// Gateway API `BackendObjectReference`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendRef {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// The namespace, if one is named.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// The Service's port.
    pub port: Option<i32>,
}

impl BackendRef {
    /// The object that is meant by one of namespace `own`.
    pub fn target(&self, own: &Arc<str>) -> NsName {
        NsName::new(named(self.namespace.as_ref()).unwrap_or(own).clone(), self.name.clone())
    }
}

/// A rule as its own text decides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSpec {
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
    /// What it matches: the matches that can be expressed.
    pub matches: Box<[MatchSpec]>,
    /// Matches that were dropped.
    pub dropped: Box<[Problem]>,
    /// What has no effect.
    pub ignored: Box<[Problem]>,
    /// How requests are handled, or why they are not.
    pub handling: Result<Handling, Unhandled>,
}

/// Why nobody handles the requests of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unhandled {
    /// Something that the rule says cannot be done.
    Invalid(Problem),
    /// Nobody knows what the rule says.
    Unknown,
}

/// A match that can be expressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchSpec {
    /// Its place in the rule.
    pub index: u32,
    /// The match itself.
    pub written: Match,
}

/// How a sound rule handles its requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handling {
    /// The redirect, which stands in place of backends.
    pub redirect: Option<Box<Redirect>>,
    /// Policies, and an answer that stands in place of backends.
    pub extensions: Vec<ExtensionRef>,
    /// Where requests go, unless the rule delegates.
    pub backends: Vec<BackendSpec>,
    /// Whom it delegates to, unless it has backends.
    pub delegates: Vec<DelegateSpec>,
    /// What a delegating rule hands down.
    pub fields: Fields,
    /// What its policies say in slots of the filter chain.
    pub slots: Vec<Slot>,
    /// What only policies say of it.
    pub by_policy: PolicyFields,
}

impl Handling {
    /// The answer that stands in place of backends.
    pub fn direct_response(&self) -> Option<&ExtensionRef> {
        self.extensions.iter().find(|extension| extension.kind == ExtensionKind::DirectResponse)
    }

    /// Whether the rule answers by itself.
    pub fn answers(&self) -> bool {
        self.redirect.is_some() || self.direct_response().is_some()
    }
}

/// The fields of a rule that its children inherit if it delegates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// How long requests may take.
    pub timeouts: Option<Timeouts>,
    /// Whether requests are tried again.
    pub retry: Option<Box<Retry>>,
    /// Whether a client stays with a backend.
    pub session: Option<Box<SessionPersistence>>,
    /// A new host or path.
    pub rewrite: Option<Box<Rewrite>>,
    /// Cross-origin rules.
    pub cors: Option<Box<Cors>>,
    /// Changes to headers on the way in.
    pub request_headers: HeaderModifier,
    /// Changes to headers on the way out.
    pub response_headers: HeaderModifier,
    /// Copies.
    pub mirrors: Vec<MirrorSpec>,
}

/// A share of a rule's requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendSpec {
    /// Where the reference stands.
    pub field: String,
    /// The DelegationPolicy whose default it is; none for one of the rule's own.
    pub policy: Option<NsName>,
    /// The backend.
    pub backend: BackendRef,
    /// Its part of the sum of all weights.
    pub weight: u32,
    /// What is changed for this share alone, or why the share is broken.
    pub changes: Result<Changes, Problem>,
}

/// What is changed for one share alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// On the way in.
    pub request_headers: HeaderModifier,
    /// On the way out.
    pub response_headers: HeaderModifier,
    /// A new host.
    pub hostname: Option<Arc<str>>,
}

impl Changes {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A reference to routes that a rule delegates to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelegateSpec {
    /// Where it stands.
    pub field: String,
    /// The reference.
    pub reference: BackendRef,
}

/// A mirror that still names its backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorSpec {
    /// The route whose it is, in whose namespace the reference is followed.
    pub owner: RouteId,
    /// Where the reference stands.
    pub field: String,
    /// The backend.
    pub backend: BackendRef,
    /// The share that is copied, as numerator and denominator (never zero); none means all.
    pub fraction: Option<(u32, u32)>,
}

/// An object of the rule's namespace that a filter names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionRef {
    /// Where the reference stands.
    pub field: String,
    /// Its kind.
    pub kind: ExtensionKind,
    /// Its name.
    pub name: Arc<str>,
}

/// A kind of object that a filter can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtensionKind {
    /// A policy.
    TrafficPolicy,
    /// A policy.
    RewritePolicy,
    /// An answer.
    DirectResponse,
}
