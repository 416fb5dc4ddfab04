//! DirectResponse: answers that rules give by themselves.

use api::{Kind, ObjectId, direct_response::DirectResponseSpec};
use engine::{Derived, Emitter, Scope};
use ir::{
    NsName, Problem, Reason, RouteId, Severity,
    route::ExtensionRef,
    rule::{Action, BodyContent, BodyFormat},
};
use validate::{self, Invalid};

use crate::{
    internal,
    tables::input::{DirectResponses, EditionObjects, Kept},
    target::key_of,
};

/// The longest body that Envoy takes, in bytes.
const MAX_BODY: usize = 4096;

tables! {
    /// What is wrong with DirectResponses; absent for those that can be answered.
    RefusedResponses: NsName => Problem;
}

impl Derived for RefusedResponses {
    fn compute(scope: &Emitter<'_>, key: &NsName) -> Option<Problem> {
        let fault = read(&scope.get::<DirectResponses>(key)?.spec).err()?;
        Some(Problem { severity: Severity::Refused, ..fault })
    }

    fn poisoned(_: &Emitter<'_>, _: &NsName, _: &engine::Fault) -> Option<Problem> {
        Some(internal::problem(Severity::Refused, ""))
    }
}

/// The answer that a filter names.
pub(crate) fn action(scope: &Scope<'_>, route: &RouteId, named: &ExtensionRef) -> Result<Action, Problem> {
    let id = named_by(route, named);
    let refuse =
        |message| Problem::new(Severity::Replaced, Reason::UnsupportedValue, format!("{}.name", named.field), message);
    let said = match &route.edition {
        None => scope.get::<DirectResponses>(&key_of(&id)).map(|response| read(&response.spec)),
        Some(edition) => {
            let object = scope.get::<EditionObjects>(&(edition.clone(), id.clone()));
            object.and_then(|object| match &object.0 {
                Kept::DirectResponse(response) => Some(read(&response.spec)),
                _ => None,
            })
        }
    };
    let said = said.ok_or_else(|| refuse(format!("{id} does not exist; create it, or correct the name")))?;
    said.map_err(|fault| refuse(format!("{id} cannot be answered: {fault}")))
}

/// The DirectResponse that a filter of a route means.
pub(crate) fn named_by(route: &RouteId, named: &ExtensionRef) -> ObjectId {
    ObjectId::new(Kind::DirectResponse, route.namespace().clone(), named.name.clone())
}

/// What is answered, or why it cannot be.
pub(crate) fn read(spec: &DirectResponseSpec) -> Result<Action, Problem> {
    let refuse =
        |field: &str, message: String| Problem::new(Severity::Replaced, Reason::UnsupportedValue, field, message);
    let Some(status) = u16::try_from(spec.status).ok().filter(|status| (200..600).contains(status)) else {
        return Err(refuse(
            "spec.status",
            format!("{} is not a status that can be answered; use 200 to 599", spec.status),
        ));
    };
    let fits = |body: &str, field: &str| {
        let message = || {
            format!(
                "the body has {} bytes and may have {MAX_BODY} at most, whatever characters they are; shorten it",
                body.len()
            )
        };
        if body.len() > MAX_BODY { Err(refuse(field, message())) } else { Ok(()) }
    };
    // Responses of these have no body (RFC 9110 section 6.4.1), and Envoy would announce one.
    if matches!(status, 204 | 304) {
        return Ok(Action::DirectResponse { status, body: "".into() });
    }
    let Some(format) = &spec.body_format else {
        let body = spec.body.as_deref().unwrap_or_default();
        fits(body, "spec.body")?;
        return Ok(Action::DirectResponse { status, body: body.into() });
    };
    if spec.body.is_some() {
        return Err(refuse("spec.bodyFormat", "it must not stand beside body; remove one of both".into()));
    }
    let at = |field: &'static str| move |invalid: Invalid| refuse(field, invalid.to_string());
    let content = match (&format.text, &format.json) {
        (Some(text), None) => {
            fits(text, "spec.bodyFormat.text")?;
            validate::format::text(text).map_err(at("spec.bodyFormat.text"))?;
            BodyContent::Text(text.as_ref().into())
        }
        (None, Some(json)) => {
            let text = json.to_string();
            fits(&text, "spec.bodyFormat.json")?;
            validate::format::json(json).map_err(at("spec.bodyFormat.json"))?;
            BodyContent::Json(text.into())
        }
        _ => return Err(refuse("spec.bodyFormat", "it must have either text or json".into())),
    };
    let content_type = match format.content_type.as_deref().filter(|kind| !kind.is_empty()) {
        Some(kind) => {
            validate::header::value(kind).map_err(at("spec.bodyFormat.contentType"))?;
            Some(kind.into())
        }
        None => None,
    };
    Ok(Action::Formatted { status, format: BodyFormat { content, content_type } })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(spec: Value) -> Result<Action, String> {
        let spec: DirectResponseSpec = serde_json::from_value(spec).expect("a spec");
        super::read(&spec).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_body_is_bound_by_its_bytes_not_its_characters() {
        assert!(read(json!({"status": 200, "body": "a".repeat(4096)})).is_ok());
        for long in [json!({"body": "é".repeat(2049)}), json!({"bodyFormat": {"text": "é".repeat(2049)}})] {
            let mut spec = json!({"status": 200});
            spec.as_object_mut().expect("a mapping").extend(long.as_object().expect("a mapping").clone());
            let refused = read(spec).expect_err("refused");
            assert!(refused.contains("the body has 4098 bytes and may have 4096 at most"), "{refused}");
        }
        let json = json!({"status": 200, "bodyFormat": {"json": {"a": "é".repeat(2049)}}});
        assert!(read(json).expect_err("refused").contains("spec.bodyFormat.json"));
    }

    /// Mappings and lists in each other, so many.
    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, level| if level % 2 == 0 { json!({"a": inner}) } else { json!([inner]) })
    }

    #[test]
    fn a_json_body_nests_as_deep_as_envoy_reads() {
        let answer = |levels| read(json!({"status": 200, "bodyFormat": {"json": {"a": nested(levels)}}}));
        assert!(answer(29).is_ok());
        let refused = answer(30).expect_err("refused");
        assert!(refused.contains("spec.bodyFormat.json") && refused.contains("more than 30 levels"), "{refused}");
        assert!(refused.contains("flatten it"), "{refused}");
    }

    #[test]
    fn a_status_that_has_no_body_gets_none() {
        let bare = Ok(Action::DirectResponse { status: 204, body: "".into() });
        assert_eq!(read(json!({"status": 204, "body": "text"})), bare);
        assert_eq!(read(json!({"status": 204, "bodyFormat": {"text": "text"}})), bare);
    }

    #[test]
    fn what_envoy_would_refuse_is_refused() {
        for spec in [
            json!({"status": 199}),
            json!({"status": 200, "bodyFormat": {}}),
            json!({"status": 200, "bodyFormat": {"text": "%NOTHING%"}}),
            json!({"status": 200, "bodyFormat": {"json": {"a": [{"b": "100%"}]}}}),
            json!({"status": 200, "bodyFormat": {"text": "a", "contentType": "text/\nhtml"}}),
            json!({"status": 200, "bodyFormat": {"json": nested(31)}}),
        ] {
            assert!(read(spec.clone()).is_err(), "{spec}");
        }
    }
}
