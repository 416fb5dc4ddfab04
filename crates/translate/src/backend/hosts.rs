//! Backends: hosts that are written down.

use std::{net::IpAddr, sync::Arc};

use api::{Object, backend::StaticBackend};
use engine::{Lookup, Scope};
use ir::{
    NsName, Port, Problem, Reason, Severity,
    backend::{Endpoint, Host, Locality, Protocol},
};
use validate::{Invalid, host};

use crate::{
    internal,
    tables::input::{Backends, Config},
    violation::{honoured, sound},
};

tables! {
    /// The hosts of a Backend, or what is wrong with it.
    BackendHosts: NsName => Result<Hosts, Problem>;
}

/// How many hosts a Backend has at most: all of them are looked for at once, and by each proxy.
const MOST_HOSTS: usize = 64;

/// How many endpoints a name counts as: it may have as many addresses as its owner likes.
const ENDPOINTS_OF_A_NAME: u64 = 16;

/// What a Backend sends to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hosts {
    /// What is spoken there.
    pub(crate) protocol: Protocol,
    hosts: Arc<[(host::Host, Port)]>,
}

impl Hosts {
    /// Its hosts, where one of them has to be looked for by its name.
    pub(super) fn by_name(&self) -> Box<[Host]> {
        if !self.has_names() {
            return Box::default();
        }
        let name = |host: &host::Host| match host {
            host::Host::Address(address) => address.to_string().into(),
            host::Host::Name(name) => name.as_str().into(),
        };
        self.hosts.iter().map(|(host, port)| Host { name: name(host), port: *port }).collect()
    }

    /// Whether proxies have to look for some of them.
    pub(super) fn has_names(&self) -> bool {
        self.hosts.iter().any(|(host, _)| matches!(host, host::Host::Name(_)))
    }

    /// Its hosts as endpoints, where all are addresses.
    pub(super) fn endpoints(&self) -> Vec<Locality> {
        let mut addresses: Vec<(IpAddr, Port)> = Vec::new();
        for (host, port) in self.hosts.iter() {
            let host::Host::Address(address) = host else { return Vec::new() };
            addresses.push((*address, *port));
        }
        addresses.sort_unstable();
        addresses.dedup();
        let endpoint = |(address, port)| Endpoint { address, port, ready: true, is_host: true };
        let endpoints = addresses.into_iter().map(endpoint).collect();
        vec![Locality { zone: "".into(), sub_zone: "".into(), weight: None, way: "".into(), endpoints }]
    }

    /// The ports of its hosts, each once.
    pub(super) fn ports(&self) -> Box<[Port]> {
        let mut ports: Vec<_> = self.hosts.iter().map(|(_, port)| *port).collect();
        ports.sort_unstable();
        ports.dedup();
        ports.into()
    }

    /// How many endpoints it counts as.
    pub(super) fn most_endpoints(&self) -> u64 {
        let of = |(host, _): &(host::Host, Port)| match host {
            host::Host::Address(_) => 1,
            host::Host::Name(_) => ENDPOINTS_OF_A_NAME,
        };
        self.hosts.iter().map(of).sum()
    }
}

impl Lookup for BackendHosts {
    fn compute(scope: &Scope<'_>, key: &NsName) -> Option<Result<Hosts, Problem>> {
        let backend = scope.get::<Backends>(key)?;
        let object = Object::Backend((*backend).clone());
        let served = honoured(&object).and_then(|()| sound(&object));
        let read = |()| match &backend.spec.r#static {
            Some(hosts) => read(hosts, may_be_local(scope)),
            None => Err(fault("spec.static", "it is missing, and no other form is served; name hosts in it")),
        };
        Some(served.and_then(read))
    }

    fn poisoned(scope: &Scope<'_>, key: &NsName, _: &engine::Fault) -> Option<Result<Hosts, Problem>> {
        scope.get::<Backends>(key)?;
        Some(Err(internal::problem(Severity::Refused, "")))
    }
}

fn fault(field: impl Into<String>, message: impl Into<String>) -> Problem {
    Problem::new(Severity::Refused, Reason::Invalid, field, message)
}

/// Whether Backends may lead to what is local to a proxy.
pub(super) fn may_be_local(scope: &Scope<'_>) -> bool {
    scope.get::<Config>(&()).is_some_and(|config| config.local_backends)
}

fn read(written: &StaticBackend, may_be_local: bool) -> Result<Hosts, Problem> {
    let count = written.hosts.len();
    if !(1..=MOST_HOSTS).contains(&count) {
        let message = format!("it has {count} hosts; name 1 to {MOST_HOSTS}, or use a Service with EndpointSlices");
        return Err(fault("spec.static.hosts", message));
    }
    let mut hosts = Vec::with_capacity(count);
    for (index, one) in written.hosts.iter().enumerate() {
        let field = |name: &str| format!("spec.static.hosts[{index}].{name}");
        let at = |name: &'static str| move |invalid: Invalid| fault(field(name), invalid.to_string());
        let found = host::check(&one.host).map_err(at("host"))?;
        let is_local = match &found {
            host::Host::Address(address) => host::is_local(*address),
            host::Host::Name(name) => host::is_local_name(name),
        };
        if is_local && !may_be_local {
            let message = format!(
                "{:?} is local to each proxy: its own host, its link, or the metadata of its cloud; name another, or ask whoever \
                 runs the controller for the setting backend.allowLocal",
                one.host
            );
            return Err(fault(field("host"), message));
        }
        let port = validate::number::port(one.port.into()).map_err(at("port"))?;
        hosts.push((found, port));
    }
    let protocol = match written.app_protocol.as_deref() {
        None | Some("kubernetes.io/ws" | "grpc-web") => Protocol::Http1,
        Some("http2" | "grpc" | "kubernetes.io/h2c") => Protocol::H2c,
        Some(other) => {
            let message =
                format!("{other:?} is not spoken; use http2, grpc, grpc-web, kubernetes.io/h2c or kubernetes.io/ws");
            return Err(fault("spec.static.appProtocol", message));
        }
    };
    Ok(Hosts { protocol, hosts: hosts.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "callers write the list in place")]
    fn hosts(hosts: Value, may_be_local: bool) -> Result<Hosts, String> {
        let written = serde_json::from_value(json!({"hosts": hosts})).expect("hosts");
        read(&written, may_be_local).map_err(|problem| problem.to_string())
    }

    #[test]
    fn addresses_are_endpoints_unless_a_name_stands_beside_them() {
        let both = json!([{"host": "10.0.0.2", "port": 80}, {"host": "10.0.0.1", "port": 81}, {"host": "10.0.0.2", "port": 80}]);
        let read = hosts(both, false).expect("hosts");
        assert_eq!(read.by_name(), Box::default());
        let endpoints: Vec<_> =
            read.endpoints()[0].endpoints.iter().map(|at| format!("{}:{}", at.address, at.port)).collect();
        assert_eq!(endpoints, ["10.0.0.1:81", "10.0.0.2:80"]);
        assert_eq!((&*read.ports(), read.most_endpoints()), (&[80, 81][..], 3));

        let mixed = json!([{"host": "10.0.0.2", "port": 80}, {"host": "A.example", "port": 80}]);
        let read = hosts(mixed, false).expect("hosts");
        assert_eq!(read.endpoints(), []);
        let names: Vec<_> = read.by_name().iter().map(|host| host.name.to_string()).collect();
        assert_eq!(names, ["10.0.0.2", "a.example"]);
        assert_eq!(read.most_endpoints(), 17);
    }

    #[test]
    fn local_hosts_are_refused_unless_they_are_allowed() {
        for host in [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:42::42",
            "fe80::1",
            "localhost",
            "x.localhost",
        ] {
            let written = json!([{"host": "a.example", "port": 80}, {"host": host, "port": 80}]);
            let refused = hosts(written.clone(), false).expect_err(host);
            assert!(
                refused.contains("spec.static.hosts[1].host") && refused.contains("backend.allowLocal"),
                "{refused}"
            );
            assert!(hosts(written, true).is_ok(), "{host}");
        }
    }

    #[test]
    fn what_proxies_cannot_connect_to_is_refused() {
        let many: Vec<_> = (0..65).map(|index| json!({"host": format!("10.0.0.{index}"), "port": 80})).collect();
        for (written, field) in [
            (json!([]), "spec.static.hosts:"),
            (json!(many), "spec.static.hosts:"),
            (json!([{"host": "a b", "port": 80}]), "spec.static.hosts[0].host"),
            (json!([{"host": "a", "port": 0}]), "spec.static.hosts[0].port"),
            (json!([{"host": "a", "port": 65536}]), "spec.static.hosts[0].port"),
            (json!([{"host": "a", "port": -1}]), "spec.static.hosts[0].port"),
        ] {
            let refused = hosts(written, true).expect_err(field);
            assert!(refused.starts_with(field), "{refused}");
        }
    }
}
