//! A server that proxies tell of requests, in the real protocols: Envoy's access log service, and OTLP of OpenTelemetry.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use envoy_types::pb::envoy::{
    data::accesslog::v3::HttpAccessLogEntry,
    service::accesslog::v3::{
        StreamAccessLogsMessage, StreamAccessLogsResponse,
        access_log_service_server::{AccessLogService, AccessLogServiceServer},
        stream_access_logs_message::LogEntries,
    },
};
use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::{
            ExportLogsServiceRequest, ExportLogsServiceResponse,
            logs_service_server::{LogsService, LogsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
    resource::v1::Resource,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap, transport::server::TcpIncoming};

/// What it was told of a request, as text.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The body of a record, or the name of a span.
    pub text: String,
    /// Its attributes.
    pub attributes: BTreeMap<String, String>,
    /// Those of the proxy.
    pub resource: BTreeMap<String, String>,
    /// The header `x-token` of the call.
    pub token: String,
}

/// What it was told so far.
#[derive(Debug, Default)]
struct Told {
    entries: Mutex<Vec<(String, HttpAccessLogEntry)>>,
    records: Mutex<Vec<Record>>,
    spans: Mutex<Vec<Record>>,
}

/// A server that ends when it is dropped.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    told: Arc<Told>,
    task: JoinHandle<()>,
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Collector {
    /// One at a port.
    pub async fn start(port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.context("no collector can listen")?;
        let address = listener.local_addr()?;
        let told = Arc::new(Told::default());
        let service = Service(told.clone());
        let server = tonic::transport::Server::builder()
            .add_service(AccessLogServiceServer::new(service.clone()))
            .add_service(LogsServiceServer::new(service.clone()))
            .add_service(TraceServiceServer::new(service));
        let task = tokio::spawn(async move {
            // It ends with its task.
            let _ = server.serve_with_incoming(TcpIncoming::from(listener)).await;
        });
        Ok(Self { address, told, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Entries of Envoy's own, each with the name of its log.
    pub fn entries(&self) -> Vec<(String, HttpAccessLogEntry)> {
        locked(&self.told.entries).clone()
    }

    /// Records of logs.
    pub fn records(&self) -> Vec<Record> {
        locked(&self.told.records).clone()
    }

    /// Spans.
    pub fn spans(&self) -> Vec<Record> {
        locked(&self.told.spans).clone()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Debug)]
struct Service(Arc<Told>);

#[tonic::async_trait]
impl AccessLogService for Service {
    async fn stream_access_logs(
        &self,
        request: Request<Streaming<StreamAccessLogsMessage>>,
    ) -> Result<Response<StreamAccessLogsResponse>, Status> {
        let mut stream = request.into_inner();
        let mut name = String::new();
        while let Some(message) = stream.message().await? {
            if let Some(identifier) = message.identifier {
                name = identifier.log_name;
            }
            if let Some(LogEntries::HttpLogs(logs)) = message.log_entries {
                let entries = logs.log_entry.into_iter().map(|entry| (name.clone(), entry));
                locked(&self.0.entries).extend(entries);
            }
        }
        Ok(Response::new(StreamAccessLogsResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Service {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let token = token(request.metadata());
        for of_resource in request.into_inner().resource_logs {
            let resource = resource(of_resource.resource);
            let records = of_resource.scope_logs.into_iter().flat_map(|scope| scope.log_records);
            locked(&self.0.records).extend(records.map(|record| Record {
                text: record.body.map(text).unwrap_or_default(),
                attributes: texts(record.attributes),
                resource: resource.clone(),
                token: token.clone(),
            }));
        }
        Ok(Response::new(ExportLogsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Service {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let token = token(request.metadata());
        for of_resource in request.into_inner().resource_spans {
            let resource = resource(of_resource.resource);
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            locked(&self.0.spans).extend(spans.map(|span| Record {
                text: span.name,
                attributes: texts(span.attributes),
                resource: resource.clone(),
                token: token.clone(),
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn token(metadata: &MetadataMap) -> String {
    metadata.get("x-token").and_then(|token| token.to_str().ok()).unwrap_or_default().to_owned()
}

fn resource(resource: Option<Resource>) -> BTreeMap<String, String> {
    texts(resource.map(|resource| resource.attributes).unwrap_or_default())
}

fn texts(pairs: Vec<KeyValue>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, pair.value.map(text).unwrap_or_default())).collect()
}

fn text(value: AnyValue) -> String {
    match value.value {
        Some(Value::StringValue(text)) => text,
        Some(Value::ArrayValue(list)) => list.values.into_iter().map(text).collect::<Vec<_>>().join(","),
        Some(Value::KvlistValue(list)) => {
            let pairs = texts(list.values).into_iter().map(|(key, value)| format!("{key}={value}"));
            pairs.collect::<Vec<_>>().join(",")
        }
        other => format!("{other:?}"),
    }
}
