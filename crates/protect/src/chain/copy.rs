//! One copy of a call: permits, the wait for the rate limiter, the call, the verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use clinch_core::ports::{Attempt, Permit, Reason, Rejection, Verdict};
use clinch_core::{Applied, Envelope, Outcome, Retry};
use tokio::sync::Notify;

use super::join::join;
use super::{Chain, TIMEOUT, timed_out};

/// State that the copies of one attempt share.
#[derive(Default)]
pub(super) struct Race {
    calls: AtomicU32,
    running: AtomicU32,
    is_won: AtomicBool,
    begun: Notify,
}

impl Race {
    /// From now on a copy that is dropped has lost the race; it has not failed.
    pub(super) fn win(&self) {
        self.is_won.store(true, Ordering::Release);
    }

    /// Returns once for every copy whose call begins.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }

    /// The total timeout has passed. Only a call that is running is unknown.
    pub(super) fn cut(&self, ended: Option<Outcome>) -> Outcome {
        join(ended, timed_out(self.is_running()))
    }

    /// Whether a call is running.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }
}

/// The breaker's permit while a copy holds it.
///
/// If it is dropped before the call, it reports nothing. If it is dropped during the call, the call
/// counts as failed, unless another copy has won.
struct Pass<'a> {
    permit: Option<Box<dyn Permit>>,
    is_called: bool,
    race: &'a Race,
}

impl<'a> Pass<'a> {
    fn new(permit: Box<dyn Permit>, race: &'a Race) -> Self {
        Self {
            permit: Some(permit),
            is_called: false,
            race,
        }
    }

    /// Marks the beginning of the call. True: it is the first call of this attempt.
    fn begin(&mut self) -> bool {
        self.is_called = true;
        self.race.running.fetch_add(1, Ordering::AcqRel);
        let is_first = self.race.calls.fetch_add(1, Ordering::AcqRel) == 0;
        self.race.begun.notify_one();
        is_first
    }

    fn end(mut self, verdict: Verdict) {
        if let Some(permit) = self.permit.take() {
            permit.report(verdict);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_called {
            self.race.running.fetch_sub(1, Ordering::AcqRel);
        }
        let Some(permit) = self.permit.take() else {
            return;
        };
        if !self.is_called || self.race.is_won.load(Ordering::Acquire) {
            permit.report(Verdict::Ignored);
        }
    }
}

impl Chain {
    pub(super) async fn copy(
        &self,
        envelope: &Envelope,
        attempt: &Arc<dyn Attempt>,
        race: &Race,
    ) -> Outcome {
        self.destination.catch_up().await;
        let mut pass = match self.destination.breaker().try_acquire() {
            Ok(permit) => Pass::new(permit, race),
            Err(rejection) => return refused(rejection),
        };
        let slot = match self.destination.bulkhead().acquire().await {
            Ok(slot) => slot,
            Err(rejection) => return refused(rejection),
        };
        if let Err(rejection) = self.turn().await {
            return refused(rejection);
        }
        attempt.admitted();
        // Getting the permits may have taken time, and a further copy starts late anyway.
        if let Some(reason) = attempt.refusal() {
            return Outcome::Retry(Retry::not_called(reason));
        }
        if pass.begin() && envelope.attempt == 1 {
            self.destination.budget().deposit();
        }
        let began = self.clock.monotonic();
        let outcome = tokio::select! {
            biased;
            outcome = self.inner.execute(envelope, attempt) => outcome,
            () = self.clock.sleep(self.timeouts.per_attempt()) => timed_out(true),
        };
        let took = self.clock.monotonic().saturating_sub(began);
        let verdict = verdict(&outcome, took);
        pass.end(verdict);
        slot.report(verdict);
        self.note(&outcome, verdict);
        outcome
    }

    /// Notes the end of a call for operators: only the short reason of a failed one.
    fn note(&self, outcome: &Outcome, verdict: Verdict) {
        let reason = match (outcome, verdict) {
            (_, Verdict::Ignored) => return,
            (Outcome::Retry(retry), Verdict::Failed { .. }) => {
                let code = match retry.applied {
                    _ if retry.reason == TIMEOUT => TIMEOUT,
                    Applied::Unknown => "effect_unknown",
                    Applied::No | Applied::NotCalled => "not_applied",
                };
                Some((code, retry.reason.as_str()))
            }
            _ => None,
        };
        self.destination.note_call(reason);
    }

    /// Waits for the moment that the limiter assigned.
    async fn turn(&self) -> Result<(), Rejection> {
        let limiter = self.destination.limiter();
        let wait = limiter.reserve().await?;
        if wait.is_zero() {
            return Ok(());
        }
        self.clock.sleep(wait).await;
        // A pause that began during the wait also holds for a call that has its moment already.
        let room = limiter.room();
        match room.again_in {
            Some(after) if room.is_closed() && room.reason == Some(Reason::Paused) => {
                Err(Rejection {
                    reason: Reason::Paused,
                    after,
                })
            }
            _ => Ok(()),
        }
    }
}

fn refused(rejection: Rejection) -> Outcome {
    Outcome::Retry(Retry::not_called(rejection.reason.as_str()).after(rejection.after))
}

/// What the outcome says about the provider's health.
fn verdict(outcome: &Outcome, took: Duration) -> Verdict {
    match outcome {
        Outcome::Ok(_) | Outcome::Fail(_) => Verdict::Answered { took },
        Outcome::Retry(retry) => match retry.applied {
            Applied::NotCalled => Verdict::Ignored,
            // The provider answered "later": to every caller, or about this call only.
            Applied::No if retry.pauses => Verdict::Ignored,
            Applied::No if retry.after.is_some() => Verdict::Answered { took },
            // The provider is well; only this call failed.
            Applied::No | Applied::Unknown if retry.own => Verdict::Answered { took },
            Applied::No | Applied::Unknown => Verdict::Failed { took },
        },
    }
}
