//! Answers: recorded first, final second; a yes counts from wherever it comes.

use clinch_core::policy::Safety;
use clinch_core::protocol::{
    Action, Due, Event, ProbeAnswer, Resolution, State, Status, Verdict, Why, WriteAhead,
};
use clinch_core::{Effect, Fail, code};

use crate::cases::Case;
use crate::history::{DEAD, History, KEYED, SETTLED, begin, fail, ok, probed, retry, rules};
use crate::rows::{KEY_TTL, NOW, Route, Row, secs};

#[test]
fn core_7_ok_is_written_ahead_then_completed() {
    let mut op = History::begun(rules(Safety::Unsafe));
    assert_eq!(op.does(&ok(1)), [Action::Record]);
    let recorded = WriteAhead::Pending {
        verdict: Verdict::Ok,
        fence: 1,
    };
    assert_eq!(op.state.write_ahead, recorded);
    assert_eq!(op.state.status, Status::InProgress);
    assert_eq!(op.state.due(), Due::Finalize);
    assert_eq!(op.does(&Event::Finalize), SETTLED);
    assert_eq!(op.state.status, Status::Completed);
    assert_eq!(op.state.write_ahead, WriteAhead::Done);
    assert_eq!(
        (op.state.effect, op.state.failure.clone()),
        (Effect::None, None)
    );
    assert_eq!((op.state.maybe_calls, op.state.version), (1, 4));
    assert_eq!(op.state.due(), Due::Never);
}

#[test]
fn core_7_fail_is_written_ahead_then_failed_with_what_the_provider_said() {
    let mut op = History::begun(rules(Safety::Unsafe));
    let fail = Fail::new("card_stolen", "call the police").because("provider 17");
    let refused = Event::Fail { fence: 1, fail };
    assert_eq!(op.does(&refused), [Action::Record]);
    assert_eq!(op.state.status, Status::InProgress);
    assert_eq!(op.does(&Event::Finalize), DEAD);
    let failure = op.failed();
    assert_eq!(failure.code, "card_stolen");
    assert_eq!(failure.message, "call the police");
    assert_eq!(failure.cause.as_deref(), Some("provider 17"));
    assert_eq!(failure.effect, Effect::None);
    assert_eq!(op.state.write_ahead, WriteAhead::Done);
}

#[test]
fn run_7_the_operation_is_finalized_once_however_many_duplicates_arrive() {
    let mut op = History::begun(rules(Safety::Unsafe));
    op.refuses(&begin(2), Why::Live);
    op.does(&ok(1));
    op.refuses(&begin(2), Why::WriteAheadPending);
    op.after(secs(60))
        .refuses(&Event::AttemptLost, Why::WriteAheadPending);
    op.does(&Event::Finalize);
    for event in [begin(2), ok(1), Event::Finalize, fail(1)] {
        op.refuses(&event, Why::Terminal);
    }
}

#[test]
fn core_5_no_event_changes_a_terminal_row() {
    for row in [Row::Completed, Row::FailedNone, Row::FailedUnknown] {
        for case in Case::ALL {
            let (scene, event) = case.scene(row, Route::Natural);
            match scene.state.apply(&event, scene.now, &scene.rules) {
                Ok((next, effects)) => {
                    assert!(next.late_ok, "{row:?} is not marked");
                    let mut marked = scene.state.clone();
                    marked.late_ok = true;
                    assert_eq!(next, marked);
                    assert_eq!(effects, [Action::AlertLateOk]);
                    assert_ne!(row, Row::Completed);
                }
                Err(refused) => assert_eq!(refused.why, Why::Terminal),
            }
        }
    }
}

#[test]
fn core_7_a_yes_replaces_a_recorded_fail() {
    let yes = [
        ok(1),
        Event::Ok { fence: None },
        probed(9, NOW, ProbeAnswer::Succeeded),
    ];
    for event in yes {
        let mut op = History::begun(rules(Safety::Unsafe));
        op.does(&fail(1));
        assert_eq!(op.does(&event), SETTLED);
        assert_eq!(op.state.status, Status::Completed);
        assert_eq!(op.state.failure, None);
        assert_eq!(op.state.write_ahead, WriteAhead::Done);
    }
}

#[test]
fn a_late_ok_settles_while_another_attempt_is_live() {
    let mut op = History::begun(rules(Safety::Natural));
    op.does(&retry(1, Effect::Unknown));
    op.begins_again();
    assert_eq!(op.does(&ok(1)), SETTLED);
    assert_eq!(op.state.status, Status::Completed);
    assert_eq!((op.state.lease_until, op.state.refund), (None, None));
    op.refuses(&fail(2), Why::Terminal);
}

#[test]
fn ok_wins_over_cancel_and_a_fail_keeps_its_code() {
    let mut op = History::begun(rules(Safety::Unsafe));
    assert_eq!(op.does(&Event::Cancel), [Action::TellAttempt]);
    let canceled = op.clone();
    op.does(&ok(1));
    assert_eq!(op.does(&Event::Finalize), SETTLED);
    assert_eq!(op.state.status, Status::Completed);

    let mut op = canceled.clone();
    op.does(&fail(1));
    assert_eq!(op.does(&Event::Finalize), DEAD, "ended by the Fail");
    assert_eq!(op.failed().code, "http_402");

    let mut op = canceled;
    assert_eq!(op.does(&retry(1, Effect::None)), SETTLED, "no dead letter");
    assert_eq!(op.failed().code, code::CANCELED);
}

#[test]
fn a_cancel_while_a_fail_waits_to_be_finalized_changes_nothing_of_it() {
    let mut op = History::begun(rules(Safety::Unsafe));
    op.does(&fail(1));
    op.does(&Event::Cancel);
    op.refuses(&Event::Cancel, Why::CancelRequested);
    op.does(&Event::Finalize);
    assert_eq!(op.failed().code, "http_402");
    assert!(op.state.cancel_requested);
}

#[test]
fn cancel_before_any_call_costs_no_attempt() {
    let mut op = History::accepted(rules(Safety::Unsafe));
    assert_eq!(op.does(&Event::Cancel), SETTLED);
    assert_eq!(op.failed().code, code::CANCELED);
    assert_eq!(op.failed().effect, Effect::None);
    assert_eq!(
        (op.state.fence, op.state.attempts, op.state.version),
        (0, 0, 2)
    );
}

/// A provider that remembers refusals answers for the key, up to the ttl's last moment.
#[test]
fn core_7_a_fail_after_an_unknown_call_is_a_verdict_only_on_a_remembered_key() {
    let ms = std::time::Duration::from_millis(1);
    for (age, verdict) in [(secs(5), true), (KEY_TTL - ms, true), (KEY_TTL, false)] {
        let mut op = History::begun(rules(KEYED));
        op.does(&retry(1, Effect::Unknown));
        op.begins_again();
        op.now = NOW + age;
        op.does(&fail(2));
        assert_eq!(op.state.maybe_calls, 2);
        assert_eq!(op.state.effect, Effect::Unknown, "until it is final");
        if verdict {
            assert_eq!(op.does(&Event::Finalize), DEAD);
            assert_eq!(op.failed().effect, Effect::None);
        } else {
            let hold = op.state.hold.expect("no verdict on the earlier call");
            assert_eq!(hold.failure.code, "http_402");
            assert_eq!(hold.failure.effect, Effect::Unknown);
        }
    }
}

#[test]
fn a_stale_fail_settles_nothing_and_is_kept_for_whoever_resolves() {
    let mut op = History::begun(rules(Safety::Unsafe));
    op.after(secs(30)).does(&Event::AttemptLost);
    let refused = op.state.apply(&fail(1), op.now, &op.rules);
    let refused = refused.expect_err("it is stale");
    assert_eq!((refused.why, refused.ledger), (Why::StaleFence, true));
    assert_eq!(refused.to_string(), "Fail refused: the fence is stale");
}

#[test]
fn a_recorded_answer_survives_a_restore() {
    for event in [ok(1), fail(1)] {
        let mut op = History::begun(rules(Safety::Unsafe));
        op.does(&event);
        let restored = Event::Restored { earliest_call: NOW };
        op.refuses(&restored, Why::WriteAheadPending);
    }
}

#[test]
fn only_a_held_operation_is_resolved() {
    let op = History::begun(rules(Safety::Unsafe));
    op.refuses(&Event::Resolve(Resolution::Completed), Why::NotHeld);
    let mut op = History::held(rules(Safety::Unsafe));
    assert_eq!(op.does(&Event::Resolve(Resolution::Completed)), SETTLED);
    assert_eq!(
        (op.state.status, op.state.effect),
        (Status::Completed, Effect::None)
    );
}

#[test]
fn the_queue_row_waits_for_what_the_row_needs() {
    let due = |row: Row| row.state(Route::Natural).due();
    assert_eq!(due(Row::PendingNone), Due::Begin(NOW));
    assert_eq!(due(Row::WaitingUnknown), Due::Begin(NOW));
    assert_eq!(due(Row::LiveNone), Due::Reap(NOW + secs(10)));
    assert_eq!(due(Row::RecordedFailNone), Due::Finalize);
    assert_eq!(due(Row::Held), Due::Probe(Some(NOW)));
    assert_eq!(due(Row::FailedUnknown), Due::Never);
    let person = State {
        hold: Row::Held
            .state(Route::Unsafe)
            .hold
            .map(|hold| clinch_core::protocol::Hold {
                probe_at: None,
                ..hold
            }),
        ..Row::Held.state(Route::Unsafe)
    };
    assert_eq!(person.due(), Due::Probe(None));
}
