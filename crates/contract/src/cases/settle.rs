//! Answers: first recorded, then final, and never lost.

use clinch_core::ports::{
    Accepted, Answer, Changed, Filter, Operation, Refused, ResultRecord, Scan,
};
use clinch_core::protocol::{Action, Event, Phase, Verdict as Way, Why, WriteAhead};
use clinch_core::{OpId, Retry, Status};

use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::compare::{same_but_for_time, unchanged};
use crate::concurrent::together;
use crate::fixtures::{LONG, NATURAL, UNSAFE, VERDICTS, fail_answer, no, ok_answer, yes};
use crate::world::{World, only};

pub(super) const CASES: &[Case] = area!(
    "settle",
    Store {
        write_ahead_makes_a_yes_readable: ["CORE-7", "RUN-2"],
        write_ahead_makes_a_no_readable: ["CORE-7"],
        a_recorded_yes_survives_a_crash: ["CORE-7", "CORE-13", "RUN-5"],
        a_recorded_no_survives_a_crash: ["CORE-7", "RUN-5"],
        a_recorded_outcome_belongs_to_the_finalizer: ["CORE-7", "RUN-5"],
        a_no_of_doubtful_effect_is_held: ["CORE-7"],
        a_no_is_a_verdict_where_the_provider_remembers_refusals: ["CORE-7"],
        settle_reads_back_as_both_calls: ["CORE-7"],
        a_change_tells_the_row_that_it_leaves: ["CORE-8"],
        settle_once_under_concurrent_duplicates: ["RUN-7", "RUN-11"],
        settle_answers_item_by_item: [],
        a_yes_wins_over_a_cancel: ["CORE-7"],
        a_no_after_a_cancel_keeps_its_own_code: ["CORE-7"],
        a_result_is_found_by_its_transaction_id: ["CORE-16"],
    }
);

pub(super) fn record(txn: &str) -> ResultRecord {
    let ok = yes(txn);
    ResultRecord {
        provider_txn_id: ok.provider_txn_id,
        payload: ok.result,
    }
}

async fn write_ahead_makes_a_yes_readable(w: World) -> Verdict {
    let attempt = w.live(UNSAFE).await?;
    let changed = w.record_ok(&attempt).await?;
    ensure_eq!(changed.effects, [Action::Record], "what follows");
    ensure!(changed.awaits_finalize(), "it waits to be finalized");
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state, changed.state, "the stored state");
    let expected = WriteAhead::Pending {
        verdict: Way::Ok,
        fence: 1,
    };
    ensure_eq!(row.state.write_ahead, expected, "what is recorded");
    ensure_eq!(row.state.status, Status::InProgress, "it is not final yet");
    ensure_eq!(row.state.version, attempt.state.version + 1, "the version");
    ensure_eq!(row.result, Some(record("txn")), "the recorded result");
    ensure_eq!(row.finished_at, None, "finished_at");
    Ok(())
}

async fn write_ahead_makes_a_no_readable(w: World) -> Verdict {
    let attempt = w.live(UNSAFE).await?;
    let changed = w.record_fail(&attempt).await?;
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state, changed.state, "the stored state");
    let expected = WriteAhead::Pending {
        verdict: Way::Fail,
        fence: 1,
    };
    ensure_eq!(row.state.write_ahead, expected, "what is recorded");
    let failure = row
        .state
        .failure
        .map(|failure| (failure.code, failure.message, failure.cause));
    ensure_eq!(
        failure,
        Some((no().code, no().message, no().cause)),
        "the recorded failure"
    );
    Ok(())
}

async fn a_recorded_yes_survives_a_crash(w: World) -> Verdict {
    let attempt = w.live(UNSAFE).await?;
    w.record_ok(&attempt).await?;
    let before = w.row(attempt.op_id).await?;
    let w = w.crash().await?;
    unchanged(&before, &w.row(attempt.op_id).await?)?;
    ensure_eq!(
        w.scan(Scan::Unfinalized).await?,
        [attempt.op_id],
        "what the Finalizer finds"
    );
    w.finalize(attempt.op_id).await??;
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state.status, Status::Completed, "the end");
    ensure_eq!(row.result, Some(record("txn")), "the result");
    Ok(())
}

async fn a_recorded_no_survives_a_crash(w: World) -> Verdict {
    let attempt = w.live(UNSAFE).await?;
    w.record_fail(&attempt).await?;
    let w = w.crash().await?;
    ensure_eq!(
        w.scan(Scan::Unfinalized).await?,
        [attempt.op_id],
        "what the Finalizer finds"
    );
    w.finalize(attempt.op_id).await??;
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state.status, Status::Failed, "the end");
    ensure_eq!(
        row.state.failure.map(|failure| failure.code),
        Some(no().code),
        "the failure"
    );
    Ok(())
}

async fn a_recorded_outcome_belongs_to_the_finalizer(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.record_fail(&attempt).await?;
    let before = w.row(attempt.op_id).await?;
    w.advance(LONG).await;
    ensure_eq!(
        w.scan(Scan::LeaseEnded).await?,
        [],
        "the Reaper leaves it alone"
    );
    let answers = [
        w.retry(&attempt, Retry::unknown("late")).await?,
        w.amend(attempt.op_id, Event::AttemptLost).await?,
        w.settle_fail(&attempt).await?,
    ];
    for answer in answers {
        match answer {
            Err(Refused::Illegal(refused)) => {
                ensure_eq!(refused.why, Why::WriteAheadPending, "the refusal");
            }
            other => return Err(Failure::new(format!("expected a refusal, got {other:?}"))),
        }
    }
    unchanged(&before, &w.row(attempt.op_id).await?)?;
    w.cancel(attempt.op_id).await?;
    w.finalize(attempt.op_id).await??;
    ensure_eq!(
        w.row(attempt.op_id).await?.state.status,
        Status::Failed,
        "the end"
    );
    Ok(())
}

async fn a_no_of_doubtful_effect_is_held(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.advance(LONG / 4).await;
    let second = w.begun(attempt.op_id).await?;
    let changed = w.settle_fail(&second).await??;
    ensure_eq!(changed.state.phase, Some(Phase::Held), "the phase");
    ensure_eq!(
        w.row(attempt.op_id).await?.state,
        changed.state,
        "the stored state"
    );
    ensure_eq!(w.scan(Scan::Unfinalized).await?, [], "nothing is recorded");
    Ok(())
}

async fn a_no_is_a_verdict_where_the_provider_remembers_refusals(w: World) -> Verdict {
    let attempt = w.live(VERDICTS).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.advance(LONG / 4).await;
    let second = w.begun(attempt.op_id).await?;
    let changed = w.settle_fail(&second).await??;
    ensure_eq!(changed.state.status, Status::Failed, "the state");
    Ok(())
}

/// The engine tells waiting callers what the commit said, without reading the row again.
async fn a_change_tells_the_row_that_it_leaves(w: World) -> Verdict {
    let (ended, refused) = (w.live(UNSAFE).await?, w.live(UNSAFE).await?);
    let (recorded, failed) = (w.live(UNSAFE).await?, w.live(UNSAFE).await?);
    let canceled = w.pending(NATURAL).await?;
    let cancel = w.cancel(canceled).await?;
    let changes = [
        (ended.op_id, w.settle_ok(&ended).await??),
        (refused.op_id, w.settle_fail(&refused).await??),
        (recorded.op_id, w.record_ok(&recorded).await?),
        (
            failed.op_id,
            w.retry(&failed, Retry::unknown("timeout")).await??,
        ),
        (canceled, cancel),
    ];
    for (op_id, changed) in changes {
        tells_the_row(&w, op_id, &changed).await?;
    }
    let finalized = w.finalize(recorded.op_id).await??;
    tells_the_row(&w, recorded.op_id, &finalized).await?;
    let mut new = w.op(NATURAL)?;
    new.begin = Some(w.ids.begin(new.op_id, 0)?);
    let Accepted::New {
        seq,
        state,
        accepted_at,
    } = w.accept(&new).await?
    else {
        return Err(Failure::new("the operation is new"));
    };
    let row = w.row(new.op_id).await?;
    ensure_eq!((row.seq, &row.state), (seq, &*state), "seq and state");
    ensure_eq!(row.accepted_at, accepted_at, "accepted_at");
    ensure_eq!(row.started_at, Some(accepted_at), "started_at");
    Ok(())
}

async fn tells_the_row(w: &World, op_id: OpId, changed: &Changed) -> Verdict {
    let row = w.row(op_id).await?;
    ensure_eq!(row.state, changed.state, "the state");
    ensure_eq!(row.result, changed.result, "the result");
    ensure_eq!(row.finished_at, changed.finished_at, "finished_at");
    Ok(())
}

async fn settle_reads_back_as_both_calls(w: World) -> Verdict {
    for is_yes in [true, false] {
        let (one, two) = (w.live(NATURAL).await?, w.live(NATURAL).await?);
        let answer = |attempt: &Operation| -> Verdict<Answer> {
            let fence = attempt.state.fence;
            match is_yes {
                true => ok_answer(attempt.op_id, Some(fence), "txn"),
                false => fail_answer(attempt.op_id, fence),
            }
        };
        let settled = w.settle(answer(&one)?).await??;
        w.write_ahead(answer(&two)?).await??;
        let finalized = w.finalize(two.op_id).await??;
        same_but_for_time(&settled.state, &finalized.state)?;
        ensure_eq!(settled.effects, finalized.effects, "what follows");
        let (one, two) = (w.row(one.op_id).await?, w.row(two.op_id).await?);
        ensure_eq!(one.state, settled.state, "the stored state");
        ensure_eq!(one.result, two.result, "the results");
        let lines = |ledger: Vec<clinch_core::ports::LedgerLine>| -> Vec<_> {
            ledger
                .into_iter()
                .map(|line| (line.event, line.version, line.status))
                .collect()
        };
        let (left, right) = (w.ledger(one.op_id).await?, w.ledger(two.op_id).await?);
        ensure_eq!(lines(left), lines(right), "the ledgers");
    }
    Ok(())
}

async fn settle_once_under_concurrent_duplicates(w: World) -> Verdict {
    for _ in 0..5 {
        let attempt = w.live(NATURAL).await?;
        let settled = together(32, |_| {
            let (w, attempt) = (w.clone(), attempt.clone());
            async move { w.settle_ok(&attempt).await }
        })
        .await?;
        let settles = settled
            .iter()
            .flatten()
            .filter(|changed| changed.effects.contains(&Action::Settle))
            .count();
        ensure_eq!(settles, 1, "callers that settled it");
        ensure_eq!(
            w.row(attempt.op_id).await?.state.status,
            Status::Completed,
            "the end"
        );
    }
    ensure_eq!(w.counts(NATURAL).await?.completed, 5, "COMPLETED");
    Ok(())
}

async fn settle_answers_item_by_item(w: World) -> Verdict {
    let (good, bad) = (w.live(NATURAL).await?, w.live(NATURAL).await?);
    let stale = super::late::lost(&w, NATURAL).await?;
    let answers = [
        ok_answer(good.op_id, Some(1), "good")?,
        fail_answer(stale.op_id, 1)?,
        ok_answer(w.ids.op_id(), Some(1), "nobody")?,
        fail_answer(bad.op_id, 1)?,
        ok_answer(stale.op_id, Some(1), "late")?,
        ok_answer(good.op_id, Some(1), "again")?,
    ];
    let results = w.store.settle(&answers, &w.routes).await?;
    let status: Vec<Option<Status>> = results
        .iter()
        .map(|result| result.as_ref().ok().map(|c| c.state.status))
        .collect();
    let (completed, failed) = (Some(Status::Completed), Some(Status::Failed));
    ensure_eq!(
        status,
        [completed, None, None, failed, completed, None],
        "the answers"
    );
    ensure_eq!(results[2], Err(Refused::NotFound), "nobody");
    Ok(())
}

async fn a_yes_wins_over_a_cancel(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.cancel(attempt.op_id).await?;
    let changed = w.settle_ok(&attempt).await??;
    ensure_eq!(changed.state.status, Status::Completed, "the state");
    Ok(())
}

async fn a_no_after_a_cancel_keeps_its_own_code(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.cancel(attempt.op_id).await?;
    let changed = w.settle_fail(&attempt).await??;
    let failure = changed.state.failure.map(|failure| failure.code);
    ensure_eq!(failure, Some(no().code), "the failure");
    Ok(())
}

async fn a_result_is_found_by_its_transaction_id(w: World) -> Verdict {
    let (one, two) = (w.live(NATURAL).await?, w.live(NATURAL).await?);
    w.settle(ok_answer(one.op_id, Some(1), "txn-1")?).await??;
    w.settle(ok_answer(two.op_id, Some(1), "txn-2")?).await??;
    let filter = Filter {
        provider_txn_id: Some("txn-2".into()),
        ..Filter::default()
    };
    let found = only(w.inspect.list(&filter, None, 9).await?.items)?;
    ensure_eq!(found.op_id, two.op_id, "the operation");
    Ok(())
}
