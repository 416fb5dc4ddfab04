//! Where a request goes: to one match, or, where Envoy follows the redirects of backends, from one to the next.

use super::sight::Sight;
use super::treatment::Treatment;
use super::worlds::Asked;
use super::{Answer, Oracle, Outcome, Taken};
use crate::client::Request;

/// What comes of a request that a match takes.
#[derive(Clone, Debug)]
pub struct Journey {
    /// How it is treated by the policies of that match.
    pub treatment: Treatment,
    /// What is seen of it.
    pub sight: Sight,
    /// What became of it when it came through for the last time; none where nobody knows. Where a redirect leads to
    /// nothing the client gets it, and the request is taken by no match.
    pub last: Option<Outcome>,
}

impl Oracle {
    /// Follows a request that a match takes.
    pub fn follow(&self, asked: &Asked, taken: &Taken) -> Journey {
        let first = self.treat(asked, taken);
        let (mut asked, mut outcome, mut treatment) = (asked.clone(), Outcome::Route(taken.clone()), first.clone());
        // Who has redirected it, and why it went on.
        let (mut before, mut why) = (Vec::new(), Vec::new());
        loop {
            let answer = outcome.answer();
            let tries = before.iter().filter(|known| **known == answer).count();
            let mut sight = match &answer {
                // Each of them counts for itself how often it had the request.
                Answer::Backends { names, .. } if names.len() > 1 && asked.is_redirected() => Sight::default(),
                _ => treatment.sight(&outcome, &asked, tries),
            };
            why.append(&mut sight.why);
            let next = match sight.redirect.take() {
                Some(next) if next.most <= before.len() as u64 => {
                    why.push("the redirect is one too many");
                    None
                }
                other => other,
            };
            let Some(next) = next else {
                // Of what nobody knows it is not known either whether it was redirected.
                let is_known = sight.status.is_some() || !asked.is_redirected();
                let is_known = is_known && !matches!(treatment, Treatment::ClosedAtAll(_));
                sight.why = why;
                return Journey { treatment: first, sight, last: is_known.then_some(outcome) };
            };
            let sought = Request { method: next.sought, ..next.request.clone() };
            asked = Asked { request: next.request, is_repeated: false, ..asked };
            let found = self.ask(asked.gateway, asked.port, &sought);
            let goes_on = matches!(found, Outcome::Route(_));
            match if goes_on { self.ask(asked.gateway, asked.port, &asked.request) } else { found } {
                Outcome::Route(taken) => {
                    treatment = self.treat(&asked, &taken);
                    outcome = Outcome::Route(taken);
                    why.push(if before.is_empty() { "redirected" } else { "redirected again" });
                    before.push(answer);
                }
                // A listener may answer by itself where it has no match.
                Outcome::NotFound(_) if self.is_closed_at_all(&asked) => {
                    return Journey { treatment: first, sight: Sight::default(), last: None };
                }
                // With the method of before it leads somewhere, so that it is followed.
                Outcome::NotFound(_) if goes_on => {
                    return Journey { treatment: first, sight: Sight::default(), last: None };
                }
                nowhere @ Outcome::NotFound(_) => {
                    why.push("the redirect leads to nothing");
                    sight.why = why;
                    return Journey { treatment: first, sight, last: Some(nowhere) };
                }
            }
        }
    }
}
