//! Tokens of `ServiceAccount`s, good ones and others.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use portcullis_tests::api_server::ApiServer;
use rcgen::{KeyPair, SigningKey as _};
use serde_json::json;

/// Makes a `ServiceAccount`.
pub(crate) async fn account(server: &ApiServer, namespace: &str, name: &str) -> Result<()> {
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.to_owned());
    Api::namespaced(server.client().await?, namespace).create(&PostParams::default(), &account).await?;
    Ok(())
}

/// A token that is good for as long as a Secret is there.
pub(crate) struct Bound {
    pub(crate) token: String,
    secrets: Api<Secret>,
    secret: String,
}

impl Bound {
    pub(crate) async fn new(server: &ApiServer, namespace: &str, account: &str, secret: &str) -> Result<Self> {
        let client = server.client().await?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let mut object = Secret::default();
        object.metadata.name = Some(secret.to_owned());
        let object = secrets.create(&PostParams::default(), &object).await?;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec![cluster::identity::tokens::AUDIENCE.to_owned()],
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Secret".to_owned()),
                    name: Some(secret.to_owned()),
                    uid: object.metadata.uid,
                }),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
        let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
        let token = answer.status.context("no token")?.token;
        Ok(Self { token, secrets, secret: secret.to_owned() })
    }

    /// From now on the token is not good any more.
    pub(crate) async fn revoke(&self) -> Result<()> {
        self.secrets.delete(&self.secret, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// A token that the API server could have made, which expires at `expires`.
pub(crate) async fn expiring(
    server: &ApiServer,
    namespace: &str,
    account: &str,
    expires: SystemTime,
) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client().await?, namespace);
    let uid = accounts.get(account).await?.metadata.uid;
    let expires = expires.duration_since(SystemTime::UNIX_EPOCH)?;
    let begins = expires.saturating_sub(Duration::from_hours(2));
    let claims = json!({
        "iss": "https://kubernetes.default.svc",
        "sub": format!("system:serviceaccount:{namespace}:{account}"),
        "aud": [cluster::identity::tokens::AUDIENCE],
        "exp": expires.as_secs(),
        "nbf": begins.as_secs(),
        "iat": begins.as_secs(),
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account, "uid": uid}},
    });
    let encode = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&json!({"alg": "ES256", "typ": "JWT"})), encode(&claims));
    let key = KeyPair::from_pem(&std::fs::read_to_string(server.folder().join("service-accounts.key"))?)?;
    let signature = plain(&key.sign(signed.as_bytes())?)?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// The two numbers of an ECDSA signature in DER, 32 bytes each.
fn plain(der: &[u8]) -> Result<Vec<u8>> {
    ensure!(der.len() > 8 && der[0] == 0x30 && usize::from(der[1]) == der.len() - 2, "no signature");
    let (mut rest, mut plain) = (&der[2..], Vec::new());
    for _ in 0..2 {
        let length = usize::from(rest[1]);
        let (number, after) = rest[2..].split_at(length);
        let number = &number[number.iter().take_while(|&&byte| byte == 0).count()..];
        plain.extend(std::iter::repeat_n(0, 32 - number.len()));
        plain.extend(number);
        rest = after;
    }
    Ok(plain)
}
