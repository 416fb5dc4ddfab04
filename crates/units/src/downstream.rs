//! What a ListenerPolicy says: each field by itself, into what becomes of a listener.
//!
//! A bound of the settings is never exceeded: what asks for more gets as much as there is, and is told. All else that cannot
//! be is a fault, and the ports for which it holds are not served.

mod access_log;
mod connection;
mod http;
mod sink;
mod tracing;

use std::collections::BTreeMap;

use api::listener_policy::ListenerPolicySpec;
use ir::{Port, Problem, Reason, Severity, downstream::ListenerConfig, settings::Edge};
use serde_json::{Map, Value};

use super::Refused;

pub use sink::{Lead, Leads};

/// What a policy says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DownstreamSaid {
    /// Of all ports of which it says nothing else.
    pub default: Option<PortSaid>,
    /// Of one port, in place of that.
    pub ports: BTreeMap<Port, PortSaid>,
}

/// What a policy says of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortSaid {
    /// All that is sound.
    pub config: ListenerConfig,
    /// The fields that are set, sound or not.
    pub fields: Vec<&'static str>,
    /// Why fields cannot be served; none of them stands for all that is said of the port.
    pub faults: Vec<(Option<&'static str>, Problem)>,
    /// What is served, though its author should look at it.
    pub warnings: Vec<Problem>,
}

impl DownstreamSaid {
    /// What it says of a port, if anything.
    pub fn at(&self, port: Port) -> Option<&PortSaid> {
        self.ports.get(&port).or(self.default.as_ref())
    }

    fn all(&self) -> impl Iterator<Item = &PortSaid> {
        self.default.iter().chain(self.ports.values())
    }

    /// What is wrong with it.
    pub fn faults(&self) -> impl Iterator<Item = &Problem> {
        self.all().flat_map(|said| said.faults.iter().map(|(_, fault)| fault))
    }

    /// What its author should look at.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.all().flat_map(|said| &said.warnings)
    }
}

/// What a field adds to what is said.
type Read = fn(&Value, &mut Reading<'_>) -> Result<(), Refused>;

/// What is said so far, and the bounds.
struct Reading<'a> {
    config: &'a mut ListenerConfig,
    warnings: Vec<Refused>,
    edge: &'a Edge,
    leads: &'a dyn Leads,
}

impl Reading<'_> {
    /// A value that the settings bound.
    fn at_most<T: PartialOrd + std::fmt::Display>(&mut self, value: T, most: T, setting: &str) -> T {
        if value <= most {
            return value;
        }
        let message =
            format!("{setting} allows {most}, so {value} counts as that; ask for less, or whoever runs the controller");
        self.warnings.push(Refused::new("", message));
        most
    }
}

/// What bounds all that is said, and where references lead.
type Bounds<'a> = (&'a Edge, &'a dyn Leads);

/// The fields of a port: their path, and how each is read.
const FIELDS: [&[(&str, Read)]; 2] = [&connection::FIELDS, &http::FIELDS];

fn fields() -> impl Iterator<Item = (&'static str, Read)> {
    FIELDS.into_iter().flatten().copied()
}

/// Reads a policy.
///
/// # Errors
/// If it says something that nobody reads, so that nobody knows what it wants.
pub fn read(written: &ListenerPolicySpec, edge: &Edge, leads: &dyn Leads) -> Result<DownstreamSaid, Problem> {
    let bounds = (edge, leads);
    let mut said = DownstreamSaid::default();
    for (name, value) in written.fields.iter().filter(|(_, value)| !value.is_null()) {
        match name {
            "default" => said.default = Some(port(mapping(&value, "default")?, "default", bounds)),
            "perPort" => said.ports = ports(&value, bounds)?,
            unknown => {
                let message = "it is not supported, so nothing is served as if it were not there; remove it";
                return Err(refused(Reason::UnsupportedValue, unknown, message));
            }
        }
    }
    Ok(said)
}

fn refused(reason: Reason, field: &str, message: impl Into<String>) -> Problem {
    Problem::new(Severity::Refused, reason, format!("spec.{field}"), message)
}

fn mapping<'a>(value: &'a Value, field: &str) -> Result<&'a Map<String, Value>, Problem> {
    value.as_object().ok_or_else(|| refused(Reason::Invalid, field, "must be a mapping; correct or remove it"))
}

fn ports(written: &Value, bounds: Bounds<'_>) -> Result<BTreeMap<Port, PortSaid>, Problem> {
    let list = written.as_array();
    let list = list.ok_or_else(|| refused(Reason::Invalid, "perPort", "must be a list; correct or remove it"))?;
    let mut said = BTreeMap::new();
    for (index, entry) in list.iter().enumerate() {
        let at = format!("perPort[{index}]");
        let entry = mapping(entry, &at)?;
        if let Some(unknown) = entry.keys().find(|key| !["port", "listener"].contains(&key.as_str())) {
            let message = "it is not supported, so nothing is served as if it were not there; remove it";
            return Err(refused(Reason::UnsupportedValue, &format!("{at}.{unknown}"), message));
        }
        let number = entry.get("port").and_then(Value::as_i64).unwrap_or_default();
        let number = validate::number::port(number);
        let number = number.map_err(|invalid| refused(Reason::Invalid, &format!("{at}.port"), invalid.to_string()))?;
        let listener = format!("{at}.listener");
        let Some(config) = entry.get("listener").filter(|config| !config.is_null()) else {
            return Err(refused(Reason::Invalid, &listener, "missing; say what holds for the port"));
        };
        let config = port(mapping(config, &listener)?, &listener, bounds);
        if said.insert(number, config).is_some() {
            let message = format!("{number} stands here twice; remove one of both");
            return Err(refused(Reason::Invalid, &format!("{at}.port"), message));
        }
    }
    Ok(said)
}

fn port(written: &Map<String, Value>, at: &str, (edge, leads): Bounds<'_>) -> PortSaid {
    let mut said = PortSaid::default();
    let invalid =
        |refused: Refused, field: &str| refused.problem(Severity::Refused, Reason::Invalid, &format!("{at}{field}"));
    let mut set: BTreeMap<String, &Value> = BTreeMap::new();
    for (name, value) in written.iter().filter(|(_, value)| !value.is_null()) {
        match (name.as_str(), value) {
            (http::FIELD, Value::Object(fields)) => {
                let fields = fields.iter().filter(|(_, value)| !value.is_null());
                set.extend(fields.map(|(field, value)| (format!("{}.{field}", http::FIELD), value)));
            }
            (http::FIELD, _) => {
                let fault = Refused::new("", "must be a mapping; correct or remove it");
                said.faults.push((None, invalid(fault, &format!(".{name}"))));
            }
            _ => drop(set.insert(name.clone(), value)),
        }
    }
    let mut config = ListenerConfig::default();
    for (field, read) in fields() {
        let Some(value) = set.remove(field) else { continue };
        let leaf = http::leaf(field);
        if !said.fields.contains(&leaf) {
            said.fields.push(leaf);
        }
        let mut reading = Reading { config: &mut config, warnings: Vec::new(), edge, leads };
        let read = read(value, &mut reading);
        let warnings = reading.warnings.into_iter();
        said.warnings.extend(
            warnings
                .map(|warning| warning.problem(Severity::Warning, Reason::UnsupportedValue, &format!("{at}.{field}"))),
        );
        if let Err(fault) = read {
            said.faults.push((Some(leaf), invalid(fault, &format!(".{field}"))));
        }
    }
    if let Some(fault) = http::client_fault(&config.http) {
        said.faults.push((Some(http::CLIENT), invalid(fault, &format!(".{}", http::FIELD))));
    }
    if let Some(unknown) = set.keys().next() {
        let message = "it is not supported, so nothing is served as if it were not there; remove it";
        said.faults.push((None, refused(Reason::UnsupportedValue, &format!("{at}.{unknown}"), message)));
    }
    said.config = config;
    said
}

fn text(value: &Value) -> Result<&str, Refused> {
    value.as_str().ok_or_else(|| Refused::new("", "must be a text; correct or remove it"))
}

fn boolean(value: &Value) -> Result<bool, Refused> {
    value.as_bool().ok_or_else(|| Refused::new("", "must be true or false; correct or remove it"))
}

/// A number that fits 32 bits with their sign.
fn number(value: &Value, least: u32) -> Result<u32, Refused> {
    let most = i32::MAX.unsigned_abs();
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| Refused::new("", format!("must be a whole number from {least} to {most}; correct or remove it")))
}

/// Refuses what this release does not serve: why, and the remedy.
fn unserved(why: &str) -> Result<(), Refused> {
    let (why, remedy) = why.split_once("; ").unwrap_or((why, "remove it"));
    Err(Refused::new("", format!("{why}, and the port is not served as if it were not asked for; {remedy}")))
}

/// What says something of each field that is served; for tests.
#[cfg(any(test, feature = "testing"))]
pub fn samples() -> Value {
    serde_json::json!({
        "perConnectionBufferLimitBytes": 16_384,
        "tcpKeepalive": {"keepAliveProbes": 3, "keepAliveTime": "30s", "keepAliveInterval": "5s"},
        "transportSocketConnectTimeout": "5s",
        "proxyProtocol": {"allowRequestsWithoutProxyProtocol": true},
        "httpSettings": {
            "useRemoteAddress": false, "xffTrustedCIDRs": ["10.0.0.0/8", "2001:db8::/32"], "skipXFFAppend": true,
            "idleTimeout": "10m", "streamIdleTimeout": "1m", "maxHeadersCount": 50, "maxRequestHeadersKb": 32,
            "maxRequestsPerConnection": 1000,
            "http2ProtocolOptions": {"maxConcurrentStreams": 50, "initialStreamWindowSize": "64Ki",
                "initialConnectionWindowSize": 131_072},
            "preserveHttp1HeaderCase": true, "proxy100Continue": true, "serverHeaderTransformation": "Overwrite",
            "serverName": "edge", "stripHostPortMode": "AnyPort", "stripTrailingHostDot": true,
            "upgradeConfig": {"enabledUpgrades": ["websocket", "spdy/3.1"]}, "acceptHttp10": false,
            "forwardClientCertDetails": {"mode": "AppendForward", "details": {"subject": true, "uri": true, "dns": false}},
            "accessLog": access_log::samples(), "tracing": tracing::samples(),
        },
    })
}

#[cfg(test)]
mod tests;
