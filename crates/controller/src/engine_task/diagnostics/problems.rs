//! How many problems there are, kept up to date by what changed, so that a scrape looks at no object.

use std::collections::HashMap;

use api::ObjectId;
use ir::Severity;
use translate::Translator;

use crate::{
    files::FileProblem,
    metrics::{Metrics, SeverityLabel},
};

const SEVERITIES: [Severity; 4] = [Severity::Refused, Severity::Replaced, Severity::Ignored, Severity::Warning];

/// So many of each severity, in the order of [`SEVERITIES`].
type Counts = [i64; SEVERITIES.len()];

/// The problems of objects and files, counted.
#[derive(Debug, Default)]
pub(super) struct Problems {
    /// Of the objects that have any.
    objects: HashMap<ObjectId, Counts>,
    of_objects: Counts,
    of_files: Counts,
}

impl Problems {
    /// Takes note of objects whose problems may have changed.
    pub(super) fn note<'a>(&mut self, objects: impl IntoIterator<Item = &'a ObjectId>, translator: &Translator) {
        for id in objects {
            let now = count(translator.problems_of(id).iter().map(|problem| problem.severity));
            let before =
                if now == Counts::default() { self.objects.remove(id) } else { self.objects.insert(id.clone(), now) };
            for (all, (now, before)) in self.of_objects.iter_mut().zip(now.iter().zip(before.unwrap_or_default())) {
                *all += now - before;
            }
        }
    }

    /// Takes note of what is wrong with files.
    pub(super) fn note_files(&mut self, problems: &[FileProblem]) {
        self.of_files = count(problems.iter().map(|problem| problem.problem.severity));
    }

    /// Shows the figures. Of an object that cannot be decoded nothing is known but that.
    pub(super) fn show(&self, undecodable: usize, metrics: &Metrics) {
        for ((severity, objects), files) in SEVERITIES.iter().zip(self.of_objects).zip(self.of_files) {
            let undecodable = if *severity == Severity::Refused { undecodable } else { 0 };
            let undecodable = i64::try_from(undecodable).unwrap_or(i64::MAX);
            metrics.problems.get_or_create(&SeverityLabel::of(severity.to_string())).set(objects + files + undecodable);
        }
    }
}

fn count(severities: impl Iterator<Item = Severity>) -> Counts {
    let mut counts = Counts::default();
    for severity in severities {
        for (known, count) in SEVERITIES.iter().zip(&mut counts) {
            *count += i64::from(*known == severity);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use translate::Change;

    use super::*;

    fn object(kind: &str, name: &str, spec: Value) -> api::Object {
        let group = match kind {
            "DirectResponse" => "gateway.kgateway.dev/v1alpha1",
            "EndpointSlice" => "discovery.k8s.io/v1",
            _ => "gateway.networking.k8s.io/v1",
        };
        let mut object = json!({"apiVersion": group, "kind": kind, "metadata": {"namespace": "apps", "name": name}});
        if let (Value::Object(object), Value::Object(spec)) = (&mut object, spec) {
            object.extend(spec);
        }
        api::decode(object).expect("a sound object").object
    }

    fn shown(metrics: &Metrics) -> Counts {
        SEVERITIES.map(|severity| metrics.problems.get_or_create(&SeverityLabel::of(severity.to_string())).get())
    }

    #[test]
    fn what_is_counted_as_it_changes_is_what_a_look_at_everything_finds() {
        let (mut translator, mut problems, metrics) =
            (Translator::new(ir::Settings::default()), Problems::default(), Metrics::default());
        let answer = |status: u32| object("DirectResponse", "r", json!({"spec": {"status": status}}));
        let slice = |address: &str| {
            let endpoints = json!([{"addresses": [address]}]);
            object("EndpointSlice", "s", json!({"addressType": "IPv4", "ports": [], "endpoints": endpoints}))
        };
        let route = |gateway: &str| {
            object(
                "HTTPRoute",
                "r",
                json!({"spec": {"parentRefs": [{"name": gateway}], "hostnames": ["a.example.com"],
                "rules": [{"backendRefs": [{"name": "gone", "port": 80}]}]}}),
            )
        };
        let class = json!({"spec": {"controllerName": "portcullis.dev/gateway-controller"}});
        let class = object("GatewayClass", "ours", class);
        let listeners = json!([{"name": "web", "port": 80, "protocol": "HTTP"}]);
        let gateway = json!({"spec": {"gatewayClassName": "ours", "listeners": listeners}});
        let gateway = object("Gateway", "edge", gateway);
        let mut seen = Counts::default();
        for change in [
            Change::Put(answer(999)),
            Change::Put(class),
            Change::Put(slice("nowhere")),
            Change::Put(gateway.clone()),
            Change::Put(route("edge")),
            Change::Put(answer(200)),
            Change::Put(route("none")),
            Change::Put(slice("10.0.0.1")),
            Change::Put(slice("elsewhere")),
            Change::Remove(gateway.id()),
            Change::Remove(slice("elsewhere").id()),
            Change::Remove(route("none").id()),
        ] {
            translator.apply(change);
            let changes = translator.settle();
            problems.note(changes.statuses.iter().chain(&changes.problems), &translator);
            problems.show(0, &metrics);
            let all = count(translator.problems().into_iter().map(|(_, problem)| problem.severity));
            assert_eq!(shown(&metrics), all);
            seen = std::array::from_fn(|at| seen[at].max(all[at]));
        }
        assert!(seen[0] > 0 && seen[1] > 0 && seen[2] > 0, "problems of several severities: {seen:?}");
        assert_eq!(shown(&metrics), Counts::default(), "nothing is left");
        problems.show(2, &metrics);
        assert_eq!(shown(&metrics), [2, 0, 0, 0], "what cannot be decoded is refused");
    }
}
