//! The store as its own bus: its deliveries have begun.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clinch_core::ports::{Bus, Delivery, NewOperation};
use clinch_core::protocol::{Event, Phase};
use clinch_core::{ErrorKind, OpId, Retry, Status, code};

use crate::case::{Case, Failure, Stage, Verdict};
use crate::compare::unchanged;
use crate::concurrent::together;
use crate::fixtures::{DEADLINE, LANE, LONG, NATURAL, UNROUTED, UNSAFE, priority, run_at, secs};
use crate::wire::{VISIBILITY, ask};
use crate::world::{World, failed_as, only};
use crate::{Fault, Subject};

pub(super) const CASES: &[Case] = area!(
    "queue",
    Queue {
        hands_out_begun_attempts: ["RUN-1", "RUN-7"],
        in_order_of_priority_then_due_time_then_seq: ["OUT-2"],
        each_row_to_one_of_concurrent_workers: ["OUT-2", "RUN-7"],
        never_more_than_the_maximum: ["RUN-1"],
        only_of_the_named_domains: ["RUN-1"],
        without_a_wait_it_never_blocks: ["RUN-1"],
        honours_a_pause: [],
        honours_the_lane: ["CORE-11"],
        honours_run_at: [],
        honours_the_backoff: ["RUN-3"],
        passes_over_rows_without_a_route: [],
        passes_over_rows_past_their_deadline: [],
        passes_over_terminal_and_held_rows: ["CORE-5"],
        never_hands_out_a_corrupted_payload: ["OUT-3"],
        what_it_may_not_repeat_becomes_held: ["CORE-7"],
        is_not_redelivered_before_the_reaper_acts: ["RUN-6"],
        finds_a_row_that_commits_late: ["OUT-2"],
        an_ack_settles_nothing: [],
        a_nack_refunds_the_attempt: ["RUN-12"],
        an_extension_moves_the_lease: ["RUN-7"],
        concurrent_workers_settle_every_row_once: ["CORE-13", "RUN-7", "RUN-11"],
    }
);

pub(super) const WITH_FAULTS: &[Case] = area!(
    "queue",
    QueueFaults {
        an_ambiguous_dequeue_is_read_back_by_its_attempts: ["RUN-7", "RUN-12"],
    }
);

/// A store that is its own bus.
#[derive(Clone)]
pub(super) struct StoreQueue {
    pub(super) w: World,
    pub(super) queue: Arc<dyn Bus>,
}

impl Stage for StoreQueue {
    fn open(subject: Subject) -> Verdict<Self> {
        let Some(queue) = subject.queue.clone() else {
            return Err(Failure::new(
                "the capabilities promise a queue; there is none",
            ));
        };
        Ok(Self {
            w: World::open(subject)?,
            queue,
        })
    }
}

impl StoreQueue {
    async fn take_of(&self, domains: &[&str], max: usize) -> Verdict<Vec<Delivery>> {
        let taken = self
            .queue
            .dequeue(&ask(domains, max, Duration::ZERO)?)
            .await?;
        ensure!(taken.len() <= max, "asked for {max}, got {}", taken.len());
        Ok(taken)
    }

    async fn take(&self, max: usize) -> Verdict<Vec<Delivery>> {
        self.take_of(&[NATURAL], max).await
    }

    pub(super) async fn accept(
        &self,
        domain: &str,
        edit: impl FnOnce(&mut NewOperation),
    ) -> Verdict<OpId> {
        let mut new = self.w.op(domain)?;
        edit(&mut new);
        self.w.take_in(&new).await?;
        Ok(new.op_id)
    }
}

pub(super) fn ops(deliveries: &[Delivery]) -> Vec<OpId> {
    deliveries
        .iter()
        .map(|delivery| delivery.hint.op_id)
        .collect()
}

async fn hands_out_begun_attempts(q: StoreQueue) -> Verdict {
    let op = q.w.pending(NATURAL).await?;
    let before = q.w.now().await?;
    let delivery = only(q.take(9).await?)?;
    ensure_eq!(delivery.hint.op_id, op, "the operation");
    let Some(begun) = delivery.begun else {
        return Err(Failure::new("the delivery has not begun"));
    };
    ensure_eq!(*begun, q.w.row(op).await?, "the row after the begin");
    ensure_eq!(begun.state.phase, Some(Phase::Live), "the phase");
    ensure_eq!(
        (begun.state.fence, begun.state.attempts),
        (1, 1),
        "fence and attempts"
    );
    ensure!(begun.state.attempt_id.is_some(), "there is no attempt id");
    let lease = begun.state.lease_until;
    ensure!(
        lease >= Some(before + VISIBILITY),
        "the lease ends at {lease:?}"
    );
    q.w.settle_ok(&begun).await??;
    ensure_eq!(
        q.w.row(op).await?.state.status,
        Status::Completed,
        "the end"
    );
    Ok(())
}

async fn in_order_of_priority_then_due_time_then_seq(q: StoreQueue) -> Verdict {
    let all_due = q.w.now().await? + secs(200);
    let due = |ago: u64| Some(all_due - secs(ago));
    let mut rows: Vec<(i8, u64, OpId)> = Vec::new();
    for (rank, ago) in [
        (0, 10),
        (0, 30),
        (5, 1),
        (-5, 100),
        (0, 10),
        (5, 20),
        (10, 0),
        (0, 20),
    ] {
        let options = priority(rank)?;
        let op = q
            .accept(NATURAL, |new| {
                new.options = options;
                new.options.run_at = due(ago);
            })
            .await?;
        rows.push((rank, ago, op));
    }
    // A stable sort: rows of equal priority and due time stay in the order of their seq.
    rows.sort_by_key(|(rank, ago, _)| std::cmp::Reverse((*rank, *ago)));
    let expected: Vec<OpId> = rows.into_iter().map(|(_, _, op)| op).collect();
    q.w.advance(secs(200)).await;
    let mut got = ops(&q.take(3).await?);
    got.extend(ops(&q.take(99).await?));
    ensure_eq!(got, expected, "the order of service");
    Ok(())
}

async fn each_row_to_one_of_concurrent_workers(q: StoreQueue) -> Verdict {
    const ROWS: usize = 160;
    let mut new = Vec::new();
    for _ in 0..ROWS {
        new.push(q.w.op(NATURAL)?);
    }
    q.w.accept_all(&new).await?;
    let taken = together(16, |_| {
        let q = q.clone();
        async move {
            let mut mine = Vec::new();
            loop {
                let taken = q.take(5).await?;
                if taken.is_empty() {
                    return Ok(mine);
                }
                mine.extend(ops(&taken));
                ensure!(mine.len() <= ROWS, "one worker got more than there is");
            }
        }
    })
    .await?;
    let all = taken.concat();
    ensure_eq!(all.len(), ROWS, "deliveries");
    ensure_eq!(
        all.iter().collect::<BTreeSet<_>>().len(),
        ROWS,
        "distinct rows"
    );
    ensure_eq!(q.w.counts(NATURAL).await?.live, ROWS as u64, "live rows");
    Ok(())
}

async fn never_more_than_the_maximum(q: StoreQueue) -> Verdict {
    q.w.pending_many(NATURAL, 6).await?;
    let mut sizes = Vec::new();
    for max in [1, 3, 9] {
        sizes.push(q.take(max).await?.len());
    }
    ensure_eq!(sizes, [1, 3, 2], "what six rows came in");
    ensure_eq!(
        q.w.counts(NATURAL).await?.live,
        6,
        "no more begin than are handed out"
    );
    Ok(())
}

async fn only_of_the_named_domains(q: StoreQueue) -> Verdict {
    let (one, two) = (q.w.pending(NATURAL).await?, q.w.pending(UNSAFE).await?);
    ensure_eq!(q.take_of(&[], 9).await?, [], "no domain");
    ensure_eq!(
        ops(&q.take_of(&[UNSAFE], 9).await?),
        [two],
        "the named domain"
    );
    ensure_eq!(
        q.w.row(one).await?.state.version,
        1,
        "the other is untouched"
    );
    ensure_eq!(ops(&q.take_of(&[UNSAFE, NATURAL], 9).await?), [one], "both");
    Ok(())
}

async fn without_a_wait_it_never_blocks(q: StoreQueue) -> Verdict {
    ensure_eq!(q.take(9).await?, [], "an empty store");
    let later = q.w.now().await? + LONG;
    q.accept(NATURAL, |new| new.options = run_at(later)).await?;
    ensure_eq!(q.take(9).await?, [], "a store with a row that is not due");
    Ok(())
}

async fn honours_a_pause(q: StoreQueue) -> Verdict {
    let op = q.w.pending(NATURAL).await?;
    q.w.pause(NATURAL, true).await?;
    ensure_eq!(q.take(9).await?, [], "a paused domain");
    ensure_eq!(q.w.row(op).await?.state.version, 1, "the row is untouched");
    q.w.pause(NATURAL, false).await?;
    ensure_eq!(ops(&q.take(9).await?), [op], "after it was resumed");
    Ok(())
}

async fn honours_the_lane(q: StoreQueue) -> Verdict {
    let mut lane = Vec::new();
    for _ in 0..3 {
        lane.push(q.w.op_for(LANE, "order-1")?);
    }
    let other = q.w.op_for(LANE, "order-2")?;
    q.w.accept_all(&lane).await?;
    q.w.take_in(&other).await?;
    let first = q.take_of(&[LANE], 9).await?;
    ensure_eq!(ops(&first), [lane[0].op_id, other.op_id], "one of each key");
    for next in &lane[1..] {
        ensure_eq!(q.take_of(&[LANE], 9).await?, [], "while the head runs");
        let head = q.w.inspect.get(&[lane[0].op_id, lane[1].op_id]).await?;
        let head = head
            .into_iter()
            .flatten()
            .find(|row| row.state.phase == Some(Phase::Live));
        let head = head.ok_or_else(|| Failure::new("nobody of the lane is live"))?;
        q.w.settle_ok(&head).await??;
        ensure_eq!(
            ops(&q.take_of(&[LANE], 9).await?),
            [next.op_id],
            "the next of the lane"
        );
    }
    Ok(())
}

async fn honours_run_at(q: StoreQueue) -> Verdict {
    let at = q.w.now().await? + secs(100);
    let op = q.accept(NATURAL, |new| new.options = run_at(at)).await?;
    q.w.advance(secs(90)).await;
    ensure_eq!(q.take(9).await?, [], "before run_at");
    q.w.advance(secs(10)).await;
    ensure_eq!(ops(&q.take(9).await?), [op], "from run_at on");
    Ok(())
}

async fn honours_the_backoff(q: StoreQueue) -> Verdict {
    let attempt = q.w.live(NATURAL).await?;
    q.w.retry(&attempt, Retry::not_applied("busy").after(secs(100)))
        .await??;
    q.w.advance(secs(90)).await;
    ensure_eq!(q.take(9).await?, [], "during the backoff");
    q.w.advance(secs(10)).await;
    let delivery = only(q.take(9).await?)?;
    ensure_eq!(
        delivery.begun.map(|begun| begun.state.attempts),
        Some(2),
        "attempts"
    );
    Ok(())
}

async fn passes_over_rows_without_a_route(q: StoreQueue) -> Verdict {
    let op = q.w.pending(UNROUTED).await?;
    let before = q.w.row(op).await?;
    let known = q.w.pending(NATURAL).await?;
    ensure_eq!(
        ops(&q.take_of(&[UNROUTED, NATURAL], 1).await?),
        [known],
        "the row with a route"
    );
    ensure_eq!(q.take_of(&[UNROUTED], 9).await?, [], "the row without");
    unchanged(&before, &q.w.row(op).await?)
}

async fn passes_over_rows_past_their_deadline(q: StoreQueue) -> Verdict {
    let op = q.w.pending(NATURAL).await?;
    q.w.advance(DEADLINE + secs(5)).await;
    let before = q.w.row(op).await?;
    let fresh = q.w.pending(NATURAL).await?;
    ensure_eq!(ops(&q.take(1).await?), [fresh], "the row that is in time");
    unchanged(&before, &q.w.row(op).await?)
}

async fn passes_over_terminal_and_held_rows(q: StoreQueue) -> Verdict {
    q.w.completed(NATURAL).await?;
    q.w.failed(NATURAL).await?;
    let canceled = q.w.pending(NATURAL).await?;
    q.w.cancel(canceled).await?;
    q.w.held(UNSAFE).await?;
    q.w.live(NATURAL).await?;
    q.w.advance(LONG).await;
    ensure_eq!(
        q.take_of(&[NATURAL, UNSAFE], 9).await?,
        [],
        "nothing waits for a begin"
    );
    Ok(())
}

async fn never_hands_out_a_corrupted_payload(q: StoreQueue) -> Verdict {
    let (bad, good) = (q.w.pending(NATURAL).await?, q.w.pending(NATURAL).await?);
    q.w.control.corrupt(bad).await;
    ensure_eq!(ops(&q.take(9).await?), [good], "what was handed out");
    let state = q.w.row(bad).await?.state;
    let failure = state.failure.map(|failure| failure.code);
    ensure_eq!(failure.as_deref(), Some(code::INTEGRITY), "the failure");
    ensure_eq!(q.w.letters().await?.len(), 1, "dead letters");
    Ok(())
}

async fn what_it_may_not_repeat_becomes_held(q: StoreQueue) -> Verdict {
    let attempt = q.w.live(NATURAL).await?;
    q.w.retry(&attempt, Retry::unknown("timeout")).await??;
    q.w.advance(LONG).await;
    let strict = q.w.under(NATURAL, |rules| {
        rules.safety = clinch_core::policy::Safety::Unsafe
    })?;
    let mut asked = ask(&[NATURAL], 9, Duration::ZERO)?;
    asked.routes = strict.routes.clone();
    ensure_eq!(q.queue.dequeue(&asked).await?, [], "nothing is handed out");
    let phase = q.w.row(attempt.op_id).await?.state.phase;
    ensure_eq!(phase, Some(Phase::Held), "the phase");
    Ok(())
}

async fn is_not_redelivered_before_the_reaper_acts(q: StoreQueue) -> Verdict {
    q.w.pending(NATURAL).await?;
    let delivery = only(q.take(9).await?)?;
    let op = delivery.hint.op_id;
    q.w.advance(VISIBILITY + secs(5)).await;
    ensure_eq!(
        q.take(9).await?,
        [],
        "the lease ended; the Reaper has not come"
    );
    q.w.amend(op, Event::AttemptLost).await??;
    q.w.advance(LONG).await;
    let again = only(q.take(9).await?)?;
    let state = again.begun.map(|begun| begun.state);
    let counts = state.map(|state| (state.fence, state.attempts, state.deliveries));
    ensure_eq!(counts, Some((2, 2, 1)), "fence, attempts and deliveries");
    Ok(())
}

async fn finds_a_row_that_commits_late(q: StoreQueue) -> Verdict {
    q.w.pending_many(NATURAL, 3).await?;
    q.take(9).await?;
    let early = q.w.ids.early_op_id();
    let long_ago = q.w.now().await? - LONG;
    let mut late = q.w.op(NATURAL)?;
    late = crate::fixtures::operation(early, late.keys, &crate::fixtures::payload(1)?);
    late.options = run_at(long_ago);
    q.w.take_in(&late).await?;
    ensure_eq!(
        ops(&q.take(9).await?),
        [early],
        "a row behind everything handed out"
    );
    Ok(())
}

async fn an_ack_settles_nothing(q: StoreQueue) -> Verdict {
    q.w.pending(NATURAL).await?;
    let delivery = only(q.take(9).await?)?;
    let before = q.w.row(delivery.hint.op_id).await?;
    q.queue
        .ack(&[delivery.receipt.clone(), delivery.receipt])
        .await?;
    unchanged(&before, &q.w.row(delivery.hint.op_id).await?)
}

async fn a_nack_refunds_the_attempt(q: StoreQueue) -> Verdict {
    let op = q.w.pending(NATURAL).await?;
    let delivery = only(q.take(9).await?)?;
    q.queue
        .nack(&[(delivery.receipt.clone(), secs(100))])
        .await?;
    let state = q.w.row(op).await?.state;
    ensure_eq!(
        (state.phase, state.attempts),
        (Some(Phase::Waiting), 0),
        "the state"
    );
    q.w.advance(secs(90)).await;
    ensure_eq!(q.take(9).await?, [], "before its delay");
    q.w.advance(secs(11)).await;
    only(q.take(9).await?)?;
    // The first delivery has ended.
    let before = q.w.row(op).await?;
    q.queue.nack(&[(delivery.receipt, Duration::ZERO)]).await?;
    unchanged(&before, &q.w.row(op).await?)
}

async fn an_extension_moves_the_lease(q: StoreQueue) -> Verdict {
    let op = q.w.pending(NATURAL).await?;
    let delivery = only(q.take(9).await?)?;
    q.w.advance(secs(20)).await;
    q.queue.extend(&[delivery.receipt], VISIBILITY).await?;
    q.w.advance(secs(20)).await;
    let lost = q.w.amend(op, Event::AttemptLost).await?;
    ensure!(lost.is_err(), "an extended attempt was taken for lost");
    Ok(())
}

async fn concurrent_workers_settle_every_row_once(q: StoreQueue) -> Verdict {
    const ROWS: u64 = 120;
    let mut new = Vec::new();
    for number in 0..ROWS {
        new.push(q.w.op_for(LANE, &format!("order-{}", number % 10))?);
    }
    q.w.accept_all(&new).await?;
    let settled = together(8, |_| {
        let q = q.clone();
        async move {
            let (mut mine, mut idle) = (0, 0);
            while idle < 200 {
                let taken = q.take_of(&[LANE], 4).await?;
                if taken.is_empty() {
                    idle += 1;
                    tokio::task::yield_now().await;
                }
                for begun in taken.into_iter().filter_map(|delivery| delivery.begun) {
                    q.w.settle_ok(&begun).await??;
                    (mine, idle) = (mine + 1, 0);
                }
            }
            Ok(mine)
        }
    })
    .await?;
    ensure_eq!(settled.iter().sum::<u64>(), ROWS, "settled");
    ensure_eq!(q.w.counts(LANE).await?.completed, ROWS, "COMPLETED");
    Ok(())
}

/// If a dequeue's answer is lost, its attempts belong to the caller and are found by their ids.
async fn an_ambiguous_dequeue_is_read_back_by_its_attempts(l: StoreQueue) -> Verdict {
    let ops = l.w.pending_many(NATURAL, 3).await?;
    let asked = ask(&[NATURAL], 9, Duration::ZERO)?;
    l.w.arm(Fault::AfterCommit).await;
    failed_as(l.queue.dequeue(&asked).await, ErrorKind::Ambiguous)?;
    let begun = l.w.inspect.begun(&asked.attempts).await?;
    let found: BTreeSet<OpId> = begun.iter().flatten().map(|row| row.op_id).collect();
    ensure_eq!(found, ops.iter().copied().collect(), "what was begun");
    for row in begun.into_iter().flatten() {
        l.w.settle_ok(&row).await??;
    }
    let begun = l.w.inspect.begun(&asked.attempts).await?;
    ensure_eq!(begun.iter().flatten().count(), 0, "settled, no longer live");
    Ok(())
}
