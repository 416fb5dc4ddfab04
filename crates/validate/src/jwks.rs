//! Keys by which tokens are judged: a key set (RFC 7517), a single key, or public keys in PEM.
//!
//! Envoy refuses a whole configuration for one set without a key that it can use, so what is read here is written anew: of
//! each key what Envoy looks at, and none that it would not load. What is told never repeats what was written.

use std::collections::BTreeSet;

use aws_lc_rs::agreement::{Algorithm, ECDH_P256, ECDH_P384, ECDH_P521, PrivateKey, UnparsedPublicKey, agree};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use x509_parser::{
    oid_registry::Oid,
    pem::Pem,
    prelude::FromDer as _,
    public_key::{PublicKey, RSAPublicKey},
    x509::SubjectPublicKeyInfo,
};

/// Most keys of one set.
pub const MOST_KEYS: usize = 128;

/// Longest text that is read, in bytes: as much as 85 RSA keys of 4096 bits take.
pub const MOST_BYTES: usize = 64 * 1024;

/// What trying all keys with one token may cost at most, in verifications by P-256.
pub const MOST_COST: usize = 128;

/// The sizes of RSA keys, in bits: what RFC 7518 asks for at least, and what a proxy reckons with for each token.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=4096;

/// Longest name of a key.
const LONGEST_ID: usize = 256;

/// Keys that Envoy loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySet {
    /// The set, in JSON.
    pub json: String,
    /// How many keys it has.
    pub keys: usize,
    /// What it costs to try all of them with one token, in verifications by P-256.
    pub cost: usize,
}

/// Reads keys.
///
/// # Errors
/// Where there is none that can be used, or one that nobody may see: what is wrong and the remedy, without what is written.
pub fn read(text: &str) -> Result<KeySet, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("it has {} bytes, and {MOST_BYTES} are the most; leave some keys out", text.len()));
    }
    let keys = if text.trim_start().starts_with("-----BEGIN ") { pem(text)? } else { set(text)? };
    let (keys, cost) = (keys.keys, keys.cost);
    if keys.is_empty() {
        return Err("it has no key that tokens can be judged by: RSA, EC on P-256, P-384 or P-521, or Ed25519, for \
                    signatures; write one"
            .into());
    }
    let count = keys.len();
    Ok(KeySet { json: json!({ "keys": keys }).to_string(), keys: count, cost })
}

/// As measured in Envoy 1.40: 0.73 ms by P-521.
fn cost(key: &Value) -> usize {
    match key["crv"].as_str() {
        Some("P-521") => 16,
        Some("P-384") => 8,
        _ => 1,
    }
}

/// Keys that were read. No more is read of those that are too many: each costs.
#[derive(Default)]
struct Keys {
    keys: Vec<Value>,
    cost: usize,
}

impl Keys {
    fn push(&mut self, key: Value) -> Result<(), String> {
        self.cost += cost(&key);
        self.keys.push(key);
        if self.cost <= MOST_COST {
            return Ok(());
        }
        Err(format!(
            "its keys count more than {MOST_COST} together, which is the most: one for a key, 8 for P-384 and 16 for P-521; leave \
             some out"
        ))
    }
}

fn at_most(keys: usize) -> Result<(), String> {
    if keys <= MOST_KEYS {
        return Ok(());
    }
    Err(format!("it has {keys} keys, and {MOST_KEYS} are the most; leave some out"))
}

/// The keys of a set, or of a single key, in JSON. Those of other uses, and of kinds that Envoy does not know, are left out,
/// as RFC 7517 has it.
fn set(text: &str) -> Result<Keys, String> {
    let shape = "it is no JSON Web Key Set, no such key and no public key in PEM; write one of these";
    let Ok(Value::Object(mut written)) = serde_json::from_str(text) else { return Err(shape.into()) };
    let keys = match written.remove("keys") {
        Some(Value::Array(keys)) => keys,
        None if written.contains_key("kty") => vec![Value::Object(written)],
        _ => return Err(shape.into()),
    };
    at_most(keys.len())?;
    let mut read = Keys::default();
    for (index, key) in keys.into_iter().enumerate() {
        let Value::Object(key) = key else { return Err(format!("key {index} is no mapping; correct it")) };
        if let Some(key) = one(&key).map_err(|why| format!("key {index} {why}"))? {
            read.push(key)?;
        }
    }
    Ok(read)
}

/// One key as it is sent; none of one that tokens are not judged by.
fn one(key: &Map<String, Value>) -> Result<Option<Value>, String> {
    let text = |name: &str| match key.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(&**text)),
        Some(_) => Err(format!("has a member {name} that is no text; correct it")),
    };
    if ["d", "p", "q", "dp", "dq", "qi", "oth", "k"].iter().any(|name| key.contains_key(*name)) {
        return Err("is private or shared: whoever reads it can make tokens; write public keys alone".into());
    }
    let Some(kind) = text("kty")? else { return Err("has no member kty; correct it".into()) };
    let (alg, id) = (text("alg")?, text("kid")?);
    if text("use")?.is_some_and(|purpose| purpose != "sig") {
        return Ok(None);
    }
    if id.is_some_and(|id| id.len() > LONGEST_ID) {
        return Err(format!("has a name of more than {LONGEST_ID} bytes; shorten its kid"));
    }
    let bytes = |name: &str| {
        let written = text(name)?.ok_or_else(|| format!("has no member {name}; correct it"))?;
        URL_SAFE_NO_PAD
            .decode(written.trim_end_matches('='))
            .map_err(|_| format!("has a member {name} that is not base64url; correct it"))
    };
    let known = match kind {
        "RSA" => rsa(&bytes("n")?, &bytes("e")?, alg)?,
        "EC" => match Curve::named(text("crv")?.unwrap_or_default()) {
            Some(curve) => ec(curve, &bytes("x")?, &bytes("y")?, alg)?,
            None => None,
        },
        "OKP" if text("crv")? == Some("Ed25519") => ed25519(&bytes("x")?, alg)?,
        _ => None,
    };
    Ok(known.map(|mut known| {
        if let Some(id) = id {
            known["kid"] = id.into();
        }
        known
    }))
}

/// The algorithms of RSA keys.
const RSA: [&str; 6] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];

fn rsa(n: &[u8], e: &[u8], alg: Option<&str>) -> Result<Option<Value>, String> {
    if alg.is_some_and(|alg| !RSA.contains(&alg)) {
        return Ok(None);
    }
    let (n, e) = (number(n), number(e));
    let bits = n.len() * 8 - n.first().map_or(0, |first| first.leading_zeros() as usize);
    if !RSA_BITS.contains(&bits) {
        let (least, most) = (RSA_BITS.start(), RSA_BITS.end());
        return Err(format!("is an RSA key of {bits} bits; use one of {least} to {most}"));
    }
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    if !is_odd(n) || !is_odd(e) || e == [1] || e.len() > 3 {
        return Err("is no RSA key: its modulus or exponent cannot be one; correct it".into());
    }
    Ok(Some(with_alg(json!({"kty": "RSA", "n": URL_SAFE_NO_PAD.encode(n), "e": URL_SAFE_NO_PAD.encode(e)}), alg)))
}

/// A number without the zeros before it.
fn number(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// A curve of ECDSA.
#[derive(Clone, Copy)]
struct Curve {
    name: &'static str,
    alg: &'static str,
    /// Bytes of a coordinate.
    size: usize,
    oid: &'static str,
    agreement: &'static Algorithm,
}

static CURVES: [Curve; 3] = [
    Curve { name: "P-256", alg: "ES256", size: 32, oid: "1.2.840.10045.3.1.7", agreement: &ECDH_P256 },
    Curve { name: "P-384", alg: "ES384", size: 48, oid: "1.3.132.0.34", agreement: &ECDH_P384 },
    Curve { name: "P-521", alg: "ES512", size: 66, oid: "1.3.132.0.35", agreement: &ECDH_P521 },
];

impl Curve {
    fn named(name: &str) -> Option<Self> {
        CURVES.iter().find(|curve| curve.name == name).copied()
    }
}

fn ec(curve: Curve, x: &[u8], y: &[u8], alg: Option<&str>) -> Result<Option<Value>, String> {
    let Curve { name, alg: own, size, agreement, .. } = curve;
    if alg.is_some_and(|alg| alg != own) {
        return Ok(None);
    }
    let wrong = || format!("is no point on {name}; correct it");
    let padded = |coordinate: &[u8]| {
        let digits = number(coordinate);
        let zeros = size.checked_sub(digits.len())?;
        Some([vec![0; zeros], digits.to_vec()].concat())
    };
    let (x, y) = (padded(x).ok_or_else(wrong)?, padded(y).ok_or_else(wrong)?);
    // Agreeing on a key with it finds out whether it is on the curve.
    let point = [&[4], &*x, &*y].concat();
    let own_key = PrivateKey::generate(agreement).map_err(|_| "cannot be judged; try again".to_owned())?;
    agree(&own_key, UnparsedPublicKey::new(agreement, &point), wrong(), |_| Ok(()))?;
    let key = json!({"kty": "EC", "crv": name, "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)});
    Ok(Some(with_alg(key, alg)))
}

fn ed25519(x: &[u8], alg: Option<&str>) -> Result<Option<Value>, String> {
    if alg.is_some_and(|alg| alg != "EdDSA") {
        return Ok(None);
    }
    if x.len() != 32 {
        return Err("is no Ed25519 key, which has 32 bytes; correct it".into());
    }
    Ok(Some(with_alg(json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode(x)}), alg)))
}

fn with_alg(mut key: Value, alg: Option<&str>) -> Value {
    if let Some(alg) = alg {
        key["alg"] = alg.into();
    }
    key
}

/// The public keys of a text in PEM. RSA keys are for RS256, as kgateway has it.
fn pem(text: &str) -> Result<Keys, String> {
    let mut keys = Keys::default();
    let mut labels = BTreeSet::new();
    for (index, block) in Pem::iter_from_buffer(text.as_bytes()).enumerate() {
        if index >= MOST_KEYS {
            return Err(format!("it has more than {MOST_KEYS} blocks; leave some out"));
        }
        let block = block.map_err(|_| format!("block {index} is not PEM; correct it"))?;
        let broken = || format!("block {index} is no public key; correct it");
        if block.label.contains("PRIVATE") {
            return Err(format!(
                "block {index} is a private key: whoever reads it can make tokens; write public keys alone"
            ));
        }
        let key = match &*block.label {
            "RSA PUBLIC KEY" => {
                let (_, key) = RSAPublicKey::from_der(&block.contents).map_err(|_| broken())?;
                rsa(key.modulus, key.exponent, Some("RS256"))
            }
            "PUBLIC KEY" => {
                let (_, info) = SubjectPublicKeyInfo::from_der(&block.contents).map_err(|_| broken())?;
                of_info(&info).ok_or_else(broken)?
            }
            other => {
                labels.insert(crate::shown(other));
                continue;
            }
        };
        if let Some(key) = key.map_err(|why| format!("block {index} {why}"))? {
            keys.push(key)?;
        }
    }
    if let (true, Some(label)) = (keys.keys.is_empty(), labels.first()) {
        return Err(format!("it has a {label} and no public key; write a PUBLIC KEY"));
    }
    Ok(keys)
}

/// The key in a `SubjectPublicKeyInfo`; none of a kind that Envoy does not know.
fn of_info(info: &SubjectPublicKeyInfo<'_>) -> Option<Result<Option<Value>, String>> {
    if info.algorithm.algorithm.to_id_string() == "1.3.101.112" {
        return Some(ed25519(&info.subject_public_key.data, Some("EdDSA")));
    }
    match info.parsed().ok()? {
        PublicKey::RSA(key) => Some(rsa(key.modulus, key.exponent, Some("RS256"))),
        PublicKey::EC(_) => {
            let oid: Oid<'_> = info.algorithm.parameters.as_ref()?.as_oid().ok()?;
            let oid = oid.to_id_string();
            let curve = *CURVES.iter().find(|curve| curve.oid == oid)?;
            // Not compressed.
            let (&4, point) = info.subject_public_key.data.split_first()? else { return None };
            let (x, y) = point.split_at_checked(curve.size)?;
            Some(ec(curve, x, y, Some(curve.alg)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PublicKeyData as _};

    use super::*;

    fn read_json(keys: &Value) -> Result<KeySet, String> {
        read(&keys.to_string())
    }

    fn point() -> Value {
        let key = KeyPair::generate().expect("a key");
        let point = key.der_bytes();
        let (x, y) = point[1..].split_at(32);
        json!({"kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)})
    }

    #[test]
    fn a_set_a_key_and_pem_are_the_same() {
        let key = KeyPair::generate().expect("a key");
        let from_pem = read(&key.public_key_pem()).expect("a public key");
        let written: Value = serde_json::from_str(&from_pem.json).expect("JSON");
        assert_eq!(written["keys"][0]["alg"], "ES256");
        assert_eq!(read_json(&written["keys"][0]), Ok(from_pem.clone()));
        assert_eq!(read_json(&written), Ok(from_pem));
    }

    #[test]
    fn what_envoy_does_not_look_at_is_left_out() {
        let mut key = point();
        key["kid"] = "one".into();
        key["x5c"] = json!(["..."]);
        let other = json!({"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"});
        let encrypts = json!({"kty": "RSA", "use": "enc", "n": "AQAB", "e": "AQAB"});
        let read = read_json(&json!({"keys": [other, encrypts, key]})).expect("one key");
        key.as_object_mut().expect("a mapping").remove("x5c");
        assert_eq!((read.keys, serde_json::from_str(&read.json).ok()), (1, Some(json!({"keys": [key]}))));
    }

    #[test]
    fn what_cannot_judge_is_refused_and_never_repeated() {
        let secret = "c2VjcmV0LW9mLWEtdGVuYW50";
        let mut off = point();
        off["y"] = "AQ".into();
        let private = KeyPair::generate().expect("a key").serialize_pem();
        let cases = [
            ("", "no JSON"),
            ("not json", "no JSON"),
            ("[]", "no JSON"),
            (r#"{"keys": []}"#, "has no key"),
            (r#"{"keys": [1]}"#, "no mapping"),
            (&format!(r#"{{"kty": "oct", "k": "{secret}"}}"#), "whoever reads it can make tokens"),
            (&format!(r#"{{"kty": "RSA", "n": "AQAB", "e": "AQAB", "d": "{secret}"}}"#), "private"),
            (&private, "private key"),
            (r#"{"kty": "RSA", "n": "AQAB", "e": "AQAB"}"#, "17 bits"),
            (&off.to_string(), "no point on P-256"),
            (r#"{"kty": "OKP", "crv": "Ed25519", "x": "AQAB"}"#, "32 bytes"),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "CERTIFICATE"),
            ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "no public key"),
        ];
        for (text, why) in cases {
            let told = read(text).expect_err(text);
            assert!(told.contains(why) && !told.contains(secret), "{text}: {told}");
        }
        let many: Vec<_> = std::iter::repeat_n(point(), 129).collect();
        assert!(read_json(&json!({"keys": many})).expect_err("too many").contains("129 keys, and 128"));
    }

    #[test]
    fn what_is_too_much_is_not_read_to_its_end() {
        let told = |text: &str| read(text).expect_err("too much");
        let long = format!("{{\"keys\": [{}", " ".repeat(MOST_BYTES));
        assert_eq!(told(&long), "it has 65546 bytes, and 65536 are the most; leave some keys out");
        let pem = KeyPair::generate().expect("a key").public_key_pem();
        let broken = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n";
        assert_eq!(read(&pem.repeat(128)).expect("as many as there may be").keys, 128);
        assert_eq!(told(&format!("{}{broken}", pem.repeat(128))), "it has more than 128 blocks; leave some out");
        let certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(told(&certificate.repeat(129)), "it has more than 128 blocks; leave some out");
        let costly = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key").public_key_pem();
        assert_eq!(read(&costly.repeat(16)).expect("as many as there may be").cost, 128);
        let told = told(&format!("{}{broken}", costly.repeat(17)));
        assert!(told.contains("more than 128 together, which is the most: one for a key, 8 for P-384"), "{told}");
    }
}
