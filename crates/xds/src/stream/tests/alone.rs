//! Route configurations that are rejected together, and come again one by one.

use super::*;

/// A client with version 1 of `r`, `s` and `t`, which rejected version 2 of all of them in one response.
fn rejecting(protocol: Protocol) -> Script {
    let mut client = Script::new(protocol, "LDS l@1; RDS r@1 s@1 t@1");
    for request in ["LDS".to_owned(), request(protocol, "RDS", &["r", "s", "t"])] {
        client.ask(&request);
    }
    client.settle();
    client.shall_have("LDS l@1; RDS r@2 s@2 t@2");
    client.is_sent(&["RDS r@2 s@2 t@2"]);
    client.nack("RDS");
    client.learned();
    client
}

fn recovered(name: &str) -> Observation {
    Observation::Recovered(ResourceType::RouteConfiguration, vec![name.into()])
}

#[test]
fn each_is_taken_or_rejected_for_itself() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.accepts("RDS r@2");
        assert!(client.learned().contains(&recovered("r")));
        client.is_sent(&["RDS s@2"]);
        client.nack("RDS");
        client.accepts("RDS t@2");
        assert!(client.learned().contains(&recovered("t")));
        client.is_sent(&[]);
        // That of one that is mended is none of its business.
        client.shall_have("LDS l@1; RDS r@3 s@2 t@2");
        client.accepts("RDS r@3");
        client.is_sent(&[]);
    }
}

#[test]
fn what_is_newer_comes_instead() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.is_sent(&["RDS r@2"]);
        client.shall_have("LDS l@1; RDS r@2 s@3 t@2");
        client.nack("RDS");
        client.accepts("RDS s@3");
        client.accepts("RDS t@2");
        client.is_sent(&[]);
    }
}

#[test]
fn what_is_rejected_with_others_again_is_sent_by_itself_again_and_then_no_more() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.shall_have("LDS l@1; RDS r@3 s@3 t@2");
        client.is_sent(&["RDS r@3 s@3"]);
        client.nack("RDS");
        for name in ["r@3", "s@3", "t@2"] {
            client.is_sent(&[&format!("RDS {name}")]);
            client.nack("RDS");
        }
        client.is_sent(&[]);
    }
}

#[test]
fn a_trial_waits_until_it_is_known_who_is_rejected() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.stream.on_trial(Some(trial("s", 1, Some(1), 11)));
        client.accepts("RDS r@2");
        client.is_sent(&["RDS s@2"]);
        client.nack("RDS");
        client.accepts("RDS t@2");
        client.learned();
        client.accepts("RDS s@11");
        assert_eq!(client.learned(), [Observation::Tried(1, Answer::Taken)]);
    }
}

#[test]
fn what_was_rejected_for_its_company_is_not_tried() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.stream.on_trial(Some(trial("s", 1, Some(1), 11)));
        client.is_sent(&["RDS r@2"]);
        client.nack("RDS");
        client.accepts("RDS s@2");
        assert!(client.learned().contains(&recovered("s")));
        client.accepts("RDS t@2");
        assert!(client.learned().contains(&Observation::Tried(1, Answer::Ended)));
        client.is_sent(&[]);
    }
}
