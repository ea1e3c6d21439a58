//! Open operations whose route was removed from the configuration: none of them is stuck, and no
//! call is made.

use std::time::Duration;

use clinch_core::policy::{ProbeRules, Safety};
use clinch_core::ports::{Among, Claim, Scan};
use clinch_core::protocol::{HoldThen, Phase};
use clinch_core::{Status, code};

use crate::case::Verdict;
use crate::engine::Engine;
use crate::fixtures::{DEADLINE, LEASE, UNROUTED, claim, domain, secs};
use crate::world::{World, ids};

scenarios! { "undeclared", "undeclared_by_hints",
    a_recorded_answer_becomes_final: ["RUN-5"],
    a_lost_attempt_is_held_and_not_called_again: ["RUN-6"],
    a_deadline_passes: [],
    a_probe_that_nobody_can_make_ends: ["RUN-6"],
    a_process_that_declares_the_route_comes_first: [],
    they_are_counted: [],
}

/// The engine's default grace, and a little more.
const GRACE: Duration = secs(605);

/// The store as seen by a process that still declares the route.
fn declared(e: &Engine, safety: Safety) -> Verdict<World> {
    e.w.under(UNROUTED, |rules| {
        rules.safety = safety;
        rules.lease = LEASE;
        rules.deadline = Some(DEADLINE);
    })
}

async fn a_recorded_answer_becomes_final(e: Engine) -> Verdict {
    let w = declared(&e, Safety::Natural)?;
    let attempt = w.live(UNROUTED).await?;
    w.record_ok(&attempt).await?;
    e.runtime.recover().await?;
    ensure_eq!(e.runtime.recover_undeclared().await?, 0, "in the grace");
    e.advance(GRACE).await;
    e.runtime.recover().await?;
    ensure_eq!(e.runtime.recover_undeclared().await?, 1, "after the grace");
    let row = e.w.row(attempt.op_id).await?;
    ensure_eq!(row.state.status, Status::Completed, "the answer is final");
    ensure_eq!(e.runtime.recover_undeclared().await?, 0, "once");
    Ok(())
}

async fn a_lost_attempt_is_held_and_not_called_again(e: Engine) -> Verdict {
    let w = declared(&e, Safety::Natural)?;
    let attempt = w.live(UNROUTED).await?;
    e.advance(LEASE + GRACE).await;
    e.pump_all().await?;
    ensure_eq!(e.runtime.recover_undeclared().await?, 1, "the lost attempt");
    let state = e.w.row(attempt.op_id).await?.state;
    ensure_eq!(state.phase, Some(Phase::Held), "by the most careful rules");
    let then = state.hold.map(|hold| hold.then);
    ensure_eq!(then, Some(HoldThen::Stay), "for a person");
    e.pump_all().await?;
    ensure_eq!(e.provider.calls(), 0, "calls");
    Ok(())
}

async fn a_deadline_passes(e: Engine) -> Verdict {
    let w = declared(&e, Safety::Natural)?;
    let op = w.pending(UNROUTED).await?;
    e.advance(DEADLINE + GRACE).await;
    e.pump_all().await?;
    ensure_eq!(e.runtime.recover_undeclared().await?, 1, "the overdue row");
    let state = e.w.row(op).await?.state;
    let code = state.failure.map(|failure| failure.code);
    ensure_eq!(code.as_deref(), Some(code::DEADLINE), "why it ended");
    ensure_eq!(e.provider.calls(), 0, "calls");
    Ok(())
}

async fn a_probe_that_nobody_can_make_ends(e: Engine) -> Verdict {
    let w = declared(&e, Safety::Unsafe)?;
    let w = w.under(UNROUTED, |rules| rules.probe = Some(ProbeRules::default()))?;
    let held = w.held(UNROUTED).await?;
    e.advance(GRACE).await;
    ensure_eq!(e.runtime.recover_undeclared().await?, 1, "the held row");
    let hold = e.w.row(held.op_id).await?.state.hold;
    let probe_at = hold.and_then(|hold| hold.probe_at);
    ensure_eq!(probe_at, None, "it waits for a person");
    Ok(())
}

async fn a_process_that_declares_the_route_comes_first(e: Engine) -> Verdict {
    let w = declared(&e, Safety::Natural)?;
    let attempt = w.live(UNROUTED).await?;
    e.advance(LEASE + secs(5)).await;
    e.runtime.recover().await?;
    ensure_eq!(e.runtime.recover_undeclared().await?, 0, "in the grace");
    let among = |among| -> Verdict<Claim> {
        Ok(Claim {
            among,
            ..claim(7, 9)?
        })
    };
    let others = among(Among::Others(w.routes.clone()))?;
    let found = e.w.recovery.scan(Scan::LeaseEnded, &others).await?;
    ensure_eq!(ids(&found), [], "it has a route in that process");
    let ours = among(Among::Routes(w.routes.clone()))?;
    let found = e.w.recovery.scan(Scan::LeaseEnded, &ours).await?;
    ensure_eq!(ids(&found), [attempt.op_id], "nobody is kept out");
    Ok(())
}

async fn they_are_counted(e: Engine) -> Verdict {
    let w = declared(&e, Safety::Natural)?;
    w.pending(UNROUTED).await?;
    w.live(UNROUTED).await?;
    w.completed(UNROUTED).await?;
    e.runtime.recover_undeclared().await?;
    let (_, undeclared) = e.runtime.orchestrator().concerns();
    ensure_eq!(
        undeclared.into_iter().collect::<Vec<_>>(),
        [(domain(UNROUTED)?, 2)],
        "open operations without a route"
    );
    Ok(())
}
