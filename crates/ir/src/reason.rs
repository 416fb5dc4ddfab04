//! The reasons of conditions.

use std::fmt;

/// Declares [`Reason`].
macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Why something is as it is, in one word: what conditions, problems and metrics have as reason. Gateway API's word
        /// where it has one. In alphabetical order, by which equal problems of a field are told.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[$doc])* $name,)+
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

reasons! {
    /// It is taken as it is.
    Accepted,
    /// The Service of a Gateway has no address yet.
    AddressNotAssigned,
    /// The Service of a Gateway cannot have the address that is asked for.
    AddressNotUsable,
    /// One prefix of a RewritePolicy could mean several routes.
    AmbiguousReplacement,
    /// A policy holds wherever it is attached.
    Attached,
    /// A Service, one of its ports, or a route to delegate to does not exist.
    BackendNotFound,
    /// A change of a route is not served yet, since the tree in which it stands is kept.
    ChangeWithheld,
    /// A tree of routes is not stored yet as it is.
    CommitPending,
    /// A tree of routes is served and kept as it is.
    Committed,
    /// It is as somebody set it who gives up a protection by that.
    ConfigurationChanged,
    /// An older object has the same place.
    Conflicted,
    /// Two objects of the files have one name.
    Duplicate,
    /// Two entries of a RewritePolicy have the same prefix.
    DuplicateReplacement,
    /// What is kept of a tree of routes cannot be read.
    EditionUnreadable,
    /// A policy on the whole Gateway is not valid, so all that it serves is replaced.
    GatewayReplaced,
    /// Changes of a tree of routes wait by the word of its owner.
    Hold,
    /// Another listener of the port has the hostname.
    HostnameConflict,
    /// Filters, or a filter and what else a rule says, cannot stand together.
    IncompatibleFilters,
    /// Translation itself failed.
    InternalFault,
    /// It says what cannot be.
    Invalid,
    /// The policy of TLS of a backend is not valid.
    InvalidBackendTLS,
    /// A reference to certificates of authorities names a kind that has none.
    InvalidCACertificateKind,
    /// A reference to certificates of authorities leads to none that can be used.
    InvalidCACertificateRef,
    /// The reference to a certificate leads to none that can be used.
    InvalidCertificateRef,
    /// The reference to the certificate that is shown to backends leads to none that can be used.
    InvalidClientCertificateRef,
    /// A file cannot be read.
    InvalidFile,
    /// A reference names a kind that cannot stand there.
    InvalidKind,
    /// The GatewayParameters cannot be found or read.
    InvalidParameters,
    /// An entry of a RewritePolicy says what cannot be.
    InvalidReplacement,
    /// A listener allows kinds of routes that are not served.
    InvalidRouteKinds,
    /// No Envoy can be asked before anything is sent.
    JudgeUnavailable,
    /// A policy on the listener is not valid, so all that it serves is replaced.
    ListenerReplaced,
    /// References of listeners do not resolve.
    ListenersNotResolved,
    /// Listeners are not valid.
    ListenersNotValid,
    /// A policy holds in part, or at some of its targets.
    Merged,
    /// A match or a route has no prefix to replace.
    MustHavePrefix,
    /// No listener is in the way of another.
    NoConflicts,
    /// Nothing is kept of a tree of routes.
    NoEdition,
    /// No child serves anything of what is delegated.
    NoMatchingChild,
    /// No listener has a hostname of the route.
    NoMatchingListenerHostname,
    /// Nothing that the route names as its parent takes it.
    NoMatchingParent,
    /// The proxies do not run as they should.
    NoResources,
    /// No reference to certificates of authorities leads to any that can be used.
    NoValidCACertificate,
    /// The Gateway does not admit ListenerSets of the namespace.
    NotAllowed,
    /// No listener admits the route's namespace or kind.
    NotAllowedByListeners,
    /// The policy of a parent does not admit the route.
    NotAllowedByParent,
    /// What is kept of a tree of routes goes with the controller.
    NotDurable,
    /// No Envoy said in time whether it takes it.
    NotJudged,
    /// HTTPS listeners of one port have hostnames in common.
    OverlappingHostnames,
    /// Other policies hold everywhere in the policy's place.
    Overridden,
    /// The Gateway of a ListenerSet is not accepted.
    ParentNotAccepted,
    /// The proxies of the Gateway of a ListenerSet do not have what they should.
    ParentNotProgrammed,
    /// What it needs is not there yet.
    Pending,
    /// A policy of a Gateway is broken, and its policies are served as they were before.
    PoliciesBroken,
    /// The port cannot be bound.
    PortUnavailable,
    /// It is served.
    Programmed,
    /// Another listener of the port speaks another protocol.
    ProtocolConflict,
    /// A route is published below a parent that does not select it.
    PublishedUnasked,
    /// Nobody permits the reference to another namespace.
    RefNotPermitted,
    /// All references lead to what they name.
    ResolvedRefs,
    /// Rules of the route are not served.
    RouteRuleDropped,
    /// A direct response stands in place of rules of the route.
    RouteRuleReplaced,
    /// The cookie of a session can be read by others.
    SessionNotProtected,
    /// Another route, which is older, is served in its place.
    Superseded,
    /// The definitions of Gateway API are of a version that is supported.
    SupportedVersion,
    /// What a policy names as its target does not exist.
    TargetNotFound,
    /// What would be kept of a tree of routes is more than there is room for.
    TooLarge,
    /// A policy concerns more Gateways than its status has room for.
    TooManyAncestors,
    /// ListenerSets ask for more ports than a Gateway has for them.
    TooManyListeners,
    /// A route has more parents than its status has room for.
    TooManyParents,
    /// A tree of routes is broken, and served as it was before.
    TreeBroken,
    /// The schema has no such field.
    UnknownField,
    /// Nothing of this kind is read.
    UnknownKind,
    /// An address of a Gateway is of a kind that is not supported, or is none.
    UnsupportedAddress,
    /// The protocol is not spoken.
    UnsupportedProtocol,
    /// The value cannot be honoured.
    UnsupportedValue,
    /// No route uses an entry of a RewritePolicy.
    UnusedReplacement,
    /// Nothing is wrong with the policy: kgateway's word.
    Valid,
    /// It waits for Envoy's word.
    ValidationPending,
    /// Proxies are of another version than the Envoy that judges what is sent to them.
    VersionNotJudged,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_ordered_as_their_words_are() {
        assert!(Reason::ALL.is_sorted_by_key(|reason| reason.as_str()), "{:?}", Reason::ALL);
    }
}
