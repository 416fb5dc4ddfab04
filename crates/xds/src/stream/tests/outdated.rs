//! Clients that are older than what listeners and route configurations are made for.

use super::*;
use crate::request::EnvoyVersion;

const LEAST: EnvoyVersion = EnvoyVersion { major: 1, minor: 40, patch: 0 };
const WORLD: &str = "CDS a@1; EDS a@1; SDS s@1; LDS l@1; RDS r@1";

/// A client that says that it is this Envoy.
fn client(protocol: Protocol, envoy: Option<EnvoyVersion>, has: &str) -> Script {
    let settings = Settings { least_envoy: Some(LEAST), ..settings() };
    Script::of(protocol, Stream::new(protocol, Node { envoy, ..node() }, settings), has)
}

fn old() -> EnvoyVersion {
    EnvoyVersion { minor: 39, patch: 4, ..LEAST }
}

#[test]
fn an_outdated_client_is_sent_neither_listeners_nor_routes_and_that_is_reported_once() {
    for protocol in [Protocol::Delta, Protocol::Sotw] {
        let mut script = client(protocol, Some(old()), WORLD);
        assert_eq!(script.learned(), [Observation::Outdated { version: old(), least: LEAST }]);
        script.ask("CDS");
        script.is_sent(&["CDS a@1", "EDS a@1"][..if protocol == Protocol::Delta { 2 } else { 1 }]);
        script.ack("CDS");
        for request in ["LDS", if protocol == Protocol::Delta { "RDS +r" } else { "RDS r" }] {
            script.ask(request);
            script.is_sent(&[]);
        }
        script.wait(10 * GATE);
        script.is_sent(&[]);
        script.shall_have("CDS a@1; EDS a@1; SDS s@1; LDS l@2; RDS r@2");
        script.is_sent(&[]);
        script.wait(10 * GATE);
        script.is_sent(&[]);
        assert_eq!(script.learned(), []);
    }
}

#[test]
fn what_an_outdated_client_has_from_before_is_not_taken_from_it() {
    let mut script = client(Protocol::Delta, Some(old()), WORLD);
    for request in ["CDS a=1 b=1", "EDS +a +b a=1 b=1", "SDS +s +t s=1 t=1", "LDS l=7 gone=7", "RDS +r +q r=7 q=7"] {
        script.ask(request);
    }
    script.settle();
    script.wait(10 * GATE);
    script.is_sent(&[]);
    // What its routes use stays, and what changes in it follows.
    script.shall_have("CDS c@1; EDS a@2 c@1; SDS s@2; LDS l@2; RDS r@2");
    script.is_sent(&["SDS s@2", "CDS c@1", "EDS a@2 c@1"]);
    script.settle();
    script.wait(10 * GATE);
    script.is_sent(&[]);
}

#[test]
fn a_client_that_is_recent_or_does_not_say_what_it_is_gets_everything() {
    let newer = EnvoyVersion { minor: 41, ..LEAST };
    let next = EnvoyVersion { major: 2, minor: 0, patch: 0 };
    for envoy in [None, Some(LEAST), Some(newer), Some(next)] {
        let mut script = client(Protocol::Delta, envoy, WORLD);
        for request in ["CDS", "LDS", "RDS +r"] {
            script.ask(request);
        }
        script.is_sent(&["CDS a@1", "EDS a@1"]);
        script.ack("CDS");
        script.ack("EDS");
        script.is_sent(&["LDS l@1", "RDS r@1"]);
        assert_eq!(script.learned(), []);
    }
}
