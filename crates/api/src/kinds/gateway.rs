//! Gateway.

mod honoured;
pub(super) mod rules;
pub(super) mod schema;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    honoured::{Honoured, RefusedField},
    meta::{CustomResource, LabelSelector, StringMap},
    schema::{Schema, Spec, rules::Broken},
    shared::{
        GatewayDefaultScope, LocalObjectReference, ObjectReference, PortNumber, RouteGroupKind, SecretObjectReference,
    },
};

/// A point where traffic enters.
pub type Gateway = CustomResource<GatewaySpec>;

/// What the owner of a Gateway wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpec {
    /// The class, which decides who serves the Gateway.
    pub gateway_class_name: Arc<str>,
    /// Where and what it listens for; 1 to 64, names unique.
    pub listeners: Vec<Listener>,
    /// Addresses asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<GatewaySpecAddress>,
    /// Settings of what is deployed for the Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure: Option<GatewayInfrastructure>,
    /// Which ListenerSets may attach; none for no one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_listeners: Option<AllowedListeners>,
    /// TLS settings of the whole Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTlsConfig>,
    /// Whether routes without a parent attach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_scope: Option<GatewayDefaultScope>,
}

impl Spec for GatewaySpec {
    const SCHEMA: Schema = Schema::of(&schema::SPEC);
    const HONOURED: Honoured = honoured::HONOURED;

    fn check(&self, broken: &mut Broken) {
        rules::check(self, broken);
    }

    fn refused(&self) -> Vec<RefusedField> {
        self.refused_fields()
    }
}

/// A port, a protocol and a hostname to listen for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// Name, unique in the Gateway.
    pub name: Arc<str>,
    /// Hostname or `*.` and a domain; none or empty for every host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Arc<str>>,
    /// Port.
    pub port: PortNumber,
    /// Protocol.
    pub protocol: ProtocolType,
    /// TLS settings, for the protocols that have any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTlsConfig>,
    /// Which routes may attach.
    pub allowed_routes: AllowedRoutes,
}

open_enum! {
    /// What a listener speaks.
    pub enum ProtocolType {
        /// HTTP/1.1 and HTTP/2 in clear text.
        Http = "HTTP",
        /// HTTP over TLS that ends at the Gateway.
        Https = "HTTPS",
        /// TLS, ended or passed through.
        Tls = "TLS",
        /// TCP.
        Tcp = "TCP",
        /// UDP.
        Udp = "UDP",
    }
}

/// TLS settings of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTlsConfig {
    /// Where TLS ends.
    pub mode: TlsModeType,
    /// Certificates with their keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub certificate_refs: Vec<SecretObjectReference>,
    /// Settings of the implementation.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub options: StringMap,
}

open_enum! {
    /// Where TLS ends.
    pub enum TlsModeType {
        /// At the Gateway.
        Terminate = "Terminate",
        /// At the backend.
        Passthrough = "Passthrough",
    }
    default Terminate;
}

/// Which routes may attach to a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedRoutes {
    /// From which namespaces.
    pub namespaces: RouteNamespaces,
    /// Of which kinds; empty for those of the protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<RouteGroupKind>,
}

/// Namespaces from which routes may attach.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteNamespaces {
    /// The rule.
    pub from: FromNamespaces,
    /// Selects namespaces by label, when `from` is `Selector`; without one none is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

impl Default for RouteNamespaces {
    fn default() -> Self {
        Self { from: FromNamespaces::Same, selector: None }
    }
}

open_enum! {
    /// From which namespaces objects may attach. The default differs from field to field.
    pub enum FromNamespaces {
        /// From all.
        All = "All",
        /// From those that a selector selects.
        Selector = "Selector",
        /// From the Gateway's own.
        Same = "Same",
        /// From none.
        None = "None",
    }
}

/// Which ListenerSet objects may attach to a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllowedListeners {
    /// From which namespaces.
    pub namespaces: ListenerNamespaces,
}

/// Namespaces from which ListenerSet objects may attach.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerNamespaces {
    /// The rule.
    pub from: FromNamespaces,
    /// Selects namespaces by label, when `from` is `Selector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

impl Default for ListenerNamespaces {
    fn default() -> Self {
        Self { from: FromNamespaces::None, selector: None }
    }
}

/// TLS settings of a whole Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayTlsConfig {
    /// Towards backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<GatewayBackendTls>,
    /// Towards clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontend: Option<FrontendTlsConfig>,
}

/// What a Gateway shows to backends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayBackendTls {
    /// The certificate with its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_ref: Option<SecretObjectReference>,
}

/// What a Gateway asks of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsConfig {
    /// On ports that `per_port` does not list.
    pub default: TlsConfig,
    /// On these ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_port: Vec<TlsPortConfig>,
}

/// What is asked of clients on one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsPortConfig {
    /// The port.
    pub port: PortNumber,
    /// The settings.
    pub tls: TlsConfig,
}

/// TLS settings towards clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsConfig {
    /// How client certificates are checked; none if none is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<FrontendTlsValidation>,
}

/// How client certificates are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FrontendTlsValidation {
    /// Who may have signed them.
    pub ca_certificate_refs: Vec<ObjectReference>,
    /// What happens to a client without a valid one.
    pub mode: FrontendValidationModeType,
}

open_enum! {
    /// What happens to a client without a valid certificate.
    pub enum FrontendValidationModeType {
        /// It is refused.
        AllowValidOnly = "AllowValidOnly",
        /// It is let in.
        AllowInsecureFallback = "AllowInsecureFallback",
    }
    default AllowValidOnly;
}

/// An address asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewaySpecAddress {
    /// How to read the value.
    pub r#type: AddressType,
    /// The address; empty for any of the type.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub value: Box<str>,
}

open_enum! {
    /// How an address is written. Other types are a domain and a path.
    pub enum AddressType {
        /// IPv4 or IPv6.
        IpAddress = "IPAddress",
        /// A DNS name.
        Hostname = "Hostname",
        /// A name that the implementation understands.
        NamedAddress = "NamedAddress",
    }
    default IpAddress;
}

/// Settings of what is deployed for a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayInfrastructure {
    /// Labels to put on what is deployed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub labels: StringMap,
    /// Annotations to put on what is deployed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub annotations: StringMap,
    /// An object with settings that the controller understands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters_ref: Option<LocalObjectReference>,
}
