//! Our types against the CRDs of the Gateway API release that they were written for: experimental channel, property by
//! property. Each test fails with the paths that differ.

mod crd;
mod defaults;
mod examples;
mod fields;
mod honoured;
mod rules;
mod tables;
