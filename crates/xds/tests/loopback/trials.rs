//! Clients that are asked what they take of a route configuration that they rejected.

use xds::{Answer, Trial, Version};

use super::*;

fn routes(version: u8) -> Resource {
    Resource::new(ResourceType::RouteConfiguration, "r", [version; 16], Bytes::from(vec![version]))
}

fn trial(number: u64, version: u8) -> Trial {
    let [rejected, before] = [2, 1].map(|version| Version::from([version; 16]));
    Trial { number, rejected, before: Some(before), resource: routes(version) }
}

/// What the client is sent.
fn body(response: &DeltaDiscoveryResponse) -> &[u8] {
    &response.resources[0].resource.as_ref().unwrap().value
}

async fn stream(server: &mut Running) -> u64 {
    loop {
        if let Event::Connected { stream, .. } = server.event().await {
            return stream;
        }
    }
}

async fn tried(server: &mut Running) -> (u64, u64, Answer) {
    loop {
        match server.event().await {
            Event::Tried { stream, number, answer, .. } => return (stream, number, answer),
            Event::Disconnected { .. } => panic!("it has gone"),
            _ => {}
        }
    }
}

/// A client that goes on with version 1 and rejected version 2.
async fn rejecting(server: &mut Running) -> (Client, u64) {
    server.hub.publish("ns/gw", Snapshot::new().with(routes(1)));
    let ask = DeltaDiscoveryRequest {
        type_url: ResourceType::RouteConfiguration.type_url().into(),
        resource_names_subscribe: vec!["r".into()],
        ..ask_delta()
    };
    let mut client = Client::asking(server.address, ask).await;
    let stream = stream(server).await;
    client.next().await;
    server.hub.publish("ns/gw", Snapshot::new().with(routes(2)));
    let second = client.message().await;
    client.answer(&second, Some("no")).await;
    (client, stream)
}

#[tokio::test]
async fn a_client_that_rejected_something_is_asked_what_it_takes_and_goes_back_to_what_it_had() {
    let mut server = ready(|_| {}).await;
    let (mut client, stream) = rejecting(&mut server).await;
    loop {
        if let Event::Nacked { stream: of, .. } = server.event().await {
            assert_eq!(of, stream);
            break;
        }
    }
    for (number, version, error) in [(7, 11, Some("nor that")), (8, 12, None)] {
        server.hub.try_out(stream, Some(trial(number, version)));
        let asked = client.message().await;
        assert_eq!((names(&asked), body(&asked)), (vec!["r"], &[version][..]));
        client.answer(&asked, error).await;
        let answer = error.map_or(Answer::Taken, |words| Answer::Rejected(words.into()));
        assert_eq!(tried(&mut server).await, (stream, number, answer));
    }
    server.hub.try_out(stream, None);
    assert_eq!(body(&client.next().await), [1]);
    server.hub.publish("ns/gw", Snapshot::new().with(routes(3)));
    assert_eq!(body(&client.next().await), [3]);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_midst_of_a_trial_is_told_as_gone_and_nobody_waits_for_it() {
    let mut server = ready(|_| {}).await;
    let (client, stream) = rejecting(&mut server).await;
    server.hub.try_out(stream, Some(trial(1, 11)));
    // Where it is asked before its rejection was read, there is nothing to ask.
    server.hub.try_out(stream, Some(trial(2, 11)));
    drop(client);
    loop {
        if let Event::Disconnected { stream: of, .. } = server.event().await {
            assert_eq!(of, stream);
            break;
        }
    }
    server.hub.try_out(stream, Some(trial(3, 11)));
    server.hub.publish("ns/gw", Snapshot::new().with(routes(3)));
    let mut another = server.delta().await;
    another
        .requests
        .send(DeltaDiscoveryRequest {
            type_url: ResourceType::RouteConfiguration.type_url().into(),
            resource_names_subscribe: vec!["r".into()],
            ..DeltaDiscoveryRequest::default()
        })
        .await
        .unwrap();
    loop {
        let response = another.next().await;
        if !response.resources.is_empty() {
            assert_eq!(body(&response), [3]);
            break;
        }
    }
}
