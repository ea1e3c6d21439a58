//! The safety net of dead letters: first the row, then a file, then an alert.
//!
//! The commit that fails the operation also writes the dead letter. If the store does not take that
//! commit, the letter goes to a checksummed file. If the file fails too, an operator is alerted.
//! `recover` imports the file into the store.

use clinch_core::ports::DeadLetter;
use clinch_core::{Error, ErrorKind};

use super::Settler;

impl Settler {
    /// Writes the letter to the file; alerts an operator if that fails.
    pub(super) async fn file_dead_letter(&self, letter: &DeadLetter) {
        let record = serde_json::to_vec(letter);
        let filed = match record {
            Ok(record) => self.ports.dead_letter_file.append(&[record]).await,
            Err(error) => Err(Error::new(ErrorKind::Internal, error.to_string())),
        };
        self.count("orchestrator.dlq.file.count", Some(&letter.keys.domain), 1);
        if filed.is_err() {
            let message = "a dead letter can be stored nowhere: store and file both fail";
            self.alert("dead_letter_at_risk", message, Some(letter.op_id))
                .await;
        }
    }
}
