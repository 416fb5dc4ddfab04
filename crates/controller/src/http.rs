//! Serves HTTP/1 to any client: with few connections, none of which lasts without being used.

use std::{convert::Infallible, net::IpAddr, pin::pin, sync::Arc, time::Duration};

use accept::{Acceptor, FairSemaphore, Permit};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{StatusCode, header, uri::Authority},
    middleware::Next,
    response::{IntoResponse, Response},
};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};
use tower::ServiceExt;

/// How long a connection may be without a complete request: the first, and every other.
const REQUEST: Duration = Duration::from_secs(10);
/// What a request may have before its body, and the buffer for it, in bytes.
const REQUEST_BYTES: usize = 64 << 10;
/// How many headers a request may have.
const REQUEST_HEADERS: usize = 64;
/// How long an idle connection keeps its permit while others wait.
const GRACE_PERIOD: Duration = Duration::from_millis(250);
/// How long connections may take for what is under way when the server ends.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until `shutdown`, at most `connections` at a time.
pub async fn serve(listener: TcpListener, router: Router, connections: usize, shutdown: impl Future<Output = ()>) {
    let semaphore = FairSemaphore::new(connections, GRACE_PERIOD);
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    let mut acceptor = Acceptor::new("HTTP");
    let mut shutdown = pin!(shutdown);
    loop {
        let (io, address) = tokio::select! {
            () = &mut shutdown => break,
            accepted = acceptor.accept(|| listener.accept()) => accepted,
            Some(_) = tasks.join_next() => continue,
        };
        let permit = tokio::select! {
            () = &mut shutdown => break,
            permit = semaphore.acquire(address.ip().to_canonical()) => permit,
        };
        let Some(permit) = permit else { continue };
        tasks.spawn(connection(io, permit, router.clone(), stopped.clone()));
    }
    drop(listener);
    stop.send_replace(true);
    while tasks.join_next().await.is_some() {}
}

async fn connection(io: TcpStream, permit: Permit<IpAddr>, router: Router, mut stopped: watch::Receiver<bool>) {
    let revoked = permit.revoked();
    let answer = service_fn(move |request: hyper::Request<Incoming>| {
        let (busy, router) = (permit.busy(), router.clone());
        async move {
            let response = router.oneshot(request).await?;
            // As long as it is sent, and as long as that goes on.
            let body = response.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    busy.goes_on();
                    frame
                }))
            });
            Ok::<_, Infallible>(body)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST);
    builder.max_buf_size(REQUEST_BYTES).max_headers(REQUEST_HEADERS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), answer));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = revoked => return,
        _ = stopped.wait_for(|stopped| *stopped) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            timeout(DRAIN, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Lets requests through for a server at `own`, by localhost or an address. Another name may be one of DNS rebinding: a page
/// of an attacker, open in the browser of a user who forwards a port, could read the answers.
pub async fn for_this_host(State(own): State<Arc<IpAddr>>, request: Request, next: Next) -> Response {
    let by_uri = request.uri().authority().cloned();
    let by_header = || request.headers().get(header::HOST)?.to_str().ok()?.parse().ok();
    if by_uri.or_else(by_header).is_some_and(|host: Authority| is_own(host.host(), *own)) {
        return next.run(request).await;
    }
    (StatusCode::MISDIRECTED_REQUEST, "ask for this server as localhost, or by its IP address\n").into_response()
}

fn is_own(host: &str, own: IpAddr) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).parse::<IpAddr>();
    match address.map(|address| address.to_canonical()) {
        // An address needs no name that could be redirected.
        Ok(address) => address.is_loopback() || own.is_unspecified() || address == own.to_canonical(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::{middleware, routing::get};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpSocket,
        sync::oneshot,
    };

    use super::*;

    const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

    async fn served(connections: usize) -> (SocketAddr, oneshot::Sender<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it has one");
        let (stop, stopped) = oneshot::channel::<()>();
        let router = Router::new()
            .route("/", get(async || "here\n"))
            .layer(middleware::from_fn_with_state(Arc::new(address.ip()), for_this_host));
        tokio::spawn(serve(listener, router, connections, async move { drop(stopped.await) }));
        (address, stop)
    }

    async fn connect(to: SocketAddr, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((from, 0).into()).expect("an address of this host");
        socket.connect(to).await.expect("a connection")
    }

    async fn answer(io: &mut TcpStream, request: &[u8]) -> String {
        io.write_all(request).await.expect("it is read");
        let mut answer = vec![0; 1000];
        let read = timeout(Duration::from_secs(20), io.read(&mut answer)).await.expect("an answer");
        answer.truncate(read.expect("an answer"));
        String::from_utf8(answer).expect("text")
    }

    #[tokio::test]
    async fn idle_connections_of_one_address_keep_out_nobody_of_another() {
        let (address, _stop) = served(32).await;
        let mut held = Vec::new();
        for number in 0..100 {
            let mut io = connect(address, [127, 0, 0, 2]).await;
            // Half a request is no request.
            io.write_all(&GET[..number % GET.len()]).await.ok();
            held.push(io);
        }
        let mut probe = connect(address, [127, 0, 0, 1]).await;
        assert!(answer(&mut probe, GET).await.ends_with("here\n"));
        // The connection is used again.
        assert!(answer(&mut probe, GET).await.ends_with("here\n"));
    }

    #[tokio::test]
    async fn a_connection_ends_when_it_is_not_used() {
        let (address, _stop) = served(32).await;
        let (mut used, mut silent) = (connect(address, [127, 0, 0, 1]).await, connect(address, [127, 0, 0, 1]).await);
        assert!(answer(&mut used, GET).await.ends_with("here\n"));
        tokio::time::pause();
        for io in [&mut used, &mut silent] {
            assert_eq!(io.read(&mut [0; 1]).await.unwrap_or(0), 0);
        }
    }

    #[tokio::test]
    async fn the_end_of_the_server_ends_its_connections() {
        let (address, stop) = served(32).await;
        let mut io = connect(address, [127, 0, 0, 1]).await;
        assert!(answer(&mut io, GET).await.ends_with("here\n"));
        drop(stop);
        assert_eq!(io.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn who_asks_for_another_host_is_refused() {
        let (address, _stop) = served(32).await;
        for (host, served) in [
            ("localhost", true),
            ("localhost:9979", true),
            ("127.0.0.1:9979", true),
            ("[::1]:9979", true),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("10.0.0.1", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            let mut io = connect(address, [127, 0, 0, 1]).await;
            let answer = answer(&mut io, format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).await;
            assert_eq!(answer.starts_with("HTTP/1.1 200"), served, "{host}: {answer}");
            assert_eq!(answer.starts_with("HTTP/1.1 421"), !served, "{host}: {answer}");
        }
        let mut io = connect(address, [127, 0, 0, 1]).await;
        let absolute = answer(&mut io, b"GET http://evil.example/ HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
        assert!(absolute.starts_with("HTTP/1.1 421"), "{absolute}");
    }

    #[test]
    fn an_address_of_its_own_is_one_that_it_listens_on() {
        let (pod, any): (IpAddr, IpAddr) = ([10, 0, 0, 7].into(), [0, 0, 0, 0].into());
        assert!(is_own("10.0.0.7", pod) && !is_own("10.0.0.8", pod) && is_own("10.0.0.8", any));
        assert!(!is_own("pod.example", any) && is_own("LOCALHOST", pod) && is_own("[::ffff:10.0.0.7]", pod));
    }
}
