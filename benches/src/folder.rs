//! A folder for the files of a benchmark.

use std::path::{Path, PathBuf};

use clinch_core::ports::Ids as _;
use clinch_core::{Error, ErrorKind, Result};
use clinch_system::SystemIds;

/// A temporary folder, removed at the end.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder.
    pub fn new() -> Result<Self> {
        let name = format!("clinch-bench-{}", SystemIds.attempt_id());
        let path = std::env::temp_dir().join(name);
        let failed = |error: std::io::Error| Error::new(ErrorKind::Internal, error.to_string());
        std::fs::create_dir(&path).map_err(failed)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
