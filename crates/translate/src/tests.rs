//! What the whole translation does, through its door.

mod attachment;
mod bounds;
mod capacity;
mod changes;
mod delegation;
mod delegation_policy;
mod explain;
mod faults;
mod gateways;
mod listeners;
mod policies;
mod properties;
mod proxies;
mod regexes;
mod replacement;
mod scene;
mod shares;
mod tenant;
mod tree;
mod wide_policies;
mod world;

use api::Object;
use serde_json::Value;

/// Decodes an object as a source would.
pub(crate) fn object(value: Value) -> Object {
    api::decode(value).expect("a sound object").object
}

/// Two certificates with their keys, RSA-free and made once.
pub(crate) fn certificates() -> &'static [(String, String); 2] {
    static MADE: std::sync::OnceLock<[(String, String); 2]> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        ["a.example.com", "example.com"].map(|name| {
            let made = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
            (made.cert.pem(), made.signing_key.serialize_pem())
        })
    })
}
