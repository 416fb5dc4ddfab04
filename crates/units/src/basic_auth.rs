//! `basicAuth`: requests come with the name of a user and his password.

use api::traffic_policy::secrets::{SecretKeyReference, USERS};
use envoy::slots;
use envoy_types::pb::envoy::{
    config::{core::v3::data_source::Specifier, route::v3::Route},
    extensions::filters::http::basic_auth::v3::BasicAuthPerRoute,
};
use ir::rule::Slot;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Others, Refused, Unit, htpasswd::Users, secrets::Credentials, spec};

/// As the CRD has it.
const MOST_WRITTEN: usize = 256;

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

    fn read(written: Spec) -> Result<Self, Refused> {
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

    fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
        let Self::In(SecretKeyReference { name, namespace, key }) = self else { return Ok(None) };
        let key = key.clone().unwrap_or_else(|| USERS.into());
        let id = others.secrets.permitted(namespace.as_ref(), name);
        let made = id.and_then(|id| others.secrets.made(&Credentials::Users(id, key)));
        made.map(Self::By).map(Some).map_err(|why| Refused::new("secretRef", why))
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
