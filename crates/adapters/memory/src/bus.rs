//! A bus of hints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Bus, Clock, Delivery, Dequeue, Hint, Publication, Receipt, Topic};
use clinch_core::{LaneKey, Result};
use tokio::sync::watch;

use clinch_stored::wait_for;

/// Hints in memory: at least once, in order within a lane, with delays and a visibility
/// timeout. A crash loses them all, and the sweeper makes up for it.
#[derive(Clone)]
pub struct MemoryBus {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    messages: Mutex<Messages>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Messages {
    by_no: BTreeMap<u64, Message>,
    last_no: u64,
}

struct Message {
    topic: Topic,
    hint: Hint,
    /// Monotonic time from which on it can be delivered.
    visible_at: Duration,
    deliveries: u32,
    /// Tells the current delivery from earlier ones.
    receipt: Option<Receipt>,
}

impl MemoryBus {
    /// An empty bus.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            clock,
            messages: Mutex::default(),
            changes: watch::Sender::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Messages that were neither acked nor lost.
    pub fn len(&self) -> usize {
        self.lock().by_no.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Loses every message, as a crash would.
    pub fn lose_all(&self) {
        self.lock().by_no.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        let messages = self.shared.messages.lock();
        messages.unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    fn changed(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    /// Runs `edit` on the message whose current delivery is `receipt`.
    fn of(&self, receipt: &Receipt, edit: impl FnOnce(&mut Message)) {
        let mut messages = self.lock();
        let no = message_no(receipt);
        let message = no.and_then(|no| messages.by_no.get_mut(&no));
        if let Some(message) = message.filter(|m| m.receipt.as_ref() == Some(receipt)) {
            edit(message);
        }
    }
}

impl Messages {
    fn take(&mut self, dequeue: &Dequeue, now: Duration) -> Vec<Delivery> {
        let mut taken = Vec::new();
        let mut lanes_ahead: BTreeSet<(Topic, LaneKey)> = BTreeSet::new();
        let all = self.by_no.iter_mut();
        let asked = all.filter(|(_, message)| dequeue.topics.contains(&message.topic));
        for (no, message) in asked {
            if taken.len() == dequeue.max {
                break;
            }
            let lane = message.hint.lane.map(|lane| (message.topic.clone(), lane));
            let behind = lane.as_ref().is_some_and(|lane| lanes_ahead.contains(lane));
            if behind || message.visible_at > now {
                // Nothing of a lane overtakes: not what is delayed, not what is on loan.
                lanes_ahead.extend(lane);
                continue;
            }
            message.deliveries += 1;
            message.visible_at = now.saturating_add(dequeue.visibility);
            let receipt = Receipt(format!("{no}/{}", message.deliveries));
            message.receipt = Some(receipt.clone());
            taken.push(Delivery {
                hint: message.hint.clone(),
                receipt,
                redeliveries: message.deliveries - 1,
                begun: None,
            });
        }
        taken
    }

    /// When the next message becomes visible that is not yet.
    fn next_visible(&self, dequeue: &Dequeue, now: Duration) -> Option<Duration> {
        let ours = self.by_no.values();
        let ours = ours.filter(|message| dequeue.topics.contains(&message.topic));
        let later = ours
            .map(|message| message.visible_at)
            .filter(|at| *at > now);
        later.min()
    }
}

#[async_trait]
impl Bus for MemoryBus {
    async fn publish(&self, publications: &[Publication]) -> Result<()> {
        let now = self.now();
        let mut messages = self.lock();
        for publication in publications {
            messages.last_no += 1;
            let no = messages.last_no;
            let message = Message {
                topic: publication.topic.clone(),
                hint: publication.hint.clone(),
                visible_at: now.saturating_add(publication.delay),
                deliveries: 0,
                receipt: None,
            };
            messages.by_no.insert(no, message);
        }
        drop(messages);
        self.changed();
        Ok(())
    }

    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>> {
        let mut changes = self.shared.changes.subscribe();
        let until = self.now().saturating_add(dequeue.wait);
        loop {
            let seen = *changes.borrow_and_update();
            let now = self.now();
            let deliveries = self.lock().take(dequeue, now);
            let left = until.saturating_sub(now);
            if !deliveries.is_empty() || left.is_zero() {
                return Ok(deliveries);
            }
            let next = self.lock().next_visible(dequeue, now);
            let next = next.map(|at| at.saturating_sub(now));
            let nap = next.map_or(left, |next| next.min(left));
            let clock = self.shared.clock.as_ref();
            wait_for(&mut changes, clock, nap, |count| *count > seen).await;
        }
    }

    async fn ack(&self, receipts: &[Receipt]) -> Result<()> {
        let mut messages = self.lock();
        for receipt in receipts {
            // A late ack is an ack: the work is done, whoever holds the loan now.
            if let Some(no) = message_no(receipt) {
                messages.by_no.remove(&no);
            }
        }
        drop(messages);
        self.changed();
        Ok(())
    }

    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()> {
        let now = self.now();
        for (receipt, delay) in receipts {
            self.of(receipt, |message| {
                message.visible_at = now.saturating_add(*delay);
                message.receipt = None;
            });
        }
        self.changed();
        Ok(())
    }

    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()> {
        let now = self.now();
        for receipt in receipts {
            self.of(receipt, |message| {
                message.visible_at = now.saturating_add(visibility);
            });
        }
        Ok(())
    }
}

fn message_no(receipt: &Receipt) -> Option<u64> {
    receipt.0.split_once('/')?.0.parse().ok()
}

impl fmt::Debug for MemoryBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBus")
            .field("messages", &self.len())
            .finish()
    }
}
