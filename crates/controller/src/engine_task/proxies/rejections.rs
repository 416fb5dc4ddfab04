//! What proxies refuse, or cannot be sent, at present, by Gateway.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use ir::NsName;
use xds::{EnvoyVersion, Event, ResourceType};

/// Envoy's messages about everything that is refused and not yet replaced.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    gateways: HashMap<String, GatewayRejections>,
}

/// What precedes Envoy's messages.
const REFUSES: &str = "Envoy refuses its configuration and goes on with what it had: ";

fn too_old(version: &EnvoyVersion, least: &EnvoyVersion) -> String {
    let EnvoyVersion { major, minor, .. } = least;
    format!(
        "a proxy is Envoy {version}, which is too old: it is sent neither listeners nor routes, and goes on with those that \
         it had; run Envoy {major}.{minor} or later"
    )
}

/// A resource of a type; no name where a response changed none.
type Refused = (ResourceType, String);

/// What the proxies of one Gateway refuse. A response may have thousands of names, and they share its message.
#[derive(Debug, Default)]
struct GatewayRejections {
    streams: HashMap<u64, BTreeMap<Refused, Arc<str>>>,
    /// The messages of all proxies, each with how often it stands in `streams`; sorted, so that the report does not depend
    /// on which proxy came first.
    messages: BTreeMap<Arc<str>, usize>,
    /// Proxies that are too old, by stream, with what they are and what they should be.
    outdated: BTreeMap<u64, (EnvoyVersion, EnvoyVersion)>,
}

impl Rejections {
    /// Takes in an event. Returns the Gateway whose report it changes, with the report; none where all is accepted.
    pub(super) fn take(&mut self, event: &Event) -> Option<(NsName, Option<String>)> {
        let (gateway, changed) = match event {
            Event::Nacked { gateway, stream, kind, names, message, .. } => {
                let of = self.gateways.entry(gateway.clone()).or_default();
                let nameless = names.is_empty().then(String::new);
                let names = names.iter().cloned().chain(nameless);
                (gateway, of.refuse(*stream, names.map(|name| (*kind, name)), message))
            }
            Event::Recovered { gateway, stream, kind, names } => {
                let refused = names.iter().map(|name| (*kind, name.clone()));
                (gateway, self.gateways.get_mut(gateway)?.forget(*stream, refused))
            }
            Event::Acked { gateway, stream, kind, .. } => {
                (gateway, self.gateways.get_mut(gateway)?.forget(*stream, [(*kind, String::new())]))
            }
            Event::Outdated { gateway, stream, version, least } => {
                let of = self.gateways.entry(gateway.clone()).or_default();
                (gateway, of.outdated.insert(*stream, (*version, *least)).is_none())
            }
            Event::Disconnected { gateway, stream } => {
                let of = self.gateways.get_mut(gateway)?;
                let outdated = of.outdated.remove(stream).is_some();
                let refused: Vec<_> = of.streams.get(stream).into_iter().flat_map(|of| of.keys().cloned()).collect();
                (gateway, of.forget(*stream, refused) | outdated)
            }
            _ => return None,
        };
        if !changed {
            return None;
        }
        let report = self.gateways.get(gateway).and_then(GatewayRejections::report);
        if report.is_none() {
            self.gateways.remove(gateway);
        }
        let (namespace, name) = gateway.split_once('/')?;
        Some((NsName::new(namespace, name), report))
    }
}

impl GatewayRejections {
    /// Returns whether the messages changed.
    fn refuse(&mut self, stream: u64, names: impl Iterator<Item = Refused>, message: &str) -> bool {
        let message: Arc<str> = message.into();
        let of_stream = self.streams.entry(stream).or_default();
        let mut changed = false;
        for name in names {
            let count = self.messages.entry(Arc::clone(&message)).or_default();
            *count += 1;
            changed |= *count == 1;
            if let Some(before) = of_stream.insert(name, Arc::clone(&message)) {
                changed |= release(&mut self.messages, &before);
            }
        }
        changed
    }

    /// Returns whether the messages changed.
    fn forget(&mut self, stream: u64, names: impl IntoIterator<Item = Refused>) -> bool {
        let Some(of_stream) = self.streams.get_mut(&stream) else { return false };
        let mut changed = false;
        for name in names {
            if let Some(before) = of_stream.remove(&name) {
                changed |= release(&mut self.messages, &before);
            }
        }
        if of_stream.is_empty() {
            self.streams.remove(&stream);
        }
        changed
    }

    fn report(&self) -> Option<String> {
        let outdated: BTreeSet<_> = self.outdated.values().collect();
        let mut reports: Vec<_> = outdated.into_iter().map(|(version, least)| too_old(version, least)).collect();
        let messages: Vec<&str> = self.messages.keys().map(|message| &**message).collect();
        if !messages.is_empty() {
            reports.push(format!("{REFUSES}{}", messages.join("; ")));
        }
        (!reports.is_empty()).then(|| reports.join(". "))
    }
}

/// Counts a message once less. Returns whether that was the last.
fn release(messages: &mut BTreeMap<Arc<str>, usize>, message: &Arc<str>) -> bool {
    let Some(count) = messages.get_mut(message) else { return false };
    *count -= 1;
    if *count > 0 {
        return false;
    }
    messages.remove(message);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nack(stream: u64, names: &[&str], message: &str) -> Event {
        Event::Nacked {
            gateway: "ns/gw".into(),
            stream,
            kind: ResourceType::Listener,
            names: names.iter().map(ToString::to_string).collect(),
            versions: Vec::new(),
            acknowledged: Vec::new(),
            envoy: None,
            message: message.into(),
        }
    }

    fn recovered(stream: u64, name: &str) -> Event {
        Event::Recovered { gateway: "ns/gw".into(), stream, kind: ResourceType::Listener, names: vec![name.into()] }
    }

    /// What the event changes: the report, `fine` where there is none any more, empty where nothing changes.
    fn report(rejections: &mut Rejections, event: &Event) -> String {
        rejections.take(event).map_or_else(String::new, |(gateway, words)| {
            assert_eq!(gateway, NsName::new("ns", "gw"));
            words.map_or_else(|| "fine".into(), |words| words.replace(REFUSES, ""))
        })
    }

    #[test]
    fn messages_are_reported_until_all_that_was_refused_is_in_order() {
        let mut rejections = Rejections::default();
        assert_eq!(report(&mut rejections, &nack(1, &["a", "b"], "bad")), "bad");
        assert_eq!(report(&mut rejections, &nack(1, &["a", "b"], "bad")), "", "nothing new");
        assert_eq!(report(&mut rejections, &recovered(1, "a")), "", "b is still refused");
        assert_eq!(report(&mut rejections, &recovered(1, "b")), "fine");
        assert!(rejections.gateways.is_empty());
    }

    #[test]
    fn a_proxy_that_leaves_refuses_nothing() {
        let mut rejections = Rejections::default();
        report(&mut rejections, &nack(1, &["a"], "worse"));
        assert_eq!(report(&mut rejections, &nack(2, &["a"], "bad")), "bad; worse");
        let gone = |stream| Event::Disconnected { gateway: "ns/gw".into(), stream };
        assert_eq!(report(&mut rejections, &gone(1)), "bad");
        assert_eq!(report(&mut rejections, &gone(3)), "");
        assert_eq!(report(&mut rejections, &gone(2)), "fine");
    }

    #[test]
    fn a_proxy_that_is_too_old_is_reported_until_it_leaves() {
        let mut rejections = Rejections::default();
        let version = |minor, patch| EnvoyVersion { major: 1, minor, patch };
        let outdated = |stream| Event::Outdated {
            gateway: "ns/gw".into(),
            stream,
            version: version(39, 2),
            least: version(40, 0),
        };
        let old = "a proxy is Envoy 1.39.2, which is too old: it is sent neither listeners nor routes, and goes on with \
                   those that it had; run Envoy 1.40 or later";
        assert_eq!(report(&mut rejections, &outdated(1)), old);
        assert_eq!(report(&mut rejections, &outdated(2)), old, "of two that are alike it is said once");
        assert_eq!(report(&mut rejections, &nack(2, &["a"], "bad")), format!("{old}. bad"));
        let gone = |stream| Event::Disconnected { gateway: "ns/gw".into(), stream };
        assert_eq!(report(&mut rejections, &gone(2)), old);
        assert_eq!(report(&mut rejections, &gone(1)), "fine");
        assert!(rejections.gateways.is_empty());
    }

    #[test]
    fn a_removal_that_was_refused_is_in_order_with_the_next_that_is_accepted() {
        let mut rejections = Rejections::default();
        assert_eq!(report(&mut rejections, &nack(1, &[], "bad")), "bad");
        let acked =
            Event::Acked { gateway: "ns/gw".into(), stream: 1, kind: ResourceType::Listener, versions: Vec::new() };
        assert_eq!(report(&mut rejections, &acked), "fine");
    }

    #[test]
    fn names_that_were_refused_together_share_the_message() {
        let mut rejections = Rejections::default();
        let names: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(report(&mut rejections, &nack(1, &names, "bad")), "bad");
        let refused = &rejections.gateways["ns/gw"].streams[&1];
        let first = refused.values().next().expect("there are some");
        assert!(refused.values().all(|words| Arc::ptr_eq(words, first)));
        assert_eq!(report(&mut rejections, &nack(1, &names[..999], "worse")), "bad; worse");
        assert_eq!(report(&mut rejections, &nack(1, &names[999..], "worse")), "worse");
        assert_eq!(report(&mut rejections, &recovered(2, "1")), "", "another proxy");
        let gone = Event::Disconnected { gateway: "ns/gw".into(), stream: 1 };
        assert_eq!(report(&mut rejections, &gone), "fine");
        assert!(rejections.gateways.is_empty());
    }
}
