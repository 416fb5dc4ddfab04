//! What routes of all kinds have in common.

use super::{
    Node,
    values::{
        ANY_TEXT, AT_LEAST_ONE, DURATION, GROUP, HEADER_NAME, HEADER_VALUE, HOSTNAME, KIND, NAME, NAMESPACE, PORT,
        SECTION_NAME, list, map_list, number, one_of, optional, required, set, text,
    },
};

pub(crate) static PARENT_REFS: Node = list(0, 32, &PARENT_REFERENCE);
pub(crate) static PARENT_REFERENCE: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    optional("namespace", &NAMESPACE),
    required("name", &NAME),
    optional("sectionName", &SECTION_NAME),
    optional("port", &PORT),
]);
pub(crate) static HOSTNAMES: Node = list(0, 16, &HOSTNAME);

pub(crate) static WEIGHT: Node = number(0, 1_000_000);
pub(crate) static BACKEND_OBJECT_REFERENCE: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
    optional("port", &PORT),
]);

pub(crate) static HEADER_FILTER: Node =
    Node::Object(&[optional("set", &HEADERS), optional("add", &HEADERS), optional("remove", &REMOVED_HEADERS)]);
static HEADERS: Node = map_list(0, 16, "name", &HEADER);
static HEADER: Node = Node::Object(&[required("name", &HEADER_NAME), required("value", &HEADER_VALUE)]);
static REMOVED_HEADERS: Node = set(16, &ANY_TEXT);

pub(crate) static MIRROR: Node = Node::Object(&[
    required("backendRef", &BACKEND_OBJECT_REFERENCE),
    optional("percent", &PERCENT),
    optional("fraction", &FRACTION),
]);
static PERCENT: Node = number(0, 100);
static FRACTION: Node = Node::Object(&[required("numerator", &NUMERATOR), optional("denominator", &AT_LEAST_ONE)]);
static NUMERATOR: Node = number(0, i64::MAX);

pub(crate) static SESSION_PERSISTENCE: Node = Node::Object(&[
    optional("sessionName", &SESSION_NAME),
    optional("absoluteTimeout", &DURATION),
    optional("type", &SESSION_TYPE),
    optional("cookieConfig", &COOKIE_CONFIG),
]);
static SESSION_NAME: Node = text(0, 128);
static SESSION_TYPE: Node = one_of(&["Cookie", "Header"]);
static COOKIE_CONFIG: Node = Node::Object(&[optional("lifetimeType", &COOKIE_LIFETIME)]);
static COOKIE_LIFETIME: Node = one_of(&["Permanent", "Session"]);
