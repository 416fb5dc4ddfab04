//! Reading matches (Gateway API `HTTPRouteMatch`).

use std::{collections::HashSet, sync::Arc};

use api::http_route::{HttpMethod, HttpPathMatch, HttpRouteMatch, PathMatchType, QueryParamMatchType};
use ir::{
    Problem, Reason, Severity,
    matching::{Condition, Match, Path, ValueMatch},
};
use validate::{self, Invalid};

use crate::route::matches::{headers, unknown_value_type};

/// Reads match number `index`. One that cannot be expressed claims nothing: it is dropped, and told.
pub(super) fn read(index: usize, written: &HttpRouteMatch, field: &str) -> Result<Match, Problem> {
    let refuse = |name: &str, invalid: &Invalid| {
        let field = format!("{field}.matches[{index}].{name}");
        Problem::new(Severity::Refused, Reason::UnsupportedValue, field, invalid.to_string())
    };
    let path = path(&written.path).map_err(|invalid| refuse("path.value", &invalid))?;
    let method = match &written.method {
        None => None,
        Some(HttpMethod::Unknown(method)) => {
            let invalid = Invalid::new(method, "it is not a method of HTTP", "use one such as GET or POST");
            return Err(refuse("method", &invalid));
        }
        Some(method) => Some(Arc::from(method.as_str())),
    };
    let headers = headers(&written.headers).map_err(|(at, invalid)| refuse(&at, &invalid))?;
    let queries = queries(written).map_err(|(at, invalid)| refuse(&at, &invalid))?;
    Ok(Match { path, method, headers, queries, grpc: None })
}

fn path(written: &HttpPathMatch) -> Result<Path, Invalid> {
    let value = &*written.value;
    match &written.r#type {
        PathMatchType::Exact => {
            validate::path::exact(value)?;
            Ok(Path::Exact(value.into()))
        }
        PathMatchType::PathPrefix => {
            validate::path::prefix(value)?;
            Ok(Path::Prefix(value.into()))
        }
        PathMatchType::RegularExpression => {
            validate::regex::check(value)?;
            Ok(Path::Regex(value.into()))
        }
        PathMatchType::Unknown(other) => {
            Err(Invalid::new(other, "it is no type of path match", "use Exact, PathPrefix or RegularExpression"))
        }
    }
}

/// Gateway API: of entries with the same name the first counts.
fn queries(written: &HttpRouteMatch) -> Result<Vec<Condition>, (String, Invalid)> {
    let mut seen = HashSet::new();
    let mut conditions = Vec::new();
    for (index, query) in written.query_params.iter().enumerate() {
        let at = |field| move |invalid| (format!("queryParams[{index}].{field}"), invalid);
        validate::name::query_parameter(&query.name).map_err(at("name"))?;
        let value = match &query.r#type {
            QueryParamMatchType::Exact => {
                validate::name::query_value(&query.value).map(|()| ValueMatch::Exact(query.value.as_ref().into()))
            }
            QueryParamMatchType::RegularExpression => {
                validate::regex::check(&query.value).map(|_| ValueMatch::Regex(query.value.as_ref().into()))
            }
            QueryParamMatchType::Unknown(other) => return Err(at("type")(unknown_value_type(other))),
        };
        let value = value.map_err(at("value"))?;
        if seen.insert(&query.name) {
            conditions.push(Condition { name: query.name.as_ref().into(), value });
        }
    }
    Ok(conditions)
}
