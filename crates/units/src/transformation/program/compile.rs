//! Templates as instructions, which the program in proxies interprets.

use super::super::template::{Expression, For, Function, Node, Template};

/// What of the body a template is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Needed {
    /// All of it, as a text.
    Text,
    /// JSON.
    Json,
}

/// What of the body a template is made of; none if nothing.
pub(in super::super) fn body_of(template: &Template) -> Option<Needed> {
    let is_json = |expression: &&Expression| matches!(expression, Expression::Context);
    let expressions = template.expressions();
    if template.reads_variables().is_some() || expressions.iter().any(is_json) {
        return Some(Needed::Json);
    }
    expressions.iter().any(|expression| **expression == Expression::Body).then_some(Needed::Text)
}

/// What is kept of a request for its response; none for a request itself.
pub(super) type Kept<'a> = Option<&'a mut Vec<Vec<String>>>;

/// Writes instructions.
pub(super) struct Compiler<'a> {
    /// What is kept of a request for its response; none for a request itself.
    kept: Kept<'a>,
    all: &'a mut Vec<String>,
    /// How many were there before: places are counted from there on.
    from: usize,
}

impl Compiler<'_> {
    /// Puts the instructions of a template behind what is in `all`.
    pub(super) fn compile(template: &Template, kept: Kept<'_>, all: &mut Vec<String>) {
        let from = all.len();
        let mut compiler = Compiler { kept, all, from };
        if body_of(template).is_some() {
            compiler.push(if template.reads_variables().is_some() { 'V' } else { 'W' }, "");
        }
        if template.is_plain() {
            for node in &template.nodes {
                match node {
                    Node::Text(text) => compiler.push('=', text),
                    Node::Print(expression) => compiler.expression(expression),
                    Node::If(..) | Node::For(_) | Node::Set(..) => {}
                }
            }
            match template.nodes.len() {
                0 => compiler.push('=', ""),
                1 => {}
                count => compiler.push('~', &count.to_string()),
            }
        } else {
            compiler.push('<', "");
            compiler.nodes(&template.nodes);
        }
    }

    fn push(&mut self, letter: char, operand: &str) {
        self.all.push(format!("{letter}{operand}"));
    }

    /// The place of the next instruction.
    fn here(&self) -> usize {
        self.all.len() - self.from
    }

    /// Jumps to a place that is said later.
    fn jump(&mut self, letter: char) -> usize {
        self.push(letter, "");
        self.all.len() - 1
    }

    /// Has a jump lead here.
    fn land(&mut self, jump: usize) {
        let here = self.here().to_string();
        self.all[jump].push_str(&here);
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Text(text) => {
                    self.push('=', text);
                    self.push('>', "");
                }
                Node::Print(expression) => {
                    self.expression(expression);
                    self.push('>', "");
                }
                Node::Set(name, value) => {
                    self.expression(value);
                    self.push('S', name);
                }
                Node::If(branches, otherwise) => {
                    let mut ends = Vec::new();
                    for (condition, nodes) in branches {
                        self.expression(condition);
                        let next = self.jump('F');
                        self.nodes(nodes);
                        ends.push(self.jump('J'));
                        self.land(next);
                    }
                    self.nodes(otherwise);
                    for end in ends {
                        self.land(end);
                    }
                }
                Node::For(of) => self.repeated(of),
            }
        }
    }

    fn repeated(&mut self, of: &For) {
        self.expression(&of.items);
        if let Some(only) = &of.only {
            self.push('L', "x");
            let begin = self.here();
            let end = self.jump('I');
            self.named(&of.names);
            self.expression(only);
            self.push('K', "");
            self.push('J', &begin.to_string());
            self.land(end);
            self.push('P', "k");
        }
        self.push('L', "");
        let begin = self.here();
        let end = self.jump('I');
        self.named(&of.names);
        self.nodes(&of.body);
        self.push('J', &begin.to_string());
        self.land(end);
        if of.otherwise.is_empty() {
            self.push('P', "");
            return;
        }
        self.push('P', "n");
        let end = self.jump('F');
        self.nodes(&of.otherwise);
        self.land(end);
    }

    /// Gives the value on the stack its names.
    fn named(&mut self, names: &[String]) {
        if names.len() > 1 {
            self.push('U', &names.len().to_string());
        }
        for name in names {
            self.push('S', name);
        }
    }

    fn expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Text(text) => self.push('=', text),
            Expression::Nothing => self.push('@', "n"),
            Expression::Undefined => self.push('@', "u"),
            Expression::Bool(value) => self.push('@', if *value { "t" } else { "f" }),
            Expression::Whole(number) => self.push('#', &number.to_string()),
            Expression::Fraction(number) => self.push('%', number),
            Expression::Variable(name) => self.push('v', name),
            Expression::Body => self.push('B', ""),
            Expression::Context => self.push('X', ""),
            Expression::List(all) => self.all_of(all, 'l', &all.len().to_string()),
            Expression::Map(all) => {
                for (key, value) in all {
                    self.push('=', key);
                    self.expression(value);
                }
                self.push('m', &all.len().to_string());
            }
            Expression::Attribute(one, name) => {
                self.expression(one);
                self.push('.', name);
            }
            Expression::Item(one, place) => {
                self.expression(one);
                self.expression(place);
                self.push('[', "");
            }
            Expression::Slice(all) => self.all_of(&**all, ':', ""),
            Expression::Not(one) => {
                self.expression(one);
                self.push('!', "");
            }
            Expression::Negative(one) => {
                self.expression(one);
                self.push('-', "");
            }
            Expression::Of(operator, all) => self.all_of(&**all, 'o', operator.0),
            Expression::And(all) | Expression::Or(all) => {
                self.expression(&all[0]);
                let end = self.jump(if matches!(expression, Expression::And(_)) { 'A' } else { 'O' });
                self.expression(&all[1]);
                self.land(end);
            }
            Expression::Either(all) => {
                self.expression(&all[0]);
                let other = self.jump('F');
                self.expression(&all[1]);
                let end = self.jump('J');
                self.land(other);
                self.expression(&all[2]);
                self.land(end);
            }
            Expression::Joined(all) => self.all_of(all, '~', &all.len().to_string()),
            Expression::Part(whole, start, length) => {
                self.expression(whole);
                let length = length.map(|length| length.to_string()).unwrap_or_default();
                self.push('u', &format!("{start}:{length}"));
            }
            Expression::PartBy(all) => self.all_of(&**all, 'q', ""),
            Expression::Apply(call, all) => {
                self.all_of(all, if call.is_test { '?' } else { '|' }, &format!("{}{}", all.len(), call.name));
            }
            Expression::Call(function, texts) => self.call(expression, *function, texts),
        }
    }

    fn all_of(&mut self, all: &[Expression], letter: char, operand: &str) {
        for one in all {
            self.expression(one);
        }
        self.push(letter, operand);
    }

    fn call(&mut self, expression: &Expression, function: Function, texts: &[Expression]) {
        if let Some(kept) = self.kept.as_mut().filter(|_| function.is_of_request()) {
            let mut own = Vec::new();
            Compiler { kept: None, all: &mut own, from: 0 }.expression(expression);
            let index = kept.iter().position(|known| *known == own).unwrap_or_else(|| {
                kept.push(own);
                kept.len() - 1
            });
            self.push('k', &(index + 1).to_string());
            return;
        }
        let letter = Function::ALL.iter().find(|(known, ..)| *known == function).map_or('h', |(.., letter)| *letter);
        self.all_of(texts, letter, "");
    }
}
