//! Whose a field is that a rule has of itself or inherits.

use ir::{filter::Rewrite, rule::Timeouts};

use super::Level;
use crate::route::rule::Does;

/// A field of a rule with those who have a say in it: none for the rule itself, else the place of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Provenance {
    /// As in [`crate::explain::Effect::what`].
    pub(crate) what: &'static str,
    /// Who supplies it; several where it is joined.
    pub(crate) from: Vec<Option<usize>>,
    /// Who has it too and is not heard.
    pub(crate) overridden: Vec<Option<usize>>,
}

/// Whose each field is; `levels` as for [`super::combine`], the root's first.
pub(crate) fn provenance(own: &Does, levels: &[&Level]) -> Vec<Provenance> {
    let sources = || {
        let above = levels.iter().enumerate().rev().map(|(place, level)| (Some(place), Source::Above(level)));
        std::iter::once((None, Source::Own(own))).chain(above)
    };
    let mut fields = Vec::new();
    for (what, joined, has) in FIELDS {
        let having: Vec<_> = sources().filter(|(_, source)| has(source)).collect();
        if having.is_empty() {
            continue;
        }
        if *joined {
            let from = having.into_iter().map(|(place, _)| place).collect();
            fields.push(Provenance { what, from, overridden: Vec::new() });
            continue;
        }
        let mut winner = having[0].0;
        for (place, source) in &having {
            if matches!(source, Source::Above(level) if level.prefers_parent) {
                winner = *place;
            }
        }
        let overridden = having.into_iter().map(|(place, _)| place).filter(|place| *place != winner).collect();
        fields.push(Provenance { what, from: vec![winner], overridden });
    }
    fields
}

enum Source<'a> {
    Own(&'a Does),
    Above(&'a Level),
}

type Has = fn(&Source<'_>) -> bool;

/// Each field, whether it is joined, and whether somebody says something of it.
const FIELDS: &[(&str, bool, Has)] = &[
    ("timeouts", false, |source| {
        *match source {
            Source::Own(own) => &own.timeouts,
            Source::Above(level) => &level.timeouts,
        } != Timeouts::default()
    }),
    ("retry", false, |source| match source {
        Source::Own(own) => own.retry.is_some(),
        Source::Above(level) => level.retry.is_some(),
    }),
    ("sessionPersistence", false, |source| match source {
        Source::Own(own) => own.session.is_some(),
        Source::Above(level) => level.session.is_some(),
    }),
    ("urlRewrite", false, |source| source.filters().filters.rewrite != Rewrite::default()),
    ("requestRedirect", false, |source| source.filters().redirect.is_some()),
    ("cors", false, |source| source.filters().filters.cors.is_some()),
    ("requestHeaderModifier", true, |source| !source.filters().filters.request_headers.is_empty()),
    ("responseHeaderModifier", true, |source| !source.filters().filters.response_headers.is_empty()),
    ("requestMirror", true, |source| !source.filters().mirrors.is_empty()),
];

impl<'a> Source<'a> {
    fn filters(&self) -> &'a crate::route::filters::ReadFilters {
        match self {
            Self::Own(own) => &own.filters,
            Self::Above(level) => &level.filters,
        }
    }
}
