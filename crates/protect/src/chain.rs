//! The guards around a call, in the order of CORE-10:
//! timeout → circuit breaker → bulkhead → rate limiter → executor → hedge.
//!
//! Why in this order:
//!
//! - The **timeout** is outermost because everything inside may wait. A bulkhead outside of it
//!   would let an attempt wait past its own limit.
//! - The **breaker** comes before everything that is used up. After the bulkhead, a call that
//!   is not going to be made would first queue for a slot, behind the hanging calls that
//!   opened the breaker. After the rate limiter, calls that never leave would spend the cap,
//!   and nothing would be left for the trial.
//! - The **bulkhead** comes before the rate limiter because a slot is given back and a
//!   reservation is not: the other way round, every call that finds no slot wastes one of the
//!   calls that the provider allows.
//! - The **hedge** is innermost in time, the last to be asked, and yet goes around again: each
//!   further copy starts at the breaker with permits of its own. A copy that rode on the
//!   permits of the first would be a call that nobody counts: the cap would be broken by
//!   exactly the calls that come when a provider is slow.
//!
//! What the end of a call means for the breaker: an answer, a refusal included, counts as a
//! success; a timeout or a retry counts as a failure, unless the executor says that only this call
//! failed ([`Retry::own`]); Clinch's own rejections do not count. A
//! provider's `Retry-After` for a call that was not applied does not count either, but pauses the
//! limiter for every caller.

mod copy;
mod join;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use clinch_core::policy::RetryRules;
use clinch_core::ports::{
    Admitted, Attempt, CircuitState, Clock, Executor, Fallback, Gate, HedgePolicy, Reason,
    Rejection, Room, TimeoutPolicy, Unguarded,
};
use clinch_core::{Applied, Envelope, Outcome, Retry, Success};
use futures_util::stream::{FuturesUnordered, StreamExt};

use self::copy::Race;
use self::join::join;
use crate::{Destination, Timeouts};

/// The reason of an attempt that exceeded its timeout.
const TIMEOUT: &str = "timeout";

/// An executor inside its guards.
///
/// - A call that no guard let through is `NotCalled`, with the reason's name ([`Reason::as_str`])
///   and when to try again.
/// - A call that was cut off is `Unknown`, never `NotCalled`, and counts against the provider.
/// - With a hedge the first Ok wins and the other copies are dropped; without an Ok the outcomes of
///   all copies that were sent are joined, and if one is unknown, the joined outcome is unknown.
/// - A panic of the executor reaches the caller; the permits are given back and the call counts as
///   failed.
///
/// Dropping a running `execute` cuts its calls off: they count as failed too.
pub struct Chain {
    inner: Arc<dyn Executor>,
    destination: Arc<Destination>,
    timeouts: Arc<dyn TimeoutPolicy>,
    hedge: Arc<dyn HedgePolicy>,
    fallback: Option<Arc<dyn Fallback>>,
    max_attempts: u32,
    retry_after_max: Duration,
    clock: Arc<dyn Clock>,
}

impl Chain {
    /// `inner` inside the guards of `destination`: default timeouts, no hedge, no fallback.
    pub fn new(
        inner: Arc<dyn Executor>,
        destination: Arc<Destination>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            inner,
            destination,
            timeouts: Arc::new(Timeouts::default()),
            hedge: Arc::new(Unguarded),
            fallback: None,
            max_attempts: RetryRules::WORKER.max_attempts,
            retry_after_max: RetryRules::WORKER.retry_after_max,
            clock,
        }
    }

    /// Sets the timeouts.
    #[must_use]
    pub fn timeouts(self, timeouts: Arc<dyn TimeoutPolicy>) -> Self {
        Self { timeouts, ..self }
    }

    /// Sends further copies of slow calls. The route's rules must allow it, and their `copies` must
    /// be at least as high.
    #[must_use]
    pub fn hedge(self, hedge: Arc<dyn HedgePolicy>) -> Self {
        Self { hedge, ..self }
    }

    /// Sets a substitute answer for when the provider gives none: instead of a retry after the last
    /// attempt or while the breaker is open, never instead of a refusal. For natural routes only;
    /// nothing here can check that.
    #[must_use]
    pub fn fallback(self, fallback: Arc<dyn Fallback>) -> Self {
        let fallback = Some(fallback);
        Self { fallback, ..self }
    }

    /// Sets the route's number of attempts and its cap on `Retry-After`.
    #[must_use]
    pub fn retries(self, rules: &RetryRules) -> Self {
        Self {
            max_attempts: rules.max_attempts,
            retry_after_max: rules.retry_after_max,
            ..self
        }
    }

    /// The gate that the engine checks before it claims.
    ///
    /// With a fallback there is room even while the breaker is open: an operation must be claimed
    /// to be answered.
    pub fn gate(&self) -> Arc<dyn Gate> {
        Self::gate_of(Arc::clone(&self.destination), self.fallback.is_some())
    }

    /// The gate of a route that another process executes, as that process sees it.
    pub fn gate_of(destination: Arc<Destination>, has_fallback: bool) -> Arc<dyn Gate> {
        match has_fallback {
            true => Arc::new(WithFallback {
                name: format!("{} with fallback", destination.destination()),
                destination,
            }),
            false => destination,
        }
    }

    /// Sends copies until one is Ok or all copies that were sent have ended.
    async fn copies(&self, envelope: &Envelope, attempt: &Arc<dyn Attempt>) -> Outcome {
        let race = Race::default();
        let mut total = self.clock.sleep(self.timeouts.total());
        let mut running = FuturesUnordered::new();
        running.push(self.copy(envelope, attempt, &race));
        let mut sent = 1;
        let mut next = Box::pin(self.next_copy(sent, &race));
        let mut ended: Option<Outcome> = None;
        loop {
            tokio::select! {
                biased;
                Some(outcome) = running.next() => {
                    if let Outcome::Ok(_) = outcome {
                        race.win();
                        return outcome;
                    }
                    let pause = self.pause_of(&outcome);
                    let joined = join(ended.take(), outcome);
                    if let Some(lasting) = pause {
                        // The limiter may be a remote server, and the answer is known already.
                        tokio::select! {
                            biased;
                            () = self.destination.pause(lasting) => {}
                            () = &mut total => return race.cut(Some(joined)),
                        }
                    }
                    if running.is_empty() {
                        return joined;
                    }
                    ended = Some(joined);
                }
                () = &mut total => {
                    let cut = race.cut(ended);
                    if race.is_running() {
                        self.destination.note_call(Some((TIMEOUT, "no answer within total_timeout")));
                    }
                    return cut;
                }
                // A failed copy is not followed by another: the engine decides about retries.
                () = &mut next, if ended.is_none() => {
                    running.push(self.copy(envelope, attempt, &race));
                    sent += 1;
                    next.set(self.next_copy(sent, &race));
                }
            }
        }
    }

    /// Returns when a further copy is to be sent. If none is, it never returns.
    ///
    /// The time counts from the call of the last copy, not from its wait for permits: a hedge
    /// against this process's own queue would only make the queue longer. A copy that got no permit
    /// is not followed by another.
    async fn next_copy(&self, sent: u32, race: &Race) {
        race.begun().await;
        match self.hedge.after(sent) {
            Some(after) if sent < self.hedge.copies_max() => self.clock.sleep(after).await,
            _ => std::future::pending().await,
        }
    }

    fn pause_of(&self, outcome: &Outcome) -> Option<Duration> {
        match outcome {
            Outcome::Retry(retry) if retry.pauses => {
                retry.after.map(|after| after.min(self.retry_after_max))
            }
            _ => None,
        }
    }

    /// The fallback's answer, if there is one and it may be used.
    fn fall_back(&self, envelope: &Envelope, outcome: &Outcome) -> Option<Success> {
        let fallback = self.fallback.as_ref()?;
        let Outcome::Retry(retry) = outcome else {
            return None;
        };
        let is_last = envelope.attempt >= self.max_attempts;
        let is_open = || self.destination.breaker().state() == CircuitState::Open;
        let is_due = match retry.applied {
            // The other rejections cost no attempt and end soon.
            Applied::NotCalled => retry.reason == Reason::BreakerOpen.as_str(),
            Applied::No | Applied::Unknown => is_last || is_open(),
        };
        if !is_due {
            return None;
        }
        fallback.fallback(&envelope.command).map(Success::new)
    }
}

#[async_trait]
impl Executor for Chain {
    async fn execute(&self, envelope: &Envelope, attempt: &Arc<dyn Attempt>) -> Outcome {
        let outcome = self.copies(envelope, attempt).await;
        // An attempt that is canceled or has lost its lease must not answer.
        let may_answer = attempt.refusal().is_none();
        let fallback = self.fall_back(envelope, &outcome).filter(|_| may_answer);
        match fallback {
            Some(success) => Outcome::Ok(success),
            None => outcome,
        }
    }
}

/// The gate of a route with a fallback: an open breaker does not close it.
struct WithFallback {
    destination: Arc<Destination>,
    /// A name of its own: the engine claims for this gate while it does not for the plain
    /// destination.
    name: String,
}

#[async_trait]
impl Gate for WithFallback {
    fn destination(&self) -> &str {
        &self.name
    }

    fn room(&self) -> Room {
        if self.destination.breaker().room().is_closed() {
            return Room::UNBOUNDED;
        }
        self.destination.room()
    }

    fn retry_delay(&self) -> Duration {
        self.destination.retry_delay()
    }

    async fn admit(&self) -> Result<Admitted, Rejection> {
        self.destination.admit().await
    }

    async fn pause(&self, lasting: Duration) {
        self.destination.pause(lasting).await;
    }

    fn first_call(&self) {
        self.destination.first_call();
    }
}

fn timed_out(was_called: bool) -> Outcome {
    Outcome::Retry(if was_called {
        Retry::unknown(TIMEOUT)
    } else {
        Retry::not_called(TIMEOUT)
    })
}
