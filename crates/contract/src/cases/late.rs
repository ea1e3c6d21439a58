//! Late answers: a provider's Ok is a fact, whichever process reports it; a Fail is not.

use clinch_core::ports::{Changed, Operation, Refused, Scan};
use clinch_core::protocol::{Action, Event, Phase, Why};
use clinch_core::{Effect, Status};

use super::settle::record;
use crate::case::{Case, Failure, Verdict};
use crate::compare::unchanged;
use crate::fixtures::{LEASE, LONG, NATURAL, UNSAFE, fail_answer, ok_answer, secs};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "late",
    Store {
        a_stale_no_changes_nothing_but_the_ledger: ["RUN-7"],
        a_late_yes_completes_a_waiting_operation: ["CORE-7"],
        a_late_yes_completes_a_held_operation: ["CORE-7"],
        a_yes_from_a_spill_file_completes_any_open_operation: ["CORE-7"],
        a_late_yes_replaces_a_recorded_no: ["CORE-7"],
        a_late_yes_on_failed_is_in_the_ledger_and_marks_it: ["CORE-5"],
        a_second_yes_on_completed_changes_nothing: ["CORE-5", "CORE-13"],
    }
);

async fn a_stale_no_changes_nothing_but_the_ledger(w: World) -> Verdict {
    let attempt = lost(&w, NATURAL).await?;
    let before = w.row(attempt.op_id).await?;
    let lines = w.ledger(attempt.op_id).await?.len();
    let answer = fail_answer(attempt.op_id, attempt.state.fence)?;
    let refused = w.write_ahead(answer).await?;
    ensure!(refused.is_err(), "a stale no was recorded");
    unchanged(&before, &w.row(attempt.op_id).await?)?;
    let ledger = w.ledger(attempt.op_id).await?;
    ensure_eq!(ledger.len(), lines + 1, "ledger lines");
    let told = ledger
        .last()
        .is_some_and(|line| line.refused.is_some() && line.event == "Fail");
    ensure!(
        told,
        "the line does not tell of the refused answer: {:?}",
        ledger.last()
    );
    Ok(())
}

async fn a_late_yes_completes_a_waiting_operation(w: World) -> Verdict {
    let attempt = lost(&w, NATURAL).await?;
    let before = w.row(attempt.op_id).await?;
    ensure_eq!(before.state.phase, Some(Phase::Waiting), "the phase before");
    let answer = ok_answer(attempt.op_id, Some(1), "late")?;
    let changed = w.write_ahead(answer).await??;
    completed_late(&w, &before, &changed, "late").await?;
    w.advance(LONG).await;
    ensure_eq!(w.claim(9).await?, [], "it is not called again");
    Ok(())
}

async fn a_late_yes_completes_a_held_operation(w: World) -> Verdict {
    let attempt = lost(&w, UNSAFE).await?;
    let before = w.row(attempt.op_id).await?;
    ensure_eq!(before.state.phase, Some(Phase::Held), "the phase before");
    let changed = w
        .settle(ok_answer(attempt.op_id, Some(1), "late")?)
        .await??;
    completed_late(&w, &before, &changed, "late").await
}

async fn a_yes_from_a_spill_file_completes_any_open_operation(w: World) -> Verdict {
    // PENDING too: the store may have been restored from a backup from before the begin.
    let pending = w.pending(NATURAL).await?;
    let live = w.live(NATURAL).await?.op_id;
    let waiting = w.waiting(NATURAL).await?.op_id;
    let held = w.held(UNSAFE).await?.op_id;
    for op in [pending, live, waiting, held] {
        let before = w.row(op).await?;
        let changed = w.write_ahead(ok_answer(op, None, "spilled")?).await??;
        completed_late(&w, &before, &changed, "spilled").await?;
    }
    Ok(())
}

async fn a_late_yes_replaces_a_recorded_no(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.record_fail(&attempt).await?;
    let before = w.row(attempt.op_id).await?;
    let changed = w
        .write_ahead(ok_answer(attempt.op_id, None, "spilled")?)
        .await??;
    completed_late(&w, &before, &changed, "spilled").await?;
    ensure_eq!(changed.state.failure, None, "the recorded no is gone");
    let again = w.finalize(attempt.op_id).await?;
    ensure!(again.is_err(), "a replaced no was finalized");
    let letters = w.letters().await?;
    ensure_eq!(letters, [], "no dead letter");
    Ok(())
}

async fn a_late_yes_on_failed_is_in_the_ledger_and_marks_it(w: World) -> Verdict {
    let mut failed = w.failed(NATURAL).await?;
    ensure!(!failed.state.late_ok, "marked before the yes");
    failed.state.late_ok = true;
    for answer in [Some(1), None] {
        let lines = w.ledger(failed.op_id).await?.len();
        let changed = w.settle(ok_answer(failed.op_id, answer, "late")?).await??;
        ensure_eq!(changed.effects, [Action::AlertLateOk], "what follows");
        ensure_eq!(changed.state, failed.state, "the state, but for the mark");
        unchanged(&failed, &w.row(failed.op_id).await?)?;
        let ledger = w.ledger(failed.op_id).await?;
        ensure_eq!(ledger.len(), lines + 1, "ledger lines");
        let late = ledger.last().and_then(|line| line.late.clone());
        ensure_eq!(late, Some(record("late")), "the answer in the ledger");
    }
    ensure_eq!(w.counts(NATURAL).await?.failed, 1, "one is FAILED");
    Ok(())
}

async fn a_second_yes_on_completed_changes_nothing(w: World) -> Verdict {
    let completed = w.completed(NATURAL).await?;
    for fence in [Some(1), Some(7), None] {
        let answer = w
            .settle(ok_answer(completed.op_id, fence, "second")?)
            .await?;
        match answer {
            Err(Refused::Illegal(refused)) => ensure_eq!(refused.why, Why::Terminal, "why"),
            other => return Err(Failure::new(format!("expected a refusal, got {other:?}"))),
        }
        unchanged(&completed, &w.row(completed.op_id).await?)?;
    }
    Ok(())
}

/// An attempt that the Reaper ended, while its operation waits or is held.
pub(super) async fn lost(w: &World, domain: &str) -> Verdict<Operation> {
    let attempt = w.live(domain).await?;
    w.advance(LEASE + secs(5)).await;
    w.amend(attempt.op_id, Event::AttemptLost).await??;
    Ok(attempt)
}

/// The operation completed in one commit, with this result.
async fn completed_late(w: &World, before: &Operation, changed: &Changed, txn: &str) -> Verdict {
    ensure_eq!(changed.state.status, Status::Completed, "the state");
    ensure!(
        changed.effects.contains(&Action::Settle),
        "effects: {:?}",
        changed.effects
    );
    ensure_eq!(
        changed.state.version,
        before.state.version + 1,
        "one change"
    );
    let row = w.row(before.op_id).await?;
    ensure_eq!(row.state, changed.state, "the stored state");
    ensure_eq!(
        row.state.effect,
        Effect::None,
        "nothing is unknown any more"
    );
    ensure_eq!(row.result, Some(record(txn)), "the result");
    ensure!(row.finished_at.is_some(), "finished_at is missing");
    ensure_eq!(
        w.scan(Scan::Unfinalized).await?,
        [],
        "nothing is left to finalize"
    );
    Ok(())
}
