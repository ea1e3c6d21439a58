//! The last resorts: a local file for answers that the store did not take, and alerts.

use async_trait::async_trait;

use crate::{OpId, Result};

/// A small append-only file next to the process: for answers that the store did not take, and for
/// dead letters.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Appends records.
    ///
    /// - Durable when it returns `Ok`; after an `Err`, a torn tail is never read as a record.
    async fn append(&self, records: &[Vec<u8>]) -> Result<()>;

    /// Every intact record, in order, also after a crash.
    ///
    /// - Damaged records are skipped and counted.
    async fn read(&self) -> Result<JournalRecords>;

    /// Forgets records up to and including `through`.
    ///
    /// - Forgetting twice has no further effect; later records stay.
    async fn forget(&self, through: u64) -> Result<()>;
}

/// The content of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalRecords {
    /// Position and bytes of each intact record.
    pub records: Vec<(u64, Vec<u8>)>,
    /// Records that do not match their checksum.
    pub damaged: usize,
}

/// Alerts an operator. The last level of the safety net.
#[async_trait]
pub trait Alert: Send + Sync {
    /// Sends one alert.
    ///
    /// - Contains no payload and no key.
    async fn raise(&self, note: &AlertNote) -> Result<()>;

    /// Reports a dead letter. One alert for each of them would be too many, so a port that does not
    /// coalesce them ignores them: the default.
    async fn dead_letter(&self, _note: &AlertNote) -> Result<()> {
        Ok(())
    }
}

/// The content of an alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertNote {
    /// How urgent it is.
    pub severity: Severity,
    /// Stable code for programs, such as `late_ok`.
    pub code: &'static str,
    /// What happened and what to do.
    pub message: String,
    /// The operation that the alert is about, if any.
    pub op_id: Option<OpId>,
    /// The domain of the operation, if it is known.
    pub domain: Option<String>,
    /// The code of the operation's failure, if it is safe to show.
    pub failure_code: Option<String>,
    /// How many times it happened.
    pub count: u64,
}

impl AlertNote {
    /// An alert about one event.
    pub fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            message: message.into(),
            op_id: None,
            domain: None,
            failure_code: None,
            count: 1,
        }
    }

    /// Names the operation.
    #[must_use]
    pub fn about(mut self, op_id: Option<OpId>) -> Self {
        self.op_id = op_id;
        self
    }
}

/// How urgent an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Look at it today.
    Warning,
    /// Look at it now.
    Critical,
}
