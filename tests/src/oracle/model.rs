//! Manifests, read as far as the oracle goes. What would change its answer and is unknown to it is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::hostname::Hostname;
use super::matching::Match;
use super::policy::{Mode, TrafficPolicy, rule_policies};

pub(super) const GATEWAY_API: &str = "gateway.networking.k8s.io";
const INHERIT: &str = "delegation.kgateway.dev/inherit-parent-matcher";
const LABEL: &str = "delegation.kgateway.dev/label";
const WEIGHT: &str = "kgateway.dev/route-weight";

/// Namespace and name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Name {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) listeners: Vec<Listener>,
    pub(super) routes: Vec<Route>,
    pub(super) policies: Vec<Policy>,
    /// In the order in which they count.
    pub(super) traffic_policies: Vec<TrafficPolicy>,
    /// What Gateways say of policies.
    pub(super) modes: BTreeMap<Name, Mode>,
    services: BTreeSet<Name>,
    grants: Vec<Grant>,
}

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) gateway: Name,
    pub(super) name: String,
    pub(super) port: u64,
    pub(super) hostname: Hostname,
    pub(super) from_all: bool,
}

#[derive(Debug)]
pub(super) struct Route {
    pub(super) name: Name,
    pub(super) created: String,
    pub(super) label: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    /// What it says of policies.
    pub(super) mode: Mode,
    pub(super) inherits: bool,
    pub(super) weight: i32,
    pub(super) parents: Vec<Parent>,
    pub(super) hostnames: Vec<Hostname>,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug)]
pub(super) struct Parent {
    /// A route instead of a Gateway.
    pub(super) is_route: bool,
    pub(super) name: Name,
    pub(super) section: Option<String>,
    pub(super) port: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) name: Option<String>,
    pub(super) matches: Vec<Match>,
    pub(super) delegates: Vec<Delegate>,
    pub(super) backends: Vec<Backend>,
    pub(super) redirects: bool,
    /// The policies that its filters name.
    pub(super) extensions: Vec<String>,
    /// Something in it cannot be served.
    pub(super) broken: bool,
    /// A policy on it is why.
    pub(super) closed: bool,
}

/// A reference to children.
#[derive(Debug)]
pub(super) enum Delegate {
    Named(Name),
    Namespace(String),
    Labelled(String, String),
}

/// An ordinary backend.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) kind: String,
    pub(super) name: Name,
    pub(super) weight: u64,
}

/// A `DelegationPolicy`.
#[derive(Debug)]
pub(super) struct Policy {
    created: String,
    name: Name,
    targets: Vec<(Name, Option<String>)>,
    pub(super) by_weight: bool,
    /// Namespaces that children may be in.
    pub(super) namespaces: Option<Vec<String>>,
    /// Kind, namespace and name of backends that children may have.
    pub(super) backends: Option<Vec<[Option<String>; 3]>>,
}

#[derive(Debug)]
struct Grant {
    namespace: String,
    from: Vec<String>,
    to: Vec<Option<String>>,
}

/// The text at a JSON pointer; an empty one is none.
pub(super) fn text(value: &Value, pointer: &str) -> Option<String> {
    let text = value.pointer(pointer)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// The items of the list at a JSON pointer.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

impl World {
    pub(super) fn read(manifests: &[Value]) -> Result<Self> {
        let mut world = Self::default();
        for manifest in manifests {
            let kind = text(manifest, "/kind").context("a manifest without kind")?;
            let read = world.add(&kind, manifest);
            read.with_context(|| format!("{kind} {}", manifest["metadata"]))?;
        }
        let indistinct = |one: &Listener, other: &Listener| {
            one.gateway == other.gateway && one.port == other.port && one.hostname == other.hostname
        };
        for (index, listener) in world.listeners.iter().enumerate() {
            let conflict = world.listeners[..index].iter().any(|other| indistinct(listener, other));
            ensure!(!conflict, "the oracle knows no listeners in conflict: {listener:?}");
        }
        world.traffic_policies.sort_by(|one, other| one.rank().cmp(other.rank()));
        world.close();
        world.policies.sort_by(|one, other| (&one.created, &one.name).cmp(&(&other.created, &other.name)));
        Ok(world)
    }

    /// Breaks the rules for which a policy is named that is not there, or says what nobody knows.
    fn close(&mut self) {
        for route in &mut self.routes {
            let (name, labels) = (&route.name, &route.labels);
            for rule in &mut route.rules {
                let policies = rule_policies(&self.traffic_policies, name, labels, rule);
                rule.broken |= policies.is_none();
                let is_unknown = |policies: Vec<&TrafficPolicy>| policies.iter().any(|policy| policy.units.is_none());
                rule.closed = policies.is_none_or(is_unknown);
            }
        }
    }

    fn add(&mut self, kind: &str, manifest: &Value) -> Result<()> {
        match kind {
            "Gateway" => {
                self.modes.insert(name_of(manifest)?, Mode::of(manifest));
                self.listeners.extend(listeners(manifest)?);
            }
            "HTTPRoute" => self.routes.push(Route::read(manifest)?),
            "Service" => drop(self.services.insert(name_of(manifest)?)),
            "ReferenceGrant" => self.grants.push(Grant::read(manifest)?),
            "DelegationPolicy" => self.policies.push(Policy::read(manifest)?),
            "TrafficPolicy" => self.traffic_policies.push(TrafficPolicy::read(manifest)?),
            "GatewayClass" | "Namespace" | "EndpointSlice" | "Secret" => {}
            other => bail!("the oracle knows no {other}"),
        }
        Ok(())
    }

    /// Whether a route in `from` may send to a backend, and there is one.
    pub(super) fn serves(&self, from: &str, backend: &Backend) -> bool {
        let granted = |grant: &Grant| {
            grant.namespace == backend.name.namespace
                && grant.from.iter().any(|namespace| namespace == from)
                && grant.to.iter().any(|name| name.as_ref().is_none_or(|name| *name == backend.name.name))
        };
        backend.kind == "Service"
            && self.services.contains(&backend.name)
            && (backend.name.namespace == from || self.grants.iter().any(granted))
    }

    /// The policy of a rule: one that targets it before one that targets its route, the older first.
    pub(super) fn policy(&self, route: &Route, rule: &Rule) -> Option<&Policy> {
        let targeting = |section: &Option<String>| {
            let target = (route.name.clone(), section.clone());
            self.policies.iter().find(move |policy| policy.targets.contains(&target))
        };
        rule.name.as_ref().and_then(|_| targeting(&rule.name)).or_else(|| targeting(&None))
    }
}

impl Route {
    fn read(manifest: &Value) -> Result<Self> {
        let name = name_of(manifest)?;
        let note = |name: &str| {
            let notes = manifest.pointer("/metadata/annotations").and_then(|notes| notes.get(name));
            notes.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let labels = manifest.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let labels: BTreeMap<_, _> = labels.collect();
        let rules: Result<Vec<_>> = list(manifest, "/spec/rules").map(|rule| Rule::read(rule, &name)).collect();
        let hostnames = list(manifest, "/spec/hostnames").filter_map(Value::as_str);
        Ok(Self {
            created: text(manifest, "/metadata/creationTimestamp").unwrap_or_default(),
            label: labels.get(LABEL).cloned(),
            labels,
            mode: Mode::of(manifest),
            inherits: ["true", "yes", "enabled"].contains(&note(INHERIT).to_lowercase().as_str()),
            weight: note(WEIGHT).parse().unwrap_or(0),
            parents: list(manifest, "/spec/parentRefs").filter_map(|parent| Parent::read(parent, &name)).collect(),
            hostnames: hostnames.map(Hostname::read).collect(),
            rules: rules?,
            name,
        })
    }

    /// Whether it lets a rule of `parent` delegate to it.
    pub(super) fn consents(&self, parent: &Self, rule: &Rule, explicit_across_namespaces: bool) -> bool {
        if self.parents.is_empty() {
            return !explicit_across_namespaces || self.name.namespace == parent.name.namespace;
        }
        self.parents.iter().any(|named| {
            named.is_route && named.name == parent.name && (named.section.is_none() || named.section == rule.name)
        })
    }
}

impl Parent {
    /// None for a parent that is neither a Gateway nor a route.
    fn read(value: &Value, route: &Name) -> Option<Self> {
        let group = text(value, "/group").unwrap_or_else(|| GATEWAY_API.to_owned());
        let kind = text(value, "/kind").unwrap_or_else(|| "Gateway".to_owned());
        let is_route = kind == "HTTPRoute";
        (group == GATEWAY_API && (is_route || kind == "Gateway")).then(|| Self {
            is_route,
            name: reference(value, &route.namespace),
            section: text(value, "/sectionName"),
            port: value.get("port").and_then(Value::as_u64),
        })
    }
}

impl Rule {
    fn read(value: &Value, route: &Name) -> Result<Self> {
        let mut matches: Vec<_> = list(value, "/matches").map(Match::read).collect::<Result<_>>()?;
        if matches.is_empty() {
            matches.push(Match::everything());
        }
        let (mut delegates, mut backends, mut broken) = (Vec::new(), Vec::new(), false);
        for backend in list(value, "/backendRefs") {
            let has_filters = list(backend, "/filters").next().is_some();
            match Delegate::read(backend, route) {
                Some(delegate) => {
                    broken |= has_filters;
                    delegates.push(delegate);
                }
                None => {
                    ensure!(!has_filters, "the oracle knows no filters of backends");
                    backends.push(Backend {
                        kind: text(backend, "/kind").unwrap_or_else(|| "Service".to_owned()),
                        name: reference(backend, &route.namespace),
                        weight: backend.get("weight").and_then(Value::as_u64).unwrap_or(1),
                    });
                }
            }
        }
        broken |= !delegates.is_empty() && !backends.is_empty();
        let (mut redirects, mut extensions) = (false, Vec::new());
        for filter in list(value, "/filters") {
            match text(filter, "/type").as_deref() {
                Some("RequestHeaderModifier" | "ResponseHeaderModifier" | "RequestMirror") => {}
                Some("ExtensionRef") if filter["extensionRef"]["kind"] == "TrafficPolicy" => {
                    extensions.extend(text(filter, "/extensionRef/name"));
                }
                Some("RequestRedirect") if delegates.is_empty() => redirects = true,
                other => bail!("the oracle knows no filter {other:?} here"),
            }
        }
        Ok(Self {
            name: text(value, "/name"),
            matches,
            delegates,
            backends,
            redirects,
            extensions,
            broken,
            closed: false,
        })
    }
}

impl Delegate {
    /// None for an ordinary backend.
    fn read(value: &Value, route: &Name) -> Option<Self> {
        let (group, kind) = (text(value, "/group")?, text(value, "/kind")?);
        let namespace = text(value, "/namespace").unwrap_or_else(|| route.namespace.clone());
        let name = text(value, "/name").unwrap_or_default();
        match (group.as_str(), kind.as_str()) {
            (GATEWAY_API, "HTTPRoute") if name.is_empty() || name == "*" => Some(Self::Namespace(namespace)),
            (GATEWAY_API, "HTTPRoute") => Some(Self::Named(Name { namespace, name })),
            ("delegation.kgateway.dev", "label") => Some(Self::Labelled(name, namespace)),
            _ => None,
        }
    }
}

impl Policy {
    fn read(manifest: &Value) -> Result<Self> {
        let name = name_of(manifest)?;
        for field in manifest.get("spec").and_then(Value::as_object).into_iter().flat_map(|spec| spec.keys()) {
            let known = ["targetRefs", "sortMethod", "allowedChildren"].contains(&field.as_str());
            ensure!(known, "the oracle knows no {field} of a DelegationPolicy");
        }
        let target = |target: &Value| (reference(target, &name.namespace), text(target, "/sectionName"));
        let strings = |values: &Value, pointer: &str| {
            list(values, pointer).filter_map(Value::as_str).map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let allowed = manifest.pointer("/spec/allowedChildren");
        let namespaces = allowed.filter(|allowed| allowed.get("namespaces").is_some());
        let backends = allowed.filter(|allowed| allowed.get("backends").is_some());
        let namespaces = namespaces.map(|allowed| {
            ensure!(allowed.pointer("/namespaces/selector").is_none(), "the oracle selects no namespaces by label");
            Ok(strings(allowed, "/namespaces/names"))
        });
        let backend = |backend: &Value| ["/kind", "/namespace", "/name"].map(|pointer| text(backend, pointer));
        Ok(Self {
            created: text(manifest, "/metadata/creationTimestamp").unwrap_or_default(),
            targets: list(manifest, "/spec/targetRefs").map(target).collect(),
            by_weight: match text(manifest, "/spec/sortMethod").as_deref() {
                Some("TableWeight") => true,
                Some("RouteSpecificity") | None => false,
                Some(other) => bail!("the oracle knows no order {other}"),
            },
            namespaces: namespaces.transpose()?,
            backends: backends.map(|allowed| list(allowed, "/backends").map(backend).collect()),
            name,
        })
    }
}

impl Grant {
    fn read(manifest: &Value) -> Result<Self> {
        let from = list(manifest, "/spec/from").filter(|from| text(from, "/kind").as_deref() == Some("HTTPRoute"));
        let to = list(manifest, "/spec/to").filter(|to| text(to, "/kind").as_deref() == Some("Service"));
        Ok(Self {
            namespace: name_of(manifest)?.namespace,
            from: from.filter_map(|from| text(from, "/namespace")).collect(),
            to: to.map(|to| text(to, "/name")).collect(),
        })
    }
}

fn listeners(gateway: &Value) -> Result<Vec<Listener>> {
    let name = name_of(gateway)?;
    let read = |listener: &Value| {
        ensure!(text(listener, "/protocol").as_deref() == Some("HTTP"), "the oracle knows HTTP listeners only");
        ensure!(listener.pointer("/allowedRoutes/kinds").is_none(), "the oracle knows no kinds of routes");
        Ok(Listener {
            gateway: name.clone(),
            name: text(listener, "/name").context("a listener without name")?,
            port: listener["port"].as_u64().context("a listener without port")?,
            hostname: text(listener, "/hostname").map_or(Hostname::any(), |hostname| Hostname::read(&hostname)),
            from_all: match text(listener, "/allowedRoutes/namespaces/from").as_deref() {
                Some("All") => true,
                Some("Same") | None => false,
                Some(other) => bail!("the oracle knows no routes from {other}"),
            },
        })
    };
    list(gateway, "/spec/listeners").map(read).collect()
}

pub(super) fn name_of(manifest: &Value) -> Result<Name> {
    let namespace = text(manifest, "/metadata/namespace").unwrap_or_else(|| "default".to_owned());
    Ok(Name { namespace, name: text(manifest, "/metadata/name").context("an object without name")? })
}

fn reference(value: &Value, own: &str) -> Name {
    let namespace = text(value, "/namespace").unwrap_or_else(|| own.to_owned());
    Name { namespace, name: text(value, "/name").unwrap_or_default() }
}
