//! The manifests that the release ships: good ones, bad ones, and those of its conformance tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use api::{DecodeError, decode, violations};
use serde_json::Value;

use crate::crd::{CONFORMANCE_DIR, MODULE_DIR, kinds};

/// What the conformance tests put in before they apply a manifest.
const PLACEHOLDERS: [(&str, &str); 4] = [
    ("{GATEWAY_CONTROLLER_NAME}", "example.com/controller"),
    ("{GATEWAY_CLASS_NAME}", "class"),
    ("PLACEHOLDER_UNUSABLE_ADDRS", "192.0.2.1"),
    ("PLACEHOLDER_USABLE_ADDRS", "192.0.2.2"),
];

/// Manifests below a folder that are of kinds whose schema we know.
fn manifests(folder: &Path) -> Vec<(PathBuf, Value)> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder entry").path();
        if path.is_dir() {
            found.extend(manifests(&path));
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let mut text = fs::read_to_string(&path).expect("a text");
            for (placeholder, value) in PLACEHOLDERS {
                text = text.replace(placeholder, value);
            }
            let documents: Vec<Value> =
                serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let ours = documents.into_iter().filter(|document| {
                let version = document["apiVersion"].as_str().and_then(|version| version.split_once('/'));
                version.is_some_and(|(group, version)| {
                    let is = |kind: api::Kind| {
                        document["kind"] == kind.as_str() && kind.group() == group && kind.versions().contains(&version)
                    };
                    kinds().any(is)
                })
            });
            found.extend(ours.map(|document| (path.clone(), document)));
        }
    }
    found
}

fn faults(manifest: Value) -> Result<Vec<String>, DecodeError> {
    let decoded = decode(manifest)?;
    let violations = violations(&decoded.object).into_iter().map(|violation| violation.to_string());
    Ok(violations.chain(decoded.unknown_fields).collect())
}

#[test]
fn manifests_that_an_api_server_takes_have_no_faults() {
    let mut seen = 0;
    for folder in [MODULE_DIR.join("examples"), CONFORMANCE_DIR.clone()] {
        for (path, manifest) in manifests(&folder) {
            let name = manifest["metadata"]["name"].clone();
            let faults = faults(manifest).unwrap_or_else(|error| panic!("{} {name}: {error}", path.display()));
            assert_eq!(faults, [""; 0], "{} {name}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 300, "the folders must hold manifests, they hold {seen}");
}

#[test]
fn manifests_that_an_api_server_refuses_have_faults() {
    let mut seen = 0;
    for (path, manifest) in manifests(&MODULE_DIR.join("hack/invalid-examples")) {
        let name = manifest["metadata"]["name"].clone();
        let faulty = faults(manifest).map_or(true, |faults| !faults.is_empty());
        assert!(faulty, "{} {name} has no fault", path.display());
        seen += 1;
    }
    assert!(seen > 20, "the folder must hold manifests, it holds {seen}");
}
