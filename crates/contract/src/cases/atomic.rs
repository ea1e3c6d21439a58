//! One call is one commit: a call that fails halfway changed nothing, and a call that committed can
//! be read back.

use clinch_core::ports::{
    Accepted, DeadLetter, Extension, NewBatch, NewOperation, Prune, Reschedule, Restriction,
};
use clinch_core::protocol::Event;
use clinch_core::{Effect, ErrorKind, Failure as OpFailure, OpId, Retry, Status, Timestamp};

use crate::Fault;
use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::compare::unchanged;
use crate::fixtures::{LANE, LONG, NATURAL, ROUTED, fail_answer, ok_answer, worker};
use crate::world::{World, failed_as, ids, spawning};

pub(super) const CASES: &[Case] = area!(
    "atomic",
    Faults {
        an_accept_that_failed_left_nothing: ["CORE-9", "CORE-13"],
        an_accept_of_many_is_all_or_nothing: ["CORE-9", "CORE-13"],
        an_accept_with_begin_that_failed_left_nothing: ["CORE-9"],
        a_redrive_that_failed_marks_nobody: ["CORE-9"],
        a_begin_that_failed_left_nothing: ["RUN-7"],
        an_extend_that_failed_left_nothing: [],
        a_write_ahead_that_failed_left_nothing: ["CORE-7"],
        a_recorded_yes_survives_a_failing_finalize: ["CORE-7", "CORE-13", "RUN-2", "RUN-5"],
        a_finalize_that_failed_settles_nothing_and_spawns_nothing: ["CORE-9", "COL-10"],
        a_settle_that_failed_left_nothing: ["CORE-7", "CORE-9"],
        a_reschedule_that_failed_left_nothing: ["RUN-3"],
        an_amend_that_failed_left_nothing: [],
        a_seal_that_failed_completes_nothing: ["COL-10"],
        an_import_that_failed_left_nothing: ["OUT-6"],
        a_prune_that_failed_deleted_nothing: [],
        a_fault_hits_one_call: [],
    }
);

pub(super) const FAULTS: [Fault; 2] = [Fault::BeforeCommit, Fault::MidCommit];

/// No trace of these operations is visible anywhere.
async fn nothing_of(w: &World, new: &[NewOperation]) -> Verdict {
    for new in new {
        ensure_eq!(w.look(new.op_id).await?, None, "get");
        ensure_eq!(w.find(new).await?, None, "find");
        ensure_eq!(w.ledger(new.op_id).await?, [], "ledger");
    }
    ensure_eq!(w.claim(99).await?, [], "queue rows");
    for domain in ROUTED {
        ensure_eq!(
            w.counts(domain).await?,
            Default::default(),
            "counters of {domain}"
        );
    }
    Ok(())
}

async fn an_accept_that_failed_left_nothing(w: World) -> Verdict {
    for fault in FAULTS {
        let new = w.op(NATURAL)?;
        w.arm(fault).await;
        let result = w.store.accept(std::slice::from_ref(&new), &w.routes).await;
        failed_as(result, ErrorKind::Unavailable)?;
        nothing_of(&w, std::slice::from_ref(&new)).await?;
        let w = w.crash().await?;
        nothing_of(&w, std::slice::from_ref(&new)).await?;
    }
    let new = w.op(NATURAL)?;
    w.arm(Fault::MidCommit).await;
    let result = w.store.accept(std::slice::from_ref(&new), &w.routes).await;
    failed_as(result, ErrorKind::Unavailable)?;
    w.take_in(&new).await?;
    ensure_eq!(
        ids(&w.claim(9).await?),
        [new.op_id],
        "afterwards it is accepted"
    );
    Ok(())
}

async fn an_accept_of_many_is_all_or_nothing(w: World) -> Verdict {
    let mut new = Vec::new();
    for domain in ROUTED {
        new.push(w.op_for(domain, "order-1")?);
        new.push(w.op_for(domain, "order-1")?);
    }
    for fault in FAULTS {
        w.arm(fault).await;
        failed_as(
            w.store.accept(&new, &w.routes).await,
            ErrorKind::Unavailable,
        )?;
        nothing_of(&w, &new).await?;
    }
    let answers = w.accept_all(&new).await?;
    let all_new = answers
        .iter()
        .all(|answer| matches!(answer, Accepted::New { .. }));
    ensure!(all_new, "afterwards all are new: {answers:?}");
    // No lane is held by an operation that was never accepted.
    ensure_eq!(
        w.claim(99).await?.len(),
        14,
        "announced: all but two followers"
    );
    Ok(())
}

async fn an_accept_with_begin_that_failed_left_nothing(w: World) -> Verdict {
    let mut new = w.op(NATURAL)?;
    new.begin = Some(w.ids.begin(new.op_id, 0)?);
    w.arm(Fault::MidCommit).await;
    let result = w.store.accept(std::slice::from_ref(&new), &w.routes).await;
    failed_as(result, ErrorKind::Unavailable)?;
    nothing_of(&w, std::slice::from_ref(&new)).await
}

async fn a_redrive_that_failed_marks_nobody(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    let redrive = NewOperation {
        redrive_of: Some(failed.op_id),
        ..w.op(NATURAL)?
    };
    w.arm(Fault::MidCommit).await;
    let result = w
        .store
        .accept(std::slice::from_ref(&redrive), &w.routes)
        .await;
    failed_as(result, ErrorKind::Unavailable)?;
    unchanged(&failed, &w.row(failed.op_id).await?)?;
    ensure_eq!(w.look(redrive.op_id).await?, None, "the redrive");
    Ok(())
}

async fn a_begin_that_failed_left_nothing(w: World) -> Verdict {
    let ops = w.pending_many(NATURAL, 3).await?;
    let before = w.inspect.get(&ops).await?;
    for fault in FAULTS {
        let begins: Result<Vec<_>, _> = ops.iter().map(|op| w.ids.begin(*op, 0)).collect();
        w.arm(fault).await;
        failed_as(
            w.store.begin(&begins?, &w.routes).await,
            ErrorKind::Unavailable,
        )?;
        ensure_eq!(w.inspect.get(&ops).await?, before, "the rows");
    }
    ensure_eq!(w.counts(NATURAL).await?.pending, 3, "PENDING");
    for op in ops {
        w.begun(op).await?;
    }
    Ok(())
}

async fn an_extend_that_failed_left_nothing(w: World) -> Verdict {
    let attempts = [w.live(NATURAL).await?, w.live(NATURAL).await?];
    let extensions = attempts.each_ref().map(|attempt| Extension {
        op_id: attempt.op_id,
        fence: 1,
        lease: LONG,
        attempt_id: None,
    });
    for fault in FAULTS {
        w.arm(fault).await;
        failed_as(w.store.extend(&extensions).await, ErrorKind::Unavailable)?;
        for attempt in &attempts {
            unchanged(attempt, &w.row(attempt.op_id).await?)?;
        }
    }
    Ok(())
}

async fn a_write_ahead_that_failed_left_nothing(w: World) -> Verdict {
    let attempts = [w.live(NATURAL).await?, w.live(NATURAL).await?];
    let answers = [
        ok_answer(attempts[0].op_id, Some(1), "txn")?,
        fail_answer(attempts[1].op_id, 1)?,
    ];
    for fault in FAULTS {
        w.arm(fault).await;
        let result = w.store.write_ahead(&answers, &w.routes).await;
        failed_as(result, ErrorKind::Unavailable)?;
        for attempt in &attempts {
            unchanged(attempt, &w.row(attempt.op_id).await?)?;
        }
    }
    // The attempt still has its permit and lease, and reports its answer again.
    for result in w.store.settle(&answers, &w.routes).await? {
        result?;
    }
    Ok(())
}

async fn a_recorded_yes_survives_a_failing_finalize(w: World) -> Verdict {
    let mut w = w;
    for fault in FAULTS {
        let attempt = w.live(NATURAL).await?;
        w.record_ok(&attempt).await?;
        let before = w.row(attempt.op_id).await?;
        w.arm(fault).await;
        let result = w.store.finalize(&[attempt.op_id], &w.routes).await;
        failed_as(result, ErrorKind::Unavailable)?;
        unchanged(&before, &w.row(attempt.op_id).await?)?;
        w = w.crash().await?;
        unchanged(&before, &w.row(attempt.op_id).await?)?;
        let found = w.scan(clinch_core::ports::Scan::Unfinalized).await?;
        ensure_eq!(found, [attempt.op_id], "what the Finalizer finds");
        w.finalize(attempt.op_id).await??;
        let row = w.row(attempt.op_id).await?;
        ensure_eq!(row.state.status, Status::Completed, "the end");
        ensure_eq!(row.result, before.result, "the result");
    }
    Ok(())
}

async fn a_finalize_that_failed_settles_nothing_and_spawns_nothing(w: World) -> Verdict {
    let batch_id = w.ids.batch_id();
    let batch = NewBatch {
        batch_id,
        on_complete: None,
        owner: Restriction::default(),
    };
    w.batches.open(&[batch]).await?;
    let (head, next) = (w.op_for(LANE, "order-1")?, w.op_for(LANE, "order-1")?);
    let head = NewOperation {
        batch_id: Some(batch_id),
        ..head
    };
    w.accept_all(&[head.clone(), next.clone()]).await?;
    let attempt = w.begun(head.op_id).await?;
    let child = w.op(NATURAL)?;
    w.write_ahead(spawning(&attempt, vec![child.clone()])?)
        .await??;
    let before = w.row(head.op_id).await?;
    for fault in FAULTS {
        w.arm(fault).await;
        let result = w.store.finalize(&[head.op_id], &w.routes).await;
        failed_as(result, ErrorKind::Unavailable)?;
        unchanged(&before, &w.row(head.op_id).await?)?;
        ensure_eq!(w.look(child.op_id).await?, None, "the spawned operation");
        ensure_eq!(w.claim(9).await?, [], "the lane is not free");
        let batch = w.batches.read(&[batch_id]).await?[0].clone();
        ensure_eq!(
            batch.map(|batch| batch.completed),
            Some(0),
            "the batch counts nobody"
        );
        ensure_eq!(w.counts(LANE).await?.completed, 0, "the counters");
    }
    w.finalize(head.op_id).await??;
    ensure_eq!(
        ids(&w.claim(9).await?),
        [next.op_id, child.op_id],
        "afterwards all of it"
    );
    Ok(())
}

async fn a_settle_that_failed_left_nothing(w: World) -> Verdict {
    for fault in FAULTS {
        let attempt = w.live(NATURAL).await?;
        let child = w.op(NATURAL)?;
        let answer = spawning(&attempt, vec![child.clone()])?;
        w.arm(fault).await;
        let result = w
            .store
            .settle(std::slice::from_ref(&answer), &w.routes)
            .await;
        failed_as(result, ErrorKind::Unavailable)?;
        unchanged(&attempt, &w.row(attempt.op_id).await?)?;
        ensure_eq!(w.look(child.op_id).await?, None, "the spawned operation");
        ensure_eq!(w.find(&child).await?, None, "the spawned key");
        w.settle(answer).await??;
        w.row(child.op_id).await?;
    }
    Ok(())
}

async fn a_reschedule_that_failed_left_nothing(w: World) -> Verdict {
    let attempts = [w.live(NATURAL).await?, w.live(NATURAL).await?];
    let mut ended = Vec::new();
    for attempt in &attempts {
        ended.push(Reschedule {
            op_id: attempt.op_id,
            fence: 1,
            worker: worker(0)?,
            retry: Retry::not_applied("busy"),
            attempt_id: None,
        });
    }
    for fault in FAULTS {
        w.arm(fault).await;
        failed_as(
            w.store.reschedule(&ended, &w.routes).await,
            ErrorKind::Unavailable,
        )?;
        for attempt in &attempts {
            unchanged(attempt, &w.row(attempt.op_id).await?)?;
        }
    }
    ensure_eq!(w.counts(NATURAL).await?.live, 2, "live");
    Ok(())
}

async fn an_amend_that_failed_left_nothing(w: World) -> Verdict {
    let ops = w.pending_many(NATURAL, 2).await?;
    let before = w.inspect.get(&ops).await?;
    let cancels: Result<Vec<_>, _> = ops
        .iter()
        .map(|op| w.amendment(*op, Event::Cancel))
        .collect();
    let cancels = cancels?;
    for fault in FAULTS {
        w.arm(fault).await;
        failed_as(
            w.store.amend(&cancels, &w.routes).await,
            ErrorKind::Unavailable,
        )?;
        ensure_eq!(w.inspect.get(&ops).await?, before, "the rows");
    }
    ensure_eq!(w.claim(9).await?.len(), 2, "both are still due");
    Ok(())
}

async fn a_seal_that_failed_completes_nothing(w: World) -> Verdict {
    let batch_id = w.ids.batch_id();
    let end = w.op(NATURAL)?;
    w.batches
        .open(&[NewBatch {
            batch_id,
            on_complete: Some(end.clone()),
            owner: Restriction::default(),
        }])
        .await?;
    for fault in FAULTS {
        w.arm(fault).await;
        failed_as(
            w.store.seal(&[batch_id], &w.routes).await,
            ErrorKind::Unavailable,
        )?;
        ensure_eq!(w.look(end.op_id).await?, None, "the completion");
        let sealed = w.batches.read(&[batch_id]).await?[0]
            .as_ref()
            .map(|batch| batch.sealed);
        ensure_eq!(sealed, Some(false), "sealed");
    }
    ensure_eq!(
        w.store.seal(&[batch_id], &w.routes).await?,
        [batch_id],
        "afterwards"
    );
    w.row(end.op_id).await?;
    Ok(())
}

fn letter(op_id: OpId, new: &NewOperation) -> DeadLetter {
    DeadLetter {
        op_id,
        keys: new.keys.clone(),
        failure: OpFailure::own("http_402", "declined", Effect::None),
        attempts: 1,
        payload: new.payload.clone(),
        content_hash: new.content_hash,
        failed_at: Timestamp::from_millis(1_000),
        late_ok: false,
    }
}

async fn an_import_that_failed_left_nothing(w: World) -> Verdict {
    let (one, two) = (w.op(NATURAL)?, w.op(NATURAL)?);
    let letters = [letter(one.op_id, &one), letter(two.op_id, &two)];
    for fault in FAULTS {
        w.arm(fault).await;
        failed_as(w.recovery.import(&letters).await, ErrorKind::Unavailable)?;
        ensure_eq!(w.letters().await?, [], "dead letters");
    }
    ensure_eq!(
        w.recovery.import(&letters).await?,
        [true, true],
        "afterwards both are new"
    );
    Ok(())
}

async fn a_prune_that_failed_deleted_nothing(w: World) -> Verdict {
    let (one, two) = (w.completed(NATURAL).await?, w.failed(NATURAL).await?);
    w.advance(LONG).await;
    let zero = std::time::Duration::ZERO;
    let prune = Prune {
        completed: zero,
        failed: zero,
        keys: zero,
        max: 99,
        reckoned: None,
        jump_max: std::time::Duration::MAX,
    };
    for fault in FAULTS {
        w.arm(fault).await;
        failed_as(w.recovery.prune(&prune).await, ErrorKind::Unavailable)?;
        unchanged(&one, &w.row(one.op_id).await?)?;
        unchanged(&two, &w.row(two.op_id).await?)?;
    }
    ensure_eq!(
        w.recovery.prune(&prune).await?.operations,
        2,
        "afterwards both go"
    );
    Ok(())
}

async fn a_fault_hits_one_call(w: World) -> Verdict {
    w.arm(Fault::BeforeCommit).await;
    let new = w.op(NATURAL)?;
    let result = w.store.accept(std::slice::from_ref(&new), &w.routes).await;
    failed_as(result, ErrorKind::Unavailable)?;
    w.take_in(&new).await?;
    Ok(())
}
