//! Tables of the policies and of DirectResponse.

use super::{
    Node, Pattern,
    gateway::{ANY_MAP, CONTROLLER_NAME, SELECTOR},
    http_route::WEIGHT,
    values::{
        ANY_TEXT, FLAG, GROUP, KIND, NAME, NAMESPACE, PORT, SECTION_NAME, list, map_list, matching, number, one_of,
        optional, required, text,
    },
};

/// Of most fields no more than that they are there: what they say is judged where they are read, and a policy that sets one
/// that nobody reads is refused.
pub(in crate::schema) static TRAFFIC_POLICY_SPEC: Node = Node::Object(&[
    optional("targetRefs", &TARGET_REFS),
    optional("targetSelectors", &TARGET_SELECTORS),
    optional("urlRewrite", &URL_REWRITE),
    optional("acl", &Node::Opaque),
    optional("apiKeyAuth", &Node::Opaque),
    optional("autoHostRewrite", &FLAG),
    optional("basicAuth", &Node::Opaque),
    optional("buffer", &Node::Opaque),
    optional("compression", &Node::Opaque),
    optional("cors", &Node::Opaque),
    optional("csrf", &Node::Opaque),
    optional("extAuth", &Node::Opaque),
    optional("extProc", &Node::Opaque),
    optional("faultInjection", &Node::Opaque),
    optional("headerModifiers", &Node::Opaque),
    optional("internalRedirect", &Node::Opaque),
    optional("jwtAuth", &Node::Opaque),
    optional("oauth2", &Node::Opaque),
    optional("rateLimit", &Node::Opaque),
    optional("rbac", &Node::Opaque),
    optional("requestMirror", &Node::Opaque),
    optional("retry", &Node::Opaque),
    optional("statPrefix", &ANY_TEXT),
    optional("timeouts", &Node::Opaque),
    optional("tracing", &Node::Opaque),
    optional("transformation", &Node::Opaque),
]);

static TARGET_REFS: Node = list(1, 16, &TARGET_REF);
static TARGET_REF: Node = Node::Object(&[
    required("group", &GROUP),
    required("kind", &KIND),
    required("name", &NAME),
    optional("sectionName", &SECTION_NAME),
]);
static TARGET_SELECTORS: Node = list(0, usize::MAX, &TARGET_SELECTOR);
static TARGET_SELECTOR: Node = Node::Object(&[
    required("group", &GROUP),
    required("kind", &KIND),
    required("matchLabels", &ANY_MAP),
    optional("sectionName", &SECTION_NAME),
]);

static URL_REWRITE: Node = Node::Object(&[optional("pathRegex", &PATH_REGEX)]);
static PATH_REGEX: Node =
    Node::Object(&[required("pattern", &REGEX_OR_SUBSTITUTION), required("substitution", &REGEX_OR_SUBSTITUTION)]);
static REGEX_OR_SUBSTITUTION: Node = text(1, 1024);

pub(in crate::schema) static DIRECT_RESPONSE_SPEC: Node =
    Node::Object(&[required("status", &STATUS), optional("body", &BODY), optional("bodyFormat", &BODY_FORMAT)]);
static STATUS: Node = number(200, 599);
static BODY: Node = text(1, 4096);
static BODY_FORMAT: Node =
    Node::Object(&[optional("contentType", &ANY_TEXT), optional("json", &Node::Opaque), optional("text", &BODY)]);

/// What is wrong with an entry is told by the policy's status, where the routes that it concerns are told too.
pub(in crate::schema) static REWRITE_POLICY_SPEC: Node = Node::Object(&[
    optional("targetRefs", &TARGET_REFS),
    optional("targetSelectors", &FEW_TARGET_SELECTORS),
    optional("replacePrefix", &REPLACE_PREFIX),
]);
static FEW_TARGET_SELECTORS: Node = list(0, 16, &TARGET_SELECTOR);
static REPLACE_PREFIX: Node = list(0, 256, &REPLACE_PREFIX_ENTRY);
static REPLACE_PREFIX_ENTRY: Node = Node::Object(&[optional("prefix", &PATH), required("replacement", &PATH)]);
static PATH: Node = text(0, 1024);

pub(in crate::schema) static DELEGATION_POLICY_SPEC: Node = Node::Object(&[
    required("targetRefs", &TARGET_REFS),
    optional("sortMethod", &SORT_METHOD),
    optional("allowedChildren", &ALLOWED_CHILDREN),
    optional("defaultBackendRefs", &DEFAULT_BACKEND_REFS),
    optional("requireAuth", &FLAG),
    optional("failureMode", &FAILURE_MODE),
]);
static SORT_METHOD: Node = one_of(&["RouteSpecificity", "TableWeight"]);
static FAILURE_MODE: Node = one_of(&["RouteReplacement", "FreezeConfig"]);

static ALLOWED_CHILDREN: Node = Node::Object(&[
    optional("namespaces", &ALLOWED_NAMESPACES),
    optional("backends", &ALLOWED_BACKENDS),
    optional("allowDisablingInheritedPolicies", &FLAG),
]);
static ALLOWED_NAMESPACES: Node = Node::Object(&[optional("names", &NAMESPACE_NAMES), optional("selector", &SELECTOR)]);
static NAMESPACE_NAMES: Node = list(1, 64, &NAMESPACE);
static ALLOWED_BACKENDS: Node = list(1, 64, &ALLOWED_BACKEND);
static ALLOWED_BACKEND: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    optional("namespace", &NAMESPACE),
    optional("name", &NAME_PATTERN),
]);
static NAME_PATTERN: Node = text(1, 1024);

static DEFAULT_BACKEND_REFS: Node = list(0, 16, &DEFAULT_BACKEND_REF);
static DEFAULT_BACKEND_REF: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
    optional("port", &PORT),
    optional("weight", &WEIGHT),
]);

pub(super) static POLICY_STATUS: Node = Node::Object(&[required("ancestors", &ANCESTORS)]);
static ANCESTORS: Node = list(0, 16, &ANCESTOR);
static ANCESTOR: Node = Node::Object(&[
    required("ancestorRef", &ANCESTOR_REF),
    required("controllerName", &CONTROLLER_NAME),
    required("conditions", &CONDITIONS),
]);
static ANCESTOR_REF: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    optional("namespace", &NAMESPACE),
    required("name", &NAME),
    optional("sectionName", &SECTION_NAME),
    optional("port", &PORT),
]);
static CONDITIONS: Node = map_list(1, 8, "type", &CONDITION);
static CONDITION: Node = Node::Object(&[
    required("type", &CONDITION_TYPE),
    required("status", &CONDITION_STATUS),
    optional("observedGeneration", &GENERATION),
    required("lastTransitionTime", &ANY_TEXT),
    required("reason", &REASON),
    required("message", &MESSAGE),
]);
static CONDITION_TYPE_PATTERN: Pattern = Pattern::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    "a name, optionally after a domain name and /",
);
static CONDITION_TYPE: Node = matching(0, 316, &CONDITION_TYPE_PATTERN);
static CONDITION_STATUS: Node = one_of(&["True", "False", "Unknown"]);
static GENERATION: Node = number(0, i64::MAX);
static REASON_PATTERN: Pattern = Pattern::new(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", "one word");
static REASON: Node = matching(1, 1024, &REASON_PATTERN);
static MESSAGE: Node = text(0, 32768);
