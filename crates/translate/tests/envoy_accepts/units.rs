//! What policies say in slots of the filter chain.

use std::sync::Arc;

use ::units::{Everybody, Everywhere, Others};
use api::traffic_policy::TrafficPolicySpec;
use envoy::{bytes::Fields, json};
use serde_json::{Value, json};
use worlds::{Draws, units::each};

use super::{VALUES, bootstrap, host, judge, prefix, route, values};

/// Whatever Secret is named is this one.
fn secrets() -> Everywhere {
    let users = "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
    let data =
        json!({".htpasswd": users, "users": "bob:{SHA}0JQeaNqPOBUf+Gph/Fn3xc+fyqI=", "client": "50%", "x-a": "a b"});
    Everywhere(Arc::new(serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": data})).unwrap()))
}

/// Routes that say what a unit says, one for each of its places; none where it is refused.
fn routes_of(spec: &Value) -> Vec<Value> {
    let spec: TrafficPolicySpec = serde_json::from_value(spec.clone()).unwrap();
    let units = ::units::read(&spec, &Others { secrets: &secrets(), extensions: &Everybody })
        .unwrap_or_default()
        .into_iter()
        .filter_map(|said| said.unit.ok());
    let places = units.flat_map(|unit| [unit.slots().to_vec(), unit.wide_slots("infra/policy")]);
    let of = |slots: Vec<ir::rule::Slot>| {
        let slots = slots.iter().map(|slot| (slot.name, slot.config.to_vec()));
        let message = Fields::default().map(13, slots).into_bytes();
        let said = json::value("envoy.config.route.v3.Route", &message).unwrap();
        route(&prefix(), json!({"typed_per_filter_config": said["typedPerFilterConfig"]}))
    };
    places.filter(|slots| !slots.is_empty()).map(of).collect()
}

#[test]
fn units_that_pass_make_routes_that_envoy_takes() {
    let mut draws = Draws::new();
    for strategy in each() {
        let specs = values(&mut draws, VALUES, &strategy);
        let routes: Vec<_> = specs.iter().flat_map(routes_of).collect();
        let (taken, output) = judge(&bootstrap(&[host(&["*"], &routes)], &[]));
        let field = specs[0].as_object().and_then(|spec| spec.keys().next()).unwrap();
        assert!(taken, "{field}: {output}");
        // Others are part of what a route does.
        let in_slots = ["acl", "rbac", "transformation", "cors", "csrf", "headerModifiers", "basicAuth"];
        assert!(!in_slots.contains(&&**field) || routes.len() > VALUES / 3, "{field}: {} routes", routes.len());
    }
}
