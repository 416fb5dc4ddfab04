//! Unicode classes as the bytes that RE2 takes for them, as Envoy sets it up.

use std::fmt::Write as _;

use regex_syntax::{
    ast::{self, Ast, ClassSetItem, Span, Visitor},
    hir::{Class, HirKind},
};

/// The pattern with each Unicode class written as the bytes that it takes.
pub fn without_unicode(pattern: &str) -> String {
    let parsed = ast::parse::Parser::new().parse(pattern);
    let classes = parsed.ok().and_then(|parsed| ast::visit(&parsed, Classes(Vec::new())).ok()).unwrap_or_default();
    let (mut written, mut from) = (String::with_capacity(pattern.len()), 0);
    for Span { start, end } in classes {
        written.push_str(&pattern[from..start.offset]);
        written.push_str(&bytes_of(&pattern[start.offset..end.offset]));
        from = end.offset;
    }
    written.push_str(&pattern[from..]);
    written
}

/// A Unicode class as a class of bytes, which may stand inside of another.
fn bytes_of(class: &str) -> String {
    let class = regex_syntax::parse(class).ok().and_then(|class| match class.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        _ => None,
    });
    let ranges = class.iter().flat_map(|class| class.iter());
    let bytes = ranges.filter_map(|range| Some((u8::try_from(range.start()).ok()?, u32::from(range.end()).min(0xff))));
    let bytes = bytes.fold(String::new(), |mut bytes, (start, end)| {
        let _ = write!(bytes, r"\x{start:02x}-\x{end:02x}");
        bytes
    });
    // A class must have a member: of none, all bytes are left out.
    if bytes.is_empty() { r"[^\x00-\xff]".to_owned() } else { format!("[{bytes}]") }
}

/// Where Unicode classes stand, in order.
struct Classes(Vec<Span>);

impl Visitor for Classes {
    type Output = Vec<Span>;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self::Output, Self::Err> {
        Ok(self.0)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
        if let Ast::ClassUnicode(class) = ast {
            self.0.push(class.span);
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
        if let ClassSetItem::Unicode(class) = item {
            self.0.push(class.span);
        }
        Ok(())
    }
}
