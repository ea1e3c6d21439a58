//! Hints on their way to workers. The row is the truth, the message is a hint.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Operation, Topic};
use crate::policy::Routes;
use crate::{AttemptId, Domain, EventType, LaneKey, OpId, Result, WorkerId};

/// Carries hints. Losing one costs latency, a duplicate costs a no-op.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Announces operations.
    ///
    /// - What `Ok` was returned for is delivered at least once, unless the bus loses data.
    /// - Not before its delay has passed.
    async fn publish(&self, publications: &[Publication]) -> Result<()>;

    /// Takes deliveries, waiting up to `wait` for the first.
    ///
    /// - Returns as soon as there is one; a waiting call is woken, it does not poll.
    /// - With `wait` zero it never blocks.
    /// - At most `max`, only of the named topics.
    /// - Hints of one lane and topic come in the order of their publication.
    /// - A delivery that is neither acked nor extended is delivered again after the
    ///   visibility timeout, with its redelivery count raised.
    /// - A bus that is the store begins the attempts it hands out, under the ids it was given; such a delivery needs no
    ///   begin and is not redelivered: the Reaper owns it.
    async fn dequeue(&self, dequeue: &Dequeue) -> Result<Vec<Delivery>>;

    /// Done with these.
    ///
    /// - An acked delivery is never delivered again; acking twice is acking once. A late ack
    ///   is an ack: the work is done, whoever has the delivery now.
    async fn ack(&self, receipts: &[Receipt]) -> Result<()>;

    /// Not done: deliver again after the delay.
    ///
    /// - A nack of a delivery that is no longer ours does nothing.
    /// - A bus that is the store gives the attempt back, under the routes of its last
    ///   dequeue.
    async fn nack(&self, receipts: &[(Receipt, Duration)]) -> Result<()>;

    /// Still working: the visibility timeout starts anew.
    ///
    /// - An extension of a delivery that is no longer ours does nothing.
    async fn extend(&self, receipts: &[Receipt], visibility: Duration) -> Result<()>;

    /// How much it holds, for metrics; `None`: it does not count, or the store knows better.
    ///
    /// - Reads only.
    async fn depth(&self) -> Result<Option<Depth>> {
        Ok(None)
    }
}

/// What a bus holds, over all domains and nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Depth {
    /// Hints that nobody has taken yet.
    pub waiting: u64,
    /// Hints on loan.
    pub on_loan: u64,
    /// Hints that are not due yet.
    pub delayed: u64,
    /// Some node looks after the delayed ones.
    pub has_scheduler: bool,
}

/// "Look at this operation." Payloads stay in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hint {
    /// The operation.
    pub op_id: OpId,
    /// The topic.
    pub domain: Domain,
    /// Tells which destination it is for, so that nothing is begun for one that is closed.
    pub event_type: EventType,
    /// Partition for operations that are ordered by key.
    pub lane: Option<LaneKey>,
    /// Tells announcements of one operation apart, in traces.
    pub dispatch_no: u64,
    /// W3C `traceparent`.
    pub trace: Option<String>,
}

/// A hint to announce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Where.
    pub topic: Topic,
    /// The hint.
    pub hint: Hint,
    /// Not delivered before.
    pub delay: Duration,
}

impl Publication {
    /// Where every reader of its domain looks.
    pub fn to_all(hint: Hint, delay: Duration) -> Self {
        let topic = Topic::of(&hint.domain);
        Self { topic, hint, delay }
    }
}

/// What a worker asks for.
#[derive(Debug, Clone)]
pub struct Dequeue {
    /// Of these topics; empty means none. A bus that begins attempts looks at their domains.
    pub topics: Vec<Topic>,
    /// At most so many: no more than the worker has permits for.
    pub max: usize,
    /// How long to wait for the first.
    pub wait: Duration,
    /// Visibility timeout, and lease where the bus begins attempts.
    pub visibility: Duration,
    /// Who asks.
    pub worker: WorkerId,
    /// Fresh ids for the attempts that a bus which is the store begins, one each; it begins
    /// no more than there are. After an ambiguous dequeue they tell what was begun.
    pub attempts: Vec<AttemptId>,
    /// The rules of every route, for a bus that begins attempts: a begin may end an operation
    /// and accept what follows it.
    pub routes: Arc<Routes>,
    /// A bus that begins attempts hands out only what has a route here.
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
    /// How often it was delivered before.
    pub redeliveries: u32,
    /// The attempt has begun in the same commit: the row after the begin.
    pub begun: Option<Box<Operation>>,
}

/// Names one delivery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Receipt(pub String);
