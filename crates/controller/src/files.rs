//! Folders of manifests as a source of objects.
//!
//! [`Manifests`] is the pure core: texts of files go in, objects come out, completed as an API server would complete
//! them. Around it, [`scan`] reads folders, [`coalesce`] decides when, and [`source`] follows them.

pub mod age;
pub mod coalesce;
pub mod parse;
mod read;
pub mod scan;
pub mod source;
pub mod state;
pub mod yaml;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub use parse::{FilePlaces, Origin};
pub use source::{Files, Following, SourceError, Update};
pub use state::{FileProblem, Manifests};
pub use yaml::Position;

/// A file, and its order among the others: by argument, then by path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Which of the folders given on the command line it is in.
    argument: usize,
    /// The path as it is shown.
    path: PathBuf,
}

impl FileKey {
    /// The file at `path`, found by argument number `argument`.
    pub fn new(argument: usize, path: &Path) -> Self {
        Self { argument, path: path.to_owned() }
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is JSON by its name.
    fn is_json(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
    }
}

/// A file's key, shared by everything that comes from it.
pub type SharedKey = Arc<FileKey>;
