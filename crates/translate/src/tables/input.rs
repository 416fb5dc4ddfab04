//! What enters: the objects as they arrived, and what the world outside reports.

use std::sync::Arc;

use ir::{NsName, Port, Settings};

/// Declares tables that are written from outside.
macro_rules! inputs {
    ($($(#[doc = $doc:literal])+ $table:ident: $key:ty => $value:ty;)+) => {$(
        tables! {
            $(#[doc = $doc])+
            $table: $key => $value;
        }

        impl engine::Input for $table {}
    )+};
}

inputs! {
    /// The one row of settings.
    Config: () => Settings;
    /// GatewayClasses by name.
    Classes: Arc<str> => api::GatewayClass;
    /// Gateways.
    Gateways: NsName => api::Gateway;
    /// HTTPRoutes.
    Routes: NsName => api::HttpRoute;
    /// ReferenceGrants.
    Grants: NsName => api::ReferenceGrant;
    /// TrafficPolicies.
    TrafficPolicies: NsName => api::TrafficPolicy;
    /// DirectResponses.
    DirectResponses: NsName => api::DirectResponse;
    /// RewritePolicies.
    RewritePolicies: NsName => api::RewritePolicy;
    /// DelegationPolicies.
    DelegationPolicies: NsName => api::DelegationPolicy;
    /// GatewayParameters.
    Parameters: NsName => api::GatewayParameters;
    /// Services.
    Services: NsName => api::core::Service;
    /// EndpointSlices.
    Slices: NsName => api::core::EndpointSlice;
    /// Secrets to which others refer, with the keys that [`api::references`] names.
    Secrets: NsName => api::core::Secret;
    /// Deployments.
    Deployments: NsName => api::core::Deployment;
    /// The one row that says how proxies are run; absent where others run them.
    DeployConfig: () => super::proxies::Deploying;
    /// Namespaces by name.
    Namespaces: Arc<str> => api::core::Namespace;
    /// Why proxies of a Gateway do not have what they shall, by what they say of themselves.
    Nacks: NsName => String;
    /// Why what runs a Gateway's proxies is not as it should be.
    Unapplied: NsName => String;
    /// Why a port of this host cannot be bound.
    UnusablePorts: Port => String;
}
