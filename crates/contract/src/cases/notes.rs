//! Lines that people leave in a ledger without changing the operation.

use clinch_core::OpId;
use clinch_core::ports::{NewNote, NoteEvent, Write};

use crate::case::{Case, Verdict};
use crate::fixtures::{self, NATURAL};
use crate::world::{World, only};

pub(super) const CASES: &[Case] = area!(
    "notes",
    Store {
        a_note_is_a_line_and_changes_nothing_else: ["OUT-10"],
        a_note_on_an_unknown_operation_is_not_made: ["OUT-10"],
        a_note_leaves_a_running_attempt_alone: ["OUT-10"],
    }
);

async fn reveal(w: &World, op_id: OpId) -> Verdict<bool> {
    let note = Write::Note(NewNote {
        op_id,
        event: NoteEvent::Revealed,
        by: fixtures::worker(7)?,
        reason: "complaint 4711".into(),
    });
    let written = w.store.commit(&[note], &w.routes).await?;
    Ok(only(written)?.noted()?)
}

async fn a_note_is_a_line_and_changes_nothing_else(w: World) -> Verdict {
    let pending = w.pending(NATURAL).await?;
    let ended = [
        w.completed(NATURAL).await?.op_id,
        w.failed(NATURAL).await?.op_id,
    ];
    let waiting = w.waiting(NATURAL).await?.op_id;
    for op in ended.into_iter().chain([pending, waiting]) {
        let (row, lines) = (w.row(op).await?, w.ledger(op).await?);
        ensure!(reveal(&w, op).await?, "{op} was not noted");
        ensure!(w.row(op).await? == row, "{op} changed");
        let after = w.ledger(op).await?;
        ensure!(after.len() == lines.len() + 1, "{} lines", after.len());
        let line = after.last().filter(|line| line.event == "Revealed");
        let line = line.ok_or_else(|| crate::case::Failure::new("the last line is another"))?;
        ensure!(line.note == "complaint 4711", "the note is {}", line.note);
        ensure!(line.by == Some(fixtures::worker(7)?), "by {:?}", line.by);
        ensure!(
            line.version == row.state.version,
            "version {}",
            line.version
        );
    }
    // It survives, and the operation goes on.
    let w = w.crash().await?;
    let lines = w.ledger(pending).await?;
    ensure!(lines.iter().any(|line| line.event == "Revealed"), "lost");
    w.begun(pending).await.map(|_| ())
}

async fn a_note_on_an_unknown_operation_is_not_made(w: World) -> Verdict {
    let unknown = w.op(NATURAL)?.op_id;
    ensure!(!reveal(&w, unknown).await?, "noted");
    ensure!(w.look(unknown).await?.is_none(), "made");
    Ok(())
}

async fn a_note_leaves_a_running_attempt_alone(w: World) -> Verdict {
    let attempt = w.live(NATURAL).await?;
    ensure!(reveal(&w, attempt.op_id).await?, "not noted");
    let settled = w.settle_ok(&attempt).await?;
    ensure!(settled.is_ok(), "its answer was refused: {settled:?}");
    Ok(())
}
