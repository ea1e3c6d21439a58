//! Answers that the store did not take, kept in a file until it does.

use clinch_core::ports::{Answer, AnswerBody, Level};
use clinch_core::{Error, ErrorKind, Result};

use crate::node::Node;
use crate::settle::may_help;

/// Why answers are left in the spill file.
pub(crate) enum Unread {
    /// The file cannot be read.
    File(Error),
    /// The store did not take them, and may the next time.
    Store(Error),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::File(error) | Unread::Store(error) => error,
        }
    }
}

impl Node {
    /// Durable when it returns `Ok`.
    pub(crate) async fn spill(&self, answer: &Answer) -> Result<()> {
        let unwritable = |error: serde_json::Error| {
            Error::new(ErrorKind::Internal, "an answer cannot be written").caused_by(error)
        };
        let record = serde_json::to_vec(answer).map_err(unwritable)?;
        self.ports.spill.append(&[record]).await?;
        self.set_spilled(true);
        self.count("orchestrator.spill.count", None, 1);
        self.log_op(
            Level::Error,
            "an answer went to the spill file",
            answer.op_id,
        );
        Ok(())
    }

    pub(crate) async fn read_spill_if_any(&self) -> Result<(), Unread> {
        // The second reader finds what the first has left: neither goes on before.
        let _one_at_a_time = self.spill_lock.lock().await;
        if self.has_spilled() {
            self.read_spill().await?;
        }
        Ok(())
    }

    /// Offers every spilled answer to the store; returns how many it took. An Ok is a fact
    /// and needs no fence; a Fail is offered with its own and may be stale by now.
    async fn read_spill(&self) -> Result<usize, Unread> {
        if planted!(SpillUnread) {
            return Ok(0);
        }
        // Cleared first: what is spilled while this reads is read next time.
        self.set_spilled(false);
        let offered = self.offer_spilled().await;
        if !matches!(offered, Ok((_, false))) {
            self.set_spilled(true);
        }
        offered.map(|(taken, _)| taken)
    }

    /// How many the store took, and whether some are left. A record that cannot be read, or
    /// that the store will never take, stays in the file for a person, and so does what comes
    /// after it; that is offered all the same.
    async fn offer_spilled(&self) -> Result<(usize, bool), Unread> {
        let spilled = self.ports.spill.read().await.map_err(Unread::File)?;
        let mut taken = 0;
        let mut stuck = 0;
        for (position, record) in spilled.records {
            if planted!(SpillForgottenFirst) {
                self.forget_spilled(position).await?;
            }
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

    /// False: it will never be taken as it is.
    async fn offer(&self, record: &[u8]) -> Result<bool> {
        let Ok(mut answer) = serde_json::from_slice::<Answer>(record) else {
            return Ok(false);
        };
        if matches!(answer.body, AnswerBody::Ok(_)) {
            answer.fence = None;
        }
        let op_id = answer.op_id;
        match self.groups.settle.call(answer).await {
            Ok(Ok(changed)) => self.follow(op_id, &changed).await,
            Ok(Err(refused)) => self.page_if_unknown(op_id, &refused).await,
            Err(error) if may_help(&error) => return Err(error),
            Err(_) => return Ok(false),
        }
        Ok(true)
    }
}
