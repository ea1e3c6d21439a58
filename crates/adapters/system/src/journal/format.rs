//! The file format of a journal.
//!
//! ```text
//! slot     magic, forgotten, check        4,096 bytes
//! slot     the same again                 4,096 bytes
//! record   length, position, check of the bytes, check of all before it, bytes
//! record   …
//! ```
//!
//! Only the slots are ever overwritten, one after the other and each in a block of its own: a write
//! that tears one slot leaves the other intact. Positions are consecutive, so a gap says how many
//! records are missing.

use std::ops::Range;

use sha2::{Digest, Sha256};

/// Maximum size of a record, in bytes: an answer of 256 KiB, sealed and written in hexadecimal,
/// with some dozens of spawned commands of that size. The limit also keeps a reader from trusting a
/// damaged length.
pub const RECORD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Disks write at least this much at once, and may tear it.
pub(super) const SLOT_BYTES: usize = 4_096;
/// Where the first record starts.
pub(super) const RECORDS_FROM: usize = 2 * SLOT_BYTES;

const MAGIC: [u8; 8] = *b"clinchj1";
/// Enough for one record each microsecond for a few years.
const POSITION_MAX: u64 = 1 << 47;
const HEAD_BYTES: usize = 4 + 8 + 8 + 8;

/// One of the two slots: records up to and including `forgotten` are forgotten.
pub(super) fn slot(forgotten: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..8].copy_from_slice(&MAGIC);
    slot[8..16].copy_from_slice(&forgotten.to_le_bytes());
    let check = check(&slot[..16]);
    slot[16..24].copy_from_slice(&check.to_le_bytes());
    slot
}

/// Appends one record to `out`.
pub(super) fn encode(position: u64, bytes: &[u8], out: &mut Vec<u8>) {
    let from = out.len();
    // Longer records were refused.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&position.to_le_bytes());
    out.extend_from_slice(&check(bytes).to_le_bytes());
    let check = check(&out[from..]);
    out.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The content of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// Records up to and including this one are forgotten.
    pub(super) forgotten: u64,
    /// Every intact record after `forgotten`, in order.
    pub(super) records: Vec<Found>,
    /// Number of records after `forgotten` that cannot be read.
    pub(super) damaged: usize,
    /// The position of the next record.
    pub(super) next: u64,
    /// Offset of the next record. Everything after it is torn.
    pub(super) end: usize,
}

/// An intact record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) position: u64,
    /// The range of its bytes. The record ends with them.
    pub(super) bytes: Range<usize>,
}

/// Parses a whole file. `None` if it is not a journal.
pub(super) fn scan(file: &[u8]) -> Option<Contents> {
    let slots = [0, SLOT_BYTES].map(|from| file.get(from..from + 24).unwrap_or_default());
    if !slots.iter().any(|slot| slot.starts_with(&MAGIC)) {
        return None;
    }
    let forgotten = slots.into_iter().filter_map(read_slot).max();
    let mut scan = Scan {
        file,
        at: RECORDS_FROM,
        expected: forgotten.map(|forgotten| forgotten + 1),
        contents: Contents {
            forgotten: forgotten.unwrap_or(0),
            // Both slots are lost: forgotten records are read again.
            damaged: usize::from(forgotten.is_none()),
            end: RECORDS_FROM,
            ..Contents::default()
        },
    };
    scan.run();
    Some(scan.contents)
}

fn read_slot(slot: &[u8]) -> Option<u64> {
    let ours = slot.starts_with(&MAGIC) && check(slot.get(..16)?) == u64_at(slot, 16)?;
    u64_at(slot, 8).filter(|forgotten| ours && *forgotten < POSITION_MAX)
}

struct Scan<'a> {
    file: &'a [u8],
    at: usize,
    /// The position of the next record that is not forgotten. `None`: any position.
    expected: Option<u64>,
    contents: Contents,
}

enum Unit {
    Intact(Found),
    /// The head is intact, but the bytes are not what was written.
    Damaged(Found),
    /// The file ends before the record does.
    Torn,
    /// Not a record's head.
    Unknown,
}

impl Scan<'_> {
    fn run(&mut self) {
        let mut last_damaged = 0;
        let mut lost_tail = false;
        loop {
            match self.unit(self.at) {
                Unit::Intact(found) => self.take(found),
                Unit::Damaged(found) => {
                    last_damaged = last_damaged.max(found.position);
                    self.expected.get_or_insert(found.position);
                    self.pass(found.bytes.end);
                }
                Unit::Torn => break,
                Unit::Unknown => match self.next_head() {
                    Some(at) => self.at = at,
                    None => {
                        lost_tail = !self.is_blank();
                        break;
                    }
                },
            }
        }
        let expected = self.expected.unwrap_or(1);
        let at_end = (last_damaged + 1).saturating_sub(expected) + u64::from(lost_tail);
        self.contents.damaged += usize::try_from(at_end).unwrap_or(usize::MAX);
        self.contents.next = expected + at_end;
        if lost_tail {
            self.pass(self.file.len());
        }
    }

    fn take(&mut self, found: Found) {
        self.pass(found.bytes.end);
        let expected = self.expected.unwrap_or(found.position);
        if let Some(missing) = found.position.checked_sub(expected) {
            self.contents.damaged += usize::try_from(missing).unwrap_or(usize::MAX);
            self.expected = Some(found.position + 1);
            self.contents.records.push(found);
        }
    }

    fn pass(&mut self, to: usize) {
        self.at = to;
        self.contents.end = to;
    }

    fn unit(&self, at: usize) -> Unit {
        let Some(head) = self.file.get(at..at + HEAD_BYTES) else {
            return Unit::Torn;
        };
        let fields = (u32_at(head, 0), u64_at(head, 4), u64_at(head, 12));
        let (Some(length), Some(position), Some(wanted)) = fields else {
            return Unit::Torn;
        };
        let length = length as usize;
        // Avoids a checksum at most offsets where no record starts: text never looks like this.
        let likely = length <= RECORD_BYTES_MAX && (1..=POSITION_MAX).contains(&position);
        if !likely || u64_at(head, 20) != Some(check(&head[..20])) {
            return Unit::Unknown;
        }
        let bytes = at + HEAD_BYTES..at + HEAD_BYTES + length;
        match self.file.get(bytes.clone()) {
            None => Unit::Torn,
            Some(found) if check(found) == wanted => Unit::Intact(Found { position, bytes }),
            Some(_) => Unit::Damaged(Found { position, bytes }),
        }
    }

    /// The offset of the next intact head, if there is one.
    fn next_head(&self) -> Option<usize> {
        let mut rest = self.at + 1..self.file.len();
        rest.find(|at| matches!(self.unit(*at), Unit::Intact(_) | Unit::Damaged(_)))
    }

    /// Whether the rest is space that the filesystem allocated and that was never written.
    fn is_blank(&self) -> bool {
        self.file[self.at..].iter().all(|byte| *byte == 0)
    }
}

/// A quarter of SHA-256: damage does not pass it, and it is cheap next to the disk write that each
/// call waits for.
fn check(bytes: &[u8]) -> u64 {
    u64_at(&Sha256::digest(bytes), 0).unwrap_or(0)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
