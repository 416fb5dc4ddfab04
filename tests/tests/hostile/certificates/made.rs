//! Chains and keys as Secrets hold them, sound and broken.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519,
    PKCS_RSA_SHA256, RsaKeySize, SanType, SerialNumber, date_time_ymd,
};

/// What shall become of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Served,
    Refused,
}

/// A Secret.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) chain: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) fate: Fate,
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn params() -> Result<CertificateParams> {
    Ok(CertificateParams::new(["c.example".to_owned()])?)
}

/// A certificate for a new P-256 key, changed before it signs itself.
fn changed(change: impl FnOnce(&mut CertificateParams)) -> Result<(Certificate, KeyPair)> {
    let (mut params, key) = (params()?, KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?);
    change(&mut params);
    Ok((params.self_signed(&key)?, key))
}

/// PEM of something that may be anything.
fn pem(label: &str, bytes: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64(bytes))
}

macro_rules! file {
    ($name:literal) => {
        include_str!(concat!("../../../../crates/validate/src/tls/testdata/", $name)).to_owned()
    };
}

/// All of them.
pub(crate) fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut add = |fate, name: &str, chain: String, key: String| {
        cases.push(Case { name: name.to_owned(), chain: chain.into_bytes(), key: key.into_bytes(), fate });
    };
    for (name, chain, key, fate) in [keys()?, leaves()?, chains()?, texts()?, files()].concat() {
        add(fate, &name, chain, key);
    }
    // No text at all.
    let (certificate, key) = changed(|_| ())?;
    let refused = |name: &str, chain: &[u8], key: &[u8]| Case {
        name: name.to_owned(),
        chain: chain.to_vec(),
        key: key.to_vec(),
        fate: Fate::Refused,
    };
    cases.push(refused("DER without PEM", certificate.der(), key.serialize_pem().as_bytes()));
    cases.push(refused("a key in DER without PEM", certificate.pem().as_bytes(), &key.serialize_der()));
    cases.push(refused("zeros", &[0; 4096], &[0; 4096]));
    cases.push(refused("bytes that are no text", &[0xff; 300], &[0xfe; 300]));
    Ok(cases)
}

type Row = (String, String, String, Fate);

fn row(name: &str, (certificate, key): &(Certificate, KeyPair), fate: Fate) -> Row {
    (name.to_owned(), certificate.pem(), key.serialize_pem(), fate)
}

/// Kinds of keys.
fn keys() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let kinds = [
        ("P-256", &PKCS_ECDSA_P256_SHA256, Fate::Served),
        ("P-384", &PKCS_ECDSA_P384_SHA384, Fate::Served),
        ("P-521", &PKCS_ECDSA_P521_SHA512, Fate::Served),
        ("Ed25519", &PKCS_ED25519, Fate::Refused),
    ];
    for (name, kind, fate) in kinds {
        let key = KeyPair::generate_for(kind)?;
        rows.push(row(name, &(params()?.self_signed(&key)?, key), fate));
    }
    for (name, size) in [("RSA 2048", RsaKeySize::_2048), ("RSA 3072", RsaKeySize::_3072)] {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size)?;
        rows.push(row(name, &(params()?.self_signed(&key)?, key), Fate::Served));
    }
    let (certificate, key) = changed(|_| ())?;
    let other = changed(|_| ())?.1;
    let refused = |name: &str, chain: String, key: String| (name.to_owned(), chain, key, Fate::Refused);
    rows.push(refused("somebody else's key", certificate.pem(), other.serialize_pem()));
    rows.push(refused("the public key", certificate.pem(), key.public_key_pem()));
    rows.push(refused("a key in the wrong block", certificate.pem(), pem("RSA PRIVATE KEY", &key.serialize_der())));
    rows.push(refused("a key of zeros", certificate.pem(), pem("PRIVATE KEY", &[0; 138])));
    rows.push(refused("a key that is cut", certificate.pem(), pem("PRIVATE KEY", &key.serialize_der()[..60])));
    let longer = [key.serialize_der(), vec![0]].concat();
    rows.push(refused("a key with a byte more", certificate.pem(), pem("PRIVATE KEY", &longer)));
    let both = other.serialize_pem() + &key.serialize_pem();
    rows.push(refused("another key before the right one", certificate.pem(), both));
    Ok(rows)
}

/// What a leaf says of itself.
fn leaves() -> Result<Vec<Row>> {
    let served = |name: &str, change: &dyn Fn(&mut CertificateParams)| -> Result<Row> {
        Ok(row(name, &changed(change)?, Fate::Served))
    };
    let refused = |name: &str, change: &dyn Fn(&mut CertificateParams)| -> Result<Row> {
        Ok(row(name, &changed(change)?, Fate::Refused))
    };
    let dns = |name: &str| SanType::DnsName(name.try_into().expect("ASCII"));
    Ok(vec![
        served("expired", &|params| {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        })?,
        served("not valid yet", &|params| params.not_before = date_time_ymd(2090, 1, 1))?,
        served("valid for no time", &|params| {
            params.not_before = date_time_ymd(2030, 1, 1);
            params.not_after = date_time_ymd(2029, 1, 1);
        })?,
        served("valid in the year 9999", &|params| params.not_after = date_time_ymd(9999, 12, 31))?,
        served("for somebody else", &|params| params.subject_alt_names = vec![dns("elsewhere.example")])?,
        served("for everybody", &|params| params.subject_alt_names = vec![dns("*"), dns("*.*"), dns("*.com")])?,
        served("for a thousand names", &|params| {
            params.subject_alt_names = (0..1_000).map(|number| dns(&format!("n{number}.example"))).collect();
        })?,
        served("for a name of 500 letters", &|params| params.subject_alt_names = vec![dns(&"n".repeat(500))])?,
        served("for odd names", &|params| {
            params.subject_alt_names = ["", " ", "a b", "\u{1}", "../x", "a;b", "%START_TIME%"].map(dns).to_vec();
        })?,
        served("for addresses", &|params| {
            params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        })?,
        served("for a mail box and a URI", &|params| {
            let text = |text: &str| text.try_into().expect("ASCII");
            params.subject_alt_names = vec![SanType::Rfc822Name(text("a@b")), SanType::URI(text("spiffe://a/b"))];
        })?,
        served("with a common name alone", &|params| {
            params.subject_alt_names.clear();
            params.distinguished_name.push(DnType::CommonName, "c.example");
        })?,
        refused("without any name", &|params| {
            params.subject_alt_names.clear();
            params.distinguished_name = rcgen::DistinguishedName::new();
        })?,
        served("with control characters in its name", &|params| {
            params.distinguished_name.push(DnType::CommonName, "a\u{1b}[31m\nb");
        })?,
        served("with a name of 10,000 letters", &|params| {
            params.distinguished_name.push(DnType::OrganizationName, "o".repeat(10_000));
        })?,
        served("an authority's own", &|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))?,
        served("for clients", &|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth])?,
        served("for signatures", &|params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature])?,
        refused("for certificates alone", &|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign])?,
        refused("with must-staple", &|params| {
            let feature = [1, 3, 6, 1, 5, 5, 7, 1, 24];
            params.custom_extensions = vec![CustomExtension::from_oid_content(&feature, vec![0x30, 3, 2, 1, 5])];
        })?,
        served("with an extension that nobody knows", &|params| {
            params.custom_extensions =
                vec![CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0])];
        })?,
        served("with a serial number of 20 bytes", &|params| {
            params.serial_number = Some(SerialNumber::from_slice(&[0x7f; 20]));
        })?,
    ])
}

/// What stands behind the leaf.
fn chains() -> Result<Vec<Row>> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "root");
    let root_key = KeyPair::generate()?;
    let root = authority.self_signed(&root_key)?;
    let issuer = Issuer::from_params(&authority, &root_key);
    let mut middle = CertificateParams::new(Vec::new())?;
    middle.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    middle.distinguished_name.push(DnType::CommonName, "middle");
    let middle_key = KeyPair::generate()?;
    let intermediate = middle.signed_by(&middle_key, &issuer)?;
    let below = Issuer::from_params(&middle, &middle_key);
    let key = KeyPair::generate()?;
    let leaf = params()?.signed_by(&key, &below)?.pem();
    let (intermediate, root) = (intermediate.pem(), root.pem());
    let stranger = changed(|_| ())?.0.pem();
    let of = |name: &str, parts: &[&str], fate| (name.to_owned(), parts.concat(), key.serialize_pem(), fate);
    Ok(vec![
        of("without its chain", &[&leaf], Fate::Served),
        of("with its chain", &[&leaf, &intermediate], Fate::Served),
        of("with its root", &[&leaf, &intermediate, &root], Fate::Served),
        of("with its chain in the wrong order", &[&leaf, &root, &intermediate], Fate::Served),
        of("with somebody else's chain", &[&leaf, &stranger], Fate::Served),
        of("with itself ten times", &[leaf.as_str(); 10], Fate::Served),
        of("with the leaf last", &[&root, &intermediate, &leaf], Fate::Refused),
        of("with garbage behind it", &[&leaf, &pem("CERTIFICATE", &[0x30, 3, 2, 1, 5])], Fate::Refused),
        of("with an empty block behind it", &[&leaf, &pem("CERTIFICATE", &[])], Fate::Refused),
        of("with half a block behind it", &[&leaf, &intermediate[..intermediate.len() / 2]], Fate::Refused),
        of("with a private key behind it", &[&leaf, &key.serialize_pem()], Fate::Served),
        of("with a revocation list behind it", &[&leaf, &pem("X509 CRL", &[0x30, 0])], Fate::Served),
    ])
}

/// How the text is written.
fn texts() -> Result<Vec<Row>> {
    let (certificate, key) = changed(|_| ())?;
    let (chain, key) = (certificate.pem(), key.serialize_pem());
    let of = |name: &str, chain: &str, key: &str, fate| (name.to_owned(), chain.to_owned(), key.to_owned(), fate);
    let mut garbled = certificate.der().to_vec();
    garbled[1] ^= 0xff;
    let at = chain.len() / 2;
    Ok(vec![
        of("with carriage returns", &chain.replace('\n', "\r\n"), &key.replace('\n', "\r\n"), Fate::Served),
        of("without the last line's end", chain.trim_end(), key.trim_end(), Fate::Served),
        of("with words around it", &format!("subject=me\n{chain}\nthe end"), &format!("key:\n{key}"), Fate::Served),
        of("the other way around", &key, &chain, Fate::Refused),
        of("empty", "", "", Fate::Refused),
        of("without a key", &chain, "", Fate::Refused),
        of("without a certificate", "", &key, Fate::Refused),
        of("blanks", "  \n\t\n", "  \n", Fate::Refused),
        of("words", "not a certificate", "not a key", Fate::Refused),
        of("with a letter that is none", &format!("{}\u{2603}{}", &chain[..at], &chain[at..]), &key, Fate::Refused),
        of("a certificate request's block", &chain.replace("CERTIFICATE", "CERTIFICATE REQUEST"), &key, Fate::Refused),
        of("a block that is not closed", &chain.replace("-----END CERTIFICATE-----", ""), &key, Fate::Refused),
        of("garbled", &pem("CERTIFICATE", &garbled), &key, Fate::Refused),
        of("nested without end", &pem("CERTIFICATE", &[0x30, 0x80].repeat(5_000)), &key, Fate::Refused),
        of("a length of 2^32", &pem("CERTIFICATE", &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0]), &key, Fate::Refused),
    ])
}

/// What no library here makes.
fn files() -> Vec<Row> {
    let of = |name: &str, chain: String, key: String, fate| (name.to_owned(), chain, key, fate);
    vec![
        of("RSA in PKCS#1", file!("rsa.crt"), file!("rsa-pkcs1.key"), Fate::Served),
        of("P-521 with its parameters", file!("p521.crt"), file!("p521.key"), Fate::Served),
        of("RSA of 2047 bits", file!("rsa-small.crt"), file!("rsa-small.key"), Fate::Refused),
        of("secp256k1", file!("k256.crt"), file!("k256.key"), Fate::Refused),
        of("RSA-PSS", file!("pss.crt"), file!("pss.key"), Fate::Refused),
        of("an encrypted key", file!("rsa.crt"), file!("rsa-pkcs8-encrypted.key"), Fate::Refused),
        of("a key encrypted in PKCS#1", file!("rsa.crt"), file!("rsa-pkcs1-encrypted.key"), Fate::Refused),
        of("for encipherment alone", file!("p256-encipher.crt"), file!("p256.key"), Fate::Refused),
    ]
}
