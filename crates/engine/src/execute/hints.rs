//! From hints to attempts.
//!
//! Hints wait in topics, one for each domain and destination, and one of the domain for what
//! everybody shall see. A worker reads those with room, and no more than would fit if all that
//! comes were for the narrowest of them. A destination whose topic brought something is read
//! for itself until it has nothing left, so that a narrow one holds up no other; without a
//! permit for each, all are read together.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::ports::{BeginRequest, Delivery, Operation, Refused, Topic};
use clinch_core::{ErrorKind, OpId, Result};
use futures_util::future::join_all;
use tokio::sync::OwnedSemaphorePermit;

use super::Begun;
use super::claims::Open;
use super::worker::Reserved;
use crate::handlers::Lot;
use crate::node::Node;
use crate::recover::Scanned;

/// What one read of the bus asks for.
struct Read<'a> {
    topics: Vec<Topic>,
    max: usize,
    /// The destination that it is for; `None`: all those that are quiet.
    alone: Option<&'a Lot>,
}

impl Open<'_> {
    /// Every topic of an open destination.
    pub(super) fn topics(&self) -> Vec<Topic> {
        let lots = self.lots.iter();
        let own = lots.flat_map(|(lot, _)| lot.topics.iter().cloned());
        let mut topics: Vec<_> = own.chain(self.shared_topics()).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    fn shared_topics(&self) -> impl Iterator<Item = Topic> {
        let domains = self.lots.iter().flat_map(|(lot, _)| &lot.domains);
        domains.map(Topic::of)
    }

    /// Together they ask for no more than there are permits.
    fn reads(&self, permits: usize) -> Vec<Read<'_>> {
        let rooms = self.lots.iter().map(|(_, room)| *room);
        let busy = self.lots.iter().filter(|(lot, _)| lot.is_busy());
        let alone = busy.map(|(lot, room)| Read {
            topics: lot.topics.clone(),
            max: *room,
            alone: Some(lot),
        });
        let mut alone: Vec<_> = alone.collect();
        // Not a permit for each: one read of everything, so that nobody is left out.
        if alone.len() >= permits {
            alone.clear();
        }
        let mut quiet = self.topics();
        quiet.retain(|topic| !alone.iter().any(|read| read.topics.contains(topic)));
        let mut reads = vec![Read {
            topics: quiet,
            max: rooms.min().unwrap_or(0),
            alone: None,
        }];
        reads.extend(alone);
        let share = (permits / reads.len()).max(1);
        for read in &mut reads {
            read.max = read.max.min(share);
        }
        reads
    }
}

impl Lot {
    /// Its topic brought something. One without guards shares its topic with everybody.
    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) && !self.gate.destination().is_empty()
    }
}

impl Node {
    /// Reads what there is room for. Waits for it where no destination is busy.
    pub(super) async fn work_from_hints(
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
        self.starved.store(open.full, Ordering::SeqCst);
        let reads = open.reads(permits.len());
        let wait = match reads.len() {
            1 => wait,
            _ => Duration::ZERO,
        };
        let asked_at = self.ports.clock.monotonic();
        let mut reading = pin!(join_all(reads.iter().map(|read| self.read(read, wait))));
        let came = loop {
            tokio::select! {
                biased;
                // Hints can be dropped: a waiting read may be cut short.
                () = self.stop_told() => return Ok(Scanned::nothing_to_do()),
                came = &mut reading => break came,
                () = self.woken_to_work(), if open.full => self.read_freed(&reads).await?,
            }
        };
        let (mut found, mut failed) = (0, None);
        for (read, hints) in reads.iter().zip(came) {
            match hints {
                Ok(hints) => {
                    found += hints.len();
                    self.note_busy(read, &hints);
                    let hints = self.that_pass(hints).await;
                    self.run_all(hints, asked_at, &mut permits);
                }
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if found == 0 => Err(error),
            _ => Ok(Scanned::more(found)),
        }
    }

    async fn read(&self, read: &Read<'_>, wait: Duration) -> Result<Vec<Delivery>> {
        let topics = read.topics.clone();
        self.take_deliveries(topics, self.runnable.clone(), read.max, wait)
            .await
    }

    /// A call ended while a read waits for others: what waits for its slot is taken at once.
    async fn read_freed(self: &Arc<Self>, waiting: &[Read<'_>]) -> Result<()> {
        self.starved.store(true, Ordering::SeqCst);
        let open = self.open_lots(false);
        let is_read = |lot: &Lot| {
            let mut topics = waiting.iter().flat_map(|read| &read.topics);
            topics.any(|topic| lot.topics.contains(topic))
        };
        for (lot, room) in open.lots.iter().filter(|(lot, _)| !is_read(lot)) {
            let mut permits = self.permits_left(*room);
            let read = Read {
                topics: lot.topics.clone(),
                max: permits.len(),
                alone: Some(lot),
            };
            let asked_at = self.ports.clock.monotonic();
            let hints = self.read(&read, Duration::ZERO).await?;
            self.note_busy(&read, &hints);
            let hints = self.that_pass(hints).await;
            self.run_all(hints, asked_at, &mut permits);
        }
        Ok(())
    }

    fn note_busy(&self, read: &Read<'_>, hints: &[Delivery]) {
        if let Some(lot) = read.alone {
            lot.busy.store(hints.len() == read.max, Ordering::Relaxed);
        } else if self.lots.len() > 1 {
            let lots = hints.iter().filter_map(|one| self.lot_of(&one.hint));
            lots.for_each(|lot| lot.busy.store(true, Ordering::Relaxed));
        }
    }

    /// Those whose destination has room, with it; the others go back to the bus.
    pub(super) async fn that_pass(&self, hints: Vec<Delivery>) -> Vec<Reserved> {
        let mut back = Vec::new();
        let mut pass = Vec::with_capacity(hints.len());
        for delivery in hints {
            match self.room_for(&delivery.hint, delivery.redeliveries) {
                Ok(reservation) => pass.push((delivery, reservation)),
                Err(pause) => back.push((delivery.receipt, pause)),
            }
        }
        if !back.is_empty() {
            // If this fails they come again after their visibility timeout.
            let _ = self.ports.dispatch.bus().nack(&back).await;
        }
        pass
    }

    pub(super) async fn begin_hint(&self, delivery: &Delivery) -> Option<Begun> {
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
