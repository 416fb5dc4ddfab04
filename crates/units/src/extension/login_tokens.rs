//! The tokens that a login brings, where they are judged.
//!
//! By its cookies a login proves that the proxy was there when the provider vouched for somebody. What the provider said of him
//! stands in tokens, which are in two of the cookies; the filter of logins leaves them there in clear. Behind it stands a filter
//! that judges them, each for itself, by the keys of the provider. That filter is one for all extensions of a Gateway, as that of
//! [`jwt`] is, and nothing of one reaches the routes of another for the same reasons.

use std::{collections::BTreeSet, sync::Arc};

use api::gateway_extension::{OAuth2Jwt, ParsedToken};
use envoy::extensions::TokenJudges;
use envoy_types::pb::envoy::extensions::filters::http::jwt_authn::v3::{
    JwtProvider, JwtRequirement, JwtRequirementAndList, RemoteJwks, jwt_provider::JwksSourceSpecifier,
    jwt_requirement::RequiresType,
};
use ir::{NsName, Problem, backend::Asked};
use validate::jwks;

use super::{TokenCounts, jwt, problem};

/// What is judged of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginTokens {
    /// What the filter knows of them.
    pub(crate) judges: TokenJudges,
    /// Who has the keys.
    pub(crate) asked: Asked,
    /// The headers that claims go to, sorted.
    pub(crate) headers: Arc<[String]>,
    /// What of it a proxy holds.
    pub(crate) counts: TokenCounts,
}

impl LoginTokens {
    /// What is written. `keys` is where `server` has them, and `cookies` are those of the access token and of the ID token.
    pub(super) fn read(
        id: &NsName,
        written: &OAuth2Jwt,
        keys: &str,
        server: Asked,
        cookies: [&str; 2],
    ) -> Result<Self, Problem> {
        let tokens = [("accessToken", &written.access_token), ("idToken", &written.id_token)];
        let tokens = tokens.into_iter().zip(cookies);
        let (mut providers, mut headers) = (Vec::new(), BTreeSet::new());
        for ((member, token), cookie) in tokens {
            let Some(token) = token else { continue };
            let provider = provider(member, token, keys, &server, cookie, &mut headers)?;
            providers.push((member, provider));
        }
        // A judge relies on what the login in front of it proves, which a route says itself. So a route that was told of one login is
        // never judged as another one would have it.
        let (name, providers) = jwt::named(id, providers);
        let requirement = all_of(providers.iter().map(|(name, _)| name.clone()).collect());
        let claims = headers.len();
        let count = providers.len();
        let judges = TokenJudges::new(name, providers, requirement);
        let counts = TokenCounts { providers: count, keys: count * jwks::MOST_KEYS, claims, bytes: judges.bytes() };
        Ok(Self { judges, asked: server, headers: headers.into_iter().collect(), counts })
    }
}

/// All of these, of which there is one at least. Envoy takes no list of one.
fn all_of(mut names: Vec<String>) -> JwtRequirement {
    let requirement = |name| JwtRequirement { requires_type: Some(RequiresType::ProviderName(name)) };
    if names.len() == 1 {
        return requirement(names.remove(0));
    }
    let all = JwtRequirementAndList { requirements: names.into_iter().map(requirement).collect() };
    JwtRequirement { requires_type: Some(RequiresType::RequiresAll(all)) }
}

/// Who judges one of them.
fn provider(
    member: &str,
    written: &ParsedToken,
    keys: &str,
    server: &Asked,
    cookie: &str,
    headers: &mut BTreeSet<String>,
) -> Result<JwtProvider, Problem> {
    let field = format!("oauth2.jwt.{member}");
    let claims = jwt::claims_of(written.claims_to_headers.as_deref().unwrap_or_default(), &field)?;
    for (index, (_, header)) in claims.iter().enumerate() {
        // Envoy would write both.
        if !headers.insert(header.clone()) {
            let field = format!("{field}.claimsToHeaders[{index}].header");
            return Err(problem(&field, "a claim of the access token goes to it; name another header"));
        }
    }
    let remote = RemoteJwks { http_uri: Some(jwt::key_set_at(keys, server)), ..RemoteJwks::default() };
    Ok(JwtProvider {
        audiences: jwt::audiences(written.audiences.as_deref(), &field)?,
        from_cookies: vec![cookie.into()],
        // The backend has its cookies, judged or not.
        forward: true,
        // Where `rbac` finds what a token says, as kgateway has it.
        payload_in_metadata: member.into(),
        claim_to_headers: jwt::to_own_headers(claims),
        jwks_source_specifier: Some(JwksSourceSpecifier::RemoteJwks(remote)),
        ..JwtProvider::default()
    })
}
