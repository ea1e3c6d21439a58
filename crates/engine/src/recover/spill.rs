//! Answers that the store did not take, kept in a file until it does.

use clinch_core::ports::{Answer, AnswerBody};
use clinch_core::{Error, ErrorKind, Result};

use crate::node::Node;

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
                    let settled = self.groups.settle.call(answer).await?;
                    if let Ok(changed) = settled {
                        self.follow(op_id, &changed).await;
                    }
                    taken += 1;
                }
                Err(_) => {
                    let message = "a record of the spill file cannot be read; it was passed over";
                    self.alert("spill_damaged", message, None).await;
                }
            }
            self.ports.spill.forget(position).await?;
        }
        if damaged {
            // Someone was paged; once is enough.
            self.ports.spill.forget(last).await?;
        }
        Ok(taken)
    }
}
