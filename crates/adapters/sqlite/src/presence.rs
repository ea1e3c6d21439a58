//! Which processes on this file are alive.
//!
//! Each process has a file in the folder beside the database, named by its [`ProcessId`], and keeps
//! it locked. The kernel releases the lock when the process dies, however it dies. So a file that
//! can be locked belongs to a process that has died; it stays until the rows of that process are
//! continued.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clinch_core::{Error, ErrorKind, ProcessId, Result};

use crate::private;

/// The end of the name of a process's file.
const SUFFIX: &str = ".process";

/// The processes that use the file through this store, each with its locked file.
#[derive(Default)]
pub(crate) struct OwnProcesses(Mutex<BTreeMap<ProcessId, File>>);

impl OwnProcesses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ProcessId, File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates and locks the process's file, unless it is there; the processes that have died.
    pub(crate) fn check_in(&self, dir: &Path, process: ProcessId) -> Result<Vec<ProcessId>> {
        let unusable = |error: io::Error| {
            let message = "the folder beside the database cannot be used; \
                           check that it exists and can be written";
            Error::new(ErrorKind::Unavailable, message)
                .with("path", dir.display())
                .caused_by(error)
        };
        let mut own = self.lock();
        if !own.contains_key(&process) || !path_of(dir, process).exists() {
            let file = create_locked(dir, process).map_err(unusable)?;
            own.insert(process, file);
        }
        let mut dead = Vec::new();
        for entry in fs::read_dir(dir).map_err(unusable)? {
            let name = entry.map_err(unusable)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            let Some(other) = name.and_then(|name| name.parse::<ProcessId>().ok()) else {
                continue;
            };
            if !own.contains_key(&other) && has_died(&path_of(dir, other)) {
                dead.push(other);
            }
        }
        Ok(dead)
    }

    /// Removes the process's file.
    pub(crate) fn check_out(&self, dir: &Path, process: ProcessId) {
        self.lock().remove(&process);
        // Whoever finds the file again checks it out again.
        let _ = fs::remove_file(path_of(dir, process));
    }
}

fn path_of(dir: &Path, process: ProcessId) -> PathBuf {
    dir.join(format!("{process}{SUFFIX}"))
}

/// The file gets its name after it is locked: nobody finds it without its lock.
fn create_locked(dir: &Path, process: ProcessId) -> io::Result<File> {
    let unnamed = dir.join(format!("{process}.new"));
    let mut options = File::options();
    let options = options.create(true).append(true).mode(private::FILE);
    let file = options.open(&unnamed)?;
    file.try_lock()?;
    fs::rename(&unnamed, path_of(dir, process))?;
    Ok(file)
}

/// A file that cannot be opened says nothing.
fn has_died(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_its_lock_belongs_to_a_process_that_died() {
        let dir = std::env::temp_dir().join(format!("clinch-presence-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        let [one, two] = [1, 2].map(ProcessId::from_bits);
        let (ours, theirs) = (OwnProcesses::default(), OwnProcesses::default());
        assert_eq!(ours.check_in(&dir, one).expect("here"), []);
        assert_eq!(theirs.check_in(&dir, two).expect("here"), []);
        fs::write(dir.join("0123.process"), "no name of ours").expect("a file");
        drop(theirs);
        assert_eq!(ours.check_in(&dir, one).expect("here"), [two]);
        assert_eq!(ours.check_in(&dir, one).expect("still"), [two]);
        ours.check_out(&dir, two);
        assert_eq!(ours.check_in(&dir, one).expect("gone"), []);
        // Somebody tidied the folder: the file is made again.
        fs::remove_file(path_of(&dir, one)).expect("our file");
        ours.check_in(&dir, one).expect("made again");
        drop(ours);
        let next = OwnProcesses::default();
        assert_eq!(next.check_in(&dir, two).expect("here"), [one]);
        fs::remove_dir_all(&dir).expect("the folder");
    }
}
