//! Where the cookie of a session is sent, and what its author should know.

use ir::{
    Problem, Reason, Severity,
    delegation::PlacedMatch,
    matching::Path,
    rule::{Rule, SessionCarrier, SessionPersistence},
};

/// Has a cookie sent for what the rule matches and no more: below the longest path that all of its matches share.
pub(super) fn place(rule: &mut Rule, matches: &[PlacedMatch]) {
    let carrier = rule.session.as_mut().map(|session| &mut session.carrier);
    if let Some(SessionCarrier::Cookie { path, .. }) = carrier {
        *path = shared(matches.iter().map(|placed| &placed.written.path)).into();
    }
}

/// The longest path below which all of these are, without a slash at its end but for the root.
fn shared<'a>(paths: impl Iterator<Item = &'a Path>) -> &'a str {
    let texts = paths.map(|path| match path {
        Path::Exact(path) | Path::Prefix(path) => path.trim_end_matches('/'),
        Path::Regex(_) => "",
    });
    let shared = texts.reduce(|a, b| {
        let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let whole = |path: &str| path.len() == same || path.as_bytes().get(same) == Some(&b'/');
        if whole(a) && whole(b) { &a[..same] } else { a[..same].rsplit_once('/').map_or("", |(before, _)| before) }
    });
    match shared {
        // A semicolon would end the attribute, and begin another of the tenant's choice.
        Some(path) if !path.is_empty() && !path.contains(';') => path,
        _ => "/",
    }
}

/// What the author of a session should know: what carries it names the endpoint, and Envoy can neither sign nor encrypt it.
pub(super) fn warning(session: &SessionPersistence, field: &str) -> Problem {
    let what = match &session.carrier {
        SessionCarrier::Cookie { .. } => "cookie",
        SessionCarrier::Header { .. } => "header",
    };
    let message = format!(
        "the {what} of a session shows the address of a pod and is not signed, so it is no access control: a client that \
         writes one itself reaches any endpoint of the rule, those of weight 0 included; leave out backends that clients \
         must not reach"
    );
    Problem::new(Severity::Warning, Reason::SessionNotProtected, format!("{field}.sessionPersistence"), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_sent_for_the_paths_of_its_rule_alone() {
        let prefix = |path: &str| Path::Prefix(path.into());
        let exact = |path: &str| Path::Exact(path.into());
        for (paths, expected) in [
            (vec![prefix("/cart")], "/cart"),
            (vec![prefix("/cart/")], "/cart"),
            (vec![exact("/cart")], "/cart"),
            (vec![prefix("/")], "/"),
            (vec![Path::Regex("/cart.*".into())], "/"),
            (vec![], "/"),
            (vec![prefix("/shop/cart"), exact("/shop/pay")], "/shop"),
            (vec![prefix("/shop"), prefix("/shop/pay")], "/shop"),
            (vec![prefix("/shop"), prefix("/shops")], "/"),
            (vec![prefix("/a/shop"), prefix("/a/shops")], "/a"),
            (vec![prefix("/cart"), Path::Regex("/cart".into())], "/"),
            (vec![prefix("/a;Domain=example.com")], "/"),
        ] {
            assert_eq!(shared(paths.iter()), expected, "{paths:?}");
        }
    }
}
