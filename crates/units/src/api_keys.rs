//! Keys of clients that stand in Secrets.

use std::{collections::BTreeMap, sync::Arc};

use api::{core::Secret, meta::StringMap};
use envoy::{extensions::programs, slots};
use envoy_types::pb::envoy::extensions::filters::http::api_key_auth::v3::{
    ApiKeyAuthPerRoute, Credential, Forwarding, KeySource as EnvoySource,
};
use ir::{NsName, rule::Slot};

use super::secret_store::{MOST_BYTES, SecretStore, find};

/// Most Secrets that a message names.
const MOST_NAMED: usize = 3;

/// Most keys of a unit. Each Envoy route that it holds for has a copy of all of them.
pub(crate) const MOST_KEYS: usize = 10_000;

/// Keys in Secrets, and how requests show them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeys {
    pub(crate) of: Of,
    pub(crate) shown: Shown,
}

/// The Secrets that have keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Of {
    /// This one.
    Secret(NsName),
    /// Those of a namespace with these labels.
    Labelled(Arc<str>, StringMap),
}

/// How requests show a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Shown {
    /// Where it is looked for, one after the other.
    pub(crate) sources: Vec<(Place, String)>,
    pub(crate) forwards: bool,
    pub(crate) client_header: Option<String>,
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Place {
    Header,
    Query,
    Cookie,
}

impl Shown {
    fn is_in_queries(&self) -> bool {
        self.sources.iter().any(|(place, _)| *place == Place::Query)
    }

    /// What takes keys out of requests, where the filter that reads them may not: it would write queries anew.
    pub(crate) fn hiding_slot(&self) -> Option<Slot> {
        let part = |(place, name): &(Place, String)| match place {
            Place::Header => programs::Shown::Header(name.clone()),
            Place::Query => programs::Shown::Query(name.clone()),
            Place::Cookie => programs::Shown::Cookie(name.clone()),
        };
        let parts = || self.sources.iter().map(part).collect::<Vec<_>>();
        (!self.forwards && self.is_in_queries()).then(|| programs::hides(slots::API_KEY_AUTH_HIDE, &parts()))
    }
}

impl ApiKeys {
    /// What guards by the keys that are there now, or why nothing can.
    pub(crate) fn slot(&self, secrets: &dyn SecretStore) -> Result<Slot, String> {
        let secrets = match &self.of {
            Of::Secret(id) => vec![find(secrets, id)?],
            Of::Labelled(namespace, labels) => {
                let secrets = secrets.labelled(namespace, labels);
                if secrets.is_empty() {
                    let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                    return Err(format!(
                        "no Secret of this namespace has {}, and those of others are not selected, whatever a ReferenceGrant \
                         allows; label one here, correct the labels, or name one by secretRef",
                        labels.join(" and ")
                    ));
                }
                secrets
            }
        };
        let credentials = credentials(&secrets)?;
        let source = |(place, name): &(Place, String)| match place {
            Place::Header => EnvoySource { header: name.clone(), ..EnvoySource::default() },
            Place::Query => EnvoySource { query: name.clone(), ..EnvoySource::default() },
            Place::Cookie => EnvoySource { cookie: name.clone(), ..EnvoySource::default() },
        };
        let message = ApiKeyAuthPerRoute {
            credentials,
            key_sources: self.shown.sources.iter().map(source).collect(),
            forwarding: Some(Forwarding {
                header: self.shown.client_header.clone().unwrap_or_default(),
                hide_credentials: !self.shown.forwards && !self.shown.is_in_queries(),
            }),
            allowed_clients: Vec::new(),
        };
        Ok(slots::slot(slots::API_KEY_AUTH, &message))
    }
}

/// The keys of all clients: a Secret's keys name clients, and what stands there is the client's key. A client may have one in
/// each Secret. What is wrong is told without any key.
fn credentials(secrets: &[Arc<Secret>]) -> Result<Vec<Credential>, String> {
    // Each key with the client, and the Secret that has it.
    let mut known: BTreeMap<&str, (&str, &Secret)> = BTreeMap::new();
    let mut bytes = 0;
    for secret in secrets {
        let refused = |what: String| format!("Secret {}/{}{what}", secret.namespace, secret.name);
        for (client, value) in secret.data.0.iter().filter(|(_, value)| !value.is_empty()) {
            let key = std::str::from_utf8(value).ok().filter(|key| can_be_shown(key)).ok_or_else(|| {
                refused(format!(
                    ", {client:?}: no request can show such a key; store text without blanks at its ends, line breaks and \
                     other control characters (`printf`, not `echo`)"
                ))
            })?;
            match known.insert(key, (client, secret)) {
                Some((other, of)) if other != &**client => {
                    return Err(refused(format!(
                        ": clients {other:?} (Secret {}/{}) and {client:?} have the same key, so that nobody could tell \
                         them apart; give one of them another",
                        of.namespace, of.name
                    )));
                }
                Some(_) => {}
                None => bytes += key.len() + client.len(),
            }
            // Before the rest is read, which may be much more.
            if known.len() > MOST_KEYS {
                return Err(refused(format!(": there are more keys with it than {MOST_KEYS}; leave some out")));
            }
            if bytes > MOST_BYTES {
                let what = "the keys and their clients take more bytes with it than";
                return Err(refused(format!(": {what} {MOST_BYTES}; leave some out")));
            }
        }
    }
    if known.is_empty() {
        let names = secrets.iter().take(MOST_NAMED);
        let names: Vec<_> = names.map(|secret| format!("{}/{}", secret.namespace, secret.name)).collect();
        let more = if secrets.len() > MOST_NAMED { " and others" } else { "" };
        return Err(format!("Secret {}{more}: there is no key, so nobody could ask; store one", names.join(", ")));
    }
    let mut credentials: Vec<_> =
        known.into_iter().map(|(key, (client, _))| Credential { key: key.into(), client: client.into() }).collect();
    credentials.sort_unstable_by(|a, b| (&a.client, &a.key).cmp(&(&b.client, &b.key)));
    Ok(credentials)
}

/// Whether a request can have a key: nothing that is cut off or refused on the way.
fn can_be_shown(key: &str) -> bool {
    key.trim() == key && !key.contains(char::is_control)
}
