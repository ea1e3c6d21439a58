//! What holds of every step, whatever came before. Written from the protocol page, not from
//! the code: each law is a predicate on one step.

use std::time::Duration;

use clinch_core::policy::{Rules, Safety};
use clinch_core::protocol::{
    Action, Effects, Event, HoldThen, LaneStand, Phase, ProbeAnswer, Resolution, State, Status,
    Verdict, WriteAhead,
};
use clinch_core::{AttemptId, Effect, Timestamp};

/// One event on one row at one time.
pub(crate) struct Step<'a> {
    pub(crate) before: &'a State,
    pub(crate) event: &'a Event,
    pub(crate) now: Timestamp,
    pub(crate) rules: &'a Rules,
}

/// What a step made of the row.
pub(crate) struct Change<'a> {
    pub(crate) after: &'a State,
    pub(crate) actions: &'a Effects,
}

type Law = (&'static str, fn(&Step<'_>, &Change<'_>) -> bool);

const CHANGES: &[Law] = &[
    ("only the four edges and the two shortcuts", edge_is_allowed),
    (
        "a terminal row never changes but for its mark",
        terminal_stays,
    ),
    ("a change raises the version by one", version_counts),
    ("the row is one that a store may hold", |_, to| {
        to.after.check().is_ok()
    }),
    (
        "the fence rises by one at a call, and at a restore",
        fence_rises,
    ),
    (
        "attempts follow calls and refunds, below the fence",
        attempts_count,
    ),
    ("an attempt beyond max needs a permit", attempts_are_bounded),
    (
        "maybe_calls counts what may have had an effect",
        maybe_calls_count,
    ),
    (
        "an unknown effect is forgotten only by an answer",
        unknown_is_sticky,
    ),
    (
        "an effect becomes unknown only by a call's end or a restore",
        doubt_has_a_cause,
    ),
    (
        "a recorded outcome is left only by Finalize or a yes",
        record_is_kept,
    ),
    (
        "a stale fence changes nothing but by a yes",
        stale_is_silent,
    ),
    ("a call passes every guard of Begin", call_is_guarded),
    (
        "a call in doubt is repeated only where it may be",
        repeat_is_allowed,
    ),
    ("actions say what became of the row", actions_fit),
    ("COMPLETED takes a yes or a person", completion_has_a_source),
    (
        "cancel is withdrawn only by a person's retry",
        cancel_is_kept,
    ),
    (
        "nothing waits that is canceled, overdue or used up",
        waiting_is_possible,
    ),
    ("a hold ends as its route says", hold_fits_the_route),
    ("deliveries rise only by a lost attempt", deliveries_count),
    ("an attempt is lost when its lease has ended", lost_is_lost),
    (
        "a call can be sent until its lease ends",
        call_deadline_is_kept,
    ),
    (
        "the provider's memory of our key starts once",
        first_call_is_kept,
    ),
];

/// The name of the first law that the change breaks.
pub(crate) fn broken_by_change(step: &Step<'_>, change: &Change<'_>) -> Option<&'static str> {
    let broken = CHANGES.iter().find(|(_, holds)| !holds(step, change));
    broken.map(|(name, _)| *name)
}

/// The name of the law that a refusal of this event breaks: answers are never dropped.
pub(crate) fn broken_by_refusal(step: &Step<'_>) -> Option<&'static str> {
    let row = step.before;
    let recorded = is_recorded(row);
    if row.status == Status::Completed {
        return None;
    }
    if is_yes(step.event) {
        return Some("a provider's yes is never refused");
    }
    if row.is_terminal() {
        return None;
    }
    match step.event {
        Event::Finalize if recorded => Some("what was recorded can be finalized"),
        Event::Cancel if !row.cancel_requested => Some("a first cancel is heard"),
        _ if recorded => None,
        event if attempt_fence(event).is_some_and(|fence| is_current(row, fence)) => {
            Some("the current attempt is heard")
        }
        Event::Resolve(_) if row.phase == Some(Phase::Held) => Some("a person is heard"),
        Event::Restored { .. } => Some("a restore is heard"),
        _ => None,
    }
}

pub(crate) fn is_yes(event: &Event) -> bool {
    match event {
        Event::Ok { .. } => true,
        Event::Probed { answer, .. } => *answer == ProbeAnswer::Succeeded,
        _ => false,
    }
}

fn is_recorded(row: &State) -> bool {
    matches!(row.write_ahead, WriteAhead::Pending { .. })
}

fn is_current(row: &State, fence: u64) -> bool {
    row.phase == Some(Phase::Live) && row.fence == fence
}

/// The fence of what an attempt reports, Ok apart.
fn attempt_fence(event: &Event) -> Option<u64> {
    match event {
        Event::Extend { fence, .. } | Event::Checkpoint { fence } => Some(*fence),
        Event::NotCalled { fence, .. } => Some(*fence),
        Event::Fail { fence, .. } | Event::Retry { fence, .. } => Some(*fence),
        _ => None,
    }
}

fn did(to: &Change<'_>, action: Action) -> bool {
    to.actions.contains(&action)
}

fn edge_is_allowed(step: &Step<'_>, to: &Change<'_>) -> bool {
    use Status::{Completed, Failed, InProgress, Pending};
    match (step.before.status, to.after.status) {
        (from, to) if from == to => true,
        (Pending, InProgress | Completed | Failed) => true,
        (InProgress, Completed | Failed) => true,
        _ => false,
    }
}

fn terminal_stays(step: &Step<'_>, to: &Change<'_>) -> bool {
    let mut marked = step.before.clone();
    marked.late_ok = true;
    !step.before.is_terminal() || (marked == *to.after && *to.actions == [Action::AlertLateOk])
}

fn version_counts(step: &Step<'_>, to: &Change<'_>) -> bool {
    let change = u64::from(!step.before.is_terminal());
    to.after.version == step.before.version + change
}

fn fence_rises(step: &Step<'_>, to: &Change<'_>) -> bool {
    let (before, after) = (step.before.fence, to.after.fence);
    match step.event {
        Event::Begin(_) if did(to, Action::Call) => after == before + 1,
        Event::Restored { .. } => after > before,
        _ => after == before,
    }
}

fn attempts_count(step: &Step<'_>, to: &Change<'_>) -> bool {
    let (before, after) = (step.before.attempts, to.after.attempts);
    let counted = match step.event {
        Event::Begin(_) if did(to, Action::Call) => after == before + 1,
        Event::NotCalled { .. } => after + 1 == before,
        _ => after == before,
    };
    counted && u64::from(after) <= to.after.fence
}

fn attempts_are_bounded(step: &Step<'_>, to: &Change<'_>) -> bool {
    let left = step.before.attempts < step.rules.retry.max_attempts;
    // Nobody knows how often a restored operation was tried.
    let restored = step.before.fence >= 1 << 20;
    !did(to, Action::Call) || left || step.before.repeat_permit || restored
}

fn lost_is_lost(step: &Step<'_>, _: &Change<'_>) -> bool {
    let ended = step
        .before
        .lease_until
        .is_some_and(|until| until <= step.now);
    match step.event {
        Event::AttemptLost => ended,
        Event::ProcessDied { process } => {
            step.before.attempt_id.and_then(AttemptId::process) == Some(*process)
        }
        _ => true,
    }
}

fn call_deadline_is_kept(step: &Step<'_>, to: &Change<'_>) -> bool {
    let (before, after) = (step.before.call_deadline, to.after.call_deadline);
    match step.event {
        Event::Fail { .. }
        | Event::Retry { .. }
        | Event::AttemptLost
        | Event::ProcessDied { .. } => after >= step.before.lease_until,
        Event::Restored { .. } => after >= Some(step.now),
        _ => after == before,
    }
}

fn maybe_calls_count(step: &Step<'_>, to: &Change<'_>) -> bool {
    let more = to.after.maybe_calls.checked_sub(step.before.maybe_calls);
    match step.event {
        Event::Fail { .. } | Event::AttemptLost | Event::ProcessDied { .. } => more == Some(1),
        Event::Retry { effect, .. } => more == Some(u32::from(*effect == Effect::Unknown)),
        Event::Ok { .. } => more == Some(u32::from(did(to, Action::Record))),
        Event::Restored { .. } => more >= Some(2),
        _ => more == Some(0),
    }
}

fn unknown_is_sticky(step: &Step<'_>, to: &Change<'_>) -> bool {
    let forgotten = (step.before.effect, to.after.effect) == (Effect::Unknown, Effect::None);
    if !forgotten || to.after.status == Status::Completed {
        return true;
    }
    let one_call = step.before.maybe_calls <= 1;
    let failed = to.after.status == Status::Failed;
    match step.event {
        // What was recorded under doubt is a verdict on a key.
        Event::Finalize => failed && matches!(step.rules.safety, Safety::Keyed { .. }),
        Event::Probed {
            asked_at, answer, ..
        } => match answer {
            ProbeAnswer::Failed(_) => failed && one_call,
            ProbeAnswer::NotFound => not_found_is_final(step, *asked_at),
            ProbeAnswer::Succeeded | ProbeAnswer::Unknown => false,
        },
        Event::Resolve(Resolution::Failed { effect, .. }) => {
            failed && effect.map_or(one_call, |says| says == Effect::None)
        }
        _ => false,
    }
}

fn not_found_is_final(step: &Step<'_>, asked_at: Timestamp) -> bool {
    let after = step
        .rules
        .probe
        .as_ref()
        .and_then(|probe| probe.not_found_final_after);
    match (step.before.call_deadline, after) {
        (Some(last), Some(after)) => asked_at > last + after,
        _ => false,
    }
}

fn doubt_has_a_cause(step: &Step<'_>, to: &Change<'_>) -> bool {
    let doubted = (step.before.effect, to.after.effect) == (Effect::None, Effect::Unknown);
    let ended_unknown = match step.event {
        Event::Retry { effect, .. } => *effect == Effect::Unknown,
        Event::AttemptLost | Event::ProcessDied { .. } | Event::Restored { .. } => true,
        _ => false,
    };
    // The other direction: an end that leaves doubt is never taken for none.
    doubted <= ended_unknown && (!ended_unknown || to.after.effect == Effect::Unknown)
}

fn record_is_kept(step: &Step<'_>, to: &Change<'_>) -> bool {
    if !is_recorded(step.before) {
        return !is_recorded(to.after) || did(to, Action::Record);
    }
    let kept = to.after.write_ahead == step.before.write_ahead;
    match step.event {
        Event::Finalize => to.after.is_terminal(),
        Event::Cancel => kept && to.after.failure == step.before.failure,
        event => is_yes(event) && to.after.status == Status::Completed,
    }
}

fn stale_is_silent(step: &Step<'_>, _: &Change<'_>) -> bool {
    match step.event {
        event if is_yes(event) => true,
        Event::Probed { fence, .. } => *fence == step.before.fence,
        event => attempt_fence(event).is_none_or(|fence| is_current(step.before, fence)),
    }
}

fn call_is_guarded(step: &Step<'_>, to: &Change<'_>) -> bool {
    if !did(to, Action::Call) {
        return to.after.phase != Some(Phase::Live) || step.before.phase == Some(Phase::Live);
    }
    let Event::Begin(begin) = step.event else {
        return false;
    };
    let row = step.before;
    let idle = row.status == Status::Pending || row.phase == Some(Phase::Waiting);
    let due = row.next_attempt_at.is_some_and(|at| at <= step.now);
    let in_time = row.deadline.is_none_or(|deadline| step.now < deadline);
    let open = !begin.paused && begin.lane != LaneStand::Behind && begin.intact;
    let leased = to.after.lease_until == Some(step.now + begin.lease);
    let ours = to.after.attempt_id == Some(begin.attempt_id);
    idle && due && in_time && open && !row.cancel_requested && leased && ours
}

fn repeat_is_allowed(step: &Step<'_>, to: &Change<'_>) -> bool {
    let Event::Begin(begin) = step.event else {
        return true;
    };
    let row = step.before;
    let doubted = did(to, Action::Call) && row.effect == Effect::Unknown;
    !doubted || row.repeat_permit || may_repeat(row, step, begin.lease)
}

fn actions_fit(step: &Step<'_>, to: &Change<'_>) -> bool {
    let row = to.after;
    let canceled = row
        .failure
        .as_ref()
        .is_some_and(|failure| failure.code == "canceled");
    let expected: &[Action] = match (row.status, row.phase) {
        (Status::Failed, _) if step.before.is_terminal() => &[Action::AlertLateOk],
        (Status::Failed, _) if !canceled => &[Action::Settle, Action::DeadLetter],
        (Status::Completed | Status::Failed, _) => &[Action::Settle],
        _ if matches!(step.event, Event::Restored { .. }) => &[],
        (_, Some(Phase::Waiting)) => &[Action::Wait],
        (_, Some(Phase::Held)) => &[Action::Hold],
        (_, Some(Phase::Live)) => match step.event {
            Event::Begin(_) => &[Action::Call],
            Event::Ok { .. } | Event::Fail { .. } => &[Action::Record],
            Event::Cancel => &[Action::TellAttempt],
            _ => &[],
        },
        (_, None) if *step.event == Event::RetryNow => &[Action::Wait],
        (_, None) => &[],
    };
    to.actions.as_slice() == expected
}

fn completion_has_a_source(step: &Step<'_>, to: &Change<'_>) -> bool {
    if to.after.status != Status::Completed {
        return true;
    }
    let recorded_ok = matches!(
        step.before.write_ahead,
        WriteAhead::Pending {
            verdict: Verdict::Ok,
            ..
        }
    );
    match step.event {
        Event::Finalize => recorded_ok,
        Event::Resolve(resolution) => *resolution == Resolution::Completed,
        event => is_yes(event),
    }
}

fn cancel_is_kept(step: &Step<'_>, to: &Change<'_>) -> bool {
    match step.event {
        Event::Cancel => to.after.cancel_requested,
        Event::Resolve(Resolution::Retry) => !to.after.cancel_requested,
        _ => to.after.cancel_requested == step.before.cancel_requested,
    }
}

fn waiting_is_possible(step: &Step<'_>, to: &Change<'_>) -> bool {
    let row = to.after;
    if !did(to, Action::Wait) {
        return true;
    }
    if *step.event == Event::RetryNow {
        // The time moves, and nothing else that a guard reads.
        let mut due = step.before.clone();
        due.next_attempt_at = Some(step.now);
        due.version = row.version;
        return *row == due && step.before.next_attempt_at > Some(step.now);
    }
    let in_time = row.deadline.is_none_or(|deadline| step.now < deadline);
    let left = row.attempts < step.rules.retry.max_attempts || row.repeat_permit;
    in_time && left && !row.cancel_requested && row.next_attempt_at >= Some(step.now)
}

fn hold_fits_the_route(step: &Step<'_>, to: &Change<'_>) -> bool {
    let Some(hold) = to.after.hold.as_ref() else {
        return true;
    };
    let stays = hold.then == HoldThen::Stay;
    let entered = step.before.phase != Some(Phase::Held);
    let fits = !entered || stays != may_repeat(to.after, step, step.rules.lease);
    fits && (stays || to.after.cancel_requested == (hold.then == HoldThen::Cancel))
}

/// By its route alone.
fn may_repeat(row: &State, step: &Step<'_>, lease: Duration) -> bool {
    match step.rules.safety {
        Safety::Natural => true,
        Safety::Unsafe => false,
        Safety::Keyed { ttl, .. } => row
            .first_call_at
            .is_none_or(|first| step.now + lease + step.rules.margin < first + ttl),
    }
}

fn deliveries_count(step: &Step<'_>, to: &Change<'_>) -> bool {
    let (before, after) = (step.before.deliveries, to.after.deliveries);
    match step.event {
        Event::AttemptLost | Event::ProcessDied { .. } => after == before + 1,
        Event::Fail { .. } | Event::Retry { .. } => after == 0,
        _ => after == before || after == 0,
    }
}

fn first_call_is_kept(step: &Step<'_>, to: &Change<'_>) -> bool {
    let (before, after) = (step.before.first_call_at, to.after.first_call_at);
    match step.event {
        Event::Begin(_) if did(to, Action::Call) => after == before.or(Some(step.now)),
        Event::NotCalled { .. } => after.is_none() || after == before,
        Event::Restored { earliest_call } => after == before.or(Some(*earliest_call)),
        _ => after == before,
    }
}
