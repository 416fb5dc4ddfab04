//! What people are told of whole scenes.

#[cfg(debug_assertions)]
mod faults;
mod grpc;
mod no_room;
mod requests;
mod sets;
mod streams;
mod tenant;
mod tree;
mod wide;

use ir::NsName;
use translate::testing::scene::Scene;

use crate::{Explanation, Request, explain};

/// What becomes of a request at Gateway `infra/edge`.
fn ask(scene: &Scene, method: &str, url: &str, headers: &[&str]) -> Explanation {
    let request = Request::new(method, url, headers.iter().copied()).expect("a request");
    explain(&scene.0, &NsName::new("infra", "edge"), &request)
}

fn get(scene: &Scene, url: &str) -> Explanation {
    ask(scene, "GET", url, &[])
}
