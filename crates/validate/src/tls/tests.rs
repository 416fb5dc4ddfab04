#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;

use super::*;

macro_rules! file {
    ($name:literal) => {
        include_bytes!(concat!("testdata/", $name)).as_slice()
    };
}

const RSA: (&[u8], &[u8]) = (file!("rsa.crt"), file!("rsa.key"));

fn refusal(chain: &[u8], key: &[u8]) -> String {
    check(chain, key).expect_err("refused").to_string()
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn rsa_and_ecdsa_certificates_pass_with_every_form_of_key() {
    let rsa = check(RSA.0, RSA.1).unwrap();
    assert_eq!(rsa.algorithm, Algorithm::Rsa);
    assert_eq!(rsa.dns_names, ["a.example", "b.example"]);
    assert!(check(RSA.0, file!("rsa-pkcs1.key")).is_ok());
    // OpenSSL puts the parameters of the curve in front of the key.
    let ecdsa = check(file!("p521.crt"), file!("p521.key")).unwrap();
    assert_eq!(ecdsa.algorithm, Algorithm::Ecdsa);
    assert!(ecdsa.key_pem.starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384] {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let params = rcgen::CertificateParams::new(vec!["*.example".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let checked = check(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap();
        assert_eq!(checked.dns_names, ["*.example"]);
    }
}

#[test]
fn what_is_sent_is_what_was_judged_and_nothing_else() {
    let chain = joined(&[b"subject=me\r\n", RSA.0, b"\nnotes\n", RSA.1, file!("p521.crt"), b"the end"]);
    let checked = check(&chain, &joined(&[b"notes\n", RSA.1, file!("p521.key")])).unwrap();
    assert_eq!(checked.chain_pem.matches("BEGIN").count(), 2);
    assert!(checked.chain_pem.starts_with("-----BEGIN CERTIFICATE-----\n"));
    assert!(!checked.chain_pem.contains("PRIVATE") && !checked.chain_pem.contains("notes"));
    assert_eq!(checked.key_pem.as_bytes(), RSA.1);
    assert_eq!(check(checked.chain_pem.as_bytes(), checked.key_pem.as_bytes()).unwrap(), checked);
}

#[test]
fn windows_line_ends_and_a_missing_last_one_change_nothing() {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let plain = check(RSA.0, RSA.1).unwrap();
    let crlf = |bytes: &[u8]| text(bytes).replace('\n', "\r\n");
    assert_eq!(check(crlf(RSA.0).as_bytes(), crlf(RSA.1).as_bytes()).unwrap(), plain);
    assert_eq!(check(text(RSA.0).trim_end().as_bytes(), text(RSA.1).trim_end().as_bytes()).unwrap(), plain);
}

#[test]
fn an_expired_certificate_passes_and_says_when() {
    let expired = check(file!("expired.crt"), RSA.1).unwrap();
    assert_eq!((expired.not_before, expired.not_after), (1_577_836_800, 1_609_459_200));
}

#[test]
fn keys_never_show_in_debug_output_or_refusals() {
    let checked = check(RSA.0, RSA.1).unwrap();
    let line = std::str::from_utf8(RSA.1).unwrap().lines().nth(1).unwrap();
    assert!(checked.key_pem.contains(line));
    assert!(!format!("{checked:?}").contains(line));
    assert!(!refusal(file!("p521.crt"), RSA.1).contains(line));
}

#[test]
fn a_key_that_does_not_fit_is_refused() {
    assert!(refusal(RSA.0, file!("p521.key")).contains("does not fit"));
    assert!(refusal(file!("p521.crt"), file!("p256.key")).contains("does not fit"));
    // The leaf comes first.
    assert!(refusal(&joined(&[file!("p521.crt"), RSA.0]), RSA.1).contains("does not fit"));
}

#[test]
fn what_envoy_does_not_load_is_refused() {
    for (chain, key, why) in [
        (file!("rsa-small.crt"), file!("rsa-small.key"), "2047 bits"),
        (file!("k256.crt"), file!("k256.key"), "not on P-256"),
        (file!("pss.crt"), file!("pss.key"), "1.2.840.113549.1.1.10"),
        (file!("p256-encipher.crt"), file!("p256.key"), "digitalSignature"),
        (file!("must-staple.crt"), RSA.1, "OCSP"),
        (file!("nameless.crt"), RSA.1, "common name"),
        (RSA.0, file!("rsa-pkcs1-encrypted.key"), "encrypted"),
        (RSA.0, file!("rsa-pkcs8-encrypted.key"), "encrypted"),
    ] {
        let refused = refusal(chain, key);
        assert!(refused.contains(why), "{refused}");
    }
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap().self_signed(&key).unwrap();
    assert!(refusal(certificate.pem().as_bytes(), key.serialize_pem().as_bytes()).contains("Ed25519"));
}

#[test]
fn keys_in_a_form_that_envoy_does_not_read_are_refused() {
    let sec1 = PrivateKeyDer::from_pem_slice(file!("p521.key")).unwrap().secret_der().to_vec();
    let point = sec1.windows(4).position(|window| window[..2] == [0x03, 0x81] && window[3] == 0).unwrap() + 4;
    assert_eq!(sec1[point], 4);
    let mut hybrid = sec1.clone();
    hybrid[point] = 6 + (sec1[sec1.len() - 1] & 1);
    assert!(refusal(file!("p521.crt"), pem("EC PRIVATE KEY", &hybrid).as_bytes()).contains("form"));
    // Without its curve, between the private and the public part.
    let curve = [0xa0, 0x07, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x23];
    let at = sec1.windows(curve.len()).position(|window| window == curve).unwrap();
    let mut bare = sec1.clone();
    bare.drain(at..at + curve.len());
    assert_eq!(bare[1], 0x81);
    bare[2] -= 9;
    assert!(refusal(file!("p521.crt"), pem("EC PRIVATE KEY", &bare).as_bytes()).contains("form"));
}

#[test]
fn a_chain_that_clients_do_not_read_is_refused() {
    let checked = check(&RSA.0.repeat(20), RSA.1).unwrap();
    assert_eq!((checked.length, checked.chain_pem.matches("BEGIN").count()), (20, 20));
    let refused = refusal(&RSA.0.repeat(400), RSA.1);
    assert!(
        refused.starts_with("\"tls.crt\" is refused: its 400 certificates have ")
            && refused.contains("no bundle of roots"),
        "{refused}"
    );
}

#[test]
fn what_is_no_pem_is_refused() {
    for (chain, key) in [
        (b"".as_slice(), RSA.1),
        (RSA.0, b"".as_slice()),
        (b"hello", RSA.1),
        (RSA.0, b"hello"),
        (RSA.1, RSA.1),
        (RSA.0, RSA.0),
        (&RSA.0[..RSA.0.len() / 2], RSA.1),
        (RSA.0, &RSA.1[..RSA.1.len() / 2]),
        (&[0xff; 64], &[0; 64]),
    ] {
        assert!(check(chain, key).is_err());
    }
    let second = |block: &str| joined(&[RSA.0, format!("-----BEGIN CERTIFICATE-----\n{block}").as_bytes()]);
    for block in ["", "AAAA\n", "AAAA\n-----END CERTIFICATE-----\n", "!!!!\n-----END CERTIFICATE-----\n"] {
        assert!(check(&second(block), RSA.1).is_err(), "{block:?}");
    }
    assert!(check(&vec![b'a'; MAX_BYTES + 1], RSA.1).is_err());
}

#[test]
fn a_byte_behind_a_certificate_is_refused() {
    let der = CertificateDer::from_pem_slice(RSA.0).unwrap();
    assert!(check(pem("CERTIFICATE", &der).as_bytes(), RSA.1).is_ok());
    assert!(check(pem("CERTIFICATE", &joined(&[&der, &[0]])).as_bytes(), RSA.1).is_err());
}

proptest! {
    #[test]
    fn no_broken_certificate_panics(at in 0usize..2000, byte: u8, in_key: bool, cut in 0usize..2000) {
        let mut der = if in_key {
            PrivateKeyDer::from_pem_slice(RSA.1).unwrap().secret_der().to_vec()
        } else {
            CertificateDer::from_pem_slice(RSA.0).unwrap().to_vec()
        };
        let at = at % der.len();
        der[at] = byte;
        if cut < der.len() / 4 {
            der.truncate(cut);
        }
        let checked = if in_key {
            check(RSA.0, pem("PRIVATE KEY", &der).as_bytes())
        } else {
            check(pem("CERTIFICATE", &der).as_bytes(), RSA.1)
        };
        if let Ok(checked) = checked {
            prop_assert!(check(checked.chain_pem.as_bytes(), checked.key_pem.as_bytes()).is_ok());
        }
    }

    #[test]
    fn no_text_panics(chain: Vec<u8>, key: Vec<u8>) {
        prop_assert!(check(&chain, &key).is_err());
    }
}

#[test]
fn authorities_of_one_name_with_different_keys_are_known_and_renewed_ones_are_not_meant() {
    let issue = |name: &str, key: &rcgen::KeyPair| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.serial_number = Some(next_serial().into());
        params.self_signed(key).unwrap().pem()
    };
    let [first, second] = [(), ()].map(|()| rcgen::KeyPair::generate().unwrap());
    let read = |text: String| authorities(text.as_bytes()).unwrap();
    assert_eq!(read(issue("a", &first) + &issue("b", &second)).namesakes(), None);
    assert_eq!(read(issue("a", &first) + &issue("a", &first)).namesakes(), None, "it was renewed");
    let both = read(issue("a", &first) + &issue("b", &first) + &issue("a", &second));
    assert_eq!(both.namesakes(), Some("CN=a"));
    let mut joined = read(issue("a", &first));
    joined.extend(&read(issue("a", &second))).unwrap();
    assert_eq!(joined.namesakes(), Some("CN=a"));
}

fn next_serial() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}
