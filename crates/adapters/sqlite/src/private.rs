//! Files that only their owner may open, whatever the umask is: they hold payloads, and a lock that
//! another user takes on one would stop the server.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use clinch_core::{Error, ErrorKind, Result};

use crate::partial::with_suffix;

/// Mode of files.
pub(crate) const FILE: u32 = 0o600;
/// Mode of folders.
const FOLDER: u32 = 0o700;

/// Creates the database file, or removes other users' permissions from it. SQLite copies its mode
/// to the log and the log's index; those that an earlier release created are changed here too.
pub(crate) fn database(path: &Path) -> Result<()> {
    let mut options = File::options();
    let made = options.write(true).create_new(true).mode(FILE).open(path);
    match made {
        // The umask can only remove permissions from this mode.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            for part in ["", "-wal", "-shm", "-journal"] {
                tighten(&with_suffix(path, part), FILE)?;
            }
            Ok(())
        }
        // SQLite reports this error when it opens the file.
        Err(_) => Ok(()),
    }
}

/// Creates the folder, or removes other users' permissions from it. A folder of another user is
/// refused: that user would control its content.
pub(crate) fn folder(path: &Path) -> Result<()> {
    match fs::DirBuilder::new().mode(FOLDER).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unusable(path).caused_by(error)),
    }
    let there = fs::symlink_metadata(path).map_err(|error| unusable(path).caused_by(error))?;
    if !there.is_dir() || !is_own(&there) {
        let message = "the .wake entry beside the database is not a folder of this user; \
                       remove it, or run as its owner";
        return Err(Error::new(ErrorKind::Unavailable, message).with("path", path.display()));
    }
    tighten(path, FOLDER)
}

fn unusable(path: &Path) -> Error {
    let message = "the folder of the database cannot be written; check that it exists and is not \
                   read-only";
    Error::new(ErrorKind::Unavailable, message).with("path", path.display())
}

/// Removes the permissions that `mode` does not allow, if the file exists and this user may change
/// it.
fn tighten(path: &Path, mode: u32) -> Result<()> {
    let Ok(there) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    let is_open = there.mode() & 0o777 & !mode != 0;
    if !is_open || there.is_symlink() || !is_own(&there) {
        return Ok(());
    }
    let changed = fs::set_permissions(path, Permissions::from_mode(there.mode() & mode));
    changed.map_err(|error| {
        let message = "other users may open a file of the database, and its mode cannot be changed";
        Error::new(ErrorKind::Unavailable, message)
            .with("path", path.display())
            .caused_by(error)
    })
}

/// Root may change files of every user.
fn is_own(there: &Metadata) -> bool {
    let own = rustix::process::geteuid();
    own.is_root() || there.uid() == own.as_raw()
}
