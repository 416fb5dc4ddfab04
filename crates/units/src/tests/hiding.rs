//! What takes credentials out of requests leaves all else as it was sent: the program that proxies have, on the machine that
//! they have.

use mlua::{Function, Lua, Table};
use proptest::prelude::*;

/// A handle as Envoy gives it to a program, of a request with a path and cookies.
const HANDLE: &str = r#"
return function(data, path, cookies)
  local headers, said = { [":path"] = { path }, cookie = cookies, ["api-key"] = { "secret" } }, {}
  local map = {
    get = function(_, name) local all = headers[name] or {} return all[1] and table.concat(all, ",") or nil end,
    getNumValues = function(_, name) return #(headers[name] or {}) end,
    getAtIndex = function(_, name, index) return headers[name][index + 1] end,
    remove = function(_, name) headers[name] = nil end,
    replace = function(_, name, value) headers[name] = { value } end,
    add = function(_, name, value) headers[name] = headers[name] or {} table.insert(headers[name], value) end,
  }
  envoy_on_request({
    filterContext = function() return { get = function() return data end } end,
    headers = function() return map end,
    respond = function(_, answer) said = answer end,
  })
  return headers[":path"][1], headers.cookie or {}, headers["api-key"] ~= nil, said[":status"]
end
"#;

struct Left {
    path: String,
    cookies: Vec<String>,
    has_header: bool,
    answer: Option<String>,
}

fn left(parts: &[(&str, &str)], path: &str, cookies: &[&str]) -> Left {
    let lua = Lua::new();
    lua.load(envoy::extensions::programs::hiding_program()).exec().expect("a program");
    let handle: Function = lua.load(HANDLE).eval().expect("a handle");
    let parts: Vec<_> = parts.iter().map(|(kind, name)| vec![*kind, *name]).collect();
    let (path, cookies, has_header, answer): (String, Table, bool, Option<String>) =
        handle.call((parts, path, cookies.to_vec())).expect("it runs");
    Left { path, cookies: cookies.sequence_values().map(|value| value.expect("a text")).collect(), has_header, answer }
}

#[test]
fn of_a_query_only_the_parameters_with_the_name_go_however_they_are_written() {
    for (sent, goes_on) in [
        ("/a", "/a"),
        ("/a?", "/a?"),
        ("/a?key=1", "/a"),
        ("/a?x=1&key=2&y=%26admin=true", "/a?x=1&y=%26admin=true"),
        ("/a?key=1&key=2&x=a%20b+c", "/a?x=a%20b+c"),
        ("/a?%6bey=1&k%65y&x", "/a?x"),
        ("/key?keys=1&akey=2&KEY=3&k+ey=4", "/key?keys=1&akey=2&KEY=3&k+ey=4"),
        ("/a?x=key=1&&=key", "/a?x=key=1&&=key"),
        ("/a?x?key=1&key?=2", "/a?x?key=1&key?=2"),
        ("/a?%=1&%k=2&%6=3&key=4", "/a?%=1&%k=2&%6=3"),
        ("/a?a+b=1&a%2Bb=2&a%20b=3", "/a?a%20b=3"),
    ] {
        let left = left(&[("query", "key"), ("query", "a+b")], sent, &[]);
        assert_eq!((&*left.path, left.has_header, left.answer), (goes_on, true, None), "{sent}");
    }
}

#[test]
fn a_query_with_more_parameters_than_anybody_writes_is_refused() {
    let of = |count: usize| left(&[("query", "key")], &format!("/a?{}key=1", "&".repeat(count - 1)), &[]);
    let (most, more) = (of(2_000), of(2_001));
    assert_eq!((most.answer, most.path.len()), (None, "/a?".len() + 1_998));
    assert_eq!(more.answer.as_deref(), Some("400"));
}

#[test]
fn of_cookies_only_those_with_the_name_go_and_a_header_goes_as_a_whole() {
    for (sent, goes_on) in [
        (vec!["a=b; key=1; c=d"], vec!["a=b; c=d"]),
        (vec!["key=1; a=b", " key=2", "e=\"f; key=3\"; keys=4"], vec!["a=b", "e=\"f; keys=4"]),
        (vec!["keys=1;; =key; x=key=1"], vec!["keys=1;; =key; x=key=1"]),
        (vec!["key=1"], vec![]),
    ] {
        let left = left(&[("query", "q"), ("cookie", "key"), ("header", "api-key")], "/a?key=1", &sent);
        assert_eq!(
            (left.cookies, &*left.path, left.has_header),
            (goes_on.into_iter().map(str::to_owned).collect(), "/a?key=1", false)
        );
    }
}

proptest! {
    #[test]
    fn whatever_is_sent_what_stays_is_as_it_was_sent_and_has_nothing_of_the_name(
        parts in proptest::collection::vec("(key|k|%6b|%6B|%65|e|y|=|%|\\+|x|;| ){0,6}", 0..6),
    ) {
        let path = format!("/p?{}", parts.join("&"));
        let left = left(&[("query", "key")], &path, &[]);
        let name = |part: &str| {
            let name = part.split('=').next().unwrap_or_default();
            name.replace("%6b", "k").replace("%6B", "k").replace("%65", "e")
        };
        let kept: Vec<_> = parts.iter().filter(|part| name(part) != "key").map(String::as_str).collect();
        let is_same = kept.len() == parts.len();
        let query = kept.join("&");
        let expected = if is_same || !query.is_empty() { format!("/p?{query}") } else { "/p".to_owned() };
        prop_assert_eq!(left.path, expected);
        prop_assert_eq!(left.answer, None);
    }
}
