//! Who is at the other end: the token that a stream shows, and what is found out about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderMap, header};

use crate::peer::Peer;

/// A longer token is refused without being checked. One of a `ServiceAccount` has between one and two KiB.
pub const MAX_TOKEN_BYTES: usize = 8 << 10;

/// What a stream shows as `authorization: Bearer TOKEN`. It is a secret, so it has no way to be printed.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// A token that came by another way than a request.
    pub fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// The token itself, to be checked.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The token in the headers of a request. There is one, of a size and in characters that a token may have.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Err(Refusal::Token) };
        let token = value.to_str().ok().and_then(bearer).ok_or(Refusal::Token)?;
        Ok(Self(token.into()))
    }
}

/// The token of `Bearer TOKEN` (RFC 6750, section 2.1).
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let fits = !token.is_empty() && token.len() <= MAX_TOKEN_BYTES && token.bytes().all(|b| b.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(token)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// The identity of a stream, as its token was found to prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name, for people.
    pub name: String,
    /// The only gateway whose resources it may read, `NAMESPACE/NAME`.
    pub gateway: String,
    /// After this time the token is checked again: not later than it expires.
    pub recheck_after: Duration,
}

/// Why a stream is not served. A client learns no more than that it is not authenticated, but for
/// [`Refusal::Unavailable`] and [`Refusal::Share`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The TLS handshake failed or took too long.
    #[error("the TLS handshake failed or took too long")]
    Handshake,
    /// There is no token, or what there is cannot be one.
    #[error("it shows no token")]
    Token,
    /// The token is not valid, not any more, or not for this server.
    #[error("its token is not valid here")]
    Denied,
    /// The token is valid, and its identity may read no gateway's resources.
    #[error("its identity belongs to no Gateway")]
    NoGateway,
    /// The node claims to be a proxy of another gateway than its identity is of.
    #[error("its node claims another Gateway than its identity has")]
    WrongGateway,
    /// The token cannot be checked now, because the API server does not answer or too many are waiting.
    #[error("its token cannot be checked now")]
    Unavailable,
    /// There are as many streams as there may be, and its gateway has its share of them.
    #[error("its Gateway has its share of all streams")]
    Share,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Handshake,
        Self::Token,
        Self::Denied,
        Self::NoGateway,
        Self::WrongGateway,
        Self::Unavailable,
        Self::Share,
    ];

    /// Its place in [`Refusal::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// A short name, as a label of a metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Token => "token",
            Self::Denied => "denied",
            Self::NoGateway => "no_gateway",
            Self::WrongGateway => "wrong_gateway",
            Self::Unavailable => "unavailable",
            Self::Share => "share",
        }
    }
}

/// Finds the identity that a token proves, and which gateway's resources it may read.
///
/// Called before anything of a stream is read, and again when [`Identity::recheck_after`] is over. A stream ends when the
/// answer then is another gateway or a refusal, but goes on while the answer is [`Refusal::Unavailable`], which is not about
/// the token.
pub trait Authenticate: Send + Sync {
    /// Checks `token`.
    fn authenticate<'a>(&'a self, peer: &'a Peer, token: &'a Token) -> BoxFuture<'a, Result<Identity, Refusal>>;
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn shown(values: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).expect("a header"));
        }
        Token::of(&headers).ok().map(|token| token.reveal().to_owned())
    }

    #[test]
    fn a_token_is_what_follows_the_scheme() {
        assert_eq!(shown(&["Bearer a.b.c"]).as_deref(), Some("a.b.c"));
        assert_eq!(shown(&["bearer  a.b.c "]).as_deref(), Some("a.b.c"));
    }

    #[test]
    fn what_cannot_be_a_token_is_refused_before_anybody_is_asked() {
        let long = format!("Bearer {}", "x".repeat(MAX_TOKEN_BYTES + 1));
        for values in [&[][..], &["a.b.c"], &["Basic a"], &["Bearer "], &["Bearer a b"], &[&long]] {
            assert_eq!(shown(values), None, "{values:?}");
        }
        assert_eq!(shown(&["Bearer a", "Bearer b"]), None, "which of two counts is a matter of taste");
    }

    #[test]
    fn a_token_cannot_be_printed() {
        assert_eq!(format!("{:?}", Token::new("secret")), "Token");
    }

    #[test]
    fn every_refusal_has_a_place_and_a_name_of_its_own() {
        let mut names: Vec<_> = Refusal::ALL.iter().map(|refusal| refusal.as_str()).collect();
        assert!(Refusal::ALL.iter().enumerate().all(|(place, refusal)| refusal.index() == place));
        names.dedup();
        assert_eq!(names.len(), Refusal::ALL.len());
    }
}
