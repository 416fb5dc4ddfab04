//! The Helm charts: what they print, what they refuse, and what becomes of it in a real API server.
//!
//! `tests/golden-charts/NAME.values.yaml` is a file of values and `NAME.yaml` what `helm template` prints for it. Take over a
//! change with `UPDATE_EXPECT=1 cargo test -p portcullis-tests --test kubernetes charts`, and read the difference.

#[path = "charts/installed.rs"]
mod installed;
#[path = "charts/rights.rs"]
mod rights;

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use expect_test::expect_file;
use portcullis_tests::manifests;
use portcullis_tests::process::{portcullis_binary, root};
use serde_json::Value;

use crate::helm::{self, chart, golden, objects, template};

fn golden_template(values: &str) -> Result<()> {
    let file = golden().join(format!("{values}.values.yaml"));
    let printed = template(&chart("portcullis"), &["--values", &file.to_string_lossy()])?;
    expect_file![golden().join(format!("{values}.yaml"))].assert_eq(&printed);
    helm::helm(&["lint", "--strict", &chart("portcullis").to_string_lossy(), "--values", &file.to_string_lossy()])?;
    Ok(())
}

#[test]
fn without_any_value_the_controller_is_ready_for_production() -> Result<()> {
    golden_template("default")
}

#[test]
fn everything_can_be_set() -> Result<()> {
    golden_template("everything")
}

#[test]
fn rights_can_be_confined_to_namespaces() -> Result<()> {
    golden_template("namespaces")
}

#[test]
fn an_envoy_judges_beside_the_controller_without_a_token() -> Result<()> {
    golden_template("strict")
}

#[test]
fn an_envoy_runs_beside_the_controller_where_it_is_asked_for_in_any_case_of_letters() -> Result<()> {
    let level = |level: &str| format!("validation.level={level}");
    for (level, judges) in [
        (level("STRICT"), true),
        (level("sTrIcT"), true),
        (level("standard"), false),
        (level("Standard"), false),
        (level("Standard,validation.judge.enabled=true"), true),
        (level("Strict,freeze.enabled=true"), true),
    ] {
        let printed = template(&chart("portcullis"), &["--set", &level])?;
        let deployment = manifests::parse(&printed)?.into_iter().find(|object| object["kind"] == "Deployment");
        let pod = deployment.context("no Deployment")?["spec"]["template"]["spec"].clone();
        let containers = pod["containers"].as_array().context("no containers")?;
        let judge = containers.iter().find(|container| container["name"] == "judge");
        ensure!(judge.is_some() == judges, "{level}: {judge:?}");
        // The kubelet mounts a token into every container, unless it is told not to.
        ensure!(pod["automountServiceAccountToken"] == !judges, "{level}: {pod}");
    }
    Ok(())
}

#[test]
fn little_is_enough() -> Result<()> {
    golden_template("little")
}

#[test]
fn the_chart_of_definitions_is_without_fault() -> Result<()> {
    helm::helm(&["lint", "--strict", &chart("portcullis-crds").to_string_lossy()])?;
    Ok(())
}

#[test]
fn nonsense_is_refused_in_words_that_name_the_value() -> Result<()> {
    for (chart_name, set, named) in [
        ("portcullis", "replica=3", "replica"),
        ("portcullis", "replicas=two", "/replicas"),
        ("portcullis", "image.tags=v1", "tags"),
        ("portcullis", "image.digest=abc", "/image/digest"),
        ("portcullis", "image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("portcullis", "edge.trustedHop=1", "trustedHop"),
        ("portcullis", "edge.idleTimeout=5 minutes", "/edge/idleTimeout"),
        ("portcullis", "invalidRouteReplacement.statusCode=200", "/invalidRouteReplacement/statusCode"),
        ("portcullis", "delegation.consent=Anybody", "/delegation/consent"),
        ("portcullis", "delegation.maxDepth=65", "/delegation/maxDepth"),
        ("portcullis", "gatewayParameters.trust=Anybody", "/gatewayParameters/trust"),
        ("portcullis", "freeze.enabled=1", "/freeze/enabled"),
        ("portcullis", "validation.level=Severe", "/validation/level"),
        ("portcullis", "validation.timeout=soon", "/validation/timeout"),
        ("portcullis", "validation.judge.image=envoy", "image"),
        ("portcullis", "watchNamespaces=team-a", "/watchNamespaces"),
        ("portcullis", "watchNamespaces={Team}", "/watchNamespaces/0"),
        ("portcullis", "controllerName=portcullis", "/controllerName"),
        ("portcullis", "networkPolicy.apiServerPorts={0}", "/networkPolicy/apiServerPorts/0"),
        ("portcullis", "terminationGracePeriodSeconds=1", "/terminationGracePeriodSeconds"),
        ("portcullis", "metrics.serviceMonitor.intervall=1m", "intervall"),
        ("portcullis", "watchNamespaces={a},watchNamespaceSelector=b", "watchNamespaceSelector"),
        ("portcullis-crds", "kgateway.install=perhaps", "/kgateway/install"),
        ("portcullis-crds", "gateway.install=true", "gateway"),
    ] {
        let refusal = template(&chart(chart_name), &["--set", set]).err();
        let refusal = refusal.with_context(|| format!("{set} is taken"))?.to_string();
        let (_, said) = refusal.split_once("]: ").context("not what helm says")?;
        ensure!(said.contains(named), "{set}: {said}");
    }
    Ok(())
}

#[test]
fn every_setting_is_a_value_and_every_such_value_a_setting() -> Result<()> {
    let page = std::fs::read_to_string(root().join("docs/settings.md"))?;
    let documented = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(key, _)| key);
    // The chart sets it: proxies that are deployed may not bind the ports of listeners.
    let documented: BTreeSet<String> = documented.filter(|key| *key != "ports").map(str::to_owned).collect();

    let schema: Value =
        serde_json::from_str(&std::fs::read_to_string(chart("portcullis").join("values.schema.json"))?)?;
    let mut values = BTreeSet::from(["controllerName".to_owned()]);
    let groups = [
        "edge",
        "backend",
        "invalidRouteReplacement",
        "delegation",
        "gatewayParameters",
        "policies",
        "regex",
        "capacity",
        "validation",
        "freeze",
    ];
    for group in groups {
        let members = schema["properties"][group]["properties"].as_object().context("no such group")?;
        // The container that judges is the chart's.
        let settings = members.keys().filter(|key| (group, key.as_str()) != ("validation", "judge"));
        values.extend(settings.map(|key| format!("{group}.{key}")));
    }
    ensure!(values == documented, "{:?}", values.symmetric_difference(&documented).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn the_file_of_settings_is_one_that_the_controller_takes() -> Result<()> {
    for values in ["default", "everything", "strict"] {
        let objects = objects(values)?;
        let settings = objects.iter().find_map(|object| object["data"]["settings.yaml"].as_str());
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("settings.yaml");
        std::fs::write(&file, settings.context("no settings")?)?;
        let mut command = Command::new(portcullis_binary()?);
        command.arg("translate").arg("--config").arg(&file).arg("-f").arg(root().join("examples/quickstart"));
        let output = command.output()?;
        ensure!(output.status.success(), "{values}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

#[test]
fn a_setting_that_changes_rolls_the_pods() -> Result<()> {
    let template_of = |sets: &str| {
        let printed = template(&chart("portcullis"), &["--set", sets])?;
        let deployment = manifests::parse(&printed)?.into_iter().find(|object| object["kind"] == "Deployment");
        Ok::<_, anyhow::Error>(deployment.context("no Deployment")?["spec"]["template"].clone())
    };
    let before = template_of("replicas=2")?;
    ensure!(before == template_of("replicas=3")?, "the number of replicas does");
    ensure!(before != template_of("invalidRouteReplacement.statusCode=503")?, "the status does not");
    Ok(())
}

/// The content of a chart's files, apart from what marks an object of a release.
fn definitions(printed: &str) -> Result<Vec<Value>> {
    let mut all = manifests::parse(printed)?;
    for crd in &mut all {
        let metadata = crd["metadata"].as_object_mut().context("no metadata")?;
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.retain(|label, _| !label.starts_with("app.kubernetes.io/") && label != "helm.sh/chart");
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
        metadata.remove("annotations");
    }
    all.sort_by_key(|crd| crd["metadata"]["name"].to_string());
    Ok(all)
}

#[test]
fn the_chart_s_definitions_are_those_that_portcullis_prints() -> Result<()> {
    let name = "gateway.portcullis.dev.yaml";
    let printed = std::fs::read_to_string(root().join("crds").join(name))?;
    expect_file![chart("portcullis-crds").join("files").join(name)].assert_eq(&printed);
    let rendered = template(&chart("portcullis-crds"), &["--set", "kgateway.install=false"])?;
    ensure!(definitions(&rendered)? == definitions(&printed)?, "changed on their way through the template");
    Ok(())
}

#[test]
fn definitions_of_the_other_group_go_unchanged_through_their_template() -> Result<()> {
    let mut expected = String::new();
    for file in std::fs::read_dir(chart("portcullis-crds").join("files"))? {
        expected.push_str("---\n");
        expected.push_str(&std::fs::read_to_string(file?.path())?);
    }
    let rendered = template(&chart("portcullis-crds"), &[])?;
    ensure!(definitions(&rendered)? == definitions(&expected)?, "changed on their way through the template");
    for crd in manifests::parse(&rendered)? {
        ensure!(crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep", "{}", crd["metadata"]);
    }
    Ok(())
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() -> Result<()> {
    let printed = template(&chart("portcullis"), &["--set", "metrics.grafanaDashboard.enabled=true"])?;
    let all = manifests::parse(&printed)?;
    let dashboard = all.iter().find_map(|object| object["data"]["portcullis.json"].as_str()).context("no dashboard")?;
    let dashboard: Value = serde_json::from_str(dashboard)?;

    let panels = dashboard["panels"].as_array().context("no panels")?;
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let shown = asked_for(targets.filter_map(|target| target["expr"].as_str()));
    ensure!(shown.len() > 10, "{shown:?}");
    are_registered(&shown)
}

#[test]
fn the_alerts_ask_for_metrics_that_there_are_and_the_page_tells_them() -> Result<()> {
    let rules = manifests::parse(&std::fs::read_to_string(root().join("examples/metrics/alerts.yaml"))?)?;
    let rules = rules[0]["spec"]["groups"][0]["rules"].as_array().context("no rules")?;
    let expressions: Vec<&str> = rules.iter().filter_map(|rule| rule["expr"].as_str()).collect();
    ensure!(expressions.len() == rules.len() && rules.len() > 3, "{rules:?}");
    let page = std::fs::read_to_string(root().join("docs/metrics.md"))?;
    for expression in &expressions {
        ensure!(page.contains(&format!("`{expression}`")), "docs/metrics.md does not tell {expression}");
    }
    are_registered(&asked_for(expressions.into_iter()))
}

/// The metrics that expressions of Prometheus name, without what all begin with.
fn asked_for<'a>(expressions: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let words = expressions.flat_map(|expression| expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
    words.filter_map(|word| word.strip_prefix("portcullis_")).collect()
}

/// Fails for a metric that nobody registers.
fn are_registered(names: &BTreeSet<&str>) -> Result<()> {
    let registered_names = registered_metrics()?;
    for name in names {
        let registered =
            ["", "_total", "_bucket", "_sum", "_count"].iter().filter_map(|suffix| name.strip_suffix(suffix));
        let known = |name: &str| registered_names.contains(name);
        ensure!(registered.into_iter().any(known), "no metric is called portcullis_{name}");
    }
    Ok(())
}

#[test]
fn the_docs_list_the_metrics_that_there_are() -> Result<()> {
    let docs = std::fs::read_to_string(root().join("docs/metrics.md"))?;
    let rows = docs.lines().filter(|line| line.starts_with("| `portcullis_"));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`'));
    let listed: BTreeSet<_> = names.filter_map(|name| name.strip_prefix("portcullis_")).collect();
    let listed: BTreeSet<_> = listed.into_iter().map(|name| name.trim_end_matches("_total").to_owned()).collect();
    let registered = registered_metrics()?;
    ensure!(listed == registered, "{:?}", listed.symmetric_difference(&registered).collect::<Vec<_>>());
    Ok(())
}

/// The names under which metrics are registered, as the sources have them: a metric without values is not shown.
fn registered_metrics() -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for part in ["controller/src", "cluster/src/status", "cluster/src/apply", "cluster/src/watch", "xds/src"] {
        let source = std::fs::read_to_string(root().join("crates").join(part).join("metrics.rs"))?;
        for call in source.split(".register(").flat_map(|part| part.split(" => ")).skip(1) {
            let name = call.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'));
            names.extend(name.map(|(name, _)| name.to_owned()));
        }
    }
    ensure!(names.len() > 30, "{names:?}");
    Ok(names)
}
