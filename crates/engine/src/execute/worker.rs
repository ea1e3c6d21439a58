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
use tokio::sync::OwnedSemaphorePermit;

use super::Begun;
use super::claims::{Open, soonest};
use crate::handlers::Lot;
use crate::node::{Dispatch, Node};
use crate::recover::Scanned;

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

    /// Asks once for each destination with room, all at once, and for as much as is fair.
    async fn work_from_queue(
        self: &Arc<Self>,
        mut permits: Vec<OwnedSemaphorePermit>,
    ) -> Result<Scanned> {
        // Said before the look: a call that ends after it is not missed.
        self.starved.store(true, Ordering::SeqCst);
        let open = self.open_lots();
        let (mut found, mut more, mut failed) = (0, open.full, None);
        for lots in open.lots.chunks(permits.len().max(1)) {
            let share = (permits.len() / lots.len()).max(1);
            let asked_at = self.ports.clock.monotonic();
            let asks = lots.iter().map(|(lot, room)| async move {
                let max = share.min(*room);
                let taken = self.take_from(lot, max).await?;
                Ok((taken.len() == max, taken))
            });
            for taken in join_all(asks).await {
                let (full, deliveries) = taken.unwrap_or_else(|error| {
                    failed = Some(error);
                    (false, Vec::new())
                });
                more |= full;
                found += deliveries.len();
                for delivery in deliveries {
                    self.spawn_delivery(delivery, asked_at, permits.pop());
                }
            }
            if found > 0 {
                break;
            }
        }
        drop(permits);
        self.starved.store(more, Ordering::SeqCst);
        match failed {
            Some(error) => Err(error),
            None if more && found > 0 => Ok(Scanned {
                found,
                next: Some(Duration::ZERO),
            }),
            None => Ok(Scanned {
                found,
                next: self.next_due(&open, found).await?,
            }),
        }
    }

    /// When one of the open destinations has work, or one of the others opens. What is due and
    /// was not found is somebody else's.
    async fn next_due(&self, open: &Open<'_>, found: usize) -> Result<Option<Duration>> {
        let outbox = &self.ports.outbox;
        let asks = open
            .lots
            .iter()
            .map(|(lot, _)| outbox.next_due(Some(&lot.routes)));
        let mut next = open.again_in;
        for due in join_all(asks).await {
            next = soonest(next, due?.filter(|due| found > 0 || !due.is_zero()));
        }
        Ok(next)
    }

    /// One waiting read for every domain with an open destination.
    async fn work_from_hints(
        self: &Arc<Self>,
        mut permits: Vec<OwnedSemaphorePermit>,
    ) -> Result<Scanned> {
        let open = self.open_lots();
        let wait = open.wait(self.config.fallback_poll);
        if open.lots.is_empty() {
            drop(permits);
            self.sleep_unless_stopped(wait).await;
            return Ok(Scanned::nothing_to_do());
        }
        let domains = domains_of(&open);
        let asked_at = self.ports.clock.monotonic();
        // Hints can be dropped: a waiting read may be cut short.
        let hints = tokio::select! {
            biased;
            () = self.stop_told() => Vec::new(),
            hints = self.take_deliveries(domains, self.runnable.clone(), permits.len(), wait) => hints?,
        };
        let found = hints.len();
        let mut taken = BTreeMap::new();
        for delivery in hints {
            if self.passes(&delivery, &mut taken).await {
                self.spawn_delivery(delivery, asked_at, permits.pop());
            }
        }
        Ok(Scanned {
            found,
            next: Some(Duration::ZERO),
        })
    }

    /// False: its destination has no room, and the hint went back.
    async fn passes(&self, delivery: &Delivery, taken: &mut BTreeMap<String, usize>) -> bool {
        let hint = &delivery.hint;
        let Some(handler) = self.handlers.find(&hint.domain, &hint.event_type) else {
            return true;
        };
        let taken = taken
            .entry(handler.gate.destination().to_owned())
            .or_default();
        match self.closed_for(hint, *taken) {
            Some(pause) => {
                let again = [(delivery.receipt.clone(), pause)];
                // If this fails too, it comes again after its visibility timeout.
                let _ = self.ports.dispatch.bus().nack(&again).await;
                false
            }
            None => {
                *taken += 1;
                true
            }
        }
    }

    /// The next delivery that can be run now, without waiting.
    pub(crate) async fn next_delivery(&self) -> Result<Option<Delivery>> {
        let open = self.open_lots();
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
            Dispatch::Hints(_) => {
                let domains = domains_of(&open);
                loop {
                    let (domains, routes) = (domains.clone(), self.runnable.clone());
                    let taken = self.take_deliveries(domains, routes, 1, Duration::ZERO);
                    match taken.await?.into_iter().next() {
                        Some(hint) if !self.passes(&hint, &mut BTreeMap::new()).await => {}
                        next => return Ok(next),
                    }
                }
            }
        }
    }

    fn spawn_delivery(
        self: &Arc<Self>,
        delivery: Delivery,
        asked_at: Duration,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let node = self.clone();
        let task = async move {
            node.run_delivery(delivery, asked_at).await;
            drop(permit);
            node.call_ended();
        };
        self.ports.spawner.spawn(Box::pin(task));
    }

    /// Runs one delivery from begin to settle. The lease of one that has begun runs from
    /// when it was asked for, at the latest.
    pub(crate) async fn run_delivery(self: &Arc<Self>, delivery: Delivery, asked_at: Duration) {
        let begun = match delivery.begun {
            Some(operation) => self.open(*operation, asked_at).await,
            None => self.begin_hint(&delivery).await,
        };
        if let Some(begun) = begun {
            begun.run(self).await;
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
        routes: Arc<Routes>,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>> {
        let dequeue = Dequeue {
            domains,
            max,
            wait,
            visibility: self.config.lease,
            worker: self.config.worker.clone(),
            attempts: (0..max).map(|_| self.ports.ids.attempt_id()).collect(),
            routes,
        };
        let deliveries = match self.ports.dispatch.bus().dequeue(&dequeue).await {
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

fn domains_of(open: &Open<'_>) -> Vec<Domain> {
    let lots = open.lots.iter();
    let mut domains: Vec<_> = lots.flat_map(|(lot, _)| lot.domains.clone()).collect();
    domains.sort();
    domains.dedup();
    domains
}
