//! A folder that goes with its owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Kind, Trouble};

pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Belongs to the user that the server runs as.
    pub(crate) fn new(kind: Kind) -> Result<Self, Trouble> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("clinch-{kind}-{}-{number}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        let made = std::fs::create_dir(&folder.0).and_then(|()| match kind.user() {
            Some((uid, gid)) => std::os::unix::fs::chown(&folder.0, Some(uid), Some(gid)),
            None => Ok(()),
        });
        made.map_err(|error| Trouble::broken(kind, format!("no folder: {error}")))?;
        Ok(folder)
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
