//! A request as a client sends it, and what Envoy makes of it before it looks for a route.

use ir::{Port, filter::Scheme};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: String,
    /// `http` or `https`.
    pub scheme: Scheme,
    /// The host that the connection is made to; over TLS it is the server name.
    pub server: String,
    /// The port that the connection is made to.
    pub port: Port,
    /// The host that is asked for (`Host`, `:authority`), with a port where it is written with one.
    pub authority: String,
    /// Path and query string.
    pub target: String,
    /// Other headers, their names in lower case.
    pub headers: Vec<(String, String)>,
}

/// What is no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// No URL that can be asked for.
    #[error("{url:?} is not a URL to ask for: {why}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No method.
    #[error("{0:?} is not a method")]
    Method(String),
    /// No header.
    #[error("{0:?} is not a header: write NAME: VALUE")]
    Header(String),
}

/// Headers that Envoy removes before it looks for a route, since nobody who connects is within: they steer it, or are for it to
/// say.
const REMOVED: [&str; 19] = [
    "x-envoy-decorator-operation",
    "x-envoy-downstream-service-cluster",
    "x-envoy-downstream-service-node",
    "x-envoy-expected-rq-timeout-ms",
    "x-envoy-force-trace",
    "x-envoy-hedge-on-per-try-timeout",
    "x-envoy-internal",
    "x-envoy-ip-tags",
    "x-envoy-max-retries",
    "x-envoy-original-url",
    "x-envoy-retriable-header-names",
    "x-envoy-retriable-status-codes",
    "x-envoy-retry-grpc-on",
    "x-envoy-retry-on",
    "x-envoy-upstream-alt-stat-name",
    "x-envoy-upstream-rq-per-try-timeout-ms",
    "x-envoy-upstream-rq-timeout-alt-response",
    "x-envoy-upstream-rq-timeout-ms",
    "x-forwarded-client-cert",
];

impl Request {
    /// The request without the headers that Envoy does not take from those who connect to it.
    pub(crate) fn without_removed_headers(mut self) -> Self {
        self.headers.retain(|(name, _)| !REMOVED.contains(&name.as_str()));
        self
    }

    /// A request for an absolute URL with headers in the form `NAME: VALUE`. The port is left out of the host where the
    /// scheme implies it, as clients do, and a `host` header takes its place.
    pub fn new<'a>(method: &str, url: &str, headers: impl IntoIterator<Item = &'a str>) -> Result<Self, BadRequest> {
        if method.is_empty() || !method.bytes().all(is_token) {
            return Err(BadRequest::Method(method.into()));
        }
        let refuse = |why| BadRequest::Url { url: url.into(), why };
        let (scheme, rest) = url.split_once("://").ok_or(refuse("it must begin with http:// or https://"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(refuse("it must begin with http:// or https://")),
        };
        // A fragment is not sent.
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        if rest.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(refuse("it has a space or a control character in it; write %20"));
        }
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(refuse("a user name is not sent; leave it out"));
        }
        let (server, port) = host_and_port(authority);
        let port = match port {
            None | Some("") => scheme.well_known_port(),
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or(refuse("its port is no port"))?,
        };
        if server.is_empty() {
            return Err(refuse("it has no host"));
        }
        let mut asked = server.to_owned();
        if port != scheme.well_known_port() {
            asked = format!("{server}:{port}");
        }
        let mut request = Self {
            method: method.into(),
            scheme,
            server: server.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase(),
            port,
            authority: asked,
            target: if path.starts_with('/') { path.into() } else { format!("/{path}") },
            headers: Vec::new(),
        };
        for header in headers {
            let (name, value) = header.split_once(':').ok_or_else(|| BadRequest::Header(header.into()))?;
            if name.is_empty() || !name.bytes().all(is_token) || value.chars().any(char::is_control) {
                return Err(BadRequest::Header(header.into()));
            }
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            if name == "host" {
                request.authority = value;
            } else {
                request.headers.push((name, value));
            }
        }
        Ok(request)
    }

    /// The host that is asked for, as virtual hosts are chosen by it: in lower case, without port and last dot.
    pub(crate) fn host(&self) -> String {
        host_and_port(&self.asked()).0.to_ascii_lowercase()
    }

    /// The host that is asked for without the dot that a name may end with.
    pub(crate) fn asked(&self) -> String {
        match host_and_port(&self.authority) {
            (host, Some(port)) => format!("{}:{port}", host.strip_suffix('.').unwrap_or(host)),
            (host, None) => host.strip_suffix('.').unwrap_or(host).to_owned(),
        }
    }
}

/// RFC 9110 section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The brackets of an IPv6 address stay.
pub(crate) fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// What Envoy makes of path and query string before it looks for a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Normal {
    /// This is routed.
    Target(String),
    /// An escaped slash was found: the client is sent here.
    Redirect(String),
    /// 400, and why.
    Refused(&'static str),
}

/// As every listener of ours has it: escaped slashes unescaped and redirected, then dot segments removed and characters
/// escaped as in a URL, then slashes merged. The query string stays as it is.
pub(crate) fn normalise(target: &str) -> Normal {
    if !target.is_ascii() {
        return Normal::Refused("the path has a character beyond ASCII in it that is not escaped");
    }
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let unescaped = path.replace("%2F", "/").replace("%2f", "/").replace("%5C", "\\").replace("%5c", "\\");
    let Some(canonical) = canonical(&unescaped) else {
        return Normal::Refused("the path has an escaped NUL in it");
    };
    let target = merged(&canonical) + query;
    if unescaped == path { Normal::Target(target) } else { Normal::Redirect(target) }
}

fn canonical(path: &str) -> Option<String> {
    // Of a dot segment what follows a semicolon does not count, if it is written plainly.
    let plain = path.split('/').map(|segment| match segment.split_once(';') {
        Some((dots @ ("." | ".."), _)) => dots,
        _ => segment,
    });
    let plain = plain.collect::<Vec<_>>().join("/").replace('\\', "/");
    let mut kept: Vec<String> = Vec::new();
    let mut segments = plain.strip_prefix('/').unwrap_or(&plain).split('/').peekable();
    while let Some(segment) = segments.next() {
        let segment = escaped(segment)?;
        let is_last = segments.peek().is_none();
        match &*segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => {
                kept.push(segment);
                continue;
            }
        }
        if is_last {
            kept.push(String::new());
        }
    }
    Some(format!("/{}", kept.join("/")))
}

/// A segment with what needs no escape unescaped, and what does escaped; none for one with an escaped NUL.
fn escaped(segment: &str) -> Option<String> {
    let mut out = String::with_capacity(segment.len());
    let mut rest = segment;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let code = rest.get(..2).filter(|code| c == '%' && code.bytes().all(|b| b.is_ascii_hexdigit()));
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(0) => return None,
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                out.push(char::from(byte));
                rest = &rest[2..];
            }
            _ if "\"<>{}|^` ".contains(c) => out.extend(['%', upper_hex(c, 4), upper_hex(c, 0)]),
            _ => out.push(c),
        }
    }
    Some(out)
}

fn upper_hex(c: char, shift: u32) -> char {
    let digit = char::from_digit((u32::from(c) >> shift) & 0xf, 16);
    digit.unwrap_or_default().to_ascii_uppercase()
}

fn merged(path: &str) -> String {
    if !path.contains("//") {
        return path.to_owned();
    }
    let kept: Vec<_> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let end = if path.ends_with('/') { "/" } else { "" };
    // So two slashes and nothing else stay two.
    format!("/{}{end}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_tells_connection_host_and_target() {
        let request = |url: &str, headers: &[&str]| Request::new("GET", url, headers.iter().copied()).expect(url);
        let plain = request("http://Example.com/a/b?x=1#here", &["X-A:  1 "]);
        assert_eq!((&*plain.server, plain.port, &*plain.authority), ("example.com", 80, "Example.com"));
        assert_eq!(plain.target, "/a/b?x=1");
        assert_eq!(plain.headers, [("x-a".into(), "1".into())]);
        assert_eq!(plain.host(), "example.com");
        let other = request("https://a.b:8443?q", &[]);
        assert_eq!((other.scheme, other.port, &*other.authority), (Scheme::Https, 8443, "a.b:8443"));
        assert_eq!(other.target, "/?q");
        // A port that the scheme implies is not sent, but for in a header of one's own.
        assert_eq!(request("http://a:80/", &[]).authority, "a");
        let own = request("http://127.0.0.1:8080/", &["Host: example.com.:80"]);
        assert_eq!(
            (&*own.server, own.port, &*own.host(), &*own.asked()),
            ("127.0.0.1", 8080, "example.com", "example.com:80")
        );
        let v6 = request("http://[::1]:81", &[]);
        assert_eq!((&*v6.server, v6.port, &*v6.authority, &*v6.host()), ("::1", 81, "[::1]:81", "[::1]"));
        for url in
            ["/a", "example.com/a", "ftp://a/", "http:///a", "http://a:b/", "http://a:0/", "http://u@a/", "http://a/ b"]
        {
            assert!(Request::new("GET", url, []).is_err(), "{url}");
        }
        assert!(Request::new("", "http://a/", []).is_err());
        assert!(Request::new("GET", "http://a/", ["x"]).is_err());
        assert!(Request::new("GET", "http://a/", ["x y: 1"]).is_err());
    }

    /// What Envoy 1.40 does, seen.
    #[test]
    fn a_path_is_normalised_as_envoy_does() {
        for (target, normal) in [
            ("/a/b", "/a/b"),
            ("//a///b", "/a/b"),
            ("/a//", "/a/"),
            ("//", "//"),
            ("///", "//"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a//../b", "/a/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/a/..", "/"),
            ("/..", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/.a", "/.a"),
            ("/...", "/..."),
            ("/a%2e%2e/b", "/a../b"),
            ("/a\\b", "/a/b"),
            ("/a/..\\b", "/b"),
            ("/a/..;/b", "/b"),
            ("/a/.;x/b", "/a/b"),
            ("/a/..;b;c/d", "/d"),
            ("/a/b;x/..", "/a/"),
            ("/a/;../b", "/a/;../b"),
            ("/a/...;/b", "/a/...;/b"),
            ("/a/%2e%2e;/b", "/a/..;/b"),
            ("/a/..;\\b", "/"),
            ("/%41%7e%2d%21%28%40%3a", "/A~-%21%28%40%3a"),
            ("/%zz", "/%zz"),
            ("/%4", "/%4"),
            ("/%", "/%"),
            ("/%25", "/%25"),
            ("/%c3%a9", "/%c3%a9"),
            ("/a\"<>{}|^`b", "/a%22%3C%3E%7B%7D%7C%5E%60b"),
            ("/a;b/=&+$,:@!'()*[x]", "/a;b/=&+$,:@!'()*[x]"),
            ("/a?b/../c//d%2f", "/a?b/../c//d%2f"),
        ] {
            assert_eq!(normalise(target), Normal::Target(normal.into()), "{target}");
        }
        for (target, location) in [
            ("/a/%2fb", "/a/b"),
            ("/a%5Cb?x=%2f", "/a/b?x=%2f"),
            ("/a/..%2fb", "/b"),
            ("/%2F", "//"),
            ("/a%2f..;/b", "/b"),
        ] {
            assert_eq!(normalise(target), Normal::Redirect(location.into()), "{target}");
        }
        for target in ["/%00", "/é"] {
            assert!(matches!(normalise(target), Normal::Refused(_)), "{target}");
        }
    }
}
