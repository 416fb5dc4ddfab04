//! What connections to a backend are wrapped in: TLS, and the PROXY protocol.

use envoy_types::pb::envoy::{
    config::core::v3::{
        DataSource, ProxyProtocolConfig, TransportSocket, data_source::Specifier, proxy_protocol_config::Version,
        transport_socket::ConfigType,
    },
    extensions::transport_sockets::{
        proxy_protocol::v3::ProxyProtocolUpstreamTransport,
        raw_buffer::v3::RawBuffer,
        tls::v3::{
            CertificateValidationContext, CommonTlsContext, SdsSecretConfig, SubjectAltNameMatcher, TlsParameters,
            UpstreamTlsContext,
            common_tls_context::{CombinedCertificateValidationContext, ValidationContextType},
            subject_alt_name_matcher::SanType,
            tls_parameters::TlsProtocol,
        },
    },
    r#type::matcher::v3::{RegexMatcher, StringMatcher, string_matcher::MatchPattern},
};
use ir::{
    backend::{Cluster, Protocol, Way},
    listener::TlsSecret,
    upstream::{PeerName, ProxyProtocol, Tls, TlsTrust, TlsVersion},
};
use prost::{Message, Name};

use crate::{ads, bytes::any, extension};

/// What a connection is wrapped in; none for plain text.
pub(super) fn socket(cluster: &Cluster) -> Option<TransportSocket> {
    let tls = match (&cluster.config.tls, cluster.protocol) {
        (Some(tls), _) => Some(context(tls, &cluster.trust_store)),
        (None, Protocol::Http1Tls) => Some(unverified()),
        (None, Protocol::Http1 | Protocol::H2c) => None,
    };
    around(tls.as_ref(), cluster.config.proxy_protocol)
}

/// In what endpoints are connected to that ask for this way.
pub(super) fn of_way(way: &Way, trust_store: &str) -> TransportSocket {
    let tls = way.tls.as_ref().map(|tls| context(tls, trust_store));
    around(tls.as_ref(), way.proxy_protocol).unwrap_or_else(plain)
}

/// Nothing at all.
pub(super) fn plain() -> TransportSocket {
    wrap(extension::RAW_BUFFER, &RawBuffer {})
}

/// TLS with nobody: no certificate has this hash.
pub(super) fn nobody() -> TransportSocket {
    let nobody = CertificateValidationContext {
        verify_certificate_hash: vec!["00".repeat(32)],
        ..CertificateValidationContext::default()
    };
    let context = CommonTlsContext {
        validation_context_type: Some(ValidationContextType::ValidationContext(nobody)),
        ..CommonTlsContext::default()
    };
    wrap(extension::TLS, &UpstreamTlsContext { common_tls_context: Some(context), ..UpstreamTlsContext::default() })
}

/// TLS, and before it the PROXY protocol; none for neither.
fn around(tls: Option<&UpstreamTlsContext>, proxy_protocol: Option<ProxyProtocol>) -> Option<TransportSocket> {
    let tls = tls.map(|context| wrap(extension::TLS, context));
    let Some(version) = proxy_protocol else { return tls };
    let proxy = ProxyProtocolUpstreamTransport {
        config: Some(ProxyProtocolConfig {
            version: match version {
                ProxyProtocol::V1 => Version::V1,
                ProxyProtocol::V2 => Version::V2,
            } as i32,
            ..ProxyProtocolConfig::default()
        }),
        transport_socket: Some(tls.unwrap_or_else(plain)),
        ..ProxyProtocolUpstreamTransport::default()
    };
    Some(wrap(extension::UPSTREAM_PROXY_PROTOCOL, &proxy))
}

/// The same with the certificate of the Gateway shown; none where TLS is not spoken, or another one is shown.
pub(super) fn showing(socket: &TransportSocket) -> Option<TransportSocket> {
    let Some(ConfigType::TypedConfig(config)) = &socket.config_type else { return None };
    match socket.name.as_str() {
        extension::TLS => {
            let mut context = UpstreamTlsContext::decode(&*config.value).ok()?;
            let shown = &mut context.common_tls_context.as_mut()?.tls_certificate_sds_secret_configs;
            if !shown.is_empty() {
                return None;
            }
            shown.push(SdsSecretConfig { name: TlsSecret::OF_GATEWAY.into(), sds_config: Some(ads()) });
            Some(wrap(extension::TLS, &context))
        }
        extension::UPSTREAM_PROXY_PROTOCOL => {
            let mut proxy = ProxyProtocolUpstreamTransport::decode(&*config.value).ok()?;
            proxy.transport_socket = Some(showing(proxy.transport_socket.as_ref()?)?);
            Some(wrap(extension::UPSTREAM_PROXY_PROTOCOL, &proxy))
        }
        _ => None,
    }
}

fn wrap<M: Message + Name>(name: &str, config: &M) -> TransportSocket {
    TransportSocket { name: name.into(), config_type: Some(ConfigType::TypedConfig(any(config))) }
}

/// What Envoy is told, since what it chooses as a client ends at TLS 1.2.
const NEWEST: TlsProtocol = TlsProtocol::TlSv13;

/// TLS with whoever answers.
fn unverified() -> UpstreamTlsContext {
    let parameters = TlsParameters { tls_maximum_protocol_version: NEWEST as i32, ..TlsParameters::default() };
    UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext { tls_params: Some(parameters), ..CommonTlsContext::default() }),
        ..UpstreamTlsContext::default()
    }
}

fn context(tls: &Tls, trust_store: &str) -> UpstreamTlsContext {
    let texts = |list: &[std::sync::Arc<str>]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let parameters = TlsParameters {
        tls_minimum_protocol_version: tls.least_version.map_or(TlsProtocol::TlsAuto, version) as i32,
        tls_maximum_protocol_version: tls.most_version.map_or(NEWEST, version) as i32,
        cipher_suites: texts(&tls.ciphers),
        ecdh_curves: texts(&tls.curves),
        signature_algorithms: texts(&tls.signatures),
        ..TlsParameters::default()
    };
    let certificate = tls.certificate.iter();
    UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(parameters),
            tls_certificate_sds_secret_configs: certificate
                .map(|secret| SdsSecretConfig { name: TlsSecret::resource_name(secret), sds_config: Some(ads()) })
                .collect(),
            alpn_protocols: texts(&tls.alpn),
            validation_context_type: validation(tls, trust_store),
            ..CommonTlsContext::default()
        }),
        sni: tls.sni.as_deref().unwrap_or_default().into(),
        auto_host_sni: tls.by_endpoint,
        auto_sni_san_validation: tls.by_endpoint,
        allow_renegotiation: tls.renegotiation,
        ..UpstreamTlsContext::default()
    }
}

fn validation(tls: &Tls, trust_store: &str) -> Option<ValidationContextType> {
    let context = |authorities: Option<Specifier>| CertificateValidationContext {
        trusted_ca: authorities.map(|specifier| DataSource { specifier: Some(specifier), ..DataSource::default() }),
        match_typed_subject_alt_names: tls.names.iter().map(peer).collect(),
        ..CertificateValidationContext::default()
    };
    let whole = |authorities| ValidationContextType::ValidationContext(context(Some(authorities)));
    Some(match &tls.trust {
        TlsTrust::Authorities(pem) => whole(Specifier::InlineString(pem.to_string())),
        TlsTrust::System => whole(Specifier::Filename(trust_store.to_owned())),
        TlsTrust::Bundle(name) => {
            let secret = SdsSecretConfig { name: name.to_string(), sds_config: Some(ads()) };
            ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
                default_validation_context: Some(context(None)),
                validation_context_sds_secret_config: Some(secret),
                ..CombinedCertificateValidationContext::default()
            })
        }
        TlsTrust::Anybody => return None,
    })
}

fn peer(name: &PeerName) -> SubjectAltNameMatcher {
    let exact = |text: &str| MatchPattern::Exact(text.to_owned());
    let (kind, pattern) = match name {
        PeerName::Dns(name) => (SanType::Dns, exact(name)),
        PeerName::Uri(uri) => (SanType::Uri, exact(uri)),
        PeerName::Address(address) => (SanType::IpAddress, exact(address)),
        // Names in DNS do not tell letters apart by their case.
        PeerName::Below(parent) => {
            let regex = format!(r"(?i)[^.]+\.{}", parent.replace('.', r"\."));
            (SanType::Dns, MatchPattern::SafeRegex(RegexMatcher { regex, ..RegexMatcher::default() }))
        }
    };
    SubjectAltNameMatcher {
        san_type: kind as i32,
        matcher: Some(StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }),
        ..SubjectAltNameMatcher::default()
    }
}

fn version(version: TlsVersion) -> TlsProtocol {
    match version {
        TlsVersion::V1_0 => TlsProtocol::TlSv10,
        TlsVersion::V1_1 => TlsProtocol::TlSv11,
        TlsVersion::V1_2 => TlsProtocol::TlSv12,
        TlsVersion::V1_3 => TlsProtocol::TlSv13,
    }
}
