//! A worker that waits on the store as its bus is woken, and does not poll.

use std::pin::pin;

use clinch_core::{OpId, Retry, Timestamp};

use super::queue::{StoreQueue, ops};
use crate::case::{Case, Verdict};
use crate::concurrent::until_it_waits;
use crate::fixtures::{FOREVER, LANE, NATURAL, run_at, secs};
use crate::wire::ask;

pub(super) const CASES: &[Case] = area!(
    "wake",
    Queue {
        is_woken_by_an_accept: ["COL-13"],
        is_woken_when_a_row_becomes_due: ["COL-13"],
        is_woken_by_a_retry_whose_time_comes: ["COL-13", "RUN-3"],
        is_woken_by_a_resume: ["COL-13"],
        is_woken_when_the_lane_is_freed: ["COL-13", "CORE-11"],
    }
);

async fn is_woken_by_an_accept(q: StoreQueue) -> Verdict {
    for _ in 0..3 {
        is_woken(&q, NATURAL, q.w.pending(NATURAL)).await?;
    }
    Ok(())
}

async fn is_woken_when_a_row_becomes_due(q: StoreQueue) -> Verdict {
    let at: Timestamp = q.w.now().await? + secs(100);
    let op = q.accept(NATURAL, |new| new.options = run_at(at)).await?;
    is_woken(&q, NATURAL, async {
        q.w.advance(secs(101)).await;
        Ok(op)
    })
    .await
}

async fn is_woken_by_a_retry_whose_time_comes(q: StoreQueue) -> Verdict {
    let attempt = q.w.live(NATURAL).await?;
    is_woken(&q, NATURAL, async {
        q.w.retry(&attempt, Retry::not_applied("busy").after(secs(100)))
            .await??;
        // The waiting call learns of the new due time, and then that it has come.
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        q.w.advance(secs(101)).await;
        Ok(attempt.op_id)
    })
    .await
}

async fn is_woken_by_a_resume(q: StoreQueue) -> Verdict {
    let op = q.w.pending(NATURAL).await?;
    q.w.pause(NATURAL, true).await?;
    is_woken(&q, NATURAL, async {
        q.w.pause(NATURAL, false).await?;
        Ok(op)
    })
    .await
}

async fn is_woken_when_the_lane_is_freed(q: StoreQueue) -> Verdict {
    let (head, next) = (q.w.op_for(LANE, "order-1")?, q.w.op_for(LANE, "order-1")?);
    q.w.accept_all(&[head.clone(), next.clone()]).await?;
    let attempt = q.w.begun(head.op_id).await?;
    is_woken(&q, LANE, async {
        q.w.settle_ok(&attempt).await??;
        Ok(next.op_id)
    })
    .await
}

/// A waiting call returns this row once `news` has happened.
async fn is_woken(
    q: &StoreQueue,
    domain: &str,
    news: impl Future<Output = Verdict<OpId>>,
) -> Verdict {
    let asked = ask(&[domain], 9, FOREVER)?;
    let mut waiting = pin!(q.queue.dequeue(&asked));
    until_it_waits(waiting.as_mut()).await?;
    let op = news.await?;
    ensure_eq!(ops(&waiting.await?), [op], "what the waiting call got");
    Ok(())
}
