//! What BackendTLSPolicies say, and where they hold.

use std::{fmt, sync::Arc};

use api::{Kind, ObjectId};
use ir::{NsName, Problem, backend::Destination, matching::Age, upstream::Tls};

use super::backend::ClusterId;

tables! {
    /// What a BackendTLSPolicy says. It stays with its targets, whatever that is.
    TlsPolicyRow: NsName => TlsPolicy;
    /// The policy that says how to connect to a port of a Service, or to a Backend, by TLS; absent where none targets it. The winner
    /// comes first, and whether it is valid after: one that is not closes what it targets. Keys are [`Destination::plain`].
    BackendTls: Destination => Secured;
    /// What a bundle comes to; a rotation changes nothing here.
    BundleState: BundleId => Vouching;
    /// Has the policies of a backend, one that is [`Destination::plain`], told that the proxies of a Gateway send there, or would.
    DialedBy: (Destination, NsName) => ();
    /// The Gateways whose proxies send to what a policy holds for, or would.
    TlsAncestors: NsName => Ancestors;
    /// For which Gateways the status of a policy has room. One more beyond the last of them changes nothing here.
    TlsRoom: NsName => Room;
}

groups! {
    /// The policies that name a Service or a Backend, or a port of the Service by its name, as their target: the first one holds.
    TlsTargeting: (ObjectId, Option<Arc<str>>), Age => ();
    /// The Gateways whose proxies send to a backend under a policy, or would.
    Dialing: Destination, NsName => ();
    /// The clusters that the proxies of a Gateway are not sent, each with the policy that holds there and whose status has no room
    /// for it.
    NoRoom: NsName, ClusterId => NsName;
}

/// What a BackendTLSPolicy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsPolicy {
    /// How to connect; or why nobody knows how, so that nobody connects.
    pub(crate) tls: Result<Connect, Problem>,
    /// References to authorities that lead to none that can be used.
    pub(crate) unresolved: Vec<Problem>,
    /// What should be looked at in them.
    pub(crate) warning: Option<Problem>,
}

/// How to connect by TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    /// Whatever is spoken.
    pub(crate) tls: Arc<Tls>,
    /// The authorities that come apart.
    pub(crate) bundle: Option<BundleId>,
}

/// What holds for a port of a Service, or for a Backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Secured {
    /// By which policy.
    pub(crate) policy: NsName,
    /// How to connect; none where the policy is not valid.
    pub(crate) tls: Option<Connect>,
}

impl Secured {
    /// The policy.
    pub(crate) fn id(&self) -> ObjectId {
        ObjectId::new(Kind::BackendTlsPolicy, self.policy.namespace.clone(), self.policy.name.clone())
    }
}

/// The objects with the authorities by which a backend or clients are judged, each once, sorted: proxies have one secret for all who
/// name the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BundleId(Arc<[ObjectId]>);

impl BundleId {
    /// Of these; none of nothing.
    pub(crate) fn of(objects: impl IntoIterator<Item = ObjectId>) -> Option<Self> {
        let mut objects: Vec<_> = objects.into_iter().collect();
        objects.sort_unstable();
        objects.dedup();
        (!objects.is_empty()).then(|| Self(objects.into()))
    }

    /// The objects.
    pub(crate) fn objects(&self) -> &[ObjectId] {
        &self.0
    }
}

/// The name of the secret: `authorities/NAMESPACE/KIND/NAME`, with `+KIND/NAME` for each that comes after, and its namespace before
/// that where it is another one than that of the one before. No name of an object has a `+` or a `/`.
impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = None;
        for ObjectId { kind, namespace, name } in &*self.0 {
            f.write_str(if before.is_none() { "authorities/" } else { "+" })?;
            if before != Some(namespace) {
                write!(f, "{namespace}/")?;
            }
            write!(f, "{kind}/{name}")?;
            before = Some(namespace);
        }
        Ok(())
    }
}

/// What a bundle comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vouching {
    /// Why objects give nothing to it, in the order of their names.
    pub(crate) faults: Vec<(ObjectId, Arc<str>)>,
    /// Whether any gives something.
    pub(crate) any: bool,
    /// Its bytes, rounded up to a power of two.
    pub(crate) bytes: u64,
    /// What should be looked at in it.
    pub(crate) warning: Option<Arc<str>>,
}

/// The Gateways whose proxies send to what a policy holds for, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancestors {
    /// Those for which the policy's status has room, the oldest first.
    pub(crate) told: Box<[NsName]>,
    /// The others.
    pub(crate) untold: Box<[NsName]>,
    /// Who may send there.
    pub(crate) room: Room,
}

/// For which Gateways the status of a policy has room, of those whose proxies send to what it holds for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Room {
    /// For all of them.
    #[default]
    ForAll,
    /// For this one and those that are older; for none if there is none.
    UpTo(Option<Age>),
}
