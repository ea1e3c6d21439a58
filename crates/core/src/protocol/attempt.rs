//! Reports of a live attempt other than an answer, and the loss of an attempt.

use std::time::Duration;

use super::apply::{Step, Why};
use super::event::Effects;
use super::state::{Phase, Refund, State};
use crate::policy::{ReaperStrategy, Rules};
use crate::{AttemptId, Effect, Failure, ProcessId, Timestamp, code, safe_code};

impl State {
    pub(super) fn current(&self, fence: u64) -> Result<State, Why> {
        if self.is_current(fence) {
            Ok(self.clone())
        } else {
            Err(Why::StaleFence)
        }
    }

    /// A lease only grows: a late extension does not shorten it.
    pub(super) fn extend(&self, fence: u64, until: Timestamp) -> Step {
        let mut next = self.current(fence)?;
        next.lease_until = next.lease_until.max(Some(until));
        Ok((next, vec![]))
    }

    pub(super) fn checkpoint(&self, fence: u64) -> Step {
        Ok((self.current(fence)?, vec![]))
    }

    /// Restores the state before the begin, except the fence.
    pub(super) fn not_called(
        &self,
        fence: u64,
        after: Option<Duration>,
        reason: &str,
        now: Timestamp,
        rules: &Rules,
    ) -> Step {
        let mut next = self.current(fence)?;
        if let Some(refund) = next.refund {
            next.repeat_permit = refund.repeat_permit;
            next.first_call_at = refund.first_call_at;
        }
        next.attempts -= 1;
        next.erred(code::NOT_CALLED, reason, now);
        let delay = rules.retry.delay(next.attempts, after, &mut next.jitter());
        Ok(next.wait(now + delay, reason, now, rules))
    }

    pub(super) fn retry(
        &self,
        fence: u64,
        after: Option<Duration>,
        effect: Effect,
        reason: &str,
        now: Timestamp,
        rules: &Rules,
    ) -> Step {
        let mut next = self.current(fence)?.ended(now);
        next.deliveries = 0;
        if effect == Effect::Unknown {
            next.effect = Effect::Unknown;
            next.maybe_calls += rules.copies;
        }
        let code = safe_code(reason).unwrap_or(match effect {
            Effect::None => code::NOT_APPLIED,
            Effect::Unknown => code::EFFECT_UNKNOWN,
        });
        next.erred(code, reason, now);
        let delay = rules.retry.delay(next.attempts, after, &mut next.jitter());
        Ok(next.wait(now + delay, reason, now, rules))
    }

    pub(super) fn attempt_lost(&self, now: Timestamp, rules: &Rules) -> Step {
        if self.phase != Some(Phase::Live) {
            return Err(Why::NotLive);
        }
        if self.lease_until.is_some_and(|until| now < until) {
            return Err(Why::LeaseRunning);
        }
        Ok(self.lost(now, rules))
    }

    /// Does not wait for the end of the lease, and does not rely on the death either: a process
    /// that was taken for dead may still call until its lease ends, and `call_deadline` says so.
    pub(super) fn process_died(&self, process: ProcessId, now: Timestamp, rules: &Rules) -> Step {
        if self.phase != Some(Phase::Live) {
            return Err(Why::NotLive);
        }
        if self.attempt_id.and_then(AttemptId::process) != Some(process) {
            return Err(Why::OtherProcess);
        }
        Ok(self.lost(now, rules))
    }

    /// The same as Retry{unknown}, unless the Reaper is configured to probe or to fail.
    fn lost(&self, now: Timestamp, rules: &Rules) -> (State, Effects) {
        let mut next = self.clone().ended(now);
        next.deliveries += 1;
        next.maybe_calls += rules.copies;
        next.effect = Effect::Unknown;
        let message = "the worker was lost during a call";
        next.erred(code::ATTEMPT_LOST, message, now);
        match rules.reaper {
            ReaperStrategy::Auto | ReaperStrategy::Retry => {
                let delay = rules.retry.delay(next.attempts, None, &mut next.jitter());
                next.wait(now + delay, message, now, rules)
            }
            ReaperStrategy::Probe => next.end_or_hold(code::ATTEMPT_LOST, message, now, rules),
            ReaperStrategy::Fail => {
                let failure = Failure::own(code::ATTEMPT_LOST, message, Effect::Unknown);
                next.fail(failure)
            }
        }
    }

    /// Records the latest moment at which the attempt's call can have been sent: the end of its
    /// lease, or `now` if the attempt reported later than that. An attempt whose lease has ended
    /// is still current until the Reaper reaches the row.
    pub(super) fn ended(mut self, now: Timestamp) -> State {
        self.call_deadline = self.call_deadline.max(self.lease_until).max(Some(now));
        self
    }

    /// The backup cannot know what was called since. So this assumes several calls, the first at
    /// the earliest possible moment, and makes every fence since the backup stale.
    pub(super) fn restored(&self, earliest_call: Timestamp, now: Timestamp, rules: &Rules) -> Step {
        /// More begins than an operation can have between a backup and its restore.
        const FENCES_SINCE_BACKUP_MAX: u64 = 1 << 20;
        let mut next = self.clone();
        next.effect = Effect::Unknown;
        next.maybe_calls += 2;
        next.first_call_at = next.first_call_at.or(Some(earliest_call));
        next.call_deadline = next.call_deadline.max(Some(now + rules.lease));
        // A permit in the backup may have been used since.
        next.repeat_permit = false;
        next.refund = next.refund.map(|_| Refund {
            repeat_permit: false,
            first_call_at: next.first_call_at,
        });
        next.fence += FENCES_SINCE_BACKUP_MAX;
        Ok((next, vec![]))
    }
}
