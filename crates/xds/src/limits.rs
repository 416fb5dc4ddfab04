//! Bounds on a client.

/// Bounds on what one client may make the server hold. Beyond them its stream ends with `RESOURCE_EXHAUSTED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of one request in bytes. A reconnecting proxy lists all it has, at about 100 bytes each.
    pub request_bytes: usize,
    /// Names that one stream may be subscribed to, per type; also names in one request, and once more as many that it
    /// says it has.
    pub names_per_type: usize,
    /// The total length in bytes of the names that one stream may be subscribed to, per type; also of the names in
    /// one request.
    pub name_bytes_per_type: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { request_bytes: 64 << 20, names_per_type: 100_000, name_bytes_per_type: 16 << 20 }
    }
}
