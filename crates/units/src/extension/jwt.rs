//! Whose tokens are taken.
//!
//! What all extensions of a Gateway say stands in one filter ([`envoy::extensions`]), so nothing of one may reach the routes of
//! another. Two things in Envoy would:
//!
//! - It removes from every request the headers to which any provider writes claims. So claims go to headers of our own, and
//!   each route moves them to those that are meant, which are then its own affair ([`claims`]).
//! - A token where none is needed is judged by the keys of whoever has its issuer, first come, first served. So whether there
//!   is none is asked of a provider that takes no token at all ([`nobody`]).
//!
//! What the filter knows comes to a proxy before the routes, which refer to it by name. So who lets in others has another name
//! ([`named`]), and no request passes by a word of which its route was not told.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api::{
    gateway_extension::{
        self, ClaimToHeader, ConfigMapName, JwksSource, JwtRetry, LocalJwks, RemoteJwks, TokenSource, ValidationMode,
    },
    references::KEY_SET,
};
use envoy::{bytes, extensions::TokenJudges, slots};
use envoy_types::pb::{
    envoy::{
        config::{
            common::mutation_rules::v3::{HeaderMutation, header_mutation::Action},
            core::v3::{
                BackoffStrategy, DataSource, HttpUri, RetryPolicy, TypedExtensionConfig, data_source::Specifier,
                header_value_option::HeaderAppendAction, http_uri::HttpUpstreamType,
            },
        },
        extensions::filters::http::{
            header_mutation::v3::Mutations,
            jwt_authn::v3::{
                JwksAsyncFetch, JwtClaimToHeader, JwtHeader, JwtProvider, JwtRequirement, JwtRequirementOrList,
                PerRouteConfig, RemoteJwks as EnvoyRemote, jwt_provider::JwksSourceSpecifier,
                jwt_requirement::RequiresType, per_route_config::RequirementSpecifier,
            },
        },
    },
    google::protobuf::{Empty, UInt32Value},
};
use ir::{
    NsName, Problem,
    backend::Asked,
    rule::{ExtensionEntry, Slot},
};
use prost::Message;
use validate::{
    Invalid, duration, header, hostname,
    jwks::{self, KeySet, MOST_COST},
    name,
};

use super::{Follow, MOST_ATTEMPTS, TokenCounts, at, hash, problem, timeout};
use crate::{mutations, spec};

/// What a server counts, whose keys nobody knows.
const COST_OF_SERVER: usize = 16;

/// Most headers that claims go to, of one extension: each route has a copy of their names.
const MOST_HEADERS: usize = 64;

/// Longest name of a claim, and longest audience.
const LONGEST: usize = 256;

/// How long a server may take to give its keys: a request may wait for it.
const FETCH: Duration = Duration::from_secs(5);

/// How often keys are asked for at most.
const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// What issuers begin with that take no token.
const NOBODY: &str = "portcullis:";

/// Where Envoy looks in a query by default.
const PARAMETER: &str = "access_token";

/// Their name in an extension, which no other one has there.
const NOBODYS_NAME: &str = "";

/// The key of those: 32 letters, to which nobody has the private one.
const NOBODYS_KEY: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"dG9rZW5zIG9mIHRoaXMgaXNzdWVyIGRvIG5vdCBleGk"}]}"#;

/// Whose tokens are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// What the filter knows of them.
    pub(crate) judges: TokenJudges,
    /// Who has their keys.
    pub(crate) asked: Arc<[Asked]>,
    /// The headers that claims go to, sorted.
    pub(crate) headers: Arc<[String]>,
    /// The parameters of queries that show tokens which do not go on, sorted.
    pub(crate) hidden: Arc<[String]>,
    /// Whether a request must have a token.
    pub(crate) enforces: bool,
    /// What of it a proxy holds.
    pub(crate) counts: TokenCounts,
}

impl Jwt {
    /// What is written.
    pub(super) fn read(
        id: &NsName,
        written: &gateway_extension::Jwt,
        follow: &mut dyn Follow,
    ) -> Result<Self, Problem> {
        let gateway_extension::Jwt { providers: all, validation_mode } = written;
        if all.is_empty() {
            return Err(problem("jwt.providers", "it is empty, so nobody's token would do; write one"));
        }
        let (mut providers, mut asked, mut headers, mut keys) = (Vec::new(), Vec::new(), BTreeSet::new(), 0);
        let (mut cost, mut parameters) = (0, Parameters::default());
        for (index, written) in all.iter().enumerate() {
            let field = format!("jwt.providers[{index}]");
            let (source, own_keys, own_cost) = source(&written.jwks, &format!("{field}.jwks"), &mut asked, follow)?;
            let claims = claims_of(written.claims_to_headers.as_deref().unwrap_or_default(), &field)?;
            headers.extend(claims.iter().map(|(_, header)| header.clone()));
            keys += own_keys;
            cost += own_cost;
            // A token that names no key is tried with all of them, by a worker that serves nobody meanwhile. No further
            // keys are read, which costs too.
            if cost > MOST_COST {
                let message = format!(
                    "its keys count more than {MOST_COST} together, which is the most: one for a key, 8 for P-384, 16 for P-521 \
                     and for a server; leave some out, or make several extensions"
                );
                return Err(problem("jwt.providers", message));
            }
            let (provider, goes_on) = provider(written, source, claims, &field)?;
            parameters.add(&provider, goes_on);
            providers.push((&*written.name, provider));
        }
        if headers.len() > MOST_HEADERS {
            let message =
                format!("claims go to {} headers, and {MOST_HEADERS} are the most; leave some out", headers.len());
            return Err(problem("jwt.providers", message));
        }
        let hidden = parameters.hidden()?;
        let enforces = *validation_mode != Some(ValidationMode::AllowMissing);
        if !enforces {
            providers.push((NOBODYS_NAME, nobody(id, &providers)));
        }
        let (name, providers) = named(id, providers);
        let names = providers.iter().map(|(name, _)| RequiresType::ProviderName(name.clone())).collect();
        let requirement = if enforces {
            any_of(names)
        } else {
            // Whoever takes no token is in both: of the inner ones Envoy asks nobody whether there is one.
            let nobody = RequiresType::ProviderName(format!("{name}/{NOBODYS_NAME}"));
            let Some(inner) = any_of(names).requires_type else { return Err(problem("jwt", "it requires nothing")) };
            any_of(vec![inner, nobody, RequiresType::AllowMissing(Empty {})])
        };
        asked.sort_unstable();
        asked.dedup();
        let providers_count = providers.len();
        let claims = providers.iter().map(|(_, provider)| provider.claim_to_headers.len()).sum();
        let judges = TokenJudges::new(name, providers, requirement);
        let counts = TokenCounts { providers: providers_count, keys, claims, bytes: judges.bytes() };
        let headers = headers.into_iter().collect();
        Ok(Self { judges, asked: asked.into(), headers, hidden, enforces, counts })
    }
}

/// The name by which routes require these of an extension, and these by names of their own. Who lets in others has another name: a
/// route is judged by the word alone that it was told of, also while Envoy has the next word and not yet the next routes, or refuses
/// these. Keys that are written are no part of it: they change, and routes do not.
pub(super) fn named(id: &NsName, members: Vec<(&str, JwtProvider)>) -> (String, Vec<(String, JwtProvider)>) {
    let word = members.iter().flat_map(|(member, provider)| {
        let mut provider = provider.clone();
        if let Some(JwksSourceSpecifier::LocalJwks(keys)) = &mut provider.jwks_source_specifier {
            *keys = DataSource::default();
        }
        [member.as_bytes().to_vec(), provider.encode_to_vec()]
    });
    let name = format!("{id}@{}", bytes::short_name(&hash(word)));
    let providers = members.into_iter().map(|(member, provider)| (format!("{name}/{member}"), provider)).collect();
    (name, providers)
}

/// The GatewayExtension of such a name.
pub(crate) fn extension_of(name: &str) -> Option<&str> {
    name.rsplit_once('@').map(|(extension, _)| extension)
}

/// Any of these, of which there is one at least.
fn any_of(mut requirements: Vec<RequiresType>) -> JwtRequirement {
    let requirement = |requires_type| JwtRequirement { requires_type: Some(requires_type) };
    if requirements.len() == 1 {
        return requirement(requirements.remove(0));
    }
    let requirements = requirements.into_iter().map(requirement).collect();
    requirement(RequiresType::RequiresAny(JwtRequirementOrList { requirements }))
}

/// Who looks where the others look, and takes no token: its issuer is one that no extension can have.
fn nobody(id: &NsName, others: &[(&str, JwtProvider)]) -> JwtProvider {
    let mut from_headers: Vec<JwtHeader> = Vec::new();
    let mut from_params: Vec<String> = Vec::new();
    for (_, other) in others {
        if is_anywhere(other) {
            from_headers.push(bearer());
            from_params.push(PARAMETER.into());
        }
        from_headers.extend(other.from_headers.iter().cloned());
        from_params.extend(other.from_params.iter().cloned());
    }
    from_headers.sort_by(|one, other| (&one.name, &one.value_prefix).cmp(&(&other.name, &other.value_prefix)));
    from_headers.dedup();
    from_params.sort_unstable();
    from_params.dedup();
    JwtProvider {
        issuer: format!("{NOBODY}{id}"),
        from_headers,
        from_params,
        jwks_source_specifier: Some(JwksSourceSpecifier::LocalJwks(inline(NOBODYS_KEY.into()))),
        ..JwtProvider::default()
    }
}

/// Where a token is by default.
fn bearer() -> JwtHeader {
    JwtHeader { name: "Authorization".into(), value_prefix: "Bearer ".into() }
}

/// Whether a token is looked for where Envoy does by default: in [`bearer`] and in [`PARAMETER`].
fn is_anywhere(provider: &JwtProvider) -> bool {
    provider.from_headers.is_empty() && provider.from_params.is_empty()
}

/// The parameters of queries in which tokens are looked for.
#[derive(Default)]
struct Parameters {
    hidden: BTreeSet<String>,
    go_on: BTreeSet<String>,
}

impl Parameters {
    fn add(&mut self, provider: &JwtProvider, goes_on: bool) {
        let all = if goes_on { &mut self.go_on } else { &mut self.hidden };
        all.extend(provider.from_params.iter().cloned());
        all.extend(is_anywhere(provider).then(|| PARAMETER.to_owned()));
    }

    /// Those that no backend gets to see.
    fn hidden(self) -> Result<Arc<[String]>, Problem> {
        if let Some(both) = self.hidden.intersection(&self.go_on).next() {
            let message = format!(
                "tokens in query parameter {both:?} are to go on by one of these and not by another; set forwardToken in both \
                 or none, or have them look elsewhere"
            );
            return Err(problem("jwt.providers", message));
        }
        Ok(self.hidden.into_iter().collect())
    }
}

fn inline(json: String) -> DataSource {
    DataSource { specifier: Some(Specifier::InlineString(json)), ..DataSource::default() }
}

/// A provider, and whether what it takes goes on to backends.
fn provider(
    written: &gateway_extension::JwtProvider,
    source: JwksSourceSpecifier,
    claims: Vec<(String, String)>,
    field: &str,
) -> Result<(JwtProvider, bool), Problem> {
    let issuer = written.issuer.as_deref().unwrap_or_default();
    if issuer.starts_with(NOBODY) {
        return Err(problem(
            &format!("{field}.issuer"),
            format!("it begins with {NOBODY}, which no issuer does; correct it"),
        ));
    }
    let goes_on = written.forward_token.unwrap_or_default();
    let (from_headers, from_params) = match &written.token_source {
        Some(from) => places(from, &format!("{field}.tokenSource"))?,
        None if goes_on => (Vec::new(), Vec::new()),
        // What takes tokens out of queries takes time with each request, so it is for those who ask for it.
        None => (vec![bearer()], Vec::new()),
    };
    let provider = JwtProvider {
        issuer: issuer.into(),
        audiences: audiences(written.audiences.as_deref(), field)?,
        // Out of a query a program takes it: Envoy would write the rest of it anew, decoded.
        forward: goes_on || !from_params.is_empty(),
        from_headers,
        from_params,
        // Where `rbac` finds what a token says, as kgateway has it.
        payload_in_metadata: "payload".into(),
        claim_to_headers: to_own_headers(claims),
        jwks_source_specifier: Some(source),
        ..JwtProvider::default()
    };
    Ok((provider, goes_on))
}

/// Where a token is: in a header, or in a parameter of the query.
fn places(from: &TokenSource, field: &str) -> Result<(Vec<JwtHeader>, Vec<String>), Problem> {
    match (&from.header, &from.query_parameter) {
        (Some(from), None) => {
            // Envoy takes the header away, and clients must be able to send it.
            let name = header::client_name(&from.header).map_err(at(&format!("{field}.header.header")))?;
            let prefix = from.prefix.as_deref().unwrap_or_default();
            if !prefix.chars().all(|c| c == ' ' || c.is_ascii_graphic()) || prefix.len() > LONGEST {
                let message = format!("it is not at most {LONGEST} letters, digits, signs and spaces; correct it");
                return Err(problem(&format!("{field}.header.prefix"), message));
            }
            Ok((vec![JwtHeader { name, value_prefix: prefix.into() }], Vec::new()))
        }
        (None, Some(parameter)) => {
            name::query_parameter(parameter).map_err(at(&format!("{field}.queryParameter")))?;
            Ok((Vec::new(), vec![parameter.to_string()]))
        }
        _ => Err(problem(field, "it must have exactly one of header and queryParameter")),
    }
}

/// For whom tokens must be.
pub(super) fn audiences(written: Option<&[Box<str>]>, field: &str) -> Result<Vec<String>, Problem> {
    let audience = |(index, audience): (usize, &str)| {
        if audience.is_empty() || audience.len() > LONGEST {
            let message = format!("it has {} bytes; write 1 to {LONGEST}", audience.len());
            return Err(problem(&format!("{field}.audiences[{index}]"), message));
        }
        Ok(audience.to_string())
    };
    written.unwrap_or_default().iter().map(|audience| &**audience).enumerate().map(audience).collect()
}

/// Claims, each with the header that it goes to.
pub(super) fn claims_of(written: &[ClaimToHeader], field: &str) -> Result<Vec<(String, String)>, Problem> {
    let mut claims: Vec<(String, String)> = Vec::with_capacity(written.len());
    for (index, ClaimToHeader { name, header }) in written.iter().enumerate() {
        let field = format!("{field}.claimsToHeaders[{index}]");
        if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
            let message = format!("it must have 1 to {LONGEST} characters, and none that controls; correct it");
            return Err(problem(&format!("{field}.name"), message));
        }
        let header = header::client_name(header).map_err(at(&format!("{field}.header")))?;
        if claims.iter().any(|(_, other)| *other == header) {
            return Err(problem(&format!("{field}.header"), "another claim goes to it; name another header"));
        }
        claims.push((name.to_string(), header));
    }
    Ok(claims)
}

/// The header to which the filter writes a claim that is meant for `header`. All extensions have the same for it: of each
/// request the filter removes all of these first, and then writes those of one extension. No client can send it, since
/// listeners refuse names with an underscore: routes of before may look for a header that the filter does not know any more.
fn own_header(header: &str) -> String {
    format!("x_portcullis_claim_{}", bytes::short_name(&bytes::version([header.as_bytes()])))
}

/// Claims with the headers that they are meant for, as the filter writes them.
pub(super) fn to_own_headers(claims: Vec<(String, String)>) -> Vec<JwtClaimToHeader> {
    let claim = |(claim_name, header): (String, String)| JwtClaimToHeader {
        header_name: own_header(&header),
        claim_name,
        ..JwtClaimToHeader::default()
    };
    claims.into_iter().map(claim).collect()
}

/// The slots of a route whose requests must have tokens: that of who judges them, which is told the name under which it knows
/// whose, and that of what moves their claims to the headers that these are meant for.
pub(crate) fn judged(
    name: &str,
    entry: ExtensionEntry,
    [judge, mover]: [&'static str; 2],
    asked: &[Asked],
    headers: &[String],
) -> Vec<Slot> {
    let requirement = RequirementSpecifier::RequirementName(name.to_owned());
    let slot = slots::slot(judge, &PerRouteConfig { requirement_specifier: Some(requirement) });
    let judged = Slot { entry: Some(entry.into()), asks: asked.into(), ..slot };
    let request_mutations = claims(headers);
    let moved = mutations::slot(mover, Mutations { request_mutations, ..Mutations::default() });
    std::iter::once(judged).chain(moved).collect()
}

/// What removes what clients say in headers that claims go to, where it stands in a slot of long ago. Connections from before
/// an upgrade have none of the slots that came with it, so claims are not moved there; what clients say must be gone there too.
pub(crate) fn cleared(name: &str, headers: &[String]) -> Option<TypedExtensionConfig> {
    let request_mutations: Vec<_> =
        headers.iter().map(|header| mutations::change(Action::Remove(header.clone()))).collect();
    let mutations = Mutations { request_mutations, ..Mutations::default() };
    (!headers.is_empty()).then(|| mutations::filter(name, mutations))
}

/// What moves claims to the headers that they are meant for, in which nothing of the client's is left.
fn claims(headers: &[String]) -> Vec<HeaderMutation> {
    let moves = headers.iter().flat_map(|header| {
        let own = own_header(header);
        let value = format!("%REQ({own})%");
        [
            mutations::change(Action::Remove(header.clone())),
            mutations::append(header.clone(), value, HeaderAppendAction::OverwriteIfExistsOrAdd),
            mutations::change(Action::Remove(own)),
        ]
    });
    moves.collect()
}

/// Where keys are, how many are reckoned with, and what it costs at most to try them all.
fn source(
    written: &JwksSource,
    field: &str,
    asked: &mut Vec<Asked>,
    follow: &mut dyn Follow,
) -> Result<(JwksSourceSpecifier, usize, usize), Problem> {
    match (&written.local, &written.remote) {
        (Some(local), None) => {
            let set = keys(local, &format!("{field}.local"), follow)?;
            Ok((JwksSourceSpecifier::LocalJwks(inline(set.json)), set.keys, set.cost))
        }
        (None, Some(written)) => {
            let remote = remote(written, &format!("{field}.remote"), asked, follow)?;
            Ok((JwksSourceSpecifier::RemoteJwks(remote), jwks::MOST_KEYS, COST_OF_SERVER))
        }
        _ => Err(problem(field, "it must have exactly one of local and remote")),
    }
}

/// The keys that are written, or that a ConfigMap has.
fn keys(written: &LocalJwks, field: &str, follow: &dyn Follow) -> Result<KeySet, Problem> {
    match (&written.inline, &written.config_map_ref) {
        (Some(text), None) => jwks::read(text).map_err(|why| problem(&format!("{field}.inline"), why)),
        (None, Some(ConfigMapName { name })) => {
            let set = follow
                .config_map(name, KEY_SET)
                .and_then(|text| jwks::read(&text).map_err(|why| format!("ConfigMap {name}, {KEY_SET:?}: {why}")));
            set.map_err(|why| problem(&format!("{field}.configMapRef.name"), why))
        }
        _ => Err(problem(field, "it must have exactly one of inline and configMapRef")),
    }
}

fn remote(
    written: &RemoteJwks,
    field: &str,
    asked: &mut Vec<Asked>,
    follow: &mut dyn Follow,
) -> Result<EnvoyRemote, Problem> {
    url(&written.url).map_err(at(&format!("{field}.url")))?;
    let to = api::shared::BackendRef { backend_ref: written.backend_ref.clone(), ..Default::default() };
    let server = follow.follow(&to, &format!("{field}.backendRef"), false)?;
    asked.push(server.clone());
    let interval = |text: Option<&str>, name: &str| {
        let field = format!("{field}.{name}");
        let Some(text) = text else { return Ok(None) };
        let interval = duration::positive(text).map_err(at(&field))?;
        if interval < LEAST_INTERVAL {
            return Err(problem(
                &field,
                format!("{text:?} is shorter than a second, in which a proxy asks once; write 1s or more"),
            ));
        }
        Ok(Some(spec::proto_duration(interval)))
    };
    let fetch = written.async_fetch.as_ref();
    let again = fetch.and_then(|fetch| fetch.failed_refetch_duration.as_deref());
    Ok(EnvoyRemote {
        http_uri: Some(key_set_at(&written.url, &server)),
        cache_duration: interval(written.cache_duration.as_deref(), "cacheDuration")?,
        async_fetch: fetch
            .is_some()
            .then_some(())
            .map(|()| {
                // A listener is there long before, and never waits.
                Ok(JwksAsyncFetch {
                    fast_listener: true,
                    failed_refetch_duration: interval(again, "asyncFetch.failedRefetchDuration")?,
                })
            })
            .transpose()?,
        retry_policy: written
            .retry_policy
            .as_ref()
            .map(|policy| retry(policy, &format!("{field}.retryPolicy")))
            .transpose()?,
    })
}

/// Where a server has its keys, and how long it may take to give them.
pub(super) fn key_set_at(url: &str, server: &Asked) -> HttpUri {
    HttpUri {
        uri: url.into(),
        timeout: Some(spec::proto_duration(FETCH)),
        http_upstream_type: Some(HttpUpstreamType::Cluster(server.cluster_name())),
    }
}

fn retry(written: &JwtRetry, field: &str) -> Result<RetryPolicy, Problem> {
    let times = written.num_retries.unwrap_or(1);
    let Some(times) = u32::try_from(times).ok().filter(|_| times <= MOST_ATTEMPTS) else {
        let message = format!("\"{times}\" is not from 0 to {MOST_ATTEMPTS}; write one of these");
        return Err(problem(&format!("{field}.numRetries"), message));
    };
    let back_off = written.back_off.as_ref().map(|back_off| {
        let base = timeout(Some(&back_off.base_interval), &format!("{field}.backOff.baseInterval"))?;
        let max = timeout(back_off.max_interval.as_deref(), &format!("{field}.backOff.maxInterval"))?;
        Ok(BackoffStrategy {
            base_interval: base.map(spec::proto_duration),
            max_interval: max.map(spec::proto_duration),
        })
    });
    Ok(RetryPolicy {
        num_retries: Some(UInt32Value { value: times }),
        retry_back_off: back_off.transpose()?,
        ..RetryPolicy::default()
    })
}

/// Accepts the URL of a key set: `http` or `https`, a host, and a path as it is sent.
fn url(url: &str) -> Result<(), Invalid> {
    let refused = |why: &str| Invalid::new(url, why, "write one such as https://issuer.example.com/keys");
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let rest = rest.ok_or_else(|| refused("it does not begin with https:// or http://"))?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    hostname::authority(host)?;
    if path.chars().any(|c| !c.is_ascii_graphic() || c == '#') {
        return Err(refused("its path has a sign that cannot be sent"));
    }
    Ok(())
}
