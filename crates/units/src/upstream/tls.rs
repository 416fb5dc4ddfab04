//! TLS towards backends.

use std::sync::Arc;

use api::references::{AUTHORITIES, CERTIFICATE};
use ir::{
    NsName,
    upstream::{PeerName, Tls, TlsTrust, TlsVersion},
};
use serde::Deserialize;
use serde_json::Value;

use super::FindSecret;
use crate::Refused;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Spec {
    #[serde(default)]
    allow_renegotiation: bool,
    #[serde(default)]
    alpn_protocols: Vec<String>,
    files: Option<Value>,
    insecure_skip_verify: Option<bool>,
    parameters: Option<Parameters>,
    secret_ref: Option<SecretRef>,
    #[serde(rename = "simpleTLS", default)]
    simple_tls: bool,
    sni: Option<String>,
    #[serde(default)]
    verify_subject_alt_names: Vec<String>,
    #[serde(rename = "wellKnownCACertificates")]
    well_known: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Parameters {
    #[serde(default)]
    cipher_suites: Vec<String>,
    #[serde(default)]
    ecdh_curves: Vec<String>,
    max_version: Option<String>,
    min_version: Option<String>,
    #[serde(default)]
    signature_algorithms: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretRef {
    name: Arc<str>,
}

/// What Envoy knows, up to TLS 1.2.
const CIPHERS: [&str; 14] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA",
    "AES256-SHA",
];
const CURVES: [&str; 4] = ["X25519", "P-256", "P-384", "P-521"];
const SIGNATURES: [&str; 9] = [
    "ecdsa_secp256r1_sha256",
    "ecdsa_secp384r1_sha384",
    "ecdsa_secp521r1_sha512",
    "rsa_pss_rsae_sha256",
    "rsa_pss_rsae_sha384",
    "rsa_pss_rsae_sha512",
    "rsa_pkcs1_sha256",
    "rsa_pkcs1_sha384",
    "rsa_pkcs1_sha512",
];

pub(super) fn read(written: Spec, secrets: FindSecret<'_>, warnings: &mut Vec<Refused>) -> Result<Tls, Refused> {
    if written.files.is_some() {
        let message = "files of a proxy are not its tenants', so none is read; use secretRef";
        return Err(Refused::new("files", message));
    }
    let (trust, certificate) = match (&written.secret_ref, written.well_known.as_deref(), written.insecure_skip_verify)
    {
        (Some(reference), None, None) => from_secret(reference, written.simple_tls, secrets)?,
        (None, Some("System"), None) => (TlsTrust::System, None),
        (None, Some(other), None) => {
            let message = format!("{other:?} is not known; use System, or secretRef with {AUTHORITIES}");
            return Err(Refused::new("wellKnownCACertificates", message));
        }
        (None, None, Some(true)) => {
            let message = "nobody verifies whose certificate it is, so whoever is in between can read and answer; \
                               name what to trust by secretRef or wellKnownCACertificates";
            warnings.push(Refused::new("insecureSkipVerify", message));
            (TlsTrust::Anybody, None)
        }
        _ => {
            let message = "exactly one of secretRef, wellKnownCACertificates and insecureSkipVerify: true must be set";
            return Err(Refused::new("", message));
        }
    };
    let sni = match written.sni.as_deref() {
        None => None,
        Some(sni) => {
            validate::hostname::precise(sni).map_err(Refused::at("sni"))?;
            Some(Arc::from(sni))
        }
    };
    if trust == TlsTrust::Anybody && !written.verify_subject_alt_names.is_empty() {
        let message = "names mean nothing where nobody's certificate is verified; remove insecureSkipVerify";
        return Err(Refused::new("verifySubjectAltNames", message));
    }
    let mut names = texts(&written.verify_subject_alt_names, "verifySubjectAltNames", |text| {
        (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
    })?;
    // Whoever asks for a name wants nobody else's certificate.
    if names.is_empty() && trust != TlsTrust::Anybody {
        names = sni.iter().cloned().collect();
    }
    let names = names.iter().map(|name| PeerName::of(name)).collect();
    let parameters = written.parameters.unwrap_or_default();
    let (least_version, most_version) = (
        version(parameters.min_version.as_deref(), "parameters.minVersion")?,
        version(parameters.max_version.as_deref(), "parameters.maxVersion")?,
    );
    if let (least, Some(most)) = (least_version.unwrap_or(TlsVersion::V1_2), most_version)
        && least > most
    {
        let message = "it is older than minVersion, which is 1.2 unless said; correct either";
        return Err(Refused::new("parameters.maxVersion", message));
    }
    let known = |list: &'static [&'static str]| move |text: &str| list.contains(&text) || validate::is_unchecked(text);
    Ok(Tls {
        sni,
        by_endpoint: false,
        trust,
        names,
        certificate,
        anonymous: written.simple_tls,
        alpn: texts(&written.alpn_protocols, "alpnProtocols", |text| {
            (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
        })?,
        renegotiation: written.allow_renegotiation,
        least_version,
        most_version,
        ciphers: texts(&parameters.cipher_suites, "parameters.cipherSuites", known(&CIPHERS))?,
        curves: texts(&parameters.ecdh_curves, "parameters.ecdhCurves", known(&CURVES))?,
        signatures: texts(&parameters.signature_algorithms, "parameters.signatureAlgorithms", known(&SIGNATURES))?,
    })
}

/// What a Secret has: authorities, and a certificate to show unless it is `simple`.
///
/// One without authorities is refused: those of the system have many more certificates than its author meant, and of a Secret
/// that another object uses some keys may be read before others.
fn from_secret(
    reference: &SecretRef,
    simple: bool,
    secrets: FindSecret<'_>,
) -> Result<(TlsTrust, Option<NsName>), Refused> {
    let refuse = |message: String| Refused::new("secretRef", message);
    let secret = secrets(&reference.name).map_err(refuse)?;
    let id = NsName::new(secret.namespace.clone(), secret.name.clone());
    let Some(pem) = secret.data.get(AUTHORITIES) else {
        return Err(refuse(format!("Secret {id} has no {AUTHORITIES}, so nobody knows whom to trust; store it")));
    };
    let authorities = validate::tls::authorities(pem).map_err(|invalid| refuse(format!("Secret {id}: {invalid}")))?;
    let entry = |key: &str| secret.data.get(key).filter(|bytes| !bytes.is_empty());
    let certificate = match (entry(CERTIFICATE[0]), entry(CERTIFICATE[1])) {
        (Some(chain), Some(key)) if !simple => {
            validate::tls::check(chain, key).map_err(|invalid| refuse(format!("Secret {id}: {invalid}")))?;
            Some(id)
        }
        (Some(_), None) | (None, Some(_)) if !simple => {
            return Err(refuse(format!("Secret {id} has one of tls.crt and tls.key alone; store both, or neither")));
        }
        _ => None,
    };
    Ok((TlsTrust::Authorities(authorities.pem().into()), certificate))
}

fn texts(list: &[String], field: &str, is_good: impl Fn(&str) -> bool) -> Result<Box<[Arc<str>]>, Refused> {
    const MOST: usize = 64;
    if list.len() > MOST {
        return Err(Refused::new(field, format!("{} are too many; {MOST} at most", list.len())));
    }
    let read = list.iter().enumerate().map(|(index, text)| {
        let refuse = || {
            Refused::new(&format!("{field}[{index}]"), format!("{text:?} is not known to Envoy; correct or remove it"))
        };
        if is_good(text) { Ok(text.as_str().into()) } else { Err(refuse()) }
    });
    read.collect()
}

fn version(text: Option<&str>, field: &str) -> Result<Option<TlsVersion>, Refused> {
    match text {
        None | Some("AUTO") => Ok(None),
        Some("1.0") => Ok(Some(TlsVersion::V1_0)),
        Some("1.1") => Ok(Some(TlsVersion::V1_1)),
        Some("1.2") => Ok(Some(TlsVersion::V1_2)),
        Some("1.3") => Ok(Some(TlsVersion::V1_3)),
        Some(other) => Err(Refused::new(field, format!("{other:?} is no version; use AUTO, 1.0, 1.1, 1.2 or 1.3"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    #[test]
    fn nothing_but_what_envoy_knows_gets_past() {
        let read = |spec: serde_json::Value| {
            let none: FindSecret<'_> = &|name| Err(format!("Secret {name} does not exist"));
            read(spec::decode(&spec)?, none, &mut Vec::new())
        };
        let with = |more: serde_json::Value| {
            let mut spec = serde_json::json!({"wellKnownCACertificates": "System", "sni": "a.example"});
            spec.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
            spec
        };
        let sound = read(with(serde_json::json!({}))).expect("sound");
        assert_eq!(sound.names, [PeerName::Dns("a.example".into())].into(), "nobody else's certificate will do");
        for (more, field) in [
            (serde_json::json!({"parameters": {"cipherSuites": ["NULL-MD5"]}}), "parameters.cipherSuites[0]"),
            (serde_json::json!({"parameters": {"ecdhCurves": ["P-1"]}}), "parameters.ecdhCurves[0]"),
            (serde_json::json!({"parameters": {"signatureAlgorithms": ["x"]}}), "parameters.signatureAlgorithms[0]"),
            (serde_json::json!({"parameters": {"minVersion": "1.3", "maxVersion": "1.2"}}), "parameters.maxVersion"),
            (serde_json::json!({"parameters": {"maxVersion": "1.1"}}), "parameters.maxVersion"),
            (serde_json::json!({"alpnProtocols": ["h2,http/1.1"]}), "alpnProtocols[0]"),
            (serde_json::json!({"files": {"rootCA": "/etc/passwd"}}), "files"),
            (serde_json::json!({"insecureSkipVerify": true}), ""),
            (serde_json::json!({"sni": "a b"}), "sni"),
            (serde_json::json!({"unknown": 1}), "unknown"),
        ] {
            let refused = read(with(more.clone())).expect_err("refused");
            assert!(refused.field == field, "{more}: {refused:?}");
        }
        let missing = read(serde_json::json!({"secretRef": {"name": "s"}})).expect_err("refused");
        assert_eq!(missing.message, "Secret s does not exist");
    }

    #[test]
    fn a_secret_without_authorities_has_nobody_trusted() {
        let read = |data: serde_json::Value, more: serde_json::Value| {
            let secret = serde_json::json!({"metadata": {"name": "s", "namespace": "n"}, "stringData": data});
            let Ok(api::Object::Secret(secret)) = api::decode_json(api::Kind::Secret, &secret.to_string()) else {
                panic!("no Secret")
            };
            let secret = Arc::new(secret);
            let mut spec = serde_json::json!({"secretRef": {"name": "s"}, "sni": "a.example"});
            spec.as_object_mut().expect("a mapping").extend(more.as_object().expect("a mapping").clone());
            read(spec::decode(&spec)?, &|_| Ok(secret.clone()), &mut Vec::new())
        };
        let none = || serde_json::json!({});
        let simple = || serde_json::json!({"simpleTLS": true});
        let shown = || serde_json::json!({"tls.crt": "x", "tls.key": "x"});
        let large = "x".repeat(validate::tls::MOST_AUTHORITIES.1 + 1);
        for (data, more, words) in [
            (shown(), none(), "has no ca.crt"),
            (shown(), simple(), "has no ca.crt"),
            (none(), none(), "has no ca.crt"),
            (serde_json::json!({"ca.crt": ""}), none(), "ca.crt"),
            (serde_json::json!({"ca.crt": ""}), simple(), "ca.crt"),
            (serde_json::json!({"CA.crt": "x"}), none(), "has no ca.crt"),
            (serde_json::json!({"ca.crt": large}), none(), "262144 at most"),
        ] {
            let refused = read(data, more).expect_err("refused");
            assert!(refused.field == "secretRef" && refused.message.contains(words), "{refused:?}");
        }
    }
}
