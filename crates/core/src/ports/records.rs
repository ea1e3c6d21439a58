//! Small records of an application, in the same store as its operations.

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::{Error, ErrorKind, Result};

/// Maximum length of a record's key, in bytes.
pub const RECORD_KEY_BYTES_MAX: usize = 255;

/// Maximum size of a record's body, in bytes.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// Maximum number of records that one call takes or returns.
pub const RECORDS_MAX: usize = 1_000;

/// The record that names its store by a random id, independent of the store's address. Keys that
/// begin with `clinch/` are reserved for Clinch.
pub const STORE_RECORD: &str = "clinch/store";

/// Records by key, each with a version: an application's own data besides its operations. Every
/// change is a compare-and-set.
#[async_trait]
pub trait Records: Send + Sync {
    /// Reads records, in order; `None` where there is no record.
    ///
    /// - Sees every commit that returned before the call.
    /// - More than [`RECORDS_MAX`] keys are refused as `Invalid`.
    async fn read_records(&self, keys: &[String]) -> Result<Vec<Option<Record>>>;

    /// Writes and removes records in one commit. False: a record was not as expected, and nothing
    /// was changed.
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
    /// - `%` and `_` in a prefix match themselves.
    async fn list_records(&self, list: &RecordList) -> Result<Vec<Record>>;
}

/// A record as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: String,
    /// Grows with every write.
    pub version: u64,
    /// Its text.
    pub body: String,
}

/// One change of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordWrite {
    /// The record to change.
    pub key: String,
    /// What the record must be before the change.
    pub expected: Expected,
    /// The new text. `None`: the record is removed.
    pub body: Option<String>,
}

/// What a record must be for a change to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The record does not exist.
    Absent,
    /// The record has this version.
    Version(u64),
    /// Any version, or no record.
    Anything,
}

/// Which records to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordList {
    /// Only keys that begin with this.
    pub prefix: String,
    /// In descending order of keys.
    pub descending: bool,
    /// Continue after this key.
    pub after: Option<String>,
    /// Maximum number of records.
    pub limit: usize,
}

/// The keys of a [`RecordList`]: from `from` (inclusive) to `until` (exclusive), without `except`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key of the range.
    pub from: String,
    /// The first key after the range.
    pub until: String,
    /// Excludes this key. Empty: excludes none.
    pub except: String,
    /// Maximum number of records.
    pub limit: usize,
}

impl RecordList {
    /// The listed keys as one range.
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

    /// Refuses prefixes and keys that no store can search for.
    pub fn check(&self) -> Result<()> {
        refuse_nul("a prefix or a key", &self.prefix)?;
        refuse_nul(
            "a prefix or a key",
            self.after.as_deref().unwrap_or_default(),
        )
    }
}

impl KeyRange {
    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.from >= self.until || self.limit == 0
    }
}

/// A text that sorts after every key that begins with `prefix`.
fn end_of(prefix: &str) -> String {
    let mut head = prefix;
    while let Some(last) = head.chars().next_back() {
        head = &head[..head.len() - last.len_utf8()];
        // Characters sort like their UTF-8 bytes; a range of `char` skips surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            return format!("{head}{next}");
        }
    }
    // Longer than any key, and made of the largest character.
    char::MAX.to_string().repeat(RECORD_KEY_BYTES_MAX / 4 + 1)
}

/// Refuses writes that the port does not accept.
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

/// Refuses keys that the port does not accept.
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

/// Some databases cannot store a NUL character.
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
