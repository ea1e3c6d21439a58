//! The index of the four keys: three levels, so that an accept writes few pages.
//!
//! Key hashes are random. In one large index each new key would land on a page of its own, which an
//! accept would write to the log and again to the file. So keys are gathered first:
//!
//! - `clinch_key_new` takes every key, in the order of acceptance: the keys of a commit share a page.
//!   Each connection keeps its content in memory, by hash, and reads what was added since
//!   ([`NewKeys`]).
//! - `clinch_key_mid` takes all of `new`, by hash, once that is full.
//! - `clinch_key` takes a slice of `mid` at a time while `mid` is over its limit. A slice is a
//!   range of hashes that starts where the last slice ended, round and round.
//!
//! Both merges are in order of hash, so that one page write covers several keys. They are part of
//! the commit that made them necessary: a reader finds each key in exactly one level, and any
//! process that writes next can continue. The counts, the start of the next slice and the limits
//! are in the store row, like the last seq: read once and written once per commit.
//!
//! A commit does one of the two merges, and each is bounded: `new` by its limit, a slice by a small
//! part of `mid`. Only a commit that overfills `new` by itself does both.

use std::collections::BTreeSet;

use clinch_core::ports::Known;
use clinch_core::{Fingerprint, KeyHash, Keys, OpId, Result};
use clinch_stored::ledger::status_of;
use rusqlite::params;

use crate::column::{Column, stored};
use crate::db::Db;
use crate::error;
use crate::query::Query;
use crate::request::short_hash;
use crate::tx::Tx;

/// A slice is 1/64 of the limit of `mid`, or half of the keys over that limit.
const SLICES: u64 = 64;

/// The single row of `clinch_store`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreRow {
    pub last_seq: u64,
    new: u64,
    mid: u64,
    /// The first hash of the next slice.
    from: i64,
    new_max: u64,
    mid_max: u64,
    /// Keys that this transaction has inserted into `new`.
    inserted: u64,
    read: ReadAs,
}

/// The values that were read: the row is written only if they have changed.
type ReadAs = (u64, u64, u64, i64);

/// The keys of `clinch_key_new`, in order of hash.
///
/// Keys are only added behind the last seq, except by a merge, which empties the table, and by a prune.
/// So the rows behind the last known seq and the count in the store row tell whether this is complete.
/// A key that another process has merged meanwhile does no harm here: its operation has the keys.
#[derive(Debug, Default)]
pub(crate) struct NewKeys {
    by_hash: BTreeSet<(i64, i64)>,
    last_seq: i64,
    /// Whether this is what the current snapshot has.
    pub is_current: bool,
}

impl NewKeys {
    fn of_range(&self, first: i64, last: i64) -> impl Iterator<Item = i64> {
        let range = self.by_hash.range((first, i64::MIN)..=(last, i64::MAX));
        range.map(|(_, seq)| *seq)
    }

    fn insert(&mut self, hash: i64, seq: i64) {
        self.by_hash.insert((hash, seq));
        self.last_seq = self.last_seq.max(seq);
    }
}

impl StoreRow {
    fn read(row: &rusqlite::Row<'_>) -> Result<Self> {
        let (last_seq, new, mid, from) = (row.count(0)?, row.count(1)?, row.count(2)?, row.int(3)?);
        Ok(Self {
            last_seq,
            new,
            mid,
            from,
            new_max: row.count(4)?,
            mid_max: row.count(5)?,
            inserted: 0,
            read: (last_seq, new, mid, from),
        })
    }

    /// The row as the next transaction reads it.
    fn written(self) -> Self {
        Self {
            inserted: 0,
            read: (self.last_seq, self.new, self.mid, self.from),
            ..self
        }
    }

    fn is_changed(&self) -> bool {
        self.read != (self.last_seq, self.new, self.mid, self.from)
    }
}

impl Db<'_> {
    /// The operation that the four keys name, even after its row was pruned, and its fingerprint.
    pub(crate) fn known(
        &mut self,
        keys: &Keys,
        hash: &KeyHash,
    ) -> Result<Option<(Known, Fingerprint)>> {
        let short = short_hash(keys, hash);
        let mut seqs = self.new_keys(short, short)?;
        self.each(Query::KeysByHash, [short], |row| {
            seqs.push(row.int(0)?);
            Ok(true)
        })?;
        for seq in seqs {
            if let Some(known) = self.known_at(seq, keys, hash)? {
                return Ok(Some(known));
            }
        }
        Ok(None)
    }

    /// The seqs of the new keys from one hash to another.
    pub(crate) fn new_keys(&mut self, first: i64, last: i64) -> Result<Vec<i64>> {
        self.read_new_keys()?;
        Ok(self.kept.new_keys.of_range(first, last).collect())
    }

    /// Reads the keys that were added since the last time, or all of them.
    fn read_new_keys(&mut self) -> Result<()> {
        if self.kept.new_keys.is_current {
            return Ok(());
        }
        let count = match self.kept.store {
            Some(store) => store.new,
            None => self.store_row()?.new,
        };
        self.read_new_keys_after(self.kept.new_keys.last_seq)?;
        if self.kept.new_keys.by_hash.len() as u64 != count {
            self.kept.new_keys = NewKeys::default();
            self.read_new_keys_after(0)?;
        }
        self.kept.new_keys.is_current = true;
        Ok(())
    }

    fn read_new_keys_after(&mut self, seq: i64) -> Result<()> {
        let mut added = std::mem::take(&mut self.kept.new_keys);
        self.each(Query::NewKeys, [seq], |row| {
            added.insert(row.int(0)?, row.int(1)?);
            Ok(true)
        })?;
        self.kept.new_keys = added;
        Ok(())
    }

    fn store_row(&mut self) -> Result<StoreRow> {
        let row = self.first(Query::Store, [], StoreRow::read)?;
        row.ok_or_else(|| error::corrupt("row of the store"))
    }

    /// Checks one candidate: the full keys decide, not the short hash.
    fn known_at(
        &mut self,
        seq: i64,
        keys: &Keys,
        hash: &KeyHash,
    ) -> Result<Option<(Known, Fingerprint)>> {
        let open = self.first(Query::KeyedOperation, [seq], |row| {
            let same =
                row.text(5)? == keys.biz_key.as_str() && row.text(6)? == keys.idem_key.as_str();
            let known = (row.op_id(0)?, status_of(row.int(1)?)?);
            let fingerprint = Fingerprint::from_bytes(row.bytes(2)?);
            let fingerprint = fingerprint.map_err(error::unreadable)?;
            Ok((same, known, fingerprint, row.int(3)?, row.int(4)?))
        })?;
        if let Some((same, (op_id, status), fingerprint, domain, event_type)) = open {
            let same = same
                && self.domain(domain)? == keys.domain
                && self.event_type(event_type)? == keys.event_type;
            let known = Known {
                op_id,
                status,
                pruned: false,
            };
            return Ok(same.then_some((known, fingerprint)));
        }
        let kept = self.first(Query::KeptKey, [seq], |row| {
            let known = Known {
                op_id: row.op_id(1)?,
                status: status_of(row.int(3)?)?,
                pruned: true,
            };
            let fingerprint = Fingerprint::from_bytes(row.bytes(2)?);
            let same = row.bytes(0)? == hash.as_bytes().as_slice();
            Ok((same, known, fingerprint.map_err(error::unreadable)?))
        })?;
        Ok(kept.and_then(|(same, known, print)| same.then_some((known, print))))
    }
}

impl Tx<'_, '_> {
    /// The row of the store, read at most once per transaction.
    pub(crate) fn store_row(&mut self) -> Result<&mut StoreRow> {
        let row = match self.db.kept.store {
            Some(known) => known,
            None => self.db.store_row()?,
        };
        Ok(self.db.kept.store.insert(row))
    }

    /// True: an operation has this id.
    pub(crate) fn has(&mut self, op_id: OpId) -> Result<bool> {
        if self.newest_op_id()?.is_none_or(|newest| newest < op_id) {
            return Ok(false);
        }
        let id = op_id.0.as_bytes();
        let found = self.db.first(Query::HasOperation, [id], |_| Ok(()))?;
        Ok(found.is_some())
    }

    pub(crate) fn insert_key(&mut self, short: i64, seq: u64) -> Result<()> {
        self.db.run(Query::InsertKey, params![stored(seq), short])?;
        self.db.kept.new_keys.insert(short, stored(seq));
        let row = self.store_row()?;
        row.new += 1;
        row.inserted += 1;
        Ok(())
    }

    /// Deletes a key from the level that holds it, most likely the last.
    pub(crate) fn delete_key(&mut self, short: i64, seq: i64) -> Result<()> {
        if self.db.run(Query::DeleteKey, [short, seq])? > 0 {
            return Ok(());
        }
        let mid = self.db.run(Query::DeleteKeyMid, [short, seq])? as u64;
        let new = match mid {
            0 => {
                self.db.kept.new_keys.by_hash.remove(&(short, seq));
                self.db.run(Query::DeleteKeyNew, [seq])? as u64
            }
            _ => 0,
        };
        let row = self.store_row()?;
        row.mid = row.mid.saturating_sub(mid);
        row.new = row.new.saturating_sub(new);
        Ok(())
    }

    /// Merges the levels that are too full, and writes the row of the store. Called once, before
    /// the commit.
    pub(crate) fn finish_keys(&mut self) -> Result<()> {
        let Some(mut row) = self.db.kept.store else {
            return Ok(());
        };
        if row.inserted > 0 {
            let is_full = row.new > row.new_max;
            if is_full {
                self.merge_new(&mut row)?;
            }
            let may_do_both = row.inserted > row.new_max;
            if row.mid > row.mid_max && (!is_full || may_do_both) {
                self.merge_slice(&mut row)?;
            }
        }
        if row.is_changed() {
            let params = params![
                stored(row.last_seq),
                stored(row.new),
                stored(row.mid),
                row.from
            ];
            self.db.run(Query::PutStore, params)?;
        }
        self.db.kept.store = Some(row.written());
        Ok(())
    }

    fn merge_new(&mut self, row: &mut StoreRow) -> Result<()> {
        let moved = self.db.run(Query::MergeNewKeys, [])?;
        self.db.run(Query::ClearNewKeys, [])?;
        self.db.kept.new_keys.by_hash.clear();
        row.mid += moved as u64;
        row.new = 0;
        Ok(())
    }

    fn merge_slice(&mut self, row: &mut StoreRow) -> Result<()> {
        let size = (row.mid_max / SLICES).max((row.mid - row.mid_max) / 2);
        let last = [row.from, stored(size.saturating_sub(1))];
        let last = self.db.first(Query::EndOfSlice, last, |row| row.int(0))?;
        let slice = [row.from, last.unwrap_or(i64::MAX)];
        let moved = self.db.run(Query::MergeSlice, slice)?;
        self.db.run(Query::ClearSlice, slice)?;
        row.mid = row.mid.saturating_sub(moved as u64);
        // After the last hash, slices start again from the front.
        row.from = slice[1].checked_add(1).unwrap_or(i64::MIN);
        Ok(())
    }
}
