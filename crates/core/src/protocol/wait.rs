//! The only way into waiting, and the ends that come before it.

use super::event::{Action, Effects};
use super::state::{Hold, HoldThen, Phase, State, Status, WriteAhead};
use crate::policy::{Rules, SplitMix};
use crate::{Effect, Failure, Timestamp, code};

impl State {
    /// Waits until `at`, unless something forbids a further attempt: cancel, deadline, all attempts
    /// used, poison, or a call that may not be repeated.
    pub(super) fn wait(
        mut self,
        at: Timestamp,
        reason: &str,
        now: Timestamp,
        rules: &Rules,
    ) -> (State, Effects) {
        let permitted = self.repeat_permit;
        if self.cancel_requested {
            return self.end_or_hold(code::CANCELED, "canceled", now, rules);
        }
        if self.is_overdue(now) {
            return self.end_or_hold(code::DEADLINE, reason, now, rules);
        }
        if self.attempts >= rules.retry.max_attempts && !permitted {
            return self.end_or_hold(code::RETRY_EXHAUSTED, reason, now, rules);
        }
        if self.deliveries >= rules.poison_at() && !permitted {
            return self.end_or_hold(code::POISON, reason, now, rules);
        }
        if !self.may_repeat(now, rules.lease, rules) {
            return self.end_or_hold(code::EFFECT_UNKNOWN, reason, now, rules);
        }
        self.rest(Phase::Waiting);
        self.next_attempt_at = Some(at);
        (self, vec![Action::Wait])
    }

    /// FAILED if no call can have been applied, otherwise held and probed.
    pub(super) fn end_or_hold(
        self,
        code: &str,
        message: &str,
        now: Timestamp,
        rules: &Rules,
    ) -> (State, Effects) {
        let failure = Failure::own(code, message, self.effect);
        match self.effect {
            Effect::None => self.fail(failure),
            Effect::Unknown => self.hold(failure, now, rules),
        }
    }

    /// Held: no further call until an answer or an operator. The first probe is due at once.
    /// Without a probe, the hold lasts until the last call's lease ends, so that its answer can
    /// still arrive.
    pub(super) fn hold(
        mut self,
        failure: Failure,
        now: Timestamp,
        rules: &Rules,
    ) -> (State, Effects) {
        let then = self.hold_then(now, rules);
        let probe_at = match (&rules.probe, then) {
            (Some(_), _) => Some(now),
            (None, HoldThen::Stay) => None,
            (None, _) => Some(self.call_deadline.unwrap_or(now).max(now)),
        };
        self.rest(Phase::Held);
        self.hold = Some(Hold {
            then,
            failure,
            probes: 0,
            probe_at,
        });
        (self, vec![Action::Hold])
    }

    pub(super) fn hold_then(&self, now: Timestamp, rules: &Rules) -> HoldThen {
        if !self.is_repeatable(now, rules.lease, rules) {
            HoldThen::Stay
        } else if self.cancel_requested {
            HoldThen::Cancel
        } else {
            HoldThen::FailUnknown
        }
    }

    pub(super) fn complete(mut self) -> (State, Effects) {
        self.end(Status::Completed);
        self.effect = Effect::None;
        self.failure = None;
        self.last_error = None;
        self.write_ahead = WriteAhead::Done;
        (self, vec![Action::Settle])
    }

    pub(super) fn fail(mut self, failure: Failure) -> (State, Effects) {
        let canceled = self.cancel_requested && failure.code == code::CANCELED;
        self.end(Status::Failed);
        self.effect = failure.effect;
        self.failure = Some(failure);
        if canceled {
            (self, vec![Action::Settle])
        } else {
            (self, vec![Action::Settle, Action::DeadLetter])
        }
    }

    /// IN_PROGRESS without a running attempt.
    pub(super) fn rest(&mut self, phase: Phase) {
        self.leave_phase();
        self.status = Status::InProgress;
        self.phase = Some(phase);
    }

    fn end(&mut self, status: Status) {
        self.leave_phase();
        self.status = status;
        self.phase = None;
        self.repeat_permit = false;
    }

    fn leave_phase(&mut self) {
        self.lease_until = None;
        self.next_attempt_at = None;
        self.refund = None;
        self.hold = None;
    }

    /// Seeded by the attempt and the probe count: different across operations, and the same on
    /// every replay.
    pub(super) fn jitter(&self) -> SplitMix {
        let (high, low) = self.attempt_id.map_or((0, 0), |id| id.0.as_u64_pair());
        let probes = self.hold.as_ref().map_or(0, |hold| hold.probes);
        SplitMix::new(high ^ low.rotate_left(32) ^ u64::from(probes))
    }

    /// An operator ends the delay: of a future `run_at`, of the backoff, or one that the provider
    /// asked for. Changes nothing that a guard of Begin reads but the time.
    pub(super) fn retry_now(&self, now: Timestamp) -> super::apply::Step {
        use super::apply::Why;
        match self.phase {
            Some(Phase::Live) => return Err(Why::Live),
            Some(Phase::Held) => return Err(Why::Held),
            _ => {}
        }
        if self.next_attempt_at.is_none_or(|at| at <= now) {
            return Err(Why::AlreadyDue);
        }
        if self.is_overdue(now) {
            return Err(Why::DeadlinePassed);
        }
        let mut next = self.clone();
        next.next_attempt_at = Some(now);
        Ok((next, vec![Action::Wait]))
    }

    /// The deadline passed while no attempt was running.
    pub(super) fn deadline_passed(&self, now: Timestamp, rules: &Rules) -> super::apply::Step {
        use super::apply::Why;
        match self.phase {
            Some(Phase::Live) => Err(Why::Live),
            Some(Phase::Held) => Err(Why::Held),
            _ if !self.is_overdue(now) => Err(Why::BeforeDeadline),
            _ => Ok(self
                .clone()
                .end_or_hold(code::DEADLINE, "the deadline passed", now, rules)),
        }
    }
}
