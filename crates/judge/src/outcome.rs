//! What one process said.

use std::{fmt, os::unix::process::ExitStatusExt, process::ExitStatus, sync::Arc, time::Duration};

use bytes::Bytes;

use crate::words;

/// What Envoy writes before its words where it refuses a configuration.
const REFUSES: &str = "error initializing configuration";

/// What it writes to its standard output where it takes a configuration.
fn takes(path: &str) -> String {
    format!("configuration '{path}' OK")
}

/// The kernel's signals that mean something here. Their numbers are the same on all architectures that are served.
mod signal {
    /// Sent by nobody but the kernel, for want of memory: of our own nobody kills a process and then asks how it ended.
    pub(super) const KILL: i32 = 9;
    /// The limit of CPU time.
    pub(super) const XCPU: i32 = 24;
}

/// A bootstrap that shall be judged.
#[derive(Clone, Debug)]
pub struct Job {
    /// The encoded `envoy.config.bootstrap.v3.Bootstrap`.
    pub bootstrap: Bytes,
    /// How many fragments are in it, by which it has CPU time.
    pub fragments: u32,
}

impl Job {
    /// How much CPU time it may take, in seconds, which is how the kernel counts: 1 s, and 0.2 ms a fragment. Envoy takes a sixth
    /// of that for a usual row.
    pub fn cpu_seconds(&self) -> u64 {
        1 + u64::from(self.fragments) / 5_000
    }

    /// How long it may take, whatever it does: 10 s, and 2.5 ms a fragment. One row that waits for nothing holds up the others for
    /// no longer than that.
    pub fn time(&self) -> Duration {
        Duration::from_secs(10) + Duration::from_micros(2_500) * self.fragments
    }
}

/// What came of a [`Job`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Envoy takes all of it.
    Accepted,
    /// It refuses something of it, in these words: one line.
    Refused(String),
    /// It ended by this signal.
    Crashed(i32),
    /// It used up its CPU time.
    TooExpensive,
    /// The kernel ended it, for want of memory.
    OutOfMemory,
    /// It was not done in time, though it used little CPU time.
    Stalled,
    /// It ended in another way, without a word of whether it takes it. What is known of that: one line.
    Ended(String),
    /// Nobody can say, for this reason: one line.
    Unavailable(String),
}

impl Outcome {
    /// What the end of a process means that read `path` and wrote this. That it ended well is not enough: what it read may have
    /// ended it.
    pub(crate) fn of(status: ExitStatus, path: &str, output: &str, errors: &str) -> Self {
        match (status.code(), status.signal()) {
            (Some(0), _) if output.lines().any(|line| line == takes(path)) => Self::Accepted,
            (Some(1), _) if errors.contains(REFUSES) => Self::Refused(words::of_refusal(errors, REFUSES)),
            (_, Some(signal::XCPU)) => Self::TooExpensive,
            (_, Some(signal::KILL)) => Self::OutOfMemory,
            (_, Some(signal)) => Self::Crashed(signal),
            _ => Self::Ended(words::one_line(&format!("{status}: {errors}"))),
        }
    }
}

/// A build of Envoy, as it calls itself: `COMMIT/VERSION/STATE/TYPE/TLS`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Build(Arc<str>);

impl Build {
    /// The build that prints this when it is asked for its version; none where it prints something else.
    pub(crate) fn printed(text: &str) -> Option<Self> {
        let build = text.split_once("version:")?.1.trim();
        Self::named(build)
    }

    /// The build of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "/.-_+".contains(c);
        let fits = name.len() <= 256 && name.contains('/') && name.chars().all(is_name);
        fits.then(|| Self(name.into()))
    }

    /// One of which only the number of its version is known.
    pub fn numbered(number: impl fmt::Display) -> Self {
        Self(format!("?/{number}").into())
    }

    /// All of its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number of its version, such as `1.40.0`.
    pub fn number(&self) -> &str {
        self.0.split('/').nth(1).unwrap_or(&self.0)
    }
}

/// `Envoy 1.40.0`.
impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Envoy {}", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(raw: i32, errors: &str) -> Outcome {
        said(raw, "", errors)
    }

    fn said(raw: i32, output: &str, errors: &str) -> Outcome {
        Outcome::of(ExitStatus::from_raw(raw), "/tmp/x/3.pb", output, errors)
    }

    #[test]
    fn an_end_is_an_acceptance_only_where_envoy_says_so() {
        assert_eq!(said(0, "configuration '/tmp/x/3.pb' OK\n", "a warning"), Outcome::Accepted);
        for output in ["", "OK", "configuration '/tmp/x/4.pb' OK\n", "x configuration '/tmp/x/3.pb' OK\n"] {
            assert!(matches!(said(0, output, ""), Outcome::Ended(_)), "{output}");
        }
        assert!(matches!(said(7 << 8, "configuration '/tmp/x/3.pb' OK\n", ""), Outcome::Ended(_)));
    }

    #[test]
    fn an_end_is_a_refusal_only_where_envoy_says_so() {
        const EXIT_1: i32 = 1 << 8;
        let logged = "[2026-11-23 17:42:27.027][7][critical][main] [source/server/config_validation/server.cc:76] error \
                      initializing configuration '/tmp/x/3.pb': missing ]: [\n";
        assert_eq!(ended(EXIT_1, logged), Outcome::Refused("missing ]: [".into()));
        assert!(matches!(ended(EXIT_1, "cannot bind"), Outcome::Ended(why) if why.contains("cannot bind")));
        let other = ended(2 << 8, "error initializing configuration '/tmp/x/3.pb': no");
        assert!(matches!(other, Outcome::Ended(_)), "{other:?}");
    }

    #[test]
    fn signals_tell_what_a_process_died_of() {
        assert_eq!(ended(11, ""), Outcome::Crashed(11));
        assert_eq!(ended(6, ""), Outcome::Crashed(6));
        assert_eq!(ended(24, ""), Outcome::TooExpensive);
        assert_eq!(ended(9, ""), Outcome::OutOfMemory);
    }

    #[test]
    fn a_build_is_what_envoy_calls_itself() {
        let printed = "\n/usr/local/bin/envoy  version: 0a1b/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        let build = Build::printed(printed).expect("it is one");
        assert_eq!((build.as_str(), build.number()), ("0a1b/1.40.0/Clean/RELEASE/BoringSSL", "1.40.0"));
        assert_eq!(build.to_string(), "Envoy 1.40.0");
        for text in ["", "version:", "1.40.0", "version: a/b\u{1b}[31m", &format!("version: a/{}", "b".repeat(300))] {
            assert_eq!(Build::printed(text), None, "{text}");
        }
    }

    #[test]
    fn a_build_of_which_only_the_number_is_known_says_it() {
        let build = Build::numbered("1.40.2");
        assert_eq!((build.number(), build.to_string().as_str()), ("1.40.2", "Envoy 1.40.2"));
    }

    #[test]
    fn a_batch_has_time_by_its_fragments() {
        let seconds = |fragments| Job { bootstrap: Bytes::new(), fragments }.cpu_seconds();
        assert_eq!([0, 1, 5_000, 10_000].map(seconds), [1, 1, 2, 3]);
    }
}
