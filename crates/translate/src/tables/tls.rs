//! What BackendTLSPolicies say, and where they hold.

use std::{fmt, sync::Arc};

use api::{Kind, ObjectId};
use ir::{NsName, Problem, backend::ServicePort, matching::Age, upstream::Tls};

use super::backend::ClusterId;

tables! {
    /// What a BackendTLSPolicy says. It stays with its targets, whatever that is.
    TlsPolicyRow: NsName => TlsPolicy;
    /// The policy that says how to connect to a port of a Service by TLS; absent where none targets it. The winner comes first,
    /// and whether it is valid after: one that is not closes the port.
    BackendTls: ServicePort => Secured;
    /// What a bundle comes to; a rotation changes nothing here.
    BundleState: BundleId => Vouching;
    /// Has the policies of a port of a Service told that the proxies of a Gateway send there, or would.
    DialedBy: (ServicePort, NsName) => ();
    /// The Gateways whose proxies send to what a policy holds for, or would.
    TlsAncestors: NsName => Ancestors;
}

groups! {
    /// The policies that name a Service, or a port of it by its name, as their target: the first one holds.
    TlsTargeting: (NsName, Option<Arc<str>>), Age => ();
    /// The Gateways whose proxies send to a port of a Service under a policy, or would.
    Dialing: ServicePort, NsName => ();
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
}

/// How to connect by TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    /// Whatever is spoken.
    pub(crate) tls: Arc<Tls>,
    /// The authorities that come apart.
    pub(crate) bundle: Option<BundleId>,
}

/// What holds for a port of a Service.
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

/// The objects of a namespace with the authorities by which a backend is judged, each once, sorted: proxies have one secret for
/// all policies that name the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BundleId(Arc<[ObjectId]>);

impl BundleId {
    /// Of these, which are of one namespace; none of nothing.
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

/// The name of the secret: `authorities/NAMESPACE/KIND/NAME`, with `+KIND/NAME` for each that comes after. No name of an object has
/// a `+`.
impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, ObjectId { kind, namespace, name }) in self.0.iter().enumerate() {
            if index == 0 {
                write!(f, "authorities/{namespace}/")?;
            } else {
                f.write_str("+")?;
            }
            write!(f, "{kind}/{name}")?;
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
}

/// The Gateways whose proxies send to what a policy holds for, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ancestors {
    /// Those for which the policy's status has room, the oldest first.
    pub(crate) told: Box<[NsName]>,
    /// The others.
    pub(crate) untold: Box<[NsName]>,
}
