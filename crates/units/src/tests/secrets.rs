//! What units make of Secrets.

#![allow(clippy::needless_pass_by_value, reason = "callers write values in place")]

use std::sync::{Arc, LazyLock};

use api::{core::Secret, meta::StringMap};
use envoy_types::pb::envoy::extensions::filters::http::api_key_auth::v3::ApiKeyAuthPerRoute;
use ir::NsName;
use serde_json::{Value, json};

use super::*;

/// The Secret that samples name.
pub(super) fn samples() -> Store {
    Store(vec![secret("credentials", json!({"client": "key"}))])
}

/// The hash of `secret`.
const HASH: &str = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
/// That of `other`.
const OTHER: &str = "{SHA}0JQeaNqPOBUf+Gph/Fn3xc+fyqI=";

/// Secrets of the policy's namespace.
pub(super) struct Store(Vec<Secret>);

impl SecretStore for Store {
    fn get(&self, id: &NsName) -> Option<Arc<Secret>> {
        let found = self.0.iter().find(|secret| (&secret.namespace, &secret.name) == (&id.namespace, &id.name));
        found.cloned().map(Arc::new)
    }

    fn labelled(&self, namespace: &Arc<str>, labels: &StringMap) -> Vec<Arc<Secret>> {
        let has = |secret: &&Secret| labels.iter().all(|(key, value)| secret.labels.get(key) == Some(value));
        self.0.iter().filter(has).filter(|secret| secret.namespace == *namespace).cloned().map(Arc::new).collect()
    }
}

impl SecretReader for Store {
    fn namespace(&self) -> &Arc<str> {
        static NAMESPACE: LazyLock<Arc<str>> = LazyLock::new(|| "n".into());
        &NAMESPACE
    }

    fn permitted(&self, namespace: Option<&Arc<str>>, name: &Arc<str>) -> Result<NsName, String> {
        Ok(NsName::new(namespace.unwrap_or(self.namespace()).clone(), name.clone()))
    }

    fn store(&self) -> &dyn SecretStore {
        self
    }
}

fn store(data: Value) -> Store {
    Store(vec![secret("s", data)])
}

fn secret(name: &str, data: Value) -> Secret {
    let labels = json!({"app": "shop"});
    let metadata = json!({"namespace": "n", "name": name, "labels": labels});
    serde_json::from_value(json!({"metadata": metadata, "stringData": data})).expect("a Secret")
}

/// The first unit of a spec, or why it is broken.
fn read_with(spec: Value, store: &Store) -> Result<AnyUnit, Problem> {
    let said = read_all(spec, store).expect("units").remove(0);
    said.unit.map(|unit| AnyUnit::clone(&unit)).map_err(|refused| *refused)
}

/// The unit of a spec, with a Secret that has this.
fn with(spec: Value, data: Value) -> AnyUnit {
    read_with(spec, &store(data)).expect("a unit that is served")
}

#[test]
fn what_names_one_secret_alike_says_what_is_in_it_where_each_reads_it() {
    let spec = json!({"basicAuth": {"secretRef": {"name": "s"}}});
    let (one, other) = (json!({".htpasswd": format!("a:{HASH}")}), json!({".htpasswd": format!("a:{OTHER}")}));
    let first = with(spec.clone(), one.clone());
    let second = with(spec.clone(), other);
    assert_ne!(first, second);
    assert_eq!(with(spec.clone(), one), first);
    assert!(read_with(spec, &store(json!({}))).is_err());
}

/// Where and why a unit has a fault with a Secret that has this.
fn fault(spec: Value, data: Value) -> (String, String) {
    let Problem { field, message, .. } = read_with(spec, &store(data)).expect_err("a fault");
    (field, message)
}

/// Each Secret has a fault of these words, which do not repeat its values.
fn are_faults<const N: usize>(spec: &Value, field: &str, cases: [(Value, &str); N]) {
    for (data, words) in cases {
        let (at, message) = fault(spec.clone(), data.clone());
        assert_eq!(at, field, "{data}");
        assert!(message.contains(words) && message.contains("n/s"), "{data}: {message}");
        assert!(!message.contains("5en6") && !message.contains("alice"), "{message}");
    }
}

#[test]
fn a_unit_without_its_secret_is_broken_and_switches_nothing_off() {
    let (field, message) = fault(json!({"basicAuth": {"secretRef": {"name": "t"}}}), json!({}));
    assert_eq!(
        (field.as_str(), message.as_str()),
        ("spec.basicAuth.secretRef", "Secret n/t does not exist; create it, or correct the name")
    );
    let users = json!({".htpasswd": format!("alice:{HASH}")});
    assert!(!with(json!({"basicAuth": {"secretRef": {"name": "s"}}}), users).disables());
    assert!(units(json!({"basicAuth": {"disable": {}}}))[0].disables());
}

#[test]
fn users_are_those_of_an_htpasswd_file() {
    let file = format!("# staff\n\n alice:{HASH} \r\nbob:{OTHER}\nalice:{HASH}\n");
    let stored = with(json!({"basicAuth": {"secretRef": {"name": "s", "key": "k"}}}), json!({"k": file}));
    let written = json!({"basicAuth": {"users": [format!("bob:{OTHER}"), format!("alice:{HASH}")]}});
    assert_eq!(stored.slots(), units(written.clone()).remove(0).slots());
    assert_eq!(said(written), [("basicAuth", "2 users, each with a password".into())]);
    assert_eq!(said(json!({"basicAuth": {"disable": {}}})), [("basicAuth", "off".into())]);
}

#[test]
fn users_that_envoy_refuses_are_told_by_their_line() {
    let spec = json!({"basicAuth": {"secretRef": {"name": "s"}}});
    let file = |lines: &str| json!({".htpasswd": lines});
    let many: Vec<_> = (0..20_000).map(|user| format!("{user}:{HASH}")).collect();
    are_faults(
        &spec,
        "spec.basicAuth.secretRef",
        [
            (json!({}), "no data \".htpasswd\""),
            (file(""), "no data \".htpasswd\""),
            (file("# nobody"), "it names no user"),
            (file("alice"), "line 1: it has no colon"),
            (file(&format!("#\n:{HASH}")), "line 2: it names no user"),
            (file("alice:$2y$05$abc"), "line 1: the password is not hashed as {SHA}"),
            (file("alice:{SHA}5en6"), "line 1: the hash behind {SHA} has not 28 characters"),
            (file(&format!("alice:{HASH}\nalice:{OTHER}")), "line 2: the user is named before"),
            (file(&many.join("\n")), "524288 are the most"),
        ],
    );
}

/// The keys of a unit, as `CLIENT=KEY`.
fn keys(unit: &AnyUnit) -> Vec<String> {
    let slot = unit.slots().remove(0);
    let any = envoy_types::pb::google::protobuf::Any::decode(&*slot.config).expect("an Any");
    let message = ApiKeyAuthPerRoute::decode(&*any.value).expect("keys");
    message.credentials.iter().map(|credential| format!("{}={}", credential.client, credential.key)).collect()
}

#[test]
fn the_keys_of_a_secret_name_the_clients_of_its_values() {
    let by_name = with(json!({"apiKeyAuth": {"secretRef": {"name": "s"}}}), json!({"b": "two", "a": "one", "c": ""}));
    assert_eq!(keys(&by_name), ["a=one", "b=two"]);
    let store = Store(vec![secret("s", json!({"a": "one", "b": "two"})), secret("t", json!({"a": "new", "b": "two"}))]);
    let spec = json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"app": "shop"}}}});
    assert_eq!(keys(&read_with(spec, &store).expect("keys")), ["a=new", "a=one", "b=two"]);
}

#[test]
fn keys_are_looked_for_in_each_part_of_a_source() {
    let spec = json!({"apiKeyAuth": {
        "keySources": [{"header": "X-Key", "query": "key"}, {"cookie": "key"}],
        "clientIdHeader": "X-Client", "forwardCredential": true, "secretRef": {"name": "s"},
    }});
    let unit = with(spec, json!({"a": "one"}));
    let mut rule = Handling::default();
    SharedUnit::from(unit).apply(&mut rule);
    let config = rule.slots.iter().map(|slot| {
        let any = envoy_types::pb::google::protobuf::Any::decode(&*slot.config).expect("an Any");
        (slot.name.to_owned(), any)
    });
    let route = Route { typed_per_filter_config: config.collect(), ..Route::default() };
    let words =
        "1 key, in header x-key or query parameter key or cookie key; the client is told in x-client; the key goes on";
    assert_eq!(explain(&route), [("apiKeyAuth", words.to_owned())]);
    assert_eq!(said(json!({"apiKeyAuth": {"disable": {}}})), [("apiKeyAuth", "off".into())]);
}

#[test]
fn keys_that_tell_nobody_apart_or_that_no_request_can_show_are_told_without_the_key() {
    let spec = json!({"apiKeyAuth": {"secretRef": {"name": "s"}}});
    let many: serde_json::Map<_, _> = (0..10_001).map(|n| (format!("c{n}"), json!(format!("k{n}")))).collect();
    are_faults(
        &spec,
        "spec.apiKeyAuth.secretRef",
        [
            (json!({}), "there is no key"),
            (json!({"a": ""}), "there is no key"),
            (json!({"a": "5en6", "b": "5en6"}), "clients \"a\" (Secret n/s) and \"b\" have the same key"),
            (json!({"a": "5en6\n"}), "\"a\": no request can show such a key"),
            (json!({"a": "x\u{0}5en6"}), "\"a\": no request can show such a key"),
            (json!({"a": "5en6".repeat(200_000)}), "take more bytes with it than 524288"),
            (Value::Object(many), "there are more keys with it than 10000"),
        ],
    );
    let selector = json!({"apiKeyAuth": {"secretSelector": {"matchLabels": {"app": "none"}}}});
    let (field, message) = fault(selector, json!({}));
    assert_eq!(field, "spec.apiKeyAuth.secretSelector");
    assert!(message.contains("no Secret of this namespace has app=none"), "{message}");
}

/// What a unit does to headers, in words.
fn changes(headers: Value, data: Value) -> String {
    let unit = with(json!({"headerModifiers": {"request": headers}}), data);
    let any = envoy_types::pb::google::protobuf::Any::decode(&*unit.slots().remove(0).config).expect("an Any");
    let config = [(slots::HEADER_MODIFIERS.to_owned(), any)].into();
    explain(&Route { typed_per_filter_config: config, ..Route::default() }).remove(0).1
}

#[test]
fn a_secret_of_a_mebibyte_is_refused_and_ten_thousand_keys_are_served() {
    let keys = |count: usize| -> Value {
        let keys: serde_json::Map<_, _> = (0..count).map(|n| (format!("c{n}"), json!(format!("{n:032}")))).collect();
        keys.into()
    };
    let by_keys = json!({"apiKeyAuth": {"secretRef": {"name": "s"}}});
    let bytes: usize = with(by_keys.clone(), keys(10_000)).slots().iter().map(|slot| slot.config.len()).sum();
    assert!(bytes < 512 << 10, "{bytes} bytes a route");
    assert!(fault(by_keys.clone(), keys(10_001)).1.contains("more keys with it than 10000"));
    let large = "a".repeat(1 << 20);
    let modifiers = json!({"headerModifiers": {"request": {"set": [{"name": "x-a", "secretRef": {"name": "s"}}]}}});
    for (spec, data) in [
        (by_keys, json!({"c": large})),
        (json!({"basicAuth": {"secretRef": {"name": "s"}}}), json!({".htpasswd": format!("a:{HASH}\n{large}")})),
        (modifiers, json!({"x-a": large})),
    ] {
        let (field, message) = fault(spec, data);
        assert!(field.contains("secretRef") && message.len() < 1_000, "{field}: {message}");
    }
}

#[test]
fn headers_take_values_of_secrets_which_no_words_show() {
    let data = || json!({"x-a": "one", "x-b": "100%"});
    let list = json!({"set": [
        {"name": "x-c", "value": "plain"}, {"name": "X-D", "secretRef": {"name": "s", "key": "x-a"}},
        {"name": "x-a", "secretRef": {"name": "s"}}, {"secretRef": {"name": "s", "key": "x-b"}},
    ]});
    let redacted = "set x-d: [redacted], set x-a: [redacted], set x-b: [redacted]";
    assert_eq!(changes(list, data()), format!("request: set x-c: plain, {redacted}"));
    let all = changes(json!({"add": [{"secretRef": {"name": "s"}}]}), data());
    assert_eq!(all, "request: add x-a: [redacted], add x-b: [redacted]");
}

#[test]
fn what_no_header_can_be_is_told_without_its_value() {
    let spec = json!({"headerModifiers": {"request": {"set": [{"name": "x-a", "secretRef": {"name": "s"}}]}}});
    let field = "spec.headerModifiers.request.set[0].secretRef";
    are_faults(
        &spec,
        field,
        [
            (json!({}), "no data \"x-a\""),
            (json!({"x-a": "5en6\nx-b: c"}), "no header can have this value"),
            (json!({"x-a": "5en6 "}), "no header can have this value"),
            (json!({"x-a": "5en6".repeat(2_000)}), "at most 4096 characters"),
        ],
    );
    let all = json!({"headerModifiers": {"request": {"set": [{"secretRef": {"name": "s"}}]}}});
    let (at, message) = fault(all.clone(), json!({"host": "a"}));
    assert!(at == field && message.contains("Host header"), "{at}: {message}");
    are_faults(&all, field, [(json!({}), "no data")]);
    let missing = json!({"headerModifiers": {"response": {"add": [{"name": "a", "secretRef": {"name": "t"}}]}}});
    assert_eq!(fault(missing, json!({})).1, "Secret n/t does not exist; create it, or correct the name");
}

#[test]
fn the_fields_that_authenticate_are_named_in_one_place() {
    let samples = AnyUnit::FIELDS.iter().zip(AnyUnit::SAMPLES);
    let fields = samples.filter_map(|(field, samples)| {
        let value: Value = serde_json::from_str(samples.one).expect("JSON");
        let spec = field.rsplit('.').fold(value, |value, part| json!({part: value}));
        units(spec).remove(0).authenticates().then_some(*field)
    });
    assert_eq!(fields.collect::<Vec<_>>(), AnyUnit::AUTHENTICATING);
}
