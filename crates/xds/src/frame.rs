//! Composes gRPC messages from shared bytes.
//!
//! A response is a length prefix, the resources one after the other, and a tail with the rest. Protobuf concatenates
//! repeated fields, so each resource is encoded once and every stream sends the same bytes.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::resource::{Resource, ResourceType, field_len, put_length};

/// Pieces of bodies below this size are copied into a common buffer: a frame of its own would cost more than the copy.
const COALESCE: usize = 4096;
/// What a common buffer holds. The next begins when it is full: one that grew would copy what it has again and again.
const BUFFER: usize = 16 * COALESCE;

/// No implementation of protobuf reads a message that is longer; gRPC itself could carry twice as much.
const LONGEST: usize = i32::MAX as usize;

/// A response that no client could read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not sent: the {count} resources of type {kind} that changed have {bytes} bytes together, and no proxy reads more than \
     {LONGEST} in one message; give the Gateway fewer or smaller routes"
)]
pub(crate) struct TooLarge {
    kind: ResourceType,
    count: usize,
    bytes: usize,
}

/// A `DeltaDiscoveryResponse` as gRPC message.
pub(crate) fn delta(
    kind: ResourceType,
    nonce: &str,
    resources: &[Resource],
    removed: &[Arc<str>],
) -> Result<Vec<Bytes>, TooLarge> {
    let mut tail = BytesMut::new();
    put_text(4, kind.type_url(), &mut tail);
    put_text(5, nonce, &mut tail);
    for name in removed {
        put_text(6, name, &mut tail);
    }
    let len = tail.len() + resources.iter().map(|r| r.delta_head().len() + r.body_len()).sum::<usize>();
    let mut frames = Frames::new(len).ok_or(TooLarge { kind, count: resources.len(), bytes: len })?;
    for resource in resources {
        frames.room(resource.delta_head().len());
        frames.buffer.put_slice(resource.delta_head());
        frames.body(resource.body());
    }
    Ok(frames.finish(&tail))
}

/// A `DiscoveryResponse` as gRPC message.
pub(crate) fn sotw(
    kind: ResourceType,
    nonce: &str,
    version: &str,
    resources: &[Resource],
) -> Result<Vec<Bytes>, TooLarge> {
    let mut tail = BytesMut::new();
    put_text(1, version, &mut tail);
    put_text(4, kind.type_url(), &mut tail);
    put_text(5, nonce, &mut tail);
    let len = tail.len() + resources.iter().map(|r| r.sotw_head_len() + r.body_len()).sum::<usize>();
    let mut frames = Frames::new(len).ok_or(TooLarge { kind, count: resources.len(), bytes: len })?;
    for resource in resources {
        frames.room(resource.sotw_head_len());
        resource.put_sotw_head(&mut frames.buffer);
        frames.body(resource.body());
    }
    Ok(frames.finish(&tail))
}

fn put_text(tag: u32, text: &str, out: &mut BytesMut) {
    out.reserve(field_len(text.len()));
    put_length(tag, text.len(), out);
    out.put_slice(text.as_bytes());
}

struct Frames {
    done: Vec<Bytes>,
    buffer: BytesMut,
    /// What is still to come of the message.
    left: usize,
}

impl Frames {
    /// Begins a message of `len` bytes; none that is longer than a client reads.
    fn new(len: usize) -> Option<Self> {
        let prefix = u32::try_from(len).ok().filter(|_| len <= LONGEST)?;
        let mut buffer = BytesMut::with_capacity((len + 5).min(BUFFER));
        buffer.put_u8(0); // not compressed
        buffer.put_u32(prefix);
        Some(Self { done: Vec::new(), buffer, left: len })
    }

    /// Makes room for the next `len` bytes of the message.
    fn room(&mut self, len: usize) {
        if self.buffer.capacity() - self.buffer.len() < len {
            self.cut();
            self.buffer = BytesMut::with_capacity(len.max(self.left.min(BUFFER)));
        }
        self.left -= len;
    }

    fn cut(&mut self) {
        if !self.buffer.is_empty() {
            self.done.push(self.buffer.split().freeze());
        }
    }

    fn body(&mut self, body: &[Bytes]) {
        for piece in body {
            if piece.len() < COALESCE {
                self.room(piece.len());
                self.buffer.put_slice(piece);
            } else {
                self.cut();
                self.left -= piece.len();
                self.done.push(piece.clone());
            }
        }
    }

    fn finish(mut self, tail: &[u8]) -> Vec<Bytes> {
        self.room(tail.len());
        self.buffer.put_slice(tail);
        self.cut();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::service::discovery::v3 as discovery;
    use envoy_types::pb::google::protobuf::Any;
    use prost::Message;

    use super::*;

    fn resources() -> Vec<Resource> {
        [1, 2, 100, 5000, 127, 128, 20_000]
            .into_iter()
            .enumerate()
            .map(|(i, len)| {
                let version = [u8::try_from(i).expect("few"); 16];
                Resource::new(ResourceType::Cluster, &format!("c{i}"), version, vec![7; len].into())
            })
            .chain(std::iter::once({
                let pieces: Arc<[Bytes]> = Arc::new([10, 5000, 6000, 10, 20, 4096, 1].map(|len| vec![8; len].into()));
                Resource::in_pieces(ResourceType::Cluster, "in pieces", [9; 16], pieces)
            }))
            .collect()
    }

    fn message(frames: &[Bytes]) -> Vec<u8> {
        let wire = frames.concat();
        assert_eq!(wire[0], 0);
        assert_eq!(wire.len() - 5, u32::from_be_bytes([wire[1], wire[2], wire[3], wire[4]]) as usize);
        wire[5..].to_vec()
    }

    fn any(resource: &Resource) -> Any {
        Any { type_url: resource.kind().type_url().into(), value: resource.body().concat() }
    }

    #[test]
    fn a_composed_delta_response_is_the_message_it_stands_for() {
        let resources = resources();
        let frames = delta(ResourceType::Cluster, "n1", &resources, &["gone".into()]).expect("it is short");
        let expected = discovery::DeltaDiscoveryResponse {
            type_url: ResourceType::Cluster.type_url().into(),
            nonce: "n1".into(),
            removed_resources: vec!["gone".into()],
            resources: resources
                .iter()
                .map(|r| discovery::Resource {
                    name: r.name().into(),
                    version: r.version(),
                    resource: Some(any(r)),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        };
        let message = message(&frames);
        assert_eq!(discovery::DeltaDiscoveryResponse::decode(&message[..]).expect("a response"), expected);
        assert_eq!(message.len(), expected.encoded_len());
    }

    #[test]
    fn a_composed_state_of_the_world_response_is_the_message_it_stands_for() {
        let resources = resources();
        let frames = sotw(ResourceType::Cluster, "n1", "v1", &resources).expect("it is short");
        let expected = discovery::DiscoveryResponse {
            version_info: "v1".into(),
            type_url: ResourceType::Cluster.type_url().into(),
            nonce: "n1".into(),
            resources: resources.iter().map(any).collect(),
            ..Default::default()
        };
        let message = message(&frames);
        assert_eq!(discovery::DiscoveryResponse::decode(&message[..]).expect("a response"), expected);
        assert_eq!(message.len(), expected.encoded_len());
    }

    #[test]
    fn many_small_bodies_are_cut_into_buffers_that_never_grow() {
        let body = Bytes::from(vec![7; COALESCE - 1]);
        let many: Vec<_> =
            (0..100).map(|i| Resource::new(ResourceType::Cluster, &format!("c{i}"), [1; 16], body.clone())).collect();
        let frames = delta(ResourceType::Cluster, "n1", &many, &[]).expect("it is short");
        assert!(
            frames.iter().all(|frame| frame.len() <= BUFFER),
            "{:?}",
            frames.iter().map(Bytes::len).collect::<Vec<_>>()
        );
        assert_eq!(
            discovery::DeltaDiscoveryResponse::decode(&*message(&frames)).expect("it is whole").resources.len(),
            100
        );
    }

    #[test]
    fn a_message_longer_than_anybody_reads_is_refused_and_not_begun() {
        let piece = Bytes::from(vec![0; 1 << 20]);
        for (pieces, fits) in [(2047, true), (2048, false), (5000, false)] {
            let body: Arc<[Bytes]> = std::iter::repeat_n(piece.clone(), pieces).collect();
            let large = [Resource::in_pieces(ResourceType::Cluster, "c", [1; 16], body)];
            let of_delta = delta(ResourceType::Cluster, "n1", &large, &[]);
            let of_sotw = sotw(ResourceType::Cluster, "n1", "v1", &large);
            assert_eq!((of_delta.is_ok(), of_sotw.is_ok()), (fits, fits), "{pieces} MiB");
            assert!(of_delta.err().is_none_or(|error| error.to_string().contains("type Cluster")));
        }
    }

    #[test]
    fn a_large_body_is_shared_and_small_ones_are_coalesced() {
        let resources = resources();
        let frames = delta(ResourceType::Cluster, "n1", &resources, &[]).expect("it is short");
        for large in resources.iter().flat_map(Resource::body).filter(|piece| piece.len() >= COALESCE) {
            assert!(frames.iter().any(|frame| frame.as_ptr() == large.as_ptr()));
        }
        assert_eq!(frames.len(), 10);
    }
}
