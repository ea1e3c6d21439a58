//! Reports that name their attempt: only the attempt of the row's last begin counts.

use clinch_core::ports::{Amendment, Answer, Changed, Extension, Operation, Refused, Reschedule};
use clinch_core::protocol::{Event, Why};
use clinch_core::{AttemptId, LeaseToken, OpId, Retry, Sealed, Status};

use crate::calls::Calls;
use crate::case::{Case, Failure, Verdict};
use crate::compare::unchanged;
use crate::fixtures::{LEASE, NATURAL, UNSAFE, fail_answer, ok_answer, worker};
use crate::world::{World, only};

pub(super) const CASES: &[Case] = area!(
    "proof",
    Store {
        a_report_that_names_another_attempt_changes_nothing: ["RUN-7", "CORE-13"],
        a_fence_that_no_begin_gave_changes_nothing: ["RUN-7", "CORE-13"],
        an_earlier_attempt_is_told_apart_from_a_stranger: ["RUN-7"],
        a_report_that_names_its_attempt_counts: ["RUN-7"],
        the_ledger_keeps_the_id_of_a_leased_attempt: ["RUN-7"],
    }
);

/// Every call with which an attempt can report.
const REPORTS: [&str; 8] = [
    "extend",
    "record yes",
    "record no",
    "settle yes",
    "settle no",
    "not called",
    "retry",
    "checkpoint",
];

/// The attempt that reports.
#[derive(Clone, Copy)]
struct By {
    op_id: OpId,
    fence: u64,
    attempt_id: Option<AttemptId>,
}

impl By {
    fn answer(self, answer: Answer) -> Answer {
        Answer {
            attempt_id: self.attempt_id,
            ..answer
        }
    }

    fn ended(self, retry: Retry) -> Verdict<Reschedule> {
        Ok(Reschedule {
            op_id: self.op_id,
            fence: self.fence,
            worker: worker(0)?,
            retry,
            attempt_id: self.attempt_id,
        })
    }
}

async fn report(w: &World, by: By, what: &str) -> Verdict<Result<Changed, Refused>> {
    let By {
        op_id,
        fence,
        attempt_id,
    } = by;
    let yes = || Ok::<_, Failure>(by.answer(ok_answer(op_id, Some(fence), "txn")?));
    let no = || Ok::<_, Failure>(by.answer(fail_answer(op_id, fence)?));
    let ended = async |retry| only(w.store.reschedule(&[by.ended(retry)?], &w.routes).await?);
    match what {
        "extend" => {
            let extension = Extension {
                op_id,
                fence,
                lease: LEASE * 9,
                attempt_id,
            };
            only(w.store.extend(&[extension]).await?)
        }
        "record yes" => w.write_ahead(yes()?).await,
        "record no" => w.write_ahead(no()?).await,
        "settle yes" => w.settle(yes()?).await,
        "settle no" => w.settle(no()?).await,
        "not called" => ended(Retry::not_called("released")).await,
        "retry" => ended(Retry::not_applied("busy")).await,
        _ => {
            let amendment = w.amendment(op_id, Event::Checkpoint { fence })?;
            let amendment = Amendment {
                checkpoint: Some(Sealed::new(vec![7])),
                attempt_id,
                ..amendment
            };
            w.amend_with(amendment).await
        }
    }
}

/// The report is refused for this reason; row and ledger do not change.
async fn is_refused(w: &World, row: &Operation, by: By, why: Why) -> Verdict {
    let lines = w.ledger(row.op_id).await?.len();
    for what in REPORTS {
        match report(w, by, what).await? {
            Err(Refused::Illegal(refused)) => ensure_eq!(refused.why, why, "{what}"),
            other => {
                let message = format!("{what}: expected {why:?}, got {other:?}");
                return Err(Failure::new(message));
            }
        }
        unchanged(row, &w.row(row.op_id).await?)?;
    }
    ensure_eq!(w.ledger(row.op_id).await?.len(), lines, "ledger lines");
    Ok(())
}

fn stranger(w: &World, op_id: OpId) -> Verdict<AttemptId> {
    Ok(w.ids.begin(op_id, 0)?.attempt_id)
}

fn by(row: &Operation, attempt_id: Option<AttemptId>) -> By {
    By {
        op_id: row.op_id,
        fence: row.state.fence,
        attempt_id,
    }
}

async fn a_report_that_names_another_attempt_changes_nothing(w: World) -> Verdict {
    let rows = [
        w.live(UNSAFE).await?,
        w.waiting(NATURAL).await?,
        w.held(UNSAFE).await?,
        w.completed(NATURAL).await?,
        w.failed(NATURAL).await?,
    ];
    for row in rows {
        let other = stranger(&w, row.op_id)?;
        // A live row was returned as it was at its begin, so read it again.
        let row = w.row(row.op_id).await?;
        is_refused(&w, &row, by(&row, Some(other)), Why::OtherAttempt).await?;
    }
    Ok(())
}

async fn a_fence_that_no_begin_gave_changes_nothing(w: World) -> Verdict {
    let pending = w.pending(NATURAL).await?;
    let live = w.live(UNSAFE).await?;
    for (row, attempt_id) in [
        (w.row(pending).await?, stranger(&w, pending)?),
        (
            w.row(live.op_id).await?,
            live.state.attempt_id.unwrap_or(stranger(&w, pending)?),
        ),
    ] {
        for fence in [row.state.fence + 1, u64::MAX] {
            let by = By {
                op_id: row.op_id,
                fence,
                attempt_id: Some(attempt_id),
            };
            is_refused(&w, &row, by, Why::NeverBegun).await?;
        }
    }
    Ok(())
}

async fn an_earlier_attempt_is_told_apart_from_a_stranger(w: World) -> Verdict {
    let first = w.live(NATURAL).await?;
    w.retry(&first, Retry::not_called("again")).await??;
    w.advance(LEASE).await;
    let second = w.begun(first.op_id).await?;
    let row = w.row(second.op_id).await?;
    let earlier = by(&first, first.state.attempt_id);
    is_refused(&w, &row, earlier, Why::EarlierAttempt).await?;
    let mixed = By {
        fence: second.state.fence,
        ..earlier
    };
    is_refused(&w, &row, mixed, Why::OtherAttempt).await
}

async fn a_report_that_names_its_attempt_counts(w: World) -> Verdict {
    for what in REPORTS {
        let attempt = w.live(NATURAL).await?;
        let by = by(&attempt, attempt.state.attempt_id);
        let changed = report(&w, by, what).await??;
        ensure_eq!(
            changed.state.version,
            attempt.state.version + if what.starts_with("settle") { 2 } else { 1 },
            "{what}"
        );
        if what == "settle yes" {
            ensure_eq!(changed.state.status, Status::Completed, "settled");
        }
    }
    Ok(())
}

async fn the_ledger_keeps_the_id_of_a_leased_attempt(w: World) -> Verdict {
    let op = w.pending(NATURAL).await?;
    let token = LeaseToken::new(stranger(&w, op)?);
    let mut begin = w.ids.begin(op, 0)?;
    begin.attempt_id = token.attempt_id();
    let leased = only(w.store.begin(&[begin], &w.routes).await?)??;
    w.retry(&leased, Retry::not_called("again")).await??;
    w.advance(LEASE).await;
    let ours = w.begun(op).await?;
    let lines = w.ledger(op).await?;
    let kept = |fence, id| lines.iter().any(|line| line.is_lease(fence, id));
    let (fence, id) = (leased.state.fence, token.attempt_id());
    ensure!(kept(fence, id), "the leased attempt is in the ledger");
    ensure!(!kept(fence + 1, id), "under its own fence only");
    let id = ours.state.attempt_id.unwrap_or(id);
    ensure!(
        !kept(ours.state.fence, id),
        "one of our own attempts is not a lease"
    );
    Ok(())
}
