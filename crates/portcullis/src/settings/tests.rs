use clap::{CommandFactory, Parser};
use serde_json::json;

use super::*;

#[derive(Debug, Parser)]
struct Alone {
    #[command(flatten)]
    settings: SettingsArgs,
}

fn by_flags(flags: &[&str]) -> Result<Settings, String> {
    let all = std::iter::once("test").chain(flags.iter().copied());
    let alone = Alone::try_parse_from(all).map_err(|error| error.to_string())?;
    alone.settings.settings().map_err(|error| error.to_string())
}

fn by_text(text: &str) -> Result<Settings, Vec<String>> {
    let read = file::parse(text).expect("there is a thread");
    let read = read.map_err(|faults| -> Vec<_> {
        faults.into_iter().map(|fault| format!("{}: {}", fault.position, fault.message)).collect()
    })?;
    let mut settings = Settings::default();
    read.onto(&mut settings);
    Ok(settings)
}

fn flag(setting: &Setting) -> String {
    format!("--{}", setting.flag.replace('_', "-"))
}

/// The file with this one setting.
fn file_of(key: &str, text: &str) -> String {
    // Numbers and switches are what JSON has for them, all else is text.
    let value = serde_json::from_str(text).unwrap_or_else(|_| json!(text));
    match key.split_once('.') {
        Some((group, name)) => json!({group: {name: value}}),
        None => json!({key: value}),
    }
    .to_string()
}

/// For each setting a value other than its default.
const OTHERS: &[(&str, &str)] = &[
    ("controllerName", "example.com/other"),
    ("ports", "mapped"),
    ("edge.trustedHops", "2"),
    ("edge.maxRequestHeadersKib", "8192"),
    ("edge.maxRequestHeaders", "1"),
    ("edge.bufferBytes", "1024"),
    ("edge.maxConcurrentStreams", "2147483647"),
    ("edge.streamIdleTimeout", "1m"),
    ("edge.requestHeadersTimeout", "1m30s"),
    ("edge.idleTimeout", "0s"),
    ("edge.tcpIdleTimeout", "2h"),
    ("edge.tcpMaxDuration", "24h"),
    ("edge.udpSessionTimeout", "30s"),
    ("edge.drainTimeout", "1500ms"),
    ("edge.maxConnections", "4294967295"),
    ("edge.maxListenerConnections", "20000"),
    ("edge.proxyProtocolSources", "10.0.0.0/8, 2001:db8::/32"),
    ("edge.clientCertificateDetails", "subject,uri"),
    ("edge.maxHeapBytes", "18446744073709551615"),
    ("edge.accessLog", "false"),
    ("backend.connectTimeout", "1ms"),
    ("backend.maxConnections", "1"),
    ("backend.maxPendingRequests", "2"),
    ("backend.maxRequests", "3"),
    ("backend.maxRetries", "0"),
    ("backend.bufferBytes", "4"),
    ("backend.allowLocal", "true"),
    ("backend.systemTrustStore", "/etc/pki/tls/cert.pem"),
    ("invalidRouteReplacement.enabled", "false"),
    ("invalidRouteReplacement.statusCode", "404"),
    ("invalidRouteReplacement.body", ""),
    ("delegation.wildcardNamespace", "everywhere"),
    ("delegation.consent", "CrossNamespaceExplicit"),
    ("delegation.maxDepth", "64"),
    ("delegation.maxMatches", "1"),
    ("policies.globalNamespace", "policies"),
    ("policies.extensionGrants", "Strict"),
    ("policies.sayOnceFrom", "0"),
    ("policies.maxBodyBytes", "1048576"),
    ("gatewayParameters.trust", "ClassOnly"),
    ("regex.maxTime", "20ms"),
    ("capacity.maxBytes", "1000000000"),
    ("validation.level", "strict"),
    ("validation.timeout", "1s"),
    ("validation.whenUnavailable", "hold"),
    ("freeze.enabled", "true"),
    ("freeze.maxTreeBytes", "1"),
    ("freeze.maxBytes", "2"),
    ("freeze.maxTrees", "3"),
];

#[test]
fn without_flags_and_file_the_defaults_hold() {
    assert_eq!(by_flags(&[]), Ok(Settings::default()));
    for text in ["", "# edge: {}\n", "edge:\n  # trustedHops: 1\n", "{}"] {
        assert_eq!(by_text(text), Ok(Settings::default()), "{text}");
    }
}

#[test]
fn every_setting_is_reached_by_its_flag_and_by_its_key_alike() {
    let keys: Vec<_> = SETTINGS.iter().map(|setting| setting.key).collect();
    assert_eq!(OTHERS.iter().map(|(key, _)| *key).collect::<Vec<_>>(), keys, "each has a value to be tried");
    for (setting, (key, other)) in SETTINGS.iter().zip(OTHERS) {
        let changed = by_text(&file_of(key, other)).expect("valid");
        assert_ne!(changed, Settings::default(), "{key}");
        assert_eq!(by_flags(&[&flag(setting), other]), Ok(changed), "{key}");
    }
}

/// What settings come to, a line for each: a list is one line, whatever is in it.
fn lines(settings: &Settings) -> Vec<String> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines: Vec<String> = Vec::new();
    let mut list = None;
    for line in format!("{settings:#?}").lines() {
        match (list, lines.last_mut()) {
            (Some(start), Some(last)) => {
                last.push_str(line.trim());
                list = (indent(line) != start).then_some(start);
            }
            _ => {
                list = line.ends_with('[').then(|| indent(line));
                lines.push(line.to_owned());
            }
        }
    }
    lines
}

#[test]
fn nothing_is_left_that_cannot_be_set() {
    let mut all = SettingsArgs::default();
    for (key, other) in OTHERS {
        let value = serde_json::from_str(other).unwrap_or_else(|_| json!(other));
        all.set(key, &value).expect("valid");
    }
    let mut changed = Settings::default();
    all.onto(&mut changed);
    let (before, after) = (lines(&Settings::default()), lines(&changed));
    assert_eq!(before.len(), after.len());
    let is_field = |line: &String| line.contains(": ") && !line.ends_with('{');
    let unchanged = before.into_iter().zip(after).filter(|(before, after)| before == after).map(|(line, _)| line);
    // What a source of objects decides, and not an operator.
    assert_eq!(unchanged.filter(is_field).collect::<Vec<_>>(), ["    shared_host: true,"]);
}

#[test]
fn the_defaults_that_are_reported_are_those_that_hold() {
    for setting in SETTINGS {
        assert_eq!(by_text(&file_of(setting.key, setting.default)), Ok(Settings::default()), "{}", setting.key);
    }
}

#[test]
fn names_are_unique_and_of_one_form() {
    for (n, setting) in SETTINGS.iter().enumerate() {
        let others = &SETTINGS[n + 1..];
        assert!(others.iter().all(|other| other.key != setting.key && other.env != setting.env), "{}", setting.key);
        assert!(setting.key.split('.').count() <= 2, "{}", setting.key);
    }
}

#[test]
fn help_tells_default_variable_and_key_of_each_setting() {
    let help = Alone::command().term_width(0).render_long_help().to_string();
    for setting in SETTINGS {
        let Setting { key, env, default, .. } = setting;
        let end = format!(" [default: {default}] [env: {env}] [file: {key}]");
        let after = help.split_once(&format!("{} <", flag(setting))).unwrap_or_else(|| panic!("{key} in {help}")).1;
        assert!(after.lines().nth(1).is_some_and(|line| line.ends_with(&end)), "{key}: {after}");
    }
}

#[test]
fn the_page_of_settings_lists_them_as_they_are_declared() {
    let page = include_str!("../../../../docs/settings.md");
    let row = |setting: &Setting| {
        let Setting { key, env, default, meaning, .. } = setting;
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        format!("| `{key}` | `{}` | `{env}` | {default} | {} |\n", flag(setting), meaning.trim())
    };
    let head = "| key | flag | environment | default | meaning |\n|---|---|---|---|---|\n".to_owned();
    let table = SETTINGS.iter().map(row).fold(head, |table, row| table + &row);
    assert!(page.contains(&table), "docs/settings.md lacks:\n{table}");
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split_once("```")).expect("an example").0;
    assert!(by_text(example).is_ok_and(|settings| settings != Settings::default()), "{:?}", by_text(example));
}

#[test]
fn flags_refuse_what_envoy_would_refuse_and_say_what_they_take() {
    for (flags, must) in [
        (["--connect-timeout", "0s"], "must be more than zero"),
        (["--idle-timeout", "1.5s"], "must be a duration such as 500ms, 10s or 1h30m"),
        (["--replacement-status", "200"], "must be a whole number from 400 to 599"),
        (["--max-request-headers-kib", "0"], "must be a whole number from 1 to 8192"),
        (["--max-request-headers-kib", "9000"], "must be a whole number from 1 to 8192"),
        (["--trusted-hops", "4294967296"], "must be a whole number from 0 to 4294967295"),
        (["--trusted-hops=", "-1"], "must be a whole number"),
        (["--access-log", "yes"], "must be true or false"),
        (["--ports", "other"], "must be own or mapped"),
        (["--delegation-consent", "none"], "must be Any or CrossNamespaceExplicit"),
        (["--delegation-wildcard-namespace", ""], "must not be empty"),
        (["--gateway-parameters-trust", "all"], "must be Restricted, Unrestricted or ClassOnly"),
        (["--replacement-body", &"x".repeat(4097)], "must have 4096 bytes at most, and has 4097"),
    ] {
        let error = by_flags(&flags).expect_err(flags[0]);
        assert!(error.contains(must), "{error}");
    }
}

#[test]
fn trees_are_kept_where_an_envoy_is_asked_first_too() {
    let settings = by_flags(&["--freeze-enabled", "true", "--validation-level", "Strict"]).expect("both");
    assert!(settings.freeze.enabled && settings.validation.level == ValidationLevel::Strict);
}

#[test]
fn the_spelling_of_flags_is_taken_everywhere() {
    for text in ["CrossNamespaceExplicit", "cross-namespace-explicit"] {
        let settings = by_flags(&["--delegation-consent", text]).expect("valid");
        assert_eq!(settings.delegation.consent, Consent::CrossNamespaceExplicit);
        assert_eq!(by_text(&file_of("delegation.consent", text)), Ok(settings));
    }
}

#[test]
fn a_fault_in_a_file_is_reported_with_place_key_value_and_remedy() {
    let long = format!("invalidRouteReplacement:\n  body: {}\n", "x".repeat(4097));
    let shown = format!(
        "2:3: invalidRouteReplacement.body is \"{}…: it must have 4096 bytes at most, and has 4097",
        "x".repeat(59)
    );
    for (text, fault) in [
        ("a:\n- [1\n", "2:3: this cannot be read as YAML: unclosed bracket"),
        ("edge: {bufferBytes: 1}\nedge: {}\n", "2:1: this cannot be read as YAML: duplicate mapping key `edge`"),
        (
            "{\"ports\": \"own\",\n \"ports\": \"mapped\"}",
            "2:2: this cannot be read as YAML: duplicate mapping key `ports`",
        ),
        ("- ports: own\n", "1:1: settings must be a mapping with controllerName, ports, edge, backend, "),
        ("ports: own\n---\nports: mapped\n", "3:1: settings are one document: remove this one"),
        ("port: own\n", "1:1: port is no setting: there are controllerName, ports, edge, backend, "),
        ("edge.trustedHops: 1\n", "1:1: edge.trustedHops is no setting: there are controllerName, ports, "),
        (
            "delegation:\n  maxDeph: 1\n",
            "2:3: delegation.maxDeph is no setting: delegation has wildcardNamespace, consent, maxDepth, maxMatches",
        ),
        ("edge: [1]\n", "1:1: edge is [1]: it must be a mapping with trustedHops, "),
        ("ports:\n", "1:1: ports has no value: write one, or leave the key out"),
        ("ports: {a: 1}\n", "1:1: ports is {\"a\":1}: it must be a single value, neither a list nor a mapping"),
        ("edge: {trustedHops: \"1\"}\n", "1:8: edge.trustedHops is \"1\": write it without quotes"),
        ("edge: {trustedHops: 1.5}\n", "1:8: edge.trustedHops is 1.5: it must be a whole number from 0 to 4294967295"),
        (
            "edge: {trustedHops: true}\n",
            "1:8: edge.trustedHops is true: it must be a whole number from 0 to 4294967295",
        ),
        ("edge:\n  accessLog: 1\n", "2:3: edge.accessLog is 1: it must be true or false"),
        (
            "edge:\n  idleTimeout: 60\n",
            "2:3: edge.idleTimeout is 60: it must be a duration such as 500ms, 10s or 1h30m",
        ),
        ("backend: {connectTimeout: 0s}\n", "1:11: backend.connectTimeout is \"0s\": it must be more than zero"),
        ("controllerName: 1\n", "1:1: controllerName is 1: it must be text, write it in quotes"),
        ("controllerName: ''\n", "1:1: controllerName is \"\": it must not be empty"),
        (
            "invalidRouteReplacement:\n  statusCode: 200\n",
            "2:3: invalidRouteReplacement.statusCode is 200: it must be a whole number from 400 to 599",
        ),
        (
            "invalidRouteReplacement: {enabled: maybe}\n",
            "1:27: invalidRouteReplacement.enabled is \"maybe\": it must be true or false",
        ),
        (
            "delegation: {consent: All}\n",
            "1:14: delegation.consent is \"All\": it must be Any or CrossNamespaceExplicit",
        ),
        ("delegation: {maxDepth: 65}\n", "1:14: delegation.maxDepth is 65: it must be a whole number from 1 to 64"),
        (
            "delegation: {maxMatches: 1000001}\n",
            "1:14: delegation.maxMatches is 1000001: it must be a whole number from 1 to 1000000",
        ),
        (&long, &shown),
    ] {
        let faults = by_text(text).expect_err(text);
        assert!(faults.len() == 1 && faults[0].starts_with(fault), "{faults:#?} is not {fault}");
    }
}

#[test]
fn all_faults_of_a_file_are_reported_in_the_order_in_which_they_stand() {
    let faults =
        by_text("zone: 1\nedge:\n  trustedHops: x\n  a.b: 1\nbackend: 1\ncontrollerName: 2\n").expect_err("five");
    let starts =
        ["1:1: zone is", "3:3: edge.trustedHops is", "4:3: edge.a.b is", "5:1: backend is", "6:1: controllerName is"];
    assert_eq!(faults.len(), starts.len(), "{faults:#?}");
    assert!(faults.iter().zip(starts).all(|(fault, start)| fault.starts_with(start)), "{faults:#?}");
}

#[test]
fn json_is_read_however_it_is_indented() {
    let settings =
        by_text("{\n\t\"edge\": {\n\t\t\"trustedHops\": 3\n\t},\n\t\"ports\": \"mapped\"\n}\n").expect("valid");
    assert_eq!((settings.edge.trusted_hops, settings.ports), (3, PortMapping::Mapped));
}
