//! What the CRD says of each field of a TrafficPolicy.

use crate::schema::openapi::{
    Node,
    policy::{TARGET_REFS, TARGET_SELECTORS},
    values::{ANY_TEXT, FLAG, optional, required, text},
};

/// Of most fields no more than that they are there: what they say is judged where they are read, and a policy that sets one
/// that nobody reads is refused.
pub(super) static SPEC: Node = Node::Object(&[
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

static URL_REWRITE: Node = Node::Object(&[optional("pathRegex", &PATH_REGEX)]);
static PATH_REGEX: Node =
    Node::Object(&[required("pattern", &REGEX_OR_SUBSTITUTION), required("substitution", &REGEX_OR_SUBSTITUTION)]);
static REGEX_OR_SUBSTITUTION: Node = text(1, 1024);
