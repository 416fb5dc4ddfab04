//! What the owners of a rule's parents, and of the rule itself, ask of it.

use std::borrow::Cow;

use ir::{Problem, Reason, Severity, route::Handling};

use crate::{route::default_backend, tables::terms::Terms};

/// A rule of `namespace` with what its parents give it, if it has what they demand; `is_authenticated` tells whether policies
/// have all of its requests authenticated.
pub(super) fn apply<'a>(
    mut handling: Cow<'a, Handling>,
    terms: &Terms,
    namespace: &str,
    field: &str,
    is_authenticated: impl FnOnce() -> bool,
) -> Result<Cow<'a, Handling>, Problem> {
    if let Some(who) = &terms.requires_auth
        && !is_authenticated()
    {
        let message = format!(
            "{} demands that requests are authenticated, and no policy does so here, or not at every listener; \
             attach one that does (basicAuth, apiKeyAuth, jwtAuth)",
            who.known_to(namespace)
        );
        return Err(Problem::new(Severity::Replaced, Reason::UnsupportedValue, field, message));
    }
    if let Some(defaults) = &terms.defaults
        && handling.backends.is_empty()
        && !handling.answers()
    {
        let backends = defaults.backends.iter().enumerate();
        let backends = backends.map(|(index, backend)| default_backend(backend.clone(), &defaults.policy, index));
        handling.to_mut().backends = backends.collect::<Result<_, _>>()?;
        let weights = handling.backends.iter().map(|backend| backend.weight);
        validate::number::total_weight(weights).map_err(|invalid| {
            Problem::new(Severity::Replaced, Reason::UnsupportedValue, field, invalid.to_string())
        })?;
    }
    Ok(handling)
}
