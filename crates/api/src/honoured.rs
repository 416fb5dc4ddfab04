//! Decoded is not honoured: which fields translation reads, and which are refused where they are set. What is refused makes
//! its object, or the part that it concerns, fail closed.

use crate::shared::GatewayDefaultScope;

/// Which properties of its schema are honoured of a kind.
///
/// A test holds both lists together equal to the schema of Gateway API, so that a property which a release adds has to be
/// decided on before anybody can set it in vain. A kind of ours of which every property is read needs no lists. Properties
/// are written as in the schema, with `[]` for the items of a list; a list of plain values or a mapping with free keys is
/// one property.
#[derive(Clone, Copy, Debug)]
pub struct Honoured {
    /// Those that translation reads: it does what they say, or reports that it does not.
    pub read: &'static [&'static str],
    /// Those that nobody honours: [`Object::refused_fields`](crate::Object::refused_fields) reports them where they are set.
    pub refused: &'static [&'static str],
}

impl Honoured {
    /// Every property that the schema has is read.
    pub(crate) const ALL: Self = Self { read: &[], refused: &[] };
}

/// A field that is set and not honoured.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RefusedField {
    /// The field, such as `spec.rules[2].filters[0].externalAuth`; everything below it is refused with it.
    pub path: String,
    /// What is not served as written, since the field is set.
    pub affects: Affects,
    /// Why, and what to do.
    pub reason: &'static str,
}

/// The part of an object that a refused field has something to do with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Affects {
    /// No part: the field asks for more than what else is written.
    Nothing,
    /// The rule of this index.
    Rule(usize),
    /// The object as a whole.
    Object,
}

const DEFAULT_GATEWAYS: &str = "default Gateways are not supported: remove it, and name parents in parentRefs";

/// What is refused of an object, in the order of its fields. A field whose value means the same as none is not reported.
#[derive(Default)]
pub(crate) struct Refused(pub(crate) Vec<RefusedField>);

impl Refused {
    pub(crate) fn add(&mut self, set: bool, path: impl FnOnce() -> String, affects: Affects, reason: &'static str) {
        if set {
            self.0.push(RefusedField { path: path(), affects, reason });
        }
    }

    /// Of a Gateway that wants to be one by default, or of a route that asks for such.
    pub(crate) fn default_gateways(&mut self, scope: Option<&GatewayDefaultScope>, path: &str) {
        let asks = scope.is_some_and(|scope| *scope != GatewayDefaultScope::None);
        self.add(asks, || path.to_owned(), Affects::Nothing, DEFAULT_GATEWAYS);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fields(kind: &str, spec: &Value) -> Vec<RefusedField> {
        let manifest = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": { "name": "name" }, "spec": spec
        });
        crate::decode(manifest).expect("a manifest").object.refused_fields()
    }

    fn refused(kind: &str, spec: &Value) -> Vec<String> {
        fields(kind, spec).into_iter().map(|field| field.path).collect()
    }

    fn affected(kind: &str, spec: &Value) -> Vec<Affects> {
        fields(kind, spec).into_iter().map(|field| field.affects).collect()
    }

    #[test]
    fn a_value_that_means_the_same_as_none_is_not_refused() {
        let spec = json!({
            "defaultScope": "None",
            "infrastructure": { "labels": { "a": "b" } },
        });
        assert_eq!(refused("Gateway", &spec), [""; 0]);
        assert_eq!(refused("HTTPRoute", &json!({ "useDefaultGateways": "None" })), [""; 0]);
    }

    #[test]
    fn a_value_that_nobody_knows_is_refused() {
        assert_eq!(refused("Gateway", &json!({ "defaultScope": "Some" })), ["spec.defaultScope"]);
    }

    #[test]
    fn a_field_in_a_rule_affects_the_rule_and_one_that_asks_for_more_nothing() {
        let filters = json!([{ "type": "ExternalAuth" }]);
        let rules = json!([{}, { "backendRefs": [{ "name": "s", "filters": filters }] }]);
        let spec = json!({ "useDefaultGateways": "All", "rules": rules });
        assert_eq!(affected("HTTPRoute", &spec), [Affects::Nothing, Affects::Rule(1)]);
        assert_eq!(affected("Gateway", &json!({ "defaultScope": "All" })), [Affects::Nothing]);
    }

    #[test]
    fn the_path_tells_which_rule_is_concerned() {
        let filters = json!([{ "type": "CORS", "cors": {} }, { "type": "ExternalAuth" }]);
        let spec =
            json!({ "rules": [{}, { "filters": filters, "backendRefs": [{ "name": "s", "filters": filters }] }] });
        assert_eq!(
            refused("HTTPRoute", &spec),
            ["spec.rules[1].filters[1].externalAuth", "spec.rules[1].backendRefs[0].filters[1].externalAuth"]
        );
    }
}
