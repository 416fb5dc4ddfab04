//! Connections.

use ir::downstream::ProxyProtocolFrom;
use serde::Deserialize;

use super::{Read, number, text, unserved};
use crate::{spec, upstream::connection};

pub(super) const FIELDS: [(&str, Read); 5] = [
    ("clientCertificateValidation", |_, _| {
        unserved(
            "spec.tls.frontend of the Gateway says whose certificates clients must have; say it there, and remove it here",
        )
    }),
    ("perConnectionBufferLimitBytes", |value, reading| {
        let most = reading.edge.buffer_bytes;
        reading.config.buffer_bytes = Some(reading.at_most(number(value, 1)?, most, "edge.bufferBytes"));
        Ok(())
    }),
    ("proxyProtocol", |value, reading| {
        let ProxySpec { allow_requests_without_proxy_protocol: some } = spec::decode(value)?;
        reading.config.proxy_protocol = Some(if some { ProxyProtocolFrom::Some } else { ProxyProtocolFrom::All });
        Ok(())
    }),
    ("tcpKeepalive", |value, reading| {
        reading.config.keepalive = Some(connection::keepalive(&spec::decode(value)?)?);
        Ok(())
    }),
    ("transportSocketConnectTimeout", |value, reading| {
        reading.config.handshake_timeout = spec::positive(Some(text(value)?), "")?;
        Ok(())
    }),
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProxySpec {
    #[serde(default)]
    allow_requests_without_proxy_protocol: bool,
}
