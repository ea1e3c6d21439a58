//! What an operator sees of an operation and does with it: its last error, and "retry now".

use clinch_core::ports::{Amendment, Operation, Refused};
use clinch_core::protocol::{Event, LastError, Phase, ProbeAnswer, Why};
use clinch_core::{Actor, MESSAGE_BYTES_MAX, OpId, Retry, Status, code};

use crate::case::{Case, Verdict};
use crate::fixtures::{
    LANE, LEASE, LONG, NATURAL, PROBED, UNSAFE, keys, operation, payload, run_at, secs,
};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "operator",
    Store {
        a_row_shows_its_last_error: ["OUT-5"],
        a_last_error_is_cut: ["OUT-5"],
        a_lost_attempt_is_a_last_error: ["OUT-5"],
        an_inconclusive_probe_is_a_last_error: ["OUT-5"],
        a_completed_row_has_no_last_error: ["OUT-5"],
        retry_now_ends_a_backoff: [],
        retry_now_ends_a_delay_before_the_first_attempt: [],
        retry_now_is_claimed_at_once: [],
        retry_now_passes_no_guard: [],
        retry_now_is_refused_unless_something_waits: [],
        retry_now_says_who_and_why: [],
    }
);

fn last_error(row: &Operation) -> Option<(&str, &str)> {
    let error = row.state.last_error.as_deref();
    error.map(|error: &LastError| (error.code.as_str(), error.message.as_str()))
}

async fn a_row_shows_its_last_error(w: World) -> Verdict {
    let fresh = w.pending(NATURAL).await?;
    ensure_eq!(last_error(&w.row(fresh).await?), None, "of a new row");
    let waiting = w.live(NATURAL).await?;
    w.retry(&waiting, Retry::not_applied("HTTP 503")).await??;
    let held = w.live(UNSAFE).await?;
    w.retry(&held, Retry::unknown("timeout")).await??;
    let given_back = w.live(NATURAL).await?;
    w.retry(&given_back, Retry::not_called("the breaker is open"))
        .await??;
    let now = w.inspect.now().await?;
    let w = w.crash().await?;
    let row = w.row(waiting.op_id).await?;
    ensure_eq!(
        last_error(&row),
        Some((code::NOT_APPLIED, "HTTP 503")),
        "waiting"
    );
    let at = row.state.last_error.as_ref().map(|error| error.at);
    ensure!(
        at.is_some_and(|at| now.since(at) <= secs(1)),
        "when: {at:?}"
    );
    let row = w.row(held.op_id).await?;
    ensure_eq!(row.state.phase, Some(Phase::Held), "the unsafe one");
    ensure_eq!(last_error(&row), Some(("timeout", "timeout")), "held");
    let row = w.row(given_back.op_id).await?;
    let expected = Some((code::NOT_CALLED, "the breaker is open"));
    ensure_eq!(last_error(&row), expected, "given back");
    // The next error takes its place; a begin keeps it.
    w.advance(LONG).await;
    let again = w.begun(waiting.op_id).await?;
    let expected = Some((code::NOT_APPLIED, "HTTP 503"));
    ensure_eq!(last_error(&again), expected, "while the next attempt runs");
    w.retry(&again, Retry::not_applied("HTTP 429")).await??;
    let row = w.row(waiting.op_id).await?;
    ensure_eq!(
        last_error(&row),
        Some((code::NOT_APPLIED, "HTTP 429")),
        "the next"
    );
    Ok(())
}

async fn a_last_error_is_cut(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let mut retry = Retry::not_applied("");
    retry.reason = "é".repeat(MESSAGE_BYTES_MAX * 10);
    w.retry(&attempt, retry).await??;
    let row = w.row(attempt.op_id).await?;
    let length = last_error(&row).map(|(_, message)| message.len());
    ensure_eq!(length, Some(MESSAGE_BYTES_MAX), "bytes of the message");
    Ok(())
}

async fn a_lost_attempt_is_a_last_error(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.advance(LEASE + secs(5)).await;
    w.amend(attempt.op_id, Event::AttemptLost).await??;
    let row = w.row(attempt.op_id).await?;
    let code = last_error(&row).map(|(code, _)| code);
    ensure_eq!(code, Some(code::ATTEMPT_LOST), "the code");
    Ok(())
}

async fn an_inconclusive_probe_is_a_last_error(w: World) -> Verdict {
    let held = w.held(PROBED).await?;
    let probed = Event::Probed {
        fence: held.state.fence,
        asked_at: w.inspect.now().await?,
        answer: ProbeAnswer::Unknown,
    };
    w.amend(held.op_id, probed).await??;
    let row = w.row(held.op_id).await?;
    ensure_eq!(row.state.phase, Some(Phase::Held), "the phase");
    let code = last_error(&row).map(|(code, _)| code);
    ensure_eq!(code, Some(code::PROBE_INCONCLUSIVE), "the code");
    Ok(())
}

async fn a_completed_row_has_no_last_error(w: World) -> Verdict {
    let waiting = w.waiting(NATURAL).await?;
    ensure!(waiting.state.last_error.is_some(), "it waits for no error");
    w.advance(LONG).await;
    let attempt = w.begun(waiting.op_id).await?;
    w.settle_ok(&attempt).await??;
    let w = w.crash().await?;
    let row = w.row(waiting.op_id).await?;
    ensure_eq!(
        (row.state.status, last_error(&row)),
        (Status::Completed, None),
        "the end"
    );
    let waiting = w.waiting(NATURAL).await?;
    w.cancel(waiting.op_id).await?;
    let row = w.row(waiting.op_id).await?;
    ensure_eq!(row.state.status, Status::Failed, "the canceled one");
    ensure!(
        row.state.last_error.is_some(),
        "a canceled one keeps its error"
    );
    Ok(())
}

async fn retry_now(w: &World, op: OpId) -> Verdict<Result<(), Why>> {
    Ok(match w.amend(op, Event::RetryNow).await? {
        Ok(_) => Ok(()),
        Err(Refused::Illegal(illegal)) => Err(illegal.why),
        Err(other) => return Err(crate::Failure::new(format!("refused: {other:?}"))),
    })
}

async fn retry_now_ends_a_backoff(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let later = Retry::not_applied("busy").after(secs(3_000));
    w.retry(&attempt, later).await??;
    let waiting = w.row(attempt.op_id).await?;
    ensure!(w.begin(waiting.op_id).await?.is_err(), "it was due already");
    ensure_eq!(retry_now(&w, waiting.op_id).await?, Ok(()), "retry now");
    let row = w.row(waiting.op_id).await?;
    ensure_eq!(row.state.version, waiting.state.version + 1, "the version");
    ensure_eq!(row.state.attempts, waiting.state.attempts, "attempts");
    ensure!(!row.state.repeat_permit, "it gave a permit");
    ensure_eq!(
        retry_now(&w, row.op_id).await?,
        Err(Why::AlreadyDue),
        "again"
    );
    let w = w.crash().await?;
    w.begun(waiting.op_id).await?;
    Ok(())
}

async fn retry_now_ends_a_delay_before_the_first_attempt(w: World) -> Verdict {
    let mut new = w.op(NATURAL)?;
    new.options = run_at(w.inspect.now().await? + LONG);
    let op = new.op_id;
    w.take_in(&new).await?;
    ensure!(w.begin(op).await?.is_err(), "it was due already");
    ensure_eq!(retry_now(&w, op).await?, Ok(()), "retry now");
    ensure_eq!(w.row(op).await?.state.status, Status::Pending, "still");
    w.begun(op).await?;
    Ok(())
}

async fn retry_now_is_claimed_at_once(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let later = Retry::not_applied("busy").after(secs(3_000));
    w.retry(&attempt, later).await??;
    ensure_eq!(w.claim(9).await?, [], "nothing is due");
    ensure_eq!(retry_now(&w, attempt.op_id).await?, Ok(()), "retry now");
    let claimed = crate::world::ids(&w.claim(9).await?);
    ensure_eq!(claimed, [attempt.op_id], "what is due");
    Ok(())
}

async fn retry_now_passes_no_guard(w: World) -> Verdict {
    // A paused domain.
    let waiting = w.waiting(NATURAL).await?;
    w.pause(NATURAL, true).await?;
    ensure_eq!(
        retry_now(&w, waiting.op_id).await?,
        Ok(()),
        "in a paused domain"
    );
    ensure!(
        w.begin(waiting.op_id).await?.is_err(),
        "it began in a paused domain"
    );
    ensure_eq!(w.claim(9).await?, [], "it was claimed in a paused domain");
    w.pause(NATURAL, false).await?;
    // The order of a lane.
    let member = |number: u64| -> Verdict<_> {
        let keys = keys(LANE, "one", &format!("{number}"))?;
        Ok(operation(w.ids.op_id(), keys, &payload(number)?))
    };
    let (head, mut behind) = (member(1)?, member(2)?);
    w.take_in(&head).await?;
    behind.options = run_at(w.inspect.now().await? + LONG);
    w.take_in(&behind).await?;
    let (head, behind) = (head.op_id, behind.op_id);
    ensure_eq!(retry_now(&w, behind).await?, Ok(()), "behind in its lane");
    ensure!(
        w.begin(behind).await?.is_err(),
        "it passed the head of its lane"
    );
    w.cancel(head).await?;
    w.begun(behind).await?;
    Ok(())
}

async fn retry_now_is_refused_unless_something_waits(w: World) -> Verdict {
    let pending = w.pending(NATURAL).await?;
    let live = w.live(NATURAL).await?.op_id;
    let held = w.held(UNSAFE).await?.op_id;
    let completed = w.completed(NATURAL).await?.op_id;
    let failed = w.failed(NATURAL).await?.op_id;
    for (op, why) in [
        (pending, Why::AlreadyDue),
        (live, Why::Live),
        (held, Why::Held),
        (completed, Why::Terminal),
        (failed, Why::Terminal),
    ] {
        let before = w.row(op).await?;
        ensure_eq!(retry_now(&w, op).await?, Err(why), "retry now");
        ensure_eq!(w.row(op).await?, before, "the row");
    }
    Ok(())
}

async fn retry_now_says_who_and_why(w: World) -> Verdict {
    let waiting = w.waiting(NATURAL).await?;
    let by = Actor::key("00ff", "anna").name().clone();
    let amendment = Amendment {
        by: by.clone(),
        reason: "the provider is back".into(),
        ..w.amendment(waiting.op_id, Event::RetryNow)?
    };
    w.amend_with(amendment.clone()).await??;
    ensure!(w.amend_with(amendment).await?.is_err(), "it waited again");
    let ledger = w.ledger(waiting.op_id).await?;
    let lines = ledger.iter().filter(|line| line.event == "RetryNow");
    let lines: Vec<_> = lines
        .map(|line| (line.by.clone(), line.note.as_str(), line.refused.is_some()))
        .collect();
    let reason = "the provider is back";
    let expected = [(Some(by.clone()), reason, false), (Some(by), reason, true)];
    ensure_eq!(lines, expected, "the ledger");
    Ok(())
}
