//! Values by what they stand for: those at the edge of what is allowed, and those beyond it.
//!
//! A field mostly gets a value at the edge, since one that is refused hides what else stands in its rule.

use proptest::{
    prelude::{BoxedStrategy, Strategy, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

/// The namespaces in which things live.
pub(super) const NAMESPACES: [&str; 2] = ["apps", "infra"];

/// The Gateways that worlds have, all in `infra`.
pub const GATEWAYS: [&str; 2] = ["g0", "g1"];

/// The Secrets with credentials that worlds have, wherever they live.
pub(super) const CREDENTIALS: [&str; 2] = ["k0", "k1"];

/// The extensions that worlds have, all in `apps`.
pub const EXTENSIONS: [&str; 8] = ["judge", "over-http", "processor", "early", "counter", "tokens", "tokens2", "login"];

/// Lines of htpasswd files that Envoy takes.
pub(super) const USERS: [&str; 3] =
    ["alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "bob:{SHA}0JQeaNqPOBUf+Gph/Fn3xc+fyqI=", "# nobody"];

/// Text that nobody should write anywhere.
const HOSTILE: &[&str] = &[
    "",
    " ",
    "  a",
    "a ",
    "a b",
    "\t",
    "\n",
    "a\r\nb: c",
    "\u{0}",
    "a\u{0}b",
    "\u{1}\u{7f}\u{85}",
    "é",
    "☃",
    "\u{202e}\u{200b}\u{feff}",
    "😀",
    "../../etc/passwd",
    "/..",
    "//",
    "\\1",
    "\\",
    "$0",
    "%",
    "%%",
    "%2f",
    "%START_TIME%",
    "%REQ(:path)%",
    "%FILTER_STATE(x)%",
    "%UNKNOWN%",
    "%00",
    "*",
    "**",
    "*.",
    ".",
    "..",
    "?",
    "#",
    "a?b",
    "a#b",
    "[",
    "(",
    ")",
    "{",
    "}",
    "[a",
    "(?",
    "-1",
    "0",
    "65536",
    "1e999",
    "NaN",
    "true",
    "null",
    "~",
    "|",
    "\"",
    "'",
    "<script>",
    "{{x}}",
    ":",
    ":path",
    "Host",
    "localhost",
    "127.0.0.1",
    "::1",
    "0.0.0.0",
    "xn--",
    "type.googleapis.com/x",
];

/// The same, and some that are long.
pub fn hostile() -> BoxedStrategy<String> {
    let long = [
        "x".repeat(10_000),
        "é".repeat(5_000),
        "/".repeat(10_000),
        "%".repeat(10_000),
        "(".repeat(10_000),
        "a.".repeat(5_000),
        "*".repeat(10_000),
        "\n".repeat(10_000),
    ];
    prop_oneof![12 => select(HOSTILE).prop_map(str::to_owned), 1 => select(long.to_vec()), 1 => "\\PC{0,12}"].boxed()
}

/// Numbers of which none is a port that a program on this machine has taken for a connection: Envoy would refuse to
/// listen there.
fn any_number() -> BoxedStrategy<i64> {
    prop_oneof![-70_000..10_000_i64, 61_000..70_000_i64].boxed()
}

/// Numbers at and beyond the bounds of what numbers are used for.
pub fn number() -> BoxedStrategy<i64> {
    const NUMBERS: &[i64] = &[
        -1,
        0,
        1,
        2,
        99,
        100,
        101,
        199,
        200,
        302,
        399,
        400,
        503,
        599,
        600,
        1_023,
        1_024,
        65_535,
        65_536,
        1_000_000,
        1_000_001,
        i32::MAX as i64,
        i32::MIN as i64,
    ];
    prop_oneof![6 => select(NUMBERS), 1 => any_number()].boxed()
}

/// Mostly one of `edge`, sometimes one of `beyond`, sometimes anything.
fn of(
    edge: &'static [&'static str],
    beyond: &'static [&'static str],
    long: Vec<String>,
    too_long: Vec<String>,
) -> BoxedStrategy<String> {
    let beyond = prop_oneof![4 => select(beyond).prop_map(str::to_owned), 1 => select(too_long)];
    let edges = prop_oneof![8 => select(edge).prop_map(str::to_owned), 1 => select(long)];
    prop_oneof![28 => edges, 1 => beyond, 1 => hostile()].boxed()
}

/// Values of `Exact` and `PathPrefix`.
pub fn path() -> BoxedStrategy<String> {
    of(
        &[
            "/",
            "/a",
            "/foo",
            "/foo/",
            "/foo/bar",
            "/.well-known",
            "/...",
            "/a/..b",
            "/%20",
            "/a/%C3%A9",
            "/a%25",
            "/-._~!$&'()*+,;=:@",
            "/f.o+(x)*",
        ],
        &[
            "foo", "/a//b", "/a/../b", "/a%2fb", "/a?b", "/a#b", "/é", "/a b", "/{id}", "/%", "/%zz", "/%41", "/%5C",
            "/a\\b", "/|",
        ],
        vec![format!("/{}", "p".repeat(1_023)), format!("/{}", "%20".repeat(341)), format!("/{}", "a/".repeat(511))],
        vec![format!("/{}", "p".repeat(1_024))],
    )
}

/// New paths of rewrites and redirects.
pub fn new_path() -> BoxedStrategy<String> {
    of(
        &["/", "/new", "/new/", "/a/b/c", "/%5C1", "/$0", "/a//b", "/../x", "/%2f", "/&'()*+,;="],
        &["", "new", "/a\\1", "/a?b=c", "/a#b", "/a\nb", "/é"],
        vec![format!("/{}", "n".repeat(1_023))],
        vec![format!("/{}", "n".repeat(1_024))],
    )
}

/// Regular expressions, about half of them not RE2's.
pub fn regex() -> BoxedStrategy<String> {
    of(
        &[
            "/f[a-z]+",
            ".*",
            ".+",
            "/[^/]+/x",
            "^/x$",
            "(a|b)*c",
            "a|",
            "()",
            "$",
            "^",
            "(?i)/foo",
            "(?i:k)x",
            "(?s).",
            "(?U)a+",
            "\\d{1,1000}",
            "[a-z]{1,50}",
            "/orders/[a-z]{1,50}",
            "\\pL+",
            "\\p{Greek}*",
            "\\PN",
            "\\x41\\x{5a}",
            "[[:alpha:]-]",
            "[]a]",
            "(?P<n>a)",
            "é",
            "(?:é|è)+",
            "\\bx\\B",
            "\\Aa\\z",
            "[\\w.-]+",
            "%START_TIME%",
            "\\%",
            "}",
            "]",
        ],
        &[
            "(",
            "[",
            "a**",
            "a{2}{3}",
            "(?=x)",
            "(?!x)",
            "\\1",
            "x{1001}",
            "(a{100}){100}",
            "(?<n>a)",
            "(?P<n>a)(?P<n>b)",
            "(?x) a",
            "(?R)a",
            "\\p{Letter}",
            "\\p{sc=Greek}",
            "\\x{110000}",
            "\\x{ 41 }",
            "[a&&b]",
            "[a--b]",
            "[z-a]",
            "[é]",
            "é+",
            "(?i)é",
            "\\Qa\\E",
            "\\C",
            "\\u0041",
            "\\<x",
            "\\b{start}",
            "{",
            "x{,3}",
            "x{ 1 }",
            "x{01}",
            "a\\",
        ],
        vec![
            "a".repeat(4_096),
            "(?:[ac-eg]{20}x?){50}".into(),
            "(?:[ac-eg]{20}x?){50}".repeat(4),
            "(a|".repeat(30) + "b" + &")".repeat(30),
        ],
        vec![
            "(?:[ac-eg]{20}x?){50}".repeat(100),
            "(?:a{1000}b{1000}){1}".repeat(20),
            "(".repeat(200) + &")".repeat(200),
            "x".repeat(20_000),
        ],
    )
}

/// Names of headers.
pub fn header_name() -> BoxedStrategy<String> {
    of(
        &[
            "x-a",
            "X-B",
            "TE",
            "Cookie",
            "Set-Cookie",
            "Authorization",
            "x-envoy-upstream-rq-timeout-ms",
            "x-forwarded-for",
            "!#$%&'*+-.^_`|~",
            "_",
            "0",
        ],
        &[
            "bad name",
            ":path",
            ":authority",
            ":Status",
            "Host",
            "host",
            "Content-Length",
            "Transfer-Encoding",
            "Connection",
            "Upgrade",
            "é",
            "a:b",
            "a,b",
            "a\nb",
            "a\u{0}",
            "(x)",
        ],
        vec!["h".repeat(256)],
        vec!["H".repeat(257)],
    )
}

/// Values of headers.
pub fn header_value() -> BoxedStrategy<String> {
    of(
        &[
            "1",
            "100%",
            "%",
            "%%",
            "%%%",
            "%START_TIME%",
            "%START_TIME(%Y)%",
            "%REQ(x",
            "%DYNAMIC_METADATA([\"a\"])%",
            "a\tb",
            "a  b",
            "é",
            "\"quoted\"",
            "{\"a\": 1}",
            "a, b",
            "\\1",
            ",",
        ],
        &["", " a", "a ", "a\nb", "a\rb", "a\u{0}b", "\u{7f}", "\u{85}", "a\u{1}"],
        vec!["v".repeat(4_096), "%".repeat(4_096), "😀".repeat(4_096), "%é".repeat(2_048)],
        vec!["v".repeat(4_097)],
    )
}

/// Names of query parameters.
pub fn query_name() -> BoxedStrategy<String> {
    of(
        &["q", "Q", "a.b", "!$%'*+-.^_`|~"],
        &["a b", "a=b", "a&b", "a#b", "é", ""],
        vec!["q".repeat(256)],
        vec!["q".repeat(1_025)],
    )
}

/// Values of query parameters.
pub fn query_value() -> BoxedStrategy<String> {
    of(
        &["1", "a+b", "a=b", "%C3%A9", "%20", "%zz", "\"<\\", "*"],
        &["", "a b", "a=b&c", "a#b", "é", "\u{0}", "\n"],
        vec!["v".repeat(1_024)],
        vec!["v".repeat(1_025)],
    )
}

/// Hostnames, with and without wildcard.
pub fn hostname() -> BoxedStrategy<String> {
    of(
        &[
            "example.com",
            "a.example.com",
            "*.example.com",
            "b.a.example.com",
            "*.a.example.com",
            "com",
            "*.com",
            "*.b.a.example.com",
            "xn--bcher-kva.example",
            "1.2.3.example",
            "1a",
        ],
        &[
            "*",
            "*.*.com",
            "a.*.com",
            "*a.com",
            "Example.com",
            "EXAMPLE.COM",
            "example.com.",
            "a..b",
            "a_b.com",
            "1.2.3.4",
            "*.1.2.3.4",
            "[::1]",
            "::1",
            "a:80",
            "bücher.example",
        ],
        vec![
            format!("{}.example.com", "l".repeat(63)),
            format!("{}com", "a.".repeat(125)),
            format!("*.{}com", "a.".repeat(124)),
        ],
        vec![format!("{}.com", "l".repeat(64)), format!("{}com", "a.".repeat(126))],
    )
}

/// Hostnames, mostly such as clients ask for.
pub fn precise_hostname() -> BoxedStrategy<String> {
    let edge: &[_] = &["example.com", "a.example.com", "com", "xn--bcher-kva.example", "1.2.3.example", "1a"];
    prop_oneof![20 => select(edge).prop_map(str::to_owned), 1 => hostname()].boxed()
}

/// Durations of Gateway API.
pub fn duration() -> BoxedStrategy<String> {
    of(
        &["0s", "1ms", "5s", "1h30m", "0h0m0s0ms", "99999h", "99999h99999h99999h99999h", "00001s", "99999ms"],
        &["1.5s", "-1s", "1", "five", "100000s", "1d", "1h1h1h1h1h", "10 s", "1S"],
        vec!["1h1m1s1ms".into()],
        vec!["9".repeat(50) + "s"],
    )
}

/// Origins of CORS filters.
pub fn origin() -> BoxedStrategy<String> {
    of(
        &[
            "*",
            "https://example.com",
            "https://*.example.com",
            "http://*",
            "https://*.a.b:8443",
            "https://EXAMPLE.com:443",
            "http://127.0.0.1:80",
            "http://a-b",
        ],
        &["", "null", "ftp://a", "https://", "https://a/b", "https://a:0", "https://a.*.b", "https://(", "https://a|b"],
        vec![format!("https://{}", "a".repeat(245)), format!("https://*.{}", "a.".repeat(120) + "b")],
        vec![format!("https://{}", "a".repeat(246))],
    )
}

/// Names that become cookies or headers.
pub fn session_name() -> BoxedStrategy<String> {
    of(
        &["s", "session_id", "x-session", "!#$%&'*+-.^_`|~", "Cookie"],
        &["__Host-a", "Host", ":path", "a b", "a=b", "a;b", "é"],
        vec!["s".repeat(128)],
        vec!["s".repeat(129)],
    )
}

/// Names of rules and sections, which are shown and never looked at by Envoy.
pub fn label() -> BoxedStrategy<String> {
    of(&["a", "named", "a-b.c"], &["A", "a/b", "-"], vec!["n".repeat(253)], vec!["n".repeat(254)])
}

/// A number that is mostly one of `edge`.
pub fn number_of(edge: &'static [i64]) -> BoxedStrategy<i64> {
    prop_oneof![12 => select(edge), 1 => number()].boxed()
}

/// A value of an enumeration, mostly one of those that are known.
pub fn variant(known: &'static [&'static str]) -> BoxedStrategy<String> {
    prop_oneof![24 => select(known).prop_map(str::to_owned), 1 => hostile()].boxed()
}

/// Annotations that say how policies are merged, now and then in words that mean nothing.
pub(super) fn priority() -> BoxedStrategy<Option<Value>> {
    let words = &["ShallowMergePreferParent", "DeepMergePreferChild", "DeepMergePreferParent"];
    let word = prop_oneof![8 => select(&words[..]).prop_map(str::to_owned), 1 => hostile()];
    proptest::option::of(word.prop_map(|word| json!({"kgateway.dev/inherited-policy-priority": word}))).boxed()
}
