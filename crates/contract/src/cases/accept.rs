//! Store::accept: operation, key and queue row are committed together and once.

use clinch_core::ports::{Accepted, NewOperation, Scan};
use clinch_core::protocol::{Inherited, State};
use clinch_core::{Effect, Payload, Status};

use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::compare::same_state;
use crate::concurrent::together;
use crate::fixtures::{
    self, AGES, DEADLINE, KEYED, LANE, LONG, NATURAL, UNROUTED, UNSAFE, deadline, label, operation,
    run_at, secs,
};
use crate::world::{World, ids};

pub(super) const CASES: &[Case] = area!(
    "accept",
    Store {
        takes_in_an_operation_with_its_queue_row: ["CORE-9", "CORE-13"],
        keeps_every_field: ["CORE-1"],
        seq_grows_within_a_key: ["CORE-11"],
        seq_grows_after_the_lane_was_empty: ["CORE-11"],
        seq_is_distinct_under_concurrent_callers: ["CORE-11"],
        with_begin_is_live_in_the_same_commit: ["CORE-9", "CORE-8"],
        with_begin_refused_is_as_without: ["CORE-9"],
        a_closed_batch_refuses_that_item_alone: [],
        a_redrive_marks_its_predecessor: [],
        a_redrive_inherits_what_may_have_happened: ["CORE-7"],
        the_deadline_is_the_commands_or_the_routes: [],
        a_routes_deadline_counts_from_run_at: [],
        takes_none_and_answers_none: [],
    }
);

async fn takes_in_an_operation_with_its_queue_row(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    let before = w.now().await?;
    let (seq, state) = w.take_in(&new).await?;
    let after = w.now().await?;
    let fresh = |at| State::accepted(at, Some(at + DEADLINE), Inherited::default());
    same_state(&state, &fresh(before), &fresh(after))?;
    let row = w.row(new.op_id).await?;
    ensure_eq!(row.state, state, "the stored state");
    ensure_eq!(row.seq, seq, "the stored seq");
    ensure!(
        before <= row.accepted_at && row.accepted_at <= after,
        "accepted_at is off"
    );
    ensure_eq!(
        (row.started_at, row.finished_at),
        (None, None),
        "nothing began or ended"
    );
    ensure_eq!(ids(&w.claim(9).await?), [new.op_id], "its queue row is due");
    ensure_eq!(w.counts(NATURAL).await?.pending, 1, "one is PENDING");
    Ok(())
}

async fn keeps_every_field(w: World) -> Verdict {
    let big = Payload::from_value(&"x".repeat(200_000), 256 * 1024)?;
    let longest = "ключ-".repeat(28);
    let mut new = operation(
        w.ids.op_id(),
        fixtures::keys(KEYED, &longest, "이뎀/α \"'\\")?,
        &big,
    );
    new.options = label("team", "shop 'n\" ünï")?;
    new.options.run_at = Some(w.now().await? + secs(5));
    new.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    let empty = fixtures::stored(w.op(KEYED)?, vec![]);
    let bytes = fixtures::stored(w.op(KEYED)?, (0..=255).collect());
    for new in [new, empty, bytes] {
        w.take_in(&new).await?;
        let row = w.row(new.op_id).await?;
        ensure_eq!(row.op_id, new.op_id, "op_id");
        ensure_eq!(row.keys, new.keys, "keys");
        ensure!(row.payload == new.payload, "the payload came back changed");
        ensure_eq!(row.content_hash, new.content_hash, "content hash");
        ensure_eq!(row.outbound_key, new.outbound_key, "outbound key");
        ensure_eq!(row.options, new.options, "options");
        ensure_eq!(row.trace, new.trace, "trace");
        ensure_eq!(
            (row.batch_id, row.redrive_of, row.redriven_by),
            (None, None, None),
            "links"
        );
        ensure_eq!(
            (&row.result, &row.checkpoint),
            (&None, &None),
            "result and checkpoint"
        );
        ensure_eq!(row.dispatch_no, 0, "publications");
    }
    Ok(())
}

async fn seq_grows_within_a_key(w: World) -> Verdict {
    for domain in [NATURAL, LANE] {
        let (mut last, mut one_call) = (None, Vec::new());
        for _ in 0..5 {
            let (seq, _) = w.take_in(&w.op_for(domain, "order-1")?).await?;
            ensure!(Some(seq) > last, "seq {seq} came after {last:?}");
            last = Some(seq);
            one_call.push(w.op_for(domain, "order-1")?);
        }
        for answer in w.accept_all(&one_call).await? {
            let Accepted::New { seq, .. } = answer else {
                return Err(Failure::new(format!(
                    "expected new operations, got {answer:?}"
                )));
            };
            ensure!(
                Some(seq) > last,
                "in one call seq {seq} came after {last:?}"
            );
            last = Some(seq);
        }
    }
    Ok(())
}

async fn seq_grows_after_the_lane_was_empty(w: World) -> Verdict {
    let (mut w, mut last) = (w, None);
    for round in 0..4 {
        let new = w.op_for(LANE, "order-1")?;
        let (seq, _) = w.take_in(&new).await?;
        ensure!(
            Some(seq) > last,
            "seq {seq} came after {last:?} in round {round}"
        );
        last = Some(seq);
        let attempt = w.begun(new.op_id).await?;
        w.settle_ok(&attempt).await??;
        if round == 2 {
            w = w.crash().await?;
        }
    }
    Ok(())
}

async fn seq_is_distinct_under_concurrent_callers(w: World) -> Verdict {
    for domain in [NATURAL, LANE] {
        let mut seqs = together(16, |_| {
            let w = w.clone();
            async move {
                let mut seqs = Vec::new();
                for _ in 0..4 {
                    seqs.push(w.take_in(&w.op_for(domain, "order-1")?).await?.0);
                }
                ensure!(seqs.is_sorted(), "one caller's seqs went back: {seqs:?}");
                Ok(seqs)
            }
        })
        .await?
        .concat();
        seqs.sort_unstable();
        seqs.dedup();
        ensure_eq!(seqs.len(), 64, "distinct seqs of {domain}");
    }
    Ok(())
}

async fn with_begin_is_live_in_the_same_commit(w: World) -> Verdict {
    let mut new = w.op(NATURAL)?;
    let begin = w.ids.begin(new.op_id, 0)?;
    new.begin = Some(begin.clone());
    let (_, state) = w.take_in(&new).await?;
    ensure_eq!(state.status, Status::InProgress, "the state");
    ensure_eq!((state.fence, state.attempts), (1, 1), "fence and attempts");
    ensure_eq!(state.attempt_id, Some(begin.attempt_id), "the attempt id");
    let row = w.row(new.op_id).await?;
    ensure_eq!(row.state, state, "the stored state");
    ensure!(row.started_at.is_some(), "it has started");
    ensure_eq!(ids(&w.claim(9).await?), [], "a live row is not announced");
    ensure_eq!(w.counts(NATURAL).await?.live, 1, "one is live");
    w.settle_ok(&row).await??;
    ensure_eq!(
        w.row(new.op_id).await?.state.status,
        Status::Completed,
        "the end"
    );
    Ok(())
}

async fn with_begin_refused_is_as_without(w: World) -> Verdict {
    let now = w.now().await?;
    w.pause(KEYED, true).await?;
    w.take_in(&w.op_for(LANE, "order-1")?).await?;
    let doubtful = Inherited {
        effect: Effect::Unknown,
        first_call_at: Some(now),
        maybe_calls: 1,
        call_deadline: Some(now),
    };
    let refused = [
        ("paused", w.op(KEYED)?),
        (
            "not due",
            NewOperation {
                options: run_at(now + LONG),
                ..w.op(NATURAL)?
            },
        ),
        (
            "overdue",
            NewOperation {
                options: deadline(now - secs(9)),
                ..w.op(NATURAL)?
            },
        ),
        ("behind in its lane", w.op_for(LANE, "order-1")?),
        ("without a route", w.op(UNROUTED)?),
        (
            "not to be repeated",
            NewOperation {
                inherited: doubtful,
                ..w.op(UNSAFE)?
            },
        ),
    ];
    for (why, mut new) in refused {
        new.begin = Some(w.ids.begin(new.op_id, 0)?);
        let (_, state) = w.take_in(&new).await?;
        ensure_eq!(state.status, Status::Pending, "{why}: the state");
        ensure_eq!(
            (state.version, state.fence, state.attempts),
            (1, 0, 0),
            "{why}: counts"
        );
        let row = w.row(new.op_id).await?;
        ensure_eq!(row.state, state, "{why}: the stored state");
        ensure_eq!(row.started_at, None, "{why}: not started");
    }
    Ok(())
}

async fn a_closed_batch_refuses_that_item_alone(w: World) -> Verdict {
    let (open, sealed) = (w.ids.batch_id(), w.ids.batch_id());
    let batch = |batch_id| clinch_core::ports::NewBatch {
        batch_id,
        on_complete: None,
        owner: clinch_core::ports::Restriction::default(),
    };
    w.batches.open(&[batch(open), batch(sealed)]).await?;
    w.store.seal(&[sealed], &w.routes).await?;
    let member = |batch_id| -> Verdict<NewOperation> {
        Ok(NewOperation {
            batch_id: Some(batch_id),
            ..w.op(NATURAL)?
        })
    };
    let unknown = w.ids.batch_id();
    let new = [
        member(open)?,
        member(sealed)?,
        member(unknown)?,
        w.op(NATURAL)?,
    ];
    let answers = w.accept_all(&new).await?;
    ensure!(
        matches!(answers[0], Accepted::New { .. }),
        "an open batch: {:?}",
        answers[0]
    );
    ensure_eq!(answers[1], Accepted::BatchClosed, "a sealed batch");
    ensure_eq!(answers[2], Accepted::BatchClosed, "an unknown batch");
    ensure!(
        matches!(answers[3], Accepted::New { .. }),
        "no batch: {:?}",
        answers[3]
    );
    for refused in &new[1..3] {
        ensure_eq!(w.look(refused.op_id).await?, None, "the refused item");
        ensure_eq!(w.find(refused).await?, None, "the key of the refused item");
    }
    ensure_eq!(
        w.row(new[0].op_id).await?.batch_id,
        Some(open),
        "the member"
    );
    Ok(())
}

async fn a_redrive_marks_its_predecessor(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    let redrive = NewOperation {
        redrive_of: Some(failed.op_id),
        outbound_key: failed.outbound_key.clone(),
        ..w.op(NATURAL)?
    };
    w.take_in(&redrive).await?;
    let row = w.row(redrive.op_id).await?;
    ensure_eq!(
        row.redrive_of,
        Some(failed.op_id),
        "the redrive names its predecessor"
    );
    ensure_eq!(row.outbound_key, failed.outbound_key, "and sends its key");
    let before = w.row(failed.op_id).await?;
    ensure_eq!(
        before.redriven_by,
        Some(redrive.op_id),
        "the predecessor is marked"
    );
    ensure_eq!(
        before.state,
        failed.state,
        "the predecessor stays as it ended"
    );
    Ok(())
}

async fn a_redrive_inherits_what_may_have_happened(w: World) -> Verdict {
    let now = w.now().await?;
    let inherited = Inherited {
        effect: Effect::Unknown,
        first_call_at: Some(now - secs(60)),
        maybe_calls: 2,
        call_deadline: Some(now - secs(30)),
    };
    let (_, state) = w
        .take_in(&NewOperation {
            inherited,
            ..w.op(KEYED)?
        })
        .await?;
    ensure_eq!(state.bequest(), inherited, "what was inherited");
    Ok(())
}

async fn the_deadline_is_the_commands_or_the_routes(w: World) -> Verdict {
    let before = w.now().await?;
    let (_, by_route) = w.take_in(&w.op(NATURAL)?).await?;
    let after = w.now().await?;
    let ends = by_route.deadline;
    ensure!(
        Some(before + DEADLINE) <= ends && ends <= Some(after + DEADLINE),
        "the route's deadline: {ends:?}"
    );
    let own = before + secs(77);
    let (_, state) = w
        .take_in(&NewOperation {
            options: deadline(own),
            ..w.op(NATURAL)?
        })
        .await?;
    ensure_eq!(state.deadline, Some(own), "the command's deadline");
    Ok(())
}

async fn a_routes_deadline_counts_from_run_at(w: World) -> Verdict {
    let before = w.now().await?;
    let later = before + AGES;
    let new = NewOperation {
        options: run_at(later),
        ..w.op(NATURAL)?
    };
    let (_, state) = w.take_in(&new).await?;
    ensure_eq!(state.deadline, Some(later + DEADLINE), "after run_at");
    let (_, state) = w
        .take_in(&NewOperation {
            options: run_at(before - AGES),
            ..w.op(NATURAL)?
        })
        .await?;
    let after = w.now().await?;
    let ends = state.deadline;
    ensure!(
        Some(before + DEADLINE) <= ends && ends <= Some(after + DEADLINE),
        "a run_at that has passed: {ends:?}"
    );
    w.advance(AGES).await;
    let overdue = w.scan(Scan::Overdue).await?;
    ensure!(!overdue.contains(&new.op_id), "it is overdue before it ran");
    let attempt = w.begun(new.op_id).await?;
    ensure_eq!(attempt.state.attempts, 1, "it runs at its time");
    Ok(())
}

async fn takes_none_and_answers_none(w: World) -> Verdict {
    ensure_eq!(w.accept_all(&[]).await?, [], "accept");
    ensure_eq!(w.store.begin(&[], &w.routes).await?, [], "begin");
    ensure_eq!(w.store.extend(&[]).await?, [], "extend");
    ensure_eq!(
        w.store.write_ahead(&[], &w.routes).await?,
        [],
        "write_ahead"
    );
    ensure_eq!(w.store.finalize(&[], &w.routes).await?, [], "finalize");
    ensure_eq!(w.store.settle(&[], &w.routes).await?, [], "settle");
    ensure_eq!(w.store.reschedule(&[], &w.routes).await?, [], "reschedule");
    ensure_eq!(w.store.amend(&[], &w.routes).await?, [], "amend");
    ensure_eq!(w.inspect.get(&[]).await?, [], "get");
    ensure_eq!(w.inspect.find(&[]).await?, [], "find");
    w.outbox.published(&[]).await?;
    w.outbox.release(&[]).await?;
    Ok(())
}
