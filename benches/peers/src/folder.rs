//! Folders that go with their owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use clinch_peers_load::Result;

/// A new, empty folder, removed at the end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(under: &Path) -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("clinch-peers-{}-{number}", std::process::id());
        let path = under.join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
