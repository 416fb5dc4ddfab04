//! Values that many tables share.

use super::{Field, Node, Pattern, Text, Unique};

pub(crate) const fn text(min: usize, max: usize) -> Node {
    Node::Text(Text { min, max, pattern: None, values: &[] })
}

pub(crate) const fn matching(min: usize, max: usize, pattern: &'static Pattern) -> Node {
    Node::Text(Text { min, max, pattern: Some(pattern), values: &[] })
}

pub(crate) const fn one_of(values: &'static [&'static str]) -> Node {
    Node::Text(Text { min: 0, max: usize::MAX, pattern: None, values })
}

pub(crate) const fn number(min: i64, max: i64) -> Node {
    Node::Number { min, max, values: &[] }
}

pub(crate) const fn list(min: usize, max: usize, items: &'static Node) -> Node {
    Node::List { min, max, unique: Unique::No, items }
}

/// A list without duplicates, at most `max` long.
pub(crate) const fn set(max: usize, items: &'static Node) -> Node {
    Node::List { min: 0, max, unique: Unique::Items, items }
}

/// A list whose items differ in one field.
pub(crate) const fn map_list(min: usize, max: usize, key: &'static str, items: &'static Node) -> Node {
    Node::List { min, max, unique: Unique::By(key), items }
}

pub(crate) const fn required(name: &'static str, node: &'static Node) -> Field {
    Field { name, required: true, node }
}

pub(crate) const fn optional(name: &'static str, node: &'static Node) -> Field {
    Field { name, required: false, node }
}

static GROUP_PATTERN: Pattern =
    Pattern::new(r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$", "empty or a domain name");
static KIND_PATTERN: Pattern = Pattern::new(
    r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
    "a kind: letters, digits and dashes, a letter first and no dash at the end",
);
static LABEL_PATTERN: Pattern = Pattern::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "a DNS label: small letters, digits and dashes, no dash at the ends",
);
static SUBDOMAIN_PATTERN: Pattern = Pattern::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "a DNS name in small letters: labels of letters, digits and dashes, joined by dots",
);
pub(crate) static HOSTNAME_PATTERN: Pattern = Pattern::new(
    r"^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    "a DNS name in small letters, or one with `*.` before it",
);
static HEADER_NAME_PATTERN: Pattern =
    Pattern::new(r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$", "a name without spaces, of letters, digits and !#$%&'*+-.^_`|~");
static HEADER_VALUE_PATTERN: Pattern =
    Pattern::new(r"^[!-~]+([\t ]?[!-~]+)*$", "printable ASCII, with single spaces or tabs and none at the ends");
static DURATION_PATTERN: Pattern = Pattern::new(
    r"^([0-9]{1,5}(h|m|s|ms)){1,4}$",
    "a duration such as 1h30m or 500ms: one to four numbers of at most five digits, each with h, m, s or ms",
);

pub(crate) static LABEL_KEY_PATTERN: Pattern = Pattern::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
    "a name of at most 63 letters, digits, dashes, underscores and dots, optionally after a domain name and /",
);
pub(crate) static LABEL_VALUE_PATTERN: Pattern = Pattern::new(
    r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    "letters, digits, dashes, underscores and dots, the first and last a letter or digit",
);
pub(crate) static PATH_PATTERN: Pattern = Pattern::new(
    r"^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$",
    "a path of letters, digits, percent escapes and -/._~!$&'()*+,;=:@",
);
/// Part of a rule across fields, which writes it in RE2.
pub(crate) static GRPC_SERVICE_PATTERN: Pattern = Pattern::new(
    r"^(?i)\.?[a-z_][a-z_0-9]*(\.[a-z_][a-z_0-9]*)*$",
    "the full name of a service: letters, digits and underscores, joined by dots, no part beginning with a digit",
);
/// The same.
pub(crate) static GRPC_METHOD_PATTERN: Pattern = Pattern::new(
    r"^[A-Za-z_][A-Za-z_0-9]*$",
    "the name of a method: letters, digits and underscores, not beginning with a digit",
);

pub(crate) static GROUP: Node = matching(0, 253, &GROUP_PATTERN);
pub(crate) static KIND: Node = matching(1, 63, &KIND_PATTERN);
pub(crate) static NAME: Node = text(1, 253);
pub(crate) static NAMESPACE: Node = matching(1, 63, &LABEL_PATTERN);
pub(crate) static SECTION_NAME: Node = matching(1, 253, &SUBDOMAIN_PATTERN);
pub(crate) static HOSTNAME: Node = matching(1, 253, &HOSTNAME_PATTERN);
pub(crate) static PRECISE_HOSTNAME: Node = matching(1, 253, &SUBDOMAIN_PATTERN);
pub(crate) static PORT: Node = number(1, 65535);
pub(crate) static AT_LEAST_ONE: Node = number(1, i64::MAX);
pub(crate) static HEADER_NAME: Node = matching(1, 256, &HEADER_NAME_PATTERN);
pub(crate) static HEADER_VALUE: Node = matching(1, 4096, &HEADER_VALUE_PATTERN);
pub(crate) static DURATION: Node = matching(0, usize::MAX, &DURATION_PATTERN);
pub(crate) static DEFAULT_SCOPE: Node = one_of(&["All", "None"]);
/// Text about which the schema says nothing.
pub(crate) static ANY_TEXT: Node = text(0, usize::MAX);
pub(crate) static FLAG: Node = Node::Flag;

pub(crate) static LOCAL_OBJECT_REFERENCE: Node =
    Node::Object(&[required("group", &GROUP), required("kind", &KIND), required("name", &NAME)]);
pub(crate) static OBJECT_REFERENCE: Node = Node::Object(&[
    required("group", &GROUP),
    required("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
]);

static CONTROLLER_NAME_PATTERN: Pattern = Pattern::new(
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
    "a domain name and a path, such as example.com/controller",
);
pub(crate) static CONTROLLER_NAME: Node = matching(1, 253, &CONTROLLER_NAME_PATTERN);

/// A label selector.
pub(crate) static SELECTOR: Node =
    Node::Object(&[optional("matchLabels", &ANY_MAP), optional("matchExpressions", &REQUIREMENTS)]);
pub(crate) static ANY_MAP: Node = Node::Map { max: usize::MAX, values: &ANY_TEXT };
static REQUIREMENTS: Node = list(0, usize::MAX, &REQUIREMENT);
static REQUIREMENT: Node =
    Node::Object(&[required("key", &ANY_TEXT), required("operator", &ANY_TEXT), optional("values", &ANY_TEXTS)]);
static ANY_TEXTS: Node = list(0, usize::MAX, &ANY_TEXT);
