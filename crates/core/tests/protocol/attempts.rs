//! Begins, and attempts that bring no answer: counters, leases, delays.

use std::time::Duration;

use clinch_core::policy::Safety;
use clinch_core::protocol::{Action, Event, Inherited, Phase, Refund, State, Status, Why};
use clinch_core::{Effect, code};

use crate::history::{DEAD, History, KEYED, begin, not_called, ok, retry, retry_after, rules};
use crate::rows::{KEY_TTL, NOW, attempt_id, secs};

const MS: Duration = Duration::from_millis(1);

#[test]
fn accept_and_begin_is_accept_then_begin_with_fence_and_attempts_one() {
    let mut op = History::accepted(rules(Safety::Unsafe));
    assert_eq!((op.state.version, op.state.fence), (1, 0));
    assert_eq!(op.does(&begin(5)), [Action::Call]);
    assert_eq!(
        (op.state.fence, op.state.attempts, op.state.version),
        (1, 1, 2)
    );
    assert_eq!(op.state.status, Status::InProgress);
    assert_eq!(op.state.phase, Some(Phase::Live));
    assert_eq!(op.state.attempt_id, Some(attempt_id(5)));
    assert_eq!(op.state.lease_until, Some(NOW + secs(30)));
    assert_eq!(op.state.first_call_at, Some(NOW));
    assert_eq!(op.state.next_attempt_at, None);
    let nothing = Refund {
        repeat_permit: false,
        first_call_at: None,
    };
    assert_eq!(op.state.refund, Some(nothing));
    assert_eq!((op.state.maybe_calls, op.state.deliveries), (0, 0));
}

#[test]
fn a_second_begin_keeps_the_start_of_the_providers_memory() {
    let mut op = History::begun(rules(KEYED));
    op.after(secs(1)).does(&retry(1, Effect::Unknown));
    op.begins_again();
    assert_eq!(op.state.first_call_at, Some(NOW));
    assert_eq!((op.state.fence, op.state.attempts), (2, 2));
    assert_eq!(op.state.attempt_id, Some(attempt_id(2)));
}

#[test]
fn begin_is_due_at_its_moment_and_too_late_at_the_deadline() {
    let mut op = History::accepted(rules(Safety::Unsafe));
    op.now = NOW - MS;
    op.refuses(&begin(1), Why::NotDue);
    op.now = NOW + secs(86_400);
    op.refuses(&begin(1), Why::DeadlinePassed);
    op.now = NOW + secs(86_400) - MS;
    op.refuses(&Event::DeadlinePassed, Why::BeforeDeadline);
    op.does(&begin(1));
}

/// now + lease + margin < first_call_at + key_ttl, to the millisecond, by the begin's lease.
#[test]
fn a_keyed_call_is_repeated_only_while_its_key_outlives_the_lease() {
    let inherited = Inherited {
        effect: Effect::Unknown,
        first_call_at: Some(NOW),
        maybe_calls: 1,
        call_deadline: Some(NOW),
    };
    let mut op = History::accepted(rules(KEYED));
    op.state = State::accepted(NOW, None, inherited);
    let long = |lease| match begin(1) {
        Event::Begin(begin) => Event::Begin(clinch_core::protocol::Begin { lease, ..begin }),
        other => other,
    };
    let last = NOW + KEY_TTL - secs(30 + 60) - MS;
    for (now, lease, then) in [
        (last, secs(30), Phase::Live),
        (last + MS, secs(30), Phase::Held),
        (last, secs(30) + MS, Phase::Held),
        (NOW, KEY_TTL, Phase::Held),
    ] {
        let mut op = op.clone();
        op.now = now;
        op.does(&long(lease));
        assert_eq!(op.state.phase, Some(then), "{now:?} {lease:?}");
        assert_eq!(op.state.fence, u64::from(then == Phase::Live));
    }
}

#[test]
fn run_7_a_lease_only_grows_and_an_expired_one_can_still_be_extended() {
    let extend = |secs| Event::Extend {
        fence: 1,
        lease: Duration::from_secs(secs),
    };
    let mut op = History::begun(rules(Safety::Unsafe));
    assert_eq!(op.after(secs(10)).does(&extend(30)), []);
    assert_eq!(op.state.lease_until, Some(NOW + secs(40)));
    op.does(&extend(5));
    assert_eq!(op.state.lease_until, Some(NOW + secs(40)), "not shortened");
    op.after(secs(60)).does(&extend(30));
    assert_eq!(op.state.lease_until, Some(NOW + secs(100)));
    assert_eq!(op.state.version, 5);
}

#[test]
fn not_called_gives_the_first_begin_back_but_for_the_fence() {
    let mut op = History::begun(rules(Safety::Unsafe));
    assert_eq!(op.after(secs(1)).does(&not_called(1, None)), [Action::Wait]);
    assert_eq!(
        op.state.phase,
        Some(Phase::Waiting),
        "never back to PENDING"
    );
    assert_eq!((op.state.fence, op.state.attempts), (1, 0));
    assert_eq!(op.state.first_call_at, None);
    assert_eq!(op.state.call_deadline, None);
    assert_eq!((op.state.effect, op.state.maybe_calls), (Effect::None, 0));
    assert!(delay_is(&op, 1_000));
    op.begins_again();
    assert_eq!((op.state.fence, op.state.attempts), (2, 1));
    assert_eq!(op.state.first_call_at, Some(op.now));
}

#[test]
fn not_called_leaves_deliveries_and_the_last_call_deadline_alone() {
    let mut op = History::begun(rules(Safety::Natural));
    op.after(secs(31)).does(&Event::AttemptLost);
    let lost_at = op.now;
    op.begins_again();
    op.after(secs(1)).does(&not_called(2, Some(secs(7))));
    assert_eq!(op.state.deliveries, 1, "as if the begin had not been");
    assert_eq!(op.state.call_deadline, Some(lost_at));
    assert_eq!(op.state.first_call_at, Some(NOW));
    assert_eq!(op.state.next_attempt_at, Some(op.now + secs(7)));
    assert_eq!(op.state.effect, Effect::Unknown);
}

#[test]
fn not_called_waits_as_long_as_after_the_call_before() {
    let mut op = History::begun(rules(Safety::Unsafe));
    for fence in 1..=2 {
        op.does(&retry(fence, Effect::None));
        op.begins_again();
    }
    op.does(&not_called(3, None));
    assert_eq!(op.state.attempts, 2);
    assert!(delay_is(&op, 2_000));
}

#[test]
fn not_called_never_uses_up_attempts() {
    let mut op = History::begun(rules(Safety::Unsafe));
    for fence in 1..=20 {
        op.does(&not_called(fence, None));
        assert_eq!((op.state.fence, op.state.attempts), (fence, 0));
        op.begins_again();
    }
    assert_eq!(op.state.version, 42);
}

#[test]
fn run_3_the_delay_doubles_within_its_jitter() {
    let mut op = History::begun(rules(Safety::Unsafe));
    for (fence, expected_ms) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 8_000)] {
        let effects = op.after(secs(1)).does(&retry(fence, Effect::None));
        assert_eq!(effects, [Action::Wait]);
        assert!(delay_is(&op, expected_ms), "after attempt {fence}");
        assert_eq!(op.state.call_deadline, Some(op.now + secs(29)));
        op.begins_again();
    }
}

/// Within ±10 % of `expected_ms` from now.
fn delay_is(op: &History, expected_ms: i64) -> bool {
    let at = op.state.next_attempt_at.expect("it waits").as_millis();
    let (low, high) = (expected_ms * 9 / 10, expected_ms * 11 / 10);
    (low..=high).contains(&(at - op.now.as_millis()))
}

#[test]
fn run_3_jitter_spreads_over_attempts_and_repeats_on_replay() {
    let delay = |seed| {
        let mut op = History::accepted(rules(Safety::Unsafe));
        op.does(&begin(seed));
        op.does(&retry(1, Effect::None));
        op.state.next_attempt_at
    };
    let distinct: std::collections::BTreeSet<_> = (0..100).map(delay).collect();
    assert!(distinct.len() > 50, "{}", distinct.len());
    assert_eq!(delay(7), delay(7));
}

#[test]
fn run_3_retry_after_is_taken_as_asked_up_to_its_cap() {
    for (asked, granted) in [(90, 90), (3_600, 3_600), (3_601, 3_600), (86_400, 3_600)] {
        let mut op = History::begun(rules(Safety::Unsafe));
        op.does(&retry_after(1, Effect::None, Some(secs(asked))));
        assert_eq!(op.state.next_attempt_at, Some(NOW + secs(granted)));
    }
}

#[test]
fn run_3_core_7_retry_is_exhausted_at_the_fifth_attempt() {
    let mut op = History::begun(rules(Safety::Unsafe));
    for fence in 1..=4 {
        op.does(&retry(fence, Effect::None));
        op.begins_again();
    }
    assert_eq!(op.state.attempts, 5);
    assert_eq!(op.does(&retry(5, Effect::None)), DEAD);
    let failure = op.failed();
    assert_eq!(failure.code, code::RETRY_EXHAUSTED);
    assert_eq!(failure.message, "busy", "with the reason");
    assert_eq!(failure.effect, Effect::None);
    assert_eq!((op.state.attempts, op.state.maybe_calls), (5, 0));
}

#[test]
fn run_3_one_attempt_means_one_call() {
    let mut once = rules(Safety::Unsafe);
    once.retry.max_attempts = 1;
    let mut op = History::begun(once.clone());
    op.does(&retry(1, Effect::None));
    assert_eq!(op.failed().code, code::RETRY_EXHAUSTED);
    let mut op = History::begun(once);
    op.does(&retry(1, Effect::Unknown));
    assert_eq!(op.state.phase, Some(Phase::Held));
}

#[test]
fn run_7_a_lost_attempt_is_stale_although_no_new_fence_was_given() {
    let mut op = History::begun(rules(Safety::Natural));
    op.after(secs(30) - MS)
        .refuses(&Event::AttemptLost, Why::LeaseRunning);
    assert_eq!(op.after(MS).does(&Event::AttemptLost), [Action::Wait]);
    assert_eq!(op.state.fence, 1);
    assert_eq!(op.state.call_deadline, Some(NOW + secs(30)));
    assert_eq!((op.state.deliveries, op.state.maybe_calls), (1, 1));
    assert_eq!(op.state.effect, Effect::Unknown);
    assert!(delay_is(&op, 1_000));
    op.refuses(&retry(1, Effect::None), Why::StaleFence);
    op.refuses(&Event::AttemptLost, Why::NotLive);
    assert_eq!(op.does(&ok(1)), [Action::Settle], "but a yes is a fact");
}

#[test]
fn attempts_lost_in_a_row_are_poison_below_max_attempts() {
    for (max_attempts, deliveries_max, poison_at) in [(5, 3, 3), (3, 3, 2), (2, 3, 1), (9, 4, 4)] {
        let mut rules = rules(Safety::Natural);
        rules.retry.max_attempts = max_attempts;
        rules.deliveries_max = deliveries_max;
        let mut op = History::begun(rules);
        for lost in 1..=poison_at {
            op.after(secs(31)).does(&Event::AttemptLost);
            assert_eq!(op.state.deliveries, lost);
            if lost < poison_at {
                op.begins_again();
            }
        }
        let hold = op.state.hold.expect("poison is held");
        assert_eq!(hold.failure.code, code::POISON);
    }
}

#[test]
fn any_outcome_ends_a_row_of_lost_attempts() {
    let mut op = History::begun(rules(Safety::Natural));
    op.after(secs(31)).does(&Event::AttemptLost);
    op.begins_again();
    op.does(&retry(2, Effect::Unknown));
    assert_eq!(op.state.deliveries, 0);
}

#[test]
fn an_unknown_effect_is_not_forgotten_by_a_later_retry() {
    let mut op = History::begun(rules(Safety::Natural));
    op.does(&retry(1, Effect::Unknown));
    op.begins_again();
    op.does(&retry(2, Effect::None));
    assert_eq!(op.state.effect, Effect::Unknown);
    assert_eq!(
        op.state.maybe_calls, 1,
        "the second certainly had no effect"
    );
}
