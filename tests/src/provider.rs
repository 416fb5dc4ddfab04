//! Providers that Envoy asks, in Envoy's own gRPC protocols. Every echo backend is one too; what it does is up to the request
//! that it is asked about.
//!
//! A judge ([`Authorization`]) goes by the header [`JUDGE`]: `deny`, `fail`, `hang`, `break`, `flood`, `huge`, `garbage` or, unless it is
//! there, passes the request on with headers that say who judged and what he was told. A processor ([`ExternalProcessor`]) goes by
//! [`PROCESS`]: `answer`, `answers` and `endless` without end (the latter as a header of the response too), `duplex`, `fail`, `hang`, `flood`, `huge`, `garbage` or, unless it is there, leaves its name in headers of request and response, and what it saw of
//! bodies behind them.

use std::{collections::BTreeMap, convert::Infallible, future, pin::Pin, sync::Arc};

use envoy_types::pb::{
    envoy::{
        config::core::v3::{HeaderMap, HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction},
        extensions::filters::http::ext_proc::v3::{
            ProcessingMode,
            processing_mode::{BodySendMode, HeaderSendMode},
        },
        service::{
            auth::v3::{
                CheckRequest, CheckResponse, DeniedHttpResponse, OkHttpResponse,
                authorization_server::{Authorization, AuthorizationServer},
                check_response::HttpResponse,
            },
            ext_proc::v3::{
                BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpHeaders,
                ImmediateResponse, ProcessingRequest, ProcessingResponse, StreamedBodyResponse, TrailersResponse,
                body_mutation::Mutation,
                external_processor_server::{ExternalProcessor, ExternalProcessorServer},
                processing_request::Request as Asked,
                processing_response::Response as Answer,
            },
            ratelimit::v3::{
                RateLimitRequest, RateLimitResponse,
                rate_limit_response::Code as Verdict,
                rate_limit_service_server::{RateLimitService, RateLimitServiceServer},
            },
        },
        r#type::v3::HttpStatus,
    },
    google::rpc,
};
use futures::{Stream, StreamExt, stream};
use http::{Request, Response, header};
use hyper::body::Incoming;
use tonic::{Code, Status, Streaming, body::Body};
use tower::ServiceExt;

/// What a judge is to do.
pub const JUDGE: &str = "x-test-judge";

/// What a processor is to do.
pub const PROCESS: &str = "x-test-process";

/// Headers that no proxy may take from a provider.
const BREAKING: [(&str, &str); 5] = [
    ("content-length", "1"),
    ("transfer-encoding", "chunked"),
    ("cdn-loop", ""),
    ("x-forwarded-client-cert", "By=nobody"),
    ("x_user", "admin"),
];

/// What a provider that floods says at once, in bytes: more than any proxy keeps for a request.
const FLOOD: usize = 24 << 20;

/// What one that never ends says at a time, in bytes.
const PIECE: usize = 64 << 10;

/// A provider with a name.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    name: Arc<str>,
}

impl Provider {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into() }
    }

    /// Whether a request asks a provider.
    pub(crate) fn is_meant<B>(request: &Request<B>) -> bool {
        let kind = request.headers().get(header::CONTENT_TYPE);
        let is_grpc = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        is_grpc && request.uri().path().starts_with("/envoy.service.")
    }

    /// Its answer.
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let request = request.map(Body::new);
        let path = request.uri().path();
        if path.starts_with("/envoy.service.auth.") {
            AuthorizationServer::new(self).oneshot(request).await
        } else if path.starts_with("/envoy.service.ratelimit.") {
            RateLimitServiceServer::new(self).oneshot(request).await
        } else {
            ExternalProcessorServer::new(self).oneshot(request).await
        }
    }
}

fn set(name: &str, value: impl Into<String>) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue { key: name.into(), raw_value: value.into().into_bytes(), ..HeaderValue::default() }),
        append_action: HeaderAppendAction::AppendIfExistsOrAdd as i32,
        ..HeaderValueOption::default()
    }
}

/// A header as it must be where its text is read.
fn text(option: HeaderValueOption) -> HeaderValueOption {
    let header = option.header.map(|header| HeaderValue {
        value: String::from_utf8_lossy(&header.raw_value).into_owned(),
        raw_value: Vec::new(),
        ..header
    });
    HeaderValueOption { header, ..option }
}

#[tonic::async_trait]
impl Authorization for Provider {
    async fn check(&self, request: tonic::Request<CheckRequest>) -> Result<tonic::Response<CheckResponse>, Status> {
        let attributes = request.into_inner().attributes.unwrap_or_default();
        let asked = attributes.request.and_then(|request| request.http).unwrap_or_default();
        let context: BTreeMap<_, _> = attributes.context_extensions.into_iter().collect();
        let context: Vec<_> = context.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let status = |code: Code| rpc::Status { code: code as i32, ..rpc::Status::default() };
        let (status, http_response) = match asked.headers.get(JUDGE).map(String::as_str) {
            Some("deny") => {
                let denied = DeniedHttpResponse {
                    status: Some(HttpStatus { code: 401 }),
                    headers: vec![text(set("x-denied-by", &*self.name))],
                    body: format!("{} denies", self.name),
                };
                (status(Code::PermissionDenied), HttpResponse::DeniedResponse(denied))
            }
            Some("huge") => {
                let body = "x".repeat(FLOOD);
                let denied = DeniedHttpResponse { body, ..DeniedHttpResponse::default() };
                (status(Code::PermissionDenied), HttpResponse::DeniedResponse(denied))
            }
            Some("fail") => return Err(Status::internal("the judge fails")),
            Some("hang") => future::pending().await,
            Some("flood") => {
                let headers = (0..FLOOD / 1024).map(|index| text(set(&format!("x-flood-{index}"), "x".repeat(1024))));
                let headers = headers.collect();
                (status(Code::Ok), HttpResponse::OkResponse(OkHttpResponse { headers, ..OkHttpResponse::default() }))
            }
            Some("garbage") => {
                let headers =
                    vec![text(set("x-bad\r\nx-smuggled: 1", "1")), text(set("x-value", "1\r\nx-smuggled: 1"))];
                (status(Code::Ok), HttpResponse::OkResponse(OkHttpResponse { headers, ..OkHttpResponse::default() }))
            }
            Some("break") => {
                let headers = BREAKING.map(|(name, value)| text(set(name, value))).into();
                (status(Code::Ok), HttpResponse::OkResponse(OkHttpResponse { headers, ..OkHttpResponse::default() }))
            }
            _ => {
                let headers = [
                    ("x-judged-by", self.name.to_string()),
                    ("x-judge-context", context.join(",")),
                    ("x-judge-body", asked.body.len().max(asked.raw_body.len()).to_string()),
                ];
                let headers = headers.map(|(name, value)| text(set(name, value))).into();
                (status(Code::Ok), HttpResponse::OkResponse(OkHttpResponse { headers, ..OkHttpResponse::default() }))
            }
        };
        let http_response = Some(http_response);
        Ok(tonic::Response::new(CheckResponse { status: Some(status), http_response, ..CheckResponse::default() }))
    }
}

/// A counter takes what it is asked about, but where a value of it is `over`, `fail` or `hang`, or such a path.
#[tonic::async_trait]
impl RateLimitService for Provider {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<RateLimitRequest>,
    ) -> Result<tonic::Response<RateLimitResponse>, Status> {
        let request = request.into_inner();
        let entries = request.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
        let mut values = entries.map(|entry| entry.value.trim_start_matches('/'));
        let verdict = match values.find(|value| matches!(*value, "over" | "fail" | "hang")) {
            Some("over") => Verdict::OverLimit,
            Some("fail") => return Err(Status::internal("the counter fails")),
            Some(_) => future::pending().await,
            None => Verdict::Ok,
        };
        Ok(tonic::Response::new(RateLimitResponse { overall_code: verdict as i32, ..RateLimitResponse::default() }))
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ExternalProcessor for Provider {
    type ProcessStream = Answers;

    async fn process(
        &self,
        request: tonic::Request<Streaming<ProcessingRequest>>,
    ) -> Result<tonic::Response<Answers>, Status> {
        let name = Arc::clone(&self.name);
        let answers = request.into_inner().map(move |asked| {
            let name = Arc::clone(&name);
            let first = asked.as_ref().ok().and_then(endless);
            let answer = stream::once(async move { processed(&name, asked?).await });
            // Who never ends says the next before anybody asks.
            answer.chain(stream::iter(first.into_iter().flat_map(std::iter::repeat).map(Ok)))
        });
        Ok(tonic::Response::new(Box::pin(answers.flatten())))
    }
}

/// What a processor goes on to say without end, if the request, or the response, wants that.
fn endless(asked: &ProcessingRequest) -> Option<ProcessingResponse> {
    let body = || {
        let piece = StreamedBodyResponse { body: vec![b'x'; PIECE], ..StreamedBodyResponse::default() };
        let body_mutation = Some(BodyMutation { mutation: Some(Mutation::StreamedResponse(piece)) });
        BodyResponse { response: Some(CommonResponse { body_mutation, ..CommonResponse::default() }) }
    };
    let wants = |headers: &HttpHeaders| wanted(headers.headers.as_ref());
    let answer = match &asked.request {
        Some(Asked::RequestHeaders(headers)) => match wants(headers)?.as_str() {
            "answers" => answered(vec![b'x'; PIECE]),
            "endless" => Answer::RequestBody(body()),
            _ => return None,
        },
        Some(Asked::ResponseHeaders(headers)) if wants(headers)? == "endless" => Answer::ResponseBody(body()),
        _ => return None,
    };
    Some(ProcessingResponse { response: Some(answer), ..ProcessingResponse::default() })
}

/// An answer in the backend's place.
fn answered(body: Vec<u8>) -> Answer {
    let status = Some(HttpStatus { code: 202 });
    Answer::ImmediateResponse(ImmediateResponse { status, body, ..ImmediateResponse::default() })
}

/// What a processor says to one message.
async fn processed(name: &str, asked: ProcessingRequest) -> Result<ProcessingResponse, Status> {
    let common = |headers: Vec<HeaderValueOption>, body: Option<Vec<u8>>| {
        Some(CommonResponse {
            header_mutation: Some(HeaderMutation { set_headers: headers, ..HeaderMutation::default() }),
            body_mutation: body.map(|body| BodyMutation { mutation: Some(Mutation::Body(body)) }),
            ..CommonResponse::default()
        })
    };
    let behind = |body: Vec<u8>| [body, format!(" (seen by {name})").into_bytes()].concat();
    let wants = match &asked.request {
        Some(Asked::RequestHeaders(headers)) => wanted(headers.headers.as_ref()),
        _ => None,
    };
    // In another manner than was asked.
    let mode_override = (wants.as_deref() == Some("duplex")).then(|| ProcessingMode {
        response_body_mode: BodySendMode::FullDuplexStreamed as i32,
        response_trailer_mode: HeaderSendMode::Send as i32,
        ..ProcessingMode::default()
    });
    let answer = match asked.request {
        Some(Asked::RequestHeaders(_)) => match wants.as_deref() {
            Some("answer" | "answers") => answered(format!("{name} answers").into_bytes()),
            Some("huge") => answered(vec![b'x'; FLOOD]),
            Some("fail") => return Err(Status::internal("the processor fails")),
            Some("hang") => future::pending().await,
            Some("flood") => {
                let headers =
                    (0..FLOOD / 1024).map(|index| set(&format!("x-flood-{index}"), "x".repeat(1024))).collect();
                Answer::RequestHeaders(HeadersResponse { response: common(headers, None) })
            }
            // An answer to what was not asked.
            Some("garbage") => {
                Answer::ResponseBody(BodyResponse { response: common(vec![], Some(b"garbage".to_vec())) })
            }
            Some("break") => {
                let headers = BREAKING.map(|(name, value)| set(name, value)).into();
                Answer::RequestHeaders(HeadersResponse { response: common(headers, None) })
            }
            _ => Answer::RequestHeaders(HeadersResponse { response: common(vec![set("x-processed-by", name)], None) }),
        },
        Some(Asked::ResponseHeaders(_)) => Answer::ResponseHeaders(HeadersResponse {
            response: common(vec![set("x-answer-processed-by", name)], None),
        }),
        Some(Asked::RequestBody(body)) => {
            Answer::RequestBody(BodyResponse { response: common(vec![], Some(behind(body.body))) })
        }
        Some(Asked::ResponseBody(body)) => {
            Answer::ResponseBody(BodyResponse { response: common(vec![], Some(behind(body.body))) })
        }
        Some(Asked::RequestTrailers(_)) => Answer::RequestTrailers(TrailersResponse::default()),
        _ => Answer::ResponseTrailers(TrailersResponse::default()),
    };
    Ok(ProcessingResponse { response: Some(answer), mode_override, ..ProcessingResponse::default() })
}

/// What the request wants a processor to do.
fn wanted(headers: Option<&HeaderMap>) -> Option<String> {
    let header = headers?.headers.iter().find(|header| header.key == PROCESS)?;
    let value = if header.raw_value.is_empty() { header.value.as_bytes() } else { &header.raw_value };
    Some(String::from_utf8_lossy(value).into_owned())
}
