//! One operation, driven event by event.

use std::time::Duration;

use clinch_core::policy::{ProbeRules, Rules, Safety};
use clinch_core::protocol::{
    Action, Begin, Effects, Event, Inherited, LaneStand, ProbeAnswer, State, Status, Why,
};
use clinch_core::{Effect, Failure, Timestamp};

use crate::rows::{KEY_TTL, NOW, attempt_id, refusal, secs};

#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) state: State,
    pub(crate) rules: Rules,
    pub(crate) now: Timestamp,
}

/// The default rules with a probe and this safety.
pub(crate) fn rules(safety: Safety) -> Rules {
    Rules {
        safety,
        probe: Some(ProbeRules {
            not_found_final_after: Some(secs(20)),
            inconclusive_max: 3,
            ..ProbeRules::default()
        }),
        ..Rules::default()
    }
}

pub(crate) const KEYED: Safety = Safety::Keyed {
    ttl: KEY_TTL,
    remembers_refusals: true,
};

impl History {
    /// Accepted at [`NOW`], due at once, with a day until its deadline.
    pub(crate) fn accepted(rules: Rules) -> Self {
        let deadline = rules.deadline.map(|after| NOW + after);
        Self {
            state: State::accepted(NOW, deadline, Inherited::default()),
            rules,
            now: NOW,
        }
    }

    /// Accepted and begun.
    pub(crate) fn begun(rules: Rules) -> Self {
        let mut history = Self::accepted(rules);
        history.does(&begin(1));
        history
    }

    /// One call ended unknown and the operation is held, whatever its safety.
    pub(crate) fn held(mut rules: Rules) -> Self {
        let max_attempts = rules.retry.max_attempts;
        rules.retry.max_attempts = 1;
        let mut history = Self::begun(rules);
        history.after(secs(2)).does(&retry(1, Effect::Unknown));
        history.rules.retry.max_attempts = max_attempts;
        history
    }

    pub(crate) fn after(&mut self, time: Duration) -> &mut Self {
        self.now = self.now + time;
        self
    }

    /// Applies an event that must be allowed.
    pub(crate) fn does(&mut self, event: &Event) -> Effects {
        match self.state.apply(event, self.now, &self.rules) {
            Ok((next, effects)) => {
                self.state = next;
                effects
            }
            Err(refused) => panic!("{refused}: {:#?}", self.state),
        }
    }

    /// Applies an event that must be refused.
    pub(crate) fn refuses(&self, event: &Event, why: Why) {
        let refused = self.state.apply(event, self.now, &self.rules);
        assert_eq!(refused.map_err(|refused| refused.why), Err(why));
    }

    /// Waits until the next attempt is due and begins it.
    pub(crate) fn begins_again(&mut self) -> Effects {
        self.now = self.state.next_attempt_at.expect("it waits");
        let seed = self.state.fence + 1;
        self.does(&begin(seed.into()))
    }

    pub(crate) fn failed(&self) -> Failure {
        assert_eq!(self.state.status, Status::Failed);
        self.state.failure.clone().expect("FAILED says why")
    }
}

/// An unhindered begin; the seed makes its attempt id.
pub(crate) fn begin(seed: u128) -> Event {
    Event::Begin(Begin {
        attempt_id: attempt_id(seed),
        lease: secs(30),
        paused: false,
        lane: LaneStand::Unordered,
        intact: true,
    })
}

pub(crate) fn retry(fence: u64, effect: Effect) -> Event {
    retry_after(fence, effect, None)
}

pub(crate) fn retry_after(fence: u64, effect: Effect, after: Option<Duration>) -> Event {
    Event::Retry {
        fence,
        after,
        effect,
        reason: "busy".to_owned(),
    }
}

pub(crate) fn not_called(fence: u64, after: Option<Duration>) -> Event {
    Event::NotCalled {
        fence,
        after,
        reason: "breaker open".to_owned(),
    }
}

pub(crate) fn ok(fence: u64) -> Event {
    Event::Ok { fence: Some(fence) }
}

pub(crate) fn fail(fence: u64) -> Event {
    Event::Fail {
        fence,
        fail: refusal(),
    }
}

/// A probe asked at `asked_at` of a row with this fence.
pub(crate) fn probed(fence: u64, asked_at: Timestamp, answer: ProbeAnswer) -> Event {
    Event::Probed {
        fence,
        asked_at,
        answer,
    }
}

pub(crate) const SETTLED: [Action; 1] = [Action::Settle];
pub(crate) const DEAD: [Action; 2] = [Action::Settle, Action::DeadLetter];
