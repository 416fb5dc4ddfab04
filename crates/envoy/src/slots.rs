//! The filters that policies of routes switch on. Every HTTP listener has all of them from the start, in the same order
//! and disabled: a connection keeps the filters that its listener had when it was opened, while it follows every change of
//! routes, so a filter that came with the first policy would let older connections past that policy.
//!
//! A row enables a slot, and says what it does, under the slot's name. What stands here is the least that Envoy takes; a
//! slot that a row enabled without words of its own would do nothing, or let nobody through.
//!
//! A change of this list drains every listener once.
//!
//! Of some filters the configuration comes apart from the listener ([`crate::extensions`]), since what routes refer to in
//! it changes: it then changes without a listener that drains, and connections that were open before follow. Where it has
//! not come, what a route switches on there answers 500.

use std::sync::{Arc, LazyLock};

use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{
                DataSource, ExtensionConfigSource, HeaderValueOption, RuntimeFeatureFlag, RuntimeFractionalPercent,
                TypedExtensionConfig, data_source::Specifier,
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
                    jwt_authn::v3::JwtAuthentication,
                    local_ratelimit::v3::LocalRateLimit,
                    lua::v3::Lua,
                    rbac::v3::Rbac,
                },
                network::http_connection_manager::v3::{HttpFilter, http_filter::ConfigType},
            },
        },
        r#type::v3::FractionalPercent,
    },
    google::protobuf::Any,
};
use ir::rule::Slot;
use prost::{Message, Name};

use crate::bytes::{any, readable};
use crate::{ads, boolean, uint32};

/// The slot that makes calls of browsers calls of gRPC, and of the answers what browsers read. All that is said of it is that it
/// is on.
pub const GRPC_WEB: &str = "grpcWeb";
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
/// The slot that takes keys out of requests where the filter in front cannot: a program.
pub const API_KEY_AUTH_HIDE: &str = "apiKeyAuth.hide";
/// The slot that asks for a user and a password.
pub const BASIC_AUTH: &str = "basicAuth";
/// The slot that has people log in: a wrapper.
pub const OAUTH2: &str = "oauth2";
/// The filter in it.
pub const OAUTH2_INNER: &str = "oauth2.login";
/// The filter in front of that, which removes what clients say where claims go.
pub const OAUTH2_CLEARED: &str = "oauth2.cleared";
/// The slot in which tokens are judged that a log-in brings.
pub const OAUTH2_JWT: &str = "oauth2.jwt";
/// The slot that shows backends what these say: a wrapper.
pub const OAUTH2_CLAIMS: &str = "oauth2.claims";
/// The slot in which tokens are judged that requests bring.
pub const JWT_AUTH: &str = "jwtAuth";
/// The slot that takes tokens out of queries: a program.
pub const JWT_AUTH_HIDE: &str = "jwtAuth.hide";
/// The slot that shows backends what a token says: a wrapper.
pub const JWT_CLAIMS: &str = "jwtAuth.claims";
/// The slot that says which of the limits holds that [`LOCAL_RATE_LIMIT`] knows: a wrapper.
pub const LOCAL_RATE: &str = "rateLimit.local.rate";
/// The slot that counts requests in each proxy. All that is said of it is whether it is on.
pub const LOCAL_RATE_LIMIT: &str = "rateLimit.local";
/// The slot that counts a share of the requests in each proxy, in buckets that stand in the routes.
pub const LOCAL_RATE_SHARE: &str = "rateLimit.local.share";
/// The slot that changes headers: a wrapper.
pub const HEADER_MODIFIERS: &str = "headerModifiers";
/// The slot that changes headers as templates say: a wrapper.
pub const TRANSFORMATION: &str = "transformation";
/// The slot that changes what is no text of a header by itself.
pub const TRANSFORMATION_LUA: &str = "transformation.lua";
/// The slot that reads requests whole.
pub const BUFFER: &str = "buffer";
/// The slot behind that, which refuses what is too long and did not wait in it: a program.
pub const BUFFER_BODY: &str = "buffer.body";
/// The slot that looks where requests come from.
pub const CSRF: &str = "csrf";

/// The slots that ask who judges requests, of a rule: wrappers.
pub const EXT_AUTH: [&str; 4] = ["extAuth.0", "extAuth.1", "extAuth.2", "extAuth.3"];
/// The same for all routes of a Gateway or a listener. A route with judges of its own switches them off.
pub const EXT_AUTH_WIDE: [&str; 4] = ["extAuth.wide.0", "extAuth.wide.1", "extAuth.wide.2", "extAuth.wide.3"];
/// The slot behind all of these, which refuses what is longer than a judge was shown: a program.
pub const EXT_AUTH_BODY: &str = "extAuth.body";
/// All of these.
pub const EXT_AUTH_ALL: [&str; 9] = [
    EXT_AUTH[0],
    EXT_AUTH[1],
    EXT_AUTH[2],
    EXT_AUTH[3],
    EXT_AUTH_WIDE[0],
    EXT_AUTH_WIDE[1],
    EXT_AUTH_WIDE[2],
    EXT_AUTH_WIDE[3],
    EXT_AUTH_BODY,
];
/// The filters in these wrappers. Envoy looks under their names for what a route says to them.
pub const EXT_AUTH_INNER: [&str; 4] = ["extAuth.0.ask", "extAuth.1.ask", "extAuth.2.ask", "extAuth.3.ask"];
/// Those in the wide ones.
pub const EXT_AUTH_WIDE_INNER: [&str; 4] =
    ["extAuth.wide.0.ask", "extAuth.wide.1.ask", "extAuth.wide.2.ask", "extAuth.wide.3.ask"];

/// Whether a slot, or a filter in one, keeps requests out by who sends them and whence: a route that says something else there
/// lets others in.
pub fn is_guard(name: &str) -> bool {
    let unit = name.split('.').next().unwrap_or_default();
    unit == "extAuth" || [ACL, RBAC, API_KEY_AUTH, BASIC_AUTH, OAUTH2, JWT_AUTH, CSRF].contains(&unit)
}

/// The slot that has a service count requests: a wrapper.
pub const GLOBAL_RATE_LIMIT: &str = "rateLimit.global";
/// The filter in it.
pub const GLOBAL_RATE_LIMIT_INNER: &str = "rateLimit.global.ask";
/// The slots that have requests processed, by what they stand behind: wrappers. In front of all other filters.
pub const EXT_PROC_START: &str = "extProc.start";
/// Behind faults.
pub const EXT_PROC_FAULT: &str = "extProc.fault";
/// Behind what looks at addresses.
pub const EXT_PROC_ACL: &str = "extProc.acl";
/// Behind logins.
pub const EXT_PROC_OAUTH2: &str = "extProc.oauth2";
/// Behind judges.
pub const EXT_PROC_EXT_AUTH: &str = "extProc.extAuth";
/// Behind tokens.
pub const EXT_PROC_JWT_AUTH: &str = "extProc.jwtAuth";
/// Behind all that keeps requests out, where processors stand by default.
pub const EXT_PROC_RBAC: [&str; 4] = ["extProc.rbac.0", "extProc.rbac.1", "extProc.rbac.2", "extProc.rbac.3"];
/// Behind limits.
pub const EXT_PROC_RATE_LIMIT: &str = "extProc.rateLimit.global";
/// Behind templates.
pub const EXT_PROC_TRANSFORMATION: &str = "extProc.transformation";
/// The last.
pub const EXT_PROC_CSRF: &str = "extProc.csrf";
/// All of these.
pub const EXT_PROC_ALL: [&str; 13] = [
    EXT_PROC_START,
    EXT_PROC_FAULT,
    EXT_PROC_ACL,
    EXT_PROC_OAUTH2,
    EXT_PROC_EXT_AUTH,
    EXT_PROC_JWT_AUTH,
    EXT_PROC_RBAC[0],
    EXT_PROC_RBAC[1],
    EXT_PROC_RBAC[2],
    EXT_PROC_RBAC[3],
    EXT_PROC_RATE_LIMIT,
    EXT_PROC_TRANSFORMATION,
    EXT_PROC_CSRF,
];
/// The filters in these.
pub const EXT_PROC_INNER: &str = "extProc.ask";

/// The slots in which a row asks somebody: a wrapper with a filter that is expensive to make, and that keeps nothing of what
/// it saw. What many rows say there is said once ([`crate::alike`]).
const SAID_ONCE: [&[&str]; 3] = [&EXT_AUTH, &EXT_PROC_ALL, &[GLOBAL_RATE_LIMIT]];

/// The slot of this name, if what many rows say there may be said once.
pub(crate) fn may_be_said_once(name: &[u8]) -> Option<&'static str> {
    SAID_ONCE.iter().flat_map(|slots| slots.iter()).find(|slot| slot.as_bytes() == name).copied()
}

/// Whether what is said of a slot says no more than whether it is on.
pub(crate) fn is_switch(name: &'static str, config: &[u8]) -> bool {
    [off(name), on(name)].iter().any(|switch| *switch.config == *config)
}

/// Whether of a slot Envoy takes some from a virtual host and some from its route configuration, so that only one of both
/// may say anything.
pub fn is_merged(name: &str) -> bool {
    name == CORS_WIDE || EXT_AUTH_WIDE_INNER.contains(&name)
}

/// What says a slot completely.
pub fn slot<M: Message + Name>(name: &'static str, config: &M) -> Slot {
    packed(name, &any(config))
}

/// The same of what is packed.
pub fn packed(name: &'static str, config: &Any) -> Slot {
    let config: Arc<[u8]> = config.encode_to_vec().into();
    let parts = readable::parts(&config);
    Slot { name, config, parts, patterns: Arc::default(), entry: None, asks: Arc::default() }
}

/// What switches a slot on that says all in the listener.
///
/// Only for slots of which no scope says more: this takes the place of no configuration, so that Envoy takes that of the
/// next wider scope.
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

fn disabled(name: &str, config: ConfigType) -> HttpFilter {
    HttpFilter { name: name.into(), disabled: true, config_type: Some(config), ..HttpFilter::default() }
}

/// What comes apart from the listener, as a resource with the name of its slot.
fn apart<M: Name>() -> ConfigType {
    of_types(vec![M::type_url()])
}

/// The same of a program, or of what refuses requests where there is none.
fn program() -> ConfigType {
    of_types(vec![Lua::type_url(), Rbac::type_url()])
}

fn of_types(type_urls: Vec<String>) -> ConfigType {
    ConfigType::ConfigDiscovery(ExtensionConfigSource {
        config_source: Some(ads()),
        type_urls,
        ..ExtensionConfigSource::default()
    })
}

/// Slots by name.
fn slots() -> Vec<(&'static str, ConfigType)> {
    vec![
        // First: what is behind it sees gRPC, and its answers become gRPC-Web.
        here(GRPC_WEB, any(&GrpcWeb {})),
        here(EXT_PROC_START, wrapper()),
        here(FAULT, any(&HttpFault::default())),
        here(EXT_PROC_FAULT, wrapper()),
        here(ACL, any(&Composite::default())),
        here(EXT_PROC_ACL, wrapper()),
        here(CORS_WIDE, any(&Cors {})),
        here(CORS, any(&Cors {})),
        here(COMPRESS[0], compressor("gzip", any(&gzip::compressor::v3::Gzip::default()))),
        here(COMPRESS[1], compressor("brotli", any(&brotli::compressor::v3::Brotli::default()))),
        here(COMPRESS[2], compressor("zstd", any(&zstd::compressor::v3::Zstd::default()))),
        here(DECOMPRESS[0], decompressor("gzip", any(&gzip::decompressor::v3::Gzip::default()))),
        here(DECOMPRESS[1], decompressor("brotli", any(&brotli::decompressor::v3::Brotli::default()))),
        here(DECOMPRESS[2], decompressor("zstd", any(&zstd::decompressor::v3::Zstd::default()))),
        here(OAUTH2, wrapper()),
        here(EXT_PROC_OAUTH2, wrapper()),
        here(API_KEY_AUTH, any(&ApiKeyAuth::default())),
        (API_KEY_AUTH_HIDE, program()),
        here(BASIC_AUTH, basic_auth()),
        (OAUTH2_JWT, apart::<JwtAuthentication>()),
        here(OAUTH2_CLAIMS, wrapper()),
        here(EXT_AUTH_WIDE[0], wrapper()),
        here(EXT_AUTH_WIDE[1], wrapper()),
        here(EXT_AUTH_WIDE[2], wrapper()),
        here(EXT_AUTH_WIDE[3], wrapper()),
        here(EXT_AUTH[0], wrapper()),
        here(EXT_AUTH[1], wrapper()),
        here(EXT_AUTH[2], wrapper()),
        here(EXT_AUTH[3], wrapper()),
        (EXT_AUTH_BODY, program()),
        here(EXT_PROC_EXT_AUTH, wrapper()),
        (JWT_AUTH, apart::<JwtAuthentication>()),
        (JWT_AUTH_HIDE, program()),
        here(JWT_CLAIMS, wrapper()),
        here(EXT_PROC_JWT_AUTH, wrapper()),
        here(RBAC, any(&Rbac::default())),
        here(EXT_PROC_RBAC[0], wrapper()),
        here(EXT_PROC_RBAC[1], wrapper()),
        here(EXT_PROC_RBAC[2], wrapper()),
        here(EXT_PROC_RBAC[3], wrapper()),
        here(LOCAL_RATE, wrapper()),
        (LOCAL_RATE_LIMIT, apart::<LocalRateLimit>()),
        here(LOCAL_RATE_SHARE, any(&LocalRateLimit { stat_prefix: "local".into(), ..LocalRateLimit::default() })),
        here(GLOBAL_RATE_LIMIT, wrapper()),
        here(EXT_PROC_RATE_LIMIT, wrapper()),
        here(BUFFER, any(&Buffer { max_request_bytes: Some(uint32(1)) })),
        (BUFFER_BODY, program()),
        here(TRANSFORMATION, wrapper()),
        (TRANSFORMATION_LUA, apart::<Lua>()),
        here(EXT_PROC_TRANSFORMATION, wrapper()),
        here(HEADER_MODIFIERS, wrapper()),
        here(CSRF, csrf()),
        here(EXT_PROC_CSRF, wrapper()),
    ]
}

/// What is all in the listener.
fn here(name: &'static str, config: Any) -> (&'static str, ConfigType) {
    (name, ConfigType::TypedConfig(config))
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
