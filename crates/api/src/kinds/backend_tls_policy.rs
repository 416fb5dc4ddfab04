//! BackendTLSPolicy.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Violation,
    honoured::{Affects, Honoured, Refused, RefusedField},
    meta::CustomResource,
    policy::{LocalPolicyTargetReference, Targets},
    schema::{
        Schema, Spec,
        openapi::{
            Node, Pattern,
            policy::TARGET_REFS,
            values::{
                HOSTNAME, LOCAL_OBJECT_REFERENCE, PRECISE_HOSTNAME, list, matching, one_of, optional, required, text,
            },
        },
        rules::Broken,
    },
    shared::LocalObjectReference,
};

/// Says that proxies connect to Services by TLS, and whose certificate they expect there.
pub type BackendTlsPolicy = CustomResource<BackendTlsPolicySpec>;

/// What the owner of a BackendTLSPolicy wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTlsPolicySpec {
    /// The Services that the policy applies to, or ports of them by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<LocalPolicyTargetReference>,
    /// Whose certificate is expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<BackendTlsPolicyValidation>,
    /// What an implementation has of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<Box<str>, Box<str>>>,
    /// Why the rest could not be read, if so: then only the targets are there, for the policy to be refused on them.
    #[serde(skip)]
    pub invalid: Box<[Violation]>,
}

/// Whose certificate is expected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BackendTlsPolicyValidation {
    /// Objects of the policy's namespace with the certificates of authorities, any of which suffices.
    #[serde(rename = "caCertificateRefs", skip_serializing_if = "Vec::is_empty")]
    pub ca_certificate_refs: Vec<LocalObjectReference>,
    /// Authorities that are known by a name, in the place of these.
    #[serde(rename = "wellKnownCACertificates", skip_serializing_if = "Option::is_none")]
    pub well_known_ca_certificates: Option<Box<str>>,
    /// The name that the backend is asked for, which its certificate must have unless `subject_alt_names` has others.
    pub hostname: Box<str>,
    /// Names of which the certificate must have one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name that a certificate may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubjectAltName {
    /// Which member counts.
    pub r#type: SubjectAltNameType,
    /// For [`SubjectAltNameType::Hostname`]: a name in DNS; `*` in place of its first label stands for any one label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Box<str>>,
    /// For [`SubjectAltNameType::Uri`], such as `spiffe://example.com/ns/shop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<Box<str>>,
}

open_enum! {
    /// What a name of a certificate is.
    pub enum SubjectAltNameType {
        /// A name in DNS.
        Hostname = "Hostname",
        /// A URI.
        Uri = "URI",
    }
}

impl Spec for BackendTlsPolicySpec {
    const SCHEMA: Schema = Schema::of(&SPEC);
    const HONOURED: Honoured = Honoured { read: READ, refused: REFUSED };

    fn check(&self, broken: &mut Broken) {
        check_targets(&self.target_refs, broken);
        let Some(validation) = &self.validation else { return };
        let refers = !validation.ca_certificate_refs.is_empty();
        match (refers, validation.well_known_ca_certificates.as_deref().unwrap_or_default()) {
            (true, known) if !known.is_empty() => {
                let message = "must not stand beside caCertificateRefs: remove one of both";
                broken.add("spec.validation.wellKnownCACertificates", known, message);
            }
            (false, "") => {
                let message = "must have caCertificateRefs or wellKnownCACertificates: set one";
                broken.add_without_value("spec.validation", message);
            }
            _ => {}
        }
        for (index, name) in validation.subject_alt_names.iter().enumerate() {
            let members = [
                ("hostname", &name.hostname, SubjectAltNameType::Hostname),
                ("uri", &name.uri, SubjectAltNameType::Uri),
            ];
            for (member, value, of_type) in members {
                let field = || format!("spec.validation.subjectAltNames[{index}].{member}");
                match value.as_deref().unwrap_or_default() {
                    "" if name.r#type == of_type => {
                        broken.add_without_value(field(), format!("must be set for type {of_type}"));
                    }
                    value if !value.is_empty() && name.r#type != of_type => {
                        broken.add(field(), value, format!("must not be set: the type is {}", name.r#type));
                    }
                    _ => {}
                }
            }
        }
    }

    fn refused(&self) -> Vec<RefusedField> {
        let mut refused = Refused::default();
        let set = self.options.as_ref().is_some_and(|options| !options.is_empty());
        refused.add(set, || "spec.options".to_owned(), Affects::Object, OPTIONS);
        refused.0
    }

    fn targets_only(spec: &Value, invalid: Violation) -> Option<Self> {
        let Targets { refs, .. } = Targets::readable(spec);
        Some(Self { target_refs: refs, invalid: [invalid].into(), ..Self::default() })
    }

    fn invalid(&self) -> &[Violation] {
        &self.invalid
    }
}

const OPTIONS: &str = "no option is known here, and one that is left out could be one that protects: remove it";

/// Several targets in one object must name different sections of it.
fn check_targets(refs: &[LocalPolicyTargetReference], broken: &mut Broken) {
    let object = |target: &LocalPolicyTargetReference| {
        (Arc::clone(&target.group), Arc::clone(&target.kind), Arc::clone(&target.name))
    };
    let section = |target: &LocalPolicyTargetReference| target.section_name.clone().unwrap_or_default();
    for (index, target) in refs.iter().enumerate() {
        let before = || refs[..index].iter().filter(|other| object(other) == object(target));
        let field = format!("spec.targetRefs[{index}].sectionName");
        let own = section(target);
        if before().any(|other| section(other) == own) {
            broken.add(field, own, "must differ from that of the same target before it");
        } else if before().any(|other| section(other).is_empty() != own.is_empty()) {
            broken.add(
                field,
                own,
                "must be set at all targets in one object, or there must be one: name a port in each",
            );
        }
    }
}

static SPEC: Node = Node::Object(&[
    required("targetRefs", &TARGET_REFS),
    required("validation", &VALIDATION),
    optional("options", &OPTIONS_MAP),
]);
static VALIDATION: Node = Node::Object(&[
    optional("caCertificateRefs", &CA_CERTIFICATE_REFS),
    optional("wellKnownCACertificates", &WELL_KNOWN),
    required("hostname", &PRECISE_HOSTNAME),
    optional("subjectAltNames", &SUBJECT_ALT_NAMES),
]);
static CA_CERTIFICATE_REFS: Node = list(0, 8, &LOCAL_OBJECT_REFERENCE);
static WELL_KNOWN_PATTERN: Pattern = Pattern::new(
    r"^(System|([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]))$",
    "System, or a name behind a domain name and /",
);
static WELL_KNOWN: Node = matching(1, 253, &WELL_KNOWN_PATTERN);
static SUBJECT_ALT_NAMES: Node = list(0, 5, &SUBJECT_ALT_NAME);
static SUBJECT_ALT_NAME: Node =
    Node::Object(&[required("type", &NAME_TYPE), optional("hostname", &HOSTNAME), optional("uri", &URI)]);
static NAME_TYPE: Node = one_of(&["Hostname", "URI"]);
static URI_PATTERN: Pattern = Pattern::new(
    r"^(([^:/?#]+):)(//([^/?#]*))([^?#]*)(\?([^#]*))?(#(.*))?",
    "a URI with a scheme and a host, such as spiffe://example.com/ns/shop",
);
static URI: Node = matching(1, 253, &URI_PATTERN);
static OPTIONS_MAP: Node = Node::Map { max: 16, values: &OPTION };
static OPTION: Node = text(0, 4096);

/// What translation reads.
const READ: &[&str] = &[
    "spec.targetRefs[].group",
    "spec.targetRefs[].kind",
    "spec.targetRefs[].name",
    "spec.targetRefs[].sectionName",
    "spec.validation.caCertificateRefs[].group",
    "spec.validation.caCertificateRefs[].kind",
    "spec.validation.caCertificateRefs[].name",
    "spec.validation.hostname",
    "spec.validation.subjectAltNames[].hostname",
    "spec.validation.subjectAltNames[].type",
    "spec.validation.subjectAltNames[].uri",
    "spec.validation.wellKnownCACertificates",
];

/// What nobody honours.
const REFUSED: &[&str] = &["spec.options"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{Kind, Object, decode, decode_or_targets, violations};

    #[test]
    fn a_policy_that_cannot_be_read_keeps_its_targets_and_is_refused() {
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy", "metadata": { "name": "p" },
            "spec": { "targetRefs": [{ "group": "", "kind": "Service", "name": "s", "sectionName": "web" }],
                      "validation": "none" },
        });
        let (_, targets) = decode_or_targets(manifest).expect_err("refused");
        let targets = *targets.expect("a policy");
        assert_eq!(violations(&targets).len(), 1);
        let Object::BackendTlsPolicy(policy) = targets else { panic!("another kind") };
        assert_eq!(policy.spec.target_refs[0].section_name.as_deref(), Some("web"));
        assert_eq!(policy.spec.validation, None);
    }

    #[test]
    fn an_option_is_refused_and_no_options_are_none() {
        let policy = |options| {
            let manifest = json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "BackendTLSPolicy", "metadata": { "name": "p" },
                "spec": { "targetRefs": [{ "group": "", "kind": "Service", "name": "s" }], "options": options,
                          "validation": { "hostname": "a.example", "wellKnownCACertificates": "System" } },
            });
            let object = decode(manifest).expect("a policy").object;
            assert_eq!(object.kind(), Kind::BackendTlsPolicy);
            object.refused_fields().len()
        };
        assert_eq!([policy(json!({})), policy(json!({ "example.com/a": "b" }))], [0, 1]);
    }
}
