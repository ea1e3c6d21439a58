//! Dead letters: the cursor of their list, and their integrity check.

use clinch_core::ports::DeadLetter;
use clinch_core::{Error, ErrorKind, Failure, OpId, Result, Timestamp};

use crate::commit::Row;

/// The dead letter of a row whose request was loaded.
pub fn of(row: &Row, failed_at: Timestamp) -> Result<DeadLetter> {
    let request = row.request()?;
    let unknown = || Failure::own("unknown", "", row.state.effect);
    Ok(DeadLetter {
        op_id: row.op_id,
        keys: row.keys()?,
        failure: row.state.failure.clone().unwrap_or_else(unknown),
        attempts: row.state.attempts,
        payload: request.payload.clone(),
        content_hash: request.content_hash,
        failed_at,
        late_ok: false,
    })
}

/// Refuses the letters if one of them does not match its content hash.
pub fn check(letters: &[DeadLetter]) -> Result<()> {
    for letter in letters {
        let stored = letter.payload.as_bytes();
        let hash = &letter.content_hash;
        if !hash.verifies(&letter.op_id, &letter.keys.event_type, stored) {
            let message = "the dead letter does not match its content hash";
            return Err(Error::new(ErrorKind::Corrupt, message).with("op_id", letter.op_id));
        }
    }
    Ok(())
}

/// A letter's bytes, for the size of its page.
pub fn bytes(letter: &DeadLetter) -> usize {
    letter.payload.as_bytes().len()
}

/// The cursor that continues after this letter.
pub fn cursor_of(letter: &DeadLetter) -> String {
    format!("{}-{}", letter.failed_at.as_millis(), letter.op_id)
}

/// The letter after which a list continues.
pub fn parse_cursor(cursor: &str) -> Result<(Timestamp, OpId)> {
    // The timestamp may be negative: its sign is not the separator.
    let split = cursor.char_indices().skip(1).find(|(_, c)| *c == '-');
    let parsed = split.and_then(|(at, _)| {
        let millis = cursor[..at].parse().ok()?;
        Some((
            Timestamp::from_millis(millis),
            cursor[at + 1..].parse().ok()?,
        ))
    });
    let message = "the cursor is not one of this list; start without one";
    parsed.ok_or_else(|| Error::new(ErrorKind::Invalid, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back() {
        let op = "0190d3c0-7e4b-7000-8000-000000000001";
        for millis in ["0", "1700000000000", "-5"] {
            let (at, op_id) = parse_cursor(&format!("{millis}-{op}")).expect("reads");
            assert_eq!(at.as_millis().to_string(), millis);
            assert_eq!(op_id.to_string(), op);
        }
        for strange in ["", "-", "5", "5-", "x-y", "é-1", op] {
            assert!(parse_cursor(strange).is_err(), "{strange}");
        }
    }
}
