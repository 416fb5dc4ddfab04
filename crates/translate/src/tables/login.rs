//! What the keys are made from that prove logins.
//!
//! Each Gateway has a key of its own for each extension, so that who has one, such as a proxy of another Gateway, cannot make
//! cookies by which somebody is logged in elsewhere. All are made from one [`Seed`], which no proxy sees: nothing has to be
//! stored for an extension, and all replicas make the same.

use std::{fmt, sync::Arc};

use ir::{NsName, settings::LOGIN_SEED_BYTES};

/// What keys of logins are made from: random bytes that nobody guesses.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed(Arc<[u8; LOGIN_SEED_BYTES]>);

impl Seed {
    /// These bytes, if there are as many as there must be.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        Some(Self(Arc::new(bytes.try_into().ok()?)))
    }

    /// Stands for the seed of who serves, where nothing is served and what is made of it is not shown.
    pub fn unserved() -> Self {
        Self(Arc::new([0; LOGIN_SEED_BYTES]))
    }

    /// The key of an extension at a Gateway. Neither name has a slash or a line break in its parts, so no two have the same.
    pub(crate) fn key(&self, gateway: &NsName, extension: &NsName) -> [u8; 32] {
        let of = format!("portcullis login\n{gateway}\n{extension}");
        *blake3::keyed_hash(&self.0, of.as_bytes()).as_bytes()
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_gateways_and_no_two_extensions_have_a_key_in_common() {
        let seed = |byte| Seed::new(&[byte; LOGIN_SEED_BYTES]).expect("a seed");
        let (one, other) = (NsName::new("infra", "edge"), NsName::new("apps", "login"));
        let key = seed(1).key(&one, &other);
        assert_eq!(key, seed(1).key(&one, &other));
        for another in [seed(2).key(&one, &other), seed(1).key(&other, &one), seed(1).key(&one, &one)] {
            assert_ne!(key, another);
        }
        assert_eq!((Seed::new(b"short"), format!("{:?}", seed(1)).as_str()), (None, "Seed([redacted])"));
    }
}
