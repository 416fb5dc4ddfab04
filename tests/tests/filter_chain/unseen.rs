//! What who guards requests was not shown goes no further.

use anyhow::{Context, Result, ensure};
use portcullis_tests::client::{Protocol, Request, Response, Target, send};
use portcullis_tests::wait::TIMEOUT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::HOST;
use super::providers::{World, policy};

fn post(body: &str) -> Request {
    Request { method: "POST".to_owned(), body: body.to_owned(), ..Request::get(HOST, "/") }
}

/// Over HTTP/2 a short body and its end are one piece, which no filter of Envoy that waits for bodies counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_comes_in_one_piece_with_its_end_is_no_longer_than_one_that_comes_in_several() -> Result<()> {
    let whole = "extAuth: {extensionRef: {name: judge}, withRequestBody: {maxRequestBytes: 16}}";
    let world = World::start(whole).await?;
    let is_over = |response: &Response| response.status == 413;
    let [fits, is_long] = ["sixteen bytes...", "seventeen bytes.."].map(post);
    for spec in [whole, "buffer: {maxRequestSize: 16}"] {
        world.portcullis.write("policy.yaml", &policy(spec))?;
        world.becomes(&is_long, "refused", is_over).await?;
        for protocol in [Protocol::Http1, Protocol::H2] {
            let target = Target { protocol, ..world.target.clone() };
            let refused = send(&target, &is_long).await?;
            ensure!(is_over(&refused), "{spec} {protocol:?}: {} {:?}", refused.status, refused.echoed);
            let taken = send(&target, &fits).await?;
            ensure!(
                taken.echoed.is_some_and(|echoed| echoed.body == fits.body),
                "{spec} {protocol:?}: {}",
                taken.status
            );
            ensure!(send(&target, &Request::get(HOST, "/")).await?.status == 200, "{spec} {protocol:?}: no body");
        }
    }
    ensure!(world.backend.latest(|echoed| echoed.body == is_long.body).is_none(), "a long one came through");
    // Who wants to see the beginning alone gets it.
    let part =
        "extAuth: {extensionRef: {name: judge}, withRequestBody: {maxRequestBytes: 16, allowPartialMessage: true}}";
    world.portcullis.write("policy.yaml", &policy(part))?;
    world.becomes(&is_long, "let through", |response| response.status == 200).await?;
    world.end().await
}

/// What a service is asked is text, and one that cannot read the question gives no answer, for which the limit is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_is_passed_by_no_header_that_is_no_text_and_by_no_query() -> Result<()> {
    let limit = "rateLimit: {global: {extensionRef: {name: counter}, descriptors: [{entries: [{type: Header, header: x-team}]}, \
                 {entries: [{type: Path}]}]}}";
    let world = World::start(limit).await?;
    let over = Request::get(HOST, "/").header("x-team", "over");
    world.becomes(&over, "over the limit", |response| response.status == 429).await?;
    for path in ["/over", "/over?x=1", "/over?"] {
        let response = send(&world.target, &Request::get(HOST, path)).await?;
        ensure!(response.status == 429, "{path}: {}", response.status);
    }
    for (value, status) in [
        (b"blue".as_slice(), "200"),
        ("bl\u{fc}\u{10348}".as_bytes(), "200"),
        (b"over\xff", "403"),
        // What stands for half of a character elsewhere.
        (b"\xed\xa0\x80", "403"),
        (b"\xc0\xaf", "403"),
        (b"\xf4\x90\x80\x80", "403"),
    ] {
        let answer = raw(&world, value).await?;
        ensure!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{value:?}: {answer:.100}");
    }
    world.end().await
}

/// What is answered where a header has these bytes.
async fn raw(world: &World, value: &[u8]) -> Result<String> {
    let mut stream = TcpStream::connect(world.target.address).await?;
    let head = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nX-Team: ");
    stream.write_all(&[head.as_bytes(), value, b"\r\n\r\n"].concat()).await?;
    let mut answer = Vec::new();
    tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut answer)).await.context("no answer")??;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
