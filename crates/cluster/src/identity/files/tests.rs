use std::path::Path;
use std::time::SystemTime;

use super::*;
use crate::identity::issue::{self, Pair};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("portcullis-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn files(&self) -> CertificateFiles {
        let path = |name: &str| self.0.join(name);
        CertificateFiles { certificate: path("tls.crt"), key: path("tls.key"), ca: path("ca.crt") }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn write(path: &Path, content: &str) {
    std::fs::write(path, content).expect("written");
}

fn made() -> (Pair, Pair) {
    let now = SystemTime::now();
    let ca = issue::ca(now, Duration::from_hours(1)).expect("made");
    let serving = issue::serving(&ca, &["xds".to_owned()], now, Duration::from_hours(1)).expect("signed");
    (ca, serving)
}

#[tokio::test]
async fn files_that_change_one_by_one_are_taken_once_they_fit() {
    let folder = Folder::new("files");
    let (files, trust, mut seen) = (folder.files(), Trust::new(), None);
    let missing = files.look(&trust, &mut seen).await;
    assert!(matches!(missing, Err(FilesError::Read(..))), "{missing:?}");
    let (first, second) = (made(), made());
    write(&files.ca, &first.0.certificate);
    write(&files.certificate, &first.1.certificate);
    write(&files.key, &first.1.key);
    assert!(files.look(&trust, &mut seen).await.expect("they fit"));
    assert!(!files.look(&trust, &mut seen).await.expect("nothing changed"));
    // A new certificate, and not yet its key.
    write(&files.ca, &second.0.certificate);
    write(&files.certificate, &second.1.certificate);
    let half = files.look(&trust, &mut seen).await;
    assert!(matches!(half, Err(FilesError::Certificate(_))), "{half:?}");
    assert_eq!(trust.bundle().borrow().as_deref(), Some(first.0.certificate.as_str()));
    write(&files.key, &second.1.key);
    assert!(files.look(&trust, &mut seen).await.expect("they fit"));
    assert_eq!(trust.bundle().borrow().as_deref(), Some(second.0.certificate.as_str()));
    write(&files.ca, "nothing");
    assert!(matches!(files.look(&trust, &mut seen).await, Err(FilesError::NoCa(_))));
}
