//! Who goes without where a Gateway's proxies cannot hold all that is asked for.
//!
//! A route of a broad hostname is copied into the virtual host of each hostname below it, so what a route costs depends
//! on the hostnames of others, and a hostname on their routes. A copy is charged to the younger of the two: nobody pays
//! for what comes after him. Whoever writes more into an old route is not younger for it, so that is so for a few such
//! routes of a namespace alone ([`JOINED`]); it pays for all copies of the others. What the namespaces ask for, charged
//! so, is shared out ([`shares`]); who asks for more than his share has it used up by his oldest rules, and his others
//! answer 500.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ir::{Hostname, ListenerId};

use super::Part;
use crate::{
    share::{Payer, shares},
    tables::capacity::Room,
    weight,
};

/// A rule where a listener serves it.
pub(super) struct Claim<'a> {
    pub(super) payer: Payer,
    pub(super) listener: &'a ListenerId,
    pub(super) hostnames: Vec<&'a Hostname>,
    /// What its routes take at one hostname, in bytes.
    pub(super) routes: u64,
    /// What stands in proxies once, whoever asks for it.
    pub(super) parts: Vec<Part>,
}

/// What becomes of the claims of a Gateway.
pub(super) struct Fitted {
    /// Of claims that are not served as they are, by their place among all: what becomes of them, hostname by hostname.
    pub(super) rooms: BTreeMap<usize, Vec<(Hostname, Room)>>,
    /// Hostnames that answer 500 to everything, and who asked for them.
    pub(super) shut: BTreeMap<(ListenerId, Hostname), BTreeSet<Payer>>,
    /// What those ask for who exceed their share, and what they get.
    pub(super) exceed: BTreeMap<Payer, (u64, u64)>,
}

/// The part of the bound that direct responses get in place of what there is no room for.
const CLOSED_PART: u64 = 8;

/// What the routes of a namespace may take at one virtual host and have the younger pay for their copies, in bytes: some ten
/// that forward.
const JOINED: u64 = 64 << 10;

/// Shares `bound` bytes out among claims, the oldest first; none if there is room for all. `part` tells what a part
/// takes. Takes a few steps for each hostname of a claim.
pub(super) fn fit(bound: u64, claims: &[Claim<'_>], part: impl Fn(&Part) -> u64) -> Option<Fitted> {
    let all = Placed::all(claims);
    if all.total(&part) <= bound {
        return None;
    }
    let asked = asked(claims, &all, &part);
    let shared = steady(shares(bound, asked.iter().map(|(payer, amount)| (*payer, *amount))));
    let (mut left, mut placed) = (shared.clone(), Placed::default());
    let mut unplaced = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        for hostname in &claim.hostnames {
            let charge = placed.charge(claim, hostname, &all, &part);
            match left.get_mut(&claim.payer) {
                Some(left) if charge > *left => {
                    unplaced.push((index, *hostname));
                    continue;
                }
                Some(left) => *left -= charge,
                None => {}
            }
            placed.place(claim, hostname);
        }
    }
    let exceed = shared.iter().filter_map(|(payer, share)| Some((payer.clone(), (*asked.get(payer)?, *share))));
    let exceed = exceed.collect();
    Some(close(bound / CLOSED_PART, claims, &placed, &unplaced, exceed))
}

/// What each would be charged for if all were placed.
fn asked<'a>(claims: &'a [Claim<'a>], all: &Placed<'_>, part: impl Fn(&Part) -> u64) -> BTreeMap<&'a Payer, u64> {
    let mut placed = Placed::default();
    let mut asked: BTreeMap<&Payer, u64> = BTreeMap::new();
    for claim in claims {
        for hostname in &claim.hostnames {
            let charge = placed.charge(claim, hostname, all, &part);
            placed.place(claim, hostname);
            let sum = asked.entry(&claim.payer).or_default();
            *sum = sum.saturating_add(charge);
        }
    }
    asked
}

/// The same shares less a thirty-second at most: what others ask for changes them by leaps alone, so that those who exceed
/// them do not all have other rules served, and other words said, after each change of anybody.
fn steady(mut shares: BTreeMap<Payer, u64>) -> BTreeMap<Payer, u64> {
    for share in shares.values_mut() {
        let leap = 1 << share.checked_ilog2().unwrap_or_default().saturating_sub(5);
        *share -= *share % leap;
    }
    shares
}

/// What becomes of what has no room.
fn close(
    bound: u64,
    claims: &[Claim<'_>],
    placed: &Placed<'_>,
    unplaced: &[(usize, &Hostname)],
    exceed: BTreeMap<Payer, (u64, u64)>,
) -> Fitted {
    // What its routes take where others stand; none where nobody does.
    let beside = |claim: &Claim<'_>, hostname: &Hostname| {
        let is_there = placed.hosts.contains(&(claim.listener, hostname.clone()));
        is_there.then(|| claim.routes.saturating_mul(placed.copies(claim.listener, hostname)))
    };
    let mut asked: BTreeMap<&Payer, u64> = BTreeMap::new();
    let mut asking = HashSet::new();
    for (index, hostname) in unplaced {
        let claim = &claims[*index];
        let charge = match beside(claim, hostname) {
            Some(charge) => charge,
            // Whoever has a hostname shut pays for all of that, once.
            None if asking.insert((&claim.payer, claim.listener, *hostname)) => weight::CLOSED_HOST,
            None => 0,
        };
        let sum = asked.entry(&claim.payer).or_default();
        *sum = sum.saturating_add(charge);
    }
    let mut left = steady(shares(bound, asked));
    let mut paid = HashSet::new();
    let mut fitted = Fitted { rooms: BTreeMap::new(), shut: BTreeMap::new(), exceed };
    for (index, hostname) in unplaced {
        let claim = &claims[*index];
        let shut = (&claim.payer, claim.listener, *hostname);
        let (charge, closed) = match beside(claim, hostname) {
            Some(charge) => (charge, Room::Closed),
            None if paid.contains(&shut) => (0, Room::Shut),
            None => (weight::CLOSED_HOST, Room::Shut),
        };
        let room = match left.get_mut(&claim.payer) {
            Some(left) if charge > *left => Room::LeftOut,
            Some(left) => {
                *left -= charge;
                closed
            }
            None => closed,
        };
        if room == Room::Shut {
            paid.insert(shut);
            let place = (claim.listener.clone(), (*hostname).clone());
            fitted.shut.entry(place).or_default().insert(claim.payer.clone());
        }
        fitted.rooms.entry(*index).or_default().push(((*hostname).clone(), room));
    }
    fitted
}

type Place<'a> = (&'a ListenerId, Hostname);

/// What stands in proxies.
#[derive(Default)]
struct Placed<'a> {
    /// Virtual hosts with routes of their own.
    hosts: HashSet<Place<'a>>,
    /// How many of them stand below a hostname.
    below: HashMap<Place<'a>, u64>,
    /// What the routes of a hostname take at one virtual host.
    routes: HashMap<Place<'a>, u64>,
    /// The part of that for whose copies the younger pays: of all, and of each.
    joined: HashMap<Place<'a>, u64>,
    joined_of: HashMap<(&'a Payer, Place<'a>), u64>,
    parts: HashSet<&'a Part>,
    /// Who has paid for a virtual host, and who for a part.
    paid_hosts: HashSet<(&'a Payer, Place<'a>)>,
    paid_parts: HashSet<(&'a Payer, &'a Part)>,
}

impl<'a> Placed<'a> {
    fn all(claims: &'a [Claim<'a>]) -> Self {
        let mut all = Self::default();
        for claim in claims {
            claim.hostnames.iter().for_each(|hostname| all.place(claim, hostname));
        }
        all
    }

    /// What a claim is charged at a hostname beyond what its payer has paid for; `all` is what stands there if nobody goes
    /// without.
    ///
    /// Whoever uses a virtual host, or what stands there once, pays all of it, so that what one pays does not depend on whether others
    /// are served.
    fn charge(&self, claim: &'a Claim<'a>, hostname: &Hostname, all: &Placed<'_>, part: impl Fn(&Part) -> u64) -> u64 {
        let hosts = if self.is_joined(claim, hostname) { self } else { all };
        let mut charge = claim.routes.saturating_mul(hosts.copies(claim.listener, hostname));
        if !self.paid_hosts.contains(&(&claim.payer, (claim.listener, hostname.clone()))) {
            charge = charge.saturating_add(self.host(claim.listener, hostname));
        }
        let unpaid = claim.parts.iter().filter(|id| !self.paid_parts.contains(&(&claim.payer, *id)));
        unpaid.fold(charge, |charge, id| charge.saturating_add(part(id)))
    }

    /// Whether those who come later pay for the copies of a claim that is placed next.
    fn is_joined(&self, claim: &'a Claim<'a>, hostname: &Hostname) -> bool {
        let joined = self.joined_of.get(&(&claim.payer, (claim.listener, hostname.clone())));
        joined.copied().unwrap_or_default().saturating_add(claim.routes) <= JOINED
    }

    /// What somebody pays for a virtual host: with the routes that cover it and do not pay for that.
    fn host(&self, listener: &'a ListenerId, hostname: &Hostname) -> u64 {
        Self::with_covering(&self.joined, listener, hostname)
    }

    fn with_covering(routes: &HashMap<Place<'a>, u64>, listener: &'a ListenerId, hostname: &Hostname) -> u64 {
        let covering = hostname.covering().skip(1).filter_map(|covering| routes.get(&(listener, covering)));
        covering.fold(weight::HOST, |sum, routes| sum.saturating_add(*routes))
    }

    /// How many virtual hosts have the routes of a hostname.
    fn copies(&self, listener: &ListenerId, hostname: &Hostname) -> u64 {
        1 + self.below.get(&(listener, hostname.clone())).copied().unwrap_or_default()
    }

    fn place(&mut self, claim: &'a Claim<'a>, hostname: &Hostname) {
        let place = (claim.listener, hostname.clone());
        if self.hosts.insert(place.clone()) {
            for covering in hostname.covering().skip(1) {
                *self.below.entry((claim.listener, covering)).or_default() += 1;
            }
        }
        let routes = self.routes.entry(place.clone()).or_default();
        *routes = routes.saturating_add(claim.routes);
        if self.is_joined(claim, hostname) {
            *self.joined.entry(place.clone()).or_default() += claim.routes;
            *self.joined_of.entry((&claim.payer, place.clone())).or_default() += claim.routes;
        }
        self.paid_hosts.insert((&claim.payer, place));
        for id in &claim.parts {
            self.parts.insert(id);
            self.paid_parts.insert((&claim.payer, id));
        }
    }

    /// What all of it takes.
    fn total(&self, part: impl Fn(&Part) -> u64) -> u64 {
        let hosts = self.hosts.iter().map(|(listener, hostname)| {
            let own = self.routes.get(&(*listener, hostname.clone())).copied().unwrap_or_default();
            own.saturating_add(Self::with_covering(&self.routes, listener, hostname))
        });
        let parts = self.parts.iter().map(|id| part(id));
        hosts.chain(parts).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use ir::{
        NsName,
        backend::{Destination, ServicePort},
    };
    use proptest::prelude::*;

    use super::*;
    use crate::tables::backend::ClusterId;

    const CLUSTER: u64 = 30_000;

    /// Who asks, for which hostnames, how much, and to which clusters it sends.
    type Asked = (&'static str, Vec<&'static str>, u64, Vec<u16>);

    struct World {
        listener: ListenerId,
        claims: Vec<(Payer, Vec<Hostname>, u64, Vec<Part>)>,
    }

    impl World {
        fn new(asked: &[Asked]) -> Self {
            let claims = asked.iter().map(|(who, hostnames, routes, ports)| {
                let service = |port: &u16| {
                    Part::Cluster(ClusterId::To(Destination::Service(ServicePort::tcp(NsName::new(*who, "s"), *port))))
                };
                (
                    Payer { root: (*who).into(), own: (*who).into() },
                    hostnames.iter().map(|hostname| Hostname::parse(hostname)).collect(),
                    *routes,
                    ports.iter().map(service).collect(),
                )
            });
            let listener = ListenerId::of_gateway(NsName::new("infra", "edge"), "http".into());
            Self { listener, claims: claims.collect() }
        }

        fn claims(&self) -> Vec<Claim<'_>> {
            let claims = self.claims.iter().map(|(payer, hostnames, routes, parts)| Claim {
                payer: payer.clone(),
                listener: &self.listener,
                hostnames: hostnames.iter().collect(),
                routes: *routes,
                parts: parts.clone(),
            });
            claims.collect()
        }
    }

    /// What stands in proxies at the end, and the hostnames at which each claim is served.
    fn outcome(bound: u64, world: &World) -> (u64, Vec<Vec<Hostname>>) {
        let claims = world.claims();
        let fitted = fit(bound, &claims, |_| CLUSTER);
        let mut placed = Placed::default();
        let mut served = Vec::new();
        for (index, claim) in claims.iter().enumerate() {
            let rooms = fitted.as_ref().and_then(|fitted| fitted.rooms.get(&index));
            let unplaced =
                |hostname: &Hostname| rooms.iter().flat_map(|rooms| rooms.iter()).any(|(at, _)| at == hostname);
            let here: Vec<_> = claim.hostnames.iter().copied().filter(|hostname| !unplaced(hostname)).collect();
            for hostname in &here {
                placed.place(claim, hostname);
            }
            served.push(here.into_iter().cloned().collect());
        }
        (placed.total(|_| CLUSTER), served)
    }

    /// What is closed in place of what has no room takes, as it is charged.
    fn closed(bound: u64, world: &World) -> u64 {
        let claims = world.claims();
        let Some(fitted) = fit(bound, &claims, |_| CLUSTER) else { return 0 };
        let mut placed = Placed::default();
        let mut closed = Vec::new();
        for (index, claim) in claims.iter().enumerate() {
            let rooms = fitted.rooms.get(&index);
            for hostname in &claim.hostnames {
                match rooms.and_then(|rooms| rooms.iter().find(|(at, _)| at == *hostname)) {
                    Some((_, Room::Closed)) => closed.push((claim, hostname)),
                    Some(_) => {}
                    None => placed.place(claim, hostname),
                }
            }
        }
        let routes = closed.into_iter().map(|(claim, hostname)| claim.routes * placed.copies(claim.listener, hostname));
        routes.sum::<u64>() + weight::CLOSED_HOST * fitted.shut.len() as u64
    }

    fn asked() -> impl Strategy<Value = Vec<Asked>> {
        let who = prop::sample::select(vec!["a", "b", "c"]);
        let hostnames = prop::sample::subsequence(vec!["*", "*.x", "1.x", "2.x", "1.y", "2.y", "3.y"], 1..3);
        let ports = prop::sample::subsequence(vec![1, 2, 3], 0..3);
        prop::collection::vec((who, hostnames, 1_000_u64..50_000, ports), 0..20)
    }

    proptest! {
        #[test]
        fn no_more_is_placed_than_the_bound(asked in asked(), bound in 10_000_u64..2_000_000) {
            let world = World::new(&asked);
            let (total, served) = outcome(bound, &world);
            prop_assert!(total <= bound, "{total}");
            let closed = closed(bound, &world);
            prop_assert!(closed <= bound / CLOSED_PART, "{closed} is closed");
            let all = served.iter().zip(&world.claims).all(|(served, (_, asked, ..))| served.len() == asked.len());
            prop_assert!(all || outcome(u64::MAX, &world).0 > bound, "nobody goes without if there is room for all");
        }

        #[test]
        fn who_comes_later_takes_nothing_from_one_within_an_equal_share(
            before in asked(), after in asked(), bound in 10_000_u64..2_000_000,
        ) {
            // Whatever those ask for who are here, each in a place of his own below, the newcomer comes last.
            let after: Vec<_> = after.into_iter().map(|(_, hostnames, routes, ports)| ("new", hostnames, routes, ports)).collect();
            let both: Vec<_> = before.iter().chain(&after).cloned().collect();
            let (_, alone) = outcome(bound, &World::new(&before));
            let world = World::new(&both);
            let (_, beside) = outcome(bound, &world);
            // What one of those would take if he were charged for all that he uses.
            let claims = world.claims();
            let charged = super::asked(&claims, &Placed::all(&claims), |_| CLUSTER);
            let charged: BTreeMap<&str, u64> = charged.into_iter().map(|(payer, sum)| (&*payer.own, sum)).collect();
            for ((who, ..), (alone, beside)) in before.iter().zip(alone.iter().zip(&beside)) {
                if charged[who] <= bound / 4 {
                    prop_assert_eq!(alone, beside, "{} asks for {} of {}", who, charged[who], bound);
                }
            }
        }
    }

    #[test]
    fn who_writes_much_into_an_old_route_of_all_hosts_pays_for_its_copies_himself() {
        let mut asked: Vec<Asked> = vec![("evil", vec!["*"], 60_000, vec![]), ("evil", vec!["*"], 400_000, vec![])];
        asked.extend(["1.y", "2.y", "3.y", "4.y", "5.y", "6.y"].map(|host| ("shop", vec![host], 10_000, vec![])));
        let (_, served) = outcome(1_500_000, &World::new(&asked));
        assert_eq!(served.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 1, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn who_adds_hostnames_pays_for_the_routes_of_all_hosts_there_and_who_adds_such_routes_for_the_hostnames() {
        let mut asked: Vec<Asked> = vec![("platform", vec!["*"], 60_000, vec![])];
        asked.extend(["1.y", "2.y", "3.y", "4.y", "5.y", "6.y"].map(|host| ("evil", vec![host], 100, vec![])));
        let (_, served) = outcome(300_000, &World::new(&asked));
        assert_eq!(served.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1, 1, 0, 0, 0], "his hostnames");
        asked.rotate_left(1);
        let (_, served) = outcome(300_000, &World::new(&asked));
        assert_eq!(
            served.iter().map(Vec::len).collect::<Vec<_>>(),
            [1, 1, 1, 1, 1, 1, 0],
            "the routes that came later"
        );
    }
}
