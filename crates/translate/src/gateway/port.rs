//! Ports of a host that Gateways share.

use std::net::IpAddr;

use engine::{Lookup, Scope};
use ir::{NsName, Port, backend::Transport, matching::Age};

use crate::tables::gateway::{GatewayRow, PortClaims};

tables! {
    /// The older Gateway that keeps a Gateway from a port; absent where the port is free for it.
    PortRival: (NsName, Port, Transport) => NsName;
}

impl Lookup for PortRival {
    fn compute(scope: &Scope<'_>, (gateway, port, transport): &Self::Key) -> Option<NsName> {
        let model = scope.get::<GatewayRow>(gateway)?;
        let claims = scope.group::<PortClaims>(&(*port, *transport));
        // A Gateway that does not get the port itself is in nobody's way.
        let mut winners: Vec<(&Age, &[IpAddr])> = Vec::new();
        for (age, addresses) in claims.iter().take_while(|(age, _)| **age < model.age) {
            if !winners.iter().any(|(_, won)| overlap(won, addresses)) {
                winners.push((age, addresses));
            }
        }
        winners.into_iter().find(|(_, won)| overlap(won, &model.addresses)).map(|(age, _)| age.name.clone())
    }
}

fn overlap(a: &[IpAddr], b: &[IpAddr]) -> bool {
    let any = |addresses: &[IpAddr]| addresses.is_empty() || addresses.iter().any(IpAddr::is_unspecified);
    any(a) || any(b) || a.iter().any(|address| b.contains(address))
}
