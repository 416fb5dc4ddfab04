//! The language of templates: texts with `{{ expressions }}` and `{% statements %}`, as `MiniJinja` reads them.
//!
//! They are read once, here, and come to data. What a proxy does by them is bounded there, since loops multiply.

mod expressions;
mod names;
mod statements;
mod tokens;

use validate::Invalid;

#[cfg(test)]
pub(super) use names::{CALLS, operators};
pub(super) use names::{Call, Function, Operator};

/// How deep expressions and statements may be nested.
const MOST_DEEP: usize = 16;
/// The longest text that is looked for, in bytes. Longer ones are refused in proxies too.
const MOST_SOUGHT: usize = 256;

/// What a template says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    /// No two neighbours are texts.
    pub(super) nodes: Vec<Node>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// A text as it stands.
    Text(String),
    /// `{{ expression }}`.
    Print(Expression),
    /// `{% if %}`: conditions with what stands below them, and what stands below `{% else %}`.
    If(Vec<(Expression, Vec<Node>)>, Vec<Node>),
    /// `{% for %}`.
    For(Box<For>),
    /// `{% set %}`: a name and its value.
    Set(String, Expression),
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct For {
    /// What an item is called, or its parts.
    pub(super) names: Vec<String>,
    /// What it goes through.
    pub(super) items: Expression,
    /// Which items it takes.
    pub(super) only: Option<Expression>,
    /// What is said of each.
    pub(super) body: Vec<Node>,
    /// What is said where there is none.
    pub(super) otherwise: Vec<Node>,
}

/// What stands for a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// `none`.
    Nothing,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number, of at most 2^53.
    Whole(i64),
    /// A number with a point, as it is written.
    Fraction(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Expression>),
    /// Texts with their values.
    Map(Vec<(String, Expression)>),
    /// A variable: of the JSON of a body, or of a loop or `set`.
    Variable(String),
    /// What a value calls by a name.
    Attribute(Box<Expression>, String),
    /// What stands in a value at a place.
    Item(Box<Expression>, Box<Expression>),
    /// A part of a value: from where, to where, by how many.
    Slice(Box<[Expression; 4]>),
    /// The opposite.
    Not(Box<Expression>),
    /// A number below zero.
    Negative(Box<Expression>),
    /// What an operator makes of two values.
    Of(&'static Operator, Box<[Expression; 2]>),
    /// Both.
    And(Box<[Expression; 2]>),
    /// Either.
    Or(Box<[Expression; 2]>),
    /// A condition, what it is if that holds, and if not.
    Either(Box<[Expression; 3]>),
    /// One behind the other, as texts. There are two at least, and no two neighbours are texts.
    Joined(Vec<Expression>),
    /// What a function makes of texts.
    Call(Function, Vec<Expression>),
    /// A part of a text: from which byte on, and how many.
    Part(Box<Expression>, u32, Option<u32>),
    /// The same by numbers that are not known before.
    PartBy(Box<[Expression; 3]>),
    /// What a filter or a test makes of a value and as many others as it takes.
    Apply(&'static Call, Vec<Expression>),
    /// The body as a text.
    Body,
    /// All of the JSON of the body.
    Context,
    /// What is not there.
    Undefined,
}

impl Template {
    /// What is the same for all messages; none if anything has to be found out.
    pub(super) fn text(&self) -> Option<&str> {
        match self.nodes.as_slice() {
            [] => Some(""),
            [Node::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The texts that stand in it whatever a message says, if it has no statements.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let is_plain = self.is_plain();
        let texts = self.nodes.iter().filter_map(|node| if let Node::Text(text) = node { Some(&**text) } else { None });
        texts.filter(move |_| is_plain)
    }

    /// Whether it has no statements.
    pub(super) fn is_plain(&self) -> bool {
        self.nodes.iter().all(|node| matches!(node, Node::Text(_) | Node::Print(_)))
    }

    /// Every expression in it, also those within others.
    pub(super) fn expressions(&self) -> Vec<&Expression> {
        let mut all = Vec::new();
        for node in &self.nodes {
            node.visit(&mut all);
        }
        let mut next = 0;
        while next < all.len() {
            all[next].parts(&mut |part| all.push(part));
            next += 1;
        }
        all
    }

    /// Whether it reads variables that it has not set itself, which are those of JSON.
    pub(super) fn reads_variables(&self) -> Option<&str> {
        names::undeclared(&self.nodes)
    }

    /// The same without what it need not be.
    fn of(nodes: Vec<Node>) -> Self {
        Self { nodes: folded(nodes) }
    }
}

/// Nodes with their texts joined.
fn folded(nodes: Vec<Node>) -> Vec<Node> {
    let mut all: Vec<Node> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let node = match node {
            Node::Print(Expression::Text(text)) => Node::Text(text),
            Node::Print(Expression::Whole(number)) => Node::Text(number.to_string()),
            node => node,
        };
        match (all.last_mut(), node) {
            (Some(Node::Text(before)), Node::Text(text)) => before.push_str(&text),
            (_, node) => all.push(node),
        }
    }
    all.retain(|node| !matches!(node, Node::Text(text) if text.is_empty()));
    all
}

impl Node {
    fn visit<'a>(&'a self, all: &mut Vec<&'a Expression>) {
        match self {
            Self::Text(_) => {}
            Self::Print(expression) | Self::Set(_, expression) => all.push(expression),
            Self::If(branches, otherwise) => {
                all.extend(branches.iter().map(|(condition, _)| condition));
                for node in branches.iter().flat_map(|(_, nodes)| nodes).chain(otherwise) {
                    node.visit(all);
                }
            }
            Self::For(of) => {
                all.push(&of.items);
                all.extend(&of.only);
                for node in of.body.iter().chain(&of.otherwise) {
                    node.visit(all);
                }
            }
        }
    }
}

impl Expression {
    /// Gives what it is made of.
    fn parts<'a>(&'a self, give: &mut dyn FnMut(&'a Self)) {
        match self {
            Self::Nothing
            | Self::Bool(_)
            | Self::Whole(_)
            | Self::Fraction(_)
            | Self::Text(_)
            | Self::Variable(_)
            | Self::Body
            | Self::Context
            | Self::Undefined => {}
            Self::Attribute(one, _) | Self::Not(one) | Self::Negative(one) | Self::Part(one, ..) => give(one),
            Self::Item(one, other) => [one, other].into_iter().for_each(|part| give(part)),
            Self::Of(_, all) | Self::And(all) | Self::Or(all) => all.iter().for_each(give),
            Self::Either(all) | Self::PartBy(all) => all.iter().for_each(give),
            Self::Slice(all) => all.iter().for_each(give),
            Self::List(all) | Self::Joined(all) | Self::Call(_, all) | Self::Apply(_, all) => all.iter().for_each(give),
            Self::Map(all) => all.iter().for_each(|(_, value)| give(value)),
        }
    }

    /// Whether the message, its body or a variable is read anywhere in it.
    fn reads_message(&self) -> bool {
        let own = match self {
            Self::Call(function, _) => *function == Function::Header,
            Self::Variable(_) | Self::Body | Self::Context => true,
            _ => false,
        };
        let mut any = own;
        self.parts(&mut |part| any = any || part.reads_message());
        any
    }

    /// Whether what is read of the request depends on what is read of the message.
    pub(super) fn asks_by_message(&self) -> bool {
        match self {
            Self::Call(function, all) if function.is_of_request() => all.iter().any(Self::reads_message),
            _ => false,
        }
    }

    /// Several, one behind the other, without what need not be.
    fn joined(parts: Vec<Self>) -> Self {
        let mut all: Vec<Self> = Vec::with_capacity(parts.len());
        if parts.len() == 1 {
            return parts.into_iter().next().unwrap_or(Self::Undefined);
        }
        let flat = parts.into_iter().flat_map(|part| if let Self::Joined(inner) = part { inner } else { vec![part] });
        for part in flat {
            let part = if let Self::Whole(number) = part { Self::Text(number.to_string()) } else { part };
            match (all.last_mut(), part) {
                (Some(Self::Text(before)), Self::Text(text)) => before.push_str(&text),
                (_, part) => all.push(part),
            }
        }
        if all.len() > 1 && all.iter().any(|part| matches!(part, Self::Text(text) if !text.is_empty())) {
            all.retain(|part| *part != Self::Text(String::new()));
        }
        match all.as_slice() {
            [Self::Text(_)] => all.swap_remove(0),
            _ => {
                // One alone would keep its kind.
                if all.len() == 1 {
                    all.push(Self::Text(String::new()));
                }
                Self::Joined(all)
            }
        }
    }
}

/// Reads a template.
///
/// # Errors
/// Where it is not closed, or says what is not served, with the remedy.
pub(super) fn parse(text: &str) -> Result<Template, Invalid> {
    // A line break at the end is not part of a template.
    let template = text.strip_suffix('\n').map_or(text, |rest| rest.strip_suffix('\r').unwrap_or(rest));
    let refused = |(at, why, remedy): Refusal| {
        let place = template.get(..at).map_or(0, |before| before.chars().count()) + 1;
        // What is refused, and not how the template begins.
        let shown = template.get(at..).unwrap_or(template);
        Invalid::new(shown, format!("at character {place}, {why}"), remedy)
    };
    statements::read(template).map(Template::of).map_err(refused)
}

/// Where, why, and what to write instead.
type Refusal = (usize, String, String);

fn refusal<T>(at: usize, why: impl Into<String>, remedy: impl Into<String>) -> Result<T, Refusal> {
    Err((at, why.into(), remedy.into()))
}

#[cfg(test)]
mod tests;
