//! Cancel: no further call. A call that was made is not undone.

use super::apply::{Step, Why};
use super::event::Action;
use super::state::{HoldThen, Phase, State};
use crate::policy::Rules;
use crate::{Timestamp, code};

impl State {
    /// Without a running attempt: FAILED `canceled` at once if no effect is in doubt, otherwise
    /// held and probed. A live attempt is notified; its outcome decides, and an Ok wins.
    pub(super) fn cancel(&self, now: Timestamp, rules: &Rules) -> Step {
        let mut next = self.clone();
        if next.phase == Some(Phase::Live) {
            return self.note_cancel();
        }
        if next.cancel_requested {
            return Err(Why::CancelRequested);
        }
        next.cancel_requested = true;
        let then = next.hold_then(now, rules);
        if let Some(hold) = next.hold.as_mut() {
            if hold.then != HoldThen::Stay {
                hold.then = then;
            }
            return Ok((next, vec![Action::Hold]));
        }
        Ok(next.end_or_hold(code::CANCELED, "canceled", now, rules))
    }

    /// Sets only the flag: for a live attempt, and while an outcome waits to be finalized.
    pub(super) fn note_cancel(&self) -> Step {
        if self.cancel_requested {
            return Err(Why::CancelRequested);
        }
        let mut next = self.clone();
        next.cancel_requested = true;
        Ok((next, vec![Action::TellAttempt]))
    }
}
