//! The order of an update: make before break, every wait bounded.

use super::*;

/// Both variants, with one route to one cluster and up to date.
fn both_settled() -> [Script; 2] {
    let has = "CDS a@1; EDS a@1; LDS l@1; RDS r@1";
    [settled(Protocol::Delta, has, "+a", "+r"), settled(Protocol::Sotw, has, "a", "r")]
}

#[test]
fn a_route_moves_after_its_new_cluster_was_acknowledged_and_the_old_one_goes_last() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS b@1; EDS b@1; LDS l@1; RDS r@2");
    client.is_sent(&["CDS b@1", "EDS b@1"]);
    client.ask("EDS +b");
    client.ack("EDS");
    client.accepts("EDS b@1");
    client.is_sent(&[]);
    client.ack("CDS");
    client.accepts("RDS r@2");
    client.is_sent(&["CDS -a", "EDS -a"]);
    client.ack("CDS");
    client.ack("EDS");
    client.is_sent(&[]);
    assert_eq!(client.learned(), []);
}

#[test]
fn the_complete_set_keeps_the_old_cluster_until_routes_were_acknowledged() {
    let [_, mut client] = both_settled();
    client.shall_have("CDS b@1; EDS b@1; LDS l@1; RDS r@2");
    client.is_sent(&["CDS b@1 a@1"]);
    client.ask("EDS a b");
    client.accepts("EDS b@1");
    client.ack("CDS");
    client.accepts("RDS r@2");
    client.accepts("CDS b@1");
    client.is_sent(&[]);
    assert_eq!(client.learned(), []);
}

#[test]
fn routes_wait_for_clusters_no_longer_than_the_bound() {
    for mut client in both_settled() {
        client.shall_have("CDS a@1 b@1; EDS a@1; LDS l@1; RDS r@2");
        assert_eq!(client.sent().len(), 1);
        assert_eq!(client.stream.deadline(), Some(client.now + GATE));
        client.wait(GATE / 2);
        client.is_sent(&[]);
        client.wait(GATE / 2);
        client.is_sent(&["RDS r@2"]);
        assert_eq!(client.learned(), [Observation::GateExpired(Gate::Make)]);
    }
}

#[test]
fn routes_do_not_wait_for_clusters_that_were_rejected() {
    for mut client in both_settled() {
        client.shall_have("CDS a@1 b@1; EDS a@1; LDS l@1; RDS r@2");
        client.sent();
        client.nack("CDS");
        client.is_sent(&["RDS r@2"]);
    }
}

#[test]
fn a_route_change_alone_waits_for_nothing() {
    for mut client in both_settled() {
        client.shall_have("CDS a@1; EDS a@1; LDS l@1; RDS r@2");
        client.is_sent(&["RDS r@2"]);
    }
}

#[test]
fn a_cluster_that_never_warms_does_not_make_the_client_deaf() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS a@1 stuck@1; EDS a@1; LDS l@1; RDS r@1");
    client.is_sent(&["CDS stuck@1"]);
    client.wait(GATE);
    client.is_sent(&[]);
    // Routes alone do not care, and another cluster waits no longer than the bound.
    client.shall_have("CDS a@1 stuck@1; EDS a@1; LDS l@1; RDS r@2");
    client.accepts("RDS r@2");
    client.shall_have("CDS a@1 b@1 stuck@1; EDS a@1; LDS l@1; RDS r@3");
    client.is_sent(&["CDS b@1"]);
    client.wait(GATE);
    client.is_sent(&["RDS r@3"]);
}

#[test]
fn endpoints_wait_for_nothing_but_their_own() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS a@1 b@1; EDS a@1; LDS l@1; RDS r@2");
    client.is_sent(&["CDS b@1"]);
    client.shall_have("CDS a@1 b@1; EDS a@2; LDS l@1; RDS r@2");
    client.is_sent(&["EDS a@2"]);
}

#[test]
fn snapshots_that_arrive_meanwhile_are_merged_into_the_next_rollout() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS a@1 b@1; EDS a@1; LDS l@1; RDS r@2");
    client.is_sent(&["CDS b@1"]);
    // The route of the rollout that is on its way follows its cluster, also if there is a newer one.
    client.shall_have("CDS a@1 c@1; EDS a@1; LDS l@1; RDS r@3");
    client.shall_have("CDS a@1 d@1; EDS a@1; LDS l@1; RDS r@4");
    client.is_sent(&[]);
    client.ack("CDS");
    client.accepts("RDS r@2");
    client.accepts("CDS d@1");
    client.accepts("RDS r@4");
    client.is_sent(&["CDS -b"]);
}

#[test]
fn a_cluster_that_comes_back_is_not_removed_in_between() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS b@1; EDS b@1; LDS l@1; RDS r@2");
    client.is_sent(&["CDS b@1", "EDS b@1"]);
    client.shall_have("CDS a@1 b@1; EDS a@1 b@1; LDS l@1; RDS r@3");
    client.ack("CDS");
    client.accepts("RDS r@2");
    client.accepts("RDS r@3");
    client.is_sent(&[]);
}

#[test]
fn a_new_listener_is_sent_before_its_routes_are_asked_for() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS a@1 b@1; EDS a@1 b@1; LDS l@1 m@1; RDS r@1 s@1");
    client.is_sent(&["CDS b@1", "EDS b@1"]);
    client.ack("CDS");
    client.is_sent(&["LDS m@1"]);
    client.ack("EDS");
    client.ask("RDS +s");
    client.is_sent(&["RDS s@1"]);
}

#[test]
fn routes_that_change_do_not_wait_for_a_listener_that_does() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS a@1; EDS a@1; LDS l@2; RDS r@2");
    client.is_sent(&["LDS l@2", "RDS r@2"]);
}

#[test]
fn a_listener_that_changes_its_routes_name_keeps_the_old_clusters_until_it_has_the_new_routes() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS b@1; EDS b@1; LDS l@2; RDS s@1");
    client.is_sent(&["CDS b@1", "EDS b@1"]);
    client.ack("CDS");
    client.ack("EDS");
    client.accepts("LDS l@2");
    // The old listener still serves with the old routes.
    client.is_sent(&[]);
    client.ask("RDS +s");
    client.accepts("RDS s@1");
    client.is_sent(&[]);
    client.ask("RDS -r");
    client.is_sent(&["CDS -a", "EDS -a"]);
}

#[test]
fn a_listener_that_drains_keeps_the_clusters_of_its_routes_and_holds_up_nothing_else() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS b@1; EDS b@1; LDS l@2; RDS s@1");
    client.sent();
    client.ack("CDS");
    client.ack("EDS");
    client.sent();
    client.ack("LDS");
    client.ask("RDS +s");
    client.accepts("RDS s@1");
    client.is_sent(&[]);
    for (next, last) in [("c", "b"), ("d", "c")] {
        client.shall_have(&format!("CDS {next}@1; LDS l@2; RDS s@{}", next.as_bytes()[0]));
        client.is_sent(&[&format!("CDS {next}@1")]);
        client.ack("CDS");
        client.is_sent(&[&format!("RDS s@{}", next.as_bytes()[0])]);
        client.ack("RDS");
        client.wait(2 * GATE);
        // Only what the draining listener may use stays, and that is what there was when it was replaced.
        client.is_sent(if last == "b" { &[] } else { &["CDS -c"] });
    }
    client.ack("CDS");
    assert_eq!(client.learned(), []);
    client.ask("RDS -r");
    client.is_sent(&["CDS -a -b", "EDS -a"]);
}

/// The gateway has this, and what ends route configuration `r`.
fn without_r(text: &str) -> Snapshot {
    let body: Arc<[Bytes]> = Arc::new([Bytes::from_static(b"r@9")]);
    snapshot(text).with(Resource::ending(ResourceType::RouteConfiguration, "r", [9; 16], body))
}

#[test]
fn what_ends_a_route_configuration_comes_once_the_listener_that_does_without_has_its_own() {
    for mut client in both_settled() {
        client.stream.on_snapshot(without_r("CDS a@1; EDS a@1; LDS l@2; RDS s@1"));
        client.accepts("LDS l@2");
        // The old listener still serves with the old routes.
        client.is_sent(&[]);
        client.ask(if client.protocol == Protocol::Delta { "RDS +s" } else { "RDS r s" });
        client.accepts("RDS s@1");
        client.accepts("RDS r@9");
        client.is_sent(&[]);
        assert_eq!(client.learned(), []);
    }
}

#[test]
fn what_ends_what_a_client_does_not_have_is_not_waited_for() {
    for mut client in both_settled() {
        client.stream.on_snapshot(without_r("CDS a@1; EDS a@1; LDS l@2; RDS s@1"));
        client.accepts("LDS l@2");
        client.ask(if client.protocol == Protocol::Delta { "RDS +s -r" } else { "RDS s" });
        client.accepts("RDS s@1");
        // One more that no listener names, and a cluster that goes.
        let body: Arc<[Bytes]> = Arc::new([Bytes::from_static(b"t@9")]);
        let ending = Resource::ending(ResourceType::RouteConfiguration, "t", [9; 16], body);
        client.stream.on_snapshot(without_r("LDS l@2; RDS s@2").with(ending));
        client.accepts("RDS s@2");
        let clusters = client.sent();
        assert!(clusters == ["CDS -a", "EDS -a"] || clusters == ["CDS"], "{clusters:?}");
    }
}

#[test]
fn what_ends_a_route_configuration_comes_too_where_the_listener_that_does_without_is_rejected() {
    for mut client in both_settled() {
        client.stream.on_snapshot(without_r("CDS a@1; EDS a@1; LDS l@2; RDS s@1"));
        client.is_sent(&["LDS l@2"]);
        client.nack("LDS");
        client.is_sent(&[]);
        client.wait(GATE);
        client.is_sent(&["RDS r@9"]);
    }
}

#[test]
fn what_ends_a_route_configuration_waits_no_longer_than_the_bound() {
    for mut client in both_settled() {
        client.stream.on_snapshot(without_r("CDS a@1; EDS a@1; LDS l@2; RDS s@1"));
        client.accepts("LDS l@2");
        client.is_sent(&[]);
        client.wait(GATE);
        client.is_sent(&["RDS r@9"]);
        assert_eq!(client.learned(), [Observation::GateExpired(Gate::Break)]);
    }
}

#[test]
fn a_client_that_reconnects_goes_on_with_its_routes_until_its_listener_does_without() {
    let mut client = Script::new(Protocol::Delta, "");
    client.stream.on_snapshot(without_r("CDS a@1; EDS a@1; LDS l@2; RDS s@1"));
    for request in ["CDS a=1", "EDS +a a=1", "LDS l=1", "RDS +r r=1"] {
        client.ask(request);
    }
    client.accepts("LDS l@2");
    client.is_sent(&[]);
    client.ask("RDS +s");
    client.accepts("RDS s@1");
    client.accepts("RDS r@9");
    client.is_sent(&[]);
}

#[test]
fn removals_wait_for_routes_no_longer_than_the_bound() {
    for mut client in both_settled() {
        client.shall_have("CDS b@1; EDS b@1; LDS l@1; RDS r@2");
        client.sent();
        client.ack("CDS");
        client.is_sent(&["RDS r@2"]);
        client.is_sent(&[]);
        client.wait(GATE);
        let sent = client.sent();
        assert!(sent[0] == "CDS -a" || sent[0] == "CDS b@1", "{sent:?}");
        assert!(client.learned().contains(&Observation::GateExpired(Gate::Switch)));
    }
}

#[test]
fn clusters_of_routes_that_the_client_kept_by_rejecting_the_next_stay() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS b@1; EDS b@1; LDS l@1; RDS r@2");
    client.sent();
    client.ack("CDS");
    client.ack("EDS");
    client.is_sent(&["RDS r@2"]);
    client.nack("RDS");
    client.wait(2 * GATE);
    client.is_sent(&[]);
    client.shall_have("CDS c@1; EDS c@1; LDS l@1; RDS r@3");
    client.is_sent(&["CDS c@1", "EDS c@1"]);
    client.ack("CDS");
    client.ack("EDS");
    client.accepts("RDS r@3");
    client.is_sent(&["CDS -a", "EDS -a"]);
    client.ack("CDS");
    client.is_sent(&["CDS -b"]);
}

#[test]
fn a_listener_that_goes_is_removed_before_its_clusters() {
    for mut client in both_settled() {
        client.shall_have("");
        let listeners = client.sent();
        assert!(listeners == ["LDS -l"] || listeners == ["LDS"], "{listeners:?}");
        client.ack("LDS");
        client.is_sent(&[]);
        client.ask(if client.protocol == Protocol::Delta { "RDS -r" } else { "RDS" });
        let clusters = client.sent();
        assert!(clusters == ["CDS -a", "EDS -a"] || clusters == ["CDS"], "{clusters:?}");
    }
}

#[test]
fn secrets_are_sent_at_once_and_before_listeners() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1; LDS l@1; SDS s@1");
    for request in ["CDS", "LDS", "SDS +s"] {
        client.ask(request);
    }
    client.is_sent(&["SDS s@1", "CDS a@1"]);
    client.ack("CDS");
    client.ack("SDS");
    client.accepts("LDS l@1");
    client.shall_have("CDS a@1; LDS l@1; SDS s@2");
    client.is_sent(&["SDS s@2"]);
}

/// Up to date, with a cluster that refers to a secret.
fn both_with_a_secret() -> [Script; 2] {
    let mut clients = PROTOCOLS.map(|protocol| Script::new(protocol, "CDS a@1; EDS a@1; SDS s@1"));
    for client in &mut clients {
        for (kind, names) in [("CDS", &[][..]), ("EDS", &["a"]), ("SDS", &["s"])] {
            client.ask(&request(client.protocol, kind, names));
        }
        client.sent();
        for kind in ["SDS", "CDS", "EDS"] {
            client.ack(kind);
        }
        client.is_sent(&[]);
    }
    clients
}

#[test]
fn a_secret_precedes_the_cluster_that_refers_to_it() {
    for mut client in both_with_a_secret() {
        client.shall_have("CDS a@2; EDS a@1; SDS s@2");
        client.is_sent(&["SDS s@2", "CDS a@2", "EDS a@1"]);
    }
}

#[test]
fn a_cluster_does_not_overtake_a_secret_that_waits_for_an_answer_but_waits_no_longer_than_the_bound() {
    for mut client in both_with_a_secret() {
        client.shall_have("CDS a@1; EDS a@1; SDS s@2");
        client.is_sent(&["SDS s@2"]);
        client.shall_have("CDS a@2; EDS a@1; SDS s@3");
        client.is_sent(&[]);
        client.ack("SDS");
        client.is_sent(&["SDS s@3", "CDS a@2", "EDS a@1"]);
    }
    for mut client in both_with_a_secret() {
        client.shall_have("CDS a@1; EDS a@1; SDS s@2");
        client.is_sent(&["SDS s@2"]);
        client.shall_have("CDS a@2; EDS a@1; SDS s@3");
        client.wait(GATE / 2);
        client.is_sent(&[]);
        client.wait(GATE / 2);
        client.is_sent(&["SDS s@3", "CDS a@2", "EDS a@1"]);
    }
}

#[test]
fn what_is_asked_for_while_clusters_warm_is_answered_from_what_was_rolled_out() {
    let [mut client, _] = both_settled();
    client.shall_have("CDS a@1 b@1; EDS a@1 b@1; LDS l@1; RDS r@2");
    client.is_sent(&["CDS b@1", "EDS b@1"]);
    client.ask("RDS +r +unknown");
    client.accepts("RDS r@1 -unknown");
    client.ack("CDS");
    client.is_sent(&["RDS r@2"]);
}

#[test]
fn routes_of_a_new_client_wait_for_its_clusters() {
    let mut client = Script::new(Protocol::Delta, "CDS a@1; LDS l@1; RDS r@1");
    client.ask("CDS");
    client.ask("LDS");
    client.ask("RDS +r");
    client.accepts("CDS a@1");
    client.is_sent(&["LDS l@1", "RDS r@1"]);
}

#[test]
fn a_client_that_does_not_ask_for_clusters_gets_its_routes() {
    for protocol in [Protocol::Delta, Protocol::Sotw] {
        let mut client = Script::new(protocol, "CDS a@1; LDS l@1; RDS r@1");
        client.ask("LDS");
        client.accepts("LDS l@1");
        client.ask(if protocol == Protocol::Delta { "RDS +r" } else { "RDS r" });
        client.is_sent(&["RDS r@1"]);
    }
}
