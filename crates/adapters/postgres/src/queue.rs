//! The store as its own bus: what it hands out has begun in the same commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{BeginRequest, Bus, Delivery, Dequeue, Notice, Publication, Receipt};
use clinch_core::{Result, Timestamp};
use clinch_stored::receipts::{delivery, extensions, nacks};
use clinch_stored::wait_for;
use uuid::Uuid;

use crate::horizon::Look;
use crate::link::Link;
use crate::query::Query;
use crate::row::{moment, stored};
use crate::tx::{Origin, Tx};
use crate::{Postgres, Shared};

/// Pause before another look at rows that are due and that somebody else has locked.
const LOCKED_PAUSE: Duration = Duration::from_millis(10);

/// What one claim brought, and how long its longest statement took.
#[derive(Default)]
struct Taken {
    deliveries: Vec<Delivery>,
    took: Duration,
}

impl Tx<'_> {
    async fn take_due(&mut self, dequeue: &Dequeue, streams: &[i32], from: i64) -> Result<Taken> {
        let clock = self.shared.clock.clone();
        let mut taken = Taken::default();
        let mut tried: Vec<Uuid> = Vec::new();
        loop {
            let left = &dequeue.attempts[tried.len().min(dequeue.attempts.len())..];
            let wanted = left.len().min(dequeue.max - taken.deliveries.len());
            if wanted == 0 || streams.is_empty() {
                return Ok(taken);
            }
            let max = stored(wanted as u64);
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
                [&streams, &from, &max, &tried];
            let asked_at = clock.monotonic();
            let mut rows = self.query_and_now(Query::Dequeue, &params).await?;
            let took = clock.monotonic().saturating_sub(asked_at);
            taken.took = taken.took.max(took);
            let was_all = rows.len() < wanted;
            // Those beyond are let go by the commit.
            rows.truncate(wanted);
            let ops = self.keep(&rows, &Origin::Queue).await?;
            // What may not be called is held or failed by its begin and needs no worker: the
            // next one takes its place.
            for (op_id, attempt_id) in ops.iter().zip(left) {
                let begin = BeginRequest {
                    op_id: *op_id,
                    attempt_id: *attempt_id,
                    worker: dequeue.worker.clone(),
                    lease: dequeue.visibility,
                };
                let begun = self.begin(&begin, &dequeue.routes).await?;
                taken.deliveries.extend(begun.ok().map(delivery));
            }
            if was_all {
                return Ok(taken);
            }
            tried.extend(ops.iter().map(|op| op.0));
        }
    }
}

impl Shared {
    /// How long until a row of these streams can be taken; `None`: only news can tell.
    pub(crate) async fn first_due(&self, streams: &[i32]) -> Result<Option<Duration>> {
        if streams.is_empty() {
            return Ok(None);
        }
        let from = self.horizon.start(streams);
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let row = link.first(Query::FirstDue, &[&streams, &from]).await?;
        Ok(row.and_then(|row| {
            let now = Timestamp::from_millis(row.get(1));
            moment(row.get(0)).map(|due| due.since(now))
        }))
    }

    /// Notes where the lines of these streams begin, and wakes who waits for rows that nobody
    /// told of.
    async fn look_ahead(&self, streams: Vec<i32>, look: Look) {
        let from = self.clock.monotonic();
        let fronts = self.fronts(&streams, look.from).await;
        let now = self.clock.monotonic();
        let took = now.saturating_sub(from);
        let untold = self.horizon.end(look, fronts.ok().as_ref(), took, now);
        let streams = untold
            .into_iter()
            .filter_map(|id| self.names.stream(id).ok());
        let due = streams.map(|stream| Notice::Due(stream.domain));
        self.news.tell(due.collect());
    }

    async fn fronts(&self, streams: &[i32], from: i64) -> Result<HashMap<i32, i64>> {
        let client = self.client().await?;
        let link = Link::Pooled(&client);
        let rows = link.query(Query::Fronts, &[&streams, &from]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}

impl Postgres {
    /// Deliveries that are due now.
    async fn take(&self, dequeue: &Arc<Dequeue>, streams: &[i32]) -> Result<Vec<Delivery>> {
        let from = self.shared.horizon.start(streams);
        let call = Arc::new((dequeue.clone(), streams.to_vec(), from));
        let taken = self.write(move |tx| {
            let call = call.clone();
            Box::pin(async move { tx.take_due(&call.0, &call.1, call.2).await })
        });
        let Taken { deliveries, took } = taken.await?;
        let (rows, now) = (deliveries.len(), self.clock().monotonic());
        let horizon = &self.shared.horizon;
        if let Some(look) = horizon.next_look(streams, took, rows, now) {
            let (shared, streams) = (self.shared.clone(), streams.to_vec());
            tokio::spawn(async move { shared.look_ahead(streams, look).await });
        }
        Ok(deliveries)
    }
}

/// Store and bus are one: the queue row is the announcement.
#[async_trait]
impl Bus for Postgres {
    async fn publish(&self, _publications: &[Publication]) -> Result<()> {
        Ok(())
    }

    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let dequeue = Arc::new(dequeue.clone());
        *self.last_routes() = dequeue.routes.clone();
        let mut news = self.news().watch_due();
        let until = self.clock().monotonic().saturating_add(dequeue.wait);
        let mut pause = LOCKED_PAUSE;
        let domains = dequeue.domains();
        loop {
            let seen = *news.borrow_and_update();
            let asked_at = self.clock().monotonic();
            let shared = &self.shared;
            let streams = shared.names.routed(&domains, &dequeue.only);
            let deliveries = match streams.is_empty() {
                true => Vec::new(),
                false => self.take(&dequeue, &streams).await?,
            };
            let left = until.saturating_sub(self.clock().monotonic());
            if !deliveries.is_empty() || left.is_zero() {
                return Ok(deliveries);
            }
            let due_in = shared.first_due(&streams).await?;
            // A row that is due and was not taken is locked by somebody, for a moment; or it is
            // the sweeper's, for longer.
            let due_in = due_in.map(|due_in| due_in.max(pause));
            pause = (pause * 2).min(shared.settings.fallback_poll);
            let nap = due_in.unwrap_or(left).min(shared.settings.fallback_poll);
            // From when it was asked: time may have passed since.
            let due_at = asked_at.saturating_add(nap).min(until);
            let nap = due_at.saturating_sub(self.clock().monotonic());
            let woken = wait_for(&mut news, self.clock(), nap, |last| *last > seen).await;
            if !woken && due_in.is_none() {
                shared.learn().await;
            }
        }
    }

    /// Settling ends a delivery; there is nothing to ack.
    async fn ack(&self, _receipts: &[Receipt]) -> Result<()> {
        Ok(())
    }

    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        let routes = self.last_routes().clone();
        let call = Arc::new((nacks(receipts)?, routes));
        self.write(move |tx| {
            let call = call.clone();
            Box::pin(async move { tx.reschedule_all(&call.0, &call.1).await.map(|_| ()) })
        })
        .await
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        let call = Arc::new(extensions(receipts, visibility)?);
        self.write(move |tx| {
            let call = call.clone();
            Box::pin(async move { tx.extend_all(&call).await.map(|_| ()) })
        })
        .await
    }
}
