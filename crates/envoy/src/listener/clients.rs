//! Who may connect, and what backends are told of whoever showed a certificate.

use std::net::IpAddr;

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::CidrRange,
            listener::v3::{Filter, filter},
        },
        extensions::{
            filters::{
                http::set_metadata::v3::{Config as SetMetadata, Metadata},
                network::{
                    connection_limit::v3::ConnectionLimit,
                    http_connection_manager::v3::http_connection_manager::{
                        ForwardClientCertDetails, SetCurrentClientCertDetails,
                    },
                },
            },
            transport_sockets::tls::v3::{
                CertificateValidationContext, certificate_validation_context::TrustChainVerification,
            },
        },
    },
    google::protobuf::{Struct, UInt64Value, Value, value::Kind},
};
use ir::{
    downstream::{CertificateDetail, CertificateDetails, ListenerConfig, ToldOfClients},
    settings::Edge,
};

use crate::{boolean, bytes::any, extension, uint32};

/// Addresses that begin with the same bits: the first, and how many.
pub(super) fn range((address, length): &(IpAddr, u8)) -> CidrRange {
    CidrRange { address_prefix: address.to_string(), prefix_len: Some(uint32((*length).into())) }
}

/// From where connections may come, by their own addresses; from anywhere if it is empty. Where the PROXY protocol says whom they
/// come from, whoever may connect may say that he is somebody else.
pub(super) fn sources(config: &ListenerConfig, edge: &Edge) -> Vec<CidrRange> {
    let ranges = config.proxy_protocol.map(|_| edge.proxy_protocol_sources.iter().map(range));
    ranges.into_iter().flatten().collect()
}

/// What closes connections of a chain beyond so many at a time; none where there may be any number (0).
pub(super) fn limit(chain: &str, most: u32) -> Option<Filter> {
    let message = ConnectionLimit {
        stat_prefix: chain.into(),
        max_connections: Some(UInt64Value { value: most.into() }),
        ..ConnectionLimit::default()
    };
    (most > 0).then(|| Filter {
        name: extension::CONNECTION_LIMIT.into(),
        config_type: Some(filter::ConfigType::TypedConfig(any(&message))),
    })
}

/// What backends are told of certificates of clients: how, and which parts.
///
/// Nothing of one that nobody judged: it would pass for an identity.
pub(super) fn told(
    said: Option<&ToldOfClients>,
    asks_unjudged: bool,
    edge: &Edge,
) -> (ForwardClientCertDetails, Option<SetCurrentClientCertDetails>) {
    let details = &edge.client_certificate_details;
    match said {
        _ if asks_unjudged => (ForwardClientCertDetails::Sanitize, None),
        Some(ToldOfClients::Said) => (ForwardClientCertDetails::ForwardOnly, None),
        Some(ToldOfClients::SaidAndShown(details)) => (ForwardClientCertDetails::AppendForward, Some(parts(details))),
        Some(ToldOfClients::Shown(details)) => (ForwardClientCertDetails::SanitizeSet, Some(parts(details))),
        None if !details.is_empty() => (ForwardClientCertDetails::SanitizeSet, Some(parts(details))),
        Some(ToldOfClients::Nothing) | None => (ForwardClientCertDetails::Sanitize, None),
    }
}

fn parts(details: &CertificateDetails) -> SetCurrentClientCertDetails {
    let has = |detail| details.contains(&detail);
    SetCurrentClientCertDetails {
        subject: has(CertificateDetail::Subject).then(|| boolean(true)),
        cert: has(CertificateDetail::Cert),
        chain: has(CertificateDetail::Chain),
        dns: has(CertificateDetail::Dns),
        uri: has(CertificateDetail::Uri),
        ..SetCurrentClientCertDetails::default()
    }
}

/// The namespace of dynamic metadata, and the key in it, that are true of requests over connections whose clients were asked for
/// certificates that nobody judged.
pub const UNJUDGED: &str = "portcullis.clients";
/// That key.
pub const UNJUDGED_KEY: &str = "unjudged";

/// Says so of a request.
pub(super) fn mark() -> SetMetadata {
    let value = Value { kind: Some(Kind::BoolValue(true)) };
    let value = Some(Struct { fields: [(UNJUDGED_KEY.to_owned(), value)].into() });
    let metadata = Metadata { metadata_namespace: UNJUDGED.into(), value, ..Metadata::default() };
    SetMetadata { metadata: vec![metadata], ..SetMetadata::default() }
}

/// Has clients asked for a certificate, and takes any.
pub(super) fn unjudged() -> CertificateValidationContext {
    CertificateValidationContext {
        trust_chain_verification: TrustChainVerification::AcceptUntrusted as i32,
        ..CertificateValidationContext::default()
    }
}
