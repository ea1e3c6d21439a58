//! The safety net of dead letters: the row, then a file, then a person.
//!
//! The row is written by the commit that fails the operation. When the store does not take
//! that commit, the letter goes to a checksummed file; when that fails too, someone is paged.
//! What is in the file can be read back into the store, once however often it is done.

use clinch_core::ports::DeadLetter;
use clinch_core::{Error, ErrorKind, Result, Status};

use crate::node::Node;

/// What came of reading filed dead letters back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportedLetters {
    /// The store did not have them.
    pub new: usize,
    /// It had them, or their operation did not fail after all.
    pub known: usize,
    /// They are damaged. They stay in the file, with all that is behind the first of them.
    pub unreadable: usize,
}

impl Node {
    /// Levels two and three.
    pub(crate) async fn file_dead_letter(&self, letter: &DeadLetter) {
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

    /// Reads the file back into the store.
    pub(crate) async fn import_dead_letters(&self) -> Result<ImportedLetters> {
        let filed = self.ports.dead_letter_file.read().await?;
        let mut imported = ImportedLetters::default();
        let mut stuck = 0;
        for (position, record) in filed.records {
            match serde_json::from_slice::<DeadLetter>(&record) {
                Ok(letter) if self.is_still_dead(&letter).await? => {
                    match self.import_one(letter).await? {
                        Some(true) => imported.new += 1,
                        Some(false) => imported.known += 1,
                        None => stuck += 1,
                    }
                }
                Ok(_) => imported.known += 1,
                Err(_) => stuck += 1,
            }
            // What is stuck stays, with all behind it; importing twice is importing once.
            if stuck == 0 {
                self.ports.dead_letter_file.forget(position).await?;
            }
        }
        imported.unreadable = stuck + filed.damaged;
        if imported.unreadable > 0 {
            let lost = imported.unreadable;
            let message = format!("{lost} filed dead letters are damaged; keep the file");
            self.alert("dead_letter_damaged", &message, None).await;
        }
        Ok(imported)
    }

    /// False: the operation is there and did not fail after all, or not yet.
    async fn is_still_dead(&self, letter: &DeadLetter) -> Result<bool> {
        let rows = self.ports.inspect.get(&[letter.op_id]).await?;
        let row = rows.into_iter().next().flatten();
        Ok(row.is_none_or(|row| row.state.status == Status::Failed))
    }

    /// Whether it is new; `None`: the letter is damaged. The others are not held up by it.
    async fn import_one(&self, letter: DeadLetter) -> Result<Option<bool>> {
        match self.ports.recovery.import(&[letter]).await {
            Ok(imported) => Ok(Some(imported.into_iter().any(|is_new| is_new))),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        }
    }
}
