//! Store::begin: the only way to a call.

use clinch_core::policy::Safety;
use clinch_core::ports::{NewOperation, Refused};
use clinch_core::protocol::{Begin, Event, LaneStand, Phase, Why};
use clinch_core::{Effect, OpId, Retry, Status, code};

use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::compare::{same_state, unchanged};
use crate::concurrent::together;
use crate::fixtures::{
    DEADLINE, KEY_TTL, KEYED, LANE, LEASE, LONG, NATURAL, UNROUTED, UNSAFE, run_at, secs,
};
use crate::world::World;

pub(super) const CASES: &[Case] = area!(
    "begin",
    Store {
        raises_the_fence_and_counts_the_attempt: ["RUN-7", "CORE-13"],
        hands_out_the_whole_row: [],
        hands_out_the_checkpoint_of_an_earlier_attempt: [],
        refuses_a_live_row: ["RUN-7"],
        refuses_a_held_row: ["RUN-7"],
        refuses_a_terminal_row: ["CORE-5"],
        refuses_a_row_with_a_recorded_outcome: ["CORE-7"],
        refuses_before_run_at: [],
        refuses_during_the_backoff: ["RUN-3"],
        refuses_in_a_paused_domain: [],
        refuses_a_canceled_row: [],
        refuses_past_the_deadline: [],
        refuses_behind_in_the_lane: ["CORE-11"],
        refuses_without_a_route: [],
        refuses_an_unknown_operation: [],
        never_hands_out_a_corrupted_payload: ["OUT-3"],
        a_corrupted_payload_of_doubtful_effect_is_held: ["OUT-3"],
        a_call_that_may_not_be_repeated_becomes_held: ["CORE-7"],
        a_key_that_the_provider_forgot_becomes_held: ["CORE-7"],
        one_of_concurrent_begins_gets_it: ["RUN-7", "CORE-13"],
        concurrent_begins_of_many_rows_never_share_one: ["RUN-7"],
        the_same_row_twice_in_one_call_is_begun_once: ["RUN-7"],
        head_and_follower_in_one_call: ["CORE-11"],
        answers_in_the_order_of_the_call: [],
        the_first_attempt_starts_the_operation: [],
    }
);

async fn raises_the_fence_and_counts_the_attempt(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    for round in 1..=2 {
        let row = w.row(op).await?;
        let request = w.ids.begin(op, 0)?;
        let event = Event::Begin(Begin {
            attempt_id: request.attempt_id,
            lease: LEASE,
            paused: false,
            lane: LaneStand::Unordered,
            intact: true,
        });
        let rules = w.routes.rules(&row.keys.domain, &row.keys.event_type);
        let before = w.now().await?;
        let mut begun = w.store.begin(&[request], &w.routes).await?;
        let after = w.now().await?;
        let begun = begun.remove(0)?;
        let expected = |at| row.state.apply(&event, at, rules);
        let (Ok((low, _)), Ok((high, _))) = (expected(before), expected(after)) else {
            return Err(Failure::new("the protocol refuses this begin"));
        };
        same_state(&begun.state, &low, &high)?;
        ensure_eq!(
            (begun.state.fence, begun.state.attempts),
            (round, round as u32),
            "counts"
        );
        w.retry(&begun, Retry::not_applied("busy")).await??;
        w.advance(LONG).await;
    }
    Ok(())
}

async fn hands_out_the_whole_row(w: World) -> Verdict {
    let mut new = w.op(NATURAL)?;
    new.trace = Some("00-trace-01".into());
    w.take_in(&new).await?;
    let begun = w.begun(new.op_id).await?;
    ensure_eq!(
        begun,
        w.row(new.op_id).await?,
        "the row that begin handed out"
    );
    ensure!(begun.payload == new.payload, "the payload");
    ensure_eq!(begun.trace, new.trace, "the trace");
    ensure_eq!(begun.state.phase, Some(Phase::Live), "the phase");
    Ok(())
}

async fn hands_out_the_checkpoint_of_an_earlier_attempt(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let bytes = clinch_core::Sealed::new(vec![0, 159, 146, 150]);
    let mut checkpoint = w.amendment(attempt.op_id, Event::Checkpoint { fence: 1 })?;
    checkpoint.checkpoint = Some(bytes.clone());
    w.amend_with(checkpoint).await??;
    w.retry(&attempt, Retry::not_applied("busy")).await??;
    w.advance(LONG).await;
    let second = w.begun(attempt.op_id).await?;
    ensure!(
        second.checkpoint == Some(bytes),
        "the checkpoint did not reach the next attempt"
    );
    Ok(())
}

/// The begin is refused for this reason and nothing changes.
async fn refuses(w: &World, op: OpId, why: Why) -> Verdict {
    let before = w.row(op).await?;
    match w.begin(op).await? {
        Err(Refused::Illegal(refused)) => {
            ensure_eq!((refused.event, refused.why), ("Begin", why), "the refusal");
        }
        other => {
            return Err(Failure::new(format!(
                "expected a refusal as {why:?}, got {other:?}"
            )));
        }
    }
    unchanged(&before, &w.row(op).await?)
}

async fn refuses_a_live_row(w: World) -> Verdict {
    let op = w.live(NATURAL).await?.op_id;
    refuses(&w, op, Why::Live).await?;
    // Only the Reaper takes over, even after the lease has ended.
    w.advance(LEASE + secs(5)).await;
    refuses(&w, op, Why::Live).await
}

async fn refuses_a_held_row(w: World) -> Verdict {
    let op = w.held(UNSAFE).await?.op_id;
    refuses(&w, op, Why::Held).await?;
    w.advance(LONG).await;
    refuses(&w, op, Why::Held).await
}

async fn refuses_a_terminal_row(w: World) -> Verdict {
    let completed = w.completed(NATURAL).await?.op_id;
    let failed = w.failed(NATURAL).await?.op_id;
    refuses(&w, completed, Why::Terminal).await?;
    refuses(&w, failed, Why::Terminal).await
}

async fn refuses_a_row_with_a_recorded_outcome(w: World) -> Verdict {
    for answer in ["yes", "no"] {
        let attempt = w.live(NATURAL).await?;
        match answer {
            "yes" => w.record_ok(&attempt).await?,
            _ => w.record_fail(&attempt).await?,
        };
        refuses(&w, attempt.op_id, Why::WriteAheadPending).await?;
    }
    Ok(())
}

async fn refuses_before_run_at(w: World) -> Verdict {
    let at = w.now().await? + secs(100);
    let new = NewOperation {
        options: run_at(at),
        ..w.op(NATURAL)?
    };
    w.take_in(&new).await?;
    refuses(&w, new.op_id, Why::NotDue).await?;
    w.advance(secs(50)).await;
    refuses(&w, new.op_id, Why::NotDue).await?;
    w.advance(secs(50)).await;
    w.begun(new.op_id).await?;
    Ok(())
}

async fn refuses_during_the_backoff(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.retry(&attempt, Retry::not_applied("busy").after(secs(100)))
        .await??;
    w.advance(secs(50)).await;
    refuses(&w, attempt.op_id, Why::NotDue).await?;
    w.advance(secs(50)).await;
    w.begun(attempt.op_id).await?;
    Ok(())
}

async fn refuses_in_a_paused_domain(w: World) -> Verdict {
    let pending = w.pending(NATURAL).await?;
    let waiting = w.waiting(NATURAL).await?.op_id;
    w.advance(LONG).await;
    w.pause(NATURAL, true).await?;
    refuses(&w, pending, Why::Paused).await?;
    refuses(&w, waiting, Why::Paused).await?;
    w.live(UNSAFE).await?;
    w.pause(NATURAL, false).await?;
    w.begun(pending).await?;
    w.begun(waiting).await?;
    Ok(())
}

async fn refuses_a_canceled_row(w: World) -> Verdict {
    let pending = w.pending(NATURAL).await?;
    w.cancel(pending).await?;
    refuses(&w, pending, Why::Terminal).await?;
    let live = w.live(NATURAL).await?;
    w.cancel(live.op_id).await?;
    refuses(&w, live.op_id, Why::Live).await?;
    // The attempt has ended. Its unknown effect is probed, and the call is not repeated.
    w.retry(&live, Retry::unknown("timeout")).await??;
    w.advance(LONG).await;
    refuses(&w, live.op_id, Why::Held).await
}

async fn refuses_past_the_deadline(w: World) -> Verdict {
    let pending = w.pending(NATURAL).await?;
    let waiting = w.waiting(NATURAL).await?.op_id;
    w.advance(DEADLINE + secs(5)).await;
    refuses(&w, pending, Why::DeadlinePassed).await?;
    refuses(&w, waiting, Why::DeadlinePassed).await
}

async fn refuses_behind_in_the_lane(w: World) -> Verdict {
    let (head, follower) = (w.op_for(LANE, "order-1")?, w.op_for(LANE, "order-1")?);
    w.accept_all(&[head.clone(), follower.clone()]).await?;
    refuses(&w, follower.op_id, Why::LaneBusy).await?;
    w.begun(head.op_id).await?;
    refuses(&w, follower.op_id, Why::LaneBusy).await
}

async fn refuses_without_a_route(w: World) -> Verdict {
    let op = w.pending(UNROUTED).await?;
    let before = w.row(op).await?;
    let answer = w.begin(op).await?;
    ensure_eq!(answer, Err(Refused::NoRoute), "a begin without a route");
    unchanged(&before, &w.row(op).await?)
}

async fn refuses_an_unknown_operation(w: World) -> Verdict {
    let nobody = w.ids.op_id();
    ensure_eq!(w.begin(nobody).await?, Err(Refused::NotFound), "begin");
    ensure_eq!(
        w.finalize(nobody).await?,
        Err(Refused::NotFound),
        "finalize"
    );
    let cancel = w.amend(nobody, Event::Cancel).await?;
    ensure_eq!(cancel, Err(Refused::NotFound), "amend");
    let answer = crate::fixtures::ok_answer(nobody, Some(1), "txn")?;
    ensure_eq!(w.settle(answer).await?, Err(Refused::NotFound), "settle");
    ensure_eq!(w.look(nobody).await?, None, "nothing came of it");
    Ok(())
}

async fn never_hands_out_a_corrupted_payload(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    w.control.corrupt(op).await;
    match w.begin(op).await? {
        Err(Refused::Withheld(state)) => {
            ensure_eq!(state.status, Status::Failed, "the state");
            let failure = state.failure.as_ref().map(|failure| failure.code.as_str());
            ensure_eq!(failure, Some(code::INTEGRITY), "the failure");
            ensure_eq!(*state, w.row(op).await?.state, "the stored state");
        }
        other => return Err(Failure::new(format!("expected Withheld, got {other:?}"))),
    }
    let letters = w.letters().await?;
    ensure_eq!(letters.len(), 1, "dead letters");
    ensure_eq!(w.counts(NATURAL).await?.failed, 1, "one is FAILED");
    Ok(())
}

async fn a_corrupted_payload_of_doubtful_effect_is_held(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.advance(LONG).await;
    w.control.corrupt(attempt.op_id).await;
    becomes_held(&w, attempt.op_id).await
}

/// The begin finds that no call may be made.
async fn becomes_held(w: &World, op: OpId) -> Verdict {
    let before = w.row(op).await?;
    match w.begin(op).await? {
        Err(Refused::Withheld(state)) => {
            ensure_eq!(state.phase, Some(Phase::Held), "the phase");
            ensure_eq!(state.effect, Effect::Unknown, "the effect");
            ensure_eq!(state.version, before.state.version + 1, "the version");
            ensure_eq!(state.fence, before.state.fence, "the fence");
            ensure_eq!(*state, w.row(op).await?.state, "the stored state");
            Ok(())
        }
        other => Err(Failure::new(format!("expected Withheld, got {other:?}"))),
    }
}

async fn a_call_that_may_not_be_repeated_becomes_held(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.advance(LONG).await;
    // The route was corrected while the operation waited.
    let w = w.under(NATURAL, |rules| rules.safety = Safety::Unsafe)?;
    becomes_held(&w, attempt.op_id).await?;
    refuses(&w, attempt.op_id, Why::Held).await
}

async fn a_key_that_the_provider_forgot_becomes_held(w: World) -> Verdict {
    let attempt = w.live(KEYED).await?;
    w.retry(&attempt, Retry::unknown("timeout")).await??;
    w.advance(KEY_TTL).await;
    becomes_held(&w, attempt.op_id).await
}

async fn one_of_concurrent_begins_gets_it(w: World) -> Verdict {
    for _ in 0..10 {
        let op = w.pending(NATURAL).await?;
        let answers = together(16, |_| {
            let w = w.clone();
            async move { w.begin(op).await }
        })
        .await?;
        let winners: Vec<_> = answers.iter().flatten().collect();
        ensure_eq!(winners.len(), 1, "begins that got the row");
        for refused in answers.iter().filter_map(|answer| answer.as_ref().err()) {
            let is_live = matches!(refused, Refused::Illegal(refused) if refused.why == Why::Live);
            ensure!(is_live, "a loser was told {refused:?}");
        }
        let row = w.row(op).await?;
        ensure_eq!(row, *winners[0], "the row is the winner's");
        ensure_eq!(
            (row.state.fence, row.state.attempts),
            (1, 1),
            "fence and attempts"
        );
    }
    Ok(())
}

async fn concurrent_begins_of_many_rows_never_share_one(w: World) -> Verdict {
    const ROWS: usize = 50;
    let ops = w.pending_many(NATURAL, ROWS).await?;
    let begun = together(8, |number| {
        let (w, mut ops) = (w.clone(), ops.clone());
        // Half of the callers use the opposite order, so that they lock rows in opposite orders.
        if number % 2 == 1 {
            ops.reverse();
        }
        async move {
            let begins: Result<Vec<_>, _> = ops.iter().map(|op| w.ids.begin(*op, number)).collect();
            let answers = w.store.begin(&begins?, &w.routes).await?;
            ensure_eq!(answers.len(), ROWS, "one answer per begin");
            Ok(answers
                .into_iter()
                .flatten()
                .map(|row| row.op_id)
                .collect::<Vec<_>>())
        }
    })
    .await?;
    let mut all = begun.concat();
    all.sort_unstable();
    ensure_eq!(all, ops, "every row was begun, and once");
    Ok(())
}

async fn the_same_row_twice_in_one_call_is_begun_once(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let begins = [w.ids.begin(op, 0)?, w.ids.begin(op, 0)?];
    let answers = w.store.begin(&begins, &w.routes).await?;
    ensure!(answers[0].is_ok(), "the first: {:?}", answers[0]);
    ensure!(answers[1].is_err(), "the second sees what the first did");
    ensure_eq!(w.row(op).await?.state.attempts, 1, "attempts");
    Ok(())
}

async fn head_and_follower_in_one_call(w: World) -> Verdict {
    let new = [
        w.op_for(LANE, "a")?,
        w.op_for(LANE, "a")?,
        w.op_for(LANE, "b")?,
    ];
    w.accept_all(&new).await?;
    let begins: Result<Vec<_>, _> = new.iter().map(|new| w.ids.begin(new.op_id, 0)).collect();
    let answers = w.store.begin(&begins?, &w.routes).await?;
    let got: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    ensure_eq!(got, [true, false, true], "head, follower, another key");
    Ok(())
}

async fn answers_in_the_order_of_the_call(w: World) -> Verdict {
    let ops = w.pending_many(NATURAL, 6).await?;
    let live = w.live(NATURAL).await?.op_id;
    let asked = [ops[5], ops[0], live, ops[3], w.ids.op_id(), ops[1]];
    let begins: Result<Vec<_>, _> = asked.iter().map(|op| w.ids.begin(*op, 0)).collect();
    let answers = w.store.begin(&begins?, &w.routes).await?;
    let got: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().ok().map(|row| row.op_id))
        .collect();
    let expected = [
        Some(ops[5]),
        Some(ops[0]),
        None,
        Some(ops[3]),
        None,
        Some(ops[1]),
    ];
    ensure_eq!(got, expected, "the answers");
    ensure_eq!(answers[4], Err(Refused::NotFound), "nobody");
    Ok(())
}

async fn the_first_attempt_starts_the_operation(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let accepted_at = w.row(op).await?.accepted_at;
    w.advance(secs(10)).await;
    let first = w.begun(op).await?;
    let started_at = first.started_at;
    ensure!(
        started_at >= Some(accepted_at + secs(10)),
        "started_at is {started_at:?}"
    );
    w.retry(&first, Retry::not_applied("busy")).await??;
    w.advance(LONG).await;
    let second = w.begun(op).await?;
    ensure_eq!(
        second.started_at,
        started_at,
        "a later attempt does not move it"
    );
    ensure_eq!(second.accepted_at, accepted_at, "accepted_at stays");
    Ok(())
}
