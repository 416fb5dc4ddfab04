//! The limit of open files.

use rustix::process::{Resource, getrlimit, setrlimit};

/// How many files this process may have open, after its soft limit was raised to the hard one.
///
/// Without a limit it is `u64::MAX`.
pub fn open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let soft = limit.current;
    limit.current = limit.maximum;
    if soft != limit.maximum
        && let Err(error) = setrlimit(Resource::Nofile, limit)
    {
        tracing::warn!(%error, ?soft, "cannot raise the limit of open files");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let files = open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(files, limit.maximum.unwrap_or(u64::MAX));
    }
}
