//! Ports of a Service that the API server does not take.

use std::collections::BTreeSet;

use ir::{Port, backend::Transport};
use serde_json::Value;

/// The ports that a Service is to have.
pub(super) fn of(service: &Value) -> impl Iterator<Item = (Port, Transport)> {
    service["spec"]["ports"].as_array().into_iter().flatten().filter_map(key)
}

/// A Service without some of its ports.
pub(super) fn without(service: &Value, left_out: &BTreeSet<(Port, Transport)>) -> Value {
    let mut service = service.clone();
    if let Some(ports) = service["spec"]["ports"].as_array_mut() {
        ports.retain(|port| key(port).is_none_or(|port| !left_out.contains(&port)));
    }
    service
}

fn key(port: &Value) -> Option<(Port, Transport)> {
    // TCP if it is not said.
    let transport = if port["protocol"] == "UDP" { Transport::Udp } else { Transport::Tcp };
    Some((port["port"].as_u64()?.try_into().ok()?, transport))
}

/// Finds which ports are at fault, by few questions: halves of what is refused are tried, beside all that is taken already.
#[derive(Debug)]
pub(super) struct Search<W> {
    left_out: BTreeSet<(Port, Transport)>,
    /// What is to be tried, the next one last.
    groups: Vec<Vec<(Port, Transport)>>,
    at_fault: Vec<((Port, Transport), W)>,
}

impl<W> Search<W> {
    /// A search among these, of which any may be at fault, and none.
    pub(super) fn among(ports: Vec<(Port, Transport)>) -> Self {
        let left_out = ports.iter().copied().collect();
        let groups = Some(ports).filter(|ports| !ports.is_empty()).into_iter().collect();
        Self { left_out, groups, at_fault: Vec::new() }
    }

    /// The ports without which a Service is to be tried next; none once all is known.
    pub(super) fn next(&mut self) -> Option<&BTreeSet<(Port, Transport)>> {
        for port in self.groups.last()? {
            self.left_out.remove(port);
        }
        Some(&self.left_out)
    }

    /// Takes the answer to that: why it is refused, or that it is not.
    pub(super) fn answer(&mut self, refused: Option<W>) {
        let (Some(group), Some(why)) = (self.groups.pop(), refused) else { return };
        self.left_out.extend(group.iter().copied());
        if let [port] = group[..] {
            self.at_fault.push((port, why));
        } else {
            let (first, second) = group.split_at(group.len() / 2);
            self.groups.extend([second.to_vec(), first.to_vec()]);
        }
    }

    /// Those at fault, each with why it is refused.
    pub(super) fn at_fault(self) -> Vec<((Port, Transport), W)> {
        self.at_fault
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_told_apart_by_number_and_transport() {
        let service = json!({"spec": {"ports": [{"port": 53}, {"port": 53, "protocol": "UDP"}, {"port": 80, "protocol": "TCP"}]}});
        assert_eq!(
            of(&service).collect::<Vec<_>>(),
            [(53, Transport::Tcp), (53, Transport::Udp), (80, Transport::Tcp)]
        );
        let left = without(&service, &BTreeSet::from([(53, Transport::Tcp)]));
        assert_eq!(of(&left).collect::<Vec<_>>(), [(53, Transport::Udp), (80, Transport::Tcp)]);
    }

    #[test]
    fn those_at_fault_are_found_among_many_by_few_questions() {
        let ports: Vec<_> = (1..=256).map(|port| (port, Transport::Tcp)).collect();
        for wrong in [&[7][..], &[1, 256], &[]] {
            let (mut search, mut asked) = (Search::among(ports.clone()), 0);
            while let Some(left_out) = search.next() {
                asked += 1;
                let refused = wrong.iter().find(|port| !left_out.contains(&(**port, Transport::Tcp)));
                search.answer(refused.copied());
            }
            let found = search.at_fault();
            assert_eq!(
                found.iter().map(|((port, _), why)| (*port, *why)).collect::<Vec<_>>(),
                wrong.iter().map(|port| (*port, *port)).collect::<Vec<_>>()
            );
            assert!(asked <= 1 + 16 * wrong.len(), "{asked} for {wrong:?}");
        }
    }
}
