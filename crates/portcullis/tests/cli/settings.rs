//! Settings by flag, environment and file, as a user gives them.

use super::{Command, GOOD, Output, TempDir, Value, fs, text};

/// A folder with the manifests and a file of settings.
fn folder(settings: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("manifests")).expect("a folder");
    let broken = "filters: [{type: ExtensionRef, extensionRef: {group: example.com, kind: Unknown, name: x}}]";
    let manifests = GOOD.replace("backendRefs: [{name: app, port: 80}]", broken);
    fs::write(folder.path().join("manifests/a.yaml"), manifests).expect("a file");
    fs::write(folder.path().join("settings.yaml"), settings).expect("a file");
    folder
}

fn portcullis(folder: &TempDir, arguments: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.current_dir(folder.path()).env_clear().envs(env.iter().copied()).args(arguments);
    command.output().expect("it runs")
}

/// The port that Envoy binds, and what the broken route answers.
fn translated(folder: &TempDir, arguments: &[&str], env: &[(&str, &str)]) -> (Value, Value, Value) {
    let output =
        portcullis(folder, &[&["translate", "-o", "json", "--host", "-f", "manifests"], arguments].concat(), env);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let gateway = &document["gateways"][0];
    let answer = &gateway["routes"][0]["virtualHosts"][0]["routes"][0]["directResponse"];
    (
        gateway["listeners"][0]["address"]["socketAddress"]["portValue"].clone(),
        answer["status"].clone(),
        answer["body"]["inlineString"].clone(),
    )
}

#[test]
fn flags_win_over_the_environment_that_over_the_file_and_that_over_defaults() {
    let folder = folder("ports: mapped\ninvalidRouteReplacement: {statusCode: 501, body: file}\n");
    let default = "invalid route configuration: replaced by a direct response";
    let (config, env) = (["--config", "settings.yaml"], [("PORTCULLIS_CONFIG", "settings.yaml")]);
    let (status, body) = (("PORTCULLIS_REPLACEMENT_STATUS", "502"), ("PORTCULLIS_REPLACEMENT_BODY", "environment"));
    for (arguments, env, expected) in [
        (&[][..], &[][..], (80, 500, default)),
        (&config, &[], (10080, 501, "file")),
        (&[], &env, (10080, 501, "file")),
        (&config, &[status], (10080, 502, "file")),
        (&[&config[..], &["--replacement-status", "503"]].concat(), &[status, body], (10080, 503, "environment")),
        (&["--ports", "own", "--replacement-body", "flag"], &[env[0], body], (80, 501, "flag")),
        // The flag names another file than the environment does.
        (&config, &[("PORTCULLIS_CONFIG", "none.yaml")], (10080, 501, "file")),
    ] {
        let (port, status, body) = translated(&folder, arguments, env);
        assert_eq!((port, status, body), (expected.0.into(), expected.1.into(), expected.2.into()), "{arguments:?}");
    }
}

#[test]
fn no_command_starts_with_settings_that_are_not_valid() {
    let folder = folder("ports: own\nedge:\n  trustedHop: 1\n  maxRequestHeaders: 0\n");
    for command in [
        &["run", "--files", "manifests", "--xds-address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0"][..],
        &["translate", "-f", "manifests"],
        &["check", "-f", "manifests"],
        &["tree", "-f", "manifests"],
        &["explain", "-f", "manifests", "--gateway", "web/edge", "http://a/"],
        &["bootstrap", "--gateway", "web/edge"],
    ] {
        let output = portcullis(&folder, &[command, &["--config", "settings.yaml"]].concat(), &[]);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{command:?}");
        let told = text(&output.stderr);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines.len(), 3, "{told}");
        assert_eq!(lines[0], "portcullis: the settings in settings.yaml are not valid, correct them:");
        assert!(
            lines[1].starts_with("  settings.yaml:3:3: edge.trustedHop is no setting: edge has trustedHops, "),
            "{told}"
        );
        let must = "it must be a whole number from 1 to 4294967295";
        assert_eq!(lines[2], format!("  settings.yaml:4:3: edge.maxRequestHeaders is 0: {must}"));
    }
}

#[test]
fn a_file_that_is_not_there_is_reported_with_what_names_it() {
    let folder = folder("");
    let output = portcullis(&folder, &["check", "-f", "manifests"], &[("PORTCULLIS_CONFIG", "none.yaml")]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("none.yaml, which --config or PORTCULLIS_CONFIG names: No such file"), "{told}");
    let output = portcullis(&folder, &["check", "-f", "manifests"], &[("PORTCULLIS_CONFIG", "")]);
    assert_eq!(output.status.code(), Some(2), "an empty name is none: {}", text(&output.stderr));
}

#[test]
fn wrong_variables_are_reported_too() {
    let folder = folder("");
    let output = portcullis(&folder, &["check", "-f", "manifests"], &[("DELEGATION_WILDCARD_NAMESPACE", "")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--delegation-wildcard-namespace"), "{}", text(&output.stderr));
}
