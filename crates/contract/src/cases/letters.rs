//! What becomes of dead letters: open, redriven, dismissed; their lists and their counter.

use std::time::Duration;

use clinch_core::ports::{
    Accepted, DeadLetter, LetterAction, LetterChange, LetterChanged, LetterFilter, LetterOrder,
    LetterState, LetterStatus, LetterView, NewOperation, Operation, Prune, Write, Written,
};
use clinch_core::{Effect, ErrorKind, Failure as OpFailure, OpId, Status};

use crate::case::{Case, Failure, Verdict};
use crate::compare::unchanged;
use crate::concurrent::together;
use crate::fixtures::{self, KEYED, NATURAL, no, ok_answer, secs};
use crate::world::{World, failed_as, only};

pub(super) const CASES: &[Case] = area!(
    "letters",
    Store {
        a_redrive_marks_the_letter_in_the_commit_that_accepts_it: ["OUT-6"],
        a_letter_of_what_was_redriven_before_it_failed_is_redriven: ["OUT-6"],
        a_dismissal_keeps_when_who_and_why: ["OUT-6"],
        dismissing_twice_is_one_change: ["OUT-6"],
        a_dismissed_letter_can_be_opened_again: ["OUT-6"],
        a_redriven_letter_is_not_dismissed: ["OUT-6"],
        a_redrive_of_a_dismissed_letter_is_refused_alone: ["OUT-6"],
        a_redrive_after_a_reopen_is_accepted: ["OUT-6"],
        a_dismissal_and_a_redrive_at_once_never_both_happen: ["OUT-6"],
        a_letter_with_a_late_yes_stays_open: ["CORE-5", "OUT-6"],
        a_letter_without_its_operation_is_dismissed_too: ["OUT-6"],
        what_is_no_letter_is_not_found: ["OUT-6"],
        a_status_survives_a_crash: ["OUT-6"],
        a_change_that_failed_left_nothing: ["OUT-6"],
        open_letters_are_counted: ["OUT-6"],
    }
);

fn change(op_id: OpId, action: LetterAction) -> Verdict<LetterChange> {
    Ok(LetterChange {
        op_id,
        action,
        by: fixtures::worker(7)?,
        reason: "known bug".into(),
    })
}

async fn change_all(w: &World, action: LetterAction, ops: &[OpId]) -> Verdict<Vec<LetterChanged>> {
    let writes = ops.iter().map(|op| Ok(Write::Letter(change(*op, action)?)));
    let writes = writes.collect::<Verdict<Vec<_>>>()?;
    let written = w.store.commit(&writes, &w.routes).await?;
    let answers = written.into_iter().map(|one| Ok(one.letter()?));
    answers.collect()
}

pub(super) async fn dismiss(w: &World, op: OpId) -> Verdict<LetterChanged> {
    only(change_all(w, LetterAction::Dismiss, &[op]).await?)
}

async fn reopen(w: &World, op: OpId) -> Verdict<LetterChanged> {
    only(change_all(w, LetterAction::Reopen, &[op]).await?)
}

pub(super) async fn letter(w: &World, op: OpId) -> Verdict<LetterView> {
    let letter = only(w.recovery.letters(&[op]).await?)?;
    letter.ok_or_else(|| Failure::new(format!("{op} has no dead letter")))
}

fn redrive_of(w: &World, failed: &Operation) -> Verdict<NewOperation> {
    Ok(NewOperation {
        redrive_of: Some(failed.op_id),
        outbound_key: failed.outbound_key.clone(),
        inherited: failed.state.bequest(),
        ..w.op(failed.keys.domain.as_str())?
    })
}

/// Every letter that the filter selects, through pages of three.
pub(super) async fn pages(
    w: &World,
    filter: &LetterFilter,
    order: LetterOrder,
) -> Verdict<Vec<OpId>> {
    let (mut got, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = w
            .recovery
            .dead_letters(filter, order, cursor.as_deref(), 3)
            .await?;
        ensure!(page.items.len() <= 3, "a page has {}", page.items.len());
        got.extend(page.items.iter().map(|letter| letter.op_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(got);
        }
    }
}

pub(super) async fn in_state(w: &World, state: LetterState) -> Verdict<Vec<OpId>> {
    pages(w, &LetterFilter::of(Some(state)), LetterOrder::OldestFirst).await
}

async fn open_count(w: &World, domain: &str) -> Verdict<u64> {
    Ok(w.counts(domain).await?.dead_letters_open)
}

async fn a_redrive_marks_the_letter_in_the_commit_that_accepts_it(w: World) -> Verdict {
    let (failed, other) = (w.failed(NATURAL).await?, w.failed(NATURAL).await?);
    let redrive = redrive_of(&w, &failed)?;
    w.take_in(&redrive).await?;
    let by = redrive.op_id;
    ensure_eq!(
        letter(&w, failed.op_id).await?.status,
        LetterStatus::Redriven { by },
        "the letter"
    );
    let open = in_state(&w, LetterState::Open).await?;
    ensure_eq!(open, [other.op_id], "open letters");
    let redriven = in_state(&w, LetterState::Redriven).await?;
    ensure_eq!(redriven, [failed.op_id], "redriven letters");
    ensure_eq!(open_count(&w, NATURAL).await?, 1, "the counter");
    Ok(())
}

async fn a_letter_of_what_was_redriven_before_it_failed_is_redriven(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    let redrive = redrive_of(&w, &attempt)?;
    w.take_in(&redrive).await?;
    ensure_eq!(w.letters().await?, [], "no letter yet");
    w.settle_fail(&attempt).await??;
    let by = redrive.op_id;
    let status = letter(&w, attempt.op_id).await?.status;
    ensure_eq!(status, LetterStatus::Redriven { by }, "the letter");
    ensure_eq!(open_count(&w, NATURAL).await?, 0, "the counter");
    Ok(())
}

async fn a_dismissal_keeps_when_who_and_why(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    let lines = w.ledger(failed.op_id).await?.len();
    w.advance(secs(5)).await;
    let now = w.now().await?;
    ensure_eq!(
        dismiss(&w, failed.op_id).await?,
        LetterChanged::Changed,
        "the answer"
    );
    match letter(&w, failed.op_id).await?.status {
        LetterStatus::Dismissed { at, by, reason } => {
            ensure!(at >= now, "dismissed at {at:?}, before {now:?}");
            ensure_eq!(by, fixtures::worker(7)?, "who");
            ensure_eq!(reason, "known bug", "why");
        }
        other => return Err(Failure::new(format!("the letter is {other:?}"))),
    }
    unchanged(&failed, &w.row(failed.op_id).await?)?;
    let ledger = w.ledger(failed.op_id).await?;
    ensure_eq!(ledger.len(), lines + 1, "ledger lines");
    let last = ledger.last().map(|line| {
        (
            line.event.as_str(),
            line.note.as_str(),
            line.by.clone(),
            line.version,
        )
    });
    let by = Some(fixtures::worker(7)?);
    let expected = ("Dismissed", "known bug", by, failed.state.version);
    ensure_eq!(last, Some(expected), "the line");
    Ok(())
}

async fn dismissing_twice_is_one_change(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?.op_id;
    let lines = w.ledger(failed).await?.len();
    let answers = change_all(&w, LetterAction::Dismiss, &[failed, failed]).await?;
    let expected = [LetterChanged::Changed, LetterChanged::Already];
    ensure_eq!(answers, expected, "twice in one call");
    let first = letter(&w, failed).await?;
    w.advance(secs(5)).await;
    together(3, |_| {
        let w = w.clone();
        async move {
            ensure_eq!(dismiss(&w, failed).await?, LetterChanged::Already, "again");
            Ok(())
        }
    })
    .await?;
    ensure_eq!(letter(&w, failed).await?, first, "the letter");
    ensure_eq!(w.ledger(failed).await?.len(), lines + 1, "ledger lines");
    ensure_eq!(open_count(&w, NATURAL).await?, 0, "the counter");
    Ok(())
}

async fn a_dismissed_letter_can_be_opened_again(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?.op_id;
    let before = letter(&w, failed).await?;
    ensure_eq!(
        reopen(&w, failed).await?,
        LetterChanged::Already,
        "an open one"
    );
    dismiss(&w, failed).await?;
    ensure_eq!(
        in_state(&w, LetterState::Open).await?,
        [],
        "while dismissed"
    );
    ensure_eq!(
        reopen(&w, failed).await?,
        LetterChanged::Changed,
        "the answer"
    );
    ensure_eq!(letter(&w, failed).await?, before, "as it was");
    let ledger = w.ledger(failed).await?;
    let events: Vec<&str> = ledger.iter().map(|line| line.event.as_str()).collect();
    ensure!(
        events.ends_with(&["Dismissed", "Reopened"]),
        "the ledger: {events:?}"
    );
    ensure_eq!(open_count(&w, NATURAL).await?, 1, "the counter");
    Ok(())
}

async fn a_redriven_letter_is_not_dismissed(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    w.take_in(&redrive_of(&w, &failed)?).await?;
    let before = letter(&w, failed.op_id).await?;
    let lines = w.ledger(failed.op_id).await?.len();
    for action in [LetterAction::Dismiss, LetterAction::Reopen] {
        let answers = change_all(&w, action, &[failed.op_id]).await?;
        ensure_eq!(answers, [LetterChanged::Redriven], "{action:?}");
    }
    ensure_eq!(letter(&w, failed.op_id).await?, before, "the letter");
    ensure_eq!(w.ledger(failed.op_id).await?.len(), lines, "ledger lines");
    Ok(())
}

async fn a_redrive_of_a_dismissed_letter_is_refused_alone(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    dismiss(&w, failed.op_id).await?;
    let new = [redrive_of(&w, &failed)?, w.op(NATURAL)?];
    let answers = w.accept_all(&new).await?;
    ensure_eq!(answers[0], Accepted::PredecessorDismissed, "the redrive");
    let is_new = matches!(answers[1], Accepted::New { .. });
    ensure!(is_new, "the other item: {:?}", answers[1]);
    ensure_eq!(w.look(new[0].op_id).await?, None, "the refused redrive");
    ensure_eq!(w.find(&new[0]).await?, None, "its key");
    let row = w.row(failed.op_id).await?;
    ensure_eq!(row.redriven_by, None, "the predecessor");
    ensure_eq!(
        in_state(&w, LetterState::Dismissed).await?,
        [failed.op_id],
        "the letter"
    );
    Ok(())
}

async fn a_redrive_after_a_reopen_is_accepted(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    dismiss(&w, failed.op_id).await?;
    // In one commit: the redrive sees what the write before it changed.
    let redrive = redrive_of(&w, &failed)?;
    let writes = [
        Write::Letter(change(failed.op_id, LetterAction::Reopen)?),
        Write::Accept(redrive.clone()),
        Write::Letter(change(failed.op_id, LetterAction::Dismiss)?),
    ];
    let written = w.store.commit(&writes, &w.routes).await?;
    ensure_eq!(
        written[0],
        Written::Letter(LetterChanged::Changed),
        "the reopen"
    );
    ensure_eq!(
        written[2],
        Written::Letter(LetterChanged::Redriven),
        "the dismissal"
    );
    let by = redrive.op_id;
    let status = letter(&w, failed.op_id).await?.status;
    ensure_eq!(status, LetterStatus::Redriven { by }, "the letter");
    ensure_eq!(open_count(&w, NATURAL).await?, 0, "the counter");
    Ok(())
}

async fn a_dismissal_and_a_redrive_at_once_never_both_happen(w: World) -> Verdict {
    for round in 0..8 {
        let failed = w.failed(NATURAL).await?;
        let redrive = redrive_of(&w, &failed)?;
        let op = redrive.op_id;
        together(2, |number| {
            let (w, redrive, failed) = (w.clone(), redrive.clone(), failed.op_id);
            async move {
                match number {
                    0 => w.accept_all(&[redrive]).await.map(drop),
                    _ => dismiss(&w, failed).await.map(drop),
                }
            }
        })
        .await?;
        let status = letter(&w, failed.op_id).await?.status;
        let redriven = w.look(op).await?.is_some();
        let agrees = match &status {
            LetterStatus::Redriven { by } => redriven && *by == op,
            LetterStatus::Dismissed { .. } => !redriven,
            LetterStatus::Open => false,
        };
        ensure!(agrees, "round {round}: {status:?}, redriven: {redriven}");
    }
    ensure_eq!(open_count(&w, NATURAL).await?, 0, "the counter");
    Ok(())
}

async fn a_letter_with_a_late_yes_stays_open(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?;
    w.settle(ok_answer(failed.op_id, None, "late")?).await??;
    let answers = w.accept_all(&[redrive_of(&w, &failed)?]).await?;
    ensure_eq!(answers, [Accepted::PredecessorApplied], "the redrive");
    let marked = letter(&w, failed.op_id).await?;
    ensure!(marked.late_ok, "the mark");
    ensure_eq!(marked.status, LetterStatus::Open, "its status");
    ensure_eq!(
        dismiss(&w, failed.op_id).await?,
        LetterChanged::Changed,
        "the answer"
    );
    ensure!(letter(&w, failed.op_id).await?.late_ok, "the mark stays");
    Ok(())
}

fn stray(w: &World) -> Verdict<DeadLetter> {
    let new = w.op(NATURAL)?;
    Ok(DeadLetter {
        op_id: new.op_id,
        keys: new.keys,
        failure: OpFailure::from_fail(no(), Effect::None),
        attempts: 1,
        payload: new.payload,
        content_hash: new.content_hash,
        failed_at: clinch_core::Timestamp::from_millis(1_000),
        late_ok: false,
    })
}

async fn a_letter_without_its_operation_is_dismissed_too(w: World) -> Verdict {
    let stray = stray(&w)?;
    w.recovery.import(std::slice::from_ref(&stray)).await?;
    ensure_eq!(open_count(&w, NATURAL).await?, 1, "the counter");
    let shown = letter(&w, stray.op_id).await?;
    let shown = (shown.seq, shown.status, shown.keys, shown.failure);
    let expected = (0, LetterStatus::Open, stray.keys, stray.failure);
    ensure_eq!(shown, expected, "as it was imported");
    ensure_eq!(
        dismiss(&w, stray.op_id).await?,
        LetterChanged::Changed,
        "the answer"
    );
    ensure_eq!(
        in_state(&w, LetterState::Dismissed).await?,
        [stray.op_id],
        "dismissed"
    );
    ensure_eq!(open_count(&w, NATURAL).await?, 0, "the counter");
    ensure_eq!(w.look(stray.op_id).await?, None, "there is no operation");
    Ok(())
}

async fn what_is_no_letter_is_not_found(w: World) -> Verdict {
    let (open, completed) = (w.pending(NATURAL).await?, w.completed(NATURAL).await?.op_id);
    let canceled = w.pending(NATURAL).await?;
    w.cancel(canceled).await?;
    let ops = [open, completed, canceled, w.ids.op_id()];
    for action in [LetterAction::Dismiss, LetterAction::Reopen] {
        let answers = change_all(&w, action, &ops).await?;
        ensure_eq!(answers, [LetterChanged::NotFound; 4], "{action:?}");
    }
    ensure_eq!(
        w.row(canceled).await?.state.status,
        Status::Failed,
        "canceled"
    );
    Ok(())
}

async fn a_status_survives_a_crash(w: World) -> Verdict {
    let (dismissed, redriven) = (w.failed(NATURAL).await?, w.failed(NATURAL).await?);
    dismiss(&w, dismissed.op_id).await?;
    w.take_in(&redrive_of(&w, &redriven)?).await?;
    let before = w.letters().await?;
    let w = w.crash().await?;
    ensure_eq!(w.letters().await?, before, "the letters");
    ensure_eq!(
        dismiss(&w, dismissed.op_id).await?,
        LetterChanged::Already,
        "again"
    );
    Ok(())
}

async fn a_change_that_failed_left_nothing(w: World) -> Verdict {
    let failed = w.failed(NATURAL).await?.op_id;
    let before = (letter(&w, failed).await?, w.ledger(failed).await?);
    for fault in super::atomic::FAULTS {
        w.arm(fault).await;
        let writes = [Write::Letter(change(failed, LetterAction::Dismiss)?)];
        let written = w.store.commit(&writes, &w.routes).await;
        failed_as(written, ErrorKind::Unavailable)?;
        let after = (letter(&w, failed).await?, w.ledger(failed).await?);
        ensure_eq!(after, before, "{fault:?}: letter and ledger");
        ensure_eq!(open_count(&w, NATURAL).await?, 1, "{fault:?}: the counter");
    }
    ensure_eq!(
        dismiss(&w, failed).await?,
        LetterChanged::Changed,
        "afterwards"
    );
    Ok(())
}

async fn open_letters_are_counted(w: World) -> Verdict {
    let mut failed = Vec::new();
    for _ in 0..5 {
        failed.push(w.failed(NATURAL).await?);
    }
    let other = w.failed(KEYED).await?.op_id;
    let stray = stray(&w)?;
    w.recovery.import(&[stray.clone(), stray]).await?;
    ensure_eq!(open_count(&w, NATURAL).await?, 6, "failed and imported");
    dismiss(&w, failed[0].op_id).await?;
    dismiss(&w, failed[1].op_id).await?;
    w.take_in(&redrive_of(&w, &failed[2])?).await?;
    ensure_eq!(open_count(&w, NATURAL).await?, 3, "dismissed and redriven");
    reopen(&w, failed[1].op_id).await?;
    ensure_eq!(open_count(&w, NATURAL).await?, 4, "reopened");
    w.advance(secs(100)).await;
    let young = w.failed(NATURAL).await?.op_id;
    ensure_eq!(open_count(&w, NATURAL).await?, 5, "another one");
    ensure_eq!(open_count(&w, KEYED).await?, 1, "of the other domain");
    let prune = Prune {
        completed: Duration::MAX / 4,
        failed: secs(50),
        keys: Duration::MAX / 4,
        max: 1_000,
        reckoned: None,
        jump_max: Duration::MAX / 4,
    };
    w.recovery.prune(&prune).await?;
    // Three open letters, one dismissed and one redriven are gone; the import has no operation.
    ensure_eq!(open_count(&w, NATURAL).await?, 2, "after a prune");
    ensure_eq!(open_count(&w, KEYED).await?, 0, "of the other domain");
    let left = only(w.recovery.letters(&[other]).await?)?;
    ensure_eq!(left, None, "the letter of a pruned operation");
    let answers = change_all(&w, LetterAction::Dismiss, &[other, young]).await?;
    let expected = [LetterChanged::NotFound, LetterChanged::Changed];
    ensure_eq!(answers, expected, "a pruned one and a young one");
    ensure_eq!(open_count(&w, NATURAL).await?, 1, "at the end");
    Ok(())
}
