//! Concurrent callers, and how long they wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clinch_core::ports::{Clock, Domains};
use clinch_core::{
    BizKey, Command, Domain, Error, ErrorKind, EventType, IdemKey, Invalid, Keys, Payload, Result,
    TimeBudget,
};
use clinch_engine::{Orchestrator, Runtime};

use crate::micros;

/// Commands of one bulk submit.
const CHUNK: usize = 1_000;
/// How often the progress of a drain is read from the store.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// This number of operations, shared among the callers.
    Count(usize),
    /// As many operations as fit into this time.
    Span(Duration),
}

/// Callers of one engine. Cheap to clone.
#[derive(Clone)]
pub struct Load {
    clock: Arc<dyn Clock>,
    domain: Domain,
    event_type: EventType,
    /// Prefix of every key, so that two runs on one store share no key.
    prefix: Arc<str>,
    next: Arc<AtomicUsize>,
}

impl Load {
    /// Submits to this domain and event type.
    pub fn new(
        clock: Arc<dyn Clock>,
        domain: &str,
        event_type: &str,
        prefix: &str,
    ) -> Result<Self> {
        Ok(Self {
            clock,
            domain: Domain::new(domain).map_err(wrong)?,
            event_type: EventType::new(event_type).map_err(wrong)?,
            prefix: prefix.into(),
            next: Arc::default(),
        })
    }

    /// Number of operations created so far.
    pub fn made(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }

    /// The next command, with new keys.
    pub fn command(&self) -> Result<Command> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.numbered(number).map_err(wrong)
    }

    /// The command with this number, as it was or will be made.
    pub fn command_number(&self, number: usize) -> Result<Command> {
        self.numbered(number).map_err(wrong)
    }

    /// The next command, with its time of creation for [`LatencyProvider`](crate::LatencyProvider).
    pub fn stamped(&self) -> Result<Command> {
        let mut command = self.command()?;
        let payload = format!(r#"{{"at":{}}}"#, micros());
        command.payload = Payload::parse(&payload, 1_000).map_err(wrong)?;
        Ok(command)
    }

    /// The commands of one bulk submit.
    pub fn chunk(&self) -> Result<Vec<Command>> {
        let first = self.next.fetch_add(CHUNK, Ordering::Relaxed);
        let commands = (first..first + CHUNK).map(|number| self.numbered(number));
        commands.collect::<Result<_, _>>().map_err(wrong)
    }

    /// Commands in a chunk.
    pub const CHUNK: usize = CHUNK;

    fn numbered(&self, number: usize) -> Result<Command, Invalid> {
        let prefix = &self.prefix;
        let keys = Keys {
            domain: self.domain.clone(),
            event_type: self.event_type.clone(),
            biz_key: BizKey::new(format!("{prefix}order-{number}"))?,
            idem_key: IdemKey::new(format!("{prefix}key-{number}"))?,
        };
        let payload = format!(r#"{{"amount":{number},"currency":"EUR"}}"#);
        Ok(Command::new(keys, Payload::parse(&payload, 1_000)?))
    }

    /// Accepts per second: each caller accepts one operation at a time and waits for its own
    /// durable answer.
    pub async fn accept(
        &self,
        orchestrator: &Orchestrator,
        callers: usize,
        amount: Amount,
    ) -> Result<f64> {
        self.callers(orchestrator, callers, 1, amount).await
    }

    /// Accepts per second in bulk: each caller submits chunks.
    pub async fn accept_bulk(
        &self,
        orchestrator: &Orchestrator,
        callers: usize,
        amount: Amount,
    ) -> Result<f64> {
        self.callers(orchestrator, callers, CHUNK, amount).await
    }

    async fn callers(
        &self,
        orchestrator: &Orchestrator,
        callers: usize,
        each: usize,
        amount: Amount,
    ) -> Result<f64> {
        let from = self.clock.monotonic();
        let calls = match amount {
            Amount::Count(count) => count / each,
            Amount::Span(_) => usize::MAX,
        };
        let left = Arc::new(AtomicUsize::new(calls));
        let caller = |_| {
            let (this, orchestrator, left) = (self.clone(), orchestrator.clone(), left.clone());
            tokio::spawn(async move {
                let take = |left: usize| left.checked_sub(1);
                let mut accepted = 0;
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                    .is_ok()
                {
                    let commands = match each {
                        1 => vec![this.command()?],
                        _ => this.chunk()?,
                    };
                    for one in orchestrator.submit(commands).await? {
                        one?;
                        accepted += 1;
                    }
                    let spent = this.clock.monotonic().saturating_sub(from);
                    if matches!(amount, Amount::Span(span) if spent >= span) {
                        break;
                    }
                }
                Ok::<usize, Error>(accepted)
            })
        };
        let at_work: Vec<_> = (0..callers).map(caller).collect();
        let mut accepted = 0;
        for caller in at_work {
            accepted += caller.await.map_err(lost)??;
        }
        let taken = self.clock.monotonic().saturating_sub(from);
        Ok(accepted as f64 / taken.as_secs_f64())
    }

    /// Runs the engine until all created operations are completed or the time is up. Returns
    /// completions per second, and how many are missing.
    pub async fn drain(
        &self,
        engine: &Runtime,
        domains: &dyn Domains,
        backlog: usize,
        at_most: Duration,
    ) -> Result<(f64, usize)> {
        let before = self.completed(domains).await?;
        let running = tokio::spawn({
            let engine = engine.clone();
            async move { engine.run().await }
        });
        let drained = self.drained(domains, before, backlog, at_most).await;
        drop(running);
        drained
    }

    /// Waits until `backlog` more operations are completed than `before`, or the time is up.
    /// Returns completions per second, and how many are missing.
    pub async fn drained(
        &self,
        domains: &dyn Domains,
        before: usize,
        backlog: usize,
        at_most: Duration,
    ) -> Result<(f64, usize)> {
        let from = self.clock.monotonic();
        let (drained, taken) = loop {
            let drained = self.completed(domains).await?.saturating_sub(before);
            let taken = self.clock.monotonic().saturating_sub(from);
            if drained >= backlog || taken >= at_most {
                break (drained, taken);
            }
            self.clock.sleep(POLL_INTERVAL).await;
        };
        let rate = drained as f64 / taken.as_secs_f64();
        Ok((rate, backlog.saturating_sub(drained)))
    }

    /// Number of completed operations in the store.
    pub async fn completed(&self, domains: &dyn Domains) -> Result<usize> {
        let views = domains.domains().await?;
        let ours = views.iter().filter(|view| view.domain == self.domain);
        let completed: u64 = ours.map(|view| view.counts.completed).sum();
        Ok(usize::try_from(completed).unwrap_or(usize::MAX))
    }

    /// Milliseconds from submit to settled, one operation at a time, sorted. Queued operations are
    /// never begun with their accept. The engine must run.
    pub async fn latencies(
        &self,
        orchestrator: &Orchestrator,
        is_queued: bool,
        amount: Amount,
    ) -> Result<Vec<f64>> {
        let begun = self.clock.monotonic();
        let mut millis = Vec::new();
        loop {
            let spent = self.clock.monotonic().saturating_sub(begun);
            let is_enough = match amount {
                Amount::Count(count) => millis.len() >= count,
                Amount::Span(span) => spent >= span && !millis.is_empty(),
            };
            if is_enough {
                break;
            }
            let mut one = self.command()?;
            // An operation with `run_at` is never begun with its accept.
            one.options.run_at = is_queued.then(|| self.clock.now());
            let from = self.clock.monotonic();
            let handle = orchestrator.start(one, TimeBudget::DEFAULT).await?;
            let taken = self.clock.monotonic().saturating_sub(from);
            if !handle.completed_fast() {
                return Err(Error::new(ErrorKind::Internal, "an operation hangs"));
            }
            millis.push(taken.as_secs_f64() * 1_000.0);
        }
        millis.sort_by(f64::total_cmp);
        Ok(millis)
    }
}

/// The percentile of sorted values.
pub fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let at = (sorted.len() * percent / 100).min(sorted.len().checked_sub(1)?);
    sorted.get(at).copied()
}

fn wrong(invalid: Invalid) -> Error {
    Error::new(ErrorKind::Invalid, invalid.to_string())
}

fn lost(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, error.to_string())
}
