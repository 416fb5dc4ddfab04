//! What is there of ours when this process takes over.

use ir::NsName;
use kube::{
    Api, Client,
    api::ListParams,
    core::{ApiResource, DynamicObject, PartialObjectMeta},
};
use tokio::time::timeout;

use super::{
    Settings,
    kind::{Kind, MANAGED_BY},
    object::{CONTROLLER, Fingerprint, LiveObject, ObjectKey, owner},
};

/// In one answer.
const PAGE: u32 = 500;

/// All objects of ours with their Gateways. A kind that is not served has none, and one that we may not list is passed
/// over: what is left of it stays, and what is desired is applied all the same.
pub(super) async fn list(client: &Client, settings: &Settings) -> Result<Vec<(NsName, ObjectKey, LiveObject)>, String> {
    let mut found = Vec::new();
    for kind in Kind::ALL {
        let resource = kind.resource();
        if !kind.is_built_in() && !is_served(client, &resource, settings).await {
            continue;
        }
        let apis: Vec<Api<DynamicObject>> = if settings.namespaces.is_empty() {
            vec![Api::all_with(client.clone(), &resource)]
        } else {
            let namespaces = settings.namespaces.iter();
            namespaces.map(|namespace| Api::namespaced_with(client.clone(), namespace, &resource)).collect()
        };
        for api in apis {
            list_one(kind, &api, settings, &mut found).await?;
        }
    }
    Ok(found)
}

/// Whether the API server may have objects of the kind. One without them says so to everybody, but says of a list that it is
/// forbidden to who has no right to it.
async fn is_served(client: &Client, resource: &ApiResource, settings: &Settings) -> bool {
    match timeout(settings.timeout, client.list_api_group_resources(&resource.api_version)).await {
        Ok(Err(kube::Error::Api(status))) => status.code != 404,
        _ => true,
    }
}

async fn list_one(
    kind: Kind,
    api: &Api<DynamicObject>,
    settings: &Settings,
    found: &mut Vec<(NsName, ObjectKey, LiveObject)>,
) -> Result<(), String> {
    let (label, value) = MANAGED_BY;
    let mut parameters = ListParams::default().labels(&format!("{label}={value}")).limit(PAGE);
    loop {
        let answer = timeout(settings.timeout, api.list_metadata(&parameters)).await;
        let page = match answer {
            Err(_) => return Err(format!("{}: no answer", kind.name())),
            Ok(Ok(page)) => page,
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                let (kind, message) = (kind.name(), &status.message);
                tracing::warn!(kind, message, "may not be listed: objects that are left over stay");
                return Ok(());
            }
            Ok(Err(error)) => return Err(format!("{}: {error}", kind.name())),
        };
        found.extend(page.items.iter().filter_map(|object| live(kind, object, settings)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

/// An object of ours, or none if it only has our label.
fn live(
    kind: Kind,
    object: &PartialObjectMeta<DynamicObject>,
    settings: &Settings,
) -> Option<(NsName, ObjectKey, LiveObject)> {
    let metadata = &object.metadata;
    if metadata.annotations.as_ref()?.get(CONTROLLER)? != &*settings.controller {
        return None;
    }
    let (namespace, name) = (metadata.namespace.as_deref()?, metadata.name.as_deref()?);
    let key = ObjectKey { kind, name: name.into() };
    let uid = metadata.uid.as_deref()?.into();
    Some((
        NsName::new(namespace, owner(metadata)?),
        key,
        LiveObject { uid, applied: None, changed: false, fingerprint: Fingerprint::of(metadata) },
    ))
}
