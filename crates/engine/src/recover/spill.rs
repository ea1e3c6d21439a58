//! Reads the spill file back: the store takes each answer, or an operator is alerted.

use clinch_core::ports::{Answer, AnswerBody, Tags};
use clinch_core::{Error, Result};

use super::Recoverer;
use crate::group::may_help;

/// Why answers stay in the spill file.
pub(crate) enum Unread {
    /// The file cannot be read.
    File(Error),
    /// The store did not take them, and may take them next time.
    Store(Error),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::File(error) | Unread::Store(error) => error,
        }
    }
}

impl Recoverer {
    pub(crate) async fn read_spill_if_any(&self) -> Result<(), Unread> {
        // One reader at a time, so that the Reaper does not continue before another reader has
        // finished the file.
        let _one_at_a_time = self.spill.reader.lock().await;
        if self.spill.has_answers() {
            self.read_spill().await?;
        }
        Ok(())
    }

    /// Offers every spilled answer to the store, and returns how many it took. An Ok is a fact and
    /// needs no fence. A Fail is offered with its own fence and may be stale by now.
    async fn read_spill(&self) -> Result<usize, Unread> {
        // Cleared before reading: an answer that is spilled meanwhile is read next time.
        self.spill.set_has_answers(false);
        let offered = self.offer_spilled().await;
        if !matches!(offered, Ok((_, false))) {
            self.spill.set_has_answers(true);
        }
        offered.map(|(taken, _)| taken)
    }

    /// Returns how many answers the store took, and whether some are left. A record that cannot be
    /// read, or that the store will never take, stays in the file for an operator, and so do all
    /// records after it. The later records are offered to the store nevertheless.
    async fn offer_spilled(&self) -> Result<(usize, bool), Unread> {
        let spilled = self.ports.spill.read().await.map_err(Unread::File)?;
        let mut taken = 0;
        let mut stuck = 0;
        for (position, record) in spilled.records {
            if self.offer(&record).await.map_err(Unread::Store)? {
                taken += 1;
            } else {
                stuck += 1;
            }
            if stuck == 0 {
                self.forget_spilled(position).await?;
            }
        }
        let lost = stuck + spilled.damaged;
        if lost > 0 && self.is_first_page_about_the_spill() {
            let message = format!(
                "{lost} answers in the spill file cannot be read or are refused by the store; \
                 keep the file and look at it"
            );
            self.alert("spill_stuck", &message, None).await;
        }
        Ok((taken, stuck > 0))
    }

    async fn forget_spilled(&self, position: u64) -> Result<(), Unread> {
        let forgotten = self.ports.spill.forget(position).await;
        forgotten.map_err(Unread::File)
    }

    /// False: the store will never take this record.
    async fn offer(&self, record: &[u8]) -> Result<bool> {
        let Ok(mut answer) = serde_json::from_slice::<Answer>(record) else {
            return Ok(false);
        };
        if matches!(answer.body, AnswerBody::Ok(_)) {
            answer.fence = None;
        }
        let op_id = answer.op_id;
        match self.commits.settle(answer).await {
            Ok(Ok(changed)) => self.follow(&Tags::of(op_id), &changed).await,
            Ok(Err(refused)) => self.page_if_unknown(op_id, &refused).await,
            Err(error) if may_help(&error) => return Err(error),
            Err(_) => return Ok(false),
        }
        Ok(true)
    }
}
