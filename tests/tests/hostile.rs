//! One tenant against another, and against the controller: each test is an attack that a claim of `SECURITY.md` answers.

#[path = "bad_input/manifests.rs"]
#[allow(dead_code, reason = "the tests of bad input use all of them")]
mod manifests;
#[path = "bad_input/stage.rs"]
#[allow(dead_code, reason = "the tests of bad input use all of it")]
mod stage;
