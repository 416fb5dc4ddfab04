//! Envoy routes, read back from their bytes.

use std::fmt;

use envoy::{bytes::Row, route::BROKEN_CLUSTER};
use envoy_types::pb::{
    envoy::config::{
        core::v3::{DataSource, data_source::Specifier},
        route::v3::{
            Route, RouteAction,
            redirect_action::RedirectResponseCode,
            route::Action,
            route_action::{ClusterNotFoundResponseCode, ClusterSpecifier},
        },
    },
    google::protobuf::UInt32Value,
};
use ir::{backend::Destination, matching::Origin, problem::legible};
use prost::Message;
use serde::Serialize;
use translate::inspect::ServedRule;

/// What an Envoy route does with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Answer {
    /// It goes to one of these, by weight.
    Backends {
        /// Each share, in the order of the rule.
        backends: Vec<Share>,
    },
    /// The client is sent elsewhere.
    Redirect {
        /// The status code.
        status: u32,
    },
    /// Envoy answers by itself.
    DirectResponse {
        /// The status code.
        status: u32,
        /// The body.
        #[serde(skip_serializing_if = "String::is_empty")]
        body: String,
    },
}

/// One share of a rule's requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The Service, as `NAMESPACE/NAME`; none for a Backend, and for a share that is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The Backend, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The Service's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The status with which a share that is broken answers, or one to which the proxies may not send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Its part of the sum of all weights.
    pub weight: u32,
    /// The BackendConfigPolicies that say how to connect there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
}

impl Share {
    /// A share that is broken and answers with a status.
    fn broken(status: u16, weight: u32) -> Self {
        Self { service: None, backend: None, port: None, status: Some(status), weight, policies: Vec::new() }
    }

    /// A share of what stands there.
    fn of(to: Destination, weight: u32) -> Self {
        let none = Self { service: None, backend: None, port: None, status: None, weight, policies: Vec::new() };
        match to {
            Destination::Service(port) | Destination::Secured(port) => {
                Self { service: Some(port.service.to_string()), port: Some(port.port), ..none }
            }
            Destination::Backend(name) | Destination::SecuredBackend(name) => {
                Self { backend: Some(name.to_string()), ..none }
            }
        }
    }

    /// One of connections or datagrams, which goes nowhere where it is broken.
    pub(crate) fn of_stream((to, weight): (Option<Destination>, u32)) -> Self {
        match to {
            Some(to) => Self::of(to, weight),
            None => Self { service: None, backend: None, port: None, status: None, weight, policies: Vec::new() },
        }
    }

    /// Whether it is a share of what stands there.
    pub(crate) fn is_of(&self, to: &Destination) -> bool {
        let Self { service, backend, port, .. } = Self::of(to.clone(), self.weight);
        (&self.service, &self.backend, &self.port) == (&service, &backend, &port)
    }

    /// Whether it answers by itself, since its backend is broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.status.is_some()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backends { backends } => {
                for (index, share) in backends.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    match (&share.service, share.port, &share.backend) {
                        _ if share.is_broken() => write!(f, "{comma}{}", share.status.unwrap_or(500))?,
                        (Some(service), Some(port), _) => write!(f, "{comma}Service {service} port {port}")?,
                        (.., Some(backend)) => write!(f, "{comma}Backend {backend}")?,
                        _ => match share.status {
                            Some(status) => write!(f, "{comma}{status}")?,
                            None => write!(f, "{comma}nowhere")?,
                        },
                    }
                    if backends.len() > 1 {
                        write!(f, " (weight {})", share.weight)?;
                    }
                    if !share.policies.is_empty() {
                        write!(f, " by {}", share.policies.join(" and "))?;
                    }
                }
                Ok(())
            }
            Self::Redirect { status } => write!(f, "a redirect, {status}"),
            Self::DirectResponse { status, body } if body.is_empty() => write!(f, "{status}"),
            Self::DirectResponse { status, body } => write!(f, "{status} {:?}", legible(body.clone())),
        }
    }
}

/// An Envoy route, read from its bytes.
pub(crate) struct ServedRoute {
    /// The message.
    pub(crate) message: Route,
    /// The match that it is made from.
    pub(crate) origin: Origin,
}

impl ServedRoute {
    /// None for what is no Envoy route.
    pub(crate) fn read(origin: Origin, row: &Row) -> Option<Self> {
        Some(Self { message: Route::decode(&*row.bytes).ok()?, origin })
    }

    /// What Envoy answers where it has no cluster of a backend.
    pub(crate) fn status_without_cluster(&self) -> u16 {
        match &self.message.action {
            Some(Action::Route(action)) => broken_status(action),
            _ => 500,
        }
    }

    /// What it does; `rule` is the one that it is made from.
    pub(crate) fn answer(&self, rule: Option<&ServedRule>) -> Answer {
        match &self.message.action {
            Some(Action::Route(action)) => Answer::Backends {
                backends: match &action.cluster_specifier {
                    Some(ClusterSpecifier::Cluster(cluster)) => shares(rule, cluster, 1, broken_status(action)),
                    Some(ClusterSpecifier::WeightedClusters(weighted)) => {
                        let weight = |weight: &Option<_>| weight.map_or(0, |UInt32Value { value }| value);
                        let clusters = weighted.clusters.iter();
                        clusters
                            .flat_map(|share| shares(rule, &share.name, weight(&share.weight), broken_status(action)))
                            .collect()
                    }
                    _ => Vec::new(),
                },
            },
            Some(Action::Redirect(redirect)) => Answer::Redirect {
                status: match redirect.response_code() {
                    RedirectResponseCode::MovedPermanently => 301,
                    RedirectResponseCode::Found => 302,
                    RedirectResponseCode::SeeOther => 303,
                    RedirectResponseCode::TemporaryRedirect => 307,
                    RedirectResponseCode::PermanentRedirect => 308,
                },
            },
            Some(Action::DirectResponse(direct)) => {
                Answer::DirectResponse { status: direct.status, body: inline(direct.body.as_ref()) }
            }
            _ => Answer::DirectResponse { status: 500, body: String::new() },
        }
    }
}

fn inline(body: Option<&DataSource>) -> String {
    match body.and_then(|body| body.specifier.as_ref()) {
        Some(Specifier::InlineString(text)) => text.clone(),
        _ => String::new(),
    }
}

/// What Envoy answers where it knows no cluster of the name.
fn broken_status(action: &RouteAction) -> u16 {
    match action.cluster_not_found_response_code() {
        ClusterNotFoundResponseCode::ServiceUnavailable => 503,
        ClusterNotFoundResponseCode::NotFound => 404,
        ClusterNotFoundResponseCode::InternalServerError => 500,
    }
}

fn shares(rule: Option<&ServedRule>, cluster: &str, weight: u32, broken: u16) -> Vec<Share> {
    let backends = if cluster == BROKEN_CLUSTER { None } else { rule.and_then(|rule| rule.backends(cluster, weight)) };
    let Some(backends) = backends else { return vec![Share::broken(broken, weight)] };
    backends.into_iter().map(|(to, weight)| Share::of(to, weight)).collect()
}
