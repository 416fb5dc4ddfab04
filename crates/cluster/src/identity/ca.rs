//! What the certificate authority has to do next, and when: pure functions of what is stored and of the time.
//!
//! Proxies trust a *bundle* of CA certificates, of which one signs. A new one is announced in the bundle long before the
//! one that signs expires, and signs only after the bundle had time to reach the proxies; then the old one stays in the bundle
//! for as long again, for replicas that still show what it signed. A proxy meets no certificate that it does not trust,
//! whichever step it has seen.
//!
//! Times that are stored may lie ahead, when a clock was wrong. A wait that began in the future begins anew, and what
//! is not valid now is not used, so that no wait is longer than it should be.

mod secret;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

pub use super::issue::IssueError;
use super::issue::{self, CertificateInfo};
pub use secret::{CaSecret, CaSecretError};

/// How long certificates are valid, and when they are renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationPolicy {
    /// How long a CA is valid.
    pub ca_lifetime: Duration,
    /// The next CA is announced when the one that signs is valid for less than this.
    pub ca_renewal: Duration,
    /// How long a serving certificate is valid.
    pub serving_lifetime: Duration,
    /// A serving certificate is made anew when it is valid for less than this.
    pub serving_renewal: Duration,
    /// How long a bundle may take until every proxy has it.
    pub propagation: Duration,
}

impl Default for RotationPolicy {
    fn default() -> Self {
        const DAY: Duration = Duration::from_hours(24);
        Self {
            ca_lifetime: 365 * DAY,
            ca_renewal: 120 * DAY,
            serving_lifetime: 30 * DAY,
            serving_renewal: 15 * DAY,
            // Kubernetes takes about two minutes to bring a file into a pod.
            propagation: Duration::from_hours(1),
        }
    }
}

/// However far off the next step is, one looks again after this time, since a clock may jump.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Make a CA that signs at once: there is none that could.
    Begin,
    /// Make the next CA and announce it in the bundle.
    Announce,
    /// Begin to wait anew for the bundle to reach the proxies: by the clock of now, the wait has not begun yet.
    Restart,
    /// Let the next CA sign, and keep the old one in the bundle.
    Promote,
    /// Take the old CA out of the bundle.
    Retire,
    /// Sign a serving certificate.
    Sign,
}

/// What is to be done now, or until when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// This.
    Do(Step),
    /// Nothing for so long.
    Wait(Duration),
}

/// What is to be done at `now` with what is stored, so that the server can show that it is `names`.
pub fn plan(stored: Option<&CaSecret>, names: &[String], policy: &RotationPolicy, now: SystemTime) -> Plan {
    let Some(stored) = stored else { return Plan::Do(Step::Begin) };
    let mut due = vec![LONGEST_WAIT];
    let incoming = stored.incoming.as_ref().filter(|incoming| incoming.info.valid_at(now));
    if !stored.info.valid_at(now) {
        // Who would have to wait for the bundle can do nothing without either.
        return Plan::Do(if incoming.is_some() { Step::Promote } else { Step::Begin });
    }
    match (&stored.incoming, incoming) {
        (_, Some(incoming)) => match left(incoming.since, policy.propagation, now) {
            Left::NotBegun => return Plan::Do(Step::Restart),
            Left::Nothing => return Plan::Do(Step::Promote),
            Left::Some(wait) => due.push(wait),
        },
        (Some(_), None) => return Plan::Do(Step::Announce),
        (None, None) => match until(stored.info.not_after, policy.ca_renewal, now) {
            None => return Plan::Do(Step::Announce),
            Some(wait) => due.push(wait),
        },
    }
    if let Some(outgoing) = &stored.outgoing {
        match left(outgoing.since, policy.propagation, now) {
            Left::NotBegun => return Plan::Do(Step::Restart),
            Left::Nothing => return Plan::Do(Step::Retire),
            Left::Some(wait) => due.push(wait),
        }
    }
    let serving = stored
        .serving_info
        .as_ref()
        .filter(|serving| serving.valid_at(now) && serving.issued_by(&stored.info) && serving.names == sorted(names));
    // One that lives as long as its authority is not made anew: a new one would not live longer.
    let renewal = |serving: &CertificateInfo| {
        if serving.not_after >= stored.info.not_after { Duration::ZERO } else { policy.serving_renewal }
    };
    match serving.and_then(|serving| until(serving.not_after, renewal(serving), now)) {
        None => Plan::Do(Step::Sign),
        Some(wait) => Plan::Wait(due.into_iter().fold(wait, Duration::min)),
    }
}

/// What is stored after `step`.
pub fn apply(
    step: Step,
    stored: Option<CaSecret>,
    names: &[String],
    policy: &RotationPolicy,
    now: SystemTime,
) -> Result<CaSecret, IssueError> {
    let Some(mut stored) = stored.filter(|_| step != Step::Begin) else {
        return CaSecret::new(issue::ca(now, policy.ca_lifetime)?);
    };
    match step {
        Step::Begin => {}
        Step::Announce => stored.announce(issue::ca(now, policy.ca_lifetime)?, now)?,
        Step::Restart => stored.restart(now),
        Step::Promote => stored.promote(now),
        Step::Retire => stored.outgoing = None,
        Step::Sign => stored.serve(issue::serving(&stored.signing, names, now, policy.serving_lifetime)?)?,
    }
    Ok(stored)
}

/// What is stored after everything that is to be done at `now` was done, and until when nothing is.
pub fn advance(
    mut stored: Option<CaSecret>,
    names: &[String],
    policy: &RotationPolicy,
    now: SystemTime,
) -> Result<(CaSecret, Duration), IssueError> {
    loop {
        match (plan(stored.as_ref(), names, policy, now), stored) {
            (Plan::Wait(wait), Some(done)) => return Ok((done, wait)),
            (Plan::Wait(_), None) => stored = Some(apply(Step::Begin, None, names, policy, now)?),
            (Plan::Do(step), before) => stored = Some(apply(step, before, names, policy, now)?),
        }
    }
}

/// What was stored is gone, but is known: the CA that signs goes on, and its successor is announced, since
/// taking the Secret away is how people ask for a new one.
pub fn replace(known: CaSecret, policy: &RotationPolicy, now: SystemTime) -> Result<CaSecret, IssueError> {
    let mut stored = known;
    stored.announce(issue::ca(now, policy.ca_lifetime)?, now)?;
    Ok(stored)
}

enum Left {
    NotBegun,
    Some(Duration),
    Nothing,
}

/// What is left of a wait that began at `since`.
fn left(since: SystemTime, wait: Duration, now: SystemTime) -> Left {
    let Ok(age) = now.duration_since(since) else { return Left::NotBegun };
    match wait.checked_sub(age) {
        Some(left) if !left.is_zero() => Left::Some(left),
        _ => Left::Nothing,
    }
}

/// How long it is until `before` ahead of `end`.
fn until(end: SystemTime, before: Duration, now: SystemTime) -> Option<Duration> {
    end.duration_since(now).ok()?.checked_sub(before).filter(|wait| !wait.is_zero())
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort_unstable();
    names
}
