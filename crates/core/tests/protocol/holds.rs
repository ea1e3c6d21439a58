//! Holds: what brings an operation there, how it is probed, and the ways out.

use std::time::Duration;

use clinch_core::policy::{Rules, Safety};
use clinch_core::protocol::{
    Action, Event, Hold, HoldThen, Phase, ProbeAnswer, Resolution, State, Status, Why,
};
use clinch_core::{Effect, Timestamp, code};

use crate::history::{
    DEAD, History, KEYED, SETTLED, begin, fail, not_called, ok, probed, retry, rules,
};
use crate::rows::{KEY_TTL, NOW, refusal, secs};

const MS: Duration = Duration::from_millis(1);

fn hold(state: &State) -> &Hold {
    state.hold.as_ref().expect("it is held")
}

fn unprobed(safety: Safety) -> Rules {
    Rules {
        probe: None,
        ..rules(safety)
    }
}

fn resolve_retry() -> Event {
    Event::Resolve(Resolution::Retry)
}

#[test]
fn an_unsafe_call_that_ended_unknown_is_held_at_once() {
    let mut op = History::begun(rules(Safety::Unsafe));
    let effects = op.after(secs(2)).does(&retry(1, Effect::Unknown));
    assert_eq!(effects, [Action::Hold]);
    let hold = hold(&op.state);
    assert_eq!(hold.then, HoldThen::Stay);
    assert_eq!(hold.failure.code, code::EFFECT_UNKNOWN);
    assert_eq!(hold.failure.message, "busy");
    assert_eq!(hold.failure.effect, Effect::Unknown);
    assert_eq!((hold.probes, hold.probe_at), (0, Some(op.now)));
    assert_eq!(op.state.call_deadline, Some(NOW + secs(30)));
    assert_eq!((op.state.lease_until, op.state.refund), (None, None));
}

/// `hold_then` by the route at the moment of the hold, with and without a cancel before it.
#[test]
fn what_ends_a_hold_is_decided_by_the_route_at_that_moment() {
    let keyed_past = KEY_TTL - secs(90);
    for (safety, age, then, then_canceled) in [
        (Safety::Unsafe, secs(1), HoldThen::Stay, HoldThen::Stay),
        (
            Safety::Natural,
            secs(1),
            HoldThen::FailUnknown,
            HoldThen::Cancel,
        ),
        (KEYED, secs(1), HoldThen::FailUnknown, HoldThen::Cancel),
        (
            KEYED,
            keyed_past - MS,
            HoldThen::FailUnknown,
            HoldThen::Cancel,
        ),
        (KEYED, keyed_past, HoldThen::Stay, HoldThen::Stay),
    ] {
        let mut once = rules(safety);
        once.retry.max_attempts = 1;
        let mut op = History::begun(once);
        let mut canceled = op.clone();
        op.after(age).does(&retry(1, Effect::Unknown));
        assert_eq!(hold(&op.state).then, then, "{safety:?} {age:?}");
        assert_eq!(hold(&op.state).failure.code, code::RETRY_EXHAUSTED);
        op.does(&Event::Cancel);
        assert_eq!(hold(&op.state).then, then_canceled, "canceled later");
        canceled.does(&Event::Cancel);
        canceled.after(age).does(&retry(1, Effect::Unknown));
        assert_eq!(hold(&canceled.state).then, then_canceled, "canceled before");
        assert_eq!(hold(&canceled.state).failure.code, code::CANCELED);
    }
}

#[test]
fn a_cancel_after_the_key_has_expired_leaves_the_hold_to_a_person() {
    let mut op = History::held(rules(KEYED));
    assert_eq!(hold(&op.state).then, HoldThen::FailUnknown);
    assert_eq!(op.after(KEY_TTL).does(&Event::Cancel), [Action::Hold]);
    assert_eq!(hold(&op.state).then, HoldThen::Stay);
}

#[test]
fn a_cancel_does_not_end_a_hold_that_waits_for_a_person() {
    let mut op = History::held(rules(Safety::Unsafe));
    op.rules.safety = Safety::Natural;
    op.does(&Event::Cancel);
    assert_eq!(hold(&op.state).then, HoldThen::Stay, "by the route of then");
    op.refuses(&Event::Cancel, Why::CancelRequested);
}

/// Without a probe nobody asks; the hold lasts while the call's own answer can still come.
#[test]
fn without_a_probe_the_hold_ends_when_the_lease_would_have() {
    let op = History::held(unprobed(Safety::Natural));
    assert_eq!(hold(&op.state).probe_at, Some(NOW + secs(30)));
    let op = History::held(unprobed(Safety::Unsafe));
    assert_eq!(hold(&op.state).probe_at, None, "a person");

    let mut op = History::begun(unprobed(Safety::Natural));
    op.after(secs(45));
    op.rules.retry.max_attempts = 1;
    op.does(&Event::AttemptLost);
    assert_eq!(hold(&op.state).probe_at, Some(op.now), "the lease is over");
    assert_eq!(op.does(&probed(1, op.now, ProbeAnswer::Unknown)), DEAD);
    assert_eq!(op.failed().code, code::RETRY_EXHAUSTED);
    assert_eq!(op.failed().effect, Effect::Unknown);
}

#[test]
fn the_last_inconclusive_probe_ends_the_hold() {
    let unknown = |op: &History| probed(1, op.now, ProbeAnswer::Unknown);
    let mut op = History::held(rules(Safety::Natural));
    for probes in 1..=2 {
        let event = unknown(&op);
        assert_eq!(op.after(secs(1)).does(&event), [Action::Hold]);
        assert_eq!(hold(&op.state).probes, probes);
    }
    let event = unknown(&op);
    assert_eq!(op.does(&event), DEAD);
    assert_eq!(op.failed().message, "busy", "what brought it here");
    assert_eq!(op.failed().effect, Effect::Unknown);

    let mut op = History::held(rules(Safety::Unsafe));
    for _ in 1..=9 {
        let event = unknown(&op);
        op.after(secs(60)).does(&event);
    }
    assert_eq!(op.state.phase, Some(Phase::Held), "stays");
    assert_eq!(hold(&op.state).probe_at, None);
    assert_eq!(op.does(&ok(1)), SETTLED, "a yes still settles it");
}

/// The next probe is asked after its backoff, and not before a "not found" can be final.
#[test]
fn probes_back_off_to_where_their_answer_counts() {
    let mut op = History::held(rules(Safety::Unsafe));
    let final_from = NOW + secs(30) + secs(20);
    op.does(&probed(1, op.now, ProbeAnswer::NotFound));
    assert_eq!(hold(&op.state).probe_at, Some(final_from + MS));

    let mut op = History::held(rules(Safety::Unsafe));
    if let Some(probe) = op.rules.probe.as_mut() {
        probe.not_found_final_after = None;
    }
    for (earliest, latest) in [(900, 1_100), (1_800, 2_200)] {
        op.does(&probed(1, op.now, ProbeAnswer::NotFound));
        let delay = hold(&op.state).probe_at.expect("again").since(op.now);
        let window = Duration::from_millis(earliest)..=Duration::from_millis(latest);
        assert!(window.contains(&delay), "{delay:?}");
    }
}

#[test]
fn not_found_is_final_only_if_asked_after_the_last_call_can_have_been_sent() {
    let final_from = NOW + secs(30) + secs(20);
    let asked = |asked_at: Timestamp| {
        let mut op = History::held(rules(Safety::Unsafe));
        op.now = final_from + secs(5);
        let effects = op.does(&probed(1, asked_at, ProbeAnswer::NotFound));
        (effects, op)
    };
    let (effects, op) = asked(final_from);
    assert_eq!(effects, [Action::Hold], "it was asked too early");
    assert_eq!(op.state.effect, Effect::Unknown);

    let (effects, mut op) = asked(final_from + MS);
    assert_eq!(effects, [Action::Wait]);
    assert_eq!(op.state.effect, Effect::None);
    assert_eq!((op.state.attempts, op.state.maybe_calls), (1, 1));
    let delay = op.state.next_attempt_at.expect("it waits").since(op.now);
    assert!((900..=1_100).contains(&delay.as_millis()));
    assert_eq!(
        op.begins_again(),
        [Action::Call],
        "an unsafe call, made again"
    );
}

#[test]
fn a_probe_asked_before_a_new_attempt_says_nothing_about_it() {
    let mut op = History::held(rules(Safety::Natural));
    op.does(&resolve_retry());
    op.begins_again();
    let late = probed(1, NOW + secs(9_999), ProbeAnswer::Failed(refusal()));
    op.refuses(&late, Why::NotHeld);
    op.rules.retry.max_attempts = 1;
    op.does(&retry(2, Effect::Unknown));
    op.refuses(&late, Why::StaleFence);
    let late = probed(1, NOW + secs(9_999), ProbeAnswer::NotFound);
    op.refuses(&late, Why::StaleFence);
}

#[test]
fn a_refused_probe_after_one_call_says_effect_none() {
    for (maybe_calls, told) in [
        (0, Effect::None),
        (1, Effect::None),
        (2, Effect::Unknown),
        (9, Effect::Unknown),
    ] {
        let mut op = History::held(rules(Safety::Natural));
        op.state.maybe_calls = maybe_calls;
        op.does(&probed(1, op.now, ProbeAnswer::Failed(refusal())));
        assert_eq!(op.failed().effect, told, "{maybe_calls}");
    }
}

/// A person who gives up without a word on the effect has not said that there is none.
#[test]
fn a_person_who_fails_it_says_effect_none_or_it_is_unknown() {
    let none = Some(Effect::None);
    let unknown = Some(Effect::Unknown);
    for (maybe_calls, says, told) in [
        (0, None, Effect::Unknown),
        (1, None, Effect::Unknown),
        (2, None, Effect::Unknown),
        (1, none, Effect::None),
        (2, none, Effect::None),
        (1, unknown, Effect::Unknown),
        (2, unknown, Effect::Unknown),
    ] {
        let mut op = History::held(rules(Safety::Natural));
        op.state.maybe_calls = maybe_calls;
        let resolve = Event::Resolve(Resolution::Failed {
            fail: refusal(),
            effect: says,
        });
        assert_eq!(op.clone().does(&resolve), DEAD);
        op.does(&resolve);
        assert_eq!(op.failed().effect, told, "{maybe_calls} {says:?}");
        assert_eq!(op.state.effect, told);
    }
}

#[test]
fn a_persons_retry_permits_one_attempt_beyond_max() {
    let mut op = History::held(rules(Safety::Unsafe));
    op.rules.retry.max_attempts = 1;
    op.state.cancel_requested = true;
    op.state.deliveries = 2;
    op.state.deadline = Some(op.now);
    assert_eq!(op.after(secs(100)).does(&resolve_retry()), [Action::Wait]);
    assert!(op.state.repeat_permit && !op.state.cancel_requested);
    assert_eq!(op.state.next_attempt_at, Some(op.now));
    assert_eq!(op.state.deadline, Some(op.now + secs(86_400)));
    assert_eq!((op.state.effect, op.state.deliveries), (Effect::Unknown, 0));
    assert_eq!((op.state.fence, op.state.attempts), (1, 1));

    assert_eq!(op.begins_again(), [Action::Call]);
    assert!(!op.state.repeat_permit, "one shot");
    assert_eq!(op.does(&not_called(2, None)), [Action::Wait]);
    assert!(op.state.repeat_permit, "given back");
    assert_eq!(op.begins_again(), [Action::Call]);
    assert_eq!((op.state.fence, op.state.attempts), (3, 2));
    assert_eq!(op.does(&retry(3, Effect::None)), [Action::Hold]);
    assert_eq!(hold(&op.state).failure.code, code::RETRY_EXHAUSTED);
    assert_eq!(op.state.effect, Effect::Unknown, "the first call's");
}

#[test]
fn a_persons_retry_has_no_deadline_where_the_route_has_none() {
    let mut op = History::held(rules(Safety::Unsafe));
    op.rules.deadline = None;
    op.does(&resolve_retry());
    assert_eq!(op.state.deadline, None);
}

#[test]
fn a_permit_does_not_outlive_the_deadline_or_a_cancel() {
    let mut op = History::held(rules(Safety::Unsafe));
    op.does(&resolve_retry());
    let mut settled = op.clone();
    settled.does(&ok(1));
    assert!(!settled.state.repeat_permit);
    let mut overdue = op.clone();
    overdue
        .after(secs(86_400))
        .refuses(&begin(2), Why::DeadlinePassed);
    assert_eq!(overdue.does(&Event::DeadlinePassed), [Action::Hold]);
    assert_eq!(hold(&overdue.state).failure.code, code::DEADLINE);
    overdue.refuses(&begin(2), Why::Held);
    assert_eq!(op.does(&Event::Cancel), [Action::Hold]);
    op.refuses(&begin(2), Why::Held);
    assert_eq!(hold(&op.state).then, HoldThen::Stay);
}

#[test]
fn a_fail_after_an_unknown_call_is_held_with_the_fails_code() {
    let mut op = History::begun(rules(Safety::Natural));
    op.does(&retry(1, Effect::Unknown));
    op.begins_again();
    assert_eq!(op.does(&fail(2)), [Action::Hold]);
    assert_eq!(hold(&op.state).failure.code, "http_402");
    assert_eq!((op.state.maybe_calls, op.state.failure.clone()), (2, None));
    for _ in 1..=3 {
        op.does(&probed(2, op.now, ProbeAnswer::Unknown));
    }
    assert_eq!(op.failed().code, "http_402");
    assert_eq!(op.failed().effect, Effect::Unknown);
}

#[test]
fn a_redrive_inherits_the_doubt() {
    let mut op = History::held(rules(Safety::Natural));
    op.does(&Event::Cancel);
    for _ in 1..=3 {
        op.does(&probed(1, op.now, ProbeAnswer::Unknown));
    }
    assert_eq!(op.failed().code, code::CANCELED);
    assert_eq!(op.failed().effect, Effect::Unknown);
    let redrive = State::accepted(op.now, None, op.state.bequest());
    assert_eq!((redrive.effect, redrive.maybe_calls), (Effect::Unknown, 1));
    assert_eq!(redrive.first_call_at, Some(NOW));
    assert_eq!(redrive.call_deadline, Some(NOW + secs(30)));
    assert_eq!(redrive.check(), Ok(()));

    let mut held = op.clone();
    held.state = redrive.clone();
    held.rules.safety = Safety::Unsafe;
    assert_eq!(held.does(&begin(1)), [Action::Hold], "nothing is sent");
    assert_eq!(
        (held.state.status, held.state.fence),
        (Status::InProgress, 0)
    );
    held.state = redrive;
    assert_eq!(held.does(&Event::Cancel), [Action::Hold]);
}

#[test]
fn a_restored_operation_doubts_everything_since_its_backup() {
    let accepted = NOW - secs(500);
    let restored = Event::Restored {
        earliest_call: accepted,
    };
    let mut op = History::accepted(rules(Safety::Unsafe));
    assert_eq!(op.does(&restored), []);
    assert_eq!(op.state.status, Status::Pending);
    assert_eq!(op.state.effect, Effect::Unknown);
    assert_eq!(op.state.first_call_at, Some(accepted));
    assert_eq!(op.state.call_deadline, Some(NOW + secs(30)));
    assert!(op.state.maybe_calls > 1, "one refusal proves nothing");
    assert_eq!(op.does(&begin(1)), [Action::Hold]);

    let mut op = History::begun(rules(Safety::Natural));
    op.does(&restored);
    assert_eq!(
        op.state.first_call_at,
        Some(NOW),
        "it knows of an earlier call"
    );
    op.refuses(&fail(1), Why::StaleFence);
    op.refuses(&fail(2), Why::StaleFence);
    assert_eq!(op.does(&ok(1)), SETTLED);
}
