//! Where worlds are used.

/// What depends on where the worlds are used.
#[derive(Clone, Debug)]
pub struct Place {
    /// Ports of listeners; the last one mostly with TLS, the others mostly without.
    pub ports: Vec<u16>,
    /// Addresses of Gateways.
    pub addresses: Vec<&'static str>,
    /// How many values at most are changed at any place.
    pub edits: usize,
}
