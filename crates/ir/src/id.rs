//! How things are named. Every name is made from the objects it stands for and from nothing else, so that an
//! unrelated object can never change it.

use std::{fmt, sync::Arc};

/// A port number; zero never occurs past validation.
pub type Port = u16;

/// Namespace and name of an object whose kind the context tells.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NsName {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl NsName {
    /// Namespace and name as one key.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for NsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One listener of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId {
    /// The Gateway it belongs to.
    pub gateway: NsName,
    /// Its section name.
    pub name: Arc<str>,
}

impl fmt::Display for ListenerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.gateway, self.name)
    }
}

/// One Envoy route configuration: all HTTP listeners of a port share one, every HTTPS listener has its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteConfigId {
    /// The Gateway it belongs to.
    pub gateway: NsName,
    /// The Gateway's port, which is not always the port that Envoy binds.
    pub port: Port,
    /// The HTTPS listener whose filter chain reads it; none on a plain HTTP port.
    pub listener: Option<Arc<str>>,
}

impl RouteConfigId {
    /// The name of the Envoy resource: `http/80` or `https/443/LISTENER`.
    pub fn resource_name(&self) -> String {
        match &self.listener {
            None => format!("http/{}", self.port),
            Some(listener) => format!("https/{}/{listener}", self.port),
        }
    }
}
