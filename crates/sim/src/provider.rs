//! The system that Clinch does not control: it answers, refuses, forgets keys, or applies a call
//! and loses the answer. Its own books are the truth that everything is checked against.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::ports::{Attempt, Executor, Probe, ProbeVerdict};
use clinch_core::{Command, Envelope, Fail, OpId, Outcome, Payload, Retry, Success};
use tokio::sync::oneshot;

use crate::world::{Host, OUTSIDE, World};

/// A request reaches the provider within this time after it was sent, or never.
pub(crate) const NETWORK_MS_MAX: u64 = 5_000;

/// A provider's books show a call at the latest this long after it was made: less than its routes
/// declare.
const BOOKS_LAG_MS_MAX: u64 = 40_000;

/// How a provider treats the keys of its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// Remembers keys for this long.
    Keyed {
        /// From the first call.
        ttl: Duration,
        /// Remembers refusals too.
        refusals: bool,
    },
    /// Every call applies; repeating is harmless.
    Natural,
    /// Every call applies, and repeating is harmful.
    Unsafe,
}

/// What the provider knows about one outbound key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// When the call was applied, each time.
    pub(crate) applied: Vec<Duration>,
    /// The refusal, if the call was ever refused.
    pub(crate) refused: Option<Fail>,
    first_seen: Option<Duration>,
    /// When the books show the result of the last call.
    shown_at: Duration,
    /// Calls whose Ok reached the calling node.
    pub(crate) answered: Vec<Sent>,
    /// Calls that left a machine.
    pub(crate) sent: Vec<Sent>,
}

/// A call that left a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) op_id: OpId,
    pub(crate) fence: u64,
    pub(crate) at: Duration,
    pub(crate) from: Host,
}

/// Every provider of a world.
#[derive(Clone)]
pub(crate) struct Providers {
    world: World,
    records: Arc<Mutex<BTreeMap<String, Record>>>,
    trouble: Arc<Mutex<ProviderFaults>>,
}

/// How often the providers fail, in 1,000 calls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProviderFaults {
    pub(crate) lost_requests: u64,
    pub(crate) lost_answers: u64,
    pub(crate) refusals: u64,
    pub(crate) clean_retries: u64,
    pub(crate) slow: u64,
    pub(crate) panics: u64,
    pub(crate) not_called: u64,
    pub(crate) doubts: u64,
}

#[derive(Debug, Clone)]
enum Reply {
    Applied,
    Refused(Fail),
    Busy(Option<Duration>),
}

impl Providers {
    pub(crate) fn new(world: World) -> Self {
        Self {
            world,
            records: Arc::default(),
            trouble: Arc::default(),
        }
    }

    pub(crate) fn set_trouble(&self, trouble: ProviderFaults) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn trouble(&self) -> ProviderFaults {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn records(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self, key: &str) -> Record {
        self.records().get(key).cloned().unwrap_or_default()
    }

    /// A request arrives.
    fn receive(&self, key: &str, nature: Nature) -> Reply {
        let trouble = self.trouble();
        let (now, world) = (self.world.now(), &self.world);
        let busy = world.chance(trouble.clean_retries);
        let wait = world.chance(500).then(|| world.delay(20_000));
        let refuse = world.chance(trouble.refusals);
        let shown_at = now + world.delay(BOOKS_LAG_MS_MAX);
        let mut records = self.records();
        let record = records.entry(key.to_owned()).or_default();
        if let Nature::Keyed { ttl, refusals } = nature {
            let first = *record.first_seen.get_or_insert(now);
            let remembered = now < first + ttl;
            if remembered && !record.applied.is_empty() {
                return Reply::Applied;
            }
            if let (true, true, Some(fail)) = (remembered, refusals, &record.refused) {
                return Reply::Refused(fail.clone());
            }
            if !remembered {
                record.first_seen = Some(now);
            }
        }
        if busy {
            return Reply::Busy(wait);
        }
        record.shown_at = shown_at;
        if refuse {
            let fail = Fail::new("insufficient_funds", "refused (simulated)");
            record.refused = Some(fail.clone());
            return Reply::Refused(fail);
        }
        record.applied.push(now);
        drop(records);
        world.note(format_args!("provider applies {key}"));
        Reply::Applied
    }

    /// Sends a request over the network. It arrives whether or not the sender survives.
    fn send(&self, key: String, nature: Nature) -> oneshot::Receiver<Reply> {
        let (answer, reply) = oneshot::channel();
        let (providers, trouble) = (self.clone(), self.trouble());
        let task = async move {
            let world = providers.world.clone();
            world.sleep(world.delay(NETWORK_MS_MAX)).await;
            if world.chance(trouble.lost_requests) {
                return;
            }
            let reply = providers.receive(&key, nature);
            let slow = world.chance(trouble.slow);
            world
                .sleep(world.delay(if slow { 90_000 } else { 500 }))
                .await;
            if !world.chance(trouble.lost_answers) {
                // The sender may be gone.
                let _ = answer.send(reply);
            }
        };
        self.world.spawn(OUTSIDE, Box::pin(task));
        reply
    }
}

/// The executor and the probe of one route at one node.
pub(crate) struct Caller {
    pub(crate) providers: Providers,
    pub(crate) nature: Nature,
    pub(crate) host: Host,
    pub(crate) spawn: Option<fn(&Envelope) -> Vec<Command>>,
}

/// How long an executor waits for its answer: longer than a lease, so that leases must be extended.
const TIMEOUT: Duration = Duration::from_secs(60);

#[async_trait]
impl Executor for Caller {
    async fn execute(&self, envelope: &Envelope, attempt: &Arc<dyn Attempt>) -> Outcome {
        let world = self.providers.world.clone();
        let trouble = self.providers.trouble();
        let dawdles = world.chance(120);
        world
            .sleep(world.delay(if dawdles { 25_000 } else { 50 }))
            .await;
        if world.chance(trouble.not_called) || attempt.is_canceled() {
            return Outcome::Retry(Retry::not_called("the pool is empty (simulated)"));
        }
        if world.chance(100) {
            // A refused checkpoint is no reason to stop: the answer decides.
            let _ = attempt.checkpoint(b"halfway").await;
        }
        if !attempt.holds_lease() {
            return Outcome::Retry(Retry::not_called("the lease ended"));
        }
        let sent = self.log_sent(envelope);
        let reply = self
            .providers
            .send(envelope.outbound_key.to_string(), self.nature);
        let panics = world.chance(trouble.panics);
        let answer = in_time(reply, world.sleep(TIMEOUT)).await;
        if panics {
            // Like a bug of a handler; the panic hook stays quiet.
            std::panic::resume_unwind(Box::new("a handler panics (simulated)"));
        }
        match answer {
            Some(Reply::Applied) => {
                self.log_answered(envelope, sent);
                Outcome::Ok(self.success(envelope))
            }
            Some(Reply::Refused(fail)) => Outcome::Fail(fail),
            Some(Reply::Busy(after)) => {
                let retry = Retry::not_applied("busy (simulated)");
                Outcome::Retry(match after {
                    Some(after) => retry.after(after),
                    None => retry,
                })
            }
            None => Outcome::Retry(Retry::unknown("no answer in time (simulated)")),
        }
    }
}

impl Caller {
    fn log_answered(&self, envelope: &Envelope, sent: Sent) {
        let at = self.providers.world.now();
        let key = envelope.outbound_key.to_string();
        let mut records = self.providers.records();
        records
            .entry(key)
            .or_default()
            .answered
            .push(Sent { at, ..sent });
    }

    fn log_sent(&self, envelope: &Envelope) -> Sent {
        let sent = Sent {
            op_id: envelope.op_id,
            fence: envelope.fence,
            at: self.providers.world.now(),
            from: self.host,
        };
        let key = envelope.outbound_key.to_string();
        self.providers
            .records()
            .entry(key)
            .or_default()
            .sent
            .push(sent);
        let (op, fence, host) = (envelope.op_id, envelope.fence, self.host);
        let world = &self.providers.world;
        world.note(format_args!(
            "node {host} calls for {op} with fence {fence}"
        ));
        sent
    }

    fn success(&self, envelope: &Envelope) -> Success {
        Success {
            provider_txn_id: Some(envelope.outbound_key.to_string()),
            payload: Payload::null(),
            spawn: self.spawn.map(|spawn| spawn(envelope)).unwrap_or_default(),
        }
    }
}

#[async_trait]
impl Probe for Caller {
    async fn probe(&self, envelope: &Envelope) -> ProbeVerdict {
        let world = self.providers.world.clone();
        world.sleep(world.delay(1_000)).await;
        let record = self.providers.record(envelope.outbound_key.as_str());
        let shown = world.now() >= record.shown_at;
        world.sleep(world.delay(3_000)).await;
        if !shown {
            return ProbeVerdict::NotFound;
        }
        if world.chance(self.providers.trouble().doubts) {
            return ProbeVerdict::Unknown;
        }
        match record.refused {
            _ if !record.applied.is_empty() => ProbeVerdict::Succeeded(self.success(envelope)),
            Some(fail) => ProbeVerdict::Failed(fail),
            None => ProbeVerdict::NotFound,
        }
    }
}

/// The reply, or `None` if it does not come in time. A lost reply counts as silence: a caller
/// cannot tell the difference.
async fn in_time(reply: oneshot::Receiver<Reply>, timeout: crate::world::Sleep) -> Option<Reply> {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Poll;
    let (mut reply, mut timeout) = (pin!(reply), pin!(timeout));
    let mut silent = false;
    std::future::poll_fn(move |cx| {
        if !silent {
            match reply.as_mut().poll(cx) {
                Poll::Ready(Ok(reply)) => return Poll::Ready(Some(reply)),
                Poll::Ready(Err(_)) => silent = true,
                Poll::Pending => {}
            }
        }
        timeout.as_mut().poll(cx).map(|()| None)
    })
    .await
}
