//! `envoy.extensions.transport_sockets.tls.v3.Secret`: a certificate with its key.

use envoy_types::pb::envoy::{
    config::core::v3::{DataSource, data_source::Specifier},
    extensions::transport_sockets::tls::v3::{Secret, TlsCertificate, secret::Type},
};
use ir::listener::TlsSecret;
use prost::Message;

use crate::resource::Encoded;

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

/// PEM is text, which people can read in a dump; what stands between its blocks may be anything.
fn inline(pem: &[u8]) -> DataSource {
    let specifier = match std::str::from_utf8(pem) {
        Ok(text) => Specifier::InlineString(text.into()),
        Err(_) => Specifier::InlineBytes(pem.to_vec()),
    };
    DataSource { specifier: Some(specifier), ..DataSource::default() }
}
