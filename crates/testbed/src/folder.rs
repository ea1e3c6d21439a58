//! A folder that goes with its owner.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::{Kind, Trouble};

pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Belongs to the user that the server runs as.
    pub(crate) fn new(kind: Kind) -> Result<Self, Trouble> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let broken = |error| Trouble::broken(kind, format!("no folder: {error}"));
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let name = format!("clinch-{kind}-{}-{number}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            match std::fs::create_dir(&folder) {
                // Left by a killed process whose id is used again.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.map_err(broken)?,
            }
            let folder = Self(folder);
            if let Some((uid, gid)) = kind.user() {
                let given = std::os::unix::fs::chown(&folder.0, Some(uid), Some(gid));
                given.map_err(broken)?;
            }
            return Ok(folder);
        }
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
