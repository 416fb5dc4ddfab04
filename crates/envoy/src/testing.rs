//! What tests of this and of other crates check messages by, and check them on.

pub mod pgv;
pub mod samples;
