//! Carries hints to workers. The row is the truth; the message is only a hint.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Operation, Topic};
use crate::policy::Routes;
use crate::{AttemptId, Domain, EventType, LaneKey, OpId, Result, WorkerId};

/// Carries hints. A lost hint costs latency; a duplicate changes nothing.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Announces operations.
    ///
    /// - A hint for which `Ok` was returned is delivered at least once, unless the bus loses data.
    /// - A hint is not delivered before its delay has passed.
    async fn publish(&self, publications: &[Publication]) -> Result<()>;

    /// Takes deliveries, waiting up to `wait` for the first.
    ///
    /// - Returns as soon as there is one; a waiting call is woken, it does not poll.
    /// - With `wait` zero it never blocks.
    /// - At most `max`, only of the named topics.
    /// - Hints of one lane and topic come in the order of their publication.
    /// - A delivery that is neither acked nor extended is delivered again after the
    ///   visibility timeout, with its redelivery count raised.
    /// - A bus that is the store begins the attempts that it hands out, under the ids it was given.
    ///   Such a delivery needs no begin and is not redelivered: the Reaper owns it.
    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>>;

    /// Ends these deliveries: the work is done.
    ///
    /// - An acked delivery is never delivered again; acking twice has no further effect. A late ack
    ///   counts too: the work is done, whichever worker holds the delivery now.
    async fn ack(&self, receipts: &[Receipt]) -> Result<()>;

    /// Returns these deliveries undone: they are delivered again after the delay.
    ///
    /// - A nack of a delivery that the caller no longer holds does nothing.
    /// - A bus that is the store gives the attempt back, under the routes of its last
    ///   dequeue.
    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()>;

    /// The work continues: the visibility timeout starts again.
    ///
    /// - An extension of a delivery that the caller no longer holds does nothing.
    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()>;

    /// How many hints the bus holds, for metrics. `None`: the bus does not count, or it is the
    /// store.
    ///
    /// - Reads only.
    async fn depth(&self) -> Result<Option<Depth>> {
        Ok(None)
    }
}

/// The number of hints on a bus, over all domains and nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Hints that no worker has taken yet.
    pub waiting: u64,
    /// Hints on loan.
    pub on_loan: u64,
    /// Hints that are not due yet.
    pub delayed: u64,
    /// A node promotes the delayed hints when they are due.
    pub has_scheduler: bool,
}

/// "Look at this operation." Payloads stay in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hint {
    /// The operation.
    pub op_id: OpId,
    /// The domain of the operation.
    pub domain: Domain,
    /// Determines the destination, so that nothing is begun for a closed one.
    pub event_type: EventType,
    /// Partition for operations that are ordered by key.
    pub lane: Option<LaneKey>,
    /// Distinguishes the announcements of one operation, in traces.
    pub dispatch_no: u64,
    /// W3C `traceparent`.
    pub trace: Option<String>,
}

/// A hint to announce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// The topic to publish to.
    pub topic: Topic,
    /// The hint.
    pub hint: Hint,
    /// The hint is not delivered before this time has passed.
    pub delay: Duration,
}

impl Publication {
    /// On the domain-wide topic, which every reader of the domain reads.
    pub fn to_all(hint: Hint, delay: Duration) -> Self {
        let topic = Topic::of(&hint.domain);
        Self { topic, hint, delay }
    }
}

/// A worker's request for deliveries.
#[derive(Debug, Clone)]
pub struct Dequeue {
    /// Read these topics; empty means none. A bus that begins attempts looks only at their domains.
    pub topics: Vec<Topic>,
    /// Maximum number of deliveries: no more than the worker has permits.
    pub max: usize,
    /// How long to wait for the first delivery.
    pub wait: Duration,
    /// Visibility timeout, and lease where the bus begins attempts.
    pub visibility: Duration,
    /// The worker that asks.
    pub worker: WorkerId,
    /// Fresh ids for the attempts that a bus which is the store begins, one for each attempt; it
    /// begins no more than there are ids. After an ambiguous dequeue these ids show which attempts
    /// were begun.
    pub attempts: Vec<AttemptId>,
    /// The rules of every route, for a bus that begins attempts: a begin may end an operation and
    /// accept its successors.
    pub routes: Arc<Routes>,
    /// A bus that begins attempts hands out only operations with a route in `only`.
    pub only: Arc<Routes>,
}

impl Dequeue {
    /// The domains of its topics, each once.
    pub fn domains(&self) -> Vec<Domain> {
        let mut domains: Vec<_> = self.topics.iter().map(|one| one.domain().clone()).collect();
        domains.sort();
        domains.dedup();
        domains
    }
}

/// A hint on loan.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// The hint.
    pub hint: Hint,
    /// For ack, nack and extend.
    pub receipt: Receipt,
    /// How often the hint was delivered before.
    pub redeliveries: u32,
    /// The row after the begin, if the attempt was begun in the commit that made this delivery.
    pub begun: Option<Box<Operation>>,
}

/// Names one delivery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt(pub String);
