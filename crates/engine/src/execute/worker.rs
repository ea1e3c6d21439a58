//! From permits to deliveries to attempts.
//!
//! A worker takes permits first and asks for at most as many deliveries, so that it never
//! holds what it cannot run. It never waits inside a dequeue that begins attempts: such a
//! call cannot be cut short without losing what it began. It rests until news instead. A
//! delivery that has begun runs at once. A hint is begun first;
//! the row decides, and the hint is acked as soon as it has: from then on the row and the
//! Reaper take care of the attempt, not the bus.

use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{BeginRequest, Delivery, Dequeue, Hint, Operation, Receipt, Refused};
use clinch_core::{AttemptId, Error, ErrorKind, OpId, Result};
use tokio::sync::OwnedSemaphorePermit;

use super::Begun;
use crate::node::{Dispatch, Node};
use crate::recover::Scanned;

impl Node {
    /// Takes what can be run now and starts it.
    pub(crate) async fn work(self: &Arc<Self>) -> Result<Scanned> {
        if self.served.is_empty() {
            return Ok(Scanned::nothing_to_do());
        }
        let mut permits = self.take_permits().await;
        if self.is_stopping() {
            return Ok(Scanned::nothing_to_do());
        }
        let max = permits.len();
        let asked_at = self.ports.clock.monotonic();
        let deliveries = match &self.ports.dispatch {
            Dispatch::Queue(_) => self.take_deliveries(max, Duration::ZERO).await?,
            // Hints can be dropped: a waiting read may be cut short.
            Dispatch::Hints(_) => tokio::select! {
                biased;
                () = self.stop_told() => Vec::new(),
                hints = self.take_deliveries(max, self.config.fallback_poll) => hints?,
            },
        };
        let found = deliveries.len();
        for delivery in deliveries {
            let node = self.clone();
            let permit = permits.pop();
            let task = async move { node.run_delivery(delivery, asked_at, permit).await };
            self.ports.spawner.spawn(Box::pin(task));
        }
        drop(permits);
        let next = match &self.ports.dispatch {
            Dispatch::Queue(_) if found < max => {
                self.ports.outbox.next_due(Some(&self.runnable)).await?
            }
            // More may be waiting, or the next call waits by itself.
            Dispatch::Queue(_) | Dispatch::Hints(_) => Some(Duration::ZERO),
        };
        Ok(Scanned { found, next })
    }

    /// Runs one delivery from begin to settle. The lease of one that has begun runs from
    /// when it was asked for, at the latest.
    pub(crate) async fn run_delivery(
        self: &Arc<Self>,
        delivery: Delivery,
        asked_at: Duration,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let begun = match delivery.begun {
            Some(operation) => self.open(*operation, asked_at).await,
            None => self.begin_hint(&delivery).await,
        };
        if let Some(begun) = begun {
            begun.run(self).await;
        }
        drop(permit);
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

    pub(crate) async fn take_deliveries(
        &self,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Delivery>> {
        let dequeue = Dequeue {
            domains: self.served.clone(),
            max,
            wait,
            visibility: self.config.lease,
            worker: self.config.worker.clone(),
            attempts: (0..max).map(|_| self.ports.ids.attempt_id()).collect(),
            routes: self.runnable.clone(),
        };
        let deliveries = match self.ports.dispatch.bus().dequeue(&dequeue).await {
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                self.read_back(&dequeue.attempts, error).await?
            }
            other => other?,
        };
        self.count("orchestrator.pump.dequeue.count", None, deliveries.len());
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
