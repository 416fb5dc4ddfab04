//! `cors`: which pages of other origins may ask, and read the answers.

use std::{sync::Arc, time::Duration};

use api::http_route::{HttpCorsFilter, HttpMethodWithWildcard};
use envoy::slots;
use envoy_types::pb::envoy::config::route::v3::Route;
use ir::{filter, route::Handling, rule::Slot};
use serde::Deserialize;
use serde_json::{Map, Value};
use validate::Invalid;

use super::{Deep, Refused, Unit, spec};

/// Which pages of other origins may ask; none switches it off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    cors: Option<Config>,
}

/// What is said, with the rest completed. What the CRD completes, the age, counts as said.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Config {
    cors: filter::Cors,
    /// Whether it says if credentials may be sent.
    credentials: bool,
}

/// What may be written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    #[serde(default)]
    allow_origins: Vec<Box<str>>,
    allow_credentials: Option<bool>,
    #[serde(default)]
    allow_methods: Vec<HttpMethodWithWildcard>,
    #[serde(default)]
    allow_headers: Vec<Box<str>>,
    #[serde(default)]
    expose_headers: Vec<Box<str>>,
    max_age: Option<i32>,
    disable: Option<Map<String, Value>>,
}

impl Unit for Cors {
    const FIELD: &'static str = "cors";
    const HOLDS_FOR_ANSWERS: bool = false;
    const SLOTS: &'static [&'static str] = &[slots::CORS, slots::CORS_WIDE];
    const DEEP: Deep = Deep::Leaves;
    #[cfg(any(test, feature = "testing"))]
    const SAMPLES: super::Samples = super::Samples {
        one: r#"{"allowOrigins": ["https://one.example"], "maxAge": 1}"#,
        other: r#"{"allowOrigins": ["https://other.example"], "allowMethods": ["PUT"], "maxAge": 2}"#,
        merged: Some((
            r#"{"allowOrigins": ["https://one.example"], "allowMethods": ["PUT"], "maxAge": 1}"#,
            r#"{"allowOrigins": ["https://other.example"], "allowMethods": ["PUT"], "maxAge": 2}"#,
        )),
        off: Some(r#"{"disable": {}}"#),
        refused: Some(r#"{"allowOrigins": ["a"]}"#),
    };
    type Spec = Spec;

    /// The CRD completes what switches off with an age too.
    fn read(written: Spec) -> Result<Self, Refused> {
        if written.disable.is_some() {
            return Ok(Self { cors: None });
        }
        let credentials = written.allow_credentials.is_some();
        let written = HttpCorsFilter {
            allow_origins: written.allow_origins,
            allow_credentials: written.allow_credentials,
            allow_methods: written.allow_methods,
            allow_headers: written.allow_headers,
            expose_headers: written.expose_headers,
            max_age: written.max_age.unwrap_or(HttpCorsFilter::default().max_age),
        };
        Ok(Self { cors: Some(Config { cors: cors(&written)?, credentials }) })
    }

    fn slots(&self) -> Vec<Slot> {
        self.cors.as_ref().map(|said| envoy::route::cors(&said.cors)).into_iter().collect()
    }

    fn over(&self, other: &Self) -> Option<Self> {
        let (own, other) = (self.cors.as_ref()?, other.cors.as_ref()?);
        let by_credentials = if own.credentials { own } else { other };
        let cors = filter::Cors {
            allow_origins: spec::said_list(&own.cors.allow_origins, &other.cors.allow_origins),
            allow_methods: spec::said_list(&own.cors.allow_methods, &other.cors.allow_methods),
            allow_headers: spec::said_list(&own.cors.allow_headers, &other.cors.allow_headers),
            expose_headers: spec::said_list(&own.cors.expose_headers, &other.cors.expose_headers),
            allow_credentials: by_credentials.cors.allow_credentials,
            max_age: own.cors.max_age,
        };
        Some(Self { cors: Some(Config { cors, credentials: by_credentials.credentials }) })
    }

    /// Of two scopes Envoy would take some of either, so that what holds for all routes has a slot of its own.
    fn wide_slots(&self, _: &str) -> Vec<Slot> {
        let wide = |said: &Config| Slot { name: slots::CORS_WIDE, ..envoy::route::cors(&said.cors) };
        vec![self.cors.as_ref().map_or_else(|| slots::off(slots::CORS_WIDE), wide)]
    }

    /// A filter of the rule wins as a whole.
    fn apply(&self, rule: &mut Handling) -> bool {
        rule.fields.cors.is_none()
    }

    fn explain(route: &Route) -> Option<String> {
        let has_it = Self::SLOTS.iter().any(|slot| route.typed_per_filter_config.contains_key(*slot));
        has_it.then(|| "answers preflight requests, and tells browsers who may read".into())
    }
}

/// What a CORS filter or a policy says, or why Envoy cannot do it.
pub fn cors(written: &HttpCorsFilter) -> Result<filter::Cors, Refused> {
    let mut allow_origins = Vec::new();
    for (index, origin) in written.allow_origins.iter().enumerate() {
        validate::cors::origin(origin).map_err(Refused::at(format_args!("allowOrigins[{index}]")))?;
        allow_origins.push(origin.as_ref().into());
    }
    let methods: Vec<_> = written.allow_methods.iter().map(HttpMethodWithWildcard::as_str).collect();
    let max_age = u64::try_from(written.max_age).ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
        let invalid = Invalid::new(&written.max_age.to_string(), "it is not a number of seconds", "use 1 or more");
        Refused::at("maxAge")(invalid)
    })?;
    Ok(filter::Cors {
        allow_origins,
        allow_methods: list(&methods, "allowMethods", validate::cors::method)?,
        allow_headers: list(&written.allow_headers, "allowHeaders", validate::cors::header)?,
        expose_headers: list(&written.expose_headers, "exposeHeaders", validate::cors::header)?,
        allow_credentials: written.allow_credentials.unwrap_or(false),
        max_age: Some(Duration::from_secs(max_age)),
    })
}

fn list(
    list: &[impl AsRef<str>],
    field: &str,
    check: fn(&str) -> Result<(), Invalid>,
) -> Result<Vec<Arc<str>>, Refused> {
    validate::cors::alone(list).map_err(Refused::at(field))?;
    for (index, entry) in list.iter().enumerate() {
        check(entry.as_ref()).map_err(Refused::at(format_args!("{field}[{index}]")))?;
    }
    Ok(list.iter().map(|entry| entry.as_ref().into()).collect())
}
