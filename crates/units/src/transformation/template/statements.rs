//! Texts, and what stands between them.

use super::{Expression, For, MOST_DEEP, Node, Refusal, expressions::RESERVED, folded, refusal, tokens::Cursor};

/// Statements that `MiniJinja` has besides.
const OTHERS: [&str; 16] = [
    "with",
    "macro",
    "call",
    "filter",
    "autoescape",
    "do",
    "block",
    "extends",
    "include",
    "import",
    "from",
    "break",
    "continue",
    "endwith",
    "endmacro",
    "endfilter",
];

/// All parts of a template.
pub(super) fn read(template: &str) -> Result<Vec<Node>, Refusal> {
    let mut reader = Reader { cursor: Cursor::new(template), trims: false };
    Ok(reader.nodes(&Below { statement: "", open: 0, ends: &[] }, 0)?.0)
}

/// Which statement nodes stand below, where it begins, and what may end them.
struct Below<'a> {
    statement: &'a str,
    open: usize,
    ends: &'a [&'a str],
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    /// Whether blanks in front of the next text go.
    trims: bool,
}

impl<'a> Reader<'a> {
    /// All up to a statement that ends them, and which that is.
    fn nodes(&mut self, below: &Below<'_>, depth: usize) -> Result<(Vec<Node>, &'a str), Refusal> {
        let mut nodes = Vec::new();
        loop {
            let from = self.cursor.at;
            let rest = &self.cursor.template[from..];
            let begin = rest
                .match_indices('{')
                .map(|(index, _)| index)
                .find(|index| rest[index + 1..].starts_with(['{', '%', '#']));
            let text = &rest[..begin.unwrap_or(rest.len())];
            let text = if self.trims { text.trim_start() } else { text };
            let Some(begin) = begin else {
                if !below.ends.is_empty() {
                    let Below { statement, open, ends } = below;
                    let why = format!("{{% {statement} %}} begins a statement that does not end");
                    return refusal(*open, why, format!("end it with {{% {} %}}", ends[ends.len() - 1]));
                }
                nodes.push(Node::Text(text.to_owned()));
                return Ok((folded(nodes), ""));
            };
            let open = from + begin;
            let inner = open + 2;
            let dash = self.cursor.template[inner..].starts_with('-');
            nodes.push(Node::Text(if dash { text.trim_end() } else { text }.to_owned()));
            self.cursor.begin(open, inner + usize::from(dash));
            match &self.cursor.template[open..inner] {
                "{#" => self.comment(open)?,
                "{{" => {
                    let expression = self.cursor.expression(0)?;
                    self.trims = self.cursor.end("}}")?;
                    nodes.push(Node::Print(expression));
                }
                _ => {
                    self.cursor.blanks();
                    let keyword = self.cursor.word();
                    if below.ends.contains(&keyword) {
                        return Ok((folded(nodes), keyword));
                    }
                    nodes.push(self.statement(open, keyword, depth)?);
                }
            }
        }
    }

    /// Ends a statement of which nothing more is said.
    fn end(&mut self) -> Result<(), Refusal> {
        self.trims = self.cursor.end("%}")?;
        Ok(())
    }

    fn comment(&mut self, open: usize) -> Result<(), Refusal> {
        let template = self.cursor.template;
        let Some(length) = template[open + 2..].find("#}") else {
            return refusal(open, "{# begins a comment that does not end", "end it with #}, or remove it");
        };
        self.trims = template[..open + 2 + length].ends_with('-') && length > 0;
        self.cursor.at = open + length + 4;
        Ok(())
    }

    fn statement(&mut self, open: usize, keyword: &str, depth: usize) -> Result<Node, Refusal> {
        if depth >= MOST_DEEP {
            return refusal(open, format!("it is nested more than {MOST_DEEP} deep"), "nest it less");
        }
        match keyword {
            "if" => self.condition(open, depth + 1),
            "for" => self.repeated(open, depth + 1),
            "set" => {
                let name = self.name()?;
                if !self.cursor.takes('=') {
                    let at = self.cursor.blanks();
                    return refusal(at, "{% set %} takes one name, = and a value", "write {% set NAME = VALUE %}");
                }
                let value = self.cursor.expression(0)?;
                self.end()?;
                Ok(Node::Set(name, value))
            }
            "raw" => self.raw(open),
            "else" | "elif" | "endif" | "endfor" | "endraw" | "endset" => {
                let why = format!("{{% {keyword} %}} ends no statement that is open");
                refusal(open, why, "remove it, or write what it belongs to")
            }
            _ if OTHERS.contains(&keyword) => refusal(
                open,
                format!("the statement {keyword} is not served"),
                "use if, for and set, or have a rule of its own for each case",
            ),
            _ => refusal(
                open,
                format!("there is no statement {}", validate::shown(keyword)),
                "use if, elif, else, endif, for, endfor, set, raw and endraw",
            ),
        }
    }

    fn condition(&mut self, open: usize, depth: usize) -> Result<Node, Refusal> {
        let mut branches = Vec::new();
        let below = Below { statement: "if", open, ends: &["elif", "else", "endif"] };
        loop {
            let condition = self.cursor.unconditional(0)?;
            self.end()?;
            let (nodes, end) = self.nodes(&below, depth)?;
            branches.push((condition, nodes));
            if end == "elif" {
                continue;
            }
            self.end()?;
            if end == "endif" {
                return Ok(Node::If(branches, Vec::new()));
            }
            let (otherwise, _) = self.nodes(&Below { statement: "if", open, ends: &["endif"] }, depth)?;
            self.end()?;
            return Ok(Node::If(branches, otherwise));
        }
    }

    fn repeated(&mut self, open: usize, depth: usize) -> Result<Node, Refusal> {
        let mut names = vec![self.name()?];
        while self.cursor.takes(',') {
            names.push(self.name()?);
        }
        if !self.cursor.takes_word("in") {
            let at = self.cursor.blanks();
            return refusal(at, "{% for %} takes names and what to go through", "write {% for NAME in LIST %}");
        }
        let items = self.cursor.unconditional(0)?;
        let only = if self.cursor.takes_word("if") { Some(self.cursor.expression(0)?) } else { None };
        if self.cursor.takes_word("recursive") {
            return refusal(open, "loops that call themselves are not served", "write a loop in a loop");
        }
        self.end()?;
        self.cursor.loops += 1;
        let (body, end) = self.nodes(&Below { statement: "for", open, ends: &["else", "endfor"] }, depth)?;
        self.cursor.loops -= 1;
        self.end()?;
        let mut otherwise = Vec::new();
        if end == "else" {
            (otherwise, _) = self.nodes(&Below { statement: "for", open, ends: &["endfor"] }, depth)?;
            self.end()?;
        }
        Ok(Node::For(Box::new(For { names, items, only, body, otherwise })))
    }

    /// What stands as it is.
    fn raw(&mut self, open: usize) -> Result<Node, Refusal> {
        self.end()?;
        let (template, trims) = (self.cursor.template, self.trims);
        let from = self.cursor.at;
        let mut next = from;
        while let Some(index) = template[next..].find("{%") {
            let end = next + index;
            let dash = template[end + 2..].starts_with('-');
            self.cursor.begin(end, end + 2 + usize::from(dash));
            if self.cursor.takes_word("endraw") {
                self.end()?;
                let text = &template[from..end];
                let text = if trims { text.trim_start() } else { text };
                let text = if dash { text.trim_end() } else { text };
                return Ok(Node::Print(Expression::Text(text.to_owned())));
            }
            next = end + 2;
        }
        refusal(open, "{% raw %} begins a statement that does not end", "end it with {% endraw %}")
    }

    /// A name that is given to a value.
    fn name(&mut self) -> Result<String, Refusal> {
        let at = self.cursor.blanks();
        let name = self.cursor.word();
        let is_one = name.starts_with(|c: char| c == '_' || c.is_alphabetic());
        if !is_one || RESERVED.contains(&name) || name == "loop" || name == "self" {
            return refusal(at, "it is no name that a value can have", "write letters, digits and _, such as item");
        }
        Ok(name.to_owned())
    }
}
