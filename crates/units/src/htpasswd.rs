//! Users with their passwords, in lines of htpasswd.

use std::collections::BTreeMap;

use envoy::slots;
use envoy_types::pb::envoy::{
    config::core::v3::{DataSource, data_source::Specifier},
    extensions::filters::http::basic_auth::v3::BasicAuthPerRoute,
};
use ir::{NsName, rule::Slot};

use super::secret_store::{self, MOST_BYTES, SecretStore};

/// What Envoy reads alone, and its length: a SHA-1 in base64.
const SHA: &str = "{SHA}";
const HASH: usize = 28;

/// What guards by the users in a Secret.
pub(crate) fn stored(secrets: &dyn SecretStore, id: &NsName, key: &str) -> Result<Slot, String> {
    let text = secret_store::value(secrets, id, key)?;
    let mut users = Users::default();
    for (line, number) in text.as_str().lines().zip(1..) {
        users.add(line).map_err(|what| text.wrong(&format!("line {number}: {what}")))?;
    }
    users.slot().map_err(|what| text.wrong(&what))
}

/// Users by name, each with the hash of the password.
#[derive(Default)]
pub(crate) struct Users<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Users<'a> {
    /// Takes a line of an htpasswd file. What is wrong with it is told without its text.
    pub(crate) fn add(&mut self, line: &'a str) -> Result<(), &'static str> {
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
    pub(crate) fn slot(self) -> Result<Slot, String> {
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
