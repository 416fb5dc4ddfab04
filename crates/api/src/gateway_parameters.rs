//! GatewayParameters.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::meta::ObjectMeta;

/// How the proxies of Gateways are run: named by a GatewayClass, or by a Gateway's `infrastructure.parametersRef`.
///
/// The spec is kept as it was written: two of them are merged before anybody reads a field, and whoever reads refuses
/// what is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayParameters {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// What the owner wants.
    pub spec: Value,
}
