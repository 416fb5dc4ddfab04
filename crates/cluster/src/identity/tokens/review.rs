//! `TokenReview` (`authentication.k8s.io/v1`): the API server says who shows a token.

use std::fmt;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use ir::NsName;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo};
use kube::api::PostParams;
use kube::{Api, Client};

use super::claims;

/// The keys under which the API server names the pod that a token is bound to.
const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

/// Who shows a token, as the API server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// The `ServiceAccount`.
    pub account: NsName,
    /// The name and uid of the pod that the token is bound to, if it is.
    pub pod: Option<(String, String)>,
}

impl fmt::Display for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount {}", self.account)?;
        self.pod.as_ref().map_or(Ok(()), |(name, uid)| write!(f, ", pod {name} ({uid})"))
    }
}

/// The API server could not be asked, or did not say anything about the token.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(String);

impl ReviewError {
    /// With the reason, in which there must be nothing of the token.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Asks about tokens.
pub trait Review: Send + Sync {
    /// Who shows `token`, if it is good for `audience`.
    fn review<'a>(&'a self, token: &'a str, audience: &'a str) -> BoxFuture<'a, Result<Option<Bearer>, ReviewError>>;
}

impl Review for Client {
    fn review<'a>(&'a self, token: &'a str, audience: &'a str) -> BoxFuture<'a, Result<Option<Bearer>, ReviewError>> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: Some(token.to_owned()), audiences: Some(vec![audience.to_owned()]) },
            ..TokenReview::default()
        };
        async move {
            let reviews: Api<TokenReview> = Api::all(self.clone());
            let reviewed = reviews.create(&PostParams::default(), &review).await;
            let reviewed = reviewed.map_err(|error| ReviewError::new(describe(&error)))?;
            Ok(reviewed.status.and_then(|status| bearer(status, audience)))
        }
        .boxed()
    }
}

/// Why a request failed, without anything of its body, which had a token.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}", status.code, status.reason),
        // Of anything else only the kind: it might quote what was sent.
        kube::Error::Service(_) | kube::Error::HyperError(_) => "no connection".into(),
        _ => "no answer that can be read".into(),
    }
}

/// Who the API server says it is, if it says so for this audience and it is a `ServiceAccount`.
fn bearer(status: TokenReviewStatus, audience: &str) -> Option<Bearer> {
    // An API server that knows nothing of audiences gives none back, and then nothing says that it looked at them.
    let ours = status.audiences.is_some_and(|audiences| audiences.iter().any(|one| one == audience));
    if status.authenticated != Some(true) || !ours {
        return None;
    }
    let UserInfo { username, extra, .. } = status.user?;
    let account = claims::account(&username?)?;
    let mut extra = extra.unwrap_or_default();
    let mut one = |key: &str| extra.remove(key)?.into_iter().next();
    let pod = one(POD_NAME).zip(one(POD_UID));
    Some(Bearer { account, pod })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> TokenReviewStatus {
        let extra =
            [(POD_NAME, "edge-1"), (POD_UID, "uid-1")].map(|(key, value)| (key.to_owned(), vec![value.to_owned()]));
        TokenReviewStatus {
            audiences: Some(vec!["xds".into()]),
            authenticated: Some(true),
            error: None,
            user: Some(UserInfo {
                username: Some("system:serviceaccount:infra:edge".into()),
                extra: Some(extra.into()),
                ..UserInfo::default()
            }),
        }
    }

    #[test]
    fn a_service_account_and_its_pod_are_told() {
        let bearer = bearer(status(), "xds").expect("a bearer");
        assert_eq!(bearer.account, NsName::new("infra", "edge"));
        assert_eq!(bearer.pod, Some(("edge-1".into(), "uid-1".into())));
        assert_eq!(bearer.to_string(), "ServiceAccount infra/edge, pod edge-1 (uid-1)");
    }

    #[test]
    fn what_is_not_said_is_not_assumed() {
        let not = [
            TokenReviewStatus { authenticated: None, ..status() },
            TokenReviewStatus { authenticated: Some(false), ..status() },
            // It is authenticated, by a server that did not look for whom.
            TokenReviewStatus { audiences: None, ..status() },
            TokenReviewStatus { audiences: Some(vec!["other".into()]), ..status() },
            TokenReviewStatus { user: None, ..status() },
            TokenReviewStatus {
                user: Some(UserInfo { username: Some("kubernetes-admin".into()), ..UserInfo::default() }),
                ..status()
            },
        ];
        for status in not {
            assert_eq!(bearer(status.clone(), "xds"), None, "{status:?}");
        }
    }
}
