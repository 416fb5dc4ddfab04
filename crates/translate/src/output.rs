//! What each Gateway's proxies get: only what is referenced, and only Secrets that the Gateway may read.

mod cleared;
mod listener;
mod misdirected;

use std::{collections::BTreeSet, sync::Arc};

use api::Kind as ObjectKind;
use engine::{Derived, Emitter, Scope};
use envoy::{
    body::Body,
    bytes::{self, Alike, Host},
    extensions::{self, TokenJudges},
    resource::Encoded,
    secret::LoginSecret,
    slots::is_merged,
};
use ir::{
    ListenerId, ListenerName, NsName, Port, RouteConfigId,
    backend::{Destination, Transport},
    filter::Scheme,
    listener::TlsSecret,
    rule::{ExtensionEntry, Slot},
};

use crate::{
    alike::said_for,
    authorities,
    backend::{self, config, tls},
    extension::ExtensionRow,
    gateway::policy::DownstreamOf,
    inspect::sent::owner,
    login,
    offer::{is_strict, offer},
    policy::wide::{
        BrokenGateway, BrokenListener, WideSlots, head_of, is_invalid, of_listener, section, served_slots,
        slots_as_they_are, whole,
    },
    stream,
    tables::{
        backend::{AssignmentBytes, ClusterBytes, ClusterId, ShownThere},
        capacity::{AskedCluster, AskedTokens},
        gateway::{ClientCertificate, GatewayRow},
        host::{HostsOf, UnservedHosts, WideAsked},
        input::{ClearedListener, ClearedPart, Config, Gateways, ObjectKey},
        listener::{ListenerRow, ServedAt},
        output::{OutputId, Outputs, ReferredEntries, ReferredEntry, ServedCluster, ToldOf, Withheld},
        policy::Target,
        replacement::{ReplacedScope, ReplacedWide},
        strict::{CandidateWide, Offered, OfferedPart, OfferedWide, Part, PartId, Wide, WideScope},
        tls::{DialedBy, NoRoom},
    },
    tls::Certificate,
};

impl Derived for Outputs {
    fn compute(scope: &Emitter<'_>, key: &OutputId) -> Option<Encoded> {
        let encoded = match key {
            OutputId::Cluster(gateway, cluster) => {
                if let ClusterId::Place(place) = cluster {
                    // It goes without the share of that backend.
                    if let Some(policy) = stream::without_room(scope, place) {
                        scope.emit::<NoRoom>(gateway.clone(), cluster.clone(), policy);
                    }
                } else if let Some(policy) = cluster.to().and_then(|to| tls::without_room(scope, gateway, &to)) {
                    scope.emit::<NoRoom>(gateway.clone(), cluster.clone(), policy);
                    return None;
                }
                if backend::without_certificate(scope, gateway, cluster).is_some() {
                    return None;
                }
                backend::sent(scope, gateway, cluster)
            }
            OutputId::Endpoints(_, cluster) => scope.get::<AssignmentBytes>(cluster).map(|encoded| (*encoded).clone()),
            OutputId::Secret(_, secret) => {
                let certificate = scope.get::<Certificate>(secret)?;
                certificate.as_ref().as_ref().ok().map(|(certificate, _)| envoy::secret::secret(certificate))
            }
            OutputId::Authorities(_, bundle) => authorities::secret(scope, bundle),
            OutputId::ClientCertificate(gateway) => client_certificate(scope, gateway),
            OutputId::Login(gateway, extension, part) => login::secret(scope, gateway, extension, *part),
            OutputId::Extension(gateway, name) => Some(extension(scope, gateway, name)),
            OutputId::Listener(gateway, port, Transport::Tcp) => match listener::encoded(scope, gateway, *port)? {
                Ok(encoded) => Some(encoded),
                Err(why) => {
                    scope.emit::<Withheld>(gateway.clone(), key.clone(), why);
                    None
                }
            },
            // Nobody is asked about it: nothing that people write is in it but names.
            OutputId::Listener(gateway, port, Transport::Udp) => listener::udp(scope, gateway, *port),
            // It is for connections from before a certificate was demanded, if any.
            OutputId::RouteConfiguration(id) if is_verified(scope, id) => {
                Some(envoy::misdirected::route_configuration(&id.resource_name()))
            }
            OutputId::RouteConfiguration(id) => Some(route_configuration(scope, id, &id.resource_name())),
            OutputId::VerifiedRoutes(id) => Some(route_configuration(scope, id, &id.verified_name())),
        }?;
        if let Err(why) = encoded.readable() {
            scope.emit::<Withheld>(key.resource().gateway, key.clone(), why);
            return None;
        }
        Some(encoded)
    }
}

/// What the proxies of a Gateway show to backends.
fn client_certificate(scope: &Scope<'_>, gateway: &NsName) -> Option<Encoded> {
    let secret = scope.get::<ClientCertificate>(gateway)?;
    let certificate = scope.get::<Certificate>(secret.as_ref().as_ref().ok()?)?;
    let (certificate, _) = certificate.as_ref().as_ref().ok()?;
    Some(envoy::secret::secret(&TlsSecret { name: TlsSecret::OF_GATEWAY.into(), ..certificate.clone() }))
}

impl Derived for OfferedPart {
    fn compute(scope: &Emitter<'_>, part: &PartId) -> Option<Offered> {
        let (offered, owner) = match part {
            PartId::Cluster(cluster) => {
                let encoded = scope.get::<ClusterBytes>(cluster);
                let owner = owner(cluster, |place| stream::owner(scope, place));
                (encoded.map(|encoded| Part::Cluster((*encoded).clone())), owner)
            }
            PartId::Entry(ExtensionEntry::Tokens(id) | ExtensionEntry::LoginTokens(id) | ExtensionEntry::Login(id)) => {
                let owner = id.clone().id(ObjectKind::GatewayExtension).into();
                (token_judges(scope, id).map(Part::Tokens), owner)
            }
            // It is the same for all who say the same.
            PartId::Entry(ExtensionEntry::LocalRate(_) | ExtensionEntry::Program(_)) => {
                (Some(Part::Rate), NsName::new("", "").id(ObjectKind::TrafficPolicy).into())
            }
            PartId::Chain(listener, hostname) => cleared::chain(scope, listener, hostname),
        };
        Some(Offered { part: offered, owner })
    }
}

impl Derived for OfferedWide {
    fn compute(scope: &Emitter<'_>, listener: &ListenerId) -> Option<Wide> {
        let slots_of =
            |target: &Target| scope.get::<WideSlots>(target).map(|slots| (*slots).clone()).unwrap_or_default();
        let (gateway, own) = (whole(&listener.gateway), section(listener));
        let (of_gateway, of_own) = (slots_of(&gateway), slots_of(&own));
        let own = listener_scopes(&own, &of_own, &of_gateway);
        let scopes = wide_scope(&gateway, &of_gateway).into_iter().chain(own).collect();
        Some(Wide {
            is_gateway_broken: is_invalid(scope, &whole(&listener.gateway)),
            is_listener_broken: is_invalid(scope, &section(listener)),
            of_gateway,
            of_listener: of_own,
            scopes,
        })
    }
}

impl Derived for CandidateWide {
    fn compute(scope: &Emitter<'_>, name: &NsName) -> Option<Box<[WideScope]>> {
        let gateway = scope.get::<Gateways>(name)?;
        let of_gateway = slots_as_they_are(scope, &whole(name));
        let of_listeners = gateway.spec.listeners.iter().flat_map(|listener| {
            let own = section(&ListenerId::of_gateway(name.clone(), listener.name.clone()));
            listener_scopes(&own, &slots_as_they_are(scope, &own), &of_gateway)
        });
        let scopes: Box<[_]> = wide_scope(&whole(name), &of_gateway).into_iter().chain(of_listeners).collect();
        for part in scopes.iter().flat_map(|wide| &wide.parts) {
            scope.demand::<OfferedPart>(part.clone());
        }
        Some(scopes)
    }
}

/// What slots of a Gateway or a listener come to, alone; none where there are none.
fn wide_scope(target: &Target, slots: &[Slot]) -> Option<WideScope> {
    let wide = || WideScope { target: target.clone(), head: head_of(slots), parts: wide_parts(slots).collect() };
    (!slots.is_empty()).then(wide)
}

/// Those of a listener: all of them, and what is not on the route configuration that it shares.
fn listener_scopes(own: &Target, slots: &[Slot], of_gateway: &[Slot]) -> impl Iterator<Item = WideScope> + use<> {
    [wide_scope(own, slots), wide_scope(own, &of_listener(slots, of_gateway))].into_iter().flatten()
}

/// What slots of a Gateway or a listener refer to and ask.
fn wide_parts(slots: &[Slot]) -> impl Iterator<Item = PartId> {
    let asked = slots.iter().flat_map(|slot| slot.asks.iter()).map(|asked| PartId::Cluster(asked.into()));
    asked.chain(slots.iter().filter_map(|slot| slot.entry.as_deref()).filter_map(PartId::of))
}

impl Derived for ReferredEntry {
    fn compute(scope: &Emitter<'_>, (gateway, entry): &Self::Key) -> Option<()> {
        if let Some(part) = PartId::of(entry) {
            offer(scope, part);
        }
        if let ExtensionEntry::Login(extension) = entry {
            for part in [LoginSecret::Cookies].into_iter().chain(login::client(scope, extension)) {
                scope.demand::<Outputs>(OutputId::Login(gateway.clone(), extension.clone(), part));
            }
            return Some(());
        }
        scope.emit::<ReferredEntries>(gateway.clone(), entry.clone(), ());
        Some(())
    }
}

/// What an extension says: that to which rows refer, and the slots of wider scopes. A scope of which nobody knows what its
/// policies say answers by itself and refers to nothing, so that it is left out and the others keep what is theirs.
fn extension(scope: &Scope<'_>, gateway: &NsName, name: &str) -> Encoded {
    if !extensions::has_entries(name) {
        let body_bytes = scope.get::<Config>(&()).map_or(0, |config| config.policies.max_body_bytes);
        return extensions::extension(name, [], |_| None, body_bytes);
    }
    let referred = scope.group::<ReferredEntries>(gateway);
    let listeners = scope.get::<GatewayRow>(gateway);
    let listeners = listeners.iter().flat_map(|model| &model.listeners);
    let own = |section: &Arc<str>| ListenerName::of_gateway(section.clone());
    let listeners = listeners.map(|listener| ListenerId::new(gateway.clone(), own(&listener.name)));
    let places = std::iter::once(whole(gateway)).chain(listeners.map(|listener| section(&listener)));
    let wide = places.filter_map(|place| scope.attempt(|| served_slots(scope, &place)).ok().flatten());
    let wide: Vec<_> = wide.collect();
    let wide = wide.iter().flat_map(|slots| slots.iter()).filter_map(|slot| slot.entry.as_deref());
    let entries: BTreeSet<_> = referred.iter().map(|(entry, ())| entry).chain(wide).collect();
    // Of what was not cleared nothing is sent, also where all is said by the entry.
    let is_cleared = |entry: &ExtensionEntry| {
        !is_strict(scope) || PartId::of(entry).is_none_or(|part| scope.get::<ClearedPart>(&part).is_some())
    };
    let own = entries.into_iter().filter(|entry| extensions::holder(entry) == Some(name) && is_cleared(entry));
    let judges = |id: &NsName| {
        if !is_strict(scope) {
            return token_judges(scope, id);
        }
        let of_logins = name == envoy::slots::OAUTH2_JWT;
        let entry = if of_logins { ExtensionEntry::LoginTokens } else { ExtensionEntry::Tokens };
        match &*scope.get::<ClearedPart>(&PartId::Entry(entry(id.clone())))? {
            Part::Tokens(judges) => Some(judges.clone()),
            Part::Cluster(_) | Part::Rate | Part::Chain(..) => None,
        }
    };
    extensions::extension(name, own, judges, 0)
}

/// Whose tokens are taken by the word of a GatewayExtension. One that is broken is left out, so that what refers to it is refused
/// and all others keep what is theirs.
fn token_judges(scope: &Scope<'_>, id: &NsName) -> Option<TokenJudges> {
    let judged = scope.attempt(|| scope.get::<ExtensionRow>(id)).ok().flatten()?;
    judged.extension.as_ref().ok()?.provider.token_judges().cloned()
}

/// Whether it is a listener's that lets clients in by a certificate alone.
fn is_verified(scope: &Scope<'_>, id: &RouteConfigId) -> bool {
    let listener = id.listener_id().and_then(|listener| scope.get::<ListenerRow>(&listener));
    listener.is_some_and(|listener| listener.is_verified())
}

fn route_configuration(scope: &Emitter<'_>, id: &RouteConfigId, name: &str) -> Encoded {
    // Where nobody knows what policies say of all of it, it answers by itself.
    let said = scope.attempt(|| (slots(scope, id), said_for(scope, id)));
    let (mut slots, alike) = match said {
        Ok(said) if !is_replaced(scope, id) => said,
        _ => {
            scope.demand::<ReplacedWide>(ReplacedScope { config: id.clone(), host: None });
            let host = envoy::replaced::virtual_host("*", &Alike::default());
            return bytes::route_configuration(name, &[], [alone(&host)], &[*host.hash()]);
        }
    };
    slots.extend(alike.slots());
    let hosts = scope.group::<HostsOf>(id);
    let pieces = hosts.pages().map(|page| {
        let hosts = page.cached(|page| bytes::hosts(page.iter().map(|(_, host)| host)));
        (*hosts).clone()
    });
    let besides = misdirected::host(scope, id, &alike).or_else(|| unserved(scope, id, &alike));
    let content: Vec<_> = [hosts.set_hash()].into_iter().chain(besides.as_ref().map(|host| *host.hash())).collect();
    let pieces = pieces.chain(besides.as_ref().map(alone));
    bytes::route_configuration(name, &slots, pieces, &content)
}

/// The virtual host for hostnames of listeners without TLS that are not served.
fn unserved(scope: &Scope<'_>, id: &RouteConfigId, alike: &Alike) -> Option<Host> {
    let hostnames = scope.group::<UnservedHosts>(id);
    let domains: Vec<_> = hostnames.iter().map(|(hostname, ())| hostname.domain()).collect();
    (!domains.is_empty()).then(|| envoy::unserved::virtual_host(domains, alike))
}

impl Derived for WideAsked {
    fn compute(scope: &Emitter<'_>, listener: &ListenerId) -> Option<()> {
        // Without TLS what the Gateway says stands there too, for all listeners of the port.
        let is_shared = scope.get::<ServedAt>(listener).is_some_and(|at| at.0 == Scheme::Http);
        let places = std::iter::once(section(listener)).chain(is_shared.then(|| whole(&listener.gateway)));
        let places: Vec<_> = places.collect();
        if is_strict(scope) {
            // What is not sent yet is judged before.
            for slots in places.iter().filter_map(|place| scope.get::<WideSlots>(place)) {
                wide_parts(&slots).for_each(|part| scope.demand::<OfferedPart>(part));
            }
        }
        for slots in places.iter().filter_map(|place| served_slots(scope, place)) {
            for asked in slots.iter().flat_map(|slot| slot.asks.iter()) {
                let cluster = (listener.gateway.clone(), asked.into());
                scope.demand::<AskedCluster>(cluster.clone());
                scope.demand::<ServedCluster>(cluster);
            }
            for entry in slots.iter().filter_map(|slot| slot.entry.as_deref()) {
                if let Some(part) = PartId::of(entry) {
                    offer(scope, part);
                }
                let gateway = || listener.gateway.clone();
                match entry {
                    // Whoever lists what a Gateway's extensions say looks at no ListenerSet.
                    _ if listener.name.set.is_some() => scope.demand::<ReferredEntry>((gateway(), entry.clone())),
                    ExtensionEntry::Tokens(_)
                    | ExtensionEntry::LoginTokens(_)
                    | ExtensionEntry::LocalRate(_)
                    | ExtensionEntry::Program(_) => {}
                    ExtensionEntry::Login(_) => scope.demand::<ReferredEntry>((gateway(), entry.clone())),
                }
                if let ExtensionEntry::Tokens(id) | ExtensionEntry::LoginTokens(id) = entry {
                    scope.demand::<AskedTokens>((gateway(), id.clone()));
                }
            }
        }
        Some(())
    }
}

impl Derived for ToldOf {
    fn compute(scope: &Emitter<'_>, key: &(NsName, Port)) -> Option<()> {
        let (merged, cleared) = (scope.get::<DownstreamOf>(key), scope.get::<ClearedListener>(key));
        // What is sent still tells whom it told before.
        let sinks = merged.iter().flat_map(|merged| merged.config.http.sinks());
        for sink in sinks.chain(cleared.iter().flat_map(|listener| listener.head.config.http.sinks())) {
            if !sink.is_there {
                // One whose policy of TLS is not valid is to be told so.
                if sink.to.is_secured() {
                    scope.demand::<DialedBy>((sink.to.clone().plain(), key.0.clone()));
                }
                continue;
            }
            let cluster = (key.0.clone(), ClusterId::from(sink));
            scope.demand::<AskedCluster>(cluster.clone());
            scope.demand::<ServedCluster>(cluster);
        }
        Some(())
    }
}

impl Derived for ServedCluster {
    fn compute(scope: &Emitter<'_>, key: &(NsName, ClusterId)) -> Option<()> {
        serve(scope, key);
        if let Some(secret) = config::certificate(scope, &key.1) {
            scope.demand::<Outputs>(OutputId::Secret(key.0.clone(), secret));
        }
        if scope.get::<ClientCertificate>(&key.0).is_some() && scope.get::<ShownThere>(&key.1).is_some() {
            scope.demand::<Outputs>(OutputId::ClientCertificate(key.0.clone()));
        }
        if let Some(to) = key.1.to().filter(Destination::is_secured) {
            scope.demand::<DialedBy>((to.clone().plain(), key.0.clone()));
            if let Some(bundle) = tls::bundle_of(scope, &to) {
                scope.demand::<Outputs>(OutputId::Authorities(key.0.clone(), bundle));
            }
        }
        Some(())
    }

    /// Without a certificate a backend that demands one refuses; without a cluster a provider would be asked in vain.
    fn poisoned(scope: &Emitter<'_>, key: &(NsName, ClusterId), _: &engine::Fault) -> Option<()> {
        serve(scope, key);
        Some(())
    }
}

fn serve(scope: &Emitter<'_>, (gateway, cluster): &(NsName, ClusterId)) {
    offer(scope, PartId::Cluster(cluster.clone()));
    scope.demand::<Outputs>(OutputId::Cluster(gateway.clone(), cluster.clone()));
    scope.demand::<Outputs>(OutputId::Endpoints(gateway.clone(), cluster.clone()));
}

/// A virtual host as a piece of its own.
fn alone(host: &Host) -> Body {
    bytes::hosts(std::iter::once(host))
}

/// The slots that hold for all of a route configuration.
fn slots(scope: &Scope<'_>, id: &RouteConfigId) -> Vec<Slot> {
    let listener = id.listener_id();
    let slots = served_slots(scope, &listener.as_ref().map_or_else(|| whole(&id.gateway), section));
    let slots = slots.iter().flat_map(|slots| slots.iter());
    // Where listeners share it, some stand on their virtual hosts alone.
    slots.filter(|slot| listener.is_some() || !is_merged(slot.name)).cloned().collect()
}

/// Whether a policy of the Gateway is broken, or one of the listener that has the route configuration for itself.
fn is_replaced(scope: &Scope<'_>, id: &RouteConfigId) -> bool {
    scope.get::<BrokenGateway>(&id.gateway).is_some()
        || id.listener_id().is_some_and(|listener| scope.get::<BrokenListener>(&listener).is_some())
}
