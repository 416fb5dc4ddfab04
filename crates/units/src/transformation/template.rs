//! The language of templates: texts with `{{ expressions }}`, as `MiniJinja` reads them.
//!
//! Served is what says which text stands somewhere, without loops and conditions: a template takes as long as it is.

use std::{iter::Peekable, str::CharIndices};

use validate::Invalid;

/// How deep expressions may be nested.
const MOST_DEEP: usize = 16;
/// The longest text that is looked for, in bytes. Longer ones are refused in proxies too.
const MOST_SOUGHT: usize = 256;

/// What a template says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// A text.
    Text(String),
    /// One behind the other. There are two at least, and no two neighbours are texts.
    Joined(Vec<Expression>),
    /// What a function makes of texts.
    Call(Function, Vec<Expression>),
    /// A part of a text: from which byte on, and how many.
    Part(Box<Expression>, u32, Option<u32>),
}

/// A function that makes a text of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
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
    pub(super) const ALL: [(Self, &'static str, usize, char); 11] = [
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

    fn named(name: &str) -> Option<(Self, usize)> {
        Self::ALL.iter().find(|(_, known, ..)| *known == name).map(|(function, _, count, _)| (*function, *count))
    }

    /// Whether it reads the request.
    pub(super) fn is_of_request(self) -> bool {
        matches!(self, Self::RequestHeader | Self::Cookie | Self::CookieOfAnyCase)
    }
}

impl Expression {
    /// Whether a header of the message is read anywhere in it.
    pub(super) fn reads_message(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Joined(all) => all.iter().any(Self::reads_message),
            Self::Call(function, all) => *function == Function::Header || all.iter().any(Self::reads_message),
            Self::Part(whole, ..) => whole.reads_message(),
        }
    }

    /// Whether what is read of the request depends on what is read of the message.
    pub(super) fn asks_by_message(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Joined(all) => all.iter().any(Self::asks_by_message),
            Self::Call(function, all) => {
                all.iter().any(|text| text.asks_by_message() || function.is_of_request() && text.reads_message())
            }
            Self::Part(whole, ..) => whole.asks_by_message(),
        }
    }

    /// The same without what it need not be.
    fn joined(parts: Vec<Self>) -> Self {
        let mut all: Vec<Self> = Vec::with_capacity(parts.len());
        let flat = parts.into_iter().flat_map(|part| if let Self::Joined(inner) = part { inner } else { vec![part] });
        for part in flat {
            match (all.last_mut(), part) {
                (Some(Self::Text(before)), Self::Text(text)) => before.push_str(&text),
                (_, part) => all.push(part),
            }
        }
        all.retain(|part| *part != Self::Text(String::new()));
        match all.len() {
            0 => Self::Text(String::new()),
            1 => all.swap_remove(0),
            _ => Self::Joined(all),
        }
    }
}

/// Reads a template.
///
/// # Errors
/// Where it is not closed, or says what is not served, with the remedy.
pub(super) fn parse(text: &str) -> Result<Expression, Invalid> {
    // A line break at the end is not part of a template.
    let template = text.strip_suffix('\n').map_or(text, |rest| rest.strip_suffix('\r').unwrap_or(rest));
    let refused = |(at, why, remedy): Refusal| {
        let place = template.get(..at).map_or(0, |before| before.chars().count()) + 1;
        // What is refused, and not how the template begins.
        let shown = template.get(at..).unwrap_or(template);
        Invalid::new(shown, format!("at character {place}, {why}"), remedy)
    };
    Reader { template }.parts().map(Expression::joined).map_err(refused)
}

/// Where, why, and what to write instead.
type Refusal = (usize, String, String);

fn refusal<T>(at: usize, why: impl Into<String>, remedy: impl Into<String>) -> Result<T, Refusal> {
    Err((at, why.into(), remedy.into()))
}

struct Reader<'a> {
    template: &'a str,
}

impl Reader<'_> {
    fn parts(&self) -> Result<Vec<Expression>, Refusal> {
        let mut parts = Vec::new();
        let mut at = 0;
        let mut trims = false;
        loop {
            let rest = &self.template[at..];
            let begin = rest
                .match_indices('{')
                .map(|(index, _)| index)
                .find(|index| rest[index + 1..].starts_with(['{', '%', '#']));
            let text = &rest[..begin.unwrap_or(rest.len())];
            let text = if trims { text.trim_start() } else { text };
            let Some(begin) = begin else {
                parts.push(Expression::Text(text.to_owned()));
                return Ok(parts);
            };
            let open = at + begin;
            let inner = &self.template[open + 2..];
            let dash = inner.starts_with('-');
            parts.push(Expression::Text(if dash { text.trim_end() } else { text }.to_owned()));
            let from = open + 2 + usize::from(dash);
            (at, trims) = match &self.template[open..open + 2] {
                "{#" => self.comment(open)?,
                "{%" => {
                    return refusal(
                        open,
                        "{% begins a statement, and statements such as if, for, set and macro are not evaluated",
                        "write what is always there, with {{ functions }}, or have a rule of its own for each case",
                    );
                }
                _ => {
                    let mut tokens = Tokens::new(self.template, open, from);
                    let (expression, end) = tokens.whole()?;
                    parts.push(expression);
                    end
                }
            };
        }
    }

    /// Where a comment ends, and whether blanks behind it go.
    fn comment(&self, open: usize) -> Result<(usize, bool), Refusal> {
        match self.template[open + 2..].find("#}") {
            Some(length) => Ok((open + length + 4, self.template[..open + 2 + length].ends_with('-') && length > 0)),
            None => refusal(open, "{# begins a comment that does not end", "end it with #}, or remove it"),
        }
    }
}

/// What stands between `{{` and `}}`.
struct Tokens<'a> {
    template: &'a str,
    open: usize,
    chars: Peekable<CharIndices<'a>>,
    from: usize,
}

impl<'a> Tokens<'a> {
    fn new(template: &'a str, open: usize, from: usize) -> Self {
        Self { template, open, chars: template[from..].char_indices().peekable(), from }
    }

    /// All of it, where it ends, and whether blanks behind it go.
    fn whole(&mut self) -> Result<(Expression, (usize, bool)), Refusal> {
        let expression = self.joined(0)?;
        let at = self.blanks();
        for (end, trims) in [("}}", false), ("-}}", true)] {
            if self.template[at..].starts_with(end) {
                return Ok((expression, (at + end.len(), trims)));
            }
        }
        self.unexpected(at)
    }

    /// Texts with `~` between them.
    fn joined(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let mut parts = vec![self.one(depth)?];
        while self.takes('~') {
            parts.push(self.one(depth)?);
        }
        Ok(Expression::joined(parts))
    }

    fn one(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let at = self.blanks();
        if depth > MOST_DEEP {
            return refusal(at, format!("it is nested more than {MOST_DEEP} deep"), "nest it less");
        }
        match self.chars.peek().copied() {
            Some((_, quote @ ('"' | '\''))) => Ok(Expression::Text(self.text(quote, at)?)),
            Some((_, '(')) => {
                self.chars.next();
                let inner = self.joined(depth + 1)?;
                self.must_take(')')?;
                Ok(inner)
            }
            // What it says stands there as a text.
            Some((_, '0'..='9')) => Ok(Expression::Text(self.number(at)?.to_string())),
            Some((_, c)) if c == '_' || c.is_alphabetic() => self.call(at, depth),
            _ => self.unexpected(at),
        }
    }

    fn call(&mut self, at: usize, depth: usize) -> Result<Expression, Refusal> {
        let name = self.word();
        let is_call = self.template[self.blanks()..].starts_with('(');
        if !is_call {
            return Self::variable(at, name);
        }
        if name == "substring" {
            return self.part(at, depth);
        }
        let Some((function, count)) = Function::named(name) else { return Self::unknown(at, name) };
        self.must_take('(')?;
        let mut texts = Vec::with_capacity(count);
        while texts.len() < count {
            if !texts.is_empty() && !self.takes(',') {
                break;
            }
            let at = self.blanks();
            if self.template[at..].starts_with(|c: char| c.is_ascii_digit()) {
                return refusal(at, format!("{name}() takes texts, and this is a number"), "quote it");
            }
            texts.push(self.joined(depth + 1)?);
        }
        let end = self.blanks();
        if texts.len() < count || !self.takes(')') {
            self.is_open(end)?;
            return refusal(
                at,
                format!("{name}() takes {count} text{}", if count == 1 { "" } else { "s" }),
                "correct it",
            );
        }
        let sought = match texts.get(1) {
            Some(Expression::Text(sought)) if matches!(function, Function::Replace | Function::Randomize) => {
                sought.len()
            }
            _ => 0,
        };
        if sought > MOST_SOUGHT {
            let why = format!("{name}() looks for {sought} bytes, and {MOST_SOUGHT} are the most");
            return refusal(at, why, "shorten what it looks for");
        }
        Ok(Expression::Call(function, texts))
    }

    /// `substring`, which takes numbers too.
    fn part(&mut self, at: usize, depth: usize) -> Result<Expression, Refusal> {
        self.must_take('(')?;
        let whole = self.joined(depth + 1)?;
        let mut numbers = Vec::new();
        while numbers.len() < 2 && self.takes(',') {
            let at = self.blanks();
            if !self.template[at..].starts_with(|c: char| c.is_ascii_digit()) {
                self.is_open(at)?;
                let why = "substring() takes where to begin and how many bytes as numbers from 0 on";
                return refusal(at, why, "write them in digits");
            }
            numbers.push(self.number(at)?);
        }
        let end = self.blanks();
        let Some((start, length)) = numbers.split_first().filter(|_| self.takes(')')) else {
            self.is_open(end)?;
            let why = "substring() takes a text, where to begin, and perhaps how many bytes";
            return refusal(at, why, "correct it");
        };
        Ok(Expression::Part(Box::new(whole), *start, length.first().copied()))
    }

    fn unknown<T>(at: usize, name: &str) -> Result<T, Refusal> {
        let (why, remedy) = match name {
            "env" => (
                "env() would show the environment of the proxy, which is not the route's".to_owned(),
                "write the text that it stands for".to_owned(),
            ),
            "body" | "context" => {
                (format!("{name}() reads the body, and bodies are not read yet"), "read headers alone".to_owned())
            }
            _ => {
                let mut known: Vec<_> = Function::ALL.iter().map(|(_, name, ..)| *name).collect();
                known.push("substring");
                known.sort_unstable();
                (
                    format!("there is no function {}()", validate::shown(name)),
                    format!("use one of {}", known.join(", ")),
                )
            }
        };
        refusal(at, why, remedy)
    }

    fn variable<T>(at: usize, name: &str) -> Result<T, Refusal> {
        let name = validate::shown(name);
        if name == "connection" {
            return refusal(at, "the attributes of connections are not served yet", "remove it");
        }
        let remedy = "quote it if it is a text, or read a header with header(\"NAME\")";
        refusal(at, format!("{name} is a variable, and there are none but of bodies, which are not read yet"), remedy)
    }

    fn word(&mut self) -> &'a str {
        let begin = self.at();
        while self.chars.next_if(|(_, c)| *c == '_' || c.is_alphanumeric()).is_some() {}
        &self.template[begin..self.at()]
    }

    fn number(&mut self, at: usize) -> Result<u32, Refusal> {
        let digits = self.word();
        let is_more = self.template[self.at()..].starts_with('.');
        match digits.parse() {
            Ok(number) if !is_more => Ok(number),
            _ => refusal(at, "it is no whole number that is served", "write at most 4294967295, in digits"),
        }
    }

    /// A text in quotes.
    fn text(&mut self, quote: char, at: usize) -> Result<String, Refusal> {
        self.chars.next();
        let mut text = String::new();
        while let Some((index, c)) = self.chars.next() {
            if c == quote {
                return Ok(text);
            }
            text.push(if c == '\\' { self.escaped(self.from + index)? } else { c });
        }
        refusal(at, format!("{quote} begins a text that does not end"), format!("end it with {quote}"))
    }

    fn escaped(&mut self, at: usize) -> Result<char, Refusal> {
        let c = match self.chars.next().map(|(_, c)| c) {
            Some(c @ ('"' | '\'' | '\\' | '/')) => Some(c),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('u') => {
                let digits: String = self.chars.by_ref().take(4).map(|(_, c)| c).collect();
                let is_hex = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                u32::from_str_radix(&digits, 16).ok().filter(|_| is_hex).and_then(char::from_u32)
            }
            _ => None,
        };
        match c {
            Some(c) => Ok(c),
            None => refusal(at, "\\ stands before what it gives no meaning", "write \\\\ for \\ itself"),
        }
    }

    /// Where the next token begins.
    fn blanks(&mut self) -> usize {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
        self.at()
    }

    fn at(&mut self) -> usize {
        self.chars.peek().map_or(self.template.len(), |(index, _)| self.from + index)
    }

    fn takes(&mut self, sign: char) -> bool {
        self.blanks();
        self.chars.next_if(|(_, c)| *c == sign).is_some()
    }

    fn must_take(&mut self, sign: char) -> Result<(), Refusal> {
        if self.takes(sign) {
            return Ok(());
        }
        let at = self.blanks();
        self.unexpected(at)
    }

    /// Refuses what is not closed.
    fn is_open(&self, at: usize) -> Result<(), Refusal> {
        if at < self.template.len() {
            return Ok(());
        }
        refusal(self.open, "{{ begins an expression that does not end", "end it with }}, or write {{ \"{{\" }} for {{")
    }

    fn unexpected<T>(&self, at: usize) -> Result<T, Refusal> {
        self.is_open(at)?;
        let rest = &self.template[at..];
        let sign = rest.chars().next().unwrap_or_default();
        let (why, remedy) = match sign {
            '|' => ("| begins a filter, and filters are not served", "use a function instead, or remove it"),
            '+' => ("+ is not served", "write ~ between texts"),
            '.' | '[' => ("parts of variables, and lists, are not served", "read a header with header(\"NAME\")"),
            '=' | '!' | '<' | '>' => ("comparisons are not served", "have a rule of its own for each case"),
            _ if rest.starts_with("if ") || rest.starts_with("is ") => {
                ("conditions are not served", "have a rule of its own for each case")
            }
            _ => ("something else is expected", "write texts in quotes and functions, with ~ between them"),
        };
        refusal(at, why, remedy)
    }
}

#[cfg(test)]
mod tests;
