//! Batches of one, a thousand and ten thousand: every port takes slices.

use std::collections::BTreeSet;

use clinch_core::ports::{Accepted, Filter, NewOperation, PAGE_BYTES_MAX, Page, Scan};
use clinch_core::{ContentHash, OpId, Sealed};

use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::fixtures::{NATURAL, claim, fail_answer, ok_answer};
use crate::world::{World, ids};

pub(super) const CASES: &[Case] = area!(
    "size",
    Store {
        batches_of_1: ["CORE-20"],
        batches_of_1_000: ["CORE-20"],
        batches_of_10_000: ["CORE-20"],
        a_page_of_long_operations_ends_at_its_bytes: ["CORE-20"],
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

/// Checks that every page ends when it reaches the maximum bytes. Returns the items of each page.
fn pages<T>(pages: &[Page<T>], bytes: impl Fn(&T) -> usize) -> Verdict<Vec<usize>> {
    let mut counts = Vec::new();
    for page in pages {
        let held: usize = page.items.iter().map(&bytes).sum();
        let last = page.items.last().map_or(0, &bytes);
        ensure!(held - last < PAGE_BYTES_MAX, "a page of {held} bytes");
        counts.push(page.items.len());
    }
    Ok(counts)
}

async fn a_page_of_long_operations_ends_at_its_bytes(w: World) -> Verdict {
    const LONG: usize = PAGE_BYTES_MAX / 16 + 1;
    let mut new = Vec::new();
    for number in 0..40 {
        let mut op = w.op(NATURAL)?;
        // Short ones in between: their bytes count, not their number.
        let bytes = if number % 2 == 0 { LONG } else { 10 };
        op.payload = Sealed::new(vec![b'1'; bytes]);
        op.content_hash = ContentHash::of(&op.op_id, &op.keys.event_type, op.payload.as_bytes());
        new.push(op);
    }
    w.accept_all(&new).await?;
    let (mut listed, mut cursor) = (Vec::new(), None);
    while listed.is_empty() || cursor.is_some() {
        let filter = Filter::default();
        let page = w.inspect.list(&filter, cursor.as_deref(), 1_000).await?;
        cursor = page.next_cursor.clone();
        listed.push(page);
    }
    ensure_eq!(pages(&listed, |row| row.bytes())?, [32, 8], "operations");
    let shown = listed.iter().flat_map(|page| &page.items);
    let shown: Vec<OpId> = shown.map(|row| row.op_id).collect();
    let expected: Vec<OpId> = new.iter().rev().map(|new| new.op_id).collect();
    ensure_eq!(shown, expected, "nothing twice, nothing skipped");

    for op in &expected {
        let attempt = w.begun(*op).await?;
        w.settle_fail(&attempt).await??;
    }
    let letters = w.letters().await?;
    ensure_eq!(letters.len(), 40, "a list of dead letters has no payloads");
    Ok(())
}
