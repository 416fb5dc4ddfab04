//! Values that many tables share.

use super::{Field, Node, Pattern, Text, Unique};

pub(super) const fn text(min: usize, max: usize) -> Node {
    Node::Text(Text { min, max, pattern: None, values: &[] })
}

pub(super) const fn matching(min: usize, max: usize, pattern: &'static Pattern) -> Node {
    Node::Text(Text { min, max, pattern: Some(pattern), values: &[] })
}

pub(super) const fn one_of(values: &'static [&'static str]) -> Node {
    Node::Text(Text { min: 0, max: usize::MAX, pattern: None, values })
}

pub(super) const fn number(min: i64, max: i64) -> Node {
    Node::Number { min, max, values: &[] }
}

pub(super) const fn list(min: usize, max: usize, items: &'static Node) -> Node {
    Node::List { min, max, unique: Unique::No, items }
}

/// A list without duplicates, at most `max` long.
pub(super) const fn set(max: usize, items: &'static Node) -> Node {
    Node::List { min: 0, max, unique: Unique::Items, items }
}

/// A list whose items differ in one field.
pub(super) const fn map_list(min: usize, max: usize, key: &'static str, items: &'static Node) -> Node {
    Node::List { min, max, unique: Unique::By(key), items }
}

pub(super) const fn required(name: &'static str, node: &'static Node) -> Field {
    Field { name, required: true, node }
}

pub(super) const fn optional(name: &'static str, node: &'static Node) -> Field {
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
pub(in crate::schema) static HOSTNAME_PATTERN: Pattern = Pattern::new(
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

pub(in crate::schema) static LABEL_KEY_PATTERN: Pattern = Pattern::new(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$",
    "a name of at most 63 letters, digits, dashes, underscores and dots, optionally after a domain name and /",
);
pub(in crate::schema) static PATH_PATTERN: Pattern = Pattern::new(
    r"^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$",
    "a path of letters, digits, percent escapes and -/._~!$&'()*+,;=:@",
);

pub(super) static GROUP: Node = matching(0, 253, &GROUP_PATTERN);
pub(super) static KIND: Node = matching(1, 63, &KIND_PATTERN);
pub(super) static NAME: Node = text(1, 253);
pub(super) static NAMESPACE: Node = matching(1, 63, &LABEL_PATTERN);
pub(super) static SECTION_NAME: Node = matching(1, 253, &SUBDOMAIN_PATTERN);
pub(super) static HOSTNAME: Node = matching(1, 253, &HOSTNAME_PATTERN);
pub(super) static PRECISE_HOSTNAME: Node = matching(1, 253, &SUBDOMAIN_PATTERN);
pub(super) static PORT: Node = number(1, 65535);
pub(super) static HEADER_NAME: Node = matching(1, 256, &HEADER_NAME_PATTERN);
pub(super) static HEADER_VALUE: Node = matching(1, 4096, &HEADER_VALUE_PATTERN);
pub(super) static DURATION: Node = matching(0, usize::MAX, &DURATION_PATTERN);
pub(super) static DEFAULT_SCOPE: Node = one_of(&["All", "None"]);
/// Text about which the schema says nothing.
pub(super) static ANY_TEXT: Node = text(0, usize::MAX);
pub(super) static FLAG: Node = Node::Flag;

pub(super) static LOCAL_OBJECT_REFERENCE: Node =
    Node::Object(&[required("group", &GROUP), required("kind", &KIND), required("name", &NAME)]);
pub(super) static OBJECT_REFERENCE: Node = Node::Object(&[
    required("group", &GROUP),
    required("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
]);
