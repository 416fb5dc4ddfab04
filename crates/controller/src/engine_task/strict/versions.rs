//! Proxies of other versions than the Envoy that judges: it may judge otherwise than they.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ir::NsName;
use translate::Translator;
use xds::{EnvoyVersion, Event};

/// Which versions the proxies of each Gateway have.
#[derive(Debug, Default)]
pub(super) struct Versions {
    streams: HashMap<u64, (NsName, EnvoyVersion)>,
    /// How many streams have each.
    counts: BTreeMap<NsName, BTreeMap<EnvoyVersion, usize>>,
    /// The version that judges, as it was last known.
    judge: Option<String>,
    /// Gateways of which nobody has looked at that since something changed.
    changed: BTreeSet<NsName>,
    /// Gateways with proxies of other versions.
    others: BTreeMap<NsName, BTreeSet<EnvoyVersion>>,
}

impl Versions {
    /// Takes note of a proxy that comes or goes.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Connected { gateway, envoy: Some(version), stream, .. } => {
                let Some((namespace, name)) = gateway.split_once('/') else { return };
                let gateway = NsName::new(namespace, name);
                *self.counts.entry(gateway.clone()).or_default().entry(*version).or_default() += 1;
                self.changed.insert(gateway.clone());
                self.streams.insert(*stream, (gateway, *version));
            }
            Event::Disconnected { stream, .. } => {
                let Some((gateway, version)) = self.streams.remove(stream) else { return };
                let Some(counts) = self.counts.get_mut(&gateway) else { return };
                let count = counts.entry(version).or_default();
                *count -= 1;
                if *count == 0 {
                    counts.remove(&version);
                }
                if counts.is_empty() {
                    self.counts.remove(&gateway);
                }
                self.changed.insert(gateway);
            }
            _ => {}
        }
    }

    /// Tells Gateways whose proxies are of another version than `judge`; none where it cannot be reached, and is taken for what it
    /// was. Whether anything was written.
    pub(super) fn tell(&mut self, judge: Option<&str>, translator: &mut Translator) -> bool {
        if let Some(judge) = judge.filter(|judge| self.judge.as_deref() != Some(judge)) {
            self.judge = Some(judge.to_owned());
            self.changed.extend(self.counts.keys().cloned());
        }
        let Some(judge) = &self.judge else { return false };
        let mut wrote = false;
        for gateway in std::mem::take(&mut self.changed) {
            let versions = self.counts.get(&gateway).into_iter().flat_map(BTreeMap::keys).copied();
            let others: BTreeSet<_> = versions.filter(|version| version.to_string() != *judge).collect();
            let names: Vec<_> = others.iter().map(|version| format!("Envoy {version}")).collect();
            let why = (!names.is_empty()).then(|| {
                let names = names.join(", ");
                format!(
                    "proxies are {names}, and Envoy {judge} judges what is sent to them, which may judge otherwise; have them be the \
                     same build"
                )
            });
            if others.is_empty() {
                self.others.remove(&gateway);
            } else {
                self.others.insert(gateway.clone(), others);
            }
            wrote |= translator.set_version_not_judged(&gateway, why);
        }
        wrote
    }

    /// How many versions proxies have that nobody judges for.
    pub(super) fn not_judged(&self) -> usize {
        self.others.values().flatten().collect::<BTreeSet<_>>().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(gateway: &str, stream: u64, minor: u32) -> Event {
        let envoy = Some(EnvoyVersion { major: 1, minor, patch: 0 });
        Event::Connected { gateway: gateway.into(), node_id: String::new(), envoy, stream }
    }

    #[test]
    fn gateways_with_proxies_of_another_version_are_told_until_these_are_gone() {
        let mut translator = Translator::new(ir::Settings::default());
        let mut versions = Versions::default();
        versions.take(&connected("ns/a", 1, 40));
        versions.take(&connected("ns/a", 2, 41));
        versions.take(&connected("ns/b", 3, 40));
        assert!(!versions.tell(None, &mut translator), "nobody knows who judges");
        assert!(versions.tell(Some("1.40.0"), &mut translator));
        assert_eq!(versions.others.keys().collect::<Vec<_>>(), [&NsName::new("ns", "a")]);
        assert_eq!(versions.not_judged(), 1);
        assert!(!versions.tell(None, &mut translator), "who is away is taken for what it was");
        assert_eq!(versions.not_judged(), 1);
        versions.take(&Event::Disconnected { gateway: "ns/a".into(), stream: 2 });
        assert!(versions.tell(Some("1.40.0"), &mut translator));
        assert_eq!(versions.not_judged(), 0);
        assert!(versions.tell(Some("1.41.0"), &mut translator), "it was replaced by another one");
        assert_eq!((versions.others.len(), versions.not_judged()), (2, 1));
        for (gateway, stream) in [("ns/a", 1), ("ns/b", 3)] {
            versions.take(&Event::Disconnected { gateway: gateway.into(), stream });
        }
        assert!(versions.tell(None, &mut translator));
        assert!(versions.counts.is_empty() && versions.streams.is_empty() && versions.others.is_empty());
    }
}
