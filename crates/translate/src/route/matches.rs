//! Reading what matches of routes of all kinds have in common.

use std::{collections::HashSet, sync::Arc};

use api::http_route::{HeaderMatchType, HttpHeaderMatch};
use ir::{
    Problem,
    matching::{Condition, Match, ValueMatch},
    route::{Handling, MatchSpec, RuleSpec, Unhandled},
};
use validate::{self, Invalid};

/// A rule with its matches, as `read` reads each by its index, and `handling`.
pub(super) fn claims<W>(
    name: Option<&Arc<str>>,
    written: &[W],
    read: impl Fn(usize, &W) -> Result<Match, Problem>,
    handling: Result<Handling, Unhandled>,
) -> RuleSpec {
    let (mut sound, mut dropped) = (Vec::with_capacity(written.len()), Vec::new());
    for (index, written) in written.iter().enumerate() {
        match read(index, written) {
            Ok(written) => sound.push(MatchSpec { index: u32::try_from(index).unwrap_or(u32::MAX), written }),
            Err(problem) => dropped.push(problem),
        }
    }
    RuleSpec {
        name: name.filter(|name| !name.is_empty()).cloned(),
        matches: sound.into(),
        dropped: dropped.into(),
        ignored: Box::default(),
        handling,
    }
}

/// Gateway API: of entries with an equivalent name the first counts.
pub(super) fn headers(written: &[HttpHeaderMatch]) -> Result<Vec<Condition>, (String, Invalid)> {
    let mut seen = HashSet::new();
    let mut conditions = Vec::new();
    for (index, header) in written.iter().enumerate() {
        let at = |field| move |invalid| (format!("headers[{index}].{field}"), invalid);
        let name: Arc<str> = validate::header::match_name(&header.name).map_err(at("name"))?.into();
        let value = match &header.r#type {
            HeaderMatchType::Exact => {
                validate::header::match_value(&header.value).map(|()| ValueMatch::Exact(header.value.as_ref().into()))
            }
            HeaderMatchType::RegularExpression => {
                validate::regex::check(&header.value).map(|_| ValueMatch::Regex(header.value.as_ref().into()))
            }
            HeaderMatchType::Unknown(other) => return Err(at("type")(unknown_value_type(other))),
        };
        let value = value.map_err(at("value"))?;
        if seen.insert(name.clone()) {
            conditions.push(Condition { name, value });
        }
    }
    Ok(conditions)
}

pub(super) fn unknown_value_type(written: &str) -> Invalid {
    Invalid::new(written, "it is no type of match", "use Exact or RegularExpression")
}
