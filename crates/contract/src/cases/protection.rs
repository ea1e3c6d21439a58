//! Scenario seven of CORE-13 with the real guards: how each guard affects the number of attempts. A
//! call that no guard let through is not an attempt; a call that was cut off is one.

use std::time::Duration;

use clinch_core::ports::CircuitState;
use clinch_core::protocol::Phase;
use clinch_core::{Effect, OpId, Outcome, Retry, Status};
use clinch_protect::{BulkheadConfig, CircuitConfig, DestinationConfig, Hedge, RateConfig, Window};

use crate::case::Verdict;
use crate::engine::{Engine, Guards, command};
use crate::fixtures::{KEYED, NATURAL, UNSAFE, secs};

scenarios! { "protection", "protection_by_hints",
    s7_an_open_breaker_is_not_claimed_for: ["CORE-13", "CORE-10"],
    s7_an_attempt_that_meets_an_open_breaker_is_given_back: ["CORE-13"],
    s7_a_half_open_breaker_lets_its_permits_through: ["CORE-13"],
    s7_a_closed_breaker_lets_everything_through: ["CORE-13"],
    s7_a_timeout_is_an_attempt_whose_effect_is_unknown: ["CORE-13"],
    s7_a_full_bulkhead_costs_no_attempt: ["CORE-13"],
    s7_an_attempt_that_meets_a_full_bulkhead_is_given_back: ["CORE-13"],
    s7_a_used_up_rate_costs_no_attempt: ["CORE-13"],
    s7_an_attempt_that_meets_a_used_up_rate_is_given_back: ["CORE-13"],
    s7_hedged_copies_are_one_attempt: ["CORE-13"],
    s7_a_retry_after_pauses_everyone_at_the_destination: ["CORE-13", "COL-8"],
}

const OPEN: Duration = secs(30);
/// How many failures open the breaker, and how many calls it lets through half open.
const FAILURES: usize = 4;
const HALF_OPEN: usize = 2;

fn breaker() -> DestinationConfig {
    let breaker = CircuitConfig {
        window: Window::Count(FAILURES as u32),
        min_calls: FAILURES as u32,
        half_open: HALF_OPEN as u32,
        open: OPEN,
        ..CircuitConfig::default()
    };
    DestinationConfig {
        breaker: Some(breaker),
        ..Guards::default().destination
    }
}

fn slots(max_concurrent: u32) -> DestinationConfig {
    let slots = BulkheadConfig {
        max_concurrent,
        ..BulkheadConfig::default()
    };
    DestinationConfig {
        concurrency: Some(slots),
        ..Guards::default().destination
    }
}

fn one_a_minute() -> DestinationConfig {
    let rate = RateConfig {
        burst: Some(1),
        ..RateConfig::new(1, secs(60))
    };
    DestinationConfig {
        rate: Some(rate),
        ..Guards::default().destination
    }
}

fn around(destination: DestinationConfig) -> Guards {
    Guards {
        destination,
        ..Guards::default()
    }
}

async fn submitted(e: &Engine, domain: &str, idem_key: &str) -> Verdict<OpId> {
    let orchestrator = e.runtime.orchestrator();
    let known = orchestrator
        .submit(vec![command(domain, idem_key)?])
        .await?;
    Ok(crate::world::only(known)??.op_id)
}

/// Its attempts and its status.
async fn stands(e: &Engine, op: OpId) -> Verdict<(u32, Status)> {
    let state = e.w.row(op).await?.state;
    Ok((state.attempts, state.status))
}

/// This many calls fail, each for its own operation: the breaker opens.
async fn opened(e: &Engine) -> Verdict<Vec<OpId>> {
    let busy = || Outcome::Retry(Retry::not_applied("busy"));
    e.provider.says((0..FAILURES).map(|_| busy()));
    let mut ops = Vec::new();
    for number in 0..FAILURES {
        ops.push(submitted(e, NATURAL, &format!("failing-{number}")).await?);
    }
    e.runtime.pump(FAILURES).await?;
    ensure_eq!(e.provider.calls(), FAILURES, "calls that failed");
    Ok(ops)
}

async fn s7_an_open_breaker_is_not_claimed_for(e: Engine) -> Verdict {
    let (e, psp) = e.guarded(around(breaker()))?;
    let failing = opened(&e).await?;
    ensure_eq!(psp.breaker().state(), CircuitState::Open, "the breaker");
    let new = submitted(&e, NATURAL, "new").await?;
    let before = e.w.row(new).await?.state.version;
    e.advance(OPEN / 2).await;
    e.runtime.pump(10).await?;
    ensure_eq!(e.provider.calls(), FAILURES, "calls while it is open");
    ensure_eq!(stands(&e, new).await?, (0, Status::Pending), "it waits");
    ensure_eq!(e.w.row(new).await?.state.version, before, "at no write");
    for op in failing {
        let stands = stands(&e, op).await?;
        ensure_eq!(stands, (1, Status::InProgress), "what failed once");
    }
    Ok(())
}

async fn s7_an_attempt_that_meets_an_open_breaker_is_given_back(e: Engine) -> Verdict {
    let guards = Guards {
        gated: false,
        ..around(breaker())
    };
    let (e, psp) = e.guarded(guards)?;
    opened(&e).await?;
    ensure_eq!(psp.breaker().state(), CircuitState::Open, "the breaker");
    let new = submitted(&e, UNSAFE, "new").await?;
    e.runtime.pump(1).await?;
    ensure_eq!(e.provider.calls(), FAILURES, "calls while it is open");
    let state = e.w.row(new).await?.state;
    ensure_eq!((state.attempts, state.fence), (0, 1), "begun and refunded");
    ensure_eq!(state.phase, Some(Phase::Waiting), "it waits");
    ensure_eq!(state.effect, Effect::None, "nothing left this machine");
    e.advance(OPEN).await;
    e.pump_all().await?;
    ensure_eq!(stands(&e, new).await?, (1, Status::Completed), "its end");
    Ok(())
}

async fn s7_a_half_open_breaker_lets_its_permits_through(e: Engine) -> Verdict {
    let (e, psp) = e.guarded(around(breaker()))?;
    opened(&e).await?;
    for number in 0..10 {
        submitted(&e, NATURAL, &format!("new-{number}")).await?;
    }
    e.advance(OPEN).await;
    let busy = || Outcome::Retry(Retry::not_applied("busy"));
    e.provider.says((0..HALF_OPEN).map(|_| busy()));
    e.runtime.pump(10).await?;
    ensure_eq!(e.provider.calls(), FAILURES + HALF_OPEN, "trial calls");
    ensure_eq!(psp.breaker().state(), CircuitState::Open, "after the trial");
    e.advance(OPEN).await;
    e.runtime.pump(10).await?;
    let calls = e.provider.calls();
    ensure_eq!(calls, FAILURES + HALF_OPEN, "it stays open for longer");
    Ok(())
}

async fn s7_a_closed_breaker_lets_everything_through(e: Engine) -> Verdict {
    let (e, psp) = e.guarded(around(breaker()))?;
    let failed = opened(&e).await?;
    let new = submitted(&e, NATURAL, "new").await?;
    e.advance(OPEN).await;
    e.pump_all().await?;
    ensure_eq!(
        psp.breaker().state(),
        CircuitState::Closed,
        "after the trial"
    );
    ensure_eq!(
        stands(&e, new).await?,
        (1, Status::Completed),
        "the new one"
    );
    for op in failed {
        let stands = stands(&e, op).await?;
        ensure_eq!(stands, (2, Status::Completed), "one that failed once");
    }
    ensure_eq!(e.provider.calls(), 2 * FAILURES + 1, "calls in all");
    Ok(())
}

async fn s7_a_timeout_is_an_attempt_whose_effect_is_unknown(e: Engine) -> Verdict {
    let (e, _) = e.guarded(Guards::default())?;
    e.provider
        .unanswered
        .store(2, std::sync::atomic::Ordering::SeqCst);
    let barred = submitted(&e, UNSAFE, "barred").await?;
    e.pump_through(secs(1)).await?;
    let state = e.w.row(barred).await?.state;
    ensure_eq!(
        (state.attempts, state.effect),
        (1, Effect::Unknown),
        "cut off"
    );
    ensure_eq!(state.phase, Some(Phase::Held), "not repeated");
    let natural = submitted(&e, NATURAL, "natural").await?;
    e.pump_through(secs(1)).await?;
    let state = e.w.row(natural).await?.state;
    ensure_eq!(
        (state.attempts, state.phase),
        (1, Some(Phase::Waiting)),
        "cut off"
    );
    e.advance(secs(60)).await;
    e.pump_all().await?;
    ensure_eq!(
        stands(&e, natural).await?,
        (2, Status::Completed),
        "repeated"
    );
    Ok(())
}

/// One call is running and does not end before its guard is dropped.
async fn busy(e: &Engine) -> Verdict<(OpId, tokio::task::JoinHandle<()>)> {
    let permits = e.provider.gate.available_permits();
    e.provider.gate.forget_permits(permits);
    let op = submitted(e, NATURAL, "busy").await?;
    let runtime = e.runtime.clone();
    let called = e.provider.calls();
    let running = tokio::spawn(async move {
        // The case itself checks the result.
        let _ = runtime.pump(1).await;
    });
    while e.provider.calls() == called {
        tokio::task::yield_now().await;
    }
    Ok((op, running))
}

async fn s7_a_full_bulkhead_costs_no_attempt(e: Engine) -> Verdict {
    let (e, _) = e.guarded(around(slots(1)))?;
    let (first, running) = busy(&e).await?;
    let second = submitted(&e, NATURAL, "second").await?;
    let before = e.w.row(second).await?.state.version;
    e.runtime.pump(1).await?;
    ensure_eq!(stands(&e, second).await?, (0, Status::Pending), "it waits");
    ensure_eq!(e.w.row(second).await?.state.version, before, "at no write");
    e.provider.gate.add_permits(1);
    running.await.map_err(crate::Failure::new)?;
    e.advance(secs(1)).await;
    e.pump_all().await?;
    for op in [first, second] {
        ensure_eq!(stands(&e, op).await?, (1, Status::Completed), "its end");
    }
    Ok(())
}

async fn s7_an_attempt_that_meets_a_full_bulkhead_is_given_back(e: Engine) -> Verdict {
    let guards = Guards {
        gated: false,
        ..around(slots(1))
    };
    let (e, _) = e.guarded(guards)?;
    let (_, running) = busy(&e).await?;
    let second = submitted(&e, UNSAFE, "second").await?;
    e.runtime.pump(1).await?;
    let state = e.w.row(second).await?.state;
    ensure_eq!((state.attempts, state.fence), (0, 1), "begun and refunded");
    ensure_eq!(state.phase, Some(Phase::Waiting), "it waits");
    e.provider.gate.add_permits(1);
    running.await.map_err(crate::Failure::new)?;
    e.advance(secs(60)).await;
    e.pump_all().await?;
    ensure_eq!(stands(&e, second).await?, (1, Status::Completed), "its end");
    Ok(())
}

async fn s7_a_used_up_rate_costs_no_attempt(e: Engine) -> Verdict {
    let (e, _) = e.guarded(around(one_a_minute()))?;
    let first = submitted(&e, NATURAL, "first").await?;
    let second = submitted(&e, NATURAL, "second").await?;
    e.runtime.pump(10).await?;
    ensure_eq!(
        stands(&e, first).await?,
        (1, Status::Completed),
        "the first"
    );
    ensure_eq!(
        stands(&e, second).await?,
        (0, Status::Pending),
        "the second"
    );
    e.advance(secs(60)).await;
    e.pump_all().await?;
    ensure_eq!(
        stands(&e, second).await?,
        (1, Status::Completed),
        "its turn"
    );
    Ok(())
}

async fn s7_an_attempt_that_meets_a_used_up_rate_is_given_back(e: Engine) -> Verdict {
    let guards = Guards {
        gated: false,
        ..around(one_a_minute())
    };
    let (e, _) = e.guarded(guards)?;
    let first = submitted(&e, UNSAFE, "first").await?;
    let second = submitted(&e, UNSAFE, "second").await?;
    e.runtime.pump(2).await?;
    let spent = stands(&e, first).await?.0 + stands(&e, second).await?.0;
    ensure_eq!((spent, e.provider.calls()), (1, 1), "attempts and calls");
    e.advance(secs(60)).await;
    e.pump_all().await?;
    for op in [first, second] {
        ensure_eq!(stands(&e, op).await?, (1, Status::Completed), "its end");
    }
    Ok(())
}

async fn s7_hedged_copies_are_one_attempt(e: Engine) -> Verdict {
    let guards = Guards {
        hedge: Some(Hedge::new(secs(1))),
        ..Guards::default()
    };
    let (e, _) = e.guarded(guards)?;
    e.provider
        .unanswered
        .store(1, std::sync::atomic::Ordering::SeqCst);
    let op = submitted(&e, KEYED, "slow").await?;
    e.pump_through(Duration::from_millis(500)).await?;
    ensure_eq!(stands(&e, op).await?, (1, Status::Completed), "its end");
    ensure_eq!(e.provider.calls(), 2, "copies that were sent");
    Ok(())
}

async fn s7_a_retry_after_pauses_everyone_at_the_destination(e: Engine) -> Verdict {
    let (e, _) = e.guarded(Guards::default())?;
    let throttled = Retry::not_applied("throttled").retry_after(secs(120));
    e.provider.says([Outcome::Retry(throttled)]);
    let first = submitted(&e, UNSAFE, "first").await?;
    e.runtime.pump(1).await?;
    ensure_eq!(
        stands(&e, first).await?,
        (1, Status::InProgress),
        "turned away"
    );
    // Another domain at the same destination.
    let other = submitted(&e, NATURAL, "other").await?;
    e.advance(secs(119)).await;
    e.pump_all().await?;
    ensure_eq!(
        stands(&e, other).await?,
        (0, Status::Pending),
        "it waits too"
    );
    e.advance(secs(60)).await;
    e.pump_all().await?;
    ensure_eq!(stands(&e, other).await?, (1, Status::Completed), "its end");
    ensure_eq!(stands(&e, first).await?, (2, Status::Completed), "its end");
    Ok(())
}
