//! Providers, as GatewayExtensions say: read and judged once, however many policies ask them.

pub(crate) mod ext_auth;
pub(crate) mod ext_proc;
pub(crate) mod jwt;
pub(crate) mod login_tokens;
pub(crate) mod oauth2;
pub(crate) mod rate_limit;

use std::{fmt, sync::Arc, time::Duration};

use api::{
    gateway_extension::{self, Backoff, ExtensionReference, GatewayExtensionSpec, Retry},
    shared::BackendRef,
};
use envoy::{
    bytes::{self, any},
    extensions::TokenJudges,
    secret::LoginSecret,
};
use envoy_types::pb::{
    envoy::{
        config::{
            common::mutation_rules::v3::HeaderMutationRules,
            core::v3::{
                BackoffStrategy, GrpcService, HeaderValue, HttpUri, RetryPolicy, TypedExtensionConfig,
                grpc_service::{EnvoyGrpc, TargetSpecifier},
                http_uri::HttpUpstreamType,
            },
            route::v3::Route,
        },
        extensions::filters::http::filter_chain::v3::{FilterChain, FilterChainConfigPerRoute},
        r#type::matcher::v3::RegexMatcher,
    },
    google::protobuf::{BoolValue, UInt32Value},
};
use ir::{NsName, Problem, Reason, Severity, backend::Asked, rule::Slot};
use prost::{Message, Name};

pub use oauth2::client_secret;
use validate::header;

use super::{Refused, spec};

/// Finds the extensions that a policy names.
pub trait ExtensionReader {
    /// The extension that is meant; or why there is none that can be asked.
    fn extension(&self, reference: &ExtensionReference) -> Result<Arc<Extension>, String>;
}

/// Follows the reference of a provider at a field; `grpc` says that it is asked in gRPC.
pub trait Follow {
    /// Whom it means, or why it means nobody who can be asked.
    fn follow(&mut self, to: &BackendRef, field: &str, grpc: bool) -> Result<Asked, Problem>;

    /// What a ConfigMap of the extension's namespace has in a key; or what is awaited.
    fn config_map(&self, name: &Arc<str>, key: &str) -> Result<Arc<str>, String>;

    /// The Secret of the extension's namespace that is named at a field, which has a [`client_secret`]; or why it does not.
    fn client_secret(&mut self, name: &str, field: &str) -> Result<NsName, Problem>;
}

/// A provider that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// The GatewayExtension.
    pub id: NsName,
    /// What it is.
    pub provider: Provider,
}

/// What providers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Judges requests.
    ExtAuth(ext_auth::ExtAuth),
    /// Processes requests and responses.
    ExtProc(ext_proc::ExtProc),
    /// Counts requests.
    RateLimit(rate_limit::RateLimit),
    /// Makes tokens that are taken.
    Jwt(jwt::Jwt),
    /// Logs people in.
    OAuth2(oauth2::OAuth2),
}

/// What stands in a filter of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Those who make tokens.
    pub providers: usize,
    /// Their keys; of a server, as many as it may have.
    pub keys: usize,
    /// Claims that become headers.
    pub claims: usize,
    /// Bytes of all of it.
    pub bytes: usize,
}

impl Provider {
    /// The member of the spec.
    pub fn member(&self) -> &'static str {
        match self {
            Self::ExtAuth(_) => "extAuth",
            Self::ExtProc(_) => "extProc",
            Self::RateLimit(_) => "rateLimit",
            Self::Jwt(_) => "jwt",
            Self::OAuth2(_) => "oauth2",
        }
    }

    pub(crate) fn jwt(&self) -> Option<&jwt::Jwt> {
        match self {
            Self::Jwt(jwt) => Some(jwt),
            _ => None,
        }
    }

    pub(crate) fn oauth2(&self) -> Option<&oauth2::OAuth2> {
        match self {
            Self::OAuth2(login) => Some(login),
            _ => None,
        }
    }

    /// The Secret that has, in [`api::references::CLIENT_SECRET`], what is shown to who logs people in; none of another one.
    pub fn client_secret(&self) -> Option<&NsName> {
        self.oauth2().map(|login| &login.secret)
    }

    /// The same as proxies know it.
    pub fn login_secret(&self) -> Option<LoginSecret> {
        self.oauth2().map(|login| login.client)
    }

    /// What a filter of tokens knows of it, be these its own or those of logins; none of one that judges none.
    pub fn token_judges(&self) -> Option<&TokenJudges> {
        let of_logins = || Some(&self.oauth2()?.tokens.as_ref()?.judges);
        self.jwt().map(|jwt| &jwt.judges).or_else(of_logins)
    }

    /// What of it stands in a filter of tokens.
    pub fn token_counts(&self) -> TokenCounts {
        let of_logins = || Some(self.oauth2()?.tokens.as_ref()?.counts);
        self.jwt().map(|jwt| jwt.counts).or_else(of_logins).unwrap_or_default()
    }
}

impl Extension {
    /// What a spec says that the schema allows.
    ///
    /// # Errors
    /// Where it cannot be asked: the field, what is wrong and the remedy.
    pub fn read(id: &NsName, spec: &GatewayExtensionSpec, follow: &mut dyn Follow) -> Result<Self, Problem> {
        let provider = match spec {
            GatewayExtensionSpec { ext_auth: Some(written), .. } => {
                Provider::ExtAuth(ext_auth::ExtAuth::read(written, follow)?)
            }
            GatewayExtensionSpec { ext_proc: Some(written), .. } => {
                Provider::ExtProc(ext_proc::ExtProc::read(written, follow)?)
            }
            GatewayExtensionSpec { rate_limit: Some(written), .. } => {
                Provider::RateLimit(rate_limit::RateLimit::read(written, follow)?)
            }
            GatewayExtensionSpec { jwt: Some(written), .. } => Provider::Jwt(jwt::Jwt::read(id, written, follow)?),
            GatewayExtensionSpec { oauth2: Some(written), .. } => {
                Provider::OAuth2(oauth2::OAuth2::read(id, written, follow)?)
            }
            _ => return Err(Problem::new(Severity::Refused, Reason::Invalid, "spec", "it has no provider; write one")),
        };
        Ok(Self { id: id.clone(), provider })
    }
}

/// The hash of these parts, each told from the next whatever stands in it.
fn hash(parts: impl IntoIterator<Item = Vec<u8>>) -> bytes::Hash {
    let parts = parts.into_iter().flat_map(|part| [part.len().to_be_bytes().to_vec(), part]);
    bytes::version([&*parts.flatten().collect::<Vec<_>>()])
}

/// A fault at a field of an extension's spec.
fn problem(field: &str, message: impl Into<String>) -> Problem {
    Problem::new(Severity::Refused, Reason::Invalid, format!("spec.{field}"), message)
}

/// What turns a refused value at `field` into a fault of an extension.
fn at(field: &str) -> impl FnOnce(validate::Invalid) -> Problem {
    move |invalid| problem(field, invalid.to_string())
}

/// What a unit is told that names an extension which is not there, or of another kind.
pub(crate) fn of_member<'a, T>(
    extension: &'a Extension,
    member: &str,
    of: impl FnOnce(&'a Provider) -> Option<&'a T>,
) -> Result<&'a T, Refused> {
    of(&extension.provider).ok_or_else(|| {
        let Extension { id, provider } = extension;
        let message = format!(
            "GatewayExtension {id} is of {}, and {member} is needed; name another, or correct it",
            provider.member()
        );
        Refused::new("extensionRef", message)
    })
}

/// Refuses a reference that names nothing.
pub(crate) fn named(reference: &ExtensionReference) -> Result<(), Refused> {
    if reference.name.is_empty() {
        return Err(Refused::new("extensionRef.name", "it is empty; name a GatewayExtension"));
    }
    Ok(())
}

/// The extension that is meant.
pub(crate) fn find(
    extensions: &dyn ExtensionReader,
    reference: &ExtensionReference,
) -> Result<Arc<Extension>, Refused> {
    extensions.extension(reference).map_err(|message| Refused::new("extensionRef", message))
}

/// The cluster of a gRPC service.
pub(crate) fn cluster(service: &GrpcService) -> Option<String> {
    let Some(TargetSpecifier::EnvoyGrpc(target)) = &service.target_specifier else { return None };
    Some(target.cluster_name.clone())
}

/// The cluster of a service that speaks HTTP.
pub(crate) fn http_cluster(uri: &HttpUri) -> Option<String> {
    let HttpUpstreamType::Cluster(cluster) = uri.http_upstream_type.as_ref()?;
    Some(cluster.clone())
}

/// For tests: whoever is named as samples name him is there.
#[cfg(any(test, feature = "testing"))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Everybody;

#[cfg(any(test, feature = "testing"))]
impl Follow for Everybody {
    fn follow(&mut self, to: &BackendRef, _: &str, _: bool) -> Result<Asked, Problem> {
        let service = NsName::new("n", to.backend_ref.name.clone());
        Ok(Asked::Own(ir::backend::Destination::Service(ir::backend::ServicePort::tcp(service, 80))))
    }

    fn config_map(&self, name: &Arc<str>, _: &str) -> Result<Arc<str>, String> {
        let key = serde_json::json!({"kty": "OKP", "crv": "Ed25519", "x": "A".repeat(43)});
        match &**name {
            "keys" => Ok(key.to_string().into()),
            "bad" => Ok("keys".into()),
            _ => Err(format!("ConfigMap n/{name} does not exist; create it, or correct the name")),
        }
    }

    fn client_secret(&mut self, name: &str, _: &str) -> Result<NsName, Problem> {
        Ok(NsName::new("n", name))
    }
}

#[cfg(any(test, feature = "testing"))]
impl ExtensionReader for Everybody {
    fn extension(&self, reference: &ExtensionReference) -> Result<Arc<Extension>, String> {
        let service = serde_json::json!({"backendRef": {"name": "s", "port": 80}});
        let spec = match &*reference.name {
            "judge" | "judge2" | "judge3" | "judge4" | "judge5" => {
                serde_json::json!({"extAuth": {"grpcService": service}})
            }
            "counter" => serde_json::json!({"rateLimit": {"grpcService": service, "domain": "d"}}),
            "processor" | "processor2" => serde_json::json!({"extProc": {"grpcService": service}}),
            "first" => serde_json::json!({"extProc": {"grpcService": service, "filterStage": {"stage": "Fault"}}}),
            "tokens" | "tokens2" => {
                let key = serde_json::json!({"kty": "OKP", "crv": "Ed25519", "x": "A".repeat(43)});
                serde_json::json!({"jwt": {"providers": [{"name": "p", "jwks": {"local": {"inline": key.to_string()}}}]}})
            }
            "login" | "login2" => serde_json::json!({"oauth2": {
                "backendRef": {"name": "s", "port": 80}, "authorizationEndpoint": "https://issuer.example/authorize",
                "tokenEndpoint": "https://issuer.example/token", "scopes": ["openid"],
                "credentials": {"clientID": "shop", "clientSecretRef": {"name": "client"}},
                "jwt": if &*reference.name == "login" { serde_json::Value::Null } else { serde_json::json!({
                    "jwksURI": "https://issuer.example/keys",
                    "idToken": {"claimsToHeaders": [{"name": "sub", "header": "x-user"}]},
                }) },
            }}),
            other => return Err(format!("GatewayExtension n/{other} does not exist; create it, or correct the name")),
        };
        let spec: GatewayExtensionSpec = serde_json::from_value(spec).map_err(|error| error.to_string())?;
        let namespace = reference.namespace.clone().unwrap_or_else(|| "n".into());
        let id = NsName::new(namespace, reference.name.clone());
        Extension::read(&id, &spec, &mut Self).map(Arc::new).map_err(|problem| problem.to_string())
    }
}

/// A message that is encoded once, and that names nobody's secrets.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Encoded(Arc<[u8]>);

impl Encoded {
    pub(crate) fn new(message: &impl Message) -> Self {
        Self(message.encode_to_vec().into())
    }

    pub(crate) fn decode<M: Message + Default>(&self) -> M {
        M::decode(&*self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// The host of a provider, as it is asked for.
fn host(asked: &Asked) -> String {
    let NsName { namespace, name } = asked.name();
    format!("{name}.{namespace}")
}

/// A gRPC service that is asked.
fn grpc_service(
    written: &gateway_extension::GrpcService,
    field: &str,
    follow: &mut dyn Follow,
) -> Result<(GrpcService, Asked), Problem> {
    let asked = follow.follow(&written.backend_ref, &format!("{field}.backendRef"), true)?;
    let authority = written.authority.as_deref().unwrap_or_default();
    if !authority.is_empty() {
        validate::hostname::authority(authority).map_err(at(&format!("{field}.authority")))?;
    }
    // Envoy would say the name of the cluster, which no server takes for a host.
    let authority = if authority.is_empty() { host(&asked) } else { authority.into() };
    let target = EnvoyGrpc {
        cluster_name: asked.cluster_name(),
        authority,
        max_receive_message_length: Some(UInt32Value { value: LONGEST_ANSWER }),
        ..EnvoyGrpc::default()
    };
    let service = GrpcService {
        timeout: timeout(written.request_timeout.as_deref(), &format!("{field}.requestTimeout"))?
            .map(spec::proto_duration),
        retry_policy: retry(written.retry.as_ref(), "connect-failure,refused-stream,reset,unavailable", field)?,
        target_specifier: Some(TargetSpecifier::EnvoyGrpc(target)),
        // One that asks a Gateway which asks it comes to an end.
        initial_metadata: vec![HeaderValue {
            key: header::PASSED.into(),
            value: format!("%REQ({})%", header::PASSED),
            ..HeaderValue::default()
        }],
    };
    Ok((service, asked))
}

/// Most bytes of one message of a provider in gRPC: Envoy has about three copies of it in memory while a request waits, and takes
/// any length where none is said.
const LONGEST_ANSWER: u32 = 1 << 20;

/// Nobody waits longer for a provider: a request that a provider holds back is held in a proxy's memory.
const LONGEST_TIMEOUT: Duration = Duration::from_mins(5);

/// How long a provider may take, if that is written.
fn timeout(text: Option<&str>, field: &str) -> Result<Option<Duration>, Problem> {
    let Some(text) = text else { return Ok(None) };
    let timeout = validate::duration::positive(text).map_err(at(field))?;
    if timeout > LONGEST_TIMEOUT {
        return Err(problem(field, format!("{text:?} is longer than five minutes; write 5m or less")));
    }
    Ok(Some(timeout))
}

/// Most attempts; Envoy would take any number.
const MOST_ATTEMPTS: i32 = 10;

/// How calls are tried again, if they are.
fn retry(written: Option<&Retry>, on: &str, field: &str) -> Result<Option<RetryPolicy>, Problem> {
    let Some(Retry { attempts, backoff }) = written else { return Ok(None) };
    let field = format!("{field}.retry");
    let Some(attempts) = u32::try_from(*attempts).ok().filter(|_| *attempts <= MOST_ATTEMPTS) else {
        let message = format!("\"{attempts}\" is not from 0 to {MOST_ATTEMPTS}; write one of these");
        return Err(problem(&format!("{field}.attempts"), message));
    };
    let strategy = |Backoff { base_interval, max_interval }: &Backoff| {
        let base = timeout(Some(base_interval), &format!("{field}.backoff.baseInterval"))?;
        let max = timeout(max_interval.as_deref(), &format!("{field}.backoff.maxInterval"))?;
        Ok(BackoffStrategy {
            base_interval: base.map(spec::proto_duration),
            max_interval: max.map(spec::proto_duration),
        })
    };
    Ok(Some(RetryPolicy {
        num_retries: Some(UInt32Value { value: attempts }),
        retry_on: on.into(),
        retry_back_off: backoff.as_ref().map(strategy).transpose()?,
        ..RetryPolicy::default()
    }))
}

/// What a provider may change in requests. By a header that frames a message it could pass a body off as a request of its
/// own over a connection that routes of all namespaces share, and by the one that counts passings it could have requests go
/// in circles. What a proxy keeps from its clients it sets no more than they: a request that is sent on to another route, as
/// a redirect has it, is not looked at again. Of the latter, Envoy itself keeps `x-envoy-*`.
fn mutation_rules() -> HeaderMutationRules {
    let framing = "connection|content-length|keep-alive|proxy-connection|transfer-encoding|upgrade|cdn-loop";
    let of_proxy = header::OF_PROXY.join("|");
    let regex = format!("(?i)({framing}|{of_proxy}|.*_.*)");
    HeaderMutationRules {
        // The route stays as it was chosen.
        allow_all_routing: Some(BoolValue { value: true }),
        disallow_expression: Some(RegexMatcher { regex, ..RegexMatcher::default() }),
        ..HeaderMutationRules::default()
    }
}

/// Refuses to have the route chosen anew by what a provider changed: filters that stand before it would not have judged the
/// request as the new route asks, such as one for another tenant's users.
fn keeps_route(clears: bool, field: &str) -> Result<(), Problem> {
    let message = "the route of a request is not chosen anew, since what guards the other route may stand before the provider; \
                   remove it";
    if clears { Err(problem(field, message)) } else { Ok(()) }
}

/// What has a wrapper ask a provider: the filter in it has a name of its own, under which Envoy looks for what a route says
/// to it. Under the wrapper's name nobody would look.
pub(crate) fn wrapped<M: Message + Name>(name: &'static str, inner: &str, filter: &M, asked: &Asked) -> Slot {
    wrapped_behind(None, name, inner, filter, asked)
}

/// The same with another filter in front of it, if any. Envoy goes on behind the wrapper once a provider has answered, so nothing
/// could stand behind the filter that asks.
pub(crate) fn wrapped_behind<M: Message + Name>(
    front: Option<TypedExtensionConfig>,
    name: &'static str,
    inner: &str,
    filter: &M,
    asked: &Asked,
) -> Slot {
    let filter = TypedExtensionConfig { name: inner.into(), typed_config: Some(any(filter)) };
    let filters = front.into_iter().chain([filter]).collect();
    let chain = FilterChainConfigPerRoute { filter_chain: Some(FilterChain { filters }) };
    Slot { asks: [asked.clone()].into(), ..envoy::slots::slot(name, &chain) }
}

/// The filter in a wrapper of a route that asks, if it has one.
pub(crate) fn unwrapped<M: Message + Default>(route: &Route, slot: &str) -> Option<M> {
    let chain = spec::said::<FilterChainConfigPerRoute>(route, slot)?.filter_chain?;
    M::decode(&*chain.filters.last()?.typed_config.as_ref()?.value).ok()
}
