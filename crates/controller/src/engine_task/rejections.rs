//! What proxies refuse at present, by Gateway.

use std::collections::{BTreeMap, HashMap};

use ir::NsName;
use xds::{Event, ResourceType};

/// A resource on a stream; no name where a response changed none.
type Refused = (u64, ResourceType, String);

/// Envoy's words about everything that is refused and not yet replaced.
#[derive(Debug, Default)]
pub(super) struct Rejections {
    gateways: HashMap<String, BTreeMap<Refused, String>>,
}

impl Rejections {
    /// Takes note of an event. Returns the Gateway whose report it changes, with the words; none where all is accepted.
    pub(super) fn note(&mut self, event: &Event) -> Option<(NsName, Option<String>)> {
        let (gateway, before) = match event {
            Event::Nacked { gateway, stream, kind, names, message, .. } => {
                let before = self.words(gateway);
                let refused = self.gateways.entry(gateway.clone()).or_default();
                if names.is_empty() {
                    refused.insert((*stream, *kind, String::new()), message.clone());
                }
                for name in names {
                    refused.insert((*stream, *kind, name.clone()), message.clone());
                }
                (gateway, before)
            }
            Event::Recovered { gateway, stream, kind, names } => {
                let before = self.words(gateway);
                for name in names {
                    self.forget(gateway, |refused| *refused == (*stream, *kind, name.clone()));
                }
                (gateway, before)
            }
            Event::Acked { gateway, stream, kind, .. } => {
                self.gateways.get(gateway)?;
                let before = self.words(gateway);
                self.forget(gateway, |refused| *refused == (*stream, *kind, String::new()));
                (gateway, before)
            }
            Event::Disconnected { gateway, stream } => {
                self.gateways.get(gateway)?;
                let before = self.words(gateway);
                self.forget(gateway, |(of, ..)| of == stream);
                (gateway, before)
            }
            _ => return None,
        };
        let after = self.words(gateway);
        if before == after {
            return None;
        }
        let (namespace, name) = gateway.split_once('/')?;
        Some((NsName::new(namespace, name), after))
    }

    /// The words of all proxies, each once and in an order that does not depend on which spoke first.
    fn words(&self, gateway: &str) -> Option<String> {
        let mut words: Vec<&str> = self.gateways.get(gateway)?.values().map(String::as_str).collect();
        words.sort_unstable();
        words.dedup();
        Some(words.join("; "))
    }

    fn forget(&mut self, gateway: &str, which: impl Fn(&Refused) -> bool) {
        if let Some(refused) = self.gateways.get_mut(gateway) {
            refused.retain(|key, _| !which(key));
            if refused.is_empty() {
                self.gateways.remove(gateway);
            }
        }
    }
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
            message: message.into(),
        }
    }

    fn recovered(stream: u64, name: &str) -> Event {
        Event::Recovered { gateway: "ns/gw".into(), stream, kind: ResourceType::Listener, names: vec![name.into()] }
    }

    /// What the event changes: the words, `fine` where there are none any more, empty where nothing changes.
    fn told(rejections: &mut Rejections, event: &Event) -> String {
        rejections.note(event).map_or_else(String::new, |(gateway, words)| {
            assert_eq!(gateway, NsName::new("ns", "gw"));
            words.unwrap_or_else(|| "fine".into())
        })
    }

    #[test]
    fn words_are_told_until_all_that_was_refused_is_in_order() {
        let mut rejections = Rejections::default();
        assert_eq!(told(&mut rejections, &nack(1, &["a", "b"], "bad")), "bad");
        assert_eq!(told(&mut rejections, &nack(1, &["a", "b"], "bad")), "", "nothing new");
        assert_eq!(told(&mut rejections, &recovered(1, "a")), "", "b is still refused");
        assert_eq!(told(&mut rejections, &recovered(1, "b")), "fine");
        assert!(rejections.gateways.is_empty());
    }

    #[test]
    fn a_proxy_that_leaves_refuses_nothing() {
        let mut rejections = Rejections::default();
        told(&mut rejections, &nack(1, &["a"], "worse"));
        assert_eq!(told(&mut rejections, &nack(2, &["a"], "bad")), "bad; worse");
        let gone = |stream| Event::Disconnected { gateway: "ns/gw".into(), stream };
        assert_eq!(told(&mut rejections, &gone(1)), "bad");
        assert_eq!(told(&mut rejections, &gone(3)), "");
        assert_eq!(told(&mut rejections, &gone(2)), "fine");
    }

    #[test]
    fn a_removal_that_was_refused_is_in_order_with_the_next_that_is_accepted() {
        let mut rejections = Rejections::default();
        assert_eq!(told(&mut rejections, &nack(1, &[], "bad")), "bad");
        let acked =
            Event::Acked { gateway: "ns/gw".into(), stream: 1, kind: ResourceType::Listener, versions: Vec::new() };
        assert_eq!(told(&mut rejections, &acked), "fine");
    }
}
