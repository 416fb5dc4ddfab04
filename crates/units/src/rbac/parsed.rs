//! Expressions in CEL as Envoy takes them: parsed.

use envoy_types::pb::{
    cel::expr::{
        Constant, Expr, ParsedExpr,
        constant::ConstantKind,
        expr::{Call, CreateList, ExprKind, Ident, Select},
    },
    xds::r#type::v3::CelExpression,
};
use validate::cel::{Expression, Literal};

/// An expression, each part of it with a number of its own.
pub(super) fn expression(expression: &Expression) -> CelExpression {
    let parsed = ParsedExpr { expr: Some(Numbers(0).part(expression)), source_info: None };
    CelExpression { cel_expr_parsed: Some(parsed), ..CelExpression::default() }
}

struct Numbers(i64);

impl Numbers {
    fn part(&mut self, part: &Expression) -> Expr {
        match part {
            Expression::Literal(literal) => {
                self.expr(ExprKind::ConstExpr(Constant { constant_kind: Some(constant(literal)) }))
            }
            Expression::Name(name) => self.expr(ExprKind::IdentExpr(Ident { name: name.clone() })),
            Expression::Field(of, field) | Expression::Has(of, field) => {
                let operand = Some(Box::new(self.part(of)));
                let test_only = matches!(part, Expression::Has(..));
                self.expr(ExprKind::SelectExpr(Box::new(Select { operand, field: field.clone(), test_only })))
            }
            Expression::Index(of, key) => {
                let args = vec![self.part(of), self.part(key)];
                self.call(None, "_[_]", args)
            }
            Expression::List(parts) => {
                let elements = self.parts(parts);
                self.expr(ExprKind::ListExpr(CreateList { elements, ..CreateList::default() }))
            }
            Expression::All(parts) => self.chain("_&&_", parts),
            Expression::Any(parts) => self.chain("_||_", parts),
            Expression::Operator(function, parts) => {
                let args = self.parts(parts);
                self.call(None, function, args)
            }
            Expression::Call(of, function, arguments) => {
                let target = of.as_ref().map(|of| Box::new(self.part(of)));
                let args = self.parts(arguments);
                self.call(target, function, args)
            }
        }
    }

    fn parts(&mut self, parts: &[Expression]) -> Vec<Expr> {
        parts.iter().map(|part| self.part(part)).collect()
    }

    /// Two by two, so that many stand no deeper than they must.
    fn chain(&mut self, function: &str, parts: &[Expression]) -> Expr {
        match parts {
            [only] => self.part(only),
            _ => {
                let (left, right) = parts.split_at(parts.len().div_ceil(2));
                let args = vec![self.chain(function, left), self.chain(function, right)];
                self.call(None, function, args)
            }
        }
    }

    fn call(&mut self, target: Option<Box<Expr>>, function: &str, args: Vec<Expr>) -> Expr {
        self.expr(ExprKind::CallExpr(Box::new(Call { target, function: function.into(), args })))
    }

    fn expr(&mut self, kind: ExprKind) -> Expr {
        self.0 += 1;
        Expr { id: self.0, expr_kind: Some(kind) }
    }
}

fn constant(literal: &Literal) -> ConstantKind {
    match literal {
        Literal::Null => ConstantKind::NullValue(0),
        Literal::Bool(value) => ConstantKind::BoolValue(*value),
        Literal::Int(value) => ConstantKind::Int64Value(*value),
        Literal::Uint(value) => ConstantKind::Uint64Value(*value),
        Literal::Double(value) => ConstantKind::DoubleValue(*value),
        Literal::String(value) => ConstantKind::StringValue(value.clone()),
        Literal::Bytes(value) => ConstantKind::BytesValue(value.clone()),
    }
}
