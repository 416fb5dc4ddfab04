//! The secrets by which people log in.

use engine::Scope;
use envoy::{resource::Encoded, secret::LoginSecret};
use ir::NsName;
use units::extension::client_secret;

use crate::{
    extension::ExtensionRow,
    tables::input::{LoginSeed, Secrets},
};

/// A secret for the proxies of a Gateway. There is none while it is not known: Envoy then answers 503 to who has to log in.
pub(crate) fn secret(scope: &Scope<'_>, gateway: &NsName, extension: &NsName, part: LoginSecret) -> Option<Encoded> {
    match part {
        LoginSecret::Cookies => {
            let key = scope.get::<LoginSeed>(&())?.key(gateway, extension);
            Some(part.resource(extension, &key))
        }
        LoginSecret::Client => {
            let judged = scope.get::<ExtensionRow>(extension)?;
            let id = judged.extension.as_ref().ok()?.provider.client_secret()?;
            let stored = scope.get::<Secrets>(id)?;
            client_secret(&stored).ok().map(|bytes| part.resource(extension, bytes))
        }
    }
}
