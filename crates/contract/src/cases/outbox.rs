//! From the queue rows to the bus: every row is announced once, and none is forgotten.

use std::collections::BTreeSet;
use std::time::Duration;

use clinch_core::policy::{EventTypes, Routes, Rules};
use clinch_core::ports::{Claim, Claimed, NewOperation};
use clinch_core::{EventType, OpId, Retry};

use crate::case::{Case, Verdict};
use crate::compare::unchanged;
use crate::concurrent::together;
use crate::fixtures::{
    CLAIM, LANE, LONG, NATURAL, UNSAFE, claim, operation, payload, priority, run_at, secs,
};
use crate::world::{World, ids, only};

pub(super) const CASES: &[Case] = area!(
    "outbox",
    Store {
        in_order_of_priority_then_due_time_then_seq: ["OUT-2"],
        a_hint_names_the_operation_and_its_announcement: ["CORE-11"],
        never_more_than_the_maximum: ["OUT-2"],
        never_the_same_row_to_two_claimers: ["OUT-2"],
        a_claim_lasts: ["OUT-2", "OUT-4"],
        a_claim_that_ran_out_is_claimable_again: ["OUT-4"],
        a_claim_survives_a_crash_and_runs_out: ["OUT-4"],
        a_row_that_commits_late_is_found: ["OUT-2"],
        nothing_before_run_at: [],
        no_rows_of_paused_domains: [],
        no_live_held_or_terminal_rows: ["CORE-5"],
        a_corrupted_row_is_announced_so_that_its_begin_ends_it: ["OUT-3"],
        no_row_that_was_announced: ["OUT-2"],
        a_row_that_becomes_due_again_is_announced_again: ["RUN-3"],
        published_raises_dispatch_no_and_nothing_else: ["OUT-2"],
        published_does_nothing_to_a_row_that_changed: ["OUT-2"],
        published_does_nothing_to_a_row_that_became_due_again: ["OUT-2"],
        released_rows_are_claimable_at_once: ["OUT-4"],
        a_late_release_takes_nothing_from_another_claimer: ["OUT-2"],
        next_due_is_zero_when_a_row_is_due: ["COL-13"],
        next_due_tells_when_a_row_becomes_due: ["COL-7", "COL-13"],
        next_due_is_none_when_nothing_waits_for_a_time: ["COL-13"],
        next_due_looks_at_the_named_routes_only: ["CORE-10", "COL-13"],
        next_due_waits_for_a_claim_to_run_out: ["OUT-4"],
    }
);

async fn in_order_of_priority_then_due_time_then_seq(w: World) -> Verdict {
    let all_due = w.now().await? + secs(200);
    let mut rows: Vec<(i8, u64, OpId)> = Vec::new();
    let plan = [
        (0, 10),
        (0, 30),
        (5, 1),
        (-5, 100),
        (0, 10),
        (5, 20),
        (10, 0),
        (-10, 50),
        (0, 20),
    ];
    for (number, (rank, ago)) in plan.into_iter().enumerate() {
        // Across domains too: the outbox has one order.
        let mut new = w.op(if number % 2 == 0 { NATURAL } else { UNSAFE })?;
        new.options = priority(rank)?;
        new.options.run_at = Some(all_due - secs(ago));
        w.take_in(&new).await?;
        rows.push((rank, ago, new.op_id));
    }
    // A stable sort: rows of equal priority and due time stay in the order of their seq.
    rows.sort_by_key(|(rank, ago, _)| std::cmp::Reverse((*rank, *ago)));
    let expected: Vec<OpId> = rows.into_iter().map(|(_, _, op)| op).collect();
    w.advance(secs(200)).await;
    let mut got = ids(&w.claim(4).await?);
    got.extend(ids(&w.claim(99).await?));
    ensure_eq!(got, expected, "the order of service");
    Ok(())
}

async fn a_hint_names_the_operation_and_its_announcement(w: World) -> Verdict {
    let mut new = w.op(NATURAL)?;
    new.trace = Some("00-trace-01".into());
    w.take_in(&new).await?;
    let row = w.row(new.op_id).await?;
    let (before, claimed) = (w.now().await?, only(w.claim(9).await?)?);
    ensure_eq!(claimed.hint.op_id, new.op_id, "the operation");
    ensure_eq!(claimed.hint.domain, new.keys.domain, "its domain");
    ensure_eq!(claimed.hint.lane, None, "its lane");
    ensure_eq!(claimed.hint.trace, new.trace, "its trace");
    ensure_eq!(
        claimed.hint.dispatch_no,
        1,
        "the number of this announcement"
    );
    ensure_eq!(
        (claimed.version, claimed.fence),
        (row.state.version, row.state.fence),
        "the row"
    );
    ensure_eq!(
        Some(claimed.since),
        row.state.next_attempt_at,
        "since when it is due"
    );
    ensure!(claimed.now >= before, "the store's clock");
    Ok(())
}

async fn never_more_than_the_maximum(w: World) -> Verdict {
    w.pending_many(NATURAL, 10).await?;
    let mut sizes = Vec::new();
    for max in [3, 1, 4, 99] {
        sizes.push(w.claim(max).await?.len());
    }
    ensure_eq!(sizes, [3, 1, 4, 2], "what ten rows came in");
    Ok(())
}

async fn never_the_same_row_to_two_claimers(w: World) -> Verdict {
    const ROWS: usize = 200;
    let mut new = Vec::new();
    for _ in 0..ROWS {
        new.push(w.op(NATURAL)?);
    }
    w.accept_all(&new).await?;
    let claimed = together(16, |number| {
        let w = w.clone();
        async move {
            let mut mine = Vec::new();
            loop {
                let claimed = w.outbox.claim(&claim(number, 7)?).await?;
                if claimed.is_empty() {
                    return Ok(mine);
                }
                mine.extend(ids(&claimed));
                ensure!(mine.len() <= ROWS, "one claimer got more than there is");
                tokio::task::yield_now().await;
            }
        }
    })
    .await?;
    let all = claimed.concat();
    ensure_eq!(all.len(), ROWS, "claims");
    ensure_eq!(
        all.iter().collect::<BTreeSet<_>>().len(),
        ROWS,
        "distinct rows"
    );
    Ok(())
}

async fn a_claim_lasts(w: World) -> Verdict {
    w.pending(NATURAL).await?;
    only(w.claim(9).await?)?;
    ensure_eq!(w.claim(9).await?, [], "while it is claimed");
    w.advance(CLAIM - secs(5)).await;
    ensure_eq!(w.claim(9).await?, [], "shortly before its end");
    ensure_eq!(
        w.outbox.claim(&claim(7, 9)?).await?,
        [],
        "for another claimer"
    );
    Ok(())
}

async fn a_claim_that_ran_out_is_claimable_again(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let first = only(w.claim(9).await?)?;
    w.advance(CLAIM + secs(1)).await;
    let second = only(w.outbox.claim(&claim(7, 9)?).await?)?;
    ensure_eq!((first.op_id(), second.op_id()), (op, op), "the row");
    ensure_eq!(second.hint.dispatch_no, 1, "nothing was announced before");
    Ok(())
}

async fn a_claim_survives_a_crash_and_runs_out(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    w.claim(9).await?;
    let w = w.crash().await?;
    w.advance(CLAIM + secs(1)).await;
    ensure_eq!(ids(&w.claim(9).await?), [op], "after the claim ran out");
    Ok(())
}

async fn a_row_that_commits_late_is_found(w: World) -> Verdict {
    w.pending_many(NATURAL, 5).await?;
    let claimed = w.claim(99).await?;
    w.outbox.published(&claimed).await?;
    // Sorts first in every order that a relay could use: id, due time, acceptance.
    let keys = w.op(NATURAL)?.keys;
    let mut late = operation(w.ids.early_op_id(), keys, &payload(1)?);
    late.options = run_at(w.now().await? - LONG);
    w.take_in(&late).await?;
    ensure_eq!(ids(&w.claim(99).await?), [late.op_id], "the late row");
    Ok(())
}

async fn nothing_before_run_at(w: World) -> Verdict {
    let at = w.now().await? + secs(100);
    let new = NewOperation {
        options: run_at(at),
        ..w.op(NATURAL)?
    };
    w.take_in(&new).await?;
    w.advance(secs(90)).await;
    ensure_eq!(w.claim(9).await?, [], "before run_at");
    w.advance(secs(10)).await;
    ensure_eq!(ids(&w.claim(9).await?), [new.op_id], "from run_at on");
    Ok(())
}

async fn no_rows_of_paused_domains(w: World) -> Verdict {
    let (paused, open) = (w.pending(NATURAL).await?, w.pending(UNSAFE).await?);
    w.pause(NATURAL, true).await?;
    ensure_eq!(ids(&w.claim(9).await?), [open], "while it is paused");
    w.pause(NATURAL, false).await?;
    ensure_eq!(ids(&w.claim(9).await?), [paused], "after it was resumed");
    Ok(())
}

async fn no_live_held_or_terminal_rows(w: World) -> Verdict {
    w.live(NATURAL).await?;
    w.held(UNSAFE).await?;
    w.completed(NATURAL).await?;
    w.failed(NATURAL).await?;
    let recorded = w.live(NATURAL).await?;
    w.record_ok(&recorded).await?;
    let canceled = w.pending(NATURAL).await?;
    w.cancel(canceled).await?;
    w.advance(LONG).await;
    ensure_eq!(w.claim(9).await?, [], "nothing waits for a begin");
    Ok(())
}

async fn a_corrupted_row_is_announced_so_that_its_begin_ends_it(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    w.control.corrupt(op).await;
    ensure_eq!(ids(&w.claim(9).await?), [op], "a hint carries no payload");
    ensure!(
        w.begin(op).await?.is_err(),
        "a corrupted payload was handed out"
    );
    ensure!(
        w.row(op).await?.state.is_terminal(),
        "its begin did not end it"
    );
    Ok(())
}

async fn no_row_that_was_announced(w: World) -> Verdict {
    w.pending(NATURAL).await?;
    let claimed = w.claim(9).await?;
    w.outbox.published(&claimed).await?;
    ensure_eq!(w.claim(9).await?, [], "at once");
    w.advance(LONG).await;
    ensure_eq!(w.claim(9).await?, [], "much later: that is the sweeper's");
    Ok(())
}

async fn a_row_that_becomes_due_again_is_announced_again(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let claimed = w.claim(9).await?;
    w.outbox.published(&claimed).await?;
    let attempt = w.begun(op).await?;
    w.retry(&attempt, Retry::not_applied("busy").after(secs(100)))
        .await??;
    ensure_eq!(w.claim(9).await?, [], "during the backoff");
    w.advance(secs(101)).await;
    let again = only(w.claim(9).await?)?;
    ensure_eq!(
        (again.op_id(), again.hint.dispatch_no),
        (op, 2),
        "the second announcement"
    );
    Ok(())
}

async fn published_raises_dispatch_no_and_nothing_else(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let mut before = w.row(op).await?;
    let claimed = w.claim(9).await?;
    unchanged(&before, &w.row(op).await?)?;
    w.outbox.published(&claimed).await?;
    before.dispatch_no = 1;
    unchanged(&before, &w.row(op).await?)
}

async fn published_does_nothing_to_a_row_that_changed(w: World) -> Verdict {
    let begun = w.pending(NATURAL).await?;
    let settled = w.pending(NATURAL).await?;
    let claimed = w.claim(9).await?;
    w.begun(begun).await?;
    let attempt = w.begun(settled).await?;
    w.settle_ok(&attempt).await??;
    let before = w.inspect.get(&[begun, settled]).await?;
    w.outbox.published(&claimed).await?;
    ensure_eq!(w.inspect.get(&[begun, settled]).await?, before, "the rows");
    w.outbox.release(&claimed).await?;
    ensure_eq!(
        w.inspect.get(&[begun, settled]).await?,
        before,
        "the rows after a release"
    );
    ensure_eq!(w.claim(9).await?, [], "neither is due");
    Ok(())
}

async fn published_does_nothing_to_a_row_that_became_due_again(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let claimed = w.claim(9).await?;
    // Meanwhile a worker has begun the row without a hint and ended its attempt.
    let attempt = w.begun(op).await?;
    w.retry(&attempt, Retry::not_applied("busy").after(secs(1)))
        .await??;
    w.advance(secs(2)).await;
    w.outbox.published(&claimed).await?;
    ensure_eq!(
        ids(&w.claim(9).await?),
        [op],
        "its new due time was not announced"
    );
    Ok(())
}

async fn released_rows_are_claimable_at_once(w: World) -> Verdict {
    let ops = w.pending_many(NATURAL, 3).await?;
    let claimed = w.claim(9).await?;
    w.outbox.release(&claimed[1..]).await?;
    let again = w.claim(9).await?;
    ensure_eq!(ids(&again), ops[1..], "the released rows");
    let numbers: Vec<u64> = again
        .iter()
        .map(|claimed| claimed.hint.dispatch_no)
        .collect();
    ensure_eq!(numbers, [1, 1], "nothing was announced");
    ensure_eq!(w.row(ops[1]).await?.dispatch_no, 0, "publications");
    Ok(())
}

async fn a_late_release_takes_nothing_from_another_claimer(w: World) -> Verdict {
    w.pending(NATURAL).await?;
    let dead = w.claim(9).await?;
    w.advance(CLAIM + secs(1)).await;
    only(w.outbox.claim(&claim(7, 9)?).await?)?;
    w.outbox.release(&dead).await?;
    ensure_eq!(
        w.outbox.claim(&claim(8, 9)?).await?,
        [],
        "it is somebody else's now"
    );
    Ok(())
}

async fn next_due(w: &World) -> Verdict<Option<Duration>> {
    Ok(w.outbox.next_due(None).await?)
}

async fn next_due_is_zero_when_a_row_is_due(w: World) -> Verdict {
    w.pending(NATURAL).await?;
    ensure_eq!(next_due(&w).await?, Some(Duration::ZERO), "a row is due");
    w.advance(LONG).await;
    ensure_eq!(next_due(&w).await?, Some(Duration::ZERO), "for long");
    Ok(())
}

async fn next_due_tells_when_a_row_becomes_due(w: World) -> Verdict {
    let now = w.now().await?;
    for after in [500, 100, 300] {
        let new = NewOperation {
            options: run_at(now + secs(after)),
            ..w.op(NATURAL)?
        };
        w.take_in(&new).await?;
    }
    let due = next_due(&w).await?;
    ensure!(
        due <= Some(secs(100)) && due >= Some(secs(60)),
        "the first row is due in 100 s, next_due says {due:?}"
    );
    w.advance(secs(101)).await;
    ensure_eq!(
        next_due(&w).await?,
        Some(Duration::ZERO),
        "when its time has come"
    );
    Ok(())
}

async fn next_due_is_none_when_nothing_waits_for_a_time(w: World) -> Verdict {
    ensure_eq!(next_due(&w).await?, None, "an empty store");
    w.live(NATURAL).await?;
    w.completed(NATURAL).await?;
    w.held(UNSAFE).await?;
    ensure_eq!(next_due(&w).await?, None, "nothing waits for a begin");
    let head = w.op_for(LANE, "order-1")?;
    w.take_in(&head).await?;
    w.begun(head.op_id).await?;
    w.take_in(&w.op_for(LANE, "order-1")?).await?;
    ensure_eq!(next_due(&w).await?, None, "a follower waits for its head");
    w.pending(NATURAL).await?;
    let claimed = w.claim(9).await?;
    w.outbox.published(&claimed).await?;
    ensure_eq!(
        next_due(&w).await?,
        None,
        "an announced row waits for the sweeper"
    );
    w.pending(NATURAL).await?;
    w.pause(NATURAL, true).await?;
    ensure_eq!(
        next_due(&w).await?,
        None,
        "a paused domain waits for a person"
    );
    Ok(())
}

async fn next_due_looks_at_the_named_routes_only(w: World) -> Verdict {
    w.pending(NATURAL).await?;
    let rules = Rules::default;
    let keys = crate::fixtures::keys(NATURAL, "any", "any")?;
    let other = EventType::new("other").map_err(crate::Failure::new)?;
    let one = |event_type| {
        let types = EventTypes::One(event_type);
        Routes::new().with(keys.domain.clone(), types, rules())
    };
    let elsewhere = w.outbox.next_due(Some(&one(other))).await?;
    ensure_eq!(elsewhere, None, "another event type of the domain");
    let here = w
        .outbox
        .next_due(Some(&one(keys.event_type.clone())))
        .await?;
    ensure_eq!(here, Some(Duration::ZERO), "its own event type");
    let none = w.outbox.next_due(Some(&Routes::new())).await?;
    ensure_eq!(none, None, "no route at all");
    Ok(())
}

async fn next_due_waits_for_a_claim_to_run_out(w: World) -> Verdict {
    w.pending(NATURAL).await?;
    let short = Claim {
        lasting: secs(20),
        ..claim(1, 9)?
    };
    let claimed: Vec<Claimed> = w.outbox.claim(&short).await?;
    ensure_eq!(claimed.len(), 1, "claimed rows");
    let due = next_due(&w).await?;
    ensure!(
        due > Some(Duration::ZERO) && due <= Some(secs(20)),
        "the claim runs out in 20 s, next_due says {due:?}"
    );
    w.advance(secs(21)).await;
    ensure_eq!(
        next_due(&w).await?,
        Some(Duration::ZERO),
        "when it has run out"
    );
    Ok(())
}
