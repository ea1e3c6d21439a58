//! The ends of a hold: a probe's answer, or an operator.

use super::apply::{Step, Why};
use super::event::{Action, ProbeAnswer, Resolution};
use super::state::{HoldThen, Phase, State};
use crate::policy::Rules;
use crate::{Effect, Fail, Failure, Timestamp, code};

impl State {
    /// A probe that was sent before a new attempt began says nothing about that attempt, so the
    /// fence must be unchanged since.
    pub(super) fn probed(
        &self,
        fence: u64,
        asked_at: Timestamp,
        answer: &ProbeAnswer,
        now: Timestamp,
        rules: &Rules,
    ) -> Step {
        self.must_be_held()?;
        if fence != self.fence {
            return Err(Why::StaleFence);
        }
        match answer {
            ProbeAnswer::Failed(fail) => Ok(self.clone().found_failed(fail, None)),
            ProbeAnswer::NotFound if self.not_found_is_final(asked_at, rules) => {
                let mut next = self.clone();
                next.effect = Effect::None;
                next.deliveries = 0;
                let delay = rules.retry.delay(next.attempts, None, &mut next.jitter());
                Ok(next.wait(
                    now + delay,
                    "the provider does not know the call",
                    now,
                    rules,
                ))
            }
            // `Succeeded` is an Ok and was handled before.
            ProbeAnswer::NotFound | ProbeAnswer::Unknown | ProbeAnswer::Succeeded => {
                let message = match answer {
                    ProbeAnswer::NotFound => "the provider does not know the call yet",
                    _ => "the provider cannot say what became of the call",
                };
                let mut next = self.clone();
                next.erred(code::PROBE_INCONCLUSIVE, message, now);
                Ok(next.inconclusive(now, rules))
            }
        }
    }

    fn must_be_held(&self) -> Result<(), Why> {
        if self.phase == Some(Phase::Held) {
            Ok(())
        } else {
            Err(Why::NotHeld)
        }
    }

    /// Whether the probe was sent so late that the provider must know the call: after the last
    /// moment at which a call can have been sent, plus `not_found_final_after`.
    fn not_found_is_final(&self, asked_at: Timestamp, rules: &Rules) -> bool {
        self.final_not_found_from(rules)
            .is_some_and(|from| asked_at > from)
    }

    fn final_not_found_from(&self, rules: &Rules) -> Option<Timestamp> {
        let after = rules.probe.as_ref()?.not_found_final_after?;
        Some(self.call_deadline? + after)
    }

    fn found_failed(self, fail: &Fail, person_says: Option<Effect>) -> (State, super::Effects) {
        let one_call = self.maybe_calls <= 1;
        let effect = person_says.unwrap_or(if one_call {
            Effect::None
        } else {
            Effect::Unknown
        });
        self.fail(Failure::from_fail(fail.clone(), effect))
    }

    fn inconclusive(mut self, now: Timestamp, rules: &Rules) -> (State, super::Effects) {
        let mut rng = self.jitter();
        let earliest_final = self.final_not_found_from(rules);
        let Some(hold) = self.hold.as_mut() else {
            return (self, vec![]);
        };
        hold.probes += 1;
        let more = rules
            .probe
            .as_ref()
            .filter(|probe| hold.probes < probe.inconclusive_max);
        if let Some(probe) = more {
            let next = now + probe.backoff.delay(hold.probes, &mut rng);
            // A "not found" before that moment would prove nothing.
            let useful = earliest_final.map(|from| from + std::time::Duration::from_millis(1));
            hold.probe_at = Some(useful.map_or(next, |useful| next.max(useful)));
            return (self, vec![Action::Hold]);
        }
        match hold.then {
            HoldThen::Stay => {
                hold.probe_at = None;
                (self, vec![Action::Hold])
            }
            HoldThen::FailUnknown => {
                let failure = Failure {
                    effect: Effect::Unknown,
                    ..hold.failure.clone()
                };
                self.fail(failure)
            }
            HoldThen::Cancel => {
                self.fail(Failure::own(code::CANCELED, "canceled", Effect::Unknown))
            }
        }
    }

    pub(super) fn resolve(&self, resolution: &Resolution, now: Timestamp, rules: &Rules) -> Step {
        self.must_be_held()?;
        let mut next = self.clone();
        match resolution {
            Resolution::Completed => Ok(next.complete()),
            Resolution::Failed { fail, effect } => {
                // An operator who gives up without naming the effect has not said that there is
                // none.
                Ok(next.found_failed(fail, Some(effect.unwrap_or(Effect::Unknown))))
            }
            Resolution::Retry => {
                next.rest(Phase::Waiting);
                next.next_attempt_at = Some(now);
                next.repeat_permit = true;
                next.cancel_requested = false;
                // The operator has decided: neither lost attempts nor the deadline may undo that.
                next.deliveries = 0;
                next.deadline = rules.deadline.map(|after| now + after);
                Ok((next, vec![Action::Wait]))
            }
        }
    }
}
