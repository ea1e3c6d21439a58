//! The store as its own bus: what it hands out has begun in the same commit.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{
    BeginRequest, Bus, Delivery, Dequeue, Publication, Receipt, Write, Written,
};
use clinch_core::{AttemptId, OpId, Result};
use clinch_stored::receipts::{self, delivery};
use clinch_stored::wait_for;

use crate::{Memory, Tx};

impl Tx<'_> {
    fn take_due(&mut self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let mut deliveries = Vec::new();
        let mut tried = BTreeSet::new();
        let domains = dequeue.domains();
        loop {
            let left = &dequeue.attempts[tried.len().min(dequeue.attempts.len())..];
            let wanted = left.len().min(dequeue.max - deliveries.len());
            let line = self.tables.line(&domains, self.now);
            let line = line.map(|(_, _, _, op_id)| op_id);
            let line = line.filter(|op_id| !tried.contains(op_id));
            let routed = line.filter(|op| self.tables.has_route(*op, Some(&dequeue.only)));
            let ops: Vec<_> = routed.take(wanted).collect();
            if ops.is_empty() {
                return Ok(deliveries);
            }
            tried.extend(ops.iter().copied());
            // What may not be called is held or failed by its begin and needs no worker: the
            // next one takes its place.
            for (op_id, attempt) in ops.into_iter().zip(left) {
                deliveries.extend(self.deliver(op_id, *attempt, dequeue)?);
            }
        }
    }

    fn deliver(
        &mut self,
        op_id: OpId,
        attempt_id: AttemptId,
        dequeue: &Dequeue,
    ) -> Result<Option<Delivery>> {
        let request = BeginRequest {
            op_id,
            attempt_id,
            worker: dequeue.worker.clone(),
            lease: dequeue.visibility,
        };
        let begun = self.commit(&[Write::Begin(request)], &dequeue.routes)?;
        match begun.into_iter().next().map(Written::begun).transpose()? {
            Some(Ok(operation)) => Ok(Some(delivery(operation))),
            _ => Ok(None),
        }
    }
}

/// Store and bus are one: the queue row is the announcement.
#[async_trait]
impl Bus for Memory {
    async fn publish(&self, _publications: &[Publication]) -> Result<()> {
        Ok(())
    }

    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        *self.last_routes() = dequeue.routes.clone();
        let mut news = self.shared.news.watch();
        let until = self.clock().monotonic().saturating_add(dequeue.wait);
        let domains = dequeue.domains();
        loop {
            let seen = *news.borrow_and_update();
            let deliveries = self.write(|tx| tx.take_due(dequeue))?;
            let left = until.saturating_sub(self.clock().monotonic());
            if !deliveries.is_empty() || left.is_zero() {
                return Ok(deliveries);
            }
            let due = self.read(|tables, now| {
                let due = tables.first_due(&domains, Some(&dequeue.only))?;
                // Due already and still not taken: somebody else has it. Wait for news.
                (due > now).then(|| due.since(now))
            });
            let nap = due.map_or(left, |due| due.min(left));
            wait_for(&mut news, self.clock(), nap, |last| *last > seen).await;
        }
    }

    /// Settling ends a delivery; there is nothing to ack.
    async fn ack(&self, _receipts: &[Receipt]) -> Result<()> {
        Ok(())
    }

    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        let routes = self.last_routes().clone();
        receipts::nack(self, receipts, &routes).await
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        receipts::extend(self, receipts, visibility).await
    }
}
