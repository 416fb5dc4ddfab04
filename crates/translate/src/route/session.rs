//! Reading how sessions keep their backend (Gateway API `SessionPersistence`).

use std::sync::Arc;

use api::shared::{CookieLifetimeType, SessionPersistence as ApiSession, SessionPersistenceType};
use ir::{
    Problem, Reason,
    rule::{SessionCarrier, SessionPersistence},
};
use validate::Invalid;

use super::{at, fault};

/// The header of a session whose author names none: clients must know it to send it again.
const SESSION_HEADER: &str = "portcullis-session";

/// Reads it of the rule at `field`.
pub(super) fn read(written: &ApiSession, field: &str) -> Result<SessionPersistence, Problem> {
    let field = format!("{field}.sessionPersistence");
    let name = written.session_name.as_deref().filter(|name| !name.is_empty());
    let lifetime = written.cookie_config.as_ref().map(|config| &config.lifetime_type);
    let absolute = written.absolute_timeout.as_ref().map(|duration| validate::duration::parse(&duration.0)).transpose();
    let absolute = absolute.map_err(at(format_args!("{field}.absoluteTimeout")))?;
    let carrier = match &written.r#type {
        SessionPersistenceType::Cookie => {
            name.map_or(Ok(()), validate::name::cookie).map_err(at(format_args!("{field}.sessionName")))?;
            let ttl = match (lifetime, absolute) {
                (None | Some(CookieLifetimeType::Session), None) => None,
                (None | Some(CookieLifetimeType::Session), Some(_)) => {
                    let message = "a session cookie ends with the browser, not after a time; set \
                                   cookieConfig.lifetimeType to Permanent, or remove absoluteTimeout";
                    return Err(fault(Reason::UnsupportedValue, format_args!("{field}.absoluteTimeout"), message));
                }
                (Some(CookieLifetimeType::Permanent), Some(ttl)) if !ttl.is_zero() => Some(ttl),
                (Some(CookieLifetimeType::Permanent), _) => {
                    let message = "a permanent cookie needs absoluteTimeout above zero; set it";
                    return Err(fault(
                        Reason::UnsupportedValue,
                        format_args!("{field}.cookieConfig.lifetimeType"),
                        message,
                    ));
                }
                (Some(CookieLifetimeType::Unknown(other)), _) => {
                    let invalid = Invalid::new(other, "it is not a lifetime of a cookie", "use Session or Permanent");
                    return Err(at(format_args!("{field}.cookieConfig.lifetimeType"))(invalid));
                }
            };
            SessionCarrier::Cookie { name: name.map(Arc::from), path: "/".into(), ttl }
        }
        SessionPersistenceType::Header => {
            if absolute.is_some() {
                let message = "Envoy cannot end a session that travels in a header; remove it, or use a cookie";
                return Err(fault(Reason::UnsupportedValue, format_args!("{field}.absoluteTimeout"), message));
            }
            let name = validate::name::session_header(name.unwrap_or(SESSION_HEADER))
                .map_err(at(format_args!("{field}.sessionName")))?;
            SessionCarrier::Header { name: name.into() }
        }
        SessionPersistenceType::Unknown(other) => {
            let invalid = Invalid::new(other, "it is no way to carry a session", "use Cookie or Header");
            return Err(at(format_args!("{field}.type"))(invalid));
        }
    };
    Ok(SessionPersistence { carrier })
}
