//! From permits to deliveries to attempts.
//!
//! A worker takes permits first and asks for at most as many deliveries, so that it never
//! holds what it cannot run. It never waits inside a dequeue that begins attempts: such a
//! call cannot be cut short without losing what it began. It rests until news instead. A
//! delivery that has begun runs at once. A hint is begun first;
//! the row decides, and the hint is acked as soon as it has: from then on the row and the
//! Reaper take care of the attempt, not the bus.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::policy::Routes;
use clinch_core::ports::{BeginRequest, Delivery, Dequeue, Hint, Operation, Receipt, Refused};
use clinch_core::{AttemptId, Domain, Error, ErrorKind, OpId, Result};
use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::OwnedSemaphorePermit;

use super::Begun;
use super::claims::{Underway, soonest};
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
    deliveries: Result<Vec<Delivery>>,
}

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
        let (mut found, mut failed) = (0, Vec::new());
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
                    asked.lot.rest.not_in_vain();
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
        self.starved.store(open.full, Ordering::SeqCst);
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
        let panicked = |_| Error::new(ErrorKind::Internal, "the bus adapter panicked");
        let taken = caught(self.take_from(lot, max)).await.map_err(panicked);
        Asked {
            lot,
            room,
            max,
            news,
            deliveries: taken.and_then(|taken| taken),
        }
    }

    /// Starts what has begun; returns how much that is.
    fn run_all(
        self: &Arc<Self>,
        deliveries: Vec<Delivery>,
        asked_at: Duration,
        permits: &mut Vec<OwnedSemaphorePermit>,
    ) -> usize {
        let count = deliveries.len();
        for delivery in deliveries {
            self.spawn_delivery(delivery, asked_at, permits.pop());
        }
        count
    }

    /// Leaves a lot alone that had nothing more. What is due and was not handed out fell due
    /// just now, or is somebody else's.
    async fn rest_lot(&self, lot: &Lot, seen: u64) {
        let bound = self.config.fallback_poll;
        let due = self.ports.outbox.next_due(Some(&lot.routes)).await;
        let nap = match due.ok().flatten() {
            Some(due) if due.is_zero() => lot.rest.in_vain().min(bound),
            due => {
                lot.rest.not_in_vain();
                due.map_or(bound, |due| due.min(bound))
            }
        };
        lot.rest.rest(seen, self.ports.clock.monotonic() + nap);
    }

    /// One waiting read for every domain with an open destination.
    async fn work_from_hints(
        self: &Arc<Self>,
        mut permits: Vec<OwnedSemaphorePermit>,
    ) -> Result<Scanned> {
        // Said before the look: a call that ends after it is not missed.
        self.starved.store(true, Ordering::SeqCst);
        let open = self.open_lots(false);
        let wait = open.wait(self.config.fallback_poll);
        if open.lots.is_empty() {
            drop(permits);
            self.rest_until_woken(wait).await;
            return Ok(Scanned::nothing_to_do());
        }
        self.starved.store(false, Ordering::SeqCst);
        let max = permits.len().min(open.room());
        let asked_at = self.ports.clock.monotonic();
        // Hints can be dropped: a waiting read may be cut short.
        let hints = tokio::select! {
            biased;
            () = self.stop_told() => Vec::new(),
            hints = self.take_deliveries(open.domains(), self.runnable.clone(), max, wait) => hints?,
        };
        let found = hints.len();
        let hints = self.that_pass(hints).await;
        self.run_all(hints, asked_at, &mut permits);
        Ok(Scanned::more(found))
    }

    /// Those whose destination has room; the others go back to the bus.
    async fn that_pass(&self, hints: Vec<Delivery>) -> Vec<Delivery> {
        let mut taken: BTreeMap<String, usize> = BTreeMap::new();
        let mut back = Vec::new();
        let mut pass = Vec::with_capacity(hints.len());
        for delivery in hints {
            let hint = &delivery.hint;
            let handler = self.handlers.find(&hint.domain, &hint.event_type);
            let name = handler.map_or("", |handler| handler.gate.destination());
            let taken = taken.entry(name.to_owned()).or_default();
            match self.closed_for(hint, *taken, delivery.redeliveries) {
                Some(pause) => back.push((delivery.receipt.clone(), pause)),
                None => {
                    *taken += 1;
                    pass.push(delivery);
                }
            }
        }
        if !back.is_empty() {
            // If this fails they come again after their visibility timeout.
            let _ = self.ports.dispatch.bus().nack(&back).await;
        }
        pass
    }

    /// The next delivery that can be run now, without waiting.
    pub(crate) async fn next_delivery(&self) -> Result<Option<Delivery>> {
        let open = self.open_lots(false);
        match &self.ports.dispatch {
            Dispatch::Queue(_) => {
                for (lot, _) in &open.lots {
                    let taken = self.take_from(lot, 1).await?;
                    if let Some(delivery) = taken.into_iter().next() {
                        return Ok(Some(delivery));
                    }
                }
                Ok(None)
            }
            Dispatch::Hints(_) => loop {
                let (domains, routes) = (open.domains(), self.runnable.clone());
                let taken = self.take_deliveries(domains, routes, 1, Duration::ZERO);
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
        delivery: Delivery,
        asked_at: Duration,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let node = self.clone();
        let underway = self.on_its_way(&delivery.hint);
        let task = async move {
            node.run_delivery(delivery, asked_at, underway).await;
            drop(permit);
            node.call_ended();
        };
        self.ports.spawner.spawn(Box::pin(task));
    }

    /// Runs one delivery from begin to settle. The lease of one that has begun runs from
    /// when it was asked for, at the latest.
    pub(crate) async fn run_delivery(
        self: &Arc<Self>,
        delivery: Delivery,
        asked_at: Duration,
        underway: Option<Underway>,
    ) {
        let begun = match delivery.begun {
            Some(operation) => self.open(*operation, asked_at).await,
            None => self.begin_hint(&delivery).await,
        };
        if let Some(begun) = begun {
            begun.run(self, underway).await;
        }
    }

    /// At least one permit, at most a batch.
    async fn take_permits(&self) -> Vec<OwnedSemaphorePermit> {
        let permits = &self.queue_permits;
        let first = permits.clone().acquire_owned().await;
        let mut taken: Vec<_> = first.into_iter().collect();
        while taken.len() < self.config.batch {
            match permits.clone().try_acquire_owned() {
                Ok(permit) => taken.push(permit),
                Err(_) => break,
            }
        }
        taken
    }

    async fn take_from(&self, lot: &Lot, max: usize) -> Result<Vec<Delivery>> {
        let (domains, routes) = (lot.domains.clone(), lot.routes.clone());
        self.take_deliveries(domains, routes, max, Duration::ZERO)
            .await
    }

    async fn take_deliveries(
        &self,
        domains: Vec<Domain>,
        only: Arc<Routes>,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>> {
        let dequeue = Dequeue {
            wait,
            ..self.dequeue(domains, only, max)
        };
        self.dequeue_deliveries(&dequeue).await
    }

    /// Without waiting, under fresh attempt ids.
    pub(super) fn dequeue(&self, domains: Vec<Domain>, only: Arc<Routes>, max: usize) -> Dequeue {
        Dequeue {
            domains,
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

    async fn begin_hint(&self, delivery: &Delivery) -> Option<Begun> {
        let op_id = delivery.hint.op_id;
        let from = self.ports.clock.monotonic();
        let receipts = [delivery.receipt.clone()];
        match self.begin(op_id).await {
            Ok(Ok(operation)) => {
                // A hint that is not acked comes again and finds the row live: a no-op.
                let _ = self.ports.dispatch.bus().ack(&receipts).await;
                self.open(operation, from).await
            }
            Ok(Err(_)) if planted!(RunsWhatIsLive) => {
                let rows = self.ports.inspect.get(&[op_id]).await.ok()?;
                let row = rows.into_iter().next().flatten();
                let live = row.filter(|row| row.state.is_current(row.state.fence))?;
                self.open(live, from).await
            }
            Ok(Err(Refused::NoRoute)) => {
                // Another process runs this event type.
                let [receipt] = receipts;
                let again = [(receipt, self.config.sweep_grace)];
                let _ = self.ports.dispatch.bus().nack(&again).await;
                None
            }
            Ok(Err(_)) => {
                // Live, not due, held, settled: the row knows better than the hint.
                let _ = self.ports.dispatch.bus().ack(&receipts).await;
                None
            }
            Err(_) => {
                let [receipt] = receipts;
                // The store is in trouble: come back later each time.
                let doublings = delivery.redeliveries.min(9);
                let pause = self.config.settle_pause.saturating_mul(1 << doublings);
                let again = [(receipt, pause)];
                let _ = self.ports.dispatch.bus().nack(&again).await;
                None
            }
        }
    }

    /// A begin whose commit is ambiguous is ours if its attempt id reads back.
    async fn begin(&self, op_id: OpId) -> Result<Result<Operation, Refused>> {
        let request = BeginRequest {
            op_id,
            attempt_id: self.ports.ids.attempt_id(),
            worker: self.config.worker.clone(),
            lease: self.config.lease,
        };
        let attempt_id = request.attempt_id;
        match self.groups.begin.call(request).await {
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                let (ops, attempts) = ([op_id], [attempt_id]);
                let lease = self.config.lease;
                let row = if planted!(AmbiguousBeginIsOurs) {
                    let row = self
                        .persist(lease, || self.ports.inspect.get(&ops))
                        .await?
                        .pop();
                    row.flatten()
                        .filter(|row| row.state.is_current(row.state.fence))
                } else {
                    let rows = self
                        .persist(lease, || self.ports.inspect.begun(&attempts))
                        .await?;
                    rows.into_iter().next().flatten()
                };
                row.map(Ok).ok_or(error)
            }
            other => other,
        }
    }
}
