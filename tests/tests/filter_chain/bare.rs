//! Responses that have no body, whatever a template would make of it: to HEAD, and with 204, 205 and 304.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use portcullis_tests::client::{Connection, Protocol, Request, Target, send};
use portcullis_tests::envoy::Envoy;
use portcullis_tests::objects;
use portcullis_tests::portcullis::Portcullis;
use portcullis_tests::ports;
use portcullis_tests::wait::{TIMEOUT, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::guards::policy;
use super::{HOST, route};

/// What a backend says, be it allowed to or not.
const SAID: &str = "said";

/// A backend that answers `/STATUS` with the status, and with a body, where `/STATUS/bare` has none. It says how long a body is
/// that it does not send.
struct Backend {
    port: u16,
    task: JoinHandle<()>,
}

impl Backend {
    /// One that speaks HTTP/2, in which a body that must not be there is told from what follows.
    async fn over_h2() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut connection = h2::server::handshake(stream).await?;
                    while let Some(asked) = connection.accept().await {
                        let (request, mut respond) = asked?;
                        let (status, bare) = asked_for(request.uri().path());
                        let response = http::Response::builder().status(status).header("content-type", "text/plain");
                        let response = response.header("etag", "\"a\"").header("content-encoding", "identity");
                        let response = response.body(())?;
                        let mut stream = respond.send_response(response, bare)?;
                        if !bare {
                            stream.send_data(Bytes::from_static(SAID.as_bytes()), true)?;
                        }
                    }
                    anyhow::Ok(())
                });
            }
        });
        Ok(Self { port, task })
    }

    /// One that speaks HTTP/1, and ends each connection with what it must not say.
    async fn over_http1() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut asked = [0; 8192];
                    let length = stream.read(&mut asked).await?;
                    let asked = String::from_utf8_lossy(&asked[..length]).into_owned();
                    let (status, bare) = asked_for(asked.split(' ').nth(1).unwrap_or_default());
                    let body = if bare { "" } else { SAID };
                    // A body may follow 205, as far as a parser knows. With 204 Envoy takes no length.
                    let length = match status {
                        204 => String::new(),
                        205 => "content-length: 0\r\n".to_owned(),
                        _ => format!("content-length: {}\r\n", SAID.len()),
                    };
                    let head = format!(
                        "HTTP/1.1 {status} Status\r\nconnection: close\r\ncontent-type: text/plain\r\netag: \"a\"\r\n\
                         content-encoding: identity\r\n\
                         {length}\r\n{body}"
                    );
                    stream.write_all(head.as_bytes()).await?;
                    anyhow::Ok(())
                });
            }
        });
        Ok(Self { port, task })
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn asked_for(path: &str) -> (u16, bool) {
    let mut parts = path.trim_start_matches('/').split('/');
    let status = parts.next().and_then(|status| status.parse().ok()).unwrap_or(200);
    (status, parts.next() == Some("bare"))
}

/// What a client over HTTP/1 reads behind the head of the first of two answers on one connection, and whether the second one is
/// what it should be: a body that must not be there would be taken for its head.
async fn behind_head(target: &Target, method: &str, path: &str) -> Result<(String, String)> {
    let mut stream = TcpStream::connect(target.address).await?;
    let first = format!("{method} {path} HTTP/1.1\r\nhost: {HOST}\r\n\r\n");
    let second = format!("GET /200 HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
    stream.write_all((first + &second).as_bytes()).await?;
    let mut all = Vec::new();
    // What Envoy ends is read as far as it goes.
    let _ = stream.read_to_end(&mut all).await;
    let all = String::from_utf8_lossy(&all).into_owned();
    let (head, rest) = all.split_once("\r\n\r\n").with_context(|| format!("no answer: {all:?}"))?;
    Ok((head.to_ascii_lowercase(), rest.to_owned()))
}

async fn hold(backend: &Backend, app_protocol: &str) -> Result<()> {
    let port = ports::free_port()?;
    let service = objects::service_at("backend", ([127, 0, 0, 1], backend.port).into());
    let files = [
        ("a-gateway.yaml", objects::gateway(&[format!("{{name: http, port: {port}, protocol: HTTP}}")])),
        ("b-backend.yaml", service.replace("ports: [{port: 80}]", &format!("ports: [{{port: 80{app_protocol}}}]"))),
        ("policy.yaml", String::new()),
        ("route.yaml", route("")),
    ];
    let portcullis = Portcullis::start(&files.map(|(name, content)| (name.to_owned(), content))).await?;
    let mut envoy = Envoy::start(&portcullis.bootstrap("infra/gateway").await?).await?;
    let over_http1 = Target::local(port);
    let over_h2 = Target { protocol: Protocol::H2, ..over_http1.clone() };
    // What is made of a body that is read, in a body and in a header; and a body that is made of nothing.
    let templates = [
        ("", SAID),
        ("{body: {value: 'made of {{ body() }}'}, set: [{name: x-of, value: '{{ body() }}'}]}", "made of said"),
        ("{body: {value: made}, set: [{name: x-of, value: '{{ header(\":status\") }}'}]}", "made"),
        ("{body: {parseAs: AsString}, set: [{name: x-of, value: '{{ body() }}'}]}", SAID),
    ];
    for (template, made) in templates {
        let said = if template.is_empty() {
            String::new()
        } else {
            policy(&format!("transformation: {{response: {template}}}"))
        };
        portcullis.write("policy.yaml", &said)?;
        eventually(TIMEOUT, async || {
            let answer = send(&over_http1, &Request::get(HOST, "/200")).await?;
            ensure!(answer.body == made && answer.header("x-of").is_some() != template.is_empty(), "{answer:?}");
            Ok(())
        })
        .await
        .with_context(|| portcullis.log_tail())?;
        for (method, path) in [
            ("HEAD", "/200"),
            ("HEAD", "/200/bare"),
            ("GET", "/204"),
            ("GET", "/204/bare"),
            ("GET", "/304"),
            ("GET", "/304/bare"),
            ("HEAD", "/304"),
            ("GET", "/205/bare"),
        ] {
            let context = || format!("{template} {method} {path}");
            let (head, rest) = behind_head(&over_http1, method, path).await.with_context(context)?;
            // What a backend must not send ends in an error, or with the connection.
            let may_end = !path.ends_with("/bare");
            let is_ended = may_end && (head.starts_with("http/1.1 50") || rest.is_empty());
            // Of these, 205 alone has a body as far as HTTP/1 knows, whose end is said.
            let behind = if path == "/205/bare" { rest.strip_prefix("0\r\n\r\n").unwrap_or(&rest) } else { &rest };
            let is_second = behind.starts_with("HTTP/1.1 200 OK");
            ensure!(is_ended || is_second, "{}: {head} | {rest}", context());
            let is_whole = rest.ends_with(made) || rest.ends_with("0\r\n\r\n");
            ensure!(is_whole || may_end && rest.is_empty(), "{}: {head} | {rest}", context());
            // Of a body that is made nobody knows how long it would be, and it would not be encoded.
            let tells = (method == "HEAD" || path.contains("304")) && made.starts_with("made") && !is_ended;
            let is_said = head.contains("content-length: 4") || head.contains("content-encoding");
            ensure!(!(tells && is_said), "{}: {head}", context());

            let mut connection = Connection::open(&over_h2).await?;
            let request = Request { method: method.to_owned(), ..Request::get(HOST, path) };
            // What a backend must not send ends the stream, at the latest behind the head.
            let answer = connection.send(&request).await;
            ensure!(may_end || answer.is_ok(), "{}: {answer:?}", context());
            if let Ok(answer) = answer {
                ensure!(answer.body.is_empty() || answer.status >= 500, "{}: {answer:?}", context());
            }
            let after = connection.send(&Request::get(HOST, "/200")).await.with_context(context)?;
            ensure!(after.body == made, "{}: {after:?}", context());
        }
    }
    envoy.check().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_of_a_body_that_cannot_be_there() -> Result<()> {
    hold(&Backend::over_http1().await?, "").await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_of_a_body_that_must_not_be_there_though_it_is_sent() -> Result<()> {
    hold(&Backend::over_h2().await?, ", appProtocol: kubernetes.io/h2c").await
}
