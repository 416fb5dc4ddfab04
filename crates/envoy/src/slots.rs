//! The filters that policies of routes switch on. Every HTTP listener has all of them from the start, in the same order
//! and disabled: a connection keeps the filters that its listener had when it was opened, while it follows every change of
//! routes, so a filter that came with the first policy would let older connections past that policy.
//!
//! A row enables a slot, and says what it does, under the slot's name. What stands here is the least that Envoy takes; a
//! slot that a row enabled without words of its own would do nothing, or let nobody through.
//!
//! A change of this list drains every listener once.

use std::sync::{Arc, LazyLock};

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{
                DataSource, HeaderValueOption, RuntimeFeatureFlag, RuntimeFractionalPercent, TypedExtensionConfig,
                data_source::Specifier,
            },
            route::v3::FilterConfig,
        },
        extensions::{
            compression::{brotli, gzip, zstd},
            filters::{
                http::{
                    api_key_auth::v3::ApiKeyAuth,
                    basic_auth::v3::BasicAuth,
                    buffer::v3::Buffer,
                    composite::v3::Composite,
                    compressor::v3::Compressor,
                    cors::v3::Cors,
                    csrf::v3::CsrfPolicy,
                    decompressor::v3::{
                        Decompressor,
                        decompressor::{CommonDirectionConfig, ResponseDirectionConfig},
                    },
                    fault::v3::HttpFault,
                    filter_chain::v3::FilterChainConfig,
                    grpc_web::v3::GrpcWeb,
                    local_ratelimit::v3::LocalRateLimit,
                    rbac::v3::Rbac,
                },
                network::http_connection_manager::v3::{HttpFilter, http_filter},
            },
        },
        r#type::v3::FractionalPercent,
    },
    google::protobuf::Any,
};
use ir::rule::Slot;
use prost::{Message, Name};

use crate::bytes::any;
use crate::{boolean, uint32};

/// The slot that delays and aborts.
pub const FAULT: &str = "fault";
/// The slot that looks at the addresses of clients.
pub const ACL: &str = "acl";
/// The slot of native CORS, and of policies of a rule.
pub const CORS: &str = "cors";
/// The slot of CORS for all routes of a Gateway or a listener. A route with CORS of its own switches it off.
pub const CORS_WIDE: &str = "cors.wide";
/// The slots that compress responses.
pub const COMPRESS: [&str; 3] = ["compress.gzip", "compress.brotli", "compress.zstd"];
/// The slots that decompress requests, in the same order.
pub const DECOMPRESS: [&str; 3] = ["decompress.gzip", "decompress.brotli", "decompress.zstd"];
/// The slot that judges requests.
pub const RBAC: &str = "rbac";
/// The slot that asks for a key.
pub const API_KEY_AUTH: &str = "apiKeyAuth";
/// The slot that asks for a user and a password.
pub const BASIC_AUTH: &str = "basicAuth";
/// The slot that counts requests in each proxy.
pub const LOCAL_RATE_LIMIT: &str = "rateLimit.local";
/// The slot that changes headers: a wrapper.
pub const HEADER_MODIFIERS: &str = "headerModifiers";
/// The slot that changes headers as templates say: a wrapper.
pub const TRANSFORMATION: &str = "transformation";
/// The slot that reads requests whole.
pub const BUFFER: &str = "buffer";
/// The slot that looks where requests come from.
pub const CSRF: &str = "csrf";

/// Whether of a slot Envoy takes some from a virtual host and some from its route configuration, so that only one of both
/// may say anything.
pub fn is_merged(name: &str) -> bool {
    name == CORS_WIDE
}

/// What says a slot completely.
pub fn slot<M: Message + Name>(name: &'static str, config: &M) -> Slot {
    Slot { name, config: any(config).encode_to_vec().into(), patterns: Arc::default() }
}

/// What switches a slot on that says all in the listener.
pub fn on(name: &'static str) -> Slot {
    // Envoy refuses one without any configuration, and looks for the meaning of any type.
    slot(name, &FilterConfig { config: Some(Any::default()), ..FilterConfig::default() })
}

/// What switches a slot off, also where a wider scope has switched it on.
pub fn off(name: &'static str) -> Slot {
    slot(name, &FilterConfig { disabled: true, ..FilterConfig::default() })
}

/// Marks a header that is set or added as one whose value is secret, which no document shows. The value must not be empty:
/// to Envoy, the mark says what becomes of one that is.
pub fn mark_secret(header: &mut HeaderValueOption) {
    header.keep_empty_value = true;
}

/// Whether [`mark_secret`] marked it.
pub fn is_secret(header: &HeaderValueOption) -> bool {
    header.keep_empty_value
}

/// Whether this switches a slot off.
pub fn is_off(config: &Any) -> bool {
    config.type_url == FilterConfig::type_url()
        && FilterConfig::decode(&*config.value).is_ok_and(|config| config.disabled)
}

/// The filters, in the order in which a request meets them.
static FILTERS: LazyLock<Vec<HttpFilter>> =
    LazyLock::new(|| slots().into_iter().map(|(name, config)| disabled(name, config)).collect());

/// The filters, in the order in which a request meets them. All are disabled.
pub(super) fn filters() -> Vec<HttpFilter> {
    FILTERS.clone()
}

fn disabled(name: &str, config: Any) -> HttpFilter {
    HttpFilter {
        name: name.into(),
        disabled: true,
        config_type: Some(http_filter::ConfigType::TypedConfig(config)),
        ..HttpFilter::default()
    }
}

/// Slots by name. What asks a JWT's issuer or runs a program joins where the comments say, in one change.
fn slots() -> Vec<(&'static str, Any)> {
    vec![
        // First: what is behind it sees gRPC, and its answers become gRPC-Web.
        ("grpcWeb", any(&GrpcWeb {})),
        ("extProc.start", wrapper()),
        (FAULT, any(&HttpFault::default())),
        ("extProc.fault", wrapper()),
        (ACL, any(&Composite::default())),
        ("extProc.acl", wrapper()),
        (CORS_WIDE, any(&Cors {})),
        (CORS, any(&Cors {})),
        (COMPRESS[0], compressor("gzip", any(&gzip::compressor::v3::Gzip::default()))),
        (COMPRESS[1], compressor("brotli", any(&brotli::compressor::v3::Brotli::default()))),
        (COMPRESS[2], compressor("zstd", any(&zstd::compressor::v3::Zstd::default()))),
        (DECOMPRESS[0], decompressor("gzip", any(&gzip::decompressor::v3::Gzip::default()))),
        (DECOMPRESS[1], decompressor("brotli", any(&brotli::decompressor::v3::Brotli::default()))),
        (DECOMPRESS[2], decompressor("zstd", any(&zstd::decompressor::v3::Zstd::default()))),
        ("oauth2", wrapper()),
        ("extProc.oauth2", wrapper()),
        (API_KEY_AUTH, any(&ApiKeyAuth::default())),
        (BASIC_AUTH, basic_auth()),
        // oauth2.jwt
        ("extAuth.wide.0", wrapper()),
        ("extAuth.wide.1", wrapper()),
        ("extAuth.wide.2", wrapper()),
        ("extAuth.wide.3", wrapper()),
        ("extAuth.0", wrapper()),
        ("extAuth.1", wrapper()),
        ("extAuth.2", wrapper()),
        ("extAuth.3", wrapper()),
        ("extProc.extAuth", wrapper()),
        // jwtAuth
        ("extProc.jwtAuth", wrapper()),
        (RBAC, any(&Rbac::default())),
        ("extProc.rbac.0", wrapper()),
        ("extProc.rbac.1", wrapper()),
        ("extProc.rbac.2", wrapper()),
        ("extProc.rbac.3", wrapper()),
        (LOCAL_RATE_LIMIT, any(&LocalRateLimit { stat_prefix: "local".into(), ..LocalRateLimit::default() })),
        ("rateLimit.global", wrapper()),
        ("extProc.rateLimit.global", wrapper()),
        (BUFFER, any(&Buffer { max_request_bytes: Some(uint32(1)) })),
        (TRANSFORMATION, wrapper()),
        // transformation.lua
        ("extProc.transformation", wrapper()),
        (HEADER_MODIFIERS, wrapper()),
        (CSRF, csrf()),
        ("extProc.csrf", wrapper()),
    ]
}

/// Stands for a filter that a row has to say completely, since what Envoy takes for it a route is not all there is to say.
fn wrapper() -> Any {
    any(&FilterChainConfig::default())
}

fn compressor(name: &str, library: Any) -> Any {
    any(&Compressor { compressor_library: Some(codec(name, library)), ..Compressor::default() })
}

/// Of requests alone.
fn decompressor(name: &str, library: Any) -> Any {
    let off = RuntimeFeatureFlag { default_value: Some(boolean(false)), ..RuntimeFeatureFlag::default() };
    let responses = CommonDirectionConfig { enabled: Some(off), ..CommonDirectionConfig::default() };
    any(&Decompressor {
        decompressor_library: Some(codec(name, library)),
        response_direction_config: Some(ResponseDirectionConfig { common_config: Some(responses) }),
        ..Decompressor::default()
    })
}

fn codec(name: &str, library: Any) -> TypedExtensionConfig {
    TypedExtensionConfig { name: name.into(), typed_config: Some(library) }
}

/// Nobody; Envoy refuses an empty text.
fn basic_auth() -> Any {
    let users = DataSource { specifier: Some(Specifier::InlineString("\n".into())), ..DataSource::default() };
    any(&BasicAuth { users: Some(users), ..BasicAuth::default() })
}

fn csrf() -> Any {
    let never = RuntimeFractionalPercent {
        default_value: Some(FractionalPercent::default()),
        ..RuntimeFractionalPercent::default()
    };
    any(&CsrfPolicy { filter_enabled: Some(never), ..CsrfPolicy::default() })
}
