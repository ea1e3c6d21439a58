//! Writes answers that the store did not take to the spill file. `recover` reads them back.

use std::sync::atomic::{AtomicBool, Ordering};

use clinch_core::ports::{Answer, Level};
use clinch_core::{Error, ErrorKind, Result};

use super::Settler;

/// The state of this process's spill file.
pub(crate) struct Spill {
    /// The file may hold answers. True at first: an earlier process may have left some.
    has_answers: AtomicBool,
    /// One reader at a time.
    pub reader: tokio::sync::Mutex<()>,
}

impl Default for Spill {
    fn default() -> Self {
        Self {
            has_answers: AtomicBool::new(true),
            reader: tokio::sync::Mutex::default(),
        }
    }
}

impl Spill {
    pub(crate) fn has_answers(&self) -> bool {
        self.has_answers.load(Ordering::SeqCst)
    }

    pub(crate) fn set_has_answers(&self, has_answers: bool) {
        self.has_answers.store(has_answers, Ordering::SeqCst);
    }
}

impl Settler {
    /// Appends the answer to the spill file. It is durable when this returns `Ok`.
    pub(super) async fn spill(&self, answer: &Answer) -> Result<()> {
        let unwritable = |error: serde_json::Error| {
            Error::new(ErrorKind::Internal, "an answer cannot be written").caused_by(error)
        };
        let record = serde_json::to_vec(answer).map_err(unwritable)?;
        self.ports.spill.append(&[record]).await?;
        self.spill.set_has_answers(true);
        self.count("orchestrator.spill.count", None, 1);
        self.log_op(
            Level::Error,
            "an answer went to the spill file",
            answer.op_id,
        );
        Ok(())
    }
}
