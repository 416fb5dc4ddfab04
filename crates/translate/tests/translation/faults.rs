//! A row of any table panics: nothing opens, who has nothing to do with it keeps every byte, and it heals.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use api::ObjectId;
use envoy::{Encoded, ResourceKey, ResourceKind};
use ir::{NsName, Settings};
use proptest::strategy::ValueTree;
use serde_json::{Value, json};
use worlds::Draws;

use super::{alike::spelled_out, object};
use translate::{Change, Changes, Deploying, Translator, testing::one_of_each};

const HOSTS: &[&str] = &[
    "x.org",
    "exact.example.com",
    "by.example.com",
    "shop.example.com",
    "narrow.example.com",
    "own.example.com",
    "tree.example.com",
];
const PATHS: &[&str] = &[
    "/",
    "/exact",
    "/broken",
    "/admin",
    "/moved",
    "/kept",
    "/said",
    "/far",
    "/re/x",
    "/named",
    "/named/a",
    "/named/deep",
    "/named/deep/er",
    "/label",
    "/label/one",
    "/all",
    "/all/one",
];

/// Of so many rows of a table all are tried.
const SMALL_TABLE: usize = 6;
/// Of the others one of so many is.
const ONE_ROW_OF: usize = 8;
/// To build all anew for each row would take most of the time: besides the first of each table, it is done for one of so many.
const ONE_ROW_ANEW_OF: usize = 64;

/// What is the Gateway's, the listener's or the port's own is everybody's there. All rows of these tables are tried.
const OF_EVERYBODY: &[&str] = &[
    "BrokenGateway",
    "BrokenListener",
    "Certificate",
    "CertificateState",
    "DownstreamOf",
    "ListenerPoliciesOf",
    "ListenerPolicyRow",
    "ListenerRow",
    "ListenerSlots",
    "PoliciesOf",
    "PolicyRow",
    "PortRival",
    "WideActions",
    "WideLevel",
    "WidePriority",
    "WideSlots",
    "WideUnits",
];

/// A translator, and what its proxies and the API server were told so far.
struct World {
    translator: Translator,
    served: BTreeMap<ResourceKey, Encoded>,
    statuses: BTreeMap<ObjectId, String>,
}

impl World {
    fn new(failing: Option<&(&'static str, String)>) -> Self {
        let mut settings = Settings::default();
        settings.policies.say_once_from = 1;
        let mut translator = Translator::new(settings);
        if let Some((table, key)) = failing {
            translator.fail_at(table, key);
        }
        translator.set_deploying(Some(Deploying {
            settings: deploy::Settings::default(),
            xds_host: "portcullis.portcullis-system.svc".into(),
            xds_port: 9977,
            authorities: Some(Arc::from("-----BEGIN CERTIFICATE-----\n")),
            applied: true,
        }));
        for value in one_of_each() {
            translator.apply(Change::Put(object(value)));
        }
        let mut world = Self { translator, served: BTreeMap::new(), statuses: BTreeMap::new() };
        world.settle();
        world
    }

    fn settle(&mut self) -> Changes {
        let changes = self.translator.settle();
        for (key, encoded) in &changes.resources {
            match encoded {
                Some(encoded) => self.served.insert(key.clone(), encoded.clone()),
                None => self.served.remove(key),
            };
        }
        for id in &changes.statuses {
            match self.translator.status(id) {
                Some(status) => self.statuses.insert(id.clone(), status),
                None => self.statuses.remove(id),
            };
        }
        changes
    }
}

/// Messages, decoded once; of routes as if each said all by itself, with which of them takes a request.
#[derive(Default)]
struct Decoded {
    messages: HashMap<[u8; 16], Arc<Value>>,
    taken: HashMap<[u8; 16], Arc<[Taken]>>,
    bystanders: HashMap<[u8; 16], Arc<[Bystander]>>,
}

/// An Envoy route, with its virtual host.
type Bystander = (String, Value);

/// Host and path of a request, and the route that takes it.
type Taken = (&'static str, &'static str, Option<Arc<Value>>);

impl Decoded {
    fn of(&mut self, key: &ResourceKey, encoded: &Encoded) -> Arc<Value> {
        let decode = || {
            let bytes = encoded.body.to_bytes();
            let message = envoy::json::value(key.kind.message_name(), &bytes).expect("a message");
            let is_routes = key.kind == ResourceKind::RouteConfiguration;
            Arc::new(if is_routes { spelled_out(message) } else { message })
        };
        self.messages.entry(encoded.version).or_insert_with(decode).clone()
    }

    /// Which routes of a route configuration take requests, as Envoy chooses.
    fn taken(&mut self, key: &ResourceKey, encoded: &Encoded) -> Arc<[Taken]> {
        let config = self.of(key, encoded);
        self.taken.entry(encoded.version).or_insert_with(|| taken(&config)).clone()
    }

    /// The Envoy routes of two routes that have nothing to do with others, with their virtual hosts.
    fn bystanders(&mut self, key: &ResourceKey, encoded: &Encoded) -> Arc<[Bystander]> {
        let config = self.of(key, encoded);
        self.bystanders.entry(encoded.version).or_insert_with(|| bystanders_of(&config)).clone()
    }
}

/// Where a request goes: Gateway, route configuration, host and path.
type Asked = (String, String, &'static str, &'static str);

/// What becomes of every request that Envoy's configuration tells apart, as Envoy chooses; none where it answers an error
/// by itself.
fn answers(decoded: &mut Decoded, served: &BTreeMap<ResourceKey, Encoded>) -> BTreeMap<Asked, Option<Arc<Value>>> {
    let mut answers = BTreeMap::new();
    for (key, encoded) in served.iter().filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration) {
        for (host, path, taken) in &*decoded.taken(key, encoded) {
            let answer = taken.clone().filter(|route| serves(route, served, &key.gateway));
            answers.insert((key.gateway.to_string(), key.name.to_string(), *host, *path), answer);
        }
    }
    answers
}

/// The requests that get nothing but an error, without those over connections from before a certificate was demanded.
fn unanswered(answers: &BTreeMap<Asked, Option<Arc<Value>>>) -> Vec<&Asked> {
    let is_from_before = |(gateway, config, host, path): &Asked| {
        answers.contains_key(&(gateway.clone(), format!("{config}/verified"), *host, *path))
    };
    let unanswered = answers.iter().filter(|&(asked, answer)| answer.is_none() && !is_from_before(asked));
    unanswered.map(|(asked, _)| asked).collect()
}

fn taken(config: &Value) -> Arc<[Taken]> {
    let mut all = Vec::new();
    for host in HOSTS {
        let hosts = config["virtualHosts"].as_array();
        let with_domain = |domain: &str| {
            let mut hosts = hosts.into_iter().flatten();
            hosts.find(|host| host["domains"].as_array().is_some_and(|domains| domains.contains(&json!(domain))))
        };
        let suffix = host.split_once('.').map(|(_, suffix)| format!("*.{suffix}"));
        let chosen = with_domain(host).or_else(|| with_domain(&suffix?)).or_else(|| with_domain("*"));
        for path in PATHS {
            let routes = chosen.and_then(|host| host["routes"].as_array()).into_iter().flatten();
            let taken = routes.into_iter().find(|route| takes(&route["match"], path));
            all.push((*host, *path, taken.cloned().map(Arc::new)));
        }
    }
    all.into()
}

fn takes(matching: &Value, path: &str) -> bool {
    let mut headers = matching["headers"].as_array().into_iter().flatten();
    if headers.any(|header| header["name"] != ":path") {
        return false;
    }
    if let Value::String(regex) = &matching["safeRegex"]["regex"] {
        return regex::Regex::new(&format!("^(?:{regex})$")).expect("an expression").is_match(path);
    }
    let below = |prefix: &str| path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match (&matching["pathSeparatedPrefix"], &matching["prefix"], &matching["path"]) {
        (Value::String(prefix), ..) => below(prefix),
        (_, Value::String(prefix), _) => path.starts_with(prefix.as_str()),
        (.., Value::String(exact)) => path == exact,
        _ => panic!("a match of another kind: {matching}"),
    }
}

/// Whether a route does anything but to answer an error.
fn serves(route: &Value, served: &BTreeMap<ResourceKey, Encoded>, gateway: &NsName) -> bool {
    // A share that is broken answers an error, and the others are as they were.
    let shares = route["route"]["weightedClusters"]["clusters"].as_array().into_iter().flatten();
    if shares.into_iter().any(|share| share["name"] == "broken") {
        return false;
    }
    let cluster = route["route"]["cluster"].as_str();
    let has = |name: &str| {
        let kind = ResourceKind::Cluster;
        served.contains_key(&ResourceKey { gateway: gateway.clone(), kind, name: name.into() })
    };
    match (cluster, route["directResponse"]["status"].as_u64()) {
        (Some(cluster), _) => has(cluster),
        (None, status) => status.is_none_or(|status| status < 400 || status == 418),
    }
}

/// Where places of streams send to, and in which way.
fn reached(decoded: &mut Decoded, served: &BTreeMap<ResourceKey, Encoded>) -> BTreeSet<String> {
    let is_place =
        |key: &ResourceKey| ["tcp/", "udp/", "tls/", "tls-passthrough/"].iter().any(|kind| key.name.starts_with(kind));
    let places = served.iter().filter(|(key, _)| key.kind == ResourceKind::Endpoints && is_place(key));
    let mut reached = BTreeSet::new();
    for (key, encoded) in places {
        let assignment = decoded.of(key, encoded);
        for locality in assignment["endpoints"].as_array().into_iter().flatten() {
            for endpoint in locality["lbEndpoints"].as_array().into_iter().flatten() {
                let address = &endpoint["endpoint"]["address"]["socketAddress"]["address"];
                if address != "255.255.255.255" {
                    reached.insert(format!("{} {address} {}", key.name, endpoint["metadata"]));
                }
            }
        }
    }
    reached
}

/// The Envoy routes of two routes that have nothing to do with others, wherever they are served.
fn bystanders(decoded: &mut Decoded, served: &BTreeMap<ResourceKey, Encoded>) -> Vec<(ResourceKey, Arc<[Bystander]>)> {
    let configs = served.iter().filter(|(key, _)| key.kind == ResourceKind::RouteConfiguration);
    let all = configs.map(|(key, encoded)| (key.clone(), decoded.bystanders(key, encoded)));
    all.filter(|(_, routes)| !routes.is_empty()).collect()
}

fn bystanders_of(config: &Value) -> Arc<[Bystander]> {
    let mut all = Vec::new();
    for host in config["virtualHosts"].as_array().into_iter().flatten() {
        for route in host["routes"].as_array().into_iter().flatten() {
            let name = route["name"].as_str().unwrap_or_default();
            if ["apps/bystander/", "apps/elsewhere/"].iter().any(|own| name.starts_with(own)) {
                all.push((host["name"].to_string(), route.clone()));
            }
        }
    }
    all.into()
}

/// Whether less is served where a row of this table is missing, though something is.
fn is_narrower(table: &str, path: &str, before: Option<&Value>, now: Option<&Value>) -> bool {
    match table {
        // A match without a price is left out, as one that is too slow: its requests are for broader rules.
        "MatchingTime" => path == "/re/x",
        // Where nobody knows whether requests say whom they come from, redirects go to the client.
        "TakesAddresses" => {
            let mut before = before.cloned();
            if let Some(action) = before.as_mut().and_then(|route| route["route"].as_object_mut()) {
                action.remove("internalRedirectPolicy");
            }
            before.as_ref() == now
        }
        _ => false,
    }
}

/// Rows to fail, and of which of them all is built anew too: rows of a table differ little, and some tables have hundreds.
fn sample(translator: &Translator) -> Vec<((&'static str, String), bool)> {
    let mut rows = translator.computed_rows();
    rows.sort();
    let mut draws = Draws::new();
    let mut drawn = |one_of: usize| -> BTreeSet<usize> {
        draws.take(&(0..rows.len()), rows.len() / one_of).iter().map(ValueTree::current).collect()
    };
    let (some, anew) = (drawn(ONE_ROW_OF), drawn(ONE_ROW_ANEW_OF));
    let mut of_table: BTreeMap<_, usize> = BTreeMap::new();
    let all = rows.into_iter().enumerate().filter_map(|(index, row)| {
        let rows = of_table.entry(row.0).or_default();
        *rows += 1;
        let is_drawn = anew.contains(&index);
        let is_tried = *rows <= SMALL_TABLE || some.contains(&index) || is_drawn || OF_EVERYBODY.contains(&row.0);
        is_tried.then_some((row, is_drawn))
    });
    all.collect()
}

#[test]
fn a_row_that_panics_opens_nothing_harms_no_bystander_and_heals() {
    let mut decoded = Decoded::default();
    let mut world = World::new(None);
    let (served, statuses) = (world.served.clone(), world.statuses.clone());
    let all: BTreeMap<_, _> = world.translator.statuses().into_iter().collect();
    assert!(statuses.keys().eq(all.keys()), "all are told: {:?}", statuses.keys());
    let before = answers(&mut decoded, &served);
    let unanswered = unanswered(&before);
    assert!(3 * unanswered.len() < 2 * before.len(), "most requests are served: {unanswered:?}");
    let unharmed = bystanders(&mut decoded, &served);
    let streams = reached(&mut decoded, &served);
    assert!(streams.len() > 4, "places send somewhere: {streams:?}");
    let rows = sample(&world.translator);
    let (mut tried, mut harmful) = (BTreeSet::new(), BTreeSet::new());
    let mut wrong = Vec::new();
    for (row @ (table, key), is_drawn) in &rows {
        world.translator.fail_at(table, key);
        let changes = world.settle();
        if changes.faults.is_empty() {
            // Somebody looks whether it exists, and nobody demands that it does.
            world.translator.fail_no_more(table, key);
            continue;
        }
        let is_first = tried.insert(*table);
        assert!(changes.faults.len() == 1, "{table}({key}) is told once: {:?}", changes.faults);
        // Where nothing else is sent nothing else is served.
        let is_sent = !changes.resources.is_empty();
        let during = if is_sent { answers(&mut decoded, &world.served) } else { BTreeMap::new() };
        for (asked, now) in during.iter().filter(|(_, now)| now.is_some()) {
            let before = before.get(asked);
            if before != Some(now) && !is_narrower(table, asked.3, before.and_then(Option::as_deref), now.as_deref()) {
                wrong.push(format!("{table}({key}) opens {asked:?}: {now:?}"));
            }
        }
        let now_reached = if is_sent { reached(&mut decoded, &world.served) } else { BTreeSet::new() };
        let opened: Vec<_> = now_reached.difference(&streams).cloned().collect();
        if !opened.is_empty() {
            wrong.push(format!("{table}({key}) opens {opened:?}"));
        }
        // They, what they send requests to and what they are served by.
        let theirs = ["bystander", "elsewhere", "\"by\"", "\"other\"", "by.example.com"];
        let is_theirs = theirs.iter().any(|name| key.contains(name));
        if is_sent && !is_theirs && bystanders(&mut decoded, &world.served) != unharmed {
            harmful.insert(*table);
        }
        // Nobody who asks for words is failed.
        let _ = world.translator.problems();

        if is_first || *is_drawn {
            let scratch = World::new(Some(row));
            // A status that nobody can compute is left as it was told, and a new replica has told none.
            let (known, anew) = (world.translator.statuses(), scratch.translator.statuses());
            if scratch.translator.resources() != world.translator.resources() || anew != known {
                wrong.push(format!("{table}({key}): a new replica does otherwise"));
            }
        }

        world.translator.fail_no_more(table, key);
        let healed = world.settle();
        assert!(healed.faults.len() == 1 && world.translator.faults() == 0, "{table}({key}) is over");
        assert!(world.served == served && world.statuses == statuses, "{table}({key}) heals");
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert_eq!(harmful.into_iter().collect::<Vec<_>>(), OF_EVERYBODY);
    let tables = world.translator.stats();
    let computed = tables.iter().filter(|table| matches!(table.kind, engine::Kind::Lookup | engine::Kind::Derived));
    // These have rows where Envoy is asked first: `super::strict` tries them.
    // And these where trees are kept: `super::freeze` does.
    let of_freeze = [
        "AskedFor",
        "FreezingOf",
        "EditionMember",
        "Judged",
        "JudgedRoute",
        "TreeObject",
        "TreePart",
        "TreeOf",
        "WideFreezing",
        "WideTree",
    ];
    // And this one where there is no room: `super::sets_room` does.
    let elsewhere = [&super::strict::OF_STRICT[..], &of_freeze, &["WithoutRoom"]].concat();
    let names = computed.map(|table| table.name).filter(|name| !elsewhere.contains(name));
    let untried: Vec<_> = names.filter(|name| !tried.contains(name)).collect();
    assert_eq!(untried, Vec::<&str>::new(), "no row of these tables was tried");
}

/// A rule of which a Gateway says more: by its word, and in what is part of a route's action.
#[test]
fn a_rule_of_which_nobody_knows_what_its_gateway_makes_of_it_is_closed_there_and_no_other() {
    use super::{
        modes::annotated,
        policies::{at, policy, with},
        scene::{Scene, child, forward, gateway, http, route, service, to},
    };

    let traffic = |namespace: &str, name: &str, target: Value, spec: Value| {
        let mut policy = policy("TrafficPolicy", name, with(target, spec));
        policy["metadata"]["namespace"] = json!(namespace);
        policy
    };
    let limits = |bytes: u32| json!({"buffer": {"maxRequestSize": bytes}, "timeouts": {"request": "9s"}});
    let edge = gateway("edge", json!([http("web", 80, ""), http("other", 81, "")]));
    let second = gateway("second", json!([http("web", 82, "")]));
    let both = json!([{"name": "edge", "namespace": "infra"}, {"name": "second", "namespace": "infra"}]);
    let objects = [
        annotated(edge, "ShallowMergePreferParent"),
        second,
        service("s"),
        route("r", json!({"parentRefs": both, "rules": [forward("/a"), forward("/b")]})),
        route("root", json!({"rules": [to("/tree", &["leaf"])]})),
        child("leaf", json!([forward("/tree/x")])),
        traffic("infra", "wide", at("Gateway", "edge"), limits(16)),
        traffic("apps", "own", at("HTTPRoute", "r"), json!({"buffer": {"disable": {}}})),
    ];
    let mut scene = Scene::new(objects);
    let answers = |scene: &Scene| {
        let mut answers = BTreeMap::new();
        for (gateway, config) in [("infra/edge", "http/80"), ("infra/edge", "http/81"), ("infra/second", "http/82")] {
            let message = scene.resource(gateway, ResourceKind::RouteConfiguration, config).expect("routes");
            let hosts = message["virtualHosts"].as_array().into_iter().flatten();
            for route in hosts.flat_map(|host| host["routes"].as_array().into_iter().flatten()) {
                answers.insert(format!("{config} {}", route["name"].as_str().unwrap_or_default()), route.clone());
            }
        }
        answers
    };
    let sound = answers(&scene);
    let rows: Vec<_> = scene.0.computed_rows().into_iter().filter(|(table, _)| *table == "ResolvedAt").collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    for (table, key) in rows {
        scene.0.fail_at(table, &key);
        assert_eq!(scene.0.settle().faults.len(), 1, "{key}");
        let now = answers(&scene);
        assert_eq!(now.keys().collect::<Vec<_>>(), sound.keys().collect::<Vec<_>>(), "{key}");
        let closed: Vec<_> = now.iter().filter(|(name, route)| sound[*name] != **route).collect();
        let (of, is_tree) = (key.contains("leaf"), key.contains("root"));
        assert_eq!(closed.len(), 2, "{key}, at both listeners: {closed:?}");
        for (name, route) in closed {
            assert_eq!(route["directResponse"]["status"], 500, "{key}: {name}");
            assert!(route.get("typedPerFilterConfig").is_none(), "{key}: {name}: {route}");
            assert!(!name.starts_with("http/82") && name.contains("apps/leaf") == (of || is_tree), "{key}: {name}");
        }
        scene.0.fail_no_more(table, &key);
        scene.0.settle();
        assert_eq!(answers(&scene), sound, "{key}");
    }
}

/// All rows of a Gateway refer to rates of one resource.
#[test]
fn a_listener_of_which_nobody_knows_what_its_policies_say_leaves_the_others_what_theirs_refer_to() {
    use super::{
        policies::{at, at_section, policy, with},
        scene::{Scene, forward, gateway, http, route, service},
    };

    let limit = |namespace: &str, name: &str, target: Value, most: u32| {
        let bucket = json!({"maxTokens": most, "tokensPerFill": 1, "fillInterval": "1s"});
        let spec = json!({"rateLimit": {"local": {"tokenBucket": bucket}}});
        let mut policy = policy("TrafficPolicy", name, with(target, spec));
        policy["metadata"]["namespace"] = json!(namespace);
        policy
    };
    let mut scene = Scene::new([
        gateway("edge", json!([http("web", 80, ""), http("other", 81, "")])),
        service("s"),
        route("r", json!({"rules": [forward("/a")]})),
        limit("infra", "web", at_section("Gateway", "edge", "web"), 111),
        limit("infra", "other", at_section("Gateway", "edge", "other"), 222),
        limit("apps", "own", at("HTTPRoute", "r"), 333),
    ]);
    let held = |scene: &Scene| {
        envoy::extensions::NAMES.map(|name| {
            let message = scene.resource("infra/edge", ResourceKind::ExtensionConfig, name).expect("an extension");
            [111, 222, 333].map(|most| message.to_string().contains(&format!("\"maxTokens\":{most}")))
        })
    };
    let sound = held(&scene);
    assert!(sound.contains(&[true; 3]), "{sound:?}");
    let rows = scene.0.computed_rows().into_iter();
    let (table, key) =
        rows.into_iter().find(|(table, key)| *table == "WideSlots" && key.contains("web")).expect("a row");
    scene.0.fail_at(table, &key);
    assert_eq!(scene.0.settle().faults.len(), 1, "{key}");
    let during = held(&scene);
    let expected = sound.map(|[_, other, own]| [false, other, own]);
    assert_eq!(during, expected);
    scene.0.fail_no_more(table, &key);
    scene.0.settle();
    assert_eq!(held(&scene), sound);
}
