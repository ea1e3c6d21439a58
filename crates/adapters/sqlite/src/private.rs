//! Files that only their owner may open, whatever the umask says: payloads are in them, and a
//! lock that another user holds on one would stop the server.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use clinch_core::{Error, ErrorKind, Result};

use crate::partial::beside;

/// Of files.
pub(crate) const FILE: u32 = 0o600;
/// Of folders.
const FOLDER: u32 = 0o700;

/// Makes the database's file, or takes what others may do with it away. Its log and the index
/// of that get their modes from it; those of an earlier release are changed with it.
pub(crate) fn database(path: &Path) -> Result<()> {
    let mut options = File::options();
    let made = options.write(true).create_new(true).mode(FILE).open(path);
    match made {
        // The mode above passed through the umask: nothing was added.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            for part in ["", "-wal", "-shm", "-journal"] {
                tighten(&beside(path, part), FILE)?;
            }
            Ok(())
        }
        // SQLite says what is wrong, in the words that are known from it.
        Err(_) => Ok(()),
    }
}

/// Makes the folder, or takes what others may do with it away. One that belongs to another user
/// is refused: that user decides what is in it.
pub(crate) fn folder(path: &Path) -> Result<()> {
    match fs::DirBuilder::new().mode(FOLDER).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unusable(path).caused_by(error)),
    }
    let there = fs::symlink_metadata(path).map_err(|error| unusable(path).caused_by(error))?;
    if !there.is_dir() || !is_own(&there) {
        let message = "what wakes the processes on this database is no folder of this user; \
                       remove it, or run as the user that it belongs to";
        return Err(Error::new(ErrorKind::Unavailable, message).with("path", path.display()));
    }
    tighten(path, FOLDER)
}

fn unusable(path: &Path) -> Error {
    let message = "the folder of the database cannot be written; check that it exists and is not \
                   read-only";
    Error::new(ErrorKind::Unavailable, message).with("path", path.display())
}

/// Takes away what `mode` does not allow, if there is such a file and it is ours to change.
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
        let message = "a file of the database is open to other users, and that cannot be changed";
        Error::new(ErrorKind::Unavailable, message)
            .with("path", path.display())
            .caused_by(error)
    })
}

/// An administrator may change what belongs to anyone.
fn is_own(there: &Metadata) -> bool {
    let own = rustix::process::geteuid();
    own.is_root() || there.uid() == own.as_raw()
}
