//! A message that is decoded while it is written: a route configuration may have a hundred thousand routes, which as
//! values take a hundred times their bytes.

use bytes::{Buf, Bytes};
use prost::{
    DecodeError,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap, SerializeSeq},
};
use serde_json::Value;

use super::Error;

/// A list that makes a message large.
struct List {
    message: &'static str,
    field: u32,
    name: &'static str,
    element: &'static str,
}

const LISTS: [List; 2] = [
    List {
        message: "envoy.config.route.v3.RouteConfiguration",
        field: 2,
        name: "virtualHosts",
        element: "envoy.config.route.v3.VirtualHost",
    },
    List {
        message: "envoy.config.route.v3.VirtualHost",
        field: 3,
        name: "routes",
        element: "envoy.config.route.v3.Route",
    },
];

/// A message that serializes as [`super::value`] gives it, with one element of its long lists in memory at a time.
pub struct Streamed<'a> {
    name: &'static str,
    body: Bytes,
    /// What is done to every value before it is written, from which no whole can be seen.
    finish: &'a dyn Fn(Value) -> Value,
}

impl<'a> Streamed<'a> {
    /// The message of this name in `body`, each of whose values is written as `finish` makes it.
    pub fn new(name: &'static str, body: Bytes, finish: &'a dyn Fn(Value) -> Value) -> Self {
        Self { name, body, finish }
    }

    fn value(&self, body: &[u8]) -> Result<Value, Error> {
        super::value(self.name, body).map(self.finish)
    }
}

impl Serialize for Streamed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(list) = LISTS.iter().find(|list| list.message == self.name) else {
            return self.value(&self.body).map_err(S::Error::custom)?.serialize(serializer);
        };
        let (rest, elements) = split(&self.body, list.field).map_err(S::Error::custom)?;
        let rest = self.value(&rest).map_err(S::Error::custom)?;
        let Value::Object(fields) = &rest else { return rest.serialize(serializer) };
        if elements.is_empty() {
            return fields.serialize(serializer);
        }
        let elements = Elements { of: list.element, bodies: elements, finish: self.finish };
        let mut map = serializer.serialize_map(Some(fields.len() + 1))?;
        let (before, after): (Vec<_>, Vec<_>) = fields.iter().partition(|(name, _)| name.as_str() < list.name);
        before.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.serialize_entry(list.name, &elements)?;
        after.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

/// Messages of one type.
struct Elements<'a> {
    of: &'static str,
    bodies: Vec<Bytes>,
    finish: &'a dyn Fn(Value) -> Value,
}

impl Serialize for Elements<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(Some(self.bodies.len()))?;
        for body in &self.bodies {
            seq.serialize_element(&Streamed::new(self.of, body.clone(), self.finish))?;
        }
        seq.end()
    }
}

/// A message without one of its repeated fields, and the elements of that.
fn split(message: &Bytes, field: u32) -> Result<(Vec<u8>, Vec<Bytes>), DecodeError> {
    let (mut left, mut rest, mut elements) = (message.clone(), Vec::new(), Vec::new());
    while left.has_remaining() {
        let start = message.len() - left.len();
        let (tag, wire) = decode_key(&mut left)?;
        if (tag, wire) == (field, WireType::LengthDelimited) {
            let mut content = left.clone();
            let len = decode_varint(&mut content)?;
            skip_field(wire, tag, &mut left, DecodeContext::default())?;
            // It was skipped, so it is there.
            elements.push(content.split_to(usize::try_from(len).unwrap_or_default()));
        } else {
            skip_field(wire, tag, &mut left, DecodeContext::default())?;
            rest.extend_from_slice(&message[start..message.len() - left.len()]);
        }
    }
    Ok((rest, elements))
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::{
        envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost},
        google::protobuf::BoolValue,
    };
    use prost::Message;

    use super::*;

    fn hosts(count: usize) -> Vec<VirtualHost> {
        let routes = |count| (0..count).map(|n| Route { name: format!("route-{n}"), ..Route::default() }).collect();
        let host = |n| VirtualHost {
            name: format!("host-{n}"),
            domains: vec![format!("{n}.example")],
            routes: routes(n),
            include_request_attempt_count: true,
            ..VirtualHost::default()
        };
        (0..count).map(host).collect()
    }

    #[test]
    fn what_is_streamed_is_what_the_whole_message_gives() {
        for count in [0, 1, 5] {
            let config = RouteConfiguration {
                name: "config".into(),
                virtual_hosts: hosts(count),
                validate_clusters: Some(BoolValue { value: true }),
                ignore_port_in_host_matching: true,
                ..RouteConfiguration::default()
            };
            let (name, body) = ("envoy.config.route.v3.RouteConfiguration", Bytes::from(config.encode_to_vec()));
            let whole = serde_json::to_string_pretty(&super::super::value(name, &body).expect("a message"));
            let streamed = serde_json::to_string_pretty(&Streamed::new(name, body, &|value| value));
            assert_eq!(streamed.expect("a message"), whole.expect("a message"), "{count}");
        }
    }

    #[test]
    fn what_is_no_message_is_an_error_and_no_panic() {
        for body in [&[0x12, 0x05, 0x01][..], &[0x12], &[0xff; 20], &[0x12, 0x02, 0x1a, 0x7f]] {
            let body = Bytes::copy_from_slice(body);
            let streamed = Streamed::new("envoy.config.route.v3.RouteConfiguration", body.clone(), &|value| value);
            assert!(serde_json::to_string(&streamed).is_err(), "{body:?}");
        }
    }

    #[test]
    fn the_lists_are_those_of_the_protos() {
        for list in &LISTS {
            let descriptor = super::super::descriptor(list.message).expect("it is known");
            let field = descriptor.get_field_by_json_name(list.name).expect("it is there");
            assert_eq!(field.number(), list.field);
            assert!(field.is_list() && field.kind().as_message().expect("messages").full_name() == list.element);
        }
    }
}
