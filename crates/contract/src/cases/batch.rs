//! Batches: groups whose end is one event.

use std::time::Duration;

use clinch_core::ports::{Batch, Changed, NewBatch, NewOperation, Operation, Prune, Restriction};
use clinch_core::protocol::{Event, Resolution};
use clinch_core::{BatchId, EventType, OpId, Retry, Status};

use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::concurrent::together;
use crate::fixtures::{AGES, LONG, NATURAL, UNSAFE, domain, ok_answer, secs};
use crate::world::{World, ids, only};

pub(super) const CASES: &[Case] = area!(
    "batch",
    Store {
        opening_twice_leaves_it_as_it_is: ["COL-2"],
        an_unknown_batch_reads_as_none: [],
        a_batch_keeps_its_owner: ["CORE-16"],
        counts_change_with_their_members: ["COL-2"],
        a_known_key_is_no_second_member: ["COL-10"],
        sealing_completes_a_batch_whose_members_are_terminal: ["COL-10"],
        sealing_an_empty_batch_completes_it: ["COL-10"],
        sealing_twice_is_sealing_once: ["COL-10"],
        an_unsealed_batch_does_not_complete: ["COL-10"],
        the_last_member_completes_a_sealed_batch: ["COL-10"],
        the_completing_commit_accepts_the_completion: ["COL-10", "COL-11"],
        the_completion_is_no_member: ["COL-10"],
        completes_by_any_way_to_the_end: ["COL-10"],
        completes_once_in_one_call: ["COL-10"],
        completes_once_under_concurrent_settlers: ["COL-10"],
        completes_once_when_seal_and_last_settle_race: ["COL-10"],
        a_complete_batch_goes_after_its_members: ["OUT-9"],
        survives_a_crash: ["COL-10", "COL-12"],
    }
);

async fn open(w: &World, on_complete: Option<NewOperation>) -> Verdict<BatchId> {
    let batch_id = w.ids.batch_id();
    let opened = w
        .batches
        .open(&[NewBatch {
            batch_id,
            on_complete,
            owner: Restriction::default(),
        }])
        .await?;
    ensure_eq!(opened, [true], "a new batch");
    Ok(batch_id)
}

async fn read(w: &World, batch: BatchId) -> Verdict<Batch> {
    let batch = only(w.batches.read(&[batch]).await?)?;
    batch.ok_or_else(|| Failure::new("the batch is not there"))
}

/// Total, completed and failed.
async fn counts(w: &World, batch: BatchId) -> Verdict<(u64, u64, u64)> {
    let batch = read(w, batch).await?;
    Ok((batch.total, batch.completed, batch.failed))
}

async fn member(w: &World, domain: &str, batch: BatchId) -> Verdict<OpId> {
    let new = NewOperation {
        batch_id: Some(batch),
        ..w.op(domain)?
    };
    w.take_in(&new).await?;
    Ok(new.op_id)
}

async fn live_member(w: &World, domain: &str, batch: BatchId) -> Verdict<Operation> {
    let op = member(w, domain, batch).await?;
    w.begun(op).await
}

async fn seal(w: &World, batch: BatchId) -> Verdict<Vec<BatchId>> {
    Ok(w.store.seal(&[batch], &w.routes).await?)
}

async fn opening_twice_leaves_it_as_it_is(w: World) -> Verdict {
    let end = w.op(NATURAL)?;
    let batch_id = open(&w, Some(end.clone())).await?;
    member(&w, NATURAL, batch_id).await?;
    let again = NewBatch {
        batch_id,
        on_complete: None,
        owner: Restriction::default(),
    };
    let fresh = NewBatch {
        batch_id: w.ids.batch_id(),
        on_complete: None,
        owner: Restriction::default(),
    };
    let opened = w
        .batches
        .open(&[again.clone(), fresh.clone(), fresh])
        .await?;
    ensure_eq!(opened, [false, true, false], "which were new");
    ensure_eq!(counts(&w, batch_id).await?, (1, 0, 0), "its counts");
    let attempt = live_member(&w, NATURAL, batch_id).await?;
    w.settle_ok(&attempt).await??;
    let open = read(&w, batch_id).await?;
    ensure!(
        !open.sealed && open.completed_at.is_none(),
        "opening again closed it"
    );
    Ok(())
}

async fn an_unknown_batch_reads_as_none(w: World) -> Verdict {
    let known = open(&w, None).await?;
    let read = w.batches.read(&[w.ids.batch_id(), known]).await?;
    ensure!(read[0].is_none() && read[1].is_some(), "got {read:?}");
    ensure_eq!(
        read[1].as_ref().map(|batch| batch.batch_id),
        Some(known),
        "its id"
    );
    Ok(())
}

async fn a_batch_keeps_its_owner(w: World) -> Verdict {
    let owner = Restriction {
        domains: vec![domain(NATURAL)?, domain(UNSAFE)?],
        event_types: vec![EventType::new("charge")?],
    };
    let batch_id = w.ids.batch_id();
    let new = |owner: &Restriction| NewBatch {
        batch_id,
        on_complete: None,
        owner: owner.clone(),
    };
    w.batches.open(&[new(&owner)]).await?;
    w.batches.open(&[new(&Restriction::default())]).await?;
    ensure_eq!(read(&w, batch_id).await?.owner, owner, "opened again");
    let attempt = live_member(&w, NATURAL, batch_id).await?;
    w.settle_ok(&attempt).await??;
    seal(&w, batch_id).await?;
    let ended = read(&w, batch_id).await?;
    ensure_eq!(ended.owner, owner, "after its end");
    let free = open(&w, None).await?;
    ensure!(read(&w, free).await?.owner.is_none(), "an owner by itself");
    Ok(())
}

async fn counts_change_with_their_members(w: World) -> Verdict {
    let batch = open(&w, None).await?;
    ensure_eq!(counts(&w, batch).await?, (0, 0, 0), "an empty batch");
    let (one, two) = (
        live_member(&w, NATURAL, batch).await?,
        live_member(&w, NATURAL, batch).await?,
    );
    let three = member(&w, NATURAL, batch).await?;
    ensure_eq!(counts(&w, batch).await?, (3, 0, 0), "three members");
    w.record_ok(&one).await?;
    ensure_eq!(
        counts(&w, batch).await?,
        (3, 0, 0),
        "a recorded answer is not final"
    );
    w.finalize(one.op_id).await??;
    ensure_eq!(counts(&w, batch).await?, (3, 1, 0), "one is COMPLETED");
    w.settle_fail(&two).await??;
    ensure_eq!(counts(&w, batch).await?, (3, 1, 1), "one is FAILED");
    w.cancel(three).await?;
    ensure_eq!(counts(&w, batch).await?, (3, 1, 2), "one is canceled");
    w.settle_ok(&one).await?.err();
    ensure_eq!(
        counts(&w, batch).await?,
        (3, 1, 2),
        "a second answer counts nothing"
    );
    w.pending(NATURAL).await?;
    ensure_eq!(
        counts(&w, batch).await?,
        (3, 1, 2),
        "an operation without a batch"
    );
    Ok(())
}

async fn a_known_key_is_no_second_member(w: World) -> Verdict {
    let batch = open(&w, None).await?;
    let new = NewOperation {
        batch_id: Some(batch),
        ..w.op(NATURAL)?
    };
    let outside = w.op(NATURAL)?;
    w.accept_all(&[new.clone(), outside.clone()]).await?;
    let again = NewOperation {
        op_id: w.ids.op_id(),
        ..new
    };
    let taken = NewOperation {
        op_id: w.ids.op_id(),
        batch_id: Some(batch),
        ..outside.clone()
    };
    w.accept_all(&[again, taken]).await?;
    ensure_eq!(counts(&w, batch).await?, (1, 0, 0), "its counts");
    ensure_eq!(
        w.row(outside.op_id).await?.batch_id,
        None,
        "who was outside stays outside"
    );
    Ok(())
}

async fn sealing_completes_a_batch_whose_members_are_terminal(w: World) -> Verdict {
    let batch = open(&w, None).await?;
    let attempt = live_member(&w, NATURAL, batch).await?;
    let settled = w.settle_ok(&attempt).await??;
    ensure_eq!(settled.batch_completed, None, "it is not sealed yet");
    ensure_eq!(seal(&w, batch).await?, [batch], "complete by the seal");
    let read = read(&w, batch).await?;
    ensure!(
        read.sealed && read.is_complete() && read.completed_at.is_some(),
        "got {read:?}"
    );
    Ok(())
}

async fn sealing_an_empty_batch_completes_it(w: World) -> Verdict {
    let batch = open(&w, None).await?;
    ensure_eq!(seal(&w, batch).await?, [batch], "complete by the seal");
    Ok(())
}

async fn sealing_twice_is_sealing_once(w: World) -> Verdict {
    let end = w.op(NATURAL)?;
    let batch = open(&w, Some(end)).await?;
    let sealed = w.store.seal(&[batch, batch], &w.routes).await?;
    ensure_eq!(sealed, [batch], "complete by the seal");
    let before = read(&w, batch).await?;
    ensure_eq!(seal(&w, batch).await?, [], "sealed again");
    ensure_eq!(read(&w, batch).await?, before, "the batch");
    ensure_eq!(w.counts(NATURAL).await?.pending, 1, "completions");
    Ok(())
}

async fn an_unsealed_batch_does_not_complete(w: World) -> Verdict {
    let end = w.op(NATURAL)?;
    let batch = open(&w, Some(end.clone())).await?;
    for _ in 0..3 {
        let attempt = live_member(&w, NATURAL, batch).await?;
        let changed = w.settle_ok(&attempt).await??;
        ensure_eq!(changed.batch_completed, None, "more may come");
    }
    ensure_eq!(w.look(end.op_id).await?, None, "its completion");
    ensure_eq!(read(&w, batch).await?.completed_at, None, "completed_at");
    Ok(())
}

async fn the_last_member_completes_a_sealed_batch(w: World) -> Verdict {
    let batch = open(&w, None).await?;
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(live_member(&w, NATURAL, batch).await?);
    }
    ensure_eq!(seal(&w, batch).await?, [], "members are open");
    for (number, attempt) in members.iter().enumerate() {
        let changed = w.settle_ok(attempt).await??;
        let expected = (number == 2).then_some(batch);
        ensure_eq!(changed.batch_completed, expected, "after {number} of 3");
    }
    ensure_eq!(counts(&w, batch).await?, (3, 3, 0), "its counts");
    Ok(())
}

async fn the_completing_commit_accepts_the_completion(w: World) -> Verdict {
    let end = w.op(UNSAFE)?;
    let batch = open(&w, Some(end.clone())).await?;
    let attempt = live_member(&w, NATURAL, batch).await?;
    seal(&w, batch).await?;
    ensure_eq!(w.look(end.op_id).await?, None, "before the end");
    w.settle_ok(&attempt).await??;
    let row = w.row(end.op_id).await?;
    ensure_eq!(row.state.status, Status::Pending, "the completion");
    ensure!(row.payload == end.payload, "its payload");
    ensure_eq!(ids(&w.claim(9).await?), [end.op_id], "its queue row");
    Ok(())
}

async fn the_completion_is_no_member(w: World) -> Verdict {
    let end = w.op(NATURAL)?;
    let batch = open(&w, Some(end.clone())).await?;
    seal(&w, batch).await?;
    let attempt = w.begun(end.op_id).await?;
    let changed = w.settle_ok(&attempt).await??;
    ensure_eq!(
        changed.batch_completed,
        None,
        "a completion completes nothing"
    );
    ensure_eq!(counts(&w, batch).await?, (0, 0, 0), "its counts");
    Ok(())
}

/// Every commit that can be a member's last.
async fn completes_by_any_way_to_the_end(w: World) -> Verdict {
    for way in [
        "settle",
        "finalize",
        "late yes",
        "reschedule",
        "cancel",
        "resolve",
    ] {
        let domain = if way == "resolve" { UNSAFE } else { NATURAL };
        let batch = open(&w, None).await?;
        let attempt = live_member(&w, domain, batch).await?;
        let op = attempt.op_id;
        seal(&w, batch).await?;
        let changed: Changed = match way {
            "settle" => w.settle_fail(&attempt).await??,
            "finalize" => {
                w.record_ok(&attempt).await?;
                w.finalize(op).await??
            }
            "late yes" => w.write_ahead(ok_answer(op, None, "spilled")?).await??,
            "reschedule" => {
                w.cancel(op).await?;
                w.retry(&attempt, Retry::not_applied("canceled")).await??
            }
            "cancel" => {
                w.retry(&attempt, Retry::not_called("closed")).await??;
                w.cancel(op).await?
            }
            _ => {
                w.retry(&attempt, Retry::unknown("timeout")).await??;
                w.amend(op, Event::Resolve(Resolution::Completed)).await??
            }
        };
        ensure_eq!(changed.batch_completed, Some(batch), "completed by {way}");
        ensure!(
            read(&w, batch).await?.completed_at.is_some(),
            "{way}: completed_at"
        );
    }
    Ok(())
}

async fn completes_once_in_one_call(w: World) -> Verdict {
    let end = w.op(UNSAFE)?;
    let batch = open(&w, Some(end)).await?;
    let mut answers = Vec::new();
    for _ in 0..5 {
        let attempt = live_member(&w, NATURAL, batch).await?;
        answers.push(ok_answer(attempt.op_id, Some(1), "txn")?);
    }
    seal(&w, batch).await?;
    let results = w.store.settle(&answers, &w.routes).await?;
    let completed: Vec<_> = results
        .iter()
        .flatten()
        .filter_map(|changed| changed.batch_completed)
        .collect();
    ensure_eq!(completed, [batch], "who was told");
    ensure_eq!(w.counts(UNSAFE).await?.pending, 1, "completions");
    Ok(())
}

async fn completes_once_under_concurrent_settlers(w: World) -> Verdict {
    const SETTLERS: usize = 32;
    for round in 1..=5 {
        let end = w.op(UNSAFE)?;
        let batch = open(&w, Some(end.clone())).await?;
        let mut attempts = Vec::new();
        for _ in 0..SETTLERS {
            attempts.push(live_member(&w, NATURAL, batch).await?);
        }
        seal(&w, batch).await?;
        let told = together(SETTLERS, |number| {
            let (w, attempt) = (w.clone(), attempts[number].clone());
            async move {
                let changed = match number % 3 {
                    0 => w.settle_fail(&attempt).await??,
                    1 => w.settle_ok(&attempt).await??,
                    _ => {
                        w.record_ok(&attempt).await?;
                        w.finalize(attempt.op_id).await??
                    }
                };
                Ok(changed.batch_completed)
            }
        })
        .await?;
        let told: Vec<_> = told.into_iter().flatten().collect();
        ensure_eq!(told, [batch], "settlers that were told");
        ensure_eq!(w.counts(UNSAFE).await?.pending, round, "completions");
        ensure_eq!(counts(&w, batch).await?.0, SETTLERS as u64, "its members");
        ensure!(read(&w, batch).await?.is_complete(), "it is complete");
    }
    Ok(())
}

async fn completes_once_when_seal_and_last_settle_race(w: World) -> Verdict {
    for round in 1..=50 {
        let end = w.op(UNSAFE)?;
        let batch = open(&w, Some(end.clone())).await?;
        let attempt = live_member(&w, NATURAL, batch).await?;
        let told = together(3, |number| {
            let (w, attempt) = (w.clone(), attempt.clone());
            async move {
                if number == 0 {
                    let changed = w.settle_ok(&attempt).await??;
                    Ok(changed.batch_completed.into_iter().collect())
                } else {
                    seal(&w, batch).await
                }
            }
        })
        .await?;
        ensure_eq!(
            told.concat(),
            [batch],
            "callers that were told in round {round}"
        );
        ensure_eq!(w.counts(UNSAFE).await?.pending, round, "completions");
    }
    Ok(())
}

async fn a_complete_batch_goes_after_its_members(w: World) -> Verdict {
    let (complete, unsealed) = (open(&w, None).await?, open(&w, None).await?);
    for batch in [complete, unsealed] {
        let attempt = live_member(&w, NATURAL, batch).await?;
        w.settle_ok(&attempt).await??;
    }
    seal(&w, complete).await?;
    w.advance(LONG).await;
    let mut prune = Prune {
        completed: secs(1),
        failed: AGES,
        keys: AGES,
        max: 100,
        reckoned: None,
        jump_max: Duration::MAX,
    };
    let pruned = w.recovery.prune(&prune).await?;
    ensure_eq!((pruned.operations, pruned.batches), (2, 0), "members first");
    ensure_eq!(counts(&w, complete).await?, (1, 1, 0), "its counts");
    prune.failed = secs(1);
    ensure_eq!(w.recovery.prune(&prune).await?.batches, 1, "then the batch");
    let read = w.batches.read(&[complete, unsealed]).await?;
    let is_there: Vec<bool> = read.iter().map(Option::is_some).collect();
    ensure_eq!(is_there, [false, true], "the batches that are left");
    Ok(())
}

async fn survives_a_crash(w: World) -> Verdict {
    let end = w.op(UNSAFE)?;
    let batch = open(&w, Some(end.clone())).await?;
    let attempt = live_member(&w, NATURAL, batch).await?;
    let w = w.crash().await?;
    seal(&w, batch).await?;
    let w = w.crash().await?;
    ensure_eq!(counts(&w, batch).await?, (1, 0, 0), "its counts");
    let changed = w.settle_ok(&attempt).await??;
    ensure_eq!(changed.batch_completed, Some(batch), "it completes");
    w.row(end.op_id).await?;
    Ok(())
}
