//! The store as its own bus: a delivered operation has begun in the same commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{BeginRequest, Bus, Delivery, Dequeue, Publication, Receipt, Write};
use clinch_core::{LaneKey, Result};
use clinch_stored::commit::{Seen, Unit};
use clinch_stored::receipts::{self, delivery};
use clinch_stored::wait_for;

use crate::Mysql;
use crate::column::Column;
use crate::query::Query;
use crate::streams::{Columns, Stream};
use crate::text;
use crate::tx::Tx;

impl Tx<'_> {
    /// Deliveries; if there are none, how long until there may be one. A due row that was not
    /// delivered is not for this worker; only a notice can change that.
    async fn take_due_or_wait(
        &mut self,
        dequeue: &Dequeue,
    ) -> Result<(Vec<Delivery>, Option<Duration>)> {
        let domains = dequeue.domains();
        let streams = self.open_streams(|domain, event_type| {
            let asked = domains.contains(domain);
            asked && dequeue.only.find(domain, event_type).is_some()
        });
        let streams = streams.await?;
        let deliveries = self.take_due(dequeue, &streams).await?;
        if !deliveries.is_empty() || dequeue.wait.is_zero() {
            return Ok((deliveries, None));
        }
        self.flush().await?;
        let first = self.first_due(&streams).await?;
        let later = first.filter(|due| *due > self.now);
        Ok((deliveries, later.map(|due| due.since(self.now))))
    }

    /// Begins due rows. The begin of an operation that must not be called holds or fails it; such a
    /// row needs no worker, so the next row takes its place.
    async fn take_due(&mut self, dequeue: &Dequeue, streams: &[Stream]) -> Result<Vec<Delivery>> {
        self.may_commit = false;
        let mut deliveries = Vec::new();
        let mut tried: Vec<u64> = Vec::new();
        let mut passed: Vec<u64> = Vec::new();
        loop {
            let left = &dequeue.attempts[tried.len().min(dequeue.attempts.len())..];
            let wanted = left.len().min(dequeue.max - deliveries.len());
            if wanted == 0 {
                return Ok(deliveries);
            }
            // Sends the begins of the last round, so that the rows after them can be found.
            self.flush().await?;
            let not: Vec<u64> = tried.iter().chain(&passed).copied().collect();
            let rows = self.lock_due(streams, Columns::Whole, &not, wanted);
            let rows = rows.await?;
            if rows.is_empty() {
                return Ok(deliveries);
            }
            let lanes = rows.iter().filter_map(|(row, _)| row.lane);
            let lanes = self.lock_free_lanes(lanes.collect()).await?;
            let (mut begins, mut seen) = (Vec::new(), Seen::default());
            let mut attempts = left.iter();
            for (row, _) in rows {
                // A transaction that holds the lane may be waiting for this row to end it: skip the
                // row.
                if row.lane.is_some_and(|lane| !lanes.contains(&lane)) {
                    passed.push(row.seq);
                    continue;
                }
                let Some(attempt_id) = attempts.next() else {
                    break;
                };
                tried.push(row.seq);
                begins.push(Write::Begin(BeginRequest {
                    op_id: row.op_id,
                    attempt_id: *attempt_id,
                    worker: dequeue.worker.clone(),
                    lease: dequeue.visibility,
                }));
                seen.not_paused(row.domain.clone());
                seen.row(row);
            }
            let unit = Unit::with(&begins, &dequeue.routes, seen);
            for begun in self.perform(unit).await? {
                deliveries.extend(begun.begun()?.ok().map(delivery));
            }
        }
    }

    /// Locks the lanes that no other transaction has locked.
    async fn lock_free_lanes(&mut self, lanes: BTreeSet<LaneKey>) -> Result<BTreeSet<LaneKey>> {
        let mut locked = BTreeSet::new();
        if lanes.is_empty() {
            return Ok(locked);
        }
        let names = text::list(lanes.iter().map(|lane| lane.as_bytes()));
        let sql = Query::SkipLanes.with(&[("lanes", &names)]);
        for row in self.query(&sql).await? {
            locked.extend(row.maybe_lane(0)?);
        }
        Ok(locked)
    }
}

/// Store and bus are one: the queue row is the announcement.
#[async_trait]
impl Bus for Mysql {
    async fn publish(&self, _publications: &[Publication]) -> Result<()> {
        Ok(())
    }

    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let dequeue = Arc::new(dequeue.clone());
        *self.last_routes() = dequeue.routes.clone();
        let mut news = self.news().watch();
        let until = self.clock().monotonic().saturating_add(dequeue.wait);
        loop {
            let seen = *news.borrow_and_update();
            let asked_at = self.clock().monotonic();
            let taken = self.write(dequeue.clone(), |tx, dequeue| {
                Box::pin(tx.take_due_or_wait(dequeue))
            });
            let (deliveries, due_in) = taken.await?;
            let left = until.saturating_sub(self.clock().monotonic());
            if !deliveries.is_empty() || left.is_zero() {
                return Ok(deliveries);
            }
            // `due_in` counts from the time of the query; time may have passed since. There are no
            // notices of other processes' commits, so the wait ends with the fallback poll.
            let due_in = due_in.map_or(self.fallback(), |due_in| due_in.min(self.fallback()));
            let due_at = asked_at.saturating_add(due_in).min(until);
            let nap = due_at.saturating_sub(self.clock().monotonic());
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
