//! GRPCRoutes.

use proptest::{
    collection::vec,
    option,
    prelude::{BoxedStrategy, Just, Strategy, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::{policy, rule, values};

/// A rule with something from every field of it now and then.
pub(super) fn rule() -> BoxedStrategy<Value> {
    let name = option::weighted(0.2, values::label());
    let session = option::weighted(0.2, rule::session());
    (vec(matching(), 0..4), vec(filter(), 0..3), vec(backend(), 0..4), name, session)
        .prop_map(|(matches, filters, backends, name, session)| {
            let mut rule = json!({"matches": matches, "filters": filters, "backendRefs": backends});
            if let Some(name) = name {
                rule["name"] = json!(name);
            }
            if let Some(session) = session {
                rule["sessionPersistence"] = session;
            }
            rule
        })
        .boxed()
}

fn matching() -> BoxedStrategy<Value> {
    let services = || {
        let usual = select(&["shop.v1.Cart", "shop.v1.Orders", ".Cart", "Cart"][..]).prop_map(str::to_owned);
        prop_oneof![8 => usual, 1 => Just(String::new()), 1 => values::hostile()]
    };
    let methods = || {
        let usual = select(&["Add", "Remove", "Watch_2"][..]).prop_map(str::to_owned);
        prop_oneof![8 => usual, 1 => Just(String::new()), 1 => values::hostile()]
    };
    let part = |exact: BoxedStrategy<String>| option::weighted(0.8, exact);
    let exact = (part(services().boxed()), part(methods().boxed()))
        .prop_map(|(service, method)| json!({"service": service, "method": method}));
    let pattern = (part(values::regex()), part(values::regex()))
        .prop_map(|(service, method)| json!({"type": "RegularExpression", "service": service, "method": method}));
    let other = values::hostile().prop_map(|kind| json!({"type": kind, "service": "Cart"}));
    let method = prop_oneof![12 => exact, 6 => pattern, 1 => other];
    (option::weighted(0.9, method), vec(rule::header(), 0..2))
        .prop_map(|(method, headers)| json!({"method": method, "headers": headers}))
        .boxed()
}

fn backend() -> BoxedStrategy<Value> {
    let filters = prop_oneof![12 => Just(Vec::new()), 6 => vec(modifier(), 1..3), 1 => vec(filter(), 1..2)];
    (rule::weighted(), filters)
        .prop_map(|(mut backend, filters)| {
            if !filters.is_empty() {
                backend["filters"] = json!(filters);
            }
            backend
        })
        .boxed()
}

fn modifier() -> BoxedStrategy<Value> {
    prop_oneof![
        rule::modifier("RequestHeaderModifier", "requestHeaderModifier"),
        rule::modifier("ResponseHeaderModifier", "responseHeaderModifier"),
    ]
    .boxed()
}

fn filter() -> BoxedStrategy<Value> {
    let other = values::hostile().prop_map(|kind| json!({"type": kind}));
    let of_http = json!({"type": "URLRewrite", "urlRewrite": {"hostname": "a.example"}});
    prop_oneof![8 => modifier(), 3 => rule::mirror(), 2 => policy::extension(), 1 => other, 1 => Just(of_http)].boxed()
}
