//! `basicAuth`: requests come with the name of a user and his password.

use std::collections::BTreeMap;

use api::traffic_policy::{
    TrafficPolicySpec,
    secrets::{SecretKeyReference, USERS},
};
use envoy::slots;
use envoy_types::pb::envoy::{
    config::{
        core::v3::{DataSource, data_source::Specifier},
        route::v3::Route,
    },
    extensions::filters::http::basic_auth::v3::BasicAuthPerRoute,
};
use ir::{NsName, rule::Slot};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Credentials, Refused, SecretReader, SecretStore, Unit,
    secrets::{self, MOST_BYTES},
    spec,
};

/// As the CRD has it.
const MOST_WRITTEN: usize = 256;

/// What Envoy reads alone, and its length: a SHA-1 in base64.
const SHA: &str = "{SHA}";
const HASH: usize = 28;

/// Which users may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BasicAuth {
    /// Everybody.
    Off,
    /// Those in a Secret, which was not read yet.
    In(SecretKeyReference),
    /// Those that this knows.
    By(Slot),
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    users: Option<Vec<String>>,
    secret_ref: Option<SecretKeyReference>,
    disable: Option<Map<String, Value>>,
}

impl Unit for BasicAuth {
    const FIELD: &'static str = "basicAuth";
    const HOLDS_FOR_ANSWERS: bool = true;
    const SLOTS: &'static [&'static str] = &[slots::BASIC_AUTH];
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"users": ["alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="]}"#,
        other: r#"{"users": ["bob:{SHA}0JQeaNqPOBUf+Gph/Fn3xc+fyqI="]}"#,
        merged: None,
        off: Some(r#"{"disable": {}}"#),
        refused: Some(r#"{"users": ["alice:secret"]}"#),
    };
    type Spec = Spec;

    fn read(written: Spec, _: &TrafficPolicySpec) -> Result<Self, Refused> {
        match (written.users, written.secret_ref, written.disable) {
            (Some(lines), None, None) => {
                spec::at_most(&lines, "users", MOST_WRITTEN)?;
                let mut users = Users::default();
                for (index, line) in lines.iter().enumerate() {
                    let refused = |what| Refused::new(&format!("users[{index}]"), what);
                    if line.contains('\n') {
                        return Err(refused("it has a line break; write one user an entry"));
                    }
                    users.add(line).map_err(refused)?;
                }
                users.slot().map(Self::By).map_err(|what| Refused::new("users", what))
            }
            (None, Some(reference), None) if reference.name.is_empty() => {
                Err(Refused::new("secretRef.name", "it is empty; name a Secret"))
            }
            (None, Some(reference), None) => Ok(Self::In(reference)),
            (None, None, Some(_)) => Ok(Self::Off),
            _ => Err(Refused::new("", "it must have one of users, secretRef and disable")),
        }
    }

    fn with_secrets(self, secrets: &dyn SecretReader) -> Result<Self, Refused> {
        match self {
            Self::In(SecretKeyReference { name, namespace, key }) => {
                let id = secrets.permitted(namespace.as_ref(), &name);
                let made = id.and_then(|id| secrets.made(&Credentials::Users(id, key.unwrap_or_else(|| USERS.into()))));
                made.map(Self::By).map_err(|why| Refused::new("secretRef", why))
            }
            Self::Off | Self::By(_) => Ok(self),
        }
    }

    fn slots(&self) -> Vec<Slot> {
        match self {
            Self::By(slot) => vec![slot.clone()],
            Self::Off | Self::In(_) => Vec::new(),
        }
    }

    fn disables(&self) -> bool {
        matches!(self, Self::Off)
    }

    fn authenticates(&self) -> bool {
        matches!(self, Self::By(_))
    }

    fn explain(route: &Route) -> Option<String> {
        let said = spec::said::<BasicAuthPerRoute>(route, slots::BASIC_AUTH)?;
        let Some(Specifier::InlineString(users)) = said.users?.specifier else { return None };
        let users = users.lines().count();
        Some(format!("{users} {}, each with a password", if users == 1 { "user" } else { "users" }))
    }
}

/// What guards by the users in a Secret.
pub(crate) fn stored(secrets: &dyn SecretStore, id: &NsName, key: &str) -> Result<Slot, String> {
    let text = secrets::value(secrets, id, key)?;
    let mut users = Users::default();
    for (line, number) in text.as_str().lines().zip(1..) {
        users.add(line).map_err(|what| text.wrong(&format!("line {number}: {what}")))?;
    }
    users.slot().map_err(|what| text.wrong(&what))
}

/// Users by name, each with the hash of the password.
#[derive(Default)]
struct Users<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Users<'a> {
    /// Takes a line of an htpasswd file. What is wrong with it is told without its text.
    fn add(&mut self, line: &'a str) -> Result<(), &'static str> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let Some((user, hash)) = line.split_once(':') else {
            return Err("it has no colon; write USER:{SHA}HASH, as `htpasswd -s` does");
        };
        if user.is_empty() {
            return Err("it names no user; write USER:{SHA}HASH, as `htpasswd -s` does");
        }
        let Some(digest) = hash.strip_prefix(SHA) else {
            return Err("the password is not hashed as {SHA}, which Envoy reads alone; use `htpasswd -s`");
        };
        if digest.len() != HASH {
            return Err("the hash behind {SHA} has not 28 characters; use `htpasswd -s`");
        }
        match self.0.insert(user, hash) {
            Some(before) if before != hash => {
                Err("the user is named before with another password; remove one of both lines")
            }
            _ => Ok(()),
        }
    }

    /// What guards by them.
    fn slot(self) -> Result<Slot, String> {
        if self.0.is_empty() {
            return Err("it names no user, so nobody could ask; add one".into());
        }
        let lines: Vec<_> = self.0.into_iter().map(|(user, hash)| format!("{user}:{hash}")).collect();
        let text = lines.join("\n");
        if text.len() > MOST_BYTES {
            return Err(format!("its users take {} bytes, and {MOST_BYTES} are the most; leave some out", text.len()));
        }
        let users = DataSource { specifier: Some(Specifier::InlineString(text)), ..DataSource::default() };
        Ok(slots::slot(slots::BASIC_AUTH, &BasicAuthPerRoute { users: Some(users) }))
    }
}
