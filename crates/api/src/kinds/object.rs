//! Objects of every kind that is read, and how they are named: what follows from the list of kinds.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde_json::Value;

use super::{Kind, Object};
use crate::{Violation, honoured::RefusedField, meta::ObjectMeta, schema::openapi::Node};

// Where objects of a kind live.
pub(super) const CLUSTER: bool = false;
pub(super) const NAMESPACED: bool = true;

/// Generates everything that names each kind.
macro_rules! kinds {
    ($($variant:ident: $kind:literal, $plural:literal, $group:expr, [$($version:literal),+], $namespaced:expr, $status:ident;)+) => {
        /// A kind of object that is read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(
                #[doc = concat!($kind, ".")]
                $variant,
            )+
        }

        impl Kind {
            /// Every kind, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The kind as manifests write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $kind,)+ }
            }

            /// The API group; empty for the core group.
            pub const fn group(self) -> &'static str {
                match self { $(Self::$variant => $group,)+ }
            }

            /// The versions that are understood, the preferred one first. All have the same schema.
            pub const fn versions(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &[$($version),+],)+ }
            }

            /// The name of the resource in URLs.
            pub const fn plural(self) -> &'static str {
                match self { $(Self::$variant => $plural,)+ }
            }

            /// Whether objects of the kind live in namespaces.
            pub const fn namespaced(self) -> bool {
                match self { $(Self::$variant => $namespaced,)+ }
            }

            /// The status that this controller writes to objects of the kind.
            pub const fn status(self) -> StatusKind {
                match self { $(Self::$variant => StatusKind::$status,)+ }
            }

            /// What the CRD of the kind says.
            pub(crate) fn schema(self) -> Schema {
                match self { $(Self::$variant => <$variant as Resource>::schema(),)+ }
            }

            /// Which of its properties are honoured.
            pub fn honoured(self) -> Honoured {
                match self { $(Self::$variant => <$variant as Resource>::honoured(),)+ }
            }

            /// A policy of the kind with the targets that `spec` has, and no more, for what is `invalid`; none where the kind
            /// is no policy.
            pub(crate) fn targets_only(
                self,
                metadata: ObjectMeta,
                spec: &Value,
                invalid: Violation,
            ) -> Option<Object> {
                match self {
                    $(Self::$variant => <$variant as Resource>::targets_only(metadata, spec, invalid).map(Object::$variant),)+
                }
            }
        }

        impl<'de> DeserializeSeed<'de> for Kind {
            type Value = Object;

            fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Object, D::Error> {
                match self { $(Self::$variant => <$variant>::deserialize(from).map(Object::$variant),)+ }
            }
        }

        /// An object of a kind that is read.
        #[derive(Clone, Debug, PartialEq, Hash)]
        #[allow(clippy::large_enum_variant, reason = "objects are moved a few times and then live behind one Arc")]
        pub enum Object {
            $(
                #[doc = concat!("A ", $kind, ".")]
                $variant($variant),
            )+
        }

        impl Object {
            /// The kind.
            pub const fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind::$variant,)+ }
            }

            pub(super) fn resource(&self) -> &dyn Resource {
                match self { $(Self::$variant(object) => object,)+ }
            }

            pub(super) fn resource_mut(&mut self) -> &mut dyn Resource {
                match self { $(Self::$variant(object) => object,)+ }
            }
        }

        $(
            impl From<$variant> for Object {
                fn from(object: $variant) -> Self {
                    Self::$variant(object)
                }
            }
        )+
    };
}

impl Kind {
    /// The kind of this group and name, whatever the version.
    pub fn find(group: &str, kind: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.as_str() == kind && known.group() == group)
    }

    /// Whether the kind is one of Kubernetes itself, so that it is served without a CRD.
    pub fn is_built_in(self) -> bool {
        matches!(self.group(), "" | "apps" | "discovery.k8s.io")
    }

    /// Whether this controller writes the status of such objects.
    pub fn has_status_of_ours(self) -> bool {
        self.status() != StatusKind::None
    }

    /// Whether objects of the kind change how others are served: one that cannot be read closes what it targets.
    pub fn is_policy(self) -> bool {
        self.status() == StatusKind::Policy
    }

    /// What the CRD says of the fields of its spec; none for kinds of Kubernetes itself.
    pub fn spec_schema(self) -> Option<&'static Node> {
        self.schema().table
    }

    /// The `apiVersion` of the preferred version.
    pub fn api_version(self) -> String {
        let version = self.versions()[0];
        match self.group() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Names an object; prints as `HTTPRoute namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectId {
    /// Kind.
    pub kind: Kind,
    /// Namespace; empty for an object of the cluster.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectId {
    /// Kind, namespace and name as one key.
    pub fn new(kind: Kind, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

/// By kind, then by namespace, then by name. The objects of a namespace mostly have one text of its name.
impl Ord for ObjectId {
    fn cmp(&self, other: &Self) -> Ordering {
        let is_same = Arc::ptr_eq(&self.namespace, &other.namespace);
        let by_namespace = || if is_same { Ordering::Equal } else { self.namespace.cmp(&other.namespace) };
        self.kind.cmp(&other.kind).then_with(by_namespace).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// A form of status in Gateway API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusKind {
    /// No status of ours.
    None,
    /// Of a GatewayClass.
    GatewayClass,
    /// Of a Gateway and its listeners.
    Gateway,
    /// Of a ListenerSet and its listeners.
    ListenerSet,
    /// Of a route: an entry a parent.
    Route,
    /// Of a policy: an entry an ancestor.
    Policy,
    /// Of a Backend: conditions alone.
    Backend,
    /// Of a GatewayExtension: conditions of the object itself.
    Extension,
}

impl Object {
    /// What the object is called.
    pub fn id(&self) -> ObjectId {
        let (namespace, name) = self.resource().name();
        ObjectId::new(self.kind(), namespace, name)
    }

    /// The metadata of an object of Gateway API, or of a policy; slim models keep none.
    pub fn metadata(&self) -> Option<&ObjectMeta> {
        self.resource().metadata()
    }

    /// The same, to be filled in where no API server did.
    pub fn metadata_mut(&mut self) -> Option<&mut ObjectMeta> {
        self.resource_mut().metadata_mut()
    }

    /// What a slim model leaves out of the object because it cannot be used.
    pub fn left_out(&self) -> &[Violation] {
        if self.kind().is_built_in() { self.resource().invalid() } else { &[] }
    }

    /// What the object asks for and does not get, in the order of its fields. A field whose value means the same as none is
    /// not reported.
    pub fn refused_fields(&self) -> Vec<RefusedField> {
        self.resource().refused()
    }

    /// Has the object know which of its fields nobody knows.
    pub(crate) fn set_unknown(&mut self, paths: Vec<Box<str>>) {
        self.resource_mut().set_unknown(paths);
    }

    /// The object as a manifest; none of a slim model, which is not encoded again.
    pub fn manifest(&self) -> Option<Value> {
        let mut manifest = self.resource().encoded()?;
        let fields = manifest.as_object_mut()?;
        fields.insert("apiVersion".to_owned(), self.kind().api_version().into());
        fields.insert("kind".to_owned(), self.kind().as_str().into());
        Some(manifest)
    }

    /// A policy with its targets and no more, which is refused for what is `invalid`, so that what it was to limit is closed;
    /// none of an object that is no policy.
    pub fn targets_only(&self, invalid: Violation) -> Option<Self> {
        if !self.kind().is_policy() {
            return None;
        }
        let encoded = self.resource().encoded()?;
        self.kind().targets_only(self.metadata()?.clone(), &encoded["spec"], invalid)
    }

    /// Whether the value at a path such as `spec.cors.maxAge` is kept as it is written, for its reader to judge.
    pub fn keeps(&self, path: &str) -> bool {
        self.resource().keeps(path)
    }
}

/// What an API server would refuse about the object: first what is wrong with a field by itself, in the order of the
/// fields, then what does not go together. For a slim model, and for a policy that could not be read, what was left out
/// of it.
pub fn violations(object: &Object) -> Vec<Violation> {
    object.resource().violations()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::GROUP;

    #[test]
    fn a_kind_is_found_by_group_and_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::find(kind.group(), kind.as_str()), Some(*kind));
        }
        assert_eq!(Kind::find("", "Gateway"), None);
        assert_eq!(Kind::find(GROUP, "gateway"), None);
    }

    #[test]
    fn the_preferred_version_is_written() {
        assert_eq!(Kind::HttpRoute.api_version(), "gateway.networking.k8s.io/v1");
        assert_eq!(Kind::Secret.api_version(), "v1");
        assert_eq!(Kind::EndpointSlice.api_version(), "discovery.k8s.io/v1");
    }

    #[test]
    fn an_id_prints_the_namespace_only_where_there_is_one() {
        assert_eq!(ObjectId::new(Kind::HttpRoute, "ns", "name").to_string(), "HTTPRoute ns/name");
        assert_eq!(ObjectId::new(Kind::GatewayClass, "", "name").to_string(), "GatewayClass name");
    }

    #[test]
    fn ids_sort_by_kind_then_namespace_then_name() {
        let ids = [
            ObjectId::new(Kind::Gateway, "b", "b"),
            ObjectId::new(Kind::HttpRoute, "a", "b"),
            ObjectId::new(Kind::HttpRoute, "b", "a"),
        ];
        assert!(ids.is_sorted());
    }
}
