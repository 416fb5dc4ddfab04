//! Who is who for an API server of its own: an authority, the server's certificate and its administrator's.

use std::path::Path;

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};

/// What the API server reads from its folder, by flag.
pub(super) const FILES: [(&str, &str); 5] = [
    ("--client-ca-file", "ca.crt"),
    ("--tls-cert-file", "server.crt"),
    ("--tls-private-key-file", "server.key"),
    ("--service-account-key-file", "service-accounts.pub"),
    ("--service-account-signing-key-file", "service-accounts.key"),
];

/// The authority that the server and its clients trust.
#[derive(Debug)]
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// A new one.
    pub(super) fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new([])?;
        params.distinguished_name.push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// Certificate and key for `user` of `group`, and for `names` if it serves. Both in PEM.
    fn issue(&self, user: &str, group: &str, names: &[&str]) -> Result<(String, String)> {
        let key = KeyPair::generate()?;
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        Ok((params.signed_by(&key, &self.issuer)?.pem(), key.serialize_pem()))
    }

    /// Writes [`FILES`] to `folder`.
    pub(super) fn write_server_files(&self, folder: &Path) -> Result<()> {
        // The names by which an API server is known in a cluster, and its first Service address.
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc", "10.0.0.1"];
        let (certificate, key) = self.issue("kube-apiserver", "servers", &names)?;
        let tokens = KeyPair::generate()?;
        let files = [
            ("ca.crt", &self.certificate),
            ("server.crt", &certificate),
            ("server.key", &key),
            ("service-accounts.pub", &tokens.public_key_pem()),
            ("service-accounts.key", &tokens.serialize_pem()),
        ];
        for (name, content) in files {
            std::fs::write(folder.join(name), content)?;
        }
        Ok(())
    }

    /// The kubeconfig of an administrator.
    pub(super) fn admin_kubeconfig(&self, server: &str) -> Result<String> {
        let (certificate, key) = self.issue("admin", "system:masters", &[])?;
        let user = json!({
            "client-certificate-data": STANDARD.encode(certificate),
            "client-key-data": STANDARD.encode(key),
        });
        self.kubeconfig(server, &user)
    }

    /// The kubeconfig of whoever has this bearer token.
    pub(super) fn token_kubeconfig(&self, server: &str, token: &str) -> Result<String> {
        self.kubeconfig(server, &json!({ "token": token }))
    }

    fn kubeconfig(&self, server: &str, user: &Value) -> Result<String> {
        let cluster = json!({ "server": server, "certificate-authority-data": STANDARD.encode(&self.certificate) });
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "test", "cluster": cluster }],
            "users": [{ "name": "test", "user": user }],
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
            "current-context": "test",
        });
        Ok(serde_json::to_string_pretty(&kubeconfig)?)
    }
}
