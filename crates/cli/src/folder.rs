//! A temporary folder that is removed with its owner.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// A temporary folder, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a folder inside `under`.
    pub(crate) fn new(under: &Path, name: &str) -> Result<Self, CliError> {
        let path = under.join(format!("{name}-{}", uuid::Uuid::now_v7()));
        // Only its owner may open it: it holds databases and logs of a demo.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| {
            let under = under.display();
            CliError::failed(format!(
                "cannot create a temporary folder in {under}: {error}"
            ))
        })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the system's temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
