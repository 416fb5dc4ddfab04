//! Deterministic encoding.
