//! What the CRD says of each field of a GatewayExtension.
//!
//! Of durations [`rules`](super::rules) judges what they are.

use super::{BodyMode, HeaderMode, Predicate, RouteCacheAction, Stage, ValidationMode, XRateLimitHeaders};
use crate::schema::openapi::{
    Node, Pattern,
    values::{
        ANY_MAP, ANY_TEXT, FLAG, GROUP, HEADER_NAME, KIND, NAME, NAMESPACE, PORT, list, map_list, matching, number,
        one_of, optional, required, text,
    },
};

pub(super) static SPEC: Node = Node::Object(&[
    optional("type", &TYPE),
    optional("extAuth", &EXT_AUTH),
    optional("extProc", &EXT_PROC),
    optional("rateLimit", &RATE_LIMIT),
    optional("jwt", &JWT),
    optional("oauth2", &OAUTH2),
]);
static TYPE: Node = one_of(&["ExtAuth", "ExtProc", "RateLimit", "JWT", "OAuth2"]);

static SOME_TEXT: Node = text(1, usize::MAX);
static DURATION: Node = text(0, 32);
static TEXTS: Node = list(0, usize::MAX, &ANY_TEXT);
static SOME_TEXTS: Node = list(1, usize::MAX, &ANY_TEXT);
static ANY_INT32: Node = number(i32::MIN as i64, i32::MAX as i64);
static COUNT: Node = number(0, i32::MAX as i64);
static POSITIVE: Node = number(1, i32::MAX as i64);
static WEIGHT: Node = number(0, 1_000_000);
static URL_LIKE: Node = text(1, 2048);

static BACKEND_REF: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
    optional("port", &PORT),
    optional("weight", &WEIGHT),
]);
static OBJECT_REF: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
    optional("port", &PORT),
]);
static BACKOFF: Node = Node::Object(&[required("baseInterval", &DURATION), optional("maxInterval", &DURATION)]);
static RETRY: Node = Node::Object(&[optional("attempts", &COUNT), optional("backoff", &BACKOFF)]);
static GRPC_SERVICE: Node = Node::Object(&[
    optional("authority", &ANY_TEXT),
    required("backendRef", &BACKEND_REF),
    optional("requestTimeout", &DURATION),
    optional("retry", &RETRY),
]);

static EXT_AUTH: Node = Node::Object(&[
    optional("clearRouteCache", &FLAG),
    optional("failOpen", &FLAG),
    optional("grpcService", &GRPC_SERVICE),
    optional("headersToForward", &TEXTS),
    optional("httpService", &HTTP_SERVICE),
    optional("statPrefix", &SOME_TEXT),
    optional("statusOnError", &STATUS_ON_ERROR),
    optional("withRequestBody", &REQUEST_BODY),
]);
static STATUS_ON_ERROR: Node = number(100, 511);
static REQUEST_BODY: Node = Node::Object(&[
    optional("allowPartialMessage", &FLAG),
    required("maxRequestBytes", &POSITIVE),
    optional("packAsBytes", &FLAG),
]);
static HTTP_SERVICE: Node = Node::Object(&[
    optional("authorizationRequest", &AUTHORIZATION_REQUEST),
    optional("authorizationResponse", &AUTHORIZATION_RESPONSE),
    required("backendRef", &BACKEND_REF),
    optional("pathPrefix", &ANY_TEXT),
    optional("requestTimeout", &DURATION),
    optional("retry", &RETRY),
]);
static AUTHORIZATION_REQUEST: Node = Node::Object(&[optional("headersToAdd", &ANY_MAP)]);
static AUTHORIZATION_RESPONSE: Node = Node::Object(&[
    optional("headersToBackend", &TEXTS),
    optional("headersToClient", &TEXTS),
    optional("headersToClientOnSuccess", &TEXTS),
]);

static EXT_PROC: Node = Node::Object(&[
    optional("allowProcessingModeOverride", &FLAG),
    optional("allowedProcessingModeOverrides", &PROCESSING_MODES),
    optional("failOpen", &FLAG),
    optional("filterStage", &FILTER_STAGE),
    required("grpcService", &GRPC_SERVICE),
    optional("maxMessageTimeout", &DURATION),
    optional("messageTimeout", &DURATION),
    optional("metadataOptions", &METADATA_OPTIONS),
    optional("processingMode", &PROCESSING_MODE),
    optional("requestAttributes", &TEXTS),
    optional("routeCacheAction", &ROUTE_CACHE_ACTION),
    optional("statPrefix", &SOME_TEXT),
]);
static FILTER_STAGE: Node =
    Node::Object(&[optional("predicate", &PREDICATE), required("stage", &STAGE), optional("weight", &ANY_INT32)]);
static PREDICATE: Node = one_of(Predicate::KNOWN);
static STAGE: Node = one_of(Stage::KNOWN);
static ROUTE_CACHE_ACTION: Node = one_of(RouteCacheAction::KNOWN);
static METADATA_OPTIONS: Node = Node::Object(&[optional("forwarding", &METADATA_NAMESPACES)]);
static METADATA_NAMESPACES: Node = Node::Object(&[optional("typed", &SOME_TEXTS), optional("untyped", &SOME_TEXTS)]);
static PROCESSING_MODES: Node = list(0, usize::MAX, &PROCESSING_MODE);
static PROCESSING_MODE: Node = Node::Object(&[
    optional("requestBodyMode", &BODY_MODE),
    optional("requestHeaderMode", &HEADER_MODE),
    optional("requestTrailerMode", &HEADER_MODE),
    optional("responseBodyMode", &BODY_MODE),
    optional("responseHeaderMode", &HEADER_MODE),
    optional("responseTrailerMode", &HEADER_MODE),
]);
static BODY_MODE: Node = one_of(BodyMode::KNOWN);
static HEADER_MODE: Node = one_of(HeaderMode::KNOWN);

static RATE_LIMIT: Node = Node::Object(&[
    required("domain", &ANY_TEXT),
    optional("failOpen", &FLAG),
    required("grpcService", &GRPC_SERVICE),
    optional("timeout", &DURATION),
    optional("xRateLimitHeaders", &X_RATE_LIMIT_HEADERS),
]);
static X_RATE_LIMIT_HEADERS: Node = one_of(XRateLimitHeaders::KNOWN);

static JWT: Node = Node::Object(&[optional("providers", &JWT_PROVIDERS), optional("validationMode", &VALIDATION_MODE)]);
static VALIDATION_MODE: Node = one_of(ValidationMode::KNOWN);
static JWT_PROVIDERS: Node = map_list(0, 32, "name", &JWT_PROVIDER);
static JWT_PROVIDER: Node = Node::Object(&[
    optional("audiences", &AUDIENCES),
    optional("claimsToHeaders", &CLAIMS_TO_HEADERS),
    optional("forwardToken", &FLAG),
    optional("issuer", &ISSUER),
    required("jwks", &JWKS),
    required("name", &NAME),
    optional("tokenSource", &TOKEN_SOURCE),
]);
static AUDIENCES: Node = list(1, 32, &ANY_TEXT);
static ISSUER: Node = text(0, 2048);
static CLAIMS_TO_HEADERS: Node = list(1, 32, &CLAIM_TO_HEADER);
static CLAIM_TO_HEADER: Node = Node::Object(&[required("header", &URL_LIKE), required("name", &URL_LIKE)]);
static JWKS: Node = Node::Object(&[optional("local", &LOCAL_JWKS), optional("remote", &REMOTE_JWKS)]);
static LOCAL_JWKS: Node = Node::Object(&[optional("configMapRef", &LOCAL_NAME), optional("inline", &INLINE_JWKS)]);
static LOCAL_NAME: Node = Node::Object(&[optional("name", &ANY_TEXT)]);
static INLINE_JWKS: Node = text(1, 16384);
static REMOTE_JWKS: Node = Node::Object(&[
    optional("asyncFetch", &ASYNC_FETCH),
    required("backendRef", &OBJECT_REF),
    optional("cacheDuration", &DURATION),
    optional("retryPolicy", &JWT_RETRY),
    required("url", &URL_LIKE),
]);
static ASYNC_FETCH: Node =
    Node::Object(&[optional("failedRefetchDuration", &DURATION), optional("fastListener", &FLAG)]);
static JWT_RETRY: Node = Node::Object(&[optional("backOff", &BACKOFF), optional("numRetries", &POSITIVE)]);
static TOKEN_SOURCE: Node = Node::Object(&[optional("header", &TOKEN_HEADER), optional("queryParameter", &ANY_TEXT)]);
static TOKEN_HEADER: Node = Node::Object(&[required("header", &URL_LIKE), optional("prefix", &URL_LIKE)]);

static OAUTH2: Node = Node::Object(&[
    optional("authorizationEndpoint", &ENDPOINT),
    required("backendRef", &BACKEND_REF),
    optional("cookies", &COOKIES),
    required("credentials", &CREDENTIALS),
    optional("denyRedirect", &DENY_REDIRECT),
    optional("endSessionEndpoint", &ENDPOINT),
    optional("forwardAccessToken", &FLAG),
    optional("issuerURI", &ISSUER_URI),
    optional("jwt", &OAUTH2_JWT),
    optional("logoutPath", &SOME_TEXT),
    optional("redirectURI", &ANY_TEXT),
    optional("scopes", &TEXTS),
    optional("tokenEndpoint", &ENDPOINT),
]);
static ENDPOINT_PATTERN: Pattern = Pattern::new(
    r"^https://([a-zA-Z0-9]([a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])?(:[0-9]{1,5})?(/[a-zA-Z0-9\-._~!$&'()*+,;=:@%]*)*/?(\?[a-zA-Z0-9\-._~!$&'()*+,;=:@%/?]*)?$",
    "a URL of https",
);
static ENDPOINT: Node = matching(0, usize::MAX, &ENDPOINT_PATTERN);
static ISSUER_URI_PATTERN: Pattern = Pattern::new(
    r"^https://([a-zA-Z0-9]([a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])?(:[0-9]{1,5})?(/[a-zA-Z0-9\-._~!$&'()*+,;=:@%]*)*/?$",
    "a URL of https without a query",
);
static ISSUER_URI: Node = matching(0, usize::MAX, &ISSUER_URI_PATTERN);
static COOKIES: Node = Node::Object(&[
    optional("disableAccessTokenSetCookie", &FLAG),
    optional("disableIDTokenSetCookie", &FLAG),
    optional("disableRefreshTokenSetCookie", &FLAG),
    optional("domain", &COOKIE_DOMAIN),
    optional("names", &COOKIE_NAMES),
    optional("sameSite", &SAME_SITE),
]);
static COOKIE_DOMAIN_PATTERN: Pattern =
    Pattern::new(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9]))*$", "a DNS name in small letters");
static COOKIE_DOMAIN: Node = matching(1, 253, &COOKIE_DOMAIN_PATTERN);
static COOKIE_NAMES: Node = Node::Object(&[optional("accessToken", &SOME_TEXT), optional("idToken", &SOME_TEXT)]);
static SAME_SITE: Node = one_of(&["Lax", "Strict", "None"]);
static CREDENTIALS: Node = Node::Object(&[required("clientID", &SOME_TEXT), required("clientSecretRef", &LOCAL_NAME)]);
static DENY_REDIRECT: Node = Node::Object(&[optional("headers", &HEADER_MATCHES)]);
static HEADER_MATCHES: Node = list(1, 16, &HEADER_MATCH);
static HEADER_MATCH: Node = Node::Object(&[
    required("name", &HEADER_NAME),
    optional("type", &HEADER_MATCH_TYPE),
    required("value", &HEADER_MATCH_VALUE),
]);
static HEADER_MATCH_TYPE: Node = one_of(&["Exact", "RegularExpression"]);
static HEADER_MATCH_VALUE: Node = text(1, 4096);
static OAUTH2_JWT: Node = Node::Object(&[
    optional("accessToken", &PARSED_TOKEN),
    optional("idToken", &PARSED_TOKEN),
    optional("jwksBackendRef", &OBJECT_REF),
    optional("jwksURI", &ENDPOINT),
]);
static PARSED_TOKEN: Node =
    Node::Object(&[optional("audiences", &AUDIENCES), optional("claimsToHeaders", &CLAIMS_TO_HEADERS)]);
