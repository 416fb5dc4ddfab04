//! What a BackendTLSPolicy says, but for the certificates of authorities.

use std::sync::Arc;

use api::backend_tls_policy::{BackendTlsPolicyValidation, SubjectAltName, SubjectAltNameType};
use ir::{
    Problem, Reason, Severity,
    upstream::{PeerName, Tls, TlsTrust},
};
use validate::Invalid;

fn refused(field: &str, message: impl Into<String>) -> Problem {
    Problem::new(Severity::Refused, Reason::Invalid, format!("spec.validation.{field}"), message)
}

/// What authorities a policy trusts that it knows by a name; none where it refers to their certificates. `trust_store` is the
/// file of proxies with those of their system, empty where there is none.
///
/// # Errors
/// If nobody knows the name, or there are none of that name.
pub fn well_known(written: &BackendTlsPolicyValidation, trust_store: &str) -> Result<Option<TlsTrust>, Problem> {
    let refuse = |message: String| Err(refused("wellKnownCACertificates", message));
    match written.well_known_ca_certificates.as_deref().unwrap_or_default() {
        "" => Ok(None),
        "System" if trust_store.is_empty() => refuse(
            "proxies have no certificates of authorities of their own here; name some in caCertificateRefs, or ask whoever \
             runs the controller for the setting backend.systemTrustStore"
                .to_owned(),
        ),
        "System" => Ok(Some(TlsTrust::System)),
        other => refuse(format!("{other:?} is not known; use System, or caCertificateRefs")),
    }
}

/// What a policy says of connections to a backend that is judged by these authorities.
///
/// # Errors
/// If a name cannot be asked for, or no certificate can have it.
pub fn tls(written: &BackendTlsPolicyValidation, trust: TlsTrust) -> Result<Tls, Problem> {
    let hostname = &*written.hostname;
    validate::hostname::precise(hostname).map_err(|invalid| refused("hostname", invalid.to_string()))?;
    let sni: Arc<str> = hostname.into();
    let others = written.subject_alt_names.iter().enumerate().map(|(index, name)| {
        let field = |member| format!("subjectAltNames[{index}].{member}");
        peer(name).map_err(|(member, invalid)| refused(&field(member), invalid.to_string()))
    });
    let mut names = others.collect::<Result<Box<[_]>, _>>()?;
    if names.is_empty() {
        names = [PeerName::Dns(sni.clone())].into();
    }
    Ok(Tls { sni: Some(sni), names, ..Tls::of(trust) })
}

fn peer(name: &SubjectAltName) -> Result<PeerName, (&'static str, Invalid)> {
    match &name.r#type {
        SubjectAltNameType::Hostname => {
            let hostname = name.hostname.as_deref().unwrap_or_default();
            validate::hostname::check(hostname).map_err(|invalid| ("hostname", invalid))?;
            Ok(match hostname.strip_prefix("*.") {
                Some(parent) => PeerName::Below(parent.into()),
                None => PeerName::Dns(hostname.into()),
            })
        }
        SubjectAltNameType::Uri => {
            let uri = name.uri.as_deref().unwrap_or_default();
            if uri.is_empty() || !uri.bytes().all(|byte| byte.is_ascii_graphic()) {
                let why = "a URI has no spaces, and no characters other than those of ASCII";
                return Err(("uri", Invalid::new(uri, why, "write it with percent escapes")));
            }
            Ok(PeerName::Uri(uri.into()))
        }
        SubjectAltNameType::Unknown(other) => {
            Err(("type", Invalid::new(other, "it is not known", "use Hostname or URI")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn written(validation: &Value) -> BackendTlsPolicyValidation {
        serde_json::from_value(validation.clone()).expect("a validation")
    }

    fn read(validation: &Value) -> Result<Tls, String> {
        tls(&written(validation), TlsTrust::System).map_err(|problem| problem.to_string())
    }

    #[test]
    fn the_hostname_is_asked_for_and_expected_unless_other_names_are() {
        let one = read(&json!({"hostname": "a.example"})).expect("sound");
        assert_eq!((one.sni.as_deref(), &*one.names), (Some("a.example"), &[PeerName::Dns("a.example".into())][..]));
        let several = read(&json!({"hostname": "a.example", "subjectAltNames": [
            {"type": "URI", "uri": "spiffe://b/c"}, {"type": "Hostname", "hostname": "b.example"},
            {"type": "Hostname", "hostname": "*.c.example"},
        ]}))
        .expect("sound");
        assert_eq!(several.sni.as_deref(), Some("a.example"));
        let expected = [
            PeerName::Uri("spiffe://b/c".into()),
            PeerName::Dns("b.example".into()),
            PeerName::Below("c.example".into()),
        ];
        assert_eq!(*several.names, expected);
    }

    #[test]
    fn what_no_certificate_can_have_is_refused() {
        for (validation, field) in [
            (json!({"hostname": "10.0.0.1"}), "spec.validation.hostname"),
            (json!({"hostname": "*.a.example"}), "spec.validation.hostname"),
            (json!({"hostname": ""}), "spec.validation.hostname"),
            (
                json!({"hostname": "a", "subjectAltNames": [{"type": "Hostname", "hostname": "10.0.0.1"}]}),
                "spec.validation.subjectAltNames[0].hostname",
            ),
            (
                json!({"hostname": "a", "subjectAltNames": [{"type": "URI", "uri": "spiffe://a b"}]}),
                "spec.validation.subjectAltNames[0].uri",
            ),
            (
                json!({"hostname": "a", "subjectAltNames": [{"type": "Email"}]}),
                "spec.validation.subjectAltNames[0].type",
            ),
        ] {
            let refused = read(&validation).expect_err(field);
            assert!(refused.starts_with(field), "{refused}");
        }
    }

    #[test]
    fn authorities_of_the_system_are_trusted_where_proxies_have_any() {
        let system = written(&json!({"hostname": "a", "wellKnownCACertificates": "System"}));
        assert_eq!(well_known(&system, "/etc/ssl/ca.crt"), Ok(Some(TlsTrust::System)));
        for (name, store, words) in
            [("System", "", "backend.systemTrustStore"), ("example.com/ours", "/a", "not known")]
        {
            let written = written(&json!({"hostname": "a", "wellKnownCACertificates": name}));
            let refused = well_known(&written, store).expect_err("refused").to_string();
            assert!(refused.contains(words), "{refused}");
        }
        assert_eq!(well_known(&written(&json!({"hostname": "a"})), "/a"), Ok(None));
    }
}
