//! Store::finalize: a recorded outcome becomes final, once.

use clinch_core::ports::{Refused, Scan};
use clinch_core::protocol::{Action, Why, WriteAhead};
use clinch_core::{Effect, Status};

use super::settle::record;
use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::compare::unchanged;
use crate::concurrent::together;
use crate::fixtures::{AGES, NATURAL, UNSAFE, no};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "finalize",
    Store {
        completes_a_recorded_yes: ["CORE-5", "CORE-7"],
        fails_a_recorded_no: ["CORE-5", "RUN-4"],
        twice_is_one_change: ["CORE-5", "RUN-5"],
        twice_in_one_call_is_one_change: ["CORE-5", "RUN-5"],
        without_a_recorded_outcome_changes_nothing: ["CORE-5"],
        one_change_under_concurrent_finalizers: ["RUN-5", "RUN-7"],
        the_terminal_commit_deletes_the_queue_row: ["CORE-9"],
    }
);

async fn completes_a_recorded_yes(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let recorded = w.record_ok(&attempt).await?;
    let changed = w.finalize(attempt.op_id).await??;
    ensure_eq!(changed.effects, [Action::Settle], "what follows");
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state, changed.state, "the stored state");
    ensure_eq!(row.state.status, Status::Completed, "the state");
    ensure_eq!(row.state.write_ahead, WriteAhead::Done, "the record");
    ensure_eq!(row.state.version, recorded.state.version + 1, "the version");
    ensure_eq!(row.result, Some(record("txn")), "the result");
    let finished = row.finished_at >= row.started_at && row.finished_at.is_some();
    ensure!(finished, "finished_at is {:?}", row.finished_at);
    ensure_eq!(w.counts(NATURAL).await?.completed, 1, "one is COMPLETED");
    Ok(())
}

async fn fails_a_recorded_no(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.record_fail(&attempt).await?;
    let changed = w.finalize(attempt.op_id).await??;
    ensure_eq!(
        changed.effects,
        [Action::Settle, Action::DeadLetter],
        "what follows"
    );
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state, changed.state, "the stored state");
    ensure_eq!(row.state.status, Status::Failed, "the state");
    let failure = row
        .state
        .failure
        .map(|failure| (failure.code, failure.effect));
    ensure_eq!(failure, Some((no().code, Effect::None)), "the failure");
    ensure_eq!(row.result, None, "there is no result");
    let letters = w.letters().await?;
    ensure_eq!(letters.len(), 1, "dead letters");
    Ok(())
}

async fn twice_is_one_change(w: World) -> Verdict {
    let (yes, no) = (w.live(NATURAL).await?, w.live(NATURAL).await?);
    w.record_ok(&yes).await?;
    w.record_fail(&no).await?;
    for op in [yes.op_id, no.op_id] {
        w.finalize(op).await??;
        let before = w.row(op).await?;
        match w.finalize(op).await? {
            Err(Refused::Illegal(refused)) => ensure_eq!(refused.why, Why::Terminal, "why"),
            other => return Err(Failure::new(format!("expected a refusal, got {other:?}"))),
        }
        unchanged(&before, &w.row(op).await?)?;
    }
    let counts = w.counts(NATURAL).await?;
    ensure_eq!((counts.completed, counts.failed), (1, 1), "counters");
    ensure_eq!(w.letters().await?.len(), 1, "dead letters");
    Ok(())
}

async fn twice_in_one_call_is_one_change(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let recorded = w.record_ok(&attempt).await?;
    let op = attempt.op_id;
    let answers = w.store.finalize(&[op, op], &w.routes).await?;
    ensure!(
        answers[0].is_ok() && answers[1].is_err(),
        "the answers: {answers:?}"
    );
    let version = w.row(op).await?.state.version;
    ensure_eq!(version, recorded.state.version + 1, "the version");
    Ok(())
}

async fn without_a_recorded_outcome_changes_nothing(w: World) -> Verdict {
    let pending = w.pending(NATURAL).await?;
    let live = w.live(NATURAL).await?.op_id;
    let waiting = w.waiting(NATURAL).await?.op_id;
    let held = w.held(UNSAFE).await?.op_id;
    for op in [pending, live, waiting, held] {
        let before = w.row(op).await?;
        match w.finalize(op).await? {
            Err(Refused::Illegal(refused)) => {
                ensure_eq!(refused.why, Why::NothingRecorded, "why");
            }
            other => return Err(Failure::new(format!("expected a refusal, got {other:?}"))),
        }
        unchanged(&before, &w.row(op).await?)?;
    }
    Ok(())
}

async fn one_change_under_concurrent_finalizers(w: World) -> Verdict {
    let mut ops = Vec::new();
    for _ in 0..20 {
        let attempt = w.live(NATURAL).await?;
        w.record_fail(&attempt).await?;
        ops.push(attempt.op_id);
    }
    let changes = together(8, |number| {
        let (w, mut ops) = (w.clone(), ops.clone());
        if number % 2 == 1 {
            ops.reverse();
        }
        async move {
            let answers = w.store.finalize(&ops, &w.routes).await?;
            Ok(answers.into_iter().flatten().count())
        }
    })
    .await?;
    ensure_eq!(changes.iter().sum::<usize>(), 20, "changes in all");
    ensure_eq!(w.counts(NATURAL).await?.failed, 20, "FAILED");
    ensure_eq!(w.letters().await?.len(), 20, "dead letters");
    Ok(())
}

async fn the_terminal_commit_deletes_the_queue_row(w: World) -> Verdict {
    let (completed, failed) = (w.completed(NATURAL).await?, w.failed(NATURAL).await?);
    let canceled = w.pending(NATURAL).await?;
    w.cancel(canceled).await?;
    w.advance(AGES).await;
    ensure_eq!(w.claim(9).await?, [], "nothing is announced");
    for scan in [
        Scan::Unfinalized,
        Scan::LeaseEnded,
        Scan::ProbeDue,
        Scan::Overdue,
    ] {
        ensure_eq!(w.scan(scan).await?, [], "{scan:?} finds nothing");
        ensure_eq!(
            w.recovery.next_due(scan).await?,
            None,
            "{scan:?} waits for nothing"
        );
    }
    ensure_eq!(
        w.outbox.next_due(None).await?,
        None,
        "the outbox waits for nothing"
    );
    for op in [completed.op_id, failed.op_id, canceled] {
        ensure!(w.row(op).await?.state.is_terminal(), "{op} is not terminal");
    }
    Ok(())
}
