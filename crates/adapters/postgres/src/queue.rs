//! The store as its own bus: what it hands out has begun in the same commit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::Routes;
use clinch_core::ports::{
    BeginRequest, Bus, Delivery, Dequeue, Notice, Publication, Receipt, Write, Written,
};
use clinch_core::{AttemptId, OpId, Result, Timestamp};
use clinch_stored::commit::{Plan, Seen, Unit};
use clinch_stored::receipts::{self, delivery};
use clinch_stored::wait_for;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::horizon::Look;
use crate::link::Command;
use crate::own_rows::Next;
use crate::query::Query;
use crate::row::{moment, stored};
use crate::tx::{Stage, Tx};
use crate::{Postgres, Shared};

/// Pause before another look at rows that are due and that another transaction has locked.
const LOCKED_PAUSE: Duration = Duration::from_millis(10);

/// What one claim brought.
#[derive(Default)]
struct Taken {
    deliveries: Vec<Delivery>,
    /// How long the longest statement took.
    took: Duration,
    /// Of a claim that brought nothing: how long until a row can be taken.
    due_in: Option<Duration>,
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
                taken.due_in = Some(Duration::ZERO);
                return Ok(taken);
            }
            let asked_at = clock.monotonic();
            let mut rows = self.free_rows(streams, from, wanted, &tried).await?;
            let took = clock.monotonic().saturating_sub(asked_at);
            taken.took = taken.took.max(took);
            let was_all = rows.len() < wanted;
            // Rows beyond are let go by the commit.
            rows.truncate(wanted);
            let mut seen = Seen::default();
            let ops = self.keep_rows(&rows, &mut seen).await?;
            let begins = ops.iter().zip(left);
            let begins = begins.map(|(op_id, attempt_id)| begin(*op_id, *attempt_id, dequeue));
            let begins: Vec<Write> = begins.collect();
            // An operation that may not be called is held or failed by its begin and needs no
            // worker: the next one takes its place.
            let is_begun = |answer: &Written| matches!(answer, Written::Begun(_));
            let is_over = |plan: &Plan| {
                was_all || ops.len() == left.len() || plan.answers().iter().all(is_begun)
            };
            let unit = Unit::with(&begins, &dequeue.routes, seen);
            for begun in self.perform(unit, is_over).await? {
                taken.deliveries.extend(begun.begun()?.ok().map(delivery));
            }
            if was_all {
                if taken.deliveries.is_empty() {
                    taken.due_in = match self.stage {
                        Stage::Begun => self.first_due(streams, from).await?,
                        // None of them may be called: further rows may be due.
                        Stage::Idle | Stage::Committed => Some(Duration::ZERO),
                    };
                }
                return Ok(taken);
            }
            tried.extend(ops.iter().map(|op| op.0));
        }
    }

    /// How long until a row of these streams can be taken; `None`: only news can tell. Commits in
    /// the same round trip.
    async fn first_due(&mut self, streams: &[i32], from: i64) -> Result<Option<Duration>> {
        let first = Command::new(Query::FirstDue).with(streams.to_vec());
        let rows = self.send_last(&[first.with(from)]).await?;
        Ok(rows.first().and_then(|rows| due_in(rows.first()?)))
    }

    /// Locks rows that are due and free, in the order of service.
    async fn free_rows(
        &mut self,
        streams: &[i32],
        from: i64,
        max: usize,
        tried: &[Uuid],
    ) -> Result<Vec<Row>> {
        let free = Command::new(Query::Dequeue).with(streams.to_vec());
        let free = free.with(from).with(stored(max as u64));
        let mut commands = vec![free.with(tried.to_vec())];
        self.ask_surroundings(&mut commands, true);
        let mut answers = self.send(&commands).await?;
        for (command, answer) in commands.iter().zip(&answers).skip(1) {
            self.keep_surroundings(command.query, answer)?;
        }
        Ok(answers.swap_remove(0))
    }
}

impl Shared {
    /// How long until a row of these streams can be taken; `None`: only news can tell.
    pub(crate) async fn first_due(&self, streams: &[i32]) -> Result<Option<Duration>> {
        if streams.is_empty() {
            return Ok(None);
        }
        // A row that is kept may have been claimed or begun by other means since.
        if let Some(None) = self.next_own(streams) {
            return Ok(None);
        }
        let (begun_at, asked_at) = (self.own_rows.claim_begins(), self.clock.monotonic());
        let from = self.horizon.start(streams);
        let row = self.first(Query::FirstDue, &[&streams, &from]).await?;
        let due_in = row.as_ref().and_then(due_in);
        // A worker that takes the last row asks this, and no claim that finds nothing follows.
        self.own_rows
            .found_nothing(begun_at, streams, due_in, asked_at);
        Ok(due_in)
    }

    /// The same, where this process knows it; `None`: the server has to be asked.
    fn next_own(&self, streams: &[i32]) -> Option<Option<Duration>> {
        let now = self.clock.monotonic();
        let server_now = self.server_clock.now(now)?;
        match self.own_rows.next(streams, now, server_now)? {
            Next::In(pause) => Some(Some(pause)),
            Next::News => Some(None),
        }
    }

    /// Notes where the lines of these streams begin, and wakes dequeues for rows that were due
    /// without an announcement.
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
        let rows = self.query(Query::Fronts, &[&streams, &from]).await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
    }
}

fn begin(op_id: OpId, attempt_id: AttemptId, dequeue: &Dequeue) -> Write {
    Write::Begin(BeginRequest {
        op_id,
        attempt_id,
        worker: dequeue.worker.clone(),
        lease: dequeue.visibility,
    })
}

fn due_in(row: &Row) -> Option<Duration> {
    let now = Timestamp::from_millis(row.get(1));
    moment(row.get(0)).map(|due| due.since(now))
}

impl Postgres {
    /// Rows that this process accepted into streams that are otherwise empty, begun in one round
    /// trip; `None`: the server has to be asked for rows.
    async fn take_own(&self, dequeue: &Dequeue, streams: &[i32]) -> Result<Option<Taken>> {
        let (own_rows, now) = (&self.shared.own_rows, self.clock().monotonic());
        let Some(server_now) = self.shared.server_clock.now(now) else {
            return Ok(None);
        };
        let max = dequeue.max.min(dequeue.attempts.len());
        let Some(rows) = own_rows.take(streams, max, now, server_now) else {
            return Ok(None);
        };
        if rows.is_empty() {
            let next = self.shared.next_own(streams);
            return Ok(next.map(|due_in| Taken {
                due_in,
                ..Taken::default()
            }));
        }
        let mut seen = Seen::default();
        let mut begins = Vec::with_capacity(rows.len());
        for (mut row, attempt_id) in rows.into_iter().zip(&dequeue.attempts) {
            let request = row.request.as_ref();
            row.is_intact = request.is_some_and(|one| one.is_intact(&row.op_id, &row.event_type));
            begins.push(begin(row.op_id, *attempt_id, dequeue));
            seen.row(row);
        }
        let begun = self.begin_guess(&begins, &dequeue.routes, seen).await;
        let deliveries = match &begun {
            Ok(begun) => begun.len(),
            Err(_) => 0,
        };
        if deliveries < begins.len() {
            // Another process has the missing ones, or they may not be called: ask the server.
            streams.iter().for_each(|id| own_rows.announced(*id));
        }
        let taken = Taken {
            deliveries: begun?,
            ..Taken::default()
        };
        Ok((deliveries > 0).then_some(taken))
    }

    /// Begins rows as they are known here. Those that differ on the server are left out.
    async fn begin_guess(
        &self,
        begins: &[Write],
        routes: &Routes,
        seen: Seen,
    ) -> Result<Vec<Delivery>> {
        let Some((mut unit, plan)) = self.guess_from(seen, begins, routes) else {
            return Ok(Vec::new());
        };
        let plan = Arc::new(plan);
        let written = self.write(plan.clone(), |tx, plan| Box::pin(tx.write_guess(plan)));
        let written = written.await?;
        unit.written(Arc::unwrap_or_clone(plan), &[]);
        let mut begun = Vec::with_capacity(begins.len());
        for answer in unit.into_answers() {
            let operation = answer.begun()?.ok();
            let operation = operation.filter(|one| written.contains_key(&one.op_id));
            begun.extend(operation.map(delivery));
        }
        Ok(begun)
    }

    /// Deliveries that are due now.
    async fn take(&self, dequeue: &Arc<Dequeue>, streams: &[i32]) -> Result<Taken> {
        if let Some(taken) = self.take_own(dequeue, streams).await? {
            return Ok(taken);
        }
        let begun_at = self.shared.own_rows.claim_begins();
        // When the next row is due counts from here: the server was asked no earlier.
        let asked_at = self.clock().monotonic();
        let from = self.shared.horizon.start(streams);
        let call = (dequeue.clone(), streams.to_vec());
        let taken = self.write(call, move |tx, (dequeue, streams)| {
            Box::pin(tx.take_due(dequeue, streams, from))
        });
        let taken = taken.await?;
        let (rows, now) = (taken.deliveries.len(), self.clock().monotonic());
        if rows == 0 {
            let own_rows = &self.shared.own_rows;
            own_rows.found_nothing(begun_at, streams, taken.due_in, asked_at);
        }
        let horizon = &self.shared.horizon;
        if let Some(look) = horizon.next_look(streams, taken.took, rows, now) {
            let (shared, streams) = (self.shared.clone(), streams.to_vec());
            tokio::spawn(async move { shared.look_ahead(streams, look).await });
        }
        Ok(taken)
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
            let taken = match streams.is_empty() {
                true => Taken::default(),
                false => self.take(&dequeue, &streams).await?,
            };
            let left = until.saturating_sub(self.clock().monotonic());
            if !taken.deliveries.is_empty() || left.is_zero() {
                return Ok(taken.deliveries);
            }
            // A row that is due and was not taken is locked by another transaction for a moment,
            // or it waits for the sweeper for longer.
            let due_in = taken.due_in.map(|due_in| due_in.max(pause));
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
        receipts::nack(self, receipts, &routes).await
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        receipts::extend(self, receipts, visibility).await
    }
}
