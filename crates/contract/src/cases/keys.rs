//! The four keys: the same four always name the same operation.

use clinch_core::ports::{Accepted, Known, NewOperation};
use clinch_core::{EventType, Fingerprint, OpId, Payload, Status};

use crate::case::{Case, Failure, Verdict};
use crate::compare::unchanged;
use crate::concurrent::together;
use crate::fixtures::{self, NATURAL, UNSAFE, operation, payload};
use crate::world::{World, ids};

pub(super) const CASES: &[Case] = area!(
    "keys",
    Store {
        known_keys_answer_the_existing_operation: ["CORE-6"],
        known_keys_tell_where_the_operation_stands: ["CORE-6"],
        one_operation_under_64_concurrent_callers: ["CORE-6"],
        known_keys_within_one_call: ["CORE-6"],
        another_payload_is_a_mismatch_that_names_the_operation: ["CORE-6"],
        one_of_the_offered_fingerprints_is_enough: ["CORE-6"],
        only_the_first_fingerprint_is_kept: ["CORE-6"],
        keys_differ_by_any_byte: ["CORE-6"],
        with_begin_and_known_keys_begins_nothing: ["CORE-6"],
    }
);

async fn known_keys_answer_the_existing_operation(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    w.take_in(&new).await?;
    let before = w.row(new.op_id).await?;
    let second = again(&w, &new)?;
    let answer = w.accept(&second).await?;
    ensure_eq!(
        answer,
        Accepted::Known(known(new.op_id, Status::Pending)),
        "the second answer"
    );
    ensure_eq!(w.look(second.op_id).await?, None, "no second row");
    unchanged(&before, &w.row(new.op_id).await?)?;
    ensure_eq!(w.counts(NATURAL).await?.pending, 1, "one is PENDING");
    ensure_eq!(ids(&w.claim(9).await?), [new.op_id], "one queue row");
    Ok(())
}

async fn known_keys_tell_where_the_operation_stands(w: World) -> Verdict {
    let mut stands = Vec::new();
    for _ in 0..4 {
        stands.push(w.op(NATURAL)?);
    }
    w.accept_all(&stands).await?;
    for new in &stands[1..] {
        w.begun(new.op_id).await?;
    }
    w.settle_ok(&w.row(stands[2].op_id).await?).await??;
    w.settle_fail(&w.row(stands[3].op_id).await?).await??;
    let expected = [
        Status::Pending,
        Status::InProgress,
        Status::Completed,
        Status::Failed,
    ];
    for (new, status) in stands.iter().zip(expected) {
        let answer = w.accept(&again(&w, new)?).await?;
        ensure_eq!(
            answer,
            Accepted::Known(known(new.op_id, status)),
            "a replay"
        );
        ensure_eq!(w.find(new).await?, Some(known(new.op_id, status)), "find");
    }
    Ok(())
}

async fn one_operation_under_64_concurrent_callers(w: World) -> Verdict {
    const CALLERS: usize = 64;
    for round in 1..=5 {
        let new = w.op(NATURAL)?;
        let answers = together(CALLERS, |_| {
            let w = w.clone();
            let mine = again(&w, &new);
            async move {
                let mine = mine?;
                Ok((mine.op_id, w.accept(&mine).await?))
            }
        })
        .await?;
        let winners: Vec<_> = answers
            .iter()
            .filter(|(_, answer)| matches!(answer, Accepted::New { .. }))
            .collect();
        ensure_eq!(winners.len(), 1, "callers that were told New");
        let winner = winners[0].0;
        for (_, answer) in &answers {
            match answer {
                Accepted::New { .. } => {}
                Accepted::Known(known) => ensure_eq!(known.op_id, winner, "the one operation"),
                other => return Err(Failure::new(format!("a caller was told {other:?}"))),
            }
        }
        ensure_eq!(
            w.counts(NATURAL).await?.pending,
            round,
            "operations after {round} rounds"
        );
        ensure_eq!(
            ids(&w.claim(CALLERS).await?),
            [winner],
            "queue rows of this round"
        );
    }
    Ok(())
}

async fn known_keys_within_one_call(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    let batch = [
        new.clone(),
        again(&w, &new)?,
        other(&w, &new)?,
        w.op(NATURAL)?,
    ];
    let answers = w.accept_all(&batch).await?;
    ensure!(
        matches!(answers[0], Accepted::New { .. }),
        "the first is new: {:?}",
        answers[0]
    );
    let pending = known(new.op_id, Status::Pending);
    ensure_eq!(
        answers[1],
        Accepted::Known(pending.clone()),
        "the same request again"
    );
    ensure_eq!(answers[2], Accepted::Mismatch(pending), "another request");
    ensure!(
        matches!(answers[3], Accepted::New { .. }),
        "another key is new"
    );
    ensure_eq!(w.counts(NATURAL).await?.pending, 2, "operations");
    Ok(())
}

async fn another_payload_is_a_mismatch_that_names_the_operation(w: World) -> Verdict {
    let new = w.op(UNSAFE)?;
    w.take_in(&new).await?;
    let before = w.row(new.op_id).await?;
    let wrong = other(&w, &new)?;
    let answer = w.accept(&wrong).await?;
    ensure_eq!(
        answer,
        Accepted::Mismatch(known(new.op_id, Status::Pending)),
        "the refusal"
    );
    ensure_eq!(w.look(wrong.op_id).await?, None, "nothing was taken in");
    unchanged(&before, &w.row(new.op_id).await?)
}

async fn one_of_the_offered_fingerprints_is_enough(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    w.take_in(&new).await?;
    let mut sealed = again(&w, &new)?;
    sealed
        .fingerprints
        .insert(0, Fingerprint::keyed(b"key", &Payload::null()));
    let answer = w.accept(&sealed).await?;
    ensure_eq!(
        answer,
        Accepted::Known(known(new.op_id, Status::Pending)),
        "a sealed replay"
    );
    Ok(())
}

async fn only_the_first_fingerprint_is_kept(w: World) -> Verdict {
    let plain = w.op(NATURAL)?;
    let keyed = Fingerprint::keyed(b"key", &Payload::null());
    let mut new = plain.clone();
    new.fingerprints.insert(0, keyed);
    w.take_in(&new).await?;
    let is_mismatch = matches!(w.accept(&again(&w, &plain)?).await?, Accepted::Mismatch(_));
    ensure!(
        is_mismatch,
        "a fingerprint that was only offered counts as stored"
    );
    let mut same = again(&w, &plain)?;
    same.fingerprints = vec![keyed];
    let is_known = matches!(w.accept(&same).await?, Accepted::Known(_));
    ensure!(is_known, "the first fingerprint was not stored");
    Ok(())
}

async fn keys_differ_by_any_byte(w: World) -> Verdict {
    let spellings = [
        ("order-1", "a"),
        ("Order-1", "a"),
        ("órder-1", "a"),
        ("order-1", "A"),
        ("order-1a", "b"),
        ("order-1", "ab"),
        ("order-", "1a"),
        ("order-1", "ａ"),
        ("order-1", "a\u{308}"),
        ("order-1", "ä"),
    ];
    for (biz_key, idem_key) in spellings {
        let keys = fixtures::keys(NATURAL, biz_key, idem_key)?;
        w.take_in(&operation(w.ids.op_id(), keys, &Payload::null()))
            .await?;
    }
    let mut keys = fixtures::keys(NATURAL, "order-1", "a")?;
    keys.event_type = EventType::new("other")?;
    w.take_in(&operation(w.ids.op_id(), keys, &Payload::null()))
        .await?;
    let keys = fixtures::keys(UNSAFE, "order-1", "a")?;
    w.take_in(&operation(w.ids.op_id(), keys, &Payload::null()))
        .await?;
    Ok(())
}

/// The same request under another op_id.
fn again(w: &World, new: &NewOperation) -> Verdict<NewOperation> {
    Ok(NewOperation {
        op_id: w.ids.op_id(),
        ..new.clone()
    })
}

/// The same keys with another payload.
fn other(w: &World, new: &NewOperation) -> Verdict<NewOperation> {
    Ok(operation(
        w.ids.op_id(),
        new.keys.clone(),
        &payload(999_999)?,
    ))
}

fn known(op_id: OpId, status: Status) -> Known {
    Known {
        op_id,
        status,
        pruned: false,
    }
}

async fn with_begin_and_known_keys_begins_nothing(w: World) -> Verdict {
    let new = w.op(NATURAL)?;
    w.take_in(&new).await?;
    let before = w.row(new.op_id).await?;
    let mut second = again(&w, &new)?;
    second.begin = Some(w.ids.begin(second.op_id, 0)?);
    let answer = w.accept(&second).await?;
    ensure_eq!(
        answer,
        Accepted::Known(known(new.op_id, Status::Pending)),
        "the answer"
    );
    unchanged(&before, &w.row(new.op_id).await?)
}
