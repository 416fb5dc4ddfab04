//! What may be written for settings. Errors continue "the value …" and are the remedy.

use std::{collections::BTreeSet, net::IpAddr, ops::RangeInclusive, sync::Arc, time::Duration};

use ir::{
    downstream::{CertificateDetail, CertificateDetails},
    settings::{Consent, ExtensionGrants, PortMapping, Trust, ValidationLevel, WhenUnavailable},
};

/// The longest body of a direct response that Envoy takes, in bytes.
const MAX_BODY: usize = 4096;

/// A whole number of this range.
pub(super) fn whole<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("must be a whole number from {} to {}", range.start(), range.end()))
    }
}

/// `true` or `false`.
pub(super) fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "must be true or false".to_owned())
}

/// Any text but none.
pub(crate) fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// The name of a namespace, or nothing.
pub(super) fn namespace_or_none(text: &str) -> Result<String, String> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = text.len() <= 63 && text.chars().all(is_inner) && !text.starts_with('-') && !text.ends_with('-');
    if is_label { Ok(text.to_owned()) } else { Err(format!("{text:?} is no name of a namespace")) }
}

/// The path of a file on the hosts of proxies, or nothing.
pub(super) fn file_or_none(text: &str) -> Result<String, String> {
    let is_path = text.starts_with('/') && text.len() <= 4096 && !text.chars().any(char::is_control);
    if text.is_empty() || is_path { Ok(text.to_owned()) } else { Err("must be an absolute path, or empty".to_owned()) }
}

/// Ranges of addresses: the first of each, and how many bits all of it have in common.
pub(super) type Ranges = Arc<[(IpAddr, u8)]>;

/// The most of them: each is looked at for each connection.
const MOST_RANGES: usize = 64;

/// Ranges of addresses by commas, or nothing.
pub(super) fn ranges(text: &str) -> Result<Ranges, String> {
    let range = |text: &str| {
        let range = validate::cidr::parse(text);
        range
            .map(validate::cidr::Cidr::parts)
            .map_err(|invalid| format!("must have ranges such as 10.0.0.0/8: {invalid}"))
    };
    let ranges: Ranges = listed(text).map(range).collect::<Result<_, _>>()?;
    if ranges.len() > MOST_RANGES { Err(format!("must have {MOST_RANGES} ranges at most")) } else { Ok(ranges) }
}

/// Parts of a certificate.
pub(super) type Details = CertificateDetails;

/// Parts of a certificate by commas, or nothing.
pub(super) fn details(text: &str) -> Result<Details, String> {
    let detail = |text: &str| CertificateDetail::ALL.into_iter().find(|detail| detail.name() == text);
    let details: Option<BTreeSet<_>> = listed(text).map(detail).collect();
    let details =
        details.ok_or("must have subject, uri, dns, cert and chain, as many of them as backends shall be told")?;
    Ok(details.into_iter().collect())
}

/// What stands between commas.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// Text that Envoy takes as the body of a direct response.
pub(super) fn body(text: &str) -> Result<String, String> {
    if text.len() > MAX_BODY {
        return Err(format!("must have {MAX_BODY} bytes at most, and has {}", text.len()));
    }
    Ok(text.to_owned())
}

/// A duration as Gateway API writes it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    validate::duration::parse(text)
        .map_err(|_| "must be a duration such as 500ms, 10s or 1h30m, without fractions".to_owned())
}

/// A duration above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("must be more than zero".to_owned()) } else { Ok(duration) }
}

/// Which port Envoy binds.
pub(super) fn ports(text: &str) -> Result<PortMapping, String> {
    match text {
        "own" => Ok(PortMapping::Own),
        "mapped" => Ok(PortMapping::Mapped),
        _ => Err("must be own or mapped".to_owned()),
    }
}

/// Whose children a route may be that names no parent. The second spelling is that of flags.
pub(super) fn consent(text: &str) -> Result<Consent, String> {
    match text {
        "Any" | "any" => Ok(Consent::Any),
        "CrossNamespaceExplicit" | "cross-namespace-explicit" => Ok(Consent::CrossNamespaceExplicit),
        _ => Err("must be Any or CrossNamespaceExplicit".to_owned()),
    }
}

/// Whether a policy needs a grant to ask an extension of another namespace. The second spelling is that of flags.
pub(super) fn extension_grants(text: &str) -> Result<ExtensionGrants, String> {
    match text {
        "Permissive" | "permissive" => Ok(ExtensionGrants::Permissive),
        "Strict" | "strict" => Ok(ExtensionGrants::Strict),
        _ => Err("must be Permissive or Strict".to_owned()),
    }
}

/// How far GatewayParameters are trusted. The second spelling is that of flags.
pub(super) fn trust(text: &str) -> Result<Trust, String> {
    match text {
        "Restricted" | "restricted" => Ok(Trust::Restricted),
        "Unrestricted" | "unrestricted" => Ok(Trust::Unrestricted),
        "ClassOnly" | "class-only" => Ok(Trust::ClassOnly),
        _ => Err("must be Restricted, Unrestricted or ClassOnly".to_owned()),
    }
}

/// Who judges what is sent, in any case of letters.
pub(super) fn validation_level(text: &str) -> Result<ValidationLevel, String> {
    match text.to_ascii_lowercase().as_str() {
        "standard" => Ok(ValidationLevel::Standard),
        "strict" => Ok(ValidationLevel::Strict),
        _ => Err("must be Standard or Strict".to_owned()),
    }
}

/// What becomes of what nobody judges, in any case of letters.
pub(super) fn when_unavailable(text: &str) -> Result<WhenUnavailable, String> {
    match text.to_ascii_lowercase().as_str() {
        "standard" => Ok(WhenUnavailable::Standard),
        "hold" => Ok(WhenUnavailable::Hold),
        _ => Err("must be Standard or Hold".to_owned()),
    }
}
