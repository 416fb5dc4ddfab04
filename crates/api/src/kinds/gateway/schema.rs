//! What the CRD says of each field of a Gateway.

use crate::schema::openapi::{
    Node, Pattern,
    values::{
        DEFAULT_SCOPE, GROUP, HOSTNAME, KIND, LABEL_VALUE_PATTERN, LOCAL_OBJECT_REFERENCE, NAME, NAMESPACE,
        OBJECT_REFERENCE, PORT, SECTION_NAME, SELECTOR, list, map_list, matching, one_of, optional, required, text,
    },
};

pub(super) static SPEC: Node = Node::Object(&[
    required("gatewayClassName", &NAME),
    required("listeners", &LISTENERS),
    optional("addresses", &ADDRESSES),
    optional("infrastructure", &INFRASTRUCTURE),
    optional("allowedListeners", &ALLOWED_LISTENERS),
    optional("tls", &GATEWAY_TLS),
    optional("defaultScope", &DEFAULT_SCOPE),
]);

pub(in crate::kinds) static LISTENERS: Node = map_list(1, 64, "name", &LISTENER);
static LISTENER: Node = Node::Object(&[
    required("name", &SECTION_NAME),
    optional("hostname", &HOSTNAME),
    required("port", &PORT),
    required("protocol", &PROTOCOL),
    optional("tls", &LISTENER_TLS),
    optional("allowedRoutes", &ALLOWED_ROUTES),
]);
static PROTOCOL_PATTERN: Pattern = Pattern::new(
    r"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]+$",
    "a protocol such as HTTP, or a domain name and a protocol",
);
static PROTOCOL: Node = matching(1, 255, &PROTOCOL_PATTERN);

static LISTENER_TLS: Node = Node::Object(&[
    optional("mode", &TLS_MODE),
    optional("certificateRefs", &CERTIFICATE_REFS),
    optional("options", &ANNOTATIONS),
]);
static TLS_MODE: Node = one_of(&["Terminate", "Passthrough"]);
static CERTIFICATE_REFS: Node = list(0, 64, &SECRET_OBJECT_REFERENCE);
static SECRET_OBJECT_REFERENCE: Node = Node::Object(&[
    optional("group", &GROUP),
    optional("kind", &KIND),
    required("name", &NAME),
    optional("namespace", &NAMESPACE),
]);

static ALLOWED_ROUTES: Node =
    Node::Object(&[optional("namespaces", &ROUTE_NAMESPACES), optional("kinds", &ROUTE_GROUP_KINDS)]);
static ROUTE_NAMESPACES: Node = Node::Object(&[optional("from", &FROM_SOME), optional("selector", &SELECTOR)]);
static FROM_SOME: Node = one_of(&["All", "Selector", "Same"]);
static ROUTE_GROUP_KINDS: Node = list(0, 8, &ROUTE_GROUP_KIND);
static ROUTE_GROUP_KIND: Node = Node::Object(&[optional("group", &GROUP), required("kind", &KIND)]);

static ALLOWED_LISTENERS: Node = Node::Object(&[optional("namespaces", &LISTENER_NAMESPACES)]);
static LISTENER_NAMESPACES: Node =
    Node::Object(&[optional("from", &FROM_SOME_OR_NONE), optional("selector", &SELECTOR)]);
static FROM_SOME_OR_NONE: Node = one_of(&["All", "Selector", "Same", "None"]);

static ADDRESSES: Node = list(0, 16, &ADDRESS);
static ADDRESS: Node = Node::Object(&[optional("type", &ADDRESS_TYPE), optional("value", &ADDRESS_VALUE)]);
static ADDRESS_TYPE_PATTERN: Pattern = Pattern::new(
    r"^Hostname|IPAddress|NamedAddress|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
    "IPAddress, Hostname, NamedAddress, or a domain name and a path",
);
static ADDRESS_TYPE: Node = matching(1, 253, &ADDRESS_TYPE_PATTERN);
static ADDRESS_VALUE: Node = text(0, 253);

static INFRASTRUCTURE: Node = Node::Object(&[
    optional("labels", &LABELS),
    optional("annotations", &ANNOTATIONS),
    optional("parametersRef", &LOCAL_OBJECT_REFERENCE),
]);
static LABELS: Node = Node::Map { max: 8, values: &LABEL_VALUE };
static LABEL_VALUE: Node = matching(0, 63, &LABEL_VALUE_PATTERN);
static ANNOTATIONS: Node = Node::Map { max: 16, values: &ANNOTATION_VALUE };
static ANNOTATION_VALUE: Node = text(0, 4096);

static GATEWAY_TLS: Node = Node::Object(&[optional("backend", &BACKEND_TLS), optional("frontend", &FRONTEND_TLS)]);
static BACKEND_TLS: Node = Node::Object(&[optional("clientCertificateRef", &SECRET_OBJECT_REFERENCE)]);
static FRONTEND_TLS: Node = Node::Object(&[required("default", &TLS_CONFIG), optional("perPort", &PER_PORT)]);
static TLS_CONFIG: Node = Node::Object(&[optional("validation", &VALIDATION)]);
static PER_PORT: Node = map_list(0, 64, "port", &PER_PORT_ITEM);
static PER_PORT_ITEM: Node = Node::Object(&[required("port", &PORT), required("tls", &TLS_CONFIG)]);
static VALIDATION: Node =
    Node::Object(&[required("caCertificateRefs", &CA_CERTIFICATE_REFS), optional("mode", &VALIDATION_MODE)]);
static CA_CERTIFICATE_REFS: Node = list(1, 16, &OBJECT_REFERENCE);
static VALIDATION_MODE: Node = one_of(&["AllowValidOnly", "AllowInsecureFallback"]);
