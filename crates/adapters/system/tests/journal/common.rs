//! A folder that goes away, and a runtime to wait on.

use std::path::{Path, PathBuf};

use clinch_core::ports::{Ids, Journal};
use clinch_core::{ErrorKind, Result};
use clinch_system::{FileJournal, SystemIds};

pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let name = format!("clinch-system-{}", SystemIds.attempt_id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.0.join("spill.journal")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A journal for tests that do not wait.
pub(crate) struct Opened {
    journal: Option<FileJournal>,
    runtime: tokio::runtime::Runtime,
}

impl Opened {
    pub(crate) fn try_open(path: &Path) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        let journal = Some(runtime.block_on(FileJournal::open(path))?);
        Ok(Self { journal, runtime })
    }

    pub(crate) fn at(path: &Path) -> Self {
        Self::try_open(path).expect("opens")
    }

    fn journal(&self) -> &FileJournal {
        self.journal.as_ref().expect("open")
    }

    /// Closes it and opens it again.
    pub(crate) fn reopen(&mut self, path: &Path) {
        self.journal = None;
        self.journal = Some(
            self.runtime
                .block_on(FileJournal::open(path))
                .expect("opens"),
        );
    }

    pub(crate) fn append(&self, records: &[&[u8]]) {
        self.try_append(records).expect("takes it");
    }

    pub(crate) fn try_append(&self, records: &[&[u8]]) -> Result<(), ErrorKind> {
        let records: Vec<_> = records.iter().map(|record| record.to_vec()).collect();
        let appended = self.runtime.block_on(self.journal().append(&records));
        appended.map_err(|error| error.kind())
    }

    pub(crate) fn forget(&self, through: u64) {
        let forgotten = self.runtime.block_on(self.journal().forget(through));
        forgotten.expect("forgets");
    }

    /// Positions and bytes, and how many are damaged.
    pub(crate) fn read(&self) -> (Vec<(u64, Vec<u8>)>, usize) {
        let read = self.runtime.block_on(self.journal().read());
        let read = read.expect("reads");
        (read.records, read.damaged)
    }

    pub(crate) fn positions(&self) -> (Vec<u64>, usize) {
        let (records, damaged) = self.read();
        let positions = records.into_iter().map(|(position, _)| position);
        (positions.collect(), damaged)
    }
}
