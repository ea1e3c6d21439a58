//! The scenarios of the requirements, as far as the ports alone can show them.
//!
//! Scenarios 1 to 5 of CORE-13 and the acceptance criteria AC-1 to AC-5 of RUN-11, with a provider
//! that remembers what it applied. `engine.rs` repeats them with the engine on top of the ports.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use clinch_core::policy::SplitMix;
use clinch_core::ports::{Filter, NewOperation, Operation, Scan};
use clinch_core::protocol::{Action, Event, Phase, ProbeAnswer, Resolution, WriteAhead};
use clinch_core::{Effect, OpId, Retry, Status, code};

use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::concurrent::together;
use crate::fixtures::{KEYED, LANE, LEASE, LONG, NATURAL, REAPED, SILENCE, UNSAFE, claim, secs};
use crate::world::{World, ids};

pub(super) const CASES: &[Case] = area!(
    "scenario",
    Store {
        s1_whoever_is_announced_can_be_read: ["CORE-9", "CORE-13"],
        s2_a_hint_that_comes_twice_has_one_effect: ["CORE-13", "CORE-11"],
        s3_of_a_long_run_and_its_redelivery_one_is_valid: ["CORE-13", "RUN-7"],
        s4_a_recorded_answer_is_finished_by_the_finalizer: ["CORE-13", "CORE-7", "RUN-5"],
        s5_nothing_goes_back_from_completed: ["CORE-13", "CORE-5"],
        ac1_write_ahead_comes_before_finalize: ["RUN-11", "CORE-7", "RUN-2"],
        ac2_the_fifth_retry_fails: ["RUN-11", "RUN-3"],
        ac3_several_finalizers_recover_each_record_once: ["RUN-11", "RUN-5"],
        ac4_the_reaper_reconciles_by_its_strategy: ["RUN-11", "RUN-6"],
        ac5_ten_duplicates_finalize_once: ["RUN-11", "RUN-7"],
        a_crash_after_any_write_loses_nothing: ["CORE-13", "RUN-9", "OUT-8"],
        random_crashes_lose_nothing_and_repeat_nothing: ["CORE-13", "RUN-9", "OUT-8"],
    }
);

/// Counts the calls that reached it, by outbound key.
#[derive(Default)]
struct Provider(Mutex<BTreeMap<String, u32>>);

impl Provider {
    fn call(&self, attempt: &Operation) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *calls.entry(attempt.outbound_key.to_string()).or_default() += 1;
    }

    fn calls(&self, row: &Operation) -> u32 {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls
            .get(row.outbound_key.as_str())
            .copied()
            .unwrap_or_default()
    }
}

async fn s1_whoever_is_announced_can_be_read(w: World) -> Verdict {
    const EACH: usize = 30;
    let seen = together(8, |number| {
        let w = w.clone();
        async move {
            let mut seen = 0;
            for _ in 0..EACH {
                if number % 2 == 0 {
                    w.pending(NATURAL).await?;
                }
                for claimed in w.outbox.claim(&claim(number, 5)?).await? {
                    let row = w.row(claimed.op_id()).await?;
                    let keys = w.inspect.find(std::slice::from_ref(&row.keys)).await?;
                    ensure!(keys[0].is_some(), "a row without its key");
                    seen += 1;
                }
                tokio::task::yield_now().await;
            }
            Ok(seen)
        }
    })
    .await?;
    let left = w.claim(999).await?.len();
    ensure_eq!(
        seen.iter().sum::<usize>() + left,
        4 * EACH,
        "every operation, once"
    );
    Ok(())
}

async fn s2_a_hint_that_comes_twice_has_one_effect(w: World) -> Verdict {
    let provider = Provider::default();
    let op = w.pending(UNSAFE).await?;
    // Two workers take the same hint; later it comes once more, after the end.
    for _ in 0..2 {
        for _ in 0..2 {
            if let Ok(attempt) = w.begin(op).await? {
                provider.call(&attempt);
            }
        }
        let row = w.row(op).await?;
        w.settle_ok(&row).await?.err();
    }
    let row = w.row(op).await?;
    ensure_eq!(
        (row.state.status, provider.calls(&row)),
        (Status::Completed, 1),
        "the end"
    );
    Ok(())
}

async fn s3_of_a_long_run_and_its_redelivery_one_is_valid(w: World) -> Verdict {
    let first = w.live(NATURAL).await?;
    let op = first.op_id;
    // The lease was extended: the redelivered hint finds the row live.
    for _ in 0..3 {
        w.advance(secs(20)).await;
        let lease = Event::Extend {
            fence: 1,
            lease: LEASE,
        };
        w.amend(op, lease).await??;
        ensure!(
            w.begin(op).await?.is_err(),
            "a redelivery took over a running attempt"
        );
    }
    // The worker is paused longer than its lease: another takes over, and only one of them counts.
    w.advance(LEASE + secs(5)).await;
    ensure_eq!(w.scan(Scan::LeaseEnded).await?, [op], "the Reaper finds it");
    w.amend(op, Event::AttemptLost).await??;
    w.advance(LONG / 4).await;
    let second = w.begun(op).await?;
    let late = w.settle_fail(&first).await?;
    ensure!(late.is_err(), "the old attempt's no counted");
    w.settle_ok(&second).await??;
    let row = w.row(op).await?;
    ensure_eq!(
        (row.state.status, row.state.fence),
        (Status::Completed, 2),
        "the end"
    );
    Ok(())
}

async fn s4_a_recorded_answer_is_finished_by_the_finalizer(w: World) -> Verdict {
    let attempt = w.live(UNSAFE).await?;
    w.record_ok(&attempt).await?;
    let w = w.crash().await?;
    w.advance(LONG).await;
    ensure_eq!(
        w.scan(Scan::LeaseEnded).await?,
        [],
        "nobody takes it for lost"
    );
    let found = w.scan(Scan::Unfinalized).await?;
    for result in w.store.finalize(&found, &w.routes).await? {
        result?;
    }
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(
        (row.state.status, row.state.attempts),
        (Status::Completed, 1),
        "the end"
    );
    ensure!(row.result.is_some(), "the provider's answer was dropped");
    Ok(())
}

async fn s5_nothing_goes_back_from_completed(w: World) -> Verdict {
    let completed = w.completed(NATURAL).await?;
    w.settle_fail(&completed).await?.err();
    w.retry(&completed, Retry::unknown("late")).await?.err();
    for event in [
        Event::Cancel,
        Event::AttemptLost,
        Event::DeadlinePassed,
        Event::Finalize,
    ] {
        ensure!(
            w.amend(completed.op_id, event).await?.is_err(),
            "COMPLETED changed"
        );
    }
    w.begin(completed.op_id).await?.err();
    crate::compare::unchanged(&completed, &w.row(completed.op_id).await?)
}

async fn ac1_write_ahead_comes_before_finalize(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    ensure!(
        w.finalize(attempt.op_id).await?.is_err(),
        "final before anything was recorded"
    );
    w.record_ok(&attempt).await?;
    let recorded = w.row(attempt.op_id).await?;
    let is_pending = matches!(recorded.state.write_ahead, WriteAhead::Pending { .. });
    ensure!(
        is_pending && recorded.result.is_some(),
        "the record: {:?}",
        recorded.state
    );
    w.finalize(attempt.op_id).await??;
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state.write_ahead, WriteAhead::Done, "the record");
    ensure_eq!(row.state.status, Status::Completed, "the end");
    Ok(())
}

async fn ac2_the_fifth_retry_fails(w: World) -> Verdict {
    let op = w.pending(UNSAFE).await?;
    let mut ends = Vec::new();
    for _ in 0..5 {
        let attempt = w.begun(op).await?;
        ends.push(
            w.retry(&attempt, Retry::not_applied("timeout"))
                .await??
                .state
                .status,
        );
        w.advance(secs(600)).await;
    }
    let expected = [Status::InProgress; 4].into_iter().chain([Status::Failed]);
    ensure_eq!(ends, expected.collect::<Vec<_>>(), "after each retry");
    let failure = w.row(op).await?.state.failure;
    let failure = failure.map(|failure| (failure.code, failure.effect));
    ensure_eq!(
        failure,
        Some((code::RETRY_EXHAUSTED.into(), Effect::None)),
        "the failure"
    );
    Ok(())
}

async fn ac3_several_finalizers_recover_each_record_once(w: World) -> Verdict {
    const RECORDS: usize = 100;
    for _ in 0..RECORDS {
        let attempt = w.live(NATURAL).await?;
        w.record_ok(&attempt).await?;
    }
    let w = w.crash().await?;
    let recovered = together(4, |number| {
        let w = w.clone();
        async move {
            let mut mine = 0;
            loop {
                let found = w
                    .recovery
                    .scan(Scan::Unfinalized, &claim(number, 9)?)
                    .await?;
                if found.is_empty() {
                    return Ok(mine);
                }
                let results = w.store.finalize(&ids(&found), &w.routes).await?;
                mine += results.iter().flatten().count();
                ensure!(
                    mine <= RECORDS,
                    "one Finalizer made more changes than there are"
                );
                tokio::task::yield_now().await;
            }
        }
    })
    .await?;
    ensure_eq!(
        recovered.iter().sum::<usize>(),
        RECORDS,
        "recovered, each once"
    );
    ensure_eq!(
        w.counts(NATURAL).await?.completed,
        RECORDS as u64,
        "COMPLETED"
    );
    Ok(())
}

async fn ac4_the_reaper_reconciles_by_its_strategy(w: World) -> Verdict {
    let (retried, failed, held) = (
        w.live(NATURAL).await?,
        w.live(REAPED).await?,
        w.live(UNSAFE).await?,
    );
    w.advance(secs(600)).await;
    for op in w.scan(Scan::LeaseEnded).await? {
        w.amend(op, Event::AttemptLost).await??;
    }
    let retried = w.row(retried.op_id).await?.state;
    ensure_eq!(retried.phase, Some(Phase::Waiting), "retry");
    let failed = w.row(failed.op_id).await?.state.failure;
    let failed = failed.map(|failure| (failure.code, failure.effect));
    ensure_eq!(
        failed,
        Some((code::ATTEMPT_LOST.into(), Effect::Unknown)),
        "fail"
    );
    let held = w.row(held.op_id).await?.state;
    ensure_eq!(
        held.phase,
        Some(Phase::Held),
        "no strategy overrides safety"
    );
    Ok(())
}

async fn ac5_ten_duplicates_finalize_once(w: World) -> Verdict {
    for _ in 0..10 {
        let op = w.pending(NATURAL).await?;
        let settled = together(10, |_| {
            let w = w.clone();
            async move {
                let Ok(attempt) = w.begin(op).await? else {
                    return Ok(false);
                };
                let changed = w.settle_ok(&attempt).await??;
                Ok(changed.effects.contains(&Action::Settle))
            }
        })
        .await?;
        ensure_eq!(
            settled.iter().filter(|settled| **settled).count(),
            1,
            "settled"
        );
        let state = w.row(op).await?.state;
        ensure_eq!(
            (state.status, state.attempts),
            (Status::Completed, 1),
            "the end"
        );
    }
    Ok(())
}

/// One turn of a worker, the Finalizer, the Reaper, the sweeper and an operator. `alive` says after
/// each write whether the process continues.
async fn round(w: &World, provider: &Provider, mut alive: impl FnMut() -> bool) -> Verdict {
    for op in w.scan(Scan::Unfinalized).await? {
        w.finalize(op).await??;
        if !alive() {
            return Ok(());
        }
    }
    for op in w.scan(Scan::LeaseEnded).await? {
        w.amend(op, Event::AttemptLost).await??;
        if !alive() {
            return Ok(());
        }
    }
    let held = Filter {
        phase: Some(Phase::Held),
        ..Filter::default()
    };
    for row in w.inspect.list(&held, None, 100).await?.items {
        let event = match provider.calls(&row) {
            0 => Event::Resolve(Resolution::Retry),
            _ => Event::Probed {
                fence: row.state.fence,
                asked_at: w.now().await?,
                answer: ProbeAnswer::Succeeded,
            },
        };
        w.amend(row.op_id, event).await??;
        if !alive() {
            return Ok(());
        }
    }
    let mut due = w.outbox.claim_silent(&claim(3, 20)?, &SILENCE).await?;
    due.extend(w.claim(20).await?);
    w.outbox.published(&due).await?;
    for op in ids(&due) {
        if !alive() {
            return Ok(());
        }
        work(w, provider, op, &mut alive).await?;
    }
    Ok(())
}

/// One attempt, from the begin to the last write.
async fn work(
    w: &World,
    provider: &Provider,
    op: OpId,
    alive: &mut impl FnMut() -> bool,
) -> Verdict {
    let Ok(attempt) = w.begin(op).await? else {
        return Ok(());
    };
    if !alive() {
        return Ok(());
    }
    provider.call(&attempt);
    if !alive() {
        return Ok(());
    }
    w.record_ok(&attempt).await?;
    if !alive() {
        return Ok(());
    }
    w.finalize(op).await??;
    Ok(())
}

/// Every operation ended COMPLETED, with one effect at the provider.
async fn all_is_well(w: &World, provider: &Provider, new: &[NewOperation]) -> Verdict {
    for new in new {
        let row = w.row(new.op_id).await?;
        ensure_eq!(
            row.state.status,
            Status::Completed,
            "{}: the end",
            row.keys.domain
        );
        let calls = provider.calls(&row);
        let once = new.keys.domain.as_str() == UNSAFE;
        ensure!(calls >= 1, "{} completed without a call", row.keys.domain);
        ensure!(calls == 1 || !once, "an unsafe call was made {calls} times");
    }
    Ok(())
}

async fn a_crash_after_any_write_loses_nothing(w: World) -> Verdict {
    let mut w = w;
    for domain in [KEYED, NATURAL, UNSAFE, LANE] {
        for writes in 0..6 {
            let provider = Provider::default();
            let new = w.op(domain)?;
            w.take_in(&new).await?;
            if writes == 0 {
                w = w.crash().await?;
            }
            let mut left = writes;
            let alive = || {
                left -= 1;
                left != 0
            };
            round(&w, &provider, alive).await?;
            w = w.crash().await?;
            for _ in 0..12 {
                w.advance(secs(61)).await;
                round(&w, &provider, || true).await?;
            }
            all_is_well(&w, &provider, &[new]).await?;
        }
    }
    Ok(())
}

async fn random_crashes_lose_nothing_and_repeat_nothing(w: World) -> Verdict {
    let mut w = w;
    for seed in 1..=4 {
        let (mut rng, provider) = (SplitMix::new(seed), Provider::default());
        let mut new = Vec::new();
        for number in 0..40 {
            let domain = [KEYED, NATURAL, UNSAFE, LANE][number % 4];
            new.push(w.op_for(domain, &format!("order-{}-{seed}", number % 5))?);
        }
        w.accept_all(&new).await?;
        for turn in 0..150 {
            let deadly = turn < 60;
            round(&w, &provider, || {
                !(deadly && rng.next_u64().is_multiple_of(7))
            })
            .await?;
            if deadly {
                w = w.crash().await?;
            }
            w.advance(secs(61)).await;
        }
        all_is_well(&w, &provider, &new).await?;
        let open = w.counts(LANE).await?;
        ensure_eq!(
            (open.pending, open.live, open.waiting, open.held),
            (0, 0, 0, 0),
            "open"
        );
    }
    ensure_eq!(w.scan(Scan::Overdue).await?, [], "overdue");
    Ok(())
}
