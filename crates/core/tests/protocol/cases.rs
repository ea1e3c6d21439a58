//! Every event, under every circumstance that the table tells apart.

use clinch_core::policy::ReaperStrategy;
use clinch_core::protocol::{
    Begin, Event, HoldThen, LaneStand, Phase, ProbeAnswer, Resolution, State, WriteAhead,
};
use clinch_core::{AttemptId, Effect, ProcessId, Timestamp};

use crate::rows::{NOW, Route, Row, attempt_id, named, refusal, secs};
use clinch_core::policy::Rules;

named!(Case {
    BeginReady = "begin.ready",
    BeginPermit = "begin.permit",
    BeginEarly = "begin.early",
    BeginPaused = "begin.paused",
    BeginOverdue = "begin.overdue",
    BeginCanceled = "begin.canceled",
    BeginBehind = "begin.behind",
    BeginBroken = "begin.broken",
    BeginPoison = "begin.poison",
    Extend = "extend.current",
    ExtendExpired = "extend.expired",
    ExtendStale = "extend.stale",
    Checkpoint = "checkpoint.current",
    CheckpointExpired = "checkpoint.expired",
    CheckpointStale = "checkpoint.stale",
    NotCalled = "not_called.current",
    NotCalledPermit = "not_called.permit",
    NotCalledOverdue = "not_called.overdue",
    NotCalledCanceled = "not_called.canceled",
    NotCalledStale = "not_called.stale",
    Ok = "ok.current",
    OkCanceled = "ok.canceled",
    OkExpired = "ok.expired",
    OkStale = "ok.stale",
    OkSpilled = "ok.spilled",
    Fail = "fail.current",
    FailCanceled = "fail.canceled",
    FailExpired = "fail.expired",
    FailStale = "fail.stale",
    RetryNo = "retry_no.current",
    RetryNoUsedUp = "retry_no.used_up",
    RetryNoOverdue = "retry_no.overdue",
    RetryNoCanceled = "retry_no.canceled",
    RetryNoStale = "retry_no.stale",
    RetryUnknown = "retry_unknown.current",
    RetryUnknownUsedUp = "retry_unknown.used_up",
    RetryUnknownOverdue = "retry_unknown.overdue",
    RetryUnknownCanceled = "retry_unknown.canceled",
    RetryUnknownStale = "retry_unknown.stale",
    LostAuto = "lost.auto",
    LostRetry = "lost.retry",
    LostProbe = "lost.probe",
    LostFail = "lost.fail",
    LostRunning = "lost.running",
    LostUsedUp = "lost.used_up",
    LostOverdue = "lost.overdue",
    LostCanceled = "lost.canceled",
    LostPoison = "lost.poison",
    DiedAuto = "died.auto",
    DiedRetry = "died.retry",
    DiedProbe = "died.probe",
    DiedFail = "died.fail",
    DiedOther = "died.other_process",
    DiedUsedUp = "died.used_up",
    DiedOverdue = "died.overdue",
    DiedCanceled = "died.canceled",
    DiedPoison = "died.poison",
    DeadlinePassed = "deadline.passed",
    DeadlineBefore = "deadline.before",
    DeadlineNone = "deadline.none",
    Finalize = "finalize.current",
    FinalizeCanceled = "finalize.canceled",
    FinalizeStale = "finalize.stale",
    ProbedSucceeded = "probed_succeeded.same",
    ProbedSucceededStale = "probed_succeeded.stale",
    ProbedFailedOnce = "probed_failed.one_call",
    ProbedFailedTwice = "probed_failed.two_calls",
    ProbedFailedStale = "probed_failed.stale",
    NotFoundFinal = "not_found.final",
    NotFoundUsedUp = "not_found.used_up",
    NotFoundOverdue = "not_found.overdue",
    NotFoundCanceled = "not_found.canceled",
    NotFoundEarly = "not_found.early",
    NotFoundNever = "not_found.never_final",
    NotFoundLast = "not_found.early_last",
    NotFoundStale = "not_found.stale",
    ProbedUnknown = "probed_unknown.more",
    ProbedUnknownLast = "probed_unknown.last",
    ProbedUnknownCanceled = "probed_unknown.last_canceled",
    ProbedUnknownUnprobed = "probed_unknown.no_probe",
    ProbedUnknownStale = "probed_unknown.stale",
    ResolveCompleted = "resolve_completed",
    ResolveFailedOnce = "resolve_failed.one_call",
    ResolveFailedTwice = "resolve_failed.two_calls",
    ResolveFailedSaysNone = "resolve_failed.says_none",
    ResolveFailedSaysUnknown = "resolve_failed.says_unknown",
    ResolveRetry = "resolve_retry.wanted",
    ResolveRetryCanceled = "resolve_retry.canceled",
    CancelFirst = "cancel.first",
    CancelAgain = "cancel.again",
    RetryNowEarly = "retry_now.early",
    RetryNowDue = "retry_now.due",
    RetryNowOverdue = "retry_now.overdue",
    Restored = "restored",
});

/// A row, its route's rules and the time, in the circumstances of one case.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) state: State,
    pub(crate) rules: Rules,
    pub(crate) now: Timestamp,
}

impl Case {
    pub(crate) fn scene(self, row: Row, route: Route) -> (Scene, Event) {
        let mut scene = Scene {
            state: row.state(route),
            rules: route.rules(),
            now: NOW,
        };
        self.set(&mut scene, route);
        let event = self.event(&scene.state);
        (scene, event)
    }

    /// What the name says after the dot.
    fn set(self, scene: &mut Scene, route: Route) {
        let circumstance = self.name().split_once('.').map_or("", |(_, after)| after);
        let max = scene.rules.retry.max_attempts;
        match circumstance {
            "early" if matches!(self, Self::BeginEarly | Self::RetryNowEarly) => {
                scene.now = NOW - secs(1);
            }
            "overdue" if self == Self::RetryNowOverdue => {
                scene.state.deadline = Some(NOW - secs(1));
                scene.now = NOW - secs(1);
            }
            "overdue" | "passed" => scene.state.deadline = Some(NOW),
            "none" => scene.state.deadline = None,
            "used_up" => scene.use_attempts(max),
            "expired" => scene.end_lease(),
            "poison" if self == Self::BeginPoison => {
                scene.state.deliveries = scene.rules.poison_at();
            }
            "poison" => scene.state.deliveries = scene.rules.poison_at() - 1,
            "canceled" | "again" => scene.cancel(route),
            "last_canceled" => {
                scene.cancel(route);
                scene.probe_until_last();
            }
            "last" | "early_last" => scene.probe_until_last(),
            "no_probe" => scene.rules.probe = None,
            "never_final" => {
                if let Some(probe) = scene.rules.probe.as_mut() {
                    probe.not_found_final_after = None;
                }
            }
            "two_calls" | "says_none" => scene.state.maybe_calls = 2,
            "one_call" | "says_unknown" => scene.state.maybe_calls = 1,
            _ => {}
        }
        match self {
            Self::BeginPermit => scene.state.repeat_permit = true,
            Self::NotCalledPermit => {
                scene.use_attempts(max + 1);
                if let Some(refund) = scene.state.refund.as_mut() {
                    refund.repeat_permit = true;
                }
            }
            Self::LostRunning => {}
            Self::LostProbe => scene.reap(ReaperStrategy::Probe),
            Self::LostFail => scene.reap(ReaperStrategy::Fail),
            Self::LostRetry => scene.reap(ReaperStrategy::Retry),
            _ if self.name().starts_with("lost.") => scene.reap(ReaperStrategy::Auto),
            Self::DiedProbe => scene.rules.reaper = ReaperStrategy::Probe,
            Self::DiedFail => scene.rules.reaper = ReaperStrategy::Fail,
            Self::DiedRetry => scene.rules.reaper = ReaperStrategy::Retry,
            Self::FinalizeStale => scene.age_record(),
            _ => {}
        }
    }

    fn event(self, state: &State) -> Event {
        let current = state.fence;
        let stale = state.fence.checked_sub(1).unwrap_or(9);
        let fence = if self.name().ends_with(".stale") {
            stale
        } else {
            current
        };
        let reason = "a reason".to_owned();
        let after = None;
        match self.name().split('.').next().unwrap_or_default() {
            "begin" => Event::Begin(self.begin()),
            "extend" => Event::Extend {
                fence,
                lease: secs(30),
            },
            "checkpoint" => Event::Checkpoint { fence },
            "not_called" => Event::NotCalled {
                fence,
                after,
                reason,
            },
            "ok" if self == Self::OkSpilled => Event::Ok { fence: None },
            "ok" => Event::Ok { fence: Some(fence) },
            "fail" => Event::Fail {
                fence,
                fail: refusal(),
            },
            "retry_no" => retry(fence, Effect::None),
            "retry_unknown" => retry(fence, Effect::Unknown),
            "lost" => Event::AttemptLost,
            "died" if self == Self::DiedOther => died(attempt_id(u128::MAX)),
            "died" => died(state.attempt_id.unwrap_or(attempt_id(0))),
            "deadline" => Event::DeadlinePassed,
            "finalize" => Event::Finalize,
            "cancel" => Event::Cancel,
            "retry_now" => Event::RetryNow,
            "restored" => Event::Restored {
                earliest_call: NOW - secs(7_200),
            },
            name if name.starts_with("resolve") => Event::Resolve(self.resolution()),
            _ => self.probed(fence, state),
        }
    }

    fn begin(self) -> Begin {
        Begin {
            attempt_id: attempt_id(99),
            lease: secs(30),
            paused: self == Self::BeginPaused,
            lane: match self {
                Self::BeginBehind => LaneStand::Behind,
                Self::BeginPermit => LaneStand::Ours,
                _ => LaneStand::Unordered,
            },
            intact: self != Self::BeginBroken,
        }
    }

    /// Asked one millisecond after a "not found" becomes final, or, if early, right then.
    fn probed(self, fence: u64, state: &State) -> Event {
        let last_call = state.call_deadline.unwrap_or(NOW);
        let early = self.name().contains(".early");
        Event::Probed {
            fence,
            asked_at: last_call + secs(20) + std::time::Duration::from_millis((!early).into()),
            answer: match self.name().split('.').next() {
                Some("probed_succeeded") => ProbeAnswer::Succeeded,
                Some("probed_failed") => ProbeAnswer::Failed(refusal()),
                Some("not_found") => ProbeAnswer::NotFound,
                Some("probed_unknown") => ProbeAnswer::Unknown,
                other => panic!("no event is called {other:?}"),
            },
        }
    }

    fn resolution(self) -> Resolution {
        let failed = |effect| Resolution::Failed {
            fail: refusal(),
            effect,
        };
        match self {
            Self::ResolveCompleted => Resolution::Completed,
            Self::ResolveFailedSaysNone => failed(Some(Effect::None)),
            Self::ResolveFailedSaysUnknown => failed(Some(Effect::Unknown)),
            Self::ResolveFailedOnce | Self::ResolveFailedTwice => failed(None),
            _ => Resolution::Retry,
        }
    }
}

/// The process that made this attempt has died.
pub(crate) fn died(attempt: AttemptId) -> Event {
    Event::ProcessDied {
        process: ProcessId::new(attempt),
    }
}

fn retry(fence: u64, effect: Effect) -> Event {
    Event::Retry {
        fence,
        after: None,
        effect,
        reason: "a reason".to_owned(),
    }
}

impl Scene {
    fn use_attempts(&mut self, attempts: u32) {
        self.state.attempts = attempts;
        self.state.fence = self.state.fence.max(attempts.into());
    }

    fn end_lease(&mut self) {
        self.state.lease_until = self.state.lease_until.map(|_| NOW);
    }

    fn reap(&mut self, strategy: ReaperStrategy) {
        self.end_lease();
        self.rules.reaper = strategy;
    }

    fn cancel(&mut self, route: Route) {
        self.state.cancel_requested = true;
        if let Some(hold) = self.state.hold.as_mut() {
            hold.then = route.hold_then(true);
        }
    }

    fn probe_until_last(&mut self) {
        if let (Some(hold), Some(probe)) = (self.state.hold.as_mut(), self.rules.probe.as_ref()) {
            hold.probes = probe.inconclusive_max - 1;
        }
    }

    fn age_record(&mut self) {
        if let WriteAhead::Pending { fence, .. } = &mut self.state.write_ahead {
            *fence -= 1;
        }
    }
}

/// Fails to compile when an event is added: give it cases, then count it here.
fn number(event: &Event) -> usize {
    match event {
        Event::Begin(_) => 0,
        Event::Extend { .. } => 1,
        Event::Checkpoint { .. } => 2,
        Event::NotCalled { .. } => 3,
        Event::Ok { .. } => 4,
        Event::Fail { .. } => 5,
        Event::Retry { effect, .. } => 6 + usize::from(*effect == Effect::Unknown),
        Event::AttemptLost => 8,
        Event::DeadlinePassed => 9,
        Event::Finalize => 10,
        Event::Cancel => 11,
        Event::Restored { .. } => 12,
        Event::Probed { answer, .. } => match answer {
            ProbeAnswer::Succeeded => 13,
            ProbeAnswer::Failed(_) => 14,
            ProbeAnswer::NotFound => 15,
            ProbeAnswer::Unknown => 16,
        },
        Event::Resolve(resolution) => match resolution {
            Resolution::Completed => 17,
            Resolution::Failed { .. } => 18,
            Resolution::Retry => 19,
        },
        Event::ProcessDied { .. } => 20,
        Event::RetryNow => 21,
    }
}

#[test]
fn every_event_has_a_case() {
    let mut found = [false; 22];
    for case in Case::ALL {
        let (_, event) = case.scene(Row::LiveNone, Route::Unsafe);
        found[number(&event)] = true;
    }
    assert_eq!(found, [true; 22]);
}

#[test]
fn every_scene_starts_from_a_row_that_a_store_may_hold() {
    for case in Case::ALL {
        for row in Row::ALL {
            let (scene, _) = case.scene(*row, Route::Natural);
            assert_eq!(
                scene.state.check(),
                Ok(()),
                "{} {}",
                row.name(),
                case.name()
            );
            let held = scene.state.phase == Some(Phase::Held);
            let cancels = scene.state.hold.map(|hold| hold.then) == Some(HoldThen::Cancel);
            assert_eq!(cancels, held && scene.state.cancel_requested);
        }
    }
}
