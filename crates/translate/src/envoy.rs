//! Envoy messages.
