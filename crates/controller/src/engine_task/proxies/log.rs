//! Bounds what is logged about proxies: how often a proxy reports something is up to it.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// So many lines a Gateway has ...
const LINES: u32 = 60;
/// ... in this time.
const WINDOW: Duration = Duration::from_mins(1);
/// So many Gateways have a bound of their own: clients may choose the name.
const GATEWAYS: usize = 10_000;

/// Bounds the lines about the proxies of each Gateway. What is left out is counted, and metrics count it all.
#[derive(Debug, Default)]
pub(super) struct ProxyLog {
    gateways: HashMap<String, Window>,
    /// No window ends before, where all had been looked at because there was no room.
    full_until: Option<Instant>,
}

#[derive(Debug)]
struct Window {
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl ProxyLog {
    /// Whether a line about `gateway` may be written.
    pub(super) fn admits(&mut self, gateway: &str, now: Instant) -> bool {
        if let Some(window) = self.gateways.get_mut(gateway) {
            if now.saturating_duration_since(window.since) < WINDOW {
                let admitted = window.lines < LINES;
                window.lines += u32::from(admitted);
                if !admitted {
                    window.left_out += 1;
                    if window.left_out == 1 {
                        tracing::warn!(
                            gateway,
                            "more than {LINES} lines in a minute about its proxies: more are left out"
                        );
                    }
                }
                return admitted;
            }
            if window.left_out > 0 {
                tracing::warn!(gateway, left_out = window.left_out, "lines about its proxies were left out");
            }
        } else if self.gateways.len() >= GATEWAYS && !self.has_room(now) {
            return false;
        }
        self.gateways.insert(gateway.to_owned(), Window { since: now, lines: 1, left_out: 0 });
        true
    }

    /// Forgets the windows that have ended. Names that are made up have all windows looked at once for each that is admitted, and
    /// not for each that is refused.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.full_until.is_some_and(|until| now < until) {
            return false;
        }
        self.gateways.retain(|_, window| now.saturating_duration_since(window.since) < WINDOW);
        let has_room = self.gateways.len() < GATEWAYS;
        let first = self.gateways.values().map(|window| window.since).min();
        self.full_until = first.filter(|_| !has_room).map(|since| since + WINDOW);
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_gateway_has_its_lines_a_minute() {
        let (mut log, start) = (ProxyLog::default(), Instant::now());
        let mut lines = |gateway: &str, now| (0..1000).filter(|_| log.admits(gateway, now)).count();
        assert_eq!((lines("a", start), lines("b", start)), (60, 60));
        assert_eq!(lines("a", start + WINDOW / 2), 0);
        assert_eq!(lines("a", start + WINDOW), 60);
    }

    #[test]
    fn names_that_are_made_up_do_not_accumulate() {
        let (mut log, start) = (ProxyLog::default(), Instant::now());
        let mut admitted = |from: usize, now| (from..from + 20_000).filter(|n| log.admits(&n.to_string(), now)).count();
        assert_eq!((admitted(0, start), admitted(20_000, start)), (GATEWAYS, 0));
        assert_eq!(admitted(40_000, start + WINDOW), GATEWAYS);
    }
}
