//! Unix sockets for one user.

use std::{io, path::Path};

use tokio::net::UnixListener;

/// Binds a socket that only this user can open, in the place of one that is not served any more.
pub fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    // What is longer than a socket's path may be could be bound below, but not connected to.
    std::os::unix::net::SocketAddr::from_pathname(path)?;
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Bound in a private folder, so that there is no moment at which others could open it.
    let private = tempfile::Builder::new().prefix(".bind-").tempdir_in(folder)?;
    let bound = private.path().join("s");
    let listener = UnixListener::bind(&bound)?;
    std::fs::set_permissions(&bound, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    std::fs::rename(&bound, path)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_its_owner_alone_and_takes_the_place_of_one_that_is_not_served() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("xds.sock");
        let listener = bind_unix(&path).expect("it is free");
        let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let error = bind_unix(&path).expect_err("it is served");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        drop(bind_unix(&path).expect("nobody serves it"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 1, "nothing else is left");
        bind_unix(&folder.path().join("x".repeat(108))).expect_err("nobody could connect to it");
    }
}
