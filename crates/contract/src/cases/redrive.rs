//! Redrives and late answers: a redrive does not repeat a call that was applied.

use clinch_core::ports::{Accepted, NewBatch, NewOperation, Operation, Restriction};
use clinch_core::protocol::{Event, Phase, Resolution};
use clinch_core::{Actor, Effect, OpId, Retry, Status};

use super::settle::record;
use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::concurrent::together;
use crate::fixtures::{LEASE, UNSAFE, no, ok_answer, secs};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "redrive",
    Store {
        both_ledgers_say_who_redrove: [],
        is_refused_alone_if_the_call_was_applied_after_all: ["CORE-7"],
        is_refused_also_after_a_crash: ["CORE-7"],
        a_late_yes_completes_the_redrive_in_every_phase: ["CORE-7"],
        a_late_yes_passes_along_a_chain_of_redrives: ["CORE-7"],
        a_late_yes_completes_the_batch_of_the_redrive: [],
        a_late_yes_leaves_a_completed_redrive_alone: ["CORE-5"],
        a_late_yes_and_a_redrive_at_once_never_leave_a_call: ["CORE-7"],
    }
);

/// An unsafe operation that an operator resolved as not applied: the risk of a double charge.
async fn given_up(w: &World) -> Verdict<Operation> {
    let held = w.held(UNSAFE).await?;
    let failed = Resolution::Failed {
        fail: no(),
        effect: Some(Effect::None),
    };
    w.amend(held.op_id, Event::Resolve(failed)).await??;
    let row = w.row(held.op_id).await?;
    ensure_eq!(row.state.status, Status::Failed, "given up");
    Ok(row)
}

fn redrive_of(w: &World, failed: &Operation) -> Verdict<NewOperation> {
    Ok(NewOperation {
        redrive_of: Some(failed.op_id),
        outbound_key: failed.outbound_key.clone(),
        inherited: failed.state.bequest(),
        ..w.op(UNSAFE)?
    })
}

async fn say_yes_late(w: &World, op: OpId) -> Verdict {
    w.settle(ok_answer(op, Some(1), "late")?).await??;
    Ok(())
}

async fn both_ledgers_say_who_redrove(w: World) -> Verdict {
    let failed = given_up(&w).await?;
    let by = Actor::key("00ff", "anna").name().clone();
    let redrive = NewOperation {
        by: Some(by.clone()),
        ..redrive_of(&w, &failed)?
    };
    let version = w.row(failed.op_id).await?.state.version;
    w.take_in(&redrive).await?;
    // The same again adds nothing.
    w.accept(&redrive).await?;
    let w = w.crash().await?;
    let row = w.row(failed.op_id).await?;
    ensure_eq!(row.redriven_by, Some(redrive.op_id), "the mark");
    ensure_eq!(row.state.version, version, "the version of what had ended");
    let ledger = w.inspect.ledger(failed.op_id).await?;
    let lines = ledger.iter().filter(|line| line.event == "Redriven");
    let lines: Vec<_> = lines
        .map(|line| (line.by.clone(), line.note.clone()))
        .collect();
    let expected = (Some(by.clone()), format!("by {}", redrive.op_id));
    ensure_eq!(lines, [expected], "the ledger of the redriven operation");
    let ledger = w.inspect.ledger(redrive.op_id).await?;
    let first = ledger
        .first()
        .map(|line| (line.event.clone(), line.by.clone()));
    ensure_eq!(
        first,
        Some(("Accept".to_owned(), Some(by))),
        "its own ledger"
    );
    Ok(())
}

async fn is_refused_alone_if_the_call_was_applied_after_all(w: World) -> Verdict {
    let failed = given_up(&w).await?;
    say_yes_late(&w, failed.op_id).await?;
    let new = [redrive_of(&w, &failed)?, w.op(UNSAFE)?];
    let answers = w.accept_all(&new).await?;
    ensure_eq!(answers[0], Accepted::PredecessorApplied, "the redrive");
    ensure!(
        matches!(answers[1], Accepted::New { .. }),
        "the other item: {:?}",
        answers[1]
    );
    ensure_eq!(w.look(new[0].op_id).await?, None, "the refused redrive");
    ensure_eq!(w.find(&new[0]).await?, None, "its key");
    let row = w.row(failed.op_id).await?;
    ensure_eq!(row.redriven_by, None, "the predecessor");
    Ok(())
}

async fn is_refused_also_after_a_crash(w: World) -> Verdict {
    let failed = given_up(&w).await?;
    say_yes_late(&w, failed.op_id).await?;
    let w = w.crash().await?;
    ensure!(w.row(failed.op_id).await?.state.late_ok, "the mark is gone");
    let answers = w.accept_all(&[redrive_of(&w, &failed)?]).await?;
    ensure_eq!(answers, [Accepted::PredecessorApplied], "the redrive");
    Ok(())
}

/// Brings a redrive into a phase.
async fn bring(w: &World, op: OpId, phase: Option<Phase>) -> Verdict {
    let Some(phase) = phase else {
        return Ok(());
    };
    let attempt = w.begun(op).await?;
    match phase {
        Phase::Live => {}
        Phase::Waiting => {
            w.retry(&attempt, Retry::not_applied("busy")).await??;
        }
        Phase::Held => {
            w.advance(LEASE + secs(5)).await;
            w.amend(op, Event::AttemptLost).await??;
        }
    }
    ensure_eq!(w.row(op).await?.state.phase, Some(phase), "the phase");
    Ok(())
}

async fn a_late_yes_completes_the_redrive_in_every_phase(w: World) -> Verdict {
    let phases = [Phase::Live, Phase::Waiting, Phase::Held].map(Some);
    for phase in phases.into_iter().chain([None]) {
        let failed = given_up(&w).await?;
        let redrive = redrive_of(&w, &failed)?;
        w.take_in(&redrive).await?;
        bring(&w, redrive.op_id, phase).await?;
        say_yes_late(&w, failed.op_id).await?;
        let row = w.row(redrive.op_id).await?;
        ensure_eq!(
            row.state.status,
            Status::Completed,
            "{phase:?}: the redrive"
        );
        ensure_eq!(row.result, Some(record("late")), "{phase:?}: its result");
        let ledger = w.ledger(redrive.op_id).await?;
        let told = ledger
            .last()
            .is_some_and(|line| line.note.contains(&failed.op_id.to_string()));
        ensure!(told, "{phase:?}: the ledger does not say why");
        let before = w.row(failed.op_id).await?;
        ensure_eq!(before.state.status, Status::Failed, "the predecessor stays");
        ensure!(before.state.late_ok, "the predecessor is marked");
        ensure!(w.begin(redrive.op_id).await?.is_err(), "it begins again");
    }
    let counts = w.counts(UNSAFE).await?;
    ensure_eq!((counts.completed, counts.failed), (4, 4), "the counters");
    ensure_eq!(w.claim(9).await?, [], "nothing is due");
    Ok(())
}

async fn a_late_yes_passes_along_a_chain_of_redrives(w: World) -> Verdict {
    let first = given_up(&w).await?;
    let second = redrive_of(&w, &first)?;
    w.take_in(&second).await?;
    let attempt = w.begun(second.op_id).await?;
    w.settle_fail(&attempt).await??;
    let second = w.row(second.op_id).await?;
    let third = redrive_of(&w, &second)?;
    w.take_in(&third).await?;
    say_yes_late(&w, first.op_id).await?;
    ensure!(w.row(second.op_id).await?.state.late_ok, "the second");
    let third = w.row(third.op_id).await?;
    ensure_eq!(third.state.status, Status::Completed, "the third");
    Ok(())
}

async fn a_late_yes_completes_the_batch_of_the_redrive(w: World) -> Verdict {
    let failed = given_up(&w).await?;
    let batch_id = w.ids.batch_id();
    let batch = NewBatch {
        batch_id,
        owner: Restriction::default(),
        on_complete: None,
    };
    w.batches.open(&[batch]).await?;
    let redrive = NewOperation {
        batch_id: Some(batch_id),
        ..redrive_of(&w, &failed)?
    };
    w.take_in(&redrive).await?;
    w.store.seal(&[batch_id], &w.routes).await?;
    let changed = w
        .settle(ok_answer(failed.op_id, Some(1), "late")?)
        .await??;
    ensure_eq!(changed.batch_completed, Some(batch_id), "the batch is told");
    let read = w.batches.read(&[batch_id]).await?;
    let completed = read.into_iter().flatten().map(|batch| batch.completed);
    ensure_eq!(completed.collect::<Vec<_>>(), [1], "members that completed");
    Ok(())
}

async fn a_late_yes_leaves_a_completed_redrive_alone(w: World) -> Verdict {
    let failed = given_up(&w).await?;
    let redrive = redrive_of(&w, &failed)?;
    w.take_in(&redrive).await?;
    let attempt = w.begun(redrive.op_id).await?;
    w.settle_ok(&attempt).await??;
    let before = w.row(redrive.op_id).await?;
    say_yes_late(&w, failed.op_id).await?;
    crate::compare::unchanged(&before, &w.row(redrive.op_id).await?)?;
    let ledger = w.ledger(redrive.op_id).await?;
    let late = ledger.last().and_then(|line| line.late.clone());
    ensure_eq!(late, Some(record("late")), "both answers are in its ledger");
    Ok(())
}

async fn a_late_yes_and_a_redrive_at_once_never_leave_a_call(w: World) -> Verdict {
    for round in 0..8 {
        let failed = given_up(&w).await?;
        let redrive = redrive_of(&w, &failed)?;
        let op = redrive.op_id;
        together(2, |number| {
            let (w, redrive, failed) = (w.clone(), redrive.clone(), failed.op_id);
            async move {
                match number {
                    0 => w.accept_all(&[redrive]).await.map(drop),
                    _ => say_yes_late(&w, failed).await,
                }
            }
        })
        .await?;
        match w.look(op).await? {
            None => {}
            Some(row) if row.state.status == Status::Completed => {}
            Some(row) => {
                let state = format!("{:?} {:?}", row.state.status, row.state.phase);
                return Err(Failure::new(format!("round {round}: it is {state}")));
            }
        }
    }
    Ok(())
}
