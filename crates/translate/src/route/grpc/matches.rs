//! Reading matches (Gateway API `GRPCRouteMatch`). Service and method are the two segments of a path.

use api::grpc_route::{GrpcMethodMatch, GrpcMethodMatchType, GrpcRouteMatch};
use ir::{
    Problem, Reason, Severity,
    matching::{Grpc, Match, Path},
};
use validate::{Invalid, grpc, regex};

use crate::route::matches::{headers, unknown_value_type};

/// Any service, or any method.
const ANY: &str = "[^/]+";

/// Reads match number `index`. One that cannot be expressed claims nothing: it is dropped, and told.
pub(super) fn read(index: usize, written: &GrpcRouteMatch, field: &str) -> Result<Match, Problem> {
    let refuse = |(name, invalid): (String, Invalid)| {
        let field = format!("{field}.matches[{index}].{name}");
        Problem::new(Severity::Refused, Reason::UnsupportedValue, field, invalid.to_string())
    };
    let (path, length) = match &written.method {
        None => (Path::Prefix("/".into()), Grpc::default()),
        Some(method) => path(method).map_err(refuse)?,
    };
    let headers = headers(&written.headers).map_err(refuse)?;
    Ok(Match { path, method: None, headers, queries: Vec::new(), grpc: Some(length) })
}

/// Says whether a text can be a part.
type Judge = fn(&str) -> Result<(), Invalid>;

fn path(written: &GrpcMethodMatch) -> Result<(Path, Grpc), (String, Invalid)> {
    let named = |part: &Option<Box<str>>| part.as_deref().filter(|part| !part.is_empty()).map(str::to_owned);
    let (service, method) = (named(&written.service), named(&written.method));
    let at = |name: &str| {
        let field = format!("method.{name}");
        move |invalid| (field, invalid)
    };
    let length =
        |part: &Option<String>| u16::try_from(part.as_ref().map_or(0, |part| part.chars().count())).unwrap_or(u16::MAX);
    let lengths = Grpc { service: length(&service), method: length(&method) };
    let judges: [Judge; 2] = match &written.r#type {
        GrpcMethodMatchType::Exact => [grpc::service, grpc::method],
        GrpcMethodMatchType::RegularExpression => [grpc::pattern; 2],
        GrpcMethodMatchType::Unknown(other) => return Err(at("type")(unknown_value_type(other))),
    };
    for (part, name, judge) in [(&service, "service", judges[0]), (&method, "method", judges[1])] {
        part.as_deref().map_or(Ok(()), judge).map_err(at(name))?;
    }
    let is_exact = written.r#type == GrpcMethodMatchType::Exact;
    let path = match (service, method) {
        (None, None) => Path::Prefix("/".into()),
        (Some(service), Some(method)) if is_exact => Path::Exact(format!("/{service}/{method}").into()),
        (Some(service), None) if is_exact => Path::Prefix(format!("/{service}/").into()),
        (service, method) => {
            let part = |part: Option<String>| match part {
                Some(part) if is_exact => part,
                // What is alternated, or ignores case, ends with the part.
                Some(part) => format!("(?:{})", grpc::unanchored(&part)),
                None => ANY.to_owned(),
            };
            let pattern = format!("/{}/{}", part(service), part(method));
            regex::check(&pattern).map_err(at("method"))?;
            Path::Regex(pattern.into())
        }
    };
    Ok((path, lengths))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read_json(method: &Value) -> Result<Match, Problem> {
        let written = serde_json::from_value(json!({ "method": method })).expect("a match");
        read(2, &written, "spec.rules[1]")
    }

    #[test]
    fn service_and_method_are_two_segments_of_a_path() {
        let prefix = |path: &str| Path::Prefix(path.into());
        let regex = |path: &str| Path::Regex(path.into());
        for (method, path, service, of_method) in [
            (json!({"service": "a.B", "method": "C"}), Path::Exact("/a.B/C".into()), 3, 1),
            (json!({"service": "a.B"}), prefix("/a.B/"), 3, 0),
            (json!({"service": "a.B", "method": ""}), prefix("/a.B/"), 3, 0),
            (json!({"method": "C_2"}), regex("/[^/]+/C_2"), 0, 3),
            (
                json!({"type": "RegularExpression", "service": "a|b", "method": "(?i)c"}),
                regex("/(?:a|b)/(?:(?i)c)"),
                3,
                5,
            ),
            (json!({"type": "RegularExpression", "service": "a[.].+"}), regex("/(?:a[.].+)/[^/]+"), 6, 0),
            (json!({"type": "RegularExpression", "method": "C"}), regex("/[^/]+/(?:C)"), 0, 1),
            (json!({"type": "RegularExpression", "method": "", "service": ""}), prefix("/"), 0, 0),
            (Value::Null, prefix("/"), 0, 0),
        ] {
            let read = read_json(&method).unwrap_or_else(|problem| panic!("{method}: {problem}"));
            let expected = Some(Grpc { service, method: of_method });
            assert_eq!((&read.path, read.grpc), (&path, expected), "{method}");
            assert_eq!(read.requests().count(), 1, "no gRPC request has a path of one segment: {method}");
        }
    }

    #[test]
    fn what_cannot_be_expressed_is_told_at_its_field() {
        for (method, field) in [
            (json!({"service": "a/B"}), "method.service"),
            (json!({"service": "a", "method": "b.c"}), "method.method"),
            (json!({"type": "Glob", "service": "a"}), "method.type"),
            (json!({"type": "RegularExpression", "service": "a|^b"}), "method.service"),
            (json!({"type": "RegularExpression", "method": "a)|(b"}), "method.method"),
            (json!({"type": "RegularExpression", "service": "(a{40}){40}"}), "method.service"),
            (json!({"type": "RegularExpression", "service": "a{600}", "method": "b{600}"}), "method.method"),
        ] {
            let refused = read_json(&method).expect_err("refused");
            assert_eq!(refused.field, format!("spec.rules[1].matches[2].{field}"), "{method}");
        }
    }
}
