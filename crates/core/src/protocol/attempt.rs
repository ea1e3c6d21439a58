//! What a live attempt reports short of an answer, and what is said when it reports nothing.

use std::time::Duration;

use super::apply::{Step, Why};
use super::state::{Phase, Refund, State};
use crate::policy::{ReaperStrategy, Rules};
use crate::{Effect, Failure, Timestamp, code};

impl State {
    pub(super) fn current(&self, fence: u64) -> Result<State, Why> {
        if self.is_current(fence) {
            Ok(self.clone())
        } else {
            Err(Why::StaleFence)
        }
    }

    /// A lease only grows: an extension that arrives late does not shorten it.
    pub(super) fn extend(&self, fence: u64, until: Timestamp) -> Step {
        let mut next = self.current(fence)?;
        next.lease_until = next.lease_until.max(Some(until));
        Ok((next, vec![]))
    }

    pub(super) fn checkpoint(&self, fence: u64) -> Step {
        Ok((self.current(fence)?, vec![]))
    }

    /// As if the begin had not been, but for the fence.
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
        let delay = rules.retry.delay(next.attempts, after, &mut next.jitter());
        Ok(next.wait(now + delay, reason, now, rules))
    }

    /// Exactly Retry{unknown}, unless the Reaper is told to probe or to fail.
    pub(super) fn attempt_lost(&self, now: Timestamp, rules: &Rules) -> Step {
        if self.phase != Some(Phase::Live) {
            return Err(Why::NotLive);
        }
        if self.lease_until.is_some_and(|until| now < until) {
            return Err(Why::LeaseRunning);
        }
        let mut next = self.clone().ended(now);
        next.deliveries += 1;
        next.maybe_calls += rules.copies;
        next.effect = Effect::Unknown;
        let message = "the worker was lost during a call";
        match rules.reaper {
            ReaperStrategy::Auto | ReaperStrategy::Retry => {
                let delay = rules.retry.delay(next.attempts, None, &mut next.jitter());
                Ok(next.wait(now + delay, message, now, rules))
            }
            ReaperStrategy::Probe => Ok(next.end_or_hold(code::ATTEMPT_LOST, message, now, rules)),
            ReaperStrategy::Fail => {
                let failure = Failure::own(code::ATTEMPT_LOST, message, Effect::Unknown);
                Ok(next.fail(failure))
            }
        }
    }

    /// How late its call can have been sent: its lease, or now if it came back later than
    /// that. An expired lease that the Reaper has not reached is still current.
    pub(super) fn ended(mut self, now: Timestamp) -> State {
        self.call_deadline = self.call_deadline.max(self.lease_until).max(Some(now));
        self
    }

    /// The backup cannot know what was called since: assume several calls, the first at the
    /// earliest moment possible, and let no fence given out since be current again.
    pub(super) fn restored(&self, earliest_call: Timestamp, now: Timestamp, rules: &Rules) -> Step {
        /// More begins than any operation makes between a backup and its restore.
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
