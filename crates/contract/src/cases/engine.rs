//! The scenarios of the requirements with the real engine: CORE-13's one to six, and AC-1 to AC-5
//! of RUN-11. Each runs with the store as its own bus, and again with a bus of hints.

use std::time::Duration;

use clinch_core::ports::{Refused, Scan};
use clinch_core::protocol::{Phase, Why};
use clinch_core::{Actor, Fail, OpId, Outcome, Retry, Status, TimeBudget, code};

use crate::case::Verdict;
use crate::concurrent::together;
use crate::engine::{Engine, command};
use crate::fixtures::{LANE, LEASE, LONG, NATURAL, REAPED, UNSAFE};

scenarios! { "engine", "engine_by_hints",
    s1_what_start_acknowledges_is_there: ["CORE-13", "CORE-9"],
    s2_duplicates_have_one_effect: ["CORE-13", "CORE-2", "RUN-1"],
    s3_of_a_long_run_and_its_successor_one_result_is_valid: ["CORE-13", "RUN-7"],
    s4_external_success_is_finished_by_the_finalizer: ["CORE-13", "CORE-7", "RUN-5"],
    s5_nothing_goes_back_from_completed: ["CORE-13", "CORE-5"],
    s6_200_within_the_budget_202_after_it: ["CORE-13", "CORE-8", "CORE-2"],
    a_waiting_caller_is_told_what_the_row_says: ["CORE-8"],
    ac1_ok_is_written_ahead_then_finalized: ["RUN-11", "RUN-2"],
    ac2_the_fifth_retry_ends_it: ["RUN-11", "RUN-3"],
    ac3_the_finalizer_recovers_what_was_recorded: ["RUN-11", "RUN-5"],
    ac4_the_reaper_reconciles_lost_attempts: ["RUN-11", "RUN-6"],
    ac5_concurrent_pumps_settle_once: ["RUN-11", "RUN-7", "RUN-1"],
    a_fail_ends_with_its_code_and_a_dead_letter: ["RUN-4", "OUT-5"],
    an_empty_pump_does_nothing: ["RUN-1"],
}

async fn submitted(e: &Engine, domain: &str, idem_key: &str) -> Verdict<OpId> {
    let known = e
        .runtime
        .orchestrator()
        .submit(vec![command(domain, idem_key)?])
        .await?;
    let known = crate::world::only(known)??;
    Ok(known.op_id)
}

async fn status(e: &Engine, op: OpId) -> Verdict<Status> {
    Ok(e.w.row(op).await?.state.status)
}

async fn s1_what_start_acknowledges_is_there(e: Engine) -> Verdict {
    let start = e.runtime.orchestrator();
    let handle = start
        .start(command(NATURAL, "a")?, TimeBudget::NONE)
        .await?;
    let row = e.w.row(handle.op_id).await?;
    ensure_eq!(row.keys, command(NATURAL, "a")?.keys, "the keys");
    let reopened = e.w.crash().await?;
    let survived = reopened.look(handle.op_id).await?.is_some();
    ensure!(survived, "an acknowledged operation survives a crash");
    Ok(())
}

async fn s2_duplicates_have_one_effect(e: Engine) -> Verdict {
    let op = submitted(&e, UNSAFE, "a").await?;
    let again = submitted(&e, UNSAFE, "a").await?;
    ensure_eq!(op, again, "the same keys, the same operation");
    for _ in 0..5 {
        e.pump_all().await?;
        e.advance(LEASE * 4).await;
    }
    ensure_eq!(e.provider.calls(), 1, "calls");
    ensure_eq!(status(&e, op).await?, Status::Completed, "the end");
    Ok(())
}

async fn s3_of_a_long_run_and_its_successor_one_result_is_valid(e: Engine) -> Verdict {
    let op = submitted(&e, NATURAL, "a").await?;
    let first = e.w.begun(op).await?;
    e.advance(LEASE * 2).await;
    e.pump_all().await?;
    e.advance(LONG).await;
    e.pump_all().await?;
    ensure_eq!(
        status(&e, op).await?,
        Status::Completed,
        "its successor ended it"
    );
    let version = e.w.row(op).await?.state.version;
    let late = e.w.settle_fail(&first).await?;
    ensure!(late.is_err(), "the long run's refusal comes too late");
    ensure_eq!(e.w.row(op).await?.state.version, version, "nothing changed");
    Ok(())
}

async fn s4_external_success_is_finished_by_the_finalizer(e: Engine) -> Verdict {
    let op = submitted(&e, UNSAFE, "a").await?;
    let attempt = e.w.begun(op).await?;
    e.w.record_ok(&attempt).await?;
    ensure_eq!(
        status(&e, op).await?,
        Status::InProgress,
        "recorded, not final"
    );
    e.runtime.recover().await?;
    ensure_eq!(status(&e, op).await?, Status::Completed, "the end");
    ensure_eq!(e.provider.calls(), 0, "nobody asked again");
    Ok(())
}

async fn s5_nothing_goes_back_from_completed(e: Engine) -> Verdict {
    let op = submitted(&e, NATURAL, "a").await?;
    e.pump_all().await?;
    let before = e.w.row(op).await?.state;
    let canceled = e
        .runtime
        .orchestrator()
        .cancel(op, &Actor::local(), "too late")
        .await?;
    let refused = matches!(&canceled, Err(Refused::Illegal(i)) if i.why == Why::Terminal);
    ensure!(refused, "cancel of a terminal operation: {canceled:?}");
    e.advance(LONG).await;
    e.pump_all().await?;
    ensure_eq!(e.w.row(op).await?.state, before, "the state");
    Ok(())
}

async fn s6_200_within_the_budget_202_after_it(e: Engine) -> Verdict {
    let start = e.runtime.orchestrator();
    let budget = TimeBudget::new(Duration::from_secs(2));
    let fast = start.start(command(NATURAL, "fast")?, budget).await?;
    ensure!(fast.completed_fast(), "settled within the budget: 200");
    let permits = e.provider.gate.available_permits();
    e.provider.gate.forget_permits(permits);
    let slow = tokio::spawn({
        let (start, slow) = (start.clone(), command(NATURAL, "slow")?);
        async move { start.start(slow, budget).await }
    });
    while e.provider.calls() < 2 {
        tokio::task::yield_now().await;
    }
    while !slow.is_finished() {
        e.advance(Duration::from_millis(500)).await;
        tokio::task::yield_now().await;
    }
    let slow = slow.await.map_err(crate::Failure::new)??;
    ensure!(!slow.completed_fast(), "the budget ended first: 202");
    e.provider.gate.add_permits(1);
    let replay = start
        .start(command(NATURAL, "slow")?, TimeBudget::new(TimeBudget::MAX))
        .await?;
    ensure_eq!(
        (replay.op_id, replay.replayed),
        (slow.op_id, true),
        "a replay"
    );
    ensure_eq!(replay.status, Status::Completed, "the work went on");
    ensure_eq!(e.provider.calls(), 2, "calls");
    Ok(())
}

async fn a_waiting_caller_is_told_what_the_row_says(e: Engine) -> Verdict {
    let start = e.runtime.orchestrator();
    let refusal = Fail::new("declined", "no funds");
    for (idem_key, refusal) in [("yes", None), ("no", Some(refusal))] {
        e.provider.says(refusal.map(Outcome::Fail));
        let read = e.reads.rows();
        let accepted = start.accept(command(NATURAL, idem_key)?).await?;
        let op = accepted.known.op_id;
        let told = start.end_of(accepted, Duration::from_secs(2)).await?;
        ensure_eq!(e.reads.rows(), read, "no row was read");
        ensure!(told.operation.state.is_terminal(), "it settled");
        ensure_eq!(told.operation, e.w.row(op).await?, "the row");
        ensure_eq!(told, start.status(op).await?, "the caller's view");
    }
    let accepted = start.accept(command(LANE, "later")?).await?;
    let op = accepted.known.op_id;
    let told = start.end_of(accepted, Duration::ZERO).await?;
    ensure_eq!(told.operation.lane, e.w.row(op).await?.lane, "the lane");
    Ok(())
}

async fn ac1_ok_is_written_ahead_then_finalized(e: Engine) -> Verdict {
    let op = submitted(&e, NATURAL, "a").await?;
    e.pump_all().await?;
    let ledger = e.w.ledger(op).await?;
    let at = |event: &str| ledger.iter().position(|line| line.event == event);
    let (recorded, finalized) = (at("Ok"), at("Finalize"));
    ensure!(
        recorded.is_some() && recorded < finalized,
        "the ledger: {ledger:?}"
    );
    Ok(())
}

async fn ac2_the_fifth_retry_ends_it(e: Engine) -> Verdict {
    let busy = || Outcome::Retry(Retry::not_applied("busy"));
    e.provider.says((0..9).map(|_| busy()));
    let op = submitted(&e, NATURAL, "a").await?;
    for _ in 0..9 {
        e.pump_all().await?;
        e.advance(Duration::from_secs(600)).await;
    }
    let state = e.w.row(op).await?.state;
    let failure = state.failure.map(|failure| failure.code);
    ensure_eq!(failure.as_deref(), Some(code::RETRY_EXHAUSTED), "the end");
    ensure_eq!((state.attempts, e.provider.calls()), (5, 5), "calls");
    Ok(())
}

async fn ac3_the_finalizer_recovers_what_was_recorded(e: Engine) -> Verdict {
    let mut ops = Vec::new();
    for number in 0..20 {
        let op = submitted(&e, NATURAL, &format!("a{number}")).await?;
        let attempt = e.w.begun(op).await?;
        e.w.record_ok(&attempt).await?;
        ops.push(op);
    }
    together(4, |_| {
        let runtime = e.runtime.clone();
        async move { Ok(runtime.recover().await?) }
    })
    .await?;
    for op in ops {
        ensure_eq!(status(&e, op).await?, Status::Completed, "recovered");
        let ledger = e.w.ledger(op).await?;
        let ends = ledger.iter().filter(|line| line.event == "Finalize");
        ensure_eq!(ends.count(), 1, "finalized once");
    }
    Ok(())
}

async fn ac4_the_reaper_reconciles_lost_attempts(e: Engine) -> Verdict {
    let failing = submitted(&e, REAPED, "fail").await?;
    let retried = submitted(&e, NATURAL, "retry").await?;
    let barred = submitted(&e, UNSAFE, "hold").await?;
    for op in [failing, retried, barred] {
        e.w.begun(op).await?;
    }
    e.runtime.recover().await?;
    ensure_eq!(
        e.w.scan(Scan::LeaseEnded).await?,
        Vec::<OpId>::new(),
        "leases run"
    );
    e.advance(LEASE * 2).await;
    e.pump_all().await?;
    ensure_eq!(status(&e, failing).await?, Status::Failed, "strategy fail");
    let phase = e.w.row(barred).await?.state.phase;
    ensure_eq!(phase, Some(Phase::Held), "an unsafe call is not repeated");
    e.advance(LONG).await;
    e.pump_all().await?;
    ensure_eq!(
        status(&e, retried).await?,
        Status::Completed,
        "strategy retry"
    );
    ensure_eq!(
        e.provider.calls(),
        1,
        "only what may be repeated was called"
    );
    Ok(())
}

async fn ac5_concurrent_pumps_settle_once(e: Engine) -> Verdict {
    let op = submitted(&e, UNSAFE, "a").await?;
    together(5, |_| {
        let runtime = e.runtime.clone();
        async move {
            runtime.pump(10).await?;
            Ok(())
        }
    })
    .await?;
    e.pump_all().await?;
    let ledger = e.w.ledger(op).await?;
    let ends = ledger.iter().filter(|line| line.event == "Finalize");
    ensure_eq!((ends.count(), e.provider.calls()), (1, 1), "ends and calls");
    Ok(())
}

async fn a_fail_ends_with_its_code_and_a_dead_letter(e: Engine) -> Verdict {
    e.provider
        .says([Outcome::Fail(Fail::new("card_declined", "no"))]);
    let op = submitted(&e, UNSAFE, "a").await?;
    e.pump_all().await?;
    let failure = e.w.row(op).await?.state.failure.map(|failure| failure.code);
    ensure_eq!(failure.as_deref(), Some("card_declined"), "the code");
    let letters = e.w.letters().await?;
    let ops: Vec<OpId> = letters.iter().map(|letter| letter.op_id).collect();
    ensure_eq!(ops, [op], "dead letters");
    Ok(())
}

async fn an_empty_pump_does_nothing(e: Engine) -> Verdict {
    let pumped = e.runtime.pump(10).await?;
    let did = pumped.announced + pumped.executed + pumped.recovered;
    ensure_eq!(did, 0, "what an empty pump did");
    Ok(())
}
