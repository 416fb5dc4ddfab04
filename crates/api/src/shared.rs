//! Types that several Gateway API kinds share.

use std::{fmt, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    compact::{shared, text},
    group::GROUP,
};

mod duration;

pub use duration::{Duration, parse_duration};

/// A port as the API carries it: 1 to 65535 once [`violations`](crate::violations) is content.
pub type PortNumber = i32;

/// Names the object that a route wants to be attached to, and optionally a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "text")]
    pub group: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "text")]
    pub kind: Arc<str>,
    /// Namespace; none for that of the referring object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// A named part of the parent: a listener, or a rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<Arc<str>>,
    /// Only the parts of the parent on this port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortNumber>,
}

impl Default for ParentReference {
    fn default() -> Self {
        Self {
            group: shared(GROUP),
            kind: shared("Gateway"),
            namespace: None,
            name: Arc::default(),
            section_name: None,
            port: None,
        }
    }
}

/// Names a backend: a Service unless group and kind say otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendObjectReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "text")]
    pub group: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "text")]
    pub kind: Arc<str>,
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// Namespace; none for that of the referring object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
    /// Port of the backend, required for a Service. For a Service the Service's port, not the target port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<PortNumber>,
}

impl Default for BackendObjectReference {
    fn default() -> Self {
        Self { group: Arc::default(), kind: shared("Service"), name: Arc::default(), namespace: None, port: None }
    }
}

/// A backend and its share of the requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
#[serde(from = "FlatBackendRef", into = "FlatBackendRef")]
pub struct BackendRef {
    /// The backend.
    pub backend_ref: BackendObjectReference,
    /// Share of the sum of all weights of the list; 0 to 1,000,000, by default 1.
    pub weight: i32,
}

impl Default for BackendRef {
    fn default() -> Self {
        Self { backend_ref: BackendObjectReference::default(), weight: 1 }
    }
}

/// [`BackendRef`] as it is written. Serde's own flattening would lose the path of an error in it.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct FlatBackendRef {
    /// API group of the backend; empty for the core group.
    #[serde(deserialize_with = "text")]
    group: Arc<str>,
    /// Kind of the backend.
    #[serde(deserialize_with = "text")]
    kind: Arc<str>,
    /// Name of the backend.
    #[serde(deserialize_with = "text")]
    name: Arc<str>,
    /// Namespace of the backend; that of the referring object if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Arc<str>>,
    /// Port of the backend, for a Service the Service's port and not the target port. A Service needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<PortNumber>,
    /// Share of the sum of all weights of the list.
    weight: i32,
}

impl Default for FlatBackendRef {
    fn default() -> Self {
        BackendRef::default().into()
    }
}

impl From<FlatBackendRef> for BackendRef {
    fn from(flat: FlatBackendRef) -> Self {
        let FlatBackendRef { group, kind, name, namespace, port, weight } = flat;
        Self { backend_ref: BackendObjectReference { group, kind, name, namespace, port }, weight }
    }
}

impl From<BackendRef> for FlatBackendRef {
    fn from(backend: BackendRef) -> Self {
        let BackendObjectReference { group, kind, name, namespace, port } = backend.backend_ref;
        Self { group, kind, name, namespace, port, weight: backend.weight }
    }
}

/// A backend, its share of the requests, and what is done to that share by filters of a kind of routes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(
    from = "FlatFilteredBackendRef<F>",
    into = "FlatFilteredBackendRef<F>",
    bound(deserialize = "F: Deserialize<'de>", serialize = "F: Clone + Serialize")
)]
pub struct FilteredBackendRef<F> {
    /// The backend.
    pub backend_ref: BackendObjectReference,
    /// Share of the sum of all weights of the rule; 0 to 1,000,000, by default 1.
    pub weight: i32,
    /// What is done to a request and its response.
    pub filters: Vec<F>,
}

impl<F> Default for FilteredBackendRef<F> {
    fn default() -> Self {
        BackendRef::default().into()
    }
}

impl<F> From<BackendRef> for FilteredBackendRef<F> {
    fn from(BackendRef { backend_ref, weight }: BackendRef) -> Self {
        Self { backend_ref, weight, filters: Vec::new() }
    }
}

/// [`FilteredBackendRef`] as it is written, for the same reason.
#[derive(Deserialize, Serialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound(deserialize = "F: Deserialize<'de>", serialize = "F: Clone + Serialize")
)]
struct FlatFilteredBackendRef<F> {
    #[serde(deserialize_with = "text")]
    group: Arc<str>,
    #[serde(deserialize_with = "text")]
    kind: Arc<str>,
    #[serde(deserialize_with = "text")]
    name: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<PortNumber>,
    weight: i32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    filters: Vec<F>,
}

impl<F> Default for FlatFilteredBackendRef<F> {
    fn default() -> Self {
        FilteredBackendRef::default().into()
    }
}

impl<F> From<FlatFilteredBackendRef<F>> for FilteredBackendRef<F> {
    fn from(flat: FlatFilteredBackendRef<F>) -> Self {
        let FlatFilteredBackendRef { group, kind, name, namespace, port, weight, filters } = flat;
        Self { backend_ref: BackendObjectReference { group, kind, name, namespace, port }, weight, filters }
    }
}

impl<F> From<FilteredBackendRef<F>> for FlatFilteredBackendRef<F> {
    fn from(backend: FilteredBackendRef<F>) -> Self {
        let BackendObjectReference { group, kind, name, namespace, port } = backend.backend_ref;
        Self { group, kind, name, namespace, port, weight: backend.weight, filters: backend.filters }
    }
}

/// Names a Secret, unless group and kind say otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SecretObjectReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "text")]
    pub group: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "text")]
    pub kind: Arc<str>,
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// Namespace; none for that of the referring object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
}

impl Default for SecretObjectReference {
    fn default() -> Self {
        Self { group: Arc::default(), kind: "Secret".into(), name: Arc::default(), namespace: None }
    }
}

/// Names an object of any kind in the namespace of the referring object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LocalObjectReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "text")]
    pub group: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "text")]
    pub kind: Arc<str>,
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
}

/// Names an object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectReference {
    /// API group; empty for the core group.
    #[serde(deserialize_with = "text")]
    pub group: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "text")]
    pub kind: Arc<str>,
    /// Name.
    #[serde(deserialize_with = "text")]
    pub name: Arc<str>,
    /// Namespace; none for that of the referring object, or for an object of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Arc<str>>,
}

/// A kind of route, as listeners allow and report it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteGroupKind {
    /// API group.
    #[serde(deserialize_with = "text")]
    pub group: Arc<str>,
    /// Kind.
    #[serde(deserialize_with = "text")]
    pub kind: Arc<str>,
}

impl RouteGroupKind {
    /// A kind of Gateway API's own group.
    pub fn gateway_api(kind: impl Into<Arc<str>>) -> Self {
        Self { group: GROUP.into(), kind: kind.into() }
    }
}

impl Default for RouteGroupKind {
    fn default() -> Self {
        Self::gateway_api("")
    }
}

/// A part of a whole: `numerator` of `denominator`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Fraction {
    /// At least 0, at most the denominator. A missing numerator reads as -1, which is never valid: 0 would turn a
    /// forgotten field into "none".
    pub numerator: i32,
    /// At least 1.
    pub denominator: i32,
}

impl Default for Fraction {
    fn default() -> Self {
        Self { numerator: -1, denominator: 100 }
    }
}

/// Keeps the requests of one client session on one backend (GEP-1619).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionPersistence {
    /// Name of the cookie or header; none leaves it to the implementation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_name: Option<Box<str>>,
    /// When a session ends, however active it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absolute_timeout: Option<Duration>,
    /// Where the session is kept.
    pub r#type: SessionPersistenceType,
    /// Settings of the cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie_config: Option<CookieConfig>,
}

open_enum! {
    /// Where a session is kept.
    pub enum SessionPersistenceType {
        /// In a cookie.
        Cookie = "Cookie",
        /// In a header.
        Header = "Header",
    }
    default Cookie;
}

/// Settings of a session cookie.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CookieConfig {
    /// How long a client keeps the cookie.
    pub lifetime_type: CookieLifetimeType,
}

open_enum! {
    /// How long a client keeps a session cookie.
    pub enum CookieLifetimeType {
        /// As long as `absoluteTimeout` says.
        Permanent = "Permanent",
        /// Until the client closes.
        Session = "Session",
    }
    default Session;
}

open_enum! {
    /// Whether routes without a parent attach to a Gateway by default.
    pub enum GatewayDefaultScope {
        /// They do.
        All = "All",
        /// They do not.
        None = "None",
    }
}

impl fmt::Display for RouteGroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.kind)
    }
}
