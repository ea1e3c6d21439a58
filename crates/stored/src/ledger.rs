//! An operation's ledger as compact lines, appended to a blob in its row.
//!
//! A line is: event, flags, time since acceptance, fence, version, then the fields that the flags
//! announce: worker, refusal, note, late answer. Numbers have variable length. A blob that has
//! grown past [`INLINE_MAX`] moves to a page of its own, so that an operation that is extended for
//! days does not rewrite its whole ledger each time.

use clinch_core::ports::{LedgerLine, ResultRecord};
use clinch_core::protocol::Phase;
use clinch_core::{MESSAGE_BYTES_MAX, Result, Sealed, Status, Timestamp, WorkerId, shorten};

use crate::codec::{Reader, bytes, damaged, number, unzigzag, zigzag};
use crate::commit::Line;
use crate::error;

/// Maximum bytes of the ledger in the row: more than most operations ever have.
pub const INLINE_MAX: usize = 1_024;

/// Event names by number. Only add names at the end: the numbers are stored.
const EVENTS: [&str; 23] = [
    "Accept",
    "Begin",
    "Extend",
    "Checkpoint",
    "NotCalled",
    "Ok",
    "Fail",
    "Retry",
    "AttemptLost",
    "DeadlinePassed",
    "Finalize",
    "Probed",
    "Resolve",
    "Cancel",
    "Restored",
    "Spawn",
    "Other",
    "ProcessDied",
    "Redriven",
    "RetryNow",
    "Dismissed",
    "Reopened",
    "Revealed",
];

const BY: u8 = 1;
const REFUSED: u8 = 2;
const NOTE: u8 = 4;
const LATE: u8 = 8;
const LATE_TXN: u8 = 16;
const LATE_PAYLOAD: u8 = 32;

/// How a line names a worker. Each store uses one of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By<'a> {
    /// A number from the store's own table of workers.
    Number(i64),
    /// The worker's name.
    Name(&'a str),
}

/// Appends lines to the ledger in a row. Whenever the ledger has grown past [`INLINE_MAX`], it
/// starts again as an empty one. Returns the full pages, oldest first. `by` converts a worker into
/// the store's form.
pub fn grow(
    ledger: &mut Vec<u8>,
    lines: &[Line],
    accepted_at: Timestamp,
    mut by: impl for<'w> FnMut(&'w WorkerId) -> Result<By<'w>>,
) -> Result<Vec<Vec<u8>>> {
    let mut pages = Vec::new();
    for line in lines {
        if ledger.len() > INLINE_MAX {
            pages.push(std::mem::take(ledger));
        }
        let by = line.by.as_ref().map(&mut by).transpose()?;
        append_line(ledger, line, accepted_at, by);
    }
    Ok(pages)
}

fn append_line(blob: &mut Vec<u8>, line: &Line, accepted_at: Timestamp, by: Option<By<'_>>) {
    let late = line.late.as_ref();
    let txn = late.and_then(|late| late.provider_txn_id.as_deref());
    let payload = late.and_then(|late| late.payload.as_ref());
    let marks = [
        (by.is_some(), BY),
        (line.refused.is_some(), REFUSED),
        (!line.note.is_empty(), NOTE),
        (late.is_some(), LATE),
        (txn.is_some(), LATE_TXN),
        (payload.is_some(), LATE_PAYLOAD),
    ];
    let marks = marks.iter().filter(|(is_there, _)| *is_there);
    blob.push(event_code(line.event));
    blob.push(marks.map(|(_, mark)| mark).sum());
    blob.push(status_code(line.status) << 4 | phase_code(line.phase));
    let since = line.at.as_millis().wrapping_sub(accepted_at.as_millis());
    number(blob, zigzag(since));
    number(blob, line.fence);
    number(blob, line.version);
    match by {
        Some(By::Number(worker)) => number(blob, zigzag(worker)),
        Some(By::Name(worker)) => bytes(blob, worker.as_bytes()),
        None => {}
    }
    let is_long = line.note.len() > MESSAGE_BYTES_MAX;
    let cut = is_long.then(|| shorten(line.note.clone(), MESSAGE_BYTES_MAX));
    let note = cut.as_deref().unwrap_or(&line.note);
    let note = (!note.is_empty()).then_some(note);
    let texts = [line.refused.as_deref(), note, txn].into_iter().flatten();
    let payload = payload.map(Sealed::as_bytes);
    for part in texts.map(str::as_bytes).chain(payload) {
        bytes(blob, part);
    }
}

/// The number of an event name. A name without a number is stored as `Other`.
fn event_code(event: &str) -> u8 {
    let code = |event: &str| EVENTS.iter().position(|name| *name == event);
    let code = code(event).or_else(|| code("Other"));
    u8::try_from(code.unwrap_or_default()).unwrap_or(0)
}

/// The numbers of the workers that a blob names.
pub fn workers(blob: &[u8]) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    let mut left = Reader(blob);
    while !left.0.is_empty() {
        let (_, marks, _) = (left.byte()?, left.byte()?, left.byte()?);
        for _ in 0..3 {
            left.number()?;
        }
        let has = |mark| marks & mark != 0;
        if has(BY) {
            found.push(left.signed()?);
        }
        for mark in [REFUSED, NOTE, LATE_TXN, LATE_PAYLOAD] {
            if has(mark) {
                left.bytes()?;
            }
        }
    }
    Ok(found)
}

/// Reads every line of a blob. `worker` reads the worker in the store's form.
pub fn read(
    blob: &[u8],
    accepted_at: Timestamp,
    lines: &mut Vec<LedgerLine>,
    mut worker: impl FnMut(&mut Reader<'_>) -> Result<WorkerId>,
) -> Result<()> {
    let mut left = Reader(blob);
    while !left.0.is_empty() {
        let (event, marks, stand) = (left.byte()?, left.byte()?, left.byte()?);
        let since = unzigzag(left.number()?);
        let (fence, version) = (left.number()?, left.number()?);
        let has = |mark| marks & mark != 0;
        let by = match has(BY) {
            true => Some(worker(&mut left)?),
            false => None,
        };
        let refused = left.text_if(has(REFUSED))?;
        let note = left.text_if(has(NOTE))?.unwrap_or_default();
        let provider_txn_id = left.text_if(has(LATE_TXN))?;
        let payload = match has(LATE_PAYLOAD) {
            true => Some(Sealed::new(left.bytes()?.to_vec())),
            false => None,
        };
        let late = has(LATE).then_some(ResultRecord {
            provider_txn_id,
            payload,
        });
        let name = EVENTS.get(usize::from(event));
        lines.push(LedgerLine {
            at: Timestamp::from_millis(accepted_at.as_millis().wrapping_add(since)),
            event: name.ok_or_else(damaged)?.to_string(),
            fence,
            version,
            status: status_of(i64::from(stand >> 4))?,
            phase: phase_of(match stand & 15 {
                15 => None,
                phase => Some(i64::from(phase)),
            })?,
            by,
            refused,
            note,
            late,
        });
    }
    Ok(())
}

/// The stored number of a status.
pub fn status_code(status: Status) -> u8 {
    match status {
        Status::Pending => 0,
        Status::InProgress => 1,
        Status::Completed => 2,
        Status::Failed => 3,
    }
}

/// The status of a stored number.
pub fn status_of(code: i64) -> Result<Status> {
    Ok(match code {
        0 => Status::Pending,
        1 => Status::InProgress,
        2 => Status::Completed,
        3 => Status::Failed,
        _ => return Err(error::corrupt("status")),
    })
}

/// 15 means no phase.
fn phase_code(phase: Option<Phase>) -> u8 {
    match phase {
        Some(Phase::Live) => 0,
        Some(Phase::Waiting) => 1,
        Some(Phase::Held) => 2,
        None => 15,
    }
}

/// The phase of a stored number in a column.
pub fn phase_of(code: Option<i64>) -> Result<Option<Phase>> {
    Ok(match code {
        None => None,
        Some(0) => Some(Phase::Live),
        Some(1) => Some(Phase::Waiting),
        Some(2) => Some(Phase::Held),
        Some(_) => return Err(error::corrupt("phase")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(event: &'static str) -> Line {
        Line {
            at: Timestamp::from_millis(4),
            event,
            fence: 300,
            version: 4,
            status: Status::Pending,
            phase: None,
            by: None,
            refused: None,
            note: String::new(),
            late: None,
        }
    }

    fn line(by: Option<By<'_>>) -> Vec<u8> {
        let late = ResultRecord {
            provider_txn_id: Some("t".into()),
            payload: Some(Sealed::new(vec![7, 8])),
        };
        let line = Line {
            refused: Some("why".into()),
            note: "n".into(),
            late: Some(late),
            ..plain("Ok")
        };
        let mut blob = Vec::new();
        append_line(&mut blob, &line, Timestamp::from_millis(5), by);
        blob
    }

    /// These bytes are on disks: they must never change.
    #[test]
    fn the_bytes_of_a_line() {
        let numbered = [
            5, 63, 0x0f, 1, 0xac, 2, 4, 5, 3, b'w', b'h', b'y', 1, b'n', 1, b't', 2, 7, 8,
        ];
        assert_eq!(line(Some(By::Number(-3))), numbered);
        let mut named = numbered.to_vec();
        named.splice(7..8, [1, b'w']);
        assert_eq!(line(Some(By::Name("w"))), named);
        let mut nobody = numbered.to_vec();
        nobody[1] = 62;
        nobody.remove(7);
        assert_eq!(line(None), nobody);
    }

    #[test]
    fn lines_come_back() {
        let mut blob = line(Some(By::Number(9)));
        blob.extend(line(None));
        assert_eq!(workers(&blob).expect("reads"), [9]);
        let mut lines = Vec::new();
        let accepted_at = Timestamp::from_millis(5);
        let named = |left: &mut Reader<'_>| {
            assert_eq!(left.signed()?, 9);
            WorkerId::new("nine").map_err(error::unreadable)
        };
        read(&blob, accepted_at, &mut lines, named).expect("reads");
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].by, Some(WorkerId::new("nine").expect("a name")));
        assert_eq!(lines[1].by, None);
        assert_eq!((lines[1].event.as_str(), lines[1].fence), ("Ok", 300));
        assert_eq!(lines[1].at, Timestamp::from_millis(4));
        assert_eq!(lines[1].refused.as_deref(), Some("why"));
        let cut = &blob[..blob.len() - 1];
        assert!(read(cut, accepted_at, &mut Vec::new(), named).is_err());
        assert!(workers(cut).is_err());
    }

    #[test]
    fn a_name_comes_back() {
        let blob = line(Some(By::Name("w")));
        let mut lines = Vec::new();
        read(&blob, Timestamp::from_millis(5), &mut lines, |left| {
            left.worker()
        })
        .expect("reads");
        assert_eq!(lines[0].by, Some(WorkerId::new("w").expect("a name")));
    }

    #[test]
    fn a_ledger_that_is_full_becomes_a_page() {
        let line = Line {
            at: Timestamp::from_millis(6),
            event: "Extend",
            fence: 1,
            version: 2,
            status: Status::InProgress,
            phase: Some(Phase::Live),
            by: WorkerId::new("w").ok(),
            refused: None,
            note: "n".repeat(400),
            late: None,
        };
        let accepted_at = Timestamp::from_millis(5);
        fn named(worker: &WorkerId) -> Result<By<'_>> {
            assert_eq!(worker.as_str(), "w");
            Ok(By::Number(7))
        }
        let mut ledger = Vec::new();
        let lines = vec![line; 4];
        let pages = grow(&mut ledger, &lines[..3], accepted_at, named).expect("grows");
        assert!(pages.is_empty() && ledger.len() > INLINE_MAX);
        let before = ledger.clone();
        let pages = grow(&mut ledger, &lines[3..], accepted_at, named).expect("grows");
        assert_eq!(pages, [before]);
        assert_eq!(workers(&pages[0]).expect("reads"), [7, 7, 7]);
        assert_eq!(workers(&ledger).expect("reads"), [7]);
        let pages = grow(&mut ledger, &lines, accepted_at, |_| {
            Err(error::corrupt("worker"))
        });
        assert!(pages.is_err());
    }

    #[test]
    fn a_long_note_is_cut() {
        let note = "x".repeat(MESSAGE_BYTES_MAX + 1);
        let line = Line {
            note: note.clone(),
            ..plain("Fail")
        };
        let mut blob = Vec::new();
        append_line(&mut blob, &line, Timestamp::from_millis(5), None);
        let mut lines = Vec::new();
        read(&blob, Timestamp::from_millis(5), &mut lines, |left| {
            left.worker()
        })
        .expect("reads");
        assert_eq!(lines[0].note, shorten(note, MESSAGE_BYTES_MAX));
    }
}
