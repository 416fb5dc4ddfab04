//! What a token says of itself (RFC 7519), which is a claim until the API server confirms it.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ir::NsName;
use serde::Deserialize;

/// What the name of a `ServiceAccount`'s user begins with.
const PREFIX: &str = "system:serviceaccount:";

/// The claims of a `ServiceAccount`'s token that matter here.
#[derive(Deserialize)]
pub(super) struct Claims {
    sub: String,
    aud: Audiences,
    exp: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Many(Vec<String>),
}

impl Claims {
    /// The claims of a JSON Web Token, as tokens of `ServiceAccount`s are. Its signature is not looked at.
    pub(super) fn of(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
            return None;
        };
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    pub(super) fn is_for(&self, audience: &str) -> bool {
        match &self.aud {
            Audiences::One(one) => one == audience,
            Audiences::Many(many) => many.iter().any(|one| one == audience),
        }
    }

    pub(super) fn account(&self) -> Option<NsName> {
        account(&self.sub)
    }

    pub(super) fn expires(&self) -> SystemTime {
        // What is beyond the end of time does not expire, so it is asked about by the rhythm alone.
        let distant = Duration::from_hours(24 * 365 * 100);
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.exp)).unwrap_or(SystemTime::UNIX_EPOCH + distant)
    }
}

/// The `ServiceAccount` that a user's name stands for.
pub(super) fn account(user: &str) -> Option<NsName> {
    let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
    let is_name = |text: &str| !text.is_empty() && text.len() <= 253 && !text.contains([':', '/']);
    (is_name(namespace) && is_name(name)).then(|| NsName::new(namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_a_service_account_has_a_namespace_and_a_name() {
        assert_eq!(account("system:serviceaccount:infra:edge"), Some(NsName::new("infra", "edge")));
        for user in [
            "infra:edge",
            "system:serviceaccount:infra",
            "system:serviceaccount::edge",
            "system:node:a",
            "system:serviceaccount:infra:edge:more",
            "system:serviceaccount:in/fra:edge",
        ] {
            assert_eq!(account(user), None, "{user}");
        }
    }

    #[test]
    fn what_is_no_token_has_no_claims() {
        let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
        let good = part(r#"{"sub":"a","aud":"x","exp":1}"#);
        assert!(Claims::of(&format!("h.{good}.s")).is_some());
        for token in
            ["", "a", "a.b", "a.b.c", "a.b.c.d", &good, &format!("h.{good}.s.t"), &format!("h.{}.s", part("{}"))]
        {
            assert!(Claims::of(token).is_none(), "{token}");
        }
        let many = Claims::of(&format!("h.{}.s", part(r#"{"sub":"a","aud":["x","y"],"exp":18446744073709551615}"#)));
        let many = many.expect("claims");
        assert!(many.is_for("y") && !many.is_for("z"));
        assert!(many.expires() > SystemTime::UNIX_EPOCH + Duration::from_hours(24 * 365 * 60));
    }
}
