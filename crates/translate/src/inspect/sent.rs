//! What is sent to proxies, in the parts that an Envoy can judge each by itself.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use api::{Kind as ObjectKind, ObjectId};
use envoy::{
    bytes::{Hash, Row},
    judged::{self, Fragment, Kind},
    resource::Encoded,
    route::RouteAt,
};
use ir::{
    Chain, Hostname, ListenerId, NsName, RouteId,
    matching::{Origin, Precedence},
    rule::ExtensionEntry,
    stream::PlaceId,
};

use super::{EnvoyRoutes, Inspector};
use crate::{
    Translator,
    resolve::{self, Resolved, ResolvedRule, served_at},
    tables::{
        attachment::Attachment,
        backend::{ClusterBytes, ClusterId, Reached},
        input::{ObjectKey, object_id},
        listener::{ListenerRow, ServedAt, route_config_at},
        output::{OutputId, Outputs},
        policy,
        stream::{StreamRule, Winner},
        strict::Owner,
    },
    target::backend_object,
};

/// A part of what is sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The part.
    pub fragment: Fragment,
    /// The object that it is made from, whose owner must act if it is refused.
    pub object: ObjectId,
    /// The field of it that has most say in it; empty where that is all of it.
    pub field: String,
    /// The route, if it is a row.
    pub route: Option<RouteId>,
    /// Whether it may hold what an object of another namespace says, which the owner of this one may not read.
    pub is_shared: bool,
}

impl Inspector<'_> {
    /// All that is sent but endpoints and secrets, in the order of objects. Looks at all of it, and copies it.
    pub fn sent(self) -> Vec<Sent> {
        let mut sent: Vec<_> = self.rows_sent(|_| true).collect();
        for (id, encoded) in self.engine.rows::<Outputs>() {
            sent.extend(self.resource(&id, &encoded));
        }
        sent.sort_by(|a, b| (&a.object, &a.field, a.fragment.kind).cmp(&(&b.object, &b.field, b.fragment.kind)));
        sent
    }

    /// The Envoy routes that stand in a route configuration of a Gateway, by the name of the resource, each as it is judged. Looks
    /// at all of the Gateway's routes.
    pub fn rows_of(self, gateway: &NsName, config: &str) -> Vec<Sent> {
        let is_in = |listener: &ListenerId| {
            let at = (listener.gateway == *gateway).then(|| self.engine.get::<ServedAt>(listener)).flatten();
            let row = at.and_then(|at| Some((at, self.engine.get::<ListenerRow>(listener)?)));
            row.is_some_and(|(at, row)| row.name_of(&route_config_at(listener, (at.0, at.1))) == config)
        };
        self.rows_sent(is_in).collect()
    }

    /// Which of these Envoy routes, each with the route that it is of and a text that only words about it have, may be refused at
    /// present: their route is told so, or becomes another Envoy route at each listener, of which nobody tells. Looks at all rules
    /// at most.
    pub fn may_be_refused<'a>(
        self,
        translator: &Translator,
        rows: impl IntoIterator<Item = (&'a ObjectId, &'a str)>,
    ) -> Vec<bool> {
        let by_listener = LazyCell::new(|| {
            let rules = self.engine.rows::<ResolvedRule>().into_iter();
            let by_listener = rules.filter(|(_, rule)| matches!(rule.routes, resolve::EnvoyRoutes::ByListener(_)));
            by_listener.map(|((chain, _), _)| chain.route().live()).collect::<BTreeSet<_>>()
        });
        let may_be = |(object, text): (&ObjectId, &str)| {
            translator.problems_of(object).iter().any(|problem| problem.message.contains(text))
                || RouteId::of(object).is_some_and(|route| by_listener.contains(&route))
        };
        rows.into_iter().map(may_be).collect()
    }

    /// The clusters of these names that the proxies of a Gateway are sent, each as it is judged. Looks at all that is sent.
    pub fn clusters_of(self, gateway: &NsName, names: &HashSet<&str>) -> Vec<Sent> {
        let outputs = self.engine.rows::<Outputs>().into_iter();
        let clusters = outputs.filter_map(|(id, _)| match id {
            OutputId::Cluster(of, cluster) if of == *gateway && names.contains(&*cluster.name()) => Some((of, cluster)),
            _ => None,
        });
        // Whether a certificate is shown is nobody's word.
        let sent = clusters.filter_map(|(of, cluster)| {
            let written = self.engine.get::<ClusterBytes>(&cluster)?;
            Some(self.resource(&OutputId::Cluster(of, cluster), &written))
        });
        sent.flatten().collect()
    }

    /// Which of these clusters, each with its content hash and a text that only words about it have, are left out at present since
    /// proxies refused them. Looks at all backends and clusters.
    pub fn are_left_out<'a>(self, clusters: impl IntoIterator<Item = (Hash, &'a str)>) -> Vec<bool> {
        let unusable = self.engine.rows::<Reached>().into_iter();
        let unusable: Vec<_> = unusable.filter_map(|(_, reach)| reach.protocol.clone().err()).collect();
        let written: HashSet<_> =
            self.engine.rows::<ClusterBytes>().iter().map(|(_, encoded)| encoded.version).collect();
        let is_met = |(hash, text): (Hash, &str)| {
            written.contains(&hash) || unusable.iter().any(|unusable| unusable.message.contains(text))
        };
        clusters.into_iter().map(is_met).collect()
    }

    /// Which of these, by their content hash, stand in the tables and are refused, each as it would be sent: Envoy routes of these
    /// objects, and clusters. Not among them is what stands nowhere since its match is refused too. Looks at all rules and clusters.
    pub fn refused(self, hashes: &HashSet<Hash>, objects: &BTreeSet<ObjectId>) -> Vec<Fragment> {
        let mut found: BTreeMap<Hash, Fragment> = BTreeMap::new();
        let rules = self.engine.rows::<ResolvedRule>().into_iter();
        for ((chain, rule), _) in rules.filter(|((chain, _), _)| objects.contains(&object_id(chain.route()))) {
            let attached = self.engine.get::<Attachment>(chain.top());
            for (listener, _) in attached.iter().flat_map(|attached| attached.listeners.iter()) {
                let at = self.engine.get::<ServedAt>(listener).map(|at| RouteAt { scheme: at.0, port: at.1 });
                let resolved = served_at(self.engine, &(chain.clone(), rule, listener.clone()));
                let (Some(at), Some(resolved)) = (at, resolved) else { continue };
                let rows = resolved.routes_at(at).iter().filter_map(|route| route.refused.clone()).collect::<Vec<_>>();
                for row in rows.into_iter().filter(|row| hashes.contains(&row.hash)) {
                    let fragment = of_row(&chain, None, &row, Some(&resolved)).fragment;
                    found.insert(row.hash, fragment);
                }
            }
        }
        let of_backends = self.engine.rows::<Reached>().into_iter();
        let of_backends = of_backends.filter_map(|(_, reach)| reach.refused.as_deref().cloned());
        let others = self.engine.rows::<ClusterBytes>().into_iter().map(|(_, encoded)| Encoded::clone(&encoded));
        for encoded in of_backends.chain(others).filter(|encoded| hashes.contains(&encoded.version)) {
            let (hash, bytes) = (encoded.version, encoded.body.to_bytes());
            found.insert(hash, Fragment { kind: Kind::Cluster, hash, bytes, asks: Arc::default() });
        }
        found.into_values().collect()
    }

    fn rows_sent(self, is_in: impl Fn(&ListenerId) -> bool) -> impl Iterator<Item = Sent> {
        let attached = self.attached_routes();
        let places = attached.iter().flat_map(|route| {
            let at = |listener: &ListenerId| {
                route.hostnames(listener).map(|hostname| (listener.clone(), hostname.clone())).collect::<Vec<_>>()
            };
            route.listeners().filter(|listener| is_in(listener)).flat_map(at).collect::<Vec<_>>()
        });
        let places: BTreeSet<(ListenerId, Hostname)> = places.collect();
        places.into_iter().flat_map(move |(listener, hostname)| {
            let routes: EnvoyRoutes = self.envoy_routes(&listener, &hostname);
            let rows = routes.iter().map(|(place, row)| {
                let served = self.served(place, &listener);
                of_row(place.via(), place.origin(), row, served.as_deref())
            });
            rows.collect::<Vec<_>>()
        })
    }

    /// The parts of a resource, but for rows.
    fn resource(self, id: &OutputId, encoded: &Encoded) -> Vec<Sent> {
        let gateway = |gateway: &NsName| Owner::from(gateway.clone().id(ObjectKind::Gateway));
        let (kind, owner) = match id {
            OutputId::Endpoints(..)
            | OutputId::Secret(..)
            | OutputId::Authorities(..)
            | OutputId::ClientCertificate(_)
            | OutputId::Login(..) => return Vec::new(),
            OutputId::Cluster(_, cluster) => {
                let of_place = |place: &PlaceId| {
                    let route = self.engine.get::<Winner>(place)?;
                    let rule = self.engine.get::<StreamRule>(&route);
                    Some(rule.as_deref().map_or_else(|| object_id(&route).into(), |rule| rule.owner(&route)))
                };
                (Kind::Cluster, owner(cluster, of_place))
            }
            OutputId::Extension(name, _) => (Kind::Extension, gateway(name)),
            OutputId::Listener(name, ..) => (Kind::Listener, gateway(name)),
            OutputId::RouteConfiguration(config) | OutputId::VerifiedRoutes(config) => {
                (Kind::RouteConfiguration, gateway(&config.gateway))
            }
        };
        if kind != Kind::RouteConfiguration {
            return vec![of_message(kind, encoded, &owner, Arc::default())];
        }
        let (head, hosts) = judged::heads(&encoded.body.to_bytes());
        let sent = |fragment| of_fragment(fragment, &owner);
        std::iter::once(head).chain(hosts).map(sent).collect()
    }

    fn served(self, place: &Precedence, listener: &ListenerId) -> Option<Arc<Resolved>> {
        served_at(self.engine, &(place.via().clone(), place.origin()?.rule, listener.clone()))
    }
}

/// An Envoy route of a rule where it is served; `origin` tells which match it is of.
pub(crate) fn of_row(chain: &Chain, origin: Option<Origin>, row: &Row, rule: Option<&Resolved>) -> Sent {
    let asks = rule.map_or_else(Arc::default, asked);
    let field = origin.map(|origin| format!("spec.rules[{}].matches[{}]", origin.rule, origin.matching));
    let route = chain.route();
    Sent {
        fragment: Fragment { kind: Kind::Row, bytes: row.bytes.clone(), hash: row.hash, asks },
        object: object_id(route),
        field: field.unwrap_or_default(),
        route: Some(route.clone()),
        is_shared: rule.is_some_and(|rule| is_shared(rule, chain)),
    }
}

/// A whole message.
pub(crate) fn of_message(kind: Kind, encoded: &Encoded, owner: &Owner, asks: Arc<[Arc<str>]>) -> Sent {
    of_fragment(Fragment { kind, hash: encoded.version, bytes: encoded.body.to_bytes(), asks }, owner)
}

fn of_fragment(fragment: Fragment, Owner { object, is_shared }: &Owner) -> Sent {
    Sent { fragment, object: object.clone(), field: String::new(), route: None, is_shared: *is_shared }
}

/// The clusters without which Envoy refuses a row: it looks for whoever gives out tokens where people log in.
fn asked(rule: &Resolved) -> Arc<[Arc<str>]> {
    let logs_in = rule.entries.iter().any(|entry| matches!(entry, ExtensionEntry::Login(_)));
    rule.clusters.iter().filter(|_| logs_in).map(|cluster| cluster.name().into()).collect()
}

/// Whether policies of another namespace are in force in a rule, or rules above that stand in another.
fn is_shared(rule: &Resolved, chain: &Chain) -> bool {
    let own = &chain.route().name.namespace;
    let Some(policies) = &rule.policies else { return false };
    let is_reached = chain.upwards().any(|above| above.route().name.namespace != *own);
    policies.all.iter().any(|policy| policy.namespace != *own)
        || policies.units.iter().flat_map(|unit| &unit.winners).any(|winner| match winner {
            policy::Winner::Policy(policy) => policy.namespace != *own,
            policy::Winner::Rule(_) | policy::Winner::Keeper(_) => is_reached,
        })
}

/// Whose a cluster is; `of_place` says it of one of a place of streams that a route serves.
pub(crate) fn owner(cluster: &ClusterId, of_place: impl FnOnce(&PlaceId) -> Option<Owner>) -> Owner {
    match (cluster.to(), cluster) {
        (Some(to), _) => backend_object(&to).into(),
        (None, ClusterId::Rule(chain, ..)) => object_id(chain.route()).into(),
        (None, ClusterId::Place(place)) => {
            of_place(place).unwrap_or_else(|| place.listener.gateway.clone().id(ObjectKind::Gateway).into())
        }
        // What has no backend is a rule's.
        (None, other) => NsName::new("", other.name()).id(ObjectKind::Backend).into(),
    }
}
