//! Reading TCPRoutes, UDPRoutes and TLSRoutes: their one rule has backends, and matches nothing.

use std::sync::Arc;

use api::{http_route::HttpBackendRef, stream_route::StreamRouteRule};
use ir::{
    RouteId,
    route::{Handling, Head, RuleHead, RuleSpec, Unhandled},
};

use super::{Written, backends, head};

/// Declares the readers of kinds.
macro_rules! streams {
    ($($kind:ident, $hostnames:expr, $features:expr;)+) => {$(
        impl Written for api::$kind {
            fn features() -> &'static [&'static str] {
                $features
            }

            fn generation(&self) -> i64 {
                self.metadata.generation
            }

            fn head(&self) -> Head {
                let hostnames: fn(&Self) -> &[Arc<str>] = $hostnames;
                let written = head::Written {
                    metadata: &self.metadata,
                    parents: &self.spec.parent_refs,
                    hostnames: hostnames(self),
                    refused: self.spec.refused_fields(),
                };
                // The CRDs have one rule.
                head::read(written, self.spec.rules.iter().take(1).map(rule_head))
            }

            fn rule(&self, id: &RouteId, index: usize, field: &str) -> Option<RuleSpec> {
                Some(read(self.spec.rules.get(index)?, id, field))
            }

            fn matches(&self, index: usize, _: &str) -> Option<RuleSpec> {
                Some(rule_of(self.spec.rules.get(index)?, Err(Unhandled::Unknown)))
            }
        }
    )+};
}

streams! {
    TlsRoute, |route| &route.spec.hostnames, &["TLSRoute", "TLSRouteModeMixed", "TLSRouteModeTerminate"];
    TcpRoute, |_| &[], &["TCPRoute"];
    UdpRoute, |_| &[], &["UDPRoute"];
}

fn rule_head(rule: &StreamRouteRule) -> RuleHead {
    RuleHead { name: name(rule), delegates: false }
}

fn name(rule: &StreamRouteRule) -> Option<Arc<str>> {
    rule.name.clone().filter(|name| !name.is_empty())
}

fn read(rule: &StreamRouteRule, owner: &RouteId, field: &str) -> RuleSpec {
    let written: Vec<HttpBackendRef> = rule.backend_refs.iter().cloned().map(Into::into).collect();
    let mut handling = Handling::default();
    let read = backends::read(&written, owner.kind, field, &mut handling);
    rule_of(rule, read.map(|()| handling).map_err(Unhandled::Invalid))
}

fn rule_of(rule: &StreamRouteRule, handling: Result<Handling, Unhandled>) -> RuleSpec {
    RuleSpec { name: name(rule), matches: Box::default(), dropped: Box::default(), ignored: Box::default(), handling }
}
