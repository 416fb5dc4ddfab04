//! Requests to the API server.

use std::time::Duration;

use api::{Kind, ObjectId};
use http::{Method, StatusCode, header};
use kube::{
    Client,
    client::Body,
    core::{PartialObjectMeta, Status, response::StatusDetails},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::reconciler::{Job, Outcome, Request};
use crate::watch::{Stored, retry_after};

/// The part of an object that is looked at.
#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    uid: &'a str,
    #[serde(borrow)]
    resource_version: &'a str,
}

/// The value of the metric's label.
pub(super) fn label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done { .. } => "written",
        Outcome::Conflict => "conflict",
        Outcome::Gone => "gone",
        Outcome::Refused { .. } => "refused",
        Outcome::Later { .. } => "retry",
    }
}

/// Makes a request, in the name of `field_manager`, and waits for the answer, at most for `bound`.
pub(super) async fn send(client: Client, job: &Job, field_manager: &str, bound: Duration) -> Outcome {
    let away = |message: String| Outcome::Later { after: None, everywhere: true, message };
    let request = match request(job, field_manager) {
        Ok(request) => request,
        Err(error) => return Outcome::Refused { code: 0, message: error.to_string() },
    };
    let exchange = async {
        let response = client.send(request).await?;
        let (head, body) = response.into_parts();
        Ok::<_, kube::Error>((head, body.collect_bytes().await?))
    };
    let (head, body) = match tokio::time::timeout(bound, exchange).await {
        Err(_) => return away(format!("no answer within {} s", bound.as_secs_f32())),
        Ok(Err(error)) => return away(error.to_string()),
        Ok(Ok(answer)) => answer,
    };
    let mut outcome = judge(head.status, retry_after(&head.headers), &body);
    if let (Request::Who, Outcome::Done { other_writer: by, .. }) = (&job.request, &mut outcome) {
        *by = other_writer(&body, field_manager);
    }
    outcome
}

fn request(job: &Job, field_manager: &str) -> http::Result<http::Request<Body>> {
    let path = path(&job.id);
    match &job.request {
        Request::Read | Request::Who => http::Request::get(path).body(Body::empty()),
        Request::Write(patch) => http::Request::builder()
            .method(Method::PATCH)
            .uri(format!("{path}/status?fieldManager={field_manager}"))
            .header(header::CONTENT_TYPE, "application/merge-patch+json")
            .header(header::ACCEPT, "application/json")
            .body(Body::from(patch.clone().into_bytes())),
    }
}

/// Where an object is.
fn path(id: &ObjectId) -> String {
    let ObjectId { kind, namespace, name } = id;
    let (group, version, plural) = (Kind::group(*kind), Kind::versions(*kind)[0], Kind::plural(*kind));
    if kind.namespaced() {
        format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}")
    } else {
        format!("/apis/{group}/{version}/{plural}/{name}")
    }
}

fn judge(status: StatusCode, after: Option<Duration>, body: &[u8]) -> Outcome {
    if status.is_success() {
        return match serde_json::from_slice(body) {
            Ok(Object { metadata: Metadata { uid, resource_version }, status }) => Outcome::Done {
                stored: Stored {
                    uid: uid.into(),
                    resource_version: resource_version.into(),
                    status: status.map(ToOwned::to_owned),
                },
                other_writer: None,
            },
            // What stands between may have cut it.
            Err(error) => Outcome::Later { after: None, everywhere: false, message: error.to_string() },
        };
    }
    let code = status.as_u16();
    let answer: Status = serde_json::from_slice(body).unwrap_or_default();
    let message = if answer.message.is_empty() { status.to_string() } else { answer.message };
    match code {
        409 => Outcome::Conflict,
        // Where the kind is not served, or has no status, no object is named.
        404 if answer.details.is_some_and(|StatusDetails { name, .. }| !name.is_empty()) => Outcome::Gone,
        // A token that ended is replaced without our doing: it is no object's fault.
        401 | 429 | 503 | 504 => Outcome::Later { after, everywhere: true, message },
        408 | 500.. => Outcome::Later { after, everywhere: false, message },
        _ => Outcome::Refused { code, message },
    }
}

/// Who but `own` wrote to the status of an object last, as the API server noted it.
fn other_writer(body: &[u8], own: &str) -> Option<String> {
    let object: PartialObjectMeta = serde_json::from_slice(body).ok()?;
    let managers = object.metadata.managed_fields.unwrap_or_default().into_iter();
    let others = managers.filter(|entry| entry.subresource.as_deref() == Some("status"));
    let others = others.filter(|entry| entry.manager.as_deref() != Some(own));
    others.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?.manager
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(code: u16, body: &serde_json::Value) -> Outcome {
        let status = StatusCode::from_u16(code).expect("a status code");
        judge(status, Some(Duration::from_secs(3)), body.to_string().as_bytes())
    }

    #[test]
    fn objects_are_found_by_their_preferred_version() {
        let route = ObjectId::new(Kind::HttpRoute, "ns", "name");
        assert_eq!(path(&route), "/apis/gateway.networking.k8s.io/v1/namespaces/ns/httproutes/name");
        let class = ObjectId::new(Kind::GatewayClass, "", "name");
        assert_eq!(path(&class), "/apis/gateway.networking.k8s.io/v1/gatewayclasses/name");
    }

    #[test]
    fn answers_mean_what_the_api_server_means() {
        let object = json!({"metadata": {"uid": "u", "resourceVersion": "7", "name": "n"}, "status": {"parents": []}});
        let Outcome::Done { stored, .. } = judged(200, &object) else { panic!("{object}") };
        let status = stored.status.as_deref().map(RawValue::get);
        assert_eq!((&*stored.uid, &*stored.resource_version, status), ("u", "7", Some(r#"{"parents":[]}"#)));

        let gone = json!({"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "n"}});
        assert!(matches!(judged(404, &gone), Outcome::Gone));
        assert!(matches!(judged(404, &json!("404 page not found")), Outcome::Refused { code: 404, .. }));
        assert!(matches!(judged(409, &json!({})), Outcome::Conflict));
        assert!(
            matches!(judged(422, &json!({"message": "bad"})), Outcome::Refused { message, .. } if message == "bad")
        );
        assert!(matches!(judged(403, &json!({})), Outcome::Refused { code: 403, .. }));
        for code in [401, 429, 503] {
            let after = Some(Duration::from_secs(3));
            let Outcome::Later { after: found, everywhere: true, .. } = judged(code, &json!({})) else { panic!() };
            assert_eq!(found, after);
        }
        assert!(matches!(judged(500, &json!({})), Outcome::Later { everywhere: false, .. }));
    }

    #[test]
    fn who_else_wrote_a_status_last_is_read_off_an_object() {
        let by = |manager: &str, subresource: &str, second: u32| {
            json!({"manager": manager, "operation": "Update", "subresource": subresource, "fieldsType": "FieldsV1",
                   "time": format!("2026-01-01T00:00:0{second}Z"), "fieldsV1": {}})
        };
        let all = [by("before", "status", 1), by("them", "status", 2), by("us", "status", 3), by("kubectl", "", 4)];
        let object = json!({"metadata": {"uid": "u", "resourceVersion": "7", "managedFields": all}});
        assert_eq!(other_writer(object.to_string().as_bytes(), "us").as_deref(), Some("them"));
        assert_eq!(other_writer(br#"{"metadata": {}}"#, "us"), None);
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_asked_for_again() {
        assert!(matches!(judged(200, &json!({})), Outcome::Later { everywhere: false, .. }));
    }
}
