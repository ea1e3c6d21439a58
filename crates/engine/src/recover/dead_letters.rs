//! The safety net of dead letters: the row, then a file, then a person.
//!
//! The row is written by the commit that fails the operation. When the store does not take
//! that commit, the letter goes to a checksummed file; when that fails too, someone is paged.
//! What is in the file can be read back into the store, once however often it is done.

use clinch_core::ports::DeadLetter;
use clinch_core::{Error, ErrorKind, Result, Status};

use crate::node::Node;

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

    /// Reads the file back into the store; returns how many letters were new there.
    pub(crate) async fn import_dead_letters(&self) -> Result<usize> {
        let filed = self.ports.dead_letter_file.read().await?;
        if filed.damaged > 0 {
            let message = format!("{} filed dead letters are damaged", filed.damaged);
            self.alert("dead_letter_damaged", &message, None).await;
        }
        let (damaged, last) = (filed.damaged > 0, filed.last);
        let mut new = 0;
        for (position, record) in filed.records {
            match serde_json::from_slice::<DeadLetter>(&record) {
                Ok(letter) => {
                    if self.is_still_dead(&letter).await? {
                        new += self.import_one(letter).await?;
                    }
                }
                Err(_) => {
                    let message = "a filed dead letter cannot be read; it was passed over";
                    self.alert("dead_letter_damaged", message, None).await;
                }
            }
            self.ports.dead_letter_file.forget(position).await?;
        }
        if damaged {
            // Someone was paged; once is enough.
            self.ports.dead_letter_file.forget(last).await?;
        }
        Ok(new)
    }

    /// False: the operation is there and did not fail after all, or not yet.
    async fn is_still_dead(&self, letter: &DeadLetter) -> Result<bool> {
        let rows = self.ports.inspect.get(&[letter.op_id]).await?;
        let row = rows.into_iter().next().flatten();
        Ok(row.is_none_or(|row| row.state.status == Status::Failed))
    }

    /// A letter that is damaged pages someone and is passed over; the others are not held up.
    async fn import_one(&self, letter: DeadLetter) -> Result<usize> {
        let op_id = letter.op_id;
        match self.ports.recovery.import(&[letter]).await {
            Ok(imported) => Ok(imported.into_iter().filter(|is_new| *is_new).count()),
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                let message = "a filed dead letter does not match its content hash";
                self.alert("dead_letter_damaged", message, Some(op_id))
                    .await;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }
}
