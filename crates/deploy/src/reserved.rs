//! What is ours to set, so that nobody else may.

use crate::names::{GATEWAY_CLASS_NAME, GATEWAY_NAME, MANAGED_BY_LABEL};

/// Labels by which objects are found again.
pub(crate) const LABELS: [&str; 3] = [GATEWAY_NAME, GATEWAY_CLASS_NAME, MANAGED_BY_LABEL];
/// The variable that holds the name of the pod, which is the id of the node.
pub(crate) const POD_NAME: &str = "POD_NAME";
/// What Envoy is told and nobody may tell it otherwise, in their long and short forms.
pub(crate) const ARGUMENTS: [&str; 9] = [
    "--config-path",
    "-c",
    "--service-node",
    "--service-cluster",
    "--mode",
    "--restart-epoch",
    "--base-id",
    "--use-dynamic-base-id",
    "--disable-hot-restart",
];
