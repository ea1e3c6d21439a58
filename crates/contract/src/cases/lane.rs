//! Per-key order: one holder at a time, in seq order.

use clinch_core::policy::Order;
use clinch_core::ports::{NewOperation, Operation, Refused, Scan};
use clinch_core::protocol::{Event, Phase, Resolution, Why};
use clinch_core::{LaneKey, OpId, Retry, Status};

use crate::case::{Case, Failure, Verdict};
use crate::concurrent::together;
use crate::fixtures::{
    DEADLINE, LANE, LONG, NATURAL, UNSAFE_LANE, keys, ok_answer, operation, payload, run_at, secs,
};
use crate::world::{World, ids};

pub(super) const CASES: &[Case] = area!(
    "lane",
    Store {
        operations_of_a_key_run_one_at_a_time_in_seq_order: ["CORE-11"],
        an_announced_row_names_its_lane: ["CORE-11"],
        keys_do_not_wait_for_each_other: ["CORE-11"],
        event_types_of_a_key_share_its_lane: ["CORE-11"],
        domains_do_not_share_a_lane: ["CORE-11"],
        without_an_order_nobody_waits: ["CORE-11"],
        a_waiting_holder_keeps_the_lane: ["CORE-11"],
        a_held_holder_keeps_the_lane: ["CORE-11"],
        a_holder_with_a_recorded_outcome_keeps_the_lane: ["CORE-11"],
        a_refunded_holder_keeps_the_lane: ["CORE-11"],
        an_earlier_row_that_is_not_due_blocks_too: ["CORE-11"],
        a_failure_frees_the_lane: ["CORE-11"],
        a_late_yes_frees_the_lane: ["CORE-11"],
        a_resolved_hold_frees_the_lane: ["CORE-11"],
        canceling_the_head_makes_the_next_due: ["CORE-11"],
        canceling_a_follower_leaves_the_holder_alone: ["CORE-11"],
        an_overdue_follower_leaves_the_holder_alone: ["CORE-11"],
        a_redrive_joins_at_the_tail: ["CORE-11"],
        with_begin_takes_a_free_lane: ["CORE-11"],
        the_lane_is_that_of_the_acceptance: ["CORE-11"],
        survives_a_crash: ["CORE-11"],
        never_two_live_under_concurrent_workers: ["CORE-11"],
    }
);

/// Operations of one key, in order.
async fn lane_of(w: &World, domain: &str, count: usize) -> Verdict<Vec<OpId>> {
    let mut ops = Vec::new();
    for _ in 0..count {
        let new = w.op_for(domain, "order-1")?;
        w.take_in(&new).await?;
        ops.push(new.op_id);
    }
    Ok(ops)
}

async fn is_behind(w: &World, op: OpId) -> Verdict {
    match w.begin(op).await? {
        Err(Refused::Illegal(refused)) if refused.why == Why::LaneBusy => Ok(()),
        other => Err(Failure::new(format!("expected LaneBusy, got {other:?}"))),
    }
}

/// The operations that a relay would announce. The claims are given back.
async fn announced(w: &World) -> Verdict<Vec<OpId>> {
    let claimed = w.claim(99).await?;
    w.outbox.release(&claimed).await?;
    Ok(ids(&claimed))
}

async fn operations_of_a_key_run_one_at_a_time_in_seq_order(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 4).await?;
    for (at, op) in lane.iter().enumerate() {
        ensure_eq!(announced(&w).await?, [*op], "only the head is announced");
        let attempt = w.begun(*op).await?;
        ensure_eq!(announced(&w).await?, [], "nobody while the head runs");
        for follower in &lane[at + 1..] {
            is_behind(&w, *follower).await?;
        }
        w.settle_ok(&attempt).await??;
    }
    ensure_eq!(w.counts(LANE).await?.completed, 4, "COMPLETED");
    Ok(())
}

async fn an_announced_row_names_its_lane(w: World) -> Verdict {
    let new = w.op_for(LANE, "order-1")?;
    w.take_in(&new).await?;
    w.pending(NATURAL).await?;
    let lane = Some(LaneKey::of(&new.keys.domain, &new.keys.biz_key));
    for claimed in w.claim(9).await? {
        let expected = if claimed.op_id() == new.op_id {
            lane
        } else {
            None
        };
        ensure_eq!(
            claimed.hint.lane,
            expected,
            "the lane of {}",
            claimed.hint.domain
        );
    }
    ensure_eq!(w.row(new.op_id).await?.lane, lane, "the row's lane");
    Ok(())
}

async fn keys_do_not_wait_for_each_other(w: World) -> Verdict {
    let (one, two) = (w.op_for(LANE, "order-1")?, w.op_for(LANE, "order-2")?);
    w.accept_all(&[one.clone(), two.clone()]).await?;
    w.begun(one.op_id).await?;
    w.begun(two.op_id).await?;
    Ok(())
}

async fn event_types_of_a_key_share_its_lane(w: World) -> Verdict {
    let head = w.op_for(LANE, "order-1")?;
    let mut other = keys(LANE, "order-1", "x")?;
    other.event_type = clinch_core::EventType::new("refund")?;
    let follower = operation(w.ids.op_id(), other, &payload(1)?);
    w.accept_all(&[head, follower.clone()]).await?;
    is_behind(&w, follower.op_id).await
}

async fn domains_do_not_share_a_lane(w: World) -> Verdict {
    let (one, two) = (
        w.op_for(LANE, "order-1")?,
        w.op_for(UNSAFE_LANE, "order-1")?,
    );
    w.accept_all(&[one.clone(), two.clone()]).await?;
    w.begun(one.op_id).await?;
    w.begun(two.op_id).await?;
    Ok(())
}

async fn without_an_order_nobody_waits(w: World) -> Verdict {
    let ops = lane_of(&w, NATURAL, 3).await?;
    ensure_eq!(announced(&w).await?, ops, "all are announced");
    for op in ops.into_iter().rev() {
        w.begun(op).await?;
    }
    Ok(())
}

async fn a_waiting_holder_keeps_the_lane(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 2).await?;
    let attempt = w.begun(lane[0]).await?;
    w.retry(&attempt, Retry::not_applied("busy").after(secs(100)))
        .await??;
    is_behind(&w, lane[1]).await?;
    ensure_eq!(announced(&w).await?, [], "nobody is due");
    w.advance(secs(100)).await;
    is_behind(&w, lane[1]).await?;
    ensure_eq!(announced(&w).await?, [lane[0]], "the holder again");
    Ok(())
}

async fn a_held_holder_keeps_the_lane(w: World) -> Verdict {
    let lane = lane_of(&w, UNSAFE_LANE, 2).await?;
    let attempt = w.begun(lane[0]).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.advance(LONG).await;
    is_behind(&w, lane[1]).await?;
    ensure_eq!(announced(&w).await?, [], "nobody is due");
    Ok(())
}

async fn a_holder_with_a_recorded_outcome_keeps_the_lane(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 2).await?;
    let attempt = w.begun(lane[0]).await?;
    w.record_ok(&attempt).await?;
    is_behind(&w, lane[1]).await?;
    w.finalize(lane[0]).await??;
    w.begun(lane[1]).await?;
    Ok(())
}

async fn a_refunded_holder_keeps_the_lane(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 2).await?;
    let attempt = w.begun(lane[0]).await?;
    w.retry(&attempt, Retry::not_called("breaker open").after(secs(100)))
        .await??;
    is_behind(&w, lane[1]).await
}

async fn an_earlier_row_that_is_not_due_blocks_too(w: World) -> Verdict {
    let later = w.now().await? + secs(100);
    let head = NewOperation {
        options: run_at(later),
        ..w.op_for(LANE, "order-1")?
    };
    w.take_in(&head).await?;
    let follower = lane_of(&w, LANE, 1).await?[0];
    ensure_eq!(announced(&w).await?, [], "nobody is due");
    is_behind(&w, follower).await?;
    w.advance(secs(101)).await;
    ensure_eq!(announced(&w).await?, [head.op_id], "the head");
    Ok(())
}

async fn a_failure_frees_the_lane(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 2).await?;
    let attempt = w.begun(lane[0]).await?;
    w.settle_fail(&attempt).await??;
    ensure_eq!(announced(&w).await?, [lane[1]], "the next is due");
    w.begun(lane[1]).await?;
    Ok(())
}

async fn a_late_yes_frees_the_lane(w: World) -> Verdict {
    let lane = lane_of(&w, UNSAFE_LANE, 2).await?;
    let attempt = w.begun(lane[0]).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.write_ahead(ok_answer(lane[0], Some(1), "late")?)
        .await??;
    ensure_eq!(announced(&w).await?, [lane[1]], "the next is due");
    // An Ok for a follower, from a spill file, does not affect the holder.
    let more = lane_of(&w, UNSAFE_LANE, 2).await?;
    let holder = w.begun(lane[1]).await?;
    w.write_ahead(ok_answer(more[0], None, "spilled")?)
        .await??;
    is_behind(&w, more[1]).await?;
    w.settle_ok(&holder).await??;
    w.begun(more[1]).await?;
    Ok(())
}

async fn a_resolved_hold_frees_the_lane(w: World) -> Verdict {
    let lane = lane_of(&w, UNSAFE_LANE, 2).await?;
    let attempt = w.begun(lane[0]).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.amend(lane[0], Event::Resolve(Resolution::Completed))
        .await??;
    w.begun(lane[1]).await?;
    Ok(())
}

async fn canceling_the_head_makes_the_next_due(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 3).await?;
    w.cancel(lane[0]).await?;
    ensure_eq!(announced(&w).await?, [lane[1]], "the next is due");
    is_behind(&w, lane[2]).await?;
    w.begun(lane[1]).await?;
    Ok(())
}

async fn canceling_a_follower_leaves_the_holder_alone(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 3).await?;
    let holder = w.begun(lane[0]).await?;
    w.cancel(lane[1]).await?;
    is_behind(&w, lane[2]).await?;
    ensure_eq!(announced(&w).await?, [], "the holder still runs");
    w.settle_ok(&holder).await??;
    ensure_eq!(
        announced(&w).await?,
        [lane[2]],
        "the one after the canceled"
    );
    Ok(())
}

async fn an_overdue_follower_leaves_the_holder_alone(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 3).await?;
    w.begun(lane[0]).await?;
    w.advance(DEADLINE + secs(5)).await;
    let overdue = w.scan(Scan::Overdue).await?;
    ensure_eq!(overdue, lane[1..], "followers run into their deadline");
    w.amend(lane[1], Event::DeadlinePassed).await??;
    ensure_eq!(
        w.row(lane[1]).await?.state.status,
        Status::Failed,
        "the follower"
    );
    let holder = w.row(lane[0]).await?;
    ensure_eq!(holder.state.phase, Some(Phase::Live), "the holder");
    is_behind_or_late(&w, lane[2]).await
}

/// Past its deadline and not the head: either reason is correct.
async fn is_behind_or_late(w: &World, op: OpId) -> Verdict {
    let answer = w.begin(op).await?;
    ensure!(answer.is_err(), "a follower past its deadline began");
    Ok(())
}

async fn a_redrive_joins_at_the_tail(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 2).await?;
    let attempt = w.begun(lane[0]).await?;
    w.settle_fail(&attempt).await??;
    let redrive = NewOperation {
        redrive_of: Some(lane[0]),
        ..w.op_for(LANE, "order-1")?
    };
    w.take_in(&redrive).await?;
    is_behind(&w, redrive.op_id).await?;
    let attempt = w.begun(lane[1]).await?;
    w.settle_ok(&attempt).await??;
    w.begun(redrive.op_id).await?;
    Ok(())
}

async fn with_begin_takes_a_free_lane(w: World) -> Verdict {
    let mut head = w.op_for(LANE, "order-1")?;
    head.begin = Some(w.ids.begin(head.op_id, 0)?);
    let (_, state) = w.take_in(&head).await?;
    ensure_eq!(state.phase, Some(Phase::Live), "the head");
    let mut follower = w.op_for(LANE, "order-1")?;
    follower.begin = Some(w.ids.begin(follower.op_id, 0)?);
    let (_, state) = w.take_in(&follower).await?;
    ensure_eq!(state.status, Status::Pending, "the follower");
    w.settle_ok(&w.row(head.op_id).await?).await??;
    w.begun(follower.op_id).await?;
    Ok(())
}

async fn the_lane_is_that_of_the_acceptance(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 2).await?;
    let edited = w.under(LANE, |rules| rules.order = Order::None)?;
    is_behind(&edited, lane[1]).await?;
    let later = edited.op_for(LANE, "order-1")?;
    edited.take_in(&later).await?;
    ensure_eq!(
        edited.row(later.op_id).await?.lane,
        None,
        "accepted without an order"
    );
    edited.begun(later.op_id).await?;
    Ok(())
}

async fn survives_a_crash(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 3).await?;
    let attempt = w.begun(lane[0]).await?;
    let w = w.crash().await?;
    is_behind(&w, lane[1]).await?;
    w.settle_ok(&attempt).await??;
    let w = w.crash().await?;
    ensure_eq!(announced(&w).await?, [lane[1]], "the next is due");
    is_behind(&w, lane[2]).await
}

async fn never_two_live_under_concurrent_workers(w: World) -> Verdict {
    let lane = lane_of(&w, LANE, 24).await?;
    let order = together(8, |_| {
        let (w, lane) = (w.clone(), lane.clone());
        async move {
            let (mut done, mut begun) = (Vec::new(), true);
            while begun || w.counts(LANE).await?.completed < 24 {
                begun = false;
                tokio::task::yield_now().await;
                for op in &lane {
                    let Ok(attempt) = w.begin(*op).await? else {
                        continue;
                    };
                    one_live(&w, &lane, &attempt).await?;
                    w.settle_ok(&attempt).await??;
                    (begun, done) = (true, [done, vec![*op]].concat());
                }
            }
            ensure!(done.is_sorted(), "one worker's order: {done:?}");
            Ok(done.len())
        }
    })
    .await?;
    ensure_eq!(order.iter().sum::<usize>(), 24, "operations that ran");
    Ok(())
}

/// While an attempt runs, it is the only one of its lane.
async fn one_live(w: &World, lane: &[OpId], attempt: &Operation) -> Verdict {
    tokio::task::yield_now().await;
    let rows = w.inspect.get(lane).await?;
    let live: Vec<OpId> = rows
        .iter()
        .flatten()
        .filter(|row| row.state.phase == Some(Phase::Live))
        .map(|row| row.op_id)
        .collect();
    ensure_eq!(live, [attempt.op_id], "live operations of one lane");
    Ok(())
}
