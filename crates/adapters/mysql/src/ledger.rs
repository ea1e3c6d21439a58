//! An operation's history as compact lines, appended to a blob beside its row.
//!
//! A line is: event, marks, time since acceptance, fence, version, then what the marks say
//! is there: worker, refusal, note, late answer. Numbers are variable-length. A blob that
//! has grown past [`INLINE_MAX`] moves to a page of its own, so that an operation that is
//! extended for days does not rewrite its whole history each time.

use clinch_core::ports::{LedgerLine, ResultRecord};
use clinch_core::protocol::Phase;
use clinch_core::{Result, Sealed, Status, Timestamp, WorkerId};

use crate::codec::{Reader, damaged, number, unzigzag, zigzag};
use crate::error;

/// Bytes of history beside the row: more than most operations ever have.
pub(crate) const INLINE_MAX: usize = 1_024;

/// Event names by number. Only ever add at the end: the numbers are stored.
const EVENTS: [&str; 17] = [
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
];

const BY: u8 = 1;
const REFUSED: u8 = 2;
const NOTE: u8 = 4;
const LATE: u8 = 8;
const LATE_TXN: u8 = 16;
const LATE_PAYLOAD: u8 = 32;

/// A line before it is written.
pub(crate) struct Entry<'a> {
    pub event: &'a str,
    pub at: Timestamp,
    pub accepted_at: Timestamp,
    pub fence: u64,
    pub version: u64,
    pub status: Status,
    pub phase: Option<Phase>,
    pub by: Option<&'a str>,
    pub refused: Option<&'a str>,
    pub note: &'a str,
    pub late: Option<&'a ResultRecord>,
}

/// Appends one line.
pub(crate) fn append(blob: &mut Vec<u8>, entry: &Entry<'_>) {
    let code = EVENTS.iter().position(|name| *name == entry.event);
    let late = entry.late;
    let txn = late.and_then(|late| late.provider_txn_id.as_deref());
    let payload = late.and_then(|late| late.payload.as_ref());
    let marks = [
        (entry.by.is_some(), BY),
        (entry.refused.is_some(), REFUSED),
        (!entry.note.is_empty(), NOTE),
        (late.is_some(), LATE),
        (txn.is_some(), LATE_TXN),
        (payload.is_some(), LATE_PAYLOAD),
    ];
    let marks = marks.iter().filter(|(is_there, _)| *is_there);
    blob.push(u8::try_from(code.unwrap_or(EVENTS.len() - 1)).unwrap_or(0));
    blob.push(marks.map(|(_, mark)| mark).sum());
    blob.push(status_code(entry.status) << 4 | phase_code(entry.phase));
    let since = entry
        .at
        .as_millis()
        .wrapping_sub(entry.accepted_at.as_millis());
    number(blob, zigzag(since));
    number(blob, entry.fence);
    number(blob, entry.version);
    let note = (!entry.note.is_empty()).then_some(entry.note);
    let payload = payload.map(Sealed::as_bytes);
    let texts = [entry.by, entry.refused, note, txn];
    for bytes in texts
        .into_iter()
        .flatten()
        .map(str::as_bytes)
        .chain(payload)
    {
        number(blob, bytes.len() as u64);
        blob.extend_from_slice(bytes);
    }
}

/// Reads every line of a blob.
pub(crate) fn read(blob: &[u8], accepted_at: Timestamp, lines: &mut Vec<LedgerLine>) -> Result<()> {
    let mut left = Reader(blob);
    while !left.0.is_empty() {
        let (event, marks, stand) = (left.byte()?, left.byte()?, left.byte()?);
        let since = unzigzag(left.number()?);
        let (fence, version) = (left.number()?, left.number()?);
        let has = |mark| marks & mark != 0;
        let by = left.text_if(has(BY))?.map(WorkerId::new).transpose();
        let by = by.map_err(error::unreadable)?;
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

pub(crate) fn status_code(status: Status) -> u8 {
    match status {
        Status::Pending => 0,
        Status::InProgress => 1,
        Status::Completed => 2,
        Status::Failed => 3,
    }
}

pub(crate) fn status_of(code: i64) -> Result<Status> {
    Ok(match code {
        0 => Status::Pending,
        1 => Status::InProgress,
        2 => Status::Completed,
        3 => Status::Failed,
        _ => return Err(error::corrupt("status")),
    })
}

/// 15 stands for none.
fn phase_code(phase: Option<Phase>) -> u8 {
    match phase {
        Some(Phase::Live) => 0,
        Some(Phase::Waiting) => 1,
        Some(Phase::Held) => 2,
        None => 15,
    }
}

pub(crate) fn phase_of(code: Option<i64>) -> Result<Option<Phase>> {
    Ok(match code {
        None => None,
        Some(0) => Some(Phase::Live),
        Some(1) => Some(Phase::Waiting),
        Some(2) => Some(Phase::Held),
        Some(_) => return Err(error::corrupt("phase")),
    })
}
