//! What Envoy says of what would be sent to it: its own word, from a process that can do nothing else.
//!
//! The Envoy is the real one. Where it would have to crash, hang or be taken over, a program stands in its place.

#[path = "judge/agent.rs"]
mod agent;
#[path = "judge/command.rs"]
mod command;
#[path = "judge/fake.rs"]
mod fake;
#[path = "judge/plain.rs"]
mod plain;
#[path = "judge/refused.rs"]
mod refused;
#[path = "judge/running.rs"]
mod running;
#[path = "judge/sandbox.rs"]
mod sandbox;
#[path = "judge/trials.rs"]
mod trials;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use envoy::judged::{Fragment, Kind, Wrapper};
use envoy_types::pb::envoy::config::core::v3::{DataSource, data_source::Specifier};
use envoy_types::pb::envoy::config::route::v3::{
    Route, RouteAction, RouteMatch, route::Action, route_action::ClusterSpecifier, route_match::PathSpecifier,
};
use envoy_types::pb::envoy::extensions::filters::http::lua::v3::{LuaPerRoute, lua_per_route};
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatcher;
use envoy_types::pb::google::protobuf::Any;
use ir::settings::Edge;
use judge::{Budget, Build, Client, How, Job, Judge, Launch, Outcome, Runner, Verdict, Way};
use portcullis_tests::process::{envoy_binary, portcullis_binary};
use portcullis_tests::wait::{TIMEOUT, eventually};
use prost::{Message, Name};

use crate::agent::Agent;
use crate::fake::Fake;

fn launch(envoy: &Path) -> Result<Launch> {
    let arguments = vec!["judge-child".into()];
    Ok(Launch { program: portcullis_binary()?, arguments, envoy: envoy.into(), folder: None, time: Launch::TIME })
}

fn judge_with(envoy: &Path) -> Result<Judge> {
    Ok(Judge::new(Way::Here(Runner::start(launch(envoy)?)?), &Edge::default()))
}

fn judge() -> Result<Judge> {
    judge_with(&envoy_binary()?)
}

fn budget() -> Budget {
    Budget { runs: 1_000, until: tokio::time::Instant::now() + Duration::from_mins(5) }
}

fn route(number: usize) -> Route {
    Route {
        name: format!("apps/shop/{number}/0"),
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::PathSeparatedPrefix(format!("/{number}"))),
            ..RouteMatch::default()
        }),
        action: Some(Action::Route(RouteAction {
            cluster_specifier: Some(ClusterSpecifier::Cluster("service/apps/shop/80".into())),
            ..RouteAction::default()
        })),
        ..Route::default()
    }
}

fn row(route: &Route) -> Fragment {
    Fragment::new(Kind::Row, route.encode_to_vec())
}

fn rows(count: usize) -> Vec<Fragment> {
    (0..count).map(|number| row(&route(number))).collect()
}

fn told(number: usize, config: Any) -> Fragment {
    row(&Route { typed_per_filter_config: [("transformation.lua".into(), config)].into(), ..route(number) })
}

fn lua(source: &str) -> Any {
    let source = DataSource { specifier: Some(Specifier::InlineString(source.into())), ..DataSource::default() };
    let program =
        LuaPerRoute { r#override: Some(lua_per_route::Override::SourceCode(source)), ..LuaPerRoute::default() };
    Any { type_url: LuaPerRoute::type_url(), value: program.encode_to_vec() }
}

fn matching(number: usize, regex: &str) -> Fragment {
    let regex = RegexMatcher { regex: regex.into(), ..RegexMatcher::default() };
    let matching = RouteMatch { path_specifier: Some(PathSpecifier::SafeRegex(regex)), ..RouteMatch::default() };
    row(&Route { r#match: Some(matching), ..route(number) })
}

/// Rows that Envoy refuses, and what it says of each.
fn refused() -> [(Fragment, &'static str); 3] {
    let unknown = Any { type_url: "type.googleapis.com/no.such.Type".into(), value: Vec::new() };
    [
        (matching(0, &format!("/{}", "a{1000}".repeat(33))), "RE2 program size of 33005"),
        (told(0, unknown), "no.such.Type"),
        (told(0, lua("function envoy_on_request(handle")), "script load error"),
    ]
}

fn refusal(verdict: &Verdict) -> Result<&judge::Refusal> {
    match verdict {
        Verdict::Refused(refusal) => Ok(refusal),
        other => bail!("{other:?}"),
    }
}

#[tokio::test]
async fn a_thousand_sound_rows_are_accepted_and_not_judged_again() -> Result<()> {
    let judge = judge()?;
    let rows = rows(1_000);
    let mut once = Budget { runs: 1, ..budget() };
    let verdicts = judge.judge(&rows, &mut once).await;
    ensure!(verdicts.iter().all(|verdict| *verdict == Verdict::Accepted), "{verdicts:?}");
    ensure!(judge.known(&rows[7]) == Some(Verdict::Accepted));
    let verdicts = judge.judge(&rows, &mut once).await;
    ensure!(
        verdicts.iter().all(|verdict| *verdict == Verdict::Accepted),
        "there is no process left to ask: {verdicts:?}"
    );
    Ok(())
}

#[tokio::test]
async fn what_envoy_refuses_is_found_among_a_thousand_with_its_words_and_siblings_are_accepted() -> Result<()> {
    let judge = judge()?;
    for (at, (culprit, words)) in refused().into_iter().enumerate() {
        let mut rows = rows(1_000);
        rows[123 + 300 * at] = culprit;
        let verdicts = judge.judge(&rows, &mut budget()).await;
        for (number, verdict) in verdicts.iter().enumerate() {
            if number != 123 + 300 * at {
                ensure!(*verdict == Verdict::Accepted, "{number}: {verdict:?}");
                continue;
            }
            let refusal = refusal(verdict)?;
            let text = refusal.to_string();
            ensure!(text.starts_with("Envoy 1.40.0 refuses it: ") && text.contains(words), "{text}");
            ensure!(!text.contains(".pb") && !text.contains("goo.gle") && !text.contains("/tmp"), "{text}");
            ensure!(text.len() < 1_100 && !text.contains('\n'), "{text}");
        }
        ensure!(judge.known(&rows[123 + 300 * at]).is_some_and(|verdict| verdict != Verdict::Accepted));
    }
    Ok(())
}

#[tokio::test]
async fn three_culprits_are_found_at_once() -> Result<()> {
    let judge = judge()?;
    let mut rows = rows(1_000);
    let places = [3, 500, 999];
    for (place, (culprit, _)) in places.into_iter().zip(refused()) {
        rows[place] = culprit;
    }
    let mut budget = budget();
    let verdicts = judge.judge(&rows, &mut budget).await;
    for (number, verdict) in verdicts.iter().enumerate() {
        ensure!((*verdict == Verdict::Accepted) != places.contains(&number), "{number}: {verdict:?}");
    }
    let spent = 1_000 - budget.runs;
    ensure!(spent < 70, "{spent} processes");
    Ok(())
}

#[tokio::test]
async fn a_program_without_an_end_is_found_by_its_time() -> Result<()> {
    let judge = judge()?;
    let rows = [row(&route(1)), told(2, lua("while true do end")), row(&route(3))];
    let verdicts = judge.judge(&rows, &mut budget()).await;
    ensure!(verdicts[0] == Verdict::Accepted && verdicts[2] == Verdict::Accepted, "{verdicts:?}");
    let refusal = refusal(&verdicts[1])?;
    ensure!(refusal.how == How::Time, "{refusal:?}");
    Ok(())
}

#[tokio::test]
async fn every_kind_of_fragment_is_judged_beside_others_of_its_name() -> Result<()> {
    use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
    let judge = judge()?;
    let host = |domain: &str, slot: Option<Any>| {
        let typed_per_filter_config = slot.map(|slot| ("cors".into(), slot)).into_iter().collect();
        let host = VirtualHost {
            name: domain.into(),
            domains: vec![domain.into()],
            typed_per_filter_config,
            ..VirtualHost::default()
        };
        Fragment::new(Kind::Host, host.encode_to_vec())
    };
    let unknown = || Any { type_url: "type.googleapis.com/no.such.Type".into(), value: Vec::new() };
    let config = |name: &str, slot: Option<Any>| {
        let typed_per_filter_config = slot.map(|slot| ("cors".into(), slot)).into_iter().collect();
        let config = RouteConfiguration { name: name.into(), typed_per_filter_config, ..RouteConfiguration::default() };
        Fragment::new(Kind::RouteConfiguration, config.encode_to_vec())
    };
    let samples = envoy::testing::samples::clusters();
    let clusters =
        samples.iter().map(|sample| Fragment::new(Kind::Cluster, envoy::cluster::cluster(sample).body.to_bytes()));
    let clusters: Vec<_> = clusters.collect();
    // Another one of the name of the first, which no Envoy takes.
    let broken = [&*clusters[0].bytes, &[0x20, 0xff, 0xff, 0x03]].concat();
    let edge = Edge::default();
    let listeners = envoy::testing::samples::listeners(&["secret/apps/cert".into()]);
    let listeners: Vec<_> =
        listeners.iter().map(|sample| envoy::listener::listener(sample, &edge).body.to_bytes()).collect();
    let extension = envoy::extensions::extension("rateLimit.local", [], |_| None, 1 << 20).body.to_bytes();
    let mut fragments = clusters;
    let sound = fragments.len();
    fragments.extend(listeners.iter().chain(&listeners).map(|bytes| Fragment::new(Kind::Listener, bytes.clone())));
    fragments.extend([host("*", None), host("a.example", None), config("http/80", None)]);
    fragments.push(Fragment::new(Kind::Extension, extension));
    let all_sound = fragments.len();
    fragments.extend([host("*", Some(unknown())), config("http/80", Some(unknown()))]);
    fragments.push(Fragment::new(Kind::Cluster, broken));
    let verdicts = judge.judge(&fragments, &mut budget()).await;
    for (at, verdict) in verdicts.iter().enumerate() {
        let is_sound = at < all_sound;
        ensure!(
            (*verdict == Verdict::Accepted) == is_sound,
            "{at} of {sound} clusters, {all_sound} sound: {verdict:?}"
        );
        if !is_sound {
            refusal(verdict)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_crashes_envoy_is_found_and_siblings_are_accepted() -> Result<()> {
    let fake = Fake::new(
        "if b'shop/7/0' in data and b'service/' in data.split(b'shop/7/0')[0][-40:]: os.kill(os.getpid(), signal.SIGSEGV)\n",
    )?;
    let verdicts = judge_with(&fake.path)?.judge(&rows(16), &mut budget()).await;
    for (number, verdict) in verdicts.iter().enumerate() {
        if number == 7 {
            let refusal = refusal(verdict)?;
            ensure!(refusal.how == How::Crash(11), "{refusal:?}");
            ensure!(refusal.to_string() == "Envoy 1.40.0 crashes when it reads it (signal 11)");
        } else {
            ensure!(*verdict == Verdict::Accepted, "{number}: {verdict:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_envoy_that_is_none_blames_nobody() -> Result<()> {
    let error = Runner::start(launch(Path::new("/no/such/envoy"))?).err().context("there is none")?;
    ensure!(error.to_string().contains("/no/such/envoy"), "{error}");
    for then in ["sys.exit(1)", "sys.exit(77)", "refuse('all')", "os.kill(os.getpid(), signal.SIGABRT)"] {
        let fake = Fake::new(then)?;
        let mut budget = budget();
        let verdicts = judge_with(&fake.path)?.judge(&rows(100), &mut budget).await;
        ensure!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Unknown(_))), "{then}: {verdicts:?}");
        ensure!(budget.runs >= 998, "{then}: it is noticed at once");
    }
    Ok(())
}

#[tokio::test]
async fn an_envoy_that_hangs_is_ended_and_one_that_floods_fills_nothing() -> Result<()> {
    let hanging = Fake::new("signal.pause()\n")?;
    let runner = Runner::start(Launch { time: Duration::from_millis(300), ..launch(&hanging.path)? })?;
    let job = || Job { bootstrap: Wrapper::new(&Edge::default()).bootstrap(&[]).into(), fragments: 0 };
    ensure!(runner.run(job()).await == Outcome::Stalled);
    let flooding = Fake::new("while True: sys.stderr.write('x' * 65536)\n")?;
    let runner = Runner::start(launch(&flooding.path)?)?;
    let flooded = runner.run(job()).await;
    ensure!(matches!(flooded, Outcome::TooExpensive | Outcome::Stalled), "{flooded:?}");
    Ok(())
}

#[tokio::test]
async fn a_program_that_ends_envoy_is_not_accepted() -> Result<()> {
    let judge = judge()?;
    for end in ["os.exit(0)", "os.exit(7)", "print('configuration OK') os.exit(0)"] {
        let rows = [row(&route(1)), told(2, lua(end)), row(&route(3))];
        let verdicts = judge.judge(&rows, &mut budget()).await;
        ensure!(verdicts[0] == Verdict::Accepted && verdicts[2] == Verdict::Accepted, "{verdicts:?}");
        let refusal = refusal(&verdicts[1])?;
        ensure!(matches!(refusal.how, How::End(_)), "{refusal:?}");
    }
    Ok(())
}

/// Waits until a client is connected, or is not any more.
async fn connected(build: &mut tokio::sync::watch::Receiver<Option<Build>>, is: bool) -> Result<()> {
    let turned = build.wait_for(|build| build.is_some() == is);
    tokio::time::timeout(TIMEOUT, turned).await.context("the connection does not turn")??;
    Ok(())
}

#[tokio::test]
async fn an_agent_judges_for_a_client_and_is_found_again_after_it_died() -> Result<()> {
    let mut agent = Agent::start(&envoy_binary()?)?;
    let client = Client::new(agent.socket());
    let mut build = client.watch();
    connected(&mut build, true).await?;
    let judge = Judge::new(Way::There(client), &Edge::default());
    let mut all = rows(100);
    all[50] = refused()[1].0.clone();
    let verdicts = judge.judge(&all, &mut budget()).await;
    for (number, verdict) in verdicts.iter().enumerate() {
        ensure!((*verdict == Verdict::Accepted) == (number != 50), "{number}: {verdict:?}");
    }
    ensure!(refusal(&verdicts[50])?.to_string().contains("no.such.Type"));
    agent.process.kill().await?;
    connected(&mut build, false).await?;
    ensure!(
        matches!(judge.judge(&rows(101)[100..], &mut budget()).await[0], Verdict::Unknown(_)),
        "nobody can be asked"
    );
    agent.restart()?;
    connected(&mut build, true).await?;
    ensure!(judge.judge(&rows(101)[100..], &mut budget()).await == [Verdict::Accepted]);
    Ok(())
}

#[tokio::test]
async fn an_agent_outlives_the_crashes_of_its_envoy_and_hostile_clients() -> Result<()> {
    use tokio::io::AsyncWriteExt;
    let fake = Fake::new("if b'shop/' in data: os.kill(os.getpid(), signal.SIGSEGV)\n")?;
    let mut agent = Agent::start(&fake.path)?;
    let client = Client::new(agent.socket());
    connected(&mut client.watch(), true).await?;
    for _ in 0..3 {
        let wrapper = Wrapper::new(&Edge::default());
        let rows = rows(1);
        let crash = Job { bootstrap: wrapper.bootstrap(&[&rows[0]]).into(), fragments: 1 };
        ensure!(client.run(crash).await == Outcome::Crashed(11));
        let sound = Job { bootstrap: wrapper.bootstrap(&[]).into(), fragments: 0 };
        ensure!(client.run(sound).await == Outcome::Accepted);
        let mut hostile = tokio::net::UnixStream::connect(agent.socket()).await?;
        hostile.write_all(&[0xff; 4096]).await?;
    }
    agent.process.check_alive()?;
    let mode = std::fs::metadata(agent.socket())?;
    ensure!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777 == 0o600, "others cannot ask");
    Ok(())
}

#[tokio::test]
async fn silent_clients_make_room_for_one_that_asks() -> Result<()> {
    let agent = Agent::start(&envoy_binary()?)?;
    connected(&mut Client::new(agent.socket()).watch(), true).await?;
    let mut silent = Vec::new();
    for _ in 0..6 {
        silent.push(tokio::net::UnixStream::connect(agent.socket()).await?);
    }
    let client = Client::new(agent.socket());
    connected(&mut client.watch(), true).await?;
    let job = Job { bootstrap: Wrapper::new(&Edge::default()).bootstrap(&[]).into(), fragments: 0 };
    ensure!(client.run(job).await == Outcome::Accepted);
    Ok(())
}

#[tokio::test]
async fn no_process_is_left_when_an_agent_is_killed() -> Result<()> {
    let mut agent = Agent::start(&envoy_binary()?)?;
    connected(&mut Client::new(agent.socket()).watch(), true).await?;
    let children = eventually(TIMEOUT, async || {
        let children = agent.process.children()?;
        ensure!(!children.is_empty(), "none was started ahead");
        for id in &children {
            let first = std::fs::read_to_string(format!("/proc/{id}/oom_score_adj"))?;
            ensure!(first.trim() == "1000", "the kernel does not take it first: {first}");
        }
        Ok(children)
    })
    .await?;
    agent.process.kill().await?;
    eventually(TIMEOUT, async || {
        let left: Vec<_> = children.iter().filter(|id| Path::new(&format!("/proc/{id}/exe")).exists()).collect();
        ensure!(left.is_empty(), "{left:?} still run");
        Ok(())
    })
    .await
}

/// A cluster by whose absence Envoy refuses what asks for it is there, as it is where rows are sent.
#[test]
fn clusters_that_are_asked_are_there_once() -> Result<()> {
    use envoy_types::pb::envoy::config::bootstrap::v3::Bootstrap;
    let asks: Arc<[Arc<str>]> = Arc::new(["a".into(), "b".into()]);
    let rows: Vec<_> = rows(2).into_iter().map(|row| Fragment { asks: asks.clone(), ..row }).collect();
    let bytes = Wrapper::new(&Edge::default()).bootstrap(&rows.iter().collect::<Vec<_>>());
    let resources = Bootstrap::decode(&*bytes)?.static_resources.context("no resources")?;
    let names: Vec<_> = resources.clusters.iter().map(|cluster| &*cluster.name).collect();
    ensure!(names == ["xds", "a", "b"], "{names:?}");
    Ok(())
}
