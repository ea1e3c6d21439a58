//! What the table tells of a row, and how its words are read.

use clinch_core::protocol::{Action, Effects, HoldThen, Phase, State, Status, Verdict, WriteAhead};
use clinch_core::{Effect, Timestamp};

use crate::cases::Scene;
use crate::rows::Route;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: Status,
    pub(crate) phase: Option<Phase>,
    pub(crate) effect: Effect,
    pub(crate) recorded: Option<Verdict>,
    pub(crate) cancel_requested: bool,
    /// Of FAILED, and of a recorded Fail.
    pub(crate) failure: Option<(String, Effect)>,
    pub(crate) hold: Option<(String, HoldThen)>,
    pub(crate) late_ok: bool,
    pub(crate) actions: Effects,
}

impl Seen {
    pub(crate) fn of(state: &State, actions: Effects) -> Self {
        Self {
            status: state.status,
            phase: state.phase,
            effect: state.effect,
            recorded: match state.write_ahead {
                WriteAhead::Pending { verdict, .. } => Some(verdict),
                WriteAhead::Empty | WriteAhead::Done => None,
            },
            cancel_requested: state.cancel_requested,
            failure: (state.failure.clone()).map(|failure| (failure.code, failure.effect)),
            hold: (state.hold.clone()).map(|hold| (hold.failure.code, hold.then)),
            late_ok: state.late_ok,
            actions,
        }
    }

    /// The row that `becomes` names, coming from `scene`.
    pub(crate) fn expected(becomes: &str, scene: &Scene, route: Route) -> Self {
        let mut words: Vec<&str> = becomes.split_whitespace().collect();
        let mut seen = Self::of(&scene.state, vec![]);
        words.retain(|word| match *word {
            "+cancel" => {
                seen.cancel_requested = true;
                false
            }
            "-cancel" => {
                seen.cancel_requested = false;
                false
            }
            _ => true,
        });
        match words[..] {
            ["live"] => seen.rest(Phase::Live, Action::Call),
            ["waiting"] => seen.rest(Phase::Waiting, Action::Wait),
            ["waiting", now] => {
                seen.rest(Phase::Waiting, Action::Wait);
                seen.effect = effect(now);
            }
            ["held", code] => {
                seen.rest(Phase::Held, Action::Hold);
                seen.effect = Effect::Unknown;
                seen.hold = Some((code.to_owned(), route.hold_then(seen.cancel_requested)));
            }
            ["recorded", "ok"] => seen.record(Verdict::Ok),
            ["recorded", "fail"] => {
                seen.record(Verdict::Fail);
                seen.failure = Some(("http_402".to_owned(), Effect::None));
            }
            ["COMPLETED"] => {
                seen.end(Status::Completed, Effect::None);
                seen.actions = vec![Action::Settle];
            }
            ["FAILED", code, told] => {
                seen.end(Status::Failed, effect(told));
                seen.failure = Some((code.to_owned(), effect(told)));
                seen.actions = match code {
                    "canceled" => vec![Action::Settle],
                    _ => vec![Action::Settle, Action::DeadLetter],
                };
            }
            ["same"] => {}
            ["due"] => seen.actions = vec![Action::Wait],
            ["same", now] => seen.effect = effect(now),
            ["flagged"] => seen.actions = vec![Action::TellAttempt],
            ["alert"] => {
                seen.late_ok = true;
                seen.actions = vec![Action::AlertLateOk];
            }
            _ => panic!("{becomes:?} is not among the words of the table"),
        }
        seen
    }

    fn rest(&mut self, phase: Phase, action: Action) {
        self.status = Status::InProgress;
        self.phase = Some(phase);
        self.hold = None;
        self.actions = vec![action];
    }

    fn record(&mut self, verdict: Verdict) {
        self.recorded = Some(verdict);
        self.actions = vec![Action::Record];
    }

    fn end(&mut self, status: Status, effect: Effect) {
        self.status = status;
        self.phase = None;
        self.effect = effect;
        self.recorded = None;
        self.failure = None;
        self.hold = None;
    }
}

fn effect(word: &str) -> Effect {
    match word {
        "none" => Effect::None,
        "unknown" => Effect::Unknown,
        _ => panic!("{word:?} is no effect"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    fence: u64,
    attempts: u32,
    maybe_calls: u32,
    deliveries: u32,
    call_deadline: Option<Timestamp>,
    version: u64,
}

impl Counts {
    pub(crate) fn of(state: &State) -> Self {
        Self {
            fence: state.fence,
            attempts: state.attempts,
            maybe_calls: state.maybe_calls,
            deliveries: state.deliveries,
            call_deadline: state.call_deadline,
            version: state.version,
        }
    }

    /// The counters after a change that the table describes with `words`.
    pub(crate) fn expected(words: &str, scene: &Scene) -> Self {
        let mut counts = Self::of(&scene.state);
        counts.version += 1;
        for word in words.split_whitespace() {
            match word {
                "fence+1" => counts.fence += 1,
                "fence+1048576" => counts.fence += 1_048_576,
                "attempts+1" => counts.attempts += 1,
                "attempts-1" => counts.attempts -= 1,
                "maybe+1" => counts.maybe_calls += 1,
                "maybe+2" => counts.maybe_calls += 2,
                "deliveries+1" => counts.deliveries += 1,
                "deliveries=0" => counts.deliveries = 0,
                "ended" => counts.call_deadline = scene.state.lease_until,
                "ended=now+lease" => {
                    counts.call_deadline = Some(scene.now + scene.rules.lease);
                }
                _ => panic!("{word:?} is not among the counts of the table"),
            }
        }
        counts
    }
}
