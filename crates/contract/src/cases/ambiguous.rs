//! A commit that may or may not have happened can be read back.

use clinch_core::ports::Accepted;
use clinch_core::{ErrorKind, Status};

use crate::Fault;
use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::compare::unchanged;
use crate::fixtures::{NATURAL, ok_answer};
use crate::world::{World, failed_as, ids};

pub(super) const CASES: &[Case] = area!(
    "ambiguous",
    Faults {
        an_accept_is_read_back_by_find: ["CORE-6", "CORE-9"],
        a_begin_is_read_back_by_its_attempt_id: ["RUN-7"],
        a_write_ahead_is_read_back: ["CORE-7", "RUN-2"],
        a_finalize_is_read_back: ["CORE-5", "RUN-5"],
    }
);

async fn an_accept_is_read_back_by_find(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    ensure_eq!(w.find(&new).await?, None, "find before");
    w.arm(Fault::AfterCommit).await;
    let result = w.store.accept(std::slice::from_ref(&new), &w.routes).await;
    failed_as(result, ErrorKind::Ambiguous)?;
    let found = w.find(&new).await?.map(|known| (known.op_id, known.status));
    ensure_eq!(
        found,
        Some((new.op_id, Status::Pending)),
        "find tells that it happened"
    );
    let again = w.accept(&new).await?;
    ensure!(
        matches!(again, Accepted::Known(_)),
        "trying again gives {again:?}"
    );
    ensure_eq!(ids(&w.claim(9).await?), [new.op_id], "one queue row");
    Ok(())
}

async fn a_begin_is_read_back_by_its_attempt_id(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let begin = w.ids.begin(op, 0)?;
    w.arm(Fault::AfterCommit).await;
    let result = w.store.begin(std::slice::from_ref(&begin), &w.routes).await;
    failed_as(result, ErrorKind::Ambiguous)?;
    let row = w.row(op).await?;
    ensure_eq!(
        row.state.attempt_id,
        Some(begin.attempt_id),
        "the attempt reads back as ours"
    );
    ensure_eq!(row.state.attempts, 1, "attempts");
    w.settle_ok(&row).await??;
    // A commit that did not happen does not read back.
    let op = w.pending(NATURAL).await?;
    let begin = w.ids.begin(op, 0)?;
    w.arm(Fault::MidCommit).await;
    let result = w.store.begin(&[begin], &w.routes).await;
    failed_as(result, ErrorKind::Unavailable)?;
    ensure_eq!(
        w.row(op).await?.state.attempt_id,
        None,
        "an attempt that never was"
    );
    Ok(())
}

async fn a_write_ahead_is_read_back(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let answer = ok_answer(attempt.op_id, Some(1), "txn")?;
    w.arm(Fault::AfterCommit).await;
    let result = w
        .store
        .write_ahead(std::slice::from_ref(&answer), &w.routes)
        .await;
    failed_as(result, ErrorKind::Ambiguous)?;
    ensure!(
        w.row(attempt.op_id).await?.result.is_some(),
        "the answer is readable"
    );
    // Reporting the answer again is harmless: a second Ok settles.
    w.settle(answer).await??;
    ensure_eq!(
        w.row(attempt.op_id).await?.state.status,
        Status::Completed,
        "the end"
    );
    Ok(())
}

async fn a_finalize_is_read_back(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.record_ok(&attempt).await?;
    w.arm(Fault::AfterCommit).await;
    let result = w.store.finalize(&[attempt.op_id], &w.routes).await;
    failed_as(result, ErrorKind::Ambiguous)?;
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state.status, Status::Completed, "it happened");
    ensure!(
        w.finalize(attempt.op_id).await?.is_err(),
        "a second time is no change"
    );
    unchanged(&row, &w.row(attempt.op_id).await?)
}
