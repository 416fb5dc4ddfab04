//! Everything that is wrong, for those who list or count it.

use api::{Kind, ObjectId};
use ir::{NsName, Problem, Severity};

use super::{Translator, object_id};
use crate::{
    internal,
    route::direct_response::RefusedResponses,
    status::{class::ClassStatus, gateway::GatewayStatus, policy::PolicyStatus, route::RouteStatus},
    tables::input::{Secrets, Services, Slices},
};

impl Translator {
    /// Everything that is wrong with one object, but that its status cannot be computed.
    pub fn problems_of(&self, id: &ObjectId) -> Vec<Problem> {
        let engine = &self.engine;
        let key = NsName::new(id.namespace.clone(), id.name.clone());
        match id.kind {
            Kind::GatewayClass => engine.get::<ClassStatus>(&id.name).map(|report| report.problems.clone()),
            Kind::Gateway => engine.get::<GatewayStatus>(&key).map(|report| report.problems.clone()),
            Kind::HttpRoute => engine.get::<RouteStatus>(&key).map(|verdict| verdict.problems()),
            Kind::TrafficPolicy | Kind::RewritePolicy | Kind::DelegationPolicy => {
                engine.get::<PolicyStatus>(id).map(|report| report.problems.clone())
            }
            Kind::DirectResponse => engine.get::<RefusedResponses>(&key).map(|problem| vec![Problem::clone(&problem)]),
            Kind::Service => engine.get::<Services>(&key).map(|service| left_out(&service.invalid)),
            Kind::EndpointSlice => engine.get::<Slices>(&key).map(|slice| left_out(&slice.invalid)),
            Kind::Secret => engine.get::<Secrets>(&key).map(|secret| left_out(&secret.invalid)),
            _ => None,
        }
        .unwrap_or_default()
    }

    /// Everything that is wrong with any object, by object. Looks at all of them: for people, not for a hot path.
    pub fn problems(&self) -> Vec<(ObjectId, Problem)> {
        let mut problems = Vec::new();
        let mut add = |id: ObjectId, list: &[Problem]| {
            problems.extend(list.iter().map(|problem| (id.clone(), problem.clone())));
        };
        for (name, report) in self.engine.rows::<ClassStatus>() {
            add(ObjectId::new(Kind::GatewayClass, "", name), &report.problems);
        }
        for (key, report) in self.engine.rows::<GatewayStatus>() {
            add(object_id(Kind::Gateway, key), &report.problems);
        }
        for (key, verdict) in self.engine.rows::<RouteStatus>() {
            add(object_id(Kind::HttpRoute, key), &verdict.problems());
        }
        for (id, report) in self.engine.rows::<PolicyStatus>() {
            add(id, &report.problems);
        }
        for (key, problem) in self.engine.rows::<RefusedResponses>() {
            add(object_id(Kind::DirectResponse, key), std::slice::from_ref(&*problem));
        }
        for (key, service) in self.engine.rows::<Services>() {
            add(object_id(Kind::Service, key), &left_out(&service.invalid));
        }
        for (key, slice) in self.engine.rows::<Slices>() {
            add(object_id(Kind::EndpointSlice, key), &left_out(&slice.invalid));
        }
        for (key, secret) in self.engine.rows::<Secrets>() {
            add(object_id(Kind::Secret, key), &left_out(&secret.invalid));
        }
        self.add_internal_faults(&mut problems);
        problems.sort();
        problems
    }

    /// What is not told in a status, since the status itself cannot be computed.
    fn add_internal_faults(&self, problems: &mut Vec<(ObjectId, Problem)>) {
        let classes = self.engine.poisoned::<ClassStatus>().into_iter();
        let classes = classes.map(|(name, _)| ObjectId::new(Kind::GatewayClass, "", name));
        let gateways =
            self.engine.poisoned::<GatewayStatus>().into_iter().map(|(key, _)| object_id(Kind::Gateway, key));
        let routes = self.engine.poisoned::<RouteStatus>().into_iter().map(|(key, _)| object_id(Kind::HttpRoute, key));
        let policies = self.engine.poisoned::<PolicyStatus>().into_iter().map(|(id, _)| id);
        let all = classes.chain(gateways).chain(routes).chain(policies);
        problems.extend(all.map(|id| (id, internal::problem(Severity::Refused, ""))));
    }
}

fn left_out(violations: &[api::Violation]) -> Vec<Problem> {
    let problem = |violation: &api::Violation| {
        let message = format!("{}; this entry is left out", violation.message);
        Problem::new(Severity::Ignored, "UnsupportedValue", violation.path.clone(), message)
    };
    violations.iter().map(problem).collect()
}
