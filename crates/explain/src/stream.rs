//! What becomes of connections and datagrams that are taken as a whole.

use std::fmt;

use ir::{Hostname, ListenerId, NsName, Port, RouteKind, backend::Transport, stream::PlaceId};
use serde::Serialize;
use translate::{
    Translator,
    inspect::{Inspector, Listener, StreamPlace},
};

use crate::{
    explanation::{ClientsWord, ListenerWord, MatchedListener},
    finding::Finding,
    request::{BadRequest, host_and_port},
    served_route::{Answer, Share},
};

/// A connection as a client makes it, or datagrams that it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    scheme: Scheme,
    /// The server name, over TLS.
    server: String,
    port: Port,
}

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Tcp,
    Udp,
    Tls,
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Tls => "tls",
        }
    }
}

impl Connection {
    /// What `tcp://HOST:PORT`, `udp://HOST:PORT` or `tls://HOST:PORT` means; none for any other URL. Over TLS the host is the
    /// server name, and otherwise it means nothing.
    ///
    /// # Errors
    /// If it has no host or no port.
    pub fn parse(url: &str) -> Option<Result<Self, BadRequest>> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "tcp" => Scheme::Tcp,
            "udp" => Scheme::Udp,
            "tls" => Scheme::Tls,
            _ => return None,
        };
        let refuse = |why| Err(BadRequest::Url { url: url.into(), why });
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) || rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Some(refuse("a connection has a host and a port, and nothing else"));
        }
        let (server, port) = host_and_port(rest);
        let Some(port) = port.and_then(|port| port.parse().ok()).filter(|port| *port > 0) else {
            return Some(refuse("it has no port"));
        };
        if server.is_empty() {
            return Some(refuse("it has no host"));
        }
        let server = server.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        Some(Ok(Self { scheme, server, port }))
    }

    fn transport(&self) -> Transport {
        if self.scheme == Scheme::Udp { Transport::Udp } else { Transport::Tcp }
    }
}

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme.as_str(), self.server, self.port)
    }
}

/// What becomes of a connection. Prints as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamExplanation {
    /// `NAMESPACE/NAME`.
    pub gateway: String,
    /// As it was asked about.
    pub connection: String,
    /// The listener that takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listener: Option<MatchedListener>,
    /// The hostname of TLSRoutes that it stands under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// The route that serves it, as `KIND NAMESPACE/NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// What comes of it.
    pub outcome: StreamOutcome,
    /// Routes that ask for the same and are younger, or later by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<String>,
}

/// What comes of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum StreamOutcome {
    /// It goes to one of these, by weight.
    Backends {
        /// Each share.
        backends: Vec<Share>,
        /// Why a share goes nowhere.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Finding>,
    },
    /// It is made, and closed at once; datagrams are dropped.
    Closed {
        /// Why.
        why: String,
        /// What is wrong, and who must act.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Finding>,
    },
    /// Nobody takes it.
    Unreachable {
        /// Why.
        why: String,
        /// What is wrong, and who must act.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        because: Vec<Finding>,
    },
}

/// Explains what becomes of a connection to a Gateway, or of datagrams.
pub fn explain_connection(translator: &Translator, gateway: &NsName, connection: &Connection) -> StreamExplanation {
    let mut explanation = StreamExplanation {
        gateway: gateway.to_string(),
        connection: connection.to_string(),
        listener: None,
        hostname: None,
        route: None,
        outcome: StreamOutcome::Unreachable { why: String::new(), because: Vec::new() },
        superseded: Vec::new(),
    };
    explanation.outcome = match find(translator.inspect(), gateway, connection, &mut explanation) {
        Ok(place) => outcome(translator.inspect(), &place, &mut explanation),
        Err(outcome) => outcome,
    };
    explanation
}

fn find(
    tables: Inspector<'_>,
    gateway: &NsName,
    connection: &Connection,
    explanation: &mut StreamExplanation,
) -> Result<PlaceId, StreamOutcome> {
    let unreachable = |why: String, because| StreamOutcome::Unreachable { why, because };
    let object = format!("Gateway {gateway}");
    let Some(model) = tables.gateway(gateway) else {
        let why = format!("{object} does not exist, or is of a class of another controller");
        return Err(unreachable(why, Vec::new()));
    };
    let transport = connection.transport();
    let of = |at: fn(&Listener) -> Port| {
        let mut listeners = model.listeners.iter();
        listeners
            .find(|it| at(it) == connection.port && it.protocol.is_some_and(|it| it.transport() == transport))
            .map(|listener| listener.port)
    };
    let port = of(|listener| listener.port).or_else(|| of(|listener| listener.bind_port)).unwrap_or(connection.port);
    let server = Hostname::Exact(connection.server.as_str().into());
    let found = match connection.scheme {
        Scheme::Tcp | Scheme::Udp => tables.stream_listener(gateway, port, transport),
        Scheme::Tls => tables.tls_listener(gateway, port, &server),
    };
    let Some((name, served)) = found else {
        let why = format!("no listener takes {} at port {port}", connection.scheme.as_str().to_ascii_uppercase());
        let withheld = model.listeners.iter().filter(|listener| listener.port == port);
        let withheld = withheld.filter_map(|listener| {
            Some(Finding::fault(&listener.id.parent().to_string(), listener.withheld.as_ref()?))
        });
        return Err(unreachable(why, withheld.collect()));
    };
    let id = ListenerId::new(gateway.clone(), name);
    let Some(listener) = tables.listener(&id) else {
        return Err(unreachable(format!("nobody knows listener {}", id.name), Vec::new()));
    };
    explanation.listener = Some(MatchedListener {
        name: id.name.to_string(),
        port: listener.port,
        hostname: listener.hostname.domain(),
        clients: ClientsWord::of(&listener),
        policies: ListenerWord::all(&listener),
    });
    if !served {
        let because = listener.withheld.iter().map(|fault| Finding::fault(&object, fault)).collect();
        return Err(unreachable(format!("listener {} is not served, so connections are closed", id.name), because));
    }
    let protocol = listener.protocol.filter(|protocol| protocol.streams().is_some());
    let Some(protocol) = protocol else {
        let why = format!("listener {} takes requests there: ask about https://{}:{port}/", id.name, connection.server);
        return Err(StreamOutcome::Unreachable { why, because: Vec::new() });
    };
    if protocol.told_by().is_none() {
        return Ok(PlaceId { listener: id, protocol, hostname: Hostname::Any });
    }
    let Some((hostname, is_served)) = tables.chain_for(&id, &server) else {
        let why = format!("no TLSRoute of listener {} has a hostname for {}", id.name, connection.server);
        return Err(StreamOutcome::Closed { why, because: Vec::new() });
    };
    explanation.hostname = Some(hostname.domain());
    if !is_served {
        let why = format!("{hostname} of listener {} is not served: see the status of its TLSRoutes", id.name);
        return Err(StreamOutcome::Closed { why, because: Vec::new() });
    }
    Ok(PlaceId { listener: id, protocol, hostname })
}

fn outcome(tables: Inspector<'_>, place: &PlaceId, explanation: &mut StreamExplanation) -> StreamOutcome {
    let StreamPlace { route, superseded, shares, problems, unsent, .. } = tables.place(place);
    explanation.superseded = superseded.iter().map(ToString::to_string).collect();
    let Some(route) = route else {
        let kind = place.kind().map_or("route", RouteKind::name);
        let why = format!("no {kind} is attached to listener {}", place.listener.name);
        return StreamOutcome::Closed { why, because: Vec::new() };
    };
    let object = route.to_string();
    let unsent = unsent.iter().map(|(object, fault)| Finding::fault(&object.to_string(), fault));
    let because = problems.iter().map(|problem| Finding::problem(&object, problem)).chain(unsent).collect();
    explanation.route = Some(object);
    if shares.iter().all(|(to, weight)| to.is_none() || *weight == 0) {
        return StreamOutcome::Closed {
            why: "no backend of the route can be used, or none has a weight".into(),
            because,
        };
    }
    StreamOutcome::Backends { backends: shares.into_iter().map(Share::of_stream).collect(), because }
}

impl fmt::Display for StreamExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { gateway, connection, listener, hostname, route, outcome, superseded } = self;
        writeln!(f, "{connection} at Gateway {gateway}")?;
        if let Some(MatchedListener { name, port, hostname, clients, policies }) = listener {
            writeln!(f, "listener   {name} (port {port}, {hostname})")?;
            clients.iter().try_for_each(|clients| writeln!(f, "           {clients}"))?;
            policies.iter().try_for_each(|word| writeln!(f, "           {word}"))?;
        }
        if let Some(hostname) = hostname {
            writeln!(f, "host       {hostname}")?;
        }
        if let Some(route) = route {
            writeln!(f, "route      {route}")?;
        }
        let because = match outcome {
            StreamOutcome::Backends { backends, because } => {
                writeln!(f, "goes to    {}", Answer::Backends { backends: backends.clone() })?;
                because
            }
            StreamOutcome::Closed { why, because } => {
                writeln!(f, "closed     {why}")?;
                because
            }
            StreamOutcome::Unreachable { why, because } => {
                writeln!(f, "nobody     {why}")?;
                because
            }
        };
        because.iter().try_for_each(|finding| writeln!(f, "           ! {finding}"))?;
        if !superseded.is_empty() {
            writeln!(f, "superseded {}", superseded.join(", "))?;
        }
        Ok(())
    }
}
