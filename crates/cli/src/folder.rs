//! A temporary folder that goes with its owner.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one in the folder `under`.
    pub(crate) fn new(under: &Path, name: &str) -> Result<Self, CliError> {
        let path = under.join(format!("{name}-{}", uuid::Uuid::now_v7()));
        // Others have no business in it: databases and logs of a demo are there.
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| {
            let under = under.display();
            CliError::failed(format!("no temporary folder in {under}: {error}"))
        })?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
