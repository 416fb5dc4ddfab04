//! Who counts requests.

use api::gateway_extension::{self, XRateLimitHeaders};
use envoy_types::pb::envoy::{
    config::{core::v3::ApiVersion, ratelimit::v3::RateLimitServiceConfig},
    extensions::filters::http::ratelimit::v3::{RateLimit as EnvoyLimit, rate_limit::XRateLimitHeadersRfcVersion},
};
use ir::{Problem, backend::Asked};

use super::{Encoded, Follow, grpc_service, problem, timeout};
use crate::spec;

/// Longest domain.
const LONGEST_DOMAIN: usize = 253;

/// Counts requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The filter, for all that ask it, without what is counted.
    pub(crate) filter: Encoded,
    /// Who it is.
    pub(crate) asked: Asked,
}

impl RateLimit {
    /// What is written.
    pub(super) fn read(written: &gateway_extension::RateLimit, follow: &mut dyn Follow) -> Result<Self, Problem> {
        let domain = &*written.domain;
        if domain.is_empty() || domain.len() > LONGEST_DOMAIN || !domain.chars().all(|c| c.is_ascii_graphic()) {
            let message = format!(
                "{:?} is not a name of 1 to {LONGEST_DOMAIN} letters, digits and signs; name the limits of the service",
                validate::shown(domain)
            );
            return Err(problem("rateLimit.domain", message));
        }
        let (service, asked) = grpc_service(&written.grpc_service, "rateLimit.grpcService", follow)?;
        let headers = match written.x_rate_limit_headers {
            XRateLimitHeaders::DraftVersion03 => XRateLimitHeadersRfcVersion::DraftVersion03,
            _ => XRateLimitHeadersRfcVersion::Off,
        };
        let filter = EnvoyLimit {
            domain: domain.into(),
            timeout: timeout(Some(&written.timeout), "rateLimit.timeout")?.map(spec::proto_duration),
            failure_mode_deny: !written.fail_open,
            rate_limit_service: Some(RateLimitServiceConfig {
                grpc_service: Some(service),
                transport_api_version: ApiVersion::V3 as i32,
            }),
            enable_x_ratelimit_headers: headers as i32,
            ..EnvoyLimit::default()
        };
        Ok(Self { filter: Encoded::new(&filter), asked })
    }
}
