//! What was sent of a stream, in a few bytes.
//!
//! The documents are divided by their ids into parts. The digest of a part is the sum of the hashes
//! of its documents, so it does not depend on their order. A document that was added or changed
//! changes the digest of its part, and the documents of that part are sent again.
//!
//! Digests are summed in [`PARTS`] parts. A bookmark has fewer of them for a stream with few
//! documents: a power of two, so that digests of the smaller parts add up to those of the larger.

use std::fmt::Write as _;

use clinch_github::schema::{Column, Envelope};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Most parts of a stream: 8 KiB of bookmark.
const PARTS: usize = 512;

/// Documents of a part, until there are [`PARTS`] parts: so many are sent again for one change.
const DOCUMENTS_PER_PART: u64 = 64;

/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// Digests of documents.
pub(super) struct Fingerprint {
    /// Other columns are another table: everything is sent again.
    columns: Sha256,
    digests: Vec<u64>,
    documents: Vec<u64>,
}

/// Some parts of a stream.
pub(super) struct Parts(Vec<bool>);

impl Parts {
    pub(super) fn all() -> Self {
        Self(vec![true; PARTS])
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }

    /// Whether a document belongs to one of them.
    pub(super) fn has(&self, id: &str) -> bool {
        self.0.get(part(id)).copied().unwrap_or(true)
    }
}

impl Fingerprint {
    /// Of no documents.
    pub(super) fn new(columns: &[Column]) -> Self {
        let mut hash = Sha256::new();
        for column in columns {
            hash.update(format!("{column:?}\n"));
        }
        Self {
            columns: hash,
            digests: vec![0; PARTS],
            documents: vec![0; PARTS],
        }
    }

    pub(super) fn add(&mut self, envelope: &Envelope<'_>, is_gone: bool) {
        let mut hash = self.columns.clone();
        if is_gone {
            hash.update("gone");
        }
        let texts = [
            envelope.id,
            envelope.user,
            envelope.resource,
            envelope.document,
        ];
        for text in texts {
            hash.update(text.len().to_be_bytes());
            hash.update(text);
        }
        let part = part(envelope.id);
        let digest = first_bytes(&hash.finalize());
        self.digests[part] = self.digests[part].wrapping_add(digest);
        self.documents[part] += 1;
    }

    /// The parts whose documents differ from those of a bookmark.
    pub(super) fn changed(&self, bookmark: &Bookmark) -> Parts {
        let now = folded(&self.digests, bookmark.0.len());
        let differs = |part: usize| {
            let at = part % bookmark.0.len().max(1);
            now.get(at) != bookmark.0.get(at)
        };
        Parts((0..PARTS).map(differs).collect())
    }

    /// Forgets the documents of these parts.
    pub(super) fn forget(&mut self, parts: &Parts) {
        let digests = self.digests.iter_mut().zip(&mut self.documents);
        for ((digest, documents), _) in digests.zip(&parts.0).filter(|(_, is_in)| **is_in) {
            (*digest, *documents) = (0, 0);
        }
    }

    pub(super) fn bookmark(&self) -> Bookmark {
        let documents: u64 = self.documents.iter().sum();
        let parts = documents.div_ceil(DOCUMENTS_PER_PART);
        let parts = usize::try_from(parts).unwrap_or(PARTS).clamp(1, PARTS);
        Bookmark(folded(&self.digests, parts.next_power_of_two()))
    }
}

/// The digests of fewer parts.
fn folded(digests: &[u64], parts: usize) -> Vec<u64> {
    let mut folded = vec![0_u64; parts.max(1)];
    let count = folded.len();
    for (part, digest) in digests.iter().enumerate() {
        let sum = &mut folded[part % count];
        *sum = sum.wrapping_add(*digest);
    }
    folded
}

/// The part of a document.
fn part(id: &str) -> usize {
    let hash = first_bytes(&Sha256::digest(id));
    usize::try_from(hash % PARTS as u64).unwrap_or(0)
}

fn first_bytes(hash: &[u8]) -> u64 {
    let bytes = hash.iter().take(8);
    bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The fingerprint of a stream in a state: the digests of its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bookmark(Vec<u64>);

impl Bookmark {
    /// `None` if this program cannot have written it: then everything is sent.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let text = value.get("digests")?.as_str()?;
        let parts = text.len() / DIGITS;
        let is_ours = text.is_ascii() && text.len() % DIGITS == 0;
        if !(is_ours && parts.is_power_of_two() && parts <= PARTS) {
            return None;
        }
        let digest =
            |at: usize| u64::from_str_radix(text.get(at * DIGITS..(at + 1) * DIGITS)?, 16).ok();
        (0..parts)
            .map(digest)
            .collect::<Option<Vec<u64>>>()
            .map(Self)
    }

    pub(super) fn to_json(&self) -> Value {
        let mut text = String::with_capacity(self.0.len() * DIGITS);
        for digest in &self.0 {
            let _ = write!(text, "{digest:016x}");
        }
        json!({ "digests": text })
    }
}

#[cfg(test)]
mod tests {
    use clinch_github::schema::Stream;

    use super::*;

    fn columns(with_document: bool) -> Vec<Column> {
        Stream::of("issue")
            .unwrap()
            .columns(with_document)
            .collect()
    }

    fn of(documents: &[(String, String)]) -> Fingerprint {
        let mut fingerprint = Fingerprint::new(&columns(false));
        for (id, document) in documents {
            fingerprint.add(&envelope(id, document), false);
        }
        fingerprint
    }

    fn envelope<'a>(id: &'a str, document: &'a str) -> Envelope<'a> {
        Envelope {
            id,
            user: "ann",
            resource: "repo:ann/x",
            document,
        }
    }

    fn documents(number: usize) -> Vec<(String, String)> {
        let one = |n: usize| (format!("issue:{n}"), format!("{{\"n\":{n}}}"));
        (0..number).map(one).collect()
    }

    #[test]
    fn a_bookmark_is_read_as_it_was_written_and_is_small() {
        for (number, parts) in [(0, 1), (64, 1), (65, 2), (1_000, 16), (100_000, 512)] {
            let bookmark = of(&documents(number)).bookmark();
            assert_eq!(bookmark.0.len(), parts, "{number}");
            assert_eq!(Bookmark::read(&bookmark.to_json()), Some(bookmark));
        }
        for wrong in [
            json!({}),
            json!({"digests": 7}),
            json!({"digests": ""}),
            json!({"digests": "0"}),
            json!({"digests": "x".repeat(16)}),
            json!({"digests": "é".repeat(8)}),
            json!({"digests": "0".repeat(48)}),
            json!({"digests": "0".repeat(16 * 1024)}),
        ] {
            assert_eq!(Bookmark::read(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_document_that_differs_is_in_a_changed_part() {
        let before = documents(5_000);
        let bookmark = of(&before).bookmark();
        assert!(of(&before).changed(&bookmark).is_empty());
        let backwards: Vec<_> = before.iter().rev().cloned().collect();
        assert!(of(&backwards).changed(&bookmark).is_empty());

        let mut after = documents(5_003);
        after[17].1 = "{\"n\":-17}".to_owned();
        let changed = of(&after).changed(&bookmark);
        for at in [17, 5_000, 5_001, 5_002] {
            assert!(changed.has(&after[at].0), "{at}");
        }
        let sent = after.iter().filter(|(id, _)| changed.has(id)).count();
        assert!(sent < 1_000, "{sent} of 5,003 for four changes");
    }

    #[test]
    fn only_what_was_sent_is_in_the_next_bookmark() {
        let before = documents(300);
        let bookmark = of(&before).bookmark();
        let mut after = before.clone();
        after[5].1 = "{}".to_owned();
        let mut known = of(&after);
        let changed = known.changed(&bookmark);
        known.forget(&changed);
        // A document that changes while the parts are sent is sent as it is then.
        after[5].1 = "{\"later\":1}".to_owned();
        let sent = after.iter().filter(|(id, _)| changed.has(id));
        sent.for_each(|(id, document)| known.add(&envelope(id, document), false));
        assert_eq!(known.bookmark(), of(&after).bookmark());
    }

    #[test]
    fn other_columns_change_everything() {
        let bookmark = of(&documents(300)).bookmark();
        let mut wider = Fingerprint::new(&columns(true));
        documents(300)
            .iter()
            .for_each(|(id, document)| wider.add(&envelope(id, document), false));
        let changed = wider.changed(&bookmark);
        assert!(documents(300).iter().all(|(id, _)| changed.has(id)));
    }
}
