//! Bad input in the watched folder: it is reported clearly, it takes with it the smallest scope that is safe, and what
//! is healthy beside it goes on as before, byte for byte. Never a panic, never an update that Envoy refuses.

#[path = "bad_input/manifests.rs"]
mod manifests;
#[path = "bad_input/stage.rs"]
mod stage;

use anyhow::{Result, ensure};
use manifests::{HEALTHY, regex, route, rule, rules, secret};
use portcullis_tests::client::Request;
use stage::{Finding, Stage, certificate};

/// How many routes there are on one host.
const ROUTES: usize = 10_000;

fn finding<'a>(severity: &'a str, object: &'a str, field: &'a str, at: &'a str, words: &'a [&'a str]) -> Finding<'a> {
    Finding { severity, object, field, at, words }
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_yaml_keeps_the_last_good_objects_of_its_file() -> Result<()> {
    let mut stage = Stage::start().await?;
    let unparsed = ["cannot be read as YAML", "correct it"];
    let refused = |at| finding("refused", "", "", at, &unparsed);
    stage.write("kind: HTTPRoute\nmetadata: {name: bad\n").await?;
    stage.answers("bad.example", "/", 404).await?;

    let good = route("bad", "bad.example", "/good");
    stage.write(&good).await?;
    stage.reports(&[]).await?;
    let level = |level: usize| format!("a{level}: &a{level} [*a{0}, *a{0}, *a{0}]\n", level - 1);
    let bomb = (1..30).map(level).collect::<Vec<_>>().concat();
    let malformed = [
        ("---\nkind: [Gateway\nmetadata: {}\n", ": {}"),
        ("---\nkind: Gateway\nmetadata:\n\tname: bad\n", "name: bad"),
        ("---\nkind: \"Gateway\nmetadata: {name: bad}\n", "metadata: {name: bad}"),
        ("---\nkind: Gateway\n  metadata: {name: bad}\n", ": {name: bad}"),
        ("---\nkind: Gateway\nkind: Gateway\n", "kind: Gateway"),
        ("---\nkind: \u{0}\n", "\u{0}"),
        (&format!("---\n{}", "[".repeat(10_000)), "["),
        (&format!("---\na0: &a0 [x, x, x]\n{bomb}"), ""),
    ];
    for (document, at) in malformed {
        stage.write(&format!("{good}{document}")).await?;
        stage.answers("bad.example", "/good", 200).await?;
        stage.reports(&[refused(at)]).await?;
    }
    stage.logs("(its last good version stays in force)").await?;
    stage.write(&route("bad", "bad.example", "/better")).await?;
    stage.answers("bad.example", "/better", 200).await?;
    stage.answers("bad.example", "/good", 404).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_kind_has_no_effect_on_what_stands_beside_it() -> Result<()> {
    let mut stage = Stage::start().await?;
    let unknown = |name: &str, kind: &str| route(name, "bad.example", "/").replace("HTTPRoute", kind);
    let other = "\n---\napiVersion: apps/v1\nkind: StatefulSet\nmetadata: {namespace: infra, name: web}\n";
    stage
        .write(
            &[
                unknown("misspelt", "HttpRoute").as_str(),
                other,
                &route("beside", "beside.example", "/"),
                &unknown("later", "FooRoute"),
                &unknown("hostile", "\"Foo\\n\\e[31m\""),
                "---\nkind: HTTPRoute\nmetadata: {namespace: infra, name: nameless}\n",
            ]
            .join("\n"),
        )
        .await?;
    stage.answers("beside.example", "/", 200).await?;
    stage.answers("bad.example", "/", 404).await?;
    let not_read = "is not a kind that is read here";
    stage
        .reports(&[
            finding("ignored", "", "kind", "kind: HttpRoute", &["infra/misspelt", "did you mean", "HTTPRoute?"]),
            finding("warning", "", "kind", "kind: StatefulSet", &["apps/v1 StatefulSet", not_read, "infra/web"]),
            finding("ignored", "", "kind", "kind: FooRoute", &["FooRoute", not_read, "infra/later", "remove it"]),
            finding("ignored", "", "kind", "kind: \"Foo", &["Foo\\u{a}\\u{1b}[31m is not", "infra/hostile"]),
            finding("refused", "", "apiVersion", "kind: HTTPRoute", &["is missing", "set it"]),
        ])
        .await?;
    let text = stage.check("text").await?.1;
    ensure!(text.lines().count() == 6, "not one line each and one that sums up:\n{text}");
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_type_refuses_its_object_alone_and_keeps_the_last_good_one() -> Result<()> {
    let mut stage = Stage::start().await?;
    let to = |backends: &str| rules("bad", "bad.example", &format!("  - backendRefs: {backends}\n"));
    let beside = route("beside", "beside.example", "/");
    let wrong = [
        ("[{name: backend, port: eighty}]", "[0].port", "port: eighty", ["a whole number", "\"eighty\""]),
        ("[{name: backend, port: '80'}]", "[0].port", "port: '80'", ["a whole number", "\"80\""]),
        ("[{name: 1, port: 80}]", "[0].name", "name: 1", ["in quotes", "1"]),
        ("backend", "", "backendRefs: backend", ["a list", "\"backend\""]),
        ("[backend]", "[0]", "backend]", ["a mapping", "\"backend\""]),
    ];
    for (backends, field, at, words) in wrong {
        stage.write(&(to(backends) + &beside)).await?;
        stage.answers("beside.example", "/", 200).await?;
        stage.answers("bad.example", "/", 404).await?;
        let field = format!("spec.rules[0].backendRefs{field}");
        stage.reports(&[finding("refused", "HTTPRoute infra/bad", &field, at, &words)]).await?;
    }
    stage.write(&to("[{name: backend, port: 80}]")).await?;
    stage.answers("bad.example", "/", 200).await?;
    stage.write(&(to("[{name: backend, port: eighty}]") + &route("more", "more.example", "/"))).await?;
    stage.answers("more.example", "/", 200).await?;
    stage.answers("bad.example", "/", 200).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_missing_or_broken_withdraws_its_listener_alone() -> Result<()> {
    let mut stage = Stage::start().await?;
    let (one, other) = (certificate("bad.example")?, certificate("bad.example")?);
    let bad_route = route("bad", "bad.example", "/");
    stage.write(&bad_route).await?;
    stage.answers_over_tls("bad.example", true).await?;
    let mut lasting = stage.healthy_connection().await?;
    let cut = |pem: &str| pem[..pem.len() / 2].to_owned();

    stage.portcullis.remove("c-bad.yaml")?;
    let broken = [
        (String::new(), ["Secret infra/bad does not exist", "create it"]),
        (secret("bad", "not a certificate", &one.key), ["no PEM block CERTIFICATE", "store the certificate in PEM"]),
        (secret("bad", &cut(&one.certificate), &one.key), ["\"tls.crt\" is refused", "store"]),
        (secret("bad", &one.certificate, &cut(&one.key)), ["\"tls.key\" is refused", "store the key in PEM"]),
        (secret("bad", &one.certificate, ""), ["no data \"tls.key\"", "store the PEM there"]),
        (secret("bad", &one.certificate, &other.key), ["the key does not fit", "store the key that"]),
    ];
    let good = secret("bad", &other.certificate, &other.key);
    for (secret, words) in broken {
        stage.write(&format!("{bad_route}{secret}")).await?;
        stage.answers_over_tls("bad.example", false).await?;
        // What does not need the certificate goes on.
        stage.answers("bad.example", "/", 200).await?;
        let field = "spec.listeners[2].tls.certificateRefs[0]";
        stage.reports(&[finding("refused", "Gateway infra/gateway", field, "{name: bad}", &words)]).await?;
        let conditions = "conditions: {ResolvedRefs: False InvalidCertificateRef, Programmed: 'False'}";
        stage.status(&format!("{{object: Gateway infra/gateway, listener: bad, {conditions}}}")).await?;
        let conditions = "conditions: {ResolvedRefs: 'True', Programmed: 'True'}";
        stage.status(&format!("{{object: Gateway infra/gateway, listener: https, {conditions}}}")).await?;
        stage.write(&format!("{bad_route}{good}")).await?;
        stage.answers_over_tls("bad.example", true).await?;
        let response = lasting.send(&Request::get(HEALTHY, "/")).await?;
        ensure!(response.status == 200 && lasting.is_open(), "the neighbour's connection drained: {response:?}");
    }
    stage.reports(&[]).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_regex_that_envoy_refuses_drops_its_match_and_one_that_only_stock_envoy_refuses_is_served() -> Result<()> {
    let mut stage = Stage::start().await?;
    let classes = "[!#%)+.13579;=?ACEGIKMOQSUWYacegikmoqsuwy]";
    let too_large = format!("/{classes}{{1,1000}}");
    let refused = [
        ("/a(?=b)", "look-around"),
        ("/(a", "close every group"),
        ("/a**", "put the inner one into a group"),
        ("/(([a-z]{1,30}){1,30}){2}", "lower the counts"),
        (r"/(a)\1", "backreferences"),
        (&too_large, "more than 1024; lower its repetition counts or split it"),
    ];
    // More than the 100 instructions that stock Envoy takes, and nearly as many as ours does.
    let large = "/[!#%)+.13579;=?ACEGIKM]{1,40}";
    let served = ["/orders/[a-z]{1,50}", large];
    let patterns = refused.iter().map(|(pattern, _)| *pattern).chain(served);
    let all: String = patterns.map(regex).collect();
    stage.write(&rules("bad", "bad.example", &(all + &rule("{path: {value: /fine}}")))).await?;
    for path in ["/orders/abc", "/=!=", "/fine"] {
        stage.answers("bad.example", path, 200).await?;
    }
    // Nothing else takes what a dropped match would have taken.
    for path in ["/ab", "/a", "/aa", "/orders/ABC", "/y"] {
        stage.answers("bad.example", path, 404).await?;
    }
    let fields: Vec<_> = (0..refused.len()).map(|at| format!("spec.rules[{at}].matches[0].path.value")).collect();
    let at: Vec<_> = refused.iter().map(|(pattern, _)| format!("value: '{pattern}'")).collect();
    let words: Vec<_> = refused.iter().map(|(pattern, remedy)| [*pattern, *remedy]).collect();
    let findings = (0..refused.len())
        .map(|number| finding("refused", "HTTPRoute infra/bad", &fields[number], &at[number], &words[number]));
    stage.reports(&findings.collect::<Vec<_>>()).await?;
    stage
        .status(
            "{object: HTTPRoute infra/bad, parent: infra/gateway, conditions: {Accepted: 'True', PartiallyInvalid: \
             True UnsupportedValue}}",
        )
        .await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_name_with_a_space_refuses_its_object_or_replaces_its_rule() -> Result<()> {
    let mut stage = Stage::start().await?;
    let modifier = |action: &str| {
        format!(
            "  - {{matches: [{{path: {{value: /broken}}}}], backendRefs: [{{name: backend, port: 80}}],\n     filters: \
             [{{type: RequestHeaderModifier, requestHeaderModifier: {{{action}}}}}]}}\n"
        )
    };
    let fine = rule("{path: {value: /fine}}");
    let on = |name: &str, rule: &str| rules(name, &format!("{name}.example"), &(rule.to_owned() + &fine));
    stage
        .write(
            &[
                // The schema of Gateway API knows how such names look, and refuses the object.
                on("matched", &rule("{headers: [{name: a b, value: c}]}")),
                on("set", &modifier("set: [{name: a b, value: c}]")),
                // It does not for names to remove, so that the rule is what is broken.
                on("removed", &modifier("remove: [a b]")),
            ]
            .concat(),
        )
        .await?;
    stage.answers("removed.example", "/broken", 500).await?;
    stage.answers("removed.example", "/fine", 200).await?;
    for host in ["matched.example", "set.example"] {
        stage.answers(host, "/fine", 404).await?;
    }
    let words = ["\"a b\"", "must be a name without spaces"];
    let set = "spec.rules[0].filters[0].requestHeaderModifier.set[0].name";
    let removed = "spec.rules[0].filters[0].requestHeaderModifier.remove[0]";
    let must_not = ["\"a b\"", "must not contain a space", "use letters"];
    stage
        .reports(&[
            finding(
                "refused",
                "HTTPRoute infra/matched",
                "spec.rules[0].matches[0].headers[0].name",
                "name: a b",
                &words,
            ),
            finding("refused", "HTTPRoute infra/set", set, "name: a b", &words),
            finding("replaced", "HTTPRoute infra/removed", removed, "a b]", &must_not),
        ])
        .await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_0_refuses_the_object_that_has_it() -> Result<()> {
    let mut stage = Stage::start().await?;
    let objects = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: infra, name: zero}
spec: {gatewayClassName: portcullis, listeners: [{name: http, port: 0, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: infra, name: zero}
spec: {ports: [{port: 0}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: infra, name: backend-zero, labels: {kubernetes.io/service-name: backend}}
addressType: IPv4
ports: [{name: '', port: 0}]
endpoints: [{addresses: [127.0.0.1]}]
";
    let backends = |backends: &str| format!("  - backendRefs: [{backends}]\n");
    let good = "{name: backend, port: 80}";
    let bad = rules("bad", "bad.example", &backends(&format!("{good}, {{name: backend, port: 0}}")));
    let lost = rules("lost", "lost.example", &backends("{name: zero, port: 80}"));
    stage.write(&[objects, &bad, &lost, &route("beside", "beside.example", "/")].concat()).await?;
    stage.answers("beside.example", "/", 200).await?;
    stage.answers("bad.example", "/", 404).await?;
    // Its Service was refused, and a backend that is missing answers 500.
    stage.answers("lost.example", "/", 500).await?;
    let range = ["\"0\"", "from 1 to 65535"];
    let lost = ["Service infra/zero does not exist", "create it"];
    stage
        .reports(&[
            finding("refused", "Gateway infra/zero", "spec.listeners[0].port", "port: 0", &range),
            finding("refused", "Service infra/zero", "spec.ports[0].port", "port: 0", &range),
            finding("refused", "EndpointSlice infra/backend-zero", "ports[0].port", "port: 0", &range),
            finding("refused", "HTTPRoute infra/bad", "spec.rules[0].backendRefs[1].port", "port: 0", &range),
            finding("replaced", "HTTPRoute infra/lost", "spec.rules[0].backendRefs[0].name", "name: zero", &lost),
        ])
        .await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostname_twice_is_served_once() -> Result<()> {
    let mut stage = Stage::start().await?;
    let twice = "
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: infra, name: twice}
spec:
  gatewayClassName: portcullis
  listeners:
  - {name: a, port: 18080, protocol: HTTP, hostname: a.example}
  - {name: b, port: 18080, protocol: HTTP, hostname: a.example}
";
    stage
        .write(
            &[
                rules("bad", "bad.example, more.example, bad.example", &rule("{path: {value: /}}")).as_str(),
                // Two routes may share one: their rules are served together.
                &route("same", "bad.example", "/same"),
                &rules("cased", "bad.example, BAD.example", &rule("{path: {value: /}}")),
                // An object twice is another matter: the first counts.
                &route("same", "bad.example", "/second"),
                twice,
            ]
            .concat(),
        )
        .await?;
    for (host, path) in [("bad.example", "/"), ("bad.example", "/same"), ("more.example", "/")] {
        stage.answers(host, path, 200).await?;
    }
    let differ = ["port 18080, HTTP, a.example", "must differ from every other listener"];
    stage
        .reports(&[
            finding("warning", "HTTPRoute infra/bad", "spec.hostnames[2]", "bad.example]", &["twice; remove one"]),
            finding("refused", "HTTPRoute infra/cased", "spec.hostnames[1]", "BAD.example", &["small letters"]),
            finding("ignored", "HTTPRoute infra/same", "metadata.name", "apiVersion", &["twice", "remove or rename"]),
            finding("refused", "Gateway infra/twice", "spec.listeners[1]", "{name: b", &differ),
        ])
        .await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_routes_on_one_host_are_served() -> Result<()> {
    let mut stage = Stage::start().await?;
    let many: String =
        (0..ROUTES).map(|number| route(&format!("many-{number}"), "many.example", &format!("/{number}"))).collect();
    stage.write(&many).await?;
    for number in [0, ROUTES / 2, ROUTES - 1] {
        stage.answers("many.example", &format!("/{number}"), 200).await?;
    }
    stage.answers("many.example", "/none", 404).await?;
    // One of them is edited, and nobody waits for the others.
    stage.write(&many.replacen("value: /7}", "value: /seven}", 1)).await?;
    stage.answers("many.example", "/seven", 200).await?;
    stage.answers("many.example", "/7", 404).await?;
    stage.is_unharmed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_1_mb_is_served_if_it_is_valid_and_else_refused_in_a_line() -> Result<()> {
    let mut stage = Stage::start().await?;
    let mb = "x".repeat(1_000_000);
    let path = |value: String| rule(&format!("{{path: {{value: {value}}}}}"));
    let value = "v".repeat(4_000);
    let headers: Vec<_> = (0..16).map(|number| format!("{{name: h-{number}, value: {value}}}")).collect();
    let rules_of_64_kb = (0..16).map(|number| {
        let headers = if number == 15 { &headers[..1] } else { &headers };
        rule(&format!("{{path: {{value: /{number}}}, headers: [{}]}}", headers.join(", ")))
    });
    let big = rules("big", "big.example", &rules_of_64_kb.collect::<String>());
    ensure!(big.len() > 900_000, "only {} bytes", big.len());
    let config_map = format!("\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: big}}\ndata: {{a: {mb}}}\n");
    stage
        .write(
            &[
                big.as_str(),
                &config_map,
                &rules("path", "path.example", &[format!("/{mb}"), "/".to_owned()].map(path).concat()),
                &route("noted", "noted.example", "/")
                    .replace("name: noted", &format!("name: noted, annotations: {{a: {mb}}}")),
                &route(&mb, "name.example", "/"),
                &route("kind", "kind.example", "/").replace("HTTPRoute", &mb),
            ]
            .concat(),
        )
        .await?;
    let long = Request::get("big.example", "/15").header("h-0", &value);
    stage.answers_to(&long, 200).await?;
    stage.answers("big.example", "/15", 404).await?;
    stage.answers("noted.example", "/", 200).await?;
    for host in ["path.example", "name.example", "kind.example"] {
        stage.answers(host, "/", 404).await?;
    }
    let field = "spec.rules[0].matches[0].path.value";
    stage
        .reports(&[
            finding("refused", "HTTPRoute infra/path", field, "value: /x", &["has 1000001 characters", "at most 1024"]),
            finding("refused", "", "metadata.name", "name: x", &["xxx\" must be", "at most 253 characters"]),
            finding("ignored", "", "kind", "kind: x", &["xxx is not a kind that is read here", "remove it"]),
        ])
        .await?;
    stage.is_unharmed().await
}

/// A route to Service `secured`, a BackendTLSPolicy on it, and ConfigMap `ca`.
fn secured(policy: &str, data: &str) -> String {
    format!(
        "{}
---
apiVersion: v1
kind: Service
metadata: {{namespace: infra, name: secured}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{namespace: infra, name: ca}}
data: {data}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{namespace: infra, name: tls}}
spec:
  targetRefs: [{{group: '', kind: Service, name: secured}}]
  {policy}
",
        rules("bad", "bad.example", "  - backendRefs: [{name: secured, port: 80}]\n"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_policy_of_tls_closes_the_port_that_it_targets_and_nothing_else() -> Result<()> {
    let mut stage = Stage::start().await?;
    let made = certificate("secured.example")?;
    let quoted = |text: &str| format!("{{ca.crt: {}}}", serde_json::Value::from(text));
    let by_ca = "validation: {hostname: a.example, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}";
    let closed = "BackendTLSPolicy infra/tls, which applies to it, is not valid";
    let good = quoted(&made.certificate);
    // Nobody stands there, so that what is sound is a 503.
    stage.write(&secured(by_ca, &good)).await?;
    stage.answers("bad.example", "/", 503).await?;
    stage.reports(&[]).await?;
    let thousand = made.certificate.repeat(1_000);
    let large = format!("{}\n{}", made.certificate, "# a line\n".repeat(10 << 17));
    for (policy, data, field, words) in [
        (by_ca, "{}".to_owned(), "spec.validation.caCertificateRefs", "has no ca.crt"),
        (by_ca, quoted(""), "spec.validation.caCertificateRefs", "it is empty"),
        (by_ca, quoted("not PEM"), "spec.validation.caCertificateRefs", "no PEM block"),
        (by_ca, quoted(&made.certificate[..200]), "spec.validation.caCertificateRefs", "PEM"),
        (
            by_ca,
            quoted(&format!("{}{}", made.certificate, made.key)),
            "spec.validation.caCertificateRefs",
            "PRIVATE KEY",
        ),
        (by_ca, quoted(&thousand), "spec.validation.caCertificateRefs", "bytes"),
        (by_ca, quoted(&large), "spec.validation.caCertificateRefs", "bytes"),
        (
            "validation: {hostname: a.example, caCertificateRefs: [{group: '', kind: Service, name: ca}]}",
            good.clone(),
            "spec.validation.caCertificateRefs",
            "use a ConfigMap or a Secret",
        ),
        (
            "validation: {hostname: a.example, wellKnownCACertificates: example.com/ours}",
            good.clone(),
            "spec.validation.wellKnownCACertificates",
            "not known",
        ),
        (
            "validation: {hostname: a.example}",
            good.clone(),
            "spec.validation",
            "caCertificateRefs or wellKnownCACertificates",
        ),
        (
            "validation: {hostname: 10.0.0.1, wellKnownCACertificates: System}",
            good.clone(),
            "spec.validation.hostname",
            "IP address",
        ),
        (
            "options: {example.com/a: b}\n  validation: {hostname: a.example, wellKnownCACertificates: System}",
            good.clone(),
            "spec.options",
            "no option is known",
        ),
    ] {
        stage.write(&secured(policy, &data)).await?;
        stage.answers("bad.example", "/", 500).await?;
        let words = [words];
        stage
            .reports(&[
                finding("refused", "BackendTLSPolicy infra/tls", field, "", &words),
                finding("replaced", "HTTPRoute infra/bad", "spec.rules[0].backendRefs[0]", "", &[closed]),
            ])
            .await?;
    }
    stage.write(&secured(by_ca, &good)).await?;
    stage.answers("bad.example", "/", 503).await?;
    stage.reports(&[]).await?;
    stage.is_unharmed().await
}
