//! What parameters change in the bootstrap.

use serde_json::{Map, Value, json};

use super::Rendering;
use crate::{
    About, Fault,
    parameters::{LogFormat, Matcher, StringMatch},
};

/// The bootstrap as the plan has it, with what the parameters ask for.
pub(super) fn bootstrap(plan: &Rendering<'_>) -> Result<String, Fault> {
    let parameters = &plan.plan.parameters.kube;
    let mut additions = Map::new();
    let mut add = |name: &'static str, value: Value| drop(additions.insert(name.to_owned(), value));
    let container = &parameters.envoy_container.bootstrap;
    // Here and not on the command line, whose parser has escapes of its own.
    match &container.log_format {
        Some(LogFormat { json: Some(format), .. }) => {
            add("application_log_config", json!({"log_format": {"json_format": format}}));
        }
        Some(LogFormat { text: Some(format), .. }) => {
            add("application_log_config", json!({"log_format": {"text_format": format}}));
        }
        _ => {}
    }
    if let Some(queries) = container.dns_resolver.udp_max_queries {
        let resolver = json!({
            "name": "envoy.network.dns_resolver.cares",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
                "udp_max_queries": queries,
            },
        });
        add("typed_dns_resolver_config", resolver);
    }
    if let Some(matcher) = &parameters.stats.matcher {
        add("stats_config", json!({"stats_matcher": stats_matcher(matcher)}));
    }
    if additions.is_empty() {
        return Ok(plan.plan.bootstrap.to_string());
    }
    let broken = || Fault::new(About::Gateway, "", "the bootstrap is not an object of JSON");
    let mut bootstrap: Map<String, Value> = serde_json::from_str(&plan.plan.bootstrap).map_err(|_| broken())?;
    for (name, value) in additions {
        match (bootstrap.get_mut(&name), value) {
            (Some(Value::Object(there)), Value::Object(more)) => there.extend(more),
            (_, value) => drop(bootstrap.insert(name, value)),
        }
    }
    Ok(Value::Object(bootstrap).to_string())
}

fn stats_matcher(matcher: &Matcher) -> Value {
    let patterns = |list: &[StringMatch]| json!({"patterns": list.iter().map(string_match).collect::<Vec<_>>()});
    match (&matcher.inclusion_list, &matcher.exclusion_list) {
        (Some(list), _) => json!({"inclusion_list": patterns(list)}),
        (None, list) => json!({"exclusion_list": patterns(list.as_deref().unwrap_or_default())}),
    }
}

fn string_match(item: &StringMatch) -> Value {
    let ways =
        [("exact", &item.exact), ("prefix", &item.prefix), ("suffix", &item.suffix), ("contains", &item.contains)];
    let mut matcher: Map<String, Value> =
        ways.into_iter().filter_map(|(name, way)| Some((name.to_owned(), Value::from(way.as_deref()?)))).collect();
    if item.ignore_case {
        matcher.insert("ignore_case".to_owned(), true.into());
    }
    matcher.into()
}
