//! The status of GatewayClasses.

use std::sync::Arc;

use api::{
    Kind,
    status::{GatewayClassStatus, SupportedFeature},
};
use engine::{Derived, Emitter};
use ir::{Problem, Reason, RouteKind, Severity};

use super::{Conditions, StatusReport};
use crate::{
    route,
    tables::{
        input::{AbsentKinds, Classes, DeployConfig, object_kind},
        proxies::OurClasses,
    },
};

/// Features of Gateway API that are served, beside those of routes, as the conformance suite names them. Each has a traffic
/// case.
const SUPPORTED_FEATURES: &[&str] = &[
    "Gateway",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayPort8080",
    "ReferenceGrant",
];

/// What is served as well where this controller runs the proxies.
const DEPLOYED_FEATURES: &[&str] =
    &["GatewayAddressEmpty", "GatewayInfrastructurePropagation", "GatewayStaticAddresses"];

/// What ListenerSets add.
const SET_FEATURES: &[&str] = &["ListenerSet"];

/// What BackendTLSPolicies add.
const BACKEND_TLS_FEATURES: &[&str] = &["BackendTLSPolicy", "BackendTLSPolicySANValidation"];

tables! {
    /// Statuses of GatewayClasses of ours.
    ClassStatus: Arc<str> => StatusReport<GatewayClassStatus>;
}

impl Derived for ClassStatus {
    fn compute(scope: &Emitter<'_>, key: &Arc<str>) -> Option<Self::Value> {
        let class = scope.get::<Classes>(key)?;
        let state = scope.get::<OurClasses>(key)?;
        let mut conditions = Conditions::new(class.metadata.generation);
        let mut problems = Vec::new();
        match &state.fault {
            None => conditions.yes("Accepted", Reason::Accepted, "Gateways of this class are served"),
            Some(fault) => {
                conditions.no("Accepted", fault.reason, fault.to_string());
                problems.push(Problem::new(Severity::Refused, fault.reason, &fault.field, &fault.message));
            }
        }
        conditions.yes(
            "SupportedVersion",
            Reason::SupportedVersion,
            "objects are read as Gateway API v1.6 defines them",
        );
        let deploying = scope.get::<DeployConfig>(&()).filter(|deploying| deploying.applied);
        let deployed = deploying.map_or(&[][..], |_| DEPLOYED_FEATURES);
        let is_there = |kind: Kind| scope.get::<AbsentKinds>(&kind).is_none();
        let kinds = RouteKind::ALL.iter().filter(|kind| is_there(object_kind(**kind)));
        let of_routes = kinds.flat_map(|kind| route::features(*kind));
        let of_tls = if is_there(Kind::BackendTlsPolicy) { BACKEND_TLS_FEATURES } else { &[] };
        let of_sets = if is_there(Kind::ListenerSet) { SET_FEATURES } else { &[] };
        let features = SUPPORTED_FEATURES.iter().chain(deployed).chain(of_routes).chain(of_tls).chain(of_sets).copied();
        let mut supported_features: Vec<_> = features.map(|name| SupportedFeature { name: name.into() }).collect();
        supported_features.sort_unstable();
        Some(StatusReport {
            status: Some(GatewayClassStatus { conditions: conditions.done(), supported_features }),
            problems,
        })
    }
}
