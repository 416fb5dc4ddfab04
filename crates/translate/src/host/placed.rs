//! A rule where a listener serves it, as it was offered or cleared, and where of that it answers by itself.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use engine::Scope;
use envoy::{
    bytes::{Hash, Row},
    route::RouteAt,
};
use ir::{Chain, Hostname, ListenerId, Problem, RouteKind};

use crate::{
    resolve::{ANYWHERE, EnvoyRoute, Resolved, resolved_at},
    tables::attachment::{Attached, Attachment},
};

/// A rule and its root as they are where a listener serves it, found once for all that is made of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(super) attached: Arc<Attached>,
    pub(super) resolved: Arc<Resolved>,
    /// How clients reach the listener, where that was judged with it; what stands in the tables otherwise.
    pub(super) at: Option<RouteAt>,
    /// Where it answers by itself, of what was cleared; of most rules nowhere.
    shut: Option<Box<Shut>>,
}

/// Where what was cleared may not be served: its matches stand, and answer by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shut {
    everywhere: bool,
    hostnames: Vec<Hostname>,
    /// Its Envoy routes, by their content hash.
    rows: BTreeMap<Hash, Answer>,
}

/// How an Envoy route answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    /// To what it matches, which Envoy has taken.
    Closed,
    /// To what it matches and more, since nobody has said whether Envoy takes that ([`envoy::route::plain`]); to nothing outside of
    /// the path of the rule that delegates to its route.
    Plain,
}

impl Answer {
    fn of(self, kind: RouteKind, EnvoyRoute { row, below, .. }: &EnvoyRoute) -> Option<Row> {
        match self {
            Self::Closed => envoy::route::closed(kind, row),
            Self::Plain => envoy::route::plain(kind, row, below.as_deref()),
        }
    }
}

impl Placed {
    /// As the objects have it.
    pub(super) fn of(scope: &Scope<'_>, key: &(Chain, u32, ListenerId)) -> Option<Self> {
        let attached = scope.get::<Attachment>(key.0.top())?;
        Some(Self { attached, resolved: resolved_at(scope, key)?, at: None, shut: None })
    }

    /// The same where clients reach the listener so.
    pub(super) fn at(self, at: RouteAt) -> Self {
        Self { at: Some(at), ..self }
    }

    /// The rule.
    pub(crate) fn resolved(&self) -> &Resolved {
        &self.resolved
    }

    /// The hostnames at which a listener serves it.
    pub(crate) fn hostnames(&self, listener: &ListenerId) -> impl Iterator<Item = &Hostname> {
        self.attached.hostnames(listener).iter().map(|served| &served.hostname)
    }

    /// Its Envoy routes as they were offered; of one that is large they are written for the caller alone.
    pub(crate) fn offered_routes(&self) -> Cow<'_, [EnvoyRoute]> {
        self.resolved.routes_at(self.at.unwrap_or(ANYWHERE))
    }

    /// The first of what of it cannot be sent where it was offered, and is no finding of the rule.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.resolved.problems_at(self.at.unwrap_or(ANYWHERE)).into_iter().map(|(_, problem)| problem).next()
    }

    /// The same, where all of its matches answer by themselves.
    pub(crate) fn shut(&self) -> Self {
        let mut shut = self.shut.as_deref().cloned().unwrap_or_default();
        shut.everywhere = true;
        Self { shut: Some(Box::new(shut)), ..self.clone() }
    }

    /// The same, where these answer by themselves besides what did before.
    pub(crate) fn shut_at(&self, hostnames: impl IntoIterator<Item = Hostname>, rows: BTreeMap<Hash, Answer>) -> Self {
        let mut shut = self.shut.as_deref().cloned().unwrap_or_default();
        shut.hostnames.extend(hostnames);
        shut.hostnames.sort_unstable();
        shut.hostnames.dedup();
        for (row, answer) in rows {
            // What nobody has judged stays plain.
            let known = shut.rows.entry(row).or_insert(answer);
            *known = answer.max(*known);
        }
        Self { shut: (shut != Shut::default()).then(|| Box::new(shut)), ..self.clone() }
    }

    /// Whether it answers by itself wherever it is served.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.as_ref().is_some_and(|shut| shut.everywhere)
    }

    pub(super) fn is_shut_at(&self, hostname: &Hostname) -> bool {
        self.shut.as_ref().is_some_and(|shut| shut.everywhere || shut.hostnames.contains(hostname))
    }

    /// How one of its Envoy routes answers by itself; none of one that does what it says.
    pub(crate) fn answer(&self, row: &Row) -> Option<Answer> {
        self.shut.as_ref()?.rows.get(&row.hash).copied()
    }

    /// One of its Envoy routes as it is sent, where there is room for it or else only for what answers by itself.
    pub(super) fn row(&self, kind: RouteKind, route: &EnvoyRoute, has_room: bool) -> Option<Row> {
        match self.answer(&route.row).or((!has_room).then_some(Answer::Closed)) {
            Some(answer) => answer.of(kind, route),
            None => Some(route.row.clone()),
        }
    }
}
