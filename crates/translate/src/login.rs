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
        LoginSecret::Client(_) => {
            let judged = scope.get::<ExtensionRow>(extension)?;
            let provider = &judged.extension.as_ref().ok()?.provider;
            // What is for another provider has another name.
            let id = provider.client_secret().filter(|_| provider.login_secret() == Some(part))?;
            let stored = scope.get::<Secrets>(id)?;
            client_secret(&stored).ok().map(|bytes| part.resource(extension, bytes))
        }
    }
}

/// What is shown to who logs people in by a GatewayExtension; none where that cannot be asked.
pub(crate) fn client(scope: &Scope<'_>, extension: &NsName) -> Option<LoginSecret> {
    let judged = scope.get::<ExtensionRow>(extension)?;
    judged.extension.as_ref().ok()?.provider.login_secret()
}
