//! Remote workers, and redrives of dead letters.

use std::time::Duration;

use clinch_core::protocol::Phase;
use clinch_core::{
    Actor, Effect, Error, ErrorKind, Fail, LeaseToken, OpId, Outcome, Payload, Retry, Status,
    Success,
};
use clinch_engine::{LeaseRequest, Leased, LeasedAttempt, Redriven, Report};

use crate::case::Verdict;
use crate::engine::{Engine, command};
use crate::fixtures::{self, LEASE, LONG, NATURAL, UNSAFE, secs};
use crate::world::only;

scenarios! { "remote", "remote_by_hints",
    what_a_worker_reports_settles_it: ["RUN-2", "RUN-4"],
    a_stale_fence_is_refused_and_a_yes_is_taken: ["RUN-7"],
    the_same_report_again_is_answered_like_the_first: ["RUN-7"],
    a_release_costs_no_attempt: ["RUN-12"],
    a_heartbeat_keeps_the_lease: ["RUN-7"],
    a_checkpoint_is_there_for_the_next: [],
    a_lease_that_nobody_reports_on_is_lost: ["RUN-6"],
    a_worker_waits_for_work: ["COL-13"],
    what_is_not_for_remote_workers_is_refused: [],
    a_report_that_was_not_taken_is_never_confirmed: ["RUN-7"],
    what_no_lease_gave_out_is_not_reported_on: ["RUN-7"],
    one_worker_does_not_end_the_lease_of_another: ["RUN-7"],
    a_dead_letter_is_redriven_once: ["OUT-5"],
    what_may_have_been_applied_is_not_redriven: ["OUT-5"],
}

async fn submitted(e: &Engine, domain: &str, idem_key: &str) -> Verdict<OpId> {
    let orchestrator = e.runtime.orchestrator();
    let known = orchestrator
        .submit(vec![command(domain, idem_key)?])
        .await?;
    Ok(only(known)??.op_id)
}

fn request(domain: &str) -> Verdict<LeaseRequest> {
    Ok(LeaseRequest {
        domain: fixtures::domain(domain)?,
        event_types: Vec::new(),
        max: 10,
        wait: Duration::ZERO,
        lease: LEASE,
        worker: fixtures::worker(7)?,
    })
}

/// Leases the one operation that is due.
async fn leased(e: &Engine, domain: &str) -> Verdict<Leased> {
    // Announces the row if there is a bus, and runs nothing.
    e.runtime.pump(0).await?;
    let taken = e.runtime.orchestrator().lease(&request(domain)?).await?;
    only(taken)
}

fn yes() -> Outcome {
    Outcome::Ok(Success::new(Payload::null()))
}

fn no() -> Outcome {
    Outcome::Fail(Fail::new("declined", "no"))
}

fn busy() -> Outcome {
    Outcome::Retry(Retry::not_applied("busy"))
}

async fn report(e: &Engine, of: &Leased, outcome: Outcome) -> clinch_core::Result<Status> {
    report_as(e, of.attempt(), outcome).await
}

async fn report_as(
    e: &Engine,
    attempt: LeasedAttempt,
    outcome: Outcome,
) -> clinch_core::Result<Status> {
    let worker = fixtures::worker(7).map_err(|f| Error::new(ErrorKind::Internal, f.to_string()))?;
    let report = Report {
        attempt,
        worker,
        outcome,
        left_out: Vec::new(),
    };
    let reported = e.runtime.orchestrator().report(report).await?;
    Ok(reported.state.status)
}

async fn what_a_worker_reports_settles_it(e: Engine) -> Verdict {
    let e = e.remote()?;
    for (outcome, end) in [(yes(), Status::Completed), (no(), Status::Failed)] {
        let op = submitted(&e, NATURAL, &format!("{end:?}")).await?;
        let lease = leased(&e, NATURAL).await?;
        let envelope = &lease.envelope;
        ensure_eq!(
            (envelope.op_id, envelope.attempt),
            (op, 1),
            "what was leased"
        );
        ensure_eq!(
            envelope.command.payload,
            fixtures::payload(1)?,
            "its payload"
        );
        ensure_eq!(report(&e, &lease, outcome).await?, end, "the report");
        ensure_eq!(e.w.row(op).await?.state.status, end, "the row");
    }
    ensure_eq!(e.provider.calls(), 0, "nobody here called");
    Ok(())
}

async fn a_stale_fence_is_refused_and_a_yes_is_taken(e: Engine) -> Verdict {
    let e = e.remote()?;
    let op = submitted(&e, NATURAL, "a").await?;
    let first = leased(&e, NATURAL).await?;
    e.advance(LEASE * 2).await;
    e.runtime.recover().await?;
    e.advance(LONG).await;
    let second = leased(&e, NATURAL).await?;
    let envelope = &second.envelope;
    ensure_eq!((envelope.op_id, envelope.attempt), (op, 2), "leased again");
    for outcome in [no(), busy()] {
        let refused = report(&e, &first, outcome).await;
        let kind = refused.map_err(|error| error.kind());
        ensure_eq!(kind, Err(ErrorKind::Conflict), "a stale fence");
    }
    let orchestrator = e.runtime.orchestrator();
    let beat = orchestrator.heartbeat(first.attempt(), LEASE).await;
    let kind = beat.map(|_| ()).map_err(|error| error.kind());
    ensure_eq!(kind, Err(ErrorKind::Conflict), "a stale heartbeat");
    ensure_eq!(report(&e, &first, yes()).await?, Status::Completed, "a yes");
    Ok(())
}

async fn the_same_report_again_is_answered_like_the_first(e: Engine) -> Verdict {
    let e = e.remote()?;
    let ends = [
        (busy(), Status::InProgress),
        (no(), Status::Failed),
        (yes(), Status::Completed),
    ];
    for (outcome, end) in ends {
        let op = submitted(&e, NATURAL, &format!("{end:?}")).await?;
        let lease = leased(&e, NATURAL).await?;
        let first = report(&e, &lease, outcome.clone()).await?;
        let version = e.w.row(op).await?.state.version;
        let again = report(&e, &lease, outcome).await?;
        ensure_eq!((first, again), (end, end), "both answers");
        ensure_eq!(e.w.row(op).await?.state.version, version, "no change");
    }
    Ok(())
}

async fn a_release_costs_no_attempt(e: Engine) -> Verdict {
    let e = e.remote()?;
    let op = submitted(&e, UNSAFE, "a").await?;
    let lease = leased(&e, UNSAFE).await?;
    let orchestrator = e.runtime.orchestrator();
    let worker = fixtures::worker(7)?;
    let state = orchestrator.release(lease.attempt(), worker).await?;
    ensure_eq!(
        (state.attempts, state.effect),
        (0, Effect::None),
        "refunded"
    );
    let again = leased(&e, UNSAFE).await?;
    ensure_eq!(
        (again.envelope.op_id, again.envelope.attempt),
        (op, 1),
        "leased again at once"
    );
    Ok(())
}

async fn a_heartbeat_keeps_the_lease(e: Engine) -> Verdict {
    let e = e.remote()?;
    let op = submitted(&e, UNSAFE, "a").await?;
    let lease = leased(&e, UNSAFE).await?;
    let orchestrator = e.runtime.orchestrator();
    for _ in 0..4 {
        e.advance(LEASE / 2).await;
        let state = orchestrator.heartbeat(lease.attempt(), LEASE).await?;
        ensure!(!state.cancel_requested, "nobody canceled");
        e.runtime.recover().await?;
    }
    let _ = orchestrator.cancel(op, &Actor::local(), "enough").await?;
    let state = orchestrator.heartbeat(lease.attempt(), LEASE).await?;
    ensure!(state.cancel_requested, "a heartbeat tells of the cancel");
    ensure_eq!(
        report(&e, &lease, yes()).await?,
        Status::Completed,
        "a yes wins"
    );
    Ok(())
}

async fn a_checkpoint_is_there_for_the_next(e: Engine) -> Verdict {
    let e = e.remote()?;
    submitted(&e, NATURAL, "a").await?;
    let lease = leased(&e, NATURAL).await?;
    let orchestrator = e.runtime.orchestrator();
    orchestrator.checkpoint(lease.attempt(), b"page 7").await?;
    let too_long = vec![0; 65 * 1024];
    let refused = orchestrator.checkpoint(lease.attempt(), &too_long).await;
    let kind = refused.map(|_| ()).map_err(|error| error.kind());
    ensure_eq!(kind, Err(ErrorKind::Invalid), "too long");
    report(&e, &lease, busy()).await?;
    e.advance(LONG).await;
    let next = leased(&e, NATURAL).await?;
    ensure_eq!(
        next.envelope.checkpoint.as_deref(),
        Some(&b"page 7"[..]),
        "kept"
    );
    Ok(())
}

async fn a_lease_that_nobody_reports_on_is_lost(e: Engine) -> Verdict {
    let e = e.remote()?;
    let op = submitted(&e, UNSAFE, "a").await?;
    leased(&e, UNSAFE).await?;
    e.advance(LEASE * 2).await;
    e.runtime.recover().await?;
    let state = e.w.row(op).await?.state;
    ensure_eq!(state.phase, Some(Phase::Held), "never repeated blindly");
    Ok(())
}

async fn a_worker_waits_for_work(e: Engine) -> Verdict {
    let e = e.remote()?;
    let orchestrator = e.runtime.orchestrator();
    let wait = LeaseRequest {
        wait: secs(60),
        ..request(NATURAL)?
    };
    let waiting = tokio::spawn(async move { orchestrator.lease(&wait).await });
    let op = submitted(&e, NATURAL, "a").await?;
    e.runtime.pump(0).await?;
    while !waiting.is_finished() {
        e.advance(secs(1)).await;
        tokio::task::yield_now().await;
    }
    let taken = waiting.await.map_err(crate::Failure::new)??;
    ensure_eq!(only(taken)?.envelope.op_id, op, "what came");
    Ok(())
}

async fn what_is_not_for_remote_workers_is_refused(e: Engine) -> Verdict {
    // The first is not declared; the second is executed by this process.
    for domain in ["nobody", NATURAL] {
        let refused = e.runtime.orchestrator().lease(&request(domain)?).await;
        let kind = refused.map(|_| ()).map_err(|error| error.kind());
        ensure_eq!(kind, Err(ErrorKind::Invalid), "{domain}");
    }
    Ok(())
}

async fn a_report_that_was_not_taken_is_never_confirmed(e: Engine) -> Verdict {
    let e = e.remote()?;
    submitted(&e, NATURAL, "a").await?;
    let lease = leased(&e, NATURAL).await?;
    e.advance(LEASE * 2).await;
    e.runtime.recover().await?;
    // No other attempt has begun since, but the attempt was ended by the Reaper.
    for outcome in [no(), busy()] {
        let late = report(&e, &lease, outcome).await;
        let kind = late.map_err(|error| error.kind());
        ensure_eq!(kind, Err(ErrorKind::Conflict), "a report after the Reaper");
    }
    Ok(())
}

/// Every report with this pair is a conflict, and the row does not change.
async fn is_refused(e: &Engine, attempt: LeasedAttempt) -> Verdict {
    let orchestrator = e.runtime.orchestrator();
    let row = e.w.row(attempt.op_id).await?;
    let not_called = Outcome::Retry(Retry::not_called("released"));
    let mut answers = Vec::new();
    for outcome in [yes(), no(), busy(), not_called] {
        answers.push(report_as(e, attempt, outcome).await.map(|_| ()));
    }
    answers.push(orchestrator.heartbeat(attempt, LEASE).await.map(|_| ()));
    answers.push(orchestrator.checkpoint(attempt, b"x").await.map(|_| ()));
    for answer in answers {
        let kind = answer.map_err(|error| error.kind());
        ensure_eq!(kind, Err(ErrorKind::Conflict), "{attempt:?}");
    }
    crate::compare::unchanged(&row, &e.w.row(attempt.op_id).await?)
}

async fn what_no_lease_gave_out_is_not_reported_on(e: Engine) -> Verdict {
    let forged = |op_id, fence| -> Verdict<LeasedAttempt> {
        let token = LeaseToken::new(e.w.ids.begin(op_id, 0)?.attempt_id);
        Ok(LeasedAttempt {
            op_id,
            fence,
            token,
        })
    };
    // An attempt of this process itself, and an operation that never began.
    let live = e.w.live(UNSAFE).await?;
    let pending = e.w.pending(NATURAL).await?;
    for (op, fence) in [
        (live.op_id, 1),
        (live.op_id, u64::MAX),
        (pending, 0),
        (pending, 1),
        (pending, u64::MAX),
    ] {
        is_refused(&e, forged(op, fence)?).await?;
    }
    // The id of an attempt is not its token: a reader of the store cannot report.
    if let Some(attempt_id) = live.state.attempt_id {
        let token = LeaseToken::new(attempt_id);
        let attempt = LeasedAttempt {
            token,
            ..forged(live.op_id, 1)?
        };
        is_refused(&e, attempt).await?;
    }
    Ok(())
}

async fn one_worker_does_not_end_the_lease_of_another(e: Engine) -> Verdict {
    let e = e.remote()?;
    submitted(&e, NATURAL, "a").await?;
    let first = leased(&e, NATURAL).await?;
    submitted(&e, NATURAL, "b").await?;
    let second = leased(&e, NATURAL).await?;
    let mixed = LeasedAttempt {
        token: second.token,
        ..first.attempt()
    };
    is_refused(&e, mixed).await?;
    // Not even if its own attempt is an earlier one.
    e.advance(LEASE * 2).await;
    e.runtime.recover().await?;
    e.advance(LONG).await;
    e.runtime.pump(0).await?;
    let again = e.runtime.orchestrator().lease(&request(NATURAL)?).await?;
    ensure_eq!(again.len(), 2, "both are leased again");
    is_refused(&e, mixed).await?;
    ensure_eq!(
        report(&e, &first, yes()).await?,
        Status::Completed,
        "a late yes of its own"
    );
    Ok(())
}

async fn a_dead_letter_is_redriven_once(e: Engine) -> Verdict {
    e.provider.says([no()]);
    let op = submitted(&e, NATURAL, "a").await?;
    e.pump_all().await?;
    let orchestrator = e.runtime.orchestrator();
    let plan = orchestrator.redrive(&[op], true, &Actor::local()).await?;
    ensure_eq!(plan, [Redriven::New(None)], "the plan");
    ensure_eq!(e.w.row(op).await?.redriven_by, None, "a plan does nothing");
    let done = orchestrator.redrive(&[op], false, &Actor::local()).await?;
    let [Redriven::New(Some(new))] = done[..] else {
        return Err(crate::Failure::new(format!("redriven: {done:?}")));
    };
    let again = orchestrator.redrive(&[op], false, &Actor::local()).await?;
    ensure_eq!(again, [Redriven::Before(new)], "twice is once");
    let (old, row) = (e.w.row(op).await?, e.w.row(new).await?);
    ensure_eq!(
        (old.redriven_by, row.redrive_of),
        (Some(new), Some(op)),
        "both know"
    );
    ensure_eq!(row.outbound_key, old.outbound_key, "the same key goes out");
    e.pump_all().await?;
    let status = e.w.row(new).await?.state.status;
    ensure_eq!(status, Status::Completed, "the second time");
    let settled = orchestrator.redrive(&[new], false, &Actor::local()).await?;
    ensure!(
        matches!(settled[..], [Redriven::Refused(_)]),
        "it did not fail"
    );
    Ok(())
}

async fn what_may_have_been_applied_is_not_redriven(e: Engine) -> Verdict {
    let e = e.remote()?;
    let op = submitted(&e, UNSAFE, "a").await?;
    leased(&e, UNSAFE).await?;
    e.advance(LEASE * 2).await;
    e.runtime.recover().await?;
    let orchestrator = e.runtime.orchestrator();
    let failed = clinch_core::protocol::Resolution::Failed {
        fail: Fail::new("given_up", "not worth it"),
        effect: None,
    };
    orchestrator
        .resolve(op, failed, None, &Actor::local(), "given up")
        .await??;
    let refused = orchestrator.redrive(&[op], false, &Actor::local()).await?;
    ensure!(matches!(refused[..], [Redriven::Refused(_)]), "{refused:?}");
    Ok(())
}
