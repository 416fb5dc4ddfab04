use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::*;

/// When tokens are made, in seconds since 1970.
const NOW: u64 = 1_800_000_000;
const HOUR: u64 = 3600;

/// What the API server says of every token.
#[derive(Clone, Copy)]
enum Says {
    Accepted,
    Bad,
    Nothing,
    NeverAnything,
}

struct Server {
    says: Mutex<Says>,
    asked: AtomicUsize,
}

impl Review for Server {
    fn review<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Option<Bearer>, ReviewError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let says = *self.says.lock().expect("not poisoned");
        async move {
            match says {
                Says::Accepted => Ok(Some(Bearer { account: NsName::new("infra", "edge-sa"), pod: None })),
                Says::Bad => Ok(None),
                Says::Nothing => Err(ReviewError::new("away")),
                Says::NeverAnything => std::future::pending().await,
            }
        }
        .boxed()
    }
}

struct World {
    server: Arc<Server>,
    wall: Arc<AtomicU64>,
    tokens: TokenAuthenticator,
}

fn world(settings: Settings) -> World {
    let server = Arc::new(Server { says: Mutex::new(Says::Accepted), asked: AtomicUsize::new(0) });
    let wall = Arc::new(AtomicU64::new(NOW));
    let clock = wall.clone();
    let tokens = TokenAuthenticator::with_clock(
        server.clone(),
        Arc::new(|account| (*account == NsName::new("infra", "edge-sa")).then(|| NsName::new("infra", "edge"))),
        settings,
        Arc::new(move || SystemTime::UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::Relaxed))),
    );
    World { server, wall, tokens }
}

fn token(user: &str, audience: &str, expires: u64) -> String {
    let claims = json!({"sub": user, "aud": [audience], "exp": expires});
    format!("header.{}.signature", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn edge() -> String {
    token("system:serviceaccount:infra:edge-sa", AUDIENCE, NOW + HOUR)
}

impl World {
    async fn judge(&self, token: &str) -> Result<Identity, Refusal> {
        self.tokens.judge(token).await
    }

    fn says(&self, says: Says) {
        *self.server.says.lock().expect("not poisoned") = says;
    }

    fn asked(&self) -> usize {
        self.server.asked.load(Ordering::Relaxed)
    }

    /// Both clocks go on.
    async fn passes(&self, seconds: u64) {
        self.wall.fetch_add(seconds, Ordering::Relaxed);
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_good_token_is_asked_about_once_in_a_while() {
    let world = world(Settings::default());
    let identity = world.judge(&edge()).await.expect("good");
    assert_eq!((identity.gateway.as_str(), identity.name.as_str()), ("infra/edge", "ServiceAccount infra/edge-sa"));
    assert_eq!(identity.recheck_after, Duration::from_mins(5));
    world.passes(200).await;
    assert_eq!(world.judge(&edge()).await.expect("good").recheck_after, Duration::from_secs(100));
    assert_eq!(world.asked(), 1);
    world.passes(100).await;
    world.judge(&edge()).await.expect("good");
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_expires_is_asked_about_then() {
    let world = world(Settings::default());
    let short = token("system:serviceaccount:infra:edge-sa", AUDIENCE, NOW + 60);
    assert_eq!(world.judge(&short).await.expect("good").recheck_after, Duration::from_mins(1));
    world.passes(60).await;
    world.says(Says::Bad);
    assert_eq!(world.judge(&short).await, Err(Refusal::Denied));
    assert_eq!(world.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_could_never_be_let_in_is_refused_without_asking() {
    let world = world(Settings::default());
    let account = "system:serviceaccount:infra:edge-sa";
    for (token, refusal) in [
        ("garbage".to_owned(), Refusal::Denied),
        (token(account, "https://kubernetes.default.svc", NOW + HOUR), Refusal::Denied),
        (token("kubernetes-admin", AUDIENCE, NOW + HOUR), Refusal::Denied),
        (token("system:serviceaccount:infra:other", AUDIENCE, NOW + HOUR), Refusal::NoGateway),
    ] {
        assert_eq!(world.judge(&token).await, Err(refusal), "{token}");
    }
    assert_eq!(world.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_soon_asked_about_again_but_not_at_once() {
    let world = world(Settings::default());
    world.says(Says::Bad);
    assert_eq!(world.judge(&edge()).await, Err(Refusal::Denied));
    world.says(Says::Accepted);
    assert_eq!(world.judge(&edge()).await, Err(Refusal::Denied));
    assert_eq!(world.asked(), 1);
    world.passes(10).await;
    world.judge(&edge()).await.expect("good by now");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_is_forgotten() {
    let world = world(Settings::default());
    world.judge(&edge()).await.expect("good");
    world.passes(300).await;
    world.says(Says::Bad);
    assert_eq!(world.judge(&edge()).await, Err(Refusal::Denied));
    // Also when nobody can be asked.
    world.passes(60).await;
    world.says(Says::Nothing);
    assert_eq!(world.judge(&edge()).await, Err(Refusal::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn while_the_api_server_is_away_known_tokens_stay_good_until_they_expire() {
    let world = world(Settings::default());
    world.judge(&edge()).await.expect("good");
    for says in [Says::Nothing, Says::NeverAnything] {
        world.says(says);
        world.passes(600).await;
        assert_eq!(world.judge(&edge()).await.expect("known").recheck_after, Duration::from_secs(10));
        // The next does not wait for somebody who is away.
        let asked = world.asked();
        world.judge(&edge()).await.expect("known");
        assert_eq!(world.asked(), asked);
        let unknown = token("system:serviceaccount:infra:edge-sa", AUDIENCE, NOW + 2 * HOUR);
        assert_eq!(world.judge(&unknown).await, Err(Refusal::Unavailable));
    }
    world.passes(HOUR).await;
    assert_eq!(world.judge(&edge()).await, Err(Refusal::Unavailable), "it is expired, and nobody says otherwise");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_refuses_nobody_by_itself() {
    let world = world(Settings::default());
    world.judge(&edge()).await.expect("good");
    // Two days ahead: the API server's clock is the one that counts, so it is asked each time.
    world.wall.store(NOW + 48 * HOUR, Ordering::Relaxed);
    assert_eq!(world.judge(&edge()).await.expect("the API server says so").recheck_after, Duration::from_secs(10));
    assert_eq!(world.asked(), 2);
    // Two days behind: it would expire late, but is asked about by the rhythm.
    world.wall.store(NOW - 48 * HOUR, Ordering::Relaxed);
    assert_eq!(world.judge(&edge()).await.expect("good").recheck_after, Duration::from_mins(5));
    world.passes(300).await;
    world.says(Says::Bad);
    assert_eq!(world.judge(&edge()).await, Err(Refusal::Denied));
}

#[tokio::test(start_paused = true)]
async fn a_service_account_that_loses_its_gateway_is_refused_although_its_token_is_good() {
    let mut world = world(Settings::default());
    world.judge(&edge()).await.expect("good");
    world.tokens.gateway_of = Arc::new(|_| None);
    assert_eq!(world.judge(&edge()).await, Err(Refusal::NoGateway));
}

#[tokio::test(start_paused = true)]
async fn refused_tokens_push_out_no_good_ones() {
    let world = world(Settings { good_capacity: 1, refused_capacity: 1, ..Settings::default() });
    world.judge(&edge()).await.expect("good");
    world.says(Says::Bad);
    for more in 1..5 {
        let bad = token("system:serviceaccount:infra:edge-sa", AUDIENCE, NOW + HOUR + more);
        assert_eq!(world.judge(&bad).await, Err(Refusal::Denied));
    }
    let asked = world.asked();
    world.judge(&edge()).await.expect("still known");
    assert_eq!(world.asked(), asked);
}

#[test]
fn a_judge_prints_nothing_of_what_it_knows() {
    let world = world(Settings::default());
    assert!(!format!("{:?}", world.tokens).contains("edge"));
}
