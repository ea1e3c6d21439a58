//! From permits to deliveries to attempts.
//!
//! A worker first takes permits and reserves room, and then asks for at most that many deliveries,
//! so that it never holds an attempt it cannot run. It never waits inside a dequeue that begins
//! attempts: such a call cannot be canceled without losing the attempts that it began. The worker
//! sleeps until a notice comes instead.
//!
//! A delivery that has begun runs at once. A hint must begin first: the row decides. The hint is
//! acked as soon as the row has decided. From then on the row and the Reaper take care of the
//! attempt, not the bus.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{Delivery, Dequeue, Hint, Operation, Receipt, Topic};
use clinch_core::{AttemptId, Error, ErrorKind, Result};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::OwnedSemaphorePermit;

use super::Reservation;
use super::Workers;
use super::claims::soonest;
use super::destination::Destination;
use crate::Scanned;
use crate::panics::caught;
use crate::ports::Dispatch;
use crate::wakes::Runner;

/// How long a destination rests after a failed ask. The other destinations continue.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// The result of asking for one destination's rows.
struct AskResult<'a> {
    destination: &'a Destination,
    room: usize,
    max: usize,
    /// The destination's notice counter before the ask.
    news: u64,
    deliveries: Result<Vec<Reserved>>,
}

/// A delivery to run, and the reservation for its call.
pub(crate) type Reserved = (Delivery, Option<Reservation>);

impl Workers {
    /// Takes deliveries that can run now, and starts them.
    pub(crate) async fn work(self: &Arc<Self>) -> Result<Scanned> {
        if self.destinations.is_empty() {
            return Ok(Scanned::nothing_to_do());
        }
        let permits = self.take_permits().await;
        if self.is_stopping() {
            return Ok(Scanned::nothing_to_do());
        }
        let asked = permits.len();
        let scanned = match &self.ports.dispatch {
            Dispatch::Queue(_) => self.work_from_queue(permits).await?,
            Dispatch::Hints(_) => self.work_from_hints(permits).await?,
        };
        self.ask_size.learn(asked, scanned.found);
        Ok(scanned)
    }

    /// Asks for the rows of all destinations with room concurrently, each for a fair share of the
    /// permits. A destination that returned its full share is asked again. Attempts start as soon
    /// as their own ask returns, so that a slow or failing ask delays no other.
    async fn work_from_queue(
        self: &Arc<Self>,
        mut permits: Vec<OwnedSemaphorePermit>,
    ) -> Result<Scanned> {
        // Set before reading the room, so that a call which ends after the reading is not missed.
        self.wakes.set_starved(Runner::Worker, true);
        let open = self.open_destinations(true);
        let (mut found, mut failed, mut full_meanwhile) = (0, Vec::new(), false);
        let mut asked_for = open.destinations;
        let mut idle = Vec::new();
        let asks_made = asked_for.len();
        while !asked_for.is_empty() && !permits.is_empty() {
            let later = asked_for.split_off(permits.len().min(asked_for.len()));
            let share = (permits.len() / asked_for.len()).max(1);
            let asked_at = self.ports.clock.monotonic();
            let asks = asked_for.drain(..);
            let asks = asks.map(|(destination, room)| {
                self.ask_destination(destination, room, share.min(room))
            });
            let mut asks: FuturesUnordered<_> = asks.collect();
            let mut more = later;
            while let Some(asked) = asks.next().await {
                let (taken, full) = match asked.deliveries {
                    Ok(_) if asked.max == 0 => {
                        // Inline callers took the room since it was read.
                        full_meanwhile = true;
                        continue;
                    }
                    Ok(deliveries) => (
                        deliveries.len(),
                        self.run_all(deliveries, asked_at, &mut permits) == asked.max,
                    ),
                    Err(error) => {
                        asked
                            .destination
                            .rest
                            .rest(asked.news, asked_at + FAILED_PAUSE);
                        failed.push(error);
                        continue;
                    }
                };
                found += taken;
                if taken > 0 {
                    asked.destination.rest.recheck.reset();
                }
                if !full {
                    idle.push((asked.destination, asked.news));
                } else if asked.room > taken {
                    more.push((asked.destination, asked.room - taken));
                }
            }
            asked_for = more;
        }
        drop(permits);
        self.wakes
            .set_starved(Runner::Worker, open.full || full_meanwhile);
        let rest = |(destination, seen)| self.rest_destination(destination, seen);
        join_all(idle.into_iter().map(rest)).await;
        match failed.pop() {
            Some(error) if failed.len() + 1 == asks_made => Err(error),
            _ if found > 0 => Ok(Scanned::more(found)),
            _ => Ok(self.nothing_came()),
        }
    }

    /// When to ask again: at once, if a notice came meanwhile.
    fn nothing_came(&self) -> Scanned {
        let open = self.open_destinations(true);
        let now = (!open.destinations.is_empty()).then_some(Duration::ZERO);
        Scanned {
            found: 0,
            next: soonest(open.again_in, now),
        }
    }

    async fn ask_destination<'a>(
        self: &Arc<Self>,
        destination: &'a Destination,
        room: usize,
        max: usize,
    ) -> AskResult<'a> {
        let news = destination.rest.news();
        let reserved = destination.reserve(max, self.ports.clock.monotonic());
        let max = reserved.len();
        let panicked = |_| Error::new(ErrorKind::Internal, "the bus adapter panicked");
        let taken = match max {
            0 => Ok(Ok(Vec::new())),
            max => caught(self.take_from(destination, max))
                .await
                .map_err(panicked),
        };
        let with_room = |taken: Vec<Delivery>| {
            let reserved = reserved
                .into_iter()
                .map(Some)
                .chain(std::iter::repeat_with(|| None));
            taken.into_iter().zip(reserved).collect()
        };
        AskResult {
            destination,
            room,
            max,
            news,
            deliveries: taken.and_then(|taken| taken).map(with_room),
        }
    }

    /// Starts the deliveries, and returns how many there are.
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

    /// Lets a destination rest that returned fewer rows than asked for. If a row is due now, it
    /// became due since the ask, or another process has it.
    async fn rest_destination(&self, destination: &Destination, seen: u64) {
        let bound = self.config.fallback_poll;
        let due = self.ports.outbox.next_due(Some(&destination.routes)).await;
        let nap = destination.rest.recheck.pause(due.ok().flatten(), bound);
        destination
            .rest
            .rest(seen, self.ports.clock.monotonic() + nap);
    }

    /// The next delivery that can run now, without waiting.
    pub(crate) async fn next_delivery(&self) -> Result<Option<Reserved>> {
        let open = self.open_destinations(false);
        match &self.ports.dispatch {
            Dispatch::Queue(_) => {
                for (destination, _) in &open.destinations {
                    let reserved = destination.reserve(1, self.ports.clock.monotonic()).pop();
                    if reserved.is_none() {
                        continue;
                    }
                    let taken = self.take_from(destination, 1).await?;
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
                let passed = self.hints_with_room(taken).await.pop();
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
        let workers = self.clone();
        let task = async move {
            workers.run_delivery(reserved, asked_at).await;
            drop(permit);
            workers.wakes.call_ended();
        };
        self.ports.spawner.spawn(Box::pin(task));
    }

    /// Runs one delivery from begin to settle. If it was delivered begun, its lease started no
    /// earlier than `asked_at`.
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

    /// At least one permit, at most as many as the look will ask for. Waits for the first.
    async fn take_permits(&self) -> Vec<OwnedSemaphorePermit> {
        let first = self.queue_permits.clone().acquire_owned().await;
        let more = self.permits_left(self.ask_size.get().saturating_sub(1));
        first.into_iter().chain(more).collect()
    }

    /// At most `max` permits and at most `batch`, without waiting.
    pub(super) fn permits_left(&self, max: usize) -> Vec<OwnedSemaphorePermit> {
        let permit = || self.queue_permits.clone().try_acquire_owned().ok();
        std::iter::from_fn(permit)
            .take(max.min(self.config.batch))
            .collect()
    }

    async fn take_from(&self, destination: &Destination, max: usize) -> Result<Vec<Delivery>> {
        let (topics, routes) = (destination.topics.clone(), destination.routes.clone());
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

    /// A dequeue that does not wait, with fresh attempt ids.
    pub(super) fn dequeue(&self, topics: Vec<Topic>, only: Arc<Routes>, max: usize) -> Dequeue {
        Dequeue {
            topics,
            max,
            wait: Duration::ZERO,
            visibility: match self.ports.dispatch {
                Dispatch::Queue(_) => self.config.lease,
                Dispatch::Hints(_) => self.config.hint_visibility,
            },
            worker: self.config.worker.clone(),
            attempts: (0..max).map(|_| self.attempt_id()).collect(),
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

    /// An ambiguous dequeue may have begun attempts. This process must run them, or they would be
    /// lost attempts.
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
