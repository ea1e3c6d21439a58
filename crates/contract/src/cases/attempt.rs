//! Reports of a running attempt other than an answer: extend, checkpoint, reschedule.

use std::time::Duration;

use clinch_core::ports::{Changed, Extension, Operation, Refused};
use clinch_core::protocol::{Event, Phase, Resolution, Why};
use clinch_core::{Effect, Retry, Sealed, Status, code};

use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::compare::unchanged;
use crate::fixtures::{KEYED, LEASE, LONG, NATURAL, UNSAFE, fail_answer, ok_answer, secs, worker};
use crate::world::{World, only};

pub(super) const CASES: &[Case] = area!(
    "attempt",
    Store {
        extend_moves_the_lease: ["RUN-7"],
        extend_never_shortens_the_lease: ["RUN-7"],
        extend_tells_that_cancel_was_requested: [],
        extend_with_a_stale_fence_changes_nothing: ["RUN-7"],
        an_expired_lease_is_current_until_the_reaper_comes: ["RUN-7"],
        after_attempt_lost_the_old_fence_is_stale: ["RUN-6", "RUN-7"],
        a_checkpoint_is_kept_and_replaced: [],
        a_stale_checkpoint_changes_nothing: ["RUN-7"],
        retry_waits_for_the_backoff: ["RUN-3"],
        retry_waits_as_long_as_the_provider_asked: ["RUN-3", "OUT-5"],
        retry_with_a_stale_fence_changes_nothing_but_the_ledger: ["RUN-7"],
        retry_twice_is_one_change: ["RUN-7"],
        an_unknown_retry_waits_where_the_call_may_be_repeated: ["CORE-7"],
        an_unknown_retry_is_held_where_it_may_not: ["CORE-7"],
        an_unknown_effect_is_sticky: ["CORE-7"],
        the_last_retry_fails_the_operation: ["CORE-7", "RUN-3", "OUT-5"],
        a_retry_of_a_canceled_attempt_ends_it: [],
        not_called_refunds_the_attempt: ["COL-8"],
        not_called_keeps_the_fence_raised: ["RUN-7"],
        not_called_gives_the_repeat_permit_back: [],
        a_stale_fence_changes_nothing_in_any_call: ["RUN-7", "CORE-13"],
        a_yes_of_a_stale_attempt_settles_all_the_same: ["CORE-7", "CORE-13"],
        many_attempts_end_in_one_call: [],
    }
);

async fn extend(
    w: &World,
    attempt: &Operation,
    lease: Duration,
) -> Verdict<Result<Changed, Refused>> {
    let extension = Extension {
        op_id: attempt.op_id,
        fence: attempt.state.fence,
        lease,
        attempt_id: None,
    };
    only(w.store.extend(&[extension]).await?)
}

/// The report is refused as stale, and the row does not change.
async fn is_stale(w: &World, before: &Operation, answer: Result<Changed, Refused>) -> Verdict {
    match answer {
        Err(Refused::Illegal(refused)) => ensure_eq!(refused.why, Why::StaleFence, "the refusal"),
        other => {
            return Err(Failure::new(format!(
                "expected a stale fence, got {other:?}"
            )));
        }
    }
    unchanged(before, &w.row(before.op_id).await?)
}

/// An attempt that is no longer current, and the row with the attempt that took over.
async fn overtaken(w: &World, domain: &str) -> Verdict<(Operation, Operation)> {
    let stale = w.live(domain).await?;
    w.advance(LEASE + secs(5)).await;
    w.amend(stale.op_id, Event::AttemptLost).await??;
    w.advance(LONG / 4).await;
    let current = w.begun(stale.op_id).await?;
    Ok((stale, current))
}

async fn extend_moves_the_lease(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.advance(secs(20)).await;
    let before = w.now().await?;
    let changed = extend(&w, &attempt, LEASE).await??;
    let until = changed.state.lease_until;
    ensure!(until >= Some(before + LEASE), "the lease ends at {until:?}");
    let row = w.row(attempt.op_id).await?;
    ensure_eq!(row.state, changed.state, "the stored state");
    ensure_eq!(row.state.version, attempt.state.version + 1, "the version");
    // The Reaper uses the extended lease.
    w.advance(secs(20)).await;
    let lost = w.amend(attempt.op_id, Event::AttemptLost).await?;
    ensure!(lost.is_err(), "an extended attempt was taken for lost");
    Ok(())
}

async fn extend_never_shortens_the_lease(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let changed = extend(&w, &attempt, secs(1)).await??;
    ensure_eq!(
        changed.state.lease_until,
        attempt.state.lease_until,
        "the lease"
    );
    let stored = w.row(attempt.op_id).await?.state.lease_until;
    ensure_eq!(stored, attempt.state.lease_until, "the stored lease");
    Ok(())
}

async fn extend_tells_that_cancel_was_requested(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let changed = extend(&w, &attempt, LEASE).await??;
    ensure!(!changed.state.cancel_requested, "nobody asked for a cancel");
    w.cancel(attempt.op_id).await?;
    let changed = extend(&w, &attempt, LEASE).await??;
    ensure!(changed.state.cancel_requested, "the attempt is not told");
    Ok(())
}

async fn extend_with_a_stale_fence_changes_nothing(w: World) -> Verdict {
    let (stale, current) = overtaken(&w, NATURAL).await?;
    let answer = extend(&w, &stale, LONG).await?;
    is_stale(&w, &current, answer).await?;
    extend(&w, &current, LONG).await??;
    Ok(())
}

async fn an_expired_lease_is_current_until_the_reaper_comes(w: World) -> Verdict {
    let extended = w.live(NATURAL).await?;
    let settled = w.live(NATURAL).await?;
    let refused = w.live(NATURAL).await?;
    w.advance(LONG).await;
    extend(&w, &extended, LEASE).await??;
    w.settle_ok(&settled).await??;
    w.settle_fail(&refused).await??;
    ensure_eq!(
        w.row(refused.op_id).await?.state.status,
        Status::Failed,
        "a slow no"
    );
    Ok(())
}

async fn after_attempt_lost_the_old_fence_is_stale(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.advance(LEASE + secs(5)).await;
    w.amend(attempt.op_id, Event::AttemptLost).await??;
    let before = w.row(attempt.op_id).await?;
    let answer = extend(&w, &attempt, LEASE).await?;
    is_stale(&w, &before, answer).await?;
    let answer = w.retry(&attempt, Retry::not_applied("late")).await?;
    is_stale(&w, &before, answer).await?;
    let answer = w.settle_fail(&attempt).await?;
    is_stale(&w, &before, answer).await
}

async fn checkpoint(
    w: &World,
    attempt: &Operation,
    bytes: &[u8],
) -> Verdict<Result<Changed, Refused>> {
    let fence = attempt.state.fence;
    let mut amendment = w.amendment(attempt.op_id, Event::Checkpoint { fence })?;
    amendment.checkpoint = Some(Sealed::new(bytes.to_vec()));
    w.amend_with(amendment).await
}

async fn a_checkpoint_is_kept_and_replaced(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    checkpoint(&w, &attempt, b"one").await??;
    let row = w.row(attempt.op_id).await?;
    ensure!(
        row.checkpoint == Some(Sealed::new(b"one".to_vec())),
        "the first is not kept"
    );
    ensure_eq!(row.state.version, attempt.state.version + 1, "the version");
    checkpoint(&w, &attempt, b"two").await??;
    // Bytes that come with another event are ignored.
    let mut cancel = w.amendment(attempt.op_id, Event::Cancel)?;
    cancel.checkpoint = Some(Sealed::new(b"three".to_vec()));
    w.amend_with(cancel).await??;
    let w = w.crash().await?;
    let kept = w.row(attempt.op_id).await?.checkpoint;
    ensure!(
        kept == Some(Sealed::new(b"two".to_vec())),
        "the last is not kept"
    );
    Ok(())
}

async fn a_stale_checkpoint_changes_nothing(w: World) -> Verdict {
    let (stale, current) = overtaken(&w, NATURAL).await?;
    let answer = checkpoint(&w, &stale, b"old").await?;
    is_stale(&w, &current, answer).await
}

async fn retry_waits_for_the_backoff(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let before = w.now().await?;
    let changed = w.retry(&attempt, Retry::not_applied("busy")).await??;
    let after = w.now().await?;
    let state = changed.state;
    ensure_eq!(state.phase, Some(Phase::Waiting), "the phase");
    let at = state.next_attempt_at;
    // 1 s, ±10 %.
    let (low, high) = (before + secs(1) * 9 / 10, after + secs(1) * 11 / 10);
    ensure!(
        Some(low) <= at && at <= Some(high),
        "next attempt at {at:?}: {low:?} … {high:?}"
    );
    ensure_eq!(w.row(attempt.op_id).await?.state, state, "the stored state");
    ensure_eq!(state.version, attempt.state.version + 1, "the version");
    ensure_eq!(
        (state.effect, state.attempts),
        (Effect::None, 1),
        "effect and attempts"
    );
    Ok(())
}

async fn retry_waits_as_long_as_the_provider_asked(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let before = w.now().await?;
    let retry = Retry::not_applied("429").after(secs(500));
    let at = w.retry(&attempt, retry).await??.state.next_attempt_at;
    let after = w.now().await?;
    ensure!(
        Some(before + secs(500)) <= at && at <= Some(after + secs(500)),
        "next attempt at {at:?}"
    );
    ensure_eq!(w.claim(9).await?, [], "nothing is due before");
    w.advance(secs(500)).await;
    ensure_eq!(w.claim(9).await?.len(), 1, "rows due after");
    Ok(())
}

async fn retry_with_a_stale_fence_changes_nothing_but_the_ledger(w: World) -> Verdict {
    for retry in [
        Retry::not_applied("x"),
        Retry::unknown("x"),
        Retry::not_called("x"),
    ] {
        let (stale, current) = overtaken(&w, NATURAL).await?;
        let lines = w.ledger(stale.op_id).await?.len();
        let answer = w.retry(&stale, retry).await?;
        is_stale(&w, &current, answer).await?;
        let ledger = w.ledger(stale.op_id).await?;
        ensure_eq!(ledger.len(), lines + 1, "ledger lines");
        let refused = ledger.last().and_then(|line| line.refused.clone());
        ensure!(
            refused.is_some(),
            "the line does not say that it was refused"
        );
    }
    Ok(())
}

async fn retry_twice_is_one_change(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.retry(&attempt, Retry::not_applied("busy")).await??;
    let before = w.row(attempt.op_id).await?;
    let answer = w.retry(&attempt, Retry::not_applied("busy")).await?;
    is_stale(&w, &before, answer).await
}

async fn an_unknown_retry_waits_where_the_call_may_be_repeated(w: World) -> Verdict {
    for domain in [NATURAL, KEYED] {
        let attempt = w.live(domain).await?;
        let state = w.retry(&attempt, Retry::unknown("timeout")).await??.state;
        ensure_eq!(state.phase, Some(Phase::Waiting), "{domain}: the phase");
        ensure_eq!(
            (state.effect, state.maybe_calls),
            (Effect::Unknown, 1),
            "{domain}"
        );
    }
    Ok(())
}

async fn an_unknown_retry_is_held_where_it_may_not(w: World) -> Verdict {
    let attempt = w.live(UNSAFE).await?;
    let state = w.retry(&attempt, Retry::unknown("timeout")).await??.state;
    ensure_eq!(state.phase, Some(Phase::Held), "the phase");
    ensure_eq!(w.row(attempt.op_id).await?.state, state, "the stored state");
    w.advance(LONG).await;
    ensure_eq!(w.claim(9).await?, [], "a held row is never announced");
    ensure_eq!(w.counts(UNSAFE).await?.held, 1, "one is held");
    Ok(())
}

async fn an_unknown_effect_is_sticky(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.advance(LONG).await;
    let attempt = w.begun(attempt.op_id).await?;
    ensure_eq!(attempt.state.effect, Effect::Unknown, "after a begin");
    w.retry(&attempt, Retry::not_applied("refused at the door"))
        .await??;
    let w = w.crash().await?;
    let state = w.row(attempt.op_id).await?.state;
    ensure_eq!(
        state.effect,
        Effect::Unknown,
        "after a retry that was not applied"
    );
    ensure_eq!(state.maybe_calls, 1, "calls that may have been applied");
    w.advance(LONG).await;
    let attempt = w.begun(attempt.op_id).await?;
    w.retry(&attempt, Retry::not_called("no permit")).await??;
    ensure_eq!(
        w.row(attempt.op_id).await?.state.effect,
        Effect::Unknown,
        "after NotCalled"
    );
    Ok(())
}

async fn the_last_retry_fails_the_operation(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    for number in 1..=5 {
        let attempt = w.begun(op).await?;
        let state = w.retry(&attempt, Retry::not_applied("busy")).await??.state;
        let expected = if number < 5 {
            Status::InProgress
        } else {
            Status::Failed
        };
        ensure_eq!(state.status, expected, "after attempt {number}");
        w.advance(secs(600)).await;
    }
    let row = w.row(op).await?;
    let failure = row
        .state
        .failure
        .as_ref()
        .map(|failure| failure.code.as_str());
    ensure_eq!(failure, Some(code::RETRY_EXHAUSTED), "the failure");
    ensure!(row.finished_at.is_some(), "finished_at is missing");
    let letters = w.letters().await?;
    ensure_eq!(letters.len(), 1, "dead letters");
    ensure_eq!(letters[0].attempts, 5, "attempts on the dead letter");
    Ok(())
}

async fn a_retry_of_a_canceled_attempt_ends_it(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.cancel(attempt.op_id).await?;
    let state = w.retry(&attempt, Retry::not_applied("busy")).await??.state;
    ensure_eq!(state.status, Status::Failed, "the state");
    let failure = state.failure.map(|failure| failure.code);
    ensure_eq!(failure.as_deref(), Some(code::CANCELED), "the failure");
    let letters = w.letters().await?;
    ensure_eq!(letters, [], "a canceled operation is no dead letter");
    Ok(())
}

async fn not_called_refunds_the_attempt(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let retry = Retry::not_called("breaker open").after(secs(50));
    let state = w.retry(&attempt, retry).await??.state;
    ensure_eq!(state.attempts, 0, "attempts");
    ensure_eq!(state.maybe_calls, 0, "calls that may have been applied");
    ensure_eq!(state.first_call_at, None, "the provider remembers nothing");
    ensure_eq!(
        state.phase,
        Some(Phase::Waiting),
        "the phase: never back to PENDING"
    );
    ensure_eq!(w.row(attempt.op_id).await?.state, state, "the stored state");
    // More refunds than attempts are allowed: none of them counts as an attempt.
    for _ in 0..6 {
        w.advance(LONG / 4).await;
        let attempt = w.begun(attempt.op_id).await?;
        w.retry(&attempt, Retry::not_called("breaker open"))
            .await??;
    }
    ensure_eq!(
        w.row(attempt.op_id).await?.state.attempts,
        0,
        "attempts after many refunds"
    );
    Ok(())
}

async fn not_called_keeps_the_fence_raised(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.retry(&attempt, Retry::not_called("shutdown")).await??;
    ensure_eq!(w.row(attempt.op_id).await?.state.fence, 1, "the fence");
    w.advance(LONG).await;
    let second = w.begun(attempt.op_id).await?;
    ensure_eq!(
        (second.state.fence, second.state.attempts),
        (2, 1),
        "fence and attempts"
    );
    let answer = w.settle_fail(&attempt).await?;
    is_stale(&w, &second, answer).await
}

async fn not_called_gives_the_repeat_permit_back(w: World) -> Verdict {
    let held = w.held(UNSAFE).await?;
    w.amend(held.op_id, Event::Resolve(Resolution::Retry))
        .await??;
    let attempt = w.begun(held.op_id).await?;
    ensure!(!attempt.state.repeat_permit, "the begin uses the permit up");
    w.retry(&attempt, Retry::not_called("breaker open"))
        .await??;
    let row = w.row(held.op_id).await?;
    ensure!(row.state.repeat_permit, "the permit was not given back");
    ensure_eq!(
        row.state.first_call_at,
        held.state.first_call_at,
        "first_call_at"
    );
    w.advance(LONG).await;
    w.begun(held.op_id).await?;
    Ok(())
}

async fn a_stale_fence_changes_nothing_in_any_call(w: World) -> Verdict {
    let (stale, current) = overtaken(&w, NATURAL).await?;
    let answer = extend(&w, &stale, LONG).await?;
    is_stale(&w, &current, answer).await?;
    let answer = checkpoint(&w, &stale, b"old").await?;
    is_stale(&w, &current, answer).await?;
    let answer = w.retry(&stale, Retry::not_called("late")).await?;
    is_stale(&w, &current, answer).await?;
    let fail = fail_answer(stale.op_id, stale.state.fence)?;
    let answer = w.write_ahead(fail.clone()).await?;
    is_stale(&w, &current, answer).await?;
    let answer = w.settle(fail).await?;
    is_stale(&w, &current, answer).await?;
    // None of this affects the current attempt.
    w.settle_ok(&current).await??;
    ensure_eq!(
        w.row(stale.op_id).await?.state.status,
        Status::Completed,
        "the end"
    );
    Ok(())
}

async fn a_yes_of_a_stale_attempt_settles_all_the_same(w: World) -> Verdict {
    let (stale, current) = overtaken(&w, NATURAL).await?;
    let yes = ok_answer(stale.op_id, Some(stale.state.fence), "late-txn")?;
    let changed = w.write_ahead(yes).await??;
    ensure_eq!(changed.state.status, Status::Completed, "the state");
    let row = w.row(stale.op_id).await?;
    let txn = row
        .result
        .as_ref()
        .and_then(|result| result.provider_txn_id.clone());
    ensure_eq!(txn.as_deref(), Some("late-txn"), "the result");
    // The attempt that was running learns that it is no longer current.
    let answer = extend(&w, &current, LEASE).await?;
    ensure!(answer.is_err(), "a settled operation was extended");
    unchanged(&row, &w.row(stale.op_id).await?)
}

async fn many_attempts_end_in_one_call(w: World) -> Verdict {
    let mut attempts = Vec::new();
    for retry in [
        Retry::not_called("a"),
        Retry::not_applied("b"),
        Retry::unknown("c"),
    ] {
        attempts.push((w.live(UNSAFE).await?, retry));
    }
    let ended = |(attempt, retry): &(Operation, Retry)| -> Verdict<_> {
        Ok(clinch_core::ports::Reschedule {
            op_id: attempt.op_id,
            fence: attempt.state.fence,
            worker: worker(0)?,
            retry: retry.clone(),
            attempt_id: None,
        })
    };
    let calls: Result<Vec<_>, _> = attempts.iter().map(ended).collect();
    let answers = w.store.reschedule(&calls?, &w.routes).await?;
    let expected = [Phase::Waiting, Phase::Waiting, Phase::Held];
    for ((answer, phase), (attempt, _)) in answers.into_iter().zip(expected).zip(&attempts) {
        let state = answer?.state;
        ensure_eq!(state.phase, Some(phase), "the phase");
        ensure_eq!(state, w.row(attempt.op_id).await?.state, "the stored state");
    }
    Ok(())
}
