//! Substitutes for files and an alert port that are not configured.

use async_trait::async_trait;
use clinch_core::ports::{Alert, AlertNote, Journal, JournalRecords};
use clinch_core::{Error, ErrorKind, Result};

/// No file: every append fails, so an answer stays in the memory of its process.
pub(crate) struct NoFile;

#[async_trait]
impl Journal for NoFile {
    async fn append(&self, _records: &[Vec<u8>]) -> Result<()> {
        let message = "no file is configured for answers that the store does not take";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    async fn read(&self) -> Result<JournalRecords> {
        Ok(JournalRecords::default())
    }

    async fn forget(&self, _through: u64) -> Result<()> {
        Ok(())
    }
}

/// No alert port: the engine logs every alert as an error anyway.
pub(crate) struct OnlyLogged;

#[async_trait]
impl Alert for OnlyLogged {
    async fn raise(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}
