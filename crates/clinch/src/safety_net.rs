//! What stands in for files and a pager that nobody configured.

use async_trait::async_trait;
use clinch_core::ports::{Alert, AlertNote, Journal, JournalRecords};
use clinch_core::{Error, ErrorKind, Result};

/// No file: nothing can be put there, so an answer stays with the process that has it.
pub(crate) struct NoFile;

#[async_trait]
impl Journal for NoFile {
    async fn append(&self, _records: &[Vec<u8>]) -> Result<()> {
        let message = "no file is configured for what the store does not take";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    async fn read(&self) -> Result<JournalRecords> {
        Ok(JournalRecords::default())
    }

    async fn forget(&self, _through: u64) -> Result<()> {
        Ok(())
    }
}

/// The engine logs every alert as an error; there is no other pager.
pub(crate) struct OnlyLogged;

#[async_trait]
impl Alert for OnlyLogged {
    async fn raise(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}
