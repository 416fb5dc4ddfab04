//! From words to an expression.

use std::{iter::Peekable, vec};

use super::{
    Expression, Fault, Literal, MAX_DEPTH, MAX_PARTS,
    token::{Token, tokens},
};

/// Names that CEL keeps for itself.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

/// Operators between two parts by how strongly they bind, from the weakest on, with the names of their functions.
const OPERATORS: [&[(&str, &str)]; 5] = [
    &[("||", "_||_")],
    &[("&&", "_&&_")],
    &[("<", "_<_"), ("<=", "_<=_"), (">", "_>_"), (">=", "_>=_"), ("==", "_==_"), ("!=", "_!=_"), ("in", "@in")],
    &[("+", "_+_"), ("-", "_-_")],
    &[("*", "_*_"), ("/", "_/_"), ("%", "_%_")],
];

struct Parser {
    tokens: Peekable<vec::IntoIter<Token>>,
    parts: usize,
    nested: usize,
}

/// A part, and how deep parts stand in it.
struct Built {
    expression: Expression,
    depth: usize,
}

pub(super) fn parse(text: &str) -> Result<Expression, Fault> {
    let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable(), parts: 0, nested: 0 };
    let built = parser.expression()?;
    match parser.tokens.next() {
        None => Ok(built.expression),
        Some(token) => Err(unexpected(Some(&token))),
    }
}

fn unexpected(token: Option<&Token>) -> Fault {
    let remedy =
        "correct it; it is written as in request.headers['x-team'] == 'a' || request.path.startsWith('/public')";
    match token {
        None => Fault::new("it ends where something is missing", remedy),
        Some(Token::Literal(_)) => Fault::new("a value stands where none can", remedy),
        Some(Token::Name(name)) => Fault::new(format!("{name} stands where it cannot"), remedy),
        Some(Token::Sign(sign)) => Fault::new(format!("{sign} stands where it cannot"), remedy),
    }
}

fn too_deep() -> Fault {
    Fault::new(format!("its parts stand more than {MAX_DEPTH} deep within one another"), "make it simpler")
}

impl Parser {
    fn takes(&mut self, sign: &str) -> bool {
        self.tokens.next_if(|token| matches!(token, Token::Sign(next) if *next == sign)).is_some()
    }

    fn expect(&mut self, sign: &str) -> Result<(), Fault> {
        if self.takes(sign) { Ok(()) } else { Err(unexpected(self.tokens.peek())) }
    }

    /// A part that consists of others, `deepest` of which is how deep.
    fn built(&mut self, expression: Expression, deepest: usize) -> Result<Built, Fault> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(Fault::new(format!("it has more than {MAX_PARTS} parts"), "make it simpler"));
        }
        if deepest >= MAX_DEPTH {
            return Err(too_deep());
        }
        Ok(Built { expression, depth: deepest + 1 })
    }

    fn expression(&mut self) -> Result<Built, Fault> {
        self.nested += 1;
        if self.nested > MAX_DEPTH {
            return Err(too_deep());
        }
        let mut built = self.binary(0)?;
        if self.takes("?") {
            let then = self.binary(0)?;
            self.expect(":")?;
            let otherwise = self.expression()?;
            let deepest = built.depth.max(then.depth).max(otherwise.depth);
            let parts = vec![built.expression, then.expression, otherwise.expression];
            built = self.built(Expression::Operator("_?_:_", parts), deepest)?;
        }
        self.nested -= 1;
        Ok(built)
    }

    /// Operators that bind at least as strongly as `level`.
    fn binary(&mut self, level: usize) -> Result<Built, Fault> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        if level < 2 {
            return self.chain(left, level);
        }
        while let Some(function) = self.operator(operators) {
            let right = self.binary(level + 1)?;
            let deepest = left.depth.max(right.depth);
            left = self.built(Expression::Operator(function, vec![left.expression, right.expression]), deepest)?;
        }
        Ok(left)
    }

    /// `&&` or `||`: as many as there are stand beside one another.
    fn chain(&mut self, first: Built, level: usize) -> Result<Built, Fault> {
        let mut deepest = first.depth;
        let mut parts = vec![first.expression];
        while self.operator(OPERATORS[level]).is_some() {
            let next = self.binary(level + 1)?;
            self.parts += 1;
            deepest = deepest.max(next.depth);
            parts.push(next.expression);
        }
        if parts.len() == 1 {
            let expression = parts.swap_remove(0);
            return Ok(Built { expression, depth: deepest });
        }
        // Envoy has them two by two.
        let levels = usize::try_from(parts.len().next_power_of_two().ilog2()).unwrap_or(MAX_DEPTH);
        let expression = if level == 0 { Expression::Any(parts) } else { Expression::All(parts) };
        self.built(expression, deepest + levels - 1)
    }

    fn operator(&mut self, operators: &[(&str, &'static str)]) -> Option<&'static str> {
        let function = |token: &Token| {
            let sign = match token {
                Token::Sign(sign) => sign,
                Token::Name(name) => name.as_str(),
                Token::Literal(_) => return None,
            };
            operators.iter().find(|(operator, _)| *operator == sign).map(|(_, function)| *function)
        };
        let found = self.tokens.peek().and_then(function)?;
        self.tokens.next();
        Some(found)
    }

    fn unary(&mut self) -> Result<Built, Fault> {
        let mut signs = Vec::new();
        while let Some(sign) = ["!", "-"].into_iter().find(|sign| self.takes(sign)) {
            signs.push(sign);
            if signs.len() > MAX_DEPTH {
                return Err(too_deep());
            }
        }
        let mut built = self.member()?;
        for sign in signs.into_iter().rev() {
            let function = if sign == "!" { "!_" } else { "-_" };
            built = match (function, built.expression) {
                ("-_", Expression::Literal(Literal::Int(number))) if number >= 0 => {
                    Built { expression: Expression::Literal(Literal::Int(-number)), depth: built.depth }
                }
                ("-_", Expression::Literal(Literal::Double(number))) => {
                    Built { expression: Expression::Literal(Literal::Double(-number)), depth: built.depth }
                }
                (_, expression) => self.built(Expression::Operator(function, vec![expression]), built.depth)?,
            };
        }
        Ok(built)
    }

    fn member(&mut self) -> Result<Built, Fault> {
        let mut built = self.primary()?;
        loop {
            if self.takes(".") {
                let Some(Token::Name(name)) = self.tokens.next() else { return Err(unexpected(self.tokens.peek())) };
                let of = Box::new(built.expression);
                built = if self.takes("(") {
                    let (arguments, deepest) = self.list(")")?;
                    self.built(Expression::Call(Some(of), name, arguments), built.depth.max(deepest))?
                } else {
                    self.built(Expression::Field(of, name), built.depth)?
                };
            } else if self.takes("[") {
                let key = self.expression()?;
                self.expect("]")?;
                let deepest = built.depth.max(key.depth);
                let index = Expression::Index(Box::new(built.expression), Box::new(key.expression));
                built = self.built(index, deepest)?;
            } else {
                return Ok(built);
            }
        }
    }

    fn primary(&mut self) -> Result<Built, Fault> {
        match self.tokens.next() {
            Some(Token::Literal(literal)) => self.built(Expression::Literal(literal), 0),
            Some(Token::Sign("(")) => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Some(Token::Sign("[")) => {
                let (parts, deepest) = self.list("]")?;
                self.built(Expression::List(parts), deepest)
            }
            Some(Token::Sign("{")) => Err(Fault::new("maps cannot be written here", "compare with values or lists")),
            Some(Token::Name(name)) => self.name(name),
            token => Err(unexpected(token.as_ref())),
        }
    }

    fn name(&mut self, name: String) -> Result<Built, Fault> {
        let literal = match &*name {
            "true" => Literal::Bool(true),
            "false" => Literal::Bool(false),
            "null" => Literal::Null,
            "in" => return Err(unexpected(Some(&Token::Name(name)))),
            reserved if RESERVED.contains(&reserved) => {
                return Err(Fault::new(format!("CEL keeps the word {name} for itself"), "remove it"));
            }
            _ if !self.takes("(") => return self.built(Expression::Name(name), 0),
            "has" => return self.has(),
            _ => {
                let (arguments, deepest) = self.list(")")?;
                return self.built(Expression::Call(None, name, arguments), deepest);
            }
        };
        self.built(Expression::Literal(literal), 0)
    }

    fn has(&mut self) -> Result<Built, Fault> {
        let (arguments, deepest) = self.list(")")?;
        match <[Expression; 1]>::try_from(arguments) {
            Ok([Expression::Field(of, name)]) => self.built(Expression::Has(of, name), deepest),
            _ => Err(Fault::new("has() asks for a field", "write has(request.referer) or 'x-team' in request.headers")),
        }
    }

    /// Parts with commas between them, up to `end`, and how deep they are.
    fn list(&mut self, end: &str) -> Result<(Vec<Expression>, usize), Fault> {
        let (mut parts, mut deepest) = (Vec::new(), 0);
        while !self.takes(end) {
            if !parts.is_empty() {
                self.expect(",")?;
                // A comma may stand at the end of a list, and not of arguments.
                if end == "]" && self.takes(end) {
                    break;
                }
            }
            let part = self.expression()?;
            deepest = deepest.max(part.depth);
            parts.push(part.expression);
        }
        Ok((parts, deepest))
    }
}
