//! Begin: the only way to a call.

use super::apply::{Step, Why};
use super::event::{Action, Begin, LaneStand};
use super::state::{Phase, Refund, State, Status};
use crate::policy::Rules;
use crate::{Timestamp, code};

impl State {
    /// Guards that need no decision refuse without a change. If all of them pass, the begin allows
    /// a call, or finds that no call may be made.
    pub(super) fn begin(&self, begin: &Begin, now: Timestamp, rules: &Rules) -> Step {
        match self.phase {
            Some(Phase::Live) => return Err(Why::Live),
            Some(Phase::Held) => return Err(Why::Held),
            _ => {}
        }
        if self.next_attempt_at.is_some_and(|at| now < at) {
            return Err(Why::NotDue);
        }
        if begin.paused {
            return Err(Why::Paused);
        }
        if self.is_overdue(now) {
            return Err(Why::DeadlinePassed);
        }
        if self.cancel_requested {
            return Err(Why::CancelRequested);
        }
        if begin.lane == LaneStand::Behind {
            return Err(Why::LaneBusy);
        }
        if !begin.intact {
            let message = "the stored payload does not match its content hash";
            return Ok(self
                .clone()
                .end_or_hold(code::INTEGRITY, message, now, rules));
        }
        if self.deliveries >= rules.poison_at() {
            let message = "too many attempts in a row lost their worker";
            return Ok(self.clone().end_or_hold(code::POISON, message, now, rules));
        }
        if !self.may_repeat(now, begin.lease, rules) {
            let message = "a call may have been applied and may not be repeated";
            return Ok(self
                .clone()
                .end_or_hold(code::EFFECT_UNKNOWN, message, now, rules));
        }
        Ok((self.clone().live(begin, now), vec![Action::Call]))
    }

    fn live(mut self, begin: &Begin, now: Timestamp) -> State {
        self.refund = Some(Refund {
            repeat_permit: self.repeat_permit,
            first_call_at: self.first_call_at,
        });
        self.status = Status::InProgress;
        self.phase = Some(Phase::Live);
        self.fence += 1;
        self.attempts += 1;
        self.attempt_id = Some(begin.attempt_id);
        self.lease_until = Some(now + begin.lease);
        self.next_attempt_at = None;
        self.first_call_at = self.first_call_at.or(Some(now));
        self.repeat_permit = false;
        self
    }
}
