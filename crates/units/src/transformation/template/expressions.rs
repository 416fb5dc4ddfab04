//! What stands between `{{` and `}}`, and in statements.

use super::{
    Call, Expression, Function, MOST_DEEP, MOST_SOUGHT, Operator, Refusal,
    names::{COMPARISONS, IN, POWER, PRODUCTS, SUMS},
    refusal,
    tokens::Cursor,
};

/// Words that are no names.
pub(super) const RESERVED: [&str; 13] =
    ["true", "True", "false", "False", "none", "None", "and", "or", "not", "in", "is", "if", "else"];
/// What a loop says of itself.
const OF_LOOPS: [&str; 9] =
    ["index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"];

impl Cursor<'_> {
    /// An expression, which may be one of two by a condition.
    pub(super) fn expression(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let at = self.blanks();
        if depth > MOST_DEEP {
            return refusal(at, format!("it is nested more than {MOST_DEEP} deep"), "nest it less");
        }
        let mut one = self.either(depth)?;
        while self.takes_word("if") {
            self.count(at)?;
            let condition = self.either(depth)?;
            let other = if self.takes_word("else") { self.expression(depth + 1)? } else { Expression::Undefined };
            one = Expression::Either(Box::new([condition, one, other]));
        }
        Ok(one)
    }

    /// An expression that no condition follows.
    pub(super) fn unconditional(&mut self, depth: usize) -> Result<Expression, Refusal> {
        self.either(depth)
    }

    fn either(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let mut one = self.both(depth)?;
        while self.takes_word("or") {
            self.count(self.at)?;
            one = Expression::Or(Box::new([one, self.both(depth)?]));
        }
        Ok(one)
    }

    fn both(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let mut one = self.opposite(depth)?;
        while self.takes_word("and") {
            self.count(self.at)?;
            one = Expression::And(Box::new([one, self.opposite(depth)?]));
        }
        Ok(one)
    }

    fn opposite(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let mut count = 0;
        while self.takes_word("not") {
            self.count(self.at)?;
            count += 1;
        }
        let one = self.compared(depth)?;
        Ok((0..count).fold(one, |one, _| Expression::Not(Box::new(one))))
    }

    fn compared(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let one = self.sum(depth)?;
        let Some((operator, is_not)) = self.comparison() else { return Ok(one) };
        self.count(self.at)?;
        let other = self.sum(depth)?;
        let at = self.blanks();
        if self.comparison().is_some() {
            return refusal(at, "a second comparison follows", "write and between two comparisons");
        }
        let of = Expression::Of(operator, Box::new([one, other]));
        Ok(if is_not { Expression::Not(Box::new(of)) } else { of })
    }

    /// The operator that compares, and whether the opposite is meant.
    fn comparison(&mut self) -> Option<(&'static Operator, bool)> {
        let at = self.blanks();
        if let Some(operator) = COMPARISONS.iter().find(|operator| self.template[at..].starts_with(operator.0)) {
            self.at += operator.0.len();
            return Some((operator, false));
        }
        if self.takes_word("in") {
            return Some((&IN, false));
        }
        if self.takes_word("not") {
            if self.takes_word("in") {
                return Some((&IN, true));
            }
            self.at = at;
        }
        None
    }

    fn sum(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let mut one = self.joined(depth)?;
        while let Some(operator) = self.operator(&SUMS) {
            self.count(self.at)?;
            one = Expression::Of(operator, Box::new([one, self.joined(depth)?]));
        }
        Ok(one)
    }

    /// Texts with `~` between them.
    fn joined(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let mut parts = vec![self.product(depth)?];
        while self.takes('~') {
            self.count(self.at)?;
            parts.push(self.product(depth)?);
        }
        Ok(Expression::joined(parts))
    }

    fn product(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let mut one = self.power(depth)?;
        while let Some(operator) = self.operator(&PRODUCTS) {
            self.count(self.at)?;
            one = Expression::Of(operator, Box::new([one, self.power(depth)?]));
        }
        Ok(one)
    }

    fn power(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let mut one = self.signed(depth)?;
        while self.template[self.blanks()..].starts_with("**") {
            self.count(self.at)?;
            self.at += 2;
            one = Expression::Of(&POWER, Box::new([one, self.signed(depth)?]));
        }
        Ok(one)
    }

    fn operator(&mut self, all: &'static [Operator]) -> Option<&'static Operator> {
        let at = self.blanks();
        let rest = &self.template[at..];
        if ["-}}", "-%}", "%}", "**"].iter().any(|end| rest.starts_with(end)) {
            return None;
        }
        let operator = all.iter().find(|operator| rest.starts_with(operator.0))?;
        self.at += operator.0.len();
        Some(operator)
    }

    /// A value with a sign in front, and filters and tests behind it.
    fn signed(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let at = self.blanks();
        let is_negative = self.takes('-');
        let mut one = self.primary(depth)?;
        if is_negative {
            one = match one {
                Expression::Whole(number) => Expression::Whole(-number),
                one => Expression::Negative(Box::new(one)),
            };
            if self.template[self.at..].starts_with(['.', '[', '(']) {
                let why = "- stands before a value of which a part is taken";
                return refusal(at, why, "put what is negative in parentheses");
            }
        }
        one = self.parts_of(one, depth)?;
        self.applied(one, depth)
    }

    fn primary(&mut self, depth: usize) -> Result<Expression, Refusal> {
        let at = self.blanks();
        self.count(at)?;
        if depth > MOST_DEEP {
            return refusal(at, format!("it is nested more than {MOST_DEEP} deep"), "nest it less");
        }
        match self.template[at..].chars().next() {
            Some(quote @ ('"' | '\'')) => Ok(Expression::Text(self.text(quote, at)?)),
            Some('(') => {
                self.at += 1;
                let inner = self.expression(depth + 1)?;
                if self.takes(',') {
                    return refusal(at, "( ) with , in it is not served", "write [ ] around what is a list");
                }
                self.must_take(')')?;
                Ok(inner)
            }
            Some('[') => {
                self.at += 1;
                let mut all = Vec::new();
                while !self.takes(']') {
                    if !all.is_empty() {
                        self.must_take(',')?;
                        if self.takes(']') {
                            break;
                        }
                    }
                    all.push(self.expression(depth + 1)?);
                }
                Ok(Expression::List(all))
            }
            Some('{') => self.map(depth),
            Some('0'..='9') => self.number(at),
            Some(c) if c == '_' || c.is_alphabetic() => self.name(at, depth),
            _ => self.unexpected(at),
        }
    }

    fn map(&mut self, depth: usize) -> Result<Expression, Refusal> {
        self.at += 1;
        let mut all: Vec<(String, Expression)> = Vec::new();
        while !self.takes('}') {
            if !all.is_empty() {
                self.must_take(',')?;
                if self.takes('}') {
                    break;
                }
            }
            let at = self.blanks();
            let Some(quote @ ('"' | '\'')) = self.template[at..].chars().next() else {
                self.is_open(at)?;
                return refusal(at, "a key of { } is something else than a text", "write it in quotes");
            };
            let key = self.text(quote, at)?;
            self.must_take(':')?;
            all.push((key, self.expression(depth + 1)?));
        }
        Ok(Expression::Map(all))
    }

    /// A word, a variable, or what a function makes.
    fn name(&mut self, at: usize, depth: usize) -> Result<Expression, Refusal> {
        let name = self.word();
        match name {
            "true" | "True" => return Ok(Expression::Bool(true)),
            "false" | "False" => return Ok(Expression::Bool(false)),
            "none" | "None" => return Ok(Expression::Nothing),
            _ if RESERVED.contains(&name) => return self.unexpected(at),
            _ => {}
        }
        let behind = self.at;
        if self.takes('(') {
            return self.call(at, name, depth);
        }
        self.at = behind;
        if name == "connection" {
            return refusal(at, "the attributes of connections are not served yet", "remove it");
        }
        Ok(Expression::Variable(name.to_owned()))
    }

    fn call(&mut self, at: usize, name: &str, depth: usize) -> Result<Expression, Refusal> {
        match name {
            "substring" => return self.part(at, depth),
            "body" | "context" => {
                if !self.takes(')') {
                    let end = self.blanks();
                    self.is_open(end)?;
                    return refusal(at, format!("{name}() takes nothing"), "write () behind it");
                }
                return Ok(if name == "body" { Expression::Body } else { Expression::Context });
            }
            _ => {}
        }
        let Some((function, count)) = Function::named(name) else { return Self::unknown(at, name) };
        let mut texts = Vec::with_capacity(count);
        while texts.len() < count {
            if !texts.is_empty() && !self.takes(',') {
                break;
            }
            let at = self.blanks();
            let text = self.expression(depth + 1)?;
            if !text.may_be_text() {
                return refusal(at, format!("{name}() takes texts, and this is something else"), "quote it");
            }
            texts.push(text);
        }
        let end = self.blanks();
        if texts.len() < count || !self.takes(')') {
            self.is_open(end)?;
            let why = format!("{name}() takes {count} text{}", if count == 1 { "" } else { "s" });
            return refusal(at, why, "correct it");
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
        let whole = self.expression(depth + 1)?;
        let mut numbers = Vec::new();
        while numbers.len() < 2 && self.takes(',') {
            let at = self.blanks();
            let number = self.expression(depth + 1)?;
            let is_one = match &number {
                Expression::Whole(number) => (0..=i64::from(u32::MAX)).contains(number),
                number => number.may_be_number(),
            };
            if !is_one {
                let why = "substring() takes where to begin and how many bytes as numbers from 0 on";
                return refusal(at, why, "write them in digits");
            }
            numbers.push(number);
        }
        let end = self.blanks();
        if numbers.is_empty() || !self.takes(')') {
            self.is_open(end)?;
            let why = "substring() takes a text, where to begin, and perhaps how many bytes";
            return refusal(at, why, "correct it");
        }
        let known: Option<Vec<u32>> = numbers
            .iter()
            .map(|number| if let Expression::Whole(number) = number { u32::try_from(*number).ok() } else { None })
            .collect();
        if let Some((start, length)) = known.as_ref().and_then(|known| known.split_first()) {
            return Ok(Expression::Part(Box::new(whole), *start, length.first().copied()));
        }
        let mut numbers = numbers.into_iter();
        let mut next = || numbers.next().unwrap_or(Expression::Undefined);
        let (start, length) = (next(), next());
        Ok(Expression::PartBy(Box::new([whole, start, length])))
    }

    fn unknown<T>(at: usize, name: &str) -> Result<T, Refusal> {
        if name == "env" {
            let why = "env() would show the environment of the proxy, which is not the route's";
            return refusal(at, why, "write the text that it stands for");
        }
        let mut known: Vec<_> = Function::ALL.iter().map(|(_, name, ..)| *name).collect();
        known.extend(["substring", "body", "context"]);
        known.sort_unstable();
        let why = format!("there is no function {}()", validate::shown(name));
        refusal(at, why, format!("use one of {}", known.join(", ")))
    }

    /// What follows a value: `.name` and `[…]`.
    fn parts_of(&mut self, mut one: Expression, depth: usize) -> Result<Expression, Refusal> {
        loop {
            let at = self.blanks();
            let rest = &self.template[at..];
            if rest.starts_with('.') {
                self.at += 1;
                self.count(at)?;
                let from = self.blanks();
                let name = self.word();
                if !name.starts_with(|c: char| c == '_' || c.is_alphabetic()) {
                    return refusal(from, "a name is expected behind .", "write [0] for a place in a list");
                }
                if self.loops > 0 && one == Expression::Variable("loop".into()) && !OF_LOOPS.contains(&name) {
                    let why = format!("loop.{} is not served", validate::shown(name));
                    return refusal(from, why, format!("use loop. with one of {}", OF_LOOPS.join(", ")));
                }
                one = Expression::Attribute(Box::new(one), name.to_owned());
            } else if rest.starts_with('[') {
                self.at += 1;
                self.count(at)?;
                one = self.place(one, depth)?;
            } else if rest.starts_with('(') {
                return refusal(at, "values have no functions of their own", "use a filter: VALUE | FILTER");
            } else {
                return Ok(one);
            }
        }
    }

    /// What stands in `[ ]`.
    fn place(&mut self, one: Expression, depth: usize) -> Result<Expression, Refusal> {
        let mut bounds = [Expression::Nothing, Expression::Nothing, Expression::Nothing];
        let mut count = 0;
        loop {
            let at = self.blanks();
            if !self.template[at..].starts_with([':', ']']) {
                bounds[count] = self.expression(depth + 1)?;
            } else if count == 0 && self.template[at..].starts_with(']') {
                return refusal(at, "[ ] says no place", "write a number or a text in it");
            }
            if count < 2 && self.takes(':') {
                count += 1;
                continue;
            }
            self.must_take(']')?;
            break;
        }
        let [first, last, by] = bounds;
        if count == 0 {
            return Ok(Expression::Item(Box::new(one), Box::new(first)));
        }
        let goes_on = match &by {
            Expression::Nothing => true,
            Expression::Whole(number) => *number > 0,
            _ => false,
        };
        if !goes_on {
            return refusal(self.at, "a part goes on by a number from 1 on", "write one, or use the filter reverse");
        }
        Ok(Expression::Slice(Box::new([one, first, last, by])))
    }

    /// Filters and tests behind a value.
    fn applied(&mut self, mut one: Expression, depth: usize) -> Result<Expression, Refusal> {
        loop {
            if self.takes('|') {
                let at = self.blanks();
                self.count(at)?;
                let name = self.word();
                let Some(call) = Call::named(name, false) else {
                    let why = format!("there is no filter {}", validate::shown(name));
                    return refusal(at, why, format!("use one of {}", Call::names(false)));
                };
                let values = if self.takes('(') { self.values(at, call, depth)? } else { Vec::new() };
                one = Self::apply(at, call, one, values)?;
            } else if self.takes_word("is") {
                let is_not = self.takes_word("not");
                let at = self.blanks();
                self.count(at)?;
                let name = self.word();
                let Some(call) = Call::named(name, true) else {
                    let why = format!("there is no test {}", validate::shown(name));
                    return refusal(at, why, format!("use one of {}", Call::names(true)));
                };
                let values = if self.takes('(') {
                    self.values(at, call, depth)?
                } else if call.least > 0 {
                    let value = self.primary(depth + 1)?;
                    vec![(None, self.parts_of(value, depth)?)]
                } else {
                    Vec::new()
                };
                one = Self::apply(at, call, one, values)?;
                if is_not {
                    one = Expression::Not(Box::new(one));
                }
            } else {
                return Ok(one);
            }
        }
    }

    /// What stands in parentheses behind a filter or a test: values, some of them by name.
    fn values(&mut self, at: usize, call: &Call, depth: usize) -> Result<Vec<(Option<usize>, Expression)>, Refusal> {
        let mut all = Vec::new();
        while !self.takes(')') {
            if !all.is_empty() {
                self.must_take(',')?;
                if self.takes(')') {
                    break;
                }
            }
            let from = self.blanks();
            let name = self.word();
            let is_named = !name.is_empty() && self.takes('=') && !self.template[self.at..].starts_with('=');
            if !is_named {
                self.at = from;
                all.push((None, self.expression(depth + 1)?));
                continue;
            }
            let Some(index) = call.value(name) else {
                let why = format!("{} takes nothing that is called {}", call.name, validate::shown(name));
                return refusal(at, why, "remove it");
            };
            all.push((Some(index), self.expression(depth + 1)?));
        }
        Ok(all)
    }

    fn apply(
        at: usize,
        call: &'static Call,
        one: Expression,
        values: Vec<(Option<usize>, Expression)>,
    ) -> Result<Expression, Refusal> {
        let mut all = vec![Expression::Undefined; call.values.len() + 1];
        let mut given = 0;
        for (place, (index, value)) in values.into_iter().enumerate() {
            let Some(index) = index.or_else(|| (place < call.placed).then_some(place)) else {
                return refusal(at, format!("{} does not take what it is given", call.name), "remove what is too much");
            };
            all[index + 1] = value;
            given += 1;
        }
        if given < call.least {
            return refusal(at, format!("{} is given too little", call.name), "give it what it takes");
        }
        all[0] = one;
        Ok(Expression::Apply(call, all))
    }
}

impl Expression {
    /// Whether it may be a text, as far as that is known before.
    fn may_be_text(&self) -> bool {
        let is_other = matches!(
            self,
            Self::Nothing | Self::Bool(_) | Self::Whole(_) | Self::Fraction(_) | Self::List(_) | Self::Map(_)
        );
        !is_other && !matches!(self, Self::Not(_) | Self::Negative(_))
    }

    /// Whether it may be a whole number from 0 on.
    fn may_be_number(&self) -> bool {
        !matches!(
            self,
            Self::Nothing
                | Self::Bool(_)
                | Self::Fraction(_)
                | Self::Text(_)
                | Self::List(_)
                | Self::Map(_)
                | Self::Joined(_)
                | Self::Call(..)
                | Self::Body
                | Self::Part(..)
                | Self::Negative(_)
        )
    }
}
