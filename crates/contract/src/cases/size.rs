//! Batches of one, a thousand and ten thousand: every port is batch-first.

use std::collections::BTreeSet;

use clinch_core::OpId;
use clinch_core::ports::{Accepted, NewOperation, Scan};

use crate::case::{Case, Verdict};
use crate::fixtures::{NATURAL, claim, fail_answer, ok_answer};
use crate::world::{World, ids};

pub(super) const CASES: &[Case] = area!(
    "size",
    Store {
        batches_of_1: ["CORE-20"],
        batches_of_1_000: ["CORE-20"],
        batches_of_10_000: ["CORE-20"],
    }
);

async fn batches_of_1(w: World) -> Verdict {
    batches_of(&w, 1).await
}

async fn batches_of_1_000(w: World) -> Verdict {
    batches_of(&w, 1_000).await
}

async fn batches_of_10_000(w: World) -> Verdict {
    batches_of(&w, 10_000).await
}

async fn batches_of(w: &World, size: usize) -> Verdict {
    let new: Result<Vec<NewOperation>, _> = (0..size).map(|_| w.op(NATURAL)).collect();
    let new = new?;
    let accepted = w.accept_all(&new).await?;
    let fresh = accepted
        .iter()
        .filter(|answer| matches!(answer, Accepted::New { .. }))
        .count();
    ensure_eq!(fresh, size, "accepted");
    let ops: Vec<OpId> = new.iter().map(|new| new.op_id).collect();
    let claimed = w.claim(size).await?;
    ensure_eq!(ids(&claimed), ops, "claimed");
    w.outbox.published(&claimed).await?;
    let begins: Result<Vec<_>, _> = ops.iter().map(|op| w.ids.begin(*op, 0)).collect();
    let begun = w.store.begin(&begins?, &w.routes).await?;
    let began: Vec<OpId> = begun.iter().flatten().map(|row| row.op_id).collect();
    ensure_eq!(began, ops, "begun");
    let half = size / 2;
    let answer = |(number, op): (usize, &OpId)| match number < half {
        true => ok_answer(*op, Some(1), "txn"),
        false => fail_answer(*op, 1),
    };
    let answers: Result<Vec<_>, _> = ops.iter().enumerate().map(answer).collect();
    let answers = answers?;
    w.store.write_ahead(&answers[..half], &w.routes).await?;
    let found = w.recovery.scan(Scan::Unfinalized, &claim(2, size)?).await?;
    let found: BTreeSet<OpId> = ids(&found).into_iter().collect();
    ensure_eq!(
        found,
        ops[..half].iter().copied().collect(),
        "found by the Finalizer"
    );
    w.store.finalize(&ops[..half], &w.routes).await?;
    let settled = w.store.settle(&answers[half..], &w.routes).await?;
    ensure_eq!(settled.iter().flatten().count(), size - half, "settled");
    let counts = w.counts(NATURAL).await?;
    let ended = (counts.completed as usize, counts.failed as usize);
    ensure_eq!(ended, (half, size - half), "the counters");
    let rows = w.inspect.get(&ops).await?;
    ensure_eq!(rows.iter().flatten().count(), size, "rows");
    Ok(())
}
