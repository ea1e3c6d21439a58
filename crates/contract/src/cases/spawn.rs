//! Spawned operations are accepted in the commit that settles their parent.

use clinch_core::Status;
use clinch_core::ports::{AnswerBody, NewBatch, NewOperation, Operation, Restriction, Scan};
use clinch_core::protocol::{Event, ProbeAnswer, Resolution};

use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::concurrent::together;
use crate::fixtures::{NATURAL, UNSAFE, fail_answer, ok_answer, operation, payload, yes};
use crate::world::{World, ids, only, spawning};

pub(super) const CASES: &[Case] = area!(
    "spawn",
    Store {
        is_accepted_with_the_settle: ["CORE-9", "COL-3"],
        is_accepted_by_finalize_and_not_before: ["CORE-9"],
        survives_a_crash_between_write_ahead_and_finalize: ["CORE-9", "CORE-13"],
        is_accepted_once_under_concurrent_duplicates: ["CORE-6", "RUN-7"],
        a_late_yes_spawns_too: ["CORE-7"],
        a_probe_that_found_it_spawns_too: ["CORE-7"],
        a_person_who_says_completed_spawns_too: ["CORE-7"],
        a_late_yes_on_failed_spawns_nothing: ["CORE-5"],
        a_replaced_no_spawns_what_the_yes_brings: ["CORE-7"],
        joins_a_sealed_batch: ["COL-3", "COL-10"],
        a_batch_waits_for_what_its_members_spawn: ["COL-10"],
        an_existing_key_is_not_a_member: ["COL-3", "COL-10"],
        a_mismatch_is_a_ledger_line_and_aborts_nothing: ["COL-3"],
        the_same_key_twice_is_spawned_once: ["CORE-6"],
        children_keep_their_order: ["CORE-11"],
    }
);

async fn is_accepted_with_the_settle(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let (one, two) = (w.op(NATURAL)?, w.op(UNSAFE)?);
    let changed = w
        .settle_spawning(&attempt, vec![one.clone(), two.clone()])
        .await??;
    ensure_eq!(changed.state.status, Status::Completed, "the parent");
    for child in [&one, &two] {
        let row = w.row(child.op_id).await?;
        ensure_eq!(row.state.status, Status::Pending, "the child");
        ensure_eq!(row.keys, child.keys, "its keys");
        ensure!(row.payload == child.payload, "its payload");
    }
    ensure_eq!(
        ids(&w.claim(9).await?),
        [one.op_id, two.op_id],
        "their queue rows"
    );
    ensure_eq!(w.counts(UNSAFE).await?.pending, 1, "the counters");
    Ok(())
}

async fn is_accepted_by_finalize_and_not_before(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let child = w.op(NATURAL)?;
    w.write_ahead(spawning(&attempt, vec![child.clone()])?)
        .await??;
    ensure_eq!(w.look(child.op_id).await?, None, "before finalize");
    ensure_eq!(w.find(&child).await?, None, "its key before finalize");
    w.finalize(attempt.op_id).await??;
    w.row(child.op_id).await?;
    Ok(())
}

async fn survives_a_crash_between_write_ahead_and_finalize(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let mut child = w.op(NATURAL)?;
    child.trace = Some("00-trace-01".into());
    child.options = crate::fixtures::label("page", "2")?;
    w.write_ahead(spawning(&attempt, vec![child.clone()])?)
        .await??;
    let w = w.crash().await?;
    ensure_eq!(
        w.scan(Scan::Unfinalized).await?,
        [attempt.op_id],
        "what the Finalizer finds"
    );
    w.finalize(attempt.op_id).await??;
    let row = w.row(child.op_id).await?;
    ensure!(row.payload == child.payload, "its payload");
    ensure_eq!(
        (row.options, row.trace),
        (child.options, child.trace),
        "options and trace"
    );
    w.begun(child.op_id).await?;
    Ok(())
}

async fn is_accepted_once_under_concurrent_duplicates(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let child = w.op(UNSAFE)?;
    together(16, |_| {
        let (w, answer) = (w.clone(), spawning(&attempt, vec![child.clone()]));
        async move { w.settle(answer?).await }
    })
    .await?;
    ensure_eq!(w.counts(UNSAFE).await?.pending, 1, "children");
    Ok(())
}

async fn a_late_yes_spawns_too(w: World) -> Verdict {
    let held = w.held(UNSAFE).await?;
    let child = w.op(NATURAL)?;
    w.write_ahead(spawning(&held, vec![child.clone()])?)
        .await??;
    ensure_eq!(
        w.row(held.op_id).await?.state.status,
        Status::Completed,
        "the parent"
    );
    w.row(child.op_id).await?;
    Ok(())
}

async fn amended(w: &World, held: &Operation, event: Event) -> Verdict {
    let child = w.op(NATURAL)?;
    let mut amendment = w.amendment(held.op_id, event)?;
    let mut ok = yes("found");
    ok.spawn = vec![child.clone()];
    amendment.ok = Some(ok);
    w.amend_with(amendment).await??;
    let row = w.row(held.op_id).await?;
    ensure_eq!(row.state.status, Status::Completed, "the parent");
    let txn = row.result.and_then(|result| result.provider_txn_id);
    ensure_eq!(txn.as_deref(), Some("found"), "the result");
    w.row(child.op_id).await?;
    Ok(())
}

async fn a_probe_that_found_it_spawns_too(w: World) -> Verdict {
    let held = w.held(UNSAFE).await?;
    let found = Event::Probed {
        fence: held.state.fence,
        asked_at: w.now().await?,
        answer: ProbeAnswer::Succeeded,
    };
    amended(&w, &held, found).await
}

async fn a_person_who_says_completed_spawns_too(w: World) -> Verdict {
    let held = w.held(UNSAFE).await?;
    amended(&w, &held, Event::Resolve(Resolution::Completed)).await
}

async fn a_late_yes_on_failed_spawns_nothing(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    let child = w.op(UNSAFE)?;
    for answer in ["write_ahead", "settle"] {
        let late = spawning(&failed, vec![child.clone()])?;
        match answer {
            "settle" => w.settle(late).await??,
            _ => w.write_ahead(late).await??,
        };
        ensure_eq!(w.look(child.op_id).await?, None, "the child after {answer}");
        ensure_eq!(w.find(&child).await?, None, "its key");
    }
    Ok(())
}

async fn a_replaced_no_spawns_what_the_yes_brings(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.write_ahead(fail_answer(attempt.op_id, 1)?).await??;
    let child = w.op(NATURAL)?;
    let mut late = ok_answer(attempt.op_id, None, "spilled")?;
    if let AnswerBody::Ok(ok) = &mut late.body {
        ok.spawn = vec![child.clone()];
    }
    w.write_ahead(late).await??;
    w.row(child.op_id).await?;
    Ok(())
}

/// A sealed batch with one running member.
async fn batch(w: &World) -> Verdict<(clinch_core::BatchId, Operation)> {
    let batch_id = w.ids.batch_id();
    w.batches
        .open(&[NewBatch {
            batch_id,
            on_complete: None,
            owner: Restriction::default(),
        }])
        .await?;
    let parent = NewOperation {
        batch_id: Some(batch_id),
        ..w.op(NATURAL)?
    };
    w.take_in(&parent).await?;
    w.store.seal(&[batch_id], &w.routes).await?;
    Ok((batch_id, w.begun(parent.op_id).await?))
}

async fn total(w: &World, batch: clinch_core::BatchId) -> Verdict<u64> {
    let batch = only(w.batches.read(&[batch]).await?)?;
    Ok(batch.map_or(0, |batch| batch.total))
}

async fn joins_a_sealed_batch(w: World) -> Verdict {
    let (batch_id, attempt) = batch(&w).await?;
    let child = NewOperation {
        batch_id: Some(batch_id),
        ..w.op(NATURAL)?
    };
    let changed = w.settle_spawning(&attempt, vec![child.clone()]).await??;
    ensure_eq!(changed.batch_completed, None, "a new member is open");
    ensure_eq!(
        w.row(child.op_id).await?.batch_id,
        Some(batch_id),
        "the child's batch"
    );
    ensure_eq!(total(&w, batch_id).await?, 2, "members");
    Ok(())
}

async fn a_batch_waits_for_what_its_members_spawn(w: World) -> Verdict {
    let (batch_id, mut attempt) = batch(&w).await?;
    for _ in 0..3 {
        let child = NewOperation {
            batch_id: Some(batch_id),
            ..w.op(NATURAL)?
        };
        let changed = w.settle_spawning(&attempt, vec![child.clone()]).await??;
        ensure_eq!(changed.batch_completed, None, "a next page is open");
        attempt = w.begun(child.op_id).await?;
    }
    let changed = w.settle_ok(&attempt).await??;
    ensure_eq!(
        changed.batch_completed,
        Some(batch_id),
        "after the last page"
    );
    Ok(())
}

async fn an_existing_key_is_not_a_member(w: World) -> Verdict {
    let (batch_id, attempt) = batch(&w).await?;
    let existing = w.op(NATURAL)?;
    w.take_in(&existing).await?;
    let before = w.row(existing.op_id).await?;
    let again = NewOperation {
        op_id: w.ids.op_id(),
        batch_id: Some(batch_id),
        ..existing.clone()
    };
    let changed = w.settle_spawning(&attempt, vec![again.clone()]).await??;
    ensure_eq!(
        changed.batch_completed,
        Some(batch_id),
        "nobody else is open"
    );
    ensure_eq!(total(&w, batch_id).await?, 1, "members");
    ensure_eq!(w.look(again.op_id).await?, None, "no second operation");
    crate::compare::unchanged(&before, &w.row(existing.op_id).await?)
}

async fn a_mismatch_is_a_ledger_line_and_aborts_nothing(w: World) -> Verdict {
    let (batch_id, attempt) = batch(&w).await?;
    let existing = w.op(NATURAL)?;
    w.take_in(&existing).await?;
    let wrong = NewOperation {
        batch_id: Some(batch_id),
        ..operation(w.ids.op_id(), existing.keys.clone(), &payload(999_999)?)
    };
    let good = NewOperation {
        batch_id: Some(batch_id),
        ..w.op(NATURAL)?
    };
    let lines = |ledger: Vec<clinch_core::ports::LedgerLine>| {
        ledger
            .into_iter()
            .filter(|line| line.refused.is_some())
            .count()
    };
    let before = lines(w.ledger(attempt.op_id).await?);
    let changed = w
        .settle_spawning(&attempt, vec![wrong.clone(), good.clone()])
        .await??;
    ensure_eq!(changed.state.status, Status::Completed, "the parent");
    ensure_eq!(w.look(wrong.op_id).await?, None, "the mismatch");
    w.row(good.op_id).await?;
    ensure_eq!(total(&w, batch_id).await?, 2, "members");
    let after = lines(w.ledger(attempt.op_id).await?);
    ensure_eq!(
        after,
        before + 1,
        "lines in the parent's ledger that tell of it"
    );
    Ok(())
}

async fn the_same_key_twice_is_spawned_once(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let child = w.op(UNSAFE)?;
    let again = NewOperation {
        op_id: w.ids.op_id(),
        ..child.clone()
    };
    w.settle_spawning(&attempt, vec![child, again]).await??;
    ensure_eq!(w.counts(UNSAFE).await?.pending, 1, "children");
    Ok(())
}

async fn children_keep_their_order(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let mut children = Vec::new();
    for _ in 0..5 {
        children.push(w.op_for(crate::fixtures::LANE, "order-1")?);
    }
    w.settle_spawning(&attempt, children.clone()).await??;
    let mut last = None;
    for child in &children {
        let seq = w.row(child.op_id).await?.seq;
        ensure!(Some(seq) > last, "seq {seq} came after {last:?}");
        last = Some(seq);
    }
    ensure_eq!(
        ids(&w.claim(9).await?),
        [children[0].op_id],
        "the head of their lane"
    );
    Ok(())
}
