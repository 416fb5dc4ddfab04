//! Trials: versions of a route configuration that a client is asked about which rejected the one that it shall have.

use super::*;

fn tried(number: u64, answer: Answer) -> Vec<Observation> {
    vec![Observation::Tried(number, answer)]
}

/// A client that goes on with version 1 of `r`, has `s` and rejected version 2 of `r`.
fn rejecting(protocol: Protocol) -> Script {
    let mut client = Script::new(protocol, "CDS a@1; LDS l@1; RDS r@1 s@1");
    for request in ["CDS".to_owned(), "LDS".to_owned(), request(protocol, "RDS", &["r", "s"])] {
        client.ask(&request);
    }
    client.settle();
    client.shall_have("CDS a@1; LDS l@1; RDS r@2 s@1");
    client.is_sent(&["RDS r@2"]);
    client.nack("RDS");
    client.is_sent(&[]);
    client.learned();
    client
}

#[test]
fn a_client_that_rejected_something_is_asked_and_gets_back_what_it_had() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.stream.on_trial(Some(trial("r", 1, Some(1), 11)));
        client.is_sent(&["RDS r@11"]);
        assert_eq!(client.learned(), [], "it has not answered");
        client.nack("RDS");
        assert_eq!(client.learned(), tried(1, Answer::Rejected("no".into())));
        client.is_sent(&[]);
        client.stream.on_trial(Some(trial("r", 2, Some(1), 12)));
        client.accepts("RDS r@12");
        assert_eq!(client.learned(), tried(2, Answer::Taken));
        client.is_sent(&[]);
        client.stream.on_trial(Some(trial("r", 3, Some(1), 13)));
        client.is_sent(&["RDS r@13"]);
        client.nack("RDS");
        client.learned();
        client.stream.on_trial(None);
        client.accepts("RDS r@1");
        client.is_sent(&[]);
        assert_eq!(client.learned(), []);
        client.shall_have("CDS a@1; LDS l@1; RDS r@3 s@1");
        client.accepts("RDS r@3");
        assert_eq!(client.learned(), [Observation::Recovered(ResourceType::RouteConfiguration, vec!["r".into()])]);
        client.is_sent(&[]);
    }
}

#[test]
fn a_client_that_took_no_trial_gets_nothing_back() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.stream.on_trial(Some(trial("r", 1, Some(1), 11)));
        client.is_sent(&["RDS r@11"]);
        client.nack("RDS");
        client.stream.on_trial(None);
        client.is_sent(&[]);
    }
}

#[test]
fn what_is_newer_ends_the_trials_and_is_sent_next() {
    for protocol in PROTOCOLS {
        for taken in [true, false] {
            let mut client = rejecting(protocol);
            client.stream.on_trial(Some(trial("r", 1, Some(1), 11)));
            client.is_sent(&["RDS r@11"]);
            client.shall_have("CDS a@1; LDS l@1; RDS r@3 s@1");
            client.is_sent(&[]);
            assert_eq!(client.learned(), tried(1, Answer::Ended));
            if taken {
                client.ack("RDS");
            } else {
                client.nack("RDS");
            }
            client.is_sent(&["RDS r@3"]);
            client.nack("RDS");
            // That was rejected too, so that it goes on with the trial, if it took it.
            client.is_sent(if taken { &["RDS r@1"] } else { &[] });
            client.learned();
            client.stream.on_trial(Some(trial("r", 2, Some(1), 12)));
            client.is_sent(&[]);
            assert_eq!(client.learned(), tried(2, Answer::Ended), "it is about what nobody shall have any more");
        }
    }
}

#[test]
fn what_is_newer_when_trials_end_goes_instead_of_what_the_client_had() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.stream.on_trial(Some(trial("r", 1, Some(1), 11)));
        client.accepts("RDS r@11");
        client.shall_have("CDS b@1; LDS l@1; RDS r@3 s@1");
        client.stream.on_trial(None);
        let both = if protocol == Protocol::Sotw { "CDS b@1 a@1" } else { "CDS b@1" };
        client.is_sent(&[both]);
        client.ack("CDS");
        client.is_sent(&["RDS r@3"]);
    }
}

#[test]
fn a_client_that_shall_have_again_what_it_had_gets_it_in_place_of_a_trial() {
    for protocol in PROTOCOLS {
        for is_at_once in [true, false] {
            let mut client = rejecting(protocol);
            client.stream.on_trial(Some(trial("r", 1, Some(1), 11)));
            client.accepts("RDS r@11");
            client.shall_have("CDS a@1; LDS l@1; RDS r@1 s@1");
            if is_at_once {
                client.stream.on_trial(None);
            }
            client.accepts("RDS r@1");
            client.stream.on_trial(None);
            client.is_sent(&[]);
        }
    }
}

#[test]
fn what_changes_besides_goes_its_way_during_trials() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.stream.on_trial(Some(trial("r", 1, Some(1), 11)));
        client.accepts("RDS r@11");
        client.learned();
        client.shall_have("CDS a@2; LDS l@1; RDS r@2 s@2");
        client.stream.on_trial(Some(trial("r", 2, Some(1), 12)));
        client.is_sent(&["CDS a@2", "RDS r@12"]);
        client.ack("CDS");
        client.nack("RDS");
        client.accepts("RDS s@2");
        assert_eq!(client.learned(), tried(2, Answer::Rejected("no".into())));
        client.stream.on_trial(None);
        client.accepts("RDS r@1");
        client.is_sent(&[]);
    }
}

#[test]
fn a_trial_that_is_not_answered_ends_within_the_bound_of_every_wait() {
    for protocol in PROTOCOLS {
        let mut client = rejecting(protocol);
        client.stream.on_trial(Some(trial("r", 1, Some(1), 11)));
        client.is_sent(&["RDS r@11"]);
        assert_eq!(client.stream.deadline(), Some(client.now + GATE));
        client.wait(GATE);
        client.is_sent(&["RDS r@1"]);
        assert_eq!(client.learned(), tried(1, Answer::Ended));
        // A late answer says nothing more.
        client.ack("RDS");
        assert_eq!(client.learned(), []);
        client.ack("RDS");
        client.is_sent(&[]);
    }
}

#[test]
fn what_it_goes_on_with_keeps_what_it_needs_through_trials() {
    for protocol in PROTOCOLS {
        let mut client = Script::new(protocol, "CDS a@1; EDS a@1; LDS l@1; RDS r@1");
        let eds = request(protocol, "EDS", &["a", "b"]);
        for request in ["CDS".to_owned(), eds, "LDS".to_owned(), request(protocol, "RDS", &["r"])] {
            client.ask(&request);
        }
        client.settle();
        client.shall_have("CDS b@1; EDS b@1; LDS l@1; RDS r@2");
        let both = if protocol == Protocol::Sotw { "CDS b@1 a@1" } else { "CDS b@1" };
        client.is_sent(&[both, "EDS b@1"]);
        client.ack("CDS");
        client.ack("EDS");
        client.is_sent(&["RDS r@2"]);
        client.nack("RDS");
        for (number, version) in [(1, 11), (2, 12)] {
            client.stream.on_trial(Some(trial("r", number, Some(1), version)));
            client.accepts(&format!("RDS r@{version}"));
        }
        client.stream.on_trial(None);
        client.accepts("RDS r@1");
        client.is_sent(&[]);
        client.shall_have("CDS b@1; EDS b@1; LDS l@1; RDS r@3");
        client.accepts("RDS r@3");
        assert!(client.sent().iter().any(|sent| sent == "CDS -a" || sent == "CDS b@1"), "now it may go");
    }
}

#[test]
fn a_client_that_has_nothing_is_asked_and_one_of_which_nobody_knows_what_it_has_is_not() {
    for (request, is_asked) in [("RDS +r", true), ("RDS +r r=5", false)] {
        let mut client = Script::new(Protocol::Delta, "RDS r@2");
        client.ask(request);
        client.is_sent(&["RDS r@2"]);
        client.nack("RDS");
        client.learned();
        client.stream.on_trial(Some(trial("r", 1, None, 11)));
        if is_asked {
            client.accepts("RDS r@11");
        }
        client.is_sent(&[]);
        assert_eq!(client.learned(), tried(1, if is_asked { Answer::Taken } else { Answer::Ended }));
        client.stream.on_trial(None);
        client.is_sent(&[]);
    }
    for version in ["", "5"] {
        let mut client = Script::new(Protocol::Sotw, "RDS r@2");
        let [type_url, version] = [ResourceType::RouteConfiguration.type_url(), version].map(str::to_owned);
        client.names.insert(ResourceType::RouteConfiguration, vec!["r".into()]);
        let is_new = version.is_empty();
        let first = SotwRequest { type_url, version, names: vec!["r".into()], ..SotwRequest::default() };
        client.stream.on_sotw(first).unwrap();
        client.is_sent(&["RDS r@2"]);
        client.nack("RDS");
        client.stream.on_trial(Some(trial("r", 1, None, 11)));
        client.is_sent(if is_new { &["RDS r@11"] } else { &[] });
    }
}

#[test]
fn of_a_client_that_brings_what_it_shall_have_it_is_known_what_it_has() {
    let mut client = Script::new(Protocol::Delta, "RDS r@1");
    client.ask("RDS +r r=1");
    client.is_sent(&[]);
    client.shall_have("RDS r@2");
    client.is_sent(&["RDS r@2"]);
    client.nack("RDS");
    client.stream.on_trial(Some(trial("r", 1, Some(1), 11)));
    client.accepts("RDS r@11");
    client.stream.on_trial(None);
    client.accepts("RDS r@1");
}
