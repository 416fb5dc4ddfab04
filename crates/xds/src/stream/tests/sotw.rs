//! Rules of the state-of-the-world variant.

use super::*;

#[test]
fn clusters_and_listeners_are_complete_sets() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1 b@1; LDS l@1 m@1");
    client.ask("CDS");
    client.ask("LDS");
    client.accepts("CDS a@1 b@1");
    client.accepts("LDS l@1 m@1");
    client.shall_have("CDS a@1 b@2 c@1; LDS l@1 m@2");
    client.accepts("CDS a@1 b@2 c@1");
    client.is_sent(&["LDS l@1 m@2"]);
}

#[test]
fn other_types_hold_what_changed() {
    let mut client = Script::new(Protocol::Sotw, "EDS a@1 b@1 c@1");
    client.ask("EDS a b");
    client.accepts("EDS a@1 b@1");
    client.shall_have("EDS a@1 b@2 c@2");
    client.accepts("EDS b@2");
    client.ask("EDS a b c");
    client.is_sent(&["EDS c@2"]);
}

#[test]
fn what_is_known_is_answered_although_another_name_is_unknown() {
    let mut client = Script::new(Protocol::Sotw, "EDS a@1");
    client.ask("EDS a x");
    client.accepts("EDS a@1");
    assert_eq!(client.learned(), [Observation::UnknownName(ResourceType::Endpoints, "x".into(), 1)]);
    client.is_sent(&[]);
    client.shall_have("EDS a@1 x@1");
    client.accepts("EDS x@1");
    assert_eq!(client.learned(), []);
}

#[test]
fn empty_sets_are_answered_so_that_the_client_does_not_wait() {
    let mut client = Script::new(Protocol::Sotw, "");
    client.ask("CDS");
    client.accepts("CDS");
    client.ask("LDS");
    client.is_sent(&["LDS"]);
}

#[test]
fn a_stale_nonce_is_ignored() {
    let mut client = Script::new(Protocol::Sotw, "EDS a@1 b@1");
    client.ask("EDS a");
    client.accepts("EDS a@1");
    client.shall_have("EDS a@2 b@1");
    client.is_sent(&["EDS a@2"]);
    // Written before the client saw the last response.
    client.request("EDS a b", Some("1".into()), None);
    client.is_sent(&[]);
    client.request("EDS a b", Some("1".into()), Some("stale words"));
    assert_eq!(client.learned(), []);
    // Its answer carries the names.
    client.ack("EDS");
    client.is_sent(&["EDS b@1"]);
}

#[test]
fn a_name_that_was_dropped_and_added_while_a_response_was_on_its_way_is_sent_again() {
    let mut client = Script::new(Protocol::Sotw, "SDS a@1 b@1");
    client.ask("SDS a b");
    client.accepts("SDS a@1 b@1");
    client.shall_have("SDS a@1 b@2");
    client.is_sent(&["SDS b@2"]);
    client.request("SDS b", Some("1".into()), None);
    client.request("SDS a b", Some("1".into()), None);
    client.ack("SDS");
    client.accepts("SDS a@1");
    client.is_sent(&[]);
}

#[test]
fn names_may_change_before_the_first_response() {
    let mut client = Script::new(Protocol::Sotw, "");
    client.stream = Stream::new(Protocol::Sotw, node(), settings());
    client.ask("EDS a");
    client.ask("EDS a b");
    client.shall_have("EDS a@1 b@1");
    client.is_sent(&["EDS a@1 b@1"]);
}

#[test]
fn after_any_name_was_given_none_means_none() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1 b@1");
    client.ask("CDS a");
    client.accepts("CDS a@1");
    client.ask("CDS");
    client.accepts("CDS");
    client.shall_have("CDS a@2 b@1");
    client.is_sent(&[]);
}

#[test]
fn a_star_means_all() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1 b@1; EDS a@1 b@1");
    client.ask("CDS * a");
    client.accepts("CDS a@1 b@1");
    client.ask("EDS a");
    client.accepts("EDS a@1");
    client.ask("EDS *");
    client.is_sent(&["EDS b@1"]);
}

#[test]
fn a_rejected_version_is_not_sent_again_but_the_next_different_one_is() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1 b@1; EDS a@1 b@1");
    client.ask("CDS");
    client.ask("EDS a b");
    client.settle();
    client.shall_have("CDS a@2 b@1; EDS a@2 b@1");
    client.is_sent(&["CDS a@2 b@1", "EDS a@2"]);
    client.nack("CDS");
    client.nack("EDS");
    client.is_sent(&[]);
    let rejected = || vec![("a".into(), Version::from([2; 16]))];
    assert_eq!(
        client.learned(),
        [
            Observation::Nacked(ResourceType::Cluster, rejected(), "no".into()),
            Observation::Nacked(ResourceType::Endpoints, rejected(), "no".into()),
        ]
    );
    client.shall_have("CDS a@1 b@1; EDS a@3 b@1");
    client.is_sent(&["CDS a@1 b@1", "EDS a@3"]);
    client.ack("CDS");
    client.ack("EDS");
    assert_eq!(
        client.learned(),
        [
            Observation::Recovered(ResourceType::Cluster, vec!["a".into()]),
            Observation::Recovered(ResourceType::Endpoints, vec!["a".into()]),
        ]
    );
}

#[test]
fn a_reconnecting_client_is_always_answered() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1");
    let request = SotwRequest {
        type_url: ResourceType::Cluster.type_url().into(),
        version: version(1),
        ..SotwRequest::default()
    };
    client.stream.on_sotw(request).unwrap();
    client.is_sent(&["CDS a@1"]);
}

#[test]
fn clusters_that_are_sent_are_followed_by_their_endpoints_if_asked_for() {
    let mut client = settled(Protocol::Sotw, "CDS a@1 b@1; EDS a@1 b@1", "a", "");
    client.shall_have("CDS a@2 b@2; EDS a@1 b@1");
    client.is_sent(&["CDS a@2 b@2", "EDS a@1"]);
}

#[test]
fn sets_with_equal_content_have_equal_versions() {
    let version_of = |has: &str| {
        let mut client = Script::new(Protocol::Sotw, has);
        client.ask("CDS");
        let response = client.stream.next_response(client.now).unwrap();
        let message = discovery::DiscoveryResponse::decode(&response.frames.concat()[5..]).unwrap();
        message.version_info
    };
    assert_eq!(version_of("CDS a@1 b@2"), version_of("CDS a@1 b@2"));
    assert_ne!(version_of("CDS a@1 b@2"), version_of("CDS a@2 b@1"));
    assert_ne!(version_of("CDS a@1"), version_of("CDS a@1 b@2"));
}

#[test]
fn a_subscription_to_clusters_by_name_gets_the_set_of_those() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1 b@1");
    client.ask("CDS a");
    client.accepts("CDS a@1");
    client.shall_have("CDS a@1 b@2");
    client.is_sent(&[]);
    client.ask("CDS a b");
    client.is_sent(&["CDS a@1 b@2"]);
}

#[test]
fn leaving_the_star_leaves_the_names() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1 b@1; EDS a@1 b@1");
    client.ask("CDS * a");
    client.ask("EDS * a");
    client.settle();
    client.ask("CDS a");
    client.ask("EDS a");
    client.accepts("CDS a@1");
    client.shall_have("CDS a@1 b@2; EDS a@1 b@2");
    client.is_sent(&[]);
    client.ask("CDS *");
    client.ask("EDS *");
    client.is_sent(&["CDS a@1 b@2", "EDS b@2"]);
}

#[test]
fn all_that_were_meant_before_any_name_was_given_are_not_meant_after() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1 b@1");
    client.ask("CDS");
    client.accepts("CDS a@1 b@1");
    client.ask("CDS a");
    client.accepts("CDS a@1");
    client.ask("CDS");
    client.is_sent(&["CDS"]);
}

#[test]
fn leaving_the_star_ends_the_report_of_what_was_rejected() {
    let mut client = Script::new(Protocol::Sotw, "EDS a@1 b@1");
    client.ask("EDS * a");
    client.is_sent(&["EDS a@1 b@1"]);
    client.nack("EDS");
    client.learned();
    client.ask("EDS a");
    assert_eq!(client.learned(), [Observation::Recovered(ResourceType::Endpoints, vec!["b".into()])]);
}

#[test]
fn a_rejection_with_a_stale_nonce_is_none() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1");
    client.ask("CDS");
    client.accepts("CDS a@1");
    client.shall_have("CDS a@2");
    client.is_sent(&["CDS a@2"]);
    client.request("CDS", Some("1".into()), Some("late"));
    client.request("CDS", Some("17".into()), Some("never sent"));
    assert_eq!(client.learned(), []);
    client.ack("CDS");
    assert_eq!(client.learned(), []);
}

#[test]
fn a_cluster_that_was_dropped_and_added_while_a_response_was_on_its_way_is_sent_again() {
    let mut client = Script::new(Protocol::Sotw, "CDS a@1 b@1");
    client.ask("CDS a b");
    client.accepts("CDS a@1 b@1");
    client.shall_have("CDS a@1 b@2");
    client.is_sent(&["CDS a@1 b@2"]);
    client.request("CDS b", Some("1".into()), None);
    client.request("CDS a b", Some("1".into()), None);
    client.ack("CDS");
    client.accepts("CDS a@1 b@2");
    client.is_sent(&[]);
}
