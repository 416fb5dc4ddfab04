//! `envoy.extensions.transport_sockets.tls.v3.Secret`: a certificate with its key, and secrets of filters.

use envoy_types::pb::envoy::{
    config::core::v3::{DataSource, data_source::Specifier},
    extensions::transport_sockets::tls::v3::{
        CertificateValidationContext, GenericSecret, SdsSecretConfig, Secret, TlsCertificate, secret::Type,
    },
};
use ir::{NsName, listener::TlsSecret};
use prost::Message;

use crate::{ads, bytes, resource::Encoded};

/// What names of resources begin with that hold what is shown to a provider, and what proves cookies.
const CLIENT: &str = "oauth2/client/";
const COOKIES: &str = "oauth2/cookies/";

/// The two secrets by which people log in. Each is a resource of its own, so that a change of one changes no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LoginSecret {
    /// What the proxy shows the provider, with a hash of who that is and for which client. A secret comes to a proxy before the
    /// routes that go with it, so that of another provider has another name: routes of before would show it to theirs.
    Client(bytes::Hash),
    /// What proves that a cookie is of the proxies of this Gateway.
    Cookies,
}

impl LoginSecret {
    /// The resource of a GatewayExtension.
    pub fn resource_name(self, extension: &NsName) -> String {
        match self {
            Self::Client(provider) => format!("{CLIENT}{extension}@{}", bytes::short_name(&provider)),
            Self::Cookies => format!("{COOKIES}{extension}"),
        }
    }

    /// The GatewayExtension whose resource has this name.
    pub fn extension_of(resource: &str) -> Option<&str> {
        let of_client = || Some(resource.strip_prefix(CLIENT)?.rsplit_once('@')?.0);
        resource.strip_prefix(COOKIES).or_else(of_client)
    }

    /// Where a filter finds it.
    pub fn source(self, extension: &NsName) -> SdsSecretConfig {
        SdsSecretConfig { name: self.resource_name(extension), sds_config: Some(ads()) }
    }

    /// The resource, with the secret in it. Without one there is no resource, and Envoy answers 503 to who has to log in.
    pub fn resource(self, extension: &NsName, secret: &[u8]) -> Encoded {
        let secret = DataSource { specifier: Some(Specifier::InlineBytes(secret.to_vec())), ..DataSource::default() };
        let generic = GenericSecret { secret: Some(secret), ..GenericSecret::default() };
        let message = Secret { name: self.resource_name(extension), r#type: Some(Type::GenericSecret(generic)) };
        Encoded::new(message.encode_to_vec())
    }
}

/// The SDS resource of a TLS secret.
pub fn secret(secret: &TlsSecret) -> Encoded {
    let certificate = TlsCertificate {
        certificate_chain: Some(inline(&secret.chain)),
        private_key: Some(inline(&secret.key)),
        ..TlsCertificate::default()
    };
    let message = Secret { name: secret.name.to_string(), r#type: Some(Type::TlsCertificate(certificate)) };
    Encoded::new(message.encode_to_vec())
}

/// The SDS resource of authorities by which backends or clients are judged, of a name. What else is expected of a certificate stands
/// in the cluster or listener.
pub fn authorities(name: &str, pem: &str) -> Encoded {
    let context = CertificateValidationContext {
        trusted_ca: Some(inline(pem.as_bytes())),
        ..CertificateValidationContext::default()
    };
    let message = Secret { name: name.to_owned(), r#type: Some(Type::ValidationContext(context)) };
    Encoded::new(message.encode_to_vec())
}

/// PEM is text, which people can read in a dump; what stands between its blocks may be anything.
fn inline(pem: &[u8]) -> DataSource {
    let specifier = match std::str::from_utf8(pem) {
        Ok(text) => Specifier::InlineString(text.into()),
        Err(_) => Specifier::InlineBytes(pem.to_vec()),
    };
    DataSource { specifier: Some(specifier), ..DataSource::default() }
}
