//! Label selectors as kubectl's `-l` takes them.

use api::meta::LabelSelector;
use serde_json::{Value, json};

/// Reads `key=value`, `key==value`, `key!=value`, `key`, `!key`, `key in (a,b)` and `key notin (a,b)`, any number of
/// them separated by commas. All must hold.
pub(super) fn parse(text: &str) -> anyhow::Result<LabelSelector> {
    let requirements = split(text).map(requirement).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(serde_json::from_value(json!({ "matchExpressions": requirements }))?)
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn requirement(text: &str) -> anyhow::Result<Value> {
    let text = text.trim();
    let (key, operator, values) = if let Some((key, rest)) = text.split_once(" notin ") {
        (key, "NotIn", listed(rest)?)
    } else if let Some((key, rest)) = text.split_once(" in ") {
        (key, "In", listed(rest)?)
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, "NotIn", vec![value.trim()])
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, "In", vec![value.trim()])
    } else if let Some(key) = text.strip_prefix('!') {
        (key, "DoesNotExist", vec![])
    } else {
        (text, "Exists", vec![])
    };
    let key = key.trim();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if key.is_empty() || !key.chars().all(fits) {
        anyhow::bail!("{text:?} is no requirement: write key=value, key!=value, key, !key, or key in (a,b)");
    }
    Ok(json!({ "key": key, "operator": operator, "values": values }))
}

fn listed(text: &str) -> anyhow::Result<Vec<&str>> {
    let inner = text.trim().strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let Some(inner) = inner else { anyhow::bail!("{text:?} must be values in parentheses, such as (a,b)") };
    Ok(inner.split(',').map(str::trim).collect())
}

#[cfg(test)]
mod tests {
    use api::meta::StringMap;

    use super::*;

    #[test]
    fn each_form_selects_what_kubectl_selects_by_it() {
        let labels = |pairs: &[(&str, &str)]| -> StringMap { pairs.iter().copied().collect() };
        let (web, other, none) = (labels(&[("team", "web")]), labels(&[("team", "x"), ("a", "b")]), labels(&[]));
        for (text, expected) in [
            ("team=web", [true, false, false]),
            ("team==web", [true, false, false]),
            ("team!=web", [false, true, true]),
            ("team", [true, true, false]),
            ("!team", [false, false, true]),
            ("team in (web, y)", [true, false, false]),
            ("team notin (web,y)", [false, true, true]),
            ("team, a = b", [false, true, false]),
        ] {
            let selector = parse(text).expect(text);
            let selected = [&web, &other, &none].map(|labels| selector.matches(labels).expect("it is sound"));
            assert_eq!(selected, expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for text in ["=web", "team web", "team in web", ",", "a,,b"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
