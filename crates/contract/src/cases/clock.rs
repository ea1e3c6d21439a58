//! Recovery::prune under a clock that cannot be trusted: nothing is deleted by mistake.

use std::time::Duration;

use clinch_core::ports::{Accepted, NewOperation, Prune};

use crate::case::{Case, Verdict};
use crate::fixtures::{UNSAFE, secs};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "clock",
    Store {
        a_jump_ahead_forgets_no_key: ["CORE-6"],
        the_seen_time_survives_a_crash: ["CORE-6"],
        confirming_the_clock_prunes_by_it: [],
        real_time_catches_up: [],
        small_steps_are_followed: [],
    }
);

const DAY: Duration = secs(86_400);

/// The defaults of the configuration.
const PRUNE: Prune = Prune {
    completed: secs(7 * 86_400),
    failed: secs(30 * 86_400),
    keys: secs(400 * 86_400),
    max: 1_000,
    reckoned: None,
    jump_max: DAY,
};

/// Settled operations, and a first prune that reads the clock.
async fn settled(w: &World, count: usize) -> Verdict<Vec<NewOperation>> {
    let mut settled = Vec::with_capacity(count);
    for _ in 0..count {
        let new = w.op(UNSAFE)?;
        w.take_in(&new).await?;
        let attempt = w.begun(new.op_id).await?;
        w.settle_ok(&attempt).await??;
        settled.push(new);
    }
    ensure_eq!(w.recovery.seen_time().await?, None, "before the first look");
    let pruned = w.recovery.prune(&PRUNE).await?;
    ensure!(
        !pruned.time.is_held_back(),
        "a new store believes its clock"
    );
    Ok(settled)
}

/// How many of these operations' keys are still known.
async fn replayed(w: &World, settled: &[NewOperation]) -> Verdict<usize> {
    let again = settled.iter().map(|new| NewOperation {
        op_id: w.ids.op_id(),
        ..new.clone()
    });
    let again: Vec<_> = again.collect();
    let answers = w.accept_all(&again).await?;
    let known = |answer: &&Accepted| matches!(answer, Accepted::Known(_));
    Ok(answers.iter().filter(known).count())
}

async fn a_jump_ahead_forgets_no_key(w: World) -> Verdict {
    let settled = settled(&w, 30).await?;
    w.advance(DAY * 500).await;
    for _ in 0..2 {
        let pruned = w.recovery.prune(&PRUNE).await?;
        ensure_eq!((pruned.operations, pruned.keys), (0, 0), "what was pruned");
        ensure!(pruned.time.is_held_back(), "the jump is not told");
        ensure!(pruned.time.ahead() > DAY * 499, "{:?}", pruned.time);
    }
    let seen = w.recovery.seen_time().await?;
    ensure!(
        seen.is_some_and(|seen| seen.is_held_back()),
        "the jump is not shown: {seen:?}"
    );
    ensure_eq!(replayed(&w, &settled).await?, 30, "keys that are known");
    Ok(())
}

async fn the_seen_time_survives_a_crash(w: World) -> Verdict {
    let settled = settled(&w, 3).await?;
    let w = w.crash().await?;
    w.advance(DAY * 500).await;
    let pruned = w.recovery.prune(&PRUNE).await?;
    ensure_eq!((pruned.operations, pruned.keys), (0, 0), "what was pruned");
    ensure_eq!(replayed(&w, &settled).await?, 3, "keys that are known");
    Ok(())
}

async fn confirming_the_clock_prunes_by_it(w: World) -> Verdict {
    let settled = settled(&w, 3).await?;
    w.advance(DAY * 10).await;
    let pruned = w.recovery.prune(&PRUNE).await?;
    ensure_eq!(pruned.operations, 0, "before an operator looked");
    let confirmed = w.recovery.confirm_time().await?;
    ensure!(!confirmed.is_held_back(), "confirmed: {confirmed:?}");
    let pruned = w.recovery.prune(&PRUNE).await?;
    ensure_eq!((pruned.operations, pruned.keys), (3, 0), "after it");
    ensure_eq!(replayed(&w, &settled).await?, 3, "keys that are known");
    Ok(())
}

async fn real_time_catches_up(w: World) -> Verdict {
    settled(&w, 3).await?;
    w.advance(DAY * 500).await;
    let seen = w.recovery.prune(&PRUNE).await?.time.seen_at;
    let after = |days: u32| Prune {
        reckoned: Some(seen + DAY * days + secs(60)),
        ..PRUNE
    };
    let early = w.recovery.prune(&after(6)).await?;
    ensure_eq!(early.operations, 0, "after six days of real time");
    let late = w.recovery.prune(&after(7)).await?;
    ensure_eq!((late.operations, late.keys), (3, 0), "after seven");
    // Another process that has run for a shorter time does not move the seen time back.
    let other = w.recovery.prune(&after(1)).await?;
    ensure_eq!(other.time.seen_at, late.time.seen_at, "the seen time");
    Ok(())
}

async fn small_steps_are_followed(w: World) -> Verdict {
    settled(&w, 3).await?;
    let mut pruned = 0;
    for _ in 0..15 {
        w.advance(DAY / 2).await;
        let step = w.recovery.prune(&PRUNE).await?;
        ensure!(!step.time.is_held_back(), "half a day is no jump");
        pruned += step.operations;
    }
    ensure_eq!(pruned, 3, "what was pruned after a week");
    Ok(())
}
