//! What policies of all kinds have in common: their targets, and the status that Gateway API gives them.

use super::{
    Node, Pattern, Texts,
    route::PARENT_REFERENCE,
    values::{
        ANY_MAP, ANY_TEXT, CONTROLLER_NAME, GROUP, KIND, NAME, SECTION_NAME, list, map_list, matching, number, one_of,
        optional, required, text,
    },
};
use crate::policy::LocalPolicyTargetReference;

impl Texts for LocalPolicyTargetReference {
    fn text(&self, key: &str) -> Option<&str> {
        match key {
            "group" => Some(&self.group),
            "kind" => Some(&self.kind),
            "name" => Some(&self.name),
            "sectionName" => self.section_name.as_deref(),
            _ => None,
        }
    }
}

pub(crate) static TARGET_REFS: Node = list(1, 16, &TARGET_REF);
static TARGET_REF: Node = Node::Object(&[
    required("group", &GROUP),
    required("kind", &KIND),
    required("name", &NAME),
    optional("sectionName", &SECTION_NAME),
]);
pub(crate) static TARGET_SELECTORS: Node = list(0, usize::MAX, &TARGET_SELECTOR);
pub(crate) static TARGET_SELECTOR: Node = Node::Object(&[
    required("group", &GROUP),
    required("kind", &KIND),
    required("matchLabels", &ANY_MAP),
    optional("sectionName", &SECTION_NAME),
]);
/// Of policies that hold for all of an object or not at all.
pub(crate) static WHOLE_TARGET_REFS: Node = list(1, 16, &WHOLE_TARGET_REF);
static WHOLE_TARGET_REF: Node =
    Node::Object(&[required("group", &GROUP), required("kind", &KIND), required("name", &NAME)]);
pub(crate) static WHOLE_TARGET_SELECTORS: Node = list(0, usize::MAX, &WHOLE_TARGET_SELECTOR);
static WHOLE_TARGET_SELECTOR: Node =
    Node::Object(&[required("group", &GROUP), required("kind", &KIND), required("matchLabels", &ANY_MAP)]);

pub(super) static POLICY_STATUS: Node = Node::Object(&[required("ancestors", &ANCESTORS)]);
static ANCESTORS: Node = list(0, 16, &ANCESTOR);
static ANCESTOR: Node = Node::Object(&[
    required("ancestorRef", &PARENT_REFERENCE),
    required("controllerName", &CONTROLLER_NAME),
    required("conditions", &CONDITIONS),
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
