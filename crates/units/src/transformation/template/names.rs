//! What functions, operators, filters and tests are called, and which variables are those of JSON.

use std::collections::HashSet;

use super::{Expression, Node};

/// A function that makes a text of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Function {
    /// A header of the message.
    Header,
    /// A header of the request.
    RequestHeader,
    /// A cookie of the request.
    Cookie,
    /// The same by a name without capitals.
    CookieOfAnyCase,
    /// Base64.
    Encode,
    /// What stands there in base64.
    Decode,
    /// Base64 for URLs.
    UrlEncode,
    /// What stands there in base64 for URLs.
    UrlDecode,
    /// As a text in JSON is written.
    Raw,
    /// One text in place of another.
    Replace,
    /// Something random in place of a text.
    Randomize,
}

impl Function {
    /// Each with its name, how many texts it takes, and its letter in programs.
    pub(in super::super) const ALL: [(Self, &'static str, usize, char); 11] = [
        (Self::Header, "header", 1, 'h'),
        (Self::RequestHeader, "request_header", 1, 'h'),
        (Self::Cookie, "get_cookie", 1, 'c'),
        (Self::CookieOfAnyCase, "get_cookie_i", 1, 'i'),
        (Self::Encode, "base64_encode", 1, 'e'),
        (Self::Decode, "base64_decode", 1, 'd'),
        (Self::UrlEncode, "base64url_encode", 1, 'E'),
        (Self::UrlDecode, "base64url_decode", 1, 'D'),
        (Self::Raw, "raw_string", 1, 'r'),
        (Self::Replace, "replace_with_string", 3, 's'),
        (Self::Randomize, "replace_with_random", 2, 'x'),
    ];

    pub(super) fn named(name: &str) -> Option<(Self, usize)> {
        Self::ALL.iter().find(|(_, known, ..)| *known == name).map(|(function, _, count, _)| (*function, *count))
    }

    /// Whether it reads the request.
    pub(in super::super) fn is_of_request(self) -> bool {
        matches!(self, Self::RequestHeader | Self::Cookie | Self::CookieOfAnyCase)
    }
}

/// An operator between two values.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Operator(pub(in super::super) &'static str);

/// Comparisons, the longer ones first.
pub(super) static COMPARISONS: [Operator; 6] =
    [Operator("=="), Operator("!="), Operator("<="), Operator(">="), Operator("<"), Operator(">")];
pub(super) static IN: Operator = Operator("in");
pub(super) static SUMS: [Operator; 2] = [Operator("+"), Operator("-")];
/// The longer ones first.
pub(super) static PRODUCTS: [Operator; 4] = [Operator("//"), Operator("*"), Operator("/"), Operator("%")];
pub(super) static POWER: Operator = Operator("**");

/// Every operator.
#[cfg(test)]
pub(in super::super) fn operators() -> impl Iterator<Item = &'static Operator> {
    COMPARISONS.iter().chain(&SUMS).chain(&PRODUCTS).chain([&IN, &POWER])
}

/// A filter or a test.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Call {
    /// Its name in programs.
    pub(in super::super) name: &'static str,
    /// Other names that it has in templates.
    others: &'static [&'static str],
    /// Whether it is a test.
    pub(in super::super) is_test: bool,
    /// How many values it must be given beside its own.
    pub(in super::super) least: usize,
    /// How many of these may be given by their place.
    pub(in super::super) placed: usize,
    /// What values are called that may be given by name, in the order in which it takes them.
    pub(in super::super) values: &'static [&'static str],
}

const fn filter(name: &'static str, least: usize, placed: usize, values: &'static [&'static str]) -> Call {
    Call { name, others: &[], is_test: false, least, placed, values }
}

const fn test(name: &'static str, others: &'static [&'static str], values: usize) -> Call {
    let names: &[&str] = if values == 0 { &[] } else { &[""] };
    Call { name, others, is_test: true, least: values, placed: values, values: names }
}

/// The empty name is that of values without one.
pub(in super::super) static CALLS: [Call; 54] = [
    filter("abs", 0, 0, &[]),
    filter("bool", 0, 0, &[]),
    filter("capitalize", 0, 0, &[]),
    Call { others: &["d"], ..filter("default", 0, 2, &["", ""]) },
    filter("dictsort", 0, 0, &["by", "case_sensitive", "reverse"]),
    filter("first", 0, 0, &[]),
    filter("float", 0, 0, &[]),
    filter("int", 0, 0, &[]),
    filter("items", 0, 0, &[]),
    filter("join", 0, 1, &[""]),
    filter("last", 0, 0, &[]),
    Call { others: &["count"], ..filter("length", 0, 0, &[]) },
    filter("list", 0, 0, &[]),
    filter("lower", 0, 0, &[]),
    filter("map", 1, 0, &["attribute", "default"]),
    filter("max", 0, 0, &[]),
    filter("min", 0, 0, &[]),
    filter("replace", 2, 2, &["", ""]),
    filter("reverse", 0, 0, &[]),
    filter("round", 0, 1, &[""]),
    filter("sort", 0, 0, &["attribute", "case_sensitive", "reverse"]),
    filter("split", 0, 2, &["", ""]),
    filter("string", 0, 0, &[]),
    filter("sum", 0, 0, &[]),
    filter("title", 0, 0, &[]),
    filter("tojson", 0, 0, &[]),
    filter("trim", 0, 1, &[""]),
    filter("unique", 0, 0, &["attribute", "case_sensitive"]),
    filter("upper", 0, 0, &[]),
    test("boolean", &[], 0),
    test("defined", &[], 0),
    test("divisibleby", &[], 1),
    test("endingwith", &[], 1),
    test("eq", &["equalto"], 1),
    test("even", &[], 0),
    test("false", &[], 0),
    test("float", &[], 0),
    test("ge", &[], 1),
    test("gt", &["greaterthan"], 1),
    test("in", &[], 1),
    test("integer", &["int"], 0),
    test("iterable", &[], 0),
    test("le", &[], 1),
    test("lt", &["lessthan"], 1),
    test("mapping", &[], 0),
    test("ne", &[], 1),
    test("none", &[], 0),
    test("number", &[], 0),
    test("odd", &[], 0),
    test("sequence", &[], 0),
    test("startingwith", &[], 1),
    test("string", &[], 0),
    test("true", &[], 0),
    test("undefined", &[], 0),
];

impl Call {
    pub(super) fn named(name: &str, is_test: bool) -> Option<&'static Self> {
        CALLS.iter().find(|call| call.is_test == is_test && (call.name == name || call.others.contains(&name)))
    }

    /// All names of filters or of tests.
    pub(super) fn names(is_test: bool) -> String {
        let names: Vec<_> = CALLS.iter().filter(|call| call.is_test == is_test).map(|call| call.name).collect();
        names.join(", ")
    }

    /// Which value `name` is, from 0 on.
    pub(super) fn value(&self, name: &str) -> Option<usize> {
        self.values.iter().position(|known| *known == name && !name.is_empty())
    }
}

/// The first variable that is read where nothing has set it, by what is written alone.
pub(super) fn undeclared(nodes: &[Node]) -> Option<&str> {
    look(nodes, &mut vec![HashSet::new()])
}

fn look<'a>(nodes: &'a [Node], known: &mut Vec<HashSet<&'a str>>) -> Option<&'a str> {
    for node in nodes {
        let found = match node {
            Node::Text(_) => None,
            Node::Print(expression) => variable(expression, known),
            Node::Set(name, value) => {
                let found = variable(value, known);
                known.last_mut()?.insert(name);
                found
            }
            Node::If(branches, otherwise) => {
                let in_branches = branches
                    .iter()
                    .find_map(|(condition, nodes)| variable(condition, known).or_else(|| nested(nodes, known)));
                in_branches.or_else(|| nested(otherwise, known))
            }
            Node::For(of) => variable(&of.items, known).or_else(|| {
                known.push(of.names.iter().map(|name| &**name).chain(["loop"]).collect());
                let found = of.only.as_ref().and_then(|only| variable(only, known)).or_else(|| look(&of.body, known));
                known.pop();
                found.or_else(|| nested(&of.otherwise, known))
            }),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// What is set below a condition is not known behind it.
fn nested<'a>(nodes: &'a [Node], known: &mut Vec<HashSet<&'a str>>) -> Option<&'a str> {
    known.push(HashSet::new());
    let found = look(nodes, known);
    known.pop();
    found
}

fn variable<'a>(expression: &'a Expression, known: &[HashSet<&'a str>]) -> Option<&'a str> {
    if let Expression::Variable(name) = expression {
        return (!known.iter().any(|known| known.contains(&**name))).then_some(&**name);
    }
    let mut found = None;
    expression.parts(&mut |part| found = found.or_else(|| variable(part, known)));
    found
}
