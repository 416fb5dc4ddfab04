//! Units: what a TrafficPolicy says, each field by itself.
//!
//! A unit is merged and judged by itself: where two policies apply, each of their units may hold or not. All that a unit is
//! stands in one file here, behind the trait [`Unit`], and in one line of [the list](AnyUnit) below; whoever reads, merges,
//! places or explains units knows the list. [`UrlRewrite`] alone is known to others: a RewritePolicy makes one too, and its
//! expressions have a price.
//!
//! A unit stands in one of two places. Either it is part of what a route does (`SLOTS` is empty, and [`Unit::apply`] says
//! what), or it stands in slots of the constant filter chain ([`Unit::slots`]), on a route as on a virtual host or a route
//! configuration. Envoy shall never merge what several of these say, so a unit always writes all of its slots, and those
//! that it does not need are switched off. A unit without any is one that is switched off.
//!
//! Of what several levels say of one unit, one holds as a whole, or two are merged deeply: [`Unit::over`] says what becomes of
//! them. Which of both it is, and who is preferred, is not known here.

mod acl;
mod api_key_auth;
mod api_keys;
mod auto_host_rewrite;
mod basic_auth;
mod buffer;
mod compression;
mod cors;
mod csrf;
pub mod downstream;
mod ext_auth;
mod ext_proc;
pub mod extension;
mod fault_injection;
mod global_rate_limit;
mod header_modifiers;
mod htpasswd;
mod internal_redirect;
mod jwt_auth;
mod known;
mod local_rate_limit;
mod mutations;
mod oauth2;
mod policy;
mod rbac;
mod request_mirror;
mod retry;
mod secret_store;
mod secrets;
mod shared;
mod spec;
mod stat_prefix;
mod timeouts;
mod tracing;
mod transformation;
pub mod upstream;
mod url_rewrite;

use std::fmt;

use api::traffic_policy::TrafficPolicySpec;
use envoy::slots;
use envoy_types::pb::envoy::config::route::v3::Route;
use ir::{Problem, Reason, Severity, route::Handling, rule::Slot};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use cors::cors;
#[cfg(any(test, feature = "testing"))]
pub use extension::Everybody;
pub use extension::{Extension, ExtensionReader};
pub use policy::{extensions, read};
pub use secret_store::SecretStore;
#[cfg(any(test, feature = "testing"))]
pub use secrets::Everywhere;
pub use secrets::{Credentials, SecretReader};
pub use shared::SharedUnit;
pub use url_rewrite::UrlRewrite;

/// A field of a TrafficPolicy that is served.
pub trait Unit: Clone + fmt::Debug + Eq + Sized {
    /// The field, as the spec writes it; with a dot where it stands in a group of fields that are merged apart.
    const FIELD: &'static str;
    /// Whether it means anything where a rule answers by itself: what Envoy does in a filter does, what it does to choose
    /// a backend does not. What policies of Gateways say of a route's action reaches such rules in slots alone.
    const HOLDS_FOR_ANSWERS: bool;
    /// The kinds of objects for which it can be set, as the CRD has it.
    const TARGETS: &'static [&'static str] = &["Gateway", "GRPCRoute", "HTTPRoute", "ListenerSet"];
    /// All slots of the filter chain in which it can stand; none of a unit that is part of what a route does.
    const SLOTS: &'static [&'static str] = &[];
    /// What deep merging does to it. Any but `Whole` needs [`Unit::over`].
    const DEEP: Deep = Deep::Whole;
    /// Whether policies of one level that say it are merged deeply, the first preferred; of others the first holds.
    const ADDS_UP: bool = false;
    /// Values by which tests show how it is merged.
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: Samples;
    /// What may be written. Its Deserialize refuses fields that it does not know.
    type Spec: DeserializeOwned;

    /// Reads what is written, which is the same in whatever policy it is.
    fn read(written: Self::Spec) -> Result<Self, Refused>;

    /// Refuses it beside what else its policy says.
    fn beside(&self, _: &TrafficPolicySpec) -> Result<(), Refused> {
        Ok(())
    }

    /// The same with what stands in the Secrets and with the providers that it names, which a unit that was read always is
    /// asked for; none of a unit that names none. Or why one of these does not hold what it must, or cannot be asked.
    fn with_others(&self, _: &Others<'_>) -> Result<Option<Self>, Refused> {
        Ok(None)
    }

    /// What it says in slots, each complete; the others of `SLOTS` are switched off.
    fn slots(&self) -> Vec<Slot> {
        Vec::new()
    }

    /// What it writes for all routes of a Gateway or a listener: every slot of its own. `supplier` is the name of the policy
    /// that it is of, or of the most preferred.
    fn wide_slots(&self, _supplier: &str) -> Vec<Slot> {
        all_slots(self)
    }

    /// Whether it switches off what others say.
    fn disables(&self) -> bool {
        !Self::SLOTS.is_empty() && self.slots().is_empty()
    }

    /// Whether no request passes it of which nobody knows who sends it. [`AnyUnit::AUTHENTICATING`] names the fields.
    fn authenticates(&self) -> bool {
        false
    }

    /// Whether whoever it asks may set any header of a request, also those that no client could send.
    fn forges(&self) -> bool {
        false
    }

    /// What becomes of it where another level says `other`, both are merged deeply and this one is preferred. None where it
    /// stands as a whole, and nothing of the other holds: so it is wherever either of both switches off.
    fn over(&self, _other: &Self) -> Option<Self> {
        None
    }

    /// Why more has come together by merging than can be served.
    fn excess(&self) -> Option<Refused> {
        None
    }

    /// Has a rule do what it says apart from slots. False where the rule's own fields say all of it, so that nothing of the
    /// unit holds, nor of what it says in slots.
    fn apply(&self, _rule: &mut Handling) -> bool {
        true
    }

    /// What its author should know, though it is served at these Gateways.
    fn warning(&self, _: &dyn Gateways) -> Option<Refused> {
        None
    }

    /// What an Envoy route does of it, in words; none if nothing. Of slots, the route has those that hold for it, and none
    /// that are switched off.
    fn explain(route: &Route) -> Option<String>;
}

/// The Gateways to which a policy applies, as far as warnings depend on them. Asked only of units that do, since who asks is
/// woken by the answer.
pub trait Gateways {
    /// Whether each of them sends spans to somebody.
    fn are_traced(&self) -> bool;
    /// Whether one of them [takes addresses from requests](ir::downstream::Client::takes_addresses).
    fn take_addresses(&self) -> bool;
}

/// What deep merging does to what two levels say of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deep {
    /// Nothing: the preferred one holds.
    Whole,
    /// Each of its fields is that of the preferred one, or else of the other. A list is one field, unless it has keys.
    Leaves,
    /// What the other does is done, and then what the preferred one does.
    Operations,
}

/// Values of a unit, as they are written in its field, in JSON.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// One that does something.
    pub one: &'static str,
    /// Another one.
    pub other: &'static str,
    /// What is the same as the first over the second, and as the second over the first; none of a unit that holds as a whole.
    pub merged: Option<(&'static str, &'static str)>,
    /// One that switches off; none of a unit that cannot say so.
    pub off: Option<&'static str>,
    /// One that can be written and is refused; none where each is served.
    pub refused: Option<&'static str>,
}

/// What a unit writes: every slot of its own.
fn all_slots<U: Unit>(unit: &U) -> Vec<Slot> {
    complete::<U>(unit.slots())
}

/// These and every other slot of a unit.
fn complete<U: Unit>(mut written: Vec<Slot>) -> Vec<Slot> {
    let unused = U::SLOTS.iter().filter(|name| written.iter().all(|slot| slot.name != **name));
    let unused: Vec<_> = unused.map(|name| slots::off(name)).collect();
    written.extend(unused);
    written
}

/// What a policy says of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedUnit {
    /// The unit's field.
    pub field: &'static str,
    /// The unit, or why it cannot be served.
    pub unit: Result<SharedUnit, Box<Problem>>,
}

impl ParsedUnit {
    /// The unit to which a field of a policy belongs, as a problem names it; none if to all of them.
    pub fn unit_at(field: &str) -> Option<&'static str> {
        let path = field.strip_prefix("spec.")?;
        AnyUnit::FIELDS.iter().copied().find(|unit| {
            path.strip_prefix(unit)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.') || rest.starts_with('['))
        })
    }
}

/// Why a unit cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where, within the unit, such as `pathRegex.pattern`; empty for all of it.
    pub field: String,
    /// What is wrong, and the remedy.
    pub message: String,
}

impl Refused {
    fn new(field: &str, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }

    /// What turns a refused value at `field` into this.
    fn at(field: impl fmt::Display) -> impl FnOnce(validate::Invalid) -> Self {
        move |invalid| Self::new(&field.to_string(), invalid.to_string())
    }

    /// The same of a whole policy; `unit` is the unit's field.
    fn problem(self, severity: Severity, reason: Reason, unit: &str) -> Problem {
        let dot = if self.field.is_empty() || self.field.starts_with('[') { "" } else { "." };
        Problem::new(severity, reason, format!("spec.{unit}{dot}{}", self.field), self.message)
    }
}

macro_rules! units {
    ($($(#[doc = $doc:literal])+ $unit:ident: $module:ident;)+) => {
        /// Any unit. They count, and are told, in this order. Each is behind a pointer: a few are large, and there are many of
        /// the small ones.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum AnyUnit {
            $($(#[doc = $doc])+ $unit(Box<$module::$unit>),)+
        }

        impl AnyUnit {
            /// The fields, as the spec writes them.
            pub const FIELDS: &'static [&'static str] = &[$(<$module::$unit as Unit>::FIELD),+];

            /// Each unit: its field, `HOLDS_FOR_ANSWERS`, `TARGETS` and `SLOTS`.
            #[cfg(test)]
            const ALL: &'static [(&'static str, bool, &'static [&'static str], &'static [&'static str])] = &[$((
                <$module::$unit as Unit>::FIELD,
                <$module::$unit as Unit>::HOLDS_FOR_ANSWERS,
                <$module::$unit as Unit>::TARGETS,
                <$module::$unit as Unit>::SLOTS,
            )),+];

            /// The fields that can have requests authenticated, in this order.
            pub const AUTHENTICATING: &'static [&'static str] = &["basicAuth", "apiKeyAuth", "extAuth", "jwtAuth", "oauth2"];

            /// What deep merging does to each unit, in the order of `FIELDS`.
            pub const DEEP: &'static [Deep] = &[$(<$module::$unit as Unit>::DEEP),+];

            /// The place of a field in `FIELDS`.
            pub fn place(field: &str) -> Option<usize> {
                Self::FIELDS.iter().position(|known| *known == field)
            }

            /// What deep merging does to the unit of a field.
            pub fn deep_at(field: &str) -> Option<Deep> {
                Self::place(field).map(|at| Self::DEEP[at])
            }

            /// The kinds of objects for which each unit can be set, in the order of `FIELDS`.
            const TARGETS: &'static [&'static [&'static str]] = &[$(<$module::$unit as Unit>::TARGETS),+];

            /// The kinds of objects for which the unit of a field can be set.
            pub fn targets_at(field: &str) -> &'static [&'static str] {
                Self::place(field).map_or(&[], |at| Self::TARGETS[at])
            }

            /// Whether the unit of a field stands in slots of the filter chain.
            pub fn is_slot_at(field: &str) -> bool {
                match field {
                    $(<$module::$unit as Unit>::FIELD => !<$module::$unit as Unit>::SLOTS.is_empty(),)+
                    _ => false,
                }
            }

            /// The samples of each unit, in the order of `FIELDS`.
            #[cfg(any(test, feature = "testing"))]
            pub const SAMPLES: &'static [Samples] = &[$(<$module::$unit as Unit>::SAMPLES),+];

            /// The field, as the spec writes it.
            pub fn field(&self) -> &'static str {
                match self {
                    $(Self::$unit(_) => <$module::$unit as Unit>::FIELD,)+
                }
            }

            /// As [`Unit::HOLDS_FOR_ANSWERS`].
            pub fn holds_for_answers(&self) -> bool {
                match self {
                    $(Self::$unit(_) => <$module::$unit as Unit>::HOLDS_FOR_ANSWERS,)+
                }
            }

            /// What it writes in slots of the filter chain of a route: every slot of its own. None of a unit that is part
            /// of what a route does.
            pub fn slots(&self) -> Vec<Slot> {
                match self {
                    $(Self::$unit(unit) => all_slots(&**unit),)+
                }
            }

            /// As [`Unit::wide_slots`].
            pub fn wide_slots(&self, supplier: &str) -> Vec<Slot> {
                match self {
                    $(Self::$unit(unit) => unit.wide_slots(supplier),)+
                }
            }

            /// Whether it stands in slots of the filter chain, or else is part of what a route does.
            pub fn is_in_slots(&self) -> bool {
                match self {
                    $(Self::$unit(_) => !<$module::$unit as Unit>::SLOTS.is_empty(),)+
                }
            }

            /// As [`Unit::disables`].
            pub fn disables(&self) -> bool {
                match self {
                    $(Self::$unit(unit) => unit.disables(),)+
                }
            }

            /// As [`Unit::ADDS_UP`].
            pub fn adds_up(&self) -> bool {
                match self {
                    $(Self::$unit(_) => <$module::$unit as Unit>::ADDS_UP,)+
                }
            }

            /// As [`Unit::authenticates`].
            pub fn authenticates(&self) -> bool {
                match self {
                    $(Self::$unit(unit) => unit.authenticates(),)+
                }
            }

            /// As [`Unit::forges`].
            pub fn forges(&self) -> bool {
                match self {
                    $(Self::$unit(unit) => unit.forges(),)+
                }
            }

            /// As [`Unit::over`].
            pub fn over(&self, other: &Self) -> Option<Self> {
                match (self, other) {
                    $((Self::$unit(unit), Self::$unit(other)) => unit.over(other).map(|unit| Self::$unit(unit.into())),)+
                    _ => None,
                }
            }

            /// As [`Unit::excess`].
            pub fn excess(&self) -> Option<Problem> {
                let excess = match self {
                    $(Self::$unit(unit) => unit.excess(),)+
                };
                Some(excess?.problem(Severity::Refused, Reason::Invalid, self.field()))
            }

            /// As [`Unit::apply`].
            pub(crate) fn apply(&self, rule: &mut Handling) -> bool {
                match self {
                    $(Self::$unit(unit) => unit.apply(rule),)+
                }
            }

            /// As [`Unit::warning`].
            pub fn warning(&self, gateways: &dyn Gateways) -> Option<Problem> {
                let warning = match self {
                    $(Self::$unit(unit) => unit.warning(gateways),)+
                };
                Some(warning?.problem(Severity::Warning, Reason::UnsupportedValue, self.field()))
            }

            /// Reads what is written in a field, for each in the order of `FIELDS`.
            const READ: &'static [fn(&Value) -> Result<Self, Refused>] =
                &[$(|written| $module::$unit::read(spec::decode(written)?).map(|unit| Self::$unit(unit.into()))),+];

            /// As [`Unit::beside`].
            fn beside(&self, policy: &TrafficPolicySpec) -> Result<(), Refused> {
                match self {
                    $(Self::$unit(unit) => unit.beside(policy),)+
                }
            }

            /// As [`Unit::with_others`].
            fn with_others(&self, others: &Others<'_>) -> Result<Option<Self>, Refused> {
                match self {
                    $(Self::$unit(unit) => Ok(unit.with_others(others)?.map(|unit| Self::$unit(unit.into()))),)+
                }
            }
        }

        /// What an Envoy route does of each unit, in words. Slots of its virtual host and route configuration count where
        /// the route itself has them.
        pub fn explain(route: &Route) -> Vec<(&'static str, String)> {
            let words = [$((<$module::$unit as Unit>::FIELD, explain_one::<$module::$unit>(route))),+];
            words.into_iter().filter_map(|(field, words)| Some((field, words?))).collect()
        }
    };
}

units! {
    /// How long requests may take.
    Timeouts: timeouts;
    /// Whether requests are tried again.
    Retry: retry;
    /// How large requests may be that are read before they are sent on.
    Buffer: buffer;
    /// How the path of a request is changed.
    UrlRewrite: url_rewrite;
    /// Which requests are delayed or answered with a fault.
    FaultInjection: fault_injection;
    /// From where requests that change something may come.
    Csrf: csrf;
    /// Under which name Envoy counts requests.
    StatPrefix: stat_prefix;
    /// Redirects of a backend are followed by Envoy.
    InternalRedirect: internal_redirect;
    /// What host copies are for.
    RequestMirror: request_mirror;
    /// How responses are compressed.
    ResponseCompression: compression;
    /// What requests are decompressed.
    RequestDecompression: compression;
    /// Which pages of other origins may ask.
    Cors: cors;
    /// How many requests are taken.
    LocalRateLimit: local_rate_limit;
    /// What headers are changed.
    HeaderModifiers: header_modifiers;
    /// Whether a backend is asked under its own hostname.
    AutoHostRewrite: auto_host_rewrite;
    /// Which requests are traced, and what their spans say.
    Tracing: tracing;
    /// From which addresses requests are taken.
    Acl: acl;
    /// Which requests are let through.
    Rbac: rbac;
    /// What headers are changed by templates.
    Transformation: transformation;
    /// Which users may ask.
    BasicAuth: basic_auth;
    /// Which keys open.
    ApiKeyAuth: api_key_auth;
    /// Who judges requests.
    ExtAuth: ext_auth;
    /// Whose tokens are taken.
    JwtAuth: jwt_auth;
    /// Who logs people in.
    OAuth2: oauth2;
    /// Who processes requests and responses.
    ExtProc: ext_proc;
    /// How many requests are taken by all proxies together.
    GlobalRateLimit: global_rate_limit;
}

/// What of other objects policies are read with.
#[derive(Clone, Copy)]
pub struct Others<'a> {
    /// Secrets.
    pub secrets: &'a dyn SecretReader,
    /// Providers.
    pub extensions: &'a dyn ExtensionReader,
}

/// What a route does of `U`, in words.
fn explain_one<U: Unit>(route: &Route) -> Option<String> {
    let slots = U::SLOTS.iter().filter_map(|name| Some((name, route.typed_per_filter_config.get(*name)?)));
    let (off, on): (Vec<_>, Vec<_>) = slots.partition(|(_, config)| slots::is_off(config));
    if off.is_empty() {
        return U::explain(route);
    }
    if on.is_empty() {
        return Some("off".into());
    }
    let mut route = route.clone();
    route.typed_per_filter_config.retain(|name, _| off.iter().all(|(off, _)| *off != name));
    U::explain(&route)
}

#[cfg(test)]
mod tests;
