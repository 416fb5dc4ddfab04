//! GatewayClasses of this controller, and what runs the proxies of Gateways.

use std::sync::Arc;

use deploy::Manifest;
use ir::NsName;

use super::gateway::Fault;

/// How proxies are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deploying {
    /// What does not come from GatewayParameters.
    pub settings: deploy::Settings,
    /// Where proxies find the controller: a DNS name, which its certificate has.
    pub xds_host: Arc<str>,
    /// The port there.
    pub xds_port: u16,
    /// The authorities that may have signed the controller's certificate, in PEM; none while they are not known yet.
    pub authorities: Option<Arc<str>>,
    /// Whether the objects are applied. If not, it is judged whether they could be, and nothing that runs is looked for.
    pub applied: bool,
}

impl Deploying {
    /// For who only judges objects: as a controller with its defaults would run proxies.
    pub fn dry_run() -> Self {
        Self {
            settings: deploy::Settings::default(),
            xds_host: "portcullis.portcullis-system.svc.cluster.local".into(),
            xds_port: 9977,
            authorities: None,
            applied: false,
        }
    }
}

/// What runs the proxies of a Gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proxies {
    /// These objects.
    Objects(Arc<[Manifest]>),
    /// Somebody else: this controller deploys nothing, or nothing for this Gateway.
    Unmanaged,
    /// What is asked for cannot be, or is not known completely. What runs goes on.
    Kept,
}

/// The same, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deployed {
    pub(crate) proxies: Proxies,
    pub(crate) fault: Option<DeployFault>,
}

/// Why the proxies of a Gateway are not run as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeployFault {
    /// The Gateway is not accepted.
    Refused(Fault),
    /// It is, and cannot be programmed: an address that it asks for cannot be had.
    AddressNotUsable(Fault),
}

impl From<Fault> for DeployFault {
    fn from(fault: Fault) -> Self {
        Self::Refused(fault)
    }
}

tables! {
    /// What runs the proxies of Gateways of ours, and of those that may have been: whose class is missing.
    ProxiesOf: NsName => Deployed;
}

/// What a GatewayClass of ours says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClassState {
    /// The GatewayParameters that hold for all Gateways of the class.
    pub(crate) parameters: Option<NsName>,
    /// Why these parameters cannot be used. What runs goes on with what it has.
    pub(crate) fault: Option<Fault>,
}

tables! {
    /// GatewayClasses of ours; absent for a class that is missing or another controller's.
    OurClasses: Arc<str> => ClassState;
}
