//! Whether Envoy knows what an expression calls and asks for, with the types that it takes, and what it cannot evaluate.

use std::slice;

use super::{Expression, Fault, Literal};
use crate::{Invalid, regex};

/// What becomes of a request of which an expression holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is let through. What cannot be evaluated keeps it out.
    Allow,
    /// It is kept out. What cannot be evaluated would let it through.
    Deny,
}

/// What an expression comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Time,
    Duration,
    List(Box<Type>),
    /// All headers, by name.
    Headers,
    /// What filters noted, by their namespaces.
    Metadata,
    /// What only a request shows.
    Unknown,
}

/// What is known of a request: the root, the field, its type, and whether it may be missing.
const ATTRIBUTES: [(&str, &str, Type, bool); 28] = [
    ("request", "path", Type::String, false),
    ("request", "url_path", Type::String, false),
    ("request", "query", Type::String, false),
    ("request", "host", Type::String, false),
    ("request", "scheme", Type::String, false),
    ("request", "method", Type::String, false),
    ("request", "protocol", Type::String, false),
    ("request", "headers", Type::Headers, false),
    ("request", "referer", Type::String, true),
    ("request", "useragent", Type::String, true),
    ("request", "id", Type::String, true),
    ("request", "time", Type::Time, false),
    ("request", "size", Type::Int, false),
    ("source", "address", Type::String, false),
    ("source", "port", Type::Int, false),
    ("destination", "address", Type::String, false),
    ("destination", "port", Type::Int, false),
    ("connection", "mtls", Type::Bool, false),
    ("connection", "requested_server_name", Type::String, false),
    ("connection", "tls_version", Type::String, true),
    ("connection", "subject_local_certificate", Type::String, true),
    ("connection", "subject_peer_certificate", Type::String, true),
    ("connection", "uri_san_local_certificate", Type::String, true),
    ("connection", "uri_san_peer_certificate", Type::String, true),
    ("connection", "dns_san_local_certificate", Type::String, true),
    ("connection", "dns_san_peer_certificate", Type::String, true),
    ("connection", "sha256_peer_certificate_digest", Type::String, true),
    ("metadata", "filter_metadata", Type::Metadata, false),
];

/// Most instructions of a regular expression in CEL, which Envoy bounds by itself.
const MAX_INSTRUCTIONS: u32 = 100;

/// Longest text that is searched for, in bytes. Envoy compares it with what stands at each place.
const MAX_SEARCHED: usize = 256;

/// What takes time in proportion to what a client sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Regular expressions.
    pub patterns: Vec<String>,
    /// How often a text is searched for.
    pub searches: usize,
}

/// Functions that take parts of a time.
const PARTS_OF_TIMES: [&str; 10] = [
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
];

/// Accepts an expression that Envoy can evaluate and that says whether something holds; gives what in it takes time.
///
/// Where it is to keep requests out, refused is also what would let one through because it cannot be evaluated: what a
/// client can make so, and what is said of something that may be missing other than that it has a value.
pub fn check(text: &str, expression: &Expression, usage: Use) -> Result<Costs, Invalid> {
    let mut costs = Costs::default();
    let checked = type_of(expression, &mut costs).and_then(|kind| match kind {
        Type::Bool | Type::Unknown => Ok(()),
        _ => Err(Fault::new("it does not say whether something holds", "compare it with something, as by ==")),
    });
    let checked = checked.and_then(|()| match usage {
        Use::Allow => Ok(()),
        Use::Deny => closes(expression, false, &[]),
    });
    checked.map_err(|Fault { why, remedy }| Invalid::new(text, why, remedy))?;
    Ok(costs)
}

fn attribute(root: &str, field: &str) -> Option<&'static (&'static str, &'static str, Type, bool)> {
    ATTRIBUTES.iter().find(|(of, name, ..)| (*of, *name) == (root, field))
}

fn fields_of(root: &str) -> Vec<&'static str> {
    let fields = ATTRIBUTES.iter().filter(|(of, ..)| *of == root);
    fields.map(|(_, name, ..)| *name).collect()
}

fn type_of(expression: &Expression, costs: &mut Costs) -> Result<Type, Fault> {
    match expression {
        Expression::Literal(literal) => Ok(match literal {
            Literal::Null => Type::Null,
            Literal::Bool(_) => Type::Bool,
            Literal::Int(_) => Type::Int,
            Literal::Uint(_) => Type::Uint,
            Literal::Double(_) => Type::Double,
            Literal::String(_) => Type::String,
            Literal::Bytes(_) => Type::Bytes,
        }),
        Expression::Name(name) => Err(alone(name)),
        Expression::Field(of, field) | Expression::Has(of, field) => {
            let kind = match &**of {
                Expression::Name(root) => field_of(root, field)?,
                of => match type_of(of, costs)? {
                    Type::Headers => Type::String,
                    Type::Metadata | Type::Unknown => Type::Unknown,
                    _ => return Err(Fault::new(format!("there is no field {field} there"), "leave it out")),
                },
            };
            Ok(if matches!(expression, Expression::Has(..)) { Type::Bool } else { kind })
        }
        Expression::Index(of, key) => match (type_of(of, costs)?, type_of(key, costs)?) {
            (Type::Headers, Type::String) => Ok(Type::String),
            (Type::Metadata, Type::String) | (Type::Unknown, _) => Ok(Type::Unknown),
            (Type::List(of), Type::Int) => Ok(*of),
            _ => Err(Fault::new("what stands in [] is no key there", "use a text for headers, and a number for lists")),
        },
        Expression::List(parts) => {
            let mut of = None;
            for part in parts {
                let kind = type_of(part, costs)?;
                match &of {
                    None => of = Some(kind),
                    Some(first) if *first == kind => {}
                    Some(_) => return Err(Fault::new("a list has values of several types", "use values of one type")),
                }
            }
            Ok(Type::List(Box::new(of.unwrap_or(Type::Unknown))))
        }
        Expression::All(parts) | Expression::Any(parts) => {
            for part in parts {
                is_bool(&type_of(part, costs)?)?;
            }
            Ok(Type::Bool)
        }
        Expression::Operator(function, parts) => {
            let types: Vec<_> = parts.iter().map(|part| type_of(part, costs)).collect::<Result<_, _>>()?;
            operator(function, &types)
        }
        Expression::Call(of, function, arguments) => call(of.as_deref(), function, arguments, costs),
    }
}

fn alone(name: &str) -> Fault {
    let fields = fields_of(name);
    if fields.is_empty() {
        let roots = "use request, source, destination, connection or metadata, or quote a text";
        return Fault::new(format!("nothing of a request is named {name}"), roots);
    }
    Fault::new(format!("{name} is no value by itself"), format!("use one of its fields: {}", fields.join(", ")))
}

fn field_of(root: &str, field: &str) -> Result<Type, Fault> {
    if let Some((_, _, kind, _)) = attribute(root, field) {
        return Ok(kind.clone());
    }
    let fields = fields_of(root);
    if fields.is_empty() {
        return Err(alone(root));
    }
    Err(Fault::new(
        format!("{root} has no field {field} while a request is judged"),
        format!("use {}", fields.join(", ")),
    ))
}

fn is_bool(kind: &Type) -> Result<(), Fault> {
    match kind {
        Type::Bool | Type::Unknown => Ok(()),
        _ => Err(Fault::new("!, && and || stand between what holds or does not", "compare the value, as by ==")),
    }
}

fn operator(function: &str, types: &[Type]) -> Result<Type, Fault> {
    use Type::{Bool, Double, Duration, Int, List, String, Time, Uint, Unknown};
    let differ = || Fault::new("values of two types are compared or reckoned with", "use values of one type");
    match (function, types) {
        ("!_", [of]) => is_bool(of).map(|()| Bool),
        ("-_", [of @ (Int | Double | Unknown)]) => Ok(of.clone()),
        ("_?_:_", [condition, then, otherwise]) => {
            is_bool(condition)?;
            match (then, otherwise) {
                (Unknown, _) | (_, Unknown) => Ok(Unknown),
                _ if then == otherwise => Ok(then.clone()),
                _ => Err(differ()),
            }
        }
        ("_==_" | "_!=_", [left, right]) if left == right && *left != Type::Headers && *left != Type::Metadata => {
            Ok(Bool)
        }
        ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [Unknown, _] | [_, Unknown])
        | ("@in", [String | Unknown, Type::Headers] | [_, Unknown]) => Ok(Bool),
        ("_<_" | "_<=_" | "_>_" | "_>=_", [left @ (Int | Uint | Double | String | Time | Duration), right])
            if left == right =>
        {
            Ok(Bool)
        }
        ("@in", [left, List(of)]) if *left == **of || **of == Unknown || *left == Unknown => Ok(Bool),
        ("_+_", [String | Type::Bytes | List(_), _]) => {
            Err(Fault::new("Envoy does not join texts here", "write the text whole, or use startsWith and endsWith"))
        }
        ("_+_" | "_-_" | "_*_" | "_/_", [left @ (Int | Uint | Double), right])
        | ("_%_", [left @ (Int | Uint), right])
            if left == right =>
        {
            Ok(left.clone())
        }
        ("_+_" | "_-_", [Time, Duration]) | ("_+_", [Duration, Time]) => Ok(Time),
        ("_+_" | "_-_", [Duration, Duration]) | ("_-_", [Time, Time]) => Ok(Duration),
        _ => Err(differ()),
    }
}

fn call(of: Option<&Expression>, function: &str, arguments: &[Expression], costs: &mut Costs) -> Result<Type, Fault> {
    use Type::{Bool, Double, Duration, Int, List, String, Time, Uint, Unknown};

    if ["all", "exists", "exists_one", "map", "filter"].contains(&function) {
        let remedy = "write out what is compared, with && and ||, or use in";
        return Err(Fault::new(format!("Envoy does not go through lists, as {function}() would"), remedy));
    }
    // What stands before a function is its first argument.
    let all: Vec<&Expression> = of.into_iter().chain(arguments).collect();
    let types: Vec<_> = all.iter().map(|part| type_of(part, costs)).collect::<Result<_, _>>()?;
    let literal = |at: usize| match all.get(at) {
        Some(Expression::Literal(Literal::String(text))) => Ok(text.as_str()),
        _ => Err(Fault::new(format!("{function}() takes a text that is written out"), "write it in quotes")),
    };
    match (function, of.is_some(), &types[..]) {
        ("startsWith" | "endsWith", true, [String | Unknown, String]) => Ok(Bool),
        ("contains", true, [String | Unknown, String]) => {
            if literal(1)?.len() > MAX_SEARCHED {
                let why = format!("contains() takes a text of {MAX_SEARCHED} bytes at most");
                return Err(Fault::new(why, "use a shorter one, or =="));
            }
            costs.searches += 1;
            Ok(Bool)
        }
        ("matches", _, [String | Unknown, String]) => {
            let text = literal(1)?;
            let pattern = regex::check(text).map_err(|Invalid { why, remedy, .. }| Fault { why, remedy })?;
            // Here Envoy matches characters and not bytes, so that these would take many more instructions.
            if !text.is_ascii() || text.contains(r"\p") || text.contains(r"\P") || regex::ignores_case(text) {
                let why = "matches() knows no letters outside ASCII, no classes of them, and does not ignore case";
                return Err(Fault::new(why, "name the letters, as in [aA]"));
            }
            if pattern.program_size() > MAX_INSTRUCTIONS {
                let why = format!("of matches() Envoy takes no more than {MAX_INSTRUCTIONS} instructions");
                return Err(Fault::new(why, "use bounds below 100, or startsWith, endsWith and contains"));
            }
            costs.patterns.push(pattern.into_string());
            Ok(Bool)
        }
        ("size", _, [String | Type::Bytes | List(_) | Type::Headers])
        | ("int", false, [Int | Uint | Double | String | Time]) => Ok(Int),
        ("uint", false, [Int | Uint | Double | String]) => Ok(Uint),
        ("double", false, [Int | Uint | Double | String]) => Ok(Double),
        ("duration", false, [String]) => is_duration(literal(0)?).map(|()| Duration),
        ("timestamp", false, [String]) => is_time(literal(0)?).map(|()| Time),
        (part, true, [Time]) if PARTS_OF_TIMES.contains(&part) => Ok(Int),
        (part, true, [Time, _]) if PARTS_OF_TIMES.contains(&part) => {
            Err(Fault::new("time zones are not the same in every proxy", "leave it out; times are UTC"))
        }
        (
            "startsWith" | "endsWith" | "contains" | "matches" | "size" | "int" | "uint" | "double" | "duration"
            | "timestamp",
            ..,
        ) => Err(Fault::new(format!("{function}() is called with what it does not take"), "correct its arguments")),
        _ => Err(Fault::new(
            format!("Envoy has no function {function}() here"),
            "use startsWith, endsWith, contains, matches, size, int, uint, double, duration, timestamp, has or getHours \
             and its like",
        )),
    }
}

/// Durations as CEL has them, as far as they are plain: `1h30m`.
fn is_duration(text: &str) -> Result<(), Fault> {
    crate::duration::parse(text).map(drop).map_err(|Invalid { why, remedy, .. }| Fault { why, remedy })
}

/// A time as RFC 3339 has it, in UTC: `2030-01-31T23:59:59Z`.
fn is_time(text: &str) -> Result<(), Fault> {
    let fault = || Fault::new(format!("{text:?} is no time"), "write it as in 2030-01-31T23:59:59Z");
    let form: Vec<u8> = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte }).collect();
    let number = |from: usize, digits: usize| text.get(from..from + digits)?.parse::<u16>().ok();
    let is_date = |year: u16, month: u16, day: u16| {
        let leaps = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let days = match month {
            2 => 28 + u16::from(leaps),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        (1970..2262).contains(&year) && (1..=12).contains(&month) && (1..=days).contains(&day)
    };
    let holds = form == b"0000-00-00T00:00:00Z"
        && is_date(number(0, 4).unwrap_or(0), number(5, 2).unwrap_or(0), number(8, 2).unwrap_or(0))
        && [(11, 24), (14, 60), (17, 60)].iter().all(|(at, most)| number(*at, 2).is_some_and(|number| number < *most));
    if holds { Ok(()) } else { Err(fault()) }
}

/// Something that an expression asks for first.
#[derive(Clone, Debug, PartialEq)]
enum Found<'a> {
    Header(String),
    Field(&'a Expression, &'a str),
}

/// Refuses what would let a request through because it cannot be evaluated. `negated` says whether the expression holds
/// where it is said not to; `found` is what is asked for first, so that it is there where this counts.
fn closes<'a>(expression: &'a Expression, negated: bool, found: &[Found<'a>]) -> Result<(), Fault> {
    let with = |more: Vec<Found<'a>>| [found, &more].concat();
    match expression {
        Expression::All(parts) => {
            let found = with(parts.iter().filter_map(asks_for).collect());
            parts.iter().try_for_each(|part| closes(part, negated, &found))
        }
        Expression::Any(parts) => {
            let found = with(parts.iter().filter_map(asks_for_none).collect());
            parts.iter().try_for_each(|part| closes(part, negated, &found))
        }
        Expression::Operator("!_", parts) => parts.iter().try_for_each(|part| closes(part, !negated, found)),
        Expression::Operator("_?_:_", parts) => {
            let [condition, then, otherwise] = &parts[..] else { return Ok(()) };
            is_there(condition, true, found)?;
            closes(then, negated, &with(asks_for(condition).into_iter().collect()))?;
            closes(otherwise, negated, &with(asks_for_none(condition).into_iter().collect()))
        }
        Expression::Operator("_!=_", _) => is_there(expression, !negated, found),
        other => is_there(other, negated, found),
    }
}

/// What a part says to be there.
fn asks_for(part: &Expression) -> Option<Found<'_>> {
    match part {
        Expression::Operator("@in", parts) => match &parts[..] {
            [Expression::Literal(Literal::String(name)), of] if is_headers(of) => Some(header(name)),
            _ => None,
        },
        Expression::Has(of, name) if is_headers(of) => Some(header(name)),
        Expression::Has(of, name) => Some(Found::Field(of, name)),
        _ => None,
    }
}

/// What a part says not to be there.
fn asks_for_none(part: &Expression) -> Option<Found<'_>> {
    match part {
        Expression::Operator("!_", parts) => parts.first().and_then(asks_for),
        _ => None,
    }
}

fn header(name: &str) -> Found<'static> {
    Found::Header(name.to_ascii_lowercase())
}

fn is_headers(expression: &Expression) -> bool {
    matches!(expression, Expression::Field(of, field) if field == "headers" && **of == Expression::Name("request".into()))
}

/// Refuses what a client can have not evaluated, and, where that is `told` apart from a value, what may be missing.
fn is_there(expression: &Expression, told: bool, found: &[Found<'_>]) -> Result<(), Fault> {
    let missing = match expression {
        Expression::Field(of, name) if is_headers(of) => !found.contains(&header(name)),
        Expression::Index(of, key) if is_headers(of) => match &**key {
            Expression::Literal(Literal::String(name)) => !found.contains(&header(name)),
            _ => true,
        },
        Expression::Field(of, name) => match &**of {
            Expression::Name(root) => {
                attribute(root, name).is_some_and(|(.., may_miss)| *may_miss)
                    && !found.contains(&Found::Field(of, name))
            }
            _ => !found.contains(&Found::Field(of, name)),
        },
        Expression::Index(..) => true,
        _ => false,
    };
    if missing && told {
        return Err(Fault::new(
            "a request without what it asks for could not be judged, and would be let through",
            "say what holds then, as in !('x-team' in request.headers) || request.headers['x-team'] != 'a'",
        ));
    }
    let is_fixed = |part: &Expression| matches!(part, Expression::Literal(_));
    let is_text = |part: &Expression| matches!(part, Expression::Literal(Literal::String(_)));
    let fails = match expression {
        Expression::Call(_, function, arguments) => {
            let converts = ["int", "uint", "double"].contains(&&**function);
            converts && (!arguments.iter().all(is_fixed) || arguments.iter().any(is_text))
        }
        Expression::Operator("_/_" | "_%_", _) => true,
        Expression::Operator("_+_" | "_-_" | "_*_" | "-_", parts) => !parts.iter().all(is_fixed),
        _ => false,
    };
    if fails {
        return Err(Fault::new(
            "a client could send a value that cannot be reckoned with, and would be let through",
            "use action Allow, and say what is let through",
        ));
    }
    if let Expression::Call(of, function, arguments) = expression
        && function == "matches"
        && let [subject, Expression::Literal(Literal::String(pattern))] =
            &of.iter().map(AsRef::as_ref).chain(arguments).collect::<Vec<_>>()[..]
        && !is_always_text(subject)
        && has_any_character(pattern)
    {
        return Err(Fault::new(
            "a client could send bytes that are no text, which no character of matches() is, and would be let through",
            "name the characters, use startsWith, endsWith or contains, or use action Allow",
        ));
    }
    // Of a condition within a value nobody knows what its absence means.
    let told = told
        || matches!(
            expression,
            Expression::Operator("_?_:_", _)
                | Expression::All(_)
                | Expression::Any(_)
                | Expression::List(_)
                | Expression::Index(..)
        );
    let told = |part: &Expression| told || says_whether(part) && says_whether(expression);
    let parts = match expression {
        Expression::Has(of, _) => slice::from_ref(&**of).iter().collect(),
        other => other.parts(),
    };
    parts.into_iter().try_for_each(|part| is_there(part, told(part), found))
}

/// What Envoy refuses or normalizes before where it is not text.
fn is_always_text(expression: &Expression) -> bool {
    let Expression::Field(of, field) = expression else { return false };
    **of == Expression::Name("request".into()) && ["url_path", "method", "scheme", "host"].contains(&&**field)
}

/// Whether a pattern has a part that stands for any character but some, beyond ASCII too.
fn has_any_character(pattern: &str) -> bool {
    let (mut rest, mut in_class) = (pattern.chars().peekable(), false);
    while let Some(next) = rest.next() {
        match next {
            '\\' => {
                if let Some('D' | 'S' | 'W') = rest.next() {
                    return true;
                }
            }
            '[' if !in_class => {
                in_class = true;
                if rest.peek() == Some(&'^') {
                    return true;
                }
                // A bracket that stands first is one of the class.
                rest.next_if_eq(&']');
            }
            ']' => in_class = false,
            '.' if !in_class => return true,
            _ => {}
        }
    }
    false
}

/// Whether it is a comparison or made of such.
fn says_whether(expression: &Expression) -> bool {
    match expression {
        Expression::All(_) | Expression::Any(_) | Expression::Has(..) => true,
        Expression::Operator(function, _) => {
            ["!_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in"].contains(function)
        }
        Expression::Call(_, function, _) => ["startsWith", "endsWith", "contains", "matches"].contains(&&**function),
        _ => false,
    }
}
