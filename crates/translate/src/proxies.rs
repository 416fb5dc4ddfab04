//! What runs the proxies of a Gateway: the objects for Kubernetes, made of the Gateway and its GatewayParameters.

use std::{net::SocketAddr, path::Path, sync::Arc};

use api::core::{Service, ServiceType};
use api::meta::StringMap;
use deploy::{About, Parameters, Plan, Port};
use engine::{Derived, Emitter, Scope};
use envoy::{
    self,
    bootstrap::{self, AdminAddress, Credentials, XdsAddress},
};
use ir::{NsName, Reason};
use serde_json::Value;

use crate::{
    internal,
    tables::{
        gateway::{Fault, GatewayModel, GatewayRow, NameRival},
        input::{self, Classes, Config, Gateways},
        proxies::{DeployFault, Deployed, Deploying, OurClasses, Proxies, ProxiesOf},
        set::SoundPorts,
    },
};

impl Derived for ProxiesOf {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Deployed> {
        let gateway = scope.get::<Gateways>(key)?;
        if scope.get::<Classes>(&gateway.spec.gateway_class_name).is_none() {
            // Whose it is nobody can say. A process before this one may have run proxies for it.
            return Some(Deployed { proxies: Proxies::Kept, fault: None });
        }
        let model = scope.get::<GatewayRow>(key)?;
        if let Some(fault) = name_taken(scope, key, &gateway) {
            return Some(Deployed { proxies: Proxies::Kept, fault: Some(fault.into()) });
        }
        let parameters = match read(scope, key, &gateway) {
            Ok(parameters) => parameters,
            Err(fault) => return Some(Deployed { proxies: Proxies::Kept, fault: Some(fault) }),
        };
        let Some(deploying) = scope.get::<input::DeployConfig>(&()) else {
            return Some(Deployed { proxies: Proxies::Unmanaged, fault: None });
        };
        if parameters.self_managed() {
            return Some(Deployed { proxies: Proxies::Unmanaged, fault: None });
        }
        if deploying.applied && deploying.authorities.is_none() {
            // What a process before this one applied has them, and must not lose them while this one starts.
            return Some(Deployed { proxies: Proxies::Kept, fault: None });
        }
        let rendered = plan(scope, key, &gateway, &model, parameters, &deploying)
            .map_err(DeployFault::from)
            .and_then(|plan| deploy::render(&plan, &deploying.settings).map_err(|fault| of(&fault)));
        let fault = rendered.as_ref().err().cloned();
        let proxies = match rendered {
            _ if !deploying.applied => Proxies::Unmanaged,
            Ok(objects) => Proxies::Objects(objects.into()),
            Err(_) => Proxies::Kept,
        };
        Some(Deployed { proxies, fault })
    }

    fn poisoned(scope: &Emitter<'_>, key: &NsName, _: &engine::Fault) -> Option<Deployed> {
        scope.get::<Gateways>(key)?;
        Some(Deployed { proxies: Proxies::Kept, fault: Some(internal::fault().into()) })
    }
}

/// What the objects that run a Gateway's proxies are called.
pub(crate) fn name(gateway: &NsName, class: &str) -> NsName {
    let names = deploy::names::names(gateway, class);
    NsName::new(names.namespace, names.object)
}

/// Why a Gateway's proxies cannot be called as they have to be.
pub(crate) fn name_taken(scope: &Scope<'_>, key: &NsName, gateway: &api::Gateway) -> Option<Fault> {
    let rival = scope.get::<NameRival>(key)?;
    let name = name(key, &gateway.spec.gateway_class_name).name;
    let message = format!(
        "its proxies would be called {name}, as those of Gateway {rival} are: it gets none; give one of the two another \
         name, or another class"
    );
    Some(Fault::at(Reason::Invalid, "metadata.name", message))
}

/// Where clients reach what the Service stands before, in order.
pub(crate) fn addresses(service: &Service) -> Vec<Box<str>> {
    let mut addresses = match service.r#type {
        ServiceType::LoadBalancer => service.ingress.to_vec(),
        _ => service.cluster_ip.iter().cloned().collect(),
    };
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The parameters of a Gateway: those of its class, and its own, which win.
fn read(scope: &Scope<'_>, key: &NsName, gateway: &api::Gateway) -> Result<Parameters, DeployFault> {
    const FIELD: &str = "spec.infrastructure.parametersRef";
    let class = scope.get::<OurClasses>(&gateway.spec.gateway_class_name);
    let of_class = match class.as_deref() {
        Some(class) if class.fault.is_some() => {
            let name = &gateway.spec.gateway_class_name;
            let message = format!("GatewayClass {name} is not accepted: correct its parameters, or name another class");
            return Err(Fault::at(Reason::InvalidParameters, "spec.gatewayClassName", message).into());
        }
        Some(class) => class.parameters.as_ref().and_then(|name| scope.get::<input::Parameters>(name)),
        None => None,
    };
    let named = gateway.spec.infrastructure.as_ref().and_then(|infrastructure| infrastructure.parameters_ref.as_ref());
    let name = named.map(|named| NsName::new(key.namespace.clone(), named.name.clone()));
    let own = match (named, &name) {
        (Some(named), Some(name)) => Some(parameters(scope, FIELD, (&named.group, &named.kind), name)?),
        _ => None,
    };
    let trust = scope.get::<Config>(&()).map(|config| config.gateway_parameters).unwrap_or_default();
    Parameters::read(of_class.as_ref().map(|object| &object.spec), own.as_deref(), trust).map_err(|fault| of(&fault))
}

/// The spec of the GatewayParameters that `field` names.
pub(crate) fn parameters(
    scope: &Scope<'_>,
    field: &str,
    (group, kind): (&str, &str),
    name: &NsName,
) -> Result<Arc<Value>, Fault> {
    let wanted = api::Kind::GatewayParameters;
    if (group, kind) != (wanted.group(), wanted.as_str()) {
        let message =
            format!("{kind} of group {group:?} is not supported; name a {wanted} of group {}", wanted.group());
        return Err(Fault::at(Reason::InvalidParameters, field, message));
    }
    if name.namespace.is_empty() {
        let message = format!("{wanted} {} is named without a namespace; set it", name.name);
        return Err(Fault::at(Reason::InvalidParameters, format!("{field}.namespace"), message));
    }
    match scope.get::<input::Parameters>(name) {
        Some(object) => Ok(Arc::new(object.spec.clone())),
        None => {
            let message = format!("{wanted} {name} does not exist; create it, or name another");
            Err(Fault::at(Reason::InvalidParameters, field, message))
        }
    }
}

/// A fault of GatewayParameters, for whoever names them in `field`.
pub(crate) fn invalid(field: &str, name: &NsName, fault: &deploy::Fault) -> Fault {
    let message = format!("{} {name} cannot be used: {fault}", api::Kind::GatewayParameters);
    Fault::at(Reason::InvalidParameters, field, message)
}

/// A fault for the Gateway whose proxies cannot be run as asked for.
fn of(fault: &deploy::Fault) -> DeployFault {
    let of_parameters = |field: &str, whose: &str| {
        let message = format!("the {} of the {whose} cannot be used: {fault}", api::Kind::GatewayParameters);
        Fault::at(Reason::InvalidParameters, field, message)
    };
    let own = |reason| Fault::at(reason, fault.field.clone(), fault.message.clone());
    DeployFault::Refused(match fault.about {
        About::ClassParameters => of_parameters("spec.gatewayClassName", "GatewayClass"),
        About::GatewayParameters => of_parameters("spec.infrastructure.parametersRef", "Gateway"),
        About::Gateway => own(Reason::Invalid),
        About::Addresses => return DeployFault::AddressNotUsable(own(Reason::AddressNotUsable)),
    })
}

fn plan(
    scope: &Scope<'_>,
    key: &NsName,
    gateway: &api::Gateway,
    model: &GatewayModel,
    parameters: Parameters,
    deploying: &Deploying,
) -> Result<Plan, Fault> {
    let infrastructure = gateway.spec.infrastructure.clone().unwrap_or_default();
    let mut ports: Vec<_> = model
        .listeners
        .iter()
        .filter(|listener| listener.is_sound())
        .map(|listener| Port {
            name: listener.name.clone(),
            port: listener.port,
            target: listener.bind_port,
            transport: listener.transport(),
            optional: false,
        })
        .collect();
    // Whose port it is that ListenerSets add is nothing that its name tells.
    let of_sets = scope.group::<SoundPorts>(key);
    let of_sets = of_sets.iter().map(|((port, transport), (target, _))| Port {
        name: Arc::default(),
        port: *port,
        target: *target,
        transport: *transport,
        optional: true,
    });
    ports.extend(of_sets);
    // Listeners that share a port share the first one's name, and one of the Gateway's own keeps it.
    ports.sort_by_key(|port| (port.port, port.transport));
    ports.dedup_by_key(|port| (port.port, port.transport));
    let pairs = |map: StringMap| map.iter().map(|(key, value)| ((**key).into(), (**value).into())).collect();
    let credentials = Credentials {
        server_name: deploying.xds_host.to_string(),
        authorities_file: Path::new(deploy::CONFIG_FOLDER).join(deploy::TRUST_BUNDLE_FILE),
        token_file: deploy::TOKEN_FILE.into(),
        folder: deploy::CONFIG_FOLDER.into(),
    };
    let settings = &deploying.settings;
    let xds = XdsAddress::Tcp { host: deploying.xds_host.to_string(), port: deploying.xds_port };
    let admin = AdminAddress::Tcp { address: settings.admin.ip(), port: settings.admin.port() };
    let observed = SocketAddr::from(([0, 0, 0, 0], settings.stats_port));
    let edge = &scope.get::<Config>(&()).ok_or_else(|| Fault::new(Reason::Pending, "there are no settings yet"))?.edge;
    let unprintable =
        |error: envoy::json::Error| Fault::new(Reason::Invalid, format!("its bootstrap cannot be made: {error}"));
    let bootstrap = bootstrap::secured_bootstrap(key, "", &xds, &credentials, &admin, observed, edge);
    let bootstrap = bootstrap::bootstrap_json(&bootstrap).map_err(unprintable)?.to_string();
    let files = credentials.files().map_err(unprintable)?;
    Ok(Plan {
        gateway: key.clone(),
        uid: gateway.metadata.uid.clone(),
        class: gateway.spec.gateway_class_name.clone(),
        ports,
        labels: pairs(infrastructure.labels),
        annotations: pairs(infrastructure.annotations),
        // A Service has one; whoever asks for more is told that they are not there.
        addresses: if model.addresses.len() == 1 { model.addresses.clone() } else { Vec::new() },
        parameters,
        bootstrap: bootstrap.into(),
        files: files.map(|file| (file.name.into(), file.content.to_string().into())).into(),
        trust_bundle: deploying.authorities.clone(),
    })
}
