//! Worlds that no generator finds by chance: as much of one thing as Envoy takes, and more.

use serde_json::{Value, json};
use worlds::world::class;

/// A world and what it has much of.
type Corner = (&'static str, Vec<Value>);

/// The longest duration of Gateway API, some 46 years.
const LONGEST: &str = "99999h99999h99999h99999h";

/// Worlds by what they have much of.
pub(crate) fn worlds() -> Vec<Corner> {
    [headers(), matches(), amounts(), durations(), listeners(), certificates()].into_iter().flatten().collect()
}

fn headers() -> Vec<Corner> {
    let named = |count: usize| -> Vec<_> {
        (0..count).map(|number| json!({"name": format!("x-{number}"), "value": "1"})).collect()
    };
    let request = |lists: Value| json!({"type": "RequestHeaderModifier", "requestHeaderModifier": lists});
    let response = |lists: Value| json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": lists});
    let other = |count: usize| {
        request(json!({"set": named(count).iter().map(|header| {
        json!({"name": format!("y-{}", header["name"].as_str().expect("a name")), "value": "1"})
    }).collect::<Vec<_>>()}))
    };
    let both = |count: usize| {
        let backend = json!({"name": "s", "port": 80, "filters": [request(json!({"add": named(count)}))]});
        routed(&json!({"filters": [other(count)], "backendRefs": [backend]}))
    };
    let levels = {
        let changes = |letter: &str| {
            let named = |at| json!({"name": format!("{letter}-{at}"), "value": "1"});
            request(json!({"set": (0..400).map(named).collect::<Vec<_>>()}))
        };
        let delegating = |letter: &str, name: &str| {
            let child = json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name});
            json!({"filters": [changes(letter)], "backendRefs": [child]})
        };
        let mut objects = routed(&delegating("a", "child"));
        let leaf = json!({"filters": [changes("c")], "backendRefs": [{"name": "s", "port": 80}]});
        for (name, rule) in [("child", delegating("b", "leaf")), ("leaf", leaf)] {
            objects.push(json!({
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": name, "namespace": "infra"}, "spec": {"rules": [rule]},
            }));
        }
        objects
    };
    let gone: Vec<_> = (0..2_000).map(|number| format!("x-{number}")).collect();
    vec![
        ("500 request headers", forward(json!({"filters": [request(json!({"set": named(500)}))]}))),
        ("1,001 request headers", forward(json!({"filters": [request(json!({"set": named(1_001)}))]}))),
        (
            "1,200 request headers in two lists",
            forward(json!({"filters": [request(json!({"set": named(600), "add": named(600)}))]})),
        ),
        ("1,001 response headers", forward(json!({"filters": [response(json!({"add": named(1_001)}))]}))),
        ("1,000 headers, half of them of a backend", both(500)),
        ("1,200 headers, half of them of a backend", both(600)),
        ("1,200 headers over three levels", levels),
        ("2,000 headers to remove", forward(json!({"filters": [request(json!({"remove": gone}))]}))),
    ]
}

fn matches() -> Vec<Corner> {
    let conditions = |field: &str| {
        let list: Vec<_> = (0..2_000).map(|number| json!({"name": format!("x-{number}"), "value": "1"})).collect();
        let mut matching = json!({});
        matching[field] = json!(list);
        forward(json!({"matches": [matching]}))
    };
    // As many instructions as are taken, and as many expressions as one request may meet.
    let large = "[ac-eg]{330}";
    let pattern = json!({"name": "x", "type": "RegularExpression", "value": large});
    let path = json!({"type": "RegularExpression", "value": large});
    let patterns = json!({"path": path, "headers": [pattern], "queryParams": [pattern]});
    let mut hostnames = forward(json!({}));
    hostnames[2]["spec"]["hostnames"] = (0..2_000).map(|number| format!("h{number}.example.com")).collect();
    vec![
        ("2,000 headers to match", conditions("headers")),
        ("2,000 query parameters to match", conditions("queryParams")),
        ("15 large regular expressions", forward(json!({"matches": vec![patterns; 5]}))),
        ("2,000 hostnames", hostnames),
    ]
}

fn amounts() -> Vec<Corner> {
    let backends = |count: usize| vec![json!({"name": "s", "port": 80, "weight": 1_000_000}); count];
    let session = |count: usize| routed(&json!({"backendRefs": backends(count), "sessionPersistence": {}}));
    let mirror = json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": "s", "port": 80}}});
    let codes: Vec<_> = (0..1_000).map(|code| 400 + code % 200).collect();
    let origins: Vec<_> = (0..1_000).map(|number| format!("https://*.o{number}.example")).collect();
    let mut endpoints = forward(json!({}));
    endpoints.push(slice(20_000, 300));
    vec![
        ("weights just within 32 bits", routed(&json!({"backendRefs": backends(4_294)}))),
        ("weights beyond 32 bits", routed(&json!({"backendRefs": backends(4_295)}))),
        ("weights of a session just within 32 bits", session(4_294)),
        ("weights of a session beyond 32 bits", session(4_295)),
        ("2,000 mirrors", forward(json!({"filters": vec![mirror; 2_000]}))),
        ("1,000 retry codes", forward(json!({"retry": {"codes": codes, "attempts": u32::MAX}}))),
        ("1,000 origins", forward(json!({"filters": [{"type": "CORS", "cors": {"allowOrigins": origins}}]}))),
        ("20,000 endpoints in 300 zones", endpoints),
    ]
}

fn durations() -> Vec<Corner> {
    let session = json!({"absoluteTimeout": LONGEST, "cookieConfig": {"lifetimeType": "Permanent"}});
    let cors = json!({"type": "CORS", "cors": {"allowOrigins": ["*"], "maxAge": i32::MAX}});
    vec![
        ("the longest timeouts", forward(json!({"timeouts": {"request": LONGEST, "backendRequest": LONGEST}}))),
        ("the longest back-off", forward(json!({"retry": {"codes": [503], "backoff": LONGEST}}))),
        ("the longest session", forward(json!({"sessionPersistence": session}))),
        ("the longest age", forward(json!({"filters": [cors]}))),
    ]
}

fn listeners() -> Vec<Corner> {
    let with = |listeners: Value| {
        let mut world = forward(json!({}));
        world[1]["spec"]["listeners"] = listeners;
        world
    };
    let tls = || json!({"certificateRefs": [{"name": "c0"}]});
    let many = (0..200).map(|number| {
        let hostname = match number % 3 {
            0 => format!("h{number}.example.com"),
            1 => format!("*.w{number}.example.com"),
            _ => format!("*.{}example.org", "a.".repeat(number % 40)),
        };
        if number < 100 {
            json!({"name": format!("l{number}"), "port": 80, "protocol": "HTTP", "hostname": hostname})
        } else {
            json!({"name": format!("l{number}"), "port": 443, "protocol": "HTTPS", "hostname": hostname, "tls": tls()})
        }
    });
    let one_name = json!([
        {"name": "l", "port": 80, "protocol": "HTTP", "hostname": "a.com"},
        {"name": "l", "port": 81, "protocol": "HTTP", "hostname": "a.com"},
        {"name": "l", "port": 443, "protocol": "HTTPS", "hostname": "a.com", "tls": tls()},
        {"name": "l", "port": 443, "protocol": "HTTPS", "hostname": "b.com", "tls": tls()},
        {"name": "l", "port": 444, "protocol": "HTTPS", "hostname": "c.com", "tls": tls()},
    ]);
    let mut addresses = forward(json!({}));
    let written = ["127.0.0.1", "::1", "0.0.0.0", "::", "127.0.0.1", "203.0.113.7", "2001:db8::1", "169.254.0.1"];
    addresses[1]["spec"]["addresses"] = written.iter().map(|address| json!({"value": address})).collect();
    let long = "n".repeat(100_000);
    let mut names = forward(json!({"name": long}));
    names[1]["spec"]["listeners"][0]["name"] = json!(long);
    vec![
        ("200 listeners with overlapping hostnames", with(many.collect())),
        ("listeners of one name", with(one_name)),
        ("many addresses", addresses),
        ("names of 100 kB", names),
    ]
}

fn certificates() -> Vec<Corner> {
    let with = |references: Value| {
        let mut world = forward(json!({}));
        let listener = json!({"name": "l", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": references}});
        world[1]["spec"]["listeners"] = json!([listener]);
        world
    };
    let mut many = with((0..100).map(|number| json!({"name": format!("c{number}")})).collect());
    many.extend((1..100).map(|number| secret(&format!("c{number}"))));
    let mut long = with(json!([{"name": "c0"}]));
    let chain = long[4]["stringData"]["tls.crt"].as_str().expect("a chain").repeat(100);
    long[4]["stringData"]["tls.crt"] = json!(chain);
    vec![("100 certificates of one kind for one name", many), ("a chain of 100 certificates", long)]
}

/// [`routed`], to the Service.
fn forward(mut rule: Value) -> Vec<Value> {
    rule["backendRefs"] = json!([{"name": "s", "port": 80}]);
    routed(&rule)
}

/// A class, a Gateway, a route with this rule, a Service and a Secret, in this order.
fn routed(rule: &Value) -> Vec<Value> {
    let listener = json!({"name": "l", "port": 80, "protocol": "HTTP"});
    vec![
        class(),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
            "metadata": {"name": "g", "namespace": "infra"},
            "spec": {"gatewayClassName": "ours", "listeners": [listener]},
        }),
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "r", "namespace": "infra"},
            "spec": {"parentRefs": [{"name": "g"}], "rules": [rule]},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "infra"},
            "spec": {"ports": [{"port": 80}]},
        }),
        secret("c0"),
    ]
}

fn slice(endpoints: u32, zones: u32) -> Value {
    let endpoints = (0..endpoints).map(|number| {
        // A few stand in it twice.
        let address = std::net::Ipv4Addr::from(0x0a00_0000 + number % (endpoints - 100));
        json!({"addresses": [address.to_string()], "zone": format!("z{}", number % zones)})
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "e", "namespace": "infra", "labels": {"kubernetes.io/service-name": "s"}},
        "ports": [{"name": "", "port": 8080}], "endpoints": endpoints.collect::<Vec<_>>(),
    })
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": name, "namespace": "infra"},
        "stringData": {
            "tls.crt": include_str!("../../../validate/src/tls/testdata/p521.crt"),
            "tls.key": include_str!("../../../validate/src/tls/testdata/p521.key"),
        },
    })
}
