//! Rules of the delta variant.

use super::*;

#[test]
fn an_empty_first_subscribe_means_all_for_clusters_and_listeners() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1; LDS l@1");
    client.ask("CDS");
    client.accepts("CDS a@1 b@1");
    client.ask("LDS");
    client.is_sent(&["LDS l@1"]);
}

#[test]
fn a_star_means_all() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1");
    client.ask("CDS +*");
    client.accepts("CDS a@1 b@1");
    client.shall_have("CDS a@1 b@1 c@1");
    client.is_sent(&["CDS c@1"]);
}

#[test]
fn an_empty_first_subscribe_of_other_types_means_nothing() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1; RDS r@1; SDS s@1");
    for request in ["EDS", "RDS", "SDS"] {
        client.ask(request);
    }
    client.is_sent(&[]);
}

#[test]
fn a_wildcard_of_nothing_is_answered_so_that_the_client_does_not_wait() {
    let mut client = Script::new(Protocol::Delta, "");
    client.ask("CDS");
    client.accepts("CDS");
    client.is_sent(&[]);
    client.ask("LDS");
    client.is_sent(&["LDS"]);
}

#[test]
fn after_the_first_request_an_empty_subscribe_changes_nothing() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1");
    client.ask("CDS +a");
    client.accepts("CDS a@1");
    client.ask("CDS");
    client.is_sent(&[]);
}

#[test]
fn a_change_sends_what_changed_and_no_more() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1 c@1");
    client.ask("CDS");
    client.settle();
    client.shall_have("CDS a@1 b@2 c@1");
    client.accepts("CDS b@2");
    client.shall_have("CDS a@1 b@2 c@1");
    client.is_sent(&[]);
}

#[test]
fn names_are_sent_only_to_those_who_subscribed() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1 b@1");
    client.ask("EDS +a");
    client.accepts("EDS a@1");
    client.shall_have("EDS a@1 b@2");
    client.is_sent(&[]);
    client.shall_have("EDS a@2 b@2");
    client.is_sent(&["EDS a@2"]);
}

#[test]
fn an_unknown_name_is_answered_as_absent_and_reported_once() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1");
    client.ask("EDS +a +x");
    client.accepts("EDS a@1 -x");
    assert_eq!(client.learned(), [Observation::UnknownName(ResourceType::Endpoints, "x".into(), 1)]);
    client.ask("EDS +x");
    client.accepts("EDS -x");
    assert_eq!(client.learned(), []);
    client.shall_have("EDS a@1 x@1");
    client.is_sent(&["EDS x@1"]);
}

#[test]
fn subscribing_to_a_known_name_sends_it_again() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1");
    client.ask("EDS +a");
    client.settle();
    client.ask("EDS +a");
    client.accepts("EDS a@1");
    client.ask("EDS -a");
    client.is_sent(&[]);
    client.ask("EDS +a");
    client.is_sent(&["EDS a@1"]);
}

#[test]
fn subscribing_to_a_name_while_all_are_meant_sends_it_again() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1");
    client.ask("CDS +*");
    client.settle();
    client.ask("CDS +b");
    client.is_sent(&["CDS b@1"]);
}

#[test]
fn unsubscribing_ends_updates() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1 b@1");
    client.ask("EDS +a +b");
    client.settle();
    client.ask("EDS -a");
    client.shall_have("EDS a@2 b@2");
    client.is_sent(&["EDS b@2"]);
}

#[test]
fn unsubscribing_a_name_while_all_are_meant_answers_with_the_resource_or_its_absence() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1");
    client.ask("CDS +* +a +x");
    client.settle();
    client.ask("CDS -a -x");
    client.accepts("CDS a@1 -x");
    client.shall_have("CDS a@2 b@1");
    client.is_sent(&["CDS a@2"]);
}

#[test]
fn unsubscribing_the_star_leaves_the_names() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1");
    client.ask("CDS +* +a");
    client.settle();
    client.ask("CDS -*");
    client.shall_have("CDS a@2 b@2");
    client.accepts("CDS a@2");
    client.ask("CDS +*");
    client.is_sent(&["CDS b@2"]);
}

#[test]
fn a_request_with_an_error_is_a_rejection_and_only_that() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1");
    client.ask("CDS");
    client.is_sent(&["CDS a@1"]);
    client.nack("CDS");
    client.is_sent(&[]);
    let rejected = vec![("a".into(), Version::from([1; 16]))];
    assert_eq!(client.learned(), [Observation::Nacked(ResourceType::Cluster, rejected, "no".into())]);
    // The same without an error is none, whatever else it says.
    client.shall_have("CDS a@2");
    client.accepts("CDS a@2");
    assert_eq!(client.learned(), [Observation::Recovered(ResourceType::Cluster, vec!["a".into()])]);
}

#[test]
fn a_rejected_version_is_not_sent_again_but_the_next_different_one_is() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1");
    client.ask("CDS");
    client.settle();
    client.shall_have("CDS a@2 b@1");
    client.is_sent(&["CDS a@2"]);
    client.nack("CDS");
    client.shall_have("CDS a@2 b@2");
    client.accepts("CDS b@2");
    client.shall_have("CDS a@3 b@2");
    client.is_sent(&["CDS a@3"]);
    client.nack("CDS");
    // Also when that is the version that the client kept.
    client.shall_have("CDS a@1 b@2");
    client.is_sent(&["CDS a@1"]);
}

#[test]
fn what_was_rejected_for_its_company_is_sent_again_without_it() {
    let mut client = settled(Protocol::Delta, "CDS a@1; LDS l@1; RDS r@1", "", "+r");
    client.shall_have("CDS a@1 bad@1 b@1 c@1; LDS l@1; RDS r@1");
    client.is_sent(&["CDS b@1 bad@1 c@1"]);
    client.nack("CDS");
    client.is_sent(&[]);
    client.learned();
    // Who is to blame goes, or is mended.
    client.shall_have("CDS a@1 b@1 c@1; LDS l@1; RDS r@1");
    client.is_sent(&["CDS -bad"]);
    client.ack("CDS");
    client.is_sent(&["CDS b@1 c@1"]);
    client.nack("CDS");
    client.is_sent(&[]);
    client.shall_have("CDS a@1 b@2 c@1; LDS l@1; RDS r@1");
    client.accepts("CDS b@2");
    client.accepts("CDS c@1");
    client.is_sent(&[]);
    assert!(client.learned().contains(&Observation::Recovered(ResourceType::Cluster, vec!["c".into()])));
    // One that was rejected apart has nothing to do with it.
    client.shall_have("CDS a@2 b@2 c@1; LDS l@1; RDS r@1");
    client.is_sent(&["CDS a@2"]);
    client.nack("CDS");
    client.shall_have("CDS a@2 b@3 c@1; LDS l@1; RDS r@1");
    client.accepts("CDS b@3");
    client.is_sent(&[]);
}

#[test]
fn a_late_answer_does_not_have_what_was_rejected_meanwhile_sent_again() {
    let mut client = settled(Protocol::Delta, "CDS a@1 b@1", "", "");
    client.shall_have("CDS a@2 b@2");
    client.is_sent(&["CDS a@2 b@2"]);
    client.nack("CDS");
    client.shall_have("CDS a@2 b@3");
    client.is_sent(&["CDS b@3"]);
    // An Envoy withholds the answer to a cluster that does not warm.
    client.wait(GATE);
    client.shall_have("CDS a@3 b@3");
    client.is_sent(&["CDS a@3"]);
    // Once `b@3` is taken, `a@2` would come again without it; but `a@3` has come already.
    client.ack("CDS");
    client.nack("CDS");
    client.is_sent(&[]);
}

#[test]
fn what_a_client_drops_without_an_answer_keeps_nothing_from_being_sent_again() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1; EDS a@1 b@1");
    client.ask("CDS");
    client.is_sent(&["CDS a@1 b@1", "EDS a@1 b@1"]);
    client.ack("CDS");
    // It has not asked for endpoints yet, so it does not answer these.
    client.unanswered.clear();
    client.ask("EDS +a +b");
    client.accepts("EDS a@1 b@1");
    client.shall_have("CDS a@1 b@1; EDS a@2 b@2");
    client.is_sent(&["EDS a@2 b@2"]);
    client.nack("EDS");
    client.shall_have("CDS a@1 b@1; EDS a@2 b@3");
    client.accepts("EDS b@3");
    client.accepts("EDS a@2");
}

#[test]
fn subscriptions_count_whatever_the_nonce_is() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1 b@1");
    client.ask("EDS +a");
    client.is_sent(&["EDS a@1"]);
    client.request("EDS +b", Some("stale".into()), None);
    // The response in flight is still unanswered, so the next waits for it.
    client.is_sent(&[]);
    client.ack("EDS");
    client.is_sent(&["EDS b@1"]);
}

#[test]
fn a_rejection_can_carry_a_subscription() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1 b@1");
    client.ask("EDS +a");
    client.is_sent(&["EDS a@1"]);
    let nonce = client.unanswered.get_mut(&ResourceType::Endpoints).unwrap().remove(0);
    client.request("EDS +b", Some(nonce), Some("no"));
    client.is_sent(&["EDS b@1"]);
}

#[test]
fn one_response_of_a_type_is_on_its_way_at_a_time() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1");
    client.ask("CDS");
    client.is_sent(&["CDS a@1"]);
    for n in 2..10 {
        client.shall_have(&format!("CDS a@{n}"));
        client.is_sent(&[]);
    }
    client.ack("CDS");
    client.is_sent(&["CDS a@9"]);
}

#[test]
fn a_response_that_is_never_answered_holds_up_the_next_for_a_bounded_time() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1");
    client.ask("EDS +a");
    client.is_sent(&["EDS a@1"]);
    client.shall_have("EDS a@2");
    client.is_sent(&[]);
    assert_eq!(client.stream.deadline(), Some(client.now + GATE));
    client.wait(GATE);
    client.is_sent(&["EDS a@2"]);
    // Late answers are still understood.
    client.nack("EDS");
    client.ack("EDS");
    assert!(matches!(client.learned()[..], [Observation::Nacked(..), Observation::Recovered(..)]));
}

#[test]
fn a_reconnecting_client_is_sent_the_differences() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@2 c@1; EDS a@1 b@2; LDS l@1; RDS r@2");
    client.ask("CDS a=1 b=1");
    client.ask("EDS +a +b +c a=1 b=1");
    client.ask("LDS l=1");
    client.ask("RDS +r r=1");
    // Clusters that are sent are followed by their endpoints; routes wait for the clusters.
    client.is_sent(&["CDS b@2 c@1", "EDS b@2 -c"]);
    client.ack("CDS");
    client.is_sent(&["RDS r@2"]);
}

#[test]
fn a_reconnecting_client_that_has_everything_is_sent_nothing() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1; EDS a@1; LDS l@1; RDS r@1; SDS s@1");
    for request in ["CDS a=1", "EDS +a a=1", "LDS l=1", "RDS +r r=1", "SDS +s s=1"] {
        client.ask(request);
    }
    client.is_sent(&[]);
    client.shall_have("CDS a@1; EDS a@2; LDS l@1; RDS r@1; SDS s@1");
    client.is_sent(&["EDS a@2"]);
}

#[test]
fn a_reconnecting_client_is_reported_what_is_gone() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1; LDS l@1");
    client.ask("CDS a=1 gone=1");
    client.ask("LDS l=1 gone=1");
    client.accepts("LDS -gone");
    // Routes it has from before may use the cluster; it has not asked for them yet.
    client.is_sent(&[]);
    client.ask("RDS");
    client.is_sent(&["CDS -gone"]);
}

#[test]
fn a_reconnecting_client_with_versions_of_another_server_is_sent_everything() {
    let mut client = Script::new(Protocol::Delta, "EDS a@1");
    let request = DeltaRequest {
        type_url: ResourceType::Endpoints.type_url().into(),
        subscribe: vec!["a".into()],
        initial_versions: vec![("a".into(), "17".into())],
        ..DeltaRequest::default()
    };
    client.stream.on_delta(request).unwrap();
    client.is_sent(&["EDS a@1"]);
}

#[test]
fn clusters_that_are_sent_are_followed_by_their_endpoints_unasked() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1 b@1; EDS a@1 b@1");
    client.ask("CDS");
    client.is_sent(&["CDS a@1 b@1", "EDS a@1 b@1"]);
    client.ask("EDS +a +b");
    client.is_sent(&["EDS a@1 b@1"]);
    client.ack("CDS");
    client.ack("EDS");
    client.ack("EDS");
    client.shall_have("CDS a@2 b@1; EDS a@1 b@1");
    client.is_sent(&["CDS a@2", "EDS a@1"]);
}

#[test]
fn endpoints_that_were_sent_unasked_outdate_what_a_reconnecting_client_says_it_has() {
    let mut client = Script::new(Protocol::Delta, "CDS a@2; EDS a@1");
    client.ask("CDS a=1");
    client.is_sent(&["CDS a@2", "EDS a@1"]);
    client.shall_have("CDS a@2; EDS a@2");
    client.ask("EDS +a a=2");
    client.is_sent(&["EDS a@2"]);
}

#[test]
fn endpoints_that_were_rejected_do_not_follow_their_cluster() {
    let mut client = settled(Protocol::Delta, "CDS a@1; EDS a@1", "+a", "");
    client.shall_have("CDS a@1; EDS a@2");
    client.is_sent(&["EDS a@2"]);
    client.nack("EDS");
    client.shall_have("CDS a@2; EDS a@2");
    client.is_sent(&["CDS a@2"]);
}

#[test]
fn nothing_is_said_before_the_gateway_is_published() {
    let mut client = Script::new(Protocol::Delta, "");
    client.stream = Stream::new(Protocol::Delta, node(), settings());
    client.ask("CDS");
    client.ask("EDS +a");
    client.is_sent(&[]);
    assert_eq!(client.stream.deadline(), None);
    client.shall_have("CDS a@1; EDS a@1");
    client.is_sent(&["CDS a@1", "EDS a@1"]);
}

#[test]
fn a_changed_node_ends_the_stream() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1");
    let request = |node| DeltaRequest {
        type_url: ResourceType::Cluster.type_url().into(),
        node: Some(node),
        ..DeltaRequest::default()
    };
    assert_eq!(client.stream.on_delta(request(node())), Ok(()));
    let other = Node { cluster: "ns/other".into(), ..node() };
    assert_eq!(client.stream.on_delta(request(other)), Err(Violation::NodeChanged));
}

#[test]
fn too_many_names_end_the_stream() {
    let limits = Limits { names_per_type: 2, name_bytes_per_type: 20, ..Limits::default() };
    let stream = || Stream::new(Protocol::Delta, node(), Settings { limits, ..settings() });
    let request = |names: &[&str], unsubscribe: &[&str]| DeltaRequest {
        type_url: ResourceType::Cluster.type_url().into(),
        subscribe: names.iter().map(|&name| name.into()).collect(),
        unsubscribe: unsubscribe.iter().map(|&name| name.into()).collect(),
        ..DeltaRequest::default()
    };
    let mut many = stream();
    assert_eq!(many.on_delta(request(&["a", "b"], &[])), Ok(()));
    assert_eq!(many.on_delta(request(&["c"], &["a"])), Ok(()));
    let refused = Violation::TooManyNames { what: "names", limit: 2 };
    assert_eq!(many.on_delta(request(&["d"], &[])), Err(refused));
    let mut long = stream();
    let refused = Violation::TooManyNames { what: "bytes of names", limit: 20 };
    assert_eq!(long.on_delta(request(&["a-name-that-is-too-long"], &[])), Err(refused));
    let mut unanswered = stream();
    assert_eq!(unanswered.on_delta(request(&["*"], &["a", "b"])), Ok(()));
    assert!(unanswered.on_delta(request(&[], &["c", "d"])).is_err());
}

#[test]
fn a_type_that_is_not_served_is_left_alone() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1");
    let request = DeltaRequest { type_url: "type.googleapis.com/google.protobuf.Empty".into(), ..Default::default() };
    assert_eq!(client.stream.on_delta(request), Ok(()));
    client.is_sent(&[]);
}

#[test]
fn a_name_that_is_unsubscribed_while_all_are_meant_is_not_asked_for_and_not_kept() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1");
    client.ask("CDS");
    client.settle();
    for n in 0..3 {
        client.ask(&format!("CDS -x{n}"));
        client.is_sent(&[&format!("CDS -x{n}")]);
        client.ack("CDS");
    }
    assert_eq!(client.learned(), []);
    assert!(client.stream.types[ResourceType::Cluster.index()].unknown.is_empty());
}

#[test]
fn names_that_wait_for_an_answer_are_bounded_in_bytes_too() {
    let limits = Limits { names_per_type: 100, name_bytes_per_type: 20, ..Limits::default() };
    let mut stream = Stream::new(Protocol::Delta, node(), Settings { limits, ..settings() });
    let unsubscribe = |name: &str| DeltaRequest {
        type_url: ResourceType::Cluster.type_url().into(),
        unsubscribe: vec![name.into()],
        ..DeltaRequest::default()
    };
    assert_eq!(stream.on_delta(unsubscribe("a-name-of-18-bytes")), Ok(()));
    let refused = Violation::TooManyNames { what: "bytes of names", limit: 20 };
    assert_eq!(stream.on_delta(unsubscribe("another-of-18-byte")), Err(refused));
}

#[test]
fn unsubscribing_the_star_ends_the_report_of_what_was_rejected_but_of_names() {
    let mut client = Script::new(Protocol::Delta, "LDS l@1 m@1");
    client.ask("LDS +* +m");
    client.is_sent(&["LDS l@1 m@1"]);
    client.nack("LDS");
    client.learned();
    client.ask("LDS -*");
    assert_eq!(client.learned(), [Observation::Recovered(ResourceType::Listener, vec!["l".into()])]);
}

#[test]
fn unsubscribing_the_star_lets_go_of_what_rejected_listeners_used() {
    let mut client = settled(Protocol::Delta, "CDS a@1; EDS a@1; LDS l@1", "+a", "");
    client.shall_have("CDS b@1; EDS b@1; LDS l@2");
    client.sent();
    client.ack("CDS");
    client.ack("EDS");
    client.is_sent(&["LDS l@2"]);
    client.nack("LDS");
    client.wait(2 * GATE);
    client.is_sent(&[]);
    client.ask("LDS -*");
    client.is_sent(&["CDS -a", "EDS -a"]);
}

#[test]
fn a_removal_that_was_rejected_along_with_something_else_is_said_once_more() {
    let mut client = Script::new(Protocol::Delta, "LDS l@1");
    client.ask("LDS");
    client.settle();
    client.shall_have("LDS l@2");
    client.is_sent(&["LDS l@2"]);
    client.nack("LDS");
    // A client may refuse such a response as a whole.
    client.shall_have("LDS m@1");
    client.is_sent(&["LDS m@1 -l"]);
    client.nack("LDS");
    client.is_sent(&["LDS -l"]);
    client.learned();
    client.ack("LDS");
    assert_eq!(client.learned(), [Observation::Recovered(ResourceType::Listener, vec!["l".into()])]);
    client.is_sent(&[]);
}

#[test]
fn a_removal_that_is_rejected_alone_is_not_said_again() {
    let mut client = Script::new(Protocol::Delta, "LDS l@1");
    client.ask("LDS");
    client.settle();
    client.shall_have("");
    client.is_sent(&["LDS -l"]);
    client.nack("LDS");
    client.is_sent(&[]);
}

#[test]
fn what_was_removed_in_a_rejected_response_and_comes_back_is_sent() {
    let mut client = Script::new(Protocol::Delta, "LDS l@1");
    client.ask("LDS");
    client.settle();
    client.shall_have("LDS m@1");
    client.is_sent(&["LDS m@1 -l"]);
    client.shall_have("LDS l@1 m@1");
    client.nack("LDS");
    client.is_sent(&["LDS l@1"]);
}
