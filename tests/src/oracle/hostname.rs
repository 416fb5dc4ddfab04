//! Hostnames of listeners, routes and requests.

/// A hostname as listeners and routes write it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Hostname {
    wildcard: bool,
    /// What a request's host is, or ends with; empty for any host.
    text: String,
}

/// How well a hostname fits: characters of one without a wildcard, then characters at all. The greatest goes first.
pub(super) type Fit = (usize, usize);

impl Hostname {
    pub(super) fn read(written: &str) -> Self {
        let text = written.to_ascii_lowercase();
        match text.strip_prefix('*') {
            Some(suffix) => Self { wildcard: true, text: suffix.to_owned() },
            None => Self { wildcard: text.is_empty(), text },
        }
    }

    pub(super) fn any() -> Self {
        Self::read("")
    }

    /// How well it fits a request's host, of which port and case do not count; none if it does not.
    pub(super) fn fit(&self, host: &str) -> Option<Fit> {
        let host = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
        match self {
            Self { wildcard: false, text } => (*text == host).then_some((text.len(), text.len())),
            Self { text, .. } if text.is_empty() => Some((0, 0)),
            // Something stands for the asterisk.
            Self { text, .. } => (host.len() > text.len() && host.ends_with(text)).then_some((0, text.len() + 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_labels_and_not_for_none() {
        for (written, matching, others) in [
            (
                "*.example.com",
                vec!["a.example.com", "a.b.example.com", "A.example.com:80"],
                vec!["example.com", "b.com"],
            ),
            ("example.com", vec!["example.com", "Example.com:8080"], vec!["a.example.com", ""]),
            ("", vec!["example.com", "x"], vec![]),
        ] {
            let hostname = Hostname::read(written);
            assert!(matching.iter().all(|host| hostname.fit(host).is_some()), "{written}");
            assert!(others.iter().all(|host| hostname.fit(host).is_none()), "{written}");
        }
    }

    #[test]
    fn a_whole_hostname_goes_before_a_wildcard_and_a_longer_one_before_a_shorter() {
        let fit = |written: &str| Hostname::read(written).fit("a.b.example.com");
        assert!(fit("a.b.example.com") > fit("*.b.example.com"));
        assert!(fit("*.b.example.com") > fit("*.example.com"));
        assert!(fit("*.example.com") > fit(""));
    }
}
