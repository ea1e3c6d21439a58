//! The job that everybody runs.

use serde::{Deserialize, Serialize};

/// A no-op with about 100 bytes of payload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Different for every job of a round.
    pub number: u64,
    /// Always the same.
    pub amount: u64,
    /// Always the same.
    pub note: String,
}

impl Job {
    /// The job of this number.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            amount: 5_000,
            note: "0123456789 0123456789 0123456789 0123456789 01234".to_owned(),
        }
    }

    /// The payload as JSON.
    pub fn json(&self) -> String {
        let Self {
            number,
            amount,
            note,
        } = self;
        format!(r#"{{"number":{number},"amount":{amount},"note":"{note}"}}"#)
    }

    /// The result that the job returns, where the system stores results.
    pub fn result() -> &'static str {
        r#"{"ok":true}"#
    }
}
