//! Who logs people in.
//!
//! A login is a few cookies, by which the proxy knows that it was there when the provider vouched for somebody. What proves
//! them is a key of the Gateway and the extension ([`LoginSecret::Cookies`]), so a login by one extension, or at one Gateway, is
//! none for another. Without both secrets Envoy answers 503. What is shown to a provider ([`LoginSecret::Client`]) is named by who
//! that is, so that no other one is shown it while an extension changes.

use api::{
    core::Secret,
    gateway_extension::{self, Cookies, DenyRedirect, HeaderMatch, OAuth2Jwt},
    references::CLIENT_SECRET,
    shared::BackendRef,
};
use envoy::{bytes, secret::LoginSecret};
use envoy_types::pb::{
    envoy::{
        config::{
            core::v3::{HttpUri, http_uri::HttpUpstreamType},
            route::v3::{HeaderMatcher, header_matcher::HeaderMatchSpecifier},
        },
        extensions::filters::http::oauth2::v3::{
            CookieConfig, CookieConfigs, OAuth2 as EnvoyOAuth2, OAuth2Config, OAuth2Credentials,
            cookie_config::SameSite,
            o_auth2_credentials::{CookieNames, TokenFormation},
        },
        r#type::matcher::v3::{
            PathMatcher, RegexMatcher, StringMatcher, path_matcher::Rule, string_matcher::MatchPattern,
        },
    },
    google::protobuf::BoolValue,
};
use ir::{NsName, Problem, backend::Asked};
use prost::Message;
use std::{sync::Arc, time::Duration};
use validate::{header, hostname, name, path, regex};

use super::{Encoded, Follow, at, hash, login_tokens::LoginTokens, problem};
use crate::spec;

/// Where people come back to unless it is said, as kgateway has it.
const REDIRECT_URI: &str = "%REQ(x-forwarded-proto)%://%REQ(:authority)%/oauth2/redirect";
/// The path at which people log out unless it is said.
const LOGOUT_PATH: &str = "/logout";
/// What may stand for the scheme, and for the host, of where people come back to: as the request has it.
const OWN_SCHEMES: [&str; 2] = ["%REQ(x-forwarded-proto)%", "%REQ(:scheme)%"];
const OWN_HOST: &str = "%REQ(:authority)%";
/// The scope without which nobody is logged out at a provider.
const OPENID: &str = "openid";

/// How long a provider may take to give a token: who logs in waits for it.
const TOKEN: Duration = Duration::from_secs(5);
/// Most scopes, longest scope and longest name of a client. Each route has a copy of its own.
const MOST_SCOPES: usize = 64;
const LONGEST: usize = 256;

/// Longest secret of a client. Providers give some hundred letters at most.
const LONGEST_SECRET: usize = 4 << 10;

/// Logs people in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OAuth2 {
    /// The filter, for all that ask it. It names secrets, and has none.
    pub(crate) filter: Encoded,
    /// Who gives tokens.
    pub(crate) asked: Asked,
    /// What is shown to it, as proxies know that.
    pub(crate) client: LoginSecret,
    /// The Secret that has it.
    pub(crate) secret: NsName,
    /// The expressions that requests are held against.
    pub(crate) patterns: Arc<[Arc<str>]>,
    /// The tokens that are judged behind it, if any are.
    pub(crate) tokens: Option<LoginTokens>,
}

impl OAuth2 {
    /// What is written.
    pub(super) fn read(
        id: &NsName,
        written: &gateway_extension::OAuth2,
        follow: &mut dyn Follow,
    ) -> Result<Self, Problem> {
        refuse_what_is_not_served(written)?;
        let authorization = endpoint(written.authorization_endpoint.as_deref(), "authorizationEndpoint")?;
        let token = endpoint(written.token_endpoint.as_deref(), "tokenEndpoint")?;
        let asked = follow.follow(&written.backend_ref, "oauth2.backendRef", false)?;
        let name = &*written.credentials.client_secret_ref.name;
        let secret = follow.client_secret(name, "oauth2.credentials.clientSecretRef")?;
        let cookies = written.cookies.clone().unwrap_or_default();
        let redirect = Redirect::read(written.redirect_uri.as_deref().unwrap_or(REDIRECT_URI))?;
        let logout = written.logout_path.as_deref().unwrap_or(LOGOUT_PATH);
        path::exact(logout).map_err(at("oauth2.logoutPath"))?;
        if logout == redirect.path {
            return Err(problem("oauth2.logoutPath", "people come back to it from logging in; write another path"));
        }
        // Envoy takes such a cookie from anybody who can show it, at each host of the extension.
        let refreshes = cookies.disable_refresh_token_set_cookie == Some(false);
        let end_session = end_session(written, refreshes)?;
        let (denied, patterns) = denied(written.deny_redirect.as_ref())?;
        let forwards = written.forward_access_token.unwrap_or_default();
        let hides = cookies.disable_access_token_set_cookie.unwrap_or_default();
        if forwards && hides {
            let message =
                "the access token is forwarded from its cookie; remove this, or cookies.disableAccessTokenSetCookie";
            return Err(problem("oauth2.forwardAccessToken", message));
        }
        let names = cookie_names(id, &cookies)?;
        let tokens = tokens(id, written, (&asked, &names, refreshes), follow)?;
        let provider = HttpUri {
            uri: token,
            timeout: Some(spec::proto_duration(TOKEN)),
            http_upstream_type: Some(HttpUpstreamType::Cluster(asked.cluster_name())),
        };
        let client_id = client_id(&written.credentials.client_id)?;
        let client = shown_to(&provider, &client_id);
        let config = OAuth2Config {
            token_endpoint: Some(provider),
            authorization_endpoint: authorization,
            end_session_endpoint: end_session,
            credentials: Some(OAuth2Credentials {
                client_id,
                token_secret: Some(client.source(id)),
                token_formation: Some(TokenFormation::HmacSecret(LoginSecret::Cookies.source(id))),
                cookie_names: Some(names),
                cookie_domain: domain(&cookies)?,
            }),
            allowed_redirect_domains: redirect.hosts(cookies.domain.as_deref()),
            redirect_uri: redirect.uri,
            redirect_path_matcher: Some(exact(redirect.path)),
            signout_path: Some(exact(logout.into())),
            forward_bearer_token: forwards,
            // What a client says of itself is for `jwtAuth` or the backend, unless the token stands in its place.
            preserve_authorization_header: !forwards,
            auth_scopes: scopes(&written.scopes)?,
            deny_redirect_matcher: denied,
            use_refresh_token: Some(BoolValue { value: refreshes }),
            disable_access_token_set_cookie: hides,
            disable_id_token_set_cookie: cookies.disable_id_token_set_cookie.unwrap_or_default(),
            disable_refresh_token_set_cookie: !refreshes,
            cookie_configs: cookies.same_site.as_deref().map(same_site),
            ..OAuth2Config::default()
        };
        let filter = Encoded::new(&EnvoyOAuth2 { config: Some(config) });
        Ok(Self { filter, asked, client, secret, patterns: patterns.into(), tokens })
    }
}

/// What is shown to this provider in the name of a client. The Secret is no part of that: another one, or another value, changes no
/// route.
fn shown_to(provider: &HttpUri, client_id: &str) -> LoginSecret {
    LoginSecret::Client(hash([provider.encode_to_vec(), client_id.into()]))
}

/// What is shown to who logs people in, or why nothing can be, in words that do not repeat it.
///
/// # Errors
/// What is wrong with it, and the remedy.
pub fn client_secret(secret: &Secret) -> Result<&[u8], String> {
    let key = CLIENT_SECRET;
    let bytes = secret.data.get(key).map_or(&[][..], |bytes| &**bytes);
    if bytes.is_empty() {
        return Err(format!("it has no data {key:?}: store there what the provider gave for clientID"));
    }
    if bytes.len() > LONGEST_SECRET {
        return Err(format!("{key:?} has {} bytes, and {LONGEST_SECRET} are the most; correct it", bytes.len()));
    }
    if bytes.iter().any(u8::is_ascii_control) {
        return Err(format!("{key:?} has a line break or another sign that cannot be shown; store it without"));
    }
    Ok(bytes)
}

/// What the schema has and nobody serves.
fn refuse_what_is_not_served(written: &gateway_extension::OAuth2) -> Result<(), Problem> {
    if written.authorization_endpoint.is_none() || written.token_endpoint.is_none() {
        let message = "endpoints are not asked for at the issuer; name authorizationEndpoint and tokenEndpoint, and \
                       endSessionEndpoint if people shall be logged out there";
        return Err(problem("oauth2.issuerURI", message));
    }
    Ok(())
}

/// A URL that the schema allows, whose host can be asked for.
fn endpoint(url: Option<&str>, field: &str) -> Result<String, Problem> {
    let url = url.unwrap_or_default();
    let field = format!("oauth2.{field}");
    if !url.starts_with("https://") {
        let message = "it does not begin with https://; write one such as https://issuer.example.com/token";
        return Err(problem(&field, message));
    }
    hostname::authority(&host(url)).map_err(at(&field))?;
    if url.len() > header::MAX_VALUE || !url.chars().all(|c| c.is_ascii_graphic()) || url.contains('#') {
        let message = format!("it is no URL of at most {} letters, digits and signs; correct it", header::MAX_VALUE);
        return Err(problem(&field, message));
    }
    Ok(url.into())
}

/// The host of such a URL, with its port unless that goes without saying.
fn host(url: &str) -> String {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    host.strip_suffix(":443").unwrap_or(host).to_ascii_lowercase()
}

/// Where people are logged out at the provider, if they are. Envoy adds to it what is in the cookie of the ID token, decrypted and
/// unproved: were there refresh tokens, whoever saw one encrypted could read it there.
fn end_session(written: &gateway_extension::OAuth2, refreshes: bool) -> Result<String, Problem> {
    const FIELD: &str = "endSessionEndpoint";
    let Some(url) = written.end_session_endpoint.as_deref() else { return Ok(String::new()) };
    let message = if !written.scopes.iter().any(|scope| **scope == *OPENID) {
        "people are logged out there by OpenID Connect alone; add openid to scopes, or remove it"
    } else if refreshes {
        "with refresh tokens, whoever has their cookie could read them at logoutPath; remove it, or \
         cookies.disableRefreshTokenSetCookie"
    } else if url.contains('?') {
        "the ID token is added to it behind a question mark, so it can have none; write it without a query"
    } else {
        return endpoint(Some(url), FIELD);
    };
    Err(problem(&format!("oauth2.{FIELD}"), message))
}

/// The tokens that are judged, by the keys that the provider publishes.
fn tokens(
    id: &NsName,
    written: &gateway_extension::OAuth2,
    (provider, names, refreshes): (&Asked, &CookieNames, bool),
    follow: &mut dyn Follow,
) -> Result<Option<LoginTokens>, Problem> {
    let judged = |jwt: &&OAuth2Jwt| jwt.access_token.is_some() || jwt.id_token.is_some();
    let Some(jwt) = written.jwt.as_ref().filter(judged) else { return Ok(None) };
    if jwt.id_token.is_some() && !written.scopes.iter().any(|scope| **scope == *OPENID) {
        let message = "providers give none without openid in scopes, and then nobody would be let in; add it there";
        return Err(problem("oauth2.jwt.idToken", message));
    }
    // Where the provider gives no other one, or an empty one, Envoy leaves the cookie that the client sent, unproved.
    if refreshes {
        let member = if jwt.id_token.is_some() { "idToken" } else { "accessToken" };
        let message = "with refresh tokens, anybody's token would be taken for that of who has one; remove it, or \
                       cookies.disableRefreshTokenSetCookie";
        return Err(problem(&format!("oauth2.jwt.{member}"), message));
    }
    let Some(keys) = jwt.jwks_uri.as_deref() else {
        let message = "where its keys are is not asked for at the issuer; name what /.well-known/openid-configuration has there as jwks_uri";
        return Err(problem("oauth2.jwt.jwksURI", message));
    };
    let keys = endpoint(Some(keys), "jwt.jwksURI")?;
    let server = match &jwt.jwks_backend_ref {
        Some(to) => {
            let to = BackendRef { backend_ref: to.clone(), ..BackendRef::default() };
            follow.follow(&to, "oauth2.jwt.jwksBackendRef", false)?
        }
        None => {
            let hosts = [&keys, written.token_endpoint.as_deref().unwrap_or_default()].map(host);
            if hosts[0] != hosts[1] {
                let message = format!(
                    "keys are at {}, and backendRef is asked for tokens of {}; name who answers for the first one",
                    hosts[0], hosts[1]
                );
                return Err(problem("oauth2.jwt.jwksBackendRef", message));
            }
            provider.clone()
        }
    };
    LoginTokens::read(id, jwt, &keys, server, [&names.bearer_token, &names.id_token]).map(Some)
}

/// Where people come back to.
struct Redirect {
    /// All of it, as Envoy formats it.
    uri: String,
    /// Its host, if it is not that of the request.
    host: Option<String>,
    /// Its path.
    path: String,
}

impl Redirect {
    /// Envoy would take any format, and with it headers that a client may write: the scheme and the host are those of the request
    /// itself, or they are fixed.
    fn read(uri: &str) -> Result<Self, Problem> {
        const FIELD: &str = "oauth2.redirectURI";
        let refused = || {
            let message = format!(
                "{:?} is not a scheme, host and path such as https://shop.example.com/callback; the scheme may be {} and the \
                 host {OWN_HOST}",
                validate::shown(uri),
                OWN_SCHEMES[0]
            );
            problem(FIELD, message)
        };
        let (scheme, rest) = uri.split_once("://").ok_or_else(refused)?;
        if !["http", "https"].contains(&scheme) && !OWN_SCHEMES.contains(&scheme) {
            return Err(refused());
        }
        let (host, path) = rest.split_at(rest.find('/').ok_or_else(refused)?);
        if path.contains(['%', '?', '#']) || path == "/" {
            return Err(refused());
        }
        path::exact(path).map_err(at(FIELD))?;
        let host = if host == OWN_HOST {
            None
        } else {
            hostname::authority(host).map_err(at(FIELD))?;
            Some(host.rsplit_once(':').map_or(host, |(host, _)| host).to_owned())
        };
        Ok(Self { uri: uri.into(), host, path: path.into() })
    }

    /// The hosts to which people are sent back, which a login is for: cookies are sent to no others. None where each host has
    /// logins of its own.
    fn hosts(&self, domain: Option<&str>) -> Vec<String> {
        let mut hosts: Vec<_> = self.host.iter().cloned().collect();
        if let Some(domain) = domain {
            hosts.extend([domain.to_owned(), format!("*.{domain}")]);
        }
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}

fn exact(path: String) -> PathMatcher {
    let matcher = StringMatcher { match_pattern: Some(MatchPattern::Exact(path)), ..StringMatcher::default() };
    PathMatcher { rule: Some(Rule::Path(matcher)) }
}

/// Envoy puts it as it is where people log in, and into the form by which it asks for tokens.
fn client_id(id: &str) -> Result<String, Problem> {
    let is_sound = |c: char| c.is_ascii_graphic() && !r#"&#%+""#.contains(c);
    if id.is_empty() || id.len() > LONGEST || !id.chars().all(is_sound) {
        let message = format!(
            r#"it is not a name of 1 to {LONGEST} letters, digits and signs without & # % + and "; correct it"#
        );
        return Err(problem("oauth2.credentials.clientID", message));
    }
    Ok(id.into())
}

/// RFC 6749 section 3.3.
fn scopes(written: &[Box<str>]) -> Result<Vec<String>, Problem> {
    if written.len() > MOST_SCOPES {
        let message = format!("it has {}, and {MOST_SCOPES} are the most; leave some out", written.len());
        return Err(problem("oauth2.scopes", message));
    }
    let scope = |(index, scope): (usize, &str)| {
        let is_sound = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
        if scope.is_empty() || scope.len() > LONGEST || !scope.chars().all(is_sound) {
            let message = format!("it is not a word of 1 to {LONGEST} letters, digits and signs; write one scope");
            return Err(problem(&format!("oauth2.scopes[{index}]"), message));
        }
        Ok(scope.to_string())
    };
    written.iter().map(|scope| &**scope).enumerate().map(scope).collect()
}

/// Names that no other extension has, so that the logins of two on one host do not push each other out. All cookies of a login
/// are named, also where that is said of two only. Where they are for one host, they have the prefix by which browsers take them
/// from that host alone (RFC 6265bis section 4.1.3.2): no other host of the domain plants any.
fn cookie_names(id: &NsName, cookies: &Cookies) -> Result<CookieNames, Problem> {
    let suffix = bytes::short_name(&bytes::version([id.to_string().as_bytes()]));
    let prefix = if cookies.domain.is_none() { "__Host-" } else { "" };
    let own = |name: &str| format!("{prefix}{name}-{suffix}");
    let names = cookies.names.clone().unwrap_or_default();
    let said = |said: Option<Box<str>>, field: &str, default: &str| {
        let Some(said) = said else { return Ok(own(default)) };
        name::cookie(&said).map_err(at(&format!("oauth2.cookies.names.{field}")))?;
        Ok(said.into_string())
    };
    let names = CookieNames {
        bearer_token: said(names.access_token, "accessToken", "AccessToken")?,
        id_token: said(names.id_token, "idToken", "IdToken")?,
        oauth_hmac: own("OauthHMAC"),
        oauth_expires: own("OauthExpires"),
        refresh_token: own("RefreshToken"),
        oauth_nonce: own("OauthNonce"),
        code_verifier: own("OauthCodeVerifier"),
    };
    let others =
        [&names.oauth_hmac, &names.oauth_expires, &names.refresh_token, &names.oauth_nonce, &names.code_verifier];
    for (field, name) in [("accessToken", &names.bearer_token), ("idToken", &names.id_token)] {
        if others.contains(&name) || field == "idToken" && *name == names.bearer_token {
            return Err(problem(
                &format!("oauth2.cookies.names.{field}"),
                "another cookie has this name; write another",
            ));
        }
    }
    Ok(names)
}

fn domain(cookies: &Cookies) -> Result<String, Problem> {
    let Some(domain) = cookies.domain.as_deref() else { return Ok(String::new()) };
    hostname::precise(domain).map_err(at("oauth2.cookies.domain"))?;
    Ok(domain.into())
}

fn same_site(word: &str) -> CookieConfigs {
    let same_site = match word {
        "Strict" => SameSite::Strict,
        "None" => SameSite::None,
        _ => SameSite::Lax,
    };
    let config = |same_site: SameSite| Some(CookieConfig { same_site: same_site as i32, ..CookieConfig::default() });
    // What people have to show when the provider, another site, sends them back.
    let back = if same_site == SameSite::Strict { SameSite::Lax } else { same_site };
    CookieConfigs {
        bearer_token_cookie_config: config(same_site),
        oauth_hmac_cookie_config: config(same_site),
        oauth_expires_cookie_config: config(same_site),
        id_token_cookie_config: config(same_site),
        refresh_token_cookie_config: config(same_site),
        oauth_nonce_cookie_config: config(back),
        code_verifier_cookie_config: config(back),
    }
}

/// Requests that get 401 rather than a page to log in at, and the expressions among them.
fn denied(written: Option<&DenyRedirect>) -> Result<(Vec<HeaderMatcher>, Vec<Arc<str>>), Problem> {
    let headers = written.and_then(|deny| deny.headers.as_deref()).unwrap_or_default();
    let (mut matchers, mut patterns) = (Vec::with_capacity(headers.len()), Vec::new());
    for (index, HeaderMatch { name, r#type, value }) in headers.iter().enumerate() {
        let field = format!("oauth2.denyRedirect.headers[{index}]");
        let name = header::match_name(name).map_err(at(&format!("{field}.name")))?;
        let pattern = if r#type.as_deref() == Some("RegularExpression") {
            let regex = regex::check(value).map_err(at(&format!("{field}.value")))?.into_string();
            patterns.push(regex.as_str().into());
            MatchPattern::SafeRegex(RegexMatcher { regex, ..RegexMatcher::default() })
        } else {
            header::match_value(value).map_err(at(&format!("{field}.value")))?;
            MatchPattern::Exact(value.to_string())
        };
        let matcher = StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() };
        matchers.push(HeaderMatcher {
            name,
            header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(matcher)),
            ..HeaderMatcher::default()
        });
    }
    Ok((matchers, patterns))
}
