//! What the regular expressions of rules cost requests.

use ir::{Chain, ListenerId};

tables! {
    /// Rules with expressions, where a listener serves them: what they cost.
    Charged: (Chain, u32, ListenerId) => ();
    /// The routes of such rules, put where a listener serves them.
    CostlyPlacement: (Chain, u32, ListenerId) => ();
}
