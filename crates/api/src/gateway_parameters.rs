//! GatewayParameters.

use serde_json::Value;

use crate::{meta::CustomResource, schema::Spec};

/// How the proxies of Gateways are run: named by a GatewayClass, or by a Gateway's `infrastructure.parametersRef`.
///
/// The spec is kept as it was written: two of them are merged before anybody reads a field, and whoever reads refuses
/// what is not known.
pub type GatewayParameters = CustomResource<Value>;

impl Spec for Value {}
