//! What the CRD says of each field of a DelegationPolicy.

use crate::schema::openapi::{
    Node,
    policy::TARGET_REFS,
    route::WEIGHT,
    values::{FLAG, GROUP, KIND, NAME, NAMESPACE, PORT, SELECTOR, list, one_of, optional, required, text},
};

pub(super) static SPEC: Node = Node::Object(&[
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
