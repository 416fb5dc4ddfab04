//! What the CRD says of each field of a GRPCRoute.

use crate::schema::openapi::{
    Node,
    route::{HEADER_FILTER, HOSTNAMES, MIRROR, PARENT_REFS, SESSION_PERSISTENCE, WEIGHT},
    values::{
        DEFAULT_SCOPE, GROUP, HEADER_NAME, KIND, LOCAL_OBJECT_REFERENCE, NAME, NAMESPACE, PORT, SECTION_NAME, list,
        map_list, one_of, optional, required, text,
    },
};

pub(super) static SPEC: Node = Node::Object(&[
    optional("parentRefs", &PARENT_REFS),
    optional("useDefaultGateways", &DEFAULT_SCOPE),
    optional("hostnames", &HOSTNAMES),
    optional("rules", &RULES),
]);

static RULES: Node = list(0, 16, &RULE);
static RULE: Node = Node::Object(&[
    optional("name", &SECTION_NAME),
    optional("matches", &MATCHES),
    optional("filters", &FILTERS),
    optional("backendRefs", &BACKEND_REFS),
    optional("sessionPersistence", &SESSION_PERSISTENCE),
]);

static MATCHES: Node = list(0, 64, &MATCH);
static MATCH: Node = Node::Object(&[optional("method", &METHOD_MATCH), optional("headers", &HEADER_MATCHES)]);
static METHOD_MATCH: Node =
    Node::Object(&[optional("type", &MATCH_TYPE), optional("service", &PART), optional("method", &PART)]);
static MATCH_TYPE: Node = one_of(&["Exact", "RegularExpression"]);
static PART: Node = text(0, 1024);
static HEADER_MATCHES: Node = map_list(0, 16, "name", &HEADER_MATCH);
static HEADER_MATCH: Node =
    Node::Object(&[optional("type", &MATCH_TYPE), required("name", &HEADER_NAME), required("value", &HEADER_VALUE)]);
static HEADER_VALUE: Node = text(1, 4096);

static BACKEND_REFS: Node = list(0, 16, &BACKEND_REF);
static BACKEND_REF: Node = Node::Object(&[
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
    optional("extensionRef", &LOCAL_OBJECT_REFERENCE),
]);
static FILTER_TYPE: Node =
    one_of(&["ResponseHeaderModifier", "RequestHeaderModifier", "RequestMirror", "ExtensionRef"]);
