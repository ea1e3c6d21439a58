//! A file that appears under its final name only when it is complete.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clinch_core::{Error, ErrorKind, Result};

use crate::private;

/// How often to retry when another process has just renamed or removed the file; that is rare.
const TRIES_MAX: usize = 10;

/// A file that is being written, under a temporary name beside its final name. Only its owner may
/// read it: a copy of the database holds payloads. It is removed unless it is published.
pub(crate) struct Partial {
    path: PathBuf,
    target: PathBuf,
    /// Locked, so that another process that wants to write it fails.
    _lock: File,
    is_published: bool,
}

impl Partial {
    /// Creates an empty temporary file.
    ///
    /// - `Conflict`: another process writes to the same target.
    pub(crate) fn begin(target: &Path) -> Result<Self> {
        let path = with_suffix(target, ".partial");
        for _ in 0..TRIES_MAX {
            let mut options = File::options();
            let options = options
                .create(true)
                .truncate(false)
                .write(true)
                .mode(private::FILE);
            let file = options.open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(under_way(target)),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            if is_still(&path, &file) {
                // Content that an interrupted writer left behind.
                file.set_len(0).map_err(failed)?;
                return Ok(Self {
                    path,
                    target: target.to_owned(),
                    _lock: file,
                    is_published: false,
                });
            }
        }
        Err(under_way(target))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Copies the content of a file, but not its permissions.
    pub(crate) fn fill(&self, from: &Path) -> Result<()> {
        let mut to = File::options()
            .write(true)
            .open(&self.path)
            .map_err(failed)?;
        let mut from = File::open(from).map_err(failed)?;
        io::copy(&mut from, &mut to).map(drop).map_err(failed)
    }

    /// Syncs the file and renames it to its final name, replacing a file that has this name.
    pub(crate) fn publish(mut self) -> Result<()> {
        let renamed = File::open(&self.path).and_then(|file| file.sync_all());
        let renamed = renamed.and_then(|()| fs::rename(&self.path, &self.target));
        renamed.map_err(failed)?;
        self.is_published = true;
        let folder = File::open(folder_of(&self.target));
        folder.and_then(|dir| dir.sync_all()).map_err(failed)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the path still leads to the file that we locked.
fn is_still(path: &Path, file: &File) -> bool {
    let (there, ours) = (fs::metadata(path), file.metadata());
    matches!((there, ours), (Ok(there), Ok(ours))
        if there.ino() == ours.ino() && there.dev() == ours.dev())
}

fn under_way(target: &Path) -> Error {
    let message =
        "another process is writing a backup to this file or restoring it; wait until it has ended";
    Error::new(ErrorKind::Conflict, message).with("path", target.display())
}

/// The folder of a file.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// The path with a suffix appended to its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(crate) fn failed(error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull => ErrorKind::Full,
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Unavailable,
    };
    let message = format!("a file of the backup cannot be written or read: {error}");
    Error::new(kind, message).caused_by(error)
}
