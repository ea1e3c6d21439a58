//! The store as its own bus: what it hands out has begun in the same commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{BeginRequest, Bus, Delivery, Dequeue, Publication, Receipt};
use clinch_core::{LaneKey, Result};
use clinch_stored::receipts::{delivery, extensions, nacks};
use clinch_stored::wait_for;

use crate::Mysql;
use crate::line::{Columns, Stream, first_free};
use crate::link::Script;
use crate::request::Request;
use crate::tx::{Loaded, Tx};

impl Tx<'_> {
    async fn streams_for(&mut self, dequeue: &Dequeue) -> Result<Vec<Stream>> {
        let domains = dequeue.domains();
        self.open_streams(|domain, event_type| {
            let asked = domains.contains(domain);
            asked && dequeue.only.find(domain, event_type).is_some()
        })
        .await
    }

    /// Deliveries; if there are none, how long until there may be one. A row that is due and
    /// was not taken is not for this worker, and only news can change that.
    async fn take_due_or_wait(
        &mut self,
        dequeue: &Dequeue,
    ) -> Result<(Vec<Delivery>, Option<Duration>)> {
        let (deliveries, streams) = self.take_due(dequeue).await?;
        if !deliveries.is_empty() || dequeue.wait.is_zero() {
            return Ok((deliveries, None));
        }
        let mut script = Script::default();
        for stream in &streams {
            script.add(&stream.first());
        }
        let mut first = None;
        for answer in self.run(script).await? {
            let free = first_free(&answer.rows)?;
            first = [first, free].into_iter().flatten().min();
        }
        let later = first.filter(|due| *due > self.now);
        Ok((deliveries, later.map(|due| due.since(self.now))))
    }

    async fn take_due(&mut self, dequeue: &Dequeue) -> Result<(Vec<Delivery>, Vec<Stream>)> {
        let mut deliveries = Vec::new();
        let mut tried: Vec<u64> = Vec::new();
        let mut passed: Vec<u64> = Vec::new();
        loop {
            let left = &dequeue.attempts[tried.len().min(dequeue.attempts.len())..];
            let wanted = left.len().min(dequeue.max - deliveries.len());
            if wanted == 0 {
                self.tell_time().await?;
                return Ok((deliveries, Vec::new()));
            }
            let streams = self.streams_for(dequeue).await?;
            let not: Vec<u64> = tried.iter().chain(&passed).copied().collect();
            let rows = self.lock_due(&streams, Columns::Whole, &not, wanted);
            let rows = rows.await?;
            if rows.is_empty() {
                return Ok((deliveries, streams));
            }
            let lanes: BTreeSet<LaneKey> = rows.iter().filter_map(|(row, _)| row.lane).collect();
            self.skip_lanes(&lanes, rows.len()).await?;
            let mut attempts = left.iter();
            for (row, columns) in rows {
                let (op_id, seq, lane) = (row.op_id, row.seq, row.lane);
                // Whoever has the lane changes who may begin in it.
                if lane.is_some_and(|lane| !self.lanes.contains_key(&lane)) {
                    passed.push(seq);
                    continue;
                }
                let Some(attempt_id) = attempts.next() else {
                    break;
                };
                tried.push(seq);
                self.hold(Loaded::of(row, Some(Request::read(&columns)?)));
                let begin = BeginRequest {
                    op_id,
                    attempt_id: *attempt_id,
                    worker: dequeue.worker.clone(),
                    lease: dequeue.visibility,
                };
                // What may not be called is held or failed by its begin and needs no worker:
                // the next one takes its place.
                let begun = self.begin(&begin, &dequeue.routes).await?;
                deliveries.extend(begun.ok().map(delivery));
            }
            if deliveries.len() < dequeue.max && tried.len() < dequeue.attempts.len() {
                self.flush().await?;
            }
        }
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
            let (asked, asked_at) = (dequeue.clone(), self.clock().monotonic());
            let taken = self.write(move |tx| {
                let asked = asked.clone();
                Box::pin(async move { tx.take_due_or_wait(&asked).await })
            });
            let (deliveries, due_in) = taken.await?;
            let left = until.saturating_sub(self.clock().monotonic());
            if !deliveries.is_empty() || left.is_zero() {
                return Ok(deliveries);
            }
            // From when it was asked: time may have passed since. Commits of other processes
            // are told by nobody.
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
        let attempts = Arc::new(nacks(receipts)?);
        self.write(move |tx| {
            let (attempts, routes) = (attempts.clone(), routes.clone());
            Box::pin(async move { tx.reschedule_all(&attempts, &routes).await.map(|_| ()) })
        })
        .await
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        let extensions = Arc::new(extensions(receipts, visibility)?);
        self.write(move |tx| {
            let extensions = extensions.clone();
            Box::pin(async move { tx.extend_all(&extensions).await.map(|_| ()) })
        })
        .await
    }
}
