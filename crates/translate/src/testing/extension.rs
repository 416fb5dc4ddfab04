//! Providers of worlds, now and then with something that Envoy refuses.

use proptest::{
    option,
    prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof},
    sample::select,
};
use serde_json::{Value, json};

use super::values;

/// GatewayExtensions, one of each name in [`values::EXTENSIONS`].
pub(super) fn extensions() -> BoxedStrategy<Vec<Value>> {
    (judge(), over_http(), processor(Just(json!(null)).boxed()), processor(stage()), counter())
        .prop_map(|all| {
            let specs: [Value; 5] = all.into();
            let named = values::EXTENSIONS.iter().zip(specs).map(|(name, spec)| {
                json!({"apiVersion": "gateway.kgateway.dev/v1alpha1", "kind": "GatewayExtension",
                    "metadata": {"namespace": "apps", "name": name}, "spec": spec})
            });
            named.collect()
        })
        .boxed()
}

/// Where a provider is, how long it may take, and how it is asked again.
fn service() -> BoxedStrategy<Value> {
    let timeout = || option::of(prop_oneof![8 => select(&["1ms", "5m", "250ms"][..]), 1 => Just("6m")]);
    let retry = option::of((0..12_u8, timeout()).prop_map(|(attempts, base)| {
        json!({"attempts": attempts, "backoff": base.map(|base| json!({"baseInterval": base, "maxInterval": "5m"}))})
    }));
    (0..4_u8, timeout(), retry)
        .prop_map(|(service, timeout, retry)| {
            let backend = json!({"name": format!("s{service}"), "port": 80});
            json!({"backendRef": backend, "requestTimeout": timeout, "retry": retry})
        })
        .boxed()
}

fn judge() -> BoxedStrategy<Value> {
    let status = option::of(values::number_of(&[200, 401, 403, 418, 503, 511]));
    let prefix = option::of(prop_oneof![3 => Just("judge".to_owned()), 1 => values::hostile()]);
    let authority = option::of(prop_oneof![3 => Just("judge.example".to_owned()), 1 => values::hostile()]);
    (service(), status, prefix, authority, any::<bool>(), any::<bool>())
        .prop_map(|(mut service, status, prefix, authority, open, anew)| {
            service["authority"] = json!(authority);
            json!({"extAuth": {"grpcService": service, "statusOnError": status, "statPrefix": prefix,
                "failOpen": open, "clearRouteCache": anew}})
        })
        .boxed()
}

fn over_http() -> BoxedStrategy<Value> {
    let path = option::of(prop_oneof![3 => Just("/judge".to_owned()), 1 => values::hostile()]);
    let value = prop_oneof![
        3 => select(&["a", "%REQ(x)%", "100%%", "%PROTOCOL%", "%X%"][..]).prop_map(str::to_owned),
        1 => values::hostile(),
    ];
    let name =
        || prop_oneof![6 => Just("x-user".to_owned()), 1 => Just("Content-Length".to_owned()), 1 => values::hostile()];
    (service(), path, value, name(), name())
        .prop_map(|(mut service, path, value, told, passed)| {
            service["pathPrefix"] = json!(path);
            service["authorizationRequest"] = json!({"headersToAdd": {told: value}});
            service["authorizationResponse"] = json!({"headersToBackend": [passed]});
            json!({"extAuth": {"httpService": service}})
        })
        .boxed()
}

fn stage() -> BoxedStrategy<Value> {
    let stages = select(&["Fault", "AuthN", "AuthZ", "RateLimit", "Route"][..]);
    let predicates = select(&["Before", "During", "After"][..]);
    (stages, predicates).prop_map(|(stage, predicate)| json!({"stage": stage, "predicate": predicate})).boxed()
}

fn processor(stage: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let attribute = prop_oneof![6 => Just("request.path".to_owned()), 1 => values::hostile()];
    let mode = select(&["NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED"][..]);
    let trailers = select(&["SEND", "SKIP"][..]);
    let action = select(&["FromResponse", "Clear", "Retain"][..]);
    (service(), stage, attribute, mode, trailers, action, any::<bool>(), any::<bool>())
        .prop_map(|(service, stage, attribute, mode, trailers, action, open, overrides)| {
            json!({"extProc": {"grpcService": service, "filterStage": stage, "requestAttributes": [attribute],
                "processingMode": {"requestBodyMode": mode, "requestTrailerMode": trailers}, "failOpen": open,
                "routeCacheAction": action, "allowProcessingModeOverride": overrides}})
        })
        .boxed()
}

fn counter() -> BoxedStrategy<Value> {
    let domain = prop_oneof![6 => Just("shop".to_owned()), 1 => values::hostile()];
    (service(), domain, any::<bool>(), any::<bool>())
        .prop_map(|(service, domain, open, tells)| {
            let headers = if tells { "DraftVersion03" } else { "Off" };
            json!({"rateLimit": {"grpcService": service, "domain": domain, "failOpen": open, "xRateLimitHeaders": headers}})
        })
        .boxed()
}
