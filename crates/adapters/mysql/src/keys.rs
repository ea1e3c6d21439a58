//! The four keys of new operations. They are inserted first: a transaction that finds one of them
//! waits for the commit of the transaction that inserted it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher, RandomState};

use clinch_core::ports::Known;
use clinch_core::{Fingerprint, KeyHash, OpId, Result, Status};
use clinch_stored::commit::{KnownKey, NewKey, Plan, Seen, WantedKey};
use clinch_stored::ledger::status_of;

use crate::column::Column;
use crate::error;
use crate::link::{Answer, Script};
use crate::query::Query;
use crate::row::plain_fingerprint;
use crate::text::{self, Tuple};
use crate::tx::Tx;

/// Keys by hash.
pub(crate) type WantedKeys = BTreeMap<KeyHash, WantedKey>;

/// A number that no other transaction draws: it tells new rows from existing ones.
pub(crate) fn nonce() -> u64 {
    RandomState::new().build_hasher().finish()
}

pub(crate) fn insert_keys(keys: &WantedKeys, nonce: u64, script: &mut Script) {
    let row = |(hash, key): (&KeyHash, &WantedKey)| {
        let tuple = Tuple::new().bytes(hash.as_bytes());
        let tuple = tuple.bytes(key.op_id.0.as_bytes());
        tuple.bytes(key.fingerprint.to_bytes()).int(nonce).end()
    };
    let rows: Vec<String> = keys.iter().map(row).collect();
    script.add_rows(Query::InsertKeys, &rows);
}

/// The operation of a row of `known_keys.sql`, with its status.
pub(crate) fn read_known(row: &mysql_async::Row) -> Result<(KeyHash, Known)> {
    let kept = row.maybe_int(2)?;
    let open_or_ended = row.maybe_int(3)?.or(row.maybe_int(4)?);
    let status = open_or_ended.or(kept).map(status_of).transpose()?;
    let known = Known {
        op_id: row.op_id(1)?,
        // The caller's snapshot may be older than the operation.
        status: status.unwrap_or(Status::Pending),
        pruned: open_or_ended.is_none() && kept.is_some(),
    };
    Ok((row.key_hash(0)?, known))
}

/// `None`: version 0, which the stored procedure writes. SQL cannot bring JSON into canonical form,
/// so the fingerprint has to be computed from the payload.
fn read_fingerprint(stored: &[u8]) -> Result<Option<Fingerprint>> {
    if stored.first() == Some(&0) {
        return Ok(None);
    }
    let fingerprint = Fingerprint::from_bytes(stored);
    fingerprint.map(Some).map_err(error::unreadable)
}

impl Tx<'_> {
    /// Tells inserted keys from existing ones, and reads the existing ones.
    pub(crate) async fn note_keys(
        &mut self,
        keys: &WantedKeys,
        inserts: &[Answer],
        nonce: u64,
        seen: &mut Seen,
    ) -> Result<()> {
        let reserved = keys.iter();
        let reserved = reserved.map(|(hash, key)| (*hash, (key.op_id, key.fingerprint)));
        self.reserved_keys.extend(reserved);
        let inserted: u64 = inserts.iter().map(|answer| answer.affected).sum();
        let all_are_new = self.counts_rows && inserted == keys.len() as u64;
        if keys.is_empty() || all_are_new {
            return Ok(());
        }
        let hashes = text::list(keys.keys().map(|hash| hash.as_bytes()));
        let mut script = Script::default();
        // A locking read sees these rows even if the caller's snapshot is older.
        script.add(&Query::LockKeys.with(&[("hashes", &hashes)]));
        script.add(&Query::KnownKeys.with(&[("hashes", &hashes)]));
        let answers = self.run(script).await?;
        let mut stands = HashMap::new();
        for row in &answers[1].rows {
            let (hash, known) = read_known(row)?;
            stands.insert(hash, known);
        }
        let mut found = Vec::new();
        for row in &answers[0].rows {
            if row.count(3)? == nonce {
                continue;
            }
            let (hash, op_id) = (row.key_hash(0)?, row.op_id(1)?);
            let new = Known {
                op_id,
                status: Status::Pending,
                pruned: false,
            };
            let known = stands.remove(&hash).unwrap_or(new);
            found.push((hash, known, read_fingerprint(row.bytes(2)?)?));
        }
        let unread = found.iter().filter(|(.., print)| print.is_none());
        let unread: Vec<OpId> = unread.map(|(_, known, _)| known.op_id).collect();
        let computed = self.fingerprints(&unread).await?;
        for (hash, known, fingerprint) in found {
            self.reserved_keys.remove(&hash);
            let fingerprint = fingerprint.or_else(|| computed.get(&known.op_id).copied());
            seen.key(hash, KnownKey { known, fingerprint });
        }
        Ok(())
    }

    /// Computes fingerprints of payloads that the stored procedure wrote.
    async fn fingerprints(&mut self, ops: &[OpId]) -> Result<HashMap<OpId, Fingerprint>> {
        let mut computed = HashMap::new();
        if ops.is_empty() {
            return Ok(computed);
        }
        let ids = text::list(ops.iter().map(|op| op.0.as_bytes()));
        let sql = Query::RawPayloads.with(&[("ids", &ids)]);
        for row in self.query(&sql).await? {
            let op_id = row.op_id(0)?;
            computed.extend(plain_fingerprint(row.bytes(1)?).map(|one| (op_id, one)));
        }
        Ok(computed)
    }

    /// Corrects keys that were inserted for another operation than the one that uses them, and
    /// deletes keys that no operation uses.
    pub(crate) fn add_keys(&mut self, plan: &Plan, script: &mut Script) {
        let mut reserved = std::mem::take(&mut self.reserved_keys);
        for write in plan.new_rows() {
            let Some(NewKey { hash, fingerprint }) = write.key else {
                continue;
            };
            let op_id = write.row.op_id;
            if reserved.remove(&hash) != Some((op_id, fingerprint)) {
                script.add(&put_key(hash, op_id, fingerprint));
            }
        }
        if !reserved.is_empty() {
            let hashes = text::list(reserved.keys().map(|hash| hash.as_bytes()));
            script.add(&Query::DeleteKeys.with(&[("hashes", &hashes)]));
        }
    }
}

/// The statement that assigns a key to an operation.
pub(crate) fn put_key(hash: KeyHash, op_id: OpId, fingerprint: Fingerprint) -> String {
    Query::PutKey.with(&[
        ("hash", &text::literal(hash.as_bytes())),
        ("id", &text::literal(op_id.0.as_bytes())),
        ("fingerprint", &text::literal(fingerprint.to_bytes())),
    ])
}
