//! What an API server is known to refuse.

pub(crate) use api::decode::{dns_label, dns_subdomain};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Decodes a part of an object, to see that it has the right shape. The error is the path to what is wrong, which may be
/// empty, and what is wrong.
pub(crate) fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, (String, String)> {
    api::decode_value(value).map_err(|(path, mismatch)| (path, mismatch.to_string()))
}

/// One path behind another.
pub(crate) fn join(path: &str, rest: &str) -> String {
    match rest {
        "" => path.to_owned(),
        _ if path.is_empty() => rest.to_owned(),
        _ if rest.starts_with('[') => format!("{path}{rest}"),
        _ => format!("{path}.{rest}"),
    }
}

/// The value of a label: empty, or up to 63 letters, digits, `-`, `_` and `.` that start and end with a letter or digit.
pub(crate) fn label_value(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.is_empty() || text.len() <= 63 && text.chars().all(inner) && text.starts_with(ends) && text.ends_with(ends)
}

/// The key of a label or an annotation: a name of the form of a label's value, which a domain and `/` may stand before.
pub(crate) fn qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => dns_subdomain(prefix) && !name.is_empty() && label_value(name),
        None => !text.is_empty() && label_value(text),
    }
}

/// What is wrong with a label.
pub(crate) fn label(key: &str, value: &str) -> Result<(), String> {
    if !qualified_name(key) {
        return Err(format!("{key:?} is no label key: use letters, digits, '-', '_' and '.', at most 63"));
    }
    if !label_value(value) {
        return Err(format!("{value:?} is no label value: use letters, digits, '-', '_' and '.', at most 63"));
    }
    Ok(())
}

/// What is wrong with the key of an annotation. Keys are compared in lower case.
pub(crate) fn annotation(key: &str) -> Result<(), String> {
    if qualified_name(&key.to_ascii_lowercase()) {
        return Ok(());
    }
    Err(format!("{key:?} is no annotation key: use letters, digits, '-', '_' and '.', at most 63"))
}

/// A quantity in thousandths, rounded up; none if it is none or negative.
pub(crate) fn quantity(text: &str) -> Option<u128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    // In decimal digits: as many as there are behind the point are taken back below.
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let behind = i32::try_from(fraction.len()).ok()?;
    let (binary, decimal) = match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        _ => (0, suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    };
    let exponent = decimal.checked_add(3)?.checked_sub(behind)?;
    let value = digits.checked_mul(1 << binary)?;
    let power = |exponent: i32| 10_u128.checked_pow(exponent.unsigned_abs());
    if exponent >= 0 {
        value.checked_mul(power(exponent)?)
    } else {
        // Smaller than a thousandth is still more than nothing.
        Some(power(exponent).map_or(u128::from(value > 0), |power| value.div_ceil(power)))
    }
}

/// A quantity as it stands in JSON, where it may be a number.
pub(crate) fn quantity_value(value: &Value) -> Option<u128> {
    match value {
        Value::String(text) => quantity(text),
        Value::Number(number) => quantity(&number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        let good = [
            ("1", 1000),
            ("+1", 1000),
            ("100m", 100),
            ("0.1", 100),
            (".5", 500),
            ("1.", 1000),
            ("1k", 1_000_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("1e3", 1_000_000),
            ("1E3", 1_000_000),
            ("2E", 2_000_000_000_000_000_000_000),
            ("1n", 1),
            ("0n", 0),
        ];
        for (text, expected) in good {
            assert_eq!(quantity(text), Some(expected), "{text}");
        }
        for text in ["", ".", "-1", "1 Gi", "1gi", "1KB", "1.2.3", "one", "1e", "m", "1e99", "1--"] {
            assert_eq!(quantity(text), None, "{text}");
        }
    }

    #[test]
    fn labels_and_annotations_have_the_form_that_kubernetes_wants() {
        assert_eq!(label("example.com/a_b", "A.b-c"), Ok(()));
        assert_eq!(label("a", ""), Ok(()));
        assert_eq!(annotation("Example.com/Key"), Ok(()));
        for (key, value) in [("", ""), ("/a", ""), ("a/", ""), ("a/b/c", ""), ("A_.com/b", ""), ("a", "-b"), ("a", "ä")]
        {
            assert!(label(key, value).is_err(), "{key}={value}");
        }
        assert!(label("a", &"b".repeat(64)).is_err());
        assert!(annotation("a b").is_err());
    }

    #[test]
    fn the_path_to_what_does_not_decode_is_reported() {
        let wrong = serde_json::json!({"containers": [{"name": "a", "ports": [{"containerPort": "x"}]}]});
        let (path, _) = decode::<k8s_openapi::api::core::v1::PodSpec>(&wrong).expect_err("a string for a port");
        assert_eq!(path, "containers[0].ports[0].containerPort");
        assert_eq!(join("a", &path), "a.containers[0].ports[0].containerPort");
        assert_eq!(join("a", "[0]"), "a[0]");
    }
}
