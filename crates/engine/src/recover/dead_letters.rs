//! Imports the dead-letter file into the store. Importing a letter twice has no further effect.

use clinch_core::ports::DeadLetter;
use clinch_core::{ErrorKind, Result, Status};

use super::Recoverer;

/// The result of importing the dead-letter file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ImportedLetters {
    /// Letters that the store did not have.
    pub new: usize,
    /// Letters that the store had, or whose operation has not failed.
    pub known: usize,
    /// Damaged letters. They stay in the file, with all letters after the first of them.
    pub unreadable: usize,
}

impl Recoverer {
    /// Imports the dead-letter file into the store.
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
            // A damaged letter stays in the file, with all letters after it. Importing those again
            // is harmless.
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

    /// False: the operation exists and is not FAILED.
    async fn is_still_dead(&self, letter: &DeadLetter) -> Result<bool> {
        let rows = self.ports.inspect.get(&[letter.op_id]).await?;
        let row = rows.into_iter().next().flatten();
        Ok(row.is_none_or(|row| row.state.status == Status::Failed))
    }

    /// True: the letter is new. `None`: the letter is damaged; the import continues with the
    /// others.
    async fn import_one(&self, letter: DeadLetter) -> Result<Option<bool>> {
        match self.ports.recovery.import(&[letter]).await {
            Ok(imported) => Ok(Some(imported.into_iter().any(|is_new| is_new))),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        }
    }
}
