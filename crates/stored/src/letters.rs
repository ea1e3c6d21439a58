//! Dead letters: the cursor of their list, and what makes one worth keeping.

use clinch_core::ports::DeadLetter;
use clinch_core::{Error, ErrorKind, OpId, Result, Timestamp};

/// Refuses letters of which one does not match its own hash.
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

/// What a letter counts on its page.
pub fn bytes(letter: &DeadLetter) -> usize {
    letter.payload.as_bytes().len()
}

/// The cursor that goes on after this letter.
pub fn cursor_of(letter: &DeadLetter) -> String {
    format!("{}-{}", letter.failed_at.as_millis(), letter.op_id)
}

/// The letter after which a list goes on.
pub fn parse_cursor(cursor: &str) -> Result<(Timestamp, OpId)> {
    // The moment may be negative: its sign is not the separator.
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
