//! TLS to the controller, and the token that says who a proxy is.
//!
//! Both are files that change while Envoy runs, mounted by Kubernetes: what is mounted as a folder changes as a whole,
//! by one symbolic link in it being replaced. Envoy reads such files anew only as part of a secret that comes from
//! secret discovery, here from a file too, which never changes.

use std::path::{Path, PathBuf};

use envoy_types::pb::{
    envoy::{
        config::core::v3::{
            ApiVersion, ConfigSource, DataSource, PathConfigSource, TransportSocket, TypedExtensionConfig,
            WatchedDirectory, config_source::ConfigSourceSpecifier, data_source::Specifier, transport_socket,
        },
        extensions::{
            filters::{
                http::{credential_injector::v3::CredentialInjector, upstream_codec::v3::UpstreamCodec},
                network::http_connection_manager::v3::{HttpFilter, http_filter},
            },
            http::injected_credentials::generic::v3::Generic,
            transport_sockets::tls::v3::{
                CertificateValidationContext, CommonTlsContext, GenericSecret, SdsSecretConfig, Secret,
                SubjectAltNameMatcher, TlsParameters, UpstreamTlsContext, common_tls_context::ValidationContextType,
                secret, subject_alt_name_matcher::SanType, tls_parameters::TlsProtocol,
            },
        },
        r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern},
    },
    google::protobuf::Any,
};
use prost::Message;
use serde_json::{Value, json};

use crate::bytes::any;
use crate::{extension, json as envoy_json};

/// The names of the two secrets.
const AUTHORITIES: &str = "xds-authorities";
const TOKEN: &str = "xds-token";

/// How a proxy knows its controller and is known to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The name that the controller's certificate must have (a DNS name among its subject alternative names), which
    /// is asked for as SNI too.
    pub server_name: String,
    /// A file with all authorities that may have signed that certificate, in PEM. It is read anew when anything is
    /// moved into its folder.
    pub authorities_file: PathBuf,
    /// A file with the proxy's token and nothing else. It is read anew in the same way, and what was read last is shown
    /// when a stream begins.
    pub token_file: PathBuf,
    /// The folder in which Envoy finds [`Credentials::files`].
    pub folder: PathBuf,
}

/// A file that goes with a bootstrap.
#[derive(Clone, Debug, PartialEq)]
pub struct SecretFile {
    /// Its name in [`Credentials::folder`].
    pub name: &'static str,
    /// What is in it. No secret: it says where one is.
    pub content: Value,
}

impl Credentials {
    /// The files that say where the secrets are.
    pub fn files(&self) -> Result<[SecretFile; 2], envoy_json::Error> {
        let validation = CertificateValidationContext {
            trusted_ca: Some(file(&self.authorities_file)),
            watched_directory: Some(folder_of(&self.authorities_file)),
            match_typed_subject_alt_names: vec![SubjectAltNameMatcher {
                san_type: SanType::Dns as i32,
                matcher: Some(StringMatcher {
                    match_pattern: Some(MatchPattern::Exact(self.server_name.clone())),
                    ..StringMatcher::default()
                }),
                ..SubjectAltNameMatcher::default()
            }],
            ..CertificateValidationContext::default()
        };
        // A generic secret is read anew without being told which folder to watch.
        let token = GenericSecret { secret: Some(file(&self.token_file)), ..GenericSecret::default() };
        Ok([
            SecretFile {
                name: "xds-authorities.json",
                content: discovered(AUTHORITIES, secret::Type::ValidationContext(validation))?,
            },
            SecretFile { name: "xds-token.json", content: discovered(TOKEN, secret::Type::GenericSecret(token))? },
        ])
    }

    /// TLS 1.3 to the controller and to nobody else.
    pub(super) fn transport_socket(&self) -> TransportSocket {
        let context = UpstreamTlsContext {
            sni: self.server_name.clone(),
            common_tls_context: Some(CommonTlsContext {
                tls_params: Some(TlsParameters {
                    tls_minimum_protocol_version: TlsProtocol::TlSv13 as i32,
                    tls_maximum_protocol_version: TlsProtocol::TlSv13 as i32,
                    ..TlsParameters::default()
                }),
                alpn_protocols: vec!["h2".into()],
                validation_context_type: Some(ValidationContextType::ValidationContextSdsSecretConfig(
                    self.secret(AUTHORITIES),
                )),
                ..CommonTlsContext::default()
            }),
            ..UpstreamTlsContext::default()
        };
        TransportSocket {
            name: extension::TLS.into(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(any(&context))),
        }
    }

    /// Adds the token to each request. Without one a stream fails in Envoy and is tried again.
    pub(super) fn token_filter(&self) -> HttpFilter {
        let generic = Generic {
            credential: Some(self.secret(TOKEN)),
            header_value_prefix: "Bearer ".into(),
            ..Generic::default()
        };
        let injector = CredentialInjector {
            overwrite: true,
            credential: Some(TypedExtensionConfig {
                name: extension::GENERIC_CREDENTIAL.into(),
                typed_config: Some(any(&generic)),
            }),
            ..CredentialInjector::default()
        };
        filter(extension::CREDENTIAL_INJECTOR, any(&injector))
    }

    fn secret(&self, name: &str) -> SdsSecretConfig {
        let path = self.folder.join(format!("{name}.json"));
        SdsSecretConfig {
            name: name.into(),
            sds_config: Some(ConfigSource {
                resource_api_version: ApiVersion::V3 as i32,
                config_source_specifier: Some(ConfigSourceSpecifier::PathConfigSource(PathConfigSource {
                    path: text(&path),
                    ..PathConfigSource::default()
                })),
                ..ConfigSource::default()
            }),
        }
    }
}

/// The last filter of a cluster that has any.
pub(super) fn codec_filter() -> HttpFilter {
    filter(extension::UPSTREAM_CODEC, any(&UpstreamCodec {}))
}

fn filter(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.into(),
        config_type: Some(http_filter::ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    }
}

/// A discovery response of one secret.
fn discovered(name: &str, kind: secret::Type) -> Result<Value, envoy_json::Error> {
    const SECRET: &str = "envoy.extensions.transport_sockets.tls.v3.Secret";
    let message = Secret { name: name.into(), r#type: Some(kind) };
    let mut secret = envoy_json::value(SECRET, &message.encode_to_vec())?;
    secret["@type"] = json!(format!("type.googleapis.com/{SECRET}"));
    Ok(json!({"resources": [secret]}))
}

fn file(path: &Path) -> DataSource {
    DataSource { specifier: Some(Specifier::Filename(text(path))), ..DataSource::default() }
}

fn folder_of(path: &Path) -> WatchedDirectory {
    WatchedDirectory { path: text(path.parent().unwrap_or(Path::new("/"))), ..WatchedDirectory::default() }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
