//! Small records of an application, on the store that its operations live on.

use async_trait::async_trait;

use crate::Result;

/// Longest key of a record, in bytes.
pub const RECORD_KEY_BYTES_MAX: usize = 255;

/// Longest body of a record, in bytes.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// Most records that one call takes or gives.
pub const RECORDS_MAX: usize = 1_000;

/// Records by key, each with a version: what an application knows besides its operations.
/// Every change is a compare-and-set.
#[async_trait]
pub trait Records: Send + Sync {
    /// Reads records, in order; `None` where there is none.
    ///
    /// - Sees every commit that returned before the call.
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>>;

    /// Writes and removes records in one commit. False: one of them was not as expected, and
    /// nothing is changed.
    ///
    /// - Of concurrent writers that expect the same version of a record one succeeds.
    /// - A record that is written has a higher version than it had before; a new one begins
    ///   at 1.
    /// - A key that is named twice, an empty or over-long key, an over-long body and more
    ///   than [`RECORDS_MAX`] writes are refused as `Invalid`.
    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool>;

    /// One page of the records whose keys begin with `prefix`.
    ///
    /// - In the order of their keys (of their UTF-8 bytes), or against it.
    /// - Only those after `after` in that order; at most `limit`, at most [`RECORDS_MAX`];
    ///   fewer means that there are no more.
    /// - `%` and `_` in a prefix are themselves.
    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>>;
}

/// A record as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: String,
    /// Grows with every write.
    pub version: u64,
    /// Its text.
    pub body: String,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordWrite {
    /// Of this record.
    pub key: String,
    /// As it must be found.
    pub expected: Expected,
    /// What it becomes; `None`: it goes.
    pub body: Option<String>,
}

/// How a record must be found for a change to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// There is none.
    Absent,
    /// It has this version.
    Version(u64),
    /// However it is.
    Anything,
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordList {
    /// Keys begin with it.
    pub prefix: String,
    /// Against the order of keys.
    pub descending: bool,
    /// Go on after this key.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}
