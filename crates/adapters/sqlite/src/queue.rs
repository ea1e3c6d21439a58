//! The store as its own bus: a delivered operation has begun in the same commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{BeginRequest, Bus, Delivery, Dequeue, Publication, Receipt, Write};
use clinch_core::{AttemptId, Result};
use clinch_stored::commit::Seen;
use clinch_stored::receipts::{self, delivery};
use clinch_stored::wait_for;

use crate::Sqlite;
use crate::db::Db;
use crate::streams::Stream;
use crate::tx::Tx;

impl Db<'_> {
    /// The streams that a worker asks for, paused domains included.
    fn routed_streams(&mut self, dequeue: &Dequeue) -> Result<Vec<(i64, Vec<Stream>)>> {
        let mut routed = Vec::new();
        for domain in &dequeue.domains() {
            let Some(id) = self.find_name(domain.as_str())? else {
                continue;
            };
            let has_route = |event_type: &_| dequeue.only.find(domain, event_type).is_some();
            routed.push((id, self.streams(id, has_route)?));
        }
        Ok(routed)
    }
}

impl Tx<'_, '_> {
    fn open_streams_for(&mut self, dequeue: &Dequeue) -> Result<Vec<Stream>> {
        let mut open = Vec::new();
        for (domain, streams) in self.db.routed_streams(dequeue)? {
            if !self.domain_row(domain)?.paused {
                open.extend(streams);
            }
        }
        Ok(open)
    }

    /// Deliveries; if there are none, how long until there may be one. A due row that was not
    /// delivered is not for this worker; only a notice can change that.
    fn take_due_or_wait(&mut self, dequeue: &Dequeue) -> Result<(Vec<Delivery>, Option<Duration>)> {
        let deliveries = self.take_due(dequeue)?;
        if !deliveries.is_empty() || dequeue.wait.is_zero() {
            return Ok((deliveries, None));
        }
        let streams = self.open_streams_for(dequeue)?;
        let first = self.db.first_due(&streams)?;
        let later = first.filter(|due| *due > self.now);
        Ok((deliveries, later.map(|due| due.since(self.now))))
    }

    fn take_due(&mut self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let mut deliveries = Vec::new();
        let mut tried = BTreeSet::new();
        loop {
            let left = &dequeue.attempts[tried.len().min(dequeue.attempts.len())..];
            let wanted = left.len().min(dequeue.max - deliveries.len());
            if wanted == 0 {
                return Ok(deliveries);
            }
            let streams = self.open_streams_for(dequeue)?;
            let line = self.db.due_in(&streams, self.now, wanted + tried.len())?;
            let untried = line
                .iter()
                .map(|row| row.seq)
                .filter(|seq| !tried.contains(seq));
            let seqs: Vec<u64> = untried.take(wanted).collect();
            if seqs.is_empty() {
                return Ok(deliveries);
            }
            // The begin of an operation that must not be called holds or fails it. Such a row needs
            // no worker, so the next row takes its place.
            deliveries.extend(self.deliver(&seqs, left, dequeue)?);
            tried.extend(seqs);
        }
    }

    /// Begins these rows, which are in streams of domains that are not paused.
    fn deliver(
        &mut self,
        seqs: &[u64],
        attempts: &[AttemptId],
        dequeue: &Dequeue,
    ) -> Result<Vec<Delivery>> {
        let mut seen = Seen::default();
        let mut begins = Vec::with_capacity(seqs.len());
        for (seq, attempt_id) in seqs.iter().zip(attempts) {
            let Some(row) = self.db.whole_row_at(*seq)? else {
                continue;
            };
            begins.push(Write::Begin(BeginRequest {
                op_id: row.op_id,
                attempt_id: *attempt_id,
                worker: dequeue.worker.clone(),
                lease: dequeue.visibility,
            }));
            if !seen.knows_pause(&row.domain) {
                seen.not_paused(row.domain.clone());
            }
            seen.row(row);
        }
        let mut deliveries = Vec::with_capacity(begins.len());
        for begun in self.commit(&begins, &dequeue.routes, seen)? {
            deliveries.extend(begun.begun()?.ok().map(delivery));
        }
        Ok(deliveries)
    }
}

/// Store and bus are one: the queue row is the announcement.
#[async_trait]
impl Bus for Sqlite {
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
            let (deliveries, due_in) = self.write(move |tx| tx.take_due_or_wait(&asked)).await?;
            let left = until.saturating_sub(self.clock().monotonic());
            if !deliveries.is_empty() || left.is_zero() {
                return Ok(deliveries);
            }
            // `due_in` counts from the time of the query; time may have passed since.
            let due_at = due_in.map_or(until, |due_in| asked_at.saturating_add(due_in));
            let nap = due_at.min(until).saturating_sub(self.clock().monotonic());
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
