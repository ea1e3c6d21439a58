//! Answers that the store did not take, kept in a file until it does.

use clinch_core::ports::{Answer, AnswerBody};
use clinch_core::{Error, ErrorKind, Result};

use crate::node::Node;
use crate::settle::may_help;

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
        Ok(())
    }

    pub(crate) async fn read_spill_if_any(&self) -> Result<()> {
        // The second reader finds what the first has left: neither goes on before.
        let _one_at_a_time = self.spill_lock.lock().await;
        if self.has_spilled() {
            self.read_spill().await?;
        }
        Ok(())
    }

    /// Offers every spilled answer to the store; returns how many it took. An Ok is a fact
    /// and needs no fence; a Fail is offered with its own and may be stale by now.
    pub(crate) async fn read_spill(&self) -> Result<usize> {
        if planted!(SpillUnread) {
            return Ok(0);
        }
        // Cleared first: what is spilled while this reads is read next time.
        self.set_spilled(false);
        let taken = self.offer_spilled().await;
        if taken.is_err() {
            self.set_spilled(true);
        }
        taken
    }

    async fn offer_spilled(&self) -> Result<usize> {
        let spilled = self.ports.spill.read().await?;
        if spilled.damaged > 0 {
            let message = format!("{} records of the spill file are damaged", spilled.damaged);
            self.alert("spill_damaged", &message, None).await;
        }
        let (damaged, last) = (spilled.damaged > 0, spilled.last);
        let mut taken = 0;
        let mut stuck = None;
        for (position, record) in spilled.records {
            if planted!(SpillForgottenFirst) {
                self.ports.spill.forget(position).await?;
            }
            match serde_json::from_slice::<Answer>(&record) {
                Ok(mut answer) => {
                    if matches!(answer.body, AnswerBody::Ok(_)) {
                        answer.fence = None;
                    }
                    let op_id = answer.op_id;
                    match self.groups.settle.call(answer).await {
                        Ok(Ok(changed)) => self.follow(op_id, &changed).await,
                        Ok(Err(refused)) => self.page_if_unknown(op_id, &refused).await,
                        Err(error) if may_help(&error) => return Err(error),
                        Err(error) => {
                            // It stays in the file, and so does what comes after it; that is
                            // offered all the same.
                            stuck = Some(error);
                            continue;
                        }
                    }
                    taken += 1;
                }
                Err(_) => {
                    let message = "a record of the spill file cannot be read; it was passed over";
                    self.alert("spill_damaged", message, None).await;
                }
            }
            if stuck.is_none() {
                self.ports.spill.forget(position).await?;
            }
        }
        if let Some(error) = stuck {
            let message = format!("the store refuses a spilled answer: {error}");
            self.alert("spill_stuck", &message, None).await;
            return Err(error);
        }
        if damaged {
            // Someone was paged; once is enough.
            self.ports.spill.forget(last).await?;
        }
        Ok(taken)
    }
}
