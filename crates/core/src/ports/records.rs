//! Small records of an application, on the store that its operations live on.

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::{Error, ErrorKind, Result};

/// Longest key of a record, in bytes.
pub const RECORD_KEY_BYTES_MAX: usize = 255;

/// Longest body of a record, in bytes.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// Most records that one call takes or gives.
pub const RECORDS_MAX: usize = 1_000;

/// The record that names its store: a random id, whatever the store's address is. Keys that
/// begin with `clinch/` are Clinch's own.
pub const STORE_RECORD: &str = "clinch/store";

/// Records by key, each with a version: what an application knows besides its operations.
/// Every change is a compare-and-set.
#[async_trait]
pub trait Records: Send + Sync {
    /// Reads records, in order; `None` where there is none.
    ///
    /// - Sees every commit that returned before the call.
    /// - More than [`RECORDS_MAX`] keys are refused as `Invalid`.
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>>;

    /// Writes and removes records in one commit. False: one of them was not as expected, and
    /// nothing is changed.
    ///
    /// - Of concurrent writers that expect the same version of a record one succeeds.
    /// - A record that is written has a higher version than it had before; a new one begins
    ///   at 1.
    /// - A key that is named twice, an empty or over-long key, an over-long body, a NUL
    ///   character in either and more than [`RECORDS_MAX`] writes are refused as `Invalid`.
    async fn write_records(&self, writes: &[RecordWrite]) -> Result<bool>;

    /// One page of the records whose keys begin with `prefix`.
    ///
    /// - In the order of their keys (of their UTF-8 bytes), or against it.
    /// - Only those after `after` in that order; at most `limit`, at most [`RECORDS_MAX`];
    ///   fewer means that there are no more.
    /// - `%` and `_` in a prefix are themselves.
    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>>;
}

/// A record as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: String,
    /// Grows with every write.
    pub version: u64,
    /// Its text.
    pub body: String,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordWrite {
    /// Of this record.
    pub key: String,
    /// As it must be found.
    pub expected: Expected,
    /// What it becomes; `None`: it goes.
    pub body: Option<String>,
}

/// How a record must be found for a change to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// There is none.
    Absent,
    /// It has this version.
    Version(u64),
    /// However it is.
    Anything,
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordList {
    /// Keys begin with it.
    pub prefix: String,
    /// Against the order of keys.
    pub descending: bool,
    /// Go on after this key.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// The keys of a [`RecordList`]: those from `from` on and before `until`, but not `except`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first that is wanted.
    pub from: String,
    /// The first that is not wanted any more.
    pub until: String,
    /// Not this one; empty: every one.
    pub except: String,
    /// At most so many.
    pub limit: usize,
}

impl RecordList {
    /// Which keys are wanted, as one range of the order of keys.
    ///
    /// ```
    /// use clinch_core::ports::RecordList;
    ///
    /// let list = RecordList {
    ///     prefix: "run/".into(),
    ///     descending: false,
    ///     after: Some("run/7".into()),
    ///     limit: 10,
    /// };
    /// let range = list.range();
    /// assert_eq!((&*range.from, &*range.until, &*range.except), ("run/7", "run0", "run/7"));
    /// ```
    pub fn range(&self) -> KeyRange {
        let end = end_of(&self.prefix);
        let after = self.after.clone();
        let (from, until, except) = match after {
            Some(after) if self.descending => (self.prefix.clone(), end.min(after), String::new()),
            Some(after) => (after.clone().max(self.prefix.clone()), end, after),
            None => (self.prefix.clone(), end, String::new()),
        };
        KeyRange {
            from,
            until,
            except,
            limit: self.limit.min(RECORDS_MAX),
        }
    }

    /// Refuses what no store can look for.
    pub fn check(&self) -> Result<()> {
        refuse_nul("a prefix or a key", &self.prefix)?;
        refuse_nul(
            "a prefix or a key",
            self.after.as_deref().unwrap_or_default(),
        )
    }
}

impl KeyRange {
    /// No key can be in it.
    pub fn is_empty(&self) -> bool {
        self.from >= self.until || self.limit == 0
    }
}

/// What comes after every key that begins with `prefix`.
fn end_of(prefix: &str) -> String {
    let mut head = prefix;
    while let Some(last) = head.chars().next_back() {
        head = &head[..head.len() - last.len_utf8()];
        // The order of characters is that of their UTF-8 bytes; a range has no surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            return format!("{head}{next}");
        }
    }
    // Longer than any key, and no character is larger.
    char::MAX.to_string().repeat(RECORD_KEY_BYTES_MAX / 4 + 1)
}

/// Refuses writes that the port does not take.
pub fn check_record_writes(writes: &[RecordWrite]) -> Result<()> {
    if writes.len() > RECORDS_MAX {
        return Err(invalid(format!(
            "at most {RECORDS_MAX} records a call; split it"
        )));
    }
    let mut keys = BTreeSet::new();
    for write in writes {
        let (key, body) = (&write.key, write.body.as_deref().unwrap_or_default());
        if key.is_empty() || key.len() > RECORD_KEY_BYTES_MAX {
            let message = format!("a record's key has 1 to {RECORD_KEY_BYTES_MAX} bytes");
            return Err(invalid(message));
        }
        if body.len() > RECORD_BYTES_MAX {
            let message = format!("a record has at most {RECORD_BYTES_MAX} bytes; split it");
            return Err(invalid(message));
        }
        refuse_nul("a record", key)?;
        refuse_nul("a record", body)?;
        if !keys.insert(key) {
            let message = "a record is named twice in one call; write it once";
            return Err(invalid(message.into()));
        }
    }
    Ok(())
}

/// Refuses keys that the port does not look for.
pub fn check_record_keys(keys: &[String]) -> Result<()> {
    if keys.len() > RECORDS_MAX {
        return Err(invalid(format!(
            "at most {RECORDS_MAX} keys a call; split it"
        )));
    }
    keys.iter().try_for_each(|key| refuse_nul("a key", key))
}

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::Invalid, message)
}

/// Not every database has a place for it.
pub(super) fn refuse_nul(what: &str, text: &str) -> Result<()> {
    match text.contains('\0') {
        true => Err(invalid(format!("{what} must not contain a NUL character"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(prefix: &str, descending: bool, after: Option<&str>) -> RecordList {
        RecordList {
            prefix: prefix.into(),
            descending,
            after: after.map(str::to_owned),
            limit: 10,
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_after_all_that_begin_with_it() {
        assert_eq!(end_of("a"), "b");
        assert_eq!(end_of("\u{d7ff}"), "\u{e000}", "no surrogates");
        assert_eq!(end_of("a\u{10ffff}"), "b");
        let longest = char::MAX.to_string().repeat(RECORD_KEY_BYTES_MAX / 4);
        for prefix in ["", "\u{10ffff}"] {
            assert!(end_of(prefix) > longest);
        }
    }

    #[test]
    fn a_range_goes_on_after_a_key_in_either_order() {
        let range = list("k/", false, Some("a")).range();
        assert_eq!((range.from.as_str(), range.until.as_str()), ("k/", "k0"));
        let range = list("k/", true, Some("k/5")).range();
        assert_eq!((range.from.as_str(), range.until.as_str()), ("k/", "k/5"));
        assert!(list("k/", true, Some("a")).range().is_empty());
        assert!(list("k/", false, Some("z")).range().is_empty());
    }
}
