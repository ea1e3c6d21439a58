//! From permits to deliveries to attempts.
//!
//! A worker takes permits and reserves room first and asks for at most as many deliveries, so
//! that it never holds what it cannot run. It never waits inside a dequeue that begins attempts: such a
//! call cannot be cut short without losing what it began. It rests until news instead. A
//! delivery that has begun runs at once. A hint is begun first;
//! the row decides, and the hint is acked as soon as it has: from then on the row and the
//! Reaper take care of the attempt, not the bus.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{Delivery, Dequeue, Hint, Operation, Receipt, Topic};
use clinch_core::{AttemptId, Error, ErrorKind, Result};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::OwnedSemaphorePermit;

use super::Reservation;
use super::claims::soonest;
use crate::handlers::Lot;
use crate::node::{Dispatch, Node};
use crate::panics::caught;
use crate::recover::Scanned;

/// How long a lot is left alone whose ask failed; the others go on.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// What one ask brought.
struct Asked<'a> {
    lot: &'a Lot,
    room: usize,
    max: usize,
    /// The lot's news before it.
    news: u64,
    deliveries: Result<Vec<Reserved>>,
}

/// What to run, and the room that was taken for its call.
pub(crate) type Reserved = (Delivery, Option<Reservation>);

impl Node {
    /// Takes what can be run now and starts it.
    pub(crate) async fn work(self: &Arc<Self>) -> Result<Scanned> {
        if self.lots.is_empty() {
            return Ok(Scanned::nothing_to_do());
        }
        let permits = self.take_permits().await;
        if self.is_stopping() {
            return Ok(Scanned::nothing_to_do());
        }
        match &self.ports.dispatch {
            Dispatch::Queue(_) => self.work_from_queue(permits).await,
            Dispatch::Hints(_) => self.work_from_hints(permits).await,
        }
    }

    /// Asks for each destination with room, all at once, for as much as is fair; then for more
    /// where there was enough. What was begun is run as soon as its ask came back: a slow or
    /// failing ask holds up no other.
    async fn work_from_queue(
        self: &Arc<Self>,
        mut permits: Vec<OwnedSemaphorePermit>,
    ) -> Result<Scanned> {
        // Said before the look: a call that ends after it is not missed.
        self.starved.store(true, Ordering::SeqCst);
        let open = self.open_lots(true);
        let (mut found, mut failed, mut full_meanwhile) = (0, Vec::new(), false);
        let mut asked_for = open.lots;
        let mut idle = Vec::new();
        let asks_made = asked_for.len();
        while !asked_for.is_empty() && !permits.is_empty() {
            let later = asked_for.split_off(permits.len().min(asked_for.len()));
            let share = (permits.len() / asked_for.len()).max(1);
            let asked_at = self.ports.clock.monotonic();
            let asks = asked_for.drain(..);
            let asks = asks.map(|(lot, room)| self.ask_lot(lot, room, share.min(room)));
            let mut asks: FuturesUnordered<_> = asks.collect();
            let mut more = later;
            while let Some(asked) = asks.next().await {
                let (taken, full) = match asked.deliveries {
                    Ok(_) if asked.max == 0 => {
                        // Callers took the room since the look at it.
                        full_meanwhile = true;
                        continue;
                    }
                    Ok(deliveries) => (
                        deliveries.len(),
                        self.run_all(deliveries, asked_at, &mut permits) == asked.max,
                    ),
                    Err(error) => {
                        asked.lot.rest.rest(asked.news, asked_at + FAILED_PAUSE);
                        failed.push(error);
                        continue;
                    }
                };
                found += taken;
                if taken > 0 {
                    asked.lot.rest.recheck.reset();
                }
                if !full {
                    idle.push((asked.lot, asked.news));
                } else if asked.room > taken {
                    more.push((asked.lot, asked.room - taken));
                }
            }
            asked_for = more;
        }
        drop(permits);
        self.starved
            .store(open.full || full_meanwhile, Ordering::SeqCst);
        join_all(idle.into_iter().map(|(lot, seen)| self.rest_lot(lot, seen))).await;
        match failed.pop() {
            Some(error) if failed.len() + 1 == asks_made => Err(error),
            _ if found > 0 => Ok(Scanned::more(found)),
            _ => {
                let open = self.open_lots(true);
                let now = (!open.lots.is_empty()).then_some(Duration::ZERO);
                Ok(Scanned {
                    found,
                    next: soonest(open.again_in, now),
                })
            }
        }
    }

    async fn ask_lot<'a>(self: &Arc<Self>, lot: &'a Lot, room: usize, max: usize) -> Asked<'a> {
        let news = lot.rest.news();
        let reserved = lot.reserve(max, self.ports.clock.monotonic());
        let max = reserved.len();
        let panicked = |_| Error::new(ErrorKind::Internal, "the bus adapter panicked");
        let taken = match max {
            0 => Ok(Ok(Vec::new())),
            max => caught(self.take_from(lot, max)).await.map_err(panicked),
        };
        let with_room = |taken: Vec<Delivery>| {
            let reserved = reserved
                .into_iter()
                .map(Some)
                .chain(std::iter::repeat_with(|| None));
            taken.into_iter().zip(reserved).collect()
        };
        Asked {
            lot,
            room,
            max,
            news,
            deliveries: taken.and_then(|taken| taken).map(with_room),
        }
    }

    /// Starts what has begun; returns how much that is.
    pub(super) fn run_all(
        self: &Arc<Self>,
        deliveries: Vec<Reserved>,
        asked_at: Duration,
        permits: &mut Vec<OwnedSemaphorePermit>,
    ) -> usize {
        let count = deliveries.len();
        for reserved in deliveries {
            self.spawn_delivery(reserved, asked_at, permits.pop());
        }
        count
    }

    /// Leaves a lot alone that had nothing more. What is due and was not handed out fell due
    /// just now, or is somebody else's.
    async fn rest_lot(&self, lot: &Lot, seen: u64) {
        let bound = self.config.fallback_poll;
        let due = self.ports.outbox.next_due(Some(&lot.routes)).await;
        let nap = lot.rest.recheck.pause(due.ok().flatten(), bound);
        lot.rest.rest(seen, self.ports.clock.monotonic() + nap);
    }

    /// The next delivery that can be run now, without waiting.
    pub(crate) async fn next_delivery(&self) -> Result<Option<Reserved>> {
        let open = self.open_lots(false);
        match &self.ports.dispatch {
            Dispatch::Queue(_) => {
                for (lot, _) in &open.lots {
                    let reserved = lot.reserve(1, self.ports.clock.monotonic()).pop();
                    if reserved.is_none() {
                        continue;
                    }
                    let taken = self.take_from(lot, 1).await?;
                    if let Some(delivery) = taken.into_iter().next() {
                        return Ok(Some((delivery, reserved)));
                    }
                }
                Ok(None)
            }
            Dispatch::Hints(_) => loop {
                let (topics, routes) = (open.topics(), self.runnable.clone());
                let taken = self.take_deliveries(topics, routes, 1, Duration::ZERO);
                let taken = taken.await?;
                let came = !taken.is_empty();
                let passed = self.that_pass(taken).await.pop();
                if passed.is_some() || !came {
                    return Ok(passed);
                }
            },
        }
    }

    fn spawn_delivery(
        self: &Arc<Self>,
        reserved: Reserved,
        asked_at: Duration,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let node = self.clone();
        let task = async move {
            node.run_delivery(reserved, asked_at).await;
            drop(permit);
            node.call_ended();
        };
        self.ports.spawner.spawn(Box::pin(task));
    }

    /// Runs one delivery from begin to settle. The lease of one that has begun runs from
    /// when it was asked for, at the latest.
    pub(crate) async fn run_delivery(
        self: &Arc<Self>,
        (delivery, reservation): Reserved,
        asked_at: Duration,
    ) {
        let begun = match delivery.begun {
            Some(operation) => self.open(*operation, asked_at).await,
            None => self.begin_hint(&delivery).await,
        };
        if let Some(begun) = begun {
            begun.run(self, reservation).await;
        }
    }

    /// At least one permit, at most a batch.
    async fn take_permits(&self) -> Vec<OwnedSemaphorePermit> {
        let first = self.queue_permits.clone().acquire_owned().await;
        let more = self.permits_left(self.config.batch.saturating_sub(1));
        first.into_iter().chain(more).collect()
    }

    /// At most a batch, and without waiting.
    pub(super) fn permits_left(&self, max: usize) -> Vec<OwnedSemaphorePermit> {
        let permit = || self.queue_permits.clone().try_acquire_owned().ok();
        std::iter::from_fn(permit)
            .take(max.min(self.config.batch))
            .collect()
    }

    async fn take_from(&self, lot: &Lot, max: usize) -> Result<Vec<Delivery>> {
        let (topics, routes) = (lot.topics.clone(), lot.routes.clone());
        self.take_deliveries(topics, routes, max, Duration::ZERO)
            .await
    }

    pub(super) async fn take_deliveries(
        &self,
        topics: Vec<Topic>,
        only: Arc<Routes>,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>> {
        let dequeue = Dequeue {
            wait,
            ..self.dequeue(topics, only, max)
        };
        self.dequeue_deliveries(&dequeue).await
    }

    /// Without waiting, under fresh attempt ids.
    pub(super) fn dequeue(&self, topics: Vec<Topic>, only: Arc<Routes>, max: usize) -> Dequeue {
        Dequeue {
            topics,
            max,
            wait: Duration::ZERO,
            visibility: self.config.lease,
            worker: self.config.worker.clone(),
            attempts: (0..max).map(|_| self.ports.ids.attempt_id()).collect(),
            routes: self.routes.clone(),
            only,
        }
    }

    pub(super) async fn dequeue_deliveries(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let deliveries = match self.ports.dispatch.bus().dequeue(dequeue).await {
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                self.read_back(&dequeue.attempts, error).await?
            }
            other => other?,
        };
        for delivery in &deliveries {
            let domain = Some(&delivery.hint.domain);
            self.count("orchestrator.pump.dequeue.count", domain, 1);
        }
        Ok(deliveries)
    }

    /// What an ambiguous dequeue began is ours to run: left alone it would be a lost attempt.
    async fn read_back(&self, attempts: &[AttemptId], error: Error) -> Result<Vec<Delivery>> {
        if matches!(self.ports.dispatch, Dispatch::Hints(_)) {
            return Err(error);
        }
        let rows = self
            .persist(self.config.lease, || self.ports.inspect.begun(attempts))
            .await?;
        let delivery = |row: Operation| Delivery {
            hint: Hint {
                op_id: row.op_id,
                domain: row.keys.domain.clone(),
                event_type: row.keys.event_type.clone(),
                lane: row.lane,
                dispatch_no: row.dispatch_no,
                trace: row.trace.clone(),
            },
            receipt: Receipt(String::new()),
            redeliveries: row.state.deliveries,
            begun: Some(Box::new(row)),
        };
        Ok(rows.into_iter().flatten().map(delivery).collect())
    }
}
