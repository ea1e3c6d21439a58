//! A journal in one file.
//!
//! It is the last resort for data that the store does not take, so it trusts nothing:
//!
//! - A call that returned `Ok` is on the disk, even if the power fails right after.
//! - Only written data is read: every record has a checksum over its head and its bytes.
//! - A torn tail is cut off on open. Damage elsewhere affects only the damaged records; they are
//!   counted until they are forgotten.
//! - Forgetting writes one number and moves no records, so reading a long journal back record by
//!   record stays cheap. Space is freed when all records are forgotten, or most of a long file.
//! - Positions grow for as long as the file exists, even while it is empty.
//!
//! Only one process at a time may use the file: `<path>.lock` next to it says which, and stays
//! there. `<path>.new` exists only for moments.

mod disk;
mod format;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use clinch_core::ports::{Journal, JournalRecords};
use clinch_core::{Error, ErrorKind, Result};
use tokio::sync::Mutex;

use disk::Disk;

pub use format::RECORD_BYTES_MAX;

/// A journal in one file that only its owner can read. Cheap to clone.
///
/// Calls run on tokio's threads for blocking tasks, one at a time and in order. If the caller goes
/// away, its call is completed nevertheless.
#[derive(Debug, Clone)]
pub struct FileJournal {
    disk: Arc<Mutex<Disk>>,
}

impl FileJournal {
    /// Opens the file, or creates it. Its folder must exist.
    ///
    /// - A file that another process has open is refused: `Conflict`.
    /// - A file that is not a journal is refused and left unchanged: `Corrupt`.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        let disk = blocking(move || Disk::open(path)).await?;
        Ok(Self {
            disk: Arc::new(Mutex::new(disk)),
        })
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Disk) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut disk = self.disk.clone().lock_owned().await;
        blocking(move || work(&mut disk)).await
    }
}

#[async_trait]
impl Journal for FileJournal {
    async fn append(&self, records: &[Vec<u8>]) -> Result<()> {
        let records = records.to_vec();
        self.run(move |disk| disk.append(&records)).await
    }

    async fn read(&self) -> Result<JournalRecords> {
        self.run(|disk| disk.read()).await
    }

    async fn forget(&self, through: u64) -> Result<()> {
        self.run(move |disk| disk.forget(through)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|lost| {
        Err(if lost.is_cancelled() {
            Error::new(ErrorKind::Unavailable, "the process is shutting down")
        } else {
            Error::new(ErrorKind::Internal, "the journal panicked")
        })
    })
}
