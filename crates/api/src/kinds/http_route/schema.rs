//! What the CRD says of each field of an HTTPRoute.

use crate::schema::openapi::{
    Node, Pattern,
    route::{BACKEND_OBJECT_REFERENCE, HEADER_FILTER, HOSTNAMES, MIRROR, PARENT_REFS, SESSION_PERSISTENCE, WEIGHT},
    values::{
        ANY_TEXT, AT_LEAST_ONE, DEFAULT_SCOPE, DURATION, FLAG, GROUP, HEADER_NAME, HEADER_VALUE, KIND,
        LOCAL_OBJECT_REFERENCE, NAME, NAMESPACE, PATH_PATTERN, PORT, PRECISE_HOSTNAME, SECTION_NAME, list, map_list,
        matching, number, one_of, optional, required, set, text,
    },
};

pub(super) static SPEC: Node = Node::Object(&[
    optional("parentRefs", &PARENT_REFS),
    optional("useDefaultGateways", &DEFAULT_SCOPE),
    optional("hostnames", &HOSTNAMES),
    optional("rules", &RULES),
]);

static RULES: Node = list(1, 16, &RULE);
static RULE: Node = Node::Object(&[
    optional("name", &SECTION_NAME),
    optional("matches", &MATCHES),
    optional("filters", &FILTERS),
    optional("backendRefs", &BACKEND_REFS),
    optional("timeouts", &TIMEOUTS),
    optional("retry", &RETRY),
    optional("sessionPersistence", &SESSION_PERSISTENCE),
]);

static MATCHES: Node = list(0, 64, &MATCH);
static MATCH: Node = Node::Object(&[
    optional("path", &PATH_MATCH),
    optional("headers", &HEADER_MATCHES),
    optional("queryParams", &QUERY_PARAM_MATCHES),
    optional("method", &METHOD),
]);
static PATH_MATCH: Node = Node::Object(&[optional("type", &PATH_MATCH_TYPE), optional("value", &PATH)]);
static PATH_MATCH_TYPE: Node = one_of(&["Exact", "PathPrefix", "RegularExpression"]);
static PATH: Node = text(0, 1024);
static HEADER_MATCHES: Node = map_list(0, 16, "name", &HEADER_MATCH);
static HEADER_MATCH: Node = Node::Object(&[
    optional("type", &STRING_MATCH_TYPE),
    required("name", &HEADER_NAME),
    required("value", &HEADER_VALUE),
]);
static STRING_MATCH_TYPE: Node = one_of(&["Exact", "RegularExpression"]);
static QUERY_PARAM_MATCHES: Node = map_list(0, 16, "name", &QUERY_PARAM_MATCH);
static QUERY_PARAM_MATCH: Node = Node::Object(&[
    optional("type", &STRING_MATCH_TYPE),
    required("name", &HEADER_NAME),
    required("value", &QUERY_PARAM_VALUE),
]);
static QUERY_PARAM_VALUE: Node = text(1, 1024);
static METHOD: Node = one_of(&["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]);

static BACKEND_REFS: Node = list(0, 16, &HTTP_BACKEND_REF);
static HTTP_BACKEND_REF: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
    optional("port", &PORT),
    optional("weight", &WEIGHT),
    optional("filters", &FILTERS),
]);
static FILTERS: Node = list(0, 16, &FILTER);
static FILTER: Node = Node::Object(&[
    required("type", &FILTER_TYPE),
    optional("requestHeaderModifier", &HEADER_FILTER),
    optional("responseHeaderModifier", &HEADER_FILTER),
    optional("requestMirror", &MIRROR),
    optional("requestRedirect", &REDIRECT),
    optional("urlRewrite", &URL_REWRITE),
    optional("cors", &CORS),
    optional("externalAuth", &EXTERNAL_AUTH),
    optional("extensionRef", &LOCAL_OBJECT_REFERENCE),
]);
static FILTER_TYPE: Node = one_of(&[
    "RequestHeaderModifier",
    "ResponseHeaderModifier",
    "RequestMirror",
    "RequestRedirect",
    "URLRewrite",
    "ExtensionRef",
    "CORS",
    "ExternalAuth",
]);

static REDIRECT: Node = Node::Object(&[
    optional("scheme", &SCHEME),
    optional("hostname", &PRECISE_HOSTNAME),
    optional("path", &PATH_MODIFIER),
    optional("port", &PORT),
    optional("statusCode", &REDIRECT_CODE),
]);
static SCHEME: Node = one_of(&["http", "https"]);
static REDIRECT_CODE: Node = Node::Number { min: i64::MIN, max: i64::MAX, values: &[301, 302, 303, 307, 308] };
static URL_REWRITE: Node = Node::Object(&[optional("hostname", &PRECISE_HOSTNAME), optional("path", &PATH_MODIFIER)]);
static PATH_MODIFIER: Node = Node::Object(&[
    required("type", &PATH_MODIFIER_TYPE),
    optional("replaceFullPath", &PATH),
    optional("replacePrefixMatch", &PATH),
]);
static PATH_MODIFIER_TYPE: Node = one_of(&["ReplaceFullPath", "ReplacePrefixMatch"]);

static CORS: Node = Node::Object(&[
    optional("allowOrigins", &ORIGINS),
    optional("allowCredentials", &FLAG),
    optional("allowMethods", &CORS_METHODS),
    optional("allowHeaders", &HEADER_NAMES),
    optional("exposeHeaders", &HEADER_NAMES),
    optional("maxAge", &AT_LEAST_ONE),
]);
static ORIGINS: Node = set(64, &ORIGIN);
static ORIGIN_PATTERN: Pattern = Pattern::new(
    r"(^\*$)|(^(http(s)?):\/\/(((\*\.)?([a-zA-Z0-9\-]+\.)*[a-zA-Z0-9-]+|\*)(:([0-9]{1,5}))?)$)",
    "`*`, or a scheme and a host with an optional port, such as https://*.example.com:8443, without a path",
);
static ORIGIN: Node = matching(1, 253, &ORIGIN_PATTERN);
static CORS_METHODS: Node = set(9, &CORS_METHOD);
static CORS_METHOD: Node =
    one_of(&["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "*"]);
static HEADER_NAMES: Node = set(64, &HEADER_NAME);

static EXTERNAL_AUTH: Node = Node::Object(&[
    required("protocol", &EXTERNAL_AUTH_PROTOCOL),
    required("backendRef", &BACKEND_OBJECT_REFERENCE),
    optional("grpc", &GRPC_AUTH),
    optional("http", &HTTP_AUTH),
    optional("forwardBody", &FORWARD_BODY),
]);
static EXTERNAL_AUTH_PROTOCOL: Node = one_of(&["HTTP", "GRPC"]);
static GRPC_AUTH: Node = Node::Object(&[optional("allowedHeaders", &ANY_HEADERS)]);
static HTTP_AUTH: Node = Node::Object(&[
    optional("path", &AUTH_PATH),
    optional("allowedHeaders", &ANY_HEADERS),
    optional("allowedResponseHeaders", &ANY_HEADERS),
]);
static ANY_HEADERS: Node = set(64, &ANY_TEXT);
static AUTH_PATH: Node = matching(0, 1024, &PATH_PATTERN);
static FORWARD_BODY: Node = Node::Object(&[optional("maxSize", &ANY_NUMBER)]);
static ANY_NUMBER: Node = number(i64::MIN, i64::MAX);

static TIMEOUTS: Node = Node::Object(&[optional("request", &DURATION), optional("backendRequest", &DURATION)]);
static RETRY: Node = Node::Object(&[
    optional("codes", &RETRY_CODES),
    optional("attempts", &AT_LEAST_ONE),
    optional("backoff", &DURATION),
]);
static RETRY_CODES: Node = set(usize::MAX, &RETRY_CODE);
static RETRY_CODE: Node = number(400, 599);
