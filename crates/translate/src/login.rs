//! The secrets by which people log in.
//!
//! Each Gateway has a key of its own for each extension, so that who has one, such as a proxy of another Gateway, cannot make
//! cookies by which somebody is logged in elsewhere. All are made from one [`Seed`], which no proxy sees: nothing has to be
//! stored for an extension, and all replicas make the same.

use std::{fmt, sync::Arc};

use api::{core::Secret, references::CLIENT_SECRET};
use engine::Scope;
use envoy::{resource::Encoded, secret::LoginSecret};
use ir::NsName;

use crate::{
    extension::ExtensionRow,
    tables::input::{LoginSeed, Secrets},
};

/// Longest secret of a client. Providers give some hundred letters at most.
const LONGEST: usize = 4 << 10;

/// What keys of logins are made from: random bytes that nobody guesses.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed(Arc<[u8; Self::BYTES]>);

impl Seed {
    /// How many bytes it has.
    pub const BYTES: usize = 32;

    /// These bytes, if there are as many as there must be.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        Some(Self(Arc::new(bytes.try_into().ok()?)))
    }

    /// Stands for the seed of who serves, where nothing is served and what is made of it is not shown.
    pub fn unserved() -> Self {
        Self(Arc::new([0; Self::BYTES]))
    }

    /// The key of an extension at a Gateway. Neither name has a slash or a line break in its parts, so no two have the same.
    fn key(&self, gateway: &NsName, extension: &NsName) -> [u8; 32] {
        let of = format!("portcullis login\n{gateway}\n{extension}");
        *blake3::keyed_hash(&self.0, of.as_bytes()).as_bytes()
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed([redacted])")
    }
}

/// What is shown to who logs people in, or why nothing can be, in words that do not repeat it.
pub(crate) fn client_secret<'a>(secret: &'a Secret, key: &str) -> Result<&'a [u8], String> {
    let bytes = secret.data.get(key).map_or(&[][..], |bytes| &**bytes);
    if bytes.is_empty() {
        return Err(format!("it has no data {key:?}: store there what the provider gave for clientID"));
    }
    if bytes.len() > LONGEST {
        return Err(format!("{key:?} has {} bytes, and {LONGEST} are the most; correct it", bytes.len()));
    }
    if bytes.iter().any(u8::is_ascii_control) {
        return Err(format!("{key:?} has a line break or another sign that cannot be shown; store it without"));
    }
    Ok(bytes)
}

/// A secret for the proxies of a Gateway. There is none while it is not known: Envoy then answers 503 to who has to log in.
pub(crate) fn secret(scope: &Scope<'_>, gateway: &NsName, extension: &NsName, part: LoginSecret) -> Option<Encoded> {
    match part {
        LoginSecret::Cookies => {
            let key = scope.get::<LoginSeed>(&())?.key(gateway, extension);
            Some(part.resource(extension, &key))
        }
        LoginSecret::Client => {
            let judged = scope.get::<ExtensionRow>(extension)?;
            let id = judged.extension.as_ref().ok()?.provider.client_secret()?;
            let stored = scope.get::<Secrets>(id)?;
            client_secret(&stored, CLIENT_SECRET).ok().map(|bytes| part.resource(extension, bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_gateways_and_no_two_extensions_have_a_key_in_common() {
        let seed = |byte| Seed::new(&[byte; Seed::BYTES]).expect("a seed");
        let (one, other) = (NsName::new("infra", "edge"), NsName::new("apps", "login"));
        let key = seed(1).key(&one, &other);
        assert_eq!(key, seed(1).key(&one, &other));
        for another in [seed(2).key(&one, &other), seed(1).key(&other, &one), seed(1).key(&one, &one)] {
            assert_ne!(key, another);
        }
        assert_eq!((Seed::new(b"short"), format!("{:?}", seed(1)).as_str()), (None, "Seed([redacted])"));
    }

    #[test]
    fn a_secret_that_no_provider_gave_is_refused_in_words_that_do_not_repeat_it() {
        let refused = |text: &str| {
            let secret =
                serde_json::json!({"metadata": {"name": "s", "namespace": "n"}, "stringData": {CLIENT_SECRET: text}});
            let secret: Secret = serde_json::from_value(secret).expect("a Secret");
            client_secret(&secret, CLIENT_SECRET).map(<[u8]>::len)
        };
        assert_eq!(refused("hunter2"), Ok(7));
        for text in ["", "hunter2\n", &"hunter2".repeat(1_000)] {
            assert!(!refused(text).expect_err("it is refused").contains("hunter2"));
        }
    }
}
