//! Dead letters, and when data is pruned.

use std::time::Duration;

use clinch_core::ports::{
    Accepted, DeadLetter, LetterStatus, LetterView, NewBatch, NewOperation, Prune, Restriction,
};
use clinch_core::{Effect, Failure as OpFailure, Retry, Status};

use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::compare::unchanged;
use crate::fixtures::{AGES, LONG, NATURAL, REAPED, UNSAFE, no, operation, payload, secs};
use crate::world::{World, only};

pub(super) const CASES: &[Case] = area!(
    "retention",
    Store {
        a_dead_letter_holds_what_is_needed: ["OUT-6", "RUN-4", "OUT-5"],
        every_failure_but_cancel_is_a_dead_letter: ["OUT-6", "RUN-4"],
        a_late_yes_leaves_the_dead_letter_and_marks_it: ["CORE-5"],
        importing_twice_is_importing_once: ["OUT-6"],
        importing_what_is_there_changes_nothing: ["OUT-6"],
        prune_takes_what_is_older_than_its_retention: ["OUT-9"],
        prune_goes_by_the_state: ["OUT-9"],
        prune_takes_at_most_so_many: ["OUT-9"],
        open_operations_are_never_pruned: ["OUT-9"],
        what_was_open_at_one_prune_goes_with_a_later_one: ["OUT-9"],
        a_key_outlives_its_operation: ["CORE-6", "OUT-9"],
        a_mismatch_is_still_found_after_a_prune: ["CORE-6"],
        a_key_goes_by_its_own_retention: ["CORE-6", "OUT-9"],
        a_key_never_goes_before_its_operation: ["CORE-6"],
        ledger_and_dead_letter_go_with_the_operation: ["OUT-9"],
        pruned_operations_leave_the_counters: ["OUT-9"],
        pruned_members_stay_in_their_batch: ["COL-2"],
        a_pruned_key_can_be_spawned_no_more: ["CORE-6"],
    }
);

async fn letters(w: &World) -> Verdict<Vec<LetterView>> {
    w.letters().await
}

async fn a_dead_letter_holds_what_is_needed(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    w.take_in(&new).await?;
    let attempt = w.begun(new.op_id).await?;
    w.settle_fail(&attempt).await??;
    let row = w.row(new.op_id).await?;
    let letter = only(letters(&w).await?)?;
    ensure_eq!(letter.op_id, new.op_id, "the operation");
    ensure_eq!(letter.keys, new.keys, "its keys");
    ensure_eq!(letter.seq, row.seq, "its seq");
    ensure_eq!(letter.status, LetterStatus::Open, "its status");
    ensure_eq!(
        letter.failure,
        OpFailure::from_fail(no(), Effect::None),
        "why"
    );
    ensure_eq!(letter.attempts, 1, "attempts");
    ensure_eq!(Some(letter.failed_at), row.finished_at, "when");
    Ok(())
}

async fn every_failure_but_cancel_is_a_dead_letter(w: World) -> Verdict {
    use clinch_core::protocol::{Event, Resolution};
    let canceled = w.pending(NATURAL).await?;
    w.cancel(canceled).await?;
    let waiting = w.waiting(NATURAL).await?;
    w.cancel(waiting.op_id).await?;
    ensure_eq!(letters(&w).await?, [], "canceled operations");
    let refused = w.failed(NATURAL).await?.op_id;
    let lost = w.live(REAPED).await?.op_id;
    w.advance(LONG).await;
    w.amend(lost, Event::AttemptLost).await??;
    let held = w.held(UNSAFE).await?.op_id;
    let verdict = Resolution::Failed {
        fail: no(),
        effect: None,
    };
    w.amend(held, Event::Resolve(verdict)).await??;
    let damaged = w.pending(NATURAL).await?;
    w.control.corrupt(damaged).await;
    w.begin(damaged).await?.err();
    let late = w.pending(NATURAL).await?;
    w.advance(AGES).await;
    w.amend(late, Event::DeadlinePassed).await??;
    let mut found: Vec<_> = letters(&w)
        .await?
        .iter()
        .map(|letter| letter.op_id)
        .collect();
    found.sort_unstable();
    let mut expected = vec![refused, lost, held, damaged, late];
    expected.sort_unstable();
    ensure_eq!(found, expected, "dead letters");
    Ok(())
}

async fn a_late_yes_leaves_the_dead_letter_and_marks_it(w: World) -> Verdict {
    let (failed, _) = (w.failed(NATURAL).await?, w.failed(NATURAL).await?);
    let mut expected = letters(&w).await?;
    ensure!(expected.iter().all(|letter| !letter.late_ok), "no yes yet");
    w.settle(crate::fixtures::ok_answer(failed.op_id, None, "late")?)
        .await??;
    let marked = expected.iter_mut().find(|l| l.op_id == failed.op_id);
    marked
        .ok_or_else(|| crate::Failure::new("no dead letter"))?
        .late_ok = true;
    ensure_eq!(letters(&w).await?, expected, "the dead letters");
    Ok(())
}

async fn a_letter(w: &World) -> Verdict<DeadLetter> {
    let new = w.op(NATURAL)?;
    Ok(DeadLetter {
        op_id: new.op_id,
        keys: new.keys,
        failure: OpFailure::from_fail(no(), Effect::Unknown),
        attempts: 4,
        payload: new.payload,
        content_hash: new.content_hash,
        failed_at: w.now().await?,
        late_ok: false,
    })
}

async fn importing_twice_is_importing_once(w: World) -> Verdict {
    let (one, two) = (a_letter(&w).await?, a_letter(&w).await?);
    ensure_eq!(
        w.recovery.import(std::slice::from_ref(&one)).await?,
        [true],
        "a new one"
    );
    let all = [one.clone(), two.clone(), two.clone()];
    ensure_eq!(
        w.recovery.import(&all).await?,
        [false, true, false],
        "the second import"
    );
    let w = w.crash().await?;
    ensure_eq!(
        w.recovery.import(&all).await?,
        [false, false, false],
        "after a crash"
    );
    let mut found = letters(&w).await?;
    found.sort_by_key(|letter| letter.op_id);
    let found: Vec<_> = found
        .into_iter()
        .map(|l| (l.op_id, l.keys, l.failure))
        .collect();
    let expected = [one, two].map(|l| (l.op_id, l.keys, l.failure));
    ensure_eq!(found, expected, "the dead letters");
    Ok(())
}

async fn importing_what_is_there_changes_nothing(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    let before = letters(&w).await?;
    let filed = DeadLetter {
        op_id: failed.op_id,
        keys: failed.keys.clone(),
        payload: failed.payload.clone(),
        content_hash: failed.content_hash,
        ..a_letter(&w).await?
    };
    ensure_eq!(w.recovery.import(&[filed]).await?, [false], "it is there");
    ensure_eq!(letters(&w).await?, before, "the dead letters");
    unchanged(&failed, &w.row(failed.op_id).await?)
}

const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Retentions under which nothing is old enough.
const PRUNE: Prune = Prune {
    completed: NEVER,
    failed: NEVER,
    keys: NEVER,
    max: 1_000,
    reckoned: None,
    jump_max: Duration::MAX,
};

async fn prune_takes_what_is_older_than_its_retention(w: World) -> Verdict {
    let old = w.completed(NATURAL).await?;
    w.advance(secs(1_000)).await;
    let young = w.completed(NATURAL).await?;
    w.advance(secs(100)).await;
    let prune = Prune {
        completed: secs(500),
        ..PRUNE
    };
    let pruned = w.recovery.prune(&prune).await?;
    ensure_eq!((pruned.operations, pruned.keys), (1, 0), "what was pruned");
    ensure_eq!(w.look(old.op_id).await?, None, "the old one");
    unchanged(&young, &w.row(young.op_id).await?)?;
    ensure_eq!(
        w.recovery.prune(&prune).await?.operations,
        0,
        "pruned again"
    );
    Ok(())
}

async fn prune_goes_by_the_state(w: World) -> Verdict {
    let (completed, failed) = (w.completed(NATURAL).await?, w.failed(NATURAL).await?);
    w.advance(LONG).await;
    w.recovery
        .prune(&Prune {
            completed: secs(1),
            ..PRUNE
        })
        .await?;
    ensure_eq!(w.look(completed.op_id).await?, None, "the completed one");
    w.row(failed.op_id).await?;
    w.recovery
        .prune(&Prune {
            failed: secs(1),
            ..PRUNE
        })
        .await?;
    ensure_eq!(w.look(failed.op_id).await?, None, "the failed one");
    Ok(())
}

async fn prune_takes_at_most_so_many(w: World) -> Verdict {
    for _ in 0..5 {
        w.completed(NATURAL).await?;
    }
    w.advance(LONG).await;
    let prune = Prune {
        completed: secs(1),
        keys: secs(1),
        max: 2,
        ..PRUNE
    };
    let (mut operations, mut keys) = (Vec::new(), 0);
    for _ in 0..6 {
        let pruned = w.recovery.prune(&prune).await?;
        ensure!(
            pruned.operations <= 2 && pruned.keys <= 2,
            "at most 2 of each: {pruned:?}"
        );
        operations.push(pruned.operations);
        keys += pruned.keys;
    }
    ensure_eq!(operations, [2, 2, 1, 0, 0, 0], "operations a round");
    ensure_eq!(keys, 5, "keys");
    Ok(())
}

async fn open_operations_are_never_pruned(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    w.take_in(&new).await?;
    let recorded = w.live(NATURAL).await?;
    w.record_ok(&recorded).await?;
    let open = [
        new.op_id,
        w.live(NATURAL).await?.op_id,
        w.waiting(NATURAL).await?.op_id,
        w.held(UNSAFE).await?.op_id,
        recorded.op_id,
    ];
    let before = w.inspect.get(&open).await?;
    w.advance(AGES).await;
    let all = Prune {
        completed: secs(1),
        failed: secs(1),
        keys: secs(1),
        max: 1_000,
        reckoned: None,
        jump_max: Duration::MAX,
    };
    let pruned = w.recovery.prune(&all).await?;
    ensure_eq!((pruned.operations, pruned.keys), (0, 0), "what was pruned");
    ensure_eq!(w.inspect.get(&open).await?, before, "the open rows");
    ensure!(
        w.find(&new).await?.is_some(),
        "the key of an open operation"
    );
    Ok(())
}

/// An operation that ended and was pruned; only its key is left.
async fn pruned(w: &World, is_completed: bool) -> Verdict<NewOperation> {
    let new = w.op(NATURAL)?;
    w.take_in(&new).await?;
    let attempt = w.begun(new.op_id).await?;
    match is_completed {
        true => w.settle_ok(&attempt).await??,
        false => w.settle_fail(&attempt).await??,
    };
    w.advance(LONG).await;
    let prune = Prune {
        completed: secs(1),
        failed: secs(1),
        ..PRUNE
    };
    w.recovery.prune(&prune).await?;
    ensure_eq!(w.look(new.op_id).await?, None, "the pruned row");
    Ok(new)
}

async fn a_key_outlives_its_operation(w: World) -> Verdict {
    for (is_completed, status) in [(true, Status::Completed), (false, Status::Failed)] {
        let new = pruned(&w, is_completed).await?;
        let again = NewOperation {
            op_id: w.ids.op_id(),
            ..new.clone()
        };
        match w.accept(&again).await? {
            Accepted::Known(known) => {
                ensure_eq!(
                    (known.op_id, known.status, known.pruned),
                    (new.op_id, status, true),
                    "what the key answers"
                );
                ensure_eq!(w.find(&new).await?, Some(known), "what find answers");
            }
            other => ensure!(false, "an old key may be called again: {other:?}"),
        }
        ensure_eq!(w.look(again.op_id).await?, None, "no second operation");
    }
    ensure_eq!(w.claim(9).await?, [], "nothing is due");
    Ok(())
}

async fn a_mismatch_is_still_found_after_a_prune(w: World) -> Verdict {
    let new = pruned(&w, true).await?;
    let other = operation(w.ids.op_id(), new.keys.clone(), &payload(999_999)?);
    match w.accept(&other).await? {
        Accepted::Mismatch(known) => {
            ensure_eq!(
                (known.op_id, known.pruned),
                (new.op_id, true),
                "what it names"
            );
        }
        other => ensure!(false, "expected a mismatch, got {other:?}"),
    }
    Ok(())
}

async fn a_key_goes_by_its_own_retention(w: World) -> Verdict {
    let new = pruned(&w, true).await?;
    let early = Prune {
        keys: LONG * 2,
        ..PRUNE
    };
    ensure_eq!(
        w.recovery.prune(&early).await?.keys,
        0,
        "keys within their retention"
    );
    w.advance(LONG * 2).await;
    ensure_eq!(
        w.recovery.prune(&early).await?.keys,
        1,
        "keys past their retention"
    );
    ensure_eq!(w.find(&new).await?, None, "the key");
    let again = NewOperation {
        op_id: w.ids.op_id(),
        ..new
    };
    w.take_in(&again).await?;
    Ok(())
}

async fn a_key_never_goes_before_its_operation(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    w.take_in(&new).await?;
    let attempt = w.begun(new.op_id).await?;
    w.settle_ok(&attempt).await??;
    w.advance(LONG).await;
    let pruned = w
        .recovery
        .prune(&Prune {
            keys: secs(1),
            ..PRUNE
        })
        .await?;
    ensure_eq!((pruned.operations, pruned.keys), (0, 0), "what was pruned");
    let answer = w
        .accept(&NewOperation {
            op_id: w.ids.op_id(),
            ..new
        })
        .await?;
    ensure!(matches!(answer, Accepted::Known(_)), "the key: {answer:?}");
    Ok(())
}

async fn ledger_and_dead_letter_go_with_the_operation(w: World) -> Verdict {
    let new = pruned(&w, false).await?;
    ensure_eq!(w.ledger(new.op_id).await?, [], "the ledger");
    ensure_eq!(letters(&w).await?, [], "the dead letters");
    let listed = w.inspect.list(&Default::default(), None, 99).await?.items;
    ensure_eq!(listed, [], "the list");
    Ok(())
}

async fn pruned_operations_leave_the_counters(w: World) -> Verdict {
    pruned(&w, true).await?;
    pruned(&w, false).await?;
    w.completed(NATURAL).await?;
    let counts = w.counts(NATURAL).await?;
    ensure_eq!((counts.completed, counts.failed), (1, 0), "the counters");
    Ok(())
}

async fn what_was_open_at_one_prune_goes_with_a_later_one(w: World) -> Verdict {
    let (open, failed) = (w.live(NATURAL).await?, w.failed(NATURAL).await?);
    let prune = Prune {
        completed: secs(1),
        ..PRUNE
    };
    let mut pruned = 0;
    for _ in 0..2 {
        w.completed(NATURAL).await?;
        w.advance(LONG).await;
        pruned += w.recovery.prune(&prune).await?.operations;
    }
    ensure_eq!(pruned, 2, "around the open one");
    w.settle_ok(&open).await??;
    ensure_eq!(w.recovery.prune(&prune).await?.operations, 0, "too young");
    w.advance(LONG).await;
    ensure_eq!(w.recovery.prune(&prune).await?.operations, 1, "old enough");
    ensure_eq!(w.look(open.op_id).await?, None, "the one that was open");
    w.row(failed.op_id).await.map(|_| ())
}

async fn pruned_members_stay_in_their_batch(w: World) -> Verdict {
    let batch_id = w.ids.batch_id();
    w.batches
        .open(&[NewBatch {
            batch_id,
            on_complete: None,
            owner: Restriction::default(),
        }])
        .await?;
    let (one, two) = (w.op(NATURAL)?, w.op(NATURAL)?);
    let member = |new: NewOperation| NewOperation {
        batch_id: Some(batch_id),
        ..new
    };
    w.accept_all(&[member(one.clone()), member(two.clone())])
        .await?;
    w.store.seal(&[batch_id], &w.routes).await?;
    let attempt = w.begun(one.op_id).await?;
    w.settle_ok(&attempt).await??;
    w.advance(LONG).await;
    w.recovery
        .prune(&Prune {
            completed: secs(1),
            ..PRUNE
        })
        .await?;
    let batch = only(w.batches.read(&[batch_id]).await?)?;
    let counts = batch.map(|batch| (batch.total, batch.completed));
    ensure_eq!(counts, Some((2, 1)), "its counts");
    let attempt = w.begun(two.op_id).await?;
    let changed = w.settle_ok(&attempt).await??;
    ensure_eq!(changed.batch_completed, Some(batch_id), "it completes");
    Ok(())
}

async fn a_pruned_key_can_be_spawned_no_more(w: World) -> Verdict {
    let new = pruned(&w, true).await?;
    let child = NewOperation {
        op_id: w.ids.op_id(),
        ..new
    };
    let attempt = w.live(UNSAFE).await?;
    w.settle_spawning(&attempt, vec![child.clone()]).await??;
    ensure_eq!(w.look(child.op_id).await?, None, "the child");
    // A late answer finds no operation to settle either.
    let late = w.retry(&attempt, Retry::not_applied("late")).await?;
    ensure!(late.is_err(), "a settled operation was rescheduled");
    Ok(())
}
