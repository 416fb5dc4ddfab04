//! The tables of a translator, and their order.

use api::{Kind, ObjectId};
use engine::Engine;
use ir::{Edition, NsName, ParentId};

use crate::{
    alike::{SaidAlike, SaidEnough, SaidOften, SaidOnce},
    attach::{Admits, Candidates, Open, Presence},
    authorities::{AuthoritiesOf, BundleBytes},
    backend::{
        ShowingBytes, SliceRow, SlicesOf,
        config::{self, ConfigHolder, ConfigOf, HeldAt},
        hosts::BackendHosts,
        stream::Dial,
    },
    budget::{Asked, Asking, Charges, Exceeding, LeftOut, MatchingTime, ReplacingTime, ShareOf, Shared, TooSlow},
    capacity::{Below, Claims, Copies, Fixed, Overflow, OverrunOf, ShutHost},
    delegation::{
        BucketRow, BucketSelection, Buckets, ChildHead, ChildSelection, DelegationPoliciesOf, DelegationPolicyRow,
        DirectivesFor, Filled, HasTooManyMatches, MatchClaims, Members, OverShareAt, PolicyDirectives, RouteClaims,
        SelectsTooMany, TooManyMatches, TooManyRoutes, UsedMatches, UsedRoutes,
    },
    extension::ExtensionRow,
    gateway::{
        Served,
        policy::{DownstreamOf, HeldAtGateway, ListenerPolicyHolder, ListenerPolicyRow, TakesAddresses, Traced},
        port::PortRival,
    },
    grant::{GrantRow, GrantsBetween, Permitted},
    host::{Cleared, ClearedHosts, Owner, RoutesAt},
    policy::{
        rule::{HandedDown, RulePolicies},
        secrets::{CredentialSlots, SecretLabels, SecretsLabelled},
        wide::{
            ActionsAt, BrokenGateway, BrokenListener, ListenerSlots, SlotHolders, SlotWordAt, SlotWords, WideActions,
            WideAuth, WideLevel, WidePolicies, WidePriority, WideSlots, WideUnits,
        },
    },
    resolve::{ResolvedAt, ResolvedRule, RuleFindings},
    route::direct_response::RefusedResponses,
    status::{
        backend::BackendStatus,
        class::ClassStatus,
        extension::ExtensionStatus,
        gateway::{GatewayStanding, GatewayStatus},
        policy::PolicyStatus,
        route::RouteStatus,
        set::SetStatus,
    },
    tables::{
        attachment::{AttachedRoutes, Attachment, NamespaceLabels, Unacceptable},
        backend::{AssignmentBytes, ClusterBytes, ConfigPolicyRow, Reached, ServicePorts, SessionCluster, ShownThere},
        capacity::{AskedCluster, AskedHost, AskedTokens, HostsAsked, PlaceClaims},
        delegation::{
            Candidate, ChildrenOverShare, ContributedBelow, Contributions, CoveringChildren, DelegatedMatches,
            Delegating, Growth, LastCovering, OverShare, Places, Referred, Selections, ServedChain, TruncatedChildren,
            TruncatedStatus,
        },
        edition::{
            AskedFor, EditionMember, Faults, FreezingOf, Judged, JudgedRoute, Source, TreeObject, TreeObjects, TreeOf,
            TreePart, TreeParts, WideFreezing, WideTree,
        },
        gateway::{ClientCertificate, GatewayRow, NameClaims, NameRival, Named, PortClaims},
        host::{CandidateOffer, HostsOf, Offer, Placement, Rows, UnservedHosts, VirtualHost, WideAsked},
        input::{
            self, BackendConfigPolicies, BackendTlsPolicies, Backends, Classes, DelegationPolicies, DirectResponses,
            EditionObjects, EditionRoutes, Editions, Extensions, Gateways, Grants, ListenerPolicies, ListenerSets,
            ObjectKey, ObjectTable, RewritePolicies, Routes, Secrets, Services, Slices, TrafficPolicies,
        },
        listener::{
            BoundAt, ChainsAlike, ClosedChains, ClosedNames, FilterChains, HasChain, HasTlsListeners, HttpChain,
            ListenerIndex, ListenerRow, PortHosts, PortListeners, ServedAt, ServerClaims, ServerName, TlsHosts,
            TlsHostsBelow, TlsListeners,
        },
        output::{Outputs, ReferredEntries, ReferredEntry, ServedCluster, ToldOf, Withheld},
        policy::{
            ConfigPoliciesOf, ConfigSelecting, ConfigTargeting, InvalidPolicies, ListenerPoliciesOf, ListenerSelecting,
            ListenerTargeting, NamingListeners, Overrides, PoliciesOf, PolicyAt, PolicyGateways, PolicyRow, Prefixless,
            Sections, Selecting, Standings, Targeting, UsedEntry, WithoutPrefix,
        },
        proxies::{OurClasses, ProxiesOf},
        replacement::{Replaced, ReplacedWide},
        route::{RouteHead, RouteRule},
        set::{
            Admitting, AskedOfClients, AttachedSets, BindPort, BindPorts, Crowded, GatewayPresence, HostAsks,
            HostHolder, ListenerRooms, NamespaceRoom, OwnPorts, ParentOf, PortAsks, PortHolder, RoomAsks, RoomBeyond,
            RoomShare, SetAsks, SetHead, SetPort, SetPortAsks, SetPorts, SetRoom, SetRow, SetsOf, SoundAsks, SoundPort,
            SoundPorts, SpokenAt, UnservedPort, WithoutRoom,
        },
        stream::{
            ChainsAt, Owned, Place, PlaceShares, RoomOf, ServedPlace, ShutAt, StreamRule, StreamsAt, WaysAt, Winner,
        },
        strict::{CandidateWide, OfferedListener, OfferedPart, OfferedWide},
        tls::{BackendTls, BundleState, DialedBy, Dialing, NoRoom, TlsAncestors, TlsPolicyRow, TlsRoom, TlsTargeting},
    },
    tls::{Certificate, CertificateState},
};

/// A TrafficPolicy or RewritePolicy of an edition.
fn policy_of_edition((edition, id): &(Edition, ObjectId)) -> Option<Source<ObjectId>> {
    let is_policy = matches!(id.kind, Kind::TrafficPolicy | Kind::RewritePolicy);
    is_policy.then(|| Source { edition: Some(edition.clone()), key: id.clone() })
}

/// A DelegationPolicy of an edition.
fn delegation_policy_of_edition((edition, id): &(Edition, ObjectId)) -> Option<Source<NsName>> {
    let key = (id.kind == Kind::DelegationPolicy).then(|| NsName::of(id)).flatten()?;
    Some(Source { edition: Some(edition.clone()), key })
}

/// All tables, each after those it reads.
#[allow(clippy::too_many_lines, reason = "a list, whose order is what matters")]
pub(super) fn all() -> Engine {
    #[allow(clippy::unnecessary_wraps, reason = "other tables leave rows out")]
    fn same<K: Clone>(key: &K) -> Option<K> {
        Some(key.clone())
    }
    input::register(Engine::builder())
        .lookup::<RouteHead>()
        .lookup::<RouteRule>()
        .derived_for_each::<RefusedResponses, DirectResponses>(same)
        .track::<RefusedResponses>()
        .derived_for_each::<GrantRow, Grants>(same)
        .group::<GrantsBetween>()
        .lookup::<Permitted>()
        .derived_for_each::<SecretLabels, Secrets>(same)
        .group::<SecretsLabelled>()
        .lookup::<CredentialSlots>()
        .lookup::<AuthoritiesOf>()
        .lookup::<BundleState>()
        .lookup::<BundleBytes>()
        .derived_for_each::<TlsPolicyRow, BackendTlsPolicies>(same)
        .group::<TlsTargeting>()
        .lookup::<BackendTls>()
        .lookup::<ServicePorts>()
        .derived_for_each::<ConfigPolicyRow, BackendConfigPolicies>(BackendConfigPolicies::id)
        .group::<ConfigTargeting>()
        .group::<ConfigSelecting>()
        .lookup::<ConfigPoliciesOf>()
        .lookup::<BackendHosts>()
        .lookup::<ConfigOf>()
        .lookup::<Reached>()
        .lookup::<Dial>()
        .lookup::<StreamRule>()
        .lookup::<ExtensionRow>()
        .lookup::<MatchingTime>()
        .lookup::<ReplacingTime>()
        .derived_for_each::<PolicyRow, TrafficPolicies>(|key| TrafficPolicies::id(key).map(Source::live))
        .for_each::<PolicyRow, RewritePolicies>(|key| RewritePolicies::id(key).map(Source::live))
        .for_each::<PolicyRow, EditionObjects>(policy_of_edition)
        .derived_for_each::<DelegationPolicyRow, DelegationPolicies>(|key| Some(Source::live(key.clone())))
        .for_each::<DelegationPolicyRow, EditionObjects>(delegation_policy_of_edition)
        .group::<NamingListeners>()
        .group::<Targeting>()
        .group::<Selecting>()
        .lookup::<WideFreezing>()
        .lookup::<PoliciesOf>()
        .lookup::<Sections>()
        .lookup::<ParentOf>()
        .lookup::<WidePriority>()
        .lookup::<WideLevel>()
        .lookup::<BrokenGateway>()
        .lookup::<BrokenListener>()
        .lookup::<WideUnits>()
        .lookup::<WideActions>()
        .lookup::<ActionsAt>()
        .lookup::<WideSlots>()
        .lookup::<ListenerSlots>()
        .lookup::<SlotWords>()
        .lookup::<SlotWordAt>()
        .lookup::<SlotHolders>()
        .lookup::<WideAuth>()
        .lookup::<OurClasses>()
        .derived_for_each::<SliceRow, Slices>(same)
        .group::<SlicesOf>()
        .derived_for_each::<ConfigHolder, Services>(config::service)
        .for_each::<ConfigHolder, Backends>(config::backend)
        .group::<HeldAt>()
        .lookup::<Certificate>()
        .lookup::<CertificateState>()
        .derived_for_each::<ListenerPolicyRow, ListenerPolicies>(ListenerPolicies::id)
        .group::<ListenerTargeting>()
        .group::<ListenerSelecting>()
        .lookup::<ListenerPoliciesOf>()
        .lookup::<DownstreamOf>()
        .derived_for_each::<GatewayRow, Gateways>(same)
        .lookup::<ClientCertificate>()
        .derived_for_each::<Served, Gateways>(same)
        .track::<Served>()
        .lookup::<NamespaceLabels>()
        .lookup::<GatewayPresence>()
        .lookup::<Admitting>()
        .derived_for_each::<SetHead, ListenerSets>(same)
        .group::<SetsOf>()
        .group::<SetPortAsks>()
        .derived::<SetPort>()
        .group::<SetPorts>()
        .lookup::<OwnPorts>()
        .lookup::<BindPorts>()
        .lookup::<BindPort>()
        .derived_for_each::<SetAsks, ListenerSets>(same)
        .group::<PortAsks>()
        .lookup::<PortHolder>()
        .lookup::<SpokenAt>()
        .group::<HostAsks>()
        .lookup::<HostHolder>()
        .lookup::<AskedOfClients>()
        .derived_for_each::<SetRow, ListenerSets>(same)
        .derived_for_each::<SetRoom, ListenerSets>(same)
        .group::<ListenerRooms>()
        .derived::<NamespaceRoom>()
        .group::<RoomAsks>()
        .lookup::<RoomShare>()
        .lookup::<RoomBeyond>()
        .lookup::<Crowded>()
        .lookup::<WithoutRoom>()
        .lookup::<UnservedPort>()
        .group::<SoundAsks>()
        .derived::<SoundPort>()
        .group::<SoundPorts>()
        .lookup::<Traced>()
        .lookup::<TakesAddresses>()
        .derived_for_each::<Named, Gateways>(same)
        .group::<NameClaims>()
        .lookup::<NameRival>()
        .derived::<ProxiesOf>()
        .track::<ProxiesOf>()
        .group::<PortClaims>()
        .lookup::<PortRival>()
        .derived_for_each::<ListenerPolicyHolder, Gateways>(same)
        .group::<HeldAtGateway>()
        .derived::<ListenerRow>()
        .group::<ListenerIndex>()
        .group::<PortHosts>()
        .group::<PortListeners>()
        .group::<TlsHostsBelow>()
        .lookup::<TlsHosts>()
        .lookup::<Admits>()
        .lookup::<Open>()
        .lookup::<Candidates>()
        .lookup::<Presence>()
        .group::<DelegationPoliciesOf>()
        .lookup::<PolicyDirectives>()
        .lookup::<DirectivesFor>()
        .lookup::<AskedFor>()
        .lookup::<FreezingOf>()
        .lookup::<RulePolicies>()
        .lookup::<HandedDown>()
        .derived_for_each::<Attachment, Routes>(same)
        .for_each::<Attachment, Editions>(|root| Some(root.route()?.committed()))
        .derived_for_each::<EditionMember, EditionRoutes>(same)
        .group::<StreamsAt>()
        .lookup::<Winner>()
        .lookup::<Owned>()
        .derived::<Place>()
        .group::<Members>()
        .derived::<BucketRow>()
        .group::<Buckets>()
        .lookup::<Filled>()
        .lookup::<ChildHead>()
        .layered(|tables| {
            tables
                .lookup::<Delegating>()
                .derived::<Candidate>()
                .group::<MatchClaims>()
                .lookup::<UsedMatches>()
                .derived::<TooManyMatches>()
                .group::<HasTooManyMatches>()
                .derived::<Growth>()
                .group::<RouteClaims>()
                .lookup::<UsedRoutes>()
                .derived::<TooManyRoutes>()
                .group::<SelectsTooMany>()
                .derived::<ChildSelection>()
                .derived::<BucketSelection>()
        })
        .derived::<OverShare>()
        .group::<ChildrenOverShare>()
        .group::<OverShareAt>()
        .derived::<ServedChain>()
        .group::<Selections>()
        .group::<Contributions>()
        .group::<CoveringChildren>()
        .group::<DelegatedMatches>()
        .lookup::<ContributedBelow>()
        .lookup::<Referred>()
        .group::<Places>()
        .derived::<TruncatedStatus>()
        .group::<TruncatedChildren>()
        .layered(|tables| tables.lookup::<LastCovering>().lookup::<ResolvedRule>())
        .lookup::<ResolvedAt>()
        .lookup::<RuleFindings>()
        .lookup::<SessionCluster>()
        .derived::<Judged>()
        .derived::<JudgedRoute>()
        .group::<Faults>()
        .derived::<TreeObject>()
        .group::<TreeObjects>()
        .derived::<TreePart>()
        .group::<TreeParts>()
        .derived::<TreeOf>()
        .track::<TreeOf>()
        .derived_for_each::<WideTree, Gateways>(same)
        .track::<WideTree>()
        .derived::<CandidateWide>()
        .track::<CandidateWide>()
        .derived::<Unacceptable>()
        .group::<AttachedRoutes>()
        .lookup::<ServedAt>()
        .derived::<CandidateOffer>()
        .track::<CandidateOffer>()
        .derived::<Offer>()
        .track::<Offer>()
        .input::<Cleared>()
        .derived_for_each::<ClearedHosts, Cleared>(same)
        .derived::<AskedHost>()
        .group::<HostsAsked>()
        .group::<Below>()
        .lookup::<Copies>()
        .derived::<Placement>()
        .derived::<WideAsked>()
        .derived::<ToldOf>()
        .derived::<AskedCluster>()
        .derived::<AskedTokens>()
        .group::<Fixed>()
        .group::<Claims>()
        .group::<PlaceClaims>()
        .lookup::<Overflow>()
        .lookup::<OverrunOf>()
        .lookup::<RoomOf>()
        .derived::<ServedPlace>()
        .group::<ChainsAt>()
        .group::<ShutAt>()
        .lookup::<BoundAt>()
        .derived::<HttpChain>()
        .group::<ServerClaims>()
        .lookup::<HasChain>()
        .group::<TlsListeners>()
        .lookup::<HasTlsListeners>()
        .lookup::<ChainsAlike>()
        .derived::<ServerName>()
        .group::<FilterChains>()
        .group::<ClosedNames>()
        .lookup::<ClosedChains>()
        .lookup::<ShutHost>()
        .group::<Charges>()
        .derived::<Asking>()
        .group::<Asked>()
        .lookup::<Shared>()
        .lookup::<ShareOf>()
        .derived::<TooSlow>()
        .group::<Exceeding>()
        .derived::<Rows>()
        .group::<LeftOut>()
        .group::<RoutesAt>()
        .group::<SaidAlike>()
        .derived::<SaidEnough>()
        .group::<SaidOften>()
        .lookup::<SaidOnce>()
        .derived_for_each::<WidePolicies, Gateways>(|gateway| Some(ParentId::Gateway(gateway.clone())))
        .for_each::<WidePolicies, ListenerSets>(|set| Some(ParentId::ListenerSet(set.clone())))
        .derived::<PolicyAt>()
        .group::<PolicyGateways>()
        .group::<Standings>()
        .group::<Overrides>()
        .derived::<UsedEntry>()
        .derived::<WithoutPrefix>()
        .group::<Prefixless>()
        .derived_for_each::<InvalidPolicies, DelegationPolicies>(DelegationPolicies::id)
        .for_each::<InvalidPolicies, BackendConfigPolicies>(BackendConfigPolicies::id)
        .for_each::<InvalidPolicies, BackendTlsPolicies>(BackendTlsPolicies::id)
        .for_each::<InvalidPolicies, ListenerPolicies>(ListenerPolicies::id)
        .track::<InvalidPolicies>()
        .derived::<Replaced>()
        .track::<Replaced>()
        .lookup::<Owner>()
        .derived::<VirtualHost>()
        .group::<HostsOf>()
        .group::<UnservedHosts>()
        .derived::<ReferredEntry>()
        .group::<ReferredEntries>()
        .lookup::<ShownThere>()
        .derived::<ServedCluster>()
        .derived::<DialedBy>()
        .group::<Dialing>()
        .lookup::<TlsAncestors>()
        .lookup::<TlsRoom>()
        .lookup::<PlaceShares>()
        .lookup::<WaysAt>()
        .lookup::<ClusterBytes>()
        .lookup::<ShowingBytes>()
        .lookup::<AssignmentBytes>()
        .derived::<OfferedPart>()
        .track::<OfferedPart>()
        .derived::<OfferedWide>()
        .track::<OfferedWide>()
        .derived::<OfferedListener>()
        .track::<OfferedListener>()
        .derived::<Outputs>()
        .track::<Outputs>()
        .group::<Withheld>()
        .group::<NoRoom>()
        .derived::<ReplacedWide>()
        .track::<ReplacedWide>()
        .derived_for_each::<ClassStatus, Classes>(same)
        .track::<ClassStatus>()
        .lookup::<GatewayStanding>()
        .derived_for_each::<SetStatus, ListenerSets>(same)
        .track::<SetStatus>()
        .group::<AttachedSets>()
        .derived_for_each::<GatewayStatus, Gateways>(same)
        .track::<GatewayStatus>()
        .derived_for_each::<RouteStatus, Routes>(same)
        .track::<RouteStatus>()
        .derived_for_each::<BackendStatus, Backends>(same)
        .track::<BackendStatus>()
        .derived_for_each::<PolicyStatus, TrafficPolicies>(TrafficPolicies::id)
        .for_each::<PolicyStatus, RewritePolicies>(RewritePolicies::id)
        .for_each::<PolicyStatus, DelegationPolicies>(DelegationPolicies::id)
        .for_each::<PolicyStatus, BackendConfigPolicies>(BackendConfigPolicies::id)
        .for_each::<PolicyStatus, BackendTlsPolicies>(BackendTlsPolicies::id)
        .for_each::<PolicyStatus, ListenerPolicies>(ListenerPolicies::id)
        .track::<PolicyStatus>()
        .derived_for_each::<ExtensionStatus, Extensions>(same)
        .track::<ExtensionStatus>()
        .build()
}
