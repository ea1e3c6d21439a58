//! From hints to attempts.
//!
//! Hints wait in topics: one topic for each domain and destination, and one domain-wide topic. A
//! worker reads the topics of destinations with room. One read asks for at most the smallest room
//! among them, because all hints may be for that destination.
//!
//! If a read brought a hint for a destination, that destination's topics are read separately until
//! they are empty, so that a destination with little room does not delay the others. If there are
//! fewer permits than separate reads, all topics are read together.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clinch_core::ports::{BeginRequest, Delivery, Operation, Refused, Topic};
use clinch_core::{ErrorKind, OpId, Result};
use futures_util::future::join_all;
use tokio::sync::OwnedSemaphorePermit;

use super::Begun;
use super::Workers;
use super::claims::Open;
use super::destination::Destination;
use super::worker::Reserved;
use crate::Scanned;
use crate::wakes::Runner;

/// One read of the bus.
struct Read<'a> {
    topics: Vec<Topic>,
    max: usize,
    /// The destination that is read separately. `None`: all other destinations.
    alone: Option<&'a Destination>,
}

impl Open<'_> {
    /// Every topic of an open destination.
    pub(super) fn topics(&self) -> Vec<Topic> {
        let destinations = self.destinations.iter();
        let own = destinations.flat_map(|(destination, _)| destination.topics.iter().cloned());
        let mut topics: Vec<_> = own.chain(self.shared_topics()).collect();
        topics.sort();
        topics.dedup();
        topics
    }

    fn shared_topics(&self) -> impl Iterator<Item = Topic> {
        let domains = self
            .destinations
            .iter()
            .flat_map(|(destination, _)| &destination.domains);
        domains.map(Topic::of)
    }

    /// All reads together ask for at most `permits` hints.
    fn reads(&self, permits: usize) -> Vec<Read<'_>> {
        let rooms = self.destinations.iter().map(|(_, room)| *room);
        let busy = self
            .destinations
            .iter()
            .filter(|(destination, _)| destination.is_busy());
        let alone = busy.map(|(destination, room)| Read {
            topics: destination.topics.clone(),
            max: *room,
            alone: Some(destination),
        });
        let mut alone: Vec<_> = alone.collect();
        // Too few permits for separate reads: one read covers every topic, so that none is left
        // out.
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

impl Destination {
    /// A read brought hints for this destination. Destinations without a name share the domain-wide
    /// topic, so they are never read separately.
    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) && !self.gate.destination().is_empty()
    }
}

impl Workers {
    /// Reads as many hints as there is room for. Waits for hints only if no destination is read
    /// separately.
    pub(super) async fn work_from_hints(
        self: &Arc<Self>,
        mut permits: Vec<OwnedSemaphorePermit>,
    ) -> Result<Scanned> {
        // Set before reading the room, so that a call which ends after the reading is not missed.
        self.wakes.set_starved(Runner::Worker, true);
        let open = self.open_destinations(false);
        let wait = open.wait(self.config.fallback_poll);
        if open.destinations.is_empty() {
            drop(permits);
            self.nap(Runner::Worker, wait).await;
            return Ok(Scanned::nothing_to_do());
        }
        self.wakes.set_starved(Runner::Worker, open.full);
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
                // A waiting read may be dropped: hints come again.
                () = self.stop_told() => return Ok(Scanned::nothing_to_do()),
                came = &mut reading => break came,
                () = self.wakes.woken(Runner::Worker), if open.full => self.read_freed(&reads).await?,
            }
        };
        let (mut found, mut failed) = (0, None);
        for (read, hints) in reads.iter().zip(came) {
            match hints {
                Ok(hints) => {
                    found += hints.len();
                    self.note_busy(read, &hints);
                    let hints = self.hints_with_room(hints).await;
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

    /// A call ended while a read waits: reads the topics of destinations that have room now.
    async fn read_freed(self: &Arc<Self>, waiting: &[Read<'_>]) -> Result<()> {
        self.wakes.set_starved(Runner::Worker, true);
        let open = self.open_destinations(false);
        let is_read = |destination: &Destination| {
            let mut topics = waiting.iter().flat_map(|read| &read.topics);
            topics.any(|topic| destination.topics.contains(topic))
        };
        for (destination, room) in open
            .destinations
            .iter()
            .filter(|(destination, _)| !is_read(destination))
        {
            let mut permits = self.permits_left(*room);
            let read = Read {
                topics: destination.topics.clone(),
                max: permits.len(),
                alone: Some(destination),
            };
            let asked_at = self.ports.clock.monotonic();
            let hints = self.read(&read, Duration::ZERO).await?;
            self.note_busy(&read, &hints);
            let hints = self.hints_with_room(hints).await;
            self.run_all(hints, asked_at, &mut permits);
        }
        Ok(())
    }

    fn note_busy(&self, read: &Read<'_>, hints: &[Delivery]) {
        if let Some(destination) = read.alone {
            destination
                .busy
                .store(hints.len() == read.max, Ordering::Relaxed);
        } else if self.destinations.len() > 1 {
            let destinations = hints
                .iter()
                .filter_map(|one| self.destination_of(&one.hint));
            destinations.for_each(|destination| destination.busy.store(true, Ordering::Relaxed));
        }
    }

    /// The hints whose destination has room, each with its reservation. The others go back to the
    /// bus with a delay.
    pub(super) async fn hints_with_room(&self, hints: Vec<Delivery>) -> Vec<Reserved> {
        let mut back = Vec::new();
        let mut pass = Vec::with_capacity(hints.len());
        for delivery in hints {
            match self.room_for(&delivery.hint, delivery.redeliveries) {
                Ok(reservation) => pass.push((delivery, reservation)),
                Err(pause) => back.push((delivery.receipt, pause)),
            }
        }
        if !back.is_empty() {
            // If this fails, the hints come again after their visibility timeout.
            let _ = self.ports.dispatch.bus().nack(&back).await;
        }
        pass
    }

    pub(super) async fn begin_hint(&self, delivery: &Delivery) -> Option<Begun> {
        let op_id = delivery.hint.op_id;
        let from = self.ports.clock.monotonic();
        let receipts = [delivery.receipt.clone()];
        let hint = &delivery.hint;
        if self.runnable.find(&hint.domain, &hint.event_type).is_none() {
            self.leave_to_others(delivery).await;
            return None;
        }
        match self.begin(op_id).await {
            Ok(Ok(operation)) => {
                // If the ack fails, the hint comes again, finds the row live, and changes nothing.
                let _ = self.ports.dispatch.bus().ack(&receipts).await;
                self.open(operation, from).await
            }
            Ok(Err(Refused::NoRoute)) => {
                self.leave_to_others(delivery).await;
                None
            }
            Ok(Err(_)) => {
                // Live, not due, held or settled: the row decides, not the hint.
                let _ = self.ports.dispatch.bus().ack(&receipts).await;
                None
            }
            Err(_) => {
                let [receipt] = receipts;
                // The store fails: the hint's delay doubles with each redelivery.
                let doublings = delivery.redeliveries.min(9);
                let pause = self.config.settle_pause.saturating_mul(1 << doublings);
                let again = [(receipt, pause)];
                let _ = self.ports.dispatch.bus().nack(&again).await;
                None
            }
        }
    }

    /// Only another process executes this event type.
    async fn leave_to_others(&self, delivery: &Delivery) {
        let again = [(delivery.receipt.clone(), self.config.sweep_grace)];
        // If this fails, the hint comes again after its visibility timeout.
        let _ = self.ports.dispatch.bus().nack(&again).await;
    }

    /// Begins the attempt. If the commit is ambiguous, the begin is this process's own if its
    /// attempt id reads back.
    async fn begin(&self, op_id: OpId) -> Result<Result<Operation, Refused>> {
        let request = BeginRequest {
            op_id,
            attempt_id: self.attempt_id(),
            worker: self.config.worker.clone(),
            lease: self.config.lease,
        };
        let attempts = [request.attempt_id];
        match self.commits.begin(request).await {
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                let read_back = || self.ports.inspect.begun(&attempts);
                let rows = self.persist(self.config.lease, read_back).await?;
                rows.into_iter().next().flatten().map(Ok).ok_or(error)
            }
            other => other,
        }
    }
}
