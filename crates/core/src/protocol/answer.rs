//! A provider's answer: first recorded, then final. An Ok is a fact, whichever process reports it.

use super::apply::{Step, Why};
use super::event::{Action, Event, ProbeAnswer};
use super::state::{State, Status, Verdict, WriteAhead};
use crate::policy::{Rules, Safety};
use crate::{Effect, Fail, Failure, Timestamp};

impl Event {
    /// Whether the event says that the provider applied the call.
    pub(super) fn is_yes(&self) -> bool {
        matches!(
            self,
            Event::Ok { .. }
                | Event::Probed {
                    answer: ProbeAnswer::Succeeded,
                    ..
                }
        )
    }
}

impl State {
    /// An Ok from the current attempt is written ahead. Any other Ok (stale fence, spill file,
    /// probe, a second one) settles in one commit: it claims no ownership of the row. A FAILED
    /// operation keeps its state and is marked, so that it is not redriven.
    pub(super) fn say_yes(&self, event: &Event) -> Step {
        match self.status {
            Status::Completed => return Err(Why::Terminal),
            Status::Failed => {
                let mut next = self.clone();
                next.late_ok = true;
                return Ok((next, vec![Action::AlertLateOk]));
            }
            Status::Pending | Status::InProgress => {}
        }
        let current = match event {
            Event::Ok { fence: Some(fence) } => self.is_current(*fence),
            _ => false,
        };
        if current && self.write_ahead == WriteAhead::Empty {
            let mut next = self.clone();
            next.deliveries = 0;
            next.maybe_calls += 1;
            next.write_ahead = WriteAhead::Pending {
                verdict: Verdict::Ok,
                fence: self.fence,
            };
            return Ok((next, vec![Action::Record]));
        }
        Ok(self.clone().complete())
    }

    /// A refusal settles the operation only if no earlier call is in doubt, or if the provider
    /// answers by key and not by call.
    pub(super) fn refused(&self, fence: u64, fail: &Fail, now: Timestamp, rules: &Rules) -> Step {
        let mut next = self.current(fence)?.ended(now);
        next.deliveries = 0;
        next.maybe_calls += 1;
        if self.effect == Effect::Unknown && !self.is_verdict_on_key(now, rules) {
            let failure = Failure::from_fail(fail.clone(), Effect::Unknown);
            next.erred(&fail.code, &fail.message, now);
            return Ok(next.hold(failure, now, rules));
        }
        next.failure = Some(Failure::from_fail(fail.clone(), Effect::None));
        next.last_error = None;
        next.write_ahead = WriteAhead::Pending {
            verdict: Verdict::Fail,
            fence,
        };
        Ok((next, vec![Action::Record]))
    }

    fn is_verdict_on_key(&self, now: Timestamp, rules: &Rules) -> bool {
        match rules.safety {
            Safety::Keyed {
                ttl,
                remembers_refusals,
            } => remembers_refusals && self.first_call_at.is_some_and(|first| now < first + ttl),
            Safety::Natural | Safety::Unsafe => false,
        }
    }

    pub(super) fn finalize(&self) -> Step {
        let WriteAhead::Pending { verdict, fence } = self.write_ahead else {
            return Err(Why::NothingRecorded);
        };
        if verdict == Verdict::Ok {
            return Ok(self.clone().complete());
        }
        if fence != self.fence {
            return Err(Why::RecordedFenceStale);
        }
        match self.failure.clone() {
            Some(failure) => {
                let (mut next, effects) = self.clone().fail(failure);
                next.write_ahead = WriteAhead::Done;
                Ok((next, effects))
            }
            None => Err(Why::NothingRecorded),
        }
    }
}
