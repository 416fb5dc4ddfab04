//! What statuses say, for those who write or show them.

use api::{Kind, ObjectId};
use ir::NsName;

use super::{Translator, object_id};
use crate::status::{
    StatusRow, class::ClassStatus, gateway::GatewayStatus, json, policy::PolicyStatus, route::RouteStatus, value,
};

impl Translator {
    /// The status of an object, as the text of a JSON object; none where it is not ours to judge.
    pub fn status(&self, id: &ObjectId) -> Option<String> {
        let key = NsName::new(id.namespace.clone(), id.name.clone());
        match id.kind {
            Kind::GatewayClass => self.engine.get::<ClassStatus>(&id.name)?.status.as_ref().map(json),
            Kind::Gateway => self.engine.get::<GatewayStatus>(&key)?.status.as_ref().map(json),
            Kind::HttpRoute => self.engine.get::<RouteStatus>(&key)?.status().as_ref().map(json),
            Kind::TrafficPolicy | Kind::RewritePolicy | Kind::DelegationPolicy => {
                self.engine.get::<PolicyStatus>(id)?.status.as_ref().map(json)
            }
            _ => None,
        }
    }

    /// All statuses, by object: for people, not for a hot path.
    pub fn statuses(&self) -> Vec<(ObjectId, serde_json::Value)> {
        self.status_rows().into_iter().map(|(id, row)| (id, row.value())).collect()
    }

    /// The same, not written out yet, so that it can be elsewhere.
    pub fn status_rows(&self) -> Vec<(ObjectId, StatusRow)> {
        let classes = self.engine.rows::<ClassStatus>().into_iter().filter(|(_, row)| row.status.is_some());
        let classes = classes.map(|(name, row)| {
            (ObjectId::new(Kind::GatewayClass, "", name), StatusRow::new(move || value(row.status.as_ref())))
        });
        let gateways = self.engine.rows::<GatewayStatus>().into_iter().filter(|(_, row)| row.status.is_some());
        let gateways = gateways
            .map(|(key, row)| (object_id(Kind::Gateway, key), StatusRow::new(move || value(row.status.as_ref()))));
        let routes = self.engine.rows::<RouteStatus>().into_iter().filter(|(_, row)| row.has_status());
        let routes =
            routes.map(|(key, row)| (object_id(Kind::HttpRoute, key), StatusRow::new(move || value(row.status()))));
        let policies = self.engine.rows::<PolicyStatus>().into_iter().filter(|(_, row)| row.status.is_some());
        let policies = policies.map(|(id, row)| (id, StatusRow::new(move || value(row.status.as_ref()))));
        classes.chain(gateways).chain(routes).chain(policies).collect()
    }
}
