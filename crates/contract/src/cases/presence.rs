//! Processes that are alive, that died, and the rows that they leave behind.

use clinch_core::ports::{BeginRequest, Operation};
use clinch_core::protocol::{Event, Phase, Why};
use clinch_core::{AttemptId, Effect, LeaseToken, OpId, ProcessId};
use uuid::Uuid;

use crate::calls::Calls;
use crate::case::{Case, Verdict};
use crate::fixtures::{LEASE, NATURAL, UNSAFE, claim, secs};
use crate::world::{World, only};

pub(super) const CASES: &[Case] = area!(
    "presence",
    Store {
        a_process_that_died_is_noticed_and_its_rows_are_continued: ["RUN-6"],
        a_process_that_keeps_checking_in_is_alive: ["RUN-6"],
        after_a_silence_of_all_nobody_is_taken_for_dead: ["RUN-6"],
        a_process_that_checks_out_leaves_nothing_behind: [],
        a_process_with_a_live_row_is_not_forgotten: [],
        abandoned_finds_only_live_attempts_of_the_process: ["RUN-6"],
        abandoned_rows_go_to_one_claimer: ["OUT-2"],
        the_death_of_another_process_changes_nothing: ["RUN-7"],
        an_attempt_of_a_dead_process_is_stale_and_its_yes_counts: ["RUN-7", "CORE-7"],
    }
);

/// More check-ins, a second apart, than any store needs to notice a death that it knows of.
const LOOKS: usize = 15;
/// The same with time for a server that has yet to learn of it: some seconds of looks, because a
/// server on a busy machine does not see at once that a connection has ended.
const PATIENT_LOOKS: usize = 100_000;

fn process(number: u64) -> ProcessId {
    ProcessId::from_bits(0x1234_5678_9abc_4000 | number)
}

fn attempt(process: ProcessId, number: u64) -> AttemptId {
    process.attempt(AttemptId(Uuid::from_u64_pair(0, (1 << 63) | number)))
}

/// A live row whose attempt the process makes.
async fn live_of(w: &World, domain: &str, process: ProcessId) -> Verdict<Operation> {
    let id = attempt(process, w.ids.number());
    live_as(w, domain, id).await
}

async fn live_as(w: &World, domain: &str, attempt_id: AttemptId) -> Verdict<Operation> {
    let new = w.op(domain)?;
    w.take_in(&new).await?;
    let begin = BeginRequest {
        attempt_id,
        ..w.ids.begin(new.op_id, 1)?
    };
    Ok(only(w.store.begin(&[begin], &w.routes).await?)??)
}

async fn abandoned(w: &World, process: ProcessId) -> Verdict<Vec<OpId>> {
    let claimed = w.recovery.abandoned(process, &claim(0, 100)?).await?;
    Ok(claimed.iter().map(|row| row.op_id()).collect())
}

/// Kills the instance, and continues with what it had committed.
async fn crashed(w: World) -> Verdict<World> {
    let next = w.crash().await?;
    drop(w);
    Ok(next)
}

async fn must_find_dead(w: &World, by: ProcessId, other: ProcessId) -> Verdict {
    let found = finds_dead(w, by, other, PATIENT_LOOKS).await?;
    ensure!(found, "the death of a process is not noticed");
    Ok(())
}

async fn must_not_find_dead(w: &World, by: ProcessId, other: ProcessId) -> Verdict {
    let found = finds_dead(w, by, other, LOOKS).await?;
    ensure!(!found, "a process that checked out is called dead");
    Ok(())
}

/// Whether `other` is found dead while `by` checks in once a second.
async fn finds_dead(w: &World, by: ProcessId, other: ProcessId, looks: usize) -> Verdict<bool> {
    for _ in 0..looks {
        let dead = w.recovery.check_in(by).await?;
        ensure!(!dead.contains(&by), "a process is told that it is dead");
        if dead.contains(&other) {
            return Ok(true);
        }
        w.advance(secs(1)).await;
    }
    Ok(false)
}

async fn a_process_that_died_is_noticed_and_its_rows_are_continued(w: World) -> Verdict {
    let (one, two) = (process(1), process(2));
    w.recovery.check_in(one).await?;
    let natural = live_of(&w, NATURAL, one).await?;
    let barred = live_of(&w, UNSAFE, one).await?;
    let w = crashed(w).await?;
    let survivor = live_of(&w, NATURAL, two).await?;
    must_find_dead(&w, two, one).await?;
    let dead = w.recovery.check_in(two).await?;
    ensure!(dead.contains(&one), "only the first look told of the death");
    let mut found = abandoned(&w, one).await?;
    found.sort();
    let mut expected = vec![natural.op_id, barred.op_id];
    expected.sort();
    ensure_eq!(found, expected, "the rows of the dead process");
    for op in found {
        w.amend(op, Event::ProcessDied { process: one }).await??;
    }
    let (natural, barred) = (w.row(natural.op_id).await?, w.row(barred.op_id).await?);
    ensure_eq!(natural.state.phase, Some(Phase::Waiting), "may be repeated");
    ensure_eq!(barred.state.phase, Some(Phase::Held), "may not be repeated");
    ensure_eq!(natural.state.effect, Effect::Unknown, "the effect");
    let row = w.row(survivor.op_id).await?;
    ensure_eq!(row.state, survivor.state, "the row of the living process");
    w.recovery.check_out(one).await?;
    must_not_find_dead(&w, two, one).await?;
    Ok(())
}

async fn a_process_that_keeps_checking_in_is_alive(w: World) -> Verdict {
    for _ in 0..LOOKS {
        for number in 1..=3 {
            let dead = w.recovery.check_in(process(number)).await?;
            ensure_eq!(dead, [], "living processes");
        }
        w.advance(secs(1)).await;
    }
    Ok(())
}

async fn after_a_silence_of_all_nobody_is_taken_for_dead(w: World) -> Verdict {
    let (one, two) = (process(1), process(2));
    w.recovery.check_in(one).await?;
    w.recovery.check_in(two).await?;
    w.advance(LEASE * 10).await;
    for _ in 0..LOOKS {
        ensure_eq!(w.recovery.check_in(one).await?, [], "after the silence");
        w.advance(secs(1)).await;
        ensure_eq!(w.recovery.check_in(two).await?, [], "after the silence");
    }
    Ok(())
}

async fn a_process_that_checks_out_leaves_nothing_behind(w: World) -> Verdict {
    let (one, two) = (process(1), process(2));
    w.recovery.check_in(one).await?;
    w.recovery.check_out(one).await?;
    w.recovery.check_out(one).await?;
    let w = crashed(w).await?;
    must_not_find_dead(&w, two, one).await?;
    // One that never checked in is no business of the store's.
    w.recovery.check_out(process(9)).await?;
    Ok(())
}

async fn a_process_with_a_live_row_is_not_forgotten(w: World) -> Verdict {
    let (one, two) = (process(1), process(2));
    w.recovery.check_in(one).await?;
    let row = live_of(&w, NATURAL, one).await?;
    w.recovery.check_out(one).await?;
    let w = crashed(w).await?;
    must_find_dead(&w, two, one).await?;
    w.recovery.check_out(one).await?;
    ensure!(w.recovery.check_in(two).await?.contains(&one), "forgotten");
    w.settle_ok(&row).await??;
    w.recovery.check_out(one).await?;
    must_not_find_dead(&w, two, one).await?;
    Ok(())
}

async fn abandoned_finds_only_live_attempts_of_the_process(w: World) -> Verdict {
    let (one, two) = (process(1), process(2));
    let ours = live_of(&w, NATURAL, one).await?;
    live_of(&w, NATURAL, two).await?;
    let recorded = live_of(&w, NATURAL, one).await?;
    w.record_ok(&recorded).await?;
    let settled = live_of(&w, NATURAL, one).await?;
    w.settle_ok(&settled).await??;
    w.take_in(&w.op(NATURAL)?).await?;
    let leased = LeaseToken::new(attempt(one, 77)).attempt_id();
    live_as(&w, NATURAL, leased).await?;
    let lost = live_of(&w, NATURAL, one).await?;
    w.amend(lost.op_id, Event::ProcessDied { process: one })
        .await??;
    ensure_eq!(abandoned(&w, one).await?, [ours.op_id], "live rows of one");
    Ok(())
}

async fn abandoned_rows_go_to_one_claimer(w: World) -> Verdict {
    let one = process(1);
    let (first, second) = (
        live_of(&w, NATURAL, one).await?,
        live_of(&w, NATURAL, one).await?,
    );
    let took = w.recovery.abandoned(one, &claim(1, 1)?).await?;
    let rest = w.recovery.abandoned(one, &claim(2, 10)?).await?;
    let mut both: Vec<_> = took.iter().chain(&rest).map(|row| row.op_id()).collect();
    both.sort();
    let mut expected = vec![first.op_id, second.op_id];
    expected.sort();
    ensure_eq!(both, expected, "each row once");
    ensure_eq!(took.len(), 1, "no more than were asked for");
    ensure_eq!(abandoned(&w, one).await?, [], "while the claims last");
    w.advance(LEASE * 10).await;
    ensure_eq!(abandoned(&w, one).await?.len(), 2, "after the claims");
    Ok(())
}

async fn the_death_of_another_process_changes_nothing(w: World) -> Verdict {
    let (one, two) = (process(1), process(2));
    let row = live_of(&w, NATURAL, one).await?;
    let told = w.amend(row.op_id, Event::ProcessDied { process: two });
    match told.await? {
        Err(clinch_core::ports::Refused::Illegal(refused)) => {
            ensure_eq!(refused.why, Why::OtherProcess, "the refusal");
        }
        other => ensure!(false, "expected a refusal, got {other:?}"),
    }
    ensure_eq!(w.row(row.op_id).await?.state, row.state, "the row");
    Ok(())
}

async fn an_attempt_of_a_dead_process_is_stale_and_its_yes_counts(w: World) -> Verdict {
    let one = process(1);
    let (refused, applied) = (
        live_of(&w, UNSAFE, one).await?,
        live_of(&w, UNSAFE, one).await?,
    );
    for row in [&refused, &applied] {
        w.amend(row.op_id, Event::ProcessDied { process: one })
            .await??;
    }
    ensure!(
        w.settle_fail(&refused).await?.is_err(),
        "a stale no settled"
    );
    let done = w.settle_ok(&applied).await??;
    ensure!(
        done.state.is_terminal(),
        "the yes of a process taken for dead"
    );
    Ok(())
}
